"""The layout of a run's states on a page: a section for each machine, a column for each of its
instances, and the text of each cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ...language import Bag, Instance, Map, Record, Sequence
from ...language.types import Type, Value, show_value
from ...model.engine.interpreter import FullState


@dataclass(frozen=True)
class Field:
    """A part of a machine's state: a cell with its value for each column."""

    name: str
    cells: tuple[int, ...]
    changes: bool


@dataclass(frozen=True)
class Section:
    """The fields of a machine, or the network; `columns` are its instances, or empty."""

    name: str
    columns: tuple[str, ...]
    fields: tuple[Field, ...]

    @property
    def moving(self) -> list[Field]:
        """The fields that the run changes."""
        return [field for field in self.fields if field.changes]

    @property
    def still(self) -> list[Field]:
        """The fields that don't change."""
        return [field for field in self.fields if not field.changes]


@dataclass(frozen=True)
class States:
    """`first` has the text of each cell in the first state. `changes` has the cells with a new text
    for each later state."""

    sections: tuple[Section, ...]
    first: tuple[str, ...]
    changes: tuple[tuple[tuple[int, str], ...], ...]


def laid_out(instance: Instance, states: tuple[FullState, ...]) -> States:
    """The states of a run, cell by cell."""
    texts = [[text for *_, text in _cells(instance, state)] for state in states]
    changes = tuple(
        tuple(
            (cell, now)
            for cell, (old, now) in enumerate(zip(before, after, strict=True))
            if old != now
        )
        for before, after in pairwise(texts)
    )
    changed = {cell for each in changes for cell, _ in each}
    found: dict[str, dict[str, dict[str, int]]] = {}
    for cell, (machine, column, field, _) in enumerate(_cells(instance, states[0])):
        found.setdefault(machine, {}).setdefault(field, {})[column] = cell
    sections = tuple(
        Section(
            name,
            tuple(dict.fromkeys(column for cells in fields.values() for column in cells)),
            tuple(
                Field(field, tuple(cells.values()), not changed.isdisjoint(cells.values()))
                for field, cells in fields.items()
            ),
        )
        for name, fields in found.items()
    )
    return States(sections, tuple(texts[0]), changes)


def _cells(instance: Instance, state: FullState) -> Iterator[tuple[str, str, str, str]]:
    """The machine, the column, the field's name and the text of each cell."""
    keys = {machine.name: machine.key for machine in instance.system.machines}
    for variable, value in zip(instance.variables, state, strict=True):
        machine, _, name = variable.name.partition(".")
        kind, key = variable.type, keys.get(machine)
        if key is not None and isinstance(kind, Map) and isinstance(value, tuple):
            for at, own in enumerate(value):
                for field, text in _parts(kind.of, name, own):
                    yield machine, f"{kind.key}{at}", field, text
        else:
            for field, text in _parts(kind, name, value):
                yield machine, "", field, text


def _parts(kind: Type, where: str, value: Value) -> Iterator[tuple[str, str]]:
    """The fixed parts of a value, each with its path and its text."""
    if isinstance(kind, Map) and isinstance(value, tuple):
        for at, each in enumerate(value):
            yield from _parts(kind.of, f"{where}[{kind.key}{at}]", each)
    elif isinstance(kind, Record) and isinstance(value, tuple):
        for (name, of), each in zip(kind.fields, value, strict=True):
            yield from _parts(of, f"{where}.{name}", each)
    elif isinstance(kind, (Bag, Sequence)) and isinstance(value, tuple) and value:
        yield where, "\n".join(show_value(kind.of, each) for each in value)
    else:
        yield where, show_value(kind, value)
