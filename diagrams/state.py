"""A machine's states and the rows that lead from one to another, derived from the tables.

A row names no states that it can be taken from: its guard says it, and the guards of the rows
above it in its table. So each state is tried as a fact, in each release, from the initial ones on.

Fields that hold a state themselves, such as one that is prepared and not yet in force, are tried
with it. A row that puts such a state in force is then known to follow the row that prepared it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import TypeAlias

from ..spec.language import DeclarationError, Enum, Expression, Machine, Optional, System, Table
from ..spec.language.tables import FieldInfo
from ..spec.language.types import Value, initial_value
from .facts import Facts, Values, possible, taken
from .graph import Edge, Graph, Node, span

Known: TypeAlias = tuple[Value, ...]
Steps: TypeAlias = tuple[tuple[str, str], ...]  # event and row

INDENT = "    "


@dataclass(frozen=True)
class State:
    """A member of the state field's enum: its number, and the releases in which it is reached.

    `prepared` names the fields that hold it although it is never reached.
    """

    name: str
    number: int
    releases: tuple[str, ...]
    initial: bool
    terminal: bool
    prepared: tuple[str, ...]


@dataclass(frozen=True)
class Transition:
    """A row of `table` that can be taken in `source` and leads to `target`, in these releases.

    `moves`: the row updates the state field, be it to the same state. `after` are the rows, as
    event and name, that prepared the state that this row puts in force.
    """

    source: str
    target: str
    table: str
    event: str
    row: str
    moves: bool
    after: Steps = ()
    releases: tuple[str, ...] = ()


@dataclass(frozen=True)
class StateDiagram:
    """The states that a machine can be in and its transitions, over `releases`."""

    machine: str
    releases: tuple[str, ...]
    states: tuple[State, ...]
    transitions: tuple[Transition, ...]

    def graph(self, *, all_rows: bool = False) -> Graph:
        """As nodes and edges; rows that don't update the state are left out, or not."""
        nodes = tuple(self._node(state) for state in self.states)
        names = {state.name: node.name for state, node in zip(self.states, nodes, strict=True)}
        joined: dict[tuple[str, str], list[Transition]] = {}
        for transition in self.transitions:
            if transition.moves or all_rows:
                ends = names[transition.source], names[transition.target]
                joined.setdefault(ends, []).append(transition)
        edges = tuple(
            Edge(
                tail,
                head,
                tuple(self._lines(transitions)),
                partial={r for t in transitions for r in t.releases} != set(self.releases),
            )
            for (tail, head), transitions in joined.items()
        )
        return Graph(self.machine, "states", nodes, edges)

    def _node(self, state: State) -> Node:
        reached = bool(state.releases)
        where = f"only as {', '.join(state.prepared)}" if state.prepared else "not reached"
        when = span(state.releases, self.releases)
        line = (when and f"only in {when}") if reached else where
        return Node(
            f"{state.name} ({state.number})",
            (line,) if line else (),
            initial=state.initial,
            terminal=state.terminal,
            partial=reached and len(state.releases) < len(self.releases),
            unused=not reached,
        )

    def _lines(self, transitions: list[Transition]) -> Iterator[str]:
        """Each row once, and below it the rows that prepared the state that it puts in force."""
        for this, same in groupby(transitions, lambda t: (t.event, t.row)):
            ways = list(same)
            all_of_them = {release for way in ways for release in way.releases}
            yield _named(this) + self._when(all_of_them)
            for way in ways:
                when = "" if set(way.releases) == all_of_them else self._when(way.releases)
                steps = [f"{INDENT}after {_named(step)}" for step in way.after[:1]]
                steps += [f"{INDENT * 2}and {_named(step)}" for step in way.after[1:]]
                yield from steps[:-1]
                yield from (last + when for last in steps[-1:])

    def _when(self, releases: Collection[str]) -> str:
        when = span(releases, self.releases)
        return when and f" [{when}]"


def _named(step: tuple[str, str]) -> str:
    event, row = step
    return event if event == row else f"{event}: {row}"


def state_diagram(
    system: System, machine: Machine, releases: Sequence[str] | None = None
) -> StateDiagram:
    """The machine's states and transitions under the system's tables, in all releases or these.

    Raises DeclarationError for a machine without a state field.
    """
    if machine.state is None:
        drawable = ", ".join(m.name for m in system.machines if m.state is not None) or "none"
        raise DeclarationError(
            f"machine {machine.name} has no state field to draw (with one: {drawable})"
        )
    kind = machine.state.data.type
    assert isinstance(kind, Enum)
    shown = tuple(releases or system.protocols.releases)
    search = _Search(system, machine, machine.state, kind)
    for release in shown:
        search.run(release)
    return StateDiagram(machine.name, shown, tuple(search.states()), tuple(search.transitions()))


