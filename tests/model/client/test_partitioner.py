"""The partitioner: Kafka's hash, and how long records stick to a partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochfence.model import Partitioner
from epochfence.model.client.partitioner import murmur2, partition_for_key
from epochfence.model.engine.errors import OutOfRangeError

# From Kafka's UtilsTest.testMurmur2.
HASHES = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


@pytest.mark.parametrize("key", HASHES)
def test_the_hash_is_kafkas(key: str) -> None:
    assert murmur2(key.encode()) == HASHES[key]


@given(key=st.binary(), partitions=st.integers(1, 1000))
def test_a_key_always_has_the_same_partition(key: bytes, partitions: int) -> None:
    found = Partitioner(partitions).partition(key)
    assert found == partition_for_key(key, partitions) == Partitioner(partitions).partition(key)
    assert 0 <= found < partitions


@given(sizes=st.lists(st.integers(1, 700), max_size=60))
def test_records_without_a_key_change_partition_with_every_full_batch(sizes: list[int]) -> None:
    partitioner, produced, expected = Partitioner(3, batch_size=500), 0, 0
    for size in sizes:
        assert partitioner.partition() == expected % 3
        partitioner.appended(size)
        produced += size
        if produced >= 500:
            produced, expected = 0, expected + 1


def test_a_batch_that_is_not_full_keeps_its_partition_up_to_twice_its_size() -> None:
    partitioner = Partitioner(3, batch_size=500)
    for size, expected in ((600, 0), (300, 0), (100, 0), (1, 1)):
        assert partitioner.partition() == expected
        partitioner.appended(size, ends_batch=False)


def test_a_given_partition_comes_first_and_round_robin_looks_at_no_key() -> None:
    assert Partitioner(4).partition(b"key", given=3) == 3
    turns = Partitioner(2, round_robin=True)
    assert [turns.partition(b"key") for _ in range(4)] == [0, 1, 0, 1]
    assert Partitioner(4, ignores_keys=True).partition(b"key") == 0


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_partition_that_is_not_there(wrong: int) -> None:
    with pytest.raises(OutOfRangeError, match="given"):
        Partitioner(4).partition(given=wrong)
