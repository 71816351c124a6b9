"""Brokers other than Kafka: builds kfake, klite and Tansu, runs `epochfence conform` on each at
both levels, and writes what came of it to docs/brokers.md.

`python tests/brokers/others.py kfake tansu` takes these, and leaves the page's other sections. The
variables KFAKE, KLITE and TANSU name programs that are built already.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from platformdirs import user_cache_path

from epochfence.model.conformance.classes.host import UnavailableError
from epochfence.model.conformance.kafka.broker import needed
from epochfence.model.conformance.live.causes import RANKS

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs" / "brokers.md"
LEVELS: Final = ("well-behaved", "any")
SECONDS: Final = 30
SLOWEST_RUN_S: Final = 1800
SLOWEST_START_S: Final = 30
Result = Mapping[str, Any]


class Other(NamedTuple):
    """A broker: its version, the release that it is compared with, how it is built into a folder,
    and how it is started on a port, with a folder for its data."""

    name: str
    version: str
    protocol: str
    needs: tuple[str, str]
    build: tuple[str, ...]
    start: tuple[str, ...]


KLITE: Final = "2493491310dcc4c31aae9c40b0a513425c43c160"
OTHERS: Final = (
    Other(
        "kfake", "0.0.0-20260918054303-01f206a7e32c", "4.1", ("go", "golang"),
        ("go", "build", "-mod=readonly", "-o", "{folder}/kfake", "."), ("{program}", "{port}"),
    ),
    Other(
        "klite", f"0.2.0 and 229 commits ({KLITE[:8]})", "3.6", ("go", "golang"),
        ("go", "install", f"github.com/klaudworks/klite/cmd/klite@{KLITE}"),
        ("{program}", "--listen", "127.0.0.1:{port}", "--data-dir", "{data}", "--log-level",
         "error"),
    ),
    Other(
        "tansu", "0.6.0", "3.9", ("cargo", "cargo"),
        ("cargo", "install", "tansu", "--version", "0.6.0", "--features", "dynostore", "--root",
         "{folder}"),
        ("{program}", "broker", "--listener-url", "tcp://127.0.0.1:{port}",
         "--advertised-listener-url", "tcp://127.0.0.1:{port}", "--storage-engine",
         "memory://tansu/"),
    ),
)  # fmt: skip


def program_of(other: Other) -> Path:
    """The program of a broker, which is built where it isn't there yet. Raises UnavailableError."""
    if given := os.environ.get(other.name.upper()):
        return Path(given)
    folder = user_cache_path("epochfence") / "others" / other.name / other.version.split()[0]
    program = folder / ("bin" if other.needs[0] == "cargo" else "") / other.name
    if not program.exists():
        needed(*other.needs)
        folder.mkdir(parents=True, exist_ok=True)
        command = [part.format(folder=folder) for part in other.build]
        done = subprocess.run(
            command,
            cwd=HERE / "kfake" if other.name == "kfake" else folder,
            env={**os.environ, "GOBIN": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            (*_, said) = done.stderr.strip().splitlines() or ["it failed"]
            raise UnavailableError(
                f"{other.name} isn't built: {said.strip()}; {other.name.upper()}=PROGRAM names one"
            )
    return program


@contextmanager
def running(other: Other, program: Path) -> Generator[str]:
    """A broker that runs, on loopback: its address. Raises UnavailableError."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with tempfile.TemporaryDirectory() as data:
        values = {"program": program, "port": port, "data": data}
        process = subprocess.Popen(
            [part.format(**values) for part in other.start],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _await(other, process, port)
            yield f"127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _await(other: Other, process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + SLOWEST_START_S
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise UnavailableError(f"{other.name} doesn't start")


def result_of(other: Other, program: Path, level: str) -> Result:
    """What `conform` says of a broker at a level. Raises UnavailableError."""
    with running(other, program) as place, tempfile.TemporaryDirectory() as made:
        found = Path(made) / "result.json"
        command = [
            sys.executable, "-m", "epochfence.cli", "conform", "--bootstrap", place, "--protocol",
            other.protocol, "--level", level, "--seconds", str(SECONDS), "--json", str(found),
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SLOWEST_RUN_S
        )
        if done.returncode not in (0, 12):
            (*_, said) = done.stderr.strip().splitlines() or ["no word"]
            raise UnavailableError(f"conform on {other.name}: exit {done.returncode}: {said}")
        return json.loads(found.read_text(encoding="utf-8"))


def section(other: Other, results: Sequence[Result]) -> str:
    """The page's section on a broker: of runs at each of LEVELS."""
    lines = [f"## {other.name}", ""]
    lines += [
        f"{other.name} {other.version}, compared with {other.protocol} (transaction.version "
        f"{results[0]['transaction_version']}).",
        "",
        "| level | directed | random | rows provoked | disagreements | to the end |",
        "|---|---|---|---|---|---|",
    ]
    for level, result in zip(LEVELS, results, strict=True):
        asked = [f"{result['requests'].get(suite, 0):,}" for suite in ("directed", "random")]
        rows = sum(row["provoked"] for row in result["rows"])
        end = result["ended_early"] or "yes"
        found = len(result["disagreements"])
        lines.append(f"| {level} | {asked[0]} | {asked[1]} | {rows} | {found} | {end} |")
    if lacking := results[-1]["lacking"]:
        lines += ["", "| not sent in all versions | consequence |", "|---|---|"]
        lines += [f"| {one['name']} | {one['why']} |" for one in lacking]
    lines += ["", "| effect | cause | row and source | honest clients meet it | times |"]
    lines += ["|---|---|---|---|---|", *_causes(results)]
    return "\n".join(lines) + "\n"


def _causes(results: Sequence[Result]) -> list[str]:
    """A line for each cause, the worst first, and of a kind those that honest clients meet."""
    honest, every = ({cause["name"]: cause for cause in one["causes"]} for one in results)
    found = sorted(
        {**honest, **every}.values(),
        key=lambda cause: (RANKS.index(cause["rank"]), cause["name"] not in honest, cause["name"]),
    )
    lines: list[str] = []
    for cause in found:
        name = cause["name"]
        every_row = (*honest.get(name, {"rows": []})["rows"], *cause["rows"])
        rows = "; ".join(dict.fromkeys(row.split(", then ")[0] for row in every_row))
        times = sum(one[name]["count"] for one in (honest, every) if name in one)
        meets = "yes" if name in honest else ""
        lines.append(f"| {cause['rank']} | {name} | {rows} | {meets} | {times} |")
    return lines


def sections(page: str) -> dict[str, str]:
    """The page's sections by their names."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return {part.partition("\n")[0].removeprefix("## "): part.strip() + "\n" for part in parts[1:]}


def main(names: Sequence[str]) -> int:
    """Runs these brokers, all if none is named, and writes their sections."""
    if unknown := set(names) - {other.name for other in OTHERS}:
        known = ", ".join(other.name for other in OTHERS)
        print(f"{', '.join(sorted(unknown))}: choose one of {known}", file=sys.stderr)
        return 2
    code = 0
    for other in OTHERS:
        if names and other.name not in names:
            continue
        try:
            program = program_of(other)
            made = section(other, [result_of(other, program, level) for level in LEVELS])
        except UnavailableError as error:
            print(f"others: {error}", file=sys.stderr)
            code = 2
            continue
        write(other.name, made)
        print(f"{other.name}: docs/brokers.md")
    return code


def write(name: str, made: str) -> None:
    """Puts a section in its place on the page."""
    page = PAGE.read_text(encoding="utf-8")
    found = sections(page) | {name: made}
    head = page.partition("\n## ")[0].strip()
    every = [found[other.name] for other in OTHERS if other.name in found]
    PAGE.write_text("\n".join([head + "\n", *every]), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
