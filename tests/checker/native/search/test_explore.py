"""A search that ends early leaves no thread at work, and no state half-moved."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.native.cache.machine_code import Compilation
from epochfence.checker.native.jit.interrupts import unbroken
from epochfence.checker.native.search import explore
from epochfence.checker.native.search.explore import Explorer
from epochfence.checker.native.store import store as stores
from epochfence.checker.native.store.store import Store
from epochfence.checker.output.state_tables import Found
from epochfence.checker.prepare import prepare
from epochfence.checker.verdict.result import Verdict
from epochfence.tests.checker.native.grouping import by_parts
from epochfence.tests.checker.native.search.test_worker import resets


def interrupt() -> None:
    """Ctrl-C, at once if it is for this thread."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def out_of_memory() -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("end", "error"), [(interrupt, KeyboardInterrupt), (out_of_memory, MemoryError)]
)
def test_all_threads_are_done_when_one_is_not(
    end: Callable[[], None], error: type[BaseException]
) -> None:
    prepared = prepare(resets())
    explorer = Explorer(prepared.kernel, prepared.packing.stride, len(prepared.labels), 3, 1 << 30)
    done: list[int] = []

    def work(number: int) -> None:
        if number == 0:
            end()
        time.sleep(0.05)
        done.append(number)

    with pytest.raises(error):
        explorer.each(work, [(number,) for number in range(3)])
    assert {1, 2} <= {*done}
    explorer.close()


def test_ctrl_c_waits_for_what_is_not_to_be_broken() -> None:
    done = 0

    def work() -> None:
        nonlocal done
        interrupt()
        done += 1

    with pytest.raises(KeyboardInterrupt):
        unbroken()(work)()
    assert done == 1
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == 1


@pytest.mark.parametrize("spill", [False, True])
def test_a_set_without_places_blames_no_memory(
    spill: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (stores, explore):
        monkeypatch.setattr(module, "MOST_PER_SHARD", stores.BLOCK + 2)
    result = check(resets(), Options(spill=tmp_path if spill else None))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.exit_code == 20
    assert result.reason.startswith("the visited set has no more places after level ")
    assert "more memory doesn't help" in result.reason
    assert not any("on disk" in note or "kept in" in note for note in result.notes)


def states(found: Found) -> Iterator[bytes]:
    """The packed states of whole levels."""
    store = found.explorer.store
    for level in range(found.explorer.depth):
        for shard, (start, end) in enumerate(found.explorer.level_ranges(level)):
            yield from map(bytes, (row for rows in store.rows(shard, start, end) for row in rows))


@pytest.mark.slow(1)
@pytest.mark.parametrize("threads", [1, 2])
def test_states_are_whole_after_ctrl_c_as_records_get_wider(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at, widths = Store.looked_at, list[int]()

    def interrupted(store: Store, size: int) -> None:
        """Ctrl-C when the first shard has wider records, and the last one has not."""
        if store.parts is not None and store.width > widths[0]:
            interrupt()
        looked_at(store, size)

    def begun(explorer: Explorer) -> None:
        begin(explorer)
        widths.append(explorer.store.width)

    kept = check(resets(), Options(keep_states=True)).found
    assert kept is not None
    whole = {*states(kept)}
    begin = Explorer.begin_level
    monkeypatch.setattr(Explorer, "begin_level", begun)
    monkeypatch.setattr(Store, "looked_at", interrupted)
    monkeypatch.setattr("epochfence.checker.native.store.parts.LEAST_BITS", 8)
    monkeypatch.setattr(explore, "LEAST_ROUND", 1)
    with by_parts():
        result = check(resets(), Options(threads, keep_states=True))
    assert result.verdict is Verdict.INTERRUPTED
    assert result.found is not None
    found = {*states(result.found)}
    assert found
    assert found <= whole


def test_ctrl_c_leaves_no_thread_that_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {*threading.enumerate()}

    def interrupted(self: Compilation) -> Any:
        """As a thread is started: the pool doesn't know it yet."""
        pool: Any = self._pool  # pyright: ignore[reportPrivateUsage]
        pool._threads.clear()
        raise KeyboardInterrupt

    monkeypatch.setattr(Compilation, "end", interrupted)
    with pytest.raises(KeyboardInterrupt) as kept:  # it keeps what was at work
        prepare(resets())
    assert kept
    ends = time.monotonic() + 60
    while {*threading.enumerate()} - before and time.monotonic() < ends:
        time.sleep(0.01)
    assert not {*threading.enumerate()} - before
