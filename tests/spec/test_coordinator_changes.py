"""All that a coordinator changes at the end of a transition and when it fails over, field by field.

Every field that may be cleared has something in it before, whether a run could have brought that
about or not. What `pending_id` is while nothing is pending, nobody reads.
"""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.language import Event, Message
from epochfence.spec import messages as kafka
from epochfence.spec.coordinator import entry as transaction
from epochfence.spec.coordinator import log as transaction_log
from epochfence.spec.features import NEWEST
from epochfence.tests.spec.coordinators import Coordinator

Fields = dict[str, Any]
NONE = frozenset[int]()
ZERO, ONE, BOTH = frozenset({0}), frozenset({1}), frozenset({0, 1})
NOT_AVAILABLE, MOVED = "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"

BEFORE: Fields = {
    "producer_id": 1, "producer_epoch": 5, "last_producer_epoch": 4, "previous_id": 0, "next_id": 2,
    "offered_id": 3, "partitions": ZERO, "pending_id": 2, "pending_epoch": 7,
    "pending_last_epoch": 6, "pending_partitions": ONE, "failed_fence": True,
    "asked_by": (0, None), "fenced_for": (None, 0), "adding_for": (ONE, NONE),
    "logged_epoch": 3, "logged_partitions": ONE, "marker_sent": ONE, "marker_connection": (1, 0),
    "unsettled": ("PREPARE_COMMIT", 0, 3, 2, None, NONE), "fence_end": None,
}  # fmt: skip
NOTHING_PENDING: Fields = {
    "pending": None, "pending_epoch": -1, "pending_last_epoch": -1, "pending_partitions": NONE,
}  # fmt: skip
NOBODY_ASKS: Fields = {"asked_by": (None, None), "adding_for": (NONE, NONE)}
MEMORY_LOST: Fields = {
    **NOTHING_PENDING, **NOBODY_ASKS, "fenced_for": (None, None), "unsettled": None,
    "failed_fence": False, "last_producer_epoch": -1, "marker_sent": NONE,
    "marker_connection": (2, 1), "coordinator_epoch": 1,
}  # fmt: skip
FORGOTTEN: Fields = {
    "state": "EMPTY", "producer_id": 3, "offered_id": None, "producer_epoch": -1,
    "last_producer_epoch": -1, "logged_epoch": -1, "previous_id": None, "next_id": None,
    "failed_fence": False,
}  # fmt: skip


def coordinator(
    state: str, pending: str | None = None, *, release: str = NEWEST, **given: Any
) -> Coordinator:
    """One in this state with something in every other field."""
    return Coordinator(release, **{**BEFORE, "state": state, "pending": pending, **given})


def changes(one: Coordinator, event: Event, **parameters: Any) -> Fields:
    """What an event changes, by field."""
    before = dict(one.state)
    assert one.does(event, **parameters)
    parts = (name.partition(".") for name in before)
    owners = ("transaction", "producer_id_manager")
    fields = (("".join(part), part[2] if part[0] in owners else "".join(part)) for part in parts)
    return {
        short: one.state[name]
        for name, short in fields
        if short not in (name, "pending_id") and one.state[name] != before[name]
    }


def told(one: Coordinator) -> dict[str, str]:
    """The answers that are under way, by what they answer: client 0 has asked, 1 has fenced."""
    every = {
        "init": (kafka.InitProducerIdResponse, 0),
        "fence": (kafka.InitProducerIdResponse, 1),
        "end": (kafka.EndTxnResponse, 0),
        "add": (kafka.AddPartitionsByLeaderResponse, 1, 0),
    }
    state, answers = one.state, dict[str, str]()
    for name, (message, *address) in every.items():
        one.state = dict(state)
        answers[name] = one.told(message, *address)
    one.state = state
    return {name: answer for name, answer in answers.items() if answer}


