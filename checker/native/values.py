"""Nodes of a grounded system as LLVM's values, read from the words of a packed state."""

from __future__ import annotations

from ..graph import Node
from .instructions import I1, I64, Builder, Value, number, truth
from .pack import Packing


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
        self.place = place  # the one of an action's choices that is being tried
        self.b = b
        self.words = words
        self.known = known or {}

    def inner(self) -> Values:
        """The same values, for a block that not every path runs through."""
        return Values(self.packing, self.b, self.words, dict(self.known), self.place)

    def truth(self, node: Node) -> Value:
        """The node as an i1."""
        value = self.value(node)
        return value if value.type == I1 else self.b.icmp("ne", value, number(0))

    def number(self, node: Node) -> Value:
        """The node as an i64."""
        value = self.value(node)
        return value if value.type == I64 else self.b.zext(value, I64)

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
                raw = b.and_(self.words[place.word], number(place.mask))
                if node.is_truth:
                    return b.icmp("ne", raw, number(0))
                if place.shift:
                    raw = b.lshr(raw, number(place.shift))
                return b.add(raw, number(place.low)) if place.low else raw
            case "not":
                return b.not_(self.truth(node.args[0]))
            case "and" | "or":
                result = self.truth(node.args[0])
                for arg in node.args[1:]:
                    other = self.truth(arg)
                    result = b.and_(result, other) if node.op == "and" else b.or_(result, other)
                return result
            case "eq":
                left, right = node.args
                for leaf, constant in ((left, right), (right, left)):
                    of_state = leaf.op == "leaf" and leaf.value >= 0
                    if of_state and constant.is_constant and not leaf.is_truth:
                        place = self.packing.places[leaf.value]
                        raw = b.and_(self.words[place.word], number(place.mask))
                        wanted = (constant.value - place.low) << place.shift
                        return b.icmp("eq", raw, number(wanted))
                if left.is_truth and right.is_truth:
                    return b.icmp("eq", self.truth(left), self.truth(right))
                return b.icmp("eq", self.number(left), self.number(right))
            case "lt":
                return b.icmp("slt", self.number(node.args[0]), self.number(node.args[1]))
            case "add":
                return b.add(self.number(node.args[0]), self.number(node.args[1]))
            case "sub":
                return b.sub(self.number(node.args[0]), self.number(node.args[1]))
            case "mul":
                return b.mul(self.number(node.args[0]), self.number(node.args[1]))
            case "div":
                whole = self.number(node.args[0])
                return b.sdiv(b.sub(whole, self._rest(whole, node.value)), number(node.value))
            case "mod":
                return self._rest(self.number(node.args[0]), node.value)
            case _:
                condition = self.truth(node.args[0])
                if node.is_truth:
                    then, otherwise = self.truth(node.args[1]), self.truth(node.args[2])
                else:
                    then, otherwise = self.number(node.args[1]), self.number(node.args[2])
                return b.select(condition, then, otherwise)

    def _rest(self, a: Value, size: int) -> Value:
        """a modulo `size`, never negative."""
        b = self.b
        rest = b.srem(a, number(size))
        return b.select(b.icmp("slt", rest, number(0)), b.add(rest, number(size)), rest)
