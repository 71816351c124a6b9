"""The visited set: shards that each own the states whose hash names them.

A shard keeps its states one behind the other in the order in which they were found, so that a
level of the search is a range of them. It finds them by a table of open addressing, in groups of
eight entries: eight bytes of tags, each 8 bits of a hash (0: the entry is empty), looked at in one
word, then eight positions of three bytes. States are compared whole.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, uint64

from .memory import Region, load32, load64, prefetch, store32, store64, trailing_zeros

SHARD_BITS = 8
SHARDS = 1 << SHARD_BITS
MOST_PER_SHARD = 1 << 24
LEAST_GROUPS = 1 << 5
GROUP = 32  # bytes of a group of the table: 8 tags of a byte, 8 positions of 3 bytes
ROOM = 6  # states of a shard for each group
BLOCK = 128  # states that are asked for in memory before the first is looked at
SLACK = 16  # bytes behind a run of states that a whole-word access may touch

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xD6E8FEB86659FD93)
_EACH_BYTE = np.uint64(0x0101010101010101)
_TOP_BITS = np.uint64(0x8080808080808080)


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


@njit(nogil=True, cache=True, inline="always")
def copy_exactly(source, target, stride):
    """Copies a packed state, and writes nothing behind it."""
    offset = 0
    while offset + 8 <= stride:
        store64(target + offset, load64(source + offset))
        offset += 8
    if offset < stride:
        store64(target + stride - 8, load64(source + stride - 8))


@njit(nogil=True, cache=True, inline="always")
def group_of(h, table, groups):
    """The address of the group where the search for a hash begins."""
    return table + GROUP * np.int64(((h & uint64(0xFFFFFFFF)) * uint64(groups)) >> uint64(32))


@njit(nogil=True, cache=True, inline="always")
def tag_of(h):
    """The byte of a hash that entries keep: not 0, which is that of an empty entry."""
    return max(uint64(1), (h >> uint64(40)) & uint64(0xFF))


@njit(nogil=True, cache=True, inline="always")
def alike(tags, tag):
    """The top bit of each byte of `tags` that may equal `tag`: of all that do, and few others."""
    different = tags ^ (tag * _EACH_BYTE)
    return (different - _EACH_BYTE) & ~different & _TOP_BITS


@njit(nogil=True, cache=True, inline="always")
def position_in(group, entry):
    """The position that an entry of a group holds."""
    return np.int64(load32(group + 7 + 3 * entry) >> uint64(8))


@njit(nogil=True, cache=True, inline="always")
def add(group, tags, tag, position):
    """Fills the first empty entry of a group that has one."""
    entry = trailing_zeros(alike(tags, uint64(0))) >> 3
    place = group + 7 + 3 * entry
    kept = load32(place) & uint64(0xFF)
    store32(place, np.uint32((uint64(position) << uint64(8)) | kept))
    store64(group, tags | (tag << uint64(8 * entry)))


@njit(nogil=True, cache=True)
def insert(incoming, count, stride, states, found, most, table, groups):
    """Puts packed states from `incoming` into a shard, up to `count` of them.

    `states` and `table` are the shard's addresses, `found` its number of states, `groups` the
    size of its table. Stops before the shard might hold more than `most` states. Returns how many
    were looked at, and the new number of states.
    """
    hashes = np.empty(BLOCK, dtype=np.uint64)
    done = 0
    while done < count and found + BLOCK <= most:
        block = min(BLOCK, count - done)
        base = incoming + done * stride
        for i in range(block):
            h = hash_state(base + i * stride, stride)
            hashes[i] = h
            prefetch(group_of(h, table, groups))
        for i in range(block):
            group = group_of(hashes[i], table, groups)
            likely = alike(load64(group), tag_of(hashes[i]))
            entry = trailing_zeros(likely) >> 3 & 7
            prefetch(states + position_in(group, entry) * stride)
        for i in range(block):
            tag = tag_of(hashes[i])
            group = group_of(hashes[i], table, groups)
            state = base + i * stride
            while True:
                tags = load64(group)
                likely = alike(tags, tag)
                known = False
                while likely:
                    position = position_in(group, trailing_zeros(likely) >> 3)
                    if same_state(state, states + position * stride, stride):
                        known = True
                        break
                    likely &= likely - uint64(1)
                if known:
                    break
                if alike(tags, uint64(0)):
                    copy_state(state, states + found * stride, stride)
                    add(group, tags, tag, found)
                    found += 1
                    break
                group += GROUP
                if group == table + GROUP * groups:
                    group = table
        done += block
    return done, found


@njit(nogil=True, cache=True)
def index_states(stride, states, found, table, groups):
    """Fills a table anew with the entries of `found` different states."""
    for word in range(0, GROUP * groups, 8):
        store64(table + word, uint64(0))
    for position in range(found):
        h = hash_state(states + position * stride, stride)
        group = group_of(h, table, groups)
        while not alike(load64(group), uint64(0)):
            group += GROUP
            if group == table + GROUP * groups:
                group = table
        add(group, load64(group), tag_of(h), position)


@njit(nogil=True, cache=True)
def insert_all(first, step, stride, states, counts, most, tables, groups, buckets, filled, emptied):
    """Empties the buckets of each `step`-th shard from shard `first` on into those shards.

    `buckets`, `filled` and `emptied` have a line for each worker and a column for each shard: the
    bucket's address, its number of states, and how many of them were put into the shard. Stops at
    a shard whose table is too small, and returns its index; SHARDS where all is done.
    """
    for shard in range(first, SHARDS, step):
        for worker in range(buckets.shape[0]):
            left = filled[worker, shard] - emptied[worker, shard]
            if left:
                done, counts[shard] = insert(
                    buckets[worker, shard] + emptied[worker, shard] * stride, left, stride,
                    states[shard], counts[shard], min(most, ROOM * groups[shard]), tables[shard],
                    groups[shard],
                )  # fmt: skip
                emptied[worker, shard] += done
                if done < left:
                    return shard
    return SHARDS


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _divided(region: Region, owned: range) -> Any:
    """The addresses of equal parts of a region by shard; 0 for shards that aren't owned."""
    addresses = np.zeros(SHARDS, dtype=np.int64)
    part = region.size // max(1, len(owned)) // 8 * 8
    addresses[owned.start : owned.stop] = region.address + part * np.arange(len(owned))
    return addresses


