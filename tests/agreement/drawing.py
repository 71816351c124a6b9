"""Draws systems in which thousands of states can be reached, of a size known beforehand but for a
factor: fields take any of their values by themselves, whatever other rows do.
"""

from __future__ import annotations

from math import prod
from random import Random

from epochfence import language as lang
from epochfence.language import (
    DeclarationError,
    Expression,
    Instance,
    Machine,
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


class LargeDrawing(SystemDrawing):
    """Draws a system of about `least` states or more, up to SPARE times as many."""

    def __init__(self, random: Random, least: int) -> None:
        super().__init__(random, SPARE * least)
        self.least = least

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
            when = self.truth(scope, 2) if self.chance(20) else True
            self.tables.append(Table(machine, on, (Row("move", when, set={info.expression: new}),)))

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
                if kind in WIDE or (kind in SCALARS and not isinstance(kind, lang.Key)):
                    here = seen if bound is None else seen.at(bound)
                    if self.chance(70):
                        parts.append(here == self.literal(kind))
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
