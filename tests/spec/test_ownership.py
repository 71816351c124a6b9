"""Which broker coordinates an id, through elections and loads: what holds, and what protects it."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import System, instantiate
from epochfence.model import TransactionCoordinator
from epochfence.model.engine.errors import NotNowError
from epochfence.spec.coordinator.state_manager import ownership
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alterations import altered
from epochfence.tests.spec.differing import differing

SYSTEM = shipped("coordinators")
_LOADED = ownership.known[ownership.end_load.state_partition]


def broken(system: System, release: str = "4.3") -> set[str]:
    """The properties that don't hold."""
    found: set[str] = set()
    left = {item.name for item in system.properties}
    while left:
        result = check(instantiate(system, release, properties=left))
        if result.verdict is Verdict.HOLDS:
            break
        assert result.verdict is Verdict.BROKEN, result.reason
        now = {item.name for item in result.properties if item.verdict == "broken"}
        found |= now
        left -= now
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("release", differing(SYSTEM))
def test_a_load_outlives_a_resignation_before_4_0(release: str) -> None:
    """KAFKA-18137"""
    mended = release.startswith("4.")
    assert broken(SYSTEM, release) == (set() if mended else {"AnswersOnlyAsHeard"})


_CHANGES: list[tuple[str, str, dict[str, Any], set[str]]] = [
    # who is loading answers: a second entry
    ("coordinator.look up", "loading", {"when": False}, {"OneEntry"}),
    # a load forgets what it has read
    ("coordinator.load ends", "loaded", {"updates": {_LOADED: None}},
     {"LeaderKnowsTheLog", "OneEntry"}),
    # each load counts, though its broker has resigned
    ("coordinator.load ends", "loaded", {"when": True}, {"AnswersOnlyAsHeard"}),
    # the log takes what a former leader appends
    ("coordinator.entry appended", "appended", {"when": True},
     {"LeaderKnowsTheLog", "OneEntry"}),
    # an election that brings no new epoch: both lead under the old one
    ("cluster.elect", "next-epoch", {"updates": {ownership.leaders: ownership.leaders}},
     {"OneCoordinatorForAnEpoch"}),
]  # fmt: skip
CHANGES = [
    pytest.param(
        altered(SYSTEM, table=table, row=row, **change), expected, id=f"{table}/{row}-{number}"
    )
    for number, (table, row, change, expected) in enumerate(_CHANGES)
]


@pytest.mark.slow(6)
@pytest.mark.long
@pytest.mark.parametrize(("changed", "expected"), CHANGES)
def test_what_protects_the_properties(changed: System, expected: set[str]) -> None:
    assert broken(changed) == expected


def test_a_load_ends_after_its_broker_has_resigned() -> None:
    """TransactionStateManager.loadTransactionsForTxnTopicPartition"""
    for release, answer in (("4.3", "NOT_COORDINATOR"), ("3.9", "INVALID_PRODUCER_ID_MAPPING")):
        model = TransactionCoordinator(protocol=release, state_partition_of=lambda _: 0)
        model.elect(0, 3, is_loading=True)
        model.resign(0, 4)
        assert model.end_load(0, 3, []) == []
        assert model.lookup("OTHER", "id").error == answer
        with pytest.raises(NotNowError):
            model.end_load(0, 3, [])


def test_a_load_of_an_epoch_before_is_not_awaited() -> None:
    model = TransactionCoordinator(state_partition_of=lambda _: 0)
    model.elect(0, 3, is_loading=True)
    model.elect(0, 5, is_loading=True)
    model.end_load(0, 3, [])
    assert model.is_loading()
    model.end_load(0, 5, [])
    assert (model.is_loading(), model.owner_epoch("id")) == (False, 5)
