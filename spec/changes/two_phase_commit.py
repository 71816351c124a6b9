"""KIP-939: transactions that a database, or whoever decides, has prepared and that outlive their
client.

Clients are participants of two-phase commit: their transactions don't time out, and an instance
that starts keeps what is open (initTransactions(true), InitProducerId version 6). The coordinator
then leaves it open under its own epoch, which its markers follow, and gives the new instance the
next one: the client's epoch, by which the transaction is ended, under a new producer id where
epochs are used up. That instance asks the database, and commits what was prepared and decided so;
it aborts everything else. An operator may abort what the database has given up. The broker's half
is in no release (TransactionCoordinator answers UNSUPPORTED_VERSION); it is declared as KIP-939 and
pull request 21735 have it. Not declared: a record that is in the log although its append has
failed, where a transaction is kept.
"""

from __future__ import annotations

import dataclasses

from ...language import (
    Bool,
    Expression,
    Machine,
    Optional,
    Row,
    Sending,
    Table,
    after,
    any_of,
    event,
    feature,
    if_,
    lift,
    minimum,
    some,
    step_property,
    to_each,
)
from ...language.expressions import Operand
from ...language.variants import Variant
from ..client import state as client
from ..coordinator import entry
from ..coordinator.add_partitions import add_partitions_by_leader, adding
from ..coordinator.end_txn import end_txn, fence_continues
from ..coordinator.entry import c
from ..coordinator.failover import failover, fails_over, fails_over_late, late_failover
from ..coordinator.init_producer_id import init_producer_id
from ..coordinator.log import (
    NOBODY_ASKS,
    NOTHING_PENDING,
    RECORDS,
    append_fails,
    append_failure,
    begin_completion,
    completion_begins,
    log_append,
    log_appended,
    logged_epoch,
    unsettled,
)
from ..messages import (
    EPOCH,
    LARGEST_EPOCH,
    NO_EPOCH,
    PRODUCER,
    PRODUCER_ID,
    TRANSACTION,
    TRANSACTIONS,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    EndTxn,
    EndTxnResponse,
    Errors,
    InitProducerId,
    InitProducerIdResponse,
    Result,
    answer_on,
    connection,
    offered_id,
    producer,
    transaction,
)
from ..releases.features import last_epoch_in_log, rotation_in_log, two_phase_commit

prepared_kept = feature(
    "prepared_kept",
    None,
    sentence="InitProducerId with keepPreparedTxn leaves an open transaction open, and gives its "
    "sender the next epoch to end it with.",
    source="KIP-939, pull request 21735",
)
kept_epoch_in_log = feature(
    "kept_epoch_in_log",
    None,
    sentence="That next epoch is in the transaction log (NextProducerEpoch).",
    source="KIP-939, TransactionLogValue",
)
database_fences = feature(
    "database_fences",
    None,
    sentence="A database accepts nothing from a client that a newer one has replaced.",
    source="KIP-939, which leaves that to the database",
)

database = Machine(
    "database", doc="An application that decides on a transaction that takes part in its own."
)
prepared = database.field(
    "prepared",
    Optional(TRANSACTION),
    doc="The transaction that a client has prepared: PreparedTxnState.",
)
decision = database.field("decision", Optional(Result))
kept = Machine("kept", doc="The fields that KIP-939 adds to the coordinator's entry.")
client_epoch = kept.field(
    "client_epoch", EPOCH, NO_EPOCH,
    doc="The connection of the instance that keeps the open transaction; none, if nobody does.",
)  # fmt: skip
client_id = kept.field(
    "client_id", Optional(PRODUCER_ID), doc="Its producer id, where the transaction has another."
)
logged_client_epoch = kept.field(
    "logged_client_epoch", EPOCH, NO_EPOCH, doc="As the log's last record has it."
)
logged_client_id = kept.field("logged_client_id", Optional(PRODUCER_ID))
pending_client_epoch = kept.field("pending_client_epoch", EPOCH, NO_EPOCH)
pending_client_id = kept.field("pending_client_id", Optional(PRODUCER_ID))

prepare_transaction = event("prepareTransaction")
decide = event("database decides", commit=Bool())
force_terminate = event(
    "forceTerminateTransaction",
    event_doc="An operator aborts what its database has given up.",
)

