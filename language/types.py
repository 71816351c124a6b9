"""The types of fields, messages and constants.

A type has a real range and, in a system under check, a bounded range: its bounds are numbers or
expressions of constants. In the executable model and in traces, values are plain and immutable:

    Bool bool | Int int | Enum the member's name | Key the instance's index | Optional None or the
    value | Set frozenset | Sequence tuple | Bag tuple in canonical order | Record tuple of the
    fields in declared order | Map tuple by key
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

from .declaration.arguments import check_kind, check_name, shown
from .declaration.errors import DeclarationError
from .expressions import Bound as Binding
from .expressions import Expression, Operand, enum_value, lift, resolve
from .terms.interned import Interned

Bound: TypeAlias = int | Expression
LOWEST, HIGHEST = -(2**62), 2**62  # native code can add two such numbers
Constants: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Bool(Interned):
    """True or false; initially false."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, eq=False)
class Int(Interned):
    """Whole numbers `low`..`high`; initially `low` (a number of no declared range: 0)."""

    low: Bound
    high: Bound
    name: str = ""

    def __post_init__(self) -> None:
        _check_bounds(self, self.low, self.high)
        if isinstance(self.low, int) and isinstance(self.high, int):
            self.range({})

    def __str__(self) -> str:
        return self.name or f"{self.low}..{self.high}"

    def range(self, constants: Constants) -> tuple[int, int]:
        """The bounds under these constants."""
        low, high = resolve(self.low, constants), resolve(self.high, constants)
        if low > high:
            raise DeclarationError(f"type {self}: {low}..{high} is empty")
        if low < LOWEST or high > HIGHEST:
            raise DeclarationError(f"type {self}: {low}..{high} is beyond {LOWEST}..{HIGHEST}")
        return low, high


@dataclass(frozen=True, eq=False)
class Enum(Interned):
    """Named members, each with its number in the protocol; initially the first.

    A system has the first `size` of them (None: all). A machine that runs alone has all.
    """

    name: str
    members: tuple[tuple[str, int], ...]
    size: Bound | None = None

    def __str__(self) -> str:
        return self.name

    def __getattr__(self, member: str) -> Expression:
        if member.startswith("_"):
            raise AttributeError(member)
        if all(member != name for name, _ in self.members):
            raise DeclarationError(f"{self.name} has no member {member}")
        found = vars(self)[member] = enum_value(self, member)
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The members' names, in declared order."""
        return tuple(name for name, _ in self.members)

    def names_at(self, constants: Constants) -> tuple[str, ...]:
        """The names of the members that a system has with these constants."""
        return self.names if self.size is None else self.names[: resolve(self.size, constants)]


def enum(enum_name: str, *names: str, enum_size: Bound | None = None, **numbered: int) -> Enum:
    """An enum of `names`, numbered from 0, or of members with the numbers given. A system has the
    first `enum_size` of them (none: all): a number, or an expression over constants.

    Raises DeclarationError for no members, for two members with one name, and for an invalid name.
    """
    check_name("an enum", enum_name)
    where = f"enum {enum_name}"
    check_names(where, (*names, *numbered), Enum, "a member")
    members = tuple((n, i) for i, n in enumerate(names)) + tuple(numbered.items())
    for member, number in members:
        check_kind(f"{where}, {member}", number, int)
    if not members or len({n for n, _ in members}) != len(members):
        raise DeclarationError(f"{where}: give at least one member, and no name twice")
    check_kind(f"{where}, enum_size", enum_size, int, Expression, type(None))
    return Enum(enum_name, members, enum_size)


