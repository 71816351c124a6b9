"""The batches of a client in a system: the parts of Kafka's producer that a system leaves out.

One list for each table, in the order of Kafka's classes. A system has the lists of its tables.
"""

from __future__ import annotations

from ....language import (
    Row,
    all_of,
    count_of,
    each,
    if_,
    position,
    replace,
    set_of,
    size,
)
from ....language.expressions import Expression
from ....language.instances.reductions import (
    Instead,
    LeftOut,
    Never,
    NotOffered,
    Reduction,
    Settled,
    StandsFor,
)
from ...answers import awaits, compares_offsets
from ...client import state as client
from ...client.batches import accumulator, expiry, sender
from ...client.batches.accumulator import drain, produce
from ...client.batches.expiry import expire_batch
from ...client.batches.sender import (
    can_retry,
    completed_batch,
    is_out_of_order,
    is_sent_at_once,
    is_unknown_producer_id,
    records_in_flight,
    sent_or_reenqueued,
)
from ...client.state import q, s
from ...client.transactions import init_producer_id, queue, transaction_manager
from ...client.transactions.transaction_manager import (
    TO_ABORTABLE,
    abortable_cause,
    batch_error,
    last_error,
    must_bump_after_abort,
)
from ...errors import is_retriable
from ...messages import PARTITION, RECORD, RECORDS, Errors, ProduceResponse, producer
from ...releases.features import (
    bump_when_settled,
    client_epoch_bump,
    expires_in_flight,
    renumbered_in_order,
    transaction_version_2,
    transactional,
)

_CHECK = "tests/spec/test_client_refinement.py"
_BATCHES = "tests/spec/test_batches_refinement.py"
_TIMES = "tests/spec/test_time_refinement.py"

# TransactionManager.transitionToFatalError --------------------------------------------------------

FATAL_ERROR = Settled(
    {
        client.txn: None,
        client.batches: client.forgotten_batches,
        client.ending: False,
        client.adding: set_of(),
        client.added: set_of(),
        client.bump_asked: False,
        client.unresolved: each(q, None),
        client.bump_for: set_of(),
    },
    when=client.state == client.FATAL_ERROR,
    because="A client in FATAL_ERROR sends nothing any more, and the batches in flight have "
    "failed: the rest of its fields has no effect.",
    refined_by=_CHECK,
)

# RecordAccumulator.drainBatchesForOneNode --------------------------------------------------------

OF_DRAIN = (
    NotOffered(
        producer,
        drain,
        when=transactional
        & ~accumulator.has_sequence
        & ~(client.state == client.IN_TRANSACTION)
        & ~((client.state == client.COMMITTING) & client.ending),
        because="The application writes a record when its batch is drained. Before, a record has "
        "no effect.",
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        drain,
        when=if_(
            transactional,
            size(client.adding) > 0,
            if_(
                bump_when_settled,
                ~accumulator.has_sequence & drain.partition.is_in(client.bump_for),
                size(client.bump_for) > 0,
            ),
        ),
        because="Sender.runOnce bumps the epoch and adds partitions before it drains. Whoever "
        "drives the client at real ranges takes these steps in their order.",
        refined_by=_CHECK,
    ),
    StandsFor(
        accumulator.is_send_to_partition_allowed(drain.partition),
        (client.state != client.FATAL_ERROR)
        & (~transactional | (drain.partition.is_in(client.added) | transaction_version_2)),
        because="A client of transactions of version 2 adds a partition with its first batch.",
        refined_by=_CHECK,
    ),
)

# Sender.completeBatch ---------------------------------------------------------------------------

_batch, _details = sender.batch, sender.details


def _place_in_heap(partition: Expression, record: Expression) -> Expression:
    """The place of a batch in the heap of those in flight. Of three whose first one has been
    acknowledged, the last stands before the second: it took the first one's place. Fewer batches
    stand in their own order.

    TransactionManager.startSequencesAtBeginning before 2.3
    """
    place, other = client.lower(partition, record), RECORD.variable("other")
    three = count_of(other, client.tracked(partition, other)) == 3
    return if_(three & (place > 0), 3 - place, place)


def _batches_from_zero(partition: Expression, record: Expression) -> Expression:
    """A partition's batches after one is in its queue again, from sequence 0 on."""
    again = replace(sent_or_reenqueued(partition, record), status=client.QUEUED)
    renumbered = replace(
        if_(s == record, again, client.batches[partition][s]),
        base_sequence=if_(
            renumbered_in_order, client.lower(partition, s), _place_in_heap(partition, s)
        ),
        sequence_reset=True,
    )
    return each(s, if_(client.tracked(partition, s), renumbered, client.batches[partition][s]))


