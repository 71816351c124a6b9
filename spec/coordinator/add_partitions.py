"""AddPartitionsToTxn at the coordinator, from a client and from a leader that verifies a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ...language import Expression, Message, Row, Sending, Table, if_, only, set_of
from ..messages import (
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
from ..releases.features import (
    abortable_error,
    pending_first,
    transaction_version_2,
    verification,
)
from . import entry

_NOTHING: Mapping[Expression, Expression] = MappingProxyType({})


def adding(wanted: Expression, version: Expression | int) -> dict[Expression, Expression | int]:
    """The updates that prepare an addition of partitions."""
    return {
        entry.pending: entry.ONGOING,
        entry.pending_partitions: entry.partitions | wanted,
        **entry.dated(if_(entry.is_settled, now, entry.txn_start_timestamp), version),
    }


def add_partitions_rows(
    request: Message, *, answer: Callable[[Expression], Sending], wanted: Expression,
    all_there: Expression, version: Expression | int,
    asks: Mapping[Expression, Expression] = _NOTHING,
) -> tuple[Row, ...]:  # fmt: skip
    """The rows of every form of the request: a client's, a leader's, for one partition or many.

    `wanted` is the set of partitions, `all_there` says that the transaction has them, `asks` is who
    waits for the record.
    """
    source = "TransactionCoordinator.handleAddPartitionsToTransaction"
    busy = answer(Errors.CONCURRENT_TRANSACTIONS)
    unknown, other = entry.same_producer(request, answer, source)
    return (
        unknown,
        Row(
            "transition in progress",
            when=entry.pending.is_set,
            during=pending_first,
            reply=busy,
            source="KAFKA-18660",
        ),
        other,
        Row(
            "other epoch",
            when=request.producer_epoch != entry.producer_epoch,
            reply=answer(entry.fenced),
            source=source,
        ),
        Row(
            "transition in progress, same epoch",
            when=entry.pending.is_set,
            during=~pending_first,
            reply=busy,
            source=source,
        ),
        Row("commit or abort in progress", when=entry.is_prepared, reply=busy, source=source),
        Row(
            "already added",
            when=(entry.state == entry.ONGOING) & all_there,
            reply=answer(Errors.NONE),
            source=source,
        ),
        Row(
            "add",
            set={
                entry.adding_for[request.producer]: wanted,
                **adding(wanted, version),
                **asks,
            },
            source="TransactionMetadata.prepareAddPartitions",
        ),
    )


def _add_answer(error: Expression) -> Sending:
    request = AddPartitionsToTxn
    return answer_on(
        connection.at(request.producer), AddPartitionsToTxnResponse, request.connection,
        producer=request.producer, partition=request.partition, error=error,
    )  # fmt: skip


add_partitions = Table(
    transaction,
    on=AddPartitionsToTxn,
    others=(producer, clock),
    rows=add_partitions_rows(
        AddPartitionsToTxn,
        answer=_add_answer,
        asks=entry.asks(AddPartitionsToTxn),
        wanted=AddPartitionsToTxn.partitions,
        all_there=(AddPartitionsToTxn.partitions - entry.partitions) == set_of(),
        version=AddPartitionsToTxn.client_transaction_version,
    ),
)


def _leader_answer(error: Expression) -> Sending:
    return AddPartitionsByLeaderResponse(error=error)


_VERIFY = "TransactionCoordinator.handleVerifyPartitionsInTransaction"
_verify_only = only(
    verification & ~transaction_version_2,
    *entry.same_producer(AddPartitionsByLeader, _leader_answer, _VERIFY, "verify, "),
    Row(
        "verify, other epoch",
        when=AddPartitionsByLeader.producer_epoch != entry.producer_epoch,
        reply=_leader_answer(entry.fenced),
        source=_VERIFY,
    ),
    Row(
        "verify, commit or abort in progress",
        when=entry.is_prepared,
        reply=_leader_answer(Errors.CONCURRENT_TRANSACTIONS),
        source=_VERIFY,
    ),
    Row(
        "verify, in the transaction",
        when=AddPartitionsByLeader.partition.is_in(entry.partitions),
        reply=_leader_answer(Errors.NONE),
        source=_VERIFY,
    ),
    Row(
        "verify, not in the transaction",
        reply=_leader_answer(
            if_(abortable_error, Errors.TRANSACTION_ABORTABLE, Errors.INVALID_TXN_STATE)
        ),
        source=_VERIFY,
    ),
)

add_partitions_by_leader = Table(
    transaction,
    on=AddPartitionsByLeader,
    response=AddPartitionsByLeaderResponse,
    others=(clock,),
    rows=_verify_only
    + only(
        transaction_version_2,
        *add_partitions_rows(
            AddPartitionsByLeader,
            answer=_leader_answer,
            wanted=set_of(AddPartitionsByLeader.partition),
            all_there=AddPartitionsByLeader.partition.is_in(entry.partitions),
            version=2,
        ),
    ),
)
