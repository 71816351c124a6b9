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
    """A scalar part of the state: where it is, its numbers `low`..`high`, and its type.

    An optional scalar is one leaf whose lowest number stands for none.
    """

    index: int
    path: tuple[PathPart, ...]
    low: int
    high: int
    type: Type

    @property
    def name(self) -> str:
        """The path in print."""
        parts = (p if isinstance(p, str) else f"[{p[1]}]" for p in self.path)
        return "".join(parts)

    @property
    def is_truth(self) -> bool:
        """Whether it is true or false, not a number."""
        return isinstance(self.type, Bool)

    @property
    def holds(self) -> Key | None:
        """The key whose identities the leaf's values are, if they are."""
        kind = self.type.of if isinstance(self.type, Optional) else self.type
        return kind if isinstance(kind, Key) else None


@dataclass(frozen=True)
class GroundRow:
    """A row for certain bindings: when it is taken, its updates, when an update leaves its range,
    and when it breaks each step property."""

    row: int
    guard: Node
    updates: Mapping[int, Node]
    out_of_range: Node
    broken: tuple[Node, ...]


@dataclass(frozen=True)
class GroundAction:
    """The rows of an action for certain bindings.

    One row may be taken for every place in `possible` whose node holds. The rows read that place as
    a leaf of its own, below 0, where there is more than one (`choice_leaf`): the slot of the bag
    whose element the action takes. `instances` are the identities that the action binds. `guards`
    are those of all rows by their index, each as it is declared, whatever comes before it.
    """

    possible: tuple[Node, ...]
    rows: tuple[GroundRow, ...]
    instances: tuple[tuple[Key, int], ...] = ()
    guards: tuple[tuple[int, Node], ...] = ()

    def instance_of(self, key: Key) -> int | None:
        """The one instance of `key` that the action is about, if there is just one."""
        found = [number for of, number in self.instances if of == key]
        return found[0] if len(found) == 1 else None


def choice_leaf(places: int) -> int:
    """The index of the leaf that stands for a choice among so many places."""
    return -places


@dataclass(frozen=True)
class Aim:
    """A progress property `of` the system, for one value of its variables: its premise and its
    goal. `bound` are these values."""

    of: Property
    bound: tuple[tuple[Expression, Value], ...]
    premise: Node
    goal: Node

    @property
    def name(self) -> str:
        """The property, with the values in print."""
        return " ".join(
            (
                self.of.name,
                *(f"{v.data.name}={show_value(v.data.type, value)}" for v, value in self.bound),
            )
        )


@dataclass(frozen=True)
class GroundHelp:
    """An event that a ranking names, by its place there, for the `instances` that it is of; and
    `when` it helps."""

    place: int
    instances: tuple[tuple[Key, int], ...]
    when: Node


@dataclass(frozen=True)
class GroundRanking:
    """The ranking of an aim: its place among the aims, its numbers, and the actions that lower
    them."""

    aim: int
    of: Ranking
    rank: tuple[Node, ...]
    helpful: tuple[GroundHelp, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Everything in it that reads the state."""
        return (*self.rank, *(item.when for item in self.helpful))


@dataclass
class Grounded:
    """A system's state as leaves, and everything that reads or writes them.

    `vector` gives a state of plain values as the numbers of its leaves, `plain` the values of such
    numbers; `kept` are the leaves that a packed state holds, `constant` those that are read but
    never change: their initial value stands in their place. `well_formed` holds of the leaves of
    every value, if not of all numbers in their ranges: absent values have one form, present ones
    come first and in order, and nothing lies beyond its open constants. Those are leaves
    themselves, that nothing writes: `open` gives their names, and `limits` those that types are
    bounded by. `probes` are conditions that a run should meet; those of steps read the state after
    a step as the leaves `next_leaves`, each with its value where a step leaves it alone. `aims` are
    the properties of progress, `rankings` the arguments that runs reach them. `read` grounds a
    further expression over the state, where names stand for shapes; no slicing is done to it.
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
