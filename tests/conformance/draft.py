"""The trunk that Kafka's cases come from: of 25 October 2024 (commit 1eb7644349), half of 4.0.

It is 3.9, and its coordinator a draft of transactions of version 2. Its clients and leaders knew no
request of that version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from epochfence.language import Expression, Row, Sending, Table, if_, minimum
from epochfence.language.expressions import TRUE, rewrite
from epochfence.model import TransactionCoordinator, TransactionMetadata
from epochfence.spec.coordinator import entry, log, tables
from epochfence.spec.coordinator.add_partitions import add_partitions, add_partitions_by_leader
from epochfence.spec.coordinator.end_txn import (
    BY_CLIENT,
    BY_FENCE,
    END_2,
    OVERTAKES,
    End,
    end_txn,
    fence_continues,
)
from epochfence.spec.coordinator.init_producer_id import init_producer_id
from epochfence.spec.messages import LARGEST_EPOCH, NO_EPOCH, Errors, offered_id
from epochfence.spec.releases.features import failed_fence_kept, transaction_version_2
from epochfence.tests.conformance.metadata_functions import (
    TABLES,
    Functions,
    end_table,
    ended,
)

RELEASE = "3.9"


_needs_id = transaction_version_2 & entry.exhausted & ~entry.fencing
_ID_TAKEN = {offered_id: if_(_needs_id, entry.ID_TAKEN[offered_id], offered_id)}


def _ends(end: End) -> tuple[Row, ...]:
    """What the request's version is decides what the end does to the epoch, what the version of the
    end before was decides which epochs count."""
    done = end.of_result(entry.COMPLETE_COMMIT, entry.COMPLETE_ABORT)
    prepare = end.of_result(entry.PREPARE_COMMIT, entry.PREPARE_ABORT)
    return (
        *_whose(end),
        *end.meets_a_fence(),
        *_without_an_epoch(end),
        *_prepared(end, prepare),
        end.refuse(
            "ended so already", Errors.NONE, END_2, epoch=entry.producer_epoch,
            when=entry.state == done,
        ),
        end.refuse(
            "end in progress", Errors.CONCURRENT_TRANSACTIONS, END_2, when=entry.state == prepare
        ),
        end.refuse("no transaction to end so", Errors.INVALID_TXN_STATE, END_2),
    )  # fmt: skip


def _whose(end: End) -> tuple[Row, ...]:
    """By whose the end is."""
    bumps_since = ~entry.fencing & (entry.client_transaction_version == 2)
    retry_of_bump = bumps_since & (entry.producer_epoch == end.epoch + 1)
    retry_of_overflow = (
        bumps_since
        & (entry.previous_id == end.producer_id)
        & (end.epoch == LARGEST_EPOCH - 1)
        & (entry.producer_epoch == 0)
    )
    is_current = end.epoch == entry.producer_epoch
    is_newer = is_current if end.is_from_client else end.epoch >= entry.producer_epoch
    ends = entry.state.is_in(entry.COMPLETE_COMMIT, entry.COMPLETE_ABORT)
    return (
        end.unknown(END_2),
        *end.overtaken(END_2),
        end.other_producer(END_2, unless=retry_of_overflow),
        end.refuse(
            "other epoch", entry.fenced, END_2,
            when=~if_(
                bumps_since & entry.is_prepared,
                retry_of_bump,
                if_(
                    bumps_since & ends,
                    retry_of_bump | retry_of_overflow,
                    if_(bumps_since, is_current, is_newer),
                ),
            ),
        ),
        end.refuse(
            "transition in progress", Errors.CONCURRENT_TRANSACTIONS, END_2,
            when=entry.in_transition,
        ),
    )  # fmt: skip


def _without_an_epoch(end: End) -> Iterator[Row]:
    """What comes of an end that can't have the producer id or the epoch that it needs."""
    is_open = entry.state == entry.ONGOING
    yield end.refuse(
        "no producer id to be had", Errors.COORDINATOR_LOAD_IN_PROGRESS, entry.NEW_ID,
        when=is_open & _needs_id & ~offered_id.is_set,
    )  # fmt: skip
    if not end.is_from_client:
        yield end.refuse(
            "a second new epoch overflows", Errors.UNKNOWN_SERVER_ERROR,
            "TransactionMetadata.prepareTransitionTo in 4.0.0, an epoch below 0",
            when=entry.fencing & transaction_version_2 & (end.epoch == LARGEST_EPOCH),
            updates={
                entry.pending: None,
                entry.producer_epoch: end.epoch,
                entry.last_producer_epoch: NO_EPOCH,
            },
            note="The transaction stays open, and nobody holds the epoch that could end it.",
        )  # fmt: skip
    yield end.refuse(
        "end at the largest epoch", Errors.UNKNOWN_SERVER_ERROR,
        "TransactionMetadata.prepareTransitionTo, an epoch below 0",
        when=is_open & transaction_version_2 & (entry.producer_epoch == LARGEST_EPOCH),
        updates=_ID_TAKEN,
    )  # fmt: skip


