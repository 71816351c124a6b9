"""Runs conformance cases on the executable machines, and says what of them was met.

`cases/README.md` says what a case is. An `Adapter` turns the operations of one file's vocabulary
into calls of the model's public functions; nothing here or there looks at which case it runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar


class RaisedError(Exception):
    """A local call failed, under one of the names of `raises`."""

    def __init__(self, name: str, **results: Any) -> None:
        super().__init__(name)
        self.name = name
        self.results = results


class UnsupportedError(Exception):
    """The model has no part in this operation or field."""


class Adapter:
    """One case's run. A method called as the operation takes its arguments and answers results by
    name; `observe_...` answers a field that can be asked after any operation."""

    skipped_tags: Mapping[str, str] = {}
    """Tags of cases that the model has no part in, with the reason."""
    skipped_with_tag: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """By tag, operations that it has no part in."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    def perform(self, op: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Takes a step: what it results in, by name. Raises RaisedError where a local call
        fails."""
        return getattr(self, op)(**arguments) or {}

    def observe(self, name: str, wanted: Any) -> Any:
        """A field after the step; `wanted` says which keys are looked at."""
        found: Callable[[Any], Any] | None = getattr(self, f"observe_{name}", None)
        if found is None:
            raise UnsupportedError(f"nothing observes {name}")
        return found(wanted)

    @classmethod
    def knows(cls, op: str) -> bool:
        """Whether it has the operation."""
        return hasattr(cls, op) and op not in dir(Adapter)


def stateless(operations: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> type[Adapter]:
    """An adapter for operations that know nothing of one another, each on a step of its own."""

    class Stateless(Adapter):
        def perform(self, op: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            return operations[op]({"op": op, **arguments})

        @classmethod
        def knows(cls, op: str) -> bool:
            return op in operations

    return Stateless


@dataclass(frozen=True)
class Failure:
    """A field that was expected to be something else."""

    id: str
    step: int
    field: str
    want: Any
    got: Any


@dataclass
class Report:
    """What came of one file."""

    file: str
    passed: int = 0
    cases: int = 0
    expect_met: int = 0
    expect_total: int = 0
    also_met: int = 0
    also_total: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    failed: list[Failure] = field(default_factory=list[Failure])


EXACT = {"queued", "requests", "partition_errors", "entries"}
MISSING = "<nothing>"


def matches(want: Any, got: Any, *, exact: bool = False) -> bool:
    """Whether `got` is what is wanted: objects key by key, lists element by element."""
    if isinstance(want, dict):
        if not isinstance(got, Mapping) or (exact and set(want) != set(got)):
            return False
        return all(key in got and matches(value, got[key]) for key, value in want.items())
    if isinstance(want, list):
        return (
            isinstance(got, (list, tuple))
            and len(want) == len(got)
            and all(matches(a, b) for a, b in zip(want, got, strict=True))
        )
    if isinstance(want, bool) or isinstance(got, bool) or want is None:
        return want is got
    return want == got


def _asked(want: Mapping[str, Any]) -> bool:
    return "raises" in want or want.get("error", "NONE") != "NONE"


def _reason_to_skip(case: Mapping[str, Any], adapter: type[Adapter]) -> str | None:
    for tag in case.get("tags", ()):
        if tag in adapter.skipped_tags:
            return f"{tag}: {adapter.skipped_tags[tag]}"
        for step in case["steps"]:
            reason = adapter.skipped_with_tag.get(tag, {}).get(step["op"])
            if reason is not None:
                return f"{tag}: {reason}"
    return None


def run_case(case: Mapping[str, Any], adapter: type[Adapter], report: Report) -> None:
    """Runs one case and adds to the report."""
    report.cases += 1
    reason = _reason_to_skip(case, adapter)
    if reason is not None:
        report.skipped.append({"id": case["id"], "reason": reason})
        return
    failures: list[Failure] = []
    model: Adapter | None = None
    broken: str | None = None
    for at, step in enumerate(case["steps"]):
        want, also = dict(step.get("expect") or {}), dict(step.get("also") or {})
        got: dict[str, Any] = {}
        if broken is None:
            try:
                model = model or adapter(case["given"])
                arguments = {k: v for k, v in step.items() if k not in ("op", "expect", "also")}
                got = dict(model.perform(step["op"], arguments))
            except RaisedError as raised:
                got = {"raises": raised.name, **raised.results}
            except Exception as error:  # a fault of the model or of the adapter: it counts
                broken = f"{type(error).__name__}: {error}"
        failed = broken or got.get("raises") or got.get("error", "NONE")
        if failed != "NONE" and not _asked(want) and not _asked(also):
            failures.append(Failure(case["id"], at, "error", "no failure", failed))
            if not want:
                report.expect_total += 1
        elif not want:
            report.expect_met += 1
            report.expect_total += 1
        for part, fields in (("expect", want), ("also", also)):
            for name, value in fields.items():
                found = _found(model, got, name, value, broken)
                met = broken is None and _met(name, value, found)
                setattr(report, f"{part}_total", getattr(report, f"{part}_total") + 1)
                setattr(report, f"{part}_met", getattr(report, f"{part}_met") + int(met))
                if not met:
                    label = name if part == "expect" else f"also {name}"
                    failures.append(Failure(case["id"], at, label, value, found))
    report.passed += not any(not failure.field.startswith("also ") for failure in failures)
    report.failed += failures


def _found(
    model: Adapter | None, got: Mapping[str, Any], name: str, wanted: Any, broken: str | None
) -> Any:
    if broken is not None or model is None:
        return broken
    if name in got:
        return got[name]
    if name == "error" and "raises" not in got:
        return "NONE"
    if name == "raises":
        return None
    try:
        return model.observe(name, wanted)
    except UnsupportedError as error:
        return str(error)


def _met(name: str, want: Any, got: Any) -> bool:
    if name == "raises" and want == "ANY":
        return got is not None
    if name.endswith("_not"):
        return got is True
    return matches(want, got, exact=name in EXACT)


def run_file(path: Path, adapter: type[Adapter]) -> Report:
    """Runs every case of a file."""
    report = Report(path.name)
    for case in json.loads(path.read_text(encoding="utf-8")):
        run_case(case, adapter, report)
    return report


def as_json(reports: list[Report]) -> list[dict[str, Any]]:
    """The reports for machines."""
    return [asdict(report) for report in reports]