INITIALIZED: Fields = {
    "state": "EMPTY", "producer_id": 2, "producer_epoch": 7, "last_producer_epoch": 6,
    "previous_id": 1, "logged_epoch": 7, "logged_partitions": NONE,
}  # fmt: skip
ADDED: Fields = {"state": "ONGOING", "partitions": ONE, "logged_epoch": 5, "previous_id": 1}


def decided(result: str) -> Fields:
    """With a record PREPARE_COMMIT or PREPARE_ABORT."""
    return {
        "state": f"PREPARE_{result}", "producer_epoch": 7, "last_producer_epoch": 6,
        "previous_id": 1, "logged_epoch": 7, "logged_partitions": ZERO, "failed_fence": False,
    }  # fmt: skip


def completed(result: str) -> Fields:
    """With a record COMPLETE_COMMIT or COMPLETE_ABORT, which takes the next producer id."""
    return {
        "state": f"COMPLETE_{result}", "producer_id": 2, "producer_epoch": 0, "previous_id": 1,
        "next_id": None, "logged_epoch": 0, "logged_partitions": NONE, "failed_fence": False,
    }  # fmt: skip


RECORDS: list[tuple[str, str, Fields, str]] = [  # the state, what is pending, changes, who asked
    ("COMPLETE_ABORT", "EMPTY", INITIALIZED, "init"),
    ("COMPLETE_ABORT", "ONGOING", ADDED, "add"),
    ("ONGOING", "PREPARE_COMMIT", decided("COMMIT"), "end"),
    ("ONGOING", "PREPARE_ABORT", decided("ABORT"), "end"),
    ("PREPARE_COMMIT", "COMPLETE_COMMIT", completed("COMMIT"), ""),
    ("PREPARE_ABORT", "COMPLETE_ABORT", completed("ABORT"), ""),
    ("COMPLETE_ABORT", "DEAD", FORGOTTEN, ""),
]
records = pytest.mark.parametrize(("state", "pending", "fields", "asked"), RECORDS)


def pending_in(state: str, pending: str) -> Coordinator:
    """One with a pending record; the markers of a completion are answered."""
    given: Fields = {"partitions": NONE} if pending.startswith("COMPLETE") else {}
    return coordinator(state, pending, **given)


@records
def test_a_record_is_appended(state: str, pending: str, fields: Fields, asked: str) -> None:
    """An end is answered when the completion begins; whoever fences waits until then."""
    one = pending_in(state, pending)
    answered = pending in ("EMPTY", "ONGOING")
    rest = NOTHING_PENDING | (NOBODY_ASKS if answered else {}) | {"unsettled": None}
    assert changes(one, transaction_log.log_append) == fields | rest
    outcome = {"init": "NONE 2/7", "add": "NONE"}
    assert told(one) == ({asked: outcome[asked]} if answered else {})


@records
def test_a_coordinator_fails_over_with_the_record(
    state: str, pending: str, fields: Fields, asked: str
) -> None:
    one = pending_in(state, pending)
    found = changes(one, transaction_log.failover, record_kept=True)
    assert found == fields | MEMORY_LOST
    assert told(one) == {"fence": MOVED} | ({asked: MOVED} if asked else {})


@records
def test_a_coordinator_fails_over_without_the_record(
    state: str, pending: str, fields: Fields, asked: str
) -> None:
    one = pending_in(state, pending)
    found = changes(one, transaction_log.failover, record_kept=False)
    in_log: Fields = {"producer_epoch": 3, "partitions": ONE}
    following: Fields = {} if state.startswith("PREPARE") else {"next_id": None}
    assert found == in_log | MEMORY_LOST | following
    assert told(one) == {"fence": MOVED} | ({asked: MOVED} if asked else {})


@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_a_coordinator_fails_over_while_a_transaction_ends(result: str) -> None:
    """Before the completion has begun, and so before the end is answered."""
    one = coordinator(f"PREPARE_{result}")
    changes(one, transaction_log.failover, record_kept=False)
    assert told(one) == {"fence": MOVED, "end": MOVED}