_FORGOTTEN = (
    "Nobody reads the id, the epoch and the sequence of a batch whose outcome the application has."
)
_NEVER_FORGOTTEN = (
    "From 2.5 on no leader calls a producer id unknown, and no batch of a system is answered after "
    "its transaction."
)
_SENT_AT_ONCE = (
    "A batch with a transactional id is sent again in the same step, unless a batch with a lower "
    "sequence goes first. It would be sent later in any case, and a request may be in flight for "
    "any time."
)

NEVER_FORGOTTEN = Never(
    (
        "producer.ProduceResponse/acknowledged-without-entry",
        "producer.ProduceResponse/not-renumbered",
        "producer.ProduceResponse/not-requeued",
    ),
    because=_NEVER_FORGOTTEN,
    refined_by=_BATCHES,
)

OF_PRODUCE_RESPONSE = (
    StandsFor(
        completed_batch(_batch, client.ACKNOWLEDGED),
        client.Batch(status=client.ACKNOWLEDGED),
        because=_FORGOTTEN,
        refined_by=_BATCHES,
    ),
    StandsFor(
        completed_batch(_batch, client.FAILED),
        client.Batch(status=client.FAILED),
        because=_FORGOTTEN,
        refined_by=_BATCHES,
    ),
    StandsFor(
        sender.reenqueued(_batch),
        sent_or_reenqueued(ProduceResponse.partition, ProduceResponse.record),
        because=_SENT_AT_ONCE,
        refined_by=_BATCHES,
    ),
    StandsFor(
        sender.batches_from_zero(ProduceResponse.partition, ProduceResponse.record),
        _batches_from_zero(ProduceResponse.partition, ProduceResponse.record),
        because="Before 2.3 batches are renumbered in the order of a heap. Two are in their order. "
        "Three are in the order of a heap whose first batch has been acknowledged.",
        refined_by=_BATCHES,
    ),
    NEVER_FORGOTTEN,
    Instead(
        "producer.ProduceResponse/not-awaited",
        (
            Row(
                "not-awaited",
                "Nobody waits for the answer",
                when=~awaits(
                    ProduceResponse.producer,
                    ProduceResponse.partition,
                    ProduceResponse.record,
                    ProduceResponse.txn,
                ),
                source="Sender.completeBatch, KAFKA-14831",
            ),
        ),
        because="A client in a system has no connections to leaders: the answer to a request that "
        "it has given up arrives, and is ignored. In Kafka one that comes on an open connection "
        "counts: a system has only clients that lose it.",
        refined_by=_BATCHES,
    ),
    Instead(
        "producer.ProduceResponse/retriable",
        (
            Row(
                "retriable",
                "The error is retriable, and the batch is sent again",
                when=can_retry & is_retriable(ProduceResponse.error),
                set={_batch: sent_or_reenqueued(ProduceResponse.partition, ProduceResponse.record)},
                send=(
                    produce(
                        ProduceResponse.partition,
                        ProduceResponse.record,
                        _batch,
                        is_sent_at_once(ProduceResponse.partition, ProduceResponse.record),
                    ),
                ),
                source="Sender.canRetry",
            ),
        ),
        because=_SENT_AT_ONCE,
        refined_by=_BATCHES,
    ),
    Instead(
        "producer.ProduceResponse/out-of-order-behind-another",
        (
            Row(
                "out-of-order-behind-another",
                "A batch before this one isn't appended yet, and the batch is sent again",
                when=can_retry
                & is_out_of_order
                & client.is_behind_another(
                    sender.unresolved,
                    _batch.sequence_reset,
                    _batch.base_sequence,
                    client.last_acked[ProduceResponse.partition],
                ),
                set={_batch: sent_or_reenqueued(ProduceResponse.partition, ProduceResponse.record)},
                send=(
                    produce(
                        ProduceResponse.partition,
                        ProduceResponse.record,
                        _batch,
                        is_sent_at_once(ProduceResponse.partition, ProduceResponse.record),
                    ),
                ),
                source="TransactionManager.canRetry",
            ),
        ),
        because=_SENT_AT_ONCE,
        refined_by=_BATCHES,
    ),
    Instead(
        "producer.ProduceResponse/out-of-order-unresolved",
        (
            Row(
                "out-of-order-unresolved",
                "An unresolved sequence is before the batch, and the batch is sent again",
                when=can_retry & is_out_of_order,
                during=~transactional & client_epoch_bump,
                set={_batch: sent_or_reenqueued(ProduceResponse.partition, ProduceResponse.record)},
                send=(
                    produce(
                        ProduceResponse.partition,
                        ProduceResponse.record,
                        _batch,
                        is_sent_at_once(ProduceResponse.partition, ProduceResponse.record),
                    ),
                ),
                source="TransactionManager.canRetry",
            ),
        ),
        because=_SENT_AT_ONCE,
        refined_by=_BATCHES,
    ),
    Instead(
        "producer.ProduceResponse/unknown-id-sequence-reset",
        (
            Row(
                "unknown-id-sequence-reset",
                "The leader doesn't know the producer id, and the batch has a new sequence already",
                when=can_retry & is_unknown_producer_id & _batch.sequence_reset,
                set={_batch: sent_or_reenqueued(ProduceResponse.partition, ProduceResponse.record)},
                send=(
                    produce(
                        ProduceResponse.partition,
                        ProduceResponse.record,
                        _batch,
                        is_sent_at_once(ProduceResponse.partition, ProduceResponse.record),
                    ),
                ),
                source="TransactionManager.canRetry",
            ),
        ),
        because=f"{_SENT_AT_ONCE} A leader knows where its log starts.",
        refined_by=_BATCHES,
    ),
    Instead(
        "producer.ProduceResponse/unknown-id-renumbered",
        (
            Row(
                "unknown-id-renumbered",
                "The log no longer has the last acknowledged batch: sequences start at 0 again",
                when=can_retry
                & is_unknown_producer_id
                & if_(
                    ~compares_offsets,
                    ~transactional
                    | (client.last_acked[ProduceResponse.partition] == client.NO_SEQUENCE),
                    sender.log_head_is_removed,
                ),
                during=transactional | ~client_epoch_bump,
                set={
                    client.batches[ProduceResponse.partition]: _batches_from_zero(
                        ProduceResponse.partition, ProduceResponse.record
                    ),
                    client.next_sequence[ProduceResponse.partition]: records_in_flight(
                        ProduceResponse.partition
                    ),
                    client.last_acked[ProduceResponse.partition]: client.NO_SEQUENCE,
                },
                source="KAFKA-5793, TransactionManager.startSequencesAtBeginning",
            ),
        ),
        because="Answers have no offsets where a leader forgets a producer id with the last of its "
        "records alone, or never calls one unknown.",
        refined_by=_BATCHES,
    ),
)

