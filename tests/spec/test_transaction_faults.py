"""Each property of the transaction protocol fails where what protects it is missing, and known
bugs of Kafka are found where they were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import if_, instantiate, lost, some, without_first
from epochfence.spec.client import state as client
from epochfence.spec.coordinator import entry as coordinator
from epochfence.spec.leader import state as leader
from epochfence.spec.messages import (
    NO_EPOCH,
    AddPartitionsByLeaderResponse,
    Produce,
    ProduceResponse,
    producer,
)
from epochfence.spec.properties.transactions.transactions import PROPERTIES
from epochfence.spec.releases.api_versions import VERSION_1
from epochfence.spec.releases.features import BEFORE
from epochfence.spec.systems import shipped
from epochfence.tests.model.counterexamples import checked
from epochfence.tests.spec import faults
from epochfence.tests.spec.alterations import altered

SYSTEM = shipped("transactions")


@dataclass(frozen=True)
class Fault(faults.Fault):
    """A fault of the system, or the feature that is `missing`. Features that are `off` belong to
    the protocol.

    `holds_without`: of the unaltered system it holds with the same protocol and bounds. (With the
    newest protocol everything holds, which is tested once for all.)
    """

    missing: str = ""
    holds_without: bool = False
    slow: bool = False


def found(fault: Fault) -> Result:
    """The one property checked; a run may end anywhere (docs/findings.md, 8)."""
    off = [*fault.off, *filter(None, [fault.missing])]
    system, properties = fault.system or SYSTEM, [fault.breaks]
    instance = instantiate(
        system, fault.protocol, fault.constants, switch_off=off, properties=properties
    )
    return checked(replace(instance, terminal=instance.terminal | True))


def cases(faults: Iterable[Fault]) -> list[Any]:
    """The faults as a test's parameters."""
    return [
        pytest.param(fault, marks=[pytest.mark.slow] if fault.slow else [], id=str(fault))
        for fault in faults
    ]


def assert_breaks(fault: Fault) -> list[str]:
    """Checks what is claimed; answers the steps, each as event and row."""
    steps = fault.assert_found(found(fault))
    if fault.holds_without:
        sound = replace(fault, system=None, missing="")
        assert found(sound).verdict is Verdict.HOLDS
    return steps


KINDS = (
    "losses", "crashes", "timeouts", "expiries", "failovers", "append_failures", "id_expiries",
    "delays", "leader_changes",
)  # fmt: skip


def bounds(
    producers: int = 1, partitions: int = 1, transactions: int = 1, faults: int = 0, **kinds: int
) -> dict[str, int]:
    """Constants, with these kinds of faults alone."""
    return {
        "producers": producers,
        "partitions": partitions,
        "transactions": transactions,
        "faults": faults,
        **dict.fromkeys(KINDS, 0),
        **kinds,
    }


lost_answer = lost(ProduceResponse)
NEW_SEQUENCE = Produce(
    producer=producer.this,
    partition=lost_answer.partition,
    producer_id=client.producer_id,
    producer_epoch=client.producer_epoch,
    base_sequence=client.next_sequence[lost_answer.partition],
    record=0,
    txn=client.txn.value,
)
_waited = leader.waiting[AddPartitionsByLeaderResponse.producer].value
WAITED = leader.producers[_waited.producer_id]

