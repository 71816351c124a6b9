"""Plans how to cut states into parts with the least memory, from a sample of states."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from math import ceil, log2
from typing import Any

import numpy as np

from ..jit.hashing import MIXER, MULTIPLIER

SAMPLE = 1 << 15  # states of the sample
STATES = 1 << 22  # the number of states that a plan assumes
MOST_PARTS = 4
MOST_PLANS = 20_000  # most plans that are compared
SLOT = 6  # bytes of a slot for a content
WORTH = 2 / 3  # most memory of parts, relative to whole states
WHOLE = 16  # most bytes of a state that isn't cut


@dataclass(frozen=True)
class Plan:
    """The words where parts end, and the expected number of contents of each part."""

    ends: tuple[int, ...]
    contents: tuple[int, ...]


def plan(states: Any) -> Plan | None:
    """Plans how to cut states, given as rows of bytes; None if whole states take as little memory.

    The number of contents is estimated from the numbers in the sample and in half of it. Very large
    states are cut into fewer parts.
    """
    stride = states.shape[1]
    if stride <= WHOLE:
        return None
    words = -(-stride // 8)
    whole = np.zeros((len(states), 8 * words), dtype=np.uint8)
    whole[:, :stride] = states
    hashed = _hashed(whole.view(np.uint64))
    contents = {
        (first, end): _estimated(hashed[first:end])
        for first in range(words)
        for end in range(first + 1, words + 1)
    }
    best: Plan | None = None
    least = WORTH * stride
    looked_at = 0
    for parts in range(2, min(MOST_PARTS, words) + 1):
        for cuts in combinations(range(1, words), parts - 1):
            looked_at += 1
            if looked_at > MOST_PLANS:
                return best
            ranges = list(pairwise((0, *cuts, words)))
            bits = sum(max(8, log2(contents[each])) for each in ranges) - 8
            kept = sum(contents[each] * (8 * (each[1] - each[0]) + SLOT) for each in ranges)
            size = ceil(bits / 8) + kept / STATES
            if size < least:
                expected = tuple(int(contents[each]) for each in ranges)
                best, least = Plan((*cuts, words), expected), size
    return best


def _hashed(words: Any) -> Any:
    """A row of hashes for each word of the sample. The hash of a part is the sum of its words'
    hashes.
    """
    places = np.arange(1, words.shape[1] + 1, dtype=np.uint64) * MIXER
    mixed = (words.T ^ places[:, np.newaxis]) * MULTIPLIER
    return (mixed ^ (mixed >> np.uint64(29))) * MIXER


def _estimated(hashed: Any) -> float:
    every = hashed.sum(axis=0, dtype=np.uint64)
    whole, half = (_different(part) for part in (every, every[::2]))
    return min(STATES, whole * (STATES / len(every)) ** log2(whole / half))


def _different(hashes: Any) -> int:
    ordered = np.sort(hashes)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
