"""Explains the number of states by the numbers of values of the state's parts.

It counts, for each field, channel and budget, the different values, and the states that would
remain if states that differ only in this part were one. The system without the part may have fewer
states, or different ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np

from ..language import Expression
from ..language.expressions import Operand, children_first
from ..language.systems import BUDGET, NETWORK, Channel, events_of
from ..language.types import Bag, Int, Key, Map, Optional, Record, Set, Type
from ..language.types import Sequence as Line
from .ground import Grounded, Leaf
from .native.store.distinct import Count, Distinct, Mask, bits_set, mask_of
from .native.store.pack import Packing
from .native.store.store import SHARDS, Store

SAMPLE = 1 << 18  # states for the values of single leaves


@dataclass(frozen=True)
class Part:
    """A field, a channel, a budget, or a group of several `members`.

    `values` is the number of found values, `without` the number of states without the part.
    """

    name: str
    values: Count
    without: Count
    bounded_by: str
    members: int = 1

    def factor(self, states: int) -> float:
        """The factor by which the part multiplies the states."""
        return states / max(1, self.without.number)


@dataclass(frozen=True)
class Traffic:
    """A channel: its most and its mean messages in flight over all states, and the number of
    different contents.
    """

    name: str
    most: int
    mean: float
    contents: Count
    kind: str


@dataclass(frozen=True)
class Size:
    """The causes of the number of `states`: parts by their effect, channels, and leaves by their
    values.

    `sampled` is the number of states for the values of leaves.
    """

    states: int
    parts: tuple[Part, ...]
    traffic: tuple[Traffic, ...]
    leaves: tuple[tuple[str, int], ...]
    sampled: int

    def as_json(self) -> dict[str, Any]:
        """The data for JSON."""

        def count(number: Count) -> dict[str, Any]:
            return {"number": number.number, "exact": number.exact}

        return {
            "states": self.states,
            "parts": [
                {
                    "name": part.name,
                    "members": part.members,
                    "values": count(part.values),
                    "states_without": count(part.without),
                    "factor": round(part.factor(self.states), 3),
                    "bounded_by": part.bounded_by,
                }
                for part in self.parts
            ],
            "channels": [
                {
                    "name": channel.name,
                    "most_at_once": channel.most,
                    "mean": round(channel.mean, 3),
                    "contents": count(channel.contents),
                    "kind": channel.kind,
                }
                for channel in self.traffic
            ],
            "leaves": [{"name": name, "values": values} for name, values in self.leaves],
            "states_sampled_for_leaves": self.sampled,
        }


def explain(grounded: Grounded, packing: Packing, store: Store, threads: int) -> Size:
    """The causes of the number of states in the store."""
    return _Explanation(grounded, packing, store, threads).size()


class _Explanation:
    def __init__(self, grounded: Grounded, packing: Packing, store: Store, threads: int) -> None:
        self.grounded = grounded
        self.instance = grounded.instance
        self.packing = packing
        self.stride = store.stride
        self.threads = threads
        self.store = store
        self.states = int(store.counts.sum())
        self.kept = [leaf for leaf in grounded.leaves if leaf.index in packing.places]

    def size(self) -> Size:
        groups = self._groups()
        sample = self._sample()
        with ThreadPoolExecutor(self.threads) as pool:
            values = pool.map(self._distinct, groups.values())
            without = pool.map(self._distinct, map(self._others, groups.values()))
            parts = [
                Part(name, seen, self._at_most_all(left), self._bounds(name), self._members(name))
                for name, seen, left in zip(groups, values, without, strict=True)
            ]
            channels = {c.message.name: c for c in self.instance.system.channels}
            traffic = pool.map(self._traffic, channels.values())
            leaves = pool.map(self._distinct, ([leaf] for leaf in self.kept), repeat(sample))
            return Size(
                self.states,
                tuple(sorted(parts, key=lambda p: (p.without.number, p.name))),
                tuple(sorted(traffic, key=lambda t: (-t.contents.number * t.mean, t.name))),
                tuple(
                    sorted(
                        ((leaf.name, n.number) for leaf, n in zip(self.kept, leaves, strict=True)),
                        key=lambda pair: (-pair[1], pair[0]),
                    )
                ),
                int(self.store.counts[: sample.stop].sum()),
            )

    def _at_most_all(self, count: Count) -> Count:
        return Count(min(count.number, self.states), count.exact)

    # States ----------------------------------------------------------------------------------

    def _sample(self) -> range:
        """The shards of the sample. A hash distributes states, so whole shards are a random
        sample.
        """
        counts = np.cumsum(self.store.counts)
        return range(max(1, int(np.searchsorted(counts, SAMPLE, side="right"))))

    def _states(self, shards: range) -> Iterator[tuple[int, int]]:
        """The address and number of packed states, valid until the next iteration."""
        for rows in chain.from_iterable(map(self.store.rows, shards)):
            yield int(rows.ctypes.data), len(rows)

    def _distinct(self, leaves: Iterable[Leaf], among: range = range(SHARDS)) -> Count:
        """The number of different combinations of the leaves' values."""
        bits = self._bits(leaves)
        found = Distinct()
        for states, count in self._states(among):
            found.keep_masked(states, count, self.stride, bits)
        return found.count

    def _bits(self, leaves: Iterable[Leaf]) -> Mask:
        masks = [0] * self.packing.words
        for leaf in leaves:
            place = self.packing.places[leaf.index]
            masks[place.word] |= place.mask
        return mask_of(masks)

    # Parts -----------------------------------------------------------------------------------

    def _groups(self) -> dict[str, list[Leaf]]:
        """The leaves of each variable, and of each group (a machine, all channels, all budgets) of
        more than one variable.
        """
        single: dict[str, list[Leaf]] = {}
        whole: dict[str, list[Leaf]] = {}
        for leaf in self.kept:
            variable = str(leaf.path[0])
            single.setdefault(variable, []).append(leaf)
            whole.setdefault(f"{variable.split('.')[0]}.*", []).append(leaf)
        several = {
            name: own
            for name, own in whole.items()
            if 1 < self._members(name, single) < len(single)
        }
        return single | several

    def _members(self, name: str, among: Iterable[str] | None = None) -> int:
        if not name.endswith(".*"):
            return 1
        names = among or {str(leaf.path[0]) for leaf in self.kept}
        return sum(other.startswith(name[:-1]) for other in names)

    def _others(self, leaves: list[Leaf]) -> list[Leaf]:
        own = {leaf.index for leaf in leaves}
        return [leaf for leaf in self.kept if leaf.index not in own]

    # Channels --------------------------------------------------------------------------------

    def _traffic(self, channel: Channel) -> Traffic:
        name = f"{NETWORK}.{channel.message.name}"
        slots = _slots(leaf for leaf in self.grounded.leaves if leaf.path[0] == name)
        there = (slot[0] for slot in slots if slot[0].index in self.packing.places)
        bits = self._bits(there)
        most, total = 0, 0
        found = Distinct()
        for states, count in self._states(range(SHARDS)):
            here, every = bits_set(states, count, self.stride, bits)
            most, total = max(most, here), total + every
            for slot in slots:
                self._keep_contents(slot, states, count, found)
        mean = total / max(1, self.states)
        return Traffic(channel.message.name, most, mean, found.count, _kind(channel))

    def _keep_contents(self, slot: list[Leaf], states: int, count: int, found: Distinct) -> None:
        """Counts the slot's values in states where it isn't empty. A slot that is always empty has
        no place.
        """
        presence = self.packing.places.get(slot[0].index)
        if presence is None:
            return
        places: list[tuple[int, int, int, int]] = []
        for leaf in slot[1:]:
            place = self.packing.places.get(leaf.index)
            if place is None:  # sliced away, or constant
                places.append((0, 0, 0, self.grounded.initials[0][leaf.index]))
            else:
                places.append((place.word, place.shift, (1 << place.width) - 1, place.low))
        there = (presence.word, presence.mask)
        found.keep_contents(states, count, self.stride, there, places)

    # Bounds ----------------------------------------------------------------------------------

    def _bounds(self, name: str) -> str:
        """The bounds of the part that a user can set: a channel's capacity, a budget, constants
        with their values.
        """
        found: dict[str, None] = {}
        said: list[str] = []
        for bound, what in self._limits(name):
            said.append(what)
            found |= dict.fromkeys(_constants(bound))
        for variable in self.instance.variables:
            if variable.name == name and not name.startswith(f"{BUDGET}."):
                found |= dict.fromkeys(_in_type(variable.type))
        constants = [f"{constant}={self.instance.constants[constant]}" for constant in found]
        return ", ".join(said + constants)

    def _limits(self, name: str) -> Iterator[tuple[Operand, str]]:
        """A channel's capacity or a budget, each with its text."""
        system = self.instance.system
        for channel in system.channels:
            if name == f"{NETWORK}.{channel.message.name}":
                yield channel.most, _kind(channel)
            if name == f"{BUDGET}.duplicate {channel.message.name}":
                yield channel.duplicates, f"{channel.duplicates} in a run"
        for events, most in system.budgets.items():
            names = (" or ".join(event.name for event in events_of(events)), *_constants(most))
            if name in (f"{BUDGET}.{other}" for other in names):
                yield most, f"{most} in a run"


