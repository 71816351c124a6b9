"""Symmetry reduction: only one of all states that differ by names of instances is kept.

The instances of an interchangeable key each own a row of leaves. Sorting the rows gives the same
state for every renaming. That is exact if no leaf names an instance by its value, and no leaf
belongs to two instances of the key, or to an instance of another sorted key. Otherwise whole states
are renamed (`renaming`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import factorial

from ....language import Bag, Expression, Instance, Int, Key, Map, Optional, Record, Sequence, Set
from ....language.declaration.typecheck import type_of
from ....language.expressions import children_first
from ....language.types import Type
from ...ground import Grounded, Leaf
from ..codegen.instructions import Builder, Value, number
from ..codegen.node_values import of_chunk
from ..store.pack import Packing, width
from .renamer import NewFunction, Renamer
from .renaming import NotClosedError, Renaming, Swap, chunks, exchange, renamings
from .sorting import in_order

MOST_RENAMINGS = 120  # most renamings of all keys together for equal instances


@dataclass(frozen=True)
class Orbit:
    """An interchangeable key, with the leaves of each instance in the same order, in chunks of at
    most a word's bits.
    """

    key: Key
    rows: tuple[tuple[tuple[Leaf, ...], ...], ...]


@dataclass(frozen=True)
class Symmetry:
    """The keys of the reduction: those whose instances are sorted (`orbits`), those whose instances
    are renamed, and the reasons for the others (`refused`).
    """

    orbits: tuple[Orbit, ...]
    refused: tuple[str, ...]
    renamings: tuple[Renaming, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the keys of the reduction."""
        return tuple(each.key.name for each in (*self.orbits, *self.renamings))

    def groups(self, grounded: Grounded) -> list[list[Leaf]]:
        """Groups of leaves that must be adjacent in a packed state, then all others."""
        groups = [list(chunk) for orbit in self.orbits for row in orbit.rows for chunk in row]
        groups += [list(chunk) for each in self.renamings for own in each.own for chunk in own]
        grouped = {leaf.index for group in groups for leaf in group}
        rest = [x for x in grounded.leaves if x.index in grounded.kept - grouped]
        return groups + [[leaf] for leaf in rest]


NO_SYMMETRY = Symmetry((), ())


def refused(instance: Instance, reason: str) -> Symmetry:
    """No reduction, for one reason for all keys."""
    return Symmetry((), tuple(f"{key.name}: {reason}" for key in instance.system.interchangeable))


def find_symmetry(grounded: Grounded, *, renaming: bool = True) -> Symmetry:
    """The reduction by the system's interchangeable keys. Without `renaming` it only sorts."""
    orbits: list[Orbit] = []
    refused: list[str] = []
    entangled: dict[Key, tuple[Swap, ...]] = {}
    used: set[int] = set()
    tries = 1
    constants = grounded.instance.constants
    # of keys that share leaves, only the one with the most instances is sorted
    keys = sorted(grounded.instance.system.interchangeable, key=lambda key: -key.count(constants))
    for key in keys:
        entanglement, shared = _entangled(grounded, key), _shared(grounded, key, used)
        reason = entanglement or shared or _difference(grounded, key)
        if renaming and (entanglement or shared):
            together = "they refer to each other" if entanglement else shared
            ways = tries * factorial(key.count(constants))
            reason = _not_renamed(grounded, key, entangled, ways, together)
            tries = tries if reason else ways
        elif not reason:
            rows = _rows(grounded, key)
            if len(rows) > 1 and rows[0]:
                orbits.append(Orbit(key, tuple(map(chunks, rows))))
                used |= {leaf.index for row in rows for leaf in row}
        if reason:
            refused.append(f"{key.name}: {reason}")
    sorted_keys = frozenset(orbit.key for orbit in orbits)
    return Symmetry(tuple(orbits), tuple(refused), renamings(grounded, entangled, sorted_keys))


def _not_renamed(
    grounded: Grounded, key: Key, entangled: dict[Key, tuple[Swap, ...]], tries: int, together: str
) -> str:
    """The reason why a key isn't renamed; "" if its exchanges were added to `entangled`. `together`
    is the relation of its instances to each other or to another key.
    """
    if tries > MOST_RENAMINGS:
        return f"{together}, and there are {tries} renamings, more than {MOST_RENAMINGS}"
    named = _named_instance(grounded.instance, key)
    if named is not None:
        return f"`{named}` distinguishes them"
    count = key.count(grounded.instance.constants)
    try:
        swaps = tuple(exchange(grounded, key, (at, at + 1)) for at in range(count - 1))
    except NotClosedError as error:
        return str(error)
    if swaps:
        entangled[key] = swaps
    return ""


