"""Properties of an idempotent client, by the logs and the outcomes that applications got."""

from __future__ import annotations

from ...language import (
    Expression,
    KnownBug,
    after,
    all_of,
    any_of,
    element,
    failure,
    invariant,
    position,
    step_property,
    wrap,
)
from ..client import state as client
from ..leader import state as leader
from ..messages import NO_EPOCH, PARTITION, PRODUCER_ID, RECORD, SEQUENCE
from ..releases.features import (
    bump_when_settled,
    client_epoch_bump,
    idempotent_starts_at_0,
    renumbered_under_new_id,
)

p, r = PARTITION.variable("p"), RECORD.variable("r")
n = PRODUCER_ID.variable("n")
ME = 0
_MENDS = (bump_when_settled, idempotent_starts_at_0, renumbered_under_new_id)


def _entry(name: str, where: Expression) -> Expression:
    return element(name, leader.log.at(where))


_first, _second = _entry("e", p), _entry("f", p)
in_order = position(_first) < position(_second)
no_duplicate = invariant(
    "NoDuplicate",
    all_of(p, _first, _second, in_order.implies(_first.record != _second.record)),
    "A record that an application sent once is in its partition's log at most once.",
    "KIP-98, idempotent producer",
    KnownBug("KAFKA-14034, open (docs/findings.md, 1 to 3)", _MENDS, client_epoch_bump),
    failure=failure(
        "{} is in {} at offsets {} and {}", _first.record, p, position(_first), position(_second)
    ),
)

no_lost_acknowledgement = invariant(
    "NoLostAcknowledgement",
    all_of(
        p,
        r,
        (client.batches.at(ME)[p][r].status == client.ACKNOWLEDGED).implies(
            any_of(_first, _first.record == r)
        ),
    ),
    "An acknowledged record is in the log.",
    "KIP-98, guarantees",
    failure=failure("{} of {} is acknowledged, and it is not in the log", r, p),
)

order = invariant(
    "Order",
    all_of(
        p,
        _first,
        _second,
        in_order.implies(position(_first.record) <= position(_second.record)),
    ),
    "In a partition, records are in the order in which the application sent them.",
    "KIP-98, idempotent producer",
    KnownBug("open (docs/findings.md, 2)", _MENDS, client_epoch_bump),
    failure=failure(
        "{} has {} at offset {}, before {} at offset {}",
        p,
        _first.record,
        position(_first),
        _second.record,
        position(_second),
    ),
)

same_id = (_first.producer_id == _second.producer_id) & (_first.producer_epoch != NO_EPOCH)
epoch_forward = invariant(
    "EpochForward",
    all_of(
        p,
        _first,
        _second,
        (in_order & same_id & (_second.producer_epoch != NO_EPOCH)).implies(
            _first.producer_epoch <= _second.producer_epoch
        ),
    ),
    "In a partition, the batches of a producer id are in the order of their epochs.",
    "KIP-98",
    failure=failure(
        "{} has epoch {} of {} at offset {}, before epoch {} at offset {}",
        p,
        _first.producer_epoch,
        _first.producer_id,
        position(_first),
        _second.producer_epoch,
        position(_second),
    ),
)

batch = element("batch", leader.producers.at(p)[n].batch_metadata)
later = element("later", leader.producers.at(p)[n].batch_metadata)
no_gap = invariant(
    "NoGap",
    all_of(
        p,
        n,
        batch,
        later,
        (position(later) == position(batch) + 1).implies(
            later.last_sequence == wrap(batch.last_sequence + 1, SEQUENCE)
        ),
    ),
    "The batches that a leader remembers of a producer's epoch follow one another without a gap.",
    "KIP-98, ProducerStateEntry",
    failure=failure(
        "the leader of {} remembers a batch of {} that ends with sequence number {}, and "
        "then one that ends with {}",
        p,
        n,
        batch.last_sequence,
        later.last_sequence,
    ),
)

kept = element("k", after(leader.log.at(p)))
log_stays = step_property(
    "LogStays",
    all_of(
        p,
        _first,
        any_of(kept, (position(kept) == position(_first)) & (kept == _first)),
    ),
    "A log only grows: its records don't change.",
    "KIP-98",
    failure=failure(
        "the entry at offset {} of {}, with {}, is lost or changed",
        position(_first),
        p,
        _first.record,
    ),
)

batch_of_r = client.batches.at(ME)[p][r]
answer_stays = step_property(
    "AnswerStays",
    all_of(
        p,
        r,
        batch_of_r.status.is_in(client.ACKNOWLEDGED, client.FAILED).implies(
            after(batch_of_r.status) == batch_of_r.status
        ),
    ),
    "The application gets one answer about a record, and the answer never changes.",
    "ProducerBatch.done",
    failure=failure(
        "the answer about {} of {} changes from {} to {}",
        r,
        p,
        batch_of_r.status,
        after(batch_of_r.status),
    ),
)

PROPERTIES = (
    no_duplicate,
    no_lost_acknowledgement,
    order,
    epoch_forward,
    no_gap,
    log_stays,
    answer_stays,
)
