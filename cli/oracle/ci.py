"""The result of `conform`, `judge` or `doctor` for CI: JUnit, SARIF, Markdown and a badge.

`python -m epochfence.cli.oracle.ci RESULT.json FOLDER` writes junit.xml, results.sarif, summary.md
and badge.json to the folder. The action of this repository calls it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as Xml

from ...checker.output.sarif import log_of
from ...files import write_whole
from ...junit import suite_text

COLOURS: Final = {True: "brightgreen", False: "red", None: "lightgrey"}


@dataclass(frozen=True)
class Case:
    """The test of a row, a key, a file or a transaction. `problem` is empty if the test found
    nothing, and None if it didn't run."""

    group: str
    name: str
    problem: str | None = ""
    file: str | None = None
    line: int = 1


@dataclass(frozen=True)
class Outcome:
    """A result: whether it is good (None: undecided), a sentence about it, and its tests."""

    good: bool | None
    sentence: str
    cases: list[Case]


def outcome(result: dict[str, Any]) -> Outcome:
    """The outcome of a result of `--json`. Raises ValueError if the result is of another
    command."""
    if "settled" in result:
        return _of_conform(result)
    if "problems" in result:
        return _of_doctor(result)
    if "finding" in result:
        return _of_judge(result)
    raise ValueError("not a result of conform, judge or doctor")


def _of_conform(result: dict[str, Any]) -> Outcome:
    cases = [
        Case(row["machine"], f"{row['event']}/{row['row']}", "" if row["provoked"] else None)
        for row in result["rows"]
    ]
    cases += [Case("disagreement", one["cause"], one["text"]) for one in result["disagreements"]]
    release = f"Kafka {result['protocol']}"
    reached = [row for row in result["rows"] if row["reachable"]]
    provoked = sum(row["provoked"] for row in reached)
    if result["disagreements"]:
        count = len(result["disagreements"])
        return Outcome(False, f"differs from {release} in {count} answers", cases)
    if result["verdict"] != "CONFORMS":
        return Outcome(None, f"{result['verdict']}, compared with {release}", cases)
    sentence = f"agrees with {release} in {provoked} of {len(reached)} rows"
    return Outcome(True, sentence, cases)


def _of_judge(result: dict[str, Any]) -> Outcome:
    cases = [
        Case(
            "history",
            name,
            _unexplained(key) if key["finding"] == "UNEXPLAINED" else "",
            key["file"],
            key["line"] or 1,
        )
        for name, key in result.get("keys", {}).items()
    ]
    cases += [
        Case(
            "history",
            f"{one['partition']}: {one['subject']}",
            one["name"],
            one["file"],
            one["line"],
        )
        for one in result.get("anomalies", ())
    ]
    cases += [Case("files", one["file"], one["what"]) for one in result.get("findings", ())]
    good = {"EXPLAINED": True, "UNEXPLAINED": False}.get(result["finding"])
    return Outcome(good, f"history {result['finding']}", cases)


def _unexplained(key: dict[str, Any]) -> str:
    allowed = " or ".join(json.dumps(one) for one in key["allowed"])
    return f"answer {json.dumps(key['response'])}; allowed: {allowed or 'none'}"


def _of_doctor(result: dict[str, Any]) -> Outcome:
    cases = [
        Case(
            one["cause"],
            f"{one['topic']}-{one['partition']} from {one['first_offset']}",
            one["what"] if one["verdict"] == "HANGS" else "",
        )
        for one in result["transactions"]
    ]
    cases += [Case(one["cause"], one["what"], one["says"]) for one in result["problems"]]
    good = {"HEALTHY": True, "HANGS": False}.get(result["verdict"])
    hanging = sum(one["verdict"] == "HANGS" for one in result["transactions"])
    return Outcome(good, f"{result['verdict']}, {hanging} transactions hang", cases)


def badge(found: Outcome) -> str:
    """An endpoint of shields.io."""
    content = {"schemaVersion": 1, "label": "epochfence", "message": found.sentence}
    return json.dumps({**content, "color": COLOURS[found.good]}, indent=2) + "\n"


def summary(found: Outcome) -> str:
    """Markdown: the sentence, then each problem. Text of a broker is shown as it is."""
    lines = [f"### Epochfence: {escape(found.sentence)}", ""]
    for case in _problems(found):
        lines += [f"<details><summary>{escape(case.group)}: {escape(case.name)}</summary>", ""]
        lines += [f"<pre>{escape(case.problem or '')}</pre></details>", ""]
    return "\n".join(lines)


def junit(found: Outcome) -> str:
    """A JUnit test case for each case. A case that didn't run is skipped."""
    suite = Xml.Element("testsuite", name="epochfence")
    for case in found.cases:
        test = Xml.SubElement(suite, "testcase", classname=case.group, name=case.name)
        if case.problem is None:
            Xml.SubElement(test, "skipped")
        elif case.problem:
            failure = Xml.SubElement(test, "failure", message=case.problem.partition("\n")[0])
            failure.text = case.problem
    if found.good is None:
        test = Xml.SubElement(suite, "testcase", classname="run", name="verdict")
        Xml.SubElement(test, "error", message=found.sentence)
    return suite_text(suite)


def sarif(found: Outcome, result: Path) -> str:
    """Each problem, at its line of a history, or in the result's file."""
    rules = sorted({case.group for case in _problems(found)})
    results = [
        {
            "ruleId": case.group,
            "level": "error",
            "message": {"text": f"{case.name}: {case.problem}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": case.file or result.name},
                        "region": {"startLine": case.line},
                    }
                }
            ],
        }
        for case in _problems(found)
    ]
    return log_of([{"id": rule} for rule in rules], results=results)


def _problems(found: Outcome) -> Iterator[Case]:
    return (case for case in found.cases if case.problem)


def main(result: str, folder: str) -> None:
    """Writes the files. Raises ValueError and OSError."""
    path, to = Path(result), Path(folder)
    found = outcome(json.loads(path.read_text(encoding="utf-8")))
    write_whole(to / "junit.xml", junit(found))
    write_whole(to / "results.sarif", sarif(found, path))
    write_whole(to / "summary.md", summary(found))
    write_whole(to / "badge.json", badge(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