# Sender.sendProducerData ------------------------------------------------------------------------


def _may_expire(record: Expression) -> Expression:
    """Whether a batch may expire, if no older one does. A transactional client's batch that is
    queued again counts as sent there."""
    other = client.batches[expire_batch.partition][record]
    waits = if_(transactional, other.in_retry, other.status == client.QUEUED)
    return client.is_open(other) & (expires_in_flight | waits)


OF_EXPIRY = (
    StandsFor(
        expiry.is_expired,
        _may_expire(expire_batch.record)
        & all_of(s, _may_expire(s).implies(position(s) >= position(expire_batch.record))),
        because="A system has no time: the oldest batch of a partition may expire at any moment. "
        "One that was never sent doesn't, and none is left when a leader's error comes too late "
        "for another attempt.",
        refined_by=_TIMES,
    ),
    StandsFor(
        completed_batch(expiry.batch, client.FAILED),
        client.Batch(status=client.FAILED),
        because=_FORGOTTEN,
        refined_by=_BATCHES,
    ),
    Instead(
        "producer.batch expires/in-retry-abortable",
        (
            Row(
                "in-retry-abortable",
                "The transaction can only be aborted, and the sequence behind the batch is "
                "unresolved",
                when=expiry.batch.in_retry & (RECORDS > 1),
                during=transactional & client_epoch_bump,
                goto=TO_ABORTABLE,
                set={
                    last_error: abortable_cause(batch_error(Errors.TIMEOUT)),
                    expiry.batch: client.Batch(status=client.FAILED),
                    client.unresolved[expire_batch.partition]: expiry.behind_batch,
                    client.must_bump: must_bump_after_abort,
                    client.ending: client.ending & (client.state == client.ABORTING),
                    client.bump_asked: client.bump_asked & (client.state == client.ABORTING),
                },
                source="TransactionManager.markSequenceUnresolved",
            ),
        ),
        because="With one record for a partition the mark of an unresolved sequence shows nowhere: "
        "nothing is sent after the expiry, and resolving it finds the error that there is.",
        refined_by=_BATCHES,
    ),
)

