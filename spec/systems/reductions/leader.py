"""Reductions of the machines of a partition leader."""

from __future__ import annotations

from ....language import (
    Expression,
    Row,
    all_of,
    any_of,
    count_of,
    element,
    if_,
    position,
    set_of,
    size,
    some,
)
from ....language.instances.reductions import (
    Before,
    Canonical,
    LeftOut,
    Never,
    NotOffered,
    Reduction,
    StandsFor,
)
from ...answers import awaits, compares_offsets
from ...leader import markers, produce, recovery, verification
from ...leader import state as leader
from ...leader.state import e, log, n, orphaned, start_offset
from ...messages import (
    DELETIONS,
    NO_OFFSET,
    NO_TIMESTAMP,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    Errors,
    Produce,
    ProduceResponse,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    partition,
    waiting,
)
from ...releases.features import state_outlives_records

_CHECK = "tests/spec/test_leader_refinement.py"
_TIMES = "tests/spec/test_time_refinement.py"
_ONE_RECORD = "A batch of a system is one record."
_NO_TIME = "A system has no time."
_FROM_CLIENTS = "The batches of a system come from its clients."
_CALLERS = "The leaders of a system answer clients and coordinators through the network."
_KEPT_BY_BROKER = "The broker that drives the machine keeps the batches, and has offsets alone."
_SENT_BY_BROKER = "The broker that drives the machine sends this."
waiting_batch = waiting[AddPartitionsByLeaderResponse.producer]

# The log ----------------------------------------------------------------------------------------

_READ = (
    "StableOffsetForward",
    "ReadCommittedStays",
    "FiltersAborted",
)
"""The properties that read the last stable offset."""

LOG: tuple[Reduction, ...] = (
    StandsFor(
        leader.log_end_offset,
        size(log),
        because="The log of a system is a sequence of batches, and an offset is a place in it.",
        refined_by=_CHECK,
        read_by=_READ,
    ),
    StandsFor(
        leader.high_watermark,
        leader.log_end_offset,
        because="A record is replicated as soon as it is appended: `replication` has the replicas.",
        refined_by=_CHECK,
        read_by=_READ,
    ),
    StandsFor(
        leader.first_unstable_offset,
        some(count_of(e, all_of(n, start_offset.is_set.implies(position(e) < start_offset.value)))),
        because="The log and the entries of the producers say where the first open transaction "
        "starts.",
        refined_by=_CHECK,
        read_by=_READ,
    ),
)

# Produce ----------------------------------------------------------------------------------------

PRODUCE: tuple[Reduction, ...] = (
    StandsFor(Produce.last_sequence, Produce.base_sequence, because=_ONE_RECORD, refined_by=_CHECK),
    StandsFor(Produce.offset_delta, 0, because=_ONE_RECORD, refined_by=_CHECK),
    StandsFor(Produce.timestamp, NO_TIMESTAMP, because=_NO_TIME, refined_by=_CHECK),
    StandsFor(Produce.from_client, True, because=_FROM_CLIENTS, refined_by=_CHECK),
    StandsFor(Produce.from_coordinator, False, because=_FROM_CLIENTS, refined_by=_CHECK),
    StandsFor(Produce.beneath_log, False, because=_FROM_CLIENTS, refined_by=_CHECK),
    LeftOut(produce.AppendResponse, because=_CALLERS, refined_by=_CHECK),
    LeftOut(
        ProduceResponse,
        when=~awaits(
            ProduceResponse.producer,
            ProduceResponse.partition,
            ProduceResponse.record,
            ProduceResponse.txn,
        ),
        because="Nobody waits for the answer any more: its client would drop it.",
        refined_by=_CHECK,
    ),
    Canonical(
        ProduceResponse.base_offset,
        NO_OFFSET,
        when=~compares_offsets,
        because="A client compares offsets before KIP-360 alone.",
        refined_by=_CHECK,
    ),
    Canonical(
        ProduceResponse.log_start_offset,
        NO_OFFSET,
        when=~compares_offsets,
        because="A client compares offsets before KIP-360 alone.",
        refined_by=_CHECK,
    ),
)

