"""Converts Kafka's messages of any version to plain dictionaries and back. kio has a class for each
version.

Fields have kio's names. Errors are names, times and durations are ms (-1: none), and arrays are
lists. A field that a version lacks isn't sent. A missing field has its default. So a handler
answers all versions alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta, i64Timedelta

from ..records.codec.codec import Shape, shapes


def plain(value: Any) -> Any:
    """An entity or a part of it as a dictionary, a list or a plain value."""
    match value:
        case ErrorCode():
            return value.name.upper()
        case timedelta():
            return round(value / timedelta(milliseconds=1))
        case datetime():
            return round(value.timestamp() * 1000)
        case tuple():
            return [plain(item) for item in cast("tuple[Any, ...]", value)]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return {name: plain(getattr(value, name)) for name in names}
        case _:
            return value


def shaped(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """The entity of the class `kind` with these values. Unknown fields are left out.

    Raises KeyError for an error's name that kio doesn't know.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    found: dict[str, Any] = {}
    for name, shape in shapes(kind):
        if name in values:
            value = values[name]
            if shape.array:
                found[name] = None if value is None else tuple(_one(shape, v) for v in value)
            else:
                found[name] = _one(shape, value)
        elif defaults[name] is dataclasses.MISSING:
            found[name] = () if shape.array else _nothing(shape)
    return kind(**found)


def _one(shape: Shape, value: Any) -> Any:
    if shape.entity is not None:
        return None if value is None else shaped(shape.entity, value)
    match shape.wire:
        case "error_code":
            return ErrorCode[value.lower()]
        case "timedelta_i32":
            return i32Timedelta.parse(timedelta(milliseconds=value))
        case "timedelta_i64":
            return i64Timedelta.parse(timedelta(milliseconds=value))
        case "datetime_i64":
            # not with TZAware.parse, which accepts only whole seconds
            return None if value == -1 else _EPOCH + timedelta(milliseconds=value)
        case _:
            return value


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _nothing(shape: Shape) -> Any:
    if shape.nullable:
        return None
    match shape.wire:
        case "error_code":
            return ErrorCode.none
        case "string":
            return ""
        case "bool":
            return False
        case "bytes":
            return b""
        case "timedelta_i32" | "timedelta_i64" | "datetime_i64":
            return _one(shape, 0)
        case _:
            return 0
