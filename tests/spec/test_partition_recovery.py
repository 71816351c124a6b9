"""What a leader forgets, and what holds all the same."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from epochfence.checker.verdict import Result, Verdict
from epochfence.language import instantiate
from epochfence.language.types import Value
from epochfence.spec import messages
from epochfence.spec.features import NEWEST
from epochfence.spec.leader import recovery as recovery
from epochfence.spec.properties.transactions import outcome_as_told
from epochfence.spec.systems import shipped
from epochfence.tests.model.counterexamples import checked
from epochfence.tests.spec.leaders import BOUNDS, IDEMPOTENCE_ONLY, entry, leader

KNOWN, OPEN = entry(5, 0, 1, 2), entry(5, 0, 1, 2, opened=1)
UNKNOWN = entry(-1)
OTHERS = ("NOT_BEGUN",) * (BOUNDS["transactions"] - 2)
LOG = tuple(("DATA", 0, 5, False, 0, 0) for _ in range(3))


# Expiry ----------------------------------------------------------------------------------------


def test_an_idle_producer_is_forgotten() -> None:
    """ProducerStateManager.isProducerExpired: not while its transaction is open."""
    idle, busy = leader("4.3", known=KNOWN), leader("4.3", known=OPEN)
    assert idle.does(recovery.expire_producer, producer_id=0) == "forget it"
    assert idle.entry() == UNKNOWN
    for one in (idle, busy):
        assert one.does(recovery.expire_producer, producer_id=0) is None
    assert idle.does(recovery.expire_producer, producer_id=1) is None


def test_what_was_fenced_off_comes_back_after_expiry() -> None:
    """The hole that KIP-360 leaves: an older epoch and any sequence are taken."""
    one = leader("4.3", known=KNOWN)
    assert one.produce(4, 3, idempotent_only=True) == "INVALID_PRODUCER_EPOCH"
    assert one.does(recovery.expire_producer, producer_id=0)
    assert one.produce(4, 3, idempotent_only=True) == "written"


def test_a_question_expires_on_its_own() -> None:
    """ProducerStateManagerTest.testVerificationStateEntryExpiration."""
    one = leader("4.0.0", known=KNOWN)
    assert one.does(recovery.expire_question, producer_id=0) is None
    assert one.produce(6, 0) == "asks"
    assert one.does(recovery.expire_question, producer_id=0) == "forget it"
    assert (one.field("verification_states"), one.entry()) == ((None, None), KNOWN)
    assert one.hears("NONE") == "INVALID_TXN_STATE"


# Deleted records -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "before"),
    [(1, OPEN), (2, OPEN), (3, UNKNOWN)],
)
def test_before_24_producers_go_with_their_records(offset: int, before: Value) -> None:
    """KAFKA-7190. An open transaction goes with its producer. One that has a record left keeps all
    of its batches: ProducerStateEntry.removeBatchesOlderThan in 2.0 drops none."""
    for release, expected in (("2.0", before), ("2.5", OPEN), (NEWEST, OPEN)):
        one = leader(release, known=OPEN, log=LOG)
        assert one.stable() == 1
        assert one.does(recovery.delete_records, offset=offset) in (
            "producers go with their records",
            "producers stay",
        )
        assert one.entry() == expected
        assert one.stable() == (3 if expected == UNKNOWN else offset)
        assert len(one.log) == 3  # offsets stay what they are


def test_before_24_the_marker_of_a_forgotten_transaction_is_kept() -> None:
    """The next transaction's marker says nothing of the deleted records."""
    for release in ("2.0", "2.5"):
        one = leader(release, *IDEMPOTENCE_ONLY)
        assert one.produce(0, 0) == "written"
        assert one.does(recovery.delete_records, offset=1)
        assert [one.marker(0), one.marker(0)] == ["ended", "nothing"]
        one.put("producers", (UNKNOWN, UNKNOWN))
        one.state["producer.txn"] = (1,) * BOUNDS["producers"]
        assert one.produce(0, 0, txn=1) == "written"
        assert one.marker(0, "COMMIT") == "ended"
        assert one.log == ["DATA", "ABORT", "DATA", "COMMIT"]
        one.state["application.outcome"] = ("NOT_BEGUN", "COMMITTED", *OTHERS)
        assert one.holds(outcome_as_told)


def test_what_is_deleted_has_no_outcome() -> None:
    line = ("DATA", 0, 0, False, 0, 0)
    log = (line, ("ABORT", 0, 0, False, 0, None))
    for start in (0, 1):
        one = leader("2.0", log=log, log_start_offset=start)
        one.state["application.outcome"] = ("COMMITTED", "NOT_BEGUN", *OTHERS)
        assert one.holds(outcome_as_told) == (start == 1)


def test_only_what_is_there_can_be_deleted() -> None:
    one = leader(NEWEST, log=LOG, log_start_offset=2)
    enabled = [one.does(recovery.delete_records, offset=offset) is not None for offset in (1, 2, 4)]
    assert enabled == [False, False, False]
    assert one.does(recovery.delete_records, offset=3)


def test_a_marker_alone_kept_no_producer() -> None:
    one = leader("2.0", known=entry(5), log=LOG)
    assert one.does(recovery.delete_records, offset=1)
    assert one.entry() == UNKNOWN


