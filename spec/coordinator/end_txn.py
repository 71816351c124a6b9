"""The end of a transaction at the coordinator: before version 2, and with it.

TransactionCoordinator.endTransaction is called for a client's EndTxn, and by the thread that has
fenced a transaction: it has the entry's lock twice, for the fence and for the end, and anything may
happen in between. So both have the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...language import Expression, Row, Sending, Table, if_, lift, minimum, only, to_each
from ...language.expressions import TRUE, Operand
from ..messages import (
    LARGEST_EPOCH,
    NO_EPOCH,
    EndTxn,
    EndTxnResponse,
    Errors,
    InitProducerIdResponse,
    Result,
    answer_on,
    clock,
    connection,
    now,
    offered_id,
    producer,
    producer_id_manager,
    transaction,
)
from ..releases.features import (
    failed_fence_kept,
    late_fence_end_refused,
    rotation_on_fence,
    single_fence_bump,
    transaction_version_2,
)
from ..releases.proposals import retry_by_entry
from . import entry
from .entry import c

Updates = Mapping[Expression, Operand]


def answer_fencers(error: Expression, when: Expression | bool = True) -> Sending:
    """The answer to whose InitProducerId made the coordinator abort a transaction."""
    return to_each(
        c,
        lift(when) & (entry.fenced_for[c] == connection.at(c)),
        InitProducerIdResponse(
            producer=c,
            error=error,
            connection=connection.at(c),
            producer_id=entry.producer_id,
            producer_epoch=NO_EPOCH,
        ),
    )


class End(NamedTuple):
    """The arguments of endTransaction; a fence never commits."""

    producer_id: Expression
    epoch: Expression
    commits: Expression | None

    @property
    def is_from_client(self) -> bool:
        return self.commits is not None

    def of_result(self, commit: Expression, abort: Expression) -> Expression:
        """One of two values: for a commit, or for an abort."""
        return abort if self.commits is None else if_(self.commits, commit, abort)

    @property
    def aborts(self) -> Expression:
        return TRUE if self.commits is None else ~self.commits

    def named(self, from_client: str, of_fence: str) -> str:
        return from_client if self.is_from_client else of_fence

    def from_client(self, *rows: Row) -> tuple[Row, ...]:
        """These rows, if a client may reach them."""
        return rows if self.is_from_client else ()

    def refuse(
        self, name: str, error: Expression, source: str, *, when: Operand = True,
        updates: Updates | None = None, epoch: Operand = NO_EPOCH, note: str = "",
        during: Expression = TRUE,
    ) -> Row:  # fmt: skip
        """A row that answers, and prepares nothing. Who has fenced is to try again after NONE."""
        if self.is_from_client:
            answer = answer_on(
                connection.at(EndTxn.producer), EndTxnResponse, EndTxn.connection,
                producer=EndTxn.producer, error=error, producer_id=entry.producer_id,
                producer_epoch=epoch,
            )  # fmt: skip
            return Row(
                name, when=when, set=updates or {}, reply=answer, source=source, note=note,
                during=during,
            )  # fmt: skip
        error_of_fencers = Errors.CONCURRENT_TRANSACTIONS if error is Errors.NONE else error
        return Row(
            name, when=when,
            set={**(updates or {}), entry.fence_end: None, entry.fenced_for: entry.NOBODY},
            send=(answer_fencers(error_of_fencers),), source=source, note=note, during=during,
        )  # fmt: skip

    def prepare(
        self, name: str, updates: Updates, source: str, *, when: Operand = True,
        start: Expression = entry.txn_start_timestamp,
    ) -> Row:  # fmt: skip
        """A row that prepares a record, with this start of the transaction. A client waits for it;
        a fence is over."""
        waits = entry.asks(EndTxn) if self.is_from_client else {entry.fence_end: None}
        record = {**updates, **entry.dated(start, entry.entry_version)}
        return Row(name, when=when, set={**record, **waits}, source=source)

    def overtaken(self, source: str) -> tuple[Row, ...]:
        """Rows for an end that comes late, if a fence ends only its own transaction."""
        row = self.refuse(
            "overtaken", Errors.CONCURRENT_TRANSACTIONS, source, when=~entry.fencing,
            during=late_fence_end_refused,
        )  # fmt: skip
        return () if self.is_from_client else (row,)

    def meets_a_fence(self, *, updates: Updates | None = None, note: str = "") -> tuple[Row, ...]:
        return self.from_client(
            self.refuse(
                "commit meets a fence", Errors.UNKNOWN_SERVER_ERROR, entry.PREPARE_TRANSITION,
                when=entry.fencing & ~self.aborts, updates=updates, note=note,
            )
        )  # fmt: skip

    def unknown(self, source: str) -> Row:
        return self.refuse(
            "unknown transactional id", Errors.INVALID_PRODUCER_ID_MAPPING, source,
            when=~entry.is_known & ~entry.pending.is_set,
        )  # fmt: skip

    def other_producer(self, source: str, *, unless: Expression | None = None) -> Row:
        other = self.producer_id != entry.producer_id
        return self.refuse(
            "other producer id", Errors.INVALID_PRODUCER_ID_MAPPING, source,
            when=other if unless is None else other & ~unless,
        )  # fmt: skip


BY_CLIENT = End(EndTxn.producer_id, EndTxn.producer_epoch, EndTxn.result == Result.COMMIT)
BY_FENCE = End(entry.fence_end.value.producer_id, entry.fence_end.value.producer_epoch, None)
OVERTAKES = "abort overtakes a fence"

# Before version 2 -------------------------------------------------------------------------------

_END_1 = "TransactionCoordinator.endTransactionWithTV1"
# KAFKA-9666: a fence takes its epoch before the append
_epoch_before = if_(failed_fence_kept, NO_EPOCH, entry.producer_epoch)


def _before_version_2(end: End) -> tuple[Row, ...]:
    prepare = end.of_result(entry.PREPARE_COMMIT, entry.PREPARE_ABORT)
    # of a client before 2.6, of a fence in all releases
    may_be_ahead = ~entry.ends_strictly if end.is_from_client else TRUE
    return only(
        ~transaction_version_2,
        end.unknown(_END_1),
        *end.overtaken(_END_1),
        end.other_producer(_END_1),
        *end.from_client(
            end.refuse(
                "other epoch", entry.fenced, "KAFKA-9600", when=end.epoch != entry.producer_epoch,
                during=entry.ends_strictly,
            ),
        ),
        end.refuse(
            "stale epoch", entry.fenced, "TransactionCoordinator.endTransaction before 2.6",
            when=end.epoch < entry.producer_epoch, during=may_be_ahead,
        ),
        end.refuse(
            "transition in progress", Errors.CONCURRENT_TRANSACTIONS, _END_1,
            when=entry.in_transition,
        ),
        end.prepare(
            end.named(OVERTAKES, "abort with the bumped epoch"),
            {
                entry.pending: entry.PREPARE_ABORT,
                entry.producer_epoch: end.epoch,
                entry.last_producer_epoch: _epoch_before,
                entry.failed_fence: failed_fence_kept,
                entry.pending_epoch: end.epoch,
                entry.pending_last_epoch: _epoch_before,
            },
            _END_1,
            when=entry.fencing & end.aborts,
        ),
        *end.meets_a_fence(),
        end.prepare(
            end.named("end", "abort a later transaction"),
            {
                entry.pending: prepare,
                entry.pending_epoch: entry.producer_epoch,
                entry.pending_last_epoch: entry.last_producer_epoch,
                entry.ends_ahead: may_be_ahead & (end.epoch > entry.producer_epoch),
            },
            "TransactionMetadata.prepareAbortOrCommit",
            when=entry.state == entry.ONGOING,
        ),
        end.refuse(
            "ended so already", Errors.NONE, _END_1,
            when=entry.state == end.of_result(entry.COMPLETE_COMMIT, entry.COMPLETE_ABORT),
        ),
        end.refuse(
            "end in progress", Errors.CONCURRENT_TRANSACTIONS, _END_1, when=entry.state == prepare
        ),
        end.refuse("no transaction to end so", Errors.INVALID_TXN_STATE, _END_1),
    )  # fmt: skip


# Version 2 --------------------------------------------------------------------------------------

END_2 = "TransactionCoordinator.endTransaction"
_needs_id = entry.exhausted & (rotation_on_fence | ~entry.fencing)
_ID_TAKEN: Updates = {offered_id: if_(_needs_id, entry.ID_TAKEN[offered_id], offered_id)}


def _version_2(end: End) -> tuple[Row, ...]:
    return only(
        transaction_version_2, *_refused(end), *_without_an_epoch(end), *_prepared(end)
    )  # fmt: skip


def _refused(end: End) -> tuple[Row, ...]:
    """The rows, by who ends the transaction and by its state."""
    retry_of_bump = (end.producer_id == entry.producer_id) & (entry.producer_epoch == end.epoch + 1)
    retry_of_overflow = (
        (entry.previous_id == end.producer_id)
        & (end.epoch == LARGEST_EPOCH - 1)
        & (entry.producer_epoch == 0)
    )
    is_retry = ~entry.fencing & (retry_of_bump | retry_of_overflow)
    ends = entry.state.is_in(entry.COMPLETE_COMMIT, entry.COMPLETE_ABORT)
    is_current = end.epoch == entry.producer_epoch
    if not end.is_from_client:
        is_current = if_(entry.fencing, end.epoch >= entry.producer_epoch, is_current)
    prepare = end.of_result(entry.PREPARE_COMMIT, entry.PREPARE_ABORT)
    done = end.of_result(entry.COMPLETE_COMMIT, entry.COMPLETE_ABORT)
    return (
        end.unknown(END_2),
        *end.overtaken(END_2),
        end.refuse(
            "transition in progress", Errors.CONCURRENT_TRANSACTIONS, END_2,
            when=entry.in_transition,
        ),
        end.other_producer(END_2, unless=is_retry & retry_of_overflow),
        *end.from_client(
            end.refuse(
                "retry of an end without a new epoch", entry.fenced, END_2,
                when=is_retry
                & (entry.is_prepared | ends)
                & (entry.client_transaction_version != 2),
                during=retry_by_entry,
            ),
        ),
        end.refuse(
            "other epoch", entry.fenced, END_2,
            when=~if_(
                entry.is_prepared,
                is_retry & retry_of_bump,
                if_(ends, is_retry | is_current, is_current),
            ),
        ),
        end.refuse(
            "ended so already", Errors.NONE, END_2, when=is_retry & (entry.state == done),
            epoch=entry.producer_epoch,
        ),
        end.refuse(
            "ended otherwise already", Errors.INVALID_TXN_STATE, END_2, when=is_retry & ends
        ),
        end.refuse(
            "end in progress", Errors.CONCURRENT_TRANSACTIONS, END_2, when=entry.state == prepare
        ),
        end.refuse(
            "other end in progress", Errors.INVALID_TXN_STATE, END_2, when=entry.is_prepared
        ),
        *end.from_client(
            end.refuse(
                "commit of nothing", Errors.INVALID_TXN_STATE, END_2,
                when=~end.aborts & entry.is_settled,
            ),
        ),
    )  # fmt: skip


def _without_an_epoch(end: End) -> tuple[Row, ...]:
    """Rows for an end that can't have the producer id or the epoch that it needs, or that a pending
    fence is for."""
    return (
        end.refuse(
            end.named(
                "no producer id for an abort that overtakes a fence",
                "no producer id for the abort",
            ),
            Errors.COORDINATOR_LOAD_IN_PROGRESS, END_2,
            when=entry.fencing & end.aborts & _needs_id & ~offered_id.is_set,
            updates={entry.pending: None},
            during=rotation_on_fence,
            note=end.named("The fence finds no fence pending, and holds an epoch that nobody took.",
                           ""),
        ),
        end.refuse(
            "no producer id to be had", Errors.COORDINATOR_LOAD_IN_PROGRESS, entry.NEW_ID,
            when=_needs_id & ~offered_id.is_set,
        ),
        *end.meets_a_fence(
            note="A producer id is taken also if the epochs are used up.",
            updates=_ID_TAKEN,
        ),
        *(() if end.is_from_client else (
            end.refuse(
                "a second new epoch overflows", Errors.UNKNOWN_SERVER_ERROR,
                "TransactionMetadata.prepareTransitionTo in 4.0.0, an epoch below 0",
                when=entry.fencing & (end.epoch == LARGEST_EPOCH),
                updates={
                    entry.pending: None,
                    entry.producer_epoch: end.epoch,
                    entry.last_producer_epoch: NO_EPOCH,
                },
                during=~single_fence_bump,
                note="The transaction stays open, and nobody holds the epoch that could end it.",
            ),
        )),
        end.refuse(
            "end at the largest epoch", Errors.UNKNOWN_SERVER_ERROR,
            "TransactionMetadata.prepareTransitionTo, an epoch below 0",
            when=(entry.producer_epoch == LARGEST_EPOCH) & (~end.aborts | ~rotation_on_fence),
            note="The producer id that was taken for it is lost.",
            updates=_ID_TAKEN,
        ),
    )  # fmt: skip


def _prepared(end: End) -> tuple[Row, ...]:
    """The end begins, with the next epoch for the client."""
    prepare = end.of_result(entry.PREPARE_COMMIT, entry.PREPARE_ABORT)
    # in 4.0.0 the end takes an epoch after that of the fence
    ended = (
        entry.producer_epoch
        if end.is_from_client
        else if_(single_fence_bump | ~entry.fencing, entry.producer_epoch, end.epoch)
    )
    next_epoch: Updates = {
        entry.pending_epoch: minimum(ended + 1, LARGEST_EPOCH),
        entry.pending_last_epoch: ended,
        entry.next_id: if_(_needs_id, offered_id, None),
        **_ID_TAKEN,
    }
    return (
        end.prepare(
            end.named(OVERTAKES, "abort, which bumps the epoch"),
            {
                entry.pending: entry.PREPARE_ABORT,
                entry.producer_epoch: ended,
                entry.last_producer_epoch: if_(
                    single_fence_bump, entry.last_producer_epoch, NO_EPOCH
                ),
                entry.failed_fence: if_(single_fence_bump, entry.failed_fence, failed_fence_kept),
                **next_epoch,
            },
            f"{END_2}, KAFKA-19367, KAFKA-20090",
            when=entry.fencing,
        ),
        end.prepare(
            end.named("end", "abort a later transaction"),
            {entry.pending: prepare, **next_epoch},
            "TransactionMetadata.prepareAbortOrCommit",
            when=entry.state == entry.ONGOING,
        ),
        end.prepare(
            "abort of nothing",
            {entry.pending: entry.PREPARE_ABORT, **next_epoch},
            "KIP-890 part 2, the empty abort",
            start=now,
        ),
    )  # fmt: skip


def _rows(end: End) -> tuple[Row, ...]:
    return _before_version_2(end) + _version_2(end)


_ELSEWHERE = (producer, clock, producer_id_manager)
end_txn = Table(transaction, on=EndTxn, others=_ELSEWHERE, rows=_rows(BY_CLIENT))
fence_continues = Table(
    transaction,
    on=entry.continue_fence,
    others=_ELSEWHERE,
    when=entry.fence_end.is_set,
    rows=_rows(BY_FENCE),
)
