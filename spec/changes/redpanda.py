"""Redpanda's coordinator and leaders, where their rules were their own."""

from __future__ import annotations

import dataclasses

from ...language import Expression, Machine, Row, Table, set_of
from ...language.variants import Variant
from ..coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    TransactionState,
    partitions,
    pending,
    producer_epoch,
    producer_id,
    state,
)
from ..coordinator.failover import failover, fails_over
from ..coordinator.log import log_append, log_appended, logged_partitions
from ..leader.markers import write_markers
from ..leader.state import producers
from ..messages import (
    NO_EPOCH,
    EndTxn,
    EndTxnResponse,
    Errors,
    WriteTxnMarkers,
    answer_on,
    connection,
    partition,
    producer,
    transaction,
)
from .rules import rule

begin_logged = rule(
    "begin_logged",
    "A transaction's begin is in the coordinator's log; before, in its memory alone.",
    "redpanda-data/redpanda 1a301657, issue 6018, 22.3.1",
)
outcome_unknown = rule(
    "outcome_unknown",
    "An end that finds its transaction ended is answered that its outcome isn't known; before, it "
    "counted as done, whichever transaction had ended.",
    "redpanda-data/redpanda e11114e7, pull request 3501, 22.1.1",
)
own_epoch_ended = rule(
    "own_epoch_ended",
    "A marker ends what was written under its own epoch; before, whatever was open of its producer "
    "id.",
    "redpanda-data/redpanda e312dd17, 22.1.1",
)
replay_acknowledged = rule(
    "replay_acknowledged",
    "A marker that finds no transaction is acknowledged; before, it was an error.",
    "redpanda-data/redpanda pull request 21340, a439f1f4, 24.2.1",
)
term_pinned = rule(
    "term_pinned",
    "A transaction that began in a term of its leader ends in that term; before, it went on in a "
    "later one.",
    "redpanda-data/redpanda 90967b6f, 22.1.1",
)


def _row(table: Table, name: str) -> Row:
    """The first row of that name, which a variant's row is made of."""
    return next(row for row in table.rows if row.id == name)


kept = Machine("kept", doc="The coordinator's log if a begin isn't in it.")
kept_state = kept.field("state", TransactionState, EMPTY)


def _completed(name: str, ended: Expression) -> Row:
    row = _row(log_appended, name)
    return dataclasses.replace(
        row,
        id=f"{name}, and kept",
        name="",
        set={**row.set, kept_state: ended},
        during=~begin_logged,
    )


_lost = _row(fails_over, "no new record is in the log")
_end, _none = _row(write_markers, "end the transaction"), _row(write_markers, "stale epoch")
_entry = producers[WriteTxnMarkers.producer_id]
_opened = _entry.current_txn_first_offset.is_set
_older = WriteTxnMarkers.producer_epoch < _entry.producer_epoch
_newer_kept = {
    target: value for target, value in _end.set.items() if target is not _entry.producer_epoch
}

variant = Variant(
    "redpanda",
    "Coordinators and leaders are Redpanda's.",
    (
        Table(
            transaction,
            on=log_append,
            others=(*log_appended.others, kept),
            rows=(
                _completed("commit completed", COMPLETE_COMMIT),
                _completed("abort completed", COMPLETE_ABORT),
            ),
        ),
        Table(
            transaction,
            on=failover,
            others=(*fails_over.others, kept),
            rows=(
                dataclasses.replace(
                    _lost,
                    id="the begin is in no log",
                    name="",
                    when=(state == ONGOING) & ~failover.record_kept,
                    goto=kept_state,
                    set={**_lost.set, partitions: set_of(), logged_partitions: set_of()},
                    during=~begin_logged,
                    source=begin_logged.data.source,
                ),
            ),
        ),
        Table(
            transaction,
            on=EndTxn,
            others=(producer,),
            rows=(
                Row(
                    "ended already, or never begun: nobody knows",
                    when=state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)
                    & ~pending.is_set
                    & (EndTxn.producer_id == producer_id)
                    & (EndTxn.producer_epoch == producer_epoch),
                    during=outcome_unknown & ~begin_logged,
                    reply=answer_on(
                        connection.at(EndTxn.producer),
                        EndTxnResponse,
                        EndTxn.connection,
                        producer=EndTxn.producer,
                        error=Errors.UNKNOWN_SERVER_ERROR,
                        producer_id=producer_id,
                        producer_epoch=NO_EPOCH,
                    ),
                    source=outcome_unknown.data.source,
                ),
            ),
        ),
        Table(
            partition,
            on=WriteTxnMarkers,
            response=write_markers.response,
            others=write_markers.others,
            rows=(
                dataclasses.replace(
                    _end,
                    id="end what a newer epoch has open",
                    name="",
                    when=_opened & _older,
                    set=_newer_kept,
                    during=~own_epoch_ended,
                    source=own_epoch_ended.data.source,
                ),
                dataclasses.replace(
                    _none,
                    id="no transaction: an error",
                    name="",
                    when=~_opened & ~_older,
                    during=~replay_acknowledged,
                    source=replay_acknowledged.data.source,
                ),
                dataclasses.replace(
                    _end,
                    id="end it in a later term",
                    name="",
                    when=_opened
                    & ~_older
                    & (WriteTxnMarkers.coordinator_epoch < _entry.coordinator_epoch),
                    during=~term_pinned,
                    source=term_pinned.data.source,
                ),
            ),
        ),
    ),
    (begin_logged, outcome_unknown, own_epoch_ended, replay_acknowledged, term_pinned),
)
