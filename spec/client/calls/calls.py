"""The calls of an application to its producer, at any time and in any order.

Each table is one of the methods of KafkaProducer and TransactionManager. A call out of turn raises.
The sending thread does the rest (`requests`). A system without the queue of requests has
`calls_at_once` instead.
"""

from __future__ import annotations

from ....language import Bool, Row, Table, event, if_, set_of, some
from ...errors import Errors
from ...messages import PARTITION, producer
from ...releases.features import (
    calls_in_turn,
    close_ends,
    commit_may_bump,
    failed_close_gives_up,
    failed_close_goes_on,
    fenced_as_it_is,
    offsets_name_members,
    transaction_version_2,
    transactional,
    unauthorized_abortable,
    version_looked_up,
)
from ..state import (
    ABORTABLE_ERROR,
    ABORTING,
    COMMITTING,
    FATAL_ERROR,
    IN_TRANSACTION,
    INITIALIZING,
    READY,
    added,
    adding,
    bump_asked,
    created,
    ending,
    entry,
    must_bump,
    state,
    txn,
)
from ..transactions.queue import Request, current, queued
from ..transactions.transaction_manager import (
    CallResponse,
    CallResult,
    aborts_as_it_closes,
    call_acknowledged,
    call_result,
    client_side_epoch_bump_required,
    end_version,
    finalized_version,
    has_error,
    has_id,
    is_closed,
    is_version_2,
    last_error,
    may_initialize,
    new_partitions,
    next_transaction_version,
    pending_call,
    transaction_started,
    transaction_version,
)
from .application import (
    Outcome,
    abort_transaction,
    application,
    begin_transaction,
    commit_transaction,
    init_transactions,
    outcome,
)

call_send = event("send", partition=PARTITION, event_doc="The record's partition is registered.")
call_offsets = event(
    "sendOffsetsToTransaction",
    names_group=Bool(),
    lacks_member=Bool(),
    event_doc="`lacks_member`: a generation above 0 comes without a member's id.",
)
call_close = event("close")
acknowledge = event(
    "acknowledge call", event_doc="The application takes the result of its last call."
)
abort_at_close = event(
    "abort as it closes", event_doc="The sending thread ends an open transaction before it stops."
)

RETURNS = CallResponse(raises=None, cause=None, continues=False)
RETURNS_PENDING = CallResponse(raises=None, cause=None, continues=True)
"""The result is that of the same call before it."""
RAISES_ILLEGAL_STATE = CallResponse(raises=some(Errors.ILLEGAL_STATE), cause=None, continues=False)
RAISES_LAST_ERROR = CallResponse(raises=some(last_error.value), cause=None, continues=False)
RAISES_KAFKA_EXCEPTION = CallResponse(
    raises=some(Errors.KAFKA_EXCEPTION), cause=last_error, continues=False
)
RAISES_INVALID_TRANSITION = CallResponse(
    raises=some(if_(calls_in_turn, Errors.ILLEGAL_STATE, Errors.KAFKA_EXCEPTION)),
    cause=None,
    continues=False,
)
"""TransactionManager.transitionTo: a KafkaException before 3.2."""

is_raised_unwrapped = last_error.is_set & (
    last_error.value.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.ILLEGAL_STATE)
    | (fenced_as_it_is & (last_error.value == Errors.PRODUCER_FENCED))
)
"""TransactionManager.maybeFailWithError: other errors are the cause of a KafkaException."""
is_pending = pending_call.is_set & ~call_acknowledged
"""TransactionManager.pendingTransition: a call whose result nobody has taken yet."""
waits_as_ready = (pending_call == some(INITIALIZING)) & ~call_acknowledged & (state == READY)
"""Whether initTransactions has its result, and hasn't returned."""
version_returned = if_(version_looked_up & waits_as_ready, finalized_version, transaction_version)
"""TransactionManager.maybeUpdateTransactionV2Enabled, as initTransactions returns."""
appends_first = calls_in_turn & ~is_closed
"""Whether a record is in a batch before its partition is added: the record stays there where
`maybeAddPartition` raises."""

