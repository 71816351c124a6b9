"""A system grounded: its state as scalar leaves, its rows as guards and updates over them.

A structured value is a shape of nodes: `Maybe` for an optional, `Slots` for a sequence or a bag,
`Members` for a set, a list for a record (per field) or a map (per key).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product, zip_longest
from typing import Any, TypeAlias

from ..language import (
    Action,
    Bag,
    Bool,
    DeclarationError,
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
from ..language.errors import TOO_DEEP, UnsettledError
from ..language.expressions import QUANTIFIERS, EnumValue, divisor, resolve
from ..language.typecheck import common, type_of
from ..language.types import SCALARS, Type, Value, choices, initial_value
from ..language.values import field_name
from .effort import check_effort
from .graph import Graph, Node, leaves_of
from .probes import Probe, probes

MOST_MEMBERS = 1 << 12
UNBOUNDED = 1 << 60  # the highest number of a leaf without a bound: beyond any that is declared


@dataclass(frozen=True)
class Maybe:
    """An optional value: `value` counts only where `present` holds."""

    present: Node
    value: Shape


@dataclass(frozen=True)
class Slots:
    """A sequence or bag, the present ones first; what has grown has more than its capacity."""

    slots: tuple[Maybe, ...]


@dataclass(frozen=True)
class Members:
    """A set: for every value that it may hold, whether it does."""

    there: Mapping[Value, Node]


Shape: TypeAlias = "Node | Maybe | Slots | Members | list[Shape]"
PathPart: TypeAlias = "str | tuple[Key, int]"


@dataclass(frozen=True)
class Leaf:
    """A scalar part of the state: where it is, its numbers `low`..`high`, and its type.

    An optional scalar is one leaf whose lowest number stands for none.
    """

    index: int
    path: tuple[PathPart, ...]
    low: int
    high: int
    type: Type

    @property
    def name(self) -> str:
        """The path in print."""
        parts = (p if isinstance(p, str) else f"[{p[1]}]" for p in self.path)
        return "".join(parts)

    @property
    def is_truth(self) -> bool:
        """Whether it is true or false, not a number."""
        return isinstance(self.type, Bool)

    @property
    def holds(self) -> Key | None:
        """The key whose identities the leaf's values are, if they are."""
        kind = self.type.of if isinstance(self.type, Optional) else self.type
        return kind if isinstance(kind, Key) else None


@dataclass(frozen=True)
class GroundRow:
    """A row for certain bindings: when it is taken, what it writes, when a write is at fault, when
    each property of steps is broken."""

    row: int
    guard: Node
    updates: Mapping[int, Node]
    fault: Node
    broken: tuple[Node, ...]


@dataclass(frozen=True)
class GroundAction:
    """The rows of an action for certain bindings.

    One row may be taken for every place in `possible` whose node holds. The rows read that place as
    a leaf of its own, below 0, where there is more than one (`choice_leaf`): the slot of the bag
    whose element the action takes. `instances` are the identities that the action binds. `guards`
    are those of all rows by their index, each as it is declared, whatever comes before it.
    """

    possible: tuple[Node, ...]
    rows: tuple[GroundRow, ...]
    instances: tuple[tuple[Key, int], ...] = ()
    guards: tuple[tuple[int, Node], ...] = ()

    def instance_of(self, key: Key) -> int | None:
        """The one instance of `key` that the action is about, if there is just one."""
        found = [number for of, number in self.instances if of == key]
        return found[0] if len(found) == 1 else None


def choice_leaf(places: int) -> int:
    """The index of the leaf that stands for a choice among so many places."""
    return -places


@dataclass
class Grounded:
    """A system's state as leaves, and everything that reads or writes them.

    `vector` gives a state of plain values as the numbers of its leaves, `plain` the values of such
    numbers; `kept` are the leaves that a packed state holds, `constant` those that are read but
    never change: their initial value stands in their place. `well_formed` holds of the leaves of
    every value, if not of all numbers in their ranges: what is absent is stored in one way, the
    present come first and in order, and nothing is beyond what its open constants say. Those are
    leaves themselves, that nothing writes: `open` gives their names, and `limits` those that types
    are bounded by. `probes` are conditions that a run should meet; those of steps read the state
    after a step as the leaves `next_leaves`, each with what it is where a step leaves it alone.
    """

    instance: Instance
    graph: Graph
    leaves: list[Leaf]
    initials: list[tuple[int, ...]]
    actions: list[GroundAction]
    invariants: list[Node]
    terminal: Node
    vector: Callable[[tuple[Value, ...]], tuple[int, ...]]
    plain: Callable[[tuple[int, ...]], tuple[Value, ...]]
    kept: frozenset[int]
    well_formed: list[Node]
    open: Mapping[int, str]
    limits: list[str]
    probes: list[tuple[Probe, Node]]
    next_leaves: Mapping[int, Node]
    constant: frozenset[int] = frozenset()


def ground(instance: Instance) -> Grounded:
    """The instance as leaves and nodes; all leaves are kept until slicing.

    Raises DeclarationError where an expression can't be grounded, or there is too much to ground.
    """
    check_effort(instance)
    return _Grounder(instance).run()


