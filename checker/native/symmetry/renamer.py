"""Native code that finds the representative of a state whose instances refer to each other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

from ...ground import Leaf
from ..codegen.instructions import I64, POINTER, VOID, Builder, Function, Value, number, truth
from ..codegen.node_values import bits_of_leaf, moved, of_chunk
from ..store.pack import Packing
from .renaming import Renaming, Slot, Swap, walk
from .sorting import exchanges, in_order, less

Words = list[Value]


class NewFunction(Protocol):
    """Begins a function with this name, result type and argument types."""

    def __call__(self, name: str, result: str, *arguments: str) -> tuple[Function, Builder]: ...


class Renamer:
    """Writes the code that renames instances, with a function for each exchange of neighbouring
    ones.
    """

    def __init__(
        self, renamings: tuple[Renaming, ...], packing: Packing, function: NewFunction
    ) -> None:
        self.renamings = renamings
        self.packing = packing
        self.functions = {
            (each.key, at): self._function(function, f"exchange{of}_{at}", swap)
            for of, each in enumerate(renamings)
            for at, swap in enumerate(each.swaps)
        }

    def least(self, b: Builder, words: Words, finish: Callable[[Builder, Words], Words]) -> Words:
        """The words of the representative. The instances are sorted by their own values; if some
        are equal, it is the least result of `finish` under all renamings.
        """
        work, best = (b.alloca(I64, size=self.packing.words) for _ in range(2))
        self._put(b, work, words)
        for each in self.renamings:
            for at in exchanges(each.count):
                now = self._get(b, work)
                pair = (self._own(b, now, each, n) for n in (at + 1, at))
                with b.if_unlikely(less(b, *pair)):
                    b.call(self.functions[each.key, at], (work,))
        now = self._get(b, work)
        self._put(b, best, finish(b, now))
        tied = truth(False)
        for each in self.renamings:
            own = [self._own(b, now, each, at) for at in range(each.count)]
            for x, y in pairwise(own):
                tied = b.or_(tied, b.not_(less(b, x, y)))  # sorted, so equal if not less
        with b.if_unlikely(tied):
            for each, at in walk(self.renamings):
                b.call(self.functions[each.key, at], (work,))
                other, least = finish(b, self._get(b, work)), self._get(b, best)
                is_less = less(b, other, least)
                pairs = zip(other, least, strict=True)
                self._put(b, best, [b.select(is_less, x, y) for x, y in pairs])
        return self._get(b, best)

    def _function(self, function: NewFunction, name: str, swap: Swap) -> Function:
        made, b = function(name, VOID, POINTER)
        place = made.args[0]
        self._put(b, place, self._exchanged(b, self._get(b, place), swap))
        b.ret()
        return made

    def _get(self, b: Builder, place: Value) -> Words:
        return [b.load(b.gep(place, number(at), I64), I64) for at in range(self.packing.words)]

    def _put(self, b: Builder, place: Value, words: Words) -> None:
        for at, word in enumerate(words):
            b.store(word, b.gep(place, number(at), I64))

    def _own(self, b: Builder, words: Words, each: Renaming, instance: int) -> Words:
        """The instance's own values, and a number for each leaf that may name an instance: 0 for
        none, 1 for another one, 2 for itself.
        """
        found = [of_chunk(b, self.packing, chunk, words) for chunk in each.own[instance]]
        for leaf in each.naming[instance]:
            raw = self._raw(b, words, leaf)
            itself = b.icmp("eq", raw, number(instance - leaf.low))
            nobody = b.icmp("eq", raw, number(0))
            other = b.select(nobody, number(0), number(1))
            found.append(b.select(itself, number(2), other))
        return found

    def _raw(self, b: Builder, words: Words, leaf: Leaf) -> Value:
        return bits_of_leaf(b, self.packing.places[leaf.index], words)

    def _exchanged(self, b: Builder, words: Words, swap: Swap) -> Words:
        """The words after an exchange of two instances."""
        written = [0] * len(words)
        together: dict[tuple[int, int, int], int] = {}
        parts: list[tuple[int, Value]] = []
        for move in swap.moves:
            source = self.packing.places[move.source.index]
            target = self.packing.places[move.target.index]
            written[target.word] |= target.mask
            if move.names:
                value = self._renamed(b, words, swap, move.source, move.present)
                parts.append((target.word, b.shl(value, number(target.shift))))
            else:
                way = (source.word, target.word, target.shift - source.shift)
                together[way] = together.get(way, 0) | source.mask
        for (source, target, distance), mask in together.items():
            parts.append((target, moved(b, b.and_(words[source], number(mask)), distance)))
        result = [
            b.and_(word, number(~mask)) if mask else word
            for word, mask in zip(words, written, strict=True)
        ]
        for target, value in parts:
            result[target] = b.or_(result[target], value)
        for bag in swap.bags:
            result = self._in_order(b, result, bag)
        return result

    def _renamed(
        self, b: Builder, words: Words, swap: Swap, leaf: Leaf, present: tuple[Leaf, ...]
    ) -> Value:
        raw = self._raw(b, words, leaf)
        one, other = (number(instance - leaf.low) for instance in swap.pair)
        value = b.select(b.icmp("eq", raw, other), one, raw)
        value = b.select(b.icmp("eq", raw, one), other, value)
        for needed in present:
            there = b.icmp("ne", self._raw(b, words, needed), number(0))
            value = b.select(there, value, raw)
        return value

    def _in_order(self, b: Builder, words: Words, bag: tuple[Slot, ...]) -> Words:
        """A bag in canonical order, with the empty places last."""
        rows = [[self._raw(b, words, leaf) for leaf in slot.leaves] for slot in bag]

        def order(row: Words) -> Words:
            if not bag[0].may_be_empty:
                return row
            return [b.sub(row[0], number(1)), *row[1:]]  # an empty place becomes the largest number

        words = list(words)
        for slot, row in zip(bag, in_order(b, rows, order), strict=True):
            for leaf, value in zip(slot.leaves, row, strict=True):
                place = self.packing.places[leaf.index]
                kept = b.and_(words[place.word], number(~place.mask))
                words[place.word] = b.or_(kept, b.shl(value, number(place.shift)))
        return words
