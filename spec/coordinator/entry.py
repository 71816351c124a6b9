"""The transaction coordinator: its entry for one transactional id, and the requests about it.

A change is first *pending* while its record is appended to the transaction log, and takes effect
when the append has completed (`transaction_log`); the answer goes out then. Between two brokers
that coordinate there is no third: a request that reaches a coordinator while it loads is answered
COORDINATOR_LOAD_IN_PROGRESS and comes again, as if the network had delayed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...language import Bool as Truth
from ...language import (
    Expression,
    Int,
    Map,
    Message,
    Optional,
    Row,
    Sending,
    Set,
    Table,
    each,
    enum,
    event,
    if_,
    minimum,
    only,
    set_of,
    some,
    to_each,
)
from ...language.expressions import Operand
from ..features import (
    abortable_error,
    controller_hands_out_ids,
    expected_epoch,
    failed_fence_kept,
    pending_first,
    producer_fenced_error,
    rotation_on_fence,
    single_fence_bump,
    strict_end_txn_epoch,
    timeout_bumps_epoch,
    transaction_version_2,
    two_phase_commit,
    verification,
    version_2_draft,
)
from ..messages import (
    CONNECTION,
    COORDINATOR_EPOCH,
    EPOCH,
    LARGEST_EPOCH,
    LONGEST,
    NO_EPOCH,
    NO_TIMESTAMP,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    PRODUCER_IDS,
    TIMEOUT_MS,
    TIMEOUTS,
    TIMESTAMP,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
    Errors,
    InitProducerId,
    InitProducerIdResponse,
    Result,
    answer_on,
    clock,
    connection,
    is_past,
    now,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)

TransactionState = enum(
    "TransactionState",
    EMPTY=0,
    ONGOING=1,
    PREPARE_COMMIT=2,
    PREPARE_ABORT=3,
    COMPLETE_COMMIT=4,
    COMPLETE_ABORT=5,
    DEAD=6,
    PREPARE_EPOCH_FENCE=7,
)
EMPTY, ONGOING, DEAD = TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.DEAD
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE

# The entry -------------------------------------------------------------------------------------

state = transaction.state_field("state", TransactionState, EMPTY)
pending = transaction.field(
    "pending", Optional(TransactionState), doc="The state whose record is being appended."
)
producer_id = transaction.field("producer_id", PRODUCER_ID)
producer_epoch = transaction.field(
    "producer_epoch", EPOCH, NO_EPOCH, doc="Without one, the transactional id isn't known."
)
last_producer_epoch = transaction.field(
    "last_producer_epoch", EPOCH, NO_EPOCH, doc="The epoch before, for the retry of a request."
)
previous_id = transaction.field(
    "previous_id", Optional(PRODUCER_ID), doc="The producer id before, for the retry of a request."
)
next_id = transaction.field(
    "next_id", Optional(PRODUCER_ID), doc="The producer id after the end that is under way."
)
partitions = transaction.field(
    "partitions", Set(PARTITION), doc="Those in the transaction whose marker isn't acknowledged."
)
pending_id = transaction.field("pending_id", PRODUCER_ID)
pending_epoch = transaction.field("pending_epoch", EPOCH, NO_EPOCH)
pending_last_epoch = transaction.field("pending_last_epoch", EPOCH, NO_EPOCH)
pending_partitions = transaction.field("pending_partitions", Set(PARTITION))
failed_fence = transaction.field(
    "failed_fence", Truth(),
    doc="A fence's record is not in the log (or not yet): the next fence takes no other epoch.",
)  # fmt: skip
ends_ahead = transaction.field(
    "ends_ahead", Truth(),
    doc="The end was asked for under a higher epoch: once it is decided, nobody goes on with it.",
)  # fmt: skip
coordinator_epoch = transaction.field(
    "coordinator_epoch", COORDINATOR_EPOCH, doc="The leader epoch of the log's partition."
)
asked_by = transaction.field(
    "asked_by", Map(PRODUCER, Optional(CONNECTION)), doc="Who waits for the pending change."
)
fenced_for = transaction.field(
    "fenced_for", Map(PRODUCER, Optional(CONNECTION)),
    doc="Whose InitProducerId waits for the abort of the transaction before it.",
)  # fmt: skip
adding_for = transaction.field(
    "adding_for", Map(PRODUCER, Set(PARTITION)), doc="Whose partition is being added."
)

# What time and versions have to do with it: a run without a clock drops these.
txn_timeout_ms = transaction.field("txn_timeout_ms", TIMEOUT_MS)
txn_start_timestamp = transaction.field("txn_start_timestamp", TIMESTAMP)
txn_last_update_timestamp = transaction.field("txn_last_update_timestamp", TIMESTAMP)
client_transaction_version = transaction.field(
    "client_transaction_version", Int(0, 2), doc="Of the request that the last record is due to."
)
pending_timeout_ms = transaction.field("pending_timeout_ms", TIMEOUT_MS)
pending_start_timestamp = transaction.field("pending_start_timestamp", TIMESTAMP)
pending_update_timestamp = transaction.field("pending_update_timestamp", TIMESTAMP)
pending_version = transaction.field("pending_version", Int(0, 2))

continue_fence = event("continue the fence", event_doc="The second half of a fencing abort.")
timeout = event("transaction timeout", event_doc="The transaction is older than its timeout.")

p = PARTITION.variable("p")
c = PRODUCER.variable("c")

# KafkaApis tells it to requests older than its release's as INVALID_PRODUCER_EPOCH; here client and
# broker are of one release
fenced = if_(producer_fenced_error, Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH)
exhausted = producer_epoch >= LARGEST_EPOCH - 1
is_known = producer_epoch != NO_EPOCH
is_settled = state.is_in(EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
is_prepared = state.is_in(PREPARE_COMMIT, PREPARE_ABORT)
fencing = pending == PREPARE_EPOCH_FENCE
in_transition = pending.is_set & ~fencing
completing = pending.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)
bumped_epoch = minimum(producer_epoch + 1, LARGEST_EPOCH)
ID_TAKEN: dict[Expression, Expression] = {
    offered_id: if_(offered_id.value < PRODUCER_IDS - 1, some(offered_id.value + 1), None)
}
# KAFKA-9666: what a fence that takes its epoch before the append makes of the epoch before
_FENCE_TAKEN: dict[Expression, Expression] = {
    last_producer_epoch: if_(failed_fence_kept, NO_EPOCH, producer_epoch),
    failed_fence: failed_fence_kept,
}
NOBODY = each(c, None)
_version = if_(transaction_version_2, 2, 0)
fence_epoch = if_(failed_fence, producer_epoch, bumped_epoch)


def dated(
    start: Expression = txn_start_timestamp, version: Expression | int = 0
) -> dict[Expression, Expression | int]:
    """What a record that is prepared now says of times, and of the request's version."""
    return {
        pending_start_timestamp: start,
        pending_update_timestamp: now,
        pending_version: version,
    }


