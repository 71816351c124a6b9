"""Mutants: the shipped tables with one small fault each, as a slip of the pen would make it.

Operators: a guard negated (a row without one is taken away), an update dropped, a target state or
another constant of an enum changed, a reply's error changed, a reply or a message not sent, and two
neighbouring rows swapped. Left out is what can't be told apart from the original by its form: rows
that no release has, or whose guard is never true, and rows swapped that exclude each other, or that
no release has both of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from epochfence.diagrams.facts import assume
from epochfence.language import Expression, Row, Sending, System, Table, lift
from epochfence.language.declaration.errors import DeclarationError
from epochfence.language.expressions import EnumValue, folded, rewrite, show
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.spec.alterations import with_reduced

NEVER = lift(False)


class Place(NamedTuple):
    """A table and what its rows are with a fault. `touched` are the rows that differ, the first of
    them at the place `at`."""

    table: Table
    at: int
    touched: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Mutant:
    """A fault of one declaration, in each of the tables that have it: `what` is wrong in place of
    `right`. `inside` says that rows differ only in what they do, so that nothing changes where they
    are never taken."""

    places: tuple[Place, ...]
    what: str
    right: str
    inside: bool = False

    @property
    def name(self) -> str:
        """Table, row and fault, as reports and the list of survivors name it."""
        table, at, *_ = self.places[0]
        return f"{table.label(table.rows[at])}: {self.what}"

    @property
    def machine(self) -> str:
        """The machine that is at fault."""
        return self.places[0].table.machine.name

    def systems(self) -> list[System]:
        """The shipped systems that have one of the tables."""
        return [system for system in _systems() if self.within(system)]

    def within(self, system: System) -> list[Place]:
        """The places that a system has."""
        return [place for place in self.places if place.table in system.tables]

    def of(self, system: System) -> System:
        """The system with the fault."""
        for place in self.within(system):
            system = with_reduced(system, place.table, place.rows)
        return system


@cache
def _systems() -> tuple[System, ...]:
    return tuple(map(shipped, SHIPPED))


@cache
def every_mutant() -> dict[str, Mutant]:
    """The mutants of all shipped tables, by name. A fault that several tables have, since they are
    made of one, is one mutant."""
    tables = dict.fromkeys(table for system in _systems() for table in system.tables)
    alike: dict[tuple[str | int, ...], Mutant] = {}
    for table in tables:
        owners = [system for system in _systems() if table in system.tables]
        had = Counter[tuple[str, ...]]()  # a row may send the same message twice
        for mutant in mutants(table, owners):
            named = (table.name, *mutant.places[0].touched, mutant.what, mutant.right)
            key = (*named, had[named])
            had[named] += 1
            places = (*alike[key].places, *mutant.places) if key in alike else mutant.places
            alike[key] = replace(mutant, places=places)
    found: dict[str, Mutant] = {}
    for mutant in alike.values():
        what, number = mutant.what, 1
        while mutant.name in found:
            number += 1
            mutant = replace(mutant, what=f"{what} ({number})")
        found[mutant.name] = mutant
    return found


def mutants(table: Table, systems: list[System]) -> Iterator[Mutant]:
    """The mutants of a table of these systems."""
    for at, row in enumerate(table.rows):
        if folded(row.guard) is NEVER or not _in_one_release(systems, row):
            continue
        for what, right, other, inside in faults(row):
            rows = (*table.rows[:at], other, *table.rows[at + 1 :])
            if _can_be(table, other):
                yield Mutant((Place(table, at, (row.id,), rows),), what, right, inside)
        below = table.rows[at + 1 : at + 2]
        if below and _may_both_hold(systems, row, below[0]):
            rows = (*table.rows[:at], *below, row, *table.rows[at + 2 :])
            place = Place(table, at, (row.id, below[0].id), rows)
            guards = f"{show(row.guard)}; {show(below[0].guard)}"
            yield Mutant((place,), f"below {below[0].id!r}", guards)


def _can_be(table: Table, row: Row) -> bool:
    """Whether the table may have the row. The others are as they were, and so is its name."""
    try:
        replace(table, rows=(row,))
    except DeclarationError:
        return False
    return True


def _in_one_release(systems: list[System], *rows: Row) -> bool:
    """Whether one of the systems has all of these rows in some release."""
    return any(
        all(system.protocols.holds(row.during, features) for row in rows)
        for system in systems
        for features in _features(system)
    )


@cache
def _features(system: System) -> tuple[frozenset[str], ...]:
    """The features of each release."""
    return tuple(map(system.protocols.features_at, system.protocols.releases))


def _may_both_hold(systems: list[System], row: Row, other: Row) -> bool:
    if not _in_one_release(systems, row, other):
        return False
    return assume(other.guard, True, assume(row.guard, True, {})) is not None


def faults(row: Row) -> Iterator[tuple[str, str, Row, bool]]:
    """What is wrong, what is right in its place, the row with the fault, and whether that is only
    in what the row does."""
    yield "guard negated", show(row.guard), replace(row, when=~row.guard), False
    if row.goto is not None:
        goto = lift(row.goto)
        yield "no next state", show(goto), replace(row, goto=None), True
        for member, other in _others(goto):
            yield f"goto {member}", show(goto), replace(row, goto=other), True
    for target, updated in row.set.items():
        value, field = lift(updated), show(target)
        if value is target:
            continue
        kept = {other: v for other, v in row.set.items() if other is not target}
        yield f"without {field}", show(value), replace(row, set=kept), True
        for member, other in _others(value):
            changed = replace(row, set={**row.set, target: other})
            yield f"{field} = {member}", show(value), changed, True
    if row.reply is not None:
        reply = _shown(row.reply)
        yield "no reply", reply, replace(row, reply=None), False
        for member, other in _replies(row):
            yield f"replies {member}", reply, replace(row, reply=other), True
    for at, sending in enumerate(row.send):
        send = (*row.send[:at], *row.send[at + 1 :])
        what = f"doesn't send {sending.message.name}"
        yield what, _shown(sending), replace(row, send=send), False


def _shown(sent: Sending | Expression) -> str:
    if isinstance(sent, Expression):
        return show(sent)
    fields = ", ".join(f"{name}={show(value)}" for name, value in sent.fields)
    return f"{sent.message.name}({fields}) to {[*map(show, sent.to_each)]} if {show(sent.when)}"


def _replies(row: Row) -> Iterator[tuple[str, Sending | Expression]]:
    if isinstance(row.reply, Expression):
        yield from _others(row.reply)
    elif row.reply is not None:
        for name, value in row.reply.fields:
            for member, changed in _others(value):
                fields = tuple((n, changed if n == name else v) for n, v in row.reply.fields)
                yield f"{name}={member}", replace(row.reply, fields=fields)


def _others(value: Expression) -> Iterator[tuple[str, Expression]]:
    """The value with each constant of an enum that it may take replaced by the enum's next one."""
    value = folded(value)
    for constant in dict.fromkeys(_results(value)):
        kind, member = constant.data.enum, constant.data.member
        names = kind.names
        following = names[(names.index(member) + 1) % len(names)]
        other = Expression("const", (), EnumValue(kind, following))

        changed = rewrite(value, lambda node, of={constant: other}: of.get(node))
        yield following if value is constant else f"{member} → {following}", changed


def _results(value: Expression) -> Iterator[Expression]:
    """The constants of enums that an expression may come to, not those that it compares with."""
    if value.op == "if":
        yield from _results(value.args[1])
        yield from _results(value.args[2])
    elif value.op == "some":
        yield from _results(value.args[0])
    elif value.op == "const" and isinstance(value.data, EnumValue):
        yield value
