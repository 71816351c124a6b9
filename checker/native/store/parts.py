"""Packed states cut into parts: equal parts are stored once.

A part is some adjacent words of a state. Each different content of it is stored once and has a
number. A state is the numbers of its parts, with as many bits as the number of contents needs. No
state is lost by a hash collision. A successor differs from its predecessor in few parts: the
numbers of the others need no look-up.

This is the recursive state compression of Laarman, van de Pol and Weber (SPIN 2011) with a tree of
one level, or Holzmann's COLLAPSE (1997). Here a sample of the states decides where parts begin and
end (`part_plan`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import uint32, uint64

from ..jit.functions import compiled
from ..jit.hashing import MIXER, MULTIPLIER
from ..jit.memory import (
    Region,
    compare_exchange32,
    fetch_add,
    load32,
    load32_acquire,
    load64,
    prefetch,
    store8,
    store32,
    store64,
)
from .packed_records import SHARD_BITS
from .part_plan import Plan

CHUNK = 64  # numbers that a thread takes at a time
LEAST_SLOTS = 1 << 10
SLOTS_AT_ONCE = 1 << 20
LEAST_BITS, MORE_BITS, MOST_BITS = 10, 2, 32  # of a number; it grows by MORE_BITS
KEYS, SLOTS, SIZE, LIMIT, USED, FIRST, WORDS, BITS, GROUPS, HELD_IN = range(10)
"""The fields of a part's row: the addresses of its contents and of the slots of their hash table;
the number of slots; the most numbers that may be given, and the given ones; its first word and its
number of words; the bits of its numbers; the groups of properties that read only this part, and the
address of a byte for each content with the groups that have held (see `judging`).
"""
FIELDS = 10


@compiled(inline="always")
def last_bits(end, stride):
    """A mask of the bits of a packed state in the word before word `end`. The last word of a state
    is read with up to 7 bytes after the state.
    """
    return ~uint64(0) >> uint64(8 * max(0, 8 * end - stride))


@compiled(inline="always")
def slot_of(h, size):
    """The first slot of the search for a content."""
    return np.int64(((h >> uint64(32)) * uint64(size)) >> uint64(32))


@compiled(inline="always")
def numbers_in(size):
    """A mask of the bits of a slot that hold a number plus 1. The other bits hold a part of the
    hash, so few contents are compared in vain.
    """
    return uint64(size - 1) & uint64(0xFFFFFFFF)


@compiled(inline="always")
def mark_of(h, numbers):
    """The bits of a hash that a slot holds."""
    return h & uint64(0xFFFFFFFF) & ~numbers


@compiled(inline="always")
def hash_part(content, words, last):
    """A hash of 64 bits of the words of a part at an address; `last` masks the last word."""
    summed, factor = (load64(content + 8 * words - 8) & last) * MULTIPLIER, MIXER
    for at in range(words - 1):
        word = load64(content + 8 * at)
        summed += (word ^ (word >> uint64(32))) * factor
        factor += MULTIPLIER + MULTIPLIER
    summed = (summed ^ (summed >> uint64(32))) * MIXER
    return summed ^ (summed >> uint64(29))


@compiled(inline="always")
def same_words(a, b, words, last):
    """Whether the words at two addresses are equal; `last` masks the last word."""
    different = (load64(a + 8 * words - 8) ^ load64(b + 8 * words - 8)) & last
    for at in range(words - 1):
        different |= load64(a + 8 * at) ^ load64(b + 8 * at)
    return different == uint64(0)


@compiled(inline="always")
def number_at(address, place):
    """The number of 64 bits at a place counted from an address."""
    return np.int64(load64(address + 8 * place))


@compiled(inline="always")
def prefetch_content(key, words):
    """Prefetches a content at an address, which may cross two cache lines."""
    prefetch(key)
    prefetch(key + 8 * words - 8)


@compiled(inline="always")
def likely_slot(h, row):
    """The first slot, from that of the hash on, that is empty or has the mark of the hash."""
    slots, size = number_at(row, SLOTS), number_at(row, SIZE)
    numbers = numbers_in(size)
    mark = mark_of(h, numbers)
    at = slot_of(h, size)
    while True:
        seen = uint64(load32_acquire(slots + 4 * at))
        if seen == uint64(0) or seen & ~numbers == mark:
            return at, np.int64(seen & numbers)
        at += 1
        if at == size:
            at = 0


@compiled(inline="always")
def intern(content, last, mark, at, row, own):
    """The number of the content at an address; `last` masks its last word. A new content gets the
    next number; -1 if no number is free.

    `mark` is that of its hash, and no slot before slot `at` has it. `row` is the address of the
    part's row. `own` is the address of the thread's free numbers: the first one and the end.
    """
    keys, slots, size = number_at(row, KEYS), number_at(row, SLOTS), number_at(row, SIZE)
    words, numbers = number_at(row, WORDS), numbers_in(size)
    mark &= ~numbers
    while True:
        seen = uint64(load32_acquire(slots + 4 * at))
        if seen == uint64(0):
            free = number_at(own, 0)
            if free == number_at(own, 1):
                free = fetch_add(row + 8 * USED, CHUNK)
                if free + CHUNK > number_at(row, LIMIT):
                    fetch_add(row + 8 * USED, -CHUNK)
                    return -1
                store64(own, uint64(free))
                store64(own + 8, uint64(free + CHUNK))
            key = keys + 8 * words * free
            for word in range(words):
                store64(key + 8 * word, load64(content + 8 * word))
            end = key + 8 * words - 8
            store64(end, load64(end) & last)
            # the content is visible before its number is
            held = uint32(mark | uint64(free + 1))
            seen = uint64(compare_exchange32(slots + 4 * at, uint32(0), held))
            if seen == uint64(0):
                store64(own, uint64(free + 1))
                return free
        if seen & ~numbers == mark:
            number = np.int64(seen & numbers) - 1
            if same_words(content, keys + 8 * words * number, words, last):
                return number
        at += 1
        if at == size:
            at = 0


@compiled(inline="always")
def known_to_hold(parts, numbers, at):
    """The groups of properties that are known to hold, from states with the same contents."""
    known = np.int64(0)
    for part in range(parts.shape[0]):
        if parts[part, GROUPS]:
            known |= np.int64(load32(parts[part, HELD_IN] + numbers[at + part]))
    return known & 0xFF


@compiled(inline="always")
def note_held(held, parts, numbers, at):
    """Records that these groups of properties hold in a state with these numbers."""
    for part in range(parts.shape[0]):
        new = held & parts[part, GROUPS]
        if new:
            place = parts[part, HELD_IN] + numbers[at + part]
            # a race may lose the other thread's bits: those groups are checked again
            store8(place, np.uint8((np.int64(load32(place)) | new) & 0xFF))


@compiled
def begin_fold(states, count, stride, before, known, parts, numbers, at, sought, left):
    """Writes the parts' numbers of packed states to `numbers` from place `at` on, for parts with
    the same content as in the state at `before` (0: no state). `known` has the numbers of that
    state.

    For each other part it appends a row to the `left` rows in `sought`: the content's address, its
    part, its place in `numbers` and a hash. Returns the new number of rows.
    """
    several = parts.shape[0]
    first_place, noted = numbers.ctypes.data + 8 * at, sought.ctypes.data
    for part in range(several):
        row = parts.ctypes.data + 8 * FIELDS * part
        first, words = 8 * number_at(row, FIRST), number_at(row, WORDS)
        slots, size = number_at(row, SLOTS), number_at(row, SIZE)
        last = last_bits(number_at(row, FIRST) + words, stride)
        content, place = states + first, first_place + 8 * part
        for _ in range(count):
            if before != 0 and same_words(content, before + first, words, last):
                store64(place, uint64(known[part]))
            else:
                h = hash_part(content, words, last)
                prefetch(slots + 4 * slot_of(h, size))
                note = noted + 32 * left
                store64(note, uint64(content))
                store64(note + 8, uint64(part))
                store64(note + 16, uint64(place))
                store64(note + 24, h)
                left += 1
            content += stride
            place += 8 * several
    return left


@compiled
def end_fold(stride, parts, own, sought, left):
    """Looks up the parts in `sought`; False if no number is free for one."""
    rows, begin = parts.ctypes.data, sought.ctypes.data
    end = begin + 32 * left
    for note in range(begin, end, 32):
        row = rows + 8 * FIELDS * number_at(note, 1)
        h, words = load64(note + 24), number_at(row, WORDS)
        at, held = likely_slot(h, row)
        prefetch_content(number_at(row, KEYS) + 8 * words * max(0, held - 1), words)
        store64(note + 24, (uint64(at) << uint64(32)) | (h & uint64(0xFFFFFFFF)))
    for note in range(begin, end, 32):
        part, found = number_at(note, 1), load64(note + 24)
        row = rows + 8 * FIELDS * part
        number = intern(
            number_at(note, 0),
            last_bits(number_at(row, FIRST) + number_at(row, WORDS), stride),
            found & uint64(0xFFFFFFFF),
            np.int64(found >> uint64(32)),
            row,
            own.ctypes.data + 16 * part,
        )
        if number < 0:
            return False
        store64(number_at(note, 2), uint64(number))
    return True


@compiled
def unfold(numbers, state, parts):
    """Writes the packed state of these numbers. It may overwrite up to 7 bytes after the state."""
    for part in range(parts.shape[0]):
        words = parts[part, WORDS]
        key = parts[part, KEYS] + 8 * words * numbers[part]
        target = state + 8 * parts[part, FIRST]
        for word in range(words):
            store64(target + 8 * word, load64(key + 8 * word))


@compiled(inline="always")
def _dealt(numbers, several):
    """A hash of eight bits of the numbers at an address, without the lowest eight bits of the first
    number. A record leaves those bits out: they follow from the hash and the shard.
    """
    summed, factor = (load64(numbers) >> uint64(SHARD_BITS)) * MIXER, MULTIPLIER
    for part in range(1, several):
        summed += load64(numbers + 8 * part) * factor
        factor += MIXER + MIXER
    return np.int64(((summed ^ (summed >> uint64(32))) * MIXER) >> uint64(64 - SHARD_BITS))


@compiled(inline="always")
def owner_of(numbers, several):
    """The shard that owns the state with the numbers at an address."""
    return _dealt(numbers, several) ^ (number_at(numbers, 0) & ((1 << SHARD_BITS) - 1))


@compiled
def write_record(numbers, parts, place):
    """Writes the record of a state's numbers at an address. It may overwrite some bytes after the
    record. Returns the two words of the record.
    """
    low, high, offset = uint64(0), uint64(0), 0
    for part in range(parts.shape[0]):
        number, bits = load64(numbers + 8 * part), parts[part, BITS]
        if part == 0:
            number >>= uint64(SHARD_BITS)
            bits -= SHARD_BITS
        if offset < 64:
            low |= number << uint64(offset)
            if offset + bits > 64:
                high |= number >> uint64(64 - offset)
        else:
            high |= number << uint64(offset - 64)
        offset += bits
    store64(place, low)
    if offset > 64:
        store64(place + 8, high)
    return low, high


@compiled
def read_record(place, shard, parts, numbers):
    """Reads a state's numbers from its record."""
    low, high, offset = load64(place), load64(place + 8), 0
    several = parts.shape[0]
    for part in range(several):
        bits = parts[part, BITS] - (SHARD_BITS if part == 0 else 0)
        if offset < 64:
            number = low >> uint64(offset)
            if offset + bits > 64:
                number |= high << uint64(64 - offset)
        else:
            number = high >> uint64(offset - 64)
        numbers[part] = np.int64(number & ((uint64(1) << uint64(bits)) - uint64(1)))
        offset += bits
    numbers[0] <<= SHARD_BITS
    numbers[0] |= shard ^ _dealt(numbers.ctypes.data, several)