ENDED = dated(version=_version)
# with a new epoch the draft of version 2 forgets the entry's version, and 4.0 keeps it
INITIALIZED = dated(NO_TIMESTAMP, if_(version_2_draft, 0, client_transaction_version))


def ending(target: Expression, bumps: Expression) -> dict[Expression, Expression | int]:
    """What is prepared when a transaction ends, where the end takes a new epoch or not.

    TransactionMetadata.prepareAbortOrCommit
    """
    return {
        pending: target,
        pending_epoch: if_(bumps, bumped_epoch, producer_epoch),
        pending_last_epoch: if_(bumps, producer_epoch, last_producer_epoch),
    } | dated(version=if_(bumps, 2, 0))


_PREPARE = "TransactionMetadata.prepareTransitionTo"
_NEW_ID = "RPCProducerIdManager.generateProducerId"
# from ZooKeeper there was no waiting for an id: it was there, or an exception
no_id_error = if_(
    controller_hands_out_ids, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.UNKNOWN_SERVER_ERROR
)


def _asks(request: Message) -> dict[Expression, Expression]:
    return {asked_by[request.producer]: some(request.connection)}


# InitProducerId --------------------------------------------------------------------------------

_init = "TransactionCoordinator.prepareInitProducerIdTransit"
_is_expected = expected_epoch & (InitProducerId.expected_epoch != NO_EPOCH)
_expected = InitProducerId.expected_epoch
_init_asks = (
    {
        pending: EMPTY,
        pending_id: producer_id,
        pending_timeout_ms: InitProducerId.transaction_timeout_ms,
    }
    | INITIALIZED
    | _asks(InitProducerId)
)


