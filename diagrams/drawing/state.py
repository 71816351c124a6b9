"""A machine's states and the rows that lead from one to another, derived from the tables.

A row doesn't list its source states: its guard and the guards of the rows above it in its table
decide. Therefore the search assumes each state in each release, from the initial states on.

Other fields may hold a state too, such as a prepared state that isn't in force yet. The search
includes these fields. So it knows which row prepared a state that another row puts in force.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import TypeAlias

from ...language import (
    DeclarationError,
    Enum,
    Expression,
    Machine,
    Message,
    Optional,
    System,
    Table,
)
from ...language.machines import FieldInfo
from ...language.types import Value, initial_value
from ..facts import Facts, Values, aftermath, faults, happening, possible, taken
from .graph import Edge, Graph, Node, span

Known: TypeAlias = tuple[Value, ...]
Steps: TypeAlias = tuple[tuple[str, str], ...]  # event and row

INDENT = "    "
ANY = "any other state"
ENOUGH = 3  # from this number of states on, "any" names them


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
    """A row of `table` that a step can take in `source`, and that leads to `target`, in these
    releases.

    `moves`: the row updates the state field, perhaps to the same state. If this row puts a prepared
    state in force, `after` are the rows that prepared it, as event and name.
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
class Place:
    """A machine's place in the drawing, by the values of its `fields`: the state field, then other
    fields that hold a state. A state in `only_prepared` is the place while one of the other fields
    holds it."""

    fields: tuple[str, ...]
    only_prepared: frozenset[str]
    initials: tuple[Values, ...]

    def at_rest(self, known: Known) -> bool:
        """Whether no state is prepared."""
        pairs = zip(known[1:], self.initials[1:], strict=True)
        return all(value in initial for value, initial in pairs)

    def shown(self, known: Known, before: str, *, moves: bool) -> str:
        """The state to show after a step from the state `before`. `moves`: the step sets the state
        field."""
        for value in known[1:]:
            if value in self.only_prepared:
                return str(value)
        return str(known[0]) if moves or self.at_rest(known) else before


@dataclass(frozen=True)
class StateDiagram:
    """A machine's states and transitions, over `releases`. `faults` are the events that a budget
    bounds, `aftermath` the events that happen only after a fault. `titles` are Kafka's names of
    messages, if ours differ."""

    machine: str
    releases: tuple[str, ...]
    states: tuple[State, ...]
    transitions: tuple[Transition, ...]
    place: Place
    faults: frozenset[str] = frozenset()
    aftermath: frozenset[str] = frozenset()
    titles: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)

    def graph(self, *, all_rows: bool = False, event: str | None = None) -> Graph:
        """As nodes and edges, with every row, or those of an event and its consequences; rows that
        don't update the state are left out, or not."""
        nodes = {state.name: self._node(state) for state in self.states}
        joined: dict[tuple[str, str], list[Transition]] = {}
        for transition in self._gathered():
            named = {transition.event, *(name for name, _ in transition.after)}
            if (transition.moves or all_rows) and (event is None or event in named):
                ends = transition.source, transition.target
                joined.setdefault(ends, []).append(transition)
        if any(source == ANY for source, _ in joined):
            nodes[ANY] = Node(ANY, plain=True)
        edges = tuple(
            Edge(
                nodes[tail].name,
                nodes[head].name,
                tuple(self._lines(transitions)),
                partial={r for t in transitions for r in t.releases} != set(self.releases),
            )
            for (tail, head), transitions in joined.items()
        )
        return Graph(self.machine, "states", tuple(nodes.values()), edges)

    def _node(self, state: State) -> Node:
        line = ""
        if not state.releases:
            line = "not reached"
        elif state.prepared:
            line = f"only as {', '.join(state.prepared)}"
        when = span(state.releases, self.releases) if state.releases else ""
        return Node(
            f"{state.name} ({state.number})",
            tuple(text for text in (line, when and f"only in {when}") if text),
            initial=state.initial,
            terminal=state.terminal,
            partial=bool(when),
            prepared=bool(state.prepared),
            unused=not state.releases,
        )

    def _gathered(self) -> list[Transition]:
        """The transitions. A row that leads to a state from all others appears once."""
        alike: dict[Transition, list[Transition]] = {}
        for transition in self.transitions:
            if transition.moves:
                alike.setdefault(replace(transition, source=ANY), []).append(transition)
        from_any: dict[Transition, Transition] = {}
        for one, many in alike.items():
            others = {
                state.name
                for state in self.states
                if set(one.releases) <= set(state.releases) and not state.prepared
            } - {one.target}
            if len(others) >= ENOUGH and others <= {t.source for t in many}:
                from_any |= dict.fromkeys(many, one)
        return list(dict.fromkeys(from_any.get(t, t) for t in self.transitions))

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
    shown = tuple(releases or system.protocols.releases)
    search = _Search(system, machine, shown)
    states, transitions = tuple(search.states()), tuple(search.transitions())
    messages = (table.on for table in system.tables if isinstance(table.on, Message))
    titles = {message.name: message.title for message in messages if message.title}
    bounded = faults(system), aftermath(system)
    return StateDiagram(machine.name, shown, states, transitions, search.place, *bounded, titles)


