"""The visited set: shards that each own the states whose hash names them.

A shard holds the records of its states, contiguous and in the order of the search, so a level is a
range of them. Its hash table has open addressing, in groups of 16 entries. A group is a cache line:
16 tags of a byte (8 bits of a hash; 0: the entry is empty), which are compared together, then 16
positions of three bytes. Records are compared whole.

A store that owns only some of the shards (as on Spark) may divide each of them into finer ones, by
other bits of the hash, up to SHARDS in all. Buckets are still filled by owner.

A record is the packed state (see `packed_records`), or the numbers of its parts (see `parts`),
without eight bits that follow from the others and the shard.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy import uint64

from ..jit.functions import Passed, compiled
from ..jit.memory import (
    Region,
    equal_bytes,
    load32,
    prefetch,
    scratch,
    store8,
    store32,
    store64,
    trailing_zeros,
)
from .disk import Disk
from .packed_records import (
    SHARD_BITS,
    SHORT,
    copy_short,
    copy_state,
    first_word,
    hash_short,
    hash_state,
    hashed,
    restore,
    same,
)
from .parts import (
    BITS,
    FIELDS,
    GROUPS,
    HELD_IN,
    KEYS,
    WORDS,
    Parts,
    all_given,
    prefetch_content,
    read_record,
    rewrite_records,
    unfold,
)

SHARDS = 1 << SHARD_BITS
MOST_PER_SHARD = 1 << 24
LEAST_GROUPS = 1 << 4
LEAST_PLACES = 1 << 12  # least states of a shard for which disk is allocated at once
ENTRIES = 16  # of a group of the table: a tag of a byte and a position of 3 bytes
GROUP = 4 * ENTRIES  # bytes of a group: a cache line
FEW, MANY = 12, 14  # most states for each group: whole states, and parts' numbers
BLOCK = 128  # states that are prefetched together
BLOCKS = 2 * BLOCK
STRIDE, WIDTH, ROOM = range(3)
"""The fields of a store's form: the bytes of a packed state and of a record, and the most states
for each group of a table.
"""
AT_ONCE = 1 << 12  # most states in one array of rows
NO_PARTS = np.zeros((0, FIELDS), dtype=np.int64)
FAR_APART = 1 << 16  # bytes of a file to each look-up, from which on few pages are looked at
TO_DIVIDE = 1 << 22  # bytes of the buckets of finer shards
SLACK = 16  # bytes after contiguous states that an access by words may touch


@compiled(inline="always")
def group_of(h, table, groups):
    """The address of the first group of the search for a hash."""
    return table + GROUP * np.int64(((h & uint64(0xFFFFFFFF)) * uint64(groups)) >> uint64(32))


@compiled(inline="always")
def tag_of(h):
    """The tag of a hash: a byte other than 0, which marks an empty entry."""
    return max(uint64(1), (h >> uint64(40)) & uint64(0xFF))


@compiled(inline="always")
def position_in(group, entry):
    """The position in an entry of a group."""
    return np.int64(load32(group + ENTRIES - 1 + 3 * entry) >> uint64(8))


@compiled(inline="always")
def add(group, entry, tag, position):
    """Fills an empty entry of a group."""
    place = group + ENTRIES - 1 + 3 * entry
    kept = load32(place) & uint64(0xFF)
    store32(place, np.uint32((uint64(position) << uint64(8)) | kept))
    store8(group + entry, np.uint8(tag))


@compiled(inline="always")
def ask(records, count, width, table, groups, hashes, at):
    """Writes the hashes of records to `hashes` from place `at` on, and prefetches their first
    groups.
    """
    is_short, mask = width <= SHORT, first_word(width)
    if is_short:  # one test for all records, which is faster
        for i in range(count):
            h = hash_short(records + i * width, width, mask)
            hashes[at + i] = h
            prefetch(group_of(h, table, groups))
    else:
        for i in range(count):
            h = hash_state(records + i * width, width)
            hashes[at + i] = h
            prefetch(group_of(h, table, groups))


@compiled
def insert(incoming, count, width, states, found, most, table, groups):
    """Puts up to `count` records of `width` bytes from `incoming` into a shard, without those that
    it already has.

    `states` and `table` are the shard's addresses, `found` its number of states, `groups` the size
    of its table. It stops before the shard could hold more than `most` states. Returns the number
    of processed records, and the new number of states.

    The groups of the next block are prefetched before a block is compared.
    """
    hashes, others = scratch(BLOCKS), scratch(BLOCK)
    is_short, mask = width <= SHORT, first_word(width)
    done, block, begin = 0, min(BLOCK, count), 0
    ask(incoming, block, width, table, groups, hashes, begin)
    while done < count and found + BLOCK <= most:
        base = incoming + done * width
        for i in range(block):
            h = hashes[begin + i]
            group = group_of(h, table, groups)
            entry = trailing_zeros(equal_bytes(group, tag_of(h))) & (ENTRIES - 1)
            other = states + position_in(group, entry) * width
            prefetch(other)
            if width != 8:  # an aligned word doesn't cross cache lines
                prefetch(other + width - 1)
            others[i] = uint64(other)
        following = min(BLOCK, count - done - block)
        ask(base + block * width, following, width, table, groups, hashes, BLOCK - begin)
        left = 0  # records that are new or in another entry; branches would be mispredicted
        for i in range(block):
            known = same(base + i * width, np.int64(others[i]), width, is_short, mask)
            others[left] = uint64(i)
            left += 1 - int(known & (found != 0))
        for at in range(left):
            i = np.int64(others[at])
            record, h = base + i * width, hashes[begin + i]
            tag, group = tag_of(h), group_of(h, table, groups)
            while True:
                likely, known = equal_bytes(group, tag), False
                while likely:
                    other = states + position_in(group, trailing_zeros(likely)) * width
                    known = same(record, other, width, is_short, mask)
                    if known:
                        break
                    likely &= likely - uint64(1)
                if known:
                    break
                empty = equal_bytes(group, uint64(0))
                if empty:
                    copy_state(record, states + found * width, width)
                    add(group, trailing_zeros(empty), tag, found)
                    found += 1
                    break
                group += GROUP
                if group == table + GROUP * groups:
                    group = table
        done, block, begin = done + block, following, BLOCK - begin
    return done, found


@compiled
def index_states(width, states, found, table, groups):
    """Clears a table, and adds entries for `found` different states."""
    for word in range(0, GROUP * groups, 8):
        store64(table + word, uint64(0))
    hashes = scratch(BLOCK)
    for first in range(0, found, BLOCK):
        block = min(BLOCK, found - first)
        ask(states + first * width, block, width, table, groups, hashes, 0)
        for i in range(block):
            h = hashes[i]
            group = group_of(h, table, groups)
            empty = equal_bytes(group, uint64(0))
            while not empty:
                group += GROUP
                if group == table + GROUP * groups:
                    group = table
                empty = equal_bytes(group, uint64(0))
            add(group, trailing_zeros(empty), tag_of(h), first + i)


@compiled
def insert_all(first, step, form, states, counts, most, tables, groups, buckets, filled, emptied):
    """Empties the buckets of every `step`-th shard, from shard `first` on, into these shards, up to
    `most` states in each.

    `buckets`, `filled` and `emptied` have a row for each worker and a column for each shard: the
    bucket's address, its number of states, and the number of states that are already in the shard.
    It stops at a shard whose table is too small, and returns its index; SHARDS if all is done.
    """
    width = form[WIDTH]
    for shard in range(first, SHARDS, step):
        room = min(most[shard], form[ROOM] * groups[shard])
        for worker in range(buckets.shape[0]):
            left = filled[worker, shard] - emptied[worker, shard]
            if left:
                done, counts[shard] = insert(
                    buckets[worker, shard] + emptied[worker, shard] * width,
                    left,
                    width,
                    states[shard],
                    counts[shard],
                    room,
                    tables[shard],
                    groups[shard],
                )
                emptied[worker, shard] += done
                if done < left:
                    return shard
    return SHARDS


@compiled
def divide(buckets, filled, emptied, first, several, each, width, finer, counts, most):
    """Divides the buckets of `several` shards, from shard `first` on, among the `each` finer shards
    of every shard, by further bits of the hash. The arrays are those of `insert_all`.

    The buckets `finer` hold up to `most` records; `counts` has the numbers of their records.
    Returns 0 if one of them is full, and 1 if all is done.
    """
    is_short, mask = width <= SHORT, first_word(width)
    for at in range(several):
        for worker in range(buckets.shape[0]):
            here = emptied[worker, first + at]
            left = filled[worker, first + at]
            while here < left:
                record = buckets[worker, first + at] + here * width
                h = hashed(record, width, is_short, mask)
                own = np.int64((h >> uint64(48)) & uint64(0xFF)) * each
                own = at * each + (own >> SHARD_BITS)
                count = counts[own]
                if count == most:
                    emptied[worker, first + at] = here
                    return 0
                if is_short:
                    copy_short(record, finer[own] + count * width, width)
                else:
                    copy_state(record, finer[own] + count * width, width)
                counts[own] = count + 1
                here += 1
            emptied[worker, first + at] = here
    return 1


@compiled
def packed_states(states, first, count, shard, form, parts, numbers, at, room):
    """Writes `count` packed states of the shard at `states`, from position `first` on, to `room`.
    It may overwrite some bytes after them. `shard` is the number that the hash names. If records
    are numbers, it writes these to `numbers` from place `at` on.
    """
    stride, width, several = form[STRIDE], form[WIDTH], parts.shape[0]
    if several == 0:
        is_short, mask = width <= SHORT, first_word(width)
        for i in range(count):
            restore(states + (first + i) * width, width, shard, room + i * stride, is_short, mask)
        return
    for i in range(count):
        own = numbers[at + several * i : at + several * (i + 1)]
        read_record(states + (first + i) * width, shard, parts, own)
        for part in range(several):
            words = parts[part, WORDS]
            prefetch_content(parts[part, KEYS] + 8 * words * own[part], words)
            if parts[part, GROUPS]:
                prefetch(parts[part, HELD_IN] + own[part])
    for i in range(count):
        own = numbers[at + several * i : at + several * (i + 1)]
        unfold(own, room + i * stride, parts)


@compiled
def packed_between(states, starts, ends, named, form, parts, numbers, room):
    """Writes the packed states of each shard, from its position in `starts` up to that in `ends`,
    to `room`. It may overwrite some bytes after them. `named` are the shards that hashes name.
    `numbers` is scratch memory for the numbers of one shard.
    """
    for at in range(SHARDS):
        several, shard = ends[at] - starts[at], named[at]
        packed_states(states[at], starts[at], several, shard, form, parts, numbers, 0, room)
        room += several * form[STRIDE]


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _divided(region: Region, used: range) -> Any:
    """The addresses of equal parts of a region, by shard; 0 for unused shards."""
    addresses = np.zeros(SHARDS, dtype=np.int64)
    part = region.size // max(1, len(used)) // 8 * 8
    addresses[used.start : used.stop] = region.address + part * np.arange(len(used))
    return addresses


class Finer:
    """A thread's buckets for a store with finer shards."""

    def __init__(self, stride: int) -> None:
        self.most = max(BLOCK, TO_DIVIDE // (SHARDS * stride))
        size = (self.most * stride + SLACK + 63) // 64 * 64
        self._area = Region(size * SHARDS)
        self.buckets = self._area.address + size * np.arange(SHARDS, dtype=np.int64)
        self.counts = np.zeros(SHARDS, dtype=np.int64)
        self._emptied = np.zeros((1, SHARDS), dtype=np.int64)
        self.passed = Passed(self.buckets[np.newaxis], self.counts[np.newaxis], self._emptied)

    def empty(self) -> None:
        """Empties the buckets."""
        self.counts[:] = 0
        self._emptied[:] = 0


class Store:
    """The found states, by their parts if `parts` is given.

    Each shard holds at most `most` states. The store calls `may_take`, with a number of bytes,
    before a table grows. States are in the order in which they were found, and none is moved or
    removed. `region` returns the memory for the states and for the tables of the `owned` shards.
    With `finer`, each of these is divided into finer shards, up to SHARDS in all. `used` are the
    shards that may hold states, and `named` has for each the shard that the hash names. `full`: a
    shard holds `most` states, so it refused one.
    """

    def __init__(
        self,
        stride: int,
        most: int,
        may_take: Callable[[int], bool],
        region: Callable[[str, int], Region] = lambda _, size: Region(size),
        owned: range = range(SHARDS),
        parts: Parts | None = None,
        finer: Finer | None = None,
    ) -> None:
        self.may_take = may_take
        self.stride = stride
        self._owned = owned
        self.finer = finer
        self.full = False
        self._each = 1 if finer is None else SHARDS // len(owned)
        self.used = owned
        self.named = np.arange(SHARDS, dtype=np.int64)
        if self._each > 1:
            self.used = range(self._each * len(owned))
            self.named = owned.start + self.named // self._each
        self.parts = parts
        self.rows_of_parts = NO_PARTS if parts is None else parts.rows
        self.form = np.array([stride, stride - 1, FEW], dtype=np.int64)
        if parts is not None:
            self.form[:] = stride, parts.width, MANY
        widest = self.width if parts is None else parts.widest
        self.most = min(most, MOST_PER_SHARD)
        self.most_groups = max(LEAST_GROUPS, -(-self.most // self.room))
        # reserved for the largest size; only touched pages take memory
        self._states = region("states", _whole_pages(self.most * widest + SLACK) * len(self.used))
        self._tables = region("tables", _whole_pages(self.most_groups * GROUP) * len(self.used))
        self.states = _divided(self._states, self.used)
        self.tables = _divided(self._tables, self.used)
        self.groups = np.full(SHARDS, LEAST_GROUPS, dtype=np.int64)
        self.counts = np.zeros(SHARDS, dtype=np.int64)
        self.places = np.full(SHARDS, self.most, dtype=np.int64)  # states with reserved room
        self._pass()
        self._growing = Lock()
        self.disk: Disk | None = None  # for records and tables, if not in memory
        self.fresh = self.most_fresh = 0  # read bytes that may be in memory, and the most
        self.at_once = 0.0  # the part of them that is read before a call of `looked_at`

    def insert(self, first: int, step: int, buckets: Passed) -> bool:
        """Empties buckets into shards, as `insert_all` does; False if there is no room."""
        if self._each == 1:
            return self._insert(first, step, buckets)
        assert self.finer is not None
        owned, finer = self._owned, self.finer
        done = False
        while not done:
            finer.empty()
            done = divide(
                buckets, owned.start, len(owned), self._each, self.width, finer.buckets,
                finer.counts, finer.most,
            )  # fmt: skip
            if not self._insert(0, 1, finer.passed):
                return False
        return True

    def _insert(self, first: int, step: int, buckets: Passed) -> bool:
        if self.disk is None:
            return self._insert_all(first, step, buckets)
        self._read_ahead(first, buckets)
        for shard in range(first, SHARDS, step):
            if shard + step < SHARDS:
                self._read_ahead(shard + step, buckets)
            if not self._insert_all(shard, SHARDS, buckets):
                return False
        return True

    def _read_ahead(self, shard: int, buckets: Passed) -> None:
        """Reads a shard's files into memory, if its buckets will look at a good part of them."""
        _, filled, emptied = buckets.arguments
        look_ups = int((filled[:, shard] - emptied[:, shard]).sum())
        if look_ups * FAR_APART >= sum(self._sizes(shard).values()):
            self.bring(shard)

    def _insert_all(self, first: int, step: int, buckets: Passed) -> bool:
        while True:
            first = insert_all(first, step, self._passed, buckets)
            if first >= SHARDS:
                return True
            if not self._grow(first):
                return False

    def _pass(self) -> None:
        """Converts the arguments that all calls of `insert_all` share."""
        self._passed = Passed(
            self.form, self.states, self.counts, self.places, self.tables, self.groups
        )

    def _grow(self, shard: int) -> bool:
        """Doubles a table. With parts, where records are as small as entries, it makes the table a
        tenth larger, by at least LEAST_GROUPS groups. False if the shard can't hold more states, or
        memory is short.
        """
        if self.disk is not None and self.counts[shard] + BLOCK > self.places[shard]:
            return self._take_places(shard)
        groups = int(self.groups[shard])
        more = groups if self.parts is None else max(LEAST_GROUPS, groups // 10)
        more = min(more, self.most_groups - groups)
        with self._growing:  # serialized, so that the limit counts every thread's growth
            if self.room * groups >= self.most:
                self.full = True
                return False
            if not self._may_have(GROUP * more):
                return False
            if self.disk is not None and not self._take("tables", shard, GROUP * (groups + more)):
                return False
            self.groups[shard] += more
        self._index(shard)
        return True

    def _index(self, shard: int) -> None:
        index_states(
            self.width,
            self.states[shard],
            self.counts[shard],
            self.tables[shard],
            self.groups[shard],
        )

    def resume(self, counts: Any, groups: Any, rows: Any) -> None:
        """Takes over another process's changes to the regions: each shard's number of states and
        size of its table, and the rows of parts.
        """
        self.counts[:], self.groups[:] = counts, groups
        if self.parts is not None:
            self.parts.resume(rows)
            self.form[WIDTH] = self.parts.width

    def allow(self, free: int) -> None:
        """Allows parts to take `free` bytes until the next call of `ready`."""
        if self.parts is not None:
            self.parts.allow(free)

    def ready(self) -> bool:
        """Makes room in full parts; False if memory is short. The buckets must be empty."""
        if self.parts is None or not self.parts.full:
            return True
        before, width = self.rows_of_parts.copy(), self.width
        grown = self.parts.grow()
        wider = self.parts.width
        if grown and (before[:, BITS] == self.rows_of_parts[:, BITS]).all():
            return True
        if (
            not grown
            or not self._may_have((wider - width) * int(self.counts.sum()))
            or not all(self._take_places(shard, wider) for shard in self._on_disk)
        ):
            self.rows_of_parts[:, BITS] = before[:, BITS]  # the records still have the old bits
            return False
        self.form[WIDTH] = wider
        if self.disk is not None:
            self.disk.rewriting()
        for shard in range(SHARDS):
            only = np.zeros_like(self.counts)
            only[shard] = self.counts[shard]
            rewrite_records(
                self.states,
                only,
                width,
                before,
                wider,
                self.rows_of_parts,
                np.zeros(len(before), dtype=np.int64),
                np.zeros(2, dtype=np.uint64),
            )
            self._index(shard)
            self.looked_at(self.held // SHARDS)
        if self.disk is not None:
            self.disk.rewritten()
        return True

    @property
    def _on_disk(self) -> range:
        return range(0 if self.disk is None else SHARDS)

    def _may_have(self, extra: int) -> bool:
        return self.disk is not None or self.may_take(extra)

    def _take(self, name: str, shard: int, size: int) -> bool:
        """Allocates disk for the first bytes of a shard's records or table; False if it is full."""
        assert self.disk is not None
        region, addresses = self._region(name)
        return self.disk.take(name, int(addresses[shard]) - region.address, size)

    def _region(self, name: str) -> tuple[Region, Any]:
        if name == "states":
            return self._states, self.states
        return self._tables, self.tables

    def _take_places(self, shard: int, width: int | None = None) -> bool:
        """Allocates disk for more states of a shard, or for its present places in another width.
        False if the disk is full, or the shard can't hold more.
        """
        places = int(self.places[shard])
        if width is None:
            count = int(self.counts[shard])
            places = min(self.most, count + max(LEAST_PLACES, count // 4))
            if places <= self.places[shard]:
                self.full = True
                return False
        if not self._take("states", shard, places * (width or self.width) + SLACK):
            return False
        self.places[shard] = places
        return True

    def spill(self, disk: Disk, at_once: float) -> bool:
        """Keeps records and tables on disk from now on. At most half of their present bytes stay in
        memory, with the part `at_once` that is read before a call of `looked_at`. False if the disk
        is full: nothing is changed then.
        """
        # more places than the disk has room for would waste addresses
        fitting = (disk.free + self.memory) // (SHARDS * self.width)
        most = min(MOST_PER_SHARD, max(self.most, int(fitting)))
        groups = max(self.most_groups, -(-most // self.room))
        try:
            new = self._regions(disk, most, groups)
        except MemoryError as error:
            disk.why = str(error)
            return False
        used = {"states": self.counts * self.width + SLACK, "tables": self.groups * GROUP}
        for name, (region, addresses) in new.items():
            for address, size in zip(addresses, used[name], strict=True):
                if not disk.take(name, int(address) - region.address, int(size)):
                    return False
        for name, (region, addresses) in new.items():
            before, olds = self._region(name)
            each = before.size // SHARDS
            for shard, size in enumerate(used[name].tolist()):
                source, target = int(olds[shard]) - before.address, int(addresses[shard])
                target -= region.address
                region.array[target : target + size] = before.array[source : source + size]
                region.forget(target, region.size // SHARDS)
                before.forget(source, each)
        self._use(disk, new, most, groups)
        self.at_once, self.most_fresh = at_once, self.held // 2
        return True

    def _regions(self, disk: Disk, most: int, groups: int) -> dict[str, tuple[Region, Any]]:
        """Regions on disk for records and tables, with the shards' addresses. Raises
        MemoryError.
        """
        widest = self.width if self.parts is None else self.parts.widest
        sizes = {"states": most * widest + SLACK, "tables": groups * GROUP}
        new: dict[str, tuple[Region, Any]] = {}
        for name, size in sizes.items():
            region = disk.region(name, _whole_pages(size) * SHARDS)
            new[name] = region, _divided(region, range(SHARDS))
        return new

    def _use(self, disk: Disk, new: dict[str, tuple[Region, Any]], most: int, groups: int) -> None:
        (self._states, self.states), (self._tables, self.tables) = new["states"], new["tables"]
        self.most, self.most_groups = most, groups
        self.places = self.counts.copy()
        self._pass()
        self.disk = disk

    def reopen(self, disk: Disk, counts: Any, most: int, at_once: float, most_fresh: int) -> None:
        """Takes over another process's records on disk: the first `counts` of each shard, which
        holds at most `most`. The tables are empty (see `found_again`). Up to `most_fresh` bytes of
        records and tables stay in memory, with the part `at_once` (see `spill`). Raises
        MemoryError.
        """
        self.form[WIDTH] = self.width if self.parts is None else self.parts.width
        self.counts[:] = counts
        groups = max(LEAST_GROUPS, -(-most // self.room))
        self._use(disk, self._regions(disk, most, groups), most, groups)
        self.at_once, self.most_fresh = at_once, most_fresh

    def found_again(self, shard: int) -> bool:
        """Fills a shard's table on disk, with room for a tenth more states. False if the disk is
        full.
        """
        count = int(self.counts[shard]) + BLOCK
        groups = max(LEAST_GROUPS, -(-(count + count // 10) // self.room))
        self.groups[shard] = min(groups, self.most_groups)
        if not self._take("tables", shard, GROUP * int(self.groups[shard])):
            return False
        self._index(shard)
        self.looked_at(sum(self._sizes(shard).values()))
        return True

    def all_given(self, shard: int, used: Any) -> bool:
        """Whether the numbers in a shard's records are below those of `used`, for each part."""
        if self.parts is None:
            return True
        numbers = np.zeros(len(used), dtype=np.int64)
        return bool(
            all_given(
                self.states[shard], self.counts[shard], self.named[shard], self.rows_of_parts,
                used, self.width, numbers,
            )
        )  # fmt: skip

    def written(self, shard: int, start: int, end: int) -> Iterator[bytes]:
        """A shard's records from position `start` up to `end`, as they are in the file."""
        assert self.disk is not None
        place = int(self.states[shard]) - self._states.address
        return self.disk.read(place + start * self.width, (end - start) * self.width)

    def looked_at(self, size: int) -> None:
        """Counts up to `size` bytes of records and tables that a worker has read. Reading brings
        pages from disk into memory; if they are too many, they are released.
        """
        self.fresh += size
        if self.disk is not None and self.fresh > self.most_fresh:
            self.fresh = 0
            for region in (self._states, self._tables):
                region.forget(0, region.size)

    def bring(self, shard: int) -> None:
        """Reads a shard's records and table from their files into memory."""
        for name, size in self._sizes(shard).items():
            region, addresses = self._region(name)
            region.bring(int(addresses[shard]) - region.address, size)

    def _sizes(self, shard: int) -> dict[str, int]:
        """The bytes of a shard's records, and of its table."""
        return {
            "states": int(self.counts[shard]) * self.width,
            "tables": int(self.groups[shard]) * GROUP,
        }

    def bytes_of(self, shard: int, start: int, end: int) -> bytes:
        """A shard's packed states from position `start` up to `end`, contiguous."""
        return self._packed(shard, start, end).tobytes()

    def between(self, starts: Sequence[int], ends: Sequence[int]) -> bytes:
        """The packed states of each shard from its start up to its end, shard by shard."""
        first, last = np.array(starts), np.array(ends)
        room, numbers = self._room_for(int((last - first).sum()))
        packed_between(
            self.states, first, last, self.named, self.form, self.rows_of_parts, numbers,
            room.ctypes.data,
        )  # fmt: skip
        return room[:-SLACK].tobytes()

    def _packed(self, shard: int, start: int, end: int) -> Any:
        room, numbers = self._room_for(end - start)
        packed_states(
            self.states[shard], start, end - start, self.named[shard], self.form,
            self.rows_of_parts, numbers, 0, room.ctypes.data,
        )  # fmt: skip
        return room[:-SLACK]

    def _room_for(self, count: int) -> tuple[Any, Any]:
        """New arrays for `count` packed states, and for their parts' numbers."""
        numbers = np.empty(count * len(self.rows_of_parts), dtype=np.int64)
        return np.empty(count * self.stride + SLACK, dtype=np.uint8), numbers

    def rows(self, shard: int, start: int = 0, end: int | None = None) -> Iterator[Any]:
        """A shard's packed states as rows of bytes, some thousands at a time."""
        last = int(self.counts[shard]) if end is None else end
        for at in range(start, last, AT_ONCE):
            yield self._packed(shard, at, min(at + AT_ONCE, last)).reshape(-1, self.stride)

    def all_rows(self) -> Iterator[Any]:
        """The packed states of all shards as rows of bytes, some thousands at a time."""
        for shard in range(SHARDS):
            yield from self.rows(shard)
            self.looked_at(self.held // SHARDS)

    def index(self, shard: int) -> None:
        """Rebuilds a shard's table in a size for the shard's states."""
        count = int(self.counts[shard])
        groups = LEAST_GROUPS
        while groups * self.room < count + BLOCK and groups < self.most_groups:
            groups = min(groups * 2, self.most_groups)
        self.groups[shard] = groups
        self._index(shard)

    @property
    def room(self) -> int:
        """The most states for each group of a table."""
        return int(self.form[ROOM])

    @property
    def width(self) -> int:
        """The bytes of a record."""
        return int(self.form[WIDTH])

    @property
    def memory(self) -> int:
        """The touched bytes of memory."""
        parts = 0 if self.parts is None else self.parts.memory
        if self.disk is None:
            return self.held + parts
        return min(self.held, self.most_fresh + int(self.at_once * self.held)) + parts

    @property
    def held(self) -> int:
        """The bytes of records and tables."""
        return int(self.counts.sum()) * self.width + int(self.groups.sum()) * GROUP
