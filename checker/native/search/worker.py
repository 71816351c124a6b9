"""The work of a thread: it expands states, sorts successors by owner, and finds predecessors."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import Any

import numpy as np
from numpy import uint64

from ..cache.kernel import Kernel
from ..codegen.property_groups import HELD, KNOWN, NOTES, WATCHED
from ..codegen.sharing import FLAG_BITS
from ..codegen.simd import LANES
from ..jit.functions import Passed, compiled
from ..jit.memory import Region, call_expand, prefetch, scratch
from ..store.packed_records import (
    SHORT,
    copy_exactly,
    copy_short,
    copy_state,
    first_word,
    hash_short,
    hash_state,
    hashed,
    owner_of_whole,
    same,
    same_state,
)
from ..store.parts import (
    begin_fold,
    end_fold,
    known_to_hold,
    note_held,
    owner_of,
    write_record,
)
from ..store.store import (
    BLOCK,
    SHARDS,
    SLACK,
    STRIDE,
    WIDTH,
    Finer,
    Store,
    packed_states,
)

LINE = 8  # numbers of 64 bits in a cache line
SLICE = 32  # states expanded before their successors are dealt
SPAN = 1 << 12  # states that a thread takes at a time
ALL = (1 << FLAG_BITS) - 1  # flags of all violations
MOST_KEPT = 64  # most states of a level whose predecessors are sought
HASHES = 1 << 12  # hashes of sought successors; collisions are possible
WAYS = 4  # possible places of a state in the table of sent states
MOST_FILLED = 1 << 17  # most states in a bucket before it is emptied


@compiled
def owners(states, count, stride, found):
    """Writes the shards that own packed states to `found`."""
    for i in range(count):
        state = states + i * stride
        found[i] = owner_of_whole(hash_state(state, stride - 1), state, stride)


@compiled
def deal(states, count, stride, width, buckets, filled):
    """Puts the first `width` bytes of packed states (the record, or the whole state) into the
    buckets of their owners; returns the count of the fullest bucket.
    """
    of_record, fullest = stride - 1, 0
    if width <= SHORT:  # one test for all states, which is faster
        mask = first_word(of_record)
        for i in range(count):
            state = states + i * stride
            owner = owner_of_whole(hash_short(state, of_record, mask), state, stride)
            here = filled[owner]
            copy_short(state, buckets[owner] + here * width, width)
            filled[owner] = here + 1
            fullest = max(fullest, here + 1)
    else:
        for i in range(count):
            state = states + i * stride
            owner = owner_of_whole(hash_state(state, of_record), state, stride)
            here = filled[owner]
            copy_state(state, buckets[owner] + here * width, width)
            filled[owner] = here + 1
            fullest = max(fullest, here + 1)
    return fullest


@compiled
def drop_sent(states, count, stride, sent, mask):
    """Drops packed states, or records of one shard, that are in the table `sent`, and adds the
    others to it; returns the number that is left.

    The table has `mask` + 1 places in groups of WAYS; each group holds its last states. States are
    compared whole, so none is dropped wrongly. A place of zeros is empty, so the state of zeros,
    whose hash is 0, is never dropped.
    """
    places = scratch(BLOCK)
    is_short, word = stride <= SHORT, first_word(stride)
    kept = 0
    for first in range(0, count, BLOCK):
        block = min(BLOCK, count - first)
        for i in range(block):
            h = hashed(states + (first + i) * stride, stride, is_short, word)
            places[i] = uint64(0)
            if h != uint64(0):
                place = sent + np.int64((h >> uint64(16)) & uint64(mask + 1 - WAYS)) * stride
                places[i] = uint64(place)
                prefetch(place)
                prefetch(place + WAYS * stride - 1)
        for i in range(block):
            state = states + (first + i) * stride
            place = np.int64(places[i])
            if place != 0:
                way = 0
                while way < WAYS and not same(state, place + way * stride, stride, is_short, word):
                    way += 1
                if way < WAYS:
                    continue
                for way in range(WAYS - 1, 0, -1):
                    copy_exactly(place + (way - 1) * stride, place + way * stride, stride)
                copy_exactly(state, place, stride)
            copy_state(state, states + kept * stride, stride)
            kept += 1
    return kept


@compiled
def drop_sent_of_all(buckets, filled, first, last, stride, sent, mask):
    """Drops the states in the tables at `sent`, one table for each shard, from the buckets of the
    shards `first` up to `last`. Each table fits into a processor's cache.
    """
    for shard in range(first, last):
        table = sent + shard * (mask + 1) * stride
        filled[shard] = drop_sent(buckets[shard], filled[shard], stride, table, mask)


@compiled
def drop_rows(out, rows, count, stride, off):
    """Drops the successors by rows that are switched off; returns the number that is left."""
    kept = 0
    for i in range(count):
        if off[rows[i]] == 0:
            copy_state(out + i * stride, out + kept * stride, stride)
            rows[kept] = rows[i]
            kept += 1
    return kept


@compiled
def deal_numbers(numbers, count, width, parts, buckets, filled):
    """Puts the records of states, given by their parts' numbers, into the buckets of their owners;
    returns the count of the fullest bucket.
    """
    several = parts.shape[0]
    fullest = 0
    begin = numbers.ctypes.data
    for own in range(begin, begin + 8 * several * count, 8 * several):
        owner = uint64(owner_of(own, several))
        here = filled[owner]
        write_record(own, parts, buckets[owner] + width * here)
        filled[owner] = here + 1
        fullest = max(fullest, here + 1)
    return fullest


@compiled
def expand_each(
    expand, states, count, stride, out, rows, bad, bad_count, parts, known, numbers, sought, off
):
    """Expands states one by one, and begins to look up the numbers of their successors' parts.

    `known` has the numbers of the states' parts. Returns the number of successors in `out`, and the
    number of parts that are still to be looked up (see `begin_fold`).
    """
    several = parts.shape[0]
    written, left = 0, np.int64(0)  # not a literal: Numba would compile a second version
    for i in range(count):
        bad_count[KNOWN], bad_count[HELD] = known_to_hold(parts, known, several * i), 0
        noted, state, successors = bad_count[0], states + i * stride, out + written * stride
        new = call_expand(
            expand,
            state,
            1,
            successors,
            rows.ctypes.data + 4 * written,
            bad.ctypes.data,
            bad_count.ctypes.data,
        )
        if bad_count[0] > noted:
            bad[noted] += uint64(i) << uint64(FLAG_BITS)
        if bad_count[HELD]:
            note_held(bad_count[HELD], parts, known, several * i)
        if off.size:
            new = drop_rows(successors, rows[written:], new, stride, off)
        left = begin_fold(
            successors, new, stride, state, known[several * i :], parts, numbers, several * written,
            sought, left,
        )  # fmt: skip
        written += new
    bad_count[KNOWN] = 0
    return written, left


@compiled
def scatter(
    expand, states, first, count, shard, whole, form, parts, own, room, known, numbers, sought, out,
    rows, bad, bad_count, taken, buckets, filled, most_filled, off,
):  # fmt: skip
    """Expands a shard's states from position `first` on, and puts each successor into the bucket of
    its owner, except successors by rows that are switched `off`. If records are numbers, buckets
    have such records, or `whole` states by their hash.

    Returns the number of expanded states: fewer than `count` if a bucket holds over `most_filled`
    states, or if there is no room for parts.
    """
    stride, width, several = form[STRIDE], form[WIDTH], parts.shape[0]
    by_parts = several > 0 and not whole
    done = 0
    fullest = 0
    for owner in range(filled.size):  # an earlier span may have filled a bucket
        fullest = max(fullest, filled[owner])
    while done < count and fullest <= most_filled:
        part = min(SLICE, count - done)
        before = bad_count[0]
        packed_states(states, first + done, part, shard, form, parts, known, 0, room)
        if by_parts:
            written, left = expand_each(
                expand, room, part, stride, out, rows, bad, bad_count, parts, known, numbers,
                sought, off,
            )  # fmt: skip
            if not end_fold(stride, parts, own, sought, left):
                bad_count[0] = before
                return done
        else:
            written = call_expand(
                expand, room, part, out, rows.ctypes.data, bad.ctypes.data, bad_count.ctypes.data
            )
            if off.size:
                written = drop_rows(out, rows, written, stride, off)
        for i in range(before, bad_count[0]):
            bad[i] += uint64(done) << uint64(FLAG_BITS)
        for i in range(written):
            taken[rows[i]] += 1
        if by_parts:
            here = deal_numbers(numbers, written, width, parts, buckets, filled)
        else:
            here = deal(out, written, stride, stride if whole else width, buckets, filled)
        fullest = max(fullest, here)
        done += part
    return done


@compiled
def note_hashes(states, count, stride, noted):
    """Marks the hashes of packed states in `noted` (see `find`)."""
    for i in range(count):
        noted[hash_state(states + i * stride, stride) & uint64(HASHES - 1)] = 1


@compiled
def find(
    expand, states, first, count, shard, form, parts, room, known, out, rows, bad, bad_count, off,
    targets, several, noted, hits,
):  # fmt: skip
    """Writes to `hits` those of a shard's `count` states from position `first` on that have one of
    the `several` packed states at `targets` as a successor, by a row that isn't switched `off`.
    `noted` has the hashes of the targets.
    """
    stride = form[STRIDE]
    found = 0
    for i in range(count):
        bad_count[0] = 0
        packed_states(states, first + i, 1, shard, form, parts, known, 0, room)
        written = call_expand(
            expand, room, 1, out, rows.ctypes.data, bad.ctypes.data, bad_count.ctypes.data
        )
        is_one = False
        for j in range(written):
            successor = out + j * stride
            if not noted[hash_state(successor, stride) & uint64(HASHES - 1)]:
                continue
            if off.size and off[rows[j]]:
                continue
            for target in range(several):
                is_one |= same_state(successor, targets + target * stride, stride)
        if is_one:
            hits[found] = i
            found += 1
    return found


class Worker:
    """One thread's buffers. `buckets` and `filled` have a place for each shard.

    A bucket with over `most_filled` states must be emptied before the next expansion.
    """

    def __init__(
        self,
        kernel: Kernel,
        stride: int,
        rows: int,
        buckets: Any,
        filled: Any,
        most_filled: int = MOST_FILLED,
    ) -> None:
        self.kernel = kernel
        self.stride = stride
        self.most_filled = most_filled
        self.burst = SLICE * max(1, kernel.most_successors)
        self.out = Region(self.burst * stride + SLACK)
        self.room = Region(SLICE * stride + SLACK)
        self.rows = np.zeros(self.burst + LANES, dtype=np.uint32)
        self.bad = np.zeros(SPAN, dtype=np.uint64)
        self.bad_count = np.zeros(NOTES, dtype=np.int64)
        self.bad_count[WATCHED] = ALL
        self.taken = np.zeros(rows, dtype=np.int64)
        self.off = np.zeros(0, dtype=np.uint8)  # empty, or 1 for each row that is switched off
        self._bytes = (most_filled + self.burst) * stride  # of a bucket
        # all buckets fill alike: the offset of 64 bytes keeps their ends in different cache sets
        size = (self._bytes + SLACK + 4095) // 4096 * 4096 + 64
        self.area = Region(size * SHARDS)
        self.buckets = buckets
        self.buckets[:] = self.area.address + size * np.arange(SHARDS, dtype=np.int64)
        self.filled = filled
        self.fullest = np.zeros(SHARDS, dtype=np.int64)  # in bytes
        self.finer = Finer(stride)
        self.work_on(0)

    def switch_off(self, rows: Collection[int]) -> None:
        """Takes no step by these rows (the kernel's numbers). No other row replaces them."""
        self.off = np.zeros(len(self.taken), dtype=np.uint8)
        self.off[[*rows]] = 1
        self.passed = None

    def work_on(self, parts: int) -> None:
        """Makes buffers for states of `parts` parts."""
        self.passed: Passed | None = None
        # threads write here all the time: each has its own cache lines
        self.own = np.zeros((LINE + parts, 2), dtype=np.int64)[LINE // 2 :]
        self.known = np.zeros(parts * SLICE, dtype=np.int64)
        self.numbers = np.zeros(parts * self.burst, dtype=np.int64)
        self.sought = np.zeros((parts * self.burst, 4), dtype=np.int64)

    def use_all_room(self, width: int) -> None:
        """Lets buckets hold as many records of `width` bytes as they have room for."""
        most_filled = self._bytes // width - self.burst
        if most_filled != self.most_filled:
            self.most_filled, self.passed = most_filled, None

    def touched(self, width: int) -> int:
        """The bytes of the buckets that have been in use, with records of `width` bytes now."""
        return int(np.maximum(self.fullest, self.filled * width).sum())

    def put(self, states: bytes, store: Store) -> bool:
        """Puts contiguous packed states into a store; False if there is no room. The buckets are
        empty afterwards.
        """
        area = Region(len(states) + SLACK)
        area.array[: len(states)] = np.frombuffer(states, dtype=np.uint8)
        return self.put_from(area.address, len(states) // self.stride, store)

    def put_from(self, address: int, count: int, store: Store) -> bool:
        """Puts `count` contiguous packed states at an address, with SLACK bytes after them, into a
        store.
        """
        at, fullest = 0, 0
        while at < count:
            left = self.most_filled + self.burst - fullest  # in each bucket
            room = left if store.parts is None else self.burst
            part = min(room, count - at)
            fullest = self._deal(address + at * self.stride, part, store)
            at += part
            if fullest < 0:
                self.empty(store.width)
                return False
            if at == count or fullest > self.most_filled:
                fullest = 0
                if not self._flush(store):
                    return False
        return True

    def _deal(self, states: int, count: int, store: Store) -> int:
        """Puts states into buckets; returns the count of the fullest one, or -1 if there is no room
        for parts.
        """
        if store.parts is None:
            return int(deal(states, count, self.stride, store.width, self.buckets, self.filled))
        parts = store.rows_of_parts
        while not self.fold(states, count, parts):
            if not (self._flush(store) and store.ready()):
                return -1
        return int(deal_numbers(self.numbers, count, store.width, parts, self.buckets, self.filled))

    def _flush(self, store: Store) -> bool:
        """Empties the buckets into a store; False if there is no room."""
        filled = self.filled[np.newaxis]
        buckets = Passed(self.buckets[np.newaxis], filled, np.zeros_like(filled))
        done = store.insert(0, 1, buckets)
        self.empty(store.width)
        return done

    def fold(self, states: int, count: int, parts: Any) -> bool:
        """Looks up the parts' numbers of at most `burst` contiguous packed states; False if there
        is no room for parts.
        """
        left = begin_fold(
            states, count, self.stride, 0, self.known, parts, self.numbers, 0, self.sought, 0
        )
        return end_fold(self.stride, parts, self.own, self.sought, left)

    def empty(self, width: int) -> None:
        """Empties the buckets of records of `width` bytes, and records their fill levels."""
        np.maximum(self.fullest, self.filled * width, out=self.fullest)
        self.filled[:] = 0

    def scatter(
        self, store: Store, shard: int, first: int, count: int, *, whole: bool = False
    ) -> int:
        """Expands up to SPAN states; returns the number of expanded ones (see the function
        `scatter`).
        """
        self.bad_count[0] = 0
        return int(
            scatter(
                self.kernel.block_address if store.parts is None else self.kernel.address,
                store.states[shard],
                first,
                count,
                store.named[shard],
                whole,
                self._passed(store),
            )
        )

    def _passed(self, store: Store) -> Passed:
        """The arguments that all calls of `scatter` share."""
        if self.passed is None or self.passed.arguments[0] is not store.form:
            self.passed = Passed(
                store.form, store.rows_of_parts, self.own, self.room.address, self.known,
                self.numbers, self.sought, self.out.address, self.rows, self.bad, self.bad_count,
                self.taken, self.buckets, self.filled, self.most_filled, self.off,
            )  # fmt: skip
        return self.passed

    def drop_sent(self, owned: range, width: int, sent: int, mask: int) -> None:
        """Drops sent states from the buckets of these shards (see `drop_sent_of_all`)."""
        first, last = owned.start, owned.stop
        drop_sent_of_all(self.buckets, self.filled, first, last, width, sent, mask)

    def noted(self) -> Iterator[tuple[int, int]]:
        """The violations in the states of the last expansion: the index of a state, and its
        flags.
        """
        for note in self.bad[: self.bad_count[0]]:
            yield int(note) >> FLAG_BITS, int(note) & ALL

    def predecessors(
        self, store: Store, ranges: Iterable[tuple[int, tuple[int, int]]], states: Sequence[bytes]
    ) -> list[bytes]:
        """The least packed states, at most MOST_KEPT, that have one of `states` as a successor.
        `ranges` are the positions to search in each shard.
        """
        targets = Region(len(states) * self.stride + SLACK)
        targets.array[: len(states) * self.stride] = np.frombuffer(b"".join(states), dtype=np.uint8)
        noted, hits = np.zeros(HASHES, dtype=np.uint8), np.zeros(SPAN, dtype=np.int64)
        note_hashes(targets.address, len(states), self.stride, noted)
        least: list[bytes] = []
        for shard, (start, end) in ranges:
            for at in range(start, end, SPAN):
                part = min(SPAN, end - at)
                found = find(
                    self.kernel.address, store.states[shard], at, part, store.named[shard],
                    store.form,
                    store.rows_of_parts, self.room.address, self.known, self.out.address,
                    self.rows, self.bad, self.bad_count, self.off, targets.address, len(states),
                    noted, hits,
                )  # fmt: skip
                new = [store.bytes_of(shard, at + int(n), at + int(n) + 1) for n in hits[:found]]
                least = nsmallest(MOST_KEPT, least + new)
            store.looked_at((end - start) * store.width)
        return least
