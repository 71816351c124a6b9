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
from epochfence.spec.coordinator import log, tables
from epochfence.spec.coordinator.add_partitions import add_partitions, add_partitions_by_leader
from epochfence.spec.coordinator.end_txn import (
    BY_CLIENT,
    BY_FENCE,
    END_2,
    NO_FENCE,
    OVERTAKES,
    End,
    end_txn,
    fence_continues,
    id_taken,
    next_id_taken,
)
from epochfence.spec.coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ENDED,
    FENCE_TAKEN,
    NEW_ID,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    client_transaction_version,
    ending,
    ends_ahead,
    exhausted,
    fenced,
    fencing,
    in_transition,
    is_prepared,
    last_producer_epoch,
    offered_id,
    pending,
    pending_epoch,
    pending_last_epoch,
    pending_version,
    previous_id,
    producer_epoch,
    state,
)
from epochfence.spec.coordinator.init_producer_id import init_producer_id
from epochfence.spec.features import transaction_version_2
from epochfence.spec.messages import LARGEST_EPOCH, NO_EPOCH, Errors
from epochfence.tests.conformance.metadata_functions import (
    TABLES,
    Functions,
    end_table,
    ended,
)

RELEASE = "3.9"


def _ends(end: End) -> tuple[Row, ...]:
    """What the request's version is decides what the end does to the epoch, what the version of the
    end before was decides which epochs count."""
    bumps_since = ~fencing & (client_transaction_version == 2)
    retry_of_bump = bumps_since & (producer_epoch == end.epoch + 1)
    retry_of_overflow = bumps_since & (
        (previous_id == end.producer_id) & (end.epoch == LARGEST_EPOCH - 1) & (producer_epoch == 0)
    )
    is_current = end.epoch == producer_epoch
    needs_id = transaction_version_2 & exhausted & ~fencing
    prepare = end.of_result(PREPARE_COMMIT, PREPARE_ABORT)
    ahead = ~TRUE if end.is_from_client else end.epoch > producer_epoch
    return (
        end.unknown(END_2),
        *end.overtaken(END_2),
        end.other_producer(END_2, unless=retry_of_overflow),
        end.refuse(
            "other epoch", fenced, END_2,
            when=~if_(
                bumps_since & is_prepared,
                retry_of_bump,
                if_(
                    bumps_since & state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT),
                    retry_of_bump | retry_of_overflow,
                    if_(
                        bumps_since, is_current,
                        is_current if end.is_from_client else end.epoch >= producer_epoch,
                    ),
                ),
            ),
        ),
        end.refuse(
            "transition in flight", Errors.CONCURRENT_TRANSACTIONS, END_2, when=in_transition
        ),
        *end.meets_a_fence(),
        end.refuse(
            "no producer id to be had", Errors.COORDINATOR_LOAD_IN_PROGRESS, NEW_ID,
            when=(state == ONGOING) & needs_id & ~offered_id.is_set,
        ),
        *(() if end.is_from_client else (
            end.refuse(
                "a second new epoch overflows", Errors.UNKNOWN_SERVER_ERROR,
                "TransactionMetadata.prepareTransitionTo in 4.0.0, an epoch below 0",
                when=fencing & transaction_version_2 & (end.epoch == LARGEST_EPOCH),
                updates={**NO_FENCE, producer_epoch: end.epoch, last_producer_epoch: NO_EPOCH},
                note="The transaction stays open, and nobody holds the epoch that could end it.",
            ),
        )),
        end.refuse(
            "end at the largest epoch", Errors.UNKNOWN_SERVER_ERROR,
            "TransactionMetadata.prepareTransitionTo, an epoch below 0",
            when=(state == ONGOING) & transaction_version_2 & (producer_epoch == LARGEST_EPOCH),
            updates=id_taken(needs_id),
        ),
        end.prepare(
            end.named(OVERTAKES, "abort with the bumped epoch"),
            {
                pending: PREPARE_ABORT,
                producer_epoch: end.epoch,
                pending_epoch: if_(
                    transaction_version_2, minimum(end.epoch + 1, LARGEST_EPOCH), end.epoch
                ),
                pending_last_epoch: if_(transaction_version_2, end.epoch, NO_EPOCH),
            }
            | FENCE_TAKEN
            | ENDED,
            END_2,
            when=fencing,
        ),
        end.prepare(
            end.named("end", "abort a later transaction"),
            ending(prepare, transaction_version_2)
            | next_id_taken(needs_id)
            | {ends_ahead: ~transaction_version_2 & ahead},
            "TransactionMetadata.prepareAbortOrCommit",
            when=state == ONGOING,
        ),
        end.refuse(
            "ended so already", Errors.NONE, END_2, epoch=producer_epoch,
            when=state == end.of_result(COMPLETE_COMMIT, COMPLETE_ABORT),
        ),
        end.refuse(
            "end under way", Errors.CONCURRENT_TRANSACTIONS, END_2, when=state == prepare
        ),
        end.refuse("no transaction to end so", Errors.INVALID_TXN_STATE, END_2),
    )  # fmt: skip


def _forgets_version(row: Row) -> Row:
    """A record with a new epoch or a new partition is of no version."""
    return replace(row, set={**row.set, pending_version: 0}) if pending_version in row.set else row


def _tells_epoch(row: Row) -> Row:
    """The answer to an end has the epoch, whatever the version of its request."""

    def settled(node: Expression) -> Expression | None:
        return TRUE if node is transaction_version_2 else None

    def told(sent: Sending) -> Sending:
        return replace(sent, fields=tuple((n, rewrite(value, settled)) for n, value in sent.fields))

    return replace(row, send=tuple(map(told, row.send)))


def _forgets_epoch(row: Row) -> Row:
    """An end of version 2 that is completed has no epoch before it."""
    if row.name not in ("commit completed", "abort completed"):
        return row
    last = if_(pending_version == 2, producer_epoch, last_producer_epoch)
    return replace(row, set={**row.set, last_producer_epoch: last})


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
        *(end_table(state == ONGOING) if table is ended else table for table in TABLES),
    )
