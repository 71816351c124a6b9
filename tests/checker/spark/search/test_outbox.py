"""What a shard sends to shards of its machine goes through files, and comes to the same.

Spark's part is played in this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from ctypes import string_at
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.spark.search import outbox, tasks
from epochfence.checker.spark.search.outbox import Inbox, LostError, Outbox, home_at, is_here
from epochfence.language import Instance, instantiate
from epochfence.tests.checker.spark.conftest import found, on_spark
from epochfence.tests.checker.spark.in_process import InProcess

KTX = Path(__file__).parents[4] / "bench" / "ktx.py"
EIGHT = np.full(8, 8, dtype=np.int64)


def ktx() -> Instance:
    """The benchmark protocol at its smallest size of the table: 5,094 states, 28 levels."""
    return instantiate(load_system(str(KTX)), constants={"I": 1, "K": 1, "E": 2, "S": 2})


def written(folder: Path, level: int, content: bytes) -> outbox.Note:
    """Eight parts of eight states of a byte in a file."""
    box = Outbox(folder, level)
    note = box.write(EIGHT, [content] * 8)
    assert note is not None
    box.close()
    return note


def read(inbox: Inbox) -> list[bytes]:
    """The 64 bytes of each note."""
    assert all(counts.tolist() == EIGHT.tolist() for _, counts in inbox.lines)
    return [string_at(address, 64) for address, _ in inbox.lines]


@pytest.mark.parametrize("files", ["", outbox.OFF])
def test_few_candidates_are_sent_to_other_machines(
    files: str, played: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(outbox.VARIABLE, files)
    result = on_spark(ktx(), tmp_path / "run", shards=4)
    assert found(result) == found(check(ktx()))
    sent, new = result.engine["candidates_sent"], result.engine["states_on_spark"]
    assert result.engine["bytes_sent"] == 7 * sent  # records of states of 8 bytes
    # as often as they are found, or as often as the sender forgets them
    assert (sent == result.transitions) if not files else new < sent < 4 * new
    assert bool([*(tmp_path / "local").rglob("out-*")]) == (not files)
    expanding = [stage for stage in played.stages if stage.endswith("expand")]
    # from the second level on, what is sent into files comes with what was inserted
    assert len(expanding) == (result.engine["levels_on_spark"] if files else 1)


@pytest.mark.slow(1)
@pytest.mark.sample(1, of="engines: shards on several machines")
@pytest.mark.parametrize("most", [0, 1 << 28])
@pytest.mark.parametrize("machines", [2, 3])
def test_shards_on_several_machines_come_to_the_same(
    machines: int,
    most: int,
    play: Callable[[InProcess], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    kinds: set[type] = set()

    def disturb(stage: str, shard: int) -> None:
        name = f"machine-{shard % machines}"
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / name))
        monkeypatch.setattr(outbox, "machine", lambda: name)
        monkeypatch.setattr(tasks, "_process", None)

    def noted(items: Any, told: Any) -> Any:
        for item in counted(items, told):
            kinds.add(type(item))
            yield item

    counted = tasks._counted  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(tasks, "_counted", noted)
    monkeypatch.setattr(tasks, "MOST_TWICE", most)
    play(InProcess(disturb))
    assert found(on_spark(ktx(), tmp_path / "run", shards=5)) == found(check(ktx()))
    assert kinds == {bytes, outbox.Note}


@pytest.mark.parametrize("losses", [1, 9])
def test_a_level_of_which_a_file_is_gone_goes_through_spark(
    losses: int, play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    left = losses

    def disturb(stage: str, shard: int) -> None:
        nonlocal left
        files = [*(tmp_path / "local").rglob("out-*")]
        if stage.endswith("insert") and shard == 1 and files and left:
            left -= 1
            for file in files:
                file.unlink()

    session = InProcess(disturb)
    play(session)
    assert found(on_spark(ktx(), tmp_path / "run", shards=3)) == found(check(ktx()))
    assert losses - left == min(losses, 3)  # from then on none is written
    again = {stage for stage in session.stages if session.stages.count(stage) > 1}
    assert len([stage for stage in again if stage.endswith("insert")]) == min(losses, 3)


def swapped(one: Path, other: Path) -> None:
    """Gives each the name of the other."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.slow(1)