# The question to the coordinator ----------------------------------------------------------------

_ONE_BATCH = "The leader of a system keeps the batch that waits for the answer."

VERIFICATION: tuple[Reduction, ...] = (
    StandsFor(
        leader.guards,
        0,
        because="A batch that waits says whether its question still counts.",
        refined_by=_CHECK,
    ),
    StandsFor(
        leader.verification_enabled,
        True,
        because="A broker's operator doesn't switch verification off: a feature of the release "
        "says whether it's there.",
        refined_by=_CHECK,
    ),
    StandsFor(
        AddPartitionsByLeaderResponse.producer_id,
        waiting_batch.value.producer_id,
        because=_ONE_BATCH,
        refined_by=_CHECK,
    ),
    StandsFor(
        AddPartitionsByLeaderResponse.producer_epoch,
        waiting_batch.value.producer_epoch,
        because=_ONE_BATCH,
        refined_by=_CHECK,
    ),
    StandsFor(
        AddPartitionsByLeaderResponse.base_sequence,
        waiting_batch.value.base_sequence,
        because=_ONE_BATCH,
        refined_by=_CHECK,
    ),
    StandsFor(
        AddPartitionsByLeaderResponse.last_sequence,
        waiting_batch.value.base_sequence,
        because=_ONE_RECORD,
        refined_by=_CHECK,
    ),
    StandsFor(
        AddPartitionsByLeaderResponse.guarded,
        waiting_batch.value.guarded,
        because=_ONE_BATCH,
        refined_by=_CHECK,
    ),
    StandsFor(
        AddPartitionsByLeaderResponse.offset_delta, 0, because=_ONE_RECORD, refined_by=_CHECK
    ),
    StandsFor(
        AddPartitionsByLeaderResponse.timestamp,
        NO_TIMESTAMP,
        because=_NO_TIME,
        refined_by=_CHECK,
    ),
    StandsFor(
        AddPartitionsByLeaderResponse.from_client, True, because=_FROM_CLIENTS, refined_by=_CHECK
    ),
)
VERIFIED: tuple[Reduction, ...] = (
    Before(
        "partition.AddPartitionsByLeaderResponse/producer-fenced",
        (
            Row(
                "earlier-leader",
                "An earlier leader asked: nobody waits for the answer",
                when=verification.answer.producer.is_in(orphaned),
                set={orphaned: orphaned - set_of(verification.answer.producer)},
                during=leader.asks_coordinator,
                source="AddPartitionsToTxnManager.AddPartitionsToTxnHandler.onComplete",
            ),
        ),
        because="The network of a system has the answers to an earlier leader, too.",
        refined_by=_CHECK,
    ),
    Never(
        "partition.AddPartitionsByLeaderResponse/abortable-unknown",
        because="The coordinator of a system is of the leader's release.",
        refined_by=_CHECK,
    ),
)

# WriteTxnMarkers --------------------------------------------------------------------------------


def _has_unended(producer_id: Expression) -> Expression:
    """Whether the log has a record of this producer id whose transaction no marker has ended."""
    left, later = element("left", log), element("later", log)
    ends = (later.kind != leader.Kind.DATA) & (later.producer_id == producer_id)
    return any_of(
        left,
        (left.kind == leader.Kind.DATA)
        & (left.producer_id == producer_id)
        & ~any_of(later, (position(later) > position(left)) & ends),
    )


