"""A leader at real ranges: what releases answer and keep where bounded runs don't look."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.model import PartitionLeader
from epochfence.model.broker.leader import Batch
from epochfence.model.engine.machine import noted
from epochfence.spec.releases.features import RELEASES

IPE, BAD_STATE = "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"
BUSY = "CONCURRENT_TRANSACTIONS"
ID = 7
DAY = 86_400_000
OLD = RELEASES[: RELEASES.index("2.8")]


def leader(release: str, *, verification: bool = False, now_ms: int = 1000) -> PartitionLeader:
    return PartitionLeader(protocol=release, verification=verification, now_ms=now_ms)


def append(one: PartitionLeader, epoch: int, sequence: int, **fields: Any) -> str:
    """One record of the producer id; the error."""
    batch: dict[str, Any] = {
        "producer_id": ID,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "count": 1,
    }
    return one.append(**(batch | fields)).error


def marker(one: PartitionLeader, epoch: int, result: str = "ABORT") -> Any:
    return one.append_marker(producer_id=ID, producer_epoch=epoch, result=result)


# Questions to the coordinator ------------------------------------------------------------------


@pytest.mark.parametrize(("release", "told"), [("3.6", "NONE"), ("4.0.1", "NONE"), ("4.1", IPE)])
def test_a_stale_epoch_is_asked_about_until_41(release: str, told: str) -> None:
    """KAFKA-18042."""
    one = leader(release, verification=True)
    assert marker(one, 5).error == "NONE"
    answer = one.maybe_start_transaction_verification(
        producer_id=ID, producer_epoch=4, base_sequence=0
    )
    assert (answer.error, answer.guard is None) == (told, told == IPE)
    assert (one.machine["verification_states"][ID] is None) == (told == IPE)
    answer = one.maybe_start_transaction_verification(
        producer_id=ID, producer_epoch=5, base_sequence=0
    )
    assert (answer.error, answer.guard is None) == ("NONE", False)


@pytest.mark.parametrize(
    ("release", "row"),
    [
        ("3.9", "stale-epoch"),
        ("4.0.0", "stale-epoch"),
        ("4.0.1", "stale-epoch"),
        ("4.1", "stale-epoch-verified"),
    ],
)
def test_without_guards_a_stale_epoch_is_refused(release: str, row: str) -> None:
    """transaction.partition.verification.enable is switched off while the coordinator is asked
    (ProducerAppendInfo.checkProducerEpoch)."""
    one = leader(release, verification=True)
    stale, newer = (
        one.maybe_start_transaction_verification(
            producer_id=ID, producer_epoch=epoch, base_sequence=0
        ).guard
        for epoch in (0, 1)
    )
    assert append(one, 1, 0, transactional=True, guard=newer) == "NONE"
    one.enable_verification(enabled=False)
    with noted() as rows:
        assert append(one, 0, 0, transactional=True, guard=stale) == IPE
    assert [taken.id for _, taken in rows] == [row]


@pytest.mark.parametrize("origin", ["CLIENT", "COORDINATOR"])
@pytest.mark.parametrize(("release", "told"), [("4.0.1", BAD_STATE), ("4.1", IPE), ("4.3", IPE)])
def test_a_stale_epoch_is_refused_before_the_guard_is_looked_at(
    release: str, told: str, origin: str
) -> None:
    """UnifiedLog.analyzeAndValidateProducerState: it may come back from a transaction that was
    aborted meanwhile."""
    one = leader(release, verification=True)
    assert marker(one, 5).error == "NONE"
    asked: dict[str, Any] = {"transactional": True, "origin": origin}
    assert append(one, 4, 0, **asked) == told
    assert append(one, 5, 0, **asked) == BAD_STATE


@pytest.mark.parametrize(("release", "told"), [("3.6", "NONE"), ("3.7", BAD_STATE)])
def test_what_a_groups_coordinator_appends_is_verified_from_37_on(release: str, told: str) -> None:
    """KAFKA-15449."""
    one = leader(release, verification=True)
    assert append(one, 0, 0, transactional=True) == BAD_STATE
    assert append(one, 0, -1, transactional=True, origin="COORDINATOR") == told


@pytest.mark.parametrize("release", ["3.7", "3.8", "4.3"])
@pytest.mark.parametrize("error", ["CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR"])
def test_a_groups_coordinator_gets_the_coordinators_answer_as_it_is(
    error: str, release: str
) -> None:
    """ReplicaManager.maybeStartTransactionVerificationForPartition; from 3.8 on handleProduceAppend
    alone translates."""
    one = leader(release, verification=True)
    assert one.verdict(error, api_version=11) == "NOT_ENOUGH_REPLICAS"
    asked: dict[str, Any] = {"origin": "COORDINATOR", "api_version": 4}
    assert one.verdict(error, **asked) == ("NOT_ENOUGH_REPLICAS" if release == "3.7" else error)
    assert one.verdict("PRODUCER_FENCED", **asked) == IPE
    assert one.verdict("NONE", **asked) == "NONE"


@pytest.mark.parametrize(("origin", "first"), [("CLIENT", 11), ("COORDINATOR", 4)])
def test_a_client_before_transaction_abortable_is_told_the_error_before_it(
    origin: str, first: int
) -> None:
    """AddPartitionsToTxnManager, for Produce and TxnOffsetCommit."""
    one = leader("4.3", verification=True)
    assert one.verdict("TRANSACTION_ABORTABLE", origin=origin) == "TRANSACTION_ABORTABLE"
    for version, told in ((first, "TRANSACTION_ABORTABLE"), (first - 1, BAD_STATE)):
        told_by = one.verdict("TRANSACTION_ABORTABLE", origin=origin, api_version=version)
        assert told_by == told


@pytest.mark.parametrize(("release", "told"), [("3.9", "NOT_ENOUGH_REPLICAS"), ("4.0.0", BUSY)])
def test_produce_has_a_version_for_version_2_since_4_0(release: str, told: str) -> None:
    """ReplicaManager.handleProduceAppend"""
    one = leader(release, verification=True)
    assert one.verdict(BUSY, api_version=12) == told


# Where a batch comes from ----------------------------------------------------------------------


@pytest.mark.parametrize(("release", "told"), [("2.0", "NONE"), ("2.5", IPE), ("4.3", IPE)])
def test_epochs_of_what_a_coordinator_appends_are_checked_from_25_on(
    release: str, told: str
) -> None:
    """Before, validation was for batches of clients (ValidationType.None)."""
    one = leader(release)
    assert append(one, 5, 0) == "NONE"
    assert append(one, 4, 0) == IPE
    assert append(one, 4, -1, origin="COORDINATOR") == told


@pytest.mark.parametrize(("release", "kept"), [("2.0", 1), ("2.5", 2), ("4.3", 2)])
def test_a_follower_refused_markers_until_25(release: str, kept: int) -> None:
    """KAFKA-9144."""
    first = Batch("marker", 0, 0, ID, 5, coordinator_epoch=2)
    for refused in (first._replace(producer_epoch=4), first._replace(coordinator_epoch=1)):
        one = leader(release)
        one.replicate([first, refused._replace(base_offset=1, last_offset=1)])
        assert len(one.batches) == kept


def test_records_without_sequence_are_counted_as_well() -> None:
    """DefaultRecordBatch.lastSequence: a batch of offsets has a length, but no sequences."""
    one = leader("4.3")
    answer = one.append(
        producer_id=ID,
        producer_epoch=0,
        base_sequence=-1,
        count=3,
        transactional=True,
        origin="COORDINATOR",
    )
    assert (answer.first_offset, answer.last_offset, one.log_end_offset) == (0, 2, 3)
    assert [batch.last_sequence for batch in one.producers[ID].batch_metadata] == [-1]


# Markers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_a_marker_that_ends_nothing(release: str) -> None:
    """KAFKA-10702: before 2.8 it completed a transaction of itself alone."""
    one = leader(release)
    answer = marker(one, 0)
    assert answer.error == "NONE"
    if release in OLD:
        assert tuple(answer.completed_txn) == (ID, 0, 0, True)
        assert [tuple(txn) for txn in one.aborted(0, 1)] == [(ID, 0, 0, 1)]
        assert one.first_unstable_offset == 0
    else:
        assert answer.completed_txn is None
        assert (one.aborted(0, 1), one.first_unstable_offset) == ((), None)
    one.move_high_watermark(1)
    assert (one.first_unstable_offset, one.last_stable_offset) == (None, 1)


@pytest.mark.parametrize(
    ("release", "epoch", "expiring", "known"),
    [
        ("2.0", 0, 0, True),  # as old as its batch
        ("2.0", 0, DAY - 1000, False),
        ("2.0", 1, 0, False),  # no batch in its epoch
        ("2.5", 0, DAY - 1000, True),
        ("2.5", 1, DAY - 1, True),
        ("4.3", 1, DAY - 1, True),
        ("4.3", 1, DAY, False),
    ],
)
def test_a_marker_counts_as_use_from_25_on(
    release: str, epoch: int, expiring: int, known: bool
) -> None:
    """KAFKA-9144, ProducerStateManager.isProducerExpired."""
    one = leader(release, now_ms=DAY)
    assert append(one, 0, 0, transactional=True) == "NONE"
    one.now_ms = DAY + 1000
    assert marker(one, epoch).error in ("NONE", IPE)
    one.now_ms += expiring
    one.remove_expired_producers()
    assert (ID in one.producers) == known


# What is deleted, and what is loaded -----------------------------------------------------------


@pytest.mark.parametrize("way", ["delete", "reload", "reopen"])
def test_before_24_producers_go_with_their_records(way: str) -> None:
    """KAFKA-7190, ProducerStateManager.isProducerRetained."""
    for release, known in (("2.0", {1}), ("2.5", {ID, 1}), ("4.3", {ID, 1})):
        one = leader(release)
        assert append(one, 0, 0, transactional=True) == "NONE"
        assert append(one, 0, 0, producer_id=1) == "NONE"
        one.move_high_watermark(2)
        if way == "delete":
            one.delete_records(1)
        else:
            one.machine.put(log_start_offset=1)
            if way == "reload":
                one.producer_state_manager.truncate_and_reload(1, 2)
            else:
                one.reopen()
        assert set(one.producers) == known, release
        one.move_high_watermark(2)
        assert one.last_stable_offset == (2 if known == {1} else 1)


@pytest.mark.parametrize("offset", [1, 9])
def test_the_high_watermark_goes_to_the_end_of_a_log_that_starts_anew(offset: int) -> None:
    """UnifiedLog.truncateFullyAndStartAt."""
    one = leader("4.3")
    one.append_plain(4)
    one.move_high_watermark(3)
    one.truncate_fully(offset)
    assert (one.high_watermark, one.last_stable_offset) == (offset, offset)


def snapshots(one: PartitionLeader) -> list[int]:
    return [snapshot.offset for snapshot in one.producer_state_manager.snapshots]


@pytest.mark.parametrize("unreplicated", [False, True])
def test_a_producer_that_has_expired_does_not_come_back_by_truncation(unreplicated: bool) -> None:
    """UnifiedLog.rebuildProducerState: where nothing was known, nothing is read again."""
    one = leader("4.3")
    assert append(one, 0, 0) == "NONE"
    one.append_plain(3)
    one.now_ms += DAY
    if unreplicated:
        txn = {"producer_id": 1, "transactional": True}
        assert append(one, 0, 0, **txn) == "NONE"
        one.append_marker(producer_id=1, producer_epoch=1, result="ABORT", timestamp=0)
    one.remove_expired_producers()
    assert one.producers == {}
    one.truncate(3)
    assert set(one.producers) == ({ID} if unreplicated else set())
    assert snapshots(one) == [3]


def test_a_recovered_log_has_a_snapshot_at_each_segment_and_at_its_end() -> None:
    """LogLoader.recoverSegment: they have the newest batch of each producer, and no expired one."""
    one = leader("4.3", now_ms=DAY)
    assert [append(one, 0, sequence) for sequence in (0, 1)] == ["NONE"] * 2
    assert append(one, 0, 0, producer_id=1, timestamp=0) == "NONE"
    one.roll()
    assert append(one, 0, 0, producer_id=2, transactional=True) == "NONE"
    one.append_marker(producer_id=2, producer_epoch=1, result="ABORT")
    index = one.aborted(0, 9)
    one.reopen(clean=False)
    assert (snapshots(one), one.segments, one.log_end_offset) == ([3, 5], [0, 3], 5)
    assert set(one.producers) == {ID, 2}
    assert [batch.last_offset for batch in one.producers[ID].batch_metadata] == [1]
    assert len(one.batches) == 5
    assert one.aborted(0, 9) == index != ()
    assert append(one, 0, 0) == "OUT_OF_ORDER_SEQUENCE_NUMBER"  # a duplicate no longer known
    assert append(one, 0, 2) == "NONE"


def test_retention_rolls_before_it_deletes_the_last_segment() -> None:
    """UnifiedLog.deleteSegments: the new one starts with a snapshot."""
    one = leader("4.3")
    assert append(one, 0, 0) == "NONE"
    one.roll()
    assert append(one, 0, 1) == "NONE"
    one.delete_segments(2)
    assert one.segments == [0, 1]  # nothing is replicated
    one.move_high_watermark(2)
    one.delete_segments(2)
    assert (one.segments, one.log_start_offset, snapshots(one)) == ([2], 2, [2])
    one.delete_segments(1)
    assert one.segments == [2]  # an empty last one stays
    assert append(one, 0, 2) == "NONE"


def test_a_marker_that_is_not_in_the_index_is_in_the_log() -> None:
    """UnifiedLog.append: the last stable offset stays, and the directory is offline, so that no
    append follows until the broker starts again (LogDirFailureChannel)."""
    one = leader("4.3")
    assert append(one, 0, 0, transactional=True) == "NONE"
    one.index_fails = True
    assert marker(one, 1).error == "KAFKA_STORAGE_ERROR"
    assert (one.log_end_offset, one.producer_state_manager.map_end_offset) == (2, 1)
    assert one.first_unstable_offset == 0
    one.index_fails = False
    for made in (one, one.copy()):
        answer = made.append(producer_id=1, producer_epoch=0, base_sequence=0, count=1)
        assert (answer.error, answer.first_offset) == ("KAFKA_STORAGE_ERROR", -1)
        assert marker(made, 1).error == "KAFKA_STORAGE_ERROR"
        assert made.log_end_offset == 2
    one.reopen(clean=False)
    assert append(one, 0, 0, producer_id=1) == "NONE"
    one.move_high_watermark(3)
    assert (one.last_stable_offset, len(one.aborted(0))) == (3, 1)


@pytest.mark.parametrize("release", ["3.6", "3.9", "4.4"])
def test_verification_may_be_switched_off_at_runtime(release: str) -> None:
    """DynamicProducerStateManagerConfig: the batch that waits for an answer needs no guard now, and
    removes it as it is appended."""
    one = leader(release, verification=True)
    batch: dict[str, Any] = {"producer_id": ID, "producer_epoch": 0, "base_sequence": 0}
    batch["transaction_version"] = 0
    asked = one.maybe_start_transaction_verification(**batch)
    assert asked.guard is not None
    assert one.append(**batch, count=1, transactional=True).error == "INVALID_TXN_STATE"
    one.enable_verification(enabled=False)
    assert one.append(**batch, count=1, transactional=True).error == "NONE"
    assert one.machine.at("verification_states", ID) is None
    one.enable_verification(enabled=True)
    assert marker(one, 1).error == "NONE"
    again = one.append(
        producer_id=ID, producer_epoch=1, base_sequence=1, count=1, transactional=True,
        transaction_version=0, guard=asked.guard,
    )  # fmt: skip
    assert again.error == "INVALID_TXN_STATE"


@pytest.mark.parametrize(("release", "version", "asks"), [
    ("3.9", 0, False), ("4.0.1", 0, False), ("4.0.1", 2, True), ("4.4", 2, True),
])  # fmt: skip
def test_version_2_adds_the_partition_even_without_verification(
    release: str, version: int, *, asks: bool
) -> None:
    """ReplicaManager.maybeSendPartitionsToTransactionCoordinator. No batch needs a guard."""
    one = leader(release, verification=False)
    batch: dict[str, Any] = {"producer_id": ID, "producer_epoch": 0, "base_sequence": 0}
    asked = one.maybe_start_transaction_verification(**batch, transaction_version=version)
    assert (asked.error, asked.guard is not None) == ("NONE", asks)
    taken = one.append(**batch, count=1, transactional=True, transaction_version=version)
    assert (taken.error, taken.first_offset) == ("NONE", 0)
    again = one.maybe_start_transaction_verification(**batch, transaction_version=version)
    assert again.guard is None  # the transaction is open
