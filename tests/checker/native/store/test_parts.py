"""States kept by their parts: nothing is lost, and a search finds what it finds without."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search import explore
from epochfence.checker.native.search.checkpoint import CheckpointError
from epochfence.checker.native.search.explore import Explorer, Progress, search
from epochfence.checker.native.search.transitions import Transitions
from epochfence.checker.native.search.worker import Worker
from epochfence.checker.native.store import part_plan as planning
from epochfence.checker.native.store.part_plan import Plan, plan
from epochfence.checker.native.store.parts import (
    BITS,
    KEYS,
    LIMIT,
    MOST_BITS,
    SIZE,
    USED,
    WORDS,
    Parts,
)
from epochfence.checker.native.store.store import SHARDS, Store
from epochfence.checker.verdict.result import Verdict
from epochfence.language import Instance, instantiate
from epochfence.spec.systems import shipped

KTX = Path(__file__).parents[4] / "bench" / "ktx.py"
ROOM = 1 << 26


def broken() -> Instance:
    """The benchmark protocol without what fences an old epoch."""
    given = {"I": 2, "K": 2, "E": 2, "S": 1, "V": 0}
    return instantiate(load_system(str(KTX)), constants=given)


def idempotence() -> Instance:
    """A system of which a search to its first fault finds 1,769 states of three words."""
    return instantiate(shipped("idempotence"), bounds="small")


@pytest.fixture
def by_parts(monkeypatch: pytest.MonkeyPatch) -> list[Parts]:
    """States by their parts from the first level on, whether that pays or not: the parts made."""
    made: list[Parts] = []

    def noted(*args: Any, **named: Any) -> Parts:
        made.append(Parts(*args, **named))
        return made[-1]

    monkeypatch.setattr(explore, "DIVIDED_FROM", 1)
    monkeypatch.setattr(planning, "WHOLE", 0)
    monkeypatch.setattr(planning, "WORTH", 1e9)
    monkeypatch.setattr(explore, "Parts", noted)
    return made


def filled(
    states: list[bytes],
    ends: list[int],
    threads: int,
    may_take: Callable[[int], bool] | None = None,
) -> Store:
    """A store of parts with these states; each thread puts a share of their parts first."""
    stride, may = len(states[0]), may_take or (lambda _: True)
    parts = Parts(Plan(tuple(ends), (1,) * len(ends)), ROOM, may)
    store = Store(stride, 1 << 16, may, parts=parts)

    def worker() -> Worker:
        kernel: Any = SimpleNamespace(most_successors=4)
        buckets, counts = np.zeros((2, SHARDS), dtype=np.int64)
        made = Worker(kernel, stride, 1, buckets, counts, 1 << 10)
        made.work_on(len(ends))
        return made

    workers = [worker() for _ in range(threads)]

    def fold(own: Worker) -> bool:
        """All states in an order of its own, as many at a time as it has room for."""
        shuffled = random.Random(id(own)).sample(states, len(states))
        area = np.frombuffer(b"".join(shuffled) + bytes(16), dtype=np.uint8)
        return all(
            own.fold(area.ctypes.data + at * stride, min(own.burst, len(states) - at), parts.rows)
            for at in range(0, len(states), own.burst)
        )

    with ThreadPoolExecutor(threads) as pool:
        while not all([*pool.map(fold, workers)]):  # a list: all threads stop before it grows
            assert store.ready()
    assert workers[0].put(b"".join(states), store)
    return store


@pytest.mark.slow(1)
@settings(max_examples=20, deadline=None)
@given(st.integers(9, 90), st.integers(0, 1 << 30), st.sampled_from([1, 2, 4]), st.data())
def test_what_was_put_is_there_once(stride: int, seed: int, threads: int, data: st.DataObject):
    words = -(-stride // 8)
    cuts = data.draw(st.sets(st.integers(1, words - 1), min_size=1, max_size=3))
    drawn = random.Random(seed)
    kinds = drawn.choice([3, 40, 3000])  # contents of a part: few of them, or more than first fit
    pool = [drawn.randbytes(stride) for _ in range(kinds)]
    ends = [*sorted(cuts), words]
    begins = [0, *(8 * end for end in ends[:-1])]

    def state() -> bytes:
        picked = (drawn.choice(pool)[at : 8 * end] for at, end in zip(begins, ends, strict=True))
        return b"".join(picked)

    states = [state() for _ in range(4000)]
    store = filled(states, ends, threads)
    found = [bytes(row) for rows in store.all_rows() for row in rows]
    assert len(found) == len(set(found)) == int(store.counts.sum())
    assert set(found) == set(states)
    shard = int(store.counts.argmax())
    whole = store.bytes_of(shard, 0, int(store.counts[shard]))
    assert whole == b"".join(bytes(row) for rows in store.rows(shard) for row in rows)
    assert store.parts is not None
    assert store.parts.width <= store.parts.widest


@pytest.mark.slow(2)
def test_records_get_wider_and_the_order_of_a_shard_stays() -> None:
    drawn = random.Random(1)
    states = [drawn.randbytes(24) for _ in range(30_000)]
    store = filled(states[:200], [2, 3], 1)
    narrow, counts = store.width, store.counts.tolist()
    first = [store.bytes_of(shard, 0, count) for shard, count in enumerate(counts)]
    kernel: Any = SimpleNamespace(most_successors=4)
    buckets, numbers = np.zeros((2, SHARDS), dtype=np.int64)
    worker = Worker(kernel, 24, 1, buckets, numbers)
    worker.work_on(2)
    assert worker.put(b"".join(states), store)
    assert store.width > narrow
    assert [store.bytes_of(shard, 0, count) for shard, count in enumerate(counts)] == first
    assert {bytes(row) for rows in store.all_rows() for row in rows} == set(states)


def test_a_record_never_gets_wider_than_what_is_reserved_for_it() -> None:
    parts = Parts(Plan((1, 2), (1, 1)), ROOM, lambda _: True)
    parts._most[:] = (1 << MOST_BITS) - 1  # pyright: ignore[reportPrivateUsage]
    parts.rows[:, SIZE] = 1 << 33  # none of these slots is looked at
    parts.rows[:, BITS] = MOST_BITS - 1
    parts.rows[:, USED] = parts.rows[:, LIMIT] = 1 << (MOST_BITS - 1)
    assert parts.grow()
    assert parts.rows[:, BITS].tolist() == [MOST_BITS, MOST_BITS]
    assert parts.width == parts.widest


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_without_memory_for_wider_records_they_are_read_as_they_are(refused: int) -> None:
    asked = refused

    def may_take(_: int) -> bool:
        nonlocal asked
        asked -= is_short
        return asked > 0

    is_short = False
    drawn = random.Random(1)
    states = [drawn.randbytes(24) for _ in range(30_000)]
    store = filled(states[:200], [2, 3], 1, may_take)
    first = [store.bytes_of(shard, 0, count) for shard, count in enumerate(store.counts.tolist())]
    kernel: Any = SimpleNamespace(most_successors=4)
    buckets, numbers = np.zeros((2, SHARDS), dtype=np.int64)
    worker = Worker(kernel, 24, 1, buckets, numbers)
    worker.work_on(2)
    is_short = True
    assert not worker.put(b"".join(states), store)
    found = [store.bytes_of(shard, 0, len(whole) // 24) for shard, whole in enumerate(first)]
    assert found == first
    assert {bytes(row) for rows in store.all_rows() for row in rows} <= set(states)


def test_a_plan_divides_where_parts_are_independent() -> None:
    drawn = np.random.default_rng(1)
    pool = drawn.integers(0, 256, (50, 24), dtype=np.uint8)
    left, right = pool[drawn.integers(0, 50, (2, 4000))]
    found = plan(np.concatenate([left, right], axis=1))
    assert found is not None
    assert found.ends == (3, 6)
    assert plan(drawn.integers(0, 256, (4000, 48), dtype=np.uint8)) is None
    assert plan(np.concatenate([left, right], axis=1)[:, :16]) is None


def figures(instance: Instance, threads: int = 2, **options: Any) -> tuple[Any, ...]:
    """All that must be the same of two ways to keep states."""
    result = check(instance, Options(threads, **options))
    return (
        result.verdict, result.states, result.transitions, result.depth, result.rows,
        result.properties, result.trace and result.trace.as_json(),
    )  # fmt: skip


SYSTEMS: dict[str, tuple[str, str, dict[str, int]]] = {
    "transactions": ("transactions", "small", {}),
    "idempotence": ("idempotence", "small", {}),
    "coordinators": ("coordinators", "default", {}),
}


@pytest.mark.slow(10)
@pytest.mark.sample(1, of="engines: states in parts")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SYSTEMS)
def test_verdicts_and_counts_are_those_of_whole_states(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    system, bounds, constants = SYSTEMS[name]
    instance = instantiate(shipped(system), bounds=bounds, constants=constants)
    monkeypatch.setattr(explore, "DIVIDED_FROM", 1 << 40)
    whole = figures(instance)
    made = request.getfixturevalue("by_parts")
    assert figures(instance, threads) == whole
    assert made


@pytest.mark.slow(4)
@pytest.mark.long
@pytest.mark.parametrize("granted", [3, 5])
def test_states_stay_whole_where_their_division_finds_no_room(
    granted: int, monkeypatch: pytest.MonkeyPatch, by_parts: list[Parts]
) -> None:
    instance = instantiate(shipped("transactions"), bounds="small")
    monkeypatch.setattr(explore, "DIVIDED_FROM", 1 << 40)
    whole = figures(instance)
    may_take, asked = Explorer.may_take, 0

    def short(self: Explorer, extra: int) -> bool:
        nonlocal asked
        if self.divided is None:
            return may_take(self, extra)
        asked += 1
        return asked <= granted

    monkeypatch.setattr(Explorer, "may_take", short)
    monkeypatch.setattr(explore, "DIVIDED_FROM", 30_000)  # parts grow five times, then tables
    assert figures(instance) == whole
    assert by_parts
    assert asked == granted + 1


@pytest.mark.parametrize("threads", [1, 2])
def test_counterexamples_are_those_of_whole_states(
    threads: int, request: pytest.FixtureRequest
) -> None:
    whole = figures(broken())
    assert whole[0] is Verdict.BROKEN
    made = request.getfixturevalue("by_parts")
    assert figures(broken(), threads) == whole
    assert made


class Killed(Exception):
    """The end of a process, in the middle of a run."""


@pytest.mark.slow(1)
def test_a_run_goes_on_from_its_levels(tmp_path: Path, by_parts: list[Parts]) -> None:
    folder = tmp_path / "run"

    def end(progress: Progress) -> None:
        if progress.depth == 8:
            raise Killed

    with pytest.raises(Killed):
        check(idempotence(), Options(checkpoint=folder), end)
    assert by_parts
    damaged = folder / "level-00005.states"
    content = damaged.read_bytes()
    damaged.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(CheckpointError, match="is damaged"):
        check(idempotence(), Options(resume=folder))
    damaged.write_bytes(content)
    assert figures(idempotence(), resume=folder) == figures(idempotence())


def explored(instance: Instance) -> Explorer:
    """A finished search."""
    from epochfence.checker.prepare import prepare

    prepared, memory = prepare(instance), psutil.Process().memory_info().rss + (1 << 30)
    explorer = Explorer(prepared.kernel, prepared.packing.stride, len(prepared.labels), 1, memory)
    explorer.insert(prepared.initials())
    explorer.begin_level()
    search(explorer)
    return explorer


def test_a_content_that_is_damaged_is_noticed(by_parts: list[Parts]) -> None:
    explorer = explored(instantiate(shipped("coordinators")))
    kind_of = np.zeros(len(explorer.taken), dtype=np.uint8)
    assert Transitions(explorer, kind_of).states == 706
    part = by_parts[-1].rows[0]
    size = 8 * int(part[USED] * part[WORDS])
    region = next(r for r in by_parts[-1].regions if r.address == part[KEYS])
    region.array[:size] ^= 1
    with pytest.raises(RuntimeError, match="of a search"):
        Transitions(explorer, kind_of)


@pytest.mark.slow(1)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_memory_limit_is_kept(threads: int, by_parts: list[Parts]) -> None:
    process = psutil.Process()
    check(broken())  # what is compiled once is there before the limit is set
    limit = process.memory_info().rss + (32 << 20)
    made = len(by_parts)
    result = check(instantiate(load_system(str(KTX))), Options(threads, memory=limit))
    assert len(by_parts) > made
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reason.startswith("the memory limit was reached after level ")
    assert 10_000 < result.states < 11_995_156
    assert result.memory <= limit
    assert process.memory_info().rss <= limit + (32 << 20)
