"""A machine's values as JSON: records become objects, sets become sorted lists; see `mapping` for
maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....spec.messages import Errors
from ...engine.values import Sparse


def plain(value: Any) -> Any:
    """A value of a field or a message as JSON data."""
    match value:
        case Sparse():
            return mapping(value)
        case Mapping():
            return named(cast("Mapping[str, Any]", value))
        case set() | frozenset():
            return sorted(map(plain, cast("frozenset[Any]", value)), key=str)
        case tuple() if hasattr(cast("Any", value), "_asdict"):
            return named(cast("Any", value)._asdict())
        case tuple() | list():
            return [plain(part) for part in cast("tuple[Any, ...]", value)]
        case _:
            return value


def mapping(value: Sparse) -> dict[str, Any]:
    """A map as JSON data: pairs of key and value, and the value of all other keys."""
    pairs = [[plain(key), plain(part)] for key, part in sorted(value.items(), key=repr)]
    return {"pairs": pairs, "others": plain(value.default)}


def read_mapping(value: Mapping[str, Any]) -> Sparse:
    """The map for a result of `mapping`, as a machine takes it."""
    return Sparse(value["others"], dict(value["pairs"]))


def named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by name as JSON data."""
    return {name: plain(value) for name, value in fields.items()}


_CODES = dict(Errors.members)


def message(sent: Any) -> dict[str, Any]:
    """A message as JSON data: its name, its fields and its error code."""
    found: dict[str, Any] = {"message": type(sent).__name__, **named(sent._asdict())}
    if "error" in found:
        found["error_code"] = _CODES[found["error"]]
    return found
