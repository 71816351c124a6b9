"""Symmetry reduction: of all states that differ only by renaming instances, one is kept.

The instances of an interchangeable key each own a row of leaves. Sorting the rows gives the same
state for every renaming, and costs a sort. That is exact as long as no leaf names an instance by
its value and none belongs to two instances of the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from llvmlite import ir  # pyright: ignore[reportMissingTypeStubs]

from ..spec.language import (
    Bag,
    Expression,
    Instance,
    Int,
    Key,
    Optional,
    Sequence,
    Set,
)
from ..spec.language.expressions import children_first
from ..spec.language.typecheck import type_of
from ..spec.language.types import Type
from .ground import Grounded, Leaf
from .pack import WORD, Packing, width

_I64 = ir.IntType(64)


@dataclass(frozen=True)
class Orbit:
    """An interchangeable key: per instance its leaves, in the same order for all, in chunks of at
    most a word's bits."""

    key: Key
    rows: tuple[tuple[tuple[Leaf, ...], ...], ...]


@dataclass(frozen=True)
class Symmetry:
    """The keys by which states are reduced, and why others are not."""

    orbits: tuple[Orbit, ...]
    refused: tuple[str, ...]

    def groups(self, grounded: Grounded) -> list[list[Leaf]]:
        """Leaves that must lie side by side in a packed state, and then all others."""
        groups = [list(chunk) for orbit in self.orbits for row in orbit.rows for chunk in row]
        grouped = {leaf.index for group in groups for leaf in group}
        rest = [x for x in grounded.leaves if x.index in grounded.kept - grouped]
        return groups + [[leaf] for leaf in rest]


NO_SYMMETRY = Symmetry((), ())


def find_symmetry(grounded: Grounded) -> Symmetry:
    """The reduction that the system's interchangeable keys allow."""
    orbits: list[Orbit] = []
    refused: list[str] = []
    used: set[int] = set()
    for key in grounded.instance.system.interchangeable:
        reason = _objection(grounded, key, used)
        if reason:
            refused.append(f"{key.name}: {reason}")
            continue
        rows = _rows(grounded, key)
        if len(rows) > 1 and rows[0]:
            orbits.append(Orbit(key, tuple(tuple(map(tuple, _chunks(row))) for row in rows)))
            used |= {leaf.index for row in rows for leaf in row}
    return Symmetry(tuple(orbits), tuple(refused))


def _objection(grounded: Grounded, key: Key, used: set[int]) -> str:
    kept = [leaf for leaf in grounded.leaves if leaf.index in grounded.kept]
    for leaf in kept:
        if leaf.holds == key:
            return f"{leaf.name} names one of them by its value"
        places = [part for part in leaf.path if isinstance(part, tuple) and part[0] == key]
        if len(places) > 1:
            return f"{leaf.name} belongs to two of them"
        if places and leaf.index in used:
            return f"{leaf.name} belongs to an instance of another key that is reduced already"
    named = _named_instance(grounded.instance, key)
    if named is not None:
        return f"`{named}` tells them apart"
    rows = _rows(grounded, key)
    initials = {tuple(v[i] for i in sorted(grounded.kept)) for v in grounded.initials}
    order = {index: at for at, index in enumerate(sorted(grounded.kept))}
    for a, b in pairwise(rows):
        if [width(leaf) for leaf in a] != [width(leaf) for leaf in b]:
            return "they differ in what may change"
        for vector in initials:
            swapped = list(vector)
            for x, y in zip(a, b, strict=True):
                i, j = order[x.index], order[y.index]
                swapped[i], swapped[j] = vector[j], vector[i]
            if tuple(swapped) not in initials:
                return "they differ in the initial states"
    return ""


