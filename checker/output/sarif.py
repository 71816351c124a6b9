"""A result as SARIF 2.1.0: servers show the findings at their lines. Findings are broken
properties, at the row whose step breaks them, with the counterexample; a deadlock, at the rows that
can't be taken; and rows that no run takes, without a known reason. Source of the format: OASIS,
Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...language import Instance, Row, Table
from ..trace.trace import TraceStep
from ..verdict.constant_folding import declared_rows
from ..verdict.result import Covered, Verdict
from .report import named

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
DEADLOCK, VACUOUS = "deadlock", "never-taken"
NO_END = (Verdict.INCONCLUSIVE, Verdict.INTERRUPTED)


def to_sarif(instance: Instance, result: Covered, root: Path) -> str:
    """The result as the text of a log. Paths below `root` are relative to it."""
    findings = _Findings(instance, result, root.resolve())
    results = [*findings.broken(), *findings.vacuous()]
    used = {item["ruleId"] for item in results}
    rules = [rule for rule in findings.rules() if rule["id"] in used]
    whole = not result.exit_code or result.verdict not in NO_END
    invocation: dict[str, Any] = {"executionSuccessful": whole, "exitCode": result.exit_code}
    if result.verdict in NO_END:
        notice = {"level": "note" if whole else "error", "message": {"text": result.reason}}
        invocation["toolExecutionNotifications"] = [notice]
    return log_of(rules, invocations=[invocation], results=results)


def log_of(rules: list[dict[str, Any]], **of_run: list[dict[str, Any]]) -> str:
    """The text of a log of one run, from its rules and further parts."""
    driver = {"name": "Epochfence", "version": version("epochfence"), "rules": rules}
    run = {"tool": {"driver": driver}, **of_run}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


class _Findings:
    def __init__(self, instance: Instance, result: Covered, root: Path) -> None:
        self.instance = instance
        self.result = result
        self.root = root
        self.rows = declared_rows(instance)

    def rules(self) -> Iterator[dict[str, Any]]:
        """The rules: each property, and two rules for every system."""
        for item in (*self.instance.properties, *self.instance.progress):
            source = f" Source: {item.source}." if item.source else ""
            yield _rule(item.name, f"{item.sentence}{source}")
        yield _rule(DEADLOCK, "A run ends only in a state where it may end.")
        yield _rule(
            VACUOUS, "For each row there is a run that takes it, or a known reason why none does."
        )
        for item in self.result.properties:
            if item.name not in self._named:
                yield _rule(item.name, item.name)

    @property
    def _named(self) -> set[str]:
        return {item.name for item in (*self.instance.properties, *self.instance.progress)}

    def broken(self) -> Iterator[dict[str, Any]]:
        """The properties that counterexamples break."""
        result = self.result
        for item in result.counterexamples:
            name, trace = item.broken or DEADLOCK, item.trace
            text = "\n".join([trace.conclusion, *trace.why])
            of = named(result)
            found = _result(name, "error", f"{text}\n({of}, after {len(trace.steps)} steps)")
            if trace.steps or trace.refused:
                found["locations"] = [
                    self._refused(*row) for row in dict.fromkeys(trace.refused)
                ] or [self._location(trace.steps[-1])]
                flow = [
                    {"location": self._location(step, with_message=True)} for step in trace.steps
                ]
                found["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
            yield found

    def vacuous(self) -> Iterator[dict[str, Any]]:
        """Rows that no run takes, without a known reason."""
        for item in self.result.unexplained:
            for name in item.rows:
                table, _, row = name.partition("/")
                found = _result(VACUOUS, "warning", f"{name} is never taken: {item}.")
                found["locations"] = [self._at(self.rows.get((table, row)), name)]
                yield found

    def _location(self, step: TraceStep, *, with_message: bool = False) -> dict[str, Any]:
        row = self.rows.get((step.table, step.row))
        found = self._at(row, f"{step.table}/{step.row}")
        if with_message:
            found["message"] = {"text": f"{step.actor}: {step.action} [{step.row}]"}
        return found

    def _refused(self, table: str, row: str) -> dict[str, Any]:
        """The row that a deadlock waits for, or the table whose own condition refuses it."""
        if row:
            return self._at(self.rows.get((table, row)), f"{table}/{row}")
        declared = next(x for x in self.instance.system.tables if x.name == table)
        return self._at(declared, table)

    def _at(self, row: Row | Table | None, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": name}]}
        if row is not None and row.declared is not None:
            file = Path(row.declared.file).resolve()
            inside = file.is_relative_to(self.root)
            # bytes, because a file name may be invalid text
            address = quote(bytes(file.relative_to(self.root))) if inside else file.as_uri()
            found["physicalLocation"] = {
                "artifactLocation": {"uri": address},
                "region": {"startLine": row.declared.line},
            }
        return found


def _rule(name: str, text: str) -> dict[str, Any]:
    return {"id": name, "shortDescription": {"text": text}}


def _result(rule: str, level: str, text: str) -> dict[str, Any]:
    return {"ruleId": rule, "level": level, "message": {"text": text}}
