"""A coordinator at real ranges, where releases differ, and what is around its entries."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.model import TransactionCoordinator, TransactionMetadata
from epochfence.model.broker.transactions.coordinator import IllegalArgumentError
from epochfence.model.broker.transactions.marker_channel_manager import IllegalStateError
from epochfence.model.broker.transactions.transaction_metadata import NEW_ENTRY
from epochfence.model.broker.transactions.transaction_state_manager import PENDING
from epochfence.model.engine.errors import ModelError
from epochfence.spec.releases.api_versions import OF_BROKERS
from epochfence.spec.releases.features import RELEASED
from epochfence.tests.conformance.metadata_functions import Functions

NAME = "orders"
KNOWN = NEW_ENTRY._replace(
    transactional_id=NAME, producer_id=7, producer_epoch=3, txn_timeout_ms=1_000
)


def coordinator(release: str, **fields: Any) -> Functions:
    """One that owns the id, with an entry for it if there are fields of one."""
    model = Functions(protocol=release, state_partition_of=lambda _: 0)
    model.elect(0, 5)
    if fields:
        model.put(KNOWN._replace(**fields))
    return model


def entry(model: TransactionCoordinator) -> TransactionMetadata:
    """The entry of the id."""
    found = model.metadata(NAME)
    assert found is not None
    return found


def since(release: str, first: str) -> bool:
    """Whether the release is the first one or a later one."""
    return RELEASED.index(release) >= RELEASED.index(first)


@pytest.mark.parametrize("release", ["4.0.0", "4.3"])
@pytest.mark.parametrize("epoch", [3, 32766])
def test_a_new_epoch_leaves_the_version_as_it_is(release: str, epoch: int) -> None:
    """TransactionMetadata.prepareIncrementProducerEpoch, prepareProducerIdRotation"""
    model = coordinator(release, producer_epoch=epoch, client_transaction_version=2)
    model.init_producer_id(NAME, 1_000)
    assert entry(model).client_transaction_version == 2


@pytest.mark.parametrize("release", ["4.0.0", "4.0.1", "4.1", "4.3"])
def test_an_end_of_version_2_forgets_the_producer_id_before(release: str) -> None:
    """TransactionMetadata.completeTransitionTo"""
    model = coordinator(release, previous_producer_id=6, state="CompleteCommit")
    model.add_partitions(NAME, 7, 3, ["t-0"], api_version=OF_BROKERS)
    model.end_txn(NAME, 7, 3, "COMMIT")
    ((marker,),) = model.drain_markers().values()
    model.markers_answered(marker, {"t-0": "NONE"})
    assert (entry(model).state, entry(model).previous_producer_id) == ("CompleteCommit", 7)


@pytest.mark.parametrize("release", RELEASED)
def test_an_id_whose_first_epoch_is_appended_is_known(release: str) -> None:
    """TransactionCoordinator.handleAddPartitionsToTransaction, KAFKA-18660"""
    model = coordinator(release)
    assert model.init_producer_id(NAME, 1_000, append=PENDING) is None
    busy = "CONCURRENT_TRANSACTIONS"
    told = busy if since(release, "4.0.0") else "INVALID_PRODUCER_ID_MAPPING"
    assert model.add_partitions(NAME, 99, 0, ["t-0"]) == told
    assert model.add_partitions("another", 99, 0, ["t-0"]) == "INVALID_PRODUCER_ID_MAPPING"


@pytest.mark.parametrize("release", RELEASED)
def test_an_id_without_an_epoch_expires_since_3_4(release: str) -> None:
    """TransactionMetadata.prepareTransitionTo"""
    model = coordinator(release)
    model.init_producer_id(NAME, 1_000, append="NOT_ENOUGH_REPLICAS")
    assert entry(model).producer_epoch == -1
    model.now_ms = 604_800_000
    assert [len(batch.transactional_ids) for batch in model.expire()] == [1] * since(release, "3.4")
    assert (model.metadata(NAME) is None) == since(release, "3.4")


@pytest.mark.parametrize(("release", "left"), [("3.3", ["a", "b", "c"]), ("3.4", [])])
def test_an_id_without_an_epoch_ends_the_pass_until_3_4_1(release: str, left: list[str]) -> None:
    """KAFKA-14880: what had been prepared is neither written nor given up, until a failover."""
    model = coordinator(release)
    for name, append in (("a", "NONE"), ("b", "NOT_ENOUGH_REPLICAS"), ("c", "NONE")):
        model.init_producer_id(name, 1_000, append=append)
    model.now_ms = 604_800_000
    model.expire()
    assert [name for name in "abc" if model.metadata(name)] == left
    if left:
        told = [model.init_producer_id(name, 1_000) for name in "ac"]
        assert [answer and answer.error for answer in told] == ["CONCURRENT_TRANSACTIONS", "NONE"]


AT_THE_LARGEST: tuple[tuple[str, dict[str, Any], type[ModelError]], ...] = (
    ("prepare fence", {}, IllegalStateError),
    (
        "prepare abort or commit",
        {"target": "PREPARE_ABORT", "client_transaction_version": 2, "next_producer_id": 8},
        IllegalArgumentError,
    ),
)


@pytest.mark.parametrize(("event", "fields", "error"), AT_THE_LARGEST)
@pytest.mark.parametrize("release", RELEASED)
def test_the_largest_epoch_is_no_obstacle_since_4_3(
    release: str, event: str, fields: dict[str, Any], error: type[ModelError]
) -> None:
    """TransactionMetadata.prepareFenceProducerEpoch, prepareAbortOrCommit; KAFKA-20090"""
    model = coordinator(release, producer_epoch=32767, state="Ongoing", txn_start_timestamp=0)
    if since(release, "4.3"):
        assert model.prepare(NAME, event, **fields) == "NONE"
        assert entry(model).producer_epoch == model.pending_record(NAME).producer_epoch == 32767
    else:
        with pytest.raises(error):
            model.prepare(NAME, event, **fields)


@pytest.mark.parametrize("release", RELEASED)
def test_resigning_ends_what_is_loaded_and_a_load_by_its_epoch(release: str) -> None:
    """TransactionStateManager.removeTransactionsForTxnTopicPartition, KAFKA-18137"""
    for epoch in (4, 5, 6, None):
        model = coordinator(release, state="Empty")
        model.resign(0, epoch)
        assert model.describe(NAME) == ("NOT_COORDINATOR", None)
        model.elect(0, 5, is_loading=True)
        model.resign(0, epoch)
        ends = epoch in ((6, None) if since(release, "4.0.0") else (5, None))
        told = "NOT_COORDINATOR" if ends else "COORDINATOR_LOAD_IN_PROGRESS"
        assert model.describe(NAME) == (told, None)


@pytest.mark.parametrize("release", RELEASED)
def test_a_marker_meets_a_storage_error(release: str) -> None:
    """TransactionMarkerRequestCompletionHandler, KAFKA-9749"""
    ended = {"state": "PrepareAbort", "partitions": frozenset({"t-0"}), "txn_start_timestamp": 0}
    model = coordinator(release, **ended)
    model.send_markers(NAME, 5)
    ((marker,),) = model.drain_markers().values()
    answer = {"t-0": "KAFKA_STORAGE_ERROR"}
    if since(release, "2.5"):
        assert model.markers_answered(marker, answer) == ("RETRY", {"t-0"})
    else:
        with pytest.raises(IllegalStateError):
            model.markers_answered(marker, answer)


@pytest.mark.parametrize("release", RELEASED)
@pytest.mark.parametrize("known", [False, True])
def test_there_is_no_producer_id(release: str, known: bool) -> None:
    """RPCProducerIdManager.generateProducerId, ProducerIdManager.getNewProducerIdBlock"""
    model = coordinator(release, **({"producer_epoch": 32766} if known else {}))
    model.producer_ids = lambda: None
    told = "COORDINATOR_LOAD_IN_PROGRESS" if since(release, "3.0") else "UNKNOWN_SERVER_ERROR"
    assert model.init_producer_id(NAME, 1_000) == (told, -1, -1)
    assert model.init_producer_id(None, 0) == (told, -1, -1)


@pytest.mark.parametrize("release", ["2.0", "2.5", "2.7"])
@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_an_end_under_a_higher_epoch_before_2_6(release: str, result: str) -> None:
    """TransactionCoordinator.handleEndTransaction compares epochs before the append and after it.

    KAFKA-9600
    """
    open_transaction = {"state": "Ongoing", "txn_start_timestamp": 0, "partitions": {"t-0"}}
    model = coordinator(release, **open_transaction)
    told = "PRODUCER_FENCED" if release == "2.7" else "INVALID_PRODUCER_EPOCH"
    assert model.end_txn(NAME, 7, 4, result) == (told, -1, -1)
    if release == "2.7":
        assert entry(model).state == "Ongoing"
        return
    assert (entry(model).state, entry(model).pending_state) == (f"Prepare{result.title()}", None)
    assert model.drain_markers() == {}  # nobody goes on with it
    for again in (model.end_txn(NAME, 7, 3, result), model.init_producer_id(NAME, 1_000)):
        assert again == ("CONCURRENT_TRANSACTIONS", -1, -1)
    model.restart()
    ((marker,),) = model.drain_markers().values()
    assert marker.result == result


def test_an_end_under_a_higher_epoch_that_is_not_appended_is_forgotten() -> None:
    model = coordinator("2.5", state="Ongoing", txn_start_timestamp=0)
    model.end_txn(NAME, 7, 4, "COMMIT", append="COORDINATOR_NOT_AVAILABLE")
    model.now_ms = 2_000
    assert model.abort_timed_out() == [NAME]
    assert entry(model).state == "CompleteAbort"


@pytest.mark.parametrize("release", RELEASED[RELEASED.index("2.5") :])
@pytest.mark.parametrize("expected", [(7, -1), (-1, 3)])
def test_half_of_what_a_producer_holds(release: str, expected: tuple[int, int]) -> None:
    """KafkaApis.handleInitProducerIdRequest"""
    model = coordinator(release, state="Empty")
    assert model.init_producer_id(NAME, 1_000, expected) == ("INVALID_REQUEST", -1, -1)
    assert model.init_producer_id(None, 0, expected) == ("INVALID_REQUEST", -1, -1)


@pytest.mark.parametrize("release", RELEASED)
def test_two_phase_commit(release: str) -> None:
    """TransactionCoordinator.handleInitProducerId, TransactionStateManager.timedOutTransactions"""
    knows = since(release, "4.1")
    model = coordinator(release)
    kept = model.init_producer_id(NAME, 1_000, keep_prepared_txn=True)
    assert kept == (("UNSUPPORTED_VERSION", -1, -1) if knows else ("NONE", 0, 0))
    asked = model.init_producer_id(NAME, 1_000, enable_2pc=True)
    assert asked == (("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", -1, -1) if knows else ("NONE", 0, 1))
    model = TransactionCoordinator(
        protocol=release,
        state_partition_of=lambda _: 0,
        transaction_max_timeout_ms=2**31 - 1,
        transaction_two_phase_commit_enable=True,
    )
    model.elect(0, 5)
    told = ("NONE", 0, 0) if knows else ("INVALID_TRANSACTION_TIMEOUT", -1, -1)
    assert model.init_producer_id(NAME, 0, enable_2pc=True) == told
    assert model.init_producer_id("another", 2**31 - 1) == ("NONE", int(knows), 0)
    model.add_partitions("another", int(knows), 0, ["t-0"])
    model.now_ms = 2**31
    assert model.timed_out() == ([] if knows else ["another"])
    if knows:
        assert entry(model).txn_timeout_ms == 2**31 - 1


@pytest.mark.parametrize("release", RELEASED)
def test_an_empty_entry_that_is_loaded_has_no_start(release: str) -> None:
    """Memory keeps it before 4.1. TransactionMetadata.completeTransitionTo"""
    model = coordinator(release, state="CompleteCommit", txn_start_timestamp=9)
    model.init_producer_id(NAME, 1_000)
    assert entry(model).txn_start_timestamp == (-1 if since(release, "4.1") else 9)
    model.restart()
    assert entry(model).txn_start_timestamp == -1


@pytest.mark.parametrize("release", RELEASED)
def test_a_late_answer_to_a_marker_cancels_the_next_completion_before_3_8(release: str) -> None:
    """TransactionMarkerChannelManager.removeMarkersForTxnId, removeMarkersForTxn; KAFKA-16352"""
    model = coordinator(
        release, state="PrepareCommit", txn_start_timestamp=0, partitions=frozenset({"t-0"})
    )
    model.send_markers(NAME, 5)
    ((late,),) = model.drain_markers().values()
    model.restart()
    ((marker,),) = model.drain_markers().values()
    assert model.markers_answered(late, {"t-0": "NONE"})[0] == "CANCELLED"
    done = since(release, "3.8")
    outcome = model.markers_answered(marker, {"t-0": "NONE"})[0]
    assert outcome == ("COMPLETION_WRITTEN" if done else "WAITING")
    assert entry(model).state == ("CompleteCommit" if done else "PrepareCommit")