initialize = Table(
    producer,
    on=init_transactions,
    response=CallResponse,
    rows=(
        Row(
            "closed",
            "The producer is closed",
            during=close_ends,
            when=is_closed,
            reply=RAISES_ILLEGAL_STATE,
            source="KafkaProducer.throwIfProducerClosed",
        ),
        Row(
            "error-unwrapped",
            "The last error is raised as it is",
            during=calls_in_turn,
            when=has_error & is_raised_unwrapped,
            reply=RAISES_LAST_ERROR,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "error-wrapped",
            "The last error is the cause of a KafkaException",
            during=calls_in_turn,
            when=has_error,
            reply=RAISES_KAFKA_EXCEPTION,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "not-transactional",
            "The producer has no transactional id",
            during=~transactional,
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.ensureTransactional",
        ),
        Row(
            "other-pending",
            "The result of another call is pending",
            during=calls_in_turn,
            when=is_pending & (pending_call != some(INITIALIZING)),
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.handleCachedTransactionRequestResult",
        ),
        Row(
            "same-pending",
            "The same call is pending: its result is returned",
            during=calls_in_turn,
            when=is_pending,
            reply=RETURNS_PENDING,
            source="TransactionManager.handleCachedTransactionRequestResult",
        ),
        Row(
            "same-state",
            "The same call is in progress: its result is returned",
            during=~calls_in_turn,
            when=pending_call.is_set & (state == INITIALIZING),
            set={pending_call: if_(call_acknowledged, None, pending_call)},
            reply=RETURNS_PENDING,
            source="TransactionManager.handleCachedTransactionRequestResult before 3.2",
        ),
        Row(
            "invalid-transition",
            "The producer was initialized before, and no failed abort leaves it to begin again",
            when=~may_initialize,
            reply=RAISES_INVALID_TRANSITION,
            source="TransactionManager.transitionTo",
        ),
        Row(
            "initialize",
            "InitProducerId is put into the queue",
            goto=INITIALIZING,
            set={
                pending_call: some(INITIALIZING),
                call_acknowledged: False,
                call_result: CallResult.AWAITED,
                last_error: None,
                queued: queued | set_of(Request.INIT_PRODUCER_ID),
            },
            reply=RETURNS,
            source="TransactionManager.initializeTransactions",
        ),
    ),
)

begin = Table(
    producer,
    on=begin_transaction,
    response=CallResponse,
    others=(application,),
    rows=(
        Row(
            "closed",
            "The producer is closed",
            during=close_ends,
            when=is_closed,
            reply=RAISES_ILLEGAL_STATE,
            source="KafkaProducer.throwIfProducerClosed",
        ),
        Row(
            "not-transactional",
            "The producer has no transactional id",
            during=~transactional,
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.ensureTransactional",
        ),
        Row(
            "pending",
            "The result of another call is pending",
            during=calls_in_turn,
            when=is_pending,
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.throwIfPendingState",
        ),
        Row(
            "error-unwrapped",
            "The last error is raised as it is",
            when=has_error & is_raised_unwrapped,
            reply=RAISES_LAST_ERROR,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "error-wrapped",
            "The last error is the cause of a KafkaException",
            when=has_error,
            reply=RAISES_KAFKA_EXCEPTION,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "invalid-transition",
            "The producer isn't ready for a transaction",
            when=state != READY,
            reply=RAISES_INVALID_TRANSITION,
            source="TransactionManager.transitionTo",
        ),
        Row(
            "begin",
            "The transaction begins",
            goto=IN_TRANSACTION,
            set={
                txn: begin_transaction.txn,
                outcome.at(begin_transaction.txn): Outcome.BEGUN,
                pending_call: None,
                last_error: None,
            },
            reply=RETURNS,
            source="TransactionManager.beginTransaction",
        ),
    ),
)

