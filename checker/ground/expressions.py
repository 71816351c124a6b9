"""Expressions as nodes and shapes of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...language import (
    Bag,
    Bool,
    DeclarationError,
    Enum,
    Expression,
    Int,
    Key,
    Map,
    Record,
    Sequence,
    Set,
)
from ...language.declaration.typecheck import common, type_of
from ...language.expressions import QUANTIFIERS, EnumValue, divisor, resolve
from ...language.terms.derived import definition
from ...language.terms.scopes import free_variables
from ...language.terms.values import field_name
from ...language.types import Type, Value, choices
from . import sequences
from .graph import Node
from .shapes import Maybe, Members, Shape, Shapes, Slots
from .state import State

MOST_MEMBERS = 1 << 12
_OWN = {"push"}  # derived operators with smaller nodes than their definitions


class Scope:
    """The meaning of names, and a cache of the nodes under them.

    `places` are the places of elements in their sequences. `taken` is the element that an action
    takes from a bag, with its slot. An expression has one meaning in a scope and the scope `around`
    it, unless it contains one of the names that the inner scope adds.
    """

    def __init__(
        self,
        values: Mapping[Expression, Shape] = {},
        places: Mapping[Expression, int] = {},
        taken: tuple[Expression, Node] | None = None,
        around: Scope | None = None,
    ) -> None:
        self.values: dict[Expression, Shape] = dict(values)
        self.places: dict[Expression, int] = dict(places)
        if around is not None:
            self.values = around.values | self.values
            self.places = around.places | self.places
        self.taken = taken
        self.around = around
        self.own = frozenset(values)
        self.memo: dict[Expression, Shape] = {}

    @property
    def instances(self) -> tuple[tuple[Key, int], ...]:
        """The identities among the values, with their keys."""
        return tuple(
            (name.data.type, value.value)
            for name, value in self.values.items()
            if name.op == "variable" and isinstance(name.data.type, Key)
            if isinstance(value, Node)
        )

    def with_(self, name: Expression, value: Shape, place: int | None = None) -> Scope:
        places = {} if place is None else {name: place}
        return Scope({name: value}, places, self.taken, self)

    def home(self, e: Expression) -> Scope:
        """The outermost scope in which the expression has the same meaning."""
        scope = self
        if scope.around is not None:
            names = free_variables(e)
            while scope.around is not None and scope.own.isdisjoint(names):
                scope = scope.around
        return scope

    def place_in(self, bag: Expression, value: Expression) -> Node | None:
        """The place of the value in the bag, if the action takes it from there."""
        if self.taken is None:
            return None
        element, place = self.taken
        return place if value.same_as(element) and element.args[0].same_as(bag) else None


class Expressions:
    """The values of expressions in a state; `following` has the state after a step, for `after`."""

    def __init__(self, state: State, following: Mapping[str, Shape]) -> None:
        self.shapes: Shapes = state.shapes
        self.graph = state.graph
        self.constants = state.constants
        self.open = state.open
        self.before = state.variables
        self.following = following
        self.reading_next = False
        self.outermost = Scope()

    def node(self, e: Expression, scope: Scope) -> Node:
        shape = self.shape(e, scope)
        assert isinstance(shape, Node)
        return shape

    def typed(self, e: Expression, target: Type, scope: Scope) -> Shape:
        return self.shapes.coerce(self.shape(e, scope), type_of(e), target)

    def shape(self, e: Expression, scope: Scope) -> Shape:
        if self.reading_next:
            return self._shape(e, scope)
        home = scope.home(e)
        found = home.memo.get(e)
        if found is None:
            found = home.memo[e] = self._shape(e, home)
        return found

    def _shape(self, e: Expression, scope: Scope) -> Shape:  # noqa: C901 (a case for each operator)
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
                state = self.following if self.reading_next else self.before
                whole = state[field_name(data)]
                return (
                    self.shapes.select(whole, self.index(args[0], whole, scope)) if args else whole
                )
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
                pairs = ((m, *self.shapes.both(a, b, m)) for m in self.shapes.all_members(a, b))
                return Members({m: self.of_sets(e.op, x, y) for m, x, y in pairs})
            case "and":
                return g.and_(*(self.node(a, scope) for a in args))
            case "or":
                return g.or_(*(self.node(a, scope) for a in args))
            case "not":
                return g.not_(self.node(args[0], scope))
            case "eq":
                kind = common(*args)
                return g.true if kind is None else self.shapes.equal(*self.alike(args, kind, scope))
            case "add" if isinstance(type_of(e), Sequence):
                return self.joined(e, scope)
            case "lt":
                return g.less(self.node(args[0], scope), self.node(args[1], scope))
            case "add":
                return g.add(self.node(args[0], scope), self.node(args[1], scope))
            case "sub":
                return g.subtract(self.node(args[0], scope), self.node(args[1], scope))
            case "mul":
                return g.multiply(self.node(args[0], scope), self.node(args[1], scope))
            case "div" | "mod":
                by = self.node(args[1], scope)
                if not by.is_constant:
                    resolve(args[1], self.constants)  # raises UnsettledError for an open constant
                    raise DeclarationError(f"`{e}`: give {args[1]} a value")
                divided = g.divide if e.op == "div" else g.modulo
                return divided(self.node(args[0], scope), divisor(e, by.value))
            case "if":
                condition = self.node(args[0], scope)
                return self.shapes.merge(condition, *self.alike(args[1:], type_of(e), scope))
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
        self, args: tuple[Expression, ...], kind: Type | None, scope: Scope
    ) -> tuple[Shape, Shape]:
        """Both arguments as values of one type."""
        a, b = (self.shape(arg, scope) for arg in args)
        if kind is None:
            return a, b
        return self.shapes.coerce(a, type_of(args[0]), kind), self.shapes.coerce(
            b, type_of(args[1]), kind
        )

    def index(self, e: Expression, whole: Shape, scope: Scope) -> Node:
        """The index of a map. Raises DeclarationError if it may be no key of the map."""
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
                    f"`{e}` is {low}..{high}, and the {len(whole)} keys of the map are 0.."
                    f"{len(whole) - 1}"
                )
        return node

    def structured(self, e: Expression, scope: Scope) -> Shape:  # noqa: C901 (a case for each operator)
        g = self.graph
        args, data = e.args, e.data
        match e.op:
            case "index":
                whole = self.shape(args[0], scope)
                if isinstance(whole, Slots):
                    kind = self.known(args[0])
                    assert isinstance(kind, Sequence)
                    place = self.node(args[1], scope)
                    return sequences.slot_at(self.shapes, kind.of, whole.slots, place)
                return self.shapes.select(whole, self.index(args[1], whole, scope))
            case "updated":
                kind = self.known(e)
                assert isinstance(kind, Map)
                value = self.typed(args[2], kind.of, scope)
                whole = self.shape(args[0], scope)
                return self.shapes.put_in(whole, self.index(args[1], whole, scope), lambda _: value)
            case "get":
                record = self.known(args[0])
                assert isinstance(record, Record)
                inside = self.shape(args[0], scope)
                assert isinstance(inside, list)
                return inside[[n for n, _ in record.fields].index(data)]
            case "value":
                maybe = self.shape(args[0], scope)
                assert isinstance(maybe, Maybe)
                return self.shapes.merge(
                    maybe.present, maybe.value, self.shapes.lowest(self.known(e))
                )
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
            case _ if e.op not in _OWN and (defined := definition(e)) is not None:
                return self.shape(defined, scope)
            case _:
                return self.sequence(e, scope)

    def record(self, e: Expression, scope: Scope) -> Shape:
        kind = self.known(e)
        assert isinstance(kind, Record)
        if e.op == "make":
            names, values = e.data[1], e.args
            start = self.shapes.lowest(kind)
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
        """The set of the elements; each is given with the condition of its membership, and its
        type.
        """
        g = self.graph
        there: dict[Value, Node] = {}
        for when, element, kind in elements:
            for member, same in self.spread(kind, element):
                there[member] = g.or_(there.get(member, g.false), g.and_(when, same))
        return Members(there)

    def spread(self, kind: Type, shape: Shape) -> list[tuple[Value, Node]]:
        """The possible values of a scalar, each with the condition for it."""
        if not isinstance(shape, Node):
            raise DeclarationError(f"a set holds scalars, and {kind} isn't one")
        if shape.high - shape.low >= MOST_MEMBERS:
            raise DeclarationError(f"a set of numbers {shape.low}..{shape.high} is too large")
        if isinstance(kind, Bool):
            return [(False, self.graph.not_(shape)), (True, shape)]
        low, high = shape.low, shape.high
        if not isinstance(kind, Int):  # an absent enum or key may be stored as a lower number
            low, high = max(low, 0), min(high, self.shapes.numbers(kind)[1])
        return [
            (
                kind.names[number] if isinstance(kind, Enum) else number,
                self.graph.equal(shape, self.graph.number(number)),
            )
            for number in range(low, high + 1)
        ]

    def membership(self, value: Expression, collection: Expression, scope: Scope) -> Node:
        kind = self.known(collection)
        assert isinstance(kind, (Set, Sequence, Bag))
        if _is_nothing(kind.of):
            return self.graph.false
        sought = self.typed(value, kind.of, scope)
        g = self.graph
        pairs = self.members(kind, collection, scope)
        return g.or_(*(g.and_(there, self.shapes.equal(sought, member)) for there, member in pairs))

    def members(self, kind: Type, collection: Expression, scope: Scope) -> list[tuple[Node, Shape]]:
        """The possible elements of a collection, each with the condition of its presence."""
        whole = self.shape(collection, scope)
        if isinstance(whole, Slots):
            return [(slot.present, slot.value) for slot in whole.slots]
        assert isinstance(kind, Set)
        assert isinstance(whole, Members)
        return [(n, self.shapes.constant_shape(kind.of, value)) for value, n in whole.there.items()]

    def quantified(self, e: Expression, scope: Scope) -> Shape:
        g = self.graph
        bound, body = e.args
        if bound.op == "variable":
            kind = bound.data.type
            domain = [
                (g.true, self.shapes.constant_shape(kind, v)) for v in choices(kind, self.constants)
            ]
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
            case "sum":
                nothing = g.number(0)
                return g.total(g.choose(there, number, nothing) for there, _, number in held)
            case "those":
                kind = self.known(e)
                assert isinstance(kind, Set)
                return self.gathered((g.and_(there, h), v, kind.of) for there, v, h in held)
            case "first_of":
                kind = self.known(e)
                found = self.shapes.lowest(kind)
                for there, value, holds in reversed(held):
                    found = self.shapes.merge(g.and_(there, holds), Maybe(g.true, value), found)
                return found
            case _:
                kind = self.known(e)
                assert isinstance(kind, (Sequence, Bag))
                kept = (self.shapes.absent(kind.of),) * len(held)
                for there, value, holds in held:
                    kept = sequences.appended(self.shapes, kept, value, g.and_(there, holds))
                return Slots(kept)

    def extreme(self, op: str, held: list[tuple[Node, Shape, Node]]) -> Node:
        """The largest or the smallest of the present numbers; 0 if there is none."""
        g = self.graph
        found, is_any = g.number(0), g.false
        for there, _, number in held:
            less = g.less(found, number) if op == "max" else g.less(number, found)
            found = g.choose(g.and_(there, g.or_(g.not_(is_any), less)), number, found)
            is_any = g.or_(is_any, there)
        return found

    def joined(self, e: Expression, scope: Scope) -> Slots:
        kind = self.known(e)
        assert isinstance(kind, Sequence)
        a, b = (self.typed(argument, kind, scope) for argument in e.args)
        assert isinstance(a, Slots)
        assert isinstance(b, Slots)
        return Slots(sequences.joined(self.shapes, kind.of, a.slots, b.slots))

    def sequence(self, e: Expression, scope: Scope) -> Shape:
        whole = self.shape(e.args[0], scope)
        kind = self.known(e.args[0])
        assert isinstance(whole, Slots)
        assert isinstance(kind, (Sequence, Bag))
        shapes, slots = self.shapes, whole.slots
        match e.op:
            case "slice":
                start, stop = e.args[1:]
                end = None if type_of(stop) is None else self.node(stop, scope)
                first = self.node(start, scope)
                return Slots(sequences.sliced(shapes, kind.of, slots, first, end))
            case "last":
                return sequences.last(shapes, kind.of, slots)
            case "take":
                bag, value = e.args
                sought = self.typed(value, kind.of, scope)
                at = scope.place_in(bag, value)
                return Slots(sequences.without(shapes, kind.of, slots, sought, at))
            case _:
                value = self.typed(e.args[1], kind.of, scope)
                grown = sequences.pushed if e.op == "push" else sequences.put
                return Slots(grown(shapes, kind, slots, value))


def _is_nothing(kind: object) -> bool:
    """Whether the type is that of the elements of a literal empty collection."""
    return kind is None
