"""Functions that compiled rows call: operations on plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..values import Sparse


def last_of(values: Any) -> Any:
    return values[-1] if values else None


def at(values: Any, place: int) -> Any:
    return values[place] if 0 <= place < len(values) else None


def sliced(values: Any, start: int, stop: int | None) -> Any:
    return values[max(0, start) : None if stop is None else max(0, stop)]


def or_initial(value: Any, initial: Any) -> Any:
    return initial if value is None else value


def updated(whole: Any, key: Any, value: Any) -> Any:
    if isinstance(whole, Sparse):
        changed = whole.copy()
        changed[key] = value
        return changed
    return (*whole[:key], value, *whole[key + 1 :])


def without(bag: Any, value: Any) -> Any:
    if value not in bag:
        return bag
    place = bag.index(value)
    return (*bag[:place], *bag[place + 1 :])


def changed(whole: Any, changes: Mapping[int, Any]) -> Any:
    return tuple(changes.get(place, value) for place, value in enumerate(whole))


def placed(whole: Any, path: Sequence[Any], value: Any) -> Any:
    if not path:
        return value
    key = path[0]
    return updated(whole, key, placed(whole[key], path[1:], value))
