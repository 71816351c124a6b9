"""The grammar of suggested lemmas: clauses of literals over a few instances and messages in flight.

A literal compares a part of the state with another one of its type, or with a constant. `a <= b`,
`b <= a` and `a != b` express every comparison of numbers, because a lemma may have several clauses.
For enums `a != member` is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

from ....language import (
    Bag,
    Bool,
    Enum,
    Expression,
    Instance,
    Int,
    Key,
    Map,
    Message,
    Optional,
    Record,
    Sequence,
    Set,
    all_of,
    all_true,
    any_of,
    any_true,
    in_flight,
    lift,
    majority,
    size,
)
from ....language.expressions import Field, children_first, rewrite
from ....language.systems import NETWORK
from ....language.terms.scopes import free_variables
from ....language.types import SCALARS, Type, choices

FEW = 5  # most numbers of a range that may all be bounds


@dataclass(frozen=True, eq=False)
class Literal:
    """A condition for clauses. Two literals with the same subject `about` aren't combined.
    `on_left`: its negation is printed on the left of an `implies`. If the literal is `of != member`
    for an enum, it has both.
    """

    condition: Expression
    about: tuple[str, ...]
    on_left: bool
    of: Expression | None = None
    member: Expression | None = None

    def but_for(self, members: Iterable[Expression | None]) -> Literal:
        """The condition that the enum's value is none of these members."""
        assert self.of is not None
        return replace(self, condition=~self.of.is_in(*members), member=None)

    @cached_property
    def names(self) -> frozenset[Expression]:
        """The variables and messages in the literal."""
        return free_variables(self.condition)

    @property
    def denied(self) -> Expression:
        """The negation, in the shortest form."""
        return _denied(self.condition)


@dataclass(frozen=True, eq=False)
class Under:
    """The subjects of a lemma: different instances of keys, and messages in flight between them."""

    keys: tuple[Expression, ...] = ()
    messages: tuple[Expression, ...] = ()

    @property
    def names(self) -> tuple[Expression, ...]:
        """All bound names."""
        return (*self.keys, *self.messages)

    @property
    def said(self) -> frozenset[Expression]:
        """The instances that a clause must mention: those in no message's address."""
        there = (free_variables(message) for message in self.messages)
        return frozenset(self.keys) - frozenset[Expression]().union(*there)

    @property
    def apart(self) -> list[tuple[Expression, Expression]]:
        """The pairs of instances that must differ."""
        return [(a, b) for a, b in combinations(self.keys, 2) if a.data.type == b.data.type]

    def lemma(self, literals: Iterable[Literal]) -> Expression:
        """The condition that at least one of the literals holds, as an implication if possible."""
        every = list(literals)
        left = [literal for literal in every if literal.on_left]
        right = [literal for literal in every if not literal.on_left]
        if not right and left:
            right = [left.pop()]
        premises = [a != b for a, b in self.apart] + [literal.denied for literal in left]
        body = any_true(*(literal.condition for literal in right))
        return self.over(all_true(*premises).implies(body) if premises else body)

    def over(self, body: Expression) -> Expression:
        """The condition for all values of the names."""
        for name in reversed(self.names):
            body = all_of(name, body)
        return body


