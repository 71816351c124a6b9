"""Redpanda's coordinators and leaders, with the rules that they had of their own."""

from __future__ import annotations

import dataclasses

from ....language import (
    Bool,
    Change,
    Machine,
    Row,
    Set,
    Table,
    all_of,
    any_of,
    event,
    if_,
    set_of,
    size,
    some,
    variable,
)
from ...coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    FenceEnd,
    TransactionState,
    fence_end,
    partitions,
    pending,
    producer_epoch,
    producer_id,
    state,
)
from ...coordinator.markers import marker_connection
from ...coordinator.state_manager.failover import failover
from ...coordinator.state_manager.log import logged_partitions
from ...groups.coordinator_load import is_loaded, is_reading
from ...groups.log import RECORDS, log, replicated, store
from ...groups.offsets import offset_metadata
from ...groups.state import committed, group
from ...groups.state import pending as pending_offsets
from ...leader.isolation import log_entry
from ...leader.state import UNKNOWN, Kind, producers
from ...messages import (
    NO_EPOCH,
    OFFSET,
    PRODUCER_ID,
    EndTxn,
    EndTxnResponse,
    Errors,
    Result,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    answer_on,
    connection,
    partition,
)
from ..rules import rule
from . import offset_removal
from .offset_removal import replay_tombstone

staged_kept = rule(
    "staged_kept",
    "The sweep leaves an offset alone while a transaction has one of its partition staged. Before, "
    "it took the offset out of memory, and wrote its tombstone later.",
    "redpanda-data/redpanda pull request 31483, CORE-16998",
)
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
timeout_fences = rule(
    "timeout_fences",
    "A transaction that has expired is aborted under a new epoch. Before, under its own, and its "
    "producer went on.",
    "redpanda-data/redpanda pull request 23131",
)
evicted_epoch_checked = rule(
    "evicted_epoch_checked",
    "The eviction of an older epoch leaves the newer ones of its producer id. Before, it took the "
    "newest one along.",
    "redpanda-data/redpanda pull request 17880",
)
replayed_in_place = rule(
    "replayed_in_place",
    "A replay of a group's log puts an offset of a transaction where a running coordinator does. "
    "Before, it put it at the marker, ahead of a commit that came before the marker.",
    "redpanda-data/redpanda pull request 31483, CORE-17000",
)

kept = Machine("kept", doc="The coordinator's log of states, where a begin isn't in it.")
kept_state = kept.field("state", TransactionState, EMPTY)

entry = producers[WriteTxnMarkers.producer_id]
is_open = entry.current_txn_first_offset.is_set
is_of_older_epoch = WriteTxnMarkers.producer_epoch < entry.producer_epoch

evict = event(
    "older epoch evicted",
    producer_id=PRODUCER_ID,
    event_doc="The partition has too many producers. It evicts one that a newer epoch has fenced.",
)
newest = producers[evict.producer_id]
written = log_entry("e", partition.this)
has_older_epoch = any_of(
    written,
    (written.kind == Kind.DATA)
    & (written.producer_id == evict.producer_id)
    & (written.producer_epoch < newest.producer_epoch),
)
older_epoch_evicted = Table(
    partition,
    on=evict,
    when=has_older_epoch,
    rows=(
        Row(
            "newer-epoch-stays",
            "The newer epoch of the producer id stays",
            during=evicted_epoch_checked,
            source="redpanda-data/redpanda pull request 17880",
        ),
        Row(
            "newest-epoch-evicted",
            "The newest epoch of the producer id is forgotten, with its open transaction",
            set={newest: UNKNOWN},
            source="redpanda-data/redpanda pull request 17880",
        ),
    ),
)

redpanda = (
    Change(
        "redpanda",
        "Coordinators and leaders are Redpanda's.",
        machines=(kept,),
        tables=(older_epoch_evicted,),
        budgets={evict: 1},
        features=(
            begin_logged,
            outcome_unknown,
            own_epoch_ended,
            replay_acknowledged,
            term_pinned,
            timeout_fences,
            evicted_epoch_checked,
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
    .table("transaction.transaction timeout")
    .like(
        "fence",
        Row(
            "expired-under-its-epoch",
            "The transaction is aborted under its own epoch",
            set={fence_end: some(FenceEnd(producer_id=producer_id, producer_epoch=producer_epoch))},
            during=~timeout_fences,
            source="redpanda-data/redpanda pull request 23131",
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

end = offset_metadata.end
staged = pending_offsets[end.producer_id]
group_offsets = (
    Change(
        "redpanda",
        "The group's coordinator is Redpanda's.",
        features=(replayed_in_place,),
    )
    .table("group.transaction ended")
    .like(
        "replayed",
        Row(
            "replayed-at-marker",
            "A coordinator that loads puts the offset at the marker's place",
            set={committed: if_((end.result == Result.COMMIT) & staged.is_set, staged, committed)},
            during=~replayed_in_place,
            source="redpanda-data/redpanda pull request 31483, CORE-17000",
        ),
    )
)

# The sweep of expired offsets ---------------------------------------------------------------------

sweep = Machine("sweep", doc="What the coordinator has swept out of its memory alone.")
swept = sweep.field("swept", Bool(), doc="An expired offset whose tombstone isn't in the log yet.")
late = sweep.field("late", Set(OFFSET), doc="Tombstones of what was swept.")
write_tombstone = event("tombstone of a swept offset")
tombstone_written = Table(
    store,
    on=write_tombstone,
    others=(group, sweep, offset_removal.removal),
    when=swept & is_loaded & ~offset_removal.is_pending & (size(log) < RECORDS),
    doc="It comes behind the marker of a transaction that had an offset staged.",
    rows=(
        Row(
            "append-late",
            "The tombstone is in the log, whatever came in between",
            set={
                log: offset_removal.with_tombstone,
                offset_removal.tombstones: offset_removal.tombstones | set_of(size(log)),
                late: late | set_of(size(log)),
                swept: False,
            },
            source="redpanda-data/redpanda pull request 31483, CORE-16998",
        ),
    ),
)
place = variable("o", OFFSET)
is_swept_to_the_end = ~swept & all_of(place, place.is_in(late).implies(place.is_in(replicated)))
expired_offsets = (
    Change(
        "redpanda",
        "The group's coordinator is Redpanda's.",
        machines=(sweep,),
        tables=(tombstone_written,),
        features=(staged_kept,),
        properties=(
            dataclasses.replace(
                offset_removal.memory_is_replay,
                expression=is_swept_to_the_end.implies(offset_removal.memory_is_replay.expression),
            ),
        ),
    )
    .without_properties("MemoryIsReplay")
    .table("offsets.group metadata cleaned up")
    .before(
        "pending-offset",
        Row(
            "sweep",
            "The old offset leaves memory, though a transaction has one staged",
            when=offset_removal.is_pending & ~swept,
            set={committed: None, swept: True},
            during=~staged_kept,
            source="redpanda-data/redpanda pull request 31483, CORE-16998",
        ),
    )
    .table("group.tombstone replayed")
    .before(
        "removed",
        Row(
            "swept-before",
            "The coordinator has swept the offset before",
            when=~is_reading & replay_tombstone.appended.is_in(late),
            set={replicated: replicated | set_of(replay_tombstone.appended)},
            during=~staged_kept,
            source="redpanda-data/redpanda pull request 31483, CORE-16998",
        ),
    )
    .table("offsets.group coordinator failover")
    .also(set={swept: False, late: set_of()})
)