@compiled
def rewrite_records(states, counts, width, parts, wider, widened, numbers, words):
    """Rewrites all shards' records with more bits for the parts' numbers. `numbers` and `words` are
    scratch memory for a state's numbers and a record's two words.
    """
    for shard in range(counts.size):
        for at in range(counts[shard] - 1, -1, -1):
            read_record(states[shard] + at * width, shard, parts, numbers)
            low, high = write_record(numbers.ctypes.data, widened, words.ctypes.data)
            for byte in range(wider):
                word = low if byte < 8 else high
                store8(
                    states[shard] + at * wider + byte,
                    np.uint8((word >> uint64(8 * (byte % 8))) & uint64(255)),
                )


@compiled
def move_slots(slots, size, parts, part):
    """Fills a part's empty hash table with the contents of the old `slots`."""
    for old in range(size):
        held = uint64(load32(slots + 4 * old)) & numbers_in(size)
        if held != uint64(0):
            _fill_slot(held, parts, part)


@compiled
def fill_slots(numbers, parts, part):
    """Fills a part's hash table with the contents of these numbers, which it doesn't hold."""
    for number in numbers:
        _fill_slot(uint64(number + 1), parts, part)


@compiled(inline="always")
def _fill_slot(held, parts, part):
    """Puts a number plus 1 into the first empty slot for its content."""
    words, size = parts[part, WORDS], parts[part, SIZE]
    h = hash_part(parts[part, KEYS] + 8 * words * (np.int64(held) - 1), words, ~uint64(0))
    at = slot_of(h, size)
    while load32(parts[part, SLOTS] + 4 * at) != 0:
        at += 1
        if at == size:
            at = 0
    store32(parts[part, SLOTS] + 4 * at, uint32(mark_of(h, numbers_in(size)) | held))