i = PRODUCER.variable("i")
_KIP = "KIP-939"
_is_kept = client_epoch != NO_EPOCH
_client_id = if_(client_id.is_set, client_id.value, entry.producer_id)
_keeps = _is_kept & (client.producer_epoch == client_epoch) & (client.producer_id == _client_id)
_is_newest = (
    (entry.state == entry.ONGOING)
    & ~entry.pending.is_set
    & ~_is_kept
    & (client.producer_epoch == entry.producer_epoch)
    & (client.producer_id == entry.producer_id)
)
_facing = if_(_is_kept, client_epoch, entry.producer_epoch)
_used_up = _facing >= LARGEST_EPOCH - 1
_no_id = ~offered_id.is_set
_may_keep = (entry.state == entry.ONGOING) & ~entry.pending.is_set
_is_keeping = pending_client_epoch != NO_EPOCH
_NOT_KEEPING: dict[Expression, Operand] = {pending_client_epoch: NO_EPOCH, pending_client_id: None}
_next_id = if_(entry.next_id.is_set, entry.next_id.value, _client_id)
_next_epoch = if_(entry.next_id.is_set, 0, client_epoch + 1)
_AFTER_END: dict[Expression, Operand] = {
    entry.producer_id: _next_id,
    entry.producer_epoch: _next_epoch,
    logged_epoch: _next_epoch,
    entry.last_producer_epoch: client_epoch,
    entry.previous_id: some(_client_id),
    client_epoch: NO_EPOCH,
    client_id: None,
    logged_client_epoch: NO_EPOCH,
    logged_client_id: None,
}
_ENDS_KEPT: dict[Expression, Operand] = {
    entry.pending_epoch: minimum(entry.producer_epoch + 1, LARGEST_EPOCH),
    entry.pending_last_epoch: entry.producer_epoch,
    entry.next_id: if_(_used_up, offered_id, None),
    offered_id: if_(_used_up, entry.ID_TAKEN[offered_id], offered_id),
}
"""The updates that prepare an end if an instance keeps the transaction: markers have the epoch
after that of the transaction, and the client gets the one after its own, or a new producer id."""


def _row(table: Table, name: str) -> Row:
    return next(row for row in table.rows if row.id == name)


def _tell_keeper(error: Expression, epoch: Operand, when: Expression) -> Sending:
    """The answer to whose InitProducerId keeps the transaction."""
    return to_each(
        c,
        when & (entry.asked_by[c] == connection.at(c)),
        InitProducerIdResponse(
            producer=c, error=error, connection=connection.at(c),
            producer_id=if_(pending_client_id.is_set, pending_client_id.value, entry.producer_id),
            producer_epoch=epoch,
        ),
    )  # fmt: skip


# The client and the database --------------------------------------------------------------------

_OF_CLIENTS = (
    Table(
        producer,
        on=prepare_transaction,
        others=(database, transaction, kept),
        when=(client.state == client.IN_TRANSACTION)
        & client.settled
        & client.started
        & ~prepared.is_set
        & ~_keeps
        & (_is_newest | ~database_fences),
        rows=(
            Row(
                "prepared",
                set={prepared: client.txn},
                source="KafkaProducer.prepareTransaction, TransactionManager.prepareTransaction",
            ),
        ),
    ),
    Table(
        database,
        on=decide,
        when=prepared.is_set & ~decision.is_set,
        rows=(
            Row(
                "decided",
                set={decision: some(if_(decide.commit, Result.COMMIT, Result.ABORT))},
                source=_KIP,
            ),
        ),
    ),
    Table(
        producer,
        on=InitProducerIdResponse,
        others=(transaction, kept),
        rows=(
            Row(
                "the open transaction is kept",
                when=(InitProducerIdResponse.connection == connection)
                & (InitProducerIdResponse.error == Errors.NONE)
                & (client.state == client.INITIALIZING)
                & _is_kept
                & (client_epoch == InitProducerIdResponse.producer_epoch)
                & (_client_id == InitProducerIdResponse.producer_id)
                & (entry.state == entry.ONGOING),
                goto=client.IN_TRANSACTION,
                set={
                    client.producer_id: InitProducerIdResponse.producer_id,
                    client.producer_epoch: InitProducerIdResponse.producer_epoch,
                    **client.NEW_SEQUENCES,
                    client.txn: some(0),
                    client.added: entry.partitions,
                },
                source="TransactionManager.InitProducerIdHandler, State.PREPARED_TRANSACTION",
                note="Whether there is one is in the response (OngoingTxnProducerId).",
            ),
        ),
    ),
)

# The coordinator ---------------------------------------------------------------------------------


def _refused(name: str, when: Expression, error: Expression) -> Row:
    answer = answer_on(
        connection.at(EndTxn.producer), EndTxnResponse, EndTxn.connection,
        producer=EndTxn.producer, error=error, producer_id=entry.producer_id,
        producer_epoch=NO_EPOCH,
    )  # fmt: skip
    return Row(name, when=_is_kept & when, reply=answer, source=_KIP)


_wanted = if_(EndTxn.result == Result.COMMIT, entry.PREPARE_COMMIT, entry.PREPARE_ABORT)
_ended = _row(completion_begins, "answer and send markers")