class Grammar:
    """The conditions for lemmas about an instance, over the parts of its state in `names`."""

    def __init__(self, instance: Instance, names: Iterable[str]) -> None:
        self.instance = instance
        kept = {*names}
        system = instance.system
        self.fields = [
            info.expression
            for machine in system.machines
            for info in system.fields_of(machine)
            if f"{machine.name}.{info.name}" in kept
        ]
        self.messages = [
            channel.message
            for channel in system.channels
            if f"{NETWORK}.{channel.message.name}" in kept
        ]
        self.counts = any(map(_counts, _conditions(instance)))
        found: dict[Key, None] = {}
        for field in self.fields:
            if field.data.key is not None:
                found[field.data.key] = None
            found |= dict.fromkeys(_keys(field.data.type))
        for message in self.messages:
            found |= dict.fromkeys(key for _, key in message.address)
        self.keys = [key for key in found if key.count(instance.constants) > 0]

    # Subjects ---------------------------------------------------------------------------------

    def unders(self) -> Iterator[Under]:
        """The subjects of lemmas, the simplest first."""
        yield Under()
        several = {key: key.count(self.instance.constants) > 1 for key in self.keys}
        ones = [(self.variable(key),) for key in self.keys]
        twos = [self.pair(key) for key in self.keys if several[key]]
        mixed = [(*a, *b) for a, b in combinations(ones, 2)]
        mixed += [(*two, *one) for two in twos for one in ones if one[0] not in {*two}]
        yield from (Under(names) for names in (*ones, *twos, *mixed))
        alone = [self.sent(message) for message in self.messages]
        for under in alone:
            yield under
            for key in self.keys:
                more = [name for name in self.pair(key) if name not in {*under.keys}]
                if more and (several[key] or more[0] is self.variable(key)):
                    yield Under((*under.keys, more[0]), under.messages)
        for one, other in combinations(alone, 2):
            keys = tuple(dict.fromkeys((*one.keys, *other.keys)))
            yield Under(keys, (*one.messages, *other.messages))
        for at, message in enumerate(self.messages):
            for other in self.messages[at:]:
                yield from self.elsewhere(message, other)

    def sent(self, message: Message, *, elsewhere: bool = False) -> Under:
        """A message in flight between the first instances of each key, or `elsewhere` between
        others.
        """
        used: dict[Key, int] = {}
        address: list[Expression] = []
        for _, key in message.address:
            place = used.get(key, 0)
            used[key] = place + 1
            pair = self.pair(key)[:: -1 if elsewhere else 1]
            address.append(pair[place % 2])
        named = f"{'other' if elsewhere else 'a'}_{_short(message)}"
        return Under(tuple(dict.fromkeys(address)), (in_flight(named, message, *address),))

    def elsewhere(self, message: Message, other: Message) -> Iterator[Under]:
        """Two messages with different addresses."""
        keys = [key for _, key in other.address]
        if keys and all(key.count(self.instance.constants) > 1 for key in keys):
            one, two = self.sent(message), self.sent(other, elsewhere=True)
            names = tuple(dict.fromkeys((*one.keys, *two.keys)))
            yield Under(names, (*one.messages, *two.messages))

    def variable(self, key: Key) -> Expression:
        """The first name for an instance."""
        return key.variable(f"one_{_name(key)}")

    def pair(self, key: Key) -> tuple[Expression, Expression]:
        """Names for two instances."""
        return self.variable(key), key.variable(f"other_{_name(key)}")

    def bag(self, message: Expression) -> Expression:
        """The bag of a message's address, as a part of the state."""
        sent = message.args[0]
        name = f"{NETWORK}.{sent.data.name}"
        kind = next(v.type for v in self.instance.variables if v.name == name)
        found = Expression("field", (), Field(NETWORK, sent.data.name, kind, None))
        for instance in sent.args:
            found = found[instance]
        return found

    def as_grounded(self, expression: Expression, known: Collection[Expression] = ()) -> Expression:
        """The expression with state variables for messages in flight, except known messages."""

        def change(node: Expression) -> Expression | None:
            if node in known:
                return node
            if node.op == "element" and node.args[0].op == "in_flight":
                return Expression("element", (self.bag(node),), node.data)
            return None

        return rewrite(expression, change)

    def closed(self, expression: Expression) -> Expression:
        """The expression with numbers for constants, except open ones."""
        known = self.instance.constants

        def change(node: Expression) -> Expression | None:
            is_known = node.op == "constant" and node.data.name in known
            return lift(known[node.data.name]) if is_known else None

        return rewrite(expression, change)

    # Conditions --------------------------------------------------------------------------------

    def literals(self, under: Under) -> list[Literal]:
        """All literals over these names, each once."""
        found = [
            *(literal for term, kind in self.terms(under) for literal in self.alone(term, kind)),
            *self.members(under),
            *self.compared(under),
            *self.sendings(under),
        ]
        return [*{literal.condition: literal for literal in map(_where_set, found)}.values()]

    def terms(self, under: Under) -> list[tuple[Expression, Type]]:
        """The scalar parts of the state, and of messages, with their types."""
        return [pair for pair in self.parts(under) if not isinstance(pair[1], Set)]

    def parts(self, under: Under) -> list[tuple[Expression, Type]]:
        """The scalars and sets among the parts of the state and of messages."""
        found: list[tuple[Expression, Type]] = []
        for field in self.fields:
            key = field.data.key
            owners = [None] if key is None else [k for k in under.keys if k.data.type == key]
            for owner in owners:
                term = field if owner is None else field.at(owner)
                found += self.inside(term, field.data.type, under)
        for message in under.messages:
            content = message.args[0].data
            fields = [(n, k) for n, k in content.parameters if n not in dict(content.address)]
            for name, kind in fields:
                found += self.inside(getattr(message, name), kind, under)
        return found

    def inside(
        self, term: Expression, kind: Type, under: Under
    ) -> Iterator[tuple[Expression, Type]]:
        """The scalars and sets that a part is made of."""
        match kind:
            case Record():
                for name, of in kind.fields:
                    yield from self.inside(getattr(term, name), of, under)
            case Map():
                for key in (k for k in under.keys if k.data.type == kind.key):
                    yield from self.inside(term[key], kind.of, under)
            case Sequence() | Bag():
                yield size(term), Int(0, 0, "size")
            case Optional() if not isinstance(kind.of, SCALARS):
                yield term.is_set, Bool()
                yield from self.inside(term.value, kind.of, under)
            case Optional() if isinstance(kind.of, Int):
                yield term, kind
                yield term.value, kind.of
            case _:
                yield term, kind

    def alone(self, term: Expression, kind: Type) -> Iterator[Literal]:
        """The literals that compare a part of the state with constants."""
        about = (str(term),)
        match kind:
            case Bool():
                yield Literal(term, about, False)
                yield Literal(~term, about, True)
            case Enum():
                for member in kind.names_at(self.instance.constants):
                    value = getattr(kind, member)
                    yield Literal(term != value, about, True, term, value)
            case Optional():
                yield Literal(term.is_set, (str(term.is_set),), False)
                yield Literal(~term.is_set, (str(term.is_set),), True)
                if isinstance(kind.of, Enum):
                    for member in kind.of.names_at(self.instance.constants):
                        value = getattr(kind.of, member)
                        yield Literal(term != value, about, True, term, value)
            case Int():
                yield from self.bounded(term, kind, about)
            case _:
                pass

    def bounded(self, term: Expression, kind: Int, about: tuple[str, ...]) -> Iterator[Literal]:
        """The literals that compare a number with its lowest values, or with 0."""
        low, high = kind.low, kind.high
        if kind.name == "size":
            numbers = [0]
        elif isinstance(low, int) and isinstance(high, int) and high - low < FEW:
            numbers = [*range(low, high)]
        else:
            numbers = sorted({0, low}) if isinstance(low, int) else [0]
        for number in numbers:
            yield Literal(term <= number, (*about, str(number)), False)
            yield Literal(term > number, (*about, str(number)), True)

    def members(self, under: Under) -> Iterator[Literal]:
        """The literals about sets: membership, majority, and emptiness."""
        for term, kind in self.parts(under):
            if not isinstance(kind, Set):
                continue
            empty = size(term) == 0
            yield Literal(empty, (str(term),), False)
            yield Literal(~empty, (str(term),), True)
            if isinstance(kind.of, Key):
                if self.counts:
                    most = majority(term, kind.of)
                    yield Literal(~most, (str(most),), True)
                inside = [k for k in under.keys if k.data.type == kind.of]
            else:
                inside = [part for part, of in self.terms(under) if of == kind.of]
            for value in inside:
                member = value.is_in(term)
                yield Literal(member, (str(member),), False)
                yield Literal(~member, (str(member),), True)

    def sendings(self, under: Under) -> Iterator[Literal]:
        """The literals that a message is in flight. Lemmas about messages express that none is."""
        for message in self.messages:
            domains = [[k for k in under.keys if k.data.type == key] for _, key in message.address]
            for address in product(*domains):
                if len({*address}) == len(address):
                    some = in_flight(f"some_{_short(message)}", message, *address)
                    there = any_of(some, True)
                    yield Literal(there, (str(there), *map(str, address)), False)

    def compared(self, under: Under) -> Iterator[Literal]:
        """The literals that compare two parts of one type."""
        terms = [*self.terms(under), *((name, name.data.type) for name in under.keys)]
        for (one, kind), (other, of) in combinations(terms, 2):
            if _scalar(kind) != _scalar(of) or {one, other} <= {*under.keys}:
                continue
            about = (str(one), str(other))
            same = one == other
            match kind, of:
                case Int(), Int():
                    yield Literal(one <= other, about, False)
                    yield Literal(other <= one, about, False)
                    yield Literal(~same, about, True)
                case ((Key() | Optional() | Int()), (Key() | Optional() | Int())):
                    yield Literal(same, about, False)
                    yield Literal(~same, about, True)
                case _:
                    pass

    def bindings(self, under: Under) -> Iterator[dict[Expression, int]]:
        """The possible instances for the names."""
        domains = [choices(name.data.type, self.instance.constants) for name in under.keys]
        for values in product(*domains):
            bound = {n: int(str(v)) for n, v in zip(under.keys, values, strict=True)}
            if all(bound[a] != bound[b] for a, b in under.apart):
                yield bound


