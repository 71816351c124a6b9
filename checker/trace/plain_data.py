"""Values of the language as plain data, for JSON and data frames."""

from __future__ import annotations

from typing import Any

from ...language import Bag, Instance, Key, Map, Optional, Record, Sequence, Set
from ...language.types import Type, Value


def as_data(kind: Type, value: Value) -> Any:
    """The value as data: numbers, truths and none unchanged; an enum's member and a key's instance
    (`client0`) as its name; a set, sequence or bag as a list; a record as a mapping by field; a map
    as a mapping by instance.
    """
    match kind:
        case Optional():
            return None if value is None else as_data(kind.of, value)
        case Key():
            return f"{kind}{value}"
        case Set():
            assert isinstance(value, frozenset)
            return [as_data(kind.of, each) for each in sorted(value, key=_order(kind.of))]
        case Sequence() | Bag():
            assert isinstance(value, tuple)
            return [as_data(kind.of, each) for each in value]
        case Record():
            assert isinstance(value, tuple)
            fields = zip(kind.fields, value, strict=True)
            return {name: as_data(of, each) for (name, of), each in fields}
        case Map():
            assert isinstance(value, tuple)
            return {f"{kind.key}{at}": as_data(kind.of, each) for at, each in enumerate(value)}
        case _:
            return value


def _order(kind: Type) -> Any:
    names = getattr(kind, "names", None)
    return names.index if names is not None else (lambda value: value)  # pyright: ignore


def state_as_data(instance: Instance, state: tuple[Value, ...]) -> dict[str, Any]:
    """A state by field, channel and budget."""
    pairs = zip(instance.variables, state, strict=True)
    return {variable.name: as_data(variable.type, value) for variable, value in pairs}
