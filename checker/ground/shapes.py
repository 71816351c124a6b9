"""Shapes: a structured value as nodes, and operations on shapes of any type.

`Maybe` is an optional, `Slots` a sequence or a bag, `Members` a set, a list a record (per field) or
a map (per key), a node everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeAlias

from ...language import (
    Bag,
    Bool,
    DeclarationError,
    Enum,
    Instance,
    Int,
    Key,
    Map,
    Optional,
    Record,
    Sequence,
    Set,
)
from ...language.declaration.errors import UnsettledError
from ...language.expressions import resolve
from ...language.types import Type, Value, choices, initial_value
from .graph import Graph, Node

UNBOUNDED = 1 << 60  # the highest number of an unbounded leaf, beyond all declared bounds


@dataclass(frozen=True)
class Maybe:
    """An optional value. `value` is meaningful only if `present` holds."""

    present: Node
    value: Shape


@dataclass(frozen=True)
class Slots:
    """A sequence or bag, with the present elements first. It may have more slots than its
    capacity.
    """

    slots: tuple[Maybe, ...]


@dataclass(frozen=True)
class Members:
    """A set: the condition of membership for each possible value."""

    there: Mapping[Value, Node]


Shape: TypeAlias = "Node | Maybe | Slots | Members | list[Shape]"


class Shapes:
    """The shapes of values at an instance's constants, as nodes of one graph."""

    def __init__(self, instance: Instance) -> None:
        self.graph = Graph(unbounded=bool(instance.open))
        self.constants = instance.constants
        self.open = frozenset(info.name for info in instance.open)
        self.least = {**instance.constants, **{info.name: info.low for info in instance.open}}
        # by identity, because hashing a type is as slow as making the shape
        self._lowest: dict[int, tuple[Type, Shape]] = {}

    def numbers(self, kind: Type) -> tuple[int, int]:
        match kind:
            case Int():
                low = resolve(kind.low, self.constants)
                try:
                    return low, resolve(kind.high, self.constants)
                except UnsettledError as error:
                    if error.constant not in self.open:
                        raise
                    return low, UNBOUNDED
            case Enum():
                return 0, len(kind.names_at(self.constants)) - 1
            case Key():
                return 0, kind.count(self.constants) - 1
            case _:
                return 0, 1

    def lowest(self, kind: Type) -> Shape:
        """The form of an absent value of the type."""
        known = self._lowest.get(id(kind))
        if known is None:
            known = self._lowest[id(kind)] = kind, self._least_of(kind)
        return known[1]

    def _least_of(self, kind: Type) -> Shape:
        g = self.graph
        match kind:
            case Bool():
                return g.false
            case Int() | Enum() | Key():
                return self.constant_shape(kind, initial_value(kind, self.least))
            case Optional():
                return Maybe(g.false, self.lowest(kind.of))
            case Set():
                return Members({})
            case Sequence() | Bag():
                return Slots(())
            case Record():
                return [self.lowest(of) for _, of in kind.fields]
            case Map():
                return [self.lowest(kind.of)] * kind.key.count(self.constants)

    def absent(self, kind: Type) -> Maybe:
        """An empty slot."""
        return Maybe(self.graph.false, self.lowest(kind))

    def padded(self, kind: Type, shape: Slots, capacity: int) -> tuple[Maybe, ...]:
        """The first `capacity` slots, filled up with absent ones."""
        missing = capacity - len(shape.slots)
        return (*shape.slots[:capacity], *(self.absent(kind) for _ in range(missing)))

    def constant_shape(self, kind: Type, value: Any) -> Shape:
        """A plain value as a shape."""
        g = self.graph
        match kind:
            case Bool():
                return g.truth(bool(value))
            case Int() | Key():
                return g.number(value)
            case Enum():
                return g.number(kind.names.index(value))
            case Optional():
                if value is None:
                    return self.lowest(kind)
                return Maybe(g.true, self.constant_shape(kind.of, value))
            case Set():
                members = choices(kind.of, self.constants)  # in a fixed order
                return Members({member: g.true for member in members if member in value})
            case Sequence() | Bag():
                return Slots(tuple(Maybe(g.true, self.constant_shape(kind.of, v)) for v in value))
            case Record():
                fields = zip(kind.fields, value, strict=True)
                return [self.constant_shape(of, v) for (_, of), v in fields]
            case Map():
                return [self.constant_shape(kind.of, v) for v in value]

    def merge(self, condition: Node, then: Shape, otherwise: Shape) -> Shape:
        g = self.graph
        if then is otherwise:
            return then
        match then, otherwise:
            case Node(), Node():
                return g.choose(condition, then, otherwise)
            case Maybe(), Maybe():
                return Maybe(
                    g.choose(condition, then.present, otherwise.present),
                    self.merge(condition, then.value, otherwise.value),
                )
            case Slots(), Slots():
                pairs = self.side_by_side(then, otherwise)
                return Slots(tuple(self.merge_maybe(condition, a, b) for a, b in pairs))
            case Members(), Members():
                pairs = (
                    (m, *self.both(then, otherwise, m)) for m in self.all_members(then, otherwise)
                )
                return Members({m: g.choose(condition, a, b) for m, a, b in pairs})
            case list(), list():
                pairs = zip(then, otherwise, strict=True)
                return [self.merge(condition, a, b) for a, b in pairs]
            case _:
                raise DeclarationError("the two branches have different shapes")

    def merge_maybe(self, condition: Node, then: Maybe, otherwise: Maybe) -> Maybe:
        merged = self.merge(condition, then, otherwise)
        assert isinstance(merged, Maybe)
        return merged

    def side_by_side(self, a: Slots, b: Slots) -> Iterator[tuple[Maybe, Maybe]]:
        """The slots in pairs; the shorter sequence is filled up with absent ones."""
        nothing = self.graph.false
        for x, y in zip_longest(a.slots, b.slots):
            yield x or Maybe(nothing, y.value), y or Maybe(nothing, x.value)

    def all_members(self, *sets: Members) -> list[Value]:
        """The possible elements of all sets."""
        return list(dict.fromkeys(member for one in sets for member in one.there))

    def both(self, a: Members, b: Members, member: Value) -> tuple[Node, Node]:
        """The conditions that each of two sets contains a member."""
        nowhere = self.graph.false
        return a.there.get(member, nowhere), b.there.get(member, nowhere)

    def equal(self, a: Shape, b: Shape) -> Node:
        g = self.graph
        match a, b:
            case Node(), Node():
                return g.equal(a, b)
            case Maybe(), Maybe() if b.present is g.false:
                return g.not_(a.present)
            case Maybe(), Maybe():
                same = g.or_(g.not_(a.present), self.equal(a.value, b.value))
                return g.and_(g.equal(a.present, b.present), same)
            case Slots(), Slots():
                return g.and_(*(self.equal(x, y) for x, y in self.side_by_side(a, b)))
            case Members(), Members():
                members = self.all_members(a, b)
                return g.and_(*(g.equal(*self.both(a, b, member)) for member in members))
            case list(), list():
                return g.and_(*(self.equal(x, y) for x, y in zip(a, b, strict=True)))
            case _:
                raise DeclarationError("the compared values have different shapes")

    def ranks(self, kind: Type, shape: Shape) -> list[Node]:
        """The numbers that define the order of a bag's elements (see `types.rank`)."""
        match kind, shape:
            case _, Node():
                return [self.graph.as_number(shape)]
            case Optional(), Maybe():
                value = self.merge(shape.present, shape.value, self.lowest(kind.of))
                return [self.graph.as_number(shape.present), *self.ranks(kind.of, value)]
            case Set(), Members():
                return [
                    self.graph.as_number(shape.there.get(member, self.graph.false))
                    for member in choices(kind.of, self.constants)
                ]
            case ((Sequence() | Bag()), Slots()):
                slots = self.padded(kind.of, shape, resolve(kind.capacity, self.constants))
                return [n for slot in slots for n in self.ranks(Optional(kind.of), slot)]
            case Record(), list():
                parts = zip(kind.fields, shape, strict=True)
                return [n for (_, of), part in parts for n in self.ranks(of, part)]
            case Map(), list():
                return [n for part in shape for n in self.ranks(kind.of, part)]
            case _:
                raise DeclarationError(f"a value isn't of type {kind}")

    def at_most(self, kind: Type, a: Shape, b: Shape) -> Node:
        """Whether a comes before b in canonical order, or is equal."""
        g = self.graph
        result = g.true
        ranked = zip(self.ranks(kind, a), self.ranks(kind, b), strict=True)
        for x, y in reversed(list(ranked)):
            result = g.or_(g.less(x, y), g.and_(g.equal(x, y), result))
        return result

    def coerce(self, shape: Shape, source: Type | None, target: Type) -> Shape:
        """The value converted to the type `target`: plain values become optionals where needed."""
        g = self.graph
        if source == target:
            return shape
        match target:
            case Optional():
                if source is None:
                    return self.lowest(target)
                if isinstance(source, Optional):
                    assert isinstance(shape, Maybe)
                    return Maybe(shape.present, self.coerce(shape.value, source.of, target.of))
                return Maybe(g.true, self.coerce(shape, source, target.of))
            case Map():
                assert isinstance(source, Map)
                assert isinstance(shape, list)
                return [self.coerce(part, source.of, target.of) for part in shape]
            case Sequence() | Bag():
                assert isinstance(source, (Sequence, Bag))
                assert isinstance(shape, Slots)
                parts = (
                    Maybe(s.present, self.coerce(s.value, source.of, target.of))
                    for s in shape.slots
                )
                return Slots(tuple(parts))
            case _:
                return shape

    def select(self, whole: Shape, key: Node) -> Shape:
        assert isinstance(whole, list)
        if key.is_constant:
            return whole[key.value]
        result = whole[-1]
        for place in range(len(whole) - 2, -1, -1):
            is_here = self.graph.equal(key, self.graph.number(place))
            result = self.merge(is_here, whole[place], result)
        return result

    def put_in(self, whole: Shape, key: Node, change: Callable[[Shape], Shape]) -> Shape:
        assert isinstance(whole, list)
        return [
            self.merge(self.graph.equal(key, self.graph.number(k)), change(part), part)
            if not key.is_constant or key.value == k
            else part
            for k, part in enumerate(whole)
        ]
