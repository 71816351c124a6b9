"""Traces as files in the Informal Trace Format (ITF), which other model checkers use as well.

A file has the system, release, constants and features of its states, and the row of each step.
Source of the format: Apalache's ADR 015.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...language import Bag, Bool, Enum, Int, Key, Map, Optional, Record, Sequence, Set
from ...language.terms.values import canonical
from ...language.types import Constants, Type, Value, choices, contains
from ...strict_json import NotJsonError, read_json
from ..tla.values import dumped, value_of
from .trace import Trace

SAFE = 2**53  # larger numbers in JSON may lose digits in other programs
LONGEST, MOST = 60, 1000  # most characters shown, most digits of a number, most elements of a bag
DESCRIPTION = "https://apalache-mc.org/docs/adr/015adr-trace.html"


class TraceError(Exception):
    """A trace can't be read, or isn't a run. The message is one line with the reason."""


@dataclass(frozen=True)
class Settings:
    """The system of a trace's states, by the name or file to load."""

    system: str
    protocol: str
    features: tuple[str, ...]
    constants: Mapping[str, int]


@dataclass(frozen=True)
class TraceFile:
    """The content of a trace file: its states as ITF data, by variable.

    `settings` are None if another program wrote the file. `broken` is the property that the writer
    found broken. `tlc`: the file is not ITF, but from TLC's -dumpTrace. `rows`: the row of the step
    to each state, if the file has it; else empty.
    """

    states: tuple[Mapping[str, Any], ...]
    loop: int | None = None
    settings: Settings | None = None
    broken: str = ""
    tlc: bool = False
    rows: tuple[str, ...] = ()


def as_itf(trace: Trace, variables: Mapping[str, Type], of: Settings, broken: str) -> str:
    """The text of a file with the trace. A last step that leaves a range has no state."""
    states: list[dict[str, Any]] = []
    for at, state in enumerate(trace.states):
        meta: dict[str, Any] = {"index": at}
        if at:
            step = trace.steps[at - 1]
            meta |= {"actor": step.actor, "action": step.action, "row": step.row}
        values = zip(variables.items(), state, strict=True)
        states.append({"#meta": meta} | {name: encoded(kind, v) for (name, kind), v in values})
    meta = {
        "format": "ITF",
        "format-description": DESCRIPTION,
        "description": trace.conclusion,
        "system": of.system,
        "protocol": of.protocol,
        "features": sorted(of.features),
        "constants": dict(of.constants),
        "broken": broken,
    }
    whole: dict[str, Any] = {"#meta": meta, "params": [], "vars": list(variables)}
    whole |= {} if trace.loop is None else {"loop": trace.loop}
    lines = ",\n".join(map(json.dumps, states))  # a line for each state, for comparisons
    return f'{json.dumps(whole)[:-1]}, "states": [\n{lines}\n]}}\n'


def encoded(kind: Type, value: Value) -> Any:
    """A value in ITF's form. None and the value of an optional are variants, as in Quint. A bag is
    a map from each element to its count."""
    match kind:
        case Optional():
            if value is None:
                return {"tag": "None", "value": {"#tup": []}}
            return {"tag": "Some", "value": encoded(kind.of, value)}
        case Key():
            return f"{kind}{value}"
        case Set():
            assert isinstance(value, frozenset)
            return {"#set": sorted((encoded(kind.of, each) for each in value), key=json.dumps)}
        case Bag():
            assert isinstance(value, tuple)
            counted = Counter(value).items()
            return {"#map": [[encoded(kind.of, each), count] for each, count in counted]}
        case Sequence():
            assert isinstance(value, tuple)
            return [encoded(kind.of, each) for each in value]
        case Record():
            assert isinstance(value, tuple)
            fields = zip(kind.fields, value, strict=True)
            return {name: encoded(of, each) for (name, of), each in fields}
        case Map():
            assert isinstance(value, tuple)
            return {
                "#map": [[f"{kind.key}{at}", encoded(kind.of, v)] for at, v in enumerate(value)]
            }
        case Int() if isinstance(value, int) and abs(value) >= SAFE:
            return {"#bigint": str(value)}
        case _:
            return value


def read_trace(text: bytes) -> TraceFile:
    """The trace in a file's text. Raises TraceError."""
    try:
        found = read_json(text)
    except NotJsonError as error:
        raise TraceError(str(error)) from None
    whole = _object(found, "the trace")
    if (of_tlc := dumped(whole)) is not None and of_tlc[0]:
        return TraceFile(tuple(of_tlc[0]), of_tlc[1], tlc=True)
    states = whole.get("states")
    if not isinstance(states, list) or not states:
        raise TraceError("not an ITF trace: it has no `states`; `check --trace FILE` writes one")
    listed: list[Any] = states  # pyright: ignore[reportUnknownVariableType]
    loop = whole.get("loop")
    if loop is not None and not (type(loop) is int and 0 <= loop < len(listed)):
        raise TraceError(f"its loop, {loop!a:.40}, isn't the index of a state")
    kept = [_object(state, f"state {at}") for at, state in enumerate(listed)]
    meta = _object(whole.get("#meta", {}), "its #meta")
    return TraceFile(
        tuple({name: v for name, v in each.items() if not _is_about(name)} for each in kept),
        loop,
        _settings(meta),
        str(meta.get("broken", "")),
        rows=tuple(_row(each) for each in kept),
    )


def _row(state: Mapping[str, Any]) -> str:
    meta = state.get("#meta")
    row: Any = meta.get("row", "") if isinstance(meta, dict) else ""  # pyright: ignore
    return row if isinstance(row, str) else ""


