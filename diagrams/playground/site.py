"""The playground's files: `python -m epochfence.diagrams.playground.site FOLDER` writes them.

`index.html` shows all runs of the first system by itself. `python.js` has Python, as base64 in a
script, because a page from `file://` can read nothing else beside it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ..explorer.session import as_text
from ..explorer.view import HERE as EXPLORER
from ..explorer.view import part
from ..report.page import style
from . import pyodide
from .answers import HERE, Playground, shortest
from .browser import ROOT, examples
from .puzzles import PUZZLES, Puzzle

ROOMS = (
    "language", "spec", "model/engine", "checker/ground", "checker/output", "checker/tla",
    "checker/trace", "checker/verdict", "diagrams/explorer", "diagrams/playground",
    "diagrams/report",
)  # fmt: skip
"""The folders of the package that the playground runs."""
SINGLE = (
    "__init__.py", "model/__init__.py", "checker/__init__.py", "diagrams/__init__.py",
    "diagrams/drawing/__init__.py", "diagrams/drawing/colours.py",
    "diagrams/drawing/runs/__init__.py", "diagrams/drawing/runs/log.py",
    "diagrams/drawing/runs/svg.py", "diagrams/facts.py", "diagrams/notation.py",
    "diagrams/templates.py", "garbage.py", "files.py", "strict_json.py", "checksums.py",
)  # fmt: skip
PACKAGES = ("jinja2", "markupsafe", "rich")
KINDS = {".py", ".html", ".css", ".js", ".json"}


def site(puzzles: Sequence[Puzzle] = PUZZLES) -> dict[str, bytes]:
    """The files by their names, with these puzzles. Raises FetchError."""
    return {"python.js": _python().encode(), "index.html": _index(puzzles).encode()}


def _index(puzzles: Sequence[Puzzle]) -> str:
    playground = Playground(examples(), {})
    runs = {puzzle.of: shortest(puzzle) for puzzle in puzzles}
    link = str(playground.explorer.link((0,)))
    begun = {
        "answers": _first_answers(playground),
        "link": link,
        "runs": {name: as_text(run) for name, run in runs.items()},
    }
    scripts = [_own("playground.js"), _own("explorer.js")]
    return part(
        "playground", HERE, style=style() + _own("explorer.css") + _own("playground.css"),
        scripts=scripts, hashes=[f"'sha256-{_digest(script)}'" for script in scripts],
        gallery=Markup(part("gallery", HERE, puzzles=puzzles,
                            lengths={name: len(run) - 1 for name, run in runs.items()})),
        begun=Markup(_as_data(begun)), pyodide=pyodide.VERSION,
        **playground.opened(), **playground.explorer.page(),
    )  # fmt: skip


def _first_answers(playground: Playground) -> dict[str, Any]:
    """The answers for all runs of the first system, which are few. They need no Python."""
    paths, near = list[str](), ["0"]
    while near:
        paths += near
        near = [longer for path in near for longer in _longer(playground, path)]
    return {
        f"{name} {path}": playground.answer(name, {"path": path})
        for path in paths
        for name in ("view", "blocked")
    }


def _longer(playground: Playground, path: str) -> Iterator[str]:
    session = playground.explorer.session
    run = session.run(tuple(map(int, path.split("."))))
    for number, step in enumerate(session.steps(run.state)):
        if step.state is not None:
            yield f"{path}.{number}"


def _python() -> str:
    """The script with Python and its files; files without compression are compressed by gzip."""
    files = {**pyodide.files(), "epochfence.zip": _package(), "lock.json": _lock()}
    packed = {
        name: content if name.endswith(".zip") else gzip.compress(content, 9, mtime=0)
        for name, content in files.items()
    }
    texts = {name: base64.b64encode(content).decode() for name, content in packed.items()}
    return f"globalThis.PYTHON = {json.dumps({'worker': _own('worker.js'), 'files': texts})};\n"


def _lock() -> bytes:
    """Pyodide's list of packages: empty, because the page has all necessary packages."""
    info = {"arch": "wasm32", "platform": "emscripten", "version": pyodide.VERSION,
            "python": "3.14.0", "abi_version": "2026_0"}  # fmt: skip
    return json.dumps({"info": info, "packages": {}}).encode()


def _package() -> bytes:
    """The parts of this package that the playground runs, and the packages that they need."""
    found: dict[str, bytes] = {}
    for name in SINGLE:
        if (ROOT / name).is_file():
            found[f"epochfence/{name}"] = (ROOT / name).read_bytes()
    for room in ROOMS:
        found.update(_files(ROOT / room, f"epochfence/{room}"))
    for name in examples():
        path = f"docs/examples/{name}.py"
        found[f"epochfence/{path}"] = (ROOT / path).read_bytes()
    for name in PACKAGES:
        found.update(_files(Path(str(import_module(name).__file__)).parent, name))
    metadata = f"Metadata-Version: 2.1\nName: epochfence\nVersion: {version('epochfence')}\n"
    found["epochfence.dist-info/METADATA"] = metadata.encode()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(found.items()):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return written.getvalue()


def _files(folder: Path, name: str) -> dict[str, bytes]:
    return {
        f"{name}/{file.relative_to(folder).as_posix()}": file.read_bytes()
        for file in folder.rglob("*")
        if file.suffix in KINDS and file.is_file()
    }


def _as_data(values: Mapping[str, Any]) -> str:
    """JSON for a page, with markup escaped."""
    return json.dumps(values).replace("<", "\\u003c")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _own(name: str) -> str:
    room = HERE if (HERE / name).is_file() else EXPLORER
    return (room / name).read_text("utf-8")


def main(folder: str) -> None:
    """Creates a folder and writes the files to it."""
    to = Path(folder)
    to.mkdir(parents=True, exist_ok=True)
    for name, content in site().items():
        (to / name).write_bytes(content)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m epochfence.diagrams.playground.site FOLDER")
    try:
        main(sys.argv[1])
    except (pyodide.FetchError, OSError) as problem:
        sys.exit(f"the playground isn't built: {problem}")