def _init_answer(error: Expression) -> Sending:
    return answer_on(
        connection.at(InitProducerId.producer), InitProducerIdResponse, InitProducerId.connection,
        producer=InitProducerId.producer, error=error, producer_id=producer_id,
        producer_epoch=NO_EPOCH,
    )  # fmt: skip


def rotation(new_id: Expression, records_last: Expression) -> dict[Expression, Expression | int]:
    """What is prepared when a new producer id replaces one whose epochs are used up."""
    return {
        pending_id: new_id,
        pending_epoch: 0,
        pending_last_epoch: if_(records_last, producer_epoch, NO_EPOCH),
    }


def increment_rows(
    is_expected: Expression,
    expected: Expression,
    prepared: Mapping[Expression, Operand],
    refusal: Sending,
) -> tuple[Row, ...]:
    """The rows for the next epoch, with or without an epoch that the producer is expected to hold.

    TransactionMetadata.prepareIncrementProducerEpoch
    """
    source = "TransactionMetadata.prepareIncrementProducerEpoch"
    return (
        Row(
            "new producer",
            when=~is_expected,
            set={**prepared, pending_epoch: producer_epoch + 1, pending_last_epoch: NO_EPOCH},
            source=source,
        ),
        Row(
            "bump of the current epoch",
            when=(expected == producer_epoch) | ~is_known,
            during=expected_epoch,
            set={**prepared}
            | {pending_epoch: producer_epoch + 1, pending_last_epoch: producer_epoch},
            source=f"KIP-360, {source}",
        ),
        Row(
            "retry of a bump",
            when=expected == last_producer_epoch,
            during=expected_epoch,
            set={**prepared}
            | {pending_epoch: producer_epoch, pending_last_epoch: last_producer_epoch},
            source=f"KIP-360, {source}",
        ),
        Row(
            "stale producer",
            during=expected_epoch,
            reply=refusal,
            source=f"KIP-360, {source}",
        ),
    )


init_producer_id = Table(
    transaction,
    on=InitProducerId,
    elsewhere=(producer, clock, producer_id_manager),
    rows=(
        Row(
            "transition in flight",
            when=pending.is_set,
            reply=_init_answer(Errors.CONCURRENT_TRANSACTIONS),
            source=_init,
        ),
        Row(
            "other producer id",
            when=_is_expected
            & is_known
            & (InitProducerId.expected_id != producer_id)
            & ~((previous_id == InitProducerId.expected_id) & (_expected >= LARGEST_EPOCH - 1)),
            during=expected_epoch,
            reply=_init_answer(fenced),
            source="KIP-360, TransactionCoordinator.isValidProducerId",
        ),
        Row(
            "commit or abort under way",
            when=is_prepared,
            reply=_init_answer(Errors.CONCURRENT_TRANSACTIONS),
            source=_init,
        ),
        Row(
            "fence at the largest epoch",
            when=(state == ONGOING) & (producer_epoch == LARGEST_EPOCH),
            during=~rotation_on_fence,
            reply=_init_answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareFenceProducerEpoch before 4.3",
        ),
        Row(
            "fence the open transaction",
            when=state == ONGOING,
            set={
                pending: PREPARE_EPOCH_FENCE,
                pending_epoch: fence_epoch,
                fenced_for[InitProducerId.producer]: some(InitProducerId.connection),
            },
            source="KIP-98, TransactionMetadata.prepareFenceProducerEpoch",
        ),
        Row(
            "epochs used up, other epoch",
            when=exhausted & _is_expected & (_expected != producer_epoch),
            reply=_init_answer(Errors.UNKNOWN_SERVER_ERROR),
            source="TransactionMetadata.prepareIncrementProducerEpoch",
        ),
        Row(
            "no producer id to be had",
            when=exhausted & ~offered_id.is_set,
            reply=_init_answer(no_id_error),
            source=f"{_NEW_ID}, ProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "new producer id",
            when=exhausted,
            set=_init_asks | rotation(offered_id.value, _is_expected) | ID_TAKEN,
            source="TransactionMetadata.prepareProducerIdRotation",
        ),
        *increment_rows(_is_expected, _expected, _init_asks, _init_answer(fenced)),
    ),
)

