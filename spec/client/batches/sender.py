"""The answers of leaders to a client's batches, and lost answers: Kafka's Sender."""

from __future__ import annotations

from ....language import (
    Expression,
    Row,
    Table,
    any_of,
    any_true,
    constant,
    each,
    if_,
    lost,
    maximum,
    minimum,
    replace,
    set_of,
    some,
    sum_of,
    wrap,
)
from ...answers import awaits
from ...errors import is_retriable
from ...messages import (
    LARGEST_SEQUENCE,
    LOSSES,
    NO_EPOCH,
    NO_OFFSET,
    SEQUENCE,
    Errors,
    ProduceResponse,
    clock,
    now,
    producer,
)
from ...releases.features import (
    acks_need_no_entry,
    backoff_grows,
    client_epoch_bump,
    epoch_by_partition,
    expires_in_flight,
    late_errors_ignored,
    old_acks_ignored,
    sequence_used_when_sent,
    transactional,
)
from .. import state as client
from ..state import q, s
from ..transactions.transaction_manager import (
    RETRY_BACKOFF,
    TO_ABORTABLE,
    CallResult,
    ClientStep,
    Reaction,
    abortable_cause,
    batch_error,
    call_result,
    fatal_error,
    is_fatal,
    last_error,
    must_bump_after_abort,
    pending_call,
    react,
)
from .accumulator import LINGER, drained, muted, produce

DELIVERY_TIMEOUT = constant(
    "delivery_timeout_ms", 1, 1, 1, real=120_000, meaning="delivery.timeout.ms"
)
REQUEST_TIMEOUT = constant("request_timeout_ms", 0, 0, 0, real=30_000, meaning="request.timeout.ms")
RETRIES = constant("retries", 1, 1, 1, real=2**31 - 1, meaning="retries")
LARGEST_BACKOFF = constant(
    "retry_backoff_max_ms", 0, 0, 0, real=1000, meaning="retry.backoff.max.ms"
)
SETTINGS = {LINGER: 0, DELIVERY_TIMEOUT: 1, REQUEST_TIMEOUT: 0, RETRIES: 1, RETRY_BACKOFF: 0}
"""The settings of a bounded run, which has no time."""

# Values -----------------------------------------------------------------------------------------


def completed_batch(batch: Expression, status: Expression) -> Expression:
    """A batch whose outcome the application has.

    ProducerBatch.complete, completeExceptionally
    """
    return replace(batch, status=status)


def reenqueued(batch: Expression) -> Expression:
    """A batch that is in its queue again.

    RecordAccumulator.reenqueue, ProducerBatch.reenqueued
    """
    return replace(batch, status=client.QUEUED, in_retry=True)


def next_attempt(details: Expression) -> Expression:
    """The details of a batch in its queue again, which waits for the backoff.

    ProducerBatch.reenqueued, KIP-580
    """
    first = (details.attempts == 0) | ~backoff_grows
    waits = if_(first, RETRY_BACKOFF, details.backoff_ms + details.backoff_ms)
    return replace(
        details,
        attempts=details.attempts + 1,
        last_attempt_ms=now,
        backoff_ms=minimum(waits, LARGEST_BACKOFF),
    )


def can_adjust_sequences(partition: Expression, record: Expression) -> Expression:
    """Whether the next sequence and those of later batches are at least the batch's record count.

    TxnPartitionMap.adjustSequencesDueToFailedBatch
    """
    failed, count = client.batches[partition][record], client.details[partition][record].count
    other = client.batches[partition][s]
    too_low = (other.base_sequence >= failed.base_sequence) & (other.base_sequence < count)
    return (client.next_sequence[partition] >= count) & ~any_of(
        s, (s != record) & client.tracked(partition, s) & too_low
    )