# The fields -------------------------------------------------------------------------------------

any_partition = PARTITION.variable("any_partition")
any_record = RECORD.variable("any_record")
_ONE_RECORD = "A batch of a system is one record, and is ready to be sent."
_ONE_REQUEST = "A request to a coordinator is sent at once, and its answer is in the network."
_ONE_STEP = "A call is one step of a system, and returns."
_ONE_RELEASE = "The client and the brokers of a system are of one release."

OF_ACCUMULATOR: tuple[Reduction, ...] = (
    StandsFor(
        accumulator.muted,
        set_of(),
        because="A request can be sent while others are in flight.",
        refined_by=_BATCHES,
    ),
    LeftOut(accumulator.keeps_order, because="The number of batches in flight is a constant."),
    LeftOut(accumulator.produce_version, because=_ONE_RELEASE),
    StandsFor(accumulator.hurries, False, because=_ONE_RECORD, refined_by=_BATCHES),
    StandsFor(
        client.entry, each(client.q, client.KEPT), because=_NEVER_FORGOTTEN, refined_by=_BATCHES
    ),
    StandsFor(
        client.details,
        each(
            any_partition,
            each(any_record, client.BatchDetails(count=1, place=position(any_record))),
        ),
        because=_ONE_RECORD,
        refined_by=_BATCHES,
    ),
)
"""Batches of one record."""

OF_MESSAGES: tuple[Reduction, ...] = (
    LeftOut(transaction_manager.Reaction, because="A system has no caller."),
    LeftOut(transaction_manager.CallResponse, because="A system has no caller."),
)
"""The answers to whoever drives the client."""

OF_REQUESTS: tuple[Reduction, ...] = (
    *OF_MESSAGES,
    StandsFor(
        init_producer_id.version_as_ready,
        init_producer_id.version_when_asked,
        because=_ONE_STEP,
        refined_by=_CHECK,
    ),
    LeftOut(queue.queued, because=_ONE_REQUEST),
    LeftOut(queue.current, because=_ONE_REQUEST),
    StandsFor(queue.answered, False, because=_ONE_REQUEST, refined_by=_BATCHES),
    LeftOut(queue.sought, because=_ONE_REQUEST),
    LeftOut(transaction_manager.request_in_flight, because=_ONE_REQUEST),
    LeftOut(transaction_manager.transaction_coordinator, because=_ONE_REQUEST),
    LeftOut(transaction_manager.group_coordinator, because=_ONE_REQUEST),
    StandsFor(
        transaction_manager.new_partitions, set_of(), because=_ONE_REQUEST, refined_by=_BATCHES
    ),
    LeftOut(transaction_manager.last_error, because="Nothing follows from the cause of a failure."),
    LeftOut(transaction_manager.transaction_started, because=_ONE_STEP),
    LeftOut(transaction_manager.pending_call, because=_ONE_STEP),
    LeftOut(transaction_manager.call_acknowledged, because=_ONE_STEP),
    LeftOut(transaction_manager.call_result, because=_ONE_STEP),
    LeftOut(transaction_manager.init_version, because=_ONE_RELEASE),
    LeftOut(transaction_manager.offsets_version, because=_ONE_RELEASE),
    StandsFor(
        transaction_manager.is_closed,
        False,
        because="No client of a system closes.",
        refined_by=_BATCHES,
    ),
)
"""Calls and requests that are one step."""

CLIENT_ALONE: tuple[Reduction, ...] = (
    LeftOut(queue.queued, because="Whoever drives the client keeps the queue."),
    LeftOut(queue.current, because="Whoever drives the client keeps the queue."),
    StandsFor(queue.answered, False, because="Whoever drives the client takes the answer."),
    LeftOut(queue.sought, because="Whoever drives the client keeps the queue."),
    LeftOut(
        transaction_manager.end_version, because="Whoever drives the client keeps the request."
    ),
)
"""A client at real ranges."""

FIELDS = (*OF_ACCUMULATOR, *OF_REQUESTS)
"""The fields and messages that a system with clients leaves out."""
BATCHES = (*FIELDS, FATAL_ERROR, *OF_DRAIN, *OF_PRODUCE_RESPONSE, *OF_EXPIRY)
"""The reductions of a client that writes batches of its own."""