# A new leader ----------------------------------------------------------------------------------


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_a_new_leader_knows_what_the_log_tells(from_snapshot: bool) -> None:
    """ProducerStateManagerTest.testRecoverFromSnapshotUnfinishedTransaction: a snapshot has one
    batch of each producer, and where its transaction starts."""
    known = entry(5, 0, 1, 2, opened=1, coordinator_epoch=3)
    one = leader(NEWEST, known=known, log=LOG)
    assert one.does(recovery.change_leader, from_snapshot=from_snapshot)
    batches = ((2, 2),) if from_snapshot else ((0, 0), (1, 1), (2, 2))
    assert one.entry() == (5, batches, 3, 1)
    assert (one.log, one.stable()) == (["DATA"] * 3, 1)
    assert one.produce(5, 2) == "duplicate"
    refused = "OUT_OF_ORDER_SEQUENCE_NUMBER" if from_snapshot else "duplicate"
    assert one.produce(5, 1) == refused


def test_before_24_a_snapshot_has_no_use_for_a_producer_without_records() -> None:
    """ProducerStateManager.isProducerRetained: of one fenced by a marker alone nothing is left."""
    fenced = entry(5, coordinator_epoch=3)
    newest = (5, ((2, 2),), 0, None)
    for release, known, loaded in (
        ("2.0", fenced, UNKNOWN), ("2.0", KNOWN, newest), ("2.5", fenced, fenced),
    ):  # fmt: skip
        for from_snapshot, expected in ((True, loaded), (False, known)):
            one = leader(release, known=known, log=LOG)
            assert one.does(recovery.change_leader, from_snapshot=from_snapshot)
            assert one.entry() == expected


def test_an_answer_to_a_leader_before_settles_nothing() -> None:
    """Whatever it says, or whether it is lost."""
    asked = (messages.AddPartitionsByLeader, messages.AddPartitionsByLeaderResponse)
    for orphaned, left in (({0}, set[int]()), ({0, 1}, {1})):
        one = leader(NEWEST, orphaned=frozenset(orphaned))
        assert one.hears("PRODUCER_FENCED") == ""
        assert one.field("orphaned") == left
        for message in asked:
            one = leader(NEWEST, orphaned=frozenset(orphaned))
            assert one.loses(message) == "asked by a leader before"
            assert (one.told(0, 0), one.field("orphaned")) == ("", left)


def test_a_lost_question_or_answer_is_tried_again() -> None:
    """AddPartitionsToTxnManager: NETWORK_EXCEPTION, which a producer takes for a retry."""
    for message in (messages.AddPartitionsByLeader, messages.AddPartitionsByLeaderResponse):
        one = leader(NEWEST)
        assert one.produce(0, 0) == "asks"
        assert one.loses(message) == "give up"
        assert one.told(0, 0) == "NOT_ENOUGH_REPLICAS"
        assert one.field("waiting") == (None, None)
        assert one.field("verification_states")[0] == (0, 0)  # the guard is still there


def test_questions_die_with_their_leader() -> None:
    one = leader(NEWEST)
    assert one.produce(0, 0) == "asks"
    assert one.does(recovery.change_leader, from_snapshot=False)
    assert one.told(0, 0) == "NOT_LEADER_OR_FOLLOWER"
    assert one.field("verification_states")[0] is None
    assert one.produce(0, 0) == "waits"  # the old question is still under way
    assert one.produce(0, 0, client=1) == "asks"
    assert one.hears("NONE") == ""  # its answer is for a leader that is no more
    assert one.log == []
    assert one.produce(0, 0) == "asks"
    assert one.hears("NONE") == "written"


# All together ----------------------------------------------------------------------------------

SYSTEM = shipped("transactions")
FORGETTING = {"leader_changes": 1, "deletions": 1, "producer_expiries": 1}


def explored(release: str, *properties: str, on: tuple[str, ...] = (), **bounds: int) -> Result:
    """The transactions system with leaders that forget; no properties named: all."""
    constants: Mapping[str, int] = {
        "partitions": 1, "transactions": 1, "faults": 2, **FORGETTING, **bounds
    }  # fmt: skip
    instance = instantiate(SYSTEM, release, constants, switch_on=on, properties=properties or None)
    return checked(instance)


@pytest.mark.slow
def test_with_transactions_of_version_2_everything_holds() -> None:
    result = explored(NEWEST)
    assert result.verdict is Verdict.HOLDS, result.reason
    rows = {f"{table.name}/{row.name}" for table in recovery.TABLES for row in table.rows}
    taken = {name for name, count in result.rows if count}
    assert rows - taken == {"partition.records are deleted/producers go with their records"}
    assert {name for name in taken if name.endswith("asked by a leader before")} == {
        f"partition.{event}/asked by a leader before"
        for event in (
            "AddPartitionsByLeaderResponse",
            "lost AddPartitionsByLeader",
            "lost AddPartitionsByLeaderResponse",
        )
    }


@pytest.mark.slow
def test_a_leader_that_forgets_with_the_record_takes_it_again() -> None:
    """KAFKA-7190. What it was sent is gone, and the producer's id with it."""
    result = explored("2.0", "NoDuplicate", producers=1)
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    rows = [step.row for step in result.trace.steps[-4:]]
    assert (rows[0], rows[-1]) == ("append", "append")
    assert set(rows[1:-1]) == {"queue again", "producers go with their records"}
    for release, on in (("2.0", ("state_outlives_records",)), ("2.5", ())):
        assert explored(release, "NoDuplicate", on=on, producers=1).verdict is Verdict.HOLDS
