"""Groups of properties that are checked together, and not again for the same part of a state.

If a search keeps states by their parts (`parts`), a property that reads only one part has the same
truth in all states with the same content of the part. It is checked until it has held for that
content. A broken property is found again in each such state.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from typing import TypeAlias

from ...ground import Grounded
from ...ground.graph import Node, leaves_of
from ..store import part_plan as planning
from ..store.pack import Packing
from .sharing import INLINE, Fault, Flags, conjuncts, cost

COUNT, WATCHED, KNOWN, HELD = range(4)
"""What a search and the code of a system tell each other of the states that are expanded: how many
were noted as bad, and which flags are looked for; which groups of properties are known to hold, and
which did hold in the last state."""
NOTES = 4
MOST_GROUPS = 8  # each is a bit of a byte
LEAST = 32  # least nodes of properties whose result is kept

Span: TypeAlias = tuple[int, int]
"""Words of a packed state, from the first up to the end."""


@dataclass(frozen=True)
class Group:
    """Properties, with their flags, that read words from the first up to the end."""

    first: int
    end: int
    invariants: tuple[Fault, ...]


@dataclass(frozen=True)
class Judging:
    """The properties that are checked in each state, and the groups of others."""

    always: tuple[Fault, ...]
    groups: tuple[Group, ...] = ()

    @property
    def every(self) -> list[Fault]:
        """All properties."""
        return [*self.always, *(fault for group in self.groups for fault in group.invariants)]


def judging(grounded: Grounded, packing: Packing, flags: Flags) -> Judging:
    """Divides a system's properties into groups. The conjuncts of a property are divided
    separately, because each may read fewer words.
    """
    every = tuple(zip(grounded.invariants, flags.of_invariants, strict=True))
    if packing.stride <= planning.WHOLE or cost([node for node, _ in every]) <= INLINE:
        return Judging(every)
    together: dict[Span, list[Fault]] = {}
    always: list[Fault] = []
    for fault in ((part, flag) for node, flag in every for part in conjuncts(node)):
        words = {packing.places[leaf].word for leaf in leaves_of([fault[0]])}
        found = together.setdefault((min(words), max(words) + 1), []) if words else always
        found.append(fault)
    costs = {span: sum(cost([node]) for node, _ in found) for span, found in together.items()}
    largest = nlargest(MOST_GROUPS, costs, costs.__getitem__)
    groups: dict[Span, list[Fault]] = {
        span: [] for span in costs if span in largest and costs[span] >= LEAST
    }
    for span, found in together.items():
        around = (one for one in groups if one[0] <= span[0] and span[1] <= one[1])
        narrowest = min(around, key=lambda one: one[1] - one[0], default=None)
        (always if narrowest is None else groups[narrowest]).extend(found)

    def joined(found: list[Fault]) -> tuple[Fault, ...]:
        by_flag: dict[int, list[Node]] = {}
        for node, flag in found:
            by_flag.setdefault(flag, []).append(node)
        return tuple((grounded.graph.and_(*nodes), flag) for flag, nodes in by_flag.items())

    apart = tuple(Group(*span, joined(found)) for span, found in groups.items())
    return Judging(joined(always), apart)
