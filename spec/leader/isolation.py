"""A reader's view of a partition's log.

Kafka sends a read_committed reader everything below the last stable offset together with the list
of aborted transactions there, and the reader drops their records. Both follow from the log: of the
markers that are kept in it, the first behind a record that has its producer id ends the record's
transaction.
"""

from __future__ import annotations

from ...language import Expression, any_of, element, first_of, if_, lift, position, sum_of
from ...language.expressions import Operand
from . import state as leader

DATA, ABORT = leader.Kind.DATA, leader.Kind.ABORT


def log_entry(name: str, where: Expression) -> Expression:
    """A name for the entries of a partition's log, for a quantifier to bind."""
    return element(name, leader.log.at(where))


def ending_behind(
    entries: Expression, offset: Expression, producer_id: Expression, when: Operand = True
) -> Expression:
    """The first marker of a producer id behind an offset of a log, where there is one."""
    marker = element("m", entries)
    return first_of(
        marker,
        (position(marker) > offset)
        & (marker.kind != DATA)
        & (marker.producer_id == producer_id)
        & lift(when),
    )


def ending(entry: Expression, where: Expression) -> Expression:
    """The marker that ends the transaction of a log entry, where it has been written."""
    return ending_behind(
        leader.log.at(where), position(entry), entry.producer_id, when=~entry.idempotent_only
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


def is_filtered(entry: Expression, where: Expression, oldest_first: Expression) -> Expression:
    """Whether a reader that goes by the list of aborted transactions drops the entry.

    The list has their first offsets, the oldest or the newest one first. The reader drops what its
    producer id has from the list's head on, and takes the head away at each abort marker of the id
    (FetchResponse's aborted transactions; CompletedFetch.consumeAbortedTransactionsUpTo).
    """
    first, marker, between, other = (log_entry(name, where) for name in ("a", "m", "b", "o"))
    same_id = other.producer_id == entry.producer_id
    aborts = if_(same_id & (other.kind == ABORT), 1, 0)
    taken = sum_of(other, if_(position(other) < position(entry), aborts, 0))
    is_before = if_(
        oldest_first, position(other) < position(marker), position(other) > position(marker)
    )
    is_head = sum_of(other, if_(is_before, aborts, 0)) == taken
    ended_between = any_of(
        between,
        (between.producer_id == entry.producer_id)
        & (between.kind != DATA)
        & (position(between) > position(first))
        & (position(between) < position(marker)),
    )
    aborted_here = any_of(
        marker,
        (marker.producer_id == entry.producer_id)
        & (marker.kind == ABORT)
        & (position(first) < position(marker))
        & ~ended_between
        & is_head,
    )
    begun = any_of(
        first,
        (first.producer_id == entry.producer_id)
        & (first.kind == DATA)
        & ~first.idempotent_only
        & (position(first) <= position(entry))
        & aborted_here,
    )
    return (entry.kind == DATA) & ~entry.idempotent_only & begun
