"""Draws systems in which thousands of states can be reached, of a size known beforehand but for a
factor: fields take any of their values by themselves, but for some values that never meet.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from math import prod
from random import Random
from typing import TypeAlias

from epochfence import language as lang
from epochfence.language import (
    DeclarationError,
    Event,
    Expression,
    Instance,
    Machine,
    Message,
    Property,
    Row,
    Table,
    event,
)
from epochfence.language.expressions import enum_value
from epochfence.language.types import Type, choices
from epochfence.tests.checker.drawn_expressions import SCALARS, Scope, cardinality
from epochfence.tests.checker.drawn_systems import PASSED_OVER, SystemDrawing

SPARE = 4  # times as many states as are wanted may be declared
WIDE: tuple[Type, ...] = (lang.Int(0, 5), lang.Int(-3, 4), lang.Int(0, 11))


Atom: TypeAlias = "tuple[Expression, Callable[[Expression], Expression]]"
"""A field, and a condition on its value."""


class LargeDrawing(SystemDrawing):
    """Draws a system of about `least` states or more, up to SPARE times as many."""

    def __init__(self, random: Random, least: int) -> None:
        super().__init__(random, SPARE * least)
        self.least = least
        self.apart: list[list[Atom]] = []

    @property
    def moved(self) -> int:
        """Values of those fields, taken together, that take all of theirs."""
        return prod(
            cardinality(info.type, self.constants) ** self.copies(machine)
            for machine in self.machines
            for info in machine.fields.values()
            if self.is_moved(machine, info.expression, info.type)
        )

    def copies(self, machine: Machine) -> int:
        """How many instances a machine has."""
        return 1 if machine.key is None else machine.key.count(self.constants)

    def is_moved(self, machine: Machine, field: Expression, kind: Type) -> bool:
        """Whether a table of its own takes a field to all of its values."""
        return field is not machine.state and (kind in SCALARS or kind in WIDE)

    def all_machines(self) -> None:
        """The machines, with more fields until there are states enough."""
        super().all_machines()
        kinds = [kind for kind in (*SCALARS, *WIDE) if not isinstance(kind, lang.Enum)]
        while self.moved < self.least:
            fitting = [
                (machine, kind, size)
                for machine in self.machines
                for kind in kinds
                for size in [cardinality(kind, self.constants) ** self.copies(machine)]
                if self.moved * size <= SPARE * self.least
            ]
            if not fitting:
                break
            machine, kind, size = self.pick(fitting)
            self.field(machine, f"f{len(machine.fields)}", kind, size)
        for machine in self.machines:
            told = [pair for pair in self.fields(machine) if self.is_told(machine, *pair)]
            for _ in range(self.number(0, 3) if len(told) > 1 else 0):
                self.apart.append([self.atom(*pair) for pair in self.random.sample(told, 2)])

    def is_told(self, machine: Machine, field: Expression, kind: Type) -> bool:
        """Whether a field is moved, and may be compared with a value."""
        return self.is_moved(machine, field, kind) and not isinstance(kind, lang.Key)

    def atom(self, field: Expression, kind: Type) -> Atom:
        """A condition on a field's value that some of its values meet."""
        value = self.literal(kind)
        if not isinstance(kind, lang.Int):
            return field, lambda new: new == value
        compare = self.pick((operator.eq, operator.lt, operator.gt))
        return field, lambda new: compare(new, value)

    def row(
        self, name: str, machine: Machine, on: Event, scope: Scope, response: Message | None
    ) -> Row:
        """A row that keeps apart what never meets."""
        return self.kept_apart(super().row(name, machine, on, scope, response))

    def kept_apart(self, row: Row) -> Row:
        """The row, where it doesn't lead to values that are to be kept apart."""
        guard = row.guard
        for atoms in self.apart:
            if any(field in row.set for field, _ in atoms):
                first, second = (holds(lang.lift(row.set.get(f, f))) for f, holds in atoms)
                guard = guard & ~(first & second)
        return replace(row, when=guard)

    def happening(self, machine: Machine, name: str) -> None:
        """A table on an event; of the machine's first, others that move its fields as well."""
        super().happening(machine, name)
        if not name.endswith("event 0"):
            return
        for label, info in machine.fields.items():
            if not self.is_moved(machine, info.expression, info.type):
                continue
            if isinstance(info.type, lang.Int) and self.chance(60):
                on = event(f"{name} steps {label}")
                step = lang.wrap(info.expression + self.pick((1, -1)), info.type)
                new: Expression = step
            else:
                on = event(f"{name} moves {label}", p=info.type)
                new = on.p
            scope = Scope(tuple(self.fields(machine)), self.names_keys)
            when = self.truth(scope, 2) if self.chance(30) else True
            row = self.kept_apart(Row("move", when=when, set={info.expression: new}))
            self.tables.append(Table(machine, on, (row,)))

    def property(self, name: str) -> Property:
        """A property like others, or that some fields never have certain values at once."""
        if self.chance(40):
            return super().property(name)
        quantified: list[Expression] = []
        parts: list[Expression] = []
        for machine in self.machines:
            bound = None if machine.key is None else machine.key.variable(f"a {machine.name}")
            if bound is not None:
                quantified.append(bound)
            for seen, kind in self.fields(machine):
                if self.is_told(machine, seen, kind) and self.chance(70):
                    parts.append((seen if bound is None else seen.at(bound)) == self.literal(kind))
        if not parts:
            return super().property(name)
        body = parts[0]
        for part in parts[1:]:
            body = body & part
        for bound in quantified:
            body = lang.any_of(bound, body)
        return lang.invariant(name, ~body, "These values never meet.")

    def literal(self, kind: Type) -> Expression:
        """A value of a type of few values."""
        value = self.pick(choices(kind, self.constants))
        return enum_value(kind, str(value)) if isinstance(kind, lang.Enum) else lang.lift(value)


def draw(random: Random, least: int) -> Instance:
    """A system of about `least` states or more."""
    while True:
        try:
            return LargeDrawing(random, least).instance()
        except DeclarationError as error:
            if not any(reason in str(error) for reason in PASSED_OVER):
                raise
