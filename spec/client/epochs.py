"""An idempotent client's own epochs and producer ids: it is its own epoch authority.

A client without transactional id asks any broker for a producer id, and a request or answer that is
lost then only uses up an id: question and answer are one step. Its requests also may be held up
on a connection that it has closed.
"""

from __future__ import annotations

import dataclasses

from ...language import (
    Expression,
    Row,
    Table,
    all_of,
    any_of,
    each,
    event,
    if_,
    in_transit,
    position,
    replace,
    sum_of,
    those,
    wrap,
)
from ...language.expressions import Operand
from ..messages import (
    DELAYS,
    LARGEST_EPOCH,
    NO_EPOCH,
    PRODUCER_IDS,
    RECORD,
    SEQUENCE,
    Produce,
    producer,
)
from ..releases.features import bump_when_settled, client_epoch_bump, renumbered_under_new_id
from . import state as client
from .sender import given_up, under_old_id
from .state import q, s
from .transaction_manager import has_id, last_error

DelayedProduce = dataclasses.replace(
    Produce,
    name="DelayedProduce",
    real_parameters=(),
    not_real=(),
    doc="A Produce request on a connection that its client has closed: it arrives at any time or "
    "never, and nobody is answered.",
)

bump = event("bump epoch")
give_producer_id = event("producer id given out")
hold_up = in_transit("held up", Produce)

_held = client.batches[q][s]
_settled = all_of(
    s, client.is_open(_held).implies((_held.status == client.QUEUED) & ~_held.unanswered)
)
_due = q.is_in(client.bump_for) & (~bump_when_settled | _settled)
_counted = sum_of(s, if_(client.is_open(_held), client.details[q][s].count, 0))


def _renumbered(new_id: Operand, epoch: Operand) -> dict[Expression, Operand]:
    """The batches in flight of the partitions that asked start at sequence 0."""
    r = RECORD.variable("r")
    batch = client.batches[q][r]
    return {
        client.batches: each(
            q,
            each(
                r,
                if_(
                    _due & client.is_open(batch),
                    replace(
                        batch,
                        producer_id=new_id,
                        producer_epoch=epoch,
                        base_sequence=client.lower(q, r),
                        sequence_reset=True,
                    ),
                    batch,
                ),
            ),
        ),
        client.next_sequence: each(q, if_(_due, wrap(_counted, SEQUENCE), client.next_sequence[q])),
        client.last_acked: each(q, if_(_due, client.NO_SEQUENCE, client.last_acked[q])),
        client.entry_id: each(q, if_(_due, new_id, client.entry_id[q])),
        client.entry_epoch: each(q, if_(_due, epoch, client.entry_epoch[q])),
        client.unresolved: each(q, if_(_due, None, client.unresolved[q])),
        client.bump_for: client.bump_for - those(q, _due),
    }


_BUMP = "TransactionManager.bumpIdempotentProducerEpoch"
_last = client.producer_epoch == LARGEST_EPOCH
bumped = Table(
    producer,
    on=bump,
    when=any_of(q, _due) & (has_id | ~renumbered_under_new_id),
    rows=(
        Row(
            "while there is no producer id",
            when=~has_id,
            during=client_epoch_bump & ~renumbered_under_new_id,
            set=_renumbered(client.producer_id, NO_EPOCH),
            source=_BUMP,
        ),
        Row(
            "the last epoch: a new producer id first",
            when=_last,
            during=client_epoch_bump & renumbered_under_new_id,
            goto=client.UNINITIALIZED,
            set={client.producer_epoch: NO_EPOCH, last_error: None},
        ),
        Row(
            "the last epoch: forget the producer id",
            when=_last,
            during=client_epoch_bump & ~renumbered_under_new_id,
            goto=client.UNINITIALIZED,
            set={client.producer_epoch: NO_EPOCH, last_error: None}
            | _renumbered(client.producer_id, NO_EPOCH),
            source=_BUMP,
        ),
        Row(
            "bump",
            during=client_epoch_bump,
            set={client.producer_epoch: client.producer_epoch + 1}
            | _renumbered(client.producer_id, client.producer_epoch + 1),
            source=_BUMP,
        ),
    ),
)

_given = position(client.producer_id) + 1
id_left = _given < PRODUCER_IDS
initialized = Table(
    producer,
    on=give_producer_id,
    when=(client.state == client.UNINITIALIZED) & id_left,
    rows=(
        Row(
            "a new producer id, and new sequences",
            during=renumbered_under_new_id,
            goto=client.READY,
            set={client.producer_id: _given, client.producer_epoch: 0} | _renumbered(_given, 0),
        ),
        Row(
            "a new producer id",
            during=~renumbered_under_new_id,
            goto=client.READY,
            set={client.producer_id: _given, client.producer_epoch: 0},
            source="TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded",
        ),
    ),
)

_late = (DelayedProduce(**{name: getattr(hold_up, name) for name, _ in Produce.parameters}),)
_under_old_id = under_old_id(hold_up.partition, hold_up.record, send=_late)

FAULTY_EVENTS = (hold_up,)
TABLES = (
    bumped,
    initialized,
    given_up(hold_up, DELAYS, _under_old_id, send=_late),
)
