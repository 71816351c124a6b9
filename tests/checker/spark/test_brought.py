"""A set that lies on disk is read in one go, before its pages are touched one by one."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from epochfence.checker.native.jit.memory import Region
from epochfence.checker.native.store.store import Store
from epochfence.checker.spark.search import shards
from epochfence.checksums import DamagedError

PAGE = mmap.PAGESIZE
PAGES = 4_096  # more than a system reads ahead at once


def resident(region: Region) -> int:
    """How many of its pages are in memory."""
    pages = (ctypes.c_ubyte * (region.size // PAGE))()
    mincore = ctypes.CDLL(None, use_errno=True).mincore
    assert not mincore(ctypes.c_void_p(region.address), ctypes.c_size_t(region.size), pages)
    return sum(page & 1 for page in pages)


def test_the_pages_of_a_file_come_in_one_go(tmp_path: Path) -> None:
    file = os.open(tmp_path / "states", os.O_RDWR | os.O_CREAT)
    os.write(file, b"s" * PAGES * PAGE)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)  # a file system in memory keeps them
    region = Region(PAGES * PAGE, file)
    before = resident(region)
    region.bring(PAGE + 1, (PAGES - 4) * PAGE)
    until = time.monotonic() + 60
    while (now := resident(region)) < PAGES - 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert before in (0, PAGES), "nothing was touched"
    assert now >= PAGES - 3
    os.close(file)


@pytest.mark.parametrize(("candidates", "brought"), [(1, []), (64, [0, 1, 2, 3])])
def test_many_candidates_bring_the_parts_that_a_shard_owns(
    candidates: int, brought: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    none = np.zeros(256, dtype=np.int64)
    worker: Any = SimpleNamespace(stride=9, filled=none, taken=none, empty=lambda _: None)
    seen: list[int] = []
    monkeypatch.setattr(Store, "bring", lambda _, part: seen.append(part))
    with shards.ShardSet(worker, "run", 0, 64, None) as held:
        held.store.counts[:4] = 100_000  # 3.2 MB, which 49 candidates of 16 pages come to
        held._bring(candidates)  # pyright: ignore[reportPrivateUsage]
        held.store.counts[:] = 0
    assert seen == brought


def test_a_set_that_lost_its_last_level_is_brought_before_the_level_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A resumed run puts the level's states from the runs into what the files still have."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    none = np.zeros(256, dtype=np.int64)
    seen: list[Any] = []
    worker: Any = SimpleNamespace(
        stride=9,
        filled=none,
        taken=none,
        empty=lambda _: None,
        put=lambda states, _: bool(seen.append(states) or states),
    )
    monkeypatch.setattr(Store, "bring", lambda _, part: seen.append(part))
    run: Any = SimpleNamespace(last=1)
    with shards.ShardSet(worker, "run", 0, 64, None) as held:
        held.store.counts[:4] = 100_000
        held.levels = held.store.counts[None].copy()
        with pytest.raises(DamagedError, match="aren't whole"):
            held.bring_to([400_000, 64], [run], lambda _: [(1, b"states")])
        held.store.counts[:] = 0
    assert seen == [0, 1, 2, 3, b"states"]