FAULTS = (
    Fault(
        "a batch that is sent again takes a new sequence",
        "NoDuplicate", 12, "Produce/append", bounds(faults=1, losses=1),
        altered(SYSTEM, table="producer.lost ProduceResponse", row="requeued",
                send=(NEW_SEQUENCE,)),
    ),
    Fault(
        "the leader doesn't remember a transaction's first batch",
        "NoDuplicate", 12, "Produce/append", bounds(faults=1, losses=1),
        altered(SYSTEM, table="partition.AddPartitionsByLeaderResponse", row="append",
                updates={WAITED.batch_metadata: WAITED.batch_metadata}),
        slow=True,
    ),
    Fault(
        "the leader acknowledges what it hasn't written",
        "NoLostAcknowledgement", 16, "EndTxnResponse/ended-new-epoch", bounds(),
        altered(SYSTEM, table="partition.AddPartitionsByLeaderResponse", row="append",
                updates={leader.log: leader.log}),
    ),
    Fault(
        "a timeout doesn't bump the epoch (KAFKA-6119)",
        "Atomic", 33, "WriteTxnMarkers/end-transaction",
        bounds(partitions=2, faults=1, timeouts=1),
        protocol=BEFORE, missing="timeout_bumps_epoch", holds_without=True,
    ),
    Fault(
        "a leader takes a late marker (KAFKA-19446)",
        "Atomic", 41, "WriteTxnMarkers/end-transaction",
        bounds(partitions=2, transactions=2, faults=1, delays=1),
        missing="strict_marker_epoch", slow=True,
    ),
    Fault(
        "a leader takes a late marker (KAFKA-19446)",
        "OutcomeAsReported", 28, "WriteTxnMarkers/end-transaction",
        bounds(transactions=2, faults=1, delays=1), missing="strict_marker_epoch",
    ),
    Fault(
        "a leader takes an older epoch's batch",
        "Order", 31, "Produce/append", bounds(producers=2, transactions=2),
        altered(SYSTEM, table="partition.Produce", row="stale-epoch", when=False),
        BEFORE, holds_without=True,
    ),
    Fault(
        "InitProducerId gives the current epoch to a new producer",
        "OneLiveEpoch", 8, "InitProducerIdResponse/ready", bounds(producers=2),
        altered(SYSTEM, table="transaction.InitProducerId", row="increment-epoch",
                updates={coordinator.pending_epoch: if_(
                    coordinator.producer_epoch == NO_EPOCH, 0, coordinator.producer_epoch)}),
    ),
    Fault(
        "a leader takes a coordinator's late answer (KAFKA-14402)",
        "NoHangingTransaction", 21, "WriteTxnMarkersResponse/written",
        bounds(faults=1, expiries=1),
        altered(SYSTEM, table="partition.AddPartitionsByLeaderResponse",
                row="guard-mismatch", when=False),
        off=VERSION_1, holds_without=True,
    ),
    Fault(
        "the coordinator adds a partition for an older epoch",
        "ZombieFenced", 13, "AddPartitionsByLeaderResponse/append", bounds(producers=2),
        altered(SYSTEM, table="transaction.AddPartitionsByLeader", row="other-epoch", when=False),
    ),
    Fault(
        "a repeated marker cuts off the head of the log",
        "ReadCommittedStays", 19, "WriteTxnMarkers/no-transaction",
        bounds(faults=1, losses=1),
        altered(SYSTEM, table="partition.WriteTxnMarkers", row="no-transaction",
                updates={leader.log: without_first(leader.log)}),
    ),
    Fault(
        "a transaction opens at the marker before it",
        "StableOffsetForward", 26, "AddPartitionsByLeaderResponse/append", bounds(transactions=2),
        altered(SYSTEM, table="partition.AddPartitionsByLeaderResponse", row="append",
                updates={WAITED.current_txn_first_offset: some(
                    if_(leader.log_end_offset > 0, leader.log_end_offset - 1, 0))}),
    ),
    Fault(
        "a leader takes an older epoch's marker",
        "EpochForward", 35, "WriteTxnMarkers/no-transaction",
        bounds(transactions=2, faults=1, delays=1),
        altered(SYSTEM, table="partition.WriteTxnMarkers", row="stale-epoch", when=False),
    ),
    Fault(
        "the end at the last epoch is answered with the pair before (KAFKA-18660)",
        "ReservedEpoch", 32, "EndTxnResponse/ended-new-epoch",
        bounds(largest_epoch=2, producer_ids=2, transactions=2), missing="overflow_answered",
    ),
    Fault(
        "the log doesn't keep the next producer id (KAFKA-20310)",
        "AnswerStands", 33, "EndTxnResponse/ended-new-epoch",
        bounds(largest_epoch=2, producer_ids=2, transactions=2, faults=1, failovers=1),
        missing="rotation_in_log",
    ),
    Fault(
        "InitProducerId bumps whatever epoch is expected (KIP-360)",
        "BumpedOnce", 26, "InitProducerIdResponse/ready",
        bounds(faults=2, losses=1, expiries=1), missing="expected_epoch", protocol=BEFORE,
        holds_without=True,
    ),
    Fault(
        "an id that is unknown makes a client ask for a new one (KAFKA-18019)",
        "FencedForGood", 18, "InitProducerIdResponse/ready",
        bounds(producers=2, faults=1, id_expiries=1, producer_ids=2), protocol="3.6",
    ),
    Fault(
        "a bump that is asked for again counts as a stale producer's (KIP-360)",
        "NotFencedByItself", 25, "InitProducerIdResponse/fenced",
        bounds(faults=2, expiries=1, losses=1),
        altered(SYSTEM, table="transaction.InitProducerId", row="retry-of-bump", when=False),
        "2.7", holds_without=True,
    ),
    Fault(
        "a fence that can't be written takes another epoch each time (KAFKA-9666)",
        "EpochsNotWasted", 15, "continue the fence/abort-with-fence-epoch",
        bounds(producers=2, faults=2, append_failures=1),
        protocol="2.7", missing="failed_fence_kept", holds_without=True,
    ),
    Fault(
        "what a fence took, and could not write, is left out (KAFKA-9666)",
        "EpochsInTurn", 16, "log append/abort-prepared",
        bounds(producers=2, faults=1, append_failures=1),
        protocol="2.7", missing="failed_fence_kept", holds_without=True,
    ),
    Fault(
        "a fence takes an epoch, and its abort another (KAFKA-19367)",
        "OneEpochForADecision", 13, "log append/abort-prepared", bounds(producers=2),
        protocol="4.0.1", missing="single_fence_bump", holds_without=True,
    ),
    Fault(
        "an abort behind a timeout is fenced, as that took two epochs (KAFKA-19367)",
        "NotFencedByItself", 17, "EndTxnResponse/fenced", bounds(faults=1, timeouts=1),
        protocol="4.0.1", missing="single_fence_bump", holds_without=True,
    ),
    Fault(
        "InitProducerId doesn't wait for a commit in progress",
        "DeclaredTransitions", 17, "log append/initialized", bounds(producers=2),
        altered(SYSTEM, table="transaction.InitProducerId", row="prepared",
                when=False),
    ),
    Fault(
        "a leader takes a late marker (KAFKA-19446)",
        "MarkersMatchDecision", 28, "WriteTxnMarkers/end-transaction",
        bounds(transactions=2, faults=1, delays=1), missing="strict_marker_epoch",
    ),
)  # fmt: skip