def adjusted_batches(partition: Expression, record: Expression) -> Expression:
    """A partition's batches after one has failed: later ones take the sequences that it frees.

    TxnPartitionMap.adjustSequencesDueToFailedBatch
    """
    failed, count = client.batches[partition][record], client.details[partition][record].count
    other = client.batches[partition][s]
    later = client.tracked(partition, s) & (other.base_sequence >= failed.base_sequence)
    adjusted = replace(other, base_sequence=other.base_sequence - count, sequence_reset=True)
    return each(
        s,
        if_(s == record, completed_batch(failed, client.FAILED), if_(later, adjusted, other)),
    )


def batches_from_zero(partition: Expression, record: Expression) -> Expression:
    """A partition's batches after one is in its queue again: those in flight start at sequence 0.

    TransactionManager.startSequencesAtBeginning
    """
    batch = client.batches[partition][s]
    renumbered = replace(
        if_(s == record, reenqueued(batch), batch),
        base_sequence=client.lower(partition, s),
        sequence_reset=True,
    )
    return each(s, if_(client.tracked(partition, s), renumbered, batch))


def records_in_flight(partition: Expression) -> Expression:
    """The next sequence after the batches in flight, if those start at sequence 0."""
    counts = if_(client.tracked(partition, s), client.details[partition][s].count, 0)
    return wrap(sum_of(s, counts), SEQUENCE)


def untracked_details(partition: Expression) -> Expression:
    """The details of a partition's batches, none of which is tracked any more.

    TransactionManager.resetSequenceForPartition
    """
    details = client.details[partition][s]
    return each(s, if_(client.tracked(partition, s), replace(details, is_untracked=True), details))


# A leader's answer ------------------------------------------------------------------------------

batch = client.batches[ProduceResponse.partition][ProduceResponse.record]
details = client.details[ProduceResponse.partition][ProduceResponse.record]
unresolved = client.unresolved[ProduceResponse.partition]
is_done = batch.status.is_in(client.ACKNOWLEDGED, client.FAILED)
is_completed = ProduceResponse.error.is_in(Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER)
is_out_of_order = ProduceResponse.error == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
is_unknown_producer_id = ProduceResponse.error == Errors.UNKNOWN_PRODUCER_ID
has_attempts_left = details.attempts < RETRIES
can_retry = (
    ~is_done
    & has_attempts_left
    & (~expires_in_flight | (now - details.created_ms < DELIVERY_TIMEOUT))
)
"""What Sender.canRetry asks before TransactionManager.canRetry."""
is_of_old_epoch = (batch.producer_id != client.producer_id) | (
    batch.producer_epoch != client.producer_epoch
)
is_last_in_flight = ~any_of(
    s, (s != ProduceResponse.record) & client.tracked(ProduceResponse.partition, s)
)
last_sequence = batch.base_sequence + details.count - 1
last_offset = ProduceResponse.base_offset + details.count - 1
log_head_is_removed = (
    client.last_acked_offset[ProduceResponse.partition] < ProduceResponse.log_start_offset
)
lacks_entry = client.entry[ProduceResponse.partition] == client.ABSENT
retries_untracked = any_true(
    is_retriable(ProduceResponse.error),
    is_unknown_producer_id,
    is_out_of_order
    & client.is_behind_another(
        unresolved,
        batch.sequence_reset,
        batch.base_sequence,
        client.last_acked[ProduceResponse.partition],
    ),
)
"""TransactionManager.canRetry, where no batch of the partition has been acknowledged since."""
adjusts_sequences = (has_attempts_left | ~sequence_used_when_sent) & can_adjust_sequences(
    ProduceResponse.partition, ProduceResponse.record
)

