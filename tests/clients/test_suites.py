"""The runner of the clients' own tests, and its results in docs/clients.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochfence.tests.clients import suites
from epochfence.tests.clients.run import PAGE, Fault
from epochfence.tests.clients.suites import FAULTS, SUITES, Outcome
from epochfence.tests.driver import recorded

FRANZ_GO, SARAMA = SUITES


def test_the_page_has_a_reason_for_each_failure() -> None:
    mod = (suites.HERE / "go.mod").read_text(encoding="utf-8")
    failed: set[tuple[str, str]] = set()
    for suite in SUITES:
        text = recorded(PAGE, suites.block(suite))
        assert f"{suite.name} {suite.version}: " in text
        assert f" v{suite.version}" in mod
        for line in text.splitlines():
            if line.startswith("| Test"):
                _, test, on_kafka, reason, _ = (cell.strip() for cell in line.split("|"))
                failed.add((suite.name, test))
                assert reason == f"{(fault := FAULTS[suite.name, test]).party}: {fault.why}"
                assert (on_kafka == "pass") == (fault.party == "the served cluster")
    assert failed == FAULTS.keys()


def test_the_tests_that_need_brokers(tmp_path: Path) -> None:
    (tmp_path / "a_test.go").write_text(
        "func TestOne(t *testing.T) {\n\tnewTestClient()\n}\n\n"
        "func TestTwo(t *testing.T) {\n\tif x {\n\t}\n}\n\n"
        "func helper() {\n\tnewTestClient()\n}\n"
    )
    assert suites.tests_of(FRANZ_GO, tmp_path) == ["TestOne"]


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("exit 0", "pass"),
        ("exit 3", "fails"),
        ("echo '--- SKIP: TestOne (0.00s)'", "skip"),
        ("echo '--- SKIP: TestOneOther (0.00s)'", "pass"),
        ('test "$SEEDS" = x', "pass"),
    ],
)
def test_the_outcome_of_a_test(tmp_path: Path, script: str, wanted: str) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    found, _ = suites.outcome(program, tmp_path, "TestOne", {"SEEDS": "x"})
    assert found == wanted


def test_lines_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = {("franz-go", "TestThree"): Fault("franz-go", "it waits for ever")}
    monkeypatch.setattr(suites, "FAULTS", fault)
    found = {
        "TestOne": Outcome("pass"),
        "TestTwo": Outcome("skip"),
        "TestThree": Outcome("fails", "fails"),
    }
    told = "\n".join(suites.results(FRANZ_GO, found))
    assert "1 of 3 pass: TestOne." in told
    assert "1 of 3 skip themselves: TestTwo." in told
    assert "| TestThree | fails | franz-go: it waits for ever |" in told
