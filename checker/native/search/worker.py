"""The work of a thread: expand them, sort the successors by owner, look back."""

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

LINE = 8  # numbers of 64 bits in a line of the cache
SLICE = 32  # states expanded between two looks at what they gave
SPAN = 1 << 12  # states that a thread takes at a time
ALL = (1 << FLAG_BITS) - 1  # flags of what is looked for
MOST_KEPT = 64  # states of a level that are looked back at
HASHES = 1 << 12  # of states that are looked back at, of which some may have the same
WAYS = 4  # places of a table of what was sent where a state may be
MOST_FILLED = 1 << 17  # states in a bucket from which on it is emptied first


@compiled
def owners(states, count, stride, found):
    """Writes to `found` which shards own packed states."""
    for i in range(count):
        state = states + i * stride
        found[i] = owner_of_whole(hash_state(state, stride - 1), state, stride)


@compiled
def deal(states, count, stride, width, buckets, filled):
    """Puts the first `width` bytes of packed states, their records or all of them, into the buckets
    of the shards that own them; returns the fullest's count."""
    of_record, fullest = stride - 1, 0
    if width <= SHORT:  # asked once for all, which is faster
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
    """Drops packed states, or records of one shard, that the table `sent` holds, which keeps the
    others; returns how many are left.

    The table has `mask` + 1 places in groups of WAYS, each for the last ones that were to go
    there. They are compared whole, so that none is dropped for another. A place of zeros is empty:
    so zeros, whose hash is 0, are never dropped.
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
    """Drops the states that the tables at `sent` hold, one for each shard, from the buckets of the
    shards `first` up to `last`: each of them fits into a cache."""
    for shard in range(first, last):
        table = sent + shard * (mask + 1) * stride
        filled[shard] = drop_sent(buckets[shard], filled[shard], stride, table, mask)


@compiled
def drop_rows(out, rows, count, stride, off):
    """Drops the successors by rows that are switched off; returns how many are left."""
    kept = 0
    for i in range(count):
        if off[rows[i]] == 0:
            copy_state(out + i * stride, out + kept * stride, stride)
            rows[kept] = rows[i]
            kept += 1
    return kept


@compiled
def deal_numbers(numbers, count, width, parts, buckets, filled):
    """Puts the records of states, of which the parts' numbers are given, into the buckets of the
    shards that own them; returns the fullest's count."""
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
    """Expands states one by one, and begins to find the numbers of their successors' parts.

    `known` has the states' own numbers. Returns how many successors were written to `out`, and how
    many parts' numbers are left to be found (see `begin_fold`).
    """
    several = parts.shape[0]
    written, left = 0, np.int64(0)  # a literal would be compiled for by itself
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
    """Expands a shard's states from position `first` on and puts each successor into the bucket of
    the shard that owns it, but for those by rows that are switched `off`. Where records are
    numbers, buckets have such records, or whole states by their hash.

    Returns how many were expanded: fewer than `count` where a bucket holds over `most_filled`, and
    where there is no room for parts.
    """
    stride, width, several = form[STRIDE], form[WIDTH], parts.shape[0]
    by_parts = several > 0 and not whole
    done = 0
    fullest = 0
    for owner in range(filled.size):  # by spans before, which may have ended with a full bucket
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
    """Notes which hashes some packed states have (see `find`)."""
    for i in range(count):
        noted[hash_state(states + i * stride, stride) & uint64(HASHES - 1)] = 1


