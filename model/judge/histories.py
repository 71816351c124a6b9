"""Recorded histories as files: JSON lines, checked against the schema in this folder."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import fastjsonschema

from ...spec.errors import Errors
from ...strict_json import NotJsonError, read_json
from .machines.decisions import OFFSETS, Decisions
from .machines.unjudged_answers import GROUP_REQUESTS
from .operations import Operation

Line = dict[str, Any]
UNKNOWN_SERVER_ERROR = -1  # Kafka's lowest code; lower ones are a client's own failures
_ERRORS = frozenset(name for name, code in Errors.members if code >= UNKNOWN_SERVER_ERROR)
TIMES = ("start", "end")
SECONDS = (10**9, 10**10)
"""The range of seconds since 1970 from 2001 to 2286. As ms it is 12 to 116 days; a clock with
fractions of ms seldom runs so long."""
MOST_TOLD = 300
"""The largest number of characters of a schema's error; it may contain the line."""


class BadLineError(ValueError):
    """A line isn't a line of a history. The message has its place, the reason and a remedy."""

    def __init__(self, path: Path | str, number: int, what: str, remedy: str) -> None:
        super().__init__(f"{path}, line {number}: {what}: {remedy}")
        self.reason = f"{what}: {remedy}"


@cache
def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of a kind of line (history or application)."""
    return json.loads(Path(__file__).with_name(f"{name}.schema.json").read_text(encoding="utf-8"))


class _Validators:
    """A schema, compiled to functions. Checking for a line's own kind takes a third of the time of
    checking for any kind."""

    def __init__(self, schema: dict[str, Any]) -> None:
        kinds = schema["definitions"]
        (self.kind_field,) = schema["properties"]  # the field with a line's kind
        self.of_any = fastjsonschema.compile(schema)
        self.of_kind = {
            kind: fastjsonschema.compile({"$ref": f"#/definitions/{kind}", "definitions": kinds})
            for kind in kinds
        }

    def validate(self, line: Any) -> None:
        """Raises JsonSchemaValueException."""
        kind = line.get(self.kind_field) if isinstance(line, dict) else None
        (self.of_kind.get(kind, self.of_any) if isinstance(kind, str) else self.of_any)(line)


@cache
def _validators(name: str) -> _Validators:
    return _Validators(schema_of(name))


def read_lines(path: Path, schema: str) -> Iterator[tuple[int, Line]]:
    """The valid lines of a file with their numbers, without empty lines. `schema` is history or
    application. Raises BadLineError and OSError."""
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if text.strip():
                yield number, read_line(path, number, text, schema)


def read_line(path: Path | str, number: int, text: bytes, schema: str) -> Line:
    """A line of a file, valid under this schema. Raises BadLineError."""
    try:
        line = read_json(text)
    except NotJsonError as error:
        raise BadLineError(path, number, str(error), "write one object in each line") from None
    try:
        _validators(schema).validate(line)
    except fastjsonschema.JsonSchemaValueException as error:
        what = str(error.message).removeprefix("data").lstrip(". ")[:MOST_TOLD]
        raise BadLineError(path, number, what, _remedy(line, schema)) from None
    except RecursionError:
        raise BadLineError(
            path, number, "it is nested too deep", f"see {schema}.schema.json"
        ) from None
    for name in TIMES:
        value = line.get(name)
        if isinstance(value, float) and value % 1 and SECONDS[0] <= value < SECONDS[1]:
            what = f"{name} is {value}, which looks like seconds since 1970"
            raise BadLineError(path, number, what, f"give ms: {value * 1000:.0f}")
    offsets = (("inputs", each) for those in line.get("inputs", {}).values() for each in those)
    for name, value in (*line.items(), *(line.get("response") or {}).items(), *offsets):
        if isinstance(value, float) and name not in TIMES:  # the schema accepts 1.0 as an integer
            what = f"{name} is {value}, and should be a whole number"
            raise BadLineError(path, number, what, f"write {int(value)}")
    return line


def _remedy(line: Any, schema: str) -> str:
    """The remedy for an invalid line. It may be a line of the other schema."""
    if isinstance(line, dict):
        if schema == "history" and "event" in line and "request" not in line:
            return "an application's history is judged with --application"
        if schema == "application" and "request" in line and "event" not in line:
            return "a history of requests is judged without --application"
    return f"see {schema}.schema.json"


def files_in(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """The history files of paths (of a folder: all `*.jsonl` in it and below, sorted), and the
    other files of the folders. Raises NoHistoryError for a folder without such files, and for a
    file that is given twice."""
    found: list[Path] = []
    others: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(file for file in path.rglob("*") if not file.is_dir())
        chosen = [file for file in inside if file.suffix == ".jsonl"]
        if not chosen:
            raise NoHistoryError(f"{path}: there is no *.jsonl file in it")
        found += chosen
        others += (file for file in inside if file.suffix != ".jsonl")
    known: dict[Path, Path] = {}
    for file in found:
        if known.setdefault(file.resolve(), file) is not file:
            raise NoHistoryError(f"{file} is given twice")
    return found, others


class NoHistoryError(ValueError):
    """There are no history files, or they can't be judged together. The message has a remedy."""


