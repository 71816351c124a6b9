"""An idempotent client's epochs and producer ids, which it bumps and asks for by itself.

A client without transactional id asks any broker for a producer id. A lost request or answer only
uses up an id, so that question and answer are one step. A request of it may also be held up on a
connection that it has closed.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Expression,
    Row,
    Table,
    all_of,
    any_of,
    each,
    event,
    if_,
    in_transit,
    message,
    position,
    replace,
    set_of,
    sum_of,
    those,
    wrap,
)
from ....language.expressions import Operand
from ...answers import awaits
from ...messages import (
    ANY_SEQUENCE,
    DELAYS,
    EPOCH,
    LARGEST_EPOCH,
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    PRODUCER_IDS,
    RECORD,
    SEQUENCE,
    TRANSACTION,
    Produce,
    clock,
    partition,
    producer,
)
from ...releases.features import (
    bump_when_settled,
    client_epoch_bump,
    renumbered_under_new_id,
    transactional,
)
from .. import state as client
from ..state import q, s
from ..transactions.transaction_manager import ClientStep, Reaction, has_id, last_error, react
from .accumulator import muted, produce
from .sender import is_sent_at_once, next_attempt, sent_or_reenqueued

DelayedProduce = message(
    "DelayedProduce",
    partition,
    producer=PRODUCER,
    partition=PARTITION,
    producer_id=PRODUCER_ID,
    producer_epoch=EPOCH,
    base_sequence=ANY_SEQUENCE,
    idempotent_only=Bool(),
    record=RECORD,
    txn=TRANSACTION,
    carried=("producer_id", "record", "txn"),
    message_doc="A Produce request on a connection that its client has closed: it arrives at any "
    "time or never, and nobody is answered.",
)

# The epoch --------------------------------------------------------------------------------------

bump = event("bump epoch")

in_flight = client.batches[q][s]
is_settled = all_of(
    s,
    client.is_open(in_flight).implies((in_flight.status == client.QUEUED) & ~in_flight.unanswered),
)
"""Whether every batch of a partition that was sent has its answer."""
rewrites_sequences = q.is_in(client.bump_for) & (~bump_when_settled | is_settled)
"""Whether the epoch is bumped for partition `q`: Kafka's partitionsToRewriteSequences."""
records_in_flight = sum_of(s, if_(client.is_open(in_flight), client.details[q][s].count, 0))


def rewritten_batches(producer_id: Operand, epoch: Operand) -> Expression:
    """All batches, where those in flight of a partition that needs it start at sequence 0 under
    this id and epoch.

    TxnPartitionMap.startSequencesAtBeginning
    """
    r = RECORD.variable("r")
    batch = client.batches[q][r]
    rewritten = replace(
        batch,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=client.lower(q, r),
        sequence_reset=True,
    )
    rewrites = rewrites_sequences & client.is_open(batch)
    return each(q, each(r, if_(rewrites, rewritten, batch)))


def rewritten(field: Expression, value: Operand) -> Expression:
    """A field by partition: `value` for each partition whose sequences are rewritten."""
    return each(q, if_(rewrites_sequences, value, field[q]))


bumped = Table(
    producer,
    on=bump,
    when=any_of(q, rewrites_sequences) & (has_id | ~renumbered_under_new_id),
    doc="TransactionManager.bumpIdempotentProducerEpoch. A partition whose sequences are rewritten "
    "starts at 0 under the new epoch.",
    rows=(
        Row(
            "no-producer-id",
            "Sequences are rewritten while there is no producer id",
            when=~has_id,
            during=client_epoch_bump & ~renumbered_under_new_id,
            set={
                client.batches: rewritten_batches(client.producer_id, NO_EPOCH),
                client.next_sequence: rewritten(
                    client.next_sequence, wrap(records_in_flight, SEQUENCE)
                ),
                client.last_acked: rewritten(client.last_acked, client.NO_SEQUENCE),
                client.entry_id: rewritten(client.entry_id, client.producer_id),
                client.entry_epoch: rewritten(client.entry_epoch, NO_EPOCH),
                client.unresolved: rewritten(client.unresolved, None),
                client.bump_for: client.bump_for - those(q, rewrites_sequences),
            },
            source="TransactionManager.bumpIdempotentProducerEpoch",
        ),
        Row(
            "last-epoch-new-id-first",
            "The epochs are used up: sequences are rewritten under the next producer id",
            when=client.producer_epoch == LARGEST_EPOCH,
            during=client_epoch_bump & renumbered_under_new_id,
            goto=client.UNINITIALIZED,
            set={client.producer_epoch: NO_EPOCH, last_error: None},
            source="TransactionManager.bumpIdempotentProducerEpoch, a way to fix it",
        ),
        Row(
            "last-epoch",
            "The epochs are used up: the client forgets its producer id",
            when=client.producer_epoch == LARGEST_EPOCH,
            during=client_epoch_bump & ~renumbered_under_new_id,
            goto=client.UNINITIALIZED,
            set={
                client.producer_epoch: NO_EPOCH,
                last_error: None,
                client.batches: rewritten_batches(client.producer_id, NO_EPOCH),
                client.next_sequence: rewritten(
                    client.next_sequence, wrap(records_in_flight, SEQUENCE)
                ),
                client.last_acked: rewritten(client.last_acked, client.NO_SEQUENCE),
                client.entry_id: rewritten(client.entry_id, client.producer_id),
                client.entry_epoch: rewritten(client.entry_epoch, NO_EPOCH),
                client.unresolved: rewritten(client.unresolved, None),
                client.bump_for: client.bump_for - those(q, rewrites_sequences),
            },
            source="TransactionManager.bumpIdempotentProducerEpoch, resetIdempotentProducerId",
        ),
        Row(
            "bumped",
            "The client takes the next epoch",
            during=client_epoch_bump,
            set={
                client.producer_epoch: client.producer_epoch + 1,
                client.batches: rewritten_batches(client.producer_id, client.producer_epoch + 1),
                client.next_sequence: rewritten(
                    client.next_sequence, wrap(records_in_flight, SEQUENCE)
                ),
                client.last_acked: rewritten(client.last_acked, client.NO_SEQUENCE),
                client.entry_id: rewritten(client.entry_id, client.producer_id),
                client.entry_epoch: rewritten(client.entry_epoch, client.producer_epoch + 1),
                client.unresolved: rewritten(client.unresolved, None),
                client.bump_for: client.bump_for - those(q, rewrites_sequences),
            },
            source="TransactionManager.bumpIdempotentProducerEpoch",
        ),
    ),
)

