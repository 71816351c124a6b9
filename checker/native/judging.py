"""Which properties of a state are looked at together, so that they needn't be looked at again.

Where a search keeps states by their parts (`parts`), a property that reads one part alone holds in
all states that have the same content there. It is looked at until it has held for that content;
one that is broken is found again in each such state.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..graph import leaves_of
from ..ground import Grounded
from . import planning
from .pack import Packing
from .sharing import INLINE, Fault, Flags, cost

COUNT, WATCHED, KNOWN, HELD = range(4)
"""What a search and the code of a system tell each other of the states that are expanded: how many
were noted as bad, and which flags are looked for; which groups of properties are known to hold, and
which did hold in the last state."""
NOTES = 4
MOST_GROUPS = 8  # a bit of a byte for each
LEAST = 32  # nodes of a property from which on it is worth to remember that it held


@dataclass(frozen=True)
class Group:
    """Properties, with their flags, that read words from the first up to the end."""

    first: int
    end: int
    invariants: tuple[Fault, ...]


@dataclass(frozen=True)
class Judging:
    """The properties that are looked at in each state, and the groups of others."""

    always: tuple[Fault, ...]
    groups: tuple[Group, ...] = ()


def judging(grounded: Grounded, packing: Packing, flags: Flags) -> Judging:
    """How to look at the properties of a system's states."""
    every = tuple(zip(grounded.invariants, flags.of_invariants, strict=True))
    if packing.stride <= planning.WHOLE or cost([node for node, _ in every]) <= INLINE:
        return Judging(every)
    together: dict[tuple[int, int], list[Fault]] = {}
    for fault in every:
        words = {packing.places[leaf].word for leaf in leaves_of([fault[0]])}
        if words and cost([fault[0]]) >= LEAST:
            together.setdefault((min(words), max(words) + 1), []).append(fault)
    groups = tuple(Group(*span, tuple(found)) for span, found in together.items())[:MOST_GROUPS]
    apart = [fault for group in groups for fault in group.invariants]
    return Judging(tuple(fault for fault in every if fault not in apart), groups)
