"""Expired batches and unresolved sequences: Sender.sendProducerData and maybeResolveSequences.

Was an expired batch appended? Its partition's sequences stay unresolved until nothing is in flight.
"""

from __future__ import annotations

from ....language import (
    Row,
    Table,
    each,
    event,
    if_,
    set_of,
    some,
)
from ...messages import (
    EXPIRIES,
    NO_EPOCH,
    NO_OFFSET,
    PARTITION,
    RECORD,
    Errors,
    clock,
    now,
    producer,
)
from ...releases.features import (
    client_epoch_bump,
    expires_in_flight,
    sequence_used_when_sent,
    transactional,
)
from .. import state as client
from ..state import q
from ..transactions.transaction_manager import (
    RETRY_BACKOFF,
    TO_ABORTABLE,
    CallResult,
    ClientStep,
    Reaction,
    abortable_cause,
    adds_implicitly,
    batch_error,
    call_result,
    can_bump,
    last_error,
    must_bump_after_abort,
    pending_call,
    react,
)
from .accumulator import LINGER, muted
from .sender import (
    DELIVERY_TIMEOUT,
    REQUEST_TIMEOUT,
    completed_batch,
)

# A batch expires --------------------------------------------------------------------------------

expire_batch = event(
    "batch expires",
    partition=PARTITION,
    record=RECORD,
    event_doc="Its time is over; a request may still arrive.",
)

batch = client.batches[expire_batch.partition][expire_batch.record]
details = client.details[expire_batch.partition][expire_batch.record]
unresolved = client.unresolved[expire_batch.partition]
behind_batch = client.marked(unresolved, batch.base_sequence + details.count)
# Before 2.1 a batch that is full at once expired without the time that others linger.
delay = if_(batch.status == client.QUEUED, RETRY_BACKOFF, LINGER)
is_expired = if_(
    expires_in_flight,
    batch.status.is_in(client.UNSENT, client.SENT, client.QUEUED)
    & (now - details.created_ms >= DELIVERY_TIMEOUT),
    batch.status.is_in(client.UNSENT, client.QUEUED)
    & (now - details.last_attempt_ms > REQUEST_TIMEOUT + delay),
)
"""RecordAccumulator.expiredBatches, Sender.getExpiredInflightBatches"""


expired = Table(
    producer,
    on=expire_batch,
    response=Reaction,
    others=(clock,),
    when=(EXPIRIES > 0) & (details.count > 0) & is_expired,
    doc="Sender.sendProducerData fails an expired batch. It is in retry if it has been sent "
    "before.",
    rows=(
        Row(
            "in-retry-fatal",
            "Nobody knows whether the batch was appended: the client can't go on",
            when=batch.in_retry,
            during=transactional & ~client_epoch_bump & sequence_used_when_sent,
            goto=client.FATAL_ERROR,
            set={
                last_error: some(Errors.KAFKA_EXCEPTION),
                call_result: CallResult.FAILED,
                client.txn: None,
                batch: completed_batch(batch, client.FAILED),
                client.ending: False,
                client.bump_asked: False,
                muted: muted - set_of(expire_batch.partition),
            },
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION, ends_call=pending_call.is_set),
            source="Sender.run before 2.5",
        ),
        Row(
            "in-retry-new-id",
            "The client asks for a new producer id",
            when=batch.in_retry,
            during=~transactional & ~sequence_used_when_sent,
            goto=client.UNINITIALIZED,
            set={
                client.producer_epoch: NO_EPOCH,
                batch: completed_batch(batch, client.FAILED),
                client.next_sequence: each(q, 0),
                client.last_acked: each(q, client.NO_SEQUENCE),
                client.last_acked_offset: each(q, NO_OFFSET),
                client.entry_id: each(q, client.NO_ID),
                client.entry_epoch: each(q, NO_EPOCH),
                client.unresolved: each(q, None),
                muted: muted - set_of(expire_batch.partition),
            },
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source="Sender.sendProducerData before 1.0",
        ),
        Row(
            "in-retry-sequence-reused",
            "The transaction can only be aborted; the next batch takes the sequence",
            when=batch.in_retry,
            during=transactional & ~sequence_used_when_sent,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(batch_error(Errors.TIMEOUT)),
                batch: completed_batch(batch, client.FAILED),
                client.next_sequence[expire_batch.partition]: batch.base_sequence,
                client.must_bump: must_bump_after_abort,
                client.ending: client.ending & (client.state == client.ABORTING),
                client.bump_asked: client.bump_asked & (client.state == client.ABORTING),
                muted: muted - set_of(expire_batch.partition),
            },
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source="TransactionManager.incrementSequenceNumber before 1.0",
        ),
        Row(
            "in-retry-unresolved",
            "The sequence behind the batch is unresolved",
            when=batch.in_retry,
            during=~transactional,
            set={
                batch: completed_batch(batch, client.FAILED),
                client.unresolved[expire_batch.partition]: behind_batch,
                muted: muted - set_of(expire_batch.partition),
            },
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source="TransactionManager.markSequenceUnresolved",
        ),
        Row(
            "in-retry-abortable",
            "The transaction can only be aborted, and the sequence behind the batch is unresolved",
            when=batch.in_retry,
            during=transactional & client_epoch_bump,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(batch_error(Errors.TIMEOUT)),
                batch: completed_batch(batch, client.FAILED),
                client.unresolved[expire_batch.partition]: behind_batch,
                client.entry[expire_batch.partition]: client.looked_up(expire_batch.partition),
                client.must_bump: must_bump_after_abort,
                client.ending: client.ending & (client.state == client.ABORTING),
                client.bump_asked: client.bump_asked & (client.state == client.ABORTING),
                muted: muted - set_of(expire_batch.partition),
            },
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source="TransactionManager.markSequenceUnresolved",
        ),
        Row(
            "first-attempt",
            "The batch fails at its first attempt",
            during=~transactional,
            set={
                batch: completed_batch(batch, client.FAILED),
                muted: muted - set_of(expire_batch.partition),
            },
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source="Sender.sendProducerData",
        ),
        Row(
            "first-attempt-abortable",
            "The batch fails at its first attempt: the transaction can only be aborted",
            during=transactional,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(batch_error(Errors.TIMEOUT)),
                batch: completed_batch(batch, client.FAILED),
                client.entry[expire_batch.partition]: client.looked_up(expire_batch.partition),
                client.must_bump: must_bump_after_abort,
                client.ending: client.ending & (client.state == client.ABORTING),
                client.bump_asked: client.bump_asked & (client.state == client.ABORTING),
                muted: muted - set_of(expire_batch.partition),
            },
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source="Sender.sendProducerData",
        ),
    ),
)

