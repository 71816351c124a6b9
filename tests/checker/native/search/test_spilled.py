"""Runs whose states went on disk end early, and go on from the same files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.native.search.checkpoint import Checkpoint, CheckpointError
from epochfence.checker.native.search.explore import Progress
from epochfence.checker.native.store import disk as disks
from epochfence.checker.native.store import store as stores
from epochfence.checker.native.store.store import SHARDS
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.checksums import seal
from epochfence.cli.checking.check import SearchOptions
from epochfence.language import Instance
from epochfence.tests.checker.native.search.test_checkpoint import Killed, manifest
from epochfence.tests.checker.native.store.test_disk import (
    by_parts,
    found,
    full_after,
    ktx,
    short_at,
)

KNOWN = (Verdict.BROKEN, 5_107, 14_224)
HOLDS, BROKEN, BY_PARTS = (2, 1, 2, 1, 1), (2, 1, 2, 1, 0), (2, 2, 2, 1, 0)


def at(depth: int) -> Callable[[Progress], None]:
    """Ends a run at the beginning of a level."""

    def end(progress: Progress) -> None:
        if progress.depth >= depth:
            raise Killed

    return end


def interrupted(system: Instance, depth: int, tmp_path: Path, threads: int = 2) -> Path:
    """The folder of a run that ended after so many levels."""
    run, disk = tmp_path / "run", tmp_path / "disk"
    disk.mkdir(exist_ok=True)
    with pytest.raises(Killed):
        check(system, Options(threads, checkpoint=run, spill=disk), at(depth))
    return run


def resumed(system: Instance, tmp_path: Path, **options: Any) -> Result:
    """The result of a run that goes on from the folder."""
    return check(system, Options(2, resume=tmp_path / "run", spill=tmp_path / "disk", **options))


@pytest.mark.slow(2)
@pytest.mark.parametrize("name", ["holds", "broken", "parts"])
def test_a_run_on_disk_is_resumed_from_its_files(
    name: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = {"holds": HOLDS, "broken": BROKEN, "parts": BY_PARTS}[name]
    whole = check(ktx(*size), Options(2))
    if name == "parts":
        by_parts(monkeypatch)
    level = 1 + seed % 2
    short_at(level + 1, monkeypatch)
    run = interrupted(ktx(*size), level + 2, tmp_path)
    assert manifest(run)["spilled"]["since"] == level
    assert bool(manifest(run)["spilled"]["ends"]) == (name == "parts")
    assert not [*run.glob("*.states")]
    assert not [*(tmp_path / "disk").iterdir()]
    for depth in (level + 3, level + 5):
        with pytest.raises(Killed):
            check(ktx(*size), Options(2, resume=run, spill=tmp_path / "disk"), at(depth))
        assert len(manifest(run)["levels"]) == depth
    for _ in range(2):  # also from the complete run
        result = resumed(ktx(*size), tmp_path)
        assert found(result) == found(whole)
        [note] = [note for note in result.notes if "memory was short" in note]
        assert note.startswith(f"memory was short at level {level}: from there on ")
        assert str(run) in note


def test_states_before_the_disk_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ended before its first level on disk was saved goes on from states in memory."""
    system, run = ktx(*HOLDS), tmp_path / "run"
    whole = check(system, Options(2))
    short_at(4, monkeypatch)

    (tmp_path / "disk").mkdir()
    with pytest.raises(Killed):
        check(system, Options(1, checkpoint=run), at(3))
    (run / "records").write_bytes(b"of a process that was killed before it saved the level")
    assert found(resumed(system, tmp_path)) == found(whole)
    assert (run / "records").exists()
    assert "spilled" in manifest(run)


# Records that are rewritten -----------------------------------------------------------------------