def _prepared(end: End, prepare: Expression) -> tuple[Row, ...]:
    """The end begins. In version 2 it takes an epoch, after that of a fence where it ends one."""
    ahead = ~TRUE if end.is_from_client else end.epoch > entry.producer_epoch
    bumps = transaction_version_2
    return (
        end.prepare(
            end.named(OVERTAKES, "abort with the bumped epoch"),
            {
                entry.pending: entry.PREPARE_ABORT,
                entry.producer_epoch: end.epoch,
                entry.last_producer_epoch: if_(failed_fence_kept, NO_EPOCH, entry.producer_epoch),
                entry.failed_fence: failed_fence_kept,
                entry.pending_epoch: if_(bumps, minimum(end.epoch + 1, LARGEST_EPOCH), end.epoch),
                entry.pending_last_epoch: if_(bumps, end.epoch, NO_EPOCH),
            },
            END_2,
            when=entry.fencing,
        ),
        end.prepare(
            end.named("end", "abort a later transaction"),
            {
                entry.pending: prepare,
                entry.pending_epoch: if_(bumps, entry.bumped_epoch, entry.producer_epoch),
                entry.pending_last_epoch: if_(
                    bumps, entry.producer_epoch, entry.last_producer_epoch
                ),
                entry.next_id: if_(_needs_id, offered_id, None),
                **_ID_TAKEN,
                entry.ends_ahead: ~bumps & ahead,
            },
            "TransactionMetadata.prepareAbortOrCommit",
            when=entry.state == entry.ONGOING,
        ),
    )


def _forgets_version(row: Row) -> Row:
    """A record with a new epoch or a new partition is of no version."""
    return (
        replace(row, set={**row.set, entry.pending_version: 0})
        if entry.pending_version in row.set
        else row
    )


def _tells_epoch(row: Row) -> Row:
    """The answer to an end has the epoch, whatever the version of its request."""

    def settled(node: Expression) -> Expression | None:
        return TRUE if node is transaction_version_2 else None

    def told(sent: Sending) -> Sending:
        return replace(sent, fields=tuple((n, rewrite(value, settled)) for n, value in sent.fields))

    return replace(row, send=tuple(map(told, row.send)))


def _forgets_epoch(row: Row) -> Row:
    """An end of version 2 that is completed has no epoch before it."""
    if row.id not in ("commit completed", "abort completed"):
        return row
    last = if_(entry.pending_version == 2, entry.producer_epoch, entry.last_producer_epoch)
    return replace(row, set={**row.set, entry.last_producer_epoch: last})


def _tables() -> Iterator[Table]:
    changes = {
        init_producer_id: _forgets_version,
        add_partitions: _forgets_version,
        add_partitions_by_leader: _forgets_version,
        log.completion_begins: _tells_epoch,
        log.log_appended: _forgets_epoch,
    }
    ends = {end_txn: BY_CLIENT, fence_continues: BY_FENCE}
    for table in tables.DRIVEN:
        rows = table.rows
        if table in ends:
            rows = _ends(ends[table])
        elif table in changes:
            rows = tuple(map(changes[table], rows))
            assert rows != table.rows, table.name
        yield replace(table, rows=rows)


class DraftCoordinator(TransactionCoordinator):
    """The coordinator of that trunk."""

    tables: ClassVar = tuple(_tables())
    features: ClassVar = (transaction_version_2.data.name,)

    def pending_record(self, transactional_id: str) -> TransactionMetadata:
        """See TransactionStateManager: a completed end has the epoch as that before it."""
        record = super().pending_record(transactional_id)
        if record.state in ("CompleteCommit", "CompleteAbort"):
            epoch = self.entries[transactional_id]["producer_epoch"]
            return record._replace(last_producer_epoch=epoch)
        return record


class DraftFunctions(Functions, DraftCoordinator):
    """Its entries, whose functions can be called by themselves."""

    tables: ClassVar = (
        *DraftCoordinator.tables,
        *(end_table(entry.state == entry.ONGOING) if table is ended else table for table in TABLES),
    )