@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_a_completion_begins(result: str) -> None:
    one = coordinator(f"PREPARE_{result}")
    assert changes(one, transaction_log.begin_completion) == {
        "pending": f"COMPLETE_{result}", "asked_by": (None, None), "fenced_for": (None, None),
    }  # fmt: skip
    assert told(one) == {"fence": "CONCURRENT_TRANSACTIONS", "end": "NONE 2/0"}


NOT_APPENDED: list[tuple[str, str, tuple[Any, ...], str]] = [  # what the record says, if it is kept
    ("COMPLETE_ABORT", "EMPTY", ("EMPTY", 2, 7, 6, 2, NONE), "init"),
    ("COMPLETE_ABORT", "ONGOING", ("ONGOING", 1, 5, 4, 2, ONE), "add"),
    ("ONGOING", "PREPARE_COMMIT", ("PREPARE_COMMIT", 1, 7, 6, 2, ZERO), "end"),
    ("ONGOING", "PREPARE_ABORT", ("PREPARE_ABORT", 1, 7, 6, 2, ZERO), "end"),
    ("COMPLETE_ABORT", "DEAD", ("DEAD", 1, 7, 6, 2, ZERO), ""),
]


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(("state", "pending", "record", "asked"), NOT_APPENDED)
def test_a_record_is_not_appended(
    state: str, pending: str, record: tuple[Any, ...], asked: str, kept: bool
) -> None:
    """What a fence took before stays taken: `failed_fence`, and the epoch."""
    one = coordinator(state, pending)
    assert changes(one, transaction_log.append_failure, record_kept=kept) == {
        **NOTHING_PENDING, **NOBODY_ASKS, "fenced_for": (None, None), "next_id": None,
        **({"unsettled": record} if kept else {}),
    }  # fmt: skip
    expected = {"fence": NOT_AVAILABLE} | ({asked: NOT_AVAILABLE} if asked else {})
    assert told(one) == expected


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("COMPLETE_ABORT", "EMPTY"),
        ("COMPLETE_ABORT", "ONGOING"),
        ("ONGOING", "ONGOING"),
        ("ONGOING", "PREPARE_COMMIT"),
        ("ONGOING", "PREPARE_ABORT"),
        ("COMPLETE_ABORT", "PREPARE_ABORT"),
        ("COMPLETE_COMMIT", "DEAD"),
    ],
)
def test_a_record_whose_append_failed_is_found(state: str, found: str) -> None:
    one = coordinator(state, unsettled=(found, 2, 6, 1, 3, BOTH))
    says: Fields = {
        "state": found, "producer_id": 2, "producer_epoch": 6, "logged_epoch": 6, "next_id": 3,
        "previous_id": 1, "partitions": BOTH, "logged_partitions": BOTH,
    }  # fmt: skip
    expected = (FORGOTTEN if found == "DEAD" else says) | MEMORY_LOST
    if state == found:
        del expected["state"]
    del expected["pending"]  # nothing was
    assert changes(one, transaction_log.late_failover) == expected
    assert told(one) == {"fence": MOVED}


def test_a_tombstone_is_written() -> None:
    assert changes(coordinator("EMPTY"), transaction_log.expiry) == {"pending": "DEAD"}


# A fence -----------------------------------------------------------------------------------------


def test_a_transaction_times_out() -> None:
    fence: Fields = {"pending": "PREPARE_EPOCH_FENCE", "fence_end": (1, 6)}
    assert changes(coordinator("ONGOING", failed_fence=False), transaction.timeout) == fence
    fence["fence_end"] = (1, 5)  # the failed one has taken it
    assert changes(coordinator("ONGOING"), transaction.timeout) == fence


def fencing(release: str = NEWEST, **given: Any) -> Coordinator:
    """One that is between a fence and its end."""
    return coordinator(
        "ONGOING", "PREPARE_EPOCH_FENCE", release=release, **{"fence_end": (1, 6), **given}
    )


