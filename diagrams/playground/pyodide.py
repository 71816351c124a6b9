"""Fetches Pyodide (Python for browsers) from npm's registry, and checks its hash."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tarfile
from pathlib import Path
from typing import Final

VERSION: Final = "314.0.7"
SHA512: Final = (
    "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
)
"""The package's hash at npm."""
FILES: Final = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
"""The files for the page."""
CACHE: Final = Path(__file__).parents[2] / "build" / "pyodide"


class FetchError(RuntimeError):
    """Pyodide can't be fetched. The message is one line."""


def files(cache: Path = CACHE) -> dict[str, bytes]:
    """Each of `FILES`, from the cache or the registry. Raises FetchError."""
    package = cache / f"pyodide-{VERSION}.tgz"
    if not package.is_file():
        _fetch(cache)
    content = package.read_bytes()
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != SHA512:
        package.unlink()
        raise FetchError(f"pyodide {VERSION} has another hash than the pinned one")
    with tarfile.open(package) as archive:
        found = {name: archive.extractfile(f"package/{name}") for name in FILES}
        return {name: file.read() for name, file in found.items() if file is not None}


def _fetch(cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    command = ["npm", "pack", "--silent", f"pyodide@{VERSION}", "--pack-destination", str(cache)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    except FileNotFoundError:
        raise FetchError("npm isn't installed, and pyodide comes from its registry") from None
    except subprocess.TimeoutExpired:
        raise FetchError("npm's registry doesn't answer") from None
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip() or "no reason").splitlines()[0]
        raise FetchError(f"pyodide {VERSION} can't be fetched by npm: {why}") from None