# Unresolved sequences ---------------------------------------------------------------------------

resolve = event("resolve sequences", partition=PARTITION)

resolved = Table(
    producer,
    on=resolve,
    response=Reaction,
    when=(client.state != client.FATAL_ERROR)
    & client.unresolved[resolve.partition].is_set
    & ~client.has_tracked(resolve.partition),
    doc="TransactionManager.maybeResolveSequences, for a partition with no batch in flight.",
    rows=(
        Row(
            "all-appended",
            "The last sequence is acknowledged: expired batches were appended, too",
            when=client.all_appended(
                client.next_sequence[resolve.partition], client.last_acked[resolve.partition]
            ),
            set={client.unresolved[resolve.partition]: None},
            reply=react(ClientStep.GO_ON),
            source="TransactionManager.maybeResolveSequences",
        ),
        Row(
            "order-lost-abortable",
            "The order is lost: the transaction can only be aborted, and a new epoch follows",
            when=can_bump,
            during=transactional,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(batch_error(Errors.KAFKA_EXCEPTION)),
                client.unresolved[resolve.partition]: None,
                # with implicitly added partitions every end brings a new epoch
                client.must_bump: client.must_bump | ~adds_implicitly,
                client.ending: client.ending & (client.state == client.ABORTING),
                client.bump_asked: client.bump_asked & (client.state == client.ABORTING),
            },
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION),
            source="TransactionManager.transitionToAbortableErrorOrFatalError",
        ),
        Row(
            "order-lost-fatal",
            "The order is lost, and there can be no new epoch: the client can't go on",
            during=transactional,
            goto=client.FATAL_ERROR,
            set={
                last_error: some(Errors.KAFKA_EXCEPTION),
                call_result: CallResult.FAILED,
                client.txn: None,
                client.ending: False,
                client.bump_asked: False,
            },
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION, ends_call=pending_call.is_set),
            source="TransactionManager.transitionToAbortableErrorOrFatalError",
        ),
        Row(
            "order-lost-bumps-epoch",
            "The order is lost, and the partition needs a new epoch",
            during=~transactional & client_epoch_bump,
            set={
                client.unresolved[resolve.partition]: None,
                client.bump_for: client.bump_for | set_of(resolve.partition),
            },
            reply=react(ClientStep.GO_ON),
            source="TransactionManager.maybeResolveSequences",
        ),
        Row(
            "order-lost-new-id",
            "The order is lost, and the client asks for a new producer id",
            during=~transactional & ~client_epoch_bump,
            goto=client.UNINITIALIZED,
            set={
                client.producer_epoch: NO_EPOCH,
                client.next_sequence: each(q, 0),
                client.last_acked: each(q, client.NO_SEQUENCE),
                client.last_acked_offset: each(q, NO_OFFSET),
                client.entry_id: each(q, client.NO_ID),
                client.entry_epoch: each(q, NO_EPOCH),
                client.unresolved: each(q, None),
            },
            reply=react(ClientStep.GO_ON),
            source="TransactionManager.shouldResetProducerStateAfterResolvingSequences",
        ),
    ),
)

FAULTY_EVENTS = (expire_batch,)
TABLES = (expired, resolved)
