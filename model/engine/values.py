"""Values at real ranges: maps over keys of any kind, and the ranges that types have there.

A bounded system numbers its keys 0, 1, ... and stores a map as a tuple. At real ranges a key is any
hashable value, and a map is a `Sparse`: a value for each used key, and one for all others. A
quantifier over such keys looks at the keys that its condition can distinguish, and at `FRESH`,
which stands for all others. `shown` converts values for users, and `stored` converts users' values.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Path
from functools import cache
from typing import Any

from ...language.declaration.errors import DeclarationError, UnsettledError
from ...language.expressions import Expression, children_first, resolve
from ...language.terms.values import canonical
from ...language.types import Bag, Bool, Enum, Int, Key, Map, Optional, Record, Sequence, Set, Type


class Fresh:
    """A key that differs from all others."""

    def __repr__(self) -> str:
        return "<any other>"


FRESH = Fresh()


class Sparse(dict[Any, Any]):
    """A map with a `default` for all other keys. A `shared` map belongs to several machines and
    isn't changed: before a key is set, it is copied."""

    __slots__ = ("default", "shared")

    def __init__(self, default: Any, given: Mapping[Any, Any] | Iterable[Any] = ()) -> None:
        super().__init__(given)
        self.default = default
        self.shared = False

    def __missing__(self, key: object) -> Any:
        return self.default

    def copy(self) -> Sparse:
        """A map with the same content, not shared."""
        made = Sparse.__new__(Sparse)
        made.update(self)
        made.default, made.shared = self.default, False
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sparse):
            return False
        return self.default == other.default and all(
            self[key] == other[key] for key in {*self, *other}
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Sparse, (self.default, dict(self))


# Operations that compiled rows call --------------------------------------------------------------


def or_initial(value: Any, initial: Any) -> Any:
    return initial if value is None else value


def updated(whole: Any, key: Any, value: Any) -> Any:
    if isinstance(whole, Sparse):
        changed = whole.copy()
        changed[key] = value
        return changed
    return (*whole[:key], value, *whole[key + 1 :])


def changed(whole: Any, changes: Mapping[int, Any]) -> Any:
    return tuple(changes.get(place, value) for place, value in enumerate(whole))


def placed(whole: Any, path: Path[Any], value: Any) -> Any:
    if not path:
        return value
    key = path[0]
    return updated(whole, key, placed(whole[key], path[1:], value))


def no_others(holds: bool, what: str) -> None:
    """Raises DeclarationError if a condition holds for infinitely many keys."""
    if holds:
        raise DeclarationError(f"{what} holds for infinitely many keys")


def known_keys(
    maps: Iterable[Any], items: Iterable[Any], sets: Iterable[Iterable[Any]]
) -> list[Any]:
    """The keys that these maps, values and sets mention, each once, in a fixed order."""
    found: dict[Any, None] = {}
    for mapping in maps:
        if mapping:
            found.update(dict.fromkeys(mapping))
    for item in items:
        if item is not None and item is not FRESH:
            found[item] = None
    for collection in sets:
        found.update(dict.fromkeys(sorted(collection, key=repr)))
    return list(found)


class Ranges:
    """The ranges of types. `constants` has the numbers. With `open_keys` any value can be a key,
    unless the protocol itself limits their number."""

    def __init__(self, constants: Mapping[str, int], *, open_keys: bool) -> None:
        self.constants = constants
        self.open_keys = open_keys
        self._numbers: dict[Expression, int | None] = {}

    def number(self, bound: Expression | int) -> int | None:
        """The value of a bound; None if a constant in it has no real value."""
        if isinstance(bound, int):
            return bound
        if bound not in self._numbers:
            try:
                self._numbers[bound] = resolve(bound, self.constants)
            except UnsettledError:
                self._numbers[bound] = None
        return self._numbers[bound]

    def of_int(self, kind: Int) -> tuple[int | None, int | None]:
        """The ends of a range; None: no end."""
        return self.number(kind.low), self.number(kind.high)

    def keys(self, kind: Key) -> int | None:
        """The number of keys; None if any value can be a key."""
        return self.number(kind.size)

    def names(self, kind: Enum) -> tuple[str, ...]:
        """The members that are possible: at real ranges all."""
        return kind.names if self.open_keys else kind.names_at(self.constants)

    def initial(self, kind: Type) -> Any:
        """The initial value of a field of the type."""
        match kind:
            case Bool():
                return False
            case Int():
                low, _ = self.of_int(kind)
                return 0 if low is None or low < -(2**61) else low
            case Enum():
                return kind.names[0]
            case Key():
                return 0
            case Optional():
                return None
            case Set():
                return frozenset[Any]()
            case Sequence() | Bag():
                return ()
            case Record():
                return tuple(self.initial(of) for _, of in kind.fields)
            case Map():
                inner = self.initial(kind.of)
                if self.open_keys:
                    return Sparse(inner)
                return (inner,) * (self.keys(kind.key) or 0)

    def expected(self, kind: Type) -> str:
        """The values of the type, in words."""
        match kind:
            case Bool():
                return "true or false"
            case Int():
                low, high = self.of_int(kind)
                return f"a whole number {low}..{'' if high is None else high}"
            case Enum():
                return f"one of {', '.join(self.names(kind))}"
            case Key():
                count = self.keys(kind)
                return "a hashable value" if count is None else f"a whole number 0..{count - 1}"
            case Optional():
                return f"None or {self.expected(kind.of)}"
            case Set():
                return f"a set of {self.expected(kind.of)}"
            case Sequence() | Bag():
                return f"a tuple of {self.expected(kind.of)}"
            case Record():
                return f"a {kind.name} ({', '.join(name for name, _ in kind.fields)})"
            case Map():
                return f"a mapping of {self.expected(kind.key)} to {self.expected(kind.of)}"

    def contains(self, kind: Type, value: Any) -> bool:
        """Whether a value belongs to a type."""
        match kind:
            case Bool():
                return isinstance(value, bool)
            case Int():
                low, high = self.of_int(kind)
                return (
                    type(value) is int
                    and (low is None or low <= value)
                    and (high is None or value <= high)
                )
            case Enum():
                return isinstance(value, str) and value in self.names(kind)
            case Key():
                count = self.keys(kind)
                if count is not None:
                    return type(value) is int and 0 <= value < count
                return type(value).__hash__ is not None
            case Optional():
                return value is None or self.contains(kind.of, value)
            case Set():
                return isinstance(value, frozenset) and all(
                    self.contains(kind.of, part)
                    for part in value  # type: ignore[reportUnknownVariableType]
                )
            case Sequence() | Bag():
                most = self.number(kind.capacity)
                return (
                    isinstance(value, tuple)
                    and (most is None or len(value) <= most)  # type: ignore[reportUnknownArgumentType]
                    and all(self.contains(kind.of, part) for part in value)  # type: ignore[reportUnknownVariableType]
                )
            case Record():
                return (
                    isinstance(value, tuple)
                    and len(value) == len(kind.fields)  # type: ignore[reportUnknownArgumentType]
                    and all(
                        self.contains(of, part)
                        for (_, of), part in zip(kind.fields, value, strict=True)  # type: ignore[reportUnknownArgumentType]
                    )
                )
            case Map():
                if isinstance(value, Sparse):
                    parts = (value.default, *value.values())
                    return all(self.contains(kind.key, key) for key in value) and all(
                        self.contains(kind.of, part) for part in parts
                    )
                return isinstance(value, tuple) and all(
                    self.contains(kind.of, part)
                    for part in value  # type: ignore[reportUnknownVariableType]
                )


class UnboundedError(DeclarationError):
    """An expression that would have to look at infinitely many keys."""


def tells_apart(
    bound: Expression, body: Expression, free: Callable[[Expression], bool]
) -> tuple[list[Expression], list[Expression], list[Expression]]:
    """The parts of `body` that distinguish values of the key variable `bound`: maps that it
    indexes, values that it is compared with, and sets that it may be in. `free` returns whether an
    expression can be evaluated outside of the quantifier.

    Raises UnboundedError if `body` uses the variable in another way.
    """
    maps: list[Expression] = []
    items: list[Expression] = []
    sets: list[Expression] = []

    def need(part: Expression, among: list[Expression]) -> None:
        if not free(part) or any(node.same_as(bound) for node in children_first(part)):
            raise UnboundedError(f"`{body}` uses `{bound}` in more than one place at once")
        among.append(part)

    def walk(node: Expression) -> None:
        if node.same_as(bound):
            raise UnboundedError(f"`{body}` uses `{bound}` as a value")
        match node.op:
            case "index" if node.args[1].same_as(bound):
                if node.args[0].op == "each":
                    walk(node.args[0])
                else:
                    need(node.args[0], maps)
            case "field" if node.args and node.args[0].same_as(bound):
                maps.append(node)
            case "eq" if any(part.same_as(bound) for part in node.args):
                left, right = node.args
                need(right if left.same_as(bound) else left, items)
            case "in" if node.args[0].same_as(bound):
                need(node.args[1], sets)
            case _:
                for part in node.args:
                    walk(part)

    walk(body)
    return maps, items, sets


def tuple_class(name: str, fields: list[str]) -> type:
    """A class of named tuples."""
    return namedtuple(name, fields)  # type: ignore[reportUntypedNamedTuple]


def has_record(kind: Type) -> bool:
    """Whether values of a type contain records or maps."""
    match kind:
        case Record() | Map():
            return True
        case Optional() | Sequence() | Bag():
            return has_record(kind.of)
        case _:
            return False


@cache
def record_class(record: Record) -> type:
    """The class that holds a record: its fields by name, in declared order."""
    return tuple_class(record.name, [name for name, _ in record.fields])


def mapped(kind: Type, of: Type, change: Callable[[Any], Any], value: Any) -> Any:
    """The value with `change` applied to each part of the type `of`."""
    match kind:
        case _ if kind == of:
            return change(value)
        case Optional():
            return None if value is None else mapped(kind.of, of, change, value)
        case Record():
            parts = zip(kind.fields, value, strict=True)
            return tuple(mapped(part, of, change, each) for (_, part), each in parts)
        case _:
            return value


def shown(kind: Type, value: Any) -> Any:
    """A value for users: records are named tuples, maps are copies."""
    match kind:
        case Optional():
            return None if value is None else shown(kind.of, value)
        case Record():
            parts = (shown(of, part) for (_, of), part in zip(kind.fields, value, strict=True))
            return record_class(kind)(*parts)
        case Sequence() | Bag():
            return tuple(shown(kind.of, part) for part in value)
        case Map():
            inner = ((key, shown(kind.of, part)) for key, part in value.items())
            return Sparse(shown(kind.of, value.default), inner)
        case _:
            return value


def _is(value: object, *types: Any) -> bool:
    return isinstance(value, types)


def stored(ranges: Ranges, kind: Type, given: Any) -> Any:
    """A user's value, converted for rows. Mappings are accepted for records and maps, any
    collection for sets and sequences."""
    if given is None:
        return None
    value: Any = given
    match kind:
        case Optional():
            return stored(ranges, kind.of, value)
        case Record() if _is(value, Mapping):
            initial = ranges.initial(kind)
            if not set(value) <= {name for name, _ in kind.fields}:
                return value
            return tuple(
                stored(ranges, of, value[name]) if name in value else initial[at]
                for at, (name, of) in enumerate(kind.fields)
            )
        case Record() if _is(value, tuple) and len(value) == len(kind.fields):
            parts = zip(kind.fields, value, strict=True)
            return tuple(stored(ranges, of, part) for (_, of), part in parts)
        case Set() if _is(value, set, list, tuple, frozenset):
            return frozenset(value)
        case Sequence() if _is(value, list, tuple):
            return tuple(stored(ranges, kind.of, part) for part in value)
        case Bag() if _is(value, list, tuple):
            parts = (stored(ranges, kind.of, part) for part in value)
            return canonical(kind.of, tuple(parts), ranges.constants)
        case Map() if _is(value, Mapping):
            default = value.default if _is(value, Sparse) else ranges.initial(kind.of)
            return Sparse(
                stored(ranges, kind.of, default),
                {key: stored(ranges, kind.of, part) for key, part in value.items()},
            )
        case _:
            return value
