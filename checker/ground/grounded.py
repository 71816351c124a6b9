"""A grounded system: leaves, and rows as guards and updates over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ...language import Bool, Expression, Instance, Key, Optional, Property, Ranking
from ...language.types import Type, Value, show_value
from ..verdict.probes import Probe
from .graph import Graph, Node
from .shapes import Shape

PathPart: TypeAlias = "str | tuple[Key, int]"


@dataclass(frozen=True)
class Leaf:
    """A scalar part of the state: its path, its numbers `low`..`high`, and its type.

    An optional scalar is one leaf. Its lowest number is none.
    """

    index: int
    path: tuple[PathPart, ...]
    low: int
    high: int
    type: Type

    @property
    def name(self) -> str:
        """The path as text."""
        parts = (p if isinstance(p, str) else f"[{p[1]}]" for p in self.path)
        return "".join(parts)

    @property
    def is_truth(self) -> bool:
        """Whether the leaf is a truth and not a number."""
        return isinstance(self.type, Bool)

    @property
    def holds(self) -> Key | None:
        """The key of the leaf's values, if they are instances."""
        kind = self.type.of if isinstance(self.type, Optional) else self.type
        return kind if isinstance(kind, Key) else None


@dataclass(frozen=True)
class GroundRow:
    """A row for one binding: the condition under which it is taken, its updates, the condition
    under which an update leaves its range, and the conditions under which it breaks each step
    property.
    """

    row: int
    guard: Node
    updates: Mapping[int, Node]
    out_of_range: Node
    broken: tuple[Node, ...]


@dataclass(frozen=True)
class GroundAction:
    """The rows of an action for one binding.

    One row may be taken for every place in `possible` whose node holds. A place is the slot of the
    bag whose element the action takes. If there are several, the rows read the place as a leaf with
    an index below 0 (`choice_leaf`). `instances` are the identities that the action binds. `guards`
    are the declared guards of all rows, by their index, without the negations of earlier ones.
    """

    possible: tuple[Node, ...]
    rows: tuple[GroundRow, ...]
    instances: tuple[tuple[Key, int], ...] = ()
    guards: tuple[tuple[int, Node], ...] = ()

    def instance_of(self, key: Key) -> int | None:
        """The instance of `key` that the action binds, if there is exactly one."""
        found = [number for of, number in self.instances if of == key]
        return found[0] if len(found) == 1 else None


def choice_leaf(places: int) -> int:
    """The index of the leaf for a choice among `places` places."""
    return -places


@dataclass(frozen=True)
class Aim:
    """A progress property for one value of its variables: its premise and its goal. `of` is the
    property, `bound` are the values.
    """

    of: Property
    bound: tuple[tuple[Expression, Value], ...]
    premise: Node
    goal: Node

    @property
    def name(self) -> str:
        """The name of the property, with the values."""
        return " ".join(
            (
                self.of.name,
                *(f"{v.data.name}={show_value(v.data.type, value)}" for v, value in self.bound),
            )
        )


@dataclass(frozen=True)
class GroundHelp:
    """A helpful event of a ranking, by its place there, for its `instances`, with the condition
    `when`.
    """

    place: int
    instances: tuple[tuple[Key, int], ...]
    when: Node


@dataclass(frozen=True)
class GroundRanking:
    """The ranking of an aim: the aim's place, the numbers, and the helpful events."""

    aim: int
    of: Ranking
    rank: tuple[Node, ...]
    helpful: tuple[GroundHelp, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of the ranking."""
        return (*self.rank, *(item.when for item in self.helpful))


@dataclass
class Grounded:
    """A system's state as leaves, and everything that reads or writes them.

    `vector` converts a state of plain values to the numbers of its leaves, `plain` converts them
    back. `kept` are the leaves in a packed state. `constant` are leaves that are read but never
    change: nodes contain their initial values. `well_formed` are conditions that the leaves of
    every value satisfy, though not all numbers in their ranges: absent values have one form,
    present elements come first and in order, and no value exceeds its open constants. Open
    constants are leaves that nothing writes: `open` has their names, and `limits` those that bound
    types. `probes` are conditions that a run should meet. Probes of steps read the next state as
    the leaves `next_leaves`, each with its value for a step that doesn't change it. `aims` are the
    progress properties, and `rankings` are for their proofs. `read` grounds a further expression
    over the state, with shapes for names, without slicing.
    """

    instance: Instance
    graph: Graph
    leaves: list[Leaf]
    initials: list[tuple[int, ...]]
    actions: list[GroundAction]
    invariants: list[Node]
    terminal: Node
    vector: Callable[[tuple[Value, ...]], tuple[int, ...]]
    plain: Callable[[tuple[int, ...]], tuple[Value, ...]]
    kept: frozenset[int]
    well_formed: list[Node]
    open: Mapping[int, str]
    limits: list[str]
    probes: list[tuple[Probe, Node]]
    next_leaves: Mapping[int, Node]
    read: Callable[[Expression, Mapping[Expression, Shape]], Shape]
    constant: frozenset[int] = frozenset()
    aims: list[Aim] = field(default_factory=list[Aim])
    rankings: list[GroundRanking] = field(default_factory=list[GroundRanking])
