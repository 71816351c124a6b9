"""KIP-939: transactions that a database, or whoever decides, has prepared and that outlive their
client.

Clients are participants of two-phase commit: their transactions don't time out, and an instance
that starts keeps an open one (initTransactions(true), InitProducerId version 6). The coordinator
then leaves it open under its own epoch, which its markers follow, and gives the new instance the
next one: the client's epoch, by which the transaction is ended, under a new producer id where
epochs are used up. That instance asks the database, and commits those that it has decided to;
it aborts everything else. An operator may abort what the database has given up. The broker's half
is in no release (TransactionCoordinator answers UNSUPPORTED_VERSION); it is declared as KIP-939 and
pull request 21735 have it. Pull request 22704 is a feature, which is off. Not declared: a record
that is in the log although its append has failed, where a transaction is kept.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Change,
    Expression,
    Machine,
    Optional,
    Row,
    Sending,
    Table,
    after,
    any_of,
    each,
    event,
    failure,
    feature,
    if_,
    minimum,
    set_of,
    some,
    step_property,
    to_each,
)
from ....language.expressions import Operand
from ...client import state as client
from ...coordinator import entry
from ...coordinator.entry import c
from ...coordinator.state_manager.failover import failover
from ...coordinator.state_manager.log import (
    append_failure,
    logged_epoch,
    logged_partitions,
    unsettled,
)
from ...messages import (
    EPOCH,
    LARGEST_EPOCH,
    NO_EPOCH,
    NO_OFFSET,
    PRODUCER,
    PRODUCER_ID,
    PRODUCER_IDS,
    TRANSACTION,
    TRANSACTIONS,
    AddPartitionsByLeaderResponse,
    EndTxn,
    EndTxnResponse,
    Errors,
    InitProducerId,
    InitProducerIdResponse,
    Result,
    answer_on,
    connection,
    now,
    offered_id,
    producer,
    transaction,
)
from ...releases.features import (
    last_epoch_in_log,
    previous_id_forgotten,
    rotation_in_log,
    two_phase_commit,
)

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
kept_under_own_epoch = feature(
    "kept_under_own_epoch",
    None,
    sentence="InitProducerId with keepPreparedTxn gives its sender the epoch that the open "
    "transaction has, and appends nothing: the other proposal.",
    source="KAFKA-20739, pull request 22704",
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
is_kept = client_epoch != NO_EPOCH
id_of_client = if_(client_id.is_set, client_id.value, entry.producer_id)
keeps = is_kept & (client.producer_epoch == client_epoch) & (client.producer_id == id_of_client)
is_newest = (
    (entry.state == entry.ONGOING)
    & ~entry.pending.is_set
    & ~is_kept
    & (client.producer_epoch == entry.producer_epoch)
    & (client.producer_id == entry.producer_id)
)
facing = if_(is_kept, client_epoch, entry.producer_epoch)
used_up = facing >= LARGEST_EPOCH - 1
no_id = ~offered_id.is_set
may_keep = (entry.state == entry.ONGOING) & ~entry.pending.is_set
is_keeping = pending_client_epoch != NO_EPOCH
next_id = if_(entry.next_id.is_set, entry.next_id.value, id_of_client)
next_epoch = if_(entry.next_id.is_set, 0, client_epoch + 1)
next_id_after_this = if_(offered_id.value < PRODUCER_IDS - 1, some(offered_id.value + 1), None)
wanted = if_(EndTxn.result == Result.COMMIT, entry.PREPARE_COMMIT, entry.PREPARE_ABORT)


# What the log says of the client's epoch and producer id ----------------------------------------

found_epoch = if_(kept_epoch_in_log, logged_client_epoch, NO_EPOCH)
found_id = if_(kept_epoch_in_log, logged_client_id, None)
prepared_epoch = if_(kept_epoch_in_log, pending_client_epoch, NO_EPOCH)
prepared_id = if_(kept_epoch_in_log, pending_client_id, None)


def _tell_keeper(error: Expression, epoch: Operand) -> Sending:
    """The answer to the instance whose InitProducerId keeps the transaction."""
    return to_each(
        c,
        is_keeping & (entry.asked_by[c] == connection.at(c)),
        InitProducerIdResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=if_(pending_client_id.is_set, pending_client_id.value, entry.producer_id),
            producer_epoch=epoch,
        ),
    )


# The events that the proposal adds ----------------------------------------------------------------

_TABLES = (
    Table(
        producer,
        on=prepare_transaction,
        others=(database, transaction, kept),
        when=(client.state == client.IN_TRANSACTION)
        & client.settled
        & client.started
        & ~prepared.is_set
        & ~keeps
        & (is_newest | ~database_fences),
        rows=(
            Row(
                "prepared",
                "The client prepares its transaction, and the database knows of it",
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
                "The database decides on the prepared transaction",
                set={decision: some(if_(decide.commit, Result.COMMIT, Result.ABORT))},
                source=_KIP,
            ),
        ),
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
                "fenced",
                "The prepared transaction is fenced",
                set={
                    entry.pending: entry.PREPARE_EPOCH_FENCE,
                    entry.fence_end: some(
                        entry.FenceEnd(
                            producer_id=entry.producer_id, producer_epoch=entry.fence_epoch
                        )
                    ),
                },
                source="KafkaAdminClient.forceTerminateTransaction, InitProducerId",
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
    failure=failure(
        "the prepared transaction goes to {}, and the decision of its database is {}",
        after(entry.state),
        decision,
    ),
)
two_phase = (
    Change(
        "two-phase-commit",
        "Clients take part in two-phase commit (KIP-939): one transaction, which outlives its "
        "client.",
        tables=_TABLES,
        machines=(database, kept),
        features=(prepared_kept, kept_epoch_in_log, kept_under_own_epoch, database_fences),
        settled={prepared_kept: True, kept_epoch_in_log: True, database_fences: True},
        properties=(prepared_stands,),
        bounds={TRANSACTIONS: 1, LARGEST_EPOCH: 6},
    )
    # an instance that keeps a transaction has an epoch of its own, which the log takes at the end
    .without_properties("AnswerStands", "EpochsInTurn")
    .table("producer.InitProducerIdResponse")
    .before(
        "closed-connection",
        Row(
            "transaction-kept",
            "The open transaction is kept",
            when=(InitProducerIdResponse.connection == connection)
            & (InitProducerIdResponse.error == Errors.NONE)
            & (client.state == client.INITIALIZING)
            & if_(
                kept_under_own_epoch,
                entry.producer_epoch == InitProducerIdResponse.producer_epoch,
                is_kept & (client_epoch == InitProducerIdResponse.producer_epoch),
            )
            & (id_of_client == InitProducerIdResponse.producer_id)
            & (entry.state == entry.ONGOING),
            goto=client.IN_TRANSACTION,
            set={
                client.producer_id: InitProducerIdResponse.producer_id,
                client.producer_epoch: InitProducerIdResponse.producer_epoch,
                client.next_sequence: each(client.q, 0),
                client.last_acked: each(client.q, client.NO_SEQUENCE),
                client.last_acked_offset: each(client.q, NO_OFFSET),
                client.entry_id: each(client.q, client.NO_ID),
                client.entry_epoch: each(client.q, NO_EPOCH),
                client.unresolved: each(client.q, None),
                client.txn: some(0),
                client.added: entry.partitions,
            },
            source="TransactionManager.InitProducerIdHandler, State.PREPARED_TRANSACTION",
            note="Whether there is one is in the response (OngoingTxnProducerId).",
        ),
    )
    .table("producer.drain")
    .only_when(~keeps & ~prepared.is_set)
    .table("producer.commitTransaction")
    .only_when(decision == some(Result.COMMIT))
    .table("producer.abortTransaction")
    .only_when(~prepared.is_set | (decision == some(Result.ABORT)))
    .table("transaction.transaction timeout")
    .only_when(~two_phase_commit)
    .table("transaction.InitProducerId")
    .before(
        "pending",
        Row(
            "kept-under-own-epoch",
            "The open transaction is kept, and its client gets the epoch that it has",
            when=may_keep,
            during=prepared_kept & kept_under_own_epoch,
            reply=answer_on(
                connection.at(InitProducerId.producer),
                InitProducerIdResponse,
                InitProducerId.connection,
                producer=InitProducerId.producer,
                error=Errors.NONE,
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
            ),
            source="KAFKA-20739, pull request 22704",
        ),
        Row(
            "kept",
            "The open transaction is kept, and the next epoch is prepared for its client",
            when=may_keep & ~used_up,
            during=prepared_kept,
            set={
                entry.pending: entry.ONGOING,
                entry.pending_partitions: entry.partitions,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.client_transaction_version,
                entry.asked_by[InitProducerId.producer]: some(InitProducerId.connection),
                pending_client_epoch: minimum(facing + 1, LARGEST_EPOCH),
                pending_client_id: client_id,
            },
            source=f"{_KIP}, TransactionMetadata.prepareIncrementProducerEpochForOngoing",
        ),
        Row(
            "no-id-to-keep-it-under",
            "The epochs are used up, and no producer id is there to keep the transaction under",
            when=may_keep & no_id,
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
            source="RPCProducerIdManager.generateProducerId",
        ),
        Row(
            "kept-under-new-id",
            "The epochs are used up: the open transaction is kept under a new producer id",
            when=may_keep,
            during=prepared_kept,
            set={
                entry.pending: entry.ONGOING,
                entry.pending_partitions: entry.partitions,
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.client_transaction_version,
                entry.asked_by[InitProducerId.producer]: some(InitProducerId.connection),
                offered_id: next_id_after_this,
                pending_client_epoch: 0,
                pending_client_id: offered_id,
            },
            source=f"{_KIP}, NextProducerId and NextProducerEpoch",
        ),
    )
    .table("transaction.log append")
    .before(
        "initialized",
        Row(
            "kept",
            "The next epoch of the client is in the log, and the transaction stays open",
            when=(entry.pending == entry.ONGOING) & is_keeping,
            goto=entry.ONGOING,
            set={
                entry.pending: None,
                entry.pending_id: entry.producer_id,
                entry.pending_epoch: NO_EPOCH,
                entry.pending_last_epoch: NO_EPOCH,
                entry.pending_partitions: set_of(),
                entry.partitions: entry.pending_partitions,
                logged_epoch: entry.producer_epoch,
                logged_partitions: entry.pending_partitions,
                entry.previous_id: if_(
                    previous_id_forgotten, some(entry.producer_id), entry.previous_id
                ),
                entry.txn_start_timestamp: entry.pending_start_timestamp,
                entry.txn_last_update_timestamp: entry.pending_update_timestamp,
                entry.client_transaction_version: entry.pending_version,
                entry.asked_by: each(c, None),
                entry.adding_for: each(c, set_of()),
                unsettled: None,
                client_epoch: pending_client_epoch,
                client_id: pending_client_id,
                logged_client_epoch: pending_client_epoch,
                logged_client_id: pending_client_id,
                pending_client_epoch: NO_EPOCH,
                pending_client_id: None,
            },
            send=(_tell_keeper(Errors.NONE, pending_client_epoch),),
            source=_KIP,
        ),
    )
    .like(
        "commit-completed",
        Row(
            "kept-commit-completed",
            "The commit is completed, and the log takes over the epoch of the client",
            when=is_kept,
            set={
                entry.producer_id: next_id,
                entry.producer_epoch: next_epoch,
                logged_epoch: next_epoch,
                entry.last_producer_epoch: client_epoch,
                entry.previous_id: some(id_of_client),
                client_epoch: NO_EPOCH,
                client_id: None,
                logged_client_epoch: NO_EPOCH,
                logged_client_id: None,
            },
        ),
    )
    .like(
        "abort-completed",
        Row(
            "kept-abort-completed",
            "The abort is completed, and the log takes over the epoch of the client",
            when=is_kept,
            set={
                entry.producer_id: next_id,
                entry.producer_epoch: next_epoch,
                logged_epoch: next_epoch,
                entry.last_producer_epoch: client_epoch,
                entry.previous_id: some(id_of_client),
                client_epoch: NO_EPOCH,
                client_id: None,
                logged_client_epoch: NO_EPOCH,
                logged_client_id: None,
            },
        ),
    )
    .table("transaction.EndTxn")
    .before(
        "unknown-id",
        Row(
            "kept-in-transition",
            "Kept, and another transition is being written",
            when=is_kept & entry.in_transition,
            reply=answer_on(
                connection.at(EndTxn.producer),
                EndTxnResponse,
                EndTxn.connection,
                producer=EndTxn.producer,
                error=Errors.CONCURRENT_TRANSACTIONS,
                producer_id=entry.producer_id,
                producer_epoch=NO_EPOCH,
            ),
            source=_KIP,
        ),
        Row(
            "kept-by-other",
            "Kept by another instance",
            when=is_kept
            & ((EndTxn.producer_epoch != client_epoch) | (EndTxn.producer_id != id_of_client)),
            reply=answer_on(
                connection.at(EndTxn.producer),
                EndTxnResponse,
                EndTxn.connection,
                producer=EndTxn.producer,
                error=entry.fenced,
                producer_id=entry.producer_id,
                producer_epoch=NO_EPOCH,
            ),
            source=_KIP,
        ),
        Row(
            "no-id-to-end-kept",
            "The epochs are used up, and no producer id is there to end what is kept",
            when=is_kept & (entry.state == entry.ONGOING) & used_up & no_id,
            reply=answer_on(
                connection.at(EndTxn.producer),
                EndTxnResponse,
                EndTxn.connection,
                producer=EndTxn.producer,
                error=entry.no_id_error,
                producer_id=entry.producer_id,
                producer_epoch=NO_EPOCH,
            ),
            source=_KIP,
        ),
        Row(
            "kept-ended",
            "The end of what is kept is prepared",
            when=is_kept & (entry.state == entry.ONGOING),
            set={
                entry.pending: wanted,
                # markers have the epoch after that of the transaction
                entry.pending_epoch: minimum(entry.producer_epoch + 1, LARGEST_EPOCH),
                entry.pending_last_epoch: entry.producer_epoch,
                # the client gets the epoch after its own, or a new producer id
                entry.next_id: if_(used_up, offered_id, None),
                offered_id: if_(used_up, next_id_after_this, offered_id),
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.entry_version,
                entry.asked_by[EndTxn.producer]: some(EndTxn.connection),
            },
            source=f"{_KIP}, TransactionMetadata.prepareAbortOrCommit",
        ),
        Row(
            "kept-ending",
            "Kept, and this end is in progress",
            when=is_kept & (entry.state == wanted),
            reply=answer_on(
                connection.at(EndTxn.producer),
                EndTxnResponse,
                EndTxn.connection,
                producer=EndTxn.producer,
                error=Errors.CONCURRENT_TRANSACTIONS,
                producer_id=entry.producer_id,
                producer_epoch=NO_EPOCH,
            ),
            source=_KIP,
        ),
        Row(
            "kept-ending-otherwise",
            "Kept, and the other end is in progress",
            when=is_kept & entry.is_prepared,
            reply=answer_on(
                connection.at(EndTxn.producer),
                EndTxnResponse,
                EndTxn.connection,
                producer=EndTxn.producer,
                error=Errors.INVALID_TXN_STATE,
                producer_id=entry.producer_id,
                producer_epoch=NO_EPOCH,
            ),
            source=_KIP,
        ),
    )
    .table("transaction.begin completion")
    .before(
        "send-markers",
        Row(
            "kept-answered",
            "The client is answered with its next epoch, and markers are sent",
            when=is_kept,
            set={
                entry.pending: if_(
                    entry.state == entry.PREPARE_COMMIT,
                    entry.COMPLETE_COMMIT,
                    entry.COMPLETE_ABORT,
                ),
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.client_transaction_version,
                entry.asked_by: each(c, None),
                entry.fenced_for: if_(entry.fence_to_come, entry.fenced_for, each(c, None)),
            },
            send=(
                to_each(
                    c,
                    ~entry.fence_to_come & (entry.fenced_for[c] == connection.at(c)),
                    InitProducerIdResponse(
                        producer=c,
                        error=Errors.CONCURRENT_TRANSACTIONS,
                        connection=connection.at(c),
                        producer_id=entry.producer_id,
                        producer_epoch=NO_EPOCH,
                    ),
                ),
                to_each(
                    c,
                    entry.asked_by[c] == connection.at(c),
                    EndTxnResponse(
                        producer=c,
                        error=Errors.NONE,
                        connection=connection.at(c),
                        producer_id=next_id,
                        producer_epoch=next_epoch,
                    ),
                ),
            ),
            source="TransactionCoordinator.endTransaction, after the Prepare record",
        ),
    )
    .table("transaction.AddPartitionsByLeader")
    .before(
        "verify-unknown-id",
        Row(
            "kept-by-newer",
            "Kept by a newer instance",
            when=is_kept,
            reply=AddPartitionsByLeaderResponse(error=entry.fenced),
            source=_KIP,
        ),
    )
    .table("transaction.coordinator failover")
    .also(
        set={
            client_epoch: if_(is_keeping & failover.record_kept, prepared_epoch, found_epoch),
            client_id: if_(is_keeping & failover.record_kept, prepared_id, found_id),
            logged_client_epoch: if_(
                is_keeping & failover.record_kept, prepared_epoch, found_epoch
            ),
            logged_client_id: if_(is_keeping & failover.record_kept, prepared_id, found_id),
            pending_client_epoch: NO_EPOCH,
            pending_client_id: None,
        },
        send=(_tell_keeper(Errors.NOT_COORDINATOR, NO_EPOCH),),
    )
    .like(
        "completed-commit-in-log",
        Row(
            "kept-commit-found",
            "The completed commit is in the log, with the epoch of the client",
            when=is_kept,
            set={
                entry.producer_id: next_id,
                entry.producer_epoch: next_epoch,
                logged_epoch: next_epoch,
                entry.last_producer_epoch: if_(last_epoch_in_log, client_epoch, NO_EPOCH),
                entry.previous_id: if_(rotation_in_log, some(id_of_client), None),
                client_epoch: NO_EPOCH,
                client_id: None,
                logged_client_epoch: NO_EPOCH,
                logged_client_id: None,
            },
        ),
    )
    .like(
        "completed-abort-in-log",
        Row(
            "kept-abort-found",
            "The completed abort is in the log, with the epoch of the client",
            when=is_kept,
            set={
                entry.producer_id: next_id,
                entry.producer_epoch: next_epoch,
                logged_epoch: next_epoch,
                entry.last_producer_epoch: if_(last_epoch_in_log, client_epoch, NO_EPOCH),
                entry.previous_id: if_(rotation_in_log, some(id_of_client), None),
                client_epoch: NO_EPOCH,
                client_id: None,
                logged_client_epoch: NO_EPOCH,
                logged_client_id: None,
            },
        ),
    )
    .table("transaction.coordinator failover after a failed append")
    .also(
        set={
            client_epoch: found_epoch,
            client_id: found_id,
            logged_client_epoch: found_epoch,
            logged_client_id: found_id,
            pending_client_epoch: NO_EPOCH,
            pending_client_id: None,
        },
        send=(_tell_keeper(Errors.NOT_COORDINATOR, NO_EPOCH),),
    )
    .table("transaction.continue the fence")
    .before(
        "unknown-id",
        Row(
            "no-id-to-abort-kept",
            "The epochs are used up, and no producer id is there to abort what is kept",
            when=is_kept & entry.fencing & used_up & no_id,
            set={entry.pending: None, entry.fence_end: None},
            source="RPCProducerIdManager.generateProducerId",
            note="The operator may ask again.",
        ),
        Row(
            "kept-aborted",
            "The abort of what is kept is prepared",
            when=is_kept & entry.fencing,
            set={
                entry.pending: entry.PREPARE_ABORT,
                entry.fence_end: None,
                entry.pending_epoch: minimum(entry.producer_epoch + 1, LARGEST_EPOCH),
                entry.pending_last_epoch: entry.producer_epoch,
                entry.next_id: if_(used_up, offered_id, None),
                offered_id: if_(used_up, next_id_after_this, offered_id),
                entry.pending_start_timestamp: entry.txn_start_timestamp,
                entry.pending_update_timestamp: now,
                entry.pending_version: entry.entry_version,
            },
            source="TransactionMetadata.prepareAbortOrCommit",
        ),
    )
    .table("transaction.append failure")
    .only_when(~append_failure.record_kept | (~is_keeping & ~is_kept))
    .also(
        "record-lost",
        set={pending_client_epoch: NO_EPOCH, pending_client_id: None},
        send=(_tell_keeper(Errors.COORDINATOR_NOT_AVAILABLE, NO_EPOCH),),
    )
)
