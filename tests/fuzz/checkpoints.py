"""Inputs for `check --resume`: a run's folder, damaged as `checker.damage` does it.

The states of a run are in memory, or on disk from a level on: whole, or by their parts. The file of
records on disk is sparse, and far longer than memory: a case has its pieces.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import pytest

from epochfence.checker import check as checks
from epochfence.checker.check import Options, check
from epochfence.checker.native.search.checkpoint import RECORDS, CheckpointError
from epochfence.checker.prepare import Prepared, prepare
from epochfence.checker.verdict.result import Result
from epochfence.tests.checker.damage import KINDS, apply
from epochfence.tests.checker.native.search.test_checkpoint import counted, killed_at, ktx
from epochfence.tests.checker.native.store.test_disk import by_parts, short_at
from epochfence.tests.fuzz.harness import Case, Ended, Surface, caught
from epochfence.tests.fuzz.mutations import changed
from epochfence.tests.fuzz.workers import QUICK

RUN, DISK = "run", "disk"
IN_MEMORY, ON_DISK, BY_PARTS = KINDS_OF_RUN = ("in memory", "on disk", "by parts")
Folder = dict[str, bytes]
PIECE = struct.Struct("<QQ")  # of records: where, and how many bytes; first the file's length


@cache
def _prepared() -> Prepared:
    return prepare(ktx(V=0))


def _checked(options: Options) -> Result:
    """The result of a run; compiled once, as thousands of runs explore one instance."""
    kept = checks.prepare
    checks.prepare = lambda *_, **__: _prepared()  # type: ignore[reportAttributeAccessIssue]
    try:
        return check(_prepared().instance, options)
    finally:
        checks.prepare = kept


@cache
def _whole() -> Result:
    """The result of a run that nobody interrupts."""
    return _checked(Options())


@cache
def _runs(kind: str) -> tuple[Folder, Folder]:
    """The files of a run that was killed before its counterexample, and those of a run of another
    declaration."""
    found: list[Folder] = []
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        spill = None if kind == IN_MEMORY else Path(name)
        if spill is not None:
            short_at(3, patched)
        if kind == BY_PARTS:
            by_parts(patched)
        for at, instance in enumerate((ktx(V=0), ktx())):
            folder = Path(name) / str(at)
            killed_at(_whole().depth - 1, folder, instance, spill=spill)
            found.append({path.name: _read(path) for path in folder.iterdir()})
    return found[0], found[1]


def _data(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a sparse file has data: offsets and lengths."""
    at = 0
    while at < size:
        try:
            at = os.lseek(file, at, os.SEEK_DATA)
        except OSError:  # a hole up to the end
            return
        end = os.lseek(file, at, os.SEEK_HOLE)
        yield at, end - at
        at = end


def _read(path: Path) -> bytes:
    """A file's content, or the length and the pieces of that of records."""
    if path.name != RECORDS:
        return path.read_bytes()
    size = path.stat().st_size
    with path.open("rb", buffering=0) as file:
        places = list(_data(file.fileno(), size))
        pieces = [(at, os.pread(file.fileno(), length, at)) for at, length in places]
    return b"".join(
        [PIECE.pack(size, 0), *(PIECE.pack(at, len(data)) + data for at, data in pieces)]
    )


def _write(path: Path, content: bytes) -> None:
    """A file with the content that `_read` has given."""
    if path.name != RECORDS:
        path.write_bytes(content)
        return
    size, _ = PIECE.unpack_from(content)
    place = PIECE.size
    with path.open("wb", buffering=0) as file:
        os.ftruncate(file.fileno(), size)
        while place < len(content):
            at, length = PIECE.unpack_from(content, place)
            place += PIECE.size
            os.pwrite(file.fileno(), content[place : place + length], at)
            place += length


def _damage_records(random: Random, path: Path) -> None:
    """Changes a bit of the records, clears some bytes, or cuts them off; or deletes the file."""
    kind = random.choice(("flip", "zero", "truncate", "delete"))
    if kind == "delete":
        path.unlink()
        return
    with path.open("r+b", buffering=0) as file:
        where, length = random.choice(list(_data(file.fileno(), path.stat().st_size)))
        at = where + random.randrange(min(length, random.choice((64, length))))
        if kind == "truncate":
            os.ftruncate(file.fileno(), at)
        elif kind == "zero":
            os.pwrite(file.fileno(), bytes(random.randrange(1, 256)), at)
        else:
            (byte,) = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), bytes([byte ^ 1 << random.randrange(8)]), at)


def _written(folder: Path, files: Folder) -> Path:
    folder.mkdir()
    for name, data in files.items():
        _write(folder / name, data)
    return folder


def generate(random: Random) -> Case:
    """A damaged folder."""
    kind = random.choice(KINDS_OF_RUN)
    one, other = _runs(kind)
    with tempfile.TemporaryDirectory(dir=QUICK) as name:
        records = Path(name) / RECORDS  # apart from the files that are read as they are
        folder, others = _written(Path(name) / "a", one), _written(Path(name) / "b", other)
        for place in (others, folder):
            if (place / RECORDS).exists():
                (place / RECORDS).replace(records)
        if random.random() < 0.2:
            manifest = folder / "manifest.json"
            told = changed(random, json.loads(manifest.read_text()))
            manifest.write_text(json.dumps(told))
        for _ in range(random.choice((1, 1, 2))):
            if records.exists() and random.random() < 0.4:
                _damage_records(random, records)
            else:
                numbers = (random.randrange(2**16) for _ in range(3))
                apply(folder, others, random.choice(KINDS), *numbers)
        paths = [*folder.iterdir(), *([records] if records.exists() else [])]
        files = {f"{RUN}/{path.name}": _read(path) for path in paths}
    spill = () if kind == IN_MEMORY else ("--spill", DISK)
    return Case(("check", "--resume", RUN, *spill), files, bound=12, place=RUN)


def run(case: Case, folder: Path) -> Ended:
    """The run gone on with: refused, or with just the result of the undamaged one."""
    _written(
        folder / RUN, {name.removeprefix(f"{RUN}/"): data for name, data in case.files.items()}
    )
    spill = Path(DISK) if "--spill" in case.words else None
    whole, told = _whole(), ""
    (folder / DISK).mkdir()

    def resumed() -> None:
        nonlocal told
        try:
            found = _checked(Options(resume=Path(RUN), spill=spill))
        except CheckpointError as error:
            told = f"epochfence: {error}\n"
            raise SystemExit(2) from None
        assert counted(found) == counted(whole), f"{counted(found)} is not {counted(whole)}"
        raise SystemExit(found.verdict.value)

    ended = caught(resumed)
    return Ended(ended.code, told, ended.error)


SURFACE = Surface("checkpoints", generate, run, weight=1, seconds=30, reserves=True)