def rewritten(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run by parts that ends as soon as its records were rewritten in the middle of a level."""
    by_parts(monkeypatch)
    short_at(2, monkeypatch)
    tell = Checkpoint.rewritten

    def end(checkpoint: Checkpoint, form: Callable[[], dict[str, Any]]) -> None:
        tell(checkpoint, form)
        if checkpoint.spilled is not None:
            raise Killed

    monkeypatch.setattr(Checkpoint, "rewritten", end)
    (tmp_path / "disk").mkdir()
    with pytest.raises(Killed):
        check(ktx(*BY_PARTS), Options(2, checkpoint=run, spill=tmp_path / "disk"))


@pytest.mark.slow(1)
def test_records_that_were_rewritten_are_saved_in_their_new_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, run = check(ktx(*BY_PARTS), Options(2)), tmp_path / "run"
    with monkeypatch.context() as patched:
        rewritten(run, tmp_path, patched)
    assert max(manifest(run)["spilled"]["bits"]) > SHARDS.bit_length() - 1
    assert found(resumed(ktx(*BY_PARTS), tmp_path)) == found(whole)


def test_records_that_are_half_rewritten_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, rewrite, calls = tmp_path / "run", stores.rewrite_records, 0

    def half(*args: Any) -> None:
        nonlocal calls
        if (run / "manifest.json").exists() and "rewriting" in manifest(run):
            calls += 1
            if calls == SHARDS // 2:
                raise Killed
        rewrite(*args)

    monkeypatch.setattr(stores, "rewrite_records", half)
    rewritten(run, tmp_path, monkeypatch)
    assert calls == SHARDS // 2
    with pytest.raises(CheckpointError, match="a process ended while it rewrote records; start"):
        resumed(ktx(*BY_PARTS), tmp_path)


# A full disk, and short memory --------------------------------------------------------------------


def test_a_full_disk_ends_a_run_that_is_resumed_from_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = ktx(*HOLDS)
    whole = check(system, Options(2))
    short_at(4, monkeypatch)
    interrupted(system, 6, tmp_path)
    for calls in (100, 600):  # as the tables are filled again, and in the level after it
        with monkeypatch.context() as patched:
            full_after(calls, patched)
            full = resumed(system, tmp_path)
        assert full.verdict is Verdict.INCONCLUSIVE
        assert full.reason.startswith("no disk space left in ")
        assert full.states < whole.states
    with monkeypatch.context() as patched:
        patched.setattr(disks, "RESERVE", 1 << 60)
        full = resumed(system, tmp_path)
    assert full.verdict is Verdict.INCONCLUSIVE
    assert found(resumed(system, tmp_path)) == found(whole)


def test_memory_that_is_too_short_for_the_parts_is_inconclusive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = ktx(*BY_PARTS)
    with monkeypatch.context() as patched:
        by_parts(patched)
        short_at(2, patched)
        run = interrupted(system, 3, tmp_path)
    before = manifest(run)
    result = resumed(system, tmp_path, memory=1)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "memory limit" in result.reason
    assert manifest(run) == before


# What is refused ----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run by parts with states on disk."""
    with monkeypatch.context() as patched:
        by_parts(patched)
        short_at(2, patched)
        return interrupted(ktx(*BY_PARTS), 7, tmp_path)


def flip(file: Path, place: int) -> None:
    """Changes a bit of a file."""
    with file.open("r+b") as opened:
        opened.seek(place)
        byte = opened.read(1)[0]
        opened.seek(place)
        opened.write(bytes([byte ^ 16]))


def test_without_a_folder_for_states_it_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="run has its states on disk: give --spill DIR as"):
        check(ktx(*BY_PARTS), Options(resume=run))
    assert resumed(ktx(*BY_PARTS), tmp_path).verdict is Verdict.BROKEN


def test_another_run_is_refused_and_damages_nothing(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="constant V is 1 here and 0 there"):
        resumed(ktx(2, 2, 2, 1, 1), tmp_path)
    with pytest.raises(CheckpointError, match="already holds a run: resume it with --resume"):
        check(ktx(*BY_PARTS), Options(checkpoint=run, spill=tmp_path / "disk"))
    assert resumed(ktx(*BY_PARTS), tmp_path).verdict is Verdict.BROKEN


