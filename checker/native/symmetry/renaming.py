"""Renames instances that refer to each other: the state after two of them are exchanged.

A leaf moves to the place of its path after the exchange. A leaf that names one of the instances
names the other one. A bag is sorted again if its order changes. The representative of a state is
the least of all its renamings. To avoid trying all renamings, the instances are first sorted by
their own values, which no renaming of others changes. Every renaming is tried only if two instances
have equal values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from ....language import Bag, Instance, Key, Map, Optional, Record, Sequence
from ....language.expressions import resolve
from ....language.types import SCALARS, Type
from ...ground import Grounded, Leaf, PathPart
from ..store.pack import WORD, width

Path = tuple[PathPart, ...]


class NotClosedError(Exception):
    """An exchange leads to a state outside of the declared ones; the message has the reason."""


@dataclass(frozen=True)
class Move:
    """The new value of a leaf: the number at `source`. If it `names` an instance and all `present`
    are true, the instance is exchanged.
    """

    target: Leaf
    source: Leaf
    names: bool
    present: tuple[Leaf, ...]


@dataclass(frozen=True)
class Slot:
    """The leaves of a place in a bag. If the place `may_be_empty`, the first leaf has its lowest
    number when it is.
    """

    leaves: tuple[Leaf, ...]
    may_be_empty: bool


@dataclass(frozen=True)
class Swap:
    """The exchange of two instances of a key: the changes, and the bags that are sorted
    afterwards.
    """

    key: Key
    pair: tuple[int, int]
    moves: tuple[Move, ...]
    bags: tuple[tuple[Slot, ...], ...]

    def renamed(self, number: int) -> int:
        """The instance after the exchange."""
        a, b = self.pair
        return {a: b, b: a}.get(number, number)

    def applied(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of all leaves after the exchange."""
        result = list(numbers)
        for move in self.moves:
            number = numbers[move.source.index]
            if move.names and all(numbers[leaf.index] for leaf in move.present):
                number = self.renamed(number)
            result[move.target.index] = number
        for bag in self.bags:
            content = [[result[leaf.index] for leaf in slot.leaves] for slot in bag]

            def order(values: list[int], slot: Slot = bag[0]) -> tuple[bool, list[int]]:
                return slot.may_be_empty and values[0] == slot.leaves[0].low, values

            for slot, values in zip(bag, sorted(content, key=order), strict=True):
                for leaf, value in zip(slot.leaves, values, strict=True):
                    result[leaf.index] = value
        return tuple(result)


def exchange(grounded: Grounded, key: Key, pair: tuple[int, int]) -> Swap:
    """The exchange of two instances. Raises NotClosedError if it leads to a state outside of the
    declared ones.
    """
    by_path = {leaf.path: leaf for leaf in grounded.leaves}
    first = grounded.initials[0]
    kept = [leaf for leaf in grounded.leaves if leaf.index in grounded.kept and width(leaf)]
    a, b = pair

    def image(path: Path) -> Path:
        swapped = {(key, a): (key, b), (key, b): (key, a)}
        return tuple(swapped.get(part, part) if isinstance(part, tuple) else part for part in path)

    def present(leaf: Leaf) -> tuple[Leaf, ...]:
        """The leaves that are all true if the leaf holds a value."""
        prefixes = ((*leaf.path[:at], "?") for at in range(len(leaf.path)))
        found = [by_path[path] for path in prefixes if path in by_path]
        for one in found:
            if one.index not in grounded.kept | grounded.constant:
                raise NotClosedError(f"{leaf.name} is read, and {one.name} isn't")
        return tuple(found)

    moves: list[Move] = []
    for leaf in kept:
        target = by_path[image(leaf.path)]
        if target.index not in grounded.kept or width(target) != width(leaf):
            raise NotClosedError(
                f"{leaf.name} and {target.name} differ in their range, or the search keeps only "
                "one of them"
            )
        names = leaf.holds == key
        if names or target is not leaf:
            needed = names and not isinstance(leaf.type, Optional)
            where = (one for one in present(leaf) if one.index in grounded.kept) if needed else ()
            moves.append(Move(target, leaf, names, tuple(where)))
    swap = Swap(key, pair, tuple(moves), tuple(_bags(grounded, key, kept)))
    for leaf in grounded.leaves:
        if leaf.index in grounded.constant:
            other, value = by_path[image(leaf.path)], first[leaf.index]
            names = leaf.holds == key and all(first[one.index] for one in present(leaf))
            wanted = swap.renamed(value) if names else value
            if other.index not in grounded.constant or first[other.index] != wanted:
                raise NotClosedError(f"{leaf.name}, always {value}, distinguishes them")
    seen = {tuple(v[i] for i in sorted(grounded.kept)) for v in grounded.initials}
    for vector in grounded.initials:
        after = swap.applied(vector)
        if tuple(after[i] for i in sorted(grounded.kept)) not in seen:
            raise NotClosedError("they differ in the initial states")
    return swap