class _Scope:
    """What names stand for, and what has been grounded under them.

    `places` are those of elements in their sequences; `taken` is the element that an action takes
    from a bag, and the slot that it is in.
    """

    def __init__(
        self,
        values: Mapping[Expression, Shape],
        places: Mapping[Expression, int],
        taken: tuple[Expression, Node] | None = None,
    ) -> None:
        self.values = dict(values)
        self.places = dict(places)
        self.taken = taken
        self.instances = tuple(
            (name.data.type, value.value)
            for name, value in values.items()
            if name.op == "variable" and isinstance(name.data.type, Key)
            if isinstance(value, Node)
        )
        self.memo: dict[Expression, Shape] = {}

    def with_(self, name: Expression, value: Shape, place: int | None = None) -> _Scope:
        places = self.places if place is None else {**self.places, name: place}
        return _Scope({**self.values, name: value}, places, self.taken)


class _Grounder:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.constants = instance.constants
        self.least = {**instance.constants, **{info.name: info.low for info in instance.open}}
        self.graph = Graph(unbounded=bool(instance.open))
        self.leaves: list[Leaf] = []
        self.next: dict[str, Shape] = {}
        self.reading_next = False
        self.most: dict[int, Node] = {}  # of a leaf whose highest number has open constants in it
        self.open = {
            info.name: self.new_leaf((info.name,), info.low, UNBOUNDED, Int(info.low, UNBOUNDED))
            for info in instance.open
        }
        self.first_leaf: dict[str, int] = {}
        self.shapes: dict[str, Shape] = {}
        for variable in instance.variables:
            self.first_leaf[variable.name] = len(self.leaves)
            self.shapes[variable.name] = self.build(variable.type, (variable.name,))

    # The state -----------------------------------------------------------------------------

    def build(self, kind: Type, path: tuple[PathPart, ...]) -> Shape:
        g = self.graph
        match kind:
            case Bool() | Int() | Enum() | Key():
                return self.new_leaf(path, *self.numbers(kind), kind)
            case Optional() if isinstance(kind.of, SCALARS):
                low, high = self.numbers(kind.of)
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
            self.most[leaf.index] = self.node(of.high, _Scope({}, {}))
        return self.graph.leaf(leaf.index, low, high, leaf.is_truth)

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
                return 0, len(kind.bounded_names(self.constants)) - 1
            case Key():
                return 0, kind.count(self.constants) - 1
            case _:
                return 0, 1

    def lowest(self, kind: Type) -> Shape:
        """What an absent value of the type is stored as."""
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
        """A slot that holds nothing."""
        return Maybe(self.graph.false, self.lowest(kind))

    def encode(self, kind: Type, shape: Shape, faults: list[Node]) -> Iterator[Node]:
        """The nodes to store, in the order of the leaves; adds to `faults` when they can't be."""
        g = self.graph
        match kind:
            case Bool() | Int() | Enum() | Key():
                assert isinstance(shape, Node)
                yield shape
            case Optional() if isinstance(kind.of, SCALARS):
                assert isinstance(shape, Maybe)
                assert isinstance(shape.value, Node)
                none = g.number(self.numbers(kind.of)[0] - 1)
                value = g.as_number(shape.value)
                # a value equal to the mark for none is out of its range
                faults.append(self.marked(shape.present, value, none))
                yield self.stored(shape.present, value, none)
            case Optional():
                assert isinstance(shape, Maybe)
                yield shape.present
                empty = self.lowest(kind.of)
                stored = self.merge(shape.present, shape.value, empty)
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
                for slot in self.padded(kind.of, shape, capacity):
                    yield from self.encode(Optional(kind.of), slot, faults)
            case Record():
                assert isinstance(shape, list)
                for (_, of), part in zip(kind.fields, shape, strict=True):
                    yield from self.encode(of, part, faults)
            case Map():
                assert isinstance(shape, list)
                for part in shape:
                    yield from self.encode(kind.of, part, faults)

    def stored(self, present: Node, value: Node, none: Node) -> Node:
        """The value where it is present, else the number that stands for none.

        What chooses both is what is chosen by: a slot that takes another's place is then that slot.
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
        """Whether a value is present and yet the number that stands for none."""
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

    def padded(self, kind: Type, shape: Slots, capacity: int) -> tuple[Maybe, ...]:
        """The first `capacity` slots, absent ones for those that are missing."""
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
                members = choices(kind.of, self.constants)  # in an order that no run changes
                return Members({member: g.true for member in members if member in value})
            case Sequence() | Bag():
                return Slots(tuple(Maybe(g.true, self.constant_shape(kind.of, v)) for v in value))
            case Record():
                fields = zip(kind.fields, value, strict=True)
                return [self.constant_shape(of, v) for (_, of), v in fields]
            case Map():
                return [self.constant_shape(kind.of, v) for v in value]

    def vector(self, state: tuple[Value, ...]) -> tuple[int, ...]:
        """A state of plain values as the numbers of its leaves; those of open constants are 0."""
        numbers = [0] * len(self.open)
        for variable, value in zip(self.instance.variables, state, strict=True):
            shape = self.constant_shape(variable.type, value)
            numbers.extend(node.value for node in self.encode(variable.type, shape, []))
        return tuple(numbers)

    def well_formed(self, kind: Type, shape: Shape) -> Iterator[Node]:
        """What holds of the leaves of every value of the type."""
        g = self.graph
        match kind, shape:
            case Optional(), Maybe():
                if not isinstance(kind.of, SCALARS):
                    stored = list(self.encode(kind.of, shape.value, []))
                    for leaf, low in zip(
                        stored, self.encode(kind.of, self.lowest(kind.of), []), strict=True
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
                        in_order = self.at_most(kind.of, slot.value, following.value)
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
        """The value that the next numbers stand for."""
        match kind:
            case Bool():
                return bool(next(numbers))
            case Int() | Key():
                return next(numbers)
            case Enum():
                return kind.names[next(numbers)]
            case Optional() if isinstance(kind.of, SCALARS):
                number = next(numbers)
                none = self.numbers(kind.of)[0] - 1
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

    # Shapes --------------------------------------------------------------------------------

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
                raise DeclarationError("two branches of different shape")

    def merge_maybe(self, condition: Node, then: Maybe, otherwise: Maybe) -> Maybe:
        merged = self.merge(condition, then, otherwise)
        assert isinstance(merged, Maybe)
        return merged

    def side_by_side(self, a: Slots, b: Slots) -> Iterator[tuple[Maybe, Maybe]]:
        """The slots in pairs; a missing one is absent."""
        nothing = self.graph.false
        for x, y in zip_longest(a.slots, b.slots):
            yield x or Maybe(nothing, y.value), y or Maybe(nothing, x.value)

    def all_members(self, *sets: Members) -> list[Value]:
        """What one of the sets may hold."""
        return list(dict.fromkeys(member for one in sets for member in one.there))

    def both(self, a: Members, b: Members, member: Value) -> tuple[Node, Node]:
        """Whether each of two sets holds a member."""
        nowhere = self.graph.false
        return a.there.get(member, nowhere), b.there.get(member, nowhere)

    def equal(self, a: Shape, b: Shape) -> Node:
        g = self.graph
        match a, b:
            case Node(), Node():
                return g.equal(a, b)
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
                raise DeclarationError("two values of different shape are compared")

    def ranks(self, kind: Type, shape: Shape) -> list[Node]:
        """The numbers by whose order a bag's elements are sorted (see `types.rank`)."""
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
                raise DeclarationError(f"a value is no {kind}")

    def at_most(self, kind: Type, a: Shape, b: Shape) -> Node:
        """Whether a comes before b in canonical order, or is equal."""
        g = self.graph
        result = g.true
        ranked = zip(self.ranks(kind, a), self.ranks(kind, b), strict=True)
        for x, y in reversed(list(ranked)):
            result = g.or_(g.less(x, y), g.and_(g.equal(x, y), result))
        return result

    def coerce(self, shape: Shape, source: Type | None, target: Type) -> Shape:
        """The value as one of type `target`: plain values become optionals where needed."""
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

    # Expressions ---------------------------------------------------------------------------

    def node(self, e: Expression, scope: _Scope) -> Node:
        shape = self.shape(e, scope)
        assert isinstance(shape, Node)
        return shape

    def typed(self, e: Expression, target: Type, scope: _Scope) -> Shape:
        return self.coerce(self.shape(e, scope), type_of(e), target)

    def shape(self, e: Expression, scope: _Scope) -> Shape:
        if self.reading_next:
            return self._shape(e, scope)
        found = scope.memo.get(e)
        if found is None:
            found = scope.memo[e] = self._shape(e, scope)
        return found

    def _shape(self, e: Expression, scope: _Scope) -> Shape:
        g = self.graph
        args, data = e.args, e.data
        match e.op:
            case "const":
                if data is None:
                    return Maybe(g.false, g.false)
                if isinstance(data, EnumValue):
                    return g.number(data.enum.names.index(data.member))
                return g.truth(data) if isinstance(data, bool) else g.number(data)
            case "constant":
                known = self.open.get(data.name)
                return known or g.number(resolve(e, self.constants))
            case "variable" | "element":
                if e not in scope.values:
                    raise DeclarationError(f"`{e}` is not bound here")
                return scope.values[e]
            case "field":
                shapes = self.next if self.reading_next else self.shapes
                whole = shapes[field_name(data)]
                return self.select(whole, self.index(args[0], whole, scope)) if args else whole
            case "after":
                self.reading_next = True
                try:
                    return self._shape(args[0], scope)
                finally:
                    self.reading_next = False
            case "and" | "or" | "sub" if isinstance(type_of(e), Set):
                a, b = (self.shape(x, scope) for x in args)
                assert isinstance(a, Members)
                assert isinstance(b, Members)
                pairs = ((m, *self.both(a, b, m)) for m in self.all_members(a, b))
                return Members({m: self.of_sets(e.op, x, y) for m, x, y in pairs})
            case "and":
                return g.and_(*(self.node(a, scope) for a in args))
            case "or":
                return g.or_(*(self.node(a, scope) for a in args))
            case "not":
                return g.not_(self.node(args[0], scope))
            case "eq":
                kind = common(*args)
                return g.true if kind is None else self.equal(*self.alike(args, kind, scope))
            case "add" if isinstance(type_of(e), Sequence):
                return self.joined(e, scope)
            case "lt":
                return g.less(self.node(args[0], scope), self.node(args[1], scope))
            case "le":
                return g.at_most(self.node(args[0], scope), self.node(args[1], scope))
            case "add":
                return g.add(self.node(args[0], scope), self.node(args[1], scope))
            case "sub":
                return g.subtract(self.node(args[0], scope), self.node(args[1], scope))
            case "mul":
                return g.multiply(self.node(args[0], scope), self.node(args[1], scope))
            case "div" | "mod":
                by = self.node(args[1], scope)
                if not by.is_constant:
                    raise DeclarationError(f"`{e}`: give {args[1]} a value")
                divided = g.divide if e.op == "div" else g.modulo
                return divided(self.node(args[0], scope), divisor(e, by.value))
            case "wrap":
                return g.wrap(self.node(args[0], scope), *data.range(self.constants))
            case "if":
                condition = self.node(args[0], scope)
                return self.merge(condition, *self.alike(args[1:], type_of(e), scope))
            case _:
                return self.structured(e, scope)

    def known(self, e: Expression) -> Type:
        kind = type_of(e)
        assert kind is not None
        return kind

    def of_sets(self, op: str, a: Node, b: Node) -> Node:
        g = self.graph
        if op == "and":
            return g.and_(a, b)
        return g.or_(a, b) if op == "or" else g.and_(a, g.not_(b))

    def alike(
        self, args: tuple[Expression, ...], kind: Type | None, scope: _Scope
    ) -> tuple[Shape, Shape]:
        """Both as values of one type."""
        a, b = (self.shape(arg, scope) for arg in args)
        if kind is None:
            return a, b
        return self.coerce(a, type_of(args[0]), kind), self.coerce(b, type_of(args[1]), kind)

    def index(self, e: Expression, whole: Shape, scope: _Scope) -> Node:
        """The index of a map. Raises DeclarationError where it may be no key of it."""
        assert isinstance(whole, list)
        node, kind = self.node(e, scope), self.known(e)
        if isinstance(kind, Int):
            least, most = kind.range(self.constants)
            low, high = max(node.low, least), min(node.high, most)
            if low == high and not 0 <= low < len(whole):
                there = f"they are 0..{len(whole) - 1}"
                raise DeclarationError(f"there is no instance {low} at these constants: {there}")
            if low < 0 or high >= len(whole):
                raise DeclarationError(
                    f"`{e}` is {low}..{high}: a map of {len(whole)} keys is read by 0.."
                    f"{len(whole) - 1}"
                )
        return node

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

    def structured(self, e: Expression, scope: _Scope) -> Shape:
        g = self.graph
        args, data = e.args, e.data
        match e.op:
            case "index":
                whole = self.shape(args[0], scope)
                if isinstance(whole, Slots):
                    return self.slot_at(e, whole, self.node(args[1], scope))
                return self.select(whole, self.index(args[1], whole, scope))
            case "updated":
                kind = self.known(e)
                assert isinstance(kind, Map)
                value = self.typed(args[2], kind.of, scope)
                whole = self.shape(args[0], scope)
                return self.put_in(whole, self.index(args[1], whole, scope), lambda _: value)
            case "get":
                record = self.known(args[0])
                assert isinstance(record, Record)
                inside = self.shape(args[0], scope)
                assert isinstance(inside, list)
                return inside[[n for n, _ in record.fields].index(data)]
            case "is_set" | "value":
                maybe = self.shape(args[0], scope)
                assert isinstance(maybe, Maybe)
                if e.op == "is_set":
                    return maybe.present
                return self.merge(maybe.present, maybe.value, self.lowest(self.known(e)))
            case "some":
                return Maybe(g.true, self.shape(args[0], scope))
            case "make" | "replace":
                return self.record(e, scope)
            case "set_of":
                return self.gathered((g.true, self.node(a, scope), self.known(a)) for a in args)
            case "sequence_of":
                return Slots(tuple(Maybe(g.true, self.shape(a, scope)) for a in args))
            case "in":
                return self.membership(args[0], args[1], scope)
            case "size":
                kind = self.known(args[0])
                return g.total(g.as_number(p) for p, _ in self.members(kind, args[0], scope))
            case "position":
                if args[0] in scope.places:
                    return g.number(scope.places[args[0]])
                return self.node(args[0], scope)
            case _ if e.op in QUANTIFIERS:
                return self.quantified(e, scope)
            case _:
                return self.sequence(e, scope)

    def record(self, e: Expression, scope: _Scope) -> Shape:
        kind = self.known(e)
        assert isinstance(kind, Record)
        if e.op == "make":
            names, values = e.data[1], e.args
            start = self.lowest(kind)
        else:
            names, values = e.data, e.args[1:]
            start = self.shape(e.args[0], scope)
        assert isinstance(start, list)
        given = dict(zip(names, values, strict=True))
        return [
            self.typed(given[name], of, scope) if name in given else before
            for (name, of), before in zip(kind.fields, start, strict=True)
        ]

    def gathered(self, elements: Iterable[tuple[Node, Shape, Type]]) -> Members:
        """The set of the elements, each with when it is in it and its type."""
        g = self.graph
        there: dict[Value, Node] = {}
        for when, element, kind in elements:
            for member, same in self.spread(kind, element):
                there[member] = g.or_(there.get(member, g.false), g.and_(when, same))
        return Members(there)

    def spread(self, kind: Type, shape: Shape) -> list[tuple[Value, Node]]:
        """The values that a scalar may have, each with when it has."""
        if not isinstance(shape, Node):
            raise DeclarationError(f"a set holds scalars: {kind} is none")
        if shape.high - shape.low >= MOST_MEMBERS:
            raise DeclarationError(f"a set of numbers {shape.low}..{shape.high} is too large")
        if isinstance(kind, Bool):
            return [(False, self.graph.not_(shape)), (True, shape)]
        low, high = shape.low, shape.high
        if not isinstance(kind, Int):  # an absent enum or key may be stored as a number below
            low, high = max(low, 0), min(high, self.numbers(kind)[1])
        return [
            (
                kind.names[number] if isinstance(kind, Enum) else number,
                self.graph.equal(shape, self.graph.number(number)),
            )
            for number in range(low, high + 1)
        ]

    def membership(self, value: Expression, collection: Expression, scope: _Scope) -> Node:
        kind = self.known(collection)
        assert isinstance(kind, (Set, Sequence, Bag))
        if _is_nothing(kind.of):
            return self.graph.false
        sought = self.typed(value, kind.of, scope)
        g = self.graph
        pairs = self.members(kind, collection, scope)
        return g.or_(*(g.and_(there, self.equal(sought, member)) for there, member in pairs))

    def members(
        self, kind: Type, collection: Expression, scope: _Scope
    ) -> list[tuple[Node, Shape]]:
        """What a collection may hold, each with whether it does."""
        whole = self.shape(collection, scope)
        if isinstance(whole, Slots):
            return [(slot.present, slot.value) for slot in whole.slots]
        assert isinstance(kind, Set)
        assert isinstance(whole, Members)
        return [(n, self.constant_shape(kind.of, value)) for value, n in whole.there.items()]

    def quantified(self, e: Expression, scope: _Scope) -> Shape:
        g = self.graph
        bound, body = e.args
        if bound.op == "variable":
            kind = bound.data.type
            domain = [(g.true, self.constant_shape(kind, v)) for v in choices(kind, self.constants)]
        else:
            domain = self.members(self.known(bound.args[0]), bound.args[0], scope)
        ordered = bound.op == "element" and isinstance(type_of(bound.args[0]), Sequence)
        inner = [
            (there, value, scope.with_(bound, value, at if ordered else None))
            for at, (there, value) in enumerate(domain)
        ]
        if e.op == "each":
            of = self.known(e)
            assert isinstance(of, Map)
            return [self.typed(body, of.of, s) for _, _, s in inner]
        held = [(there, value, self.node(body, s)) for there, value, s in inner]
        match e.op:
            case "max" | "min":
                return self.extreme(e.op, held)
            case "all":
                return g.and_(*(g.or_(g.not_(there), holds) for there, _, holds in held))
            case "any":
                return g.or_(*(g.and_(there, holds) for there, _, holds in held))
            case "count":
                return g.total(g.as_number(g.and_(there, holds)) for there, _, holds in held)
            case "those":
                kind = self.known(e)
                assert isinstance(kind, Set)
                return self.gathered((g.and_(there, h), v, kind.of) for there, v, h in held)
            case "first_of":
                kind = self.known(e)
                found = self.lowest(kind)
                for there, value, holds in reversed(held):
                    found = self.merge(g.and_(there, holds), Maybe(g.true, value), found)
                return found
            case _:
                kind = self.known(e)
                assert isinstance(kind, (Sequence, Bag))
                kept = (self.absent(kind.of),) * len(held)
                for there, value, holds in held:
                    kept = self.appended(kept, value, g.and_(there, holds))
                return Slots(kept)

    def extreme(self, op: str, held: list[tuple[Node, Shape, Node]]) -> Node:
        """The largest or the smallest of the numbers that are there; 0 where none is."""
        g = self.graph
        found, is_any = g.number(0), g.false
        for there, _, number in held:
            less = g.less(found, number) if op == "max" else g.less(number, found)
            found = g.choose(g.and_(there, g.or_(g.not_(is_any), less)), number, found)
            is_any = g.or_(is_any, there)
        return found

    # Sequences and bags --------------------------------------------------------------------

    def slot_at(self, e: Expression, whole: Slots, place: Node) -> Maybe:
        """The element at a place, if there is one."""
        kind = self.known(e.args[0])
        assert isinstance(kind, Sequence)
        result = self.absent(kind.of)
        for at, slot in enumerate(whole.slots):
            here = self.graph.equal(place, self.graph.number(at))
            result = self.merge_maybe(here, slot, result)
        return result

    def sliced(self, e: Expression, slots: tuple[Maybe, ...], scope: _Scope) -> Slots:
        """The elements from one place on, up to before another."""
        g = self.graph
        kind = self.known(e)
        assert isinstance(kind, Sequence)
        start, stop = e.args[1:]
        if type_of(stop) is not None:
            end = self.node(stop, scope)
            inside = (g.less(g.number(at), end) for at in range(len(slots)))
            slots = tuple(
                Maybe(g.and_(slot.present, before), slot.value)
                for slot, before in zip(slots, inside, strict=True)
            )
        first = self.node(start, scope)
        result = slots if first.low <= 0 else ()
        for dropped in range(max(1, first.low), min(first.high, len(slots)) + 1):
            shifted = (*slots[dropped:], *(self.absent(kind.of) for _ in range(dropped)))
            here = g.at_most(g.number(dropped), first)
            pairs = self.side_by_side(Slots(shifted), Slots(result))
            result = tuple(self.merge_maybe(here, a, b) for a, b in pairs)
        return Slots(result)

    def joined(self, e: Expression, scope: _Scope) -> Slots:
        """One sequence behind another."""
        kind = self.known(e)
        assert isinstance(kind, Sequence)
        shapes = [self.typed(argument, kind, scope) for argument in e.args]
        slots, more = (shape.slots for shape in shapes if isinstance(shape, Slots))
        for slot in more:
            slots = self.appended((*slots, self.absent(kind.of)), slot.value, slot.present)
        return Slots(slots)

    def is_prefix(self, e: Expression, scope: _Scope) -> Node:
        """Whether every element of one sequence is at its place in another."""
        g = self.graph
        shapes = self.alike(e.args, common(*e.args), scope)
        shorter, longer = (shape for shape in shapes if isinstance(shape, Slots))
        return g.and_(
            *(
                g.or_(
                    g.not_(one.present), g.and_(other.present, self.equal(one.value, other.value))
                )
                for one, other in self.side_by_side(shorter, longer)
            )
        )

    def sequence(self, e: Expression, scope: _Scope) -> Shape:
        if e.op == "is_prefix":
            return self.is_prefix(e, scope)
        whole = self.shape(e.args[0], scope)
        kind = self.known(e.args[0])
        assert isinstance(whole, Slots)
        assert isinstance(kind, (Sequence, Bag))
        slots = whole.slots
        match e.op:
            case "slice":
                return self.sliced(e, slots, scope)
            case "first":
                return slots[0] if slots else self.absent(kind.of)
            case "last":
                result = self.absent(kind.of)
                for slot in slots:
                    result = self.merge_maybe(slot.present, slot, result)
                return result
            case "without_first":
                return Slots(slots[1:])
            case "take":
                return self.taken(e, kind, slots, scope)
            case _:
                value = self.typed(e.args[1], kind.of, scope)
                return Slots(self.grown(e, kind, slots, value))

    def taken(
        self, e: Expression, kind: Sequence | Bag, slots: tuple[Maybe, ...], scope: _Scope
    ) -> Slots:
        g = self.graph
        bag, value = e.args
        sought = self.typed(value, kind.of, scope)
        gone = g.false
        result: list[Maybe] = []
        for place, slot in enumerate(slots):
            if (
                scope.taken is not None
                and value.same_as(scope.taken[0])
                and value.args[0].same_as(bag)
            ):
                gone = g.at_most(scope.taken[1], g.number(place))
            else:
                gone = g.or_(gone, g.and_(slot.present, self.equal(slot.value, sought)))
            following = slots[place + 1] if place + 1 < len(slots) else self.absent(kind.of)
            result.append(self.merge_maybe(gone, following, slot))
        return Slots(tuple(result))

    def appended(self, slots: tuple[Maybe, ...], value: Shape, when: Node) -> tuple[Maybe, ...]:
        """The value put into the first absent slot, where `when` holds."""
        g = self.graph
        result: list[Maybe] = []
        before = g.true
        for slot in slots:
            here = g.and_(when, before, g.not_(slot.present))
            result.append(self.merge_maybe(here, Maybe(g.true, value), slot))
            before = slot.present
        return tuple(result)

    def grown(
        self, e: Expression, kind: Sequence | Bag, slots: tuple[Maybe, ...], value: Shape
    ) -> tuple[Maybe, ...]:
        """One slot more, and the value where it belongs."""
        g = self.graph
        empty, new = self.absent(kind.of), Maybe(g.true, value)
        capacity = resolve(kind.capacity, self.constants)
        if e.op == "append" or (e.op == "push" and len(slots) < capacity):
            return self.appended((*slots, empty), value, g.true)
        if e.op == "push":  # what is full drops its first, so that nothing grows
            if not slots:
                return ()
            full = slots[capacity - 1].present if capacity else g.true
            shifted = (*slots[1:], new)
            if len(slots) > capacity:
                shifted = self.appended((*slots[1:], empty), value, g.true)
            longer = self.appended(slots, value, g.true)
            return tuple(self.merge_maybe(full, a, b) for a, b in zip(shifted, longer, strict=True))
        if e.op == "insert_by":
            assert isinstance(kind.of, Record)
            at = [n for n, _ in kind.of.fields].index(e.data)

            def goes_before(slot: Maybe) -> Node:
                assert isinstance(slot.value, list)
                assert isinstance(value, list)
                mine, other = value[at], slot.value[at]
                assert isinstance(mine, Node)
                assert isinstance(other, Node)
                return g.at_most(other, mine)
        else:

            def goes_before(slot: Maybe) -> Node:
                return self.at_most(kind.of, slot.value, value)

        result: list[Maybe] = []
        before = g.true  # whether all earlier elements stay before the new one
        for place, slot in enumerate((*slots, empty)):
            stays = (
                g.and_(before, slot.present, goes_before(slot)) if place < len(slots) else g.false
            )
            moved = slots[place - 1] if place else new
            here = self.merge_maybe(before, new, moved)
            result.append(self.merge_maybe(stays, slot, here))
            before = stays
        return tuple(result)

    # Actions -------------------------------------------------------------------------------

    def run(self) -> Grounded:
        instance, empty = self.instance, _Scope({}, {})
        leaf_count = len(self.leaves)
        if any(item.kind == "step" for item in instance.properties):
            self.next = {v.name: self.build(v.type, (v.name, "'")) for v in instance.variables}
        steps = self.properties("step")
        probed = list(self.probed())
        del self.leaves[leaf_count:]
        unchanged = {
            leaf_count - len(self.open) + leaf.index: self.read(leaf)
            for leaf in self.leaves[len(self.open) :]
        }
        every_step = Steps(self.graph, steps, unchanged)
        actions: list[GroundAction] = []
        row = 0
        for action in instance.actions:
            with _placed(f"table {action.table}"):
                actions += self.bound_actions(action, row, every_step)
            row += len(action.rows)
        invariants = self.properties("invariant")
        with _placed("terminal"):
            terminal = self.node(instance.terminal, empty)
        return Grounded(
            instance,
            self.graph,
            self.leaves,
            sorted({self.vector(state) for state in instance.initial_states()}),
            actions,
            invariants,
            terminal,
            self.vector,
            self.plain,
            frozenset(range(leaf_count)),
            [
                node
                for variable in instance.variables
                for node in self.well_formed(variable.type, self.shapes[variable.name])
                if node is not self.graph.true
            ]
            + [
                self.graph.at_most(self.read(self.leaves[index]), most)
                for index, most in self.most.items()
                if index < leaf_count
            ],
            {node.value: name for name, node in self.open.items()},
            sorted({self.leaves[i].name for i in leaves_of(self.most.values())}),
            probed,
            unchanged,
        )

    def bound_actions(
        self, action: Action, first: int, every_step: Steps
    ) -> Iterator[GroundAction]:
        """The action for each of its bindings that is possible; its first row has that number."""
        for scope, possible in self.bindings(action):
            if all(node is self.graph.false for node in possible):
                continue
            rows = tuple(self.rows(action, first, scope, every_step))
            if rows:
                guards = tuple(
                    (first + at, self.node(each.guard, scope))
                    for at, each in enumerate(action.rows)
                )
                yield GroundAction(possible, rows, scope.instances, guards)

    def probed(self) -> Iterator[tuple[Probe, Node]]:
        """What a run should meet, as nodes."""
        for probe in probes(self.instance):
            with _placed(f"property {probe.about}"):
                yield probe, self.node(probe.expression, _Scope({}, {}))

    def properties(self, kind: str) -> list[Node]:
        """The properties of a kind as nodes."""
        nodes: list[Node] = []
        for item in self.instance.properties:
            if item.kind == kind:
                with _placed(f"property {item.name}"):
                    nodes.append(self.node(item.expression, _Scope({}, {})))
        return nodes

    def bindings(self, action: Action) -> Iterator[tuple[_Scope, tuple[Node, ...]]]:
        g = self.graph
        domains = [choices(bound.data.type, self.constants) for bound in action.bounds]
        for values in product(*domains):
            bound: dict[Expression, Shape] = {
                name: self.constant_shape(name.data.type, value)
                for name, value in zip(action.bounds, values, strict=True)
            }
            if action.choice is None:
                scope = _Scope(bound, {})
                yield scope, (self.node(action.when, scope),)
                continue
            bag = self.shape(action.choice.args[0], _Scope(bound, {}))
            assert isinstance(bag, Slots)
            in_order = isinstance(type_of(action.choice.args[0]), Sequence)
            # the rows are grounded once, for a slot that `chosen` names
            slots = bag.slots
            if not slots:
                continue  # a channel of no capacity
            chosen = g.leaf(choice_leaf(len(slots)), 0, len(slots) - 1, False)
            content = slots[-1].value
            for place in range(len(slots) - 2, -1, -1):
                here = g.equal(chosen, g.number(place))
                content = self.merge(here, slots[place].value, content)
            scope = _Scope({**bound, action.choice: content}, {}, (action.choice, chosen))
            when = self.node(action.when, scope)
            possible: list[Node] = []
            for place, slot in enumerate(slots):
                distinct = g.true
                if place:  # a bag's equal elements lie side by side: the first stands for them
                    before = slots[:place] if in_order else slots[place - 1 : place]
                    same = (self.equal(other.value, slot.value) for other in before)
                    distinct = g.not_(g.or_(*same))
                choice = {chosen.value: g.number(place)} if chosen.op == "leaf" else {}
                holds = g.substitute(when, choice)
                possible.append(g.and_(slot.present, distinct, holds))
            yield scope, tuple(possible)

    def rows(
        self, action: Action, first: int, scope: _Scope, every_step: Steps
    ) -> Iterator[GroundRow]:
        g = self.graph
        earlier: list[Node] = []
        for offset, row in enumerate(action.rows):
            with _placed(f"row {row.name!r}"):
                own = self.node(row.guard, scope)
                room = self.node(row.room, scope)
                guard = g.and_(*(g.not_(node) for node in earlier), own, room)
                earlier.append(own)
                if guard is g.false:
                    continue
                updates, fault = self.updates(row.updates, scope)
            behind = len(self.leaves) - len(self.open)  # the next state has no constants of its own
            holding = every_step.by({behind + index: node for index, node in updates.items()})
            yield GroundRow(first + offset, guard, updates, fault, tuple(map(g.not_, holding)))

    def read(self, leaf: Leaf) -> Node:
        """What a leaf holds."""
        return self.graph.leaf(leaf.index, leaf.low, leaf.high, leaf.is_truth)

    def updates(
        self, pairs: tuple[tuple[Expression, Expression], ...], scope: _Scope
    ) -> tuple[dict[int, Node], Node]:
        g = self.graph
        changed: dict[str, Shape] = {}
        for target, expression in pairs:
            value = self.typed(expression, self.known(target), scope)
            base, path = _path(target)
            name = field_name(base.data)
            whole = changed.get(name, self.shapes[name])
            changed[name] = self.placed(whole, path, _records(target), value, scope)
        updates: dict[int, Node] = {}
        faults: list[Node] = []
        for variable in self.instance.variables:
            if variable.name not in changed:
                continue
            start = self.first_leaf[variable.name]
            encoded = self.encode(variable.type, changed[variable.name], faults)
            for index, node in enumerate(encoded, start):
                leaf = self.leaves[index]
                if node.op == "leaf" and node.value == index:
                    continue
                if node.low < leaf.low:
                    faults.append(g.less(node, g.number(leaf.low)))
                most = self.most.get(index)
                if most is not None:
                    held = node.op == "leaf" and self.most.get(node.value) is most
                    faults += [] if held else [g.less(most, node)]
                elif node.high > leaf.high:
                    faults.append(g.less(g.number(leaf.high), node))
                if leaf.low < leaf.high:
                    updates[index] = node
        return updates, g.or_(*faults)

    def placed(
        self,
        whole: Shape,
        path: list[str | Expression],
        records: list[Record | None],
        value: Shape,
        scope: _Scope,
    ) -> Shape:
        if not path:
            return value
        assert isinstance(whole, list)
        here, record = path[0], records[0]

        def inside(part: Shape) -> Shape:
            return self.placed(part, path[1:], records[1:], value, scope)

        if isinstance(here, Expression):
            return self.put_in(whole, self.index(here, whole, scope), inside)
        assert record is not None
        at = [n for n, _ in record.fields].index(here)
        inner = inside(whole[at])
        return [*whole[:at], inner, *whole[at + 1 :]]