# AddPartitionsToTxn ----------------------------------------------------------------------------


def _same_producer(
    request: Message, answer: Callable[[Expression], Sending], source: str, name: str = ""
) -> tuple[Row, Row]:
    """The rows for a transactional id that isn't known, and for another producer id.

    An id whose first epoch is being appended is known.
    """
    return (
        Row(
            f"{name}unknown transactional id",
            when=~is_known & ~pending.is_set,
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
            source=source,
        ),
        Row(
            f"{name}other producer id",
            when=request.producer_id != producer_id,
            reply=answer(Errors.INVALID_PRODUCER_ID_MAPPING),
            source=source,
        ),
    )


def adding(wanted: Expression, version: Expression | int) -> dict[Expression, Expression | int]:
    """What is prepared when partitions are added. TransactionMetadata.prepareAddPartitions"""
    return {
        pending: ONGOING,
        pending_partitions: partitions | wanted,
    } | dated(if_(is_settled, now, txn_start_timestamp), version)


def add_partitions_rows(
    request: Message,
    answer: Callable[[Expression], Sending],
    asks: dict[Expression, Expression],
    wanted: Expression,
    all_there: Expression,
    version: Expression | int = 0,
) -> tuple[Row, ...]:
    """The rows of every form of the request: a client's, a leader's, for one partition or many.

    `wanted` is the set of partitions, `all_there` says that the transaction has them.
    """
    source = "TransactionCoordinator.handleAddPartitionsToTransaction"
    busy = answer(Errors.CONCURRENT_TRANSACTIONS)
    unknown, other = _same_producer(request, answer, source)
    return (
        unknown,
        Row(
            "transition in flight",
            when=pending.is_set,
            during=pending_first,
            reply=busy,
            source="KAFKA-18660",
        ),
        other,
        Row(
            "other epoch",
            when=request.producer_epoch != producer_epoch,
            reply=answer(fenced),
            source=source,
        ),
        Row(
            "transition in flight, same epoch",
            when=pending.is_set,
            during=~pending_first,
            reply=busy,
            source=source,
        ),
        Row("commit or abort under way", when=is_prepared, reply=busy, source=source),
        Row(
            "already added",
            when=(state == ONGOING) & all_there,
            reply=answer(Errors.NONE),
            source=source,
        ),
        Row(
            "add",
            set={
                adding_for[request.producer]: wanted,
            }
            | adding(wanted, version)
            | asks,
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
    elsewhere=(producer, clock),
    rows=add_partitions_rows(
        AddPartitionsToTxn,
        _add_answer,
        _asks(AddPartitionsToTxn),
        set_of(AddPartitionsToTxn.partition),
        AddPartitionsToTxn.partition.is_in(partitions),
    ),
)


def _leader_answer(error: Expression) -> Sending:
    return AddPartitionsByLeaderResponse(error=error)


_VERIFY = "TransactionCoordinator.handleVerifyPartitionsInTransaction"
_verify_only = only(
    verification & ~transaction_version_2,
    *_same_producer(AddPartitionsByLeader, _leader_answer, _VERIFY, "verify, "),
    Row(
        "verify, other epoch",
        when=AddPartitionsByLeader.producer_epoch != producer_epoch,
        reply=_leader_answer(fenced),
        source=_VERIFY,
    ),
    Row(
        "verify, commit or abort under way",
        when=is_prepared,
        reply=_leader_answer(Errors.CONCURRENT_TRANSACTIONS),
        source=_VERIFY,
    ),
    Row(
        "verify, in the transaction",
        when=AddPartitionsByLeader.partition.is_in(partitions),
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
    elsewhere=(clock,),
    rows=_verify_only
    + only(
        transaction_version_2,
        *add_partitions_rows(
            AddPartitionsByLeader,
            _leader_answer,
            {},
            set_of(AddPartitionsByLeader.partition),
            AddPartitionsByLeader.partition.is_in(partitions),
            if_(version_2_draft, 0, 2),
        ),
    ),
)

# EndTxn ----------------------------------------------------------------------------------------

_commits = EndTxn.result == Result.COMMIT
_epoch = EndTxn.producer_epoch
_prepare = if_(_commits, PREPARE_COMMIT, PREPARE_ABORT)


def _end_answer(error: Expression, epoch: Expression | int = NO_EPOCH) -> Sending:
    return answer_on(
        connection.at(EndTxn.producer), EndTxnResponse, EndTxn.connection,
        producer=EndTxn.producer, error=error, producer_id=producer_id, producer_epoch=epoch,
    )  # fmt: skip


_busy = _end_answer(Errors.CONCURRENT_TRANSACTIONS)
_invalid = _end_answer(Errors.INVALID_TXN_STATE)


def tell_fencers(error: Expression) -> Sending:
    """The answer to whose InitProducerId made the coordinator abort a transaction."""
    return to_each(
        c,
        fenced_for[c] == connection.at(c),
        InitProducerIdResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=producer_id,
            producer_epoch=NO_EPOCH,
        ),
    )


_fencer_waits = tell_fencers(Errors.CONCURRENT_TRANSACTIONS)

_END_1 = "TransactionCoordinator.endTransactionWithTV1"
_end_before_version_2 = only(
    ~transaction_version_2 & ~version_2_draft,
    *_same_producer(EndTxn, _end_answer, _END_1),
    Row(
        "other epoch",
        when=_epoch != producer_epoch,
        during=strict_end_txn_epoch,
        reply=_end_answer(fenced),
        source="KAFKA-9600",
    ),
    Row(
        "stale epoch",
        when=_epoch < producer_epoch,
        during=~strict_end_txn_epoch,
        reply=_end_answer(fenced),
        source="TransactionCoordinator.endTransaction before 2.6",
    ),
    Row("transition in flight", when=in_transition, reply=_busy, source=_END_1),
    Row(
        "abort overtakes a fence",
        when=fencing & ~_commits,
        set={
            pending: PREPARE_ABORT,
            producer_epoch: _epoch,
            pending_epoch: _epoch,
            pending_last_epoch: _FENCE_TAKEN[last_producer_epoch],
            fenced_for: NOBODY,
        }
        | _FENCE_TAKEN
        | ENDED
        | _asks(EndTxn),
        send=(_fencer_waits,),
        source=_END_1,
    ),
    Row(
        "commit meets a fence",
        when=fencing,
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source=_PREPARE,
    ),
    Row(
        "end",
        when=state == ONGOING,
        set={
            pending: _prepare,
            pending_epoch: producer_epoch,
            pending_last_epoch: last_producer_epoch,
            ends_ahead: ~strict_end_txn_epoch & (_epoch > producer_epoch),
        }
        | ENDED
        | _asks(EndTxn),
        source="TransactionMetadata.prepareAbortOrCommit",
    ),
    Row(
        "ended so already",
        when=state == if_(_commits, COMPLETE_COMMIT, COMPLETE_ABORT),
        reply=_end_answer(Errors.NONE),
        source=_END_1,
    ),
    Row("end under way", when=state == _prepare, reply=_busy, source=_END_1),
    Row("no transaction to end so", reply=_invalid, source=_END_1),
)

_END_2 = "TransactionCoordinator.endTransaction"
_retry_of_bump = (EndTxn.producer_id == producer_id) & (producer_epoch == _epoch + 1)
_retry_of_overflow = (
    (previous_id == EndTxn.producer_id) & (_epoch == LARGEST_EPOCH - 1) & (producer_epoch == 0)
)
_is_retry = ~fencing & (_retry_of_bump | _retry_of_overflow)
_ends = state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)
_bumped: dict[Expression, Expression | int | None] = {
    pending_epoch: bumped_epoch,
    pending_last_epoch: producer_epoch,
}
_needs_id = exhausted & (rotation_on_fence | ~fencing)