@dataclass(frozen=True, eq=False)
class Key(Interned):
    """The identities 0..size-1 of a kind of thing: machine instances, partitions, brokers.

    Keys can be compared for equality and index maps; they have no order and no arithmetic, so
    that instances stay interchangeable where a system says they are.
    """

    name: str
    size: Bound
    prose: str = ""
    """The instances' names in sentences and pictures, with `{number}` or `{letter}`."""

    def __post_init__(self) -> None:
        check_name("a key", self.name)
        _check_bounds(self, self.size)

    def __str__(self) -> str:
        return self.name

    def in_prose(self, number: int) -> str:
        """The name of an instance in sentences: `partition 0`, `producer A`."""
        prose = self.prose or f"{self.name.replace('_', ' ')} {{number}}"
        return prose.format(number=number, letter=chr(ord("A") + number))

    def count(self, constants: Constants) -> int:
        """The number of instances under these constants."""
        count = resolve(self.size, constants)
        if count < 1:
            raise DeclarationError(f"key {self}: it needs at least one instance, not {count}")
        return count

    def variable(self, name: str) -> Expression:
        """A variable over these identities, for a quantifier or `each`."""
        return variable(name, self)


def _check_bounds(outer: object, *bounds: object) -> None:
    for bound in bounds:
        check_kind(f"{type(outer).__name__} {outer}", bound, int, Expression)


def _check_inner(outer: object, of: object) -> None:
    if of is not None:  # None: the elements of an empty collection
        check_type(type(outer).__name__, of)


def _not_optional(outer: object, of: object) -> None:
    """Refuses an optional in an optional: its none would be ambiguous."""
    _check_inner(outer, of)
    if isinstance(of, Optional):
        raise DeclarationError(f"{outer}: {of} must be put into a record first")


@dataclass(frozen=True, eq=False)
class Optional(Interned):
    """A value of `of`, or none; initially none."""

    of: Type

    def __post_init__(self) -> None:
        _not_optional(self, self.of)

    def __str__(self) -> str:
        return f"optional {self.of}"


@dataclass(frozen=True, eq=False)
class Set(Interned):
    """A set over a finite type (key, enum, small int); initially empty."""

    of: Type

    def __post_init__(self) -> None:
        _check_inner(self, self.of)
        if not isinstance(self.of, (*SCALARS, type(None))):
            raise DeclarationError(f"{self}: only scalars can be in a set")

    def __str__(self) -> str:
        return f"set of {self.of}"


@dataclass(frozen=True, eq=False)
class Sequence(Interned):
    """At most `capacity` values in order; initially empty."""

    of: Type
    capacity: Bound

    def __post_init__(self) -> None:
        _not_optional(self, self.of)
        _check_bounds(self, self.capacity)

    def __str__(self) -> str:
        return f"sequence of {self.of} up to {self.capacity}"


@dataclass(frozen=True, eq=False)
class Bag(Interned):
    """A multiset of at most `capacity` values: two orders of one content are the same value."""

    of: Type
    capacity: Bound

    def __post_init__(self) -> None:
        _not_optional(self, self.of)
        _check_bounds(self, self.capacity)

    def __str__(self) -> str:
        return f"bag of {self.of} up to {self.capacity}"


@dataclass(frozen=True, eq=False)
class Record(Interned):
    """Named fields of their own types."""

    name: str
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return self.name

    def __call__(self, /, **fields: Operand) -> Expression:
        return make(self, **fields)

    def type_of(self, name: str) -> Type | None:
        """The type of a field; None where there is no such field."""
        return dict(self.fields).get(name)


def check_names(owner: str, names: Iterable[str], read_from: type, what: str = "a field") -> None:
    """Raises DeclarationError for a name that can't be read as an attribute of `read_from`: the
    class has such an attribute already, or the name is invalid.
    """
    own = {*dir(read_from), *getattr(read_from, "__dataclass_fields__", ())}
    for name in names:
        check_name(f"{owner}: {what}", name)
        if name.startswith("_") or name in own:
            raise DeclarationError(f"{owner}: {what} can't be called {name}: choose another name")


def record(record_name: str, **fields: Type) -> Record:
    """A record type with these fields. Raises DeclarationError for a name that can't be read."""
    check_name("a record", record_name)
    check_names(f"record {record_name}", fields, Expression)
    for name, kind in fields.items():
        check_type(f"record {record_name}, field {name}", kind)
    return Record(record_name, tuple(fields.items()))


