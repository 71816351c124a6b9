"""All that a leader changes on an event, and the whole of what it sends, field by field.

Every field that may be cleared has something in it before, whether a run could have brought that
about or not. Client 0 and producer id 0 are concerned; the other ones' fields stay what they are.
"""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.language import Event, Loss, Message, lost
from epochfence.language.types import Value
from epochfence.spec import messages as kafka
from epochfence.spec.features import NEWEST
from epochfence.spec.leader import recovery as recovery
from epochfence.tests.spec.leaders import IDEMPOTENCE_ONLY, NOBODY, VERSION_1, Leader, entry

Fields = dict[str, Any]
KNOWN: Any = entry(5, 0, 1, coordinator_epoch=2)
OPEN: Any = entry(5, 0, 1, opened=0, coordinator_epoch=2)
OTHER: Any = entry(3, 7, opened=1)
LOG: Any = (("DATA", 0, 5, False, 0, 0), ("DATA", 1, 3, False, 0, 1))
MINE: Any = (0, 6, 0, 0, 0, True)
ANOTHERS: Any = (1, 3, 8, 0, 0, True)
TO = {"producer": 0, "partition": 0}
IPE, OUT_OF_ORDER = "INVALID_PRODUCER_EPOCH", "OUT_OF_ORDER_SEQUENCE_NUMBER"
LATER = "NOT_ENOUGH_REPLICAS"


def leader(known: Any = KNOWN, *off: str, release: str = NEWEST, **given: Any) -> Leader:
    """One that knows this of producer id 0, with something in every other field."""
    fields: Fields = {
        "producers": (known, OTHER), "log": LOG, "verification_states": ((6, 4), (3, 8)),
        "waiting": (MINE, ANOTHERS), "orphaned": frozenset({1}),
    }  # fmt: skip
    return Leader(release, *off, **(fields | given))


def changes(one: Leader, row: str, event: Event, **parameters: Any) -> Fields:
    """What an event changes by this row, by field."""
    before = dict(one.state)
    assert one.does(event, **parameters) == row
    changed = [n for n in before if n.startswith("partition.") and one.state[n] != before[n]]
    return {name: one.field(name) for name in (n.removeprefix("partition.") for n in changed)}


def takes(one: Leader, row: str, message: Message, **content: Any) -> Fields:
    """What a message to it changes by this row, by field; it goes to the client's partition."""
    address = {name: TO[name] for name, _ in message.address}
    one.receives(message, address, **content)
    return changes(one, row, message)


def batch(epoch: int, sequence: int, *, plain: bool = False, txn: int = 0) -> Fields:
    """A batch of producer id 0."""
    return {
        "producer_id": 0, "producer_epoch": epoch, "base_sequence": sequence, "record": 0,
        "txn": txn, "idempotent_only": plain,
    }  # fmt: skip


def told(error: str, txn: int = 0) -> dict[str, Value]:
    """An answer to the client's batch."""
    return {"error": error, "record": 0, "txn": txn}


def answered(one: Leader) -> dict[str, Value] | None:
    """The answer to the client's batch, if there is one."""
    found = one.sent(kafka.ProduceResponse)
    return found and {name: found[name] for name in ("error", "record", "txn")}


# Batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "sent", "appended"),
    [
        (OPEN, batch(5, 2), (5, ((0, 0), (1, 1), (2, 2)), 2, 0)),
        (KNOWN, batch(5, 2), (5, ((0, 0), (1, 1), (2, 2)), 2, 2)),
        (KNOWN, batch(6, 0), (6, ((0, 2),), 2, 2)),
        (NOBODY, batch(6, 0), (6, ((0, 2),), 0, 2)),
        (KNOWN, batch(5, 2, plain=True), (5, ((0, 0), (1, 1), (2, 2)), 2, None)),
        (KNOWN, batch(6, 0, plain=True), (6, ((0, 2),), 2, None)),
    ],
)
def test_a_batch_is_appended(known: Any, sent: Fields, appended: Any) -> None:
    """A transactional one ends the questions about its producer id."""
    one = leader(known, *IDEMPOTENCE_ONLY)
    plain = sent["idempotent_only"]
    expected: Fields = {
        "log": (*LOG, ("DATA", 0, sent["producer_epoch"], plain, 0, 0)),
        "producers": (appended, OTHER),
    }
    if not plain:
        expected["verification_states"] = (None, (3, 8))
        expected["waiting"] = ((*MINE[:5], False), ANOTHERS)
    assert takes(one, "append", kafka.Produce, **sent) == expected
    assert answered(one) == told("NONE")