def test_a_fence_goes_on() -> None:
    one = fencing()
    aborts: Fields = {
        "pending": "PREPARE_ABORT", "pending_epoch": 6, "pending_last_epoch": 5,
        "pending_version": 2, "next_id": None, "fence_end": None,
    }  # fmt: skip
    assert changes(one, transaction.continue_fence) == aborts
    one = fencing(producer_epoch=8, fence_end=(1, 9))
    aborts |= {
        "pending_epoch": 9, "pending_last_epoch": 8, "next_id": 3, "offered_id": None,
    }  # fmt: skip
    assert changes(one, transaction.continue_fence) == aborts
    one = fencing(producer_epoch=8, fence_end=(1, 9), offered_id=None)
    dropped: Fields = {"pending": None, "fenced_for": (None, None), "fence_end": None}
    assert changes(one, transaction.continue_fence) == dropped
    assert told(one) == {"fence": "COORDINATOR_LOAD_IN_PROGRESS"}


def test_a_second_new_epoch_overflows() -> None:
    """In 4.0.0 the fence takes one epoch, and the abort another."""
    one = fencing("4.0.0", fence_end=(1, 9))
    assert changes(one, transaction.continue_fence) == {
        "pending": None, "producer_epoch": 9, "last_producer_epoch": -1,
        "fenced_for": (None, None), "fence_end": None,
    }  # fmt: skip
    assert told(one) == {"fence": "UNKNOWN_SERVER_ERROR"}


# What a request prepares -------------------------------------------------------------------------

REST: Fields = {  # before a request; what it prepares is then all there is
    "next_id": None, "pending_id": 0, "pending_epoch": -1, "pending_last_epoch": -1,
    "pending_partitions": NONE, "asked_by": (None, None), "fenced_for": (None, None),
    "adding_for": (NONE, NONE),
}  # fmt: skip


def prepares(one: Coordinator, request: Message, *address: int, **content: Any) -> Fields:
    """What a request changes, by field."""
    one.arrives(request, *address, **content)
    return changes(one, request)


@pytest.mark.parametrize(
    ("epoch", "expected", "prepared"),
    [
        (5, None, {"pending_epoch": 6}),
        (5, 5, {"pending_epoch": 6, "pending_last_epoch": 5}),
        (5, 4, {"pending_epoch": 5, "pending_last_epoch": 4}),
        (8, None, {"pending_epoch": 0, "offered_id": None}),
        (8, 8, {"pending_epoch": 0, "pending_last_epoch": 8, "offered_id": None}),
    ],
)
def test_a_producer_initializes(epoch: int, expected: int | None, prepared: Fields) -> None:
    one = coordinator("COMPLETE_ABORT", **REST, producer_epoch=epoch)
    request = {"expected_id": 1, "expected_epoch": -1 if expected is None else expected}
    asked: Fields = {"pending": "EMPTY", "asked_by": (None, 0)}
    assert prepares(one, kafka.InitProducerId, 1, **request) == asked | prepared


def test_a_producer_initializes_over_an_open_transaction() -> None:
    one = coordinator("ONGOING", **REST, failed_fence=False)
    assert prepares(one, kafka.InitProducerId, 1, expected_epoch=-1) == {
        "pending": "PREPARE_EPOCH_FENCE", "fence_end": (1, 6), "fenced_for": (None, 0),
    }  # fmt: skip


def test_partitions_are_added() -> None:
    one = coordinator("ONGOING", **REST)
    asks: Fields = {"producer_id": 1, "producer_epoch": 5}
    added: Fields = {
        "pending": "ONGOING", "pending_partitions": BOTH, "adding_for": (NONE, ONE),
    }  # fmt: skip
    in_version_2: Fields = {**added, "pending_version": 2}
    assert prepares(one, kafka.AddPartitionsByLeader, 1, 1, **asks) == in_version_2
    one = coordinator("ONGOING", release="3.5", **REST)
    added["asked_by"] = (None, 0)
    assert prepares(one, kafka.AddPartitionsToTxn, 1, 1, **asks) == added