commit = Table(
    producer,
    on=commit_transaction,
    response=CallResponse,
    rows=(
        Row(
            "closed",
            "The producer is closed",
            during=close_ends,
            when=is_closed,
            reply=RAISES_ILLEGAL_STATE,
            source="KafkaProducer.throwIfProducerClosed",
        ),
        Row(
            "not-transactional",
            "The producer has no transactional id",
            during=~transactional,
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.ensureTransactional",
        ),
        Row(
            "other-pending",
            "The result of another call is pending",
            during=calls_in_turn,
            when=is_pending & (pending_call != some(COMMITTING)),
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.handleCachedTransactionRequestResult",
        ),
        Row(
            "same-pending",
            "The same call is pending: its result is returned",
            during=calls_in_turn,
            when=is_pending,
            reply=RETURNS_PENDING,
            source="TransactionManager.handleCachedTransactionRequestResult",
        ),
        Row(
            "same-state",
            "The same call is in progress: its result is returned",
            during=~calls_in_turn,
            when=pending_call.is_set & (state == COMMITTING),
            set={pending_call: if_(call_acknowledged, None, pending_call)},
            reply=RETURNS_PENDING,
            source="TransactionManager.handleCachedTransactionRequestResult before 3.2",
        ),
        Row(
            "error-unwrapped",
            "The last error is raised as it is",
            when=has_error & is_raised_unwrapped,
            reply=RAISES_LAST_ERROR,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "error-wrapped",
            "The last error is the cause of a KafkaException",
            when=has_error,
            reply=RAISES_KAFKA_EXCEPTION,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "invalid-transition",
            "There is no transaction to commit",
            when=state != IN_TRANSACTION,
            reply=RAISES_INVALID_TRANSITION,
            source="TransactionManager.transitionTo",
        ),
        Row(
            "begin-commit-without-id-invalid",
            "There is no producer id, and a client that commits may not be initialized: the end "
            "goes on, and the call raises",
            during=unauthorized_abortable & ~commit_may_bump,
            when=client_side_epoch_bump_required & ~has_id,
            goto=COMMITTING,
            set={
                pending_call: None,
                last_error: None,
                end_version: transaction_version,
                bump_asked: False,
                queued: queued | set_of(Request.END_TXN),
            },
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.beginCompletingTransaction, initializeTransactions before "
            "4.0",
        ),
        Row(
            "begin-commit-without-id",
            "There is no producer id: EndTxn is put into the queue, and InitProducerId before it",
            during=unauthorized_abortable & commit_may_bump,
            when=client_side_epoch_bump_required & ~has_id,
            goto=INITIALIZING,
            set={
                pending_call: some(COMMITTING),
                call_acknowledged: False,
                call_result: CallResult.AWAITED,
                last_error: None,
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: True,
                bump_asked: False,
                queued: queued | set_of(Request.END_TXN, Request.INIT_PRODUCER_ID),
            },
            reply=RETURNS,
            source="TransactionManager.beginCompletingTransaction, initializeTransactions",
            note="InitProducerId is no bump then, and goes first; the end would ask again.",
        ),
        Row(
            "begin-commit",
            "EndTxn is put into the queue, with InitProducerId behind it for a new epoch",
            goto=COMMITTING,
            set={
                pending_call: some(COMMITTING),
                call_acknowledged: False,
                call_result: CallResult.AWAITED,
                last_error: None,
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: client_side_epoch_bump_required,
                bump_asked: client_side_epoch_bump_required,
                queued: queued
                | if_(
                    client_side_epoch_bump_required,
                    set_of(Request.END_TXN, Request.INIT_PRODUCER_ID),
                    set_of(Request.END_TXN),
                ),
            },
            reply=RETURNS,
            source="TransactionManager.beginCommit, beginCompletingTransaction; KAFKA-18227",
        ),
    ),
)