def _id_taken(needed: Expression) -> dict[Expression, Expression]:
    return {offered_id: if_(needed, ID_TAKEN[offered_id], offered_id)}


def _next_id_taken(needed: Expression) -> dict[Expression, Expression]:
    return {next_id: if_(needed, offered_id, None)} | _id_taken(needed)


_with_new_id = _bumped | _next_id_taken(_needs_id)
_FENCE_GIVEN_UP: dict[Expression, Expression | int | None] = {
    pending: None,
    pending_epoch: NO_EPOCH,
    fenced_for: NOBODY,
}
_end_version_2 = only(
    transaction_version_2 & ~version_2_draft,
    Row(
        "unknown transactional id, version 2",
        when=~is_known & ~pending.is_set,
        reply=_end_answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        source=_END_2,
    ),
    Row("transition in flight, version 2", when=in_transition, reply=_busy, source=_END_2),
    Row(
        "other producer id, version 2",
        when=(EndTxn.producer_id != producer_id) & ~(_is_retry & _retry_of_overflow),
        reply=_end_answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        source=_END_2,
    ),
    Row(
        "other epoch, version 2",
        when=~if_(
            is_prepared,
            _is_retry & _retry_of_bump,
            if_(_ends, _is_retry | (_epoch == producer_epoch), _epoch == producer_epoch),
        ),
        reply=_end_answer(fenced),
        source=_END_2,
    ),
    Row(
        "ended so already, version 2",
        when=_is_retry & (state == if_(_commits, COMPLETE_COMMIT, COMPLETE_ABORT)),
        reply=_end_answer(Errors.NONE, producer_epoch),
        source=_END_2,
    ),
    Row("ended otherwise already", when=_is_retry & _ends, reply=_invalid, source=_END_2),
    Row("end under way, version 2", when=state == _prepare, reply=_busy, source=_END_2),
    Row("other end under way", when=is_prepared, reply=_invalid, source=_END_2),
    Row("commit of nothing", when=_commits & is_settled, reply=_invalid, source=_END_2),
    Row(
        "no producer id for an abort that overtakes a fence",
        when=fencing & ~_commits & _needs_id & ~offered_id.is_set,
        during=rotation_on_fence,
        note="The fence finds no fence pending, and holds an epoch that nobody took.",
        set=_FENCE_GIVEN_UP,
        reply=_end_answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
        send=(
            tell_fencers(
                if_(producer_epoch == LARGEST_EPOCH, Errors.COORDINATOR_LOAD_IN_PROGRESS, fenced)
            ),
        ),
        source=_END_2,
    ),
    Row(
        "no producer id to be had",
        when=_needs_id & ~offered_id.is_set,
        reply=_end_answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
        source=_NEW_ID,
    ),
    Row(
        "commit meets a fence, version 2",
        when=fencing & _commits,
        note="Where epochs are used up, a producer id is taken all the same.",
        set=_id_taken(_needs_id),
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source=_PREPARE,
    ),
    Row(
        "end at the largest epoch",
        when=(producer_epoch == LARGEST_EPOCH) & (_commits | ~rotation_on_fence),
        note="The producer id that was taken for it is lost.",
        set=_id_taken(_needs_id),
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source="TransactionMetadata.prepareTransitionTo, an epoch below 0",
    ),
    Row(
        "abort overtakes a fence, version 2",
        when=fencing,
        set={
            pending: PREPARE_ABORT,
            last_producer_epoch: if_(single_fence_bump, last_producer_epoch, NO_EPOCH),
            failed_fence: if_(single_fence_bump, failed_fence, failed_fence_kept),
            fenced_for: NOBODY,
        }
        | _with_new_id
        | ENDED
        | _asks(EndTxn),
        send=(_fencer_waits,),
        source=_END_2,
    ),
    Row(
        "end, version 2",
        when=state == ONGOING,
        set={pending: _prepare} | _with_new_id | ENDED | _asks(EndTxn),
        source="TransactionMetadata.prepareAbortOrCommit",
    ),
    Row(
        "abort of nothing",
        set={pending: PREPARE_ABORT} | _with_new_id | dated(now, _version) | _asks(EndTxn),
        source="KIP-890 part 2, the empty abort",
    ),
)

