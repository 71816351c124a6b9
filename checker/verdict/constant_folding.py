"""Conditions that constants and features decide in every state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...language import (
    DeclarationError,
    Event,
    Expression,
    Instance,
    Loss,
    Message,
    Row,
    Table,
    lift,
)
from ...language.expressions import TRUE, children_first, resolve
from ...language.systems import events_of
from ...language.terms.folding import truth
from ...language.terms.values import field_name


def names_settings(e: Expression) -> bool:
    """Whether a constant or a feature is part of the condition."""
    return any(node.op in ("constant", "feature") for node in children_first(e))


@dataclass(frozen=True)
class RuledOut:
    """The rows, by name, that an instance's constants and release rule out, and the messages that
    no remaining row sends.
    """

    rows: frozenset[str]
    messages: frozenset[Message]


def ruled_out(instance: Instance) -> RuledOut:
    """The rows whose condition or budget is false because of the settings, the rows on messages
    that no remaining row sends, and so on. Rows that are unreached at any settings aren't included.
    """
    return _Search(instance).run()


def only_unchanged(instance: Instance, fields: Collection[str], off: Collection[str]) -> bool:
    """Whether there are rows that write one of the fields (by machine and name), but each of them
    is missing in this release or in `off`.
    """
    present = set(instance.row_names) - set(off)
    writers = [
        f"{table.name}/{row.id}"
        for table in instance.system.tables
        for row in table.rows
        for target, _ in table.updates(row)
        if {field_name(n.data) for n in children_first(target) if n.op == "field"} & set(fields)
    ]
    return bool(writers) and not present & set(writers)


def message_of(event: Event) -> Message | None:
    """The message that a table on the event takes from the network."""
    if isinstance(event, Loss):
        return event.message
    return event if isinstance(event, Message) else None


class _Search:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.system = instance.system
        self.present = set(instance.row_names)

    def run(self) -> RuledOut:
        tables = self.system.tables
        off = {
            f"{table.name}/{row.id}"
            for table in tables
            for row in self._rows_of(table)
            if self._excluded(table, row)
        }
        for table in tables:
            off |= self._hidden(table)
        while True:
            silent = {
                channel.message
                for channel in self.system.channels
                if self._unsent(channel.message, off)
            }
            more = {
                f"{table.name}/{row.id}"
                for table in tables
                for row in table.rows
                if message_of(table.on) in silent
            } - off
            if not more:
                return RuledOut(frozenset(off), frozenset(silent))
            off |= more

    def _excluded(self, table: Table, row: Row) -> bool:
        for events, most in self.system.budgets.items():
            bound = lift(most)
            if table.on in events_of(events) and names_settings(bound) and self._is_zero(bound):
                return True
        condition = table.guard & row.guard
        return names_settings(condition) and self._never(condition)

    def _hidden(self, table: Table) -> set[str]:
        """The rows after a row that is always taken at this release or these constants."""
        rows = self._rows_of(table)
        for at, row in enumerate(rows):
            of_settings = row.during is not TRUE or names_settings(row.guard)
            if of_settings and truth(row.guard, self.instance.constants, self.instance.features):
                return {f"{table.name}/{other.id}" for other in rows[at + 1 :]}
        return set()

    def _rows_of(self, table: Table) -> list[Row]:
        """The rows of this release. Rows of other releases may have the same names."""
        return [row for row in table.rows if not self._never(row.during)]

    def _is_zero(self, bound: Expression) -> bool:
        try:
            return resolve(bound, self.instance.constants) == 0
        except DeclarationError:
            return False

    def _never(self, condition: Expression) -> bool:
        return truth(condition, self.instance.constants, self.instance.features) is False

    def _unsent(self, message: Message, off: Collection[str]) -> bool:
        senders = [
            (f"{table.name}/{row.id}", sending)
            for table in self.system.tables
            for row in table.rows
            for sending in table.sendings(row)
            if sending.message == message
        ]
        return bool(senders) and all(
            name in off or name not in self.present or self._never(sending.when)
            for name, sending in senders
        )


def declared_rows(instance: Instance) -> dict[tuple[str, str], Row]:
    """The rows at the instance's release and features, by table and name."""
    return {
        (table.name, row.id): row
        for table in instance.system.tables
        for row in table.rows
        if truth(row.during, instance.constants, instance.features)
    }
