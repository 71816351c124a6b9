"""The places of leaves in a packed state: each has a few bits of a 64-bit word.

A packed state is `stride` bytes: whole words, little-endian, and of the last word only the bytes
that hold bits. A leaf never crosses a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...ground import Leaf

WORD = 64


@dataclass(frozen=True)
class Place:
    """The `width` bits from `shift` on of word `word`; they hold the leaf's number minus `low`."""

    word: int
    shift: int
    width: int
    low: int

    @property
    def mask(self) -> int:
        """The bits of the place in their word."""
        return ((1 << self.width) - 1) << self.shift


@dataclass(frozen=True)
class Packing:
    """The places of leaves by index, and the size of a packed state in words and bytes."""

    places: dict[int, Place]
    words: int
    stride: int
    bits: int

    def span(self, leaves: Sequence[Leaf]) -> tuple[int, int, int]:
        """The word of adjacent leaves, the shift of the first one, and a mask of the bits of all,
        shifted to the right.
        """
        places = [self.places[leaf.index] for leaf in leaves]
        bits = sum(place.width for place in places)
        return places[0].word, places[0].shift, (1 << bits) - 1

    def pack(self, vector: tuple[int, ...]) -> bytes:
        """Packs the numbers of all leaves; leaves without a place are left out."""
        words = [0] * self.words
        for index, place in self.places.items():
            words[place.word] |= (vector[index] - place.low) << place.shift
        return b"".join(word.to_bytes(8, "little") for word in words)[: self.stride]

    def unpack(self, state: bytes, vector: Sequence[int]) -> tuple[int, ...]:
        """The numbers of all leaves of a packed state. Leaves without a place have those of the
        vector.
        """
        numbers = list(vector)
        for index, place in self.places.items():
            word = int.from_bytes(state[8 * place.word : 8 * place.word + 8], "little")
            numbers[index] = place.low + ((word & place.mask) >> place.shift)
        return tuple(numbers)


def width(leaf: Leaf) -> int:
    """The bits that a leaf needs."""
    return (leaf.high - leaf.low).bit_length()


def packed(groups: Iterable[list[Leaf]]) -> Packing:
    """Assigns places to the leaves of all groups. A group of at most a word's bits is in one
    word.
    """
    places: dict[int, Place] = {}
    free: list[int] = []  # the bits used of each word

    def put(leaves: list[Leaf], bits: int) -> None:
        word = next((w for w, used in enumerate(free) if used + bits <= WORD), len(free))
        if word == len(free):
            free.append(0)
        for leaf in leaves:
            places[leaf.index] = Place(word, free[word], width(leaf), leaf.low)
            free[word] += width(leaf)

    for group in groups:
        varying = [leaf for leaf in group if width(leaf)]
        if sum(width(leaf) for leaf in varying) <= WORD:
            put(varying, sum(width(leaf) for leaf in varying))
        else:
            for leaf in varying:
                put([leaf], width(leaf))
    if not free:
        free.append(0)
    # the emptiest word is the last one, because its unused bytes are saved
    last = min(range(len(free)), key=lambda w: free[w])
    order = [w for w in range(len(free)) if w != last] + [last]
    renamed = {word: at for at, word in enumerate(order)}
    places = {i: Place(renamed[p.word], p.shift, p.width, p.low) for i, p in places.items()}
    tail = (free[last] + 7) // 8
    stride = max(8, 8 * (len(free) - 1) + tail)
    return Packing(places, len(free), stride, sum(free))