def test_who_no_longer_waits_is_not_answered() -> None:
    """The client is in its next transaction."""
    one = leader(OPEN)
    found = takes(one, "append", kafka.Produce, **batch(5, 2, txn=3))
    assert found["log"] == (*LOG, ("DATA", 0, 5, False, 0, 3))
    assert answered(one) is None


@pytest.mark.parametrize(
    ("row", "known", "sent", "error", "release"),
    [
        ("duplicate", OPEN, batch(5, 1), "NONE", NEWEST),
        ("stale epoch", OPEN, batch(4, 2, plain=True), IPE, NEWEST),
        ("stale epoch, before asking", OPEN, batch(4, 2), IPE, NEWEST),
        ("starts in mid-sequence", NOBODY, batch(6, 1, plain=True), OUT_OF_ORDER, NEWEST),
        ("above the first to come", OPEN, batch(5, 5), OUT_OF_ORDER, NEWEST),
        ("new epoch in mid-sequence", KNOWN, batch(6, 1, plain=True), OUT_OF_ORDER, NEWEST),
        ("out of order", OPEN, batch(5, 3), OUT_OF_ORDER, NEWEST),
        ("last sequence not known", NOBODY, batch(6, 1), "UNKNOWN_PRODUCER_ID", "2.0"),
        (
            "not transactional in a transaction",
            OPEN,
            batch(5, 2, plain=True),
            "INVALID_TXN_STATE",
            NEWEST,
        ),
    ],
)
def test_a_batch_is_answered_at_once(
    row: str, known: Any, sent: Fields, error: str, release: str
) -> None:
    one = leader(known, release=release, waiting=(None, ANOTHERS))
    assert takes(one, row, kafka.Produce, **sent) == {}
    assert answered(one) == told(error)
    assert one.sent(kafka.AddPartitionsByLeader) is None


@pytest.mark.parametrize(
    ("asked", "epoch", "sequence", "question"),
    [
        (None, 6, 3, (6, 3)),
        ((5, 1), 6, 3, (6, 3)),
        ((6, 4), 6, 3, (6, 3)),
        ((6, 2), 6, 3, (6, 2)),
        ((7, 4), 6, 3, (7, 4)),
    ],
)
def test_a_leader_asks(asked: Any, epoch: int, sequence: int, question: Any) -> None:
    """Of several batches it keeps the newest epoch, and the lowest sequence in that."""
    one = leader(verification_states=(asked, (3, 8)), waiting=(None, ANOTHERS))
    found = takes(one, "ask the coordinator", kafka.Produce, **batch(epoch, sequence, txn=2))
    expected: Fields = {"waiting": ((0, epoch, sequence, 0, 2, True), ANOTHERS)}
    if asked != question:
        expected["verification_states"] = (question, (3, 8))
    assert found == expected
    assert one.sent(kafka.AddPartitionsByLeader) == {"producer_id": 0, "producer_epoch": epoch}


def test_a_batch_waits_while_another_is_asked_about() -> None:
    for given in ({}, {"waiting": (None, ANOTHERS), "orphaned": frozenset({0})}):
        one = leader(KNOWN, **given)
        assert one.takes(kafka.Produce, TO, **batch(6, 0)) is None
    one = leader(KNOWN)
    assert one.takes(kafka.Produce, TO, **batch(5, 2, plain=True)) == "append"