class _Search:
    """Searches the states that can be reached from the initial ones, and the rows that lead
    there."""

    def __init__(self, system: System, machine: Machine, releases: Sequence[str]) -> None:
        self.system = system
        self.machine = machine
        self.releases = releases
        state = machine.state
        assert state is not None
        infos = [machine.fields[state.data.name]]
        kind = infos[0].type
        assert isinstance(kind, Enum)
        self.kind = kind
        infos += [
            info
            for info in system.fields_of(machine)
            if info.type in (kind, Optional(kind)) and info is not infos[0]
        ]
        self.fields = [info.expression for info in infos]
        self.initials = [_initial(info) for info in infos]
        self.tables = {release: happening(system, release) for release in releases}
        self.places = {table: tuple(self.named_by(table)) for table in system.tables}
        self.steps = {release: self.explored(release) for release in releases}
        in_force = {known[0] for steps in self.steps.values() for known in steps}
        self.only_prepared = frozenset(kind.names) - in_force
        names = tuple(field.data.name for field in self.fields)
        self.place = Place(names, self.only_prepared, tuple(self.initials))
        self.reached: dict[str, dict[str, None]] = {name: {} for name in kind.names}
        self.found: dict[Transition, dict[str, None]] = {}
        for release in releases:
            self.follow(release)

    def explored(self, release: str) -> dict[Known, list[tuple[Known, Transition]]]:
        """The values that the fields may have, each with its rows and the values after them."""
        steps: dict[Known, list[tuple[Known, Transition]]] = {}
        waiting = list(product(*self.initials))
        while waiting:
            known = waiting.pop()
            if known not in steps:
                steps[known] = list(self.leaving(release, known))
                waiting += [following for following, _ in steps[known]]
        return steps

    def leaving(self, release: str, known: Known) -> Iterator[tuple[Known, Transition]]:
        """The rows that a step may take, each with the fields' values after it."""
        for table in self.tables[release]:
            for place in self.places[table]:
                fields = [Expression("field", place, field.data) for field in self.fields]
                facts = {f: frozenset({v}) for f, v in zip(fields, known, strict=True)}
                for row, here in taken(table, self.system.protocols, release, facts):
                    updates = dict(table.updates(row))
                    if place and not any(field in updates for field in fields):
                        continue
                    names = table.name, table.on.name, row.id
                    step = Transition("", "", *names, moves=fields[0] in updates)
                    for following in product(*(_after(f, updates, here) for f in fields)):
                        yield following, step

    def named_by(self, table: Table) -> dict[tuple[Expression, ...], None]:
        """The table's name for the machine: the table's own machine, or an instance given by its
        key."""
        own: list[tuple[Expression, ...]] = [()] if table.machine is self.machine else []
        targets = (target for row in table.rows for target, _ in table.updates(row))
        data = {field.data for field in self.fields}
        others = (t.args for t in targets if t.op == "field" and t.data in data)
        return dict.fromkeys((*own, *others))

    def follow(self, release: str) -> None:
        """Repeats a release's steps, and records the rows that prepared each change."""
        waiting: list[tuple[Known, str, Steps]]
        waiting = [(known, str(known[0]), ()) for known in product(*self.initials)]
        seen = set(waiting)
        for known, state, after in waiting:  # grows in the loop
            self.reached[state][release] = None
            for following, step in self.steps[release][known]:
                target = self.place.shown(following, state, moves=step.moves)
                prepared = known[1:] != following[1:]
                moves = step.moves or target != state
                here = replace(
                    step,
                    source=state,
                    target=target,
                    moves=moves,
                    after=after if moves and prepared else (),
                )
                self.found.setdefault(here, {})[release] = None
                behind = after
                if self.place.at_rest(following) or (moves and target in self.only_prepared):
                    behind = ()
                elif prepared:
                    this = step.event, step.row
                    behind = (*(step for step in after if step != this and not moves), this)
                place = following, target, behind
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)

    def states(self) -> Iterator[State]:
        """All members, reached or not."""
        left = {t.source for t in self.found if t.source != t.target}
        for name, number in self.kind.members:
            releases = tuple(self.reached[name])
            known = [k for steps in self.steps.values() for k in steps if name in k[1:]]
            held = [
                f.data.name for i, f in enumerate(self.fields) if any(name == k[i] for k in known)
            ]
            yield State(
                name,
                number,
                releases,
                initial=name in self.initials[0],
                terminal=bool(releases) and name not in left,
                prepared=tuple(held) if name in self.only_prepared else (),
            )

    def transitions(self) -> list[Transition]:
        """All transitions, by source and target, then in the order of the tables."""
        places = {name: i for i, name in enumerate(self.kind.names)}
        rows = [(table, row) for table in self.system.tables for row in table.rows]
        order = {(table.name, row.id): i for i, (table, row) in enumerate(rows)}
        events = {(table.on.name, row.id): i for i, (table, row) in enumerate(rows)}
        return sorted(
            (replace(step, releases=tuple(names)) for step, names in self.found.items()),
            key=lambda t: (
                places[t.source],
                places[t.target],
                order[t.table, t.row],
                [events[step] for step in t.after],
            ),
        )


def _after(field: Expression, updates: dict[Expression, Expression], facts: Facts) -> Values:
    values = possible(updates.get(field, field), facts)
    assert values is not None  # the field's type has members
    return values


def _initial(info: FieldInfo) -> Values:
    if info.initial is None:
        return frozenset({initial_value(info.type, {})})
    # If any value may be the first, the type lists them.
    values = possible(info.expression if info.initial.op == "any_value" else info.initial, {})
    assert values is not None
    return values
