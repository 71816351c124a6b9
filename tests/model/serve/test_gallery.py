"""docs/clients.md has what clients do in the schedules of known bugs."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.checker.trace.schedule.schedule import Call, Schedule
from epochfence.spec.bugs import BUGS
from epochfence.tests.model.serve.driven import CLIENTS, Outcome, outcome
from epochfence.tests.model.serve.gallery import (
    PAGE,
    cell,
    entry_of,
    head,
    rows,
    schedules,
    shown,
)

HERE = [client for client in CLIENTS if client != "Java"]  # which needs a broker's jars
STEADY = ("KIP-890c",)
"""Bugs whose faults wait for a client's request, so that its own threads have no part in it."""
CELLS = [
    (client, entry, release)
    for client in HERE
    for entry, release in rows()
    if entry["bug"] in STEADY
]


@pytest.mark.slow(5)
@pytest.mark.parametrize(
    ("client", "entry", "release"), CELLS, ids=[f"{c}-{e['bug']}-{r}" for c, e, r in CELLS]
)
def test_a_client_does_as_the_page_says(client: str, entry: dict[str, Any], release: str) -> None:
    assert cell(client, release, entry) == shown(client, entry, release)


def test_each_known_bug_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [entry["bug"] for entry in schedules()] == [bug.id for bug in BUGS]
    for entry, release in rows():
        assert head(entry, release) in text
    for entry in schedules():
        assert "why" not in entry or f"| {entry['bug']} | {entry['why']} |" in text


@pytest.mark.slow(10)
@pytest.mark.long
@pytest.mark.parametrize(
    "bug",
    [b for b in BUGS if b.declared.name in ("transactions", "idempotence")],
    ids=lambda bug: bug.id,
)
def test_a_schedule_is_the_bug_s_run(bug: Any) -> None:
    (kept,) = (entry for entry in schedules() if entry["bug"] == bug.id)
    found = entry_of(bug)
    assert found.keys() == kept.keys()
    if "calls" in kept:
        assert [call[1:4] for call in found["calls"]] == [call[1:4] for call in kept["calls"]]


def test_what_no_application_may_meet_is_named() -> None:
    sent = {"txn0": 2, "txn1": 1}
    fine = Outcome({"txn0": "C", "txn1": "A"}, sent, (), ("txn0/0", "txn0/1"), False, ())
    assert fine.wrong == []
    bad = fine._replace(read=("txn0/0", "txn0/0", "txn1/0"), hangs=True)
    assert bad.wrong == [
        "txn0 isn't read whole",
        "txn1 is read",
        "a record is there twice",
        "a transaction hangs",
    ]
    assert "**txn1 is read**" in bad.text()


def test_a_call_that_fails_is_told_and_the_run_goes_on() -> None:
    calls = (
        Call(1, "p", "initTransactions", ends=2),
        Call(3, "p", "commitTransaction", ends=4),
        Call(5, "p", "beginTransaction", "txn0"),
        Call(6, "p", "send", "partition0"),
        Call(7, "p", "commitTransaction", "txn0", ends=8),
    )
    found = outcome("aiokafka", "4.3", Schedule(calls, (), (), ()), 1)
    assert found.told["txn0"] == "C"
    assert found.read == ("txn0/0",)
    assert "" in found.told  # a commit of nothing was refused by the library
