"""Recorded histories as files: JSON lines, checked against the schema that lies beside this."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema

from ..spec.client_errors import ClientError
from .judge import Operation

Line = dict[str, Any]
_ERRORS = frozenset(ClientError.names)


class BadLine(ValueError):
    """A line that is no line of a history: which, and the reason, with what to do."""

    def __init__(self, path: Path | str, number: int, what: str, remedy: str) -> None:
        super().__init__(f"{path}, line {number}: {what}: {remedy}")
        self.reason = f"{what}: {remedy}"


@cache
def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of a kind of line (history or application)."""
    return json.loads(Path(__file__).with_name(f"{name}.schema.json").read_text(encoding="utf-8"))


class _Validators:
    """A schema as functions. To ask for the one kind that a line is of takes a third of the time
    of asking for any."""

    def __init__(self, schema: dict[str, Any]) -> None:
        kinds = schema["definitions"]
        (self.told_by,) = schema["properties"]  # what says of which kind a line is
        self.of_any = fastjsonschema.compile(schema)
        self.of_kind = {
            kind: fastjsonschema.compile({"$ref": f"#/definitions/{kind}", "definitions": kinds})
            for kind in kinds
        }

    def validate(self, line: Any) -> None:
        """Raises JsonSchemaValueException."""
        kind = line.get(self.told_by) if isinstance(line, dict) else None
        (self.of_kind.get(kind, self.of_any) if isinstance(kind, str) else self.of_any)(line)


@cache
def _validators(name: str) -> _Validators:
    return _Validators(schema_of(name))


def read_lines(path: Path, schema: str) -> Iterator[tuple[int, Line]]:
    """The lines of a file with their numbers, empty ones left out, each valid under this schema
    (history or application). Raises BadLine and OSError."""
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if text.strip():
                yield number, read_line(path, number, text, schema)


def read_line(path: Path | str, number: int, text: bytes, schema: str) -> Line:
    """A line of a file, valid under this schema. Raises BadLine."""
    try:
        line = json.loads(text)
    except ValueError as error:
        what = f"no JSON ({error})"
        raise BadLine(path, number, what, "write one object in each line") from None
    try:
        _validators(schema).validate(line)
    except fastjsonschema.JsonSchemaValueException as error:
        what = str(error.message).removeprefix("data").lstrip(". ")
        raise BadLine(path, number, what, f"see {schema}.schema.json") from None
    return line


def read_history(paths: Iterable[Path]) -> dict[str, list[Operation]]:
    """The operations of all files by key: the transactional id, or the partition, with its kind
    before it. Raises BadLine and OSError."""
    keys: dict[str, list[Operation]] = {}
    for path in paths:
        for number, line in read_lines(path, "history"):
            key, operation = operation_of(path, number, line)
            keys.setdefault(key, []).append(operation)
    return keys


def operation_of(path: Path | str, number: int, line: Line) -> tuple[str, Operation]:
    """A valid line of a history as its key and an operation. Raises BadLine where its answer is
    there by half, or before it was asked. What it takes from the line is gone there."""
    kind = "partition" if "partition" in line else "transactional_id"
    key = f"{kind} {line.pop(kind)}"
    request, client = line.pop("request"), line.pop("client", "")
    start, end, response = line.pop("start"), line.pop("end", None), line.pop("response", None)
    if (end is None) != (response is None):
        missing = "end" if end is None else "response"
        remedy = "give both, or neither where the answer was lost"
        raise BadLine(path, number, f"it lacks its {missing}", remedy)
    if end is not None and end < start:
        raise BadLine(path, number, f"it ends at {end}, before its start", "give times in ms")
    if response is not None and response["error"] not in _ERRORS:
        what = f"no error is called {response['error']}"
        raise BadLine(path, number, what, "give Kafka's name of it, such as NONE")
    return key, Operation(request, line, start, end, response, number, client, str(path))