@compiled
def all_given(states, count, shard, parts, used, width, numbers):
    """Whether the numbers of all parts of `count` records are below `used`. `numbers` is scratch
    memory for a state's numbers.
    """
    for at in range(count):
        read_record(states + at * width, shard, parts, numbers)
        for part in range(parts.shape[0]):
            if numbers[part] >= used[part]:
                return False
    return True


class Parts:
    """The contents of all states' parts.

    Reserves `most` bytes for the contents of each part, by `region`, and calls `may_take` before it
    grows. `spans` has the words that groups of properties read. Raises MemoryError if the system
    can't reserve the memory.
    """

    def __init__(
        self,
        plan: Plan,
        most: int,
        may_take: Callable[[int], bool],
        region: Callable[[str, int], Region] = lambda _, size: Region(size),
        spans: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.may_take = may_take
        self._region = region
        ends = plan.ends
        self.rows = np.zeros((len(ends), FIELDS), dtype=np.int64)
        self.rows[:, FIRST] = 0, *ends[:-1]
        self.rows[:, WORDS] = np.array(ends) - self.rows[:, FIRST]
        self.rows[:, SIZE] = LEAST_SLOTS
        # a spare bit, to rewrite records rarely
        self.rows[:, BITS] = [max(LEAST_BITS, n.bit_length() + 1) for n in plan.contents]
        self.full_for_good = False  # a part has the most contents that it may have
        self._most = np.minimum(most // (8 * self.rows[:, WORDS]), (1 << MOST_BITS) - 1)
        self.regions = [region(f"contents-{part}", most) for part in range(len(ends))]
        self._slots = [self._slots_of(part) for part in range(len(ends))]
        self.held = [self._held_in(part, spans) for part in range(len(ends))]
        self.rows[:, KEYS] = [region.address for region in self.regions]
        self.rows[:, SLOTS] = [region.address for region in self._slots]
        self.allow(most)

    def _held_in(self, part: int, spans: Sequence[tuple[int, int]]) -> Region | None:
        """A byte for each content, if there are groups of properties that read only this part."""
        row = self.rows[part]
        begin, end = row[FIRST], row[FIRST] + row[WORDS]
        inside = (begin <= first and last <= end for first, last in spans)
        row[GROUPS] = sum(1 << group for group, is_inside in enumerate(inside) if is_inside)
        if not row[GROUPS]:
            return None
        held = self._region(f"held-{part}", int(self._most[part]) + CHUNK)
        row[HELD_IN] = held.address
        return held

    def _slots_of(self, part: int) -> Region:
        size = int(self.rows[part, SIZE])
        return self._region(f"slots-{part}-{size}", 4 * size)

    def resume(self, rows: Any) -> None:
        """Takes over the changes of another process to the regions; `rows` are that process's
        rows.
        """
        for part in np.flatnonzero(rows[:, SIZE] != self.rows[:, SIZE]):
            self.rows[part, SIZE] = rows[part, SIZE]
            self._slots[part] = self._slots_of(int(part))
            self.rows[part, SLOTS] = self._slots[part].address
        self.rows[:, [USED, BITS]] = rows[:, [USED, BITS]]
        self.rows[:, LIMIT] = self._room()

    def restore(self, slots: Any, used: Any, bits: Any) -> None:
        """Takes over the state of another process's parts, without the contents: the slots, the
        given numbers and the bits of each part. Raises MemoryError if there is no room.
        """
        if (used > self._most).any():
            raise MemoryError
        rows = self.rows.copy()
        rows[:, SIZE], rows[:, USED], rows[:, BITS] = slots, used, bits
        self.resume(rows)

    def put(self, part: int, numbers: Any, contents: Any) -> None:
        """Stores contents, given as rows of bytes, under numbers that another process gave."""
        self._contents(part)[numbers] = contents
        fill_slots(numbers, self.rows, part)

    def numbers(self, part: int, first: int) -> Any:
        """The numbers from `first` on that have a content, ascending."""
        size, found = int(self.rows[part, SIZE]), list[Any]()
        slots = self._slots[part].array[: 4 * size].view(np.uint32)
        for at in range(0, size, SLOTS_AT_ONCE):
            held = slots[at : at + SLOTS_AT_ONCE] & np.uint32(size - 1)
            found.append(held[held > first])
        return np.sort(np.concatenate(found)).astype(np.int64) - 1

    def contents(self, part: int, numbers: Any) -> Any:
        """The contents with these numbers, as rows of bytes."""
        return self._contents(part)[numbers]

    def _contents(self, part: int) -> Any:
        size = 8 * int(self.rows[part, WORDS])
        array = self.regions[part].array
        return array[: len(array) // size * size].reshape(-1, size)

    @property
    def width(self) -> int:
        """The bytes of a record."""
        return (int(self.rows[:, BITS].sum()) - SHARD_BITS + 7) // 8

    @property
    def widest(self) -> int:
        """The most bytes that a record can have later."""
        return (MOST_BITS * len(self.rows) - SHARD_BITS + 7) // 8

    @property
    def memory(self) -> int:
        """Bytes touched."""
        contents = self.rows[:, USED] * (self.rows[:, WORDS] * 8 + (self.rows[:, GROUPS] != 0))
        return int((contents + 4 * self.rows[:, SIZE]).sum())

    @property
    def full(self) -> bool:
        """Whether a part may have no free number."""
        return bool((self.rows[:, USED] + CHUNK > self.rows[:, LIMIT]).any())

    def _room(self) -> Any:
        slots, numbers = self.rows[:, SIZE] * 3 // 4, 1 << self.rows[:, BITS]
        return np.minimum(np.minimum(slots, numbers), self._most)

    def allow(self, free: int) -> None:
        """Allows `free` bytes of new contents, within the present slots and numbers."""
        more = max(0, free) // (8 * int(self.rows[:, WORDS].sum()))
        self.rows[:, LIMIT] = np.minimum(self._room(), self.rows[:, USED] + more)

    def grow(self) -> bool:
        """Makes room in full parts; False if memory is short. If `width` or the bits of rows
        change, records must be rewritten.
        """
        room = self._room()
        for part in np.flatnonzero(self.rows[:, USED] + CHUNK > self.rows[:, LIMIT]):
            row = self.rows[part]
            if row[LIMIT] < room[part] or room[part] == self._most[part]:
                self.full_for_good = bool(row[LIMIT] >= room[part])
                return False
            if row[SIZE] * 3 // 4 == room[part]:
                size = int(row[SIZE])
                if not self.may_take(8 * size + 6 * size * int(row[WORDS])):
                    return False
                row[SIZE] = 2 * size
                old, self._slots[part] = self._slots[part], self._slots_of(int(part))
                self._slots[part].array[:] = 0  # a file may hold old slots
                row[SLOTS] = self._slots[part].address
                move_slots(old.address, size, self.rows, part)
            else:
                row[BITS] = min(row[BITS] + MORE_BITS, MOST_BITS)
        self.rows[:, LIMIT] = self._room()
        return True