# The draft of version 2: what the request's version is decides what the end does to the epoch,
# what the version of the end before was decides which epochs count.
_bumps_since = ~fencing & (client_transaction_version == 2)
_draft_retry_of_bump = _bumps_since & (producer_epoch == _epoch + 1)
_draft_retry_of_overflow = _bumps_since & (
    (previous_id == EndTxn.producer_id) & (_epoch == LARGEST_EPOCH - 1) & (producer_epoch == 0)
)
_draft_needs_id = transaction_version_2 & exhausted & ~fencing
_done = state == if_(_commits, COMPLETE_COMMIT, COMPLETE_ABORT)
_end_draft = only(
    version_2_draft,
    Row(
        "unknown transactional id, draft",
        when=~is_known & ~pending.is_set,
        reply=_end_answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        source=_END_2,
    ),
    Row(
        "other producer id, draft",
        when=(EndTxn.producer_id != producer_id) & ~_draft_retry_of_overflow,
        reply=_end_answer(Errors.INVALID_PRODUCER_ID_MAPPING),
        source=_END_2,
    ),
    Row(
        "other epoch, draft",
        when=~if_(
            _bumps_since & is_prepared,
            _draft_retry_of_bump,
            if_(
                _bumps_since & state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT),
                _draft_retry_of_bump | _draft_retry_of_overflow,
                _epoch == producer_epoch,
            ),
        ),
        reply=_end_answer(fenced),
        source=_END_2,
    ),
    Row("transition in flight, draft", when=in_transition, reply=_busy, source=_END_2),
    Row(
        "commit meets a fence, draft",
        when=fencing & _commits,
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source=_PREPARE,
    ),
    Row(
        "no producer id to be had, draft",
        when=(state == ONGOING) & _draft_needs_id & ~offered_id.is_set,
        reply=_end_answer(Errors.COORDINATOR_LOAD_IN_PROGRESS),
        source=_NEW_ID,
    ),
    Row(
        "end at the largest epoch, draft",
        when=(state == ONGOING) & transaction_version_2 & (producer_epoch == LARGEST_EPOCH),
        set=_id_taken(_draft_needs_id),
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source="TransactionMetadata.prepareTransitionTo, an epoch below 0",
    ),
    Row(
        "abort overtakes a fence, draft",
        when=fencing,
        set={
            pending: PREPARE_ABORT,
            producer_epoch: _epoch,
            pending_epoch: if_(transaction_version_2, _epoch + 1, _epoch),
            pending_last_epoch: if_(transaction_version_2, _epoch, NO_EPOCH),
            fenced_for: NOBODY,
        }
        | _FENCE_TAKEN
        | ENDED
        | _asks(EndTxn),
        send=(_fencer_waits,),
        source=_END_2,
    ),
    Row(
        "end, draft",
        when=state == ONGOING,
        set=ending(_prepare, transaction_version_2)
        | _next_id_taken(_draft_needs_id)
        | _asks(EndTxn),
        source="TransactionMetadata.prepareAbortOrCommit",
    ),
    Row(
        "ended so already, draft",
        when=_done,
        reply=_end_answer(Errors.NONE, producer_epoch),
        source=_END_2,
    ),
    Row("end under way, draft", when=state == _prepare, reply=_busy, source=_END_2),
    Row("no transaction to end so, draft", reply=_invalid, source=_END_2),
)

