"""Inputs for `check --resume`: a run's folder, damaged as `checker.damage` does it."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from epochfence.checker import check as checks
from epochfence.checker.check import Options, check
from epochfence.checker.native.search.checkpoint import CheckpointError
from epochfence.checker.prepare import Prepared, prepare
from epochfence.checker.verdict.result import Result
from epochfence.tests.checker.damage import KINDS, apply
from epochfence.tests.checker.native.search.test_checkpoint import counted, killed_at, ktx
from epochfence.tests.fuzz.harness import Case, Ended, Surface, caught
from epochfence.tests.fuzz.mutations import changed
from epochfence.tests.fuzz.workers import QUICK

RUN = "run"
Folder = dict[str, bytes]


@cache
def _prepared() -> Prepared:
    return prepare(ktx(V=0))


def _checked(folder: Path) -> Result:
    """The run gone on with; compiled once, as thousands of runs explore one instance."""
    kept = checks.prepare
    checks.prepare = lambda *_, **__: _prepared()  # type: ignore[reportAttributeAccessIssue]
    try:
        return check(_prepared().instance, Options(resume=folder))
    finally:
        checks.prepare = kept


@cache
def _runs() -> tuple[Folder, Folder, Result]:
    """The files of a run that was killed before its counterexample, those of a run of another
    declaration, and what nobody interrupts."""
    whole = check(ktx(V=0))
    with tempfile.TemporaryDirectory() as name:
        found: list[Folder] = []
        for at, instance in enumerate((ktx(V=0), ktx())):
            folder = Path(name) / str(at)
            killed_at(whole.depth - 1, folder, instance)
            found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    return found[0], found[1], whole


def _written(folder: Path, files: Folder) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def generate(random: Random) -> Case:
    """A damaged folder."""
    one, other, _ = _runs()
    with tempfile.TemporaryDirectory(dir=QUICK) as name:
        folder, others = _written(Path(name) / "a", one), _written(Path(name) / "b", other)
        if random.random() < 0.2:
            manifest = folder / "manifest.json"
            told = changed(random, json.loads(manifest.read_text()))
            manifest.write_text(json.dumps(told))
        for _ in range(random.choice((1, 1, 2))):
            numbers = (random.randrange(2**16) for _ in range(3))
            apply(folder, others, random.choice(KINDS), *numbers)
        files = {f"{RUN}/{path.name}": path.read_bytes() for path in folder.iterdir()}
    return Case(("check", "--resume", RUN), files, bound=12, place=RUN)


def run(case: Case, folder: Path) -> Ended:
    """The run gone on with: refused, or with just the result of the undamaged one."""
    _written(
        folder / RUN, {name.removeprefix(f"{RUN}/"): data for name, data in case.files.items()}
    )
    whole, told = _runs()[2], ""

    def resumed() -> None:
        nonlocal told
        try:
            found = _checked(Path(RUN))
        except CheckpointError as error:
            told = f"epochfence: {error}\n"
            raise SystemExit(2) from None
        assert counted(found) == counted(whole), f"{counted(found)} is not {counted(whole)}"
        raise SystemExit(found.verdict.value)

    ended = caught(resumed)
    return Ended(ended.code, told, ended.error)


SURFACE = Surface("checkpoints", generate, run, weight=1, seconds=30, reserves=True)