MARKERS: tuple[Reduction, ...] = (
    StandsFor(WriteTxnMarkers.timestamp, NO_TIMESTAMP, because=_NO_TIME, refined_by=_CHECK),
    StandsFor(
        WriteTxnMarkers.is_replicated,
        False,
        because="The markers of a system come from its coordinator.",
        refined_by=_CHECK,
    ),
    LeftOut(markers.MarkerResponse, because=_CALLERS, refined_by=_CHECK),
    Before(
        "partition.WriteTxnMarkers/empty-transaction",
        (
            Row(
                "end-deleted-transaction",
                "The marker ends a transaction whose producer was forgotten with its records",
                when=(DELETIONS > 0) & _has_unended(WriteTxnMarkers.producer_id),
                set={
                    log: markers.log_with_marker,
                    leader.log_end_offset: leader.log_end_offset + 1,
                    markers.entry.producer_epoch: WriteTxnMarkers.producer_epoch,
                    markers.entry.batch_metadata: markers.batches_of_epoch,
                    markers.entry.coordinator_epoch: WriteTxnMarkers.coordinator_epoch,
                    markers.entry.last_timestamp: markers.last_timestamp,
                    markers.verification_state: if_(
                        markers.keeps_verification_state, markers.verification_state, None
                    ),
                    waiting: markers.waiting_after,
                },
                reply=markers.markers_response(Errors.NONE),
                send=(markers.MarkerResponse(error=Errors.NONE, first_offset=None),),
                during=~state_outlives_records,
                source="ProducerAppendInfo.appendEndTxnMarker, "
                "ProducerStateManager.truncateHead before 2.4",
            ),
        ),
        because="The log of a system has no marker that ends nothing. This one keeps the deleted "
        "records apart from those of the next transaction.",
        refined_by=_CHECK,
    ),
)

# Errors -----------------------------------------------------------------------------------------

ERRORS: tuple[Reduction, ...] = (
    LeftOut(
        Errors,
        because="Coordinators and leaders answer with the first errors of the list alone.",
        refined_by=_CHECK,
    ),
)
"""A system whose brokers answer its clients."""

# Time -------------------------------------------------------------------------------------------

EXPIRED_PRODUCER = StandsFor(
    recovery.is_producer_expired,
    True,
    because="A system has no time: a leader may forget an idle producer at any moment.",
    refined_by=_TIMES,
)
EXPIRED_QUESTION = StandsFor(
    recovery.is_question_expired,
    True,
    because="A system has no time: a leader may forget its question at any moment.",
    refined_by=_TIMES,
)

IDEMPOTENT = (*ERRORS, *LOG, *PRODUCE, *VERIFICATION, EXPIRED_PRODUCER)
"""A leader of partitions without transactions."""
LEADER: tuple[Reduction, ...] = (
    *ERRORS,
    *LOG,
    *PRODUCE,
    *VERIFICATION,
    EXPIRED_PRODUCER,
    EXPIRED_QUESTION,
    NotOffered(
        partition,
        Produce,
        when=produce.needs_verification
        & (waiting[Produce.producer].is_set | Produce.producer.is_in(orphaned)),
        because="A system keeps one batch of a client that waits for the coordinator. The next one "
        "stays in the network until the leader has the answer.",
        refined_by="tests/spec/test_groups_refinement.py",
    ),
)
"""A leader of partitions with transactions."""

LEADER_ALONE: tuple[Reduction, ...] = (
    LeftOut(log, because=_KEPT_BY_BROKER),
    LeftOut(waiting, because=_KEPT_BY_BROKER),
    LeftOut(orphaned, because="The answers to an earlier leader don't reach the machine."),
    LeftOut(Produce.producer, because=_SENT_BY_BROKER),
    LeftOut(Produce.partition, because="The machine is the leader of one partition."),
    LeftOut(Produce.record, because=_KEPT_BY_BROKER),
    LeftOut(Produce.txn, because=_KEPT_BY_BROKER),
    LeftOut(ProduceResponse, because=_SENT_BY_BROKER),
    LeftOut(AddPartitionsByLeader, because=_SENT_BY_BROKER),
    LeftOut(WriteTxnMarkers.partition, because="The machine is the leader of one partition."),
    LeftOut(WriteTxnMarkers.connection, because=_SENT_BY_BROKER),
    LeftOut(WriteTxnMarkersResponse, because=_SENT_BY_BROKER),
)
"""A leader at real ranges."""
