"""A machine as a `Machine` of the library `transitions`: states, events as triggers, `may_...`,
callbacks.

    account = states(Machine(TABLES, protocol="4.1"))
    account.may_EndTxn(producer_id=7, ...)     # whether the event would be taken
    account.EndTxn(producer_id=7, ...)         # takes it; callbacks run, the state moves
    account.outcome.reply                      # what it answered
    account.state

The rows decide: each row of an event is a transition, whose condition is that the event takes this
row. Its source states are those in which the row can be taken. `transitions`' own tools (diagrams,
`get_triggers`, callbacks on states) work on `fsm`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from transitions import EventData
from transitions import Machine as TransitionsMachine

from ...language.expressions import FALSE, TRUE, Expression, folded, lift, rewrite
from ...language.tables import Row, Table
from .machine import Machine, Outcome

ONLY = "RUNNING"  # the state of a machine that declares no states


def trigger_name(event: str) -> str:
    """The name of an event's method."""
    return "".join(c if c.isalnum() else "_" for c in event)


def goals(row: Row) -> tuple[str, ...]:
    """The states that a row may go to; empty if it doesn't change the state."""

    def found(node: Expression) -> Iterator[str]:
        if node.op == "if":
            yield from found(node.args[1])
            yield from found(node.args[2])
        elif node.op == "const":
            yield node.data.member

    return tuple(dict.fromkeys(found(row.goto))) if isinstance(row.goto, Expression) else ()


class States:
    """The model of a `transitions` machine: a `Machine` and the outcome of its last event."""

    def __init__(self, machine: Machine, of: type[TransitionsMachine], options: Any) -> None:
        self.machine = machine
        self.outcome: Outcome | None = None
        self.state: str = ONLY
        declared = machine.tables[0].machine.state
        self.declared = declared
        self.names: tuple[str, ...] = (ONLY,)
        self.field: str | None = None
        if declared is not None:
            self.field = str(declared.data.name)
            self.names = declared.data.type.names
            self.state = machine[self.field]
        chosen = {"send_event": True, "auto_transitions": False, "ignore_invalid_triggers": False}
        self.fsm = of(model=self, states=[*self.names], initial=self.state, **chosen, **options)
        for table in machine.tables:
            self._add(table)

    def _add(self, table: Table) -> None:
        event = table.on.name
        for row, source in self._leaving(table):
            for goal in goals(row) or (None,):
                self.fsm.add_transition(
                    trigger_name(event),
                    source,
                    "=" if goal is None else goal,
                    conditions=_Takes(self, event, row.id, goal),
                    before=_Take(self, event),
                )

    def _leaving(self, table: Table) -> Iterator[tuple[Row, str]]:
        """The rows of a table, each with each state in which it may be taken."""
        rows = [
            (row, self.machine.settled(table.guard & row.guard))
            for row in self.machine.rows_of(table.on.name)
        ]
        for state in self.names:
            for row, guard in rows:
                holds = self._in_state(state, guard)
                if holds is not FALSE:
                    yield row, state
                if holds is TRUE:
                    break

    def _in_state(self, state: str, condition: Expression) -> Expression:
        """The condition, simplified for a state of the machine."""
        declared = self.declared
        if declared is None:
            return folded(condition)
        value = lift(getattr(declared.data.type, state))
        return folded(rewrite(condition, lambda node: value if node is declared else None))


class _Takes:
    """The condition of a transition: the event takes the row, and goes to the target."""

    def __init__(self, model: States, event: str, row: str, goal: str | None) -> None:
        self.model, self.event, self.row, self.goal = model, event, row, goal
        self.__name__ = row

    def __call__(self, data: EventData) -> bool:
        machine = self.model.machine
        if machine.may(self.event, **data.kwargs) != self.row:
            return False
        if self.goal is None or self.model.field is None:
            return True
        tried = machine.copy()
        tried.handle(self.event, **data.kwargs)
        return tried[self.model.field] == self.goal


class _Take:
    """Makes the machine take the event."""

    def __init__(self, model: States, event: str) -> None:
        self.model, self.event = model, event
        self.__name__ = event

    def __call__(self, data: EventData) -> None:
        self.model.outcome = self.model.machine.handle(self.event, **data.kwargs)


def states(
    machine: Machine, of: type[TransitionsMachine] = TransitionsMachine, **options: Any
) -> Any:
    """The machine with its events as methods. Triggers are added at run time, hence Any.

    `of` is the class of the `transitions` machine, such as GraphMachine, and `options` are its
    arguments.
    """
    return States(machine, of, options)
