"""Kafka's conformance cases, and the harness that runs them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from epochfence.tests.conformance.harness import Adapter, RaisedError, Report, matches, run_case
from epochfence.tests.conformance.run import ADAPTERS, HERE, main

ALL_MET = (
    "client", "config", "coordinator", "coordinator_metadata", "log", "producer_id",
    "producer_state", "txn_log_bytes",
)  # fmt: skip


CASES = [
    pytest.param(file, case, id=f"{file}: {case['id']}")
    for file in ALL_MET
    for case in json.loads((HERE / f"{file}.json").read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("file", "case"), CASES)
def test_a_case_is_met(file: str, case: Mapping[str, Any]) -> None:
    report = Report(file)
    run_case(case, ADAPTERS[file], report)
    assert report.failed == []
    if report.skipped:  # what is about files that the model has no part in
        assert [item["reason"].partition(":")[0] for item in report.skipped] == ["snapshot"]
    else:
        assert report.passed == 1


def test_every_file_is_run() -> None:
    assert {path.stem for path in HERE.glob("*.json")} == {*ALL_MET}


# The harness ------------------------------------------------------------------------------------


class Counter(Adapter):
    """A model that counts."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.count = given["count"]

    def add(self, number: int) -> dict[str, Any]:
        if number < 0:
            raise RaisedError("ILLEGAL_ARGUMENT")
        if number == 13:
            return {"error": "UNLUCKY"}
        self.count += number
        return {"before": self.count - number}

    def observe_count(self, _: Any) -> int:
        return self.count


def result(*steps: Mapping[str, Any], **more: Any) -> Report:
    report = Report("counter.json")
    run_case({"id": "a", "given": {"count": 1}, "steps": steps, **more}, Counter, report)
    return report


def add(number: int, expect: Any = None, **also: Any) -> dict[str, Any]:
    return {"op": "add", "number": number, "expect": expect or {}, "also": also}


def test_expect_and_also_are_counted_apart() -> None:
    report = result(add(2, {"before": 1, "count": 3}), add(1, {"count": 4}, before=9))
    assert (report.expect_met, report.expect_total) == (3, 3)
    assert (report.also_met, report.also_total) == (0, 1)
    assert report.passed == 1
    assert [failure.field for failure in report.failed] == ["also before"]


def test_a_wrong_field_fails_the_case() -> None:
    report = result(add(2, {"count": 4}))
    assert (report.passed, report.expect_met, report.expect_total) == (0, 0, 1)
    (failure,) = report.failed
    assert (failure.step, failure.want, failure.got) == (0, 4, 3)


@pytest.mark.parametrize("number", [-1, 13])
def test_a_step_must_not_fail_unless_it_should(number: int) -> None:
    assert result(add(number)).passed == 0
    assert result(add(number)).expect_total == 1


def test_a_failure_that_is_wanted() -> None:
    assert result(add(-1, {"raises": "ILLEGAL_ARGUMENT", "count": 1})).passed == 1
    assert result(add(-1, {"raises": "ANY"})).passed == 1
    assert result(add(13, {"error": "UNLUCKY"})).passed == 1
    assert result(add(1, {"raises": "ANY"})).passed == 0
    assert result(add(1, {"error": "UNLUCKY"})).passed == 0


def test_an_operation_that_is_not_there_fails_what_follows_too() -> None:
    report = result({"op": "subtract", "expect": {}}, add(1, {"count": 2}))
    assert (report.passed, report.expect_met, report.expect_total) == (0, 0, 2)


def test_lists_match_element_by_element_and_objects_in_part() -> None:
    assert matches([{"a": 1}], [{"a": 1, "b": 2}])
    assert not matches([{"a": 1}], [])
    assert not matches({"a": None}, {})
    assert matches({"a": None}, {"a": None})
    assert not matches({}, {"a": 1}, exact=True)
    assert not matches(True, 1)


def test_the_command_counts_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = json.loads((HERE / "log.json").read_text())[:2]
    cases[1]["steps"][-1]["expect"] = {"log_end_offset": 77}
    (tmp_path / "log.json").write_text(json.dumps(cases))
    out = tmp_path / "out" / "result.json"
    out.parent.mkdir()
    assert main(["--cases", str(tmp_path), "--json", str(out)]) == 12
    (written,) = json.loads(out.read_text())
    assert (written["file"], written["cases"], written["passed"]) == ("log.json", 2, 1)
    assert written["failed"][0]["field"] == "log_end_offset"
    assert "log.json: 1 of 2 cases passed" in capsys.readouterr().out


def test_the_command_needs_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cases", str(tmp_path)]) == 2
    assert "no case files" in capsys.readouterr().err