@pytest.mark.parametrize(
    ("state", "epoch", "prepared"),
    [
        ("ONGOING", 5, {"pending_epoch": 6, "pending_last_epoch": 5}),
        ("EMPTY", 5, {"pending_epoch": 6, "pending_last_epoch": 5}),
        *(
            (
                state,
                8,
                {"pending_epoch": 9, "pending_last_epoch": 8, "next_id": 3, "offered_id": None},
            )
            for state in ("ONGOING", "EMPTY")
        ),
    ],
)
def test_a_producer_aborts(state: str, epoch: int, prepared: Fields) -> None:
    one = coordinator(state, **REST, producer_epoch=epoch)
    asks: Fields = {"producer_id": 1, "producer_epoch": epoch, "result": "ABORT"}
    asked: Fields = {"pending": "PREPARE_ABORT", "asked_by": (None, 0), "pending_version": 2}
    assert prepares(one, kafka.EndTxn, 1, **asks) == asked | prepared


@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_a_transaction_of_version_1_ends(result: str) -> None:
    one = coordinator("ONGOING", release="3.5", **REST)
    asks: Fields = {"producer_id": 1, "producer_epoch": 5, "result": result}
    assert prepares(one, kafka.EndTxn, 1, **asks) == {
        "pending": f"PREPARE_{result}", "pending_epoch": 5, "pending_last_epoch": 4,
        "asked_by": (None, 0),
    }  # fmt: skip


def test_an_abort_overtakes_a_fence() -> None:
    """The fence's own end is still to come, and tells who has fenced."""
    given: Fields = {
        **REST, "pending_epoch": 7, "pending_last_epoch": 6, "fenced_for": (0, None),
        "failed_fence": False,
    }  # fmt: skip
    asks: Fields = {"producer_id": 1, "producer_epoch": 5, "result": "ABORT"}
    one = fencing(**given)
    overtaken: Fields = {
        "pending": "PREPARE_ABORT", "pending_last_epoch": 5, "asked_by": (None, 0),
    }  # fmt: skip
    in_version_2 = {**overtaken, "pending_epoch": 6, "pending_version": 2}
    assert prepares(one, kafka.EndTxn, 1, **asks) == in_version_2
    assert told(one) == {}
    one = fencing("3.5", **given)
    assert prepares(one, kafka.EndTxn, 1, **asks) == {
        **overtaken, "pending_epoch": 5, "pending_last_epoch": -1, "last_producer_epoch": -1,
        "failed_fence": True,
    }  # fmt: skip
    assert told(one) == {}


def test_what_a_fence_overtaken_still_keeps() -> None:
    """Whoever has fenced hears of it from the fence's own end, or from a failover."""
    late: Fields = {"fence_end": (1, 6), "fenced_for": (None, 0)}
    one = coordinator("ONGOING", "PREPARE_ABORT", **late)
    assert one.does(transaction_log.log_append)
    assert one.does(transaction_log.begin_completion)
    assert (one["fence_end"], one["fenced_for"], told(one)) == (*late.values(), {"end": "NONE 2/0"})
    one = coordinator("ONGOING", "PREPARE_ABORT", **late)
    assert one.does(transaction_log.append_failure, record_kept=False)
    assert (one["fence_end"], one["fenced_for"]) == tuple(late.values())
    assert told(one) == {"end": NOT_AVAILABLE}
    one = coordinator("ONGOING", "PREPARE_ABORT", **late)
    assert one.does(transaction_log.failover, record_kept=False)
    assert (one["fence_end"], one["fenced_for"]) == (None, (None, None))
    assert told(one) == {"end": MOVED, "fence": MOVED}