@compiled
def find(
    expand, states, first, count, shard, form, parts, room, known, out, rows, bad, bad_count, off,
    targets, several, noted, hits,
):  # fmt: skip
    """Notes in `hits` which of a shard's `count` states from position `first` on have one of the
    `several` packed states at `targets`, whose hashes are `noted`, as a successor by a row that
    isn't switched `off`."""
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

    A bucket that holds over `most_filled` states is to be emptied before more is expanded.
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
        self.off = np.zeros(0, dtype=np.uint8)  # or for each row whether it is switched off
        # all fill up alike: so that their ends don't meet in the same sets of the cache
        size = ((most_filled + self.burst) * stride + SLACK + 4095) // 4096 * 4096 + 64
        self.area = Region(size * SHARDS)
        self.buckets = buckets
        self.buckets[:] = self.area.address + size * np.arange(SHARDS, dtype=np.int64)
        self.filled = filled
        self.fullest = np.zeros(SHARDS, dtype=np.int64)  # in bytes
        self.finer = Finer(stride)
        self.work_on(0)

    def switch_off(self, rows: Collection[int]) -> None:
        """Takes no step by these rows, as the kernel numbers them, and none in their place."""
        self.off = np.zeros(len(self.taken), dtype=np.uint8)
        self.off[[*rows]] = 1
        self.passed = None

    def work_on(self, parts: int) -> None:
        """Prepares for states of so many parts."""
        self.passed: Passed | None = None
        # threads write here all the time: none of them shares a line of the cache with another
        self.own = np.zeros((LINE + parts, 2), dtype=np.int64)[LINE // 2 :]
        self.known = np.zeros(parts * SLICE, dtype=np.int64)
        self.numbers = np.zeros(parts * self.burst, dtype=np.int64)
        self.sought = np.zeros((parts * self.burst, 4), dtype=np.int64)

    def touched(self, width: int) -> int:
        """Bytes of the buckets that have been in use, with records of so many bytes now."""
        return int(np.maximum(self.fullest, self.filled * width).sum())

    def put(self, states: bytes, store: Store) -> bool:
        """Puts packed states, one behind the other, into a store; False without room there.
        Nothing stays in the buckets."""
        area = Region(len(states) + SLACK)
        area.array[: len(states)] = np.frombuffer(states, dtype=np.uint8)
        return self.put_from(area.address, len(states) // self.stride, store)

    def put_from(self, address: int, count: int, store: Store) -> bool:
        """The same with states at an address, behind which there are SLACK bytes."""
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
        """Puts states into buckets; returns the fullest's count, -1 without room for parts."""
        if store.parts is None:
            return int(deal(states, count, self.stride, store.width, self.buckets, self.filled))
        parts = store.rows_of_parts
        while not self.fold(states, count, parts):
            if not (self._flush(store) and store.ready()):
                return -1
        return int(deal_numbers(self.numbers, count, store.width, parts, self.buckets, self.filled))

    def _flush(self, store: Store) -> bool:
        """Empties the buckets into a store; False without room there."""
        filled = self.filled[np.newaxis]
        buckets = Passed(self.buckets[np.newaxis], filled, np.zeros_like(filled))
        done = store.insert(0, 1, buckets)
        self.empty(store.width)
        return done

    def fold(self, states: int, count: int, parts: Any) -> bool:
        """Finds the numbers of packed states, one behind the other; False without room for parts.
        There are at most `burst` of them."""
        left = begin_fold(
            states, count, self.stride, 0, self.known, parts, self.numbers, 0, self.sought, 0
        )
        return end_fold(self.stride, parts, self.own, self.sought, left)

    def empty(self, width: int) -> None:
        """Empties the buckets of records of so many bytes, and remembers how full they were."""
        np.maximum(self.fullest, self.filled * width, out=self.fullest)
        self.filled[:] = 0

    def scatter(
        self, store: Store, shard: int, first: int, count: int, *, whole: bool = False
    ) -> int:
        """Expands up to SPAN states; returns how many (see the function `scatter`)."""
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
        """The violations in the states expanded last: a state's index among them, and flags."""
        for note in self.bad[: self.bad_count[0]]:
            yield int(note) >> FLAG_BITS, int(note) & ALL

    def predecessors(
        self, store: Store, ranges: Iterable[tuple[int, tuple[int, int]]], states: Sequence[bytes]
    ) -> list[bytes]:
        """The least packed states that have one of these as a successor, of the positions in each
        of some shards: at most MOST_KEPT."""
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
