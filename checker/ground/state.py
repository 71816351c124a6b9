"""The state as leaves: stores values of each type in them, and reads them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from ...language import (
    Bag,
    Bool,
    Enum,
    Expression,
    Instance,
    Int,
    Key,
    Map,
    Optional,
    Record,
    Sequence,
    Set,
)
from ...language.expressions import resolve
from ...language.types import SCALARS, Type, Value, choices
from .graph import Node
from .grounded import Leaf, PathPart
from .shapes import UNBOUNDED, Maybe, Members, Shape, Shapes, Slots

KNOWN = 1 << 14  # cached values of variables


class State:
    """An instance's state: its leaves, those of open constants first, and each variable's shape.

    `unsettled` has, by leaf, the bounds that contain open constants.
    """

    def __init__(self, instance: Instance, shapes: Shapes) -> None:
        self.instance = instance
        self.constants = instance.constants
        self.shapes = shapes
        self.graph = shapes.graph
        self.leaves: list[Leaf] = []
        self.unsettled: dict[int, Expression] = {}
        self.open = {
            info.name: self.new_leaf((info.name,), info.low, UNBOUNDED, Int(info.low, UNBOUNDED))
            for info in instance.open
        }
        self.first_leaf: dict[str, int] = {}
        self.variables: dict[str, Shape] = {}
        for variable in instance.variables:
            self.first_leaf[variable.name] = len(self.leaves)
            self.variables[variable.name] = self.build(variable.type, (variable.name,))
        self.count = len(self.leaves)
        # a cache by identity for parts of variables: most steps change few of them
        self._stored: dict[int, tuple[Type, list[Node], list[Node]] | None] = dict.fromkeys(
            id(part) for shape in self.variables.values() for part in _structured(shape)
        )
        # the states of a run share most values
        self.numbers_of = lru_cache(KNOWN)(self._numbers)

    def following(self) -> dict[str, Shape]:
        """The next state, as shapes of leaves that follow those of this state."""
        shapes = {v.name: self.build(v.type, (v.name, "'")) for v in self.instance.variables}
        del self.leaves[self.count :]
        return shapes

    def build(self, kind: Type, path: tuple[PathPart, ...]) -> Shape:
        g = self.graph
        match kind:
            case Bool() | Int() | Enum() | Key():
                return self.new_leaf(path, *self.shapes.numbers(kind), kind)
            case Optional() if isinstance(kind.of, SCALARS):
                low, high = self.shapes.numbers(kind.of)
                leaf = self.new_leaf(path, low - 1, high, kind)
                value = leaf
                if isinstance(kind.of, Bool):
                    value = g.equal(leaf, g.number(1))
                return Maybe(g.not_(g.equal(leaf, g.number(low - 1))), value)
            case Optional():
                present = self.new_leaf((*path, "?"), 0, 1, Bool())
                return Maybe(present, self.build(kind.of, path))
            case Set():
                there: dict[Value, Node] = {}
                for member in choices(kind.of, self.constants):
                    part: PathPart = (
                        (kind.of, int(str(member))) if isinstance(kind.of, Key) else f"{{{member}}}"
                    )
                    there[member] = self.new_leaf((*path, part), 0, 1, Bool())
                return Members(there)
            case Sequence() | Bag():
                capacity = resolve(kind.capacity, self.constants)
                slots: list[Maybe] = []
                for place in range(capacity):
                    slot = self.build(Optional(kind.of), (*path, f"<{place}>"))
                    assert isinstance(slot, Maybe)
                    slots.append(slot)
                return Slots(tuple(slots))
            case Record():
                return [self.build(of, (*path, f".{name}")) for name, of in kind.fields]
            case Map():
                count = kind.key.count(self.constants)
                return [self.build(kind.of, (*path, (kind.key, k))) for k in range(count)]

    def new_leaf(self, path: tuple[PathPart, ...], low: int, high: int, kind: Type) -> Node:
        leaf = Leaf(len(self.leaves), path, low, high, kind)
        self.leaves.append(leaf)
        of = kind.of if isinstance(kind, Optional) else kind
        if high == UNBOUNDED and isinstance(of, Int) and isinstance(of.high, Expression):
            self.unsettled[leaf.index] = of.high
        return self.graph.leaf(leaf.index, low, high, leaf.is_truth)

    def read(self, leaf: Leaf) -> Node:
        """The value of a leaf."""
        return self.graph.leaf(leaf.index, leaf.low, leaf.high, leaf.is_truth)

    def encode(self, kind: Type, shape: Shape, faults: list[Node]) -> Iterator[Node]:
        """The nodes to store, in the order of the leaves. Adds the conditions under which they
        can't be stored to `faults`.
        """
        g = self.graph
        match kind:
            case Bool() | Int() | Enum() | Key():
                assert isinstance(shape, Node)
                yield shape
            case Optional() if isinstance(kind.of, SCALARS):
                assert isinstance(shape, Maybe)
                assert isinstance(shape.value, Node)
                none = g.number(self.shapes.numbers(kind.of)[0] - 1)
                value = g.as_number(shape.value)
                # a value that equals the number of none is out of its range
                faults.append(self.marked(shape.present, value, none))
                yield self.stored(shape.present, value, none)
            case Optional():
                assert isinstance(shape, Maybe)
                yield shape.present
                empty = self.shapes.lowest(kind.of)
                stored = self.shapes.merge(shape.present, shape.value, empty)
                yield from self.encode(kind.of, stored, faults)
            case Set():
                assert isinstance(shape, Members)
                members = choices(kind.of, self.constants)
                faults += [there for member, there in shape.there.items() if member not in members]
                for member in members:
                    yield shape.there.get(member, g.false)
            case Sequence() | Bag():
                assert isinstance(shape, Slots)
                capacity = resolve(kind.capacity, self.constants)
                faults += [slot.present for slot in shape.slots[capacity:]]
                for slot in self.shapes.padded(kind.of, shape, capacity):
                    yield from self.encode(Optional(kind.of), slot, faults)
            case Record():
                assert isinstance(shape, list)
                for (_, of), part in zip(kind.fields, shape, strict=True):
                    yield from self._encoded(of, part, faults)
            case Map():
                assert isinstance(shape, list)
                for part in shape:
                    yield from self._encoded(kind.of, part, faults)

    def _encoded(self, kind: Type, shape: Shape, faults: list[Node]) -> Iterable[Node]:
        """The result of `encode`, cached for unchanged parts of a variable."""
        if id(shape) not in self._stored:
            return self.encode(kind, shape, faults)
        known = self._stored[id(shape)]
        if known is None or known[0] is not kind:
            wrong: list[Node] = []
            known = self._stored[id(shape)] = kind, list(self.encode(kind, shape, wrong)), wrong
        faults += known[2]
        return known[1]

    def stored(self, present: Node, value: Node, none: Node) -> Node:
        """The value if it is present, else the number for none.

        If presence and value depend on the same condition, it stays outermost: a slot that moves to
        another place is then the same node.
        """
        g = self.graph
        if value.op == "ite":
            condition, then, otherwise = value.args
            here, there = (g.given(present, condition, holds) for holds in (True, False))
            if here is not present and there is not present:
                return g.choose(
                    condition, self.stored(here, then, none), self.stored(there, otherwise, none)
                )
        return g.choose(present, value, none)

    def marked(self, present: Node, value: Node, none: Node) -> Node:
        """Whether a value is present, but equals the number for none."""
        g = self.graph
        if value.op != "ite":
            return g.and_(present, g.equal(value, none))
        condition, then, otherwise = value.args
        return g.or_(
            g.and_(condition, self.marked(g.given(present, condition, True), then, none)),
            g.and_(
                g.not_(condition), self.marked(g.given(present, condition, False), otherwise, none)
            ),
        )

    def vector(self, state: tuple[Value, ...]) -> tuple[int, ...]:
        """A state of plain values as the numbers of its leaves; those of open constants are 0."""
        numbers = [0] * len(self.open)
        for at, value in enumerate(state):
            numbers += self.numbers_of(at, value)
        return tuple(numbers)

    def _numbers(self, at: int, value: Value) -> tuple[int, ...]:
        """A variable's value as the numbers of its leaves."""
        kind = self.instance.variables[at].type
        shape = self.shapes.constant_shape(kind, value)
        return tuple(node.value for node in self.encode(kind, shape, []))

    def well_formed(self, kind: Type, shape: Shape) -> Iterator[Node]:
        """The conditions that the leaves of every value of the type satisfy."""
        g = self.graph
        match kind, shape:
            case Optional(), Maybe():
                if not isinstance(kind.of, SCALARS):
                    stored = list(self.encode(kind.of, shape.value, []))
                    for leaf, low in zip(
                        stored, self.encode(kind.of, self.shapes.lowest(kind.of), []), strict=True
                    ):
                        yield g.or_(shape.present, g.equal(leaf, low))
                    for node in self.well_formed(kind.of, shape.value):
                        yield g.or_(g.not_(shape.present), node)
            case ((Sequence() | Bag()), Slots()):
                for slot in shape.slots:
                    yield from self.well_formed(Optional(kind.of), slot)
                for slot, following in pairwise(shape.slots):
                    yield g.or_(slot.present, g.not_(following.present))
                    if isinstance(kind, Bag):
                        in_order = self.shapes.at_most(kind.of, slot.value, following.value)
                        yield g.or_(g.not_(following.present), in_order)
            case Record(), list():
                for (_, of), part in zip(kind.fields, shape, strict=True):
                    yield from self.well_formed(of, part)
            case Map(), list():
                for part in shape:
                    yield from self.well_formed(kind.of, part)
            case _:
                pass

    def plain(self, numbers: tuple[int, ...]) -> tuple[Value, ...]:
        """The state of plain values whose leaves have these numbers."""
        left = iter(numbers[len(self.open) :])
        return tuple(self.decode(variable.type, left) for variable in self.instance.variables)

    def decode(self, kind: Type, numbers: Iterator[int]) -> Value:
        """Reads a value from the next numbers."""
        match kind:
            case Bool():
                return bool(next(numbers))
            case Int() | Key():
                return next(numbers)
            case Enum():
                return kind.names[next(numbers)]
            case Optional() if isinstance(kind.of, SCALARS):
                number = next(numbers)
                none = self.shapes.numbers(kind.of)[0] - 1
                return None if number == none else self.decode(kind.of, iter((number,)))
            case Optional():
                present, value = next(numbers), self.decode(kind.of, numbers)
                return value if present else None
            case Set():
                return frozenset(m for m in choices(kind.of, self.constants) if next(numbers))
            case Sequence() | Bag():
                capacity = resolve(kind.capacity, self.constants)
                slots = [self.decode(Optional(kind.of), numbers) for _ in range(capacity)]
                return tuple(value for value in slots if value is not None)
            case Record():
                return tuple(self.decode(of, numbers) for _, of in kind.fields)
            case Map():
                count = kind.key.count(self.constants)
                return tuple(self.decode(kind.of, numbers) for _ in range(count))


def _structured(shape: Shape) -> Iterator[Shape]:
    """The shape and its parts in records and maps, without single nodes."""
    if not isinstance(shape, Node):
        yield shape
    if isinstance(shape, list):
        for part in shape:
            yield from _structured(part)
