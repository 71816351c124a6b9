"""Random expressions of a given type over what is in scope, and the types that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import prod
from random import Random
from typing import Any, TypeVar

from epochfence import language as lang
from epochfence.language import Expression
from epochfence.language.declaration.typecheck import type_of
from epochfence.language.expressions import enum_value, resolve
from epochfence.language.terms.values import canonical
from epochfence.language.types import Constants, Type, Value, choices

T = TypeVar("T")

N = lang.constant("N", 2, 1, 3)
M = lang.constant("M", 1, 1, 2)
A = lang.Key("a", 2)
B = lang.Key("b", N)
COLOUR = lang.enum("colour", "red", "green", "blue")
MARK = lang.enum("mark", on=4, off=7)
BIT = lang.Int(0, 1)
SMALL = lang.Int(0, N, "small")
SIGNED = lang.Int(-1, M)
POINT = lang.record("point", x=BIT, up=lang.Bool())
OWNED = lang.record("owned", n=lang.Optional(BIT), who=lang.Optional(A), y=BIT)
PARCEL = lang.record("parcel", n=BIT, queue=lang.Sequence(BIT, M))
GROUP = lang.record("group", members=lang.Set(A), mark=MARK)
FAST = lang.feature("fast", "2")
OLD = lang.feature("old", "1", until="2")

NUMBERS = (BIT, SMALL, SIGNED)
SCALARS: tuple[Type, ...] = (lang.Bool(), *NUMBERS, COLOUR, MARK, A, B)
FLAT: tuple[Type, ...] = (
    *SCALARS,
    *(lang.Optional(kind) for kind in SCALARS),
    *(lang.Set(kind) for kind in (A, B, COLOUR, BIT, SIGNED)),
    *(lang.Sequence(kind, 2) for kind in (BIT, A, POINT)),
    *(lang.Bag(kind, 2) for kind in (BIT, POINT, OWNED, PARCEL)),
    lang.Sequence(BIT, M), lang.Sequence(COLOUR, 1), lang.Sequence(OWNED, 1),
    lang.Sequence(POINT, 1), lang.Sequence(POINT, M),
    lang.Bag(SIGNED, M), lang.Bag(GROUP, M), lang.Bag(lang.Set(B), 2),
    lang.Optional(POINT), POINT, OWNED, PARCEL, GROUP,
)  # fmt: skip
POOL: tuple[Type, ...] = (
    *FLAT,
    *(lang.Map(key, kind) for key in (A, B) for kind in FLAT),
    lang.Map(A, lang.Map(B, BIT)),
)


def cardinality(kind: Type, constants: Constants) -> int:
    """How many values a type has."""
    match kind:
        case lang.Optional():
            return 1 + cardinality(kind.of, constants)
        case lang.Set():
            return 2 ** cardinality(kind.of, constants)
        case lang.Sequence():
            one = cardinality(kind.of, constants)
            return sum(one**n for n in range(resolve(kind.capacity, constants) + 1))
        case lang.Bag():
            one, most = cardinality(kind.of, constants), resolve(kind.capacity, constants)
            return sum(1 for _ in combinations_with_replacement(range(one + 1), most))
        case lang.Record():
            return prod(cardinality(of, constants) for _, of in kind.fields)
        case lang.Map():
            return cardinality(kind.of, constants) ** kind.key.count(constants)
        case _:
            return len(choices(kind, constants))


@dataclass(frozen=True)
class Scope:
    """What an expression may use: sources with their types, and whether it may tell the instances
    of a key apart."""

    sources: tuple[tuple[Expression, Type], ...]
    names_keys: bool

    def with_(self, *more: tuple[Expression, Type]) -> Scope:
        """The scope with further sources."""
        return replace(self, sources=(*self.sources, *more))


@dataclass(frozen=True)
class Path:
    """How a value is read out of a source; a key stands for an index that is yet to be drawn."""

    source: Expression
    type: Type
    steps: tuple[str | lang.Key, ...] = ()


AN_END = "an end"
ORDERED_BY = {POINT.name: "x", OWNED.name: "y"}
EMPTY = (type_of(lang.set_of()), type_of(lang.sequence_of()))


def paths(scope: Scope) -> list[Path]:
    """All ways of at most two steps to read something."""
    found = [Path(source, kind) for source, kind in scope.sources]
    for path in found:
        if len(path.steps) == 2:
            continue
        more: list[tuple[str | lang.Key, Type]] = []
        match path.type:
            case lang.Optional():
                more = [("value", path.type.of)]
            case lang.Record():
                more = list(path.type.fields)
            case lang.Map():
                more = [(path.type.key, path.type.of)]
            case lang.Sequence():
                more = [(AN_END, lang.Optional(path.type.of))]
            case _:
                pass
        found += [Path(path.source, kind, (*path.steps, step)) for step, kind in more]
    return found


class Drawing:
    """Draws values and expressions for a system with certain constants."""

    def __init__(self, random: Random, constants: Constants) -> None:
        self.random = random
        self.constants = constants

    def name(self) -> str:
        """A name that hides no other: a variable that is hidden and not used is refused."""
        return f"i{self.number(1, 10**9)}"

    def pick(self, options: Sequence[T]) -> T:
        """One of them."""
        return self.random.choice(options)

    def chance(self, percent: int) -> bool:
        """True that often."""
        return self.random.randrange(100) < percent

    def number(self, low: int, high: int) -> int:
        """A whole number in the range."""
        return self.random.randint(low, high)

    def value(self, kind: Type) -> Value:
        """Any value of a type."""
        constants = self.constants
        match kind:
            case lang.Optional():
                return None if self.chance(40) else self.value(kind.of)
            case lang.Set():
                return frozenset(v for v in choices(kind.of, constants) if self.chance(50))
            case lang.Sequence() | lang.Bag():
                most = resolve(kind.capacity, constants)
                values = tuple(self.value(kind.of) for _ in range(self.number(0, most)))
                is_bag = isinstance(kind, lang.Bag)
                return canonical(kind.of, values, constants) if is_bag else values
            case lang.Record():
                return tuple(self.value(of) for _, of in kind.fields)
            case lang.Map():
                return tuple(self.value(kind.of) for _ in range(kind.key.count(constants)))
            case _:
                return self.pick(choices(kind, constants))

    # Parts ---------------------------------------------------------------------------------

    def read(
        self, wanted: Callable[[Type], bool], scope: Scope, *, indexed: bool = True
    ) -> Expression | None:
        """An expression that reads a value of a wanted type out of a source, if there is one."""
        found: list[Path] = []
        for path in paths(scope):
            keys = [step for step in path.steps if isinstance(step, lang.Key)]
            if wanted(path.type) and all(indexed and self.has_key(k, scope) for k in keys):
                found.append(path)
        if not found:
            return None
        path = self.pick(found)
        e = path.source
        for step in path.steps:
            if isinstance(step, lang.Key):
                e = e[self.key(step, scope)]
            elif step == AN_END:
                at = self.number(0, 2) if self.chance(50) else self.arithmetic(scope, 0) % 3
                e = self.pick((lang.first, lang.last, lambda log, at=at: log[at]))(e)
            else:
                e = getattr(e, step)
        return e

    def kinds(self, scope: Scope) -> list[Type]:
        """The types of what can be read."""
        return [path.type for path in paths(scope)]

    def collection(self, scope: Scope, depth: int) -> tuple[Expression, Type]:
        """A set, sequence or bag, with the type of its elements."""
        kinds: list[Any] = self.kinds(scope)
        kinds = [k for k in kinds if isinstance(k, (lang.Set, lang.Sequence, lang.Bag))]
        kind = self.pick(kinds or [lang.Set(BIT), lang.Sequence(BIT, 2)])
        return self.expression(kind, scope, depth - 1), kind.of

    def bound(self, scope: Scope, depth: int) -> tuple[Expression, Scope]:
        """A variable or an element, and the scope inside of what binds it."""
        name = self.name()
        collection, kind = self.collection(scope, depth)
        if self.chance(50) and type_of(collection) not in EMPTY:
            bound = lang.element(name, collection)
        else:
            kind = self.pick((A, B, COLOUR, BIT, lang.Bool(), lang.Optional(BIT)))
            bound = lang.variable(name, kind)
        return bound, scope.with_((bound, kind))

    def has_key(self, kind: lang.Key, scope: Scope) -> bool:
        """Whether there is a key to index with."""
        return scope.names_keys or any(
            path.type == kind and not any(isinstance(step, lang.Key) for step in path.steps)
            for path in paths(scope)
        )

    def key(self, kind: lang.Key, scope: Scope) -> Expression:
        """A key, by its number only where keys may be named."""
        if not (scope.names_keys and self.chance(20)):
            found = self.read(lambda other: other == kind, scope, indexed=False)
            if found is not None:
                return found
        if scope.names_keys:
            return lang.lift(self.number(0, kind.count(self.constants) - 1))
        return lang.first_of(lang.element("k", self.all_keys(kind)), True).value

    def all_keys(self, kind: lang.Key) -> Expression:
        """A sequence of a key that names none."""
        return lang.make(lang.record(f"no {kind}", inside=lang.Sequence(kind, 1))).inside

    # Expressions by type -------------------------------------------------------------------

    def expression(self, kind: Type, scope: Scope, depth: int) -> Expression:
        """An expression that can be put where the type is expected."""
        if depth > 0 and self.chance(12):
            branches = [self.expression(kind, scope, depth - 1) for _ in range(2)]
            return lang.if_(self.truth(scope, depth - 1), *branches)
        if self.chance(45):
            found = self.read(lambda other: other == kind, scope)
            if found is not None:
                return found
        match kind:
            case lang.Bool():
                return self.truth(scope, depth)
            case lang.Int():
                return self.whole(kind, scope, depth)
            case lang.Enum():
                return enum_value(kind, self.pick(kind.names))
            case lang.Key():
                return self.key(kind, scope)
            case lang.Optional():
                return self.optional(kind, scope, depth)
            case lang.Set():
                return self.set(kind, scope, depth)
            case lang.Sequence() | lang.Bag():
                return self.several(kind, scope, depth)
            case lang.Record():
                return self.record(kind, scope, depth)
            case lang.Map():
                return self.map(kind, scope, depth)

    def whole(self, kind: lang.Int, scope: Scope, depth: int) -> Expression:
        """A number, mostly within the type's range."""
        low, high = kind.range(self.constants)
        if depth <= 0 or self.chance(25):
            number = self.number(low, high)
            # one that isn't a bit may meet a narrower type, where a plain constant is a mistake
            return lang.lift(number) + 0 if number not in (0, 1) else lang.lift(number)
        number = self.arithmetic(scope, depth - 1)
        if self.chance(10):
            return number + 0  # may leave the range
        if self.chance(60):
            return lang.wrap(number, kind)
        return lang.maximum(low, lang.minimum(number, high))

    def arithmetic(self, scope: Scope, depth: int) -> Expression:
        """A number of any size."""
        if depth <= 0 or self.chance(30):
            found = self.read(lambda other: isinstance(other, lang.Int), scope)
            if found is not None and self.chance(75):
                return found
            return self.pick((lang.lift(1), lang.lift(2), lang.lift(-1), N, M))
        inner = depth - 1
        match self.number(0, 11):
            case 9:
                by = self.pick((lang.lift(2), lang.lift(3), lang.lift(-1), N, M * 2))
                product = (self.arithmetic(scope, inner), by)
                return product[0] * product[1] if self.chance(50) else product[1] * product[0]
            case 10:
                number, by = self.arithmetic(scope, inner), self.pick((lang.lift(2), N, M + 2))
                return number // by if self.chance(50) else number % by
            case 11:
                bound, inside = self.bound(scope, depth)
                default = self.arithmetic(scope, 0) if bound.op == "element" else None
                extreme = self.pick((lang.max_of, lang.min_of))
                return extreme(bound, self.arithmetic(inside, inner), default)
            case 0 | 1:
                return self.arithmetic(scope, inner) + self.arithmetic(scope, inner)
            case 2:
                return self.arithmetic(scope, inner) - self.arithmetic(scope, inner)
            case 3:
                bound, inside = self.bound(scope, depth)
                if self.chance(50):
                    return lang.sum_of(bound, self.arithmetic(inside, inner))
                return lang.count_of(bound, self.truth(inside, inner))
            case 4:
                return lang.size(self.collection(scope, depth)[0])
            case 5:
                return self.position(scope, depth)
            case 6:
                either = self.pick((lang.minimum, lang.maximum))
                return either(self.arithmetic(scope, inner), self.arithmetic(scope, inner))
            case _:
                return lang.wrap(self.arithmetic(scope, inner), self.pick(NUMBERS))

    def position(self, scope: Scope, depth: int) -> Expression:
        """Where an element stands in its sequence, or a key among the keys."""
        key = self.read(lambda other: isinstance(other, lang.Key), scope)
        if key is not None and scope.names_keys and self.chance(50):
            return lang.position(key)
        item = lang.element(self.name(), self.expression(lang.Sequence(BIT, 2), scope, depth - 1))
        inside = scope.with_((item, BIT), (lang.position(item), SMALL))
        return lang.count_of(item, self.truth(inside, depth - 1))

    def truth(self, scope: Scope, depth: int) -> Expression:
        """A condition."""
        if depth <= 0:
            found = self.read(lambda other: isinstance(other, lang.Bool), scope)
            if found is not None and self.chance(80):
                return found
            return self.pick((lang.lift(True), lang.lift(False), FAST, OLD))
        inner = depth - 1
        match self.number(0, 13):
            case 12:
                kinds = [k for k in self.kinds(scope) if isinstance(k, lang.Set)]
                votes = self.expression(self.pick(kinds or [lang.Set(BIT)]), scope, inner)
                return lang.majority(votes, self.pick((N, 1, self.arithmetic(scope, 0))))
            case 13:
                kinds = [k for k in self.kinds(scope) if isinstance(k, lang.Sequence)]
                kind = self.pick(kinds or [lang.Sequence(BIT, 2)])
                return lang.is_prefix(*(self.expression(kind, scope, inner) for _ in range(2)))
            case 0:
                return self.truth(scope, inner) & self.truth(scope, inner)
            case 1:
                return self.truth(scope, inner) | self.truth(scope, inner)
            case 2:
                return ~self.truth(scope, inner)
            case 3 | 4 | 5:
                kinds = [found for _, found in scope.sources] or [BIT]
                return self.equality(self.pick(kinds), scope, inner)
            case 6:
                return self.arithmetic(scope, inner) < self.arithmetic(scope, inner)
            case 7:
                return self.arithmetic(scope, inner) >= self.arithmetic(scope, inner)
            case 8:
                bound, inside = self.bound(scope, depth)
                quantifier = self.pick((lang.all_of, lang.any_of))
                return quantifier(bound, self.truth(inside, inner))
            case 9:
                found = self.read(lambda other: isinstance(other, lang.Optional), scope)
                return self.truth(scope, inner) if found is None else found.is_set
            case 10:
                collection, kind = self.collection(scope, inner)
                return self.expression(kind, scope, inner).is_in(collection)
            case _:
                kind = self.pick((COLOUR, MARK))
                few = [self.expression(kind, scope, 0) for _ in range(2)]
                return self.expression(kind, scope, 0).is_in(*few)

    def equality(self, kind: Type, scope: Scope, depth: int) -> Expression:
        """A comparison, of types that need not be quite the same."""
        left = self.expression(kind, scope, depth)
        other = kind
        if isinstance(kind, lang.Sequence) and kind.of == BIT:
            other = self.pick((lang.Sequence(BIT, M), lang.Sequence(BIT, 2)))
        if isinstance(kind, lang.Set) and isinstance(kind.of, lang.Int):
            other = lang.Set(self.pick((BIT, SIGNED)))
        right = self.expression(other, scope, depth)
        if isinstance(kind, lang.Optional) and self.chance(40):
            right = self.expression(kind.of, scope, depth)
        sides = [right, left] if self.chance(30) else [left, right]
        for at, other_side in enumerate(reversed(sides)):
            if type_of(other_side) is None and not isinstance(type_of(sides[at]), lang.Optional):
                sides[at] = lang.lift(None)
        return sides[0] == sides[1] if self.chance(60) else sides[0] != sides[1]

    def optional(self, kind: lang.Optional, scope: Scope, depth: int) -> Expression:
        """None, or a value, as such or marked as one."""
        match self.number(0, 3):
            case 0:
                return lang.lift(None)
            case 1:
                return lang.some(self.expression(kind.of, scope, depth - 1))
            case 2 if depth > 0 and lang.Sequence(kind.of, 2) in POOL:
                items = self.expression(lang.Sequence(kind.of, 2), scope, depth - 1)
                if self.chance(40):
                    item = lang.element(self.name(), items)
                    inside = scope.with_((item, kind.of))
                    return lang.first_of(item, self.truth(inside, depth - 1))
                return self.pick((lang.first, lang.last, lambda log: log[self.number(0, 2)]))(items)
            case 3 if depth > 0 and kind.of in (BIT, COLOUR, lang.Bool()):
                value = lang.variable(self.name(), kind.of)
                return lang.first_of(value, self.truth(scope.with_((value, kind.of)), depth - 1))
            case _:
                return self.expression(kind.of, scope, depth - 1)

    def set(self, kind: lang.Set, scope: Scope, depth: int) -> Expression:
        """A set."""
        inner = depth - 1
        match self.number(0, 5) if depth > 0 else 5:
            case 0:
                return self.expression(kind, scope, inner) | self.expression(kind, scope, inner)
            case 1:
                return self.expression(kind, scope, inner) & self.expression(kind, scope, inner)
            case 2:
                return self.expression(kind, scope, inner) - self.expression(kind, scope, inner)
            case 3:
                bound = lang.variable(self.name(), kind.of)
                within = self.expression(kind, scope, inner)
                if self.chance(30) and type_of(within) not in EMPTY:
                    bound = lang.element(self.name(), within)
                return lang.those(bound, self.truth(scope.with_((bound, kind.of)), inner))
            case _:
                few = self.number(0, 2)
                if isinstance(kind.of, lang.Key) and not self.has_key(kind.of, scope):
                    few = 0
                return lang.set_of(*(self.expression(kind.of, scope, inner) for _ in range(few)))

    def several(self, kind: lang.Sequence | lang.Bag, scope: Scope, depth: int) -> Expression:
        """A sequence or a bag, mostly within its capacity."""
        is_loose = isinstance(kind, lang.Sequence) and kind.of == BIT and self.chance(15)

        def wanted(other: Type) -> bool:
            return other == kind or (
                is_loose and isinstance(other, lang.Sequence) and other.of == BIT
            )

        whole = self.read(wanted, scope)
        most = resolve(kind.capacity, self.constants)
        if whole is None or self.chance(15):
            if isinstance(kind, lang.Bag):  # an empty one: what a record has that leaves it out
                whole = lang.make(lang.record(f"no {kind}", inside=kind)).inside
            else:
                few = self.number(min(1, most), most)
                parts = [self.expression(kind.of, scope, depth - 1) for _ in range(few)]
                whole = lang.sequence_of(*parts)
        if depth <= 0 or self.chance(10):
            return whole
        if self.chance(25):
            item = lang.element(self.name(), whole)
            return lang.keep(item, self.truth(scope.with_((item, kind.of)), depth - 1))
        value = self.expression(kind.of, scope, depth - 1)
        if isinstance(kind, lang.Bag):
            if self.chance(40):
                return lang.take(whole, value)
            grown = lang.put(whole, value)
        elif whole.op == "sequence_of":
            return whole
        elif isinstance(kind.of, lang.Record) and self.chance(50):
            grown = lang.insert_by(whole, value, ORDERED_BY[kind.of.name])
        elif self.chance(30):
            return lang.without_first(whole)
        elif self.chance(35):
            return self.part(whole, scope, depth - 1)
        elif self.chance(35):
            grown = whole + self.part(whole, scope, depth - 1)
        elif self.chance(40):
            return lang.push(whole, value)
        else:
            grown = lang.append(whole, value)
        if self.chance(20):
            return grown  # may go beyond the capacity
        return lang.if_(lang.size(whole) < kind.capacity, grown, whole)

    def part(self, whole: Expression, scope: Scope, depth: int) -> Expression:
        """Some of a sequence's elements that lie side by side."""
        start, stop = (
            self.number(0, 2) if self.chance(40) else self.arithmetic(scope, depth) + 0
            for _ in range(2)
        )
        return self.pick((whole[start:], whole[:stop], whole[start:stop]))

    def record(self, kind: lang.Record, scope: Scope, depth: int) -> Expression:
        """A record made of its fields, or one with some of them replaced."""
        given = {
            name: self.expression(of, scope, depth - 1)
            for name, of in kind.fields
            if self.chance(70)
        }
        found = self.read(lambda other: other == kind, scope)
        if found is not None and self.chance(50):
            return lang.replace(found, **given)
        return lang.make(kind, **given)

    def map(self, kind: lang.Map, scope: Scope, depth: int) -> Expression:
        """A map, with one value changed or given for every key."""
        found = self.read(lambda other: other == kind, scope)
        if found is not None and self.has_key(kind.key, scope) and self.chance(60):
            key = self.key(kind.key, scope)
            return lang.updated(found, key, self.expression(kind.of, scope, depth - 1))
        bound = kind.key.variable(self.name())
        inside = scope.with_((bound, kind.key))
        return lang.each(bound, self.expression(kind.of, inside, depth - 1))
