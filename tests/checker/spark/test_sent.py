"""What a shard remembers to have sent to others: tables of candidates, kept between levels."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from epochfence.checker.native.search.worker import drop_sent
from epochfence.checker.spark.search import shards


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What a shard needs of a worker to remember records of 8 bytes, in a folder of its own."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    none = np.zeros(256, dtype=np.int64)
    return SimpleNamespace(stride=9, filled=none, taken=none)


def test_what_was_sent_is_forgotten_where_an_attempt_died_or_is_made_again(worker: Any) -> None:
    def remembered(level: int, *, ends: bool) -> bool:
        """Whether an attempt at a level finds what one before has put there."""
        held = shards.ShardSet(worker, "run", 0, 1, None)  # another process
        with held:
            table, _ = held.sent(level, 1)
            found = bool(table.array[4])
            table.array[:8] = 1
            if ends:
                held.keep_sent(level)
        held.close()
        return found

    assert not remembered(3, ends=True)
    assert remembered(4, ends=True)
    assert not remembered(4, ends=True)  # its blocks may have been lost
    assert remembered(5, ends=False)
    assert not remembered(6, ends=True)  # a state may have been half-written
    assert remembered(7, ends=True)


def test_what_was_sent_is_forgotten_where_another_file_has_its_name(worker: Any) -> None:
    held, other = (shards.ShardSet(worker, "run", shard, 2, None) for shard in range(2))
    for each, level in ((held, 3), (other, 2), (held, 4)):
        with each:
            table, _ = each.sent(level, 1)
            assert bool(table.array[4]) == (level == 4)
            table.array[:8] = 1
            if level < 4:
                each.keep_sent(level)
    # the other's note says level 2, which is before the attempt at level 4 that failed
    aside = held.folder.with_name("aside")
    held.folder.rename(aside)
    other.folder.rename(held.folder)
    aside.rename(other.folder)
    with held:
        table, _ = held.sent(4, 1)
        assert not table.array[4]


def test_what_was_sent_is_forgotten_where_its_file_was_cut_off(worker: Any) -> None:
    with shards.ShardSet(worker, "run", 0, 1, None) as held:
        table, _ = held.sent(3, 65)
        table.array[:] = 1
        held.keep_sent(3)
        file = held.folder / "sent"
        os.truncate(file, file.stat().st_size // 2)  # what is left isn't where it was sought
        table, _ = held.sent(4, 1)
        assert not table.array.any()


def test_processes_wait_for_each_other_where_a_folder_was_deleted(worker: Any) -> None:
    held = shards.ShardSet(worker, "run", 0, 1, None)
    with held:
        pass
    shutil.rmtree(held.folder)
    for _ in range(2):  # the second time, another process has made it
        with held, (held.folder / "lock").open("rb") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(held.folder)
        with shards.ShardSet(worker, "run", 0, 1, None):
            pass


def test_a_larger_table_of_what_was_sent_holds_what_was_in_the_smaller_one(worker: Any) -> None:
    states = np.random.default_rng(1).integers(0, 256, (200, 8), dtype=np.uint8)
    with shards.ShardSet(worker, "run", 0, 1, None) as held:
        sizes: list[int] = []
        for level, expanded, new in ((1, 64, 200), (2, 65, 0), (3, 1 << 15, 0)):
            table, mask = held.sent(level, expanded)
            assert kept(states, table.address, mask, each=True) == new, level
            sizes.append(256 * (mask + 1))
            held.keep_sent(level)
    assert sizes == [1 << 11, 1 << 13, 1 << 21]


def test_the_tables_of_all_shards_of_a_machine_share_an_eighth_of_its_memory(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards.psutil, "virtual_memory", lambda: SimpleNamespace(total=1 << 30))
    with shards.ShardSet(worker, "run", 0, 1, 1 << 30) as held:
        taken = [held.sent(at, 1 << 30, here)[0].size for at, here in ((1, 64), (2, 8))]
    assert [64 * taken[0] >> 20, 8 * taken[1] >> 20] == [128, 128]


def kept(states: Any, table: int, mask: int, *, each: bool = False) -> int:
    """How many states `drop_sent` leaves: with one table or, by the first byte, 256 of them."""
    left = 0
    for part in range(256 if each else 1):
        some = states[states[:, 0] == part] if each else states
        padded = np.zeros(some.size + 16, dtype=np.uint8)
        padded[: some.size] = some.reshape(-1)
        at = table + part * (mask + 1) * states.shape[1]
        left += drop_sent(padded.ctypes.data, len(some), states.shape[1], at, mask)
    return left


@pytest.mark.parametrize("stride", [7, 8, 9, 30])
def test_a_state_is_dropped_only_if_it_was_sent(stride: int) -> None:
    table = np.zeros(8 * stride + 16, dtype=np.uint8)  # two groups
    seen: set[bytes] = set()
    dropped = 0
    for state in np.random.default_rng(stride).integers(0, 3, (3_000, 1, stride), dtype=np.uint8):
        state[0, 1:-1] = 0  # 9 states, of which groups may hold 8
        if kept(state, table.ctypes.data, 7) == 0:
            assert state.tobytes() in seen
            dropped += 1
        seen.add(state.tobytes())
    assert len(seen) == 9
    assert dropped > 1_000


def test_the_last_states_of_a_group_are_remembered() -> None:
    table = np.zeros(4 * 9 + 16, dtype=np.uint8)  # one group
    states = np.arange(1, 6, dtype=np.uint8).repeat(9).reshape(5, 1, 9)

    def left(number: int) -> int:
        return kept(states[number - 1], table.ctypes.data, 3)

    assert [left(number) for number in (1, 2, 3, 4, 1, 2, 3, 4)] == [1] * 4 + [0] * 4
    assert [left(number) for number in (5, 2, 3, 4, 1)] == [1, 0, 0, 0, 1]