abort = Table(
    producer,
    on=abort_transaction,
    response=CallResponse,
    rows=(
        Row(
            "closed",
            "The producer is closed",
            during=close_ends,
            when=is_closed,
            reply=RAISES_ILLEGAL_STATE,
            source="KafkaProducer.throwIfProducerClosed",
        ),
        Row(
            "not-transactional",
            "The producer has no transactional id",
            during=~transactional,
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.ensureTransactional",
        ),
        Row(
            "other-pending",
            "The result of another call is pending",
            during=calls_in_turn,
            when=is_pending & (pending_call != some(ABORTING)),
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.handleCachedTransactionRequestResult",
        ),
        Row(
            "same-pending",
            "The same call is pending: its result is returned",
            during=calls_in_turn,
            when=is_pending,
            reply=RETURNS_PENDING,
            source="TransactionManager.handleCachedTransactionRequestResult",
        ),
        Row(
            "same-state",
            "The same call is in progress: its result is returned",
            during=~calls_in_turn,
            when=pending_call.is_set & (state == ABORTING),
            set={pending_call: if_(call_acknowledged, None, pending_call)},
            reply=RETURNS_PENDING,
            source="TransactionManager.handleCachedTransactionRequestResult before 3.2",
        ),
        Row(
            "error-unwrapped",
            "A fatal error is raised as it is",
            when=(state == FATAL_ERROR) & is_raised_unwrapped,
            reply=RAISES_LAST_ERROR,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "error-wrapped",
            "A fatal error is the cause of a KafkaException",
            when=state == FATAL_ERROR,
            reply=RAISES_KAFKA_EXCEPTION,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "invalid-transition",
            "There is no transaction to abort",
            when=~state.is_in(IN_TRANSACTION, ABORTABLE_ERROR),
            reply=RAISES_INVALID_TRANSITION,
            source="TransactionManager.transitionTo",
        ),
        Row(
            "begin-abort-without-id",
            "There is no producer id: EndTxn is put into the queue, and InitProducerId before it",
            during=unauthorized_abortable,
            when=client_side_epoch_bump_required & ~has_id,
            goto=INITIALIZING,
            set={
                pending_call: some(ABORTING),
                call_acknowledged: False,
                call_result: CallResult.AWAITED,
                last_error: None,
                new_partitions: set_of(),
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: True,
                bump_asked: False,
                queued: queued | set_of(Request.END_TXN, Request.INIT_PRODUCER_ID),
            },
            reply=RETURNS,
            source="TransactionManager.beginCompletingTransaction, initializeTransactions",
            note="InitProducerId is no bump then, and goes first; the end would ask again.",
        ),
        Row(
            "begin-abort",
            "EndTxn is put into the queue, with InitProducerId behind it for a new epoch",
            goto=ABORTING,
            set={
                pending_call: some(ABORTING),
                call_acknowledged: False,
                call_result: CallResult.AWAITED,
                last_error: None,
                new_partitions: set_of(),
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: client_side_epoch_bump_required,
                bump_asked: client_side_epoch_bump_required,
                queued: queued
                | if_(
                    client_side_epoch_bump_required,
                    set_of(Request.END_TXN, Request.INIT_PRODUCER_ID),
                    set_of(Request.END_TXN),
                ),
            },
            reply=RETURNS,
            source="TransactionManager.beginAbort, beginCompletingTransaction; KAFKA-18227",
        ),
    ),
)

is_in_transaction = has_id & (state == IN_TRANSACTION)
contains_partition = call_send.partition.is_in(new_partitions | adding | added)
"""TransactionManager.transactionContainsPartition, isPartitionPendingAdd"""