@dataclass(frozen=True, eq=False)
class Map(Interned):
    """A value of `of` for every key; initially that type's initial value everywhere."""

    key: Key
    of: Type

    def __post_init__(self) -> None:
        check_kind("Map", self.key, Key)
        _check_inner(self, self.of)

    def __str__(self) -> str:
        return f"{self.of} by {self.key}"


Type: TypeAlias = Bool | Int | Enum | Key | Optional | Set | Sequence | Bag | Record | Map
Value: TypeAlias = "bool | int | str | frozenset[Value] | tuple[Value, ...] | None"

SCALARS = (Bool, Int, Enum, Key)


def variable(name: str, domain: Type) -> Expression:
    """A variable for a quantifier or `each`; `domain` is its type (a key, an enum, an int)."""
    check_name("a variable", name)
    check_type(f"variable {name}", domain)
    return Expression("variable", (), Binding(name, domain))


def make(record: Record, /, **fields: Operand) -> Expression:
    """A record with these fields; a field left out takes its type's initial value."""
    check_kind("make", record, Record)
    names = tuple(sorted(fields))
    return Expression("make", tuple(lift(fields[name]) for name in names), (record, names))


def check_type(where: str, kind: object) -> None:
    """Raises DeclarationError if it is not a type, such as a class without brackets."""
    every = (*SCALARS, Optional, Set, Sequence, Bag, Record, Map)
    for each in every:
        if kind is each:
            raise DeclarationError(
                f"{where}: {each.__name__} lacks its brackets: write {each.__name__}(...)"
            )
    if not isinstance(kind, every):
        raise DeclarationError(
            f"{where}: {shown(cast('Any', kind))} is not a type: write Bool(), Int(low, high), an "
            "enum, a key or another type"
        )


def named(kind: Type) -> Iterator[Enum | Key | Record]:
    """The named types in a type: enums, keys and records, with the type itself."""
    if isinstance(kind, (Enum, Key, Record)):
        yield kind
    inner: list[Type | None] = []
    match kind:
        case Optional() | Set() | Sequence() | Bag():
            inner = [kind.of]
        case Map():
            inner = [kind.key, kind.of]
        case Record():
            inner = [of for _, of in kind.fields]
        case _:
            pass
    for of in inner:
        if of is not None:  # None: the elements of an empty collection
            yield from named(of)


MOST_CHOICES = 1_000_000  # values that may be listed


def parts(kind: Type, constants: Constants) -> int:
    """The number of integers that store a value of the type in a state."""
    match kind:
        case Optional():
            return 1 if isinstance(kind.of, SCALARS) else 1 + parts(kind.of, constants)
        case Set():
            return how_many(kind.of, constants)
        case Sequence() | Bag():
            return resolve(kind.capacity, constants) * parts(Optional(kind.of), constants)
        case Record():
            return sum(parts(of, constants) for _, of in kind.fields)
        case Map():
            return kind.key.count(constants) * parts(kind.of, constants)
        case _:
            return 1


def how_many(kind: Type, constants: Constants) -> int:
    """The number of values of a scalar type. Raises DeclarationError for any other type."""
    match kind:
        case Int():
            low, high = kind.range(constants)
            return high - low + 1
        case Key():
            return kind.count(constants)
        case _:
            return len(choices(kind, constants))


def choices(kind: Type, constants: Constants) -> tuple[Value, ...]:
    """Every value of a scalar type, in order. Raises DeclarationError for any other type, and for
    more than `MOST_CHOICES` values.
    """
    if isinstance(kind, (Int, Key)) and how_many(kind, constants) > MOST_CHOICES:
        raise DeclarationError(
            f"{kind} has {how_many(kind, constants):,} values, and the limit here is "
            f"{MOST_CHOICES:,}: use a smaller range"
        )
    match kind:
        case Bool():
            return (False, True)
        case Int():
            low, high = kind.range(constants)
            return tuple(range(low, high + 1))
        case Enum():
            return kind.names_at(constants)
        case Key():
            return tuple(range(kind.count(constants)))
        case Optional() if isinstance(kind.of, SCALARS):
            return (None, *choices(kind.of, constants))
        case _:
            raise DeclarationError(f"the values of {kind} can't be listed: use a scalar type here")