def _conditions(instance: Instance) -> Iterator[Expression]:
    """The conditions of rows and properties."""
    for action in instance.actions:
        yield from (action.when, *(row.guard for row in action.rows))
    yield from (item.expression for item in instance.properties)


def _counts(condition: Expression) -> bool:
    """Whether a condition asks for a majority."""
    return any(node.op == "mul" and node.args[0].op == "size" for node in children_first(condition))


def _where_set(literal: Literal) -> Literal:
    """The literal, weakened to hold if an optional in it has no value."""
    values = [node.args[0] for node in children_first(literal.condition) if node.op == "value"]
    if not values:
        return literal
    there = all_true(*(value.is_set for value in dict.fromkeys(values)))
    return Literal(there.implies(literal.condition), literal.about, literal.on_left)


def _denied(condition: Expression) -> Expression:
    if condition.op in ("le", "lt"):
        return Expression("lt" if condition.op == "le" else "le", condition.args[::-1])
    if condition.op == "or" and condition.data == "implies":
        return condition.args[0].args[0] & _denied(condition.args[1])
    return condition.args[0] if condition.op == "not" else ~condition


def _short(message: Message) -> str:
    """A variable's name for a message."""
    return message.name[:1].lower() + message.name[1:]


def _name(key: Key) -> str:
    return "".join(c if c.isalnum() else "_" for c in key.name).lower()


def _keys(kind: Type) -> Iterator[Key]:
    """The keys that index a part of the state or are its values."""
    match kind:
        case Key():
            yield kind
        case Map():
            yield kind.key
            yield from _keys(kind.of)
        case Optional() | Set() | Sequence() | Bag():
            yield from _keys(kind.of)
        case Record():
            for _, of in kind.fields:
                yield from _keys(of)
        case _:
            pass


def _scalar(kind: Type) -> Type:
    return kind.of if isinstance(kind, Optional) else kind


NEVER = Literal(lift(False), (), False)
"""What is never so: alone it says that what a clause is about is never there."""