def _slots(leaves: Iterable[Leaf]) -> list[list[Leaf]]:
    """The leaves of each place of a channel; the first one is true if a message is there."""
    found: dict[tuple[object, ...], list[Leaf]] = {}
    for leaf in leaves:
        at = next(n for n, part in enumerate(leaf.path) if str(part).startswith("<"))
        found.setdefault(leaf.path[: at + 1], []).append(leaf)
    return list(found.values())


def _kind(channel: Channel) -> str:
    """The order and the faults of a channel, in a few words."""
    parts = [f"{channel.most} at once for each address"]
    parts += ["ordered"] * channel.ordered + ["lossy"] * channel.lossy
    return ", ".join(parts)


def _constants(bound: object) -> Iterator[str]:
    """The names of the constants in a bound."""
    if isinstance(bound, Expression):
        yield from (node.data.name for node in children_first(bound) if node.op == "constant")


def _in_type(kind: Type) -> Iterator[str]:
    """The names of the constants that bound the values of a type."""
    match kind:
        case Int():
            yield from (*_constants(kind.low), *_constants(kind.high))
        case Key():
            yield from _constants(kind.size)
        case Line() | Bag():
            yield from (*_in_type(kind.of), *_constants(kind.capacity))
        case Optional() | Set():
            yield from _in_type(kind.of)
        case Map():
            yield from (*_in_type(kind.key), *_in_type(kind.of))
        case Record():
            for _, of in kind.fields:
                yield from _in_type(of)
        case _:
            pass
