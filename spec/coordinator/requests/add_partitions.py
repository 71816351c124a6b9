"""AddPartitionsToTxn at the coordinator, from a client and from a leader that verifies a batch.

Before version 2 a client asks for partitions to be added, and since 3.6 a leader asks whether a
partition is in the transaction. With version 2 the leader asks for it to be added.
"""

from __future__ import annotations

from ....language import Expression, Row, Sending, Table, if_, set_of, some
from ...messages import (
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    Errors,
    answer_on,
    clock,
    connection,
    now,
    producer,
    transaction,
)
from ...releases.features import (
    abortable_error,
    pending_first,
    transaction_version_2,
    verification,
)
from .. import entry


def answer(error: Expression) -> Sending:
    """The response to a client. It goes out only while the connection of the request is open."""
    return answer_on(
        connection.at(AddPartitionsToTxn.producer),
        AddPartitionsToTxnResponse,
        AddPartitionsToTxn.connection,
        producer=AddPartitionsToTxn.producer,
        partition=AddPartitionsToTxn.partition,
        error=error,
    )


add_partitions = Table(
    transaction,
    on=AddPartitionsToTxn,
    others=(producer, clock),
    source="TransactionCoordinator.handleAddPartitionsToTransaction",
    rows=(
        Row(
            "unknown-id",
            "The coordinator doesn't know the transactional id",
            when=entry.is_absent,
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "pending",
            "The record of another transition is being appended",
            when=entry.pending.is_set,
            during=pending_first,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
            source="KAFKA-18660",
        ),
        Row(
            "other-producer-id",
            "The entry has another producer id",
            when=AddPartitionsToTxn.producer_id != entry.producer_id,
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "other-epoch",
            "The entry has another epoch",
            when=AddPartitionsToTxn.producer_epoch != entry.producer_epoch,
            reply=answer(entry.fenced),
        ),
        Row(
            "pending-same-epoch",
            "The record of another transition is being appended, of the same epoch",
            when=entry.pending.is_set,
            during=~pending_first,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "prepared",
            "The transaction is ending",
            when=entry.is_prepared,
            reply=answer(Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "already-added",
            "The transaction has these partitions",
            when=(entry.state == entry.ONGOING)
            & ((AddPartitionsToTxn.partitions - entry.partitions) == set_of()),
            reply=answer(Errors.NONE),
        ),
        Row(
            "add",
            "The partitions are added to a new or an open transaction",
            set={
                entry.pending: entry.ONGOING,
                entry.pending_partitions: entry.partitions | AddPartitionsToTxn.partitions,
                entry.pending_start_timestamp: if_(
                    entry.is_settled, now, entry.txn_start_timestamp
                ),
                entry.pending_update_timestamp: now,
                entry.pending_version: AddPartitionsToTxn.client_transaction_version,
                entry.adding_for[AddPartitionsToTxn.producer]: AddPartitionsToTxn.partitions,
                entry.asked_by[AddPartitionsToTxn.producer]: some(AddPartitionsToTxn.connection),
            },
            source="TransactionMetadata.prepareAddPartitions",
        ),
    ),
)

verify_partition = Table(
    transaction,
    on=AddPartitionsByLeader,
    response=AddPartitionsByLeaderResponse,
    others=(clock,),
    during=verification & ~transaction_version_2,
    source="TransactionCoordinator.handleVerifyPartitionsInTransaction",
    rows=(
        Row(
            "verify-unknown-id",
            "The coordinator doesn't know the transactional id",
            when=entry.is_absent,
            reply=AddPartitionsByLeaderResponse(error=Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "verify-other-producer-id",
            "The entry has another producer id",
            when=AddPartitionsByLeader.producer_id != entry.producer_id,
            reply=AddPartitionsByLeaderResponse(error=Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "verify-other-epoch",
            "The entry has another epoch",
            when=AddPartitionsByLeader.producer_epoch != entry.producer_epoch,
            reply=AddPartitionsByLeaderResponse(error=entry.fenced),
        ),
        Row(
            "verify-prepared",
            "The transaction is ending",
            when=entry.is_prepared,
            reply=AddPartitionsByLeaderResponse(error=Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "verify-added",
            "The transaction has the partition",
            when=AddPartitionsByLeader.partition.is_in(entry.partitions),
            reply=AddPartitionsByLeaderResponse(error=Errors.NONE),
        ),
        Row(
            "verify-missing",
            "The transaction doesn't have the partition",
            reply=AddPartitionsByLeaderResponse(
                error=if_(abortable_error, Errors.TRANSACTION_ABORTABLE, Errors.INVALID_TXN_STATE)
            ),
        ),
    ),
)

add_partition_by_leader = Table(
    transaction,
    on=AddPartitionsByLeader,
    response=AddPartitionsByLeaderResponse,
    others=(clock,),
    during=transaction_version_2,
    source="TransactionCoordinator.handleAddPartitionsToTransaction",
    rows=(
        Row(
            "unknown-id",
            "The coordinator doesn't know the transactional id",
            when=entry.is_absent,
            reply=AddPartitionsByLeaderResponse(error=Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "pending",
            "The record of another transition is being appended",
            when=entry.pending.is_set,
            during=pending_first,
            reply=AddPartitionsByLeaderResponse(error=Errors.CONCURRENT_TRANSACTIONS),
            source="KAFKA-18660",
        ),
        Row(
            "other-producer-id",
            "The entry has another producer id",
            when=AddPartitionsByLeader.producer_id != entry.producer_id,
            reply=AddPartitionsByLeaderResponse(error=Errors.INVALID_PRODUCER_ID_MAPPING),
        ),
        Row(
            "other-epoch",
            "The entry has another epoch",
            when=AddPartitionsByLeader.producer_epoch != entry.producer_epoch,
            reply=AddPartitionsByLeaderResponse(error=entry.fenced),
        ),
        Row(
            "pending-same-epoch",
            "The record of another transition is being appended, of the same epoch",
            when=entry.pending.is_set,
            during=~pending_first,
            reply=AddPartitionsByLeaderResponse(error=Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "prepared",
            "The transaction is ending",
            when=entry.is_prepared,
            reply=AddPartitionsByLeaderResponse(error=Errors.CONCURRENT_TRANSACTIONS),
        ),
        Row(
            "already-added",
            "The transaction has the partition",
            when=(entry.state == entry.ONGOING)
            & AddPartitionsByLeader.partition.is_in(entry.partitions),
            reply=AddPartitionsByLeaderResponse(error=Errors.NONE),
        ),
        Row(
            "add",
            "The partition is added to a new or an open transaction",
            set={
                entry.pending: entry.ONGOING,
                entry.pending_partitions: entry.partitions
                | set_of(AddPartitionsByLeader.partition),
                entry.pending_start_timestamp: if_(
                    entry.is_settled, now, entry.txn_start_timestamp
                ),
                entry.pending_update_timestamp: now,
                entry.pending_version: 2,
                entry.adding_for[AddPartitionsByLeader.producer]: set_of(
                    AddPartitionsByLeader.partition
                ),
            },
            source="TransactionMetadata.prepareAddPartitions",
        ),
    ),
)

# An event has one table, of both methods: KafkaApis.handleAddPartitionsToTxnRequest calls one of
# them, by the request's verifyOnly.
add_partitions_by_leader = Table(
    transaction,
    on=AddPartitionsByLeader,
    response=AddPartitionsByLeaderResponse,
    others=(clock,),
    rows=(*verify_partition.rows, *add_partition_by_leader.rows),
)
