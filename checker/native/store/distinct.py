"""Counts the different values of a part of packed states, or estimates their number.

A part is some bits of a state. A table holds the hashes of its values. Whenever the table is full,
it keeps only hashes that end in one more zero bit, and each counts twice as much.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy import uint64

from ..jit.functions import compiled
from ..jit.hashing import mix, mixed_well
from ..jit.memory import load64

TABLE_BITS = 20  # up to three quarters of 2**20 values are counted exactly
Mask: TypeAlias = tuple[Any, Any]
"""A mask of a state: indices of words, and the bits of each."""


@compiled
def keep(h, table, kept, spare):
    """Adds a hash to the table. `kept` has the number of hashes in it, and the number of their
    trailing zeros; `spare` is another table of the same size.
    """
    h = mixed_well(h)
    if h == uint64(0):
        h = uint64(1) << uint64(63)
    if h & ((uint64(1) << uint64(kept[1])) - uint64(1)):
        return
    if _put(h, table):
        kept[0] += 1
    while kept[0] * 4 > table.size * 3:
        kept[1] += 1
        for at in range(table.size):
            spare[at], table[at] = table[at], uint64(0)
        kept[0] = 0
        for other in spare:
            if other and not other & ((uint64(1) << uint64(kept[1])) - uint64(1)):
                _put(other, table)
                kept[0] += 1


@compiled
def _put(h, table):
    """Puts a hash into the table; False if it is already there."""
    place = np.int64(h >> uint64(64 - TABLE_BITS))
    while table[place] != uint64(0):
        if table[place] == h:
            return False
        place = (place + 1) & (table.size - 1)
    table[place] = h
    return True


@compiled
def keep_masked(states, count, stride, words, masks, table, kept, spare):
    """Adds the hash of each state's bits under the masks of these words."""
    for i in range(count):
        h = uint64(0)
        for at in range(words.size):
            h = mix(h, load64(states + i * stride + 8 * words[at]) & masks[at])
        keep(h, table, kept, spare)


@compiled
def keep_contents(states, count, stride, there, places, table, kept, spare):
    """Adds the hash of each state's numbers at `places`, for states with all bits of `there` (a
    word, a mask) set.

    A row of `places` has a number's word, shift, mask and offset.
    """
    for i in range(count):
        state = states + i * stride
        if load64(state + 8 * there[0]) & uint64(there[1]) != uint64(there[1]):
            continue
        h = uint64(0)
        for at in range(places.shape[0]):
            raw = load64(state + 8 * places[at, 0]) >> uint64(places[at, 1])
            h = mix(h, (raw & uint64(places[at, 2])) + uint64(places[at, 3]))
        keep(h, table, kept, spare)


@compiled
def most_bits(states, count, stride, words, masks):
    """The most set bits under the masks in one state, and their number in all states together."""
    most, total = 0, 0
    for i in range(count):
        bits = 0
        for at in range(words.size):
            word = load64(states + i * stride + 8 * words[at]) & masks[at]
            while word:
                word &= word - uint64(1)
                bits += 1
        most = max(most, bits)
        total += bits
    return most, total


@dataclass(frozen=True)
class Count:
    """The number of different values; an estimate unless `exact`."""

    number: int
    exact: bool

    def __str__(self) -> str:
        return f"{self.number:,}" if self.exact else f"about {self.number:,}"


class Distinct:
    """A set of different values: a table of hashes for the functions above."""

    def __init__(self) -> None:
        self.table = np.zeros(1 << TABLE_BITS, dtype=np.uint64)
        self.spare = np.zeros_like(self.table)  # untouched pages take no memory
        self.kept = np.zeros(2, dtype=np.int64)

    def keep_masked(self, states: int, count: int, stride: int, bits: Mask) -> None:
        """Adds the values of `count` states from an address on under a mask."""
        keep_masked(states, count, stride, *bits, self.table, self.kept, self.spare)

    def keep_contents(
        self,
        states: int,
        count: int,
        stride: int,
        there: tuple[int, int],
        places: Sequence[tuple[int, int, int, int]],
    ) -> None:
        """Adds the numbers at `places` (see the function) of the states with all bits of `there`, a
        mask of a word, set.
        """
        mask = np.array(there, dtype=np.uint64).view(np.int64)
        numbers = np.array(places, dtype=np.int64).reshape(-1, 4)
        keep_contents(states, count, stride, mask, numbers, self.table, self.kept, self.spare)

    @property
    def count(self) -> Count:
        """The number of different values."""
        number, zeros = (int(n) for n in self.kept)
        return Count(number << zeros, not zeros)


def bits_set(states: int, count: int, stride: int, bits: Mask) -> tuple[int, int]:
    """The most set bits under a mask in one state, and their number in all states together."""
    most, total = most_bits(states, count, stride, *bits)
    return int(most), int(total)


def mask_of(masks: Iterable[int]) -> Mask:
    """A mask for each word of a state."""
    used = [(word, mask) for word, mask in enumerate(masks) if mask]
    words = np.array([word for word, _ in used], dtype=np.int64)
    return words, np.array([mask for _, mask in used], dtype=np.uint64)
