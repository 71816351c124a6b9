"""Requests whose thread is held on its way, and goes on later."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.model.cluster import Cluster
from epochfence.model.engine.errors import ModelError, NotNowError
from epochfence.model.engine.machine import noted
from epochfence.model.requests import answer

ID = {"transactional_id": "a"}


def own(epoch: int) -> dict[str, Any]:
    return {**ID, "producer_id": 0, "producer_epoch": epoch}


INIT = {"request": "InitProducerId", **ID}
ADD = {"request": "AddPartitionsToTxn", **own(0), "partitions": ["t-0"]}
ABORT = {"request": "EndTxn", **own(0), "result": "ABORT"}
COMMIT = ABORT | {"result": "COMMIT"}
BATCH = {"request": "Produce", **own(0), "partition": "t-0", "base_sequence": 0}
STATE = {"request": "DescribeTransactions", **ID}


class Run:
    """A cluster that takes lines one after another; markers are written after each."""

    def __init__(self, *lines: dict[str, Any], protocol: str = "4.3") -> None:
        self.cluster = Cluster(protocol=protocol, holds_markers=True)
        self.rows: set[tuple[str, str]] = set()
        for line in lines:
            self.ask(line)

    def ask(self, line: dict[str, Any]) -> dict[str, Any]:
        with noted() as taken:
            told = answer(self.cluster, line)
            self.cluster.deliver_markers()
        self.rows |= {(table.on.name, row.id) for table, row in taken}
        return told


def test_an_abort_overtakes_a_fence_that_is_held() -> None:
    run = Run(INIT, ADD)
    assert run.ask(INIT | {"held_at": "fence"}) == {"held": "fence"}
    assert run.ask(COMMIT)["error"] == "UNKNOWN_SERVER_ERROR"
    assert run.ask(ABORT)["producer_epoch"] == 1
    assert run.ask({"release": "fence"})["error"] == "CONCURRENT_TRANSACTIONS"
    assert {("EndTxn", "abort-overtakes-fence"), ("EndTxn", "commit-during-fence")} < run.rows
    assert ("continue the fence", "empty-abort") in run.rows
    assert run.ask(STATE)["producer_epoch"] == 2


def test_a_fence_that_comes_late_ends_the_next_transaction_before_version_2() -> None:
    run = Run(INIT, ADD, INIT | {"held_at": "fence"}, ABORT, ADD, protocol="3.9")
    assert run.ask({"release": "fence"})["error"] == "PRODUCER_FENCED"
    assert run.ask(STATE)["state"] == "PrepareAbort"


@pytest.mark.parametrize(
    ("line", "state"), [(ADD, "Ongoing"), (ABORT, "CompleteAbort"), (INIT, "Empty")]
)
def test_a_record_whose_append_is_held_is_in_the_log(line: dict[str, Any], state: str) -> None:
    run = Run(INIT)
    assert run.ask(line | {"held_at": "append"}) == {"held": "append"}
    assert run.ask(STATE)["state"] == "Empty"
    assert run.ask(INIT)["error"] == "CONCURRENT_TRANSACTIONS"
    run.ask({"restart": True})
    assert run.ask(STATE)["state"] == state
    assert not {row for event, row in run.rows if row == "no-new-record"}
    with pytest.raises(NotNowError, match="no thread is held at append"):
        run.ask({"release": "append"})


def test_a_marker_comes_between_a_look_at_a_transaction_and_the_append() -> None:
    run = Run(INIT, ADD, BATCH, protocol="3.6")
    late = BATCH | {"base_sequence": 1, "held_at": "unasked"}
    assert run.ask(late) == {"held": "unasked"}
    run.ask(COMMIT)
    assert run.ask({"release": "unasked"})["error"] == "INVALID_TXN_STATE"
    older = Run(INIT, ADD, BATCH, protocol="3.5")
    assert older.ask(late)["error"] == "NONE", "it never asks, and is never held"


def test_a_decision_and_a_completion_stay_in_progress() -> None:
    for place, told in (("decision", {"held": "decision"}), ("completion", None)):
        run = Run(INIT, ADD)
        first = run.ask(COMMIT | {"held_at": place})
        assert told is None or first == told
        assert (first.get("error"), first["held"]) == (None if told else "NONE", place)
        assert run.ask(STATE)["state"] == "PrepareCommit"
        assert run.ask(INIT)["error"] == "CONCURRENT_TRANSACTIONS"
        released = run.ask({"release": place})
        assert released == {} if told is None else released["error"] == "NONE"
        assert run.ask(STATE)["state"] == "CompleteCommit"


def test_a_batch_whose_question_is_held_meets_a_marker() -> None:
    run = Run(INIT, ADD | {"api_version": 3})
    assert run.ask(BATCH | {"api_version": 11, "held_at": "verification"})["held"]
    run.ask(COMMIT | {"api_version": 4})
    assert run.ask({"release": "verification"})["error"] == "INVALID_TXN_STATE"
    assert ("AddPartitionsByLeaderResponse", "guard-mismatch") in run.rows


def test_what_does_not_come_to_the_place_is_answered() -> None:
    run = Run(INIT)
    assert run.ask(INIT | {"held_at": "fence"})["producer_epoch"] == 1  # there is no transaction
    assert run.cluster.held() == ()
    assert run.ask(INIT)["producer_epoch"] == 2


def test_copies_are_held_by_themselves() -> None:
    run = Run(INIT, ADD, INIT | {"held_at": "fence"})
    other = run.cluster.copy()
    answer(other, {"release": "fence"})
    assert (other.held(), run.cluster.held()) == ((), ("fence",))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (COMMIT | {"held_at": "fence"}, "held_at is append or decision or completion: not 'fence'"),
        (STATE | {"held_at": "fence"}, "held_at is no place"),
        (INIT | {"held_at": "fence"}, "no thread is held"),
        ({"release": "fence", "at": 1}, "release has no field at"),
    ],
)
def test_wrong_places_are_refused(line: dict[str, Any], told: str) -> None:
    run = Run(INIT, ADD, INIT | {"held_at": "fence"})
    with pytest.raises(ModelError, match=told):
        run.ask(line)