send = Table(
    producer,
    on=call_send,
    response=CallResponse,
    rows=(
        Row(
            "closed",
            "The producer is closed",
            when=is_closed,
            reply=RAISES_ILLEGAL_STATE,
            source="KafkaProducer.throwIfProducerClosed",
        ),
        Row(
            "idempotent-unchecked",
            "Without transactional id no error is raised",
            during=~calls_in_turn & ~transactional,
            reply=RETURNS,
            source="KafkaProducer.doSend before 3.2",
        ),
        Row(
            "error-wrapped-before",
            "The last error is the cause of a KafkaException, whichever it is",
            during=~calls_in_turn,
            when=has_error,
            reply=RAISES_KAFKA_EXCEPTION,
            source="TransactionManager.failIfNotReadyForSend before 3.2",
        ),
        Row(
            "error-unwrapped",
            "The last error is raised as it is",
            during=calls_in_turn,
            when=has_error & is_raised_unwrapped,
            reply=RAISES_LAST_ERROR,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "error-wrapped",
            "The last error is the cause of a KafkaException",
            during=calls_in_turn,
            when=has_error,
            reply=RAISES_KAFKA_EXCEPTION,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "pending",
            "The result of another call is pending",
            during=calls_in_turn,
            when=is_pending,
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.throwIfPendingState",
        ),
        Row(
            "idempotent",
            "Without transactional id there is no transaction to add to",
            during=~transactional,
            reply=RETURNS,
            source="TransactionManager.maybeAddPartition",
        ),
        Row(
            "no-transaction",
            "There is no transaction, or no producer id",
            when=~is_in_transaction,
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.maybeAddPartition",
        ),
        Row(
            "already-added",
            "The partition is in the transaction, or was asked for",
            when=contains_partition,
            reply=RETURNS,
            source="TransactionManager.maybeAddPartition",
        ),
        Row(
            "added-by-produce",
            "Transactions of version 2: the first batch adds the partition",
            during=transaction_version_2,
            when=is_version_2,
            set={
                added: added | set_of(call_send.partition),
                entry[call_send.partition]: created(call_send.partition),
                transaction_started: True,
            },
            reply=RETURNS,
            source="TransactionManager.maybeAddPartition, KIP-890",
        ),
        Row(
            "to-be-added",
            "AddPartitionsToTxn will name the partition",
            set={
                new_partitions: new_partitions | set_of(call_send.partition),
                entry[call_send.partition]: created(call_send.partition),
            },
            reply=RETURNS,
            source="TransactionManager.maybeAddPartition",
        ),
    ),
)

send_offsets = Table(
    producer,
    on=call_offsets,
    response=CallResponse,
    rows=(
        Row(
            "no-group",
            "No group is named",
            when=~call_offsets.names_group,
            reply=CallResponse(raises=some(Errors.ILLEGAL_ARGUMENT), cause=None, continues=False),
            source="KafkaProducer.throwIfInvalidGroupMetadata",
        ),
        Row(
            "no-member-id",
            "A generation comes without a member's id",
            during=offsets_name_members,
            when=call_offsets.lacks_member,
            reply=CallResponse(raises=some(Errors.ILLEGAL_ARGUMENT), cause=None, continues=False),
            source="KafkaProducer.throwIfInvalidGroupMetadata, KIP-447",
        ),
        Row(
            "closed",
            "The producer is closed",
            during=close_ends,
            when=is_closed,
            reply=RAISES_ILLEGAL_STATE,
            source="KafkaProducer.throwIfProducerClosed",
        ),
        Row(
            "not-transactional",
            "The producer has no transactional id",
            during=~transactional,
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.ensureTransactional",
        ),
        Row(
            "pending",
            "The result of another call is pending",
            during=calls_in_turn,
            when=is_pending,
            reply=RAISES_ILLEGAL_STATE,
            source="TransactionManager.throwIfPendingState",
        ),
        Row(
            "error-unwrapped",
            "The last error is raised as it is",
            when=has_error & is_raised_unwrapped,
            reply=RAISES_LAST_ERROR,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "error-wrapped",
            "The last error is the cause of a KafkaException",
            when=has_error,
            reply=RAISES_KAFKA_EXCEPTION,
            source="TransactionManager.maybeFailWithError",
        ),
        Row(
            "no-transaction",
            "There is no transaction",
            when=state != IN_TRANSACTION,
            reply=RAISES_INVALID_TRANSITION,
            source="TransactionManager.sendOffsetsToTransaction",
        ),
        Row(
            "commit-offsets",
            "Transactions of version 2: TxnOffsetCommit is put into the queue",
            during=transaction_version_2,
            when=is_version_2,
            set={
                transaction_started: True,
                queued: queued | set_of(Request.TXN_OFFSET_COMMIT),
            },
            reply=RETURNS,
            source="TransactionManager.sendOffsetsToTransaction, KIP-890",
        ),
        Row(
            "add-offsets",
            "AddOffsetsToTxn is put into the queue",
            set={queued: queued | set_of(Request.ADD_OFFSETS_TO_TXN)},
            reply=RETURNS,
            source="TransactionManager.sendOffsetsToTransaction",
        ),
    ),
)