def test_every_property_has_a_fault_that_breaks_it() -> None:
    assert {fault.breaks for fault in FAULTS} == {item.name for item in PROPERTIES}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", cases(FAULTS))
def test_a_property_fails_where_its_protection_is_missing(fault: Fault) -> None:
    assert_breaks(fault)


# Known bugs of the protocol before version 2 ---------------------------------------------------

EXPIRED_BATCH = "batch expires/first-attempt-abortable"
MARKER = "WriteTxnMarkers/end-transaction"
EXPIRED = bounds(transactions=2, faults=1, expiries=1)
DELAYED = bounds(partitions=2, transactions=2, faults=1, delays=1)
NO_BUMP = altered(SYSTEM, table="producer.EndTxnResponse", row="ended", goto=client.READY, send=())
# Where a marker can be overtaken, that makes the shorter counterexample.
ORDERLY_MARKERS = altered(
    SYSTEM, table="transaction.marker overtaken", row="send-again", when=False
)


def place(steps: list[str], step: str, nth: int = 1) -> int:
    """Where a step is taken for the nth time."""
    return [at for at, name in enumerate(steps) if name == step][nth - 1]


def assert_adopted(fault: Fault, arrival: str) -> None:
    """The record arrives once its own transaction has ended at its leader."""
    steps = assert_breaks(fault)
    assert place(steps, EXPIRED_BATCH) < place(steps, "EndTxn/prepare")
    ended = next(at for at, step in enumerate(steps) if step.startswith("WriteTxnMarkers/"))
    assert ended < place(steps, arrival)


@pytest.mark.slow(1)
@pytest.mark.long
def test_a_late_record_is_adopted_by_the_next_transaction() -> None:
    """KIP-890 (b). The client's new epoch doesn't help: the leader hasn't heard of it."""
    late = Fault("", "OutcomeAsReported", 35, MARKER, EXPIRED, protocol=BEFORE)
    assert_adopted(late, "Produce/append")


@pytest.mark.slow
@pytest.mark.long
def test_a_verified_late_record_is_adopted_if_the_client_keeps_its_epoch() -> None:
    """KIP-890 (b). With verification, the client's new epoch after the abort does help."""
    late = Fault(
        "", "OutcomeAsReported", 34, MARKER, EXPIRED, NO_BUMP, off=VERSION_1, holds_without=True
    )
    assert_adopted(late, "AddPartitionsByLeader/verify-added")


LATE_END = (
    Fault("read though aborted", "OutcomeAsReported", 31, MARKER, DELAYED, ORDERLY_MARKERS, BEFORE),
    Fault("lost though acknowledged", "NoLostAcknowledgement", 43, "EndTxnResponse/ended", DELAYED,
          ORDERLY_MARKERS, BEFORE),
    Fault("torn", "Atomic", 47, MARKER, DELAYED, ORDERLY_MARKERS, BEFORE, slow=True),
    Fault("read though aborted, verified", "OutcomeAsReported", 33, MARKER, DELAYED,
          ORDERLY_MARKERS, off=VERSION_1, slow=True),
    Fault("lost though acknowledged, verified", "NoLostAcknowledgement", 45, "EndTxnResponse/ended",
          DELAYED, ORDERLY_MARKERS, off=VERSION_1, slow=True),
    Fault("torn, verified", "Atomic", 51, MARKER, DELAYED, ORDERLY_MARKERS, off=VERSION_1,
          slow=True),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", cases(LATE_END))
def test_a_late_end_txn_ends_the_next_transaction(fault: Fault) -> None:
    """KIP-890 (c). Verification doesn't help: no batch is late, the request that ends them is."""
    steps = assert_breaks(fault)
    second = place(steps, "beginTransaction/begin", 2)
    assert place(steps, "request overtaken/end-again") < second < place(steps, "EndTxn/prepare", 2)