def read_history(paths: Iterable[Path], runs: str | None = None) -> dict[str, list[Operation]]:
    """The operations of all files by key. A key has its kind, its name (transactional id or
    partition) and the run, if lines name runs. Raises as `read_runs`."""
    found: dict[str, list[Operation]] = {}
    for run in read_runs(paths, runs):
        found |= run.keys
    return found


class Run(NamedTuple):
    """A run of the brokers: the operations by key, and the names of the keys by kind."""

    keys: dict[str, list[Operation]]
    names: dict[str, dict[str, str]]

    def decisions(self, protocol: str) -> Decisions:
        """The possible decisions of the run's transactional ids, at brokers of a release."""
        ids = self.names.get("transactional_id", {})
        return Decisions({name: self.keys[key] for key, name in ids.items()}, protocol)


def read_runs(paths: Iterable[Path], runs: str | None = None) -> list[Run]:
    """The runs of all files.

    Lines without a run belong to one run (`runs` is `one`), or to a run of their file (`each`).
    Raises BadLineError and OSError. Raises NoHistoryError if `runs` is None and two files have
    lines of the same key without a run.
    """
    found: dict[tuple[str | None, Path | None], Run] = {}
    file_of: dict[str, Path] = {}
    for path in paths:
        for number, line in read_lines(path, "history"):
            named = line.get("run")
            kind = kind_of(line)
            name = line[kind]
            key, operation = operation_of(path, number, line)
            if named is None:
                if runs == "each":
                    key += f" in {path}"
                elif runs is None and file_of.setdefault(key, path) != path:
                    raise NoHistoryError(
                        f"{key} is in {file_of[key]} and in {path}: give --runs one if they are of "
                        "one run of the brokers, --runs each if each file is of a run of its own"
                    )
            own = path if named is None and runs == "each" else None
            run = found.setdefault((named, own), Run({}, {}))
            run.keys.setdefault(key, []).append(operation)
            run.names.setdefault(kind, {})[key] = name
    return [*found.values()]


def kind_of(line: Line) -> str:
    """The field that has a line's key."""
    if line["request"] in GROUP_REQUESTS:
        return "group_id"
    return "partition" if "partition" in line else "transactional_id"


def operation_of(path: Path | str, number: int, line: Line) -> tuple[str, Operation]:
    """The key and the operation of a valid line. Raises BadLineError if only one of end and
    response is given, or if the end is before the start. Removes the fields that it reads from the
    line."""
    kind = kind_of(line)
    key = f"{kind} {line.pop(kind)}"
    if kind == "group_id":
        key += f", partition {line.pop('partition')}"
    elif line["request"] == "AddOffsetsToTxn":
        line["partitions"] = [f"{OFFSETS} of {line.pop('group_id')}"]
    run = line.pop("run", None)
    if run is not None:
        key += f" of run {run}"
    request, client = line.pop("request"), line.pop("client", "")
    start, end, response = line.pop("start"), line.pop("end", None), line.pop("response", None)
    if (end is None) != (response is None):
        missing = "end" if end is None else "response"
        remedy = "give both, or neither where the answer was lost"
        raise BadLineError(path, number, f"it lacks its {missing}", remedy)
    if end is not None and end < start:
        raise BadLineError(path, number, f"it ends at {end}, before its start", "give times in ms")
    if response is not None and response["error"] not in _ERRORS:
        what = f"no error is called {response['error']}"
        remedy = "give Kafka's name of it, such as NONE; if no answer came, leave out end too"
        raise BadLineError(path, number, what, remedy)
    return key, Operation(request, line, start, end, response, number, client, str(path))