def _entangled(grounded: Grounded, key: Key) -> str:
    """A sentence on how the key's instances refer to each other; "" if they don't."""
    kept = [leaf for leaf in grounded.leaves if leaf.index in grounded.kept]
    for leaf in kept:
        if leaf.holds == key:
            return f"{leaf.name} names one of them by its value"
        if len([part for part in leaf.path if isinstance(part, tuple) and part[0] == key]) > 1:
            return f"{leaf.name} belongs to two of them"
    held = {leaf.path[0] for leaf in kept}
    for variable in grounded.instance.variables:
        if variable.name in held and _sorts(variable.type, key):
            return f"the elements of {variable.name} are ordered by a map with them as keys"
    return ""


def _shared(grounded: Grounded, key: Key, used: set[int]) -> str:
    """A sentence on a leaf that an instance of the key shares with a sorted key; "" if there is
    none. `used` has the leaves of sorted keys.
    """
    for leaf in grounded.leaves:
        if leaf.index in used and any(
            isinstance(part, tuple) and part[0] == key for part in leaf.path
        ):
            return f"{leaf.name} belongs to an instance of another key that is reduced already"
    return ""


def _difference(grounded: Grounded, key: Key) -> str:
    """A sentence on a difference between the key's instances; "" if there is none."""
    named = _named_instance(grounded.instance, key)
    if named is not None:
        return f"`{named}` distinguishes them"
    for leaf, value in _distinguishing(grounded, key):
        return f"{leaf.name}, always {value}, distinguishes them"
    rows = _rows(grounded, key)
    initials = {tuple(v[i] for i in sorted(grounded.kept)) for v in grounded.initials}
    order = {index: at for at, index in enumerate(sorted(grounded.kept))}
    for a, b in pairwise(rows):
        if [width(leaf) for leaf in a] != [width(leaf) for leaf in b]:
            return "their changing parts differ"
        for vector in initials:
            swapped = list(vector)
            for x, y in zip(a, b, strict=True):
                i, j = order[x.index], order[y.index]
                swapped[i], swapped[j] = vector[j], vector[i]
            if tuple(swapped) not in initials:
                return "they differ in the initial states"
    return ""


def _distinguishing(grounded: Grounded, key: Key) -> Iterator[tuple[Leaf, int]]:
    """Constant leaves that name an instance, or differ between instances."""
    first = grounded.initials[0]
    values: dict[tuple[object, ...], int] = {}
    for leaf in grounded.leaves:
        if leaf.index in grounded.constant:
            value = first[leaf.index]
            names_one = leaf.holds == key and value >= 0
            path = tuple("*" if isinstance(p, tuple) and p[0] == key else p for p in leaf.path)
            if names_one or values.setdefault(path, value) != value:
                yield leaf, value


def _named_instance(instance: Instance, key: Key) -> Expression | None:
    """An expression that orders the key's instances, or uses a number or none as an instance."""
    every = (*instance.properties, *instance.progress)
    expressions = [instance.terminal, *(p.expression for p in every), *(p.premise for p in every)]
    for table in instance.system.tables:
        expressions += [table.guard, *(e for chosen in table.on.variables for e in chosen.args)]
        for row in table.rows:
            expressions.append(row.guard)
            for dropped in table.droppings(row):
                for name, value in dropped.address:
                    if _mixes(key, dict(dropped.message.parameters)[name], type_of(value)):
                        return value
                    expressions.append(value)
            for target, value in table.updates(row):
                if _mixes(key, type_of(target), type_of(value)):
                    return value
                expressions += [target, value]
            for sending in table.sendings(row):
                expressions.append(sending.when)
                given = dict(sending.fields)
                if any(
                    _stands_in(of, key) for n, of in sending.message.parameters if n not in given
                ):
                    return Expression("make", (), (sending.message.content, ()))
                for name, value in sending.fields:
                    if _mixes(key, dict(sending.message.parameters)[name], type_of(value)):
                        return value
                    expressions.append(value)
    nodes = (node for expression in expressions for node in children_first(expression))
    for node in dict.fromkeys(nodes):  # rows share most nodes
        if _chooses(key, node) or any(_mixes(key, *kinds) for kinds in _alike(node)):
            return node
    return None


def _chooses(key: Key, node: Expression) -> bool:
    """Whether the node depends on the order of instances, or its default is the first one."""
    match node.op:
        case "position" | "first_of" if node.args[0].op != "element":
            return _innermost(type_of(node.args[0])) == key
        case "first_of":
            of = type_of(node.args[0].args[0])
            return isinstance(of, Bag) and (_is_by(of.of, key) or _names(of.of, key))
        case "value":
            return _stands_in(type_of(node), key)
        case "make":
            record, given = node.data
            return any(_stands_in(of, key) for name, of in record.fields if name not in given)
        case _:
            return False


def _names(kind: Type | None, key: Key) -> bool:
    """Whether a value of the type contains an instance."""
    match kind:
        case Record():
            return any(_names(of, key) for _, of in kind.fields)
        case _:
            return _innermost(kind) == key


def _stands_in(kind: Type | None, key: Key) -> bool:
    """Whether the default value of a type contains the first instance."""
    match kind:
        case Record():
            return any(_stands_in(of, key) for _, of in kind.fields)
        case Map():
            return _stands_in(kind.of, key)
        case _:
            return kind == key