is_over = pending_call.is_set & ~(
    (call_result == CallResult.LOST)
    | Request.INIT_PRODUCER_ID.is_in(queued)
    | (current == some(Request.INIT_PRODUCER_ID))
    | Request.END_TXN.is_in(queued)
    | (current == some(Request.END_TXN))
)
"""Whether the last call has its result."""
acknowledged = Table(
    producer,
    on=acknowledge,
    rows=(
        Row(
            "acknowledge",
            "The application has the result of its call",
            set={call_acknowledged: True, transaction_version: version_returned},
            source="TransactionalRequestResult.await, KAFKA-13412; KafkaProducer.initTransactions",
        ),
    ),
)

close = Table(
    producer,
    on=call_close,
    rows=(
        Row(
            "close",
            "No further call begins anything",
            set={is_closed: True},
            source="KafkaProducer.close, Sender.initiateClose",
        ),
    ),
)

aborted_at_close = Table(
    producer,
    on=abort_at_close,
    when=is_closed & aborts_as_it_closes,
    doc="It is the last step of the thread: nothing is queued or in flight.",
    rows=(
        Row(
            "goes-round",
            "The abort before is taken for this one, until the application has its result",
            during=calls_in_turn & transactional,
            when=is_pending & (pending_call == some(ABORTING)),
            source="Sender.run, TransactionManager.handleCachedTransactionRequestResult",
        ),
        Row(
            "goes-round-refused",
            "The abort raises, and is tried again until the application has the call's result",
            during=failed_close_goes_on & ~failed_close_gives_up,
            when=~transactional | is_pending,
            source="Sender.run before 3.7.1",
        ),
        Row(
            "force-close",
            "The abort raises: the transaction can't be ended",
            during=failed_close_gives_up | ~failed_close_goes_on,
            when=~transactional | (calls_in_turn & is_pending),
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                bump_asked: False,
                last_error: some(Errors.KAFKA_EXCEPTION),
                new_partitions: set_of(),
                call_result: CallResult.FAILED,
            },
            source="Sender.run, TransactionManager.close",
            note="Before 3.6 the thread ends with the error: nothing follows either.",
        ),
        Row(
            "begin-abort-without-id",
            "The client is initialized before the open transaction is aborted",
            during=unauthorized_abortable,
            when=client_side_epoch_bump_required & ~has_id,
            goto=INITIALIZING,
            set={
                pending_call: some(ABORTING),
                call_acknowledged: False,
                call_result: CallResult.AWAITED,
                last_error: None,
                new_partitions: set_of(),
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: True,
                bump_asked: False,
                queued: queued | set_of(Request.END_TXN, Request.INIT_PRODUCER_ID),
            },
            source="Sender.run, TransactionManager.beginCompletingTransaction, "
            "initializeTransactions",
        ),
        Row(
            "begin-abort",
            "The open transaction is aborted",
            goto=ABORTING,
            set={
                pending_call: some(ABORTING),
                call_acknowledged: False,
                call_result: CallResult.AWAITED,
                last_error: None,
                new_partitions: set_of(),
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: client_side_epoch_bump_required,
                bump_asked: client_side_epoch_bump_required,
                queued: queued
                | if_(
                    client_side_epoch_bump_required,
                    set_of(Request.END_TXN, Request.INIT_PRODUCER_ID),
                    set_of(Request.END_TXN),
                ),
            },
            source="Sender.run, TransactionManager.beginAbort; KAFKA-6635",
        ),
    ),
)

TABLES = (initialize, begin, commit, abort, send, send_offsets, acknowledged, close)
