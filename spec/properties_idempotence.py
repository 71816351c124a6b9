"""What must hold of an idempotent client: read off the logs and off what applications were told."""

from __future__ import annotations

from . import partition as leader
from . import sender as client
from .language import (
    Expression,
    after,
    all_of,
    any_of,
    element,
    invariant,
    position,
    step_property,
)
from .messages import PARTITION, RECORD

p, r = PARTITION.variable("p"), RECORD.variable("r")
ME = 0


def _entry(name: str, where: Expression) -> Expression:
    return element(name, leader.log.at(where))


_first, _second = _entry("e", p), _entry("f", p)
_in_order = position(_first) < position(_second)
no_duplicate = invariant(
    "NoDuplicate",
    all_of(p, all_of(_first, all_of(_second, _in_order.implies(_first.record != _second.record)))),
    "A record that an application sent once is in its partition's log at most once.",
    "KIP-98, idempotent producer",
)

no_lost_acknowledgement = invariant(
    "NoLostAcknowledgement",
    all_of(
        p,
        all_of(
            r,
            (client.batches.at(ME)[p][r].status == client.Status.ACKNOWLEDGED).implies(
                any_of(_first, _first.record == r)
            ),
        ),
    ),
    "An acknowledged record is in the log.",
    "KIP-98, guarantees",
)

order = invariant(
    "Order",
    all_of(
        p,
        all_of(
            _first,
            all_of(
                _second,
                _in_order.implies(position(_first.record) <= position(_second.record)),
            ),
        ),
    ),
    "In a partition, records are in the order in which the application sent them.",
    "KIP-98, idempotent producer",
)

_kept = element("k", after(leader.log.at(p)))
log_stays = step_property(
    "LogStays",
    all_of(
        p,
        all_of(_first, any_of(_kept, (position(_kept) == position(_first)) & (_kept == _first))),
    ),
    "A log only grows: what is in it stays.",
    "KIP-98",
)

PROPERTIES = (no_duplicate, no_lost_acknowledgement, order, log_stays)