end_txn = Table(
    transaction,
    on=EndTxn,
    elsewhere=(producer, clock, producer_id_manager),
    rows=_end_before_version_2 + _end_version_2 + _end_draft,
)

# Timeout and fence ----------------------------------------------------------------------------

transaction_timeout = Table(
    transaction,
    on=timeout,
    when=(TIMEOUTS > 0)
    & (state == ONGOING)
    & ~pending.is_set
    & is_past(txn_start_timestamp + txn_timeout_ms)
    & ~(two_phase_commit & (LONGEST > 0) & (txn_timeout_ms == LONGEST))
    & (rotation_on_fence | (producer_epoch < LARGEST_EPOCH)),
    elsewhere=(clock,),
    rows=(
        Row(
            "fence the open transaction",
            set={
                pending: PREPARE_EPOCH_FENCE,
                pending_epoch: if_(
                    failed_fence | ~timeout_bumps_epoch, producer_epoch, bumped_epoch
                ),
            },
            source="KAFKA-6119, TransactionCoordinator.abortTimedOutTransactions",
        ),
    ),
)

fence_continues = Table(
    transaction,
    on=continue_fence,
    elsewhere=(producer, clock, producer_id_manager),
    when=fencing,
    rows=(
        Row(
            "abort with the bumped epoch",
            during=~transaction_version_2,
            set={
                pending: PREPARE_ABORT,
                producer_epoch: pending_epoch,
                pending_last_epoch: _FENCE_TAKEN[last_producer_epoch],
            }
            | _FENCE_TAKEN
            | ENDED,
            source="TransactionCoordinator.endTransactionWithTV1, not from a client",
        ),
        Row(
            "a second new epoch overflows",
            when=pending_epoch == LARGEST_EPOCH,
            during=transaction_version_2 & ~single_fence_bump,
            note="The transaction stays open, and nobody holds the epoch that could end it.",
            set={
                pending: None,
                pending_epoch: NO_EPOCH,
                producer_epoch: pending_epoch,
                last_producer_epoch: NO_EPOCH,
                fenced_for: NOBODY,
            },
            send=(tell_fencers(Errors.UNKNOWN_SERVER_ERROR),),
            source="TransactionMetadata.prepareTransitionTo in 4.0.0, an epoch below 0",
        ),
        Row(
            "abort, which bumps the epoch a second time",
            during=transaction_version_2 & ~single_fence_bump,
            set={
                pending: PREPARE_ABORT,
                producer_epoch: pending_epoch,
                pending_epoch: pending_epoch + 1,
                pending_last_epoch: pending_epoch,
            }
            | _FENCE_TAKEN
            | ENDED,
            source="TransactionCoordinator.endTransaction in 4.0.0",
        ),
        Row(
            "no producer id to be had",
            when=_needs_id & ~offered_id.is_set,
            during=transaction_version_2 & rotation_on_fence,
            set=_FENCE_GIVEN_UP,
            send=(tell_fencers(Errors.COORDINATOR_LOAD_IN_PROGRESS),),
            source=_NEW_ID,
        ),
        Row(
            "abort with a new producer id",
            when=_needs_id,
            during=transaction_version_2 & rotation_on_fence,
            set={pending: PREPARE_ABORT} | _with_new_id | ENDED,
            source="KAFKA-20090",
        ),
        Row(
            "abort, which bumps the epoch",
            during=transaction_version_2,
            set={pending: PREPARE_ABORT} | _bumped | ENDED,
            source="KAFKA-19367",
        ),
    ),
)

TABLES = (
    init_producer_id,
    add_partitions,
    add_partitions_by_leader,
    end_txn,
    transaction_timeout,
    fence_continues,
)
