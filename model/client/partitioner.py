"""The producer's partitioner: chooses a given partition, a key's partition, or the sticky
partition.

`spec.client.batches.partitioner` has the decisions. This module has the hash and the choice of the
next partition.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from ...spec.client.batches.partitioner import Choice, chosen_by, switches
from ..engine.errors import OutOfRangeError, whole

_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key, an int32.

    Utils.murmur2
    """
    multiplier = 0x5BD1E995
    length = len(data)
    value = (0x9747B28C ^ length) & _MASK
    for at in range(0, length - length % 4, 4):
        word = int.from_bytes(data[at : at + 4], "little") * multiplier & _MASK
        word = (word ^ word >> 24) * multiplier & _MASK
        value = value * multiplier & _MASK ^ word
    rest = data[length - length % 4 :]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * multiplier & _MASK
    value = (value ^ value >> 13) * multiplier & _MASK
    value ^= value >> 15
    return value - (1 << 32) if value >> 31 else value


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key: the same on every client.

    BuiltInPartitioner.partitionForKey
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class Partitioner:
    """The partitioner of one topic. `partitions` is the number of its partitions.

    `choose` returns the next sticky partition (default: one after the other; Kafka's choice is
    random). With `round_robin` each record goes to the next partition, even if it has a key.
    """

    def __init__(
        self, partitions: int, *, round_robin: bool = False, ignores_keys: bool = False,
        batch_size: int = 16_384, choose: Callable[[], int] | None = None,
    ) -> None:  # fmt: skip
        if partitions < 1:
            raise OutOfRangeError(f"partitions must be 1 or more, not {partitions}", "partitions")
        self.partitions = partitions
        self.round_robin, self.ignores_keys = round_robin, ignores_keys
        self.batch_size = whole("batch_size", batch_size, 0)
        self.produced = 0
        """The bytes that were written to the sticky partition."""
        turns = count()
        self._choose = choose or (lambda: next(turns))
        self._turns = count()
        self._sticky: int | None = None

    def partition(self, key: bytes | None = None, given: int | None = None) -> int:
        """The partition of a record. Raises OutOfRangeError if the given partition doesn't
        exist."""
        decides = chosen_by(
            is_given=given is not None,
            has_key=key is not None,
            is_round_robin=self.round_robin,
            ignores_keys=self.ignores_keys,
        )
        match decides:
            case Choice.GIVEN if given is not None:
                if not 0 <= given < self.partitions:
                    raise OutOfRangeError(
                        f"given is 0..{self.partitions - 1}: not {given}", "given"
                    )
                return given
            case Choice.KEY_HASH if key is not None:
                return partition_for_key(key, self.partitions)
            case Choice.ROUND_ROBIN:
                return next(self._turns) % self.partitions
            case _:
                if self._sticky is None:
                    self._sticky = self._choose() % self.partitions
                return self._sticky

    def appended(self, size: int, *, ends_batch: bool = True) -> None:
        """Notes that a record of `size` bytes without a key was appended. `ends_batch`: the batch
        is full, or the record began a new one.

        Raises WrongTypeError or OutOfRangeError for a wrong size.
        """
        self.produced += whole("size", size, 0)
        if switches(self.produced, self.batch_size, ends_batch=ends_batch):
            self.produced, self._sticky = 0, None