completed = Table(
    producer,
    on=ProduceResponse,
    response=Reaction,
    others=(clock,),
    doc="Sender.completeBatch: the batch is acknowledged, split, sent again or failed. "
    "TransactionManager.handleFailedBatch decides what a failure means for the client.",
    rows=(
        Row(
            "not-awaited",
            "A late error of a batch whose outcome is known is ignored",
            when=late_errors_ignored & is_done & ~is_completed,
            set={muted: muted - set_of(ProduceResponse.partition)},
            reply=react(ClientStep.GO_ON),
            source="Sender.completeBatch, KAFKA-14831",
        ),
        Row(
            "acknowledged-last-of-old-epoch",
            "The last batch of an old epoch is acknowledged, and the partition takes the new epoch",
            when=is_completed & is_of_old_epoch & is_last_in_flight,
            during=~transactional & client_epoch_bump & ~epoch_by_partition,
            set={
                batch: completed_batch(batch, client.ACKNOWLEDGED),
                client.next_sequence[ProduceResponse.partition]: 0,
                client.last_acked[ProduceResponse.partition]: client.NO_SEQUENCE,
                client.entry_id[ProduceResponse.partition]: client.producer_id,
                client.entry_epoch[ProduceResponse.partition]: client.producer_epoch,
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.DONE),
            source="TransactionManager.handleCompletedBatch before 2.7.1",
        ),
        Row(
            "acknowledged-without-entry",
            "The sequences are forgotten: the sender raises an error, and the batch isn't done",
            when=is_completed
            & lacks_entry
            & (~acks_need_no_entry | (ProduceResponse.base_offset >= 0)),
            during=transactional & client_epoch_bump,
            reply=react(ClientStep.WAIT),
            source="TransactionManager.updateLastAckedOffset",
        ),
        Row(
            "acknowledged",
            "The batch is acknowledged",
            when=is_completed,
            set={
                batch: completed_batch(batch, client.ACKNOWLEDGED),
                details: replace(details, is_given_up=False),
                # The comparison is plain: after a wrap the sequence stays behind.
                client.last_acked[ProduceResponse.partition]: if_(
                    client.is_of_this_id(batch)
                    & (last_sequence <= LARGEST_SEQUENCE)
                    & ~lacks_entry,
                    maximum(client.last_acked[ProduceResponse.partition], last_sequence),
                    client.last_acked[ProduceResponse.partition],
                ),
                client.last_acked_offset[ProduceResponse.partition]: if_(
                    (ProduceResponse.base_offset < 0)
                    | (old_acks_ignored & ~client.is_of_this_id(batch)),
                    client.last_acked_offset[ProduceResponse.partition],
                    maximum(client.last_acked_offset[ProduceResponse.partition], last_offset),
                ),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.DONE),
            source="TransactionManager.handleCompletedBatch",
        ),
        Row(
            "too-large",
            "The batch is too large and is sent in parts",
            when=(ProduceResponse.error == Errors.MESSAGE_TOO_LARGE)
            & (details.count > 1)
            & ~is_done,
            set={
                batch: completed_batch(batch, client.FAILED),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.SPLIT),
            source="Sender.completeBatch",
        ),
        Row(
            "fatal",
            "The client is fenced, or isn't authorized: it can't go on",
            when=is_fatal(ProduceResponse.error),
            goto=client.FATAL_ERROR,
            set={
                last_error: some(fatal_error(ProduceResponse.error)),
                call_result: CallResult.FAILED,
                client.txn: None,
                batch: completed_batch(batch, client.FAILED),
                client.ending: False,
                client.bump_asked: False,
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(
                ClientStep.FAIL, fatal_error(ProduceResponse.error), ends_call=pending_call.is_set
            ),
            source="TransactionManager.maybeTransitionToErrorState, KIP-588, KAFKA-18019",
        ),
        # An idempotent client before 2.5
        Row(
            "old-id-adjusted",
            "A batch of an old producer id is refused; batches of the new id take its sequences",
            when=~is_retriable(ProduceResponse.error)
            & ~client.is_of_this_id(batch)
            & adjusts_sequences,
            during=~transactional & ~client_epoch_bump,
            set={
                client.batches[ProduceResponse.partition]: adjusted_batches(
                    ProduceResponse.partition, ProduceResponse.record
                ),
                client.next_sequence[ProduceResponse.partition]: (
                    client.next_sequence[ProduceResponse.partition] - details.count
                ),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL, ProduceResponse.error),
            source="TransactionManager.adjustSequencesDueToFailedBatch before 2.5",
            note="A sequence of the new id is used twice.",
        ),
        Row(
            "old-id-given-up",
            "A batch isn't sent again under another producer id: it fails",
            when=~client.is_of_this_id(batch),
            during=~transactional & ~client_epoch_bump,
            set={
                batch: completed_batch(batch, client.FAILED),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL),
            source="Sender.completeBatch before 2.5",
        ),
        # Sender.canRetry, TransactionManager.canRetry
        Row(
            "not-renumbered",
            "The sequences are forgotten: the sender raises an error, and the batch waits",
            when=can_retry
            & lacks_entry
            & is_unknown_producer_id
            & ~batch.sequence_reset
            & (ProduceResponse.log_start_offset >= 0),
            during=transactional & client_epoch_bump,
            reply=react(ClientStep.WAIT),
            source="TransactionManager.canRetry",
        ),
        Row(
            "not-requeued",
            "The batch isn't among those in flight: the sender raises an error, and it waits "
            "until it expires",
            when=can_retry & details.is_untracked & retries_untracked,
            during=transactional & client_epoch_bump,
            set={
                batch: replace(batch, in_retry=True),
                client.entry[ProduceResponse.partition]: client.looked_up(
                    ProduceResponse.partition
                ),
            },
            reply=react(ClientStep.WAIT),
            source="RecordAccumulator.insertInSequenceOrder",
        ),
        Row(
            "retriable",
            "The error is retriable, and the batch is sent again",
            when=can_retry & is_retriable(ProduceResponse.error),
            set={
                batch: reenqueued(batch),
                details: next_attempt(details),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.RETRY),
            source="Sender.canRetry",
        ),
        Row(
            "out-of-order-behind-another",
            "A batch before this one isn't appended yet, and the batch is sent again",
            when=can_retry
            & is_out_of_order
            & client.is_behind_another(
                unresolved,
                batch.sequence_reset,
                batch.base_sequence,
                client.last_acked[ProduceResponse.partition],
            ),
            set={
                batch: reenqueued(batch),
                details: next_attempt(details),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.canRetry",
        ),
        Row(
            "out-of-order-bumps-epoch",
            "The batch was the next in sequence: it is sent again under a new epoch",
            when=can_retry & is_out_of_order & client.loses_order(unresolved, batch.base_sequence),
            during=~transactional & client_epoch_bump,
            set={
                batch: reenqueued(batch),
                details: next_attempt(details),
                client.bump_for: client.bump_for | set_of(ProduceResponse.partition),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.canRetry",
        ),
        Row(
            "out-of-order-unresolved",
            "An unresolved sequence is before the batch, and the batch is sent again",
            when=can_retry & is_out_of_order,
            during=~transactional & client_epoch_bump,
            set={
                batch: reenqueued(batch),
                details: next_attempt(details),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.canRetry",
        ),
        Row(
            "unknown-id-sequence-reset",
            "The leader doesn't know the producer id, and the batch has a new sequence already",
            when=can_retry
            & is_unknown_producer_id
            & (batch.sequence_reset | (ProduceResponse.log_start_offset < 0)),
            set={
                batch: reenqueued(batch),
                details: next_attempt(details),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.canRetry",
        ),
        Row(
            "unknown-id-bumps-epoch",
            "The leader doesn't know the producer id: the batch is sent again under a new epoch",
            when=can_retry & is_unknown_producer_id,
            during=~transactional & client_epoch_bump,
            set={
                batch: reenqueued(batch),
                details: next_attempt(details),
                client.bump_for: client.bump_for | set_of(ProduceResponse.partition),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.RETRY),
            source="TransactionManager.canRetry",
        ),
        Row(
            "unknown-id-renumbered",
            "The log no longer has the last acknowledged batch: sequences start at 0 again",
            when=can_retry & is_unknown_producer_id & log_head_is_removed,
            during=transactional | ~client_epoch_bump,
            set={
                client.batches[ProduceResponse.partition]: batches_from_zero(
                    ProduceResponse.partition, ProduceResponse.record
                ),
                details: next_attempt(details),
                client.next_sequence[ProduceResponse.partition]: records_in_flight(
                    ProduceResponse.partition
                ),
                client.last_acked[ProduceResponse.partition]: client.NO_SEQUENCE,
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.RETRY),
            source="KAFKA-5793, TransactionManager.startSequencesAtBeginning",
            note="Or no batch has been acknowledged. By its last batch in the log the leader knew "
            "the producer id.",
        ),
        # Sender.failBatch, TransactionManager.handleFailedBatch
        Row(
            "order-lost-new-id",
            "The order is lost, and the client asks for a new producer id",
            # UnknownProducerIdException is an OutOfOrderSequenceException.
            when=is_out_of_order | is_unknown_producer_id,
            during=~transactional & ~client_epoch_bump,
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
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL, ProduceResponse.error),
            source="TransactionManager.resetProducerId",
        ),
        Row(
            "abortable-partition-reset",
            "The leader doesn't know the producer id: the transaction can only be aborted",
            when=is_unknown_producer_id,
            during=transactional & client_epoch_bump,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(batch_error(ProduceResponse.error)),
                batch: completed_batch(batch, client.FAILED),
                client.next_sequence[ProduceResponse.partition]: 0,
                client.last_acked[ProduceResponse.partition]: client.NO_SEQUENCE,
                client.last_acked_offset[ProduceResponse.partition]: NO_OFFSET,
                client.entry_id[ProduceResponse.partition]: client.NO_ID,
                client.entry_epoch[ProduceResponse.partition]: NO_EPOCH,
                client.unresolved[ProduceResponse.partition]: None,
                client.details[ProduceResponse.partition]: untracked_details(
                    ProduceResponse.partition
                ),
                client.entry[ProduceResponse.partition]: client.ABSENT,
                client.must_bump: must_bump_after_abort,
                client.ending: client.ending & (client.state == client.ABORTING),
                client.bump_asked: client.bump_asked & (client.state == client.ABORTING),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL, ProduceResponse.error),
            source="TransactionManager.resetSequenceForPartition",
        ),
        Row(
            "abortable-adjusted",
            "The transaction can only be aborted; later batches take the sequences",
            when=adjusts_sequences,
            during=transactional,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(batch_error(ProduceResponse.error)),
                client.batches[ProduceResponse.partition]: adjusted_batches(
                    ProduceResponse.partition, ProduceResponse.record
                ),
                client.next_sequence[ProduceResponse.partition]: (
                    client.next_sequence[ProduceResponse.partition] - details.count
                ),
                client.entry[ProduceResponse.partition]: client.looked_up(
                    ProduceResponse.partition
                ),
                client.must_bump: must_bump_after_abort,
                client.ending: client.ending & (client.state == client.ABORTING),
                client.bump_asked: client.bump_asked & (client.state == client.ABORTING),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL, ProduceResponse.error),
            source="TransactionManager.adjustSequencesDueToFailedBatch",
        ),
        Row(
            "abortable-not-adjusted",
            "The transaction can only be aborted; the batch may be in the log",
            during=transactional,
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(batch_error(ProduceResponse.error)),
                batch: completed_batch(batch, client.FAILED),
                client.entry[ProduceResponse.partition]: client.looked_up(
                    ProduceResponse.partition
                ),
                client.must_bump: must_bump_after_abort,
                client.ending: client.ending & (client.state == client.ABORTING),
                client.bump_asked: client.bump_asked & (client.state == client.ABORTING),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL, ProduceResponse.error),
            source="TransactionManager.handleFailedBatch",
        ),
        Row(
            "refused-under-old-epoch",
            "A batch of an old epoch fails",
            when=is_of_old_epoch,
            during=~transactional & client_epoch_bump & ~epoch_by_partition,
            set={
                batch: completed_batch(batch, client.FAILED),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL, ProduceResponse.error),
            source="TransactionManager.handleFailedBatch before 2.7.1",
        ),
        Row(
            "refused-bumps-epoch",
            "The batch fails, and the partition needs a new epoch",
            when=is_out_of_order | is_unknown_producer_id | has_attempts_left,
            during=~transactional & client_epoch_bump,
            set={
                batch: completed_batch(batch, client.FAILED),
                client.bump_for: client.bump_for | set_of(ProduceResponse.partition),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL, ProduceResponse.error),
            source="TransactionManager.handleFailedBatch",
        ),
        Row(
            "refused-adjusted",
            "The batch fails, and later batches take its sequences",
            when=adjusts_sequences,
            during=~transactional & ~client_epoch_bump,
            set={
                client.batches[ProduceResponse.partition]: adjusted_batches(
                    ProduceResponse.partition, ProduceResponse.record
                ),
                client.next_sequence[ProduceResponse.partition]: (
                    client.next_sequence[ProduceResponse.partition] - details.count
                ),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL, ProduceResponse.error),
            source="TransactionManager.adjustSequencesDueToFailedBatch before 2.5",
        ),
        Row(
            "refused-not-adjusted",
            "The batch fails; it may be in the log",
            during=~transactional,
            set={
                batch: completed_batch(batch, client.FAILED),
                muted: muted - set_of(ProduceResponse.partition),
            },
            reply=react(ClientStep.FAIL, ProduceResponse.error),
            source="TransactionManager.handleFailedBatch",
        ),
    ),
)

# A lost answer ----------------------------------------------------------------------------------

# A system sends a batch with a transactional id again in the same step, unless a batch with a lower
# sequence goes first. It would be sent later in any case, even while the client aborts. Nobody sees
# the difference, because a request may be in flight for any time.


def is_sent_at_once(partition: Expression, record: Expression) -> Expression:
    """Whether a system sends the batch again in the same step."""
    return transactional & (client.lower(partition, record) == 0)


def sent_or_reenqueued(partition: Expression, record: Expression) -> Expression:
    """A batch that is sent again, at once or from its queue."""
    batch, at_once = client.batches[partition][record], is_sent_at_once(partition, record)
    return replace(
        batch,
        status=if_(at_once, client.SENT, client.QUEUED),
        in_retry=True,
        sequence_reset=batch.sequence_reset & ~at_once,
    )


lost_response = lost(ProduceResponse)
lost_batch = client.batches[lost_response.partition][lost_response.record]
lost_details = client.details[lost_response.partition][lost_response.record]

response_lost = Table(
    producer,
    on=lost_response,
    response=Reaction,
    others=(clock,),
    when=(LOSSES > 0)
    & awaits(
        lost_response.producer, lost_response.partition, lost_response.record, lost_response.txn
    ),
    doc="An answer is lost with its connection. Without a client that waits for it, the loss would "
    "change nothing.",
    rows=(
        Row(
            "old-id-given-up",
            "A batch isn't sent again under another producer id: it fails",
            when=~client.is_of_this_id(lost_batch),
            during=~transactional & ~client_epoch_bump,
            set={
                lost_batch: client.Batch(status=client.FAILED),
                muted: muted - set_of(lost_response.partition),
            },
            reply=react(ClientStep.FAIL),
            source="Sender.completeBatch before 2.5",
        ),
        Row(
            "requeued",
            "The batch is in its queue again",
            set={
                lost_batch: replace(
                    sent_or_reenqueued(lost_response.partition, lost_response.record),
                    unanswered=True,
                ),
                lost_details: next_attempt(lost_details),
                muted: muted - set_of(lost_response.partition),
            },
            send=(
                produce(
                    lost_response.partition,
                    lost_response.record,
                    lost_batch,
                    is_sent_at_once(lost_response.partition, lost_response.record),
                ),
            ),
            source="NetworkClient.handleDisconnections, Sender.handleProduceResponse, "
            "Sender.canRetry",
        ),
    ),
)

FAULTY_EVENTS = (lost_response,)
TABLES = (drained, completed, response_lost)
REAL_TABLES = (drained, completed)