def _completed(name: str) -> Row:
    row = _row(log_appended, name)
    return dataclasses.replace(
        row,
        id=f"{name}, and the client's epoch with it",
        name="",
        when=row.guard & _is_kept,
        set={**row.set, **_AFTER_END},
    )


def _found(row: Row, is_new: Expression) -> Row:
    """A row of a failover, with what the log says of the client's producer id and epoch: what is
    prepared, where that record is new in it."""
    epoch = if_(kept_epoch_in_log, if_(is_new, pending_client_epoch, logged_client_epoch), NO_EPOCH)
    found = if_(kept_epoch_in_log, if_(is_new, pending_client_id, logged_client_id), None)
    more: dict[Expression, Operand] = {
        client_epoch: epoch,
        client_id: found,
        logged_client_epoch: epoch,
        logged_client_id: found,
        **_NOT_KEEPING,
    }
    if "completed" in row.id:
        found_then = {
            **_AFTER_END,
            entry.last_producer_epoch: if_(last_epoch_in_log, client_epoch, NO_EPOCH),
            entry.previous_id: if_(rotation_in_log, some(_client_id), None),
        }
        more |= {
            each: if_(_is_kept, at, row.set.get(each, each)) for each, at in found_then.items()
        }
    return dataclasses.replace(
        row,
        id=f"{row.id}, and what is kept",
        name="",
        set={**row.set, **more},
        send=(*row.send, _tell_keeper(Errors.NOT_COORDINATOR, NO_EPOCH, _is_keeping)),
    )


_KEPT: dict[Expression, Operand] = {
    **adding(entry.partitions, entry.client_transaction_version),
    **entry.asks(InitProducerId),
}

