"""A store of whole states: each is there once, in the shard that owns it, and is read as it was."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.checker.native.search.worker import Worker, deal
from epochfence.checker.native.store import store as stores
from epochfence.checker.native.store.store import SHARDS, SLACK, Store
from epochfence.checker.spark.search.shards import by_owner, candidates, owned_by

STRIDES = (8, 9, 10, 15, 16, 17, 18, 24, 25, 41)
"""A record, or a state, is in a word, two or more, and its last word is whole or isn't."""


def store_of(stride: int) -> Store:
    """An empty store with room for all that a test puts there."""
    return Store(stride, 1 << 14, lambda _: True)


def worker_of(stride: int, most_filled: int) -> Worker:
    """A worker that empties its buckets from so many states on."""
    kernel: Any = SimpleNamespace(most_successors=1)
    buckets, filled = np.zeros((2, SHARDS), dtype=np.int64)
    return Worker(kernel, stride, 1, buckets, filled, most_filled)


def held(store: Store, shard: int) -> list[bytes]:
    """A shard's states, in their order."""
    states = store.bytes_of(shard, 0, int(store.counts[shard]))
    return [states[at : at + store.stride] for at in range(0, len(states), store.stride)]


def drawn_states(stride: int, kinds: int, seed: int) -> list[bytes]:
    """Some thousands of states of few different bytes, many of them alike but for one byte."""
    drawn = random.Random(seed)
    of = drawn.sample(range(256), kinds)
    states = [bytes(drawn.choices(of, k=stride)) for _ in range(60)]
    for _ in range(3000):
        changed = bytearray(drawn.choice(states))
        changed[drawn.choice([0, stride - 1, drawn.randrange(stride)])] = drawn.choice(of)
        states.append(bytes(changed))
    return states


@pytest.mark.parametrize("stride", STRIDES)
@settings(max_examples=4, deadline=None)
@given(kinds=st.sampled_from([2, 5, 256]), seed=st.integers(0, 1 << 30))
def test_what_was_put_is_there_once_and_in_its_shard(stride: int, kinds: int, seed: int) -> None:
    states = drawn_states(stride, kinds, seed)
    store, worker = store_of(stride), worker_of(stride, 1 << 6)
    assert worker.put(b"".join(states), store)
    shards = [held(store, shard) for shard in range(SHARDS)]
    found = [state for shard in shards for state in shard]
    assert len(found) == len(set(found))
    assert set(found) == set(states)
    assert by_owner(b"".join(found), stride, SHARDS) == [b"".join(shard) for shard in shards]

    assert worker.put(b"".join(reversed(states)), store)
    assert [held(store, shard) for shard in range(SHARDS)] == shards
    assert store.width == stride - 1


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize(("shard", "count"), [(0, 2), (2, 3), (5, 7), (3, 16), (77, 256)])
def test_a_store_that_owns_some_shards_divides_them(stride: int, shard: int, count: int) -> None:
    drawn = random.Random(stride * count)
    # a hash names each owner alike: enough for all that this one has
    states = [drawn.randbytes(stride) for _ in range(1_000 * count)]
    own = by_owner(b"".join(states), stride, count)[shard]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stores, "TO_DIVIDE", 1)  # the least: many rounds
        worker = worker_of(stride, 1 << 10)
    owned = owned_by(shard, count)
    store = Store(stride, 1 << 12, lambda _: True, owned=owned, finer=worker.finer)
    assert worker.put(own, store)
    assert len(store.used) > SHARDS * 2 // 3 - 1
    assert (store.counts[: len(store.used)] > 0).mean() > 0.9
    assert not store.counts[len(store.used) :].any()

    def rows() -> list[bytes]:
        return [bytes(row) for part in store.used for some in store.rows(part) for row in some]

    there = rows()
    assert sorted(there) == sorted({own[at : at + stride] for at in range(0, len(own), stride)})
    assert store.between([0] * SHARDS, store.counts.tolist()) == b"".join(there)
    assert by_owner(b"".join(there), stride, SHARDS)[owned.start]
    assert worker.put(own[: len(own) // stride // 2 * stride], store)
    assert rows() == there


@pytest.mark.parametrize("stride", STRIDES)
@settings(max_examples=4, deadline=None)
@given(kinds=st.sampled_from([2, 5, 256]), seed=st.integers(0, 1 << 30))
def test_whole_states_go_to_their_owners(stride: int, kinds: int, seed: int) -> None:
    states = drawn_states(stride, kinds, seed)
    area = np.frombuffer(b"".join(states) + bytes(SLACK), dtype=np.uint8)
    worker = worker_of(stride, 1 << 12)
    fullest = deal(area.ctypes.data, len(states), stride, stride, worker.buckets, worker.filled)
    _, found = candidates(worker, range(SHARDS), stride)
    assert [own.tobytes() for own in found] == by_owner(b"".join(states), stride, SHARDS)
    assert fullest == worker.filled.max()
