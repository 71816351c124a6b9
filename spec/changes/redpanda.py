"""Redpanda's coordinator and leaders, with the rules that they had of their own."""

from __future__ import annotations

from ...language import Change, Machine, Row, set_of
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
from ..coordinator.failover import failover
from ..coordinator.log import logged_partitions
from ..coordinator.markers import marker_connection
from ..leader.state import producers
from ..messages import (
    NO_EPOCH,
    EndTxn,
    EndTxnResponse,
    Errors,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    answer_on,
    connection,
)
from .rules import rule

begin_logged = rule(
    "begin_logged",
    "A transaction's begin is in the coordinator's log. Before, only in its memory.",
    "redpanda-data/redpanda 1a301657, issue 6018, 22.3.1",
)
outcome_unknown = rule(
    "outcome_unknown",
    "An end that finds its transaction ended is answered that its outcome isn't known. Before, "
    "it counted as done, whichever transaction had ended.",
    "redpanda-data/redpanda e11114e7, pull request 3501, 22.1.1",
)
own_epoch_ended = rule(
    "own_epoch_ended",
    "A marker ends what was written under its own epoch. Before, it ended all that was open of "
    "its producer id.",
    "redpanda-data/redpanda e312dd17, 22.1.1",
)
replay_acknowledged = rule(
    "replay_acknowledged",
    "A marker that finds no transaction is acknowledged. Before, it was an error.",
    "redpanda-data/redpanda pull request 21340, a439f1f4, 24.2.1",
)
term_pinned = rule(
    "term_pinned",
    "A transaction that began in a term of its leader ends in that term. Before, it went on in a "
    "later one.",
    "redpanda-data/redpanda 90967b6f, 22.1.1",
)


kept = Machine("kept", doc="The coordinator's log of states, where a begin isn't in it.")
kept_state = kept.field("state", TransactionState, EMPTY)

entry = producers[WriteTxnMarkers.producer_id]
is_open = entry.current_txn_first_offset.is_set
is_of_older_epoch = WriteTxnMarkers.producer_epoch < entry.producer_epoch

redpanda = (
    Change(
        "redpanda",
        "Coordinators and leaders are Redpanda's.",
        machines=(kept,),
        features=(
            begin_logged,
            outcome_unknown,
            own_epoch_ended,
            replay_acknowledged,
            term_pinned,
        ),
    )
    .table("transaction.log append")
    .like(
        "commit-completed",
        Row(
            "commit-completed-in-log",
            "The completed commit is all that the log says",
            set={kept_state: COMPLETE_COMMIT},
            during=~begin_logged,
        ),
    )
    .like(
        "abort-completed",
        Row(
            "abort-completed-in-log",
            "The completed abort is all that the log says",
            set={kept_state: COMPLETE_ABORT},
            during=~begin_logged,
        ),
    )
    .table("transaction.coordinator failover")
    .like(
        "no-new-record",
        Row(
            "begin-in-no-log",
            "The begin is in no log, and the transaction is forgotten",
            when=(state == ONGOING) & ~failover.record_kept,
            goto=kept_state,
            set={partitions: set_of(), logged_partitions: set_of()},
            during=~begin_logged,
            source="redpanda-data/redpanda 1a301657, issue 6018, 22.3.1",
        ),
    )
    .table("transaction.EndTxn")
    .before(
        "unknown-id",
        Row(
            "outcome-unknown",
            "The transaction has ended, or never begun; its outcome isn't known",
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
            source="redpanda-data/redpanda e11114e7, pull request 3501, 22.1.1",
        ),
    )
    .table("partition.WriteTxnMarkers")
    .like(
        "end-transaction",
        Row(
            "newer-epoch-ended",
            "The marker ends what a newer epoch has open",
            when=is_of_older_epoch,
            set={entry.producer_epoch: entry.producer_epoch},
            during=~own_epoch_ended,
            source="redpanda-data/redpanda e312dd17, 22.1.1",
        ),
        before="stale-epoch",
    )
    .before(
        "stale-epoch",
        Row(
            "no-transaction-refused",
            "The marker finds no transaction: an error",
            when=~is_open & ~is_of_older_epoch,
            during=~replay_acknowledged,
            reply=answer_on(
                marker_connection[WriteTxnMarkers.partition],
                WriteTxnMarkersResponse,
                WriteTxnMarkers.connection,
                partition=WriteTxnMarkers.partition,
                error=Errors.INVALID_PRODUCER_EPOCH,
            ),
            source="redpanda-data/redpanda pull request 21340, a439f1f4, 24.2.1",
        ),
    )
    .like(
        "end-transaction",
        Row(
            "ended-in-later-term",
            "The transaction ends in a later term than it began",
            when=~is_of_older_epoch & (WriteTxnMarkers.coordinator_epoch < entry.coordinator_epoch),
            during=~term_pinned,
            source="redpanda-data/redpanda 90967b6f, 22.1.1",
        ),
        before="stale-epoch",
    )
)