def test_a_file_in_the_place_of_another_is_not_taken_for_it(
    play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    left = 2

    def disturb(stage: str, shard: int) -> None:
        nonlocal left
        files = sorted((tmp_path / "local").rglob("out-*"), key=outbox.level_of)
        if stage.endswith("insert") and shard == 1 and len(files) > 1 and left:
            left -= 1
            swapped(*files[-2:])

    play(InProcess(disturb))
    assert found(on_spark(ktx(), tmp_path / "run", shards=3)) == found(check(ktx()))
    assert not left


def test_a_full_disk_has_candidates_go_through_spark(
    played: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Full:
        """A file that takes nothing any more."""

        def write(self, _: object) -> int:
            raise OSError(28, "No space left on device")

        def tell(self) -> int:
            return 0

        def close(self) -> None:
            pass

    monkeypatch.setattr(Outbox, "_open", lambda _: Full())
    assert found(on_spark(ktx(), tmp_path / "run", shards=3)) == found(check(ktx()))


def test_a_file_is_taken_over_by_a_later_level_unless_it_is_read(tmp_path: Path) -> None:
    first = written(tmp_path, 3, b"earlier!")
    again = written(tmp_path, 3, b"another!")  # an attempt at the same level has its own
    assert first.file != again.file
    reading = Inbox([first, again], 1)
    next_one = written(tmp_path, 4, b"the next")
    assert read(Inbox([first], 1)) == [b"earlier!" * 8]  # not all may have read it by then
    later = written(tmp_path, 5, b"on top..")
    assert {*tmp_path.iterdir()} == {Path(next_one.file), Path(later.file)}
    assert read(reading) == [b"earlier!" * 8, b"another!" * 8]
    node = Path(next_one.file).stat().st_ino
    last = written(tmp_path, 6, b"the last")
    assert Path(last.file).stat().st_ino == node  # nobody read it
    assert read(Inbox([last], 1)) == [b"the last" * 8]
    for gone in (first, again, next_one):
        with pytest.raises(LostError, match="No such file"):
            Inbox([gone], 1)


def test_a_file_that_was_cut_off_is_lost(tmp_path: Path) -> None:
    note = written(tmp_path, 3, b"earlier!")
    size = Path(note.file).stat().st_size
    assert read(Inbox([note], 1)) == [b"earlier!" * 8]
    for left in (size - 1, 1, 0):
        os.truncate(note.file, left)
        with pytest.raises(LostError):
            Inbox([note], 1)


def test_a_file_that_is_another_or_was_cut_off_and_grew_again_is_lost(tmp_path: Path) -> None:
    notes = [written(tmp_path, 3, b"earlier!"), written(tmp_path, 3, b"another!")]
    swapped(*(Path(note.file) for note in notes))
    for note in notes:
        with pytest.raises(LostError, match="is damaged"):
            Inbox([note], 1)
    swapped(*(Path(note.file) for note in notes))
    assert read(Inbox(notes, 1)) == [b"earlier!" * 8, b"another!" * 8]
    size = Path(notes[0].file).stat().st_size
    os.truncate(notes[0].file, size // 2)
    os.truncate(notes[0].file, size)
    with pytest.raises(LostError, match="is damaged"):
        Inbox(notes, 1)


def test_a_file_of_another_kind_is_not_written_over(tmp_path: Path) -> None:
    note = written(tmp_path, 3, b"earlier!")
    states = tmp_path / "states"
    states.write_bytes(b"mapped by a worker" * 9)
    with states.open("rb") as opened:
        swapped(states, Path(note.file))
        written(tmp_path, 5, b"on top..")
        assert opened.read() == b"mapped by a worker" * 9
    (tmp_path / "out-3-left").write_bytes(b"by another version, say")
    written(tmp_path, 7, b"at last.")
    assert not [*tmp_path.glob("out-3-*")]


def test_a_reader_that_locks_a_file_too_late_has_lost_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = written(tmp_path, 3, b"earlier!")
    lock = outbox.fcntl.flock

    def late(file: Any, how: int) -> None:
        monkeypatch.setattr(outbox.fcntl, "flock", lock)
        written(tmp_path, 5, b"on top..")
        lock(file, how)

    monkeypatch.setattr(outbox.fcntl, "flock", late)
    with pytest.raises(LostError):
        Inbox([first], 1)


def test_only_the_same_folder_of_this_machine_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = home_at(tmp_path)
    assert is_here(home)
    assert not is_here(None)
    assert not is_here(home._replace(folder=str(tmp_path / "none")))
    assert not is_here(home._replace(node=home.node + 1))  # of another container's
    monkeypatch.setattr(outbox, "machine", lambda: "another")
    assert not is_here(home)