# The producer id --------------------------------------------------------------------------------

give_producer_id = event("producer id given out")

next_producer_id = position(client.producer_id) + 1
id_left = next_producer_id < PRODUCER_IDS
initialized = Table(
    producer,
    on=give_producer_id,
    when=(client.state == client.UNINITIALIZED) & id_left,
    doc="TransactionManager.InitProducerIdHandler of a client without transactional id, with its "
    "request.",
    rows=(
        Row(
            "new-id-rewrites-sequences",
            "The client has a new producer id, and its sequences are rewritten",
            during=renumbered_under_new_id,
            goto=client.READY,
            set={
                client.producer_id: next_producer_id,
                client.producer_epoch: 0,
                client.batches: rewritten_batches(next_producer_id, 0),
                client.next_sequence: rewritten(
                    client.next_sequence, wrap(records_in_flight, SEQUENCE)
                ),
                client.last_acked: rewritten(client.last_acked, client.NO_SEQUENCE),
                client.entry_id: rewritten(client.entry_id, next_producer_id),
                client.entry_epoch: rewritten(client.entry_epoch, 0),
                client.unresolved: rewritten(client.unresolved, None),
                client.bump_for: client.bump_for - those(q, rewrites_sequences),
            },
            source="TransactionManager.bumpIdempotentProducerEpoch, a way to fix it",
        ),
        Row(
            "new-id",
            "The client has a new producer id",
            during=~renumbered_under_new_id,
            goto=client.READY,
            set={client.producer_id: next_producer_id, client.producer_epoch: 0},
            source="TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded",
        ),
    ),
)

# A request is held up ---------------------------------------------------------------------------

hold_up = in_transit("held up", Produce)
held_batch = client.batches[hold_up.partition][hold_up.record]
held_details = client.details[hold_up.partition][hold_up.record]
delayed_request = DelayedProduce(
    producer=hold_up.producer,
    partition=hold_up.partition,
    producer_id=hold_up.producer_id,
    producer_epoch=hold_up.producer_epoch,
    base_sequence=hold_up.base_sequence,
    idempotent_only=hold_up.idempotent_only,
    record=hold_up.record,
    txn=hold_up.txn,
)
"""The same request, on a connection that the client has closed."""

held_up = Table(
    producer,
    on=hold_up,
    response=Reaction,
    others=(clock,),
    when=(DELAYS > 0) & awaits(hold_up.producer, hold_up.partition, hold_up.record, hold_up.txn),
    doc="The client gives a request up, and the request may still arrive.",
    rows=(
        Row(
            "old-id-given-up",
            "A batch isn't sent again under another producer id: it fails",
            when=~client.is_of_this_id(held_batch),
            during=~transactional & ~client_epoch_bump,
            set={
                held_batch: client.Batch(status=client.FAILED),
                muted: muted - set_of(hold_up.partition),
            },
            reply=react(ClientStep.FAIL),
            send=(delayed_request,),
            source="Sender.completeBatch before 2.5",
        ),
        Row(
            "requeued",
            "The batch is in its queue again",
            set={
                held_batch: replace(
                    sent_or_reenqueued(hold_up.partition, hold_up.record), unanswered=True
                ),
                held_details: next_attempt(held_details),
                muted: muted - set_of(hold_up.partition),
            },
            send=(
                delayed_request,
                produce(
                    hold_up.partition,
                    hold_up.record,
                    held_batch,
                    is_sent_at_once(hold_up.partition, hold_up.record),
                ),
            ),
            source="NetworkClient.handleTimedOutRequests",
        ),
    ),
)

FAULTY_EVENTS = (hold_up,)
TABLES = (bumped, initialized, held_up)