def _alike(node: Expression) -> list[tuple[Type | None, ...]]:
    """Groups of types whose values the node stores, compares or chooses together."""
    kinds = [type_of(argument) for argument in node.args]
    match node.op:
        case "eq" | "in" | "and" | "or" | "sub" | "set_of" | "sequence_of":
            return [tuple(kinds)]
        case "append" | "push" | "insert_by" | "put" | "take" | "add" | "is_prefix":
            return [tuple(kinds)]
        case "if":
            return [tuple(kinds[1:])]
        case "index" | "updated" if isinstance(mapping := kinds[0], Map):
            return [(mapping.key, kinds[1]), (mapping.of, *kinds[2:])]
        case "field" if kinds:
            return [(node.data.key, kinds[0])]
        case "make":
            record, names = node.data
            return [(record.type_of(n), kind) for n, kind in zip(names, kinds, strict=True)]
        case "replace" if isinstance(kinds[0], Record):
            fields = dict(kinds[0].fields)
            return [(fields[n], kind) for n, kind in zip(node.data, kinds[1:], strict=True)]
        case _:
            return []


def _mixes(key: Key, *kinds: Type | None) -> bool:
    """Whether some of the types hold the key's instances, and others hold numbers."""
    inside = [_innermost(kind) for kind in kinds]
    return key in inside and any(isinstance(kind, Int) for kind in inside)


def _innermost(kind: Type | None) -> Type | None:
    """The inner type of an optional, a collection or a map."""
    while isinstance(kind, (Optional, Set, Sequence, Bag, Map)):
        kind = kind.of
    return kind


def _is_by(kind: Type, key: Key) -> bool:
    """Whether a value of the type has a part for each instance of the key."""
    match kind:
        case Map():
            return kind.key == key or _is_by(kind.of, key)
        case Set():
            return kind.of == key
        case Optional() | Sequence() | Bag():
            return _is_by(kind.of, key)
        case Record():
            return any(_is_by(of, key) for _, of in kind.fields)
        case _:
            return False


def _sorts(kind: Type, key: Key) -> bool:
    """Whether the order of a bag in a value of the type depends on the order of instances."""
    match kind:
        case Bag():
            return _is_by(kind.of, key) or _sorts(kind.of, key)
        case Optional() | Sequence() | Map():
            return _sorts(kind.of, key)
        case Record():
            return any(_sorts(of, key) for _, of in kind.fields)
        case _:
            return False


def _rows(grounded: Grounded, key: Key) -> list[list[Leaf]]:
    """The kept leaves of each instance, ordered by the rest of their paths."""
    rows: dict[int, list[tuple[str, Leaf]]] = {}
    for leaf in grounded.leaves:
        if leaf.index not in grounded.kept or not width(leaf):
            continue
        for part in leaf.path:
            if isinstance(part, tuple) and part[0] == key:
                rest = "".join("*" if p is part else repr(p) for p in leaf.path)
                rows.setdefault(part[1], []).append((rest, leaf))
                break
    return [[leaf for _, leaf in sorted(rows[k], key=lambda r: r[0])] for k in sorted(rows)]


class Sorter:
    """Writes the code that replaces a state by its representative: it sorts the rows of every
    orbit, and renames instances that refer to each other.
    """

    def __init__(self, symmetry: Symmetry, packing: Packing) -> None:
        self.symmetry = symmetry
        self.packing = packing

    def __call__(self, b: Builder, words: list[Value], function: NewFunction) -> list[Value]:
        """The words of the representative of the state with these words. `function` begins a
        further function.
        """
        if not self.symmetry.renamings:
            return self._sorted(b, words)
        renamer = Renamer(self.symmetry.renamings, self.packing, function)
        return renamer.least(b, words, self._sorted)

    def _sorted(self, b: Builder, words: list[Value]) -> list[Value]:
        words = list(words)
        for orbit in self.symmetry.orbits:
            rows = [
                [of_chunk(b, self.packing, chunk, words) for chunk in row] for row in orbit.rows
            ]
            for row, values in zip(orbit.rows, in_order(b, rows), strict=True):
                for chunk, value in zip(row, values, strict=True):
                    self._write(b, words, chunk, value)
        return words

    def swapped(self, b: Builder, words: list[Value], orbit: Orbit, instance: int) -> list[Value]:
        """The words of the state after an exchange of the orbit's first instance with another
        one.
        """
        words = list(words)
        for one, other in zip(orbit.rows[0], orbit.rows[instance], strict=True):
            a, c = (of_chunk(b, self.packing, each, words) for each in (one, other))
            self._write(b, words, one, c)
            self._write(b, words, other, a)
        return words

    def _write(self, b: Builder, words: list[Value], chunk: tuple[Leaf, ...], value: Value) -> None:
        word, shift, mask = self.packing.span(chunk)
        cleared = b.and_(words[word], number(~(mask << shift)))
        words[word] = b.or_(cleared, b.shl(value, number(shift)))
