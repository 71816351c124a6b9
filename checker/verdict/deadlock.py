"""Explains a deadlock: the machines that wait, the nearest event of each, and the conditions that
refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...language import Action, Expression, Instance, Loss, Message
from ...language.expressions import children_first
from ...language.systems import NETWORK, events_of
from ...language.terms.folding import truth
from ...language.terms.reasons import Scope, because
from ...language.types import Value, show_value
from ...model.engine.compiler.stepper import Stepper
from ...model.engine.interpreter import FullState
from .explanation import Values, why_broken

MOST_MACHINES, MOST_PARTS = 8, 4


@dataclass(frozen=True)
class Waiting:
    """The machine `who` has work left, and the conditions `why` refuse the row of the table as its
    next step. Without a `row`, the table's own condition refuses the event; without a `table`, no
    message is in flight to the machine. `awaited` are possible messages that aren't in flight.
    """

    who: str
    table: str
    row: str
    why: tuple[str, ...]
    awaited: tuple[str, ...] = ()

    @property
    def lines(self) -> Iterator[str]:
        """The text in lines. The first line names the machine."""
        event = self.table.partition(".")[2]
        nearest = f"{event}{f' [{self.row}]' if self.row else ''}" if self.table else ""
        missing = f"no {' or '.join(self.awaited)} is in flight to it" if self.awaited else ""
        if nearest:
            also = f" ({missing})" if missing else ""
            yield f"{self.who} can't take {nearest}{also}:"
            yield from (f"  {line}" for line in self.why[:MOST_PARTS])
        else:
            yield f"{self.who} waits: {missing or 'no event is for it'}"


def waiting(instance: Instance, state: FullState) -> list[Waiting]:
    """The machines with work left in a state without a next step. A machine has work left if a
    false part of `terminal` names it, if a message is in flight to it, or if one of its events
    would send a message that another machine with work left awaits.
    """
    found = _Search(instance, state)
    every = found.machines()
    left = found.with_work_left() | {who for who, near in found.nearest.items() if near.in_flight}
    pending = [*left]
    while pending:
        for name in found.of(pending.pop()).awaited:
            senders = found.senders.get(name, set()) - left
            left |= senders
            pending += senders
    named = [who for who in every if who in left] or every
    return [found.of(who) for who in named]


def waiting_lines(found: Sequence[Waiting]) -> tuple[str, ...]:
    """The lines on the first waiting machines."""
    lines = [line for item in found[:MOST_MACHINES] for line in item.lines]
    more = len(found) - MOST_MACHINES
    return (*lines, f"and {more} more wait") if more > 0 else tuple(lines)


@dataclass(frozen=True)
class _Near:
    """The conditions that refuse an event, and the number of their false parts."""

    distance: tuple[int, int]
    table: str
    row: str
    why: tuple[str, ...]
    in_flight: bool


class _Search:
    def __init__(self, instance: Instance, state: FullState) -> None:
        self.instance = instance
        self.state = state
        self.values = Values.of(instance, state, None)
        self.nearest: dict[str, _Near] = {}
        self.awaited: dict[str, list[str]] = {}
        self.senders: dict[str, set[str]] = {}
        self.tables = {table.name: table for table in instance.system.tables}
        faults = {event for events in instance.system.budgets for event in events_of(events)}
        stepper = Stepper(instance)
        for index, action in enumerate(instance.actions):
            table = self.tables.get(action.table)
            if table is None or table.on in faults or isinstance(table.on, Loss):
                continue
            if truth(action.when, instance.constants, instance.features) is False:
                continue
            arrived: set[str] = set()
            sent = {message.name for row in action.rows for message, _ in row.rooms}
            for bound in stepper.bindings(index, state):
                who = self.actor(action, bound)
                if self.travels(action, bound):
                    arrived.add(who)
                    self.note(who, self.near(action, bound))
                    for name in sent:
                        self.senders.setdefault(name, set()).add(who)
            if isinstance(table.on, Message):
                for who in self.instances(action):
                    if who not in arrived:
                        self.awaited.setdefault(who, []).append(table.on.name)

    def machines(self) -> list[str]:
        """All machines, as instances, with a possible event or an awaited message."""
        return list(dict.fromkeys((*self.nearest, *self.awaited)))

    def of(self, who: str) -> Waiting:
        near, awaited = self.nearest.get(who), tuple(self.awaited.get(who, ()))
        if near is None:
            return Waiting(who, "", "", (), awaited)
        return Waiting(who, near.table, near.row, near.why, () if near.in_flight else awaited)

    def note(self, who: str, near: _Near) -> None:
        known = self.nearest.get(who)
        if known is None or near.distance < known.distance:
            self.nearest[who] = near

    def travels(self, action: Action, bound: Scope) -> bool:
        """Whether the message that an action takes is in flight; true for actions without a
        message.
        """
        if action.message is None or action.choice is not None or action.taken is None:
            return True  # in a bag each binding has a message
        return bool(self.values.value(action.taken.args[0].is_set, bound))

    def actor(self, action: Action, bound: Scope) -> str:
        this = action.this
        if this is None:
            return action.table.partition(".")[0]
        return show_value(this.data.type, bound[this])

    def instances(self, action: Action) -> list[str]:
        """Every instance of an action's machine."""
        machine = self.tables[action.table].machine
        if machine.key is None:
            return [machine.name]
        return [f"{machine.key}{at}" for at in range(machine.key.count(self.instance.constants))]

    def near(self, action: Action, bound: Scope) -> _Near:
        """The conditions that refuse an action for these values."""
        in_flight = action.message is not None
        if not self.holds(action.when, bound):
            away = self.away(action.when, bound)
            why = self.why(action.when, bound)
            return _Near((away, 2), action.table, "", why, in_flight)
        found: list[_Near] = []
        for row in action.rows:
            if self.holds(row.guard, bound):
                full = [
                    f"no room for {m.name}" for m, room in row.rooms if not self.holds(room, bound)
                ]
                why = tuple(dict.fromkeys(full))
                return _Near((len(why), 0), action.table, row.id, why, in_flight)
            away, why = self.away(row.guard, bound), self.why(row.guard, bound)
            found.append(_Near((away, 1), action.table, row.id, why, in_flight))
        return min(found, key=lambda near: near.distance)

    def holds(self, condition: Expression, bound: Scope) -> bool:
        return bool(self.values.value(condition, bound))

    def away(self, condition: Expression, bound: Scope) -> int:
        return sum(1 for _ in because(self.values, condition, bound))

    def why(self, condition: Expression, bound: Scope) -> tuple[str, ...]:
        return why_broken(self.instance, condition, self.state, bound=bound)

    def with_work_left(self) -> set[str]:
        """The machines in the false parts of `terminal`."""
        found: set[str] = set()
        for fact in because(self.values, self.instance.terminal):
            for node in children_first(fact.expression):
                if node.op == "field" and node.data.machine != NETWORK:
                    found |= self.meant(node, fact.scope)
        return found

    def meant(self, node: Expression, scope: Scope) -> set[str]:
        """The instances of a field."""
        if node.data.key is None:
            return {node.data.machine}
        named = {
            part for part in children_first(node.args[0]) if part.op in ("variable", "element")
        }
        if named <= set(scope):
            value: Value = self.values.value(node.args[0], scope)
            return {show_value(node.data.key, value)}
        count = node.data.key.count(self.instance.constants)
        return {f"{node.data.key}{at}" for at in range(count)}
