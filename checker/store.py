"""The visited set: shards that each own the states whose hash names them.

A shard keeps its states one behind the other in the order in which they were found, so that a
level of the search is a range of them, and finds them by a table of open addressing whose 32-bit
entries hold 8 bits of the hash and the state's position (plus one; 0 is an empty entry). States
are compared whole.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit, uint64

from .memory import Region, load32, load64, prefetch, store32, store64

SHARD_BITS = 8
SHARDS = 1 << SHARD_BITS
POSITION_BITS = 24
MOST_PER_SHARD = (1 << POSITION_BITS) - 2
BLOCK = 32
LINE = 64  # bytes of a cache line
FEW = 4 * LINE  # bytes of a shard for each incoming state, up to which it is fetched first
SLACK = 16  # bytes behind a run of states that a whole-word access may touch

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xD6E8FEB86659FD93)


@njit(nogil=True, cache=True, inline="always")
def hash_state(address, stride):
    """64 bits from a packed state."""
    mixed = uint64(0)
    offset = 0
    while offset + 8 <= stride:
        mixed = (mixed ^ load64(address + offset)) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
        offset += 8
    if offset < stride:
        mixed = (mixed ^ load64(address + stride - 8)) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
    mixed *= _MIXER
    return mixed ^ (mixed >> uint64(32))


@njit(nogil=True, cache=True, inline="always")
def same_state(a, b, stride):
    """Whether two packed states are equal."""
    offset = 0
    while offset + 8 <= stride:
        if load64(a + offset) != load64(b + offset):
            return False
        offset += 8
    return offset == stride or load64(a + stride - 8) == load64(b + stride - 8)


@njit(nogil=True, cache=True, inline="always")
def copy_state(source, target, stride):
    """Copies a packed state; up to 7 bytes behind it are written as well."""
    offset = 0
    while offset < stride:
        store64(target + offset, load64(source + offset))
        offset += 8


@njit(nogil=True, cache=True)
def insert(incoming, count, stride, states, found, most, table, capacity):
    """Puts packed states from `incoming` into a shard, up to `count` of them.

    `states` and `table` are the shard's addresses, `found` its number of states, `capacity` its
    table's number of entries, a power of two. Stops before the shard might hold more than `most`
    states. Returns how many were looked at, and the new number of states.
    """
    mask = uint64(capacity - 1)
    hashes = np.empty(BLOCK, dtype=np.uint64)
    done = 0
    while done < count and found + BLOCK <= most:
        block = min(BLOCK, count - done)
        base = incoming + done * stride
        for i in range(block):
            h = hash_state(base + i * stride, stride)
            hashes[i] = h
            prefetch(table + 4 * np.int64(h & mask))
        for i in range(block):
            h = hashes[i]
            entry = load32(table + 4 * np.int64(h & mask))
            if entry:
                position = np.int64(entry & uint64((1 << POSITION_BITS) - 1)) - 1
                prefetch(states + position * stride)
        for i in range(block):
            h = hashes[i]
            tag = (h >> uint64(48)) & uint64(0xFF)
            state = base + i * stride
            slot = h & mask
            while True:
                entry = uint64(load32(table + 4 * np.int64(slot)))
                if entry == 0:
                    copy_state(state, states + found * stride, stride)
                    found += 1
                    new = (tag << uint64(POSITION_BITS)) | uint64(found)
                    store32(table + 4 * np.int64(slot), np.uint32(new))
                    break
                if entry >> uint64(POSITION_BITS) == tag:
                    position = np.int64(entry & uint64((1 << POSITION_BITS) - 1)) - 1
                    if same_state(state, states + position * stride, stride):
                        break
                slot = (slot + uint64(1)) & mask
        done += block
    return done, found


@njit(nogil=True, cache=True)
def index_states(stride, states, found, table, capacity):
    """Fills an empty table with the entries of `found` different states."""
    mask = uint64(capacity - 1)
    for position in range(found):
        h = hash_state(states + position * stride, stride)
        slot = h & mask
        while load32(table + 4 * np.int64(slot)):
            slot = (slot + uint64(1)) & mask
        tag = (h >> uint64(48)) & uint64(0xFF)
        entry = (tag << uint64(POSITION_BITS)) | uint64(position + 1)
        store32(table + 4 * np.int64(slot), np.uint32(entry))


@njit(nogil=True, cache=True)
def fetch(stride, states, found, table, capacity):
    """Asks for all of a shard that is likely to be read: its table, and the states found last."""
    for line in range(0, 4 * capacity, LINE):
        prefetch(table + line)
    for line in range(found * 3 // 4 * stride, found * stride, LINE):
        prefetch(states + line)


class Shard:
    """The states that one part of the hash range owns.

    At most `most` states; `may_take` is asked before a larger table is made, in bytes.
    """

    def __init__(self, stride: int, most: int, may_take: Callable[[int], bool]) -> None:
        self.may_take = may_take
        self.stride = stride
        self.most = min(most, MOST_PER_SHARD)
        self.states = Region(self.most * stride + SLACK)
        self.capacity = 1 << 8
        self.table = Region(4 * self.capacity)
        self.count = 0

    @property
    def room(self) -> int:
        """The states that the table has entries for, at a load of three quarters."""
        return min(self.most, self.capacity // 4 * 3)

    def grow(self) -> bool:
        """Doubles the table; False where the shard can't hold more states, or memory is short."""
        if self.room == self.most or not self.may_take(8 * self.capacity):
            return False
        self.capacity *= 2
        self.table = Region(4 * self.capacity)
        index_states(
            self.stride, self.states.address, self.count, self.table.address, self.capacity
        )
        return True

    def expect(self, count: int) -> None:
        """Prepares for so many states: where much will be read, in order it comes faster."""
        if count > self.memory // FEW:
            fetch(self.stride, self.states.address, self.count, self.table.address, self.capacity)

    def insert(self, incoming: int, count: int) -> bool:
        """Puts in `count` packed states from an address; False where there is no room."""
        while count:
            done, self.count = insert(
                incoming, count, self.stride, self.states.address, self.count, self.room,
                self.table.address, self.capacity,
            )  # fmt: skip
            incoming += done * self.stride
            count -= done
            if count and not self.grow():
                return False
        return True

    @property
    def memory(self) -> int:
        """Bytes touched."""
        return self.count * self.stride + 4 * self.capacity