_OF_COORDINATORS = (
    Table(
        transaction,
        on=InitProducerId,
        others=(*init_producer_id.others, kept),
        rows=(
            Row(
                "keep the open transaction",
                when=_may_keep & ~_used_up,
                during=prepared_kept,
                set=_KEPT
                | {
                    pending_client_epoch: minimum(_facing + 1, LARGEST_EPOCH),
                    pending_client_id: client_id,
                },
                source=f"{_KIP}, TransactionMetadata.prepareIncrementProducerEpochForOngoing",
            ),
            Row(
                "no producer id to keep it under",
                when=_may_keep & _no_id,
                during=prepared_kept,
                reply=answer_on(
                    connection.at(InitProducerId.producer),
                    InitProducerIdResponse,
                    InitProducerId.connection,
                    producer=InitProducerId.producer,
                    error=entry.no_id_error,
                    producer_id=entry.producer_id,
                    producer_epoch=NO_EPOCH,
                ),
                source=entry.NEW_ID,
            ),
            Row(
                "keep the open transaction under a new producer id",
                when=_may_keep,
                during=prepared_kept,
                set=_KEPT
                | entry.ID_TAKEN
                | {pending_client_epoch: 0, pending_client_id: offered_id},
                source=f"{_KIP}, NextProducerId and NextProducerEpoch",
            ),
        ),
    ),
    Table(
        transaction,
        on=log_append,
        others=(*log_appended.others, kept),
        rows=(
            Row(
                "open transaction kept",
                when=(entry.pending == entry.ONGOING) & _is_keeping,
                goto=entry.ONGOING,
                set={**NOTHING_PENDING, **RECORDS[entry.ONGOING], **NOBODY_ASKS, unsettled: None}
                | {
                    client_epoch: pending_client_epoch,
                    client_id: pending_client_id,
                    logged_client_epoch: pending_client_epoch,
                    logged_client_id: pending_client_id,
                    **_NOT_KEEPING,
                },
                send=(_tell_keeper(Errors.NONE, pending_client_epoch, _is_keeping),),
                source=_KIP,
            ),
            _completed("commit completed"),
            _completed("abort completed"),
        ),
    ),
    Table(
        transaction,
        on=EndTxn,
        others=(*end_txn.others, kept),
        rows=(
            _refused(
                "kept, transition in progress", entry.in_transition, Errors.CONCURRENT_TRANSACTIONS
            ),
            _refused(
                "kept by another",
                (EndTxn.producer_epoch != client_epoch) | (EndTxn.producer_id != _client_id),
                entry.fenced,
            ),
            _refused(
                "no producer id to end what is kept",
                (entry.state == entry.ONGOING) & _used_up & _no_id,
                entry.no_id_error,
            ),
            Row(
                "end what is kept",
                when=_is_kept & (entry.state == entry.ONGOING),
                set={entry.pending: _wanted, **_ENDS_KEPT, **entry.ENDED, **entry.asks(EndTxn)},
                source=f"{_KIP}, TransactionMetadata.prepareAbortOrCommit",
            ),
            _refused(
                "kept, end in progress", entry.state == _wanted, Errors.CONCURRENT_TRANSACTIONS
            ),
            _refused("kept, other end in progress", entry.is_prepared, Errors.INVALID_TXN_STATE),
        ),
    ),
    Table(
        transaction,
        on=begin_completion,
        others=(*completion_begins.others, kept),
        rows=(
            dataclasses.replace(
                _ended,
                id="answer with the client's next epoch and send markers",
                name="",
                when=_is_kept,
                send=(
                    *_ended.send[:1],
                    to_each(
                        c,
                        entry.asked_by[c] == connection.at(c),
                        EndTxnResponse(
                            producer=c,
                            error=Errors.NONE,
                            connection=connection.at(c),
                            producer_id=_next_id,
                            producer_epoch=_next_epoch,
                        ),
                    ),
                ),
            ),
        ),
    ),
    Table(
        transaction,
        on=AddPartitionsByLeader,
        others=(*add_partitions_by_leader.others, kept),
        response=AddPartitionsByLeaderResponse,
        rows=(
            Row(
                "kept by a newer instance",
                when=_is_kept,
                reply=AddPartitionsByLeaderResponse(error=entry.fenced),
                source=_KIP,
            ),
        ),
    ),
    Table(
        transaction,
        on=failover,
        others=(*fails_over.others, kept),
        rows=tuple(_found(row, _is_keeping & failover.record_kept) for row in fails_over.rows),
    ),
    Table(
        transaction,
        on=late_failover,
        others=(*fails_over_late.others, kept),
        rows=tuple(_found(row, lift(False)) for row in fails_over_late.rows),
    ),
    Table(
        transaction,
        on=force_terminate,
        others=(database, kept, producer),
        when=(entry.state == entry.ONGOING)
        & ~entry.pending.is_set
        & ~entry.fence_to_come
        & (decision == some(Result.ABORT))
        & ~any_of(i, client.txn.at(i).is_set),
        rows=(
            Row(
                "fence the prepared transaction",
                set=entry.fence_with(entry.fence_epoch),
                source="KafkaAdminClient.forceTerminateTransaction, InitProducerId",
            ),
        ),
    ),
    Table(
        transaction,
        on=entry.continue_fence,
        others=(*fence_continues.others, kept),
        rows=(
            Row(
                "no producer id to abort what is kept",
                when=_is_kept & entry.fencing & _used_up & _no_id,
                set={entry.pending: None, entry.fence_end: None},
                source=entry.NEW_ID,
                note="The operator may ask again.",
            ),
            Row(
                "abort what is kept",
                when=_is_kept & entry.fencing,
                set={
                    entry.pending: entry.PREPARE_ABORT,
                    entry.fence_end: None,
                    **_ENDS_KEPT,
                    **entry.ENDED,
                },
                source="TransactionMetadata.prepareAbortOrCommit",
            ),
        ),
    ),
    Table(
        transaction,
        on=append_failure,
        others=(*append_fails.others, kept),
        rows=(
            dataclasses.replace(
                _row(append_fails, "forget the transition"),
                id="forget the transition, and what was to be kept",
                name="",
                when=_is_keeping,
                set={**_row(append_fails, "forget the transition").set, **_NOT_KEEPING},
                send=(
                    *_row(append_fails, "forget the transition").send,
                    _tell_keeper(Errors.COORDINATOR_NOT_AVAILABLE, NO_EPOCH, _is_keeping),
                ),
            ),
        ),
    ),
)

# What must hold ----------------------------------------------------------------------------------

prepared_stands = step_property(
    "PreparedStands",
    (prepared.is_set & (entry.state == entry.ONGOING) & after(entry.is_prepared)).implies(
        decision
        == some(if_(after(entry.state == entry.PREPARE_COMMIT), Result.COMMIT, Result.ABORT))
    ),
    "A prepared transaction is ended as its database has decided, and not before.",
    _KIP,
)
BROKEN_BY_DESIGN = ("AnswerStands", "EpochsInTurn")
"""An instance that keeps a transaction has an epoch of its own, which the log takes over at the
end."""

variant = Variant(
    "two-phase-commit",
    "Clients take part in two-phase commit (KIP-939): one transaction, which outlives its client.",
    _OF_CLIENTS + _OF_COORDINATORS,
    features=(prepared_kept, kept_epoch_in_log, database_fences),
    only_when={
        "producer.drain": ~_keeps & ~prepared.is_set,
        "producer.commitTransaction": decision == some(Result.COMMIT),
        "producer.abortTransaction": ~prepared.is_set | (decision == some(Result.ABORT)),
        "transaction.transaction timeout": ~lift(two_phase_commit),
        "transaction.append failure": ~append_failure.record_kept | (~_is_keeping & ~_is_kept),
    },
    properties=(prepared_stands,),
    bounds={TRANSACTIONS: 1, LARGEST_EPOCH: 6},
)
