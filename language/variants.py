"""Machines as another implementation has them: a system's tables with some rows before theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .errors import DeclarationError
from .expressions import Expression, Operand, children_first, lift
from .given import check_kind, check_name, items
from .machines import Event, Machine
from .properties import Property
from .systems import System
from .tables import Table


@dataclass(frozen=True, eq=False)
class Variant:
    """What another implementation does differently, and nothing else.

    The rows of each of its `tables` come before those of the system's table of the same machine and
    event, so that they are taken where their guards hold. A table that the system doesn't have is
    added; `budgets` bound how often its event may happen. Its own `features` are switched as those
    of the system are. A table of the system is taken up only where what `only_when` says of it, by
    its name, holds as well. `properties` are what must hold of it besides, and `bounds` the
    constants' values.

    Raises DeclarationError for what is none of these.
    """

    name: str
    doc: str
    tables: tuple[Table, ...]
    features: tuple[Expression, ...] = ()
    budgets: Mapping[Event, Operand] = field(default_factory=dict[Event, Operand])
    only_when: Mapping[str, Operand] = field(default_factory=dict[str, Operand])
    properties: tuple[Property, ...] = ()
    bounds: Mapping[Expression, int] = field(default_factory=dict[Expression, int])

    def __post_init__(self) -> None:
        check_name("a variant", self.name)
        for name, kind in (("tables", Table), ("features", Expression)):
            where = f"variant {self.name}, {name}"
            object.__setattr__(self, name, items(where, getattr(self, name), kind, name[:-1]))


def varied(system: System, variant: Variant) -> System:
    """The system with a variant's machines, called after both.

    Raises DeclarationError where its rows don't fit the system's.
    """
    check_kind("varied", variant, Variant)
    own = {table.name: table for table in variant.tables}
    if len(own) < len(variant.tables):
        raise DeclarationError(f"variant {variant.name}: two tables of one name")
    there = {table.name for table in system.tables}
    for name in variant.only_when:
        if name not in there:
            raise DeclarationError(f"variant {variant.name}: {system.name} has no table {name}")
    machines = tuple(m for table in variant.tables for m in (table.machine, *table.others))
    tables = [
        _where(variant.only_when.get(table.name), _first(own.get(table.name), table), machines)
        for table in system.tables
    ]
    tables += [table for name, table in own.items() if name not in there]
    protocols = system.protocols
    budgets: dict[Event | tuple[Event, ...], Operand] = {}
    for every in (system.budgets, variant.budgets):
        budgets.update(every.items())
    return replace(
        system,
        name=f"{system.name}+{variant.name}",
        doc=f"{system.doc} {variant.doc}",
        tables=tuple(tables),
        protocols=replace(protocols, features=(*protocols.features, *variant.features)),
        budgets=budgets,
        properties=(*system.properties, *variant.properties),
        bounds={name: {**values, **variant.bounds} for name, values in system.bounds.items()},
    )


def _where(when: Operand, table: Table, machines: tuple[Machine, ...]) -> Table:
    """The table where a variant's further condition holds."""
    if when is None:
        return table
    condition = lift(when)
    read = {node.data.machine for node in children_first(condition) if node.op == "field"}
    others = (*table.others, *(each for each in machines if each.name in read))
    others = tuple(each for each in dict.fromkeys(others) if each is not table.machine)
    return replace(table, when=table.guard & condition, others=others)


def _first(own: Table | None, table: Table) -> Table:
    """The table with a variant's rows before its own."""
    if own is None:
        return table
    others = tuple(dict.fromkeys((*table.others, *own.others)))
    return replace(table, rows=(*own.rows, *table.rows), others=others)