class Store:
    """The states found so far.

    At most `most` states in each shard; `may_take` is asked before a table grows, in bytes. A
    state's position in its shard tells when it was found, and nothing moves or leaves. `region`
    gives the memory for the states and for the tables of the shards that are `owned`.
    """

    def __init__(
        self,
        stride: int,
        most: int,
        may_take: Callable[[int], bool],
        region: Callable[[str, int], Region] = lambda _, size: Region(size),
        owned: range = range(SHARDS),
    ) -> None:
        self.may_take = may_take
        self.stride = stride
        self.most = min(most, MOST_PER_SHARD)
        most_groups = LEAST_GROUPS
        while most_groups * ROOM < self.most:
            most_groups *= 2
        # each of the greatest size it could need, of which only what is in use takes memory
        self._states = region("states", _whole_pages(self.most * stride + SLACK) * len(owned))
        self._tables = region("tables", most_groups * GROUP * len(owned))
        self.states = _divided(self._states, owned)
        self.tables = _divided(self._tables, owned)
        self.groups = np.full(SHARDS, LEAST_GROUPS, dtype=np.int64)
        self.counts = np.zeros(SHARDS, dtype=np.int64)

    def insert(self, first: int, step: int, buckets: Any, filled: Any, emptied: Any) -> bool:
        """Empties buckets into shards, as `insert_all` does; False where there is no room."""
        while True:
            first = insert_all(
                first, step, self.stride, self.states, self.counts, self.most, self.tables,
                self.groups, buckets, filled, emptied,
            )  # fmt: skip
            if first >= SHARDS:
                return True
            if not self._grow(first):
                return False

    def _grow(self, shard: int) -> bool:
        """Doubles a table; False where the shard can't hold more states, or memory is short."""
        groups = int(self.groups[shard])
        if ROOM * groups >= self.most or not self.may_take(GROUP * groups):
            return False
        self.groups[shard] = 2 * groups
        index_states(
            self.stride, self.states[shard], self.counts[shard], self.tables[shard], 2 * groups
        )
        return True

    def bytes_of(self, shard: int, start: int, end: int) -> bytes:
        """A shard's packed states from position `start` up to `end`, one behind the other."""
        base = int(self.states[shard]) - self._states.address
        return self._states.array[base + start * self.stride : base + end * self.stride].tobytes()

    def rows(self, shard: int) -> Any:
        """A shard's packed states as rows of bytes; not a copy."""
        base = int(self.states[shard]) - self._states.address
        size = int(self.counts[shard]) * self.stride
        return self._states.array[base : base + size].reshape(-1, self.stride)

    def index(self, shard: int) -> None:
        """Fills a shard's table anew, as large as it has to be for the shard's states."""
        count = int(self.counts[shard])
        groups = LEAST_GROUPS
        while groups * ROOM < count + BLOCK:
            groups *= 2
        self.groups[shard] = groups
        index_states(self.stride, self.states[shard], count, self.tables[shard], groups)

    @property
    def memory(self) -> int:
        """Bytes touched."""
        return int(self.counts.sum()) * self.stride + int(self.groups.sum()) * GROUP
