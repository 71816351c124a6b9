"""Nodes of a grounded system as LLVM values, computed from the words of a packed state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from ...ground import Leaf
from ...ground.graph import Node
from ..store.pack import Packing, Place
from .instructions import I1, I64, Builder, Value, number, truth


class Values:
    """Nodes as LLVM values, each computed once along a path of blocks."""

    def __init__(
        self,
        packing: Packing,
        b: Builder,
        words: list[Value],
        known: dict[int, Value] | None = None,
        place: Value | None = None,
    ) -> None:
        self.packing = packing
        self.place = place  # the action's choice that is being tried
        self.b = b
        self.words = words
        self.known = known or {}

    def inner(self) -> Values:
        """A copy of the values, for a block that some paths don't enter."""
        return Values(self.packing, self.b, self.words, dict(self.known), self.place)

    def truth(self, node: Node) -> Value:
        """The node as an i1."""
        return as_truth(self.b, self.value(node))

    def number(self, node: Node) -> Value:
        """The node as an i64."""
        return as_number(self.b, self.value(node))

    def value(self, node: Node) -> Value:
        found = self.known.get(node.number)
        if found is None:
            found = self.known[node.number] = self._value(node)
        return found

    def _value(self, node: Node) -> Value:
        b = self.b
        match node.op:
            case "const":
                return truth(bool(node.value)) if node.is_truth else number(node.value)
            case "leaf" if node.value < 0:
                assert self.place is not None
                return self.place
            case "leaf":
                place = self.packing.places[node.value]
                if not node.is_truth:
                    return of_leaf(b, place, self.words)
                raw = b.and_(self.words[place.word], number(place.mask))
                return b.icmp("ne", raw, number(0))
            case "eq":
                left, right = node.args
                for leaf, constant in ((left, right), (right, left)):
                    of_state = leaf.op == "leaf" and leaf.value >= 0
                    if of_state and constant.is_constant and not leaf.is_truth:
                        place = self.packing.places[leaf.value]
                        raw = b.and_(self.words[place.word], number(place.mask))
                        wanted = (constant.value - place.low) << place.shift
                        return b.icmp("eq", raw, number(wanted))
            case _:
                pass
        return applied(b, node.op, map(self.value, node.args), node.value)


def bits_of_leaf(b: Builder, place: Place, words: list[Value]) -> Value:
    """The bits of a leaf of a packed state, given as words: its number minus the lowest one."""
    return moved(b, b.and_(words[place.word], number(place.mask)), -place.shift)


def of_leaf(b: Builder, place: Place, words: list[Value]) -> Value:
    """The number of a leaf of a packed state, given as words."""
    bits = bits_of_leaf(b, place, words)
    return b.add(bits, number(place.low)) if place.low else bits


def moved(b: Builder, value: Value, distance: int) -> Value:
    """The bits moved to the left, or to the right by a negative distance."""
    if distance > 0:
        return b.shl(value, number(distance))
    return b.lshr(value, number(-distance)) if distance else value


def of_chunk(b: Builder, packing: Packing, leaves: Sequence[Leaf], words: list[Value]) -> Value:
    """The bits of adjacent leaves of a packed state, given as words."""
    word, shift, mask = packing.span(leaves)
    return b.and_(b.lshr(words[word], number(shift)), number(mask))


def applied(b: Builder, op: str, args: Iterator[Value], value: int = 0) -> Value:
    """The result of an operator for its arguments; `value` is a constant or a modulus."""
    match op:
        case "const":
            return number(value)
        case "not":
            return b.not_(as_truth(b, next(args)))
        case "and" | "or":
            result = as_truth(b, next(args))
            for arg in args:
                other = as_truth(b, arg)
                result = b.and_(result, other) if op == "and" else b.or_(result, other)
            return result
        case "eq":
            return b.icmp("eq", *_alike(b, next(args), next(args)))
        case "lt":
            return b.icmp("slt", as_number(b, next(args)), as_number(b, next(args)))
        case "add":
            return b.add(as_number(b, next(args)), as_number(b, next(args)))
        case "sub":
            return b.sub(as_number(b, next(args)), as_number(b, next(args)))
        case "mul":
            return b.mul(as_number(b, next(args)), as_number(b, next(args)))
        case "div":
            whole = as_number(b, next(args))
            return b.sdiv(b.sub(whole, _rest(b, whole, value)), number(value))
        case "mod":
            return _rest(b, as_number(b, next(args)), value)
        case _:
            assert op == "ite", op
            condition = as_truth(b, next(args))
            return b.select(condition, *_alike(b, next(args), next(args)))


def as_truth(b: Builder, value: Value) -> Value:
    """The value as an i1."""
    return value if value.type == I1 else b.icmp("ne", value, number(0))


def as_number(b: Builder, value: Value) -> Value:
    """The value as an i64."""
    return value if value.type == I64 else b.zext(value, I64)


def _alike(b: Builder, one: Value, other: Value) -> tuple[Value, Value]:
    """Both values unchanged if their types are equal, else both as numbers."""
    if one.type == other.type:
        return one, other
    return as_number(b, one), as_number(b, other)


def _rest(b: Builder, a: Value, size: int) -> Value:
    """a modulo `size`, never negative."""
    rest = b.srem(a, number(size))
    return b.select(b.icmp("slt", rest, number(0)), b.add(rest, number(size)), rest)


def flagged(b: Builder, condition: Value, flag: int) -> Value:
    """The flag if the condition holds, else 0."""
    return b.shl(b.zext(condition, I64), number(flag.bit_length() - 1))


def united(b: Builder, every: Iterable[Value]) -> Value:
    """The bitwise or of all values."""
    first, *others = [*every] or [number(0)]
    return reduce(b.or_, others, first)
