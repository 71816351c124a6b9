"""What a reader of a partition's log sees.

Kafka sends a read_committed reader everything below the last stable offset together with the list
of aborted transactions there, and the reader drops their records. Both follow from the log: of the
markers that are kept in it, the first behind a record that has its producer id ends the record's
transaction.
"""

from __future__ import annotations

from ...language import Expression, element, first_of, position
from . import state as leader

DATA, ABORT = leader.Kind.DATA, leader.Kind.ABORT


def log_entry(name: str, where: Expression) -> Expression:
    """A name for the entries of a partition's log, for a quantifier to bind."""
    return element(name, leader.log.at(where))


def ending(entry: Expression, where: Expression) -> Expression:
    """The marker that ends the transaction of a log entry, where it has been written."""
    marker = log_entry("m", where)
    return first_of(
        marker,
        (position(marker) > position(entry))
        & (marker.kind != DATA)
        & (marker.producer_id == entry.producer_id)
        & ~entry.idempotent_only,
    )


def is_aborted(entry: Expression, where: Expression) -> Expression:
    """Whether the entry is in an aborted transaction (TransactionIndex)."""
    marker = ending(entry, where)
    return marker.is_set & (marker.value.kind == ABORT)


def is_read_committed(entry: Expression, where: Expression) -> Expression:
    """Whether a read_committed reader gets the entry's record (FetchIsolation.TXN_COMMITTED)."""
    return (
        (entry.kind == DATA)
        & (position(entry) >= leader.log_start_offset.at(where))
        & (position(entry) < leader.last_stable_offset.at(where))
        & ~is_aborted(entry, where)
    )