class Steps:
    """What is to hold of every step, for steps that leave most of the state as it is.

    `unchanged` has the leaves of the state after a step, with what they are where it changes
    nothing.
    """

    def __init__(self, graph: Graph, nodes: list[Node], unchanged: Mapping[int, Node]) -> None:
        self.graph = graph
        self.nodes = nodes
        self.unchanged: dict[int, Node] = {}
        self.bits = {leaf: 1 << at for at, leaf in enumerate(unchanged)}
        self.reads: dict[int, int] = {}
        for node in nodes:
            graph.substitute(node, unchanged, self.unchanged)
            self._note_reads(node)

    def _note_reads(self, node: Node) -> int:
        """Notes which leaves of the state after the node and its parts read, a bit for each."""
        found = self.reads.get(node.number)
        if found is None:
            found = self.bits.get(node.value, 0) if node.op == "leaf" else 0
            for part in node.args:
                found |= self._note_reads(part)
            self.reads[node.number] = found
        return found

    def by(self, updates: Mapping[int, Node]) -> list[Node]:
        """Whether each holds of the step that changes these leaves."""
        changed = sum(self.bits[leaf] for leaf in updates)
        known = {n: node for n, node in self.unchanged.items() if not self.reads[n] & changed}
        return [self.graph.substitute(node, updates, known) for node in self.nodes]


@contextmanager
def _placed(where: str) -> Generator[None]:
    """Says where what can't be grounded is declared."""
    try:
        yield
    except UnsettledError:
        raise  # a constant that is left open, of which the caller knows
    except DeclarationError as error:
        raise DeclarationError(f"{where}: {error}") from None
    except RecursionError:
        raise DeclarationError(f"{where}: {TOO_DEEP}") from None


def _is_nothing(kind: object) -> bool:
    """Whether a type stands for the elements of a literal empty collection."""
    return kind is None


def _path(target: Expression) -> tuple[Expression, list[str | Expression]]:
    """The field that a target is part of, and the keys and field names that lead to the part."""
    path: list[str | Expression] = []
    node = target
    while node.op != "field":
        path.append(node.args[1] if node.op == "index" else node.data)
        node = node.args[0]
    if node.args:
        path.append(node.args[0])
    return node, path[::-1]


def _records(target: Expression) -> list[Record | None]:
    """For every part of the path the record it selects from, if it does."""
    records: list[Record | None] = []
    node = target
    while node.op != "field":
        kind = type_of(node.args[0])
        records.append(kind if node.op == "get" and isinstance(kind, Record) else None)
        node = node.args[0]
    if node.args:
        records.append(None)
    return records[::-1]
