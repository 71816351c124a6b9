"""What a user asks of delivery from end to end: of what a consumer has processed."""

from __future__ import annotations

from ...language import (
    Expression,
    all_of,
    any_of,
    element,
    invariant,
    position,
    size,
    variable,
)
from ..delivery import state as delivery
from ..delivery.consumer import is_given, validated
from ..delivery.state import Stage, Transaction
from ..replication.state import (
    RECORD,
    RECORDS,
    REPLICA,
    high_watermark,
    leads,
    log,
    newest_epoch,
    produced,
)

_r, _i = variable("r", RECORD), REPLICA.variable("i")
_one, _other = element("one", delivery.processed), element("other", delivery.processed)
_is_before = position(_one) < position(_other)


def _is_processed(record: Expression) -> Expression:
    return any_of(_one, _one == record)


_is_transactional = delivery.is_transactional
has_sent = (
    (produced == RECORDS)
    & (size(delivery.requests) == 0)
    & (size(delivery.queue) == 0)
    & (~_is_transactional | (delivery.transaction == Transaction.COMMITTED))
)
"""Whether the producer has nothing left to do."""
_has_read = (delivery.stage == Stage.POLLING) & any_of(
    _i,
    leads(_i, newest_epoch)
    & (high_watermark.at(_i) == size(log.at(_i)))
    & ~is_given(_i, validated(_i)),
)
settled = has_sent & _has_read
"""Whether the producer has nothing left to do, and the consumer has read all that it is given by
the newest leader, whose log is committed as a whole."""
_ends_well = delivery.transaction.is_in(Transaction.COMMITTING, Transaction.COMMITTED)
_is_told = _r.is_in(delivery.told) & (~_is_transactional | _ends_well)

at_most_once = invariant(
    "AtMostOnce",
    all_of(_one, all_of(_other, _is_before.implies(_one != _other))),
    "No record is processed twice.",
    "KIP-98; the documentation of Kafka, Message Delivery Semantics",
)
at_least_once = invariant(
    "AtLeastOnce",
    settled.implies(all_of(_r, _is_processed(_r))),
    "Once the producer has nothing left to do and the consumer has read all, every record that was "
    "sent is processed.",
    "The documentation of Kafka, Message Delivery Semantics",
)
no_silent_loss = invariant(
    "NoSilentLoss",
    settled.implies(all_of(_r, _is_told.implies(_is_processed(_r)))),
    "No record is lost whose send has come to a success, in a transaction that was committed if "
    "there is one.",
    "acks, ProducerRecord; the documentation of Kafka, Message Delivery Semantics",
)
in_order = invariant(
    "InOrder",
    all_of(_one, all_of(_other, _is_before.implies(_one <= _other))),
    "No record is processed after one that was sent later.",
    "max.in.flight.requests.per.connection",
)

PROPERTIES = (at_most_once, at_least_once, no_silent_loss, in_order)