# Answers of the coordinator ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "error", "answer", "off"),
    [
        ("producer fenced", "PRODUCER_FENCED", IPE, ()),
        ("coordinator busy", "CONCURRENT_TRANSACTIONS", LATER, VERSION_1),
        ("refused by the coordinator", "CONCURRENT_TRANSACTIONS", "CONCURRENT_TRANSACTIONS", ()),
        ("coordinator moved", "NOT_COORDINATOR", LATER, ()),
        ("coordinator moved", "COORDINATOR_LOAD_IN_PROGRESS", LATER, ()),
        ("coordinator moved", "COORDINATOR_NOT_AVAILABLE", LATER, ()),
        ("refused by the coordinator", "INVALID_TXN_STATE", "INVALID_TXN_STATE", ()),
    ],
)
def test_the_coordinator_says_no(row: str, error: str, answer: str, off: tuple[str, ...]) -> None:
    one = leader(KNOWN, *off)
    message = kafka.AddPartitionsByLeaderResponse
    assert takes(one, row, message, error=error) == {"waiting": (None, ANOTHERS)}
    assert answered(one) == told(answer)


@pytest.mark.parametrize(
    ("row", "known", "waiting", "error", "release"),
    [
        ("duplicate", KNOWN, (0, 5, 1, 0, 0, True), "NONE", NEWEST),
        ("stale epoch, whatever the answer", KNOWN, (0, 4, 2, 0, 0, True), IPE, NEWEST),
        ("question no longer counts", KNOWN, (0, 6, 0, 0, 0, False), "INVALID_TXN_STATE", NEWEST),
        ("stale epoch", KNOWN, (0, 4, 2, 0, 0, True), IPE, "3.6"),
        ("starts in mid-sequence", NOBODY, (0, 6, 1, 0, 0, True), OUT_OF_ORDER, NEWEST),
        ("above the first to come", KNOWN, (0, 5, 5, 0, 0, True), OUT_OF_ORDER, NEWEST),
        ("new epoch in mid-sequence", KNOWN, (0, 6, 1, 0, 0, True), OUT_OF_ORDER, NEWEST),
        ("out of order", KNOWN, (0, 5, 3, 0, 0, True), OUT_OF_ORDER, NEWEST),
    ],
)
def test_a_batch_that_has_waited_is_refused(
    row: str, known: Any, waiting: Any, error: str, release: str
) -> None:
    """The question stays open."""
    one = leader(known, release=release, waiting=(waiting, ANOTHERS))
    message = kafka.AddPartitionsByLeaderResponse
    assert takes(one, row, message, error="NONE") == {"waiting": (None, ANOTHERS)}
    assert answered(one) == told(error)


@pytest.mark.parametrize(
    ("known", "waiting", "appended"),
    [
        (KNOWN, (0, 6, 0, 0, 0, True), (6, ((0, 2),), 2, 2)),
        (KNOWN, (0, 5, 2, 0, 0, True), (5, ((0, 0), (1, 1), (2, 2)), 2, 2)),
        (OPEN, (0, 5, 2, 0, 0, False), (5, ((0, 0), (1, 1), (2, 2)), 2, 0)),
    ],
)
def test_a_batch_that_has_waited_is_appended(known: Any, waiting: Any, appended: Any) -> None:
    """Questions about its producer id end, whoever asked."""
    one = leader(known, waiting=(waiting, (0, 6, 1, 0, 0, True)))
    assert takes(one, "append", kafka.AddPartitionsByLeaderResponse, error="NONE") == {
        "log": (*LOG, ("DATA", 0, waiting[1], False, 0, 0)),
        "producers": (appended, OTHER),
        "verification_states": (None, (3, 8)),
        "waiting": (None, (0, 6, 1, 0, 0, False)),
    }
    assert answered(one) == told("NONE")


LOSSES: list[Any] = [lost(kafka.AddPartitionsByLeader), lost(kafka.AddPartitionsByLeaderResponse)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda each: each.name)
def test_a_question_is_lost(loss: Any) -> None:
    one = leader()
    one.receives(loss.message, TO)
    assert changes(one, "give up", loss) == {"waiting": (None, ANOTHERS)}
    assert answered(one) == told(LATER)


@pytest.mark.parametrize(
    "event", [*LOSSES, kafka.AddPartitionsByLeaderResponse], ids=lambda each: each.name
)
def test_a_question_of_a_leader_before_is_settled(event: Any) -> None:
    one = leader(orphaned=frozenset({0, 1}))
    message = event.message if isinstance(event, Loss) else event
    assert isinstance(message, Message)
    one.receives(message, TO)
    assert changes(one, "asked by a leader before", event) == {"orphaned": frozenset({1})}
    assert answered(one) is None


