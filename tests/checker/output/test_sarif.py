"""Results as SARIF: what stands at which line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.output.sarif import to_sarif
from epochfence.language import instantiate
from epochfence.tests.cli.test_cli import DECLARED, ROOT, epochfence

LEASE = ROOT / "docs" / "examples" / "lease.py"


def run_of(system: str, root: Path = ROOT, options: Options | None = None, **settings: Any) -> Any:
    """The one run of a log."""
    instance = instantiate(load_system(system), **settings)
    log = json.loads(to_sarif(instance, check(instance, options), root))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run


def line_of(location: Any) -> str:
    """The line of the lease's file that a location names, with the one behind it."""
    physical = location["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "docs/examples/lease.py"}
    first = physical["region"]["startLine"] - 1
    return "".join(map(str.strip, LEASE.read_text().splitlines()[first : first + 2]))


def test_what_is_broken_stands_at_the_row_whose_step_breaks_it() -> None:
    run = run_of(str(LEASE), protocol="1")
    (found,) = run["results"]
    assert (found["ruleId"], found["level"]) == ("NoStaleWrite", "error")
    assert "written = 2, above after(written) = 1" in found["message"]["text"]
    (location,) = found["locations"]
    assert line_of(location).startswith('Row("write", set={written: Write.lease}')
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["NoStaleWrite"]


def test_the_run_that_leads_there_goes_from_line_to_line() -> None:
    (found,) = run_of(str(LEASE), protocol="1")["results"]
    ((flow,),) = (each["threadFlows"] for each in found["codeFlows"])
    steps = [each["location"] for each in flow["locations"]]
    assert len(steps) == 11
    for step in steps:
        row = step["logicalLocations"][0]["fullyQualifiedName"].partition("/")[2]
        assert f'Row("{row}"' in line_of(step)
        assert step["message"]["text"].endswith(f"[{row}]")


@pytest.mark.parametrize(
    ("system", "rule", "level"),
    [
        ("stuck", "deadlock", "error"),
        ("holds", "never-taken", "warning"),
        ("faulty", "every value stays in the range of its type", "error"),
    ],
)
def test_other_findings_have_a_rule_of_their_own(
    system: str, rule: str, level: str, tmp_path: Path
) -> None:
    file = tmp_path / "a file.py"
    file.write_text(DECLARED)
    run = run_of(f"{file}:{system}", tmp_path)
    (found,) = run["results"]
    assert (found["ruleId"], found["level"]) == (rule, level)
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == [rule]
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20file.py"}
    elsewhere = run_of(f"{file}:{system}")["results"][0]["locations"][0]["physicalLocation"]
    assert elsewhere["artifactLocation"]["uri"] == file.as_uri()


def test_the_name_of_a_file_may_be_any_bytes(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"a\xff.py")
    file.write_text(DECLARED)
    for root, uri in ((tmp_path, "a%FF.py"), (ROOT, file.as_uri())):
        place = run_of(f"{file}:stuck", root)["results"][0]["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {"uri": uri}


def test_a_run_without_an_end_is_no_success() -> None:
    run = run_of(str(LEASE), options=Options(memory=1))
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 20)
    assert "memory limit" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert run["results"] == []


def test_the_command_writes_it_beside_the_result(tmp_path: Path) -> None:
    log = tmp_path / "lease.sarif"
    ended = epochfence("check", LEASE, "--protocol", "1", "--sarif", log)
    assert ended.code == 12
    assert "NoStaleWrite doesn't hold" in ended.out
    assert json.loads(log.read_text())["runs"][0]["results"][0]["ruleId"] == "NoStaleWrite"