def _is_about(name: str) -> bool:
    """Whether a name in a state is metadata and not a variable, such as the taken action in files
    of `quint run --mbt`.
    """
    return name == "#meta" or name.startswith("mbt::")


def _settings(meta: Mapping[str, Any]) -> Settings | None:
    if "system" not in meta:
        return None
    system, protocol = meta["system"], meta.get("protocol")
    features, constants = meta.get("features"), _object(meta.get("constants"), "constants")
    if not (isinstance(system, str) and isinstance(protocol, str) and isinstance(features, list)):
        raise TraceError("its #meta must name a system, a protocol and a list of features")
    names: list[Any] = features  # pyright: ignore[reportUnknownVariableType]
    numbers = {name: value for name, value in constants.items() if type(value) is int}
    if len(numbers) < len(constants) or not all(isinstance(name, str) for name in names):
        raise TraceError("in its #meta a constant isn't a number, or a feature has no name")
    return Settings(system, protocol, tuple(names), numbers)


def decoded(kind: Type, data: Any, constants: Constants, where: str, *, tlc: bool = False) -> Value:
    """The value of ITF data. Programs differ: a list may be a set or a bag, null or an empty list
    may be none, a variant may be a name, an object may be a map, a number may be an instance, and
    any number may be a #bigint. In TLC's dump, the keys of an object are TLA+. Raises TraceError.
    """
    value = _Decoding(constants, where, tlc=tlc).run(kind, data)
    if not contains(kind, value, constants):
        raise TraceError(f"{where}: {shown(data)} is not of type {kind}")
    return value


class _Decoding:
    def __init__(self, constants: Constants, where: str, *, tlc: bool) -> None:
        self.constants = constants
        self.where = where
        self.tlc = tlc

    def run(self, kind: Type, data: Any) -> Value:  # noqa: C901 (a case for each type)
        data = self.number(data)
        match kind, data:
            case Optional(), None | {"tag": "None"}:
                return None
            case Optional(), {"tag": "Some", "value": held}:
                return self.run(kind.of, held)
            case Optional(), {"#tup": [*held]} | [*held] if not _is_listed(kind.of):
                if len(held) < 2:
                    return self.run(kind.of, held[0]) if held else None
            case Optional(), _:
                return self.run(kind.of, data)
            case Set(), {"#set": [*each]} | [*each]:
                return frozenset(self.run(kind.of, one) for one in each)
            case Sequence(), {"#tup": [*each]} | [*each]:
                return tuple(self.run(kind.of, one) for one in each)
            case Bag(), dict() if self.tlc or "#map" in data:
                pairs = self.pairs(data)  # pyright: ignore
                counted = [(self.run(kind.of, one), self.times(n)) for one, n in pairs]
                many = tuple(one for one, often in counted for _ in range(often))
                return canonical(kind.of, many, self.constants)
            case Bag(), {"#set": [*each]} | {"#tup": [*each]} | [*each] if not (self.tlc and each):
                # TLC writes a list for a function on 1 to n
                many = tuple(self.run(kind.of, one) for one in each)
                return canonical(kind.of, many, self.constants)
            case Map(), dict():
                found = {self.run(kind.key, key): part for key, part in self.pairs(data)}  # pyright: ignore
                every = choices(kind.key, self.constants)
                if found.keys() == {*every}:
                    return tuple(self.run(kind.of, found[key]) for key in every)
            case Record(), dict() if data.keys() == {name for name, _ in kind.fields}:
                return tuple(self.run(of, data[name]) for name, of in kind.fields)
            case Enum(), {"tag": str(name), "value": {"#tup": []} | "U_OF_UNIT" | "u_OF_UNIT"}:
                return name
            case Int() | Bool() | Enum(), int() | str():
                return data
            case Key(), int() | str():
                number = str(data).partition("_OF_")[0].removeprefix(str(kind))
                if _is_number(number) and len(number) < LONGEST:
                    return int(number)
            case _:
                pass
        raise TraceError(f"{self.where}: {shown(data)} is not of type {kind}")

    def number(self, data: Any) -> Any:
        """The number of a #bigint; anything else unchanged."""
        match data:
            case {"#bigint": str(digits)} if len(digits) < LONGEST and _is_number(digits):
                return int(digits)
            case _:
                return data

    def times(self, data: Any) -> int:
        """The count of an element in a bag."""
        often = self.number(data)
        if type(often) is int and 0 <= often <= MOST:
            return often
        raise TraceError(f"{self.where}: {shown(data)} is not the count of an element")

    def pairs(self, data: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        """The entries of a map, by key."""
        listed: Any = data.get("#map", [[self.key(key), part] for key, part in data.items()])
        if isinstance(listed, list):
            pairs: list[Any] = listed  # pyright: ignore[reportUnknownVariableType]
            if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):  # pyright: ignore
                return [(key, part) for key, part in pairs]
        raise TraceError(f"{self.where}: {shown(data)} is not a map")

    def key(self, text: str) -> Any:
        """An object's key."""
        try:
            return value_of(text) if self.tlc else text
        except (ValueError, RecursionError):
            raise TraceError(f"{self.where}: {shown(text)} is not a TLA+ value") from None


def _is_listed(kind: Type) -> bool:
    """Whether a value of the type may be a list."""
    return isinstance(kind, (Set, Sequence, Bag, Optional))


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def shown(data: Any) -> str:
    """Data of a file for a message: shortened JSON."""
    text = json.dumps(data)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def _object(data: Any, what: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise TraceError(f"{what} is not an object")
    return data  # pyright: ignore[reportUnknownVariableType]