# Markers -----------------------------------------------------------------------------------------


def marker(epoch: int, coordinator_epoch: int = 3, result: str = "COMMIT") -> Fields:
    """A marker for producer id 0."""
    return {
        "producer_id": 0, "producer_epoch": epoch, "coordinator_epoch": coordinator_epoch,
        "result": result,
    }  # fmt: skip


@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
@pytest.mark.parametrize("known", [OPEN, KNOWN])
@pytest.mark.parametrize(("epoch", "batches"), [(7, ()), (5, ((0, 0), (1, 1)))])
def test_a_marker_is_written(result: str, known: Any, epoch: int, batches: Any) -> None:
    one = leader(known, *VERSION_1)
    expected: Fields = {
        "producers": ((epoch, batches, 3, None), OTHER),
        "verification_states": (None, (3, 8)),
        "waiting": ((*MINE[:5], False), ANOTHERS),
    }
    if known == OPEN:
        expected["log"] = (*LOG, (result, 0, epoch, False, 0, None))
    row = "end the transaction" if known == OPEN else "no transaction to end"
    assert takes(one, row, kafka.WriteTxnMarkers, **marker(epoch, 3, result)) == expected
    answer = one.sent(kafka.WriteTxnMarkersResponse)
    assert answer == {"error": "NONE", "connection": 0}


@pytest.mark.parametrize(
    ("row", "told", "error"),
    [
        ("stale epoch", marker(4), IPE),
        ("marker of an earlier transaction", marker(5), IPE),
        ("coordinator fenced", marker(6, 1), "TRANSACTION_COORDINATOR_FENCED"),
    ],
)
def test_a_marker_is_refused(row: str, told: Fields, error: str) -> None:
    one = leader(OPEN)
    assert takes(one, row, kafka.WriteTxnMarkers, **told) == {}
    assert one.sent(kafka.WriteTxnMarkersResponse) == {"error": error, "connection": 0}


def test_a_coordinator_that_has_another_connection_is_not_answered() -> None:
    for row, told in (("end the transaction", marker(6)), ("stale epoch", marker(4))):
        one = leader(OPEN)
        one.state["transaction.marker_connection"] = (1,)
        takes(one, row, kafka.WriteTxnMarkers, **told)
        assert one.sent(kafka.WriteTxnMarkersResponse) is None


# What a leader forgets ---------------------------------------------------------------------------


def test_a_producer_and_its_question_expire() -> None:
    expires = changes(leader(), "forget it", recovery.expire_producer, producer_id=0)
    assert expires == {"producers": (NOBODY, OTHER)}
    assert changes(leader(), "forget it", recovery.expire_question, producer_id=0) == {
        "verification_states": (None, (3, 8)), "waiting": ((*MINE[:5], False), ANOTHERS),
    }  # fmt: skip


def test_records_are_deleted() -> None:
    found = changes(leader(), "producers stay", recovery.delete_records, offset=1)
    assert found == {"log_start_offset": 1}
    row = "producers go with their records"
    found = changes(leader(release="2.0"), row, recovery.delete_records, offset=1)
    assert found == {
        "log_start_offset": 1, "producers": ((5, ((0, 0), (1, 1)), 2, None), NOBODY),
    }  # fmt: skip


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_a_leader_changes(from_snapshot: bool) -> None:
    expected: Fields = {
        "verification_states": (None, None), "waiting": (None, None), "orphaned": frozenset({0, 1}),
    }  # fmt: skip
    if from_snapshot:
        expected["producers"] = ((5, ((1, 1),), 2, None), OTHER)
    for client in (0, 1):
        one = leader()
        event = recovery.change_leader
        found = changes(one, "questions die with it", event, from_snapshot=from_snapshot)
        assert found == expected
        answer = one.sent(kafka.ProduceResponse, client)
        assert answer is not None
        assert answer["error"] == "NOT_LEADER_OR_FOLLOWER"