class _Search:
    """What is reached from the initial states, and by which rows, a release at a time."""

    def __init__(self, system: System, machine: Machine, state: Expression, kind: Enum) -> None:
        self.system = system
        self.machine = machine
        self.kind = kind
        infos = [machine.fields[state.data.name]]
        infos += [
            info
            for info in machine.fields.values()
            if info.type in (kind, Optional(kind)) and info is not infos[0]
        ]
        self.fields = [info.expression for info in infos]
        self.initials = [_initial(info) for info in infos]
        self.reached: dict[str, list[str]] = {name: [] for name in kind.names}
        self.prepared: dict[str, dict[str, None]] = {name: {} for name in kind.names}
        self.found: dict[Transition, list[str]] = {}

    def run(self, release: str) -> None:
        """Adds what happens in a release."""
        waiting: list[tuple[Known, Steps]] = [(known, ()) for known in product(*self.initials)]
        seen = set(waiting)
        for known, after in waiting:  # grows meanwhile
            if release not in self.reached[str(known[0])]:
                self.reached[str(known[0])].append(release)
            for following, step in self.steps(release, known):
                in_force = step.moves and following[1:] != known[1:]
                here = replace(step, after=after if in_force else ())
                releases = self.found.setdefault(here, [])
                if release not in releases:
                    releases.append(release)
                pair = following, self.preparation(known, following, step, after)
                if pair not in seen:
                    seen.add(pair)
                    waiting.append(pair)

    def preparation(self, known: Known, following: Known, step: Transition, after: Steps) -> Steps:
        """The rows that prepared what the fields hold after this step."""
        for field, value in zip(self.fields[1:], following[1:], strict=True):
            if value is not None:
                self.prepared[str(value)][field.data.name] = None
        if all(v in first for v, first in zip(following[1:], self.initials[1:], strict=True)):
            return ()
        this = step.event, step.row
        return after if known[1:] == following[1:] or this in after else (*after, this)

    def steps(self, release: str, known: Known) -> Iterator[tuple[Known, Transition]]:
        """The rows that may be taken, each with what is known after it."""
        for table in self.system.tables:
            for place in self.places(table):
                fields = [Expression("field", place, field.data) for field in self.fields]
                facts = {f: frozenset({v}) for f, v in zip(fields, known, strict=True)}
                for row, here in taken(table, self.system.protocols, release, facts):
                    updates = dict(table.updates(row))
                    if place and not any(field in updates for field in fields):
                        continue
                    moves = fields[0] in updates
                    outcomes = [self.outcomes(updates.get(field, field), here) for field in fields]
                    for following in product(*outcomes):
                        source, target = str(known[0]), str(following[0])
                        names = table.name, table.on.name, row.name
                        yield following, Transition(source, target, *names, moves)

    def outcomes(self, value: Expression, facts: Facts) -> Values:
        values = possible(value, facts)
        assert values is not None  # the field's own type has members
        return values

    def places(self, table: Table) -> list[tuple[Expression, ...]]:
        """How the table speaks of the machine: its own, or an instance given by its key."""
        own: list[tuple[Expression, ...]] = [()] if table.machine is self.machine else []
        targets = (target for row in table.rows for target, _ in table.updates(row))
        data = [field.data for field in self.fields]
        others = (t.args for t in targets if t.op == "field" and t.data in data)
        return list(dict.fromkeys([*own, *others]))

    def states(self) -> Iterator[State]:
        """All members, reached or not."""
        left = {t.source for t in self.found if t.source != t.target}
        for name, number in self.kind.members:
            releases = tuple(self.reached[name])
            yield State(
                name,
                number,
                releases,
                initial=name in self.initials[0],
                terminal=bool(releases) and name not in left,
                prepared=() if releases else tuple(self.prepared[name]),
            )

    def transitions(self) -> list[Transition]:
        """All found, by source and target, then as the tables order them."""
        places = {name: i for i, name in enumerate(self.kind.names)}
        rows = [(table.name, row.name) for table in self.system.tables for row in table.rows]
        return sorted(
            (replace(step, releases=tuple(names)) for step, names in self.found.items()),
            key=lambda t: (places[t.source], places[t.target], rows.index((t.table, t.row))),
        )


def _initial(info: FieldInfo) -> Values:
    if info.initial is None:
        return frozenset({initial_value(info.type, {})})
    # Where any value may be the first, the type alone says which.
    values = possible(info.expression if info.initial.op == "any_value" else info.initial, {})
    assert values is not None
    return values