def _bags(grounded: Grounded, key: Key, kept: list[Leaf]) -> Iterator[tuple[Slot, ...]]:
    """The bags whose order an exchange may change, inner ones first."""
    for path in _bag_paths(grounded.instance):
        inside = [leaf for leaf in kept if leaf.path[: len(path)] == path]
        rests = [leaf.path[len(path) :] for leaf in inside]
        by_key = any(isinstance(p, tuple) and p[0] == key for rest in rests for p in rest)
        if not by_key and all(leaf.holds != key for leaf in inside):
            continue
        slots: list[Slot] = []
        shapes: set[tuple[Path, ...]] = set()
        for _, group in groupby(inside, key=lambda leaf: leaf.path[len(path)]):
            leaves = tuple(group)
            rest = tuple(leaf.path[len(path) + 1 :] for leaf in leaves)
            shapes.add(rest)
            slots.append(Slot(leaves, rest[0] in ((), ("?",))))
        if len(shapes) > 1:
            name = inside[0].path[0]
            raise NotClosedError(f"the places of a bag in {name} have different changing parts")
        if len(slots) > 1:
            yield tuple(slots)


def _bag_paths(instance: Instance) -> Iterator[Path]:
    """The paths of bags in the state, inner bags before outer ones."""

    def within(kind: Type, path: Path) -> Iterator[Path]:
        match kind:
            case Optional() if not isinstance(kind.of, SCALARS):
                yield from within(kind.of, path)
            case Sequence() | Bag():
                for place in range(resolve(kind.capacity, instance.constants)):
                    yield from within(Optional(kind.of), (*path, f"<{place}>"))
                if isinstance(kind, Bag):
                    yield path
            case Record():
                for name, of in kind.fields:
                    yield from within(of, (*path, f".{name}"))
            case Map():
                for number in range(kind.key.count(instance.constants)):
                    yield from within(kind.of, (*path, (kind.key, number)))
            case _:
                return

    for variable in instance.variables:
        yield from within(variable.type, (variable.name,))


@dataclass(frozen=True)
class Renaming:
    """A key whose instances refer to each other: the exchanges of neighbours (`swaps`); for each
    instance its own leaves, which no renaming of others changes, in chunks of at most a word's bits
    (`own`); and its leaves that may name an instance (`naming`).
    """

    key: Key
    swaps: tuple[Swap, ...]
    own: tuple[tuple[tuple[Leaf, ...], ...], ...]
    naming: tuple[tuple[Leaf, ...], ...]

    @property
    def count(self) -> int:
        """The number of instances."""
        return len(self.own)


def renamings(
    grounded: Grounded, exchanges: dict[Key, tuple[Swap, ...]], others: frozenset[Key]
) -> tuple[Renaming, ...]:
    """The renamings of the keys with these exchanges. `others` are further keys of the
    reduction.
    """
    reduced = others | exchanges.keys()
    swaps = [swap for of_key in exchanges.values() for swap in of_key]
    moved = {leaf.index for s in swaps for bag in s.bags for slot in bag for leaf in slot.leaves}
    kept = [leaf for leaf in grounded.leaves if leaf.index in grounded.kept - moved and width(leaf)]
    found: list[Renaming] = []
    for key, of_key in exchanges.items():
        count = key.count(grounded.instance.constants)
        own: list[list[Leaf]] = [[] for _ in range(count)]
        naming: list[list[Leaf]] = [[] for _ in range(count)]
        for leaf in kept:
            keys = {part for part in leaf.path if isinstance(part, tuple) and part[0] in reduced}
            if len(keys) != 1:
                continue
            of, number = keys.pop()
            if of != key:
                continue
            if leaf.holds == key and isinstance(leaf.type, Optional):
                naming[number].append(leaf)
            elif leaf.holds not in reduced:
                own[number].append(leaf)
        found.append(Renaming(key, of_key, tuple(map(chunks, own)), tuple(map(tuple, naming))))
    return tuple(found)


def chunks(row: list[Leaf]) -> tuple[tuple[Leaf, ...], ...]:
    """Divides leaves into chunks of at most a word's bits."""
    runs: list[list[Leaf]] = []
    used = WORD
    for leaf in row:
        if used + width(leaf) > WORD:
            runs.append([])
            used = 0
        runs[-1].append(leaf)
        used += width(leaf)
    return tuple(map(tuple, runs))


def transpositions(count: int) -> list[int]:
    """The neighbours to exchange, one pair after the other, for every order of `count` things (H.
    Steinhaus, S. Johnson, H. Trotter).
    """
    order, directions = list(range(count)), [-1] * count
    found: list[int] = []
    while True:
        mobile = [
            at
            for at, thing in enumerate(order)
            if 0 <= at + directions[thing] < count and order[at + directions[thing]] < thing
        ]
        if not mobile:
            break
        at = max(mobile, key=lambda place: order[place])
        thing = order[at]
        to = at + directions[thing]
        found.append(min(at, to))
        order[at], order[to] = order[to], order[at]
        for other in range(thing + 1, count):
            directions[other] = -directions[other]
    return found


def walk(renamings: tuple[Renaming, ...]) -> list[tuple[Renaming, int]]:
    """The exchanges, one after the other, for all combinations of renamings."""
    if not renamings:
        return []
    first, *rest = renamings
    inner = walk(tuple(rest))
    steps: list[tuple[Renaming, int]] = list(inner)
    for at in transpositions(first.count):
        steps += [(first, at), *inner]
    return steps