def _named_instance(instance: Instance, key: Key) -> Expression | None:
    """A place where an expression orders the key's instances or puts a number in place of one."""
    expressions = [p.expression for p in instance.properties] + [instance.terminal]
    for table in instance.system.tables:
        expressions.append(table.when)
        for row in table.rows:
            expressions.append(row.guard)
            expressions += [part for update in table.updates(row) for part in update]
            for sending in table.sendings(row):
                expressions += [sending.when, *(value for _, value in sending.fields)]
    for expression in expressions:
        for node in children_first(expression):
            suspects: tuple[Expression, ...] = ()
            if node.op == "position" and type_of(node.args[0]) == key:
                return node
            if node.op in ("eq", "if", "in", "set_of", "and", "or", "sub"):
                sides = node.args[-2:] if node.op == "if" else node.args
                if any(_innermost(side) == key for side in sides):
                    suspects = sides
            elif node.op in ("index", "updated") and _map_key(node.args[0]) == key:
                suspects = node.args[1:2]
            elif node.op == "field" and node.args and node.data.key == key:
                suspects = node.args
            if any(isinstance(_innermost(side), Int) for side in suspects):
                return node
    return None


def _innermost(expression: Expression) -> Type | None:
    """The expression's type; of an optional or a collection, what is inside."""
    kind = type_of(expression)
    while isinstance(kind, (Optional, Set, Sequence, Bag)):
        kind = kind.of
    return kind


def _map_key(expression: Expression) -> Key | None:
    return getattr(type_of(expression), "key", None)


def _rows(grounded: Grounded, key: Key) -> list[list[Leaf]]:
    """Per instance its kept leaves, ordered by what remains of their paths without it."""
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


def _chunks(row: list[Leaf]) -> list[list[Leaf]]:
    chunks: list[list[Leaf]] = [[]]
    used = 0
    for leaf in row:
        if used + width(leaf) > WORD:
            chunks.append([])
            used = 0
        chunks[-1].append(leaf)
        used += width(leaf)
    return chunks


class Sorter:
    """Writes the code that sorts the rows of every orbit."""

    def __init__(self, symmetry: Symmetry, packing: Packing) -> None:
        self.symmetry = symmetry
        self.packing = packing

    def __call__(self, b: Any, words: list[Any]) -> list[Any]:
        """The words of the representative of the state with these words."""
        words = list(words)
        for orbit in self.symmetry.orbits:
            rows = [[self._read(b, words, chunk) for chunk in row] for row in orbit.rows]
            for step in range(len(rows)):  # odd-even transposition: n rounds sort n rows
                for at in range(step % 2, len(rows) - 1, 2):
                    rows[at], rows[at + 1] = self._ordered(b, rows[at], rows[at + 1])
            for row, values in zip(orbit.rows, rows, strict=True):
                for chunk, value in zip(row, values, strict=True):
                    self._write(b, words, chunk, value)
        return words

    def _span(self, chunk: tuple[Leaf, ...]) -> tuple[int, int, int]:
        places = [self.packing.places[leaf.index] for leaf in chunk]
        bits = sum(place.width for place in places)
        return places[0].word, places[0].shift, (1 << bits) - 1

    def _read(self, b: Any, words: list[Any], chunk: tuple[Leaf, ...]) -> Any:
        word, shift, mask = self._span(chunk)
        return b.and_(b.lshr(words[word], _I64(shift)), _I64(mask))

    def _write(self, b: Any, words: list[Any], chunk: tuple[Leaf, ...], value: Any) -> None:
        word, shift, mask = self._span(chunk)
        cleared = b.and_(words[word], _I64(~(mask << shift) & (2**64 - 1)))
        words[word] = b.or_(cleared, b.shl(value, _I64(shift)))

    def _ordered(self, b: Any, x: list[Any], y: list[Any]) -> tuple[list[Any], list[Any]]:
        greater: Any = ir.Constant(ir.IntType(1), 0)
        for p, q in reversed(list(zip(x, y, strict=True))):
            greater = b.select(b.icmp_unsigned("==", p, q), greater, b.icmp_unsigned(">", p, q))
        pairs = list(zip(x, y, strict=True))
        low = [b.select(greater, q, p) for p, q in pairs]
        high = [b.select(greater, p, q) for p, q in pairs]
        return low, high