def test_changed_records_are_refused(run: Path, tmp_path: Path, seed: int) -> None:
    records, counts = run / "records", manifest(run)["spilled"]["counts"][-1]
    each = records.stat().st_size // SHARDS // 8 * 8
    shard = [shard for shard, count in enumerate(counts) if count][seed % 8]
    flip(records, each * shard + 1)
    with pytest.raises(CheckpointError, match=r"records: it is damaged; start the run"):
        resumed(ktx(*BY_PARTS), tmp_path)
    flip(records, each * shard + 1)
    os.truncate(records, each)
    with pytest.raises(CheckpointError, match=r"records: it is damaged; start the run"):
        resumed(ktx(*BY_PARTS), tmp_path)
    records.unlink()
    with pytest.raises(CheckpointError, match=r"can't read .*records: No such file"):
        resumed(ktx(*BY_PARTS), tmp_path)


def test_changed_contents_are_refused(run: Path, tmp_path: Path) -> None:
    file = sorted(run.glob("*.contents"))[-1]
    flip(file, file.stat().st_size - 1)
    with pytest.raises(CheckpointError, match=rf"{file.name} is damaged"):
        resumed(ktx(*BY_PARTS), tmp_path)
    file.unlink()
    with pytest.raises(CheckpointError, match=rf"can't read .*{file.name}"):
        resumed(ktx(*BY_PARTS), tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"most": 1}, {"used": []}, {"bits": [99]}, {"ends": []}, {"slots": [1000]},
        {"counts": [[0] * SHARDS]},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_form_that_says_something_else_is_refused(
    run: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    changed = manifest(run)
    changed["spilled"] |= change
    (run / "manifest.json").write_text(json.dumps(changed))
    with pytest.raises(CheckpointError, match="its checksum doesn't fit"):
        resumed(ktx(*BY_PARTS), tmp_path)
    changed.pop("checksum")
    (run / "manifest.json").write_text(json.dumps(seal(changed)))
    with pytest.raises(CheckpointError, match="its counts contradict each other"):
        resumed(ktx(*BY_PARTS), tmp_path)


# Kills --------------------------------------------------------------------------------------------


def die(run: str, disk: str, moment: str) -> None:
    """Explores in this process, on disk, and kills it before so many calls that change a file."""
    patch, left = pytest.MonkeyPatch(), int(moment)
    by_parts(patch)
    short_at(2, patch)

    def counted(called: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return called(*args, **kwargs)

        return call

    changes = [(os, "fsync"), (os, "ftruncate"), (Path, "replace"), (Path, "unlink")]
    for place, name in [*changes, (stores, "rewrite_records"), (stores, "insert_all")]:
        patch.setattr(place, name, counted(getattr(place, name)))
    is_there = (Path(run) / "manifest.json").exists()
    option = {"resume" if is_there else "checkpoint": Path(run)}
    options = Options(2, spill=Path(disk), **option)  # pyright: ignore[reportArgumentType]
    try:
        result = check(ktx(*BY_PARTS), options)
    except CheckpointError as error:
        raise SystemExit(f"refused: {error}") from None
    assert (result.verdict, result.states, result.transitions) == KNOWN


@pytest.mark.slow(10)
def test_killed_at_any_moment_it_comes_to_the_same_or_is_refused(tmp_path: Path, seed: int) -> None:
    run, disk = tmp_path / "run", tmp_path / "disk"
    disk.mkdir()
    for moment in (3 + seed % 40, 43 + seed % 1000, 20 + seed % 500, 0):
        call = f"die({str(run)!r}, {str(disk)!r}, {moment})"
        code = f"from epochfence.tests.checker.native.search.test_spilled import die; {call}"
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if ended.returncode == 1:
            assert "refused: " in ended.stderr
            assert "while it rewrote records" in ended.stderr
            return
        assert ended.returncode == (-signal.SIGKILL if moment else 0), ended.stderr


# The command line ---------------------------------------------------------------------------------


def test_the_words_that_continue_a_run_name_the_folder_of_tables() -> None:
    assert SearchOptions().words_after("run") == "run"
    assert SearchOptions(spill=Path("disk")).words_after("run") == "run --spill disk"
