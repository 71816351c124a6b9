"""An idempotent client's own epochs and producer ids: it is its own epoch authority.

A client without transactional id asks any broker for a producer id, and a request or answer that is
lost then only uses up an id: asking and being told are one step. Its requests also may be held up
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
from ..features import bump_when_settled, client_epoch_bump, renumbered_under_new_id
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
from .sender import given_up, under_old_id
from .state import (
    NO_SEQUENCE,
    QUEUED,
    READY,
    UNINITIALIZED,
    batches,
    bump_for,
    details,
    entry_epoch,
    entry_id,
    is_open,
    last_acked,
    lower,
    next_sequence,
    producer_epoch,
    producer_id,
    q,
    s,
    state,
    unresolved,
)
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

_held = batches[q][s]
_settled = all_of(s, is_open(_held).implies((_held.status == QUEUED) & ~_held.unanswered))
_due = q.is_in(bump_for) & (~bump_when_settled | _settled)
_counted = sum_of(s, if_(is_open(_held), details[q][s].count, 0))


def _renumbered(new_id: Operand, epoch: Operand) -> dict[Expression, Operand]:
    """The batches in flight of the partitions that asked start at sequence 0."""
    r = RECORD.variable("r")
    batch = batches[q][r]
    return {
        batches: each(
            q,
            each(
                r,
                if_(
                    _due & is_open(batch),
                    replace(
                        batch,
                        producer_id=new_id,
                        producer_epoch=epoch,
                        base_sequence=lower(q, r),
                        sequence_reset=True,
                    ),
                    batch,
                ),
            ),
        ),
        next_sequence: each(q, if_(_due, wrap(_counted, SEQUENCE), next_sequence[q])),
        last_acked: each(q, if_(_due, NO_SEQUENCE, last_acked[q])),
        entry_id: each(q, if_(_due, new_id, entry_id[q])),
        entry_epoch: each(q, if_(_due, epoch, entry_epoch[q])),
        unresolved: each(q, if_(_due, None, unresolved[q])),
        bump_for: bump_for - those(q, _due),
    }


_BUMP = "TransactionManager.bumpIdempotentProducerEpoch"
_last = producer_epoch == LARGEST_EPOCH
bumped = Table(
    producer,
    on=bump,
    when=any_of(q, _due) & (has_id | ~renumbered_under_new_id),
    rows=(
        Row(
            "while there is no producer id",
            when=~has_id,
            during=client_epoch_bump & ~renumbered_under_new_id,
            set=_renumbered(producer_id, NO_EPOCH),
            source=_BUMP,
        ),
        Row(
            "the last epoch: a new producer id first",
            when=_last,
            during=client_epoch_bump & renumbered_under_new_id,
            goto=UNINITIALIZED,
            set={producer_epoch: NO_EPOCH, last_error: None},
        ),
        Row(
            "the last epoch: forget the producer id",
            when=_last,
            during=client_epoch_bump & ~renumbered_under_new_id,
            goto=UNINITIALIZED,
            set={producer_epoch: NO_EPOCH, last_error: None} | _renumbered(producer_id, NO_EPOCH),
            source=_BUMP,
        ),
        Row(
            "bump",
            during=client_epoch_bump,
            set={producer_epoch: producer_epoch + 1} | _renumbered(producer_id, producer_epoch + 1),
            source=_BUMP,
        ),
    ),
)

_given = position(producer_id) + 1
id_left = _given < PRODUCER_IDS
initialized = Table(
    producer,
    on=give_producer_id,
    when=(state == UNINITIALIZED) & id_left,
    rows=(
        Row(
            "a new producer id, and new sequences",
            during=renumbered_under_new_id,
            goto=READY,
            set={producer_id: _given, producer_epoch: 0} | _renumbered(_given, 0),
        ),
        Row(
            "a new producer id",
            during=~renumbered_under_new_id,
            goto=READY,
            set={producer_id: _given, producer_epoch: 0},
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