def initial_value(kind: Type, constants: Constants) -> Value:
    """The value of a field of this type unless its declaration says otherwise."""
    match kind:
        case Bool():
            return False
        case Int():
            low, _ = kind.range(constants)
            return 0 if low == LOWEST else low
        case Enum():
            return kind.names[0]
        case Key():
            return 0
        case Optional():
            return None
        case Set():
            return frozenset()
        case Sequence() | Bag():
            return ()
        case Record():
            return tuple(initial_value(of, constants) for _, of in kind.fields)
        case Map():
            return (initial_value(kind.of, constants),) * kind.key.count(constants)


def rank(kind: Type, value: Value, constants: Constants) -> tuple[int, ...]:
    """The value as a tuple of numbers, equally long for all values of the type.

    Its order is the canonical order of a bag's elements, in every engine.
    """
    match kind:
        case Bool() | Int() | Key():
            assert isinstance(value, int)
            return (int(value),)
        case Enum():
            return (kind.names.index(str(value)),)
        case Optional():
            inner = initial_value(kind.of, constants) if value is None else value
            return (int(value is not None), *rank(kind.of, inner, constants))
        case Set():
            assert isinstance(value, frozenset)
            return tuple(int(choice in value) for choice in choices(kind.of, constants))
        case Sequence() | Bag():
            assert isinstance(value, tuple)
            slots = value + (None,) * (resolve(kind.capacity, constants) - len(value))
            return tuple(n for v in slots for n in rank(Optional(kind.of), v, constants))
        case Record():
            assert isinstance(value, tuple)
            fields = zip(kind.fields, value, strict=True)
            return tuple(n for (_, of), v in fields for n in rank(of, v, constants))
        case Map():
            assert isinstance(value, tuple)
            return tuple(n for v in value for n in rank(kind.of, v, constants))


def contains(kind: Type, value: Value, constants: Constants) -> bool:
    """Whether the value belongs to the type under these constants."""
    match kind:
        case Bool():
            return isinstance(value, bool)
        case Int():
            low, high = kind.range(constants)
            return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        case Key() | Enum():
            return not isinstance(value, bool) and value in choices(kind, constants)
        case Optional():
            return value is None or contains(kind.of, value, constants)
        case Set():
            return isinstance(value, frozenset) and value <= set(choices(kind.of, constants))
        case Sequence() | Bag():
            return (
                isinstance(value, tuple)
                and len(value) <= resolve(kind.capacity, constants)
                and all(contains(kind.of, v, constants) for v in value)
            )
        case Record():
            return isinstance(value, tuple) and all(
                contains(of, v, constants) for (_, of), v in zip(kind.fields, value, strict=True)
            )
        case Map():
            return isinstance(value, tuple) and all(contains(kind.of, v, constants) for v in value)


def show_value(kind: Type, value: Value) -> str:
    """The value as a trace shows it."""
    match kind:
        case Optional():
            return "none" if value is None else show_value(kind.of, value)
        case Set():
            assert isinstance(value, frozenset)
            inner = sorted(show_value(kind.of, v) for v in value)
            return "{" + ", ".join(inner) + "}"
        case Sequence():
            assert isinstance(value, tuple)
            return "<" + ", ".join(show_value(kind.of, v) for v in value) + ">"
        case Bag():
            assert isinstance(value, tuple)
            return "[" + ", ".join(show_value(kind.of, v) for v in value) + "]"
        case Record():
            assert isinstance(value, tuple)
            parts = zip(kind.fields, value, strict=True)
            return "(" + ", ".join(f"{n}={show_value(t, v)}" for (n, t), v in parts) + ")"
        case Map():
            assert isinstance(value, tuple)
            inner = (f"{kind.key}{k}: {show_value(kind.of, v)}" for k, v in enumerate(value))
            return "{" + ", ".join(inner) + "}"
        case Key():
            return f"{kind.name}{value}"
        case Bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def literal(kind: Type, value: Value) -> Expression:
    """The scalar value as an expression of its type."""
    if isinstance(kind, Enum):
        return enum_value(kind, str(value))
    return lift(value)
