"""OffsetDelete, and the cleanup of offsets and groups, at a group's coordinator from 4.0 on.

A tombstone takes the partition's offset out of the coordinator's memory, with those that open
transactions have of it. The coordinator's list of open transactions keeps it from deleting a group
that still gets offsets. Compaction leaves the last record of a key, so a replay finds nothing from
before a tombstone. Here the records are replicated in the order of the log. A tombstone in the log
has the kind of a marker, and no producer id.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Change,
    Expression,
    Machine,
    Row,
    Set,
    Table,
    all_of,
    any_of,
    append,
    constant,
    each,
    element,
    event,
    failure,
    feature,
    if_,
    invariant,
    max_of,
    set_of,
    size,
    some,
    those,
    variable,
)
from ...groups import coordinator_load
from ...groups.coordinator_load import counts, fail_over, is_heard, is_loaded, is_read, is_reading
from ...groups.log import RECORDS, Kind, Stored, ending, is_replicated, log, replicated, store
from ...groups.offsets import offset_metadata, offset_storage
from ...groups.state import committed, group, n, pending
from ...messages import OFFSET, PRODUCER_ID
from ...releases.group_features import group_coordinator_service

open_transaction_keeps_group = feature(
    "open_transaction_keeps_group",
    "4.0.1",
    sentence="The cleanup leaves a group without offsets while a transaction has one pending. "
    "Before, from 4.0.0 on, it deleted the group.",
    source="KAFKA-19163, OffsetMetadataManager.cleanupExpiredOffsets",
)
tombstone_ends_open = feature(
    "tombstone_ends_open",
    "4.0.1",
    sentence="A tombstone takes the open transactions off the list that have an offset of its "
    "partition. Before, from 4.0.0 on, a transaction without another offset stayed there for ever.",
    source="KAFKA-19164, OffsetMetadataManager.replay",
)

REMOVALS = constant(
    "removals", 1, 0, 2, meaning="deletions of offsets, and as many cleanups of the group"
)

removal = Machine("removal", doc="What the coordinator and the log know of removals.")
tombstones = removal.field("tombstones", Set(OFFSET), doc="Records that remove the offset.")
group_tombstones = removal.field(
    "group_tombstones", Set(OFFSET), doc="Those that remove the group."
)
exists = removal.field("exists", Bool(), doc="The coordinator knows the group.")
open_transactions = removal.field(
    "open_transactions",
    Set(PRODUCER_ID),
    doc="The producers whose transactions have an offset of the group, as the coordinator counts "
    "them (openTransactionsByGroup).",
)

item, earlier = element("e", log), element("d", log)
place = variable("o", OFFSET)
memory_is_current = is_loaded & all_of(item, is_replicated(item))
"""Whether memory has all of the log: the coordinator's has a record once it is appended."""
is_pending = any_of(n, pending[n].is_set)
has_open_transaction = open_transactions != set_of()
with_tombstone = append(log, Stored(kind=Kind.ABORT, place=size(log), offset=0, producer_id=None))


def follows_in_log(place: Expression) -> Expression:
    """Whether all records before a place are replicated."""
    return all_of(earlier, (earlier.place < place).implies(is_replicated(earlier)))


# What removes an offset ---------------------------------------------------------------------------

delete_offsets = event("OffsetDelete", event_doc="The group isn't subscribed to the topic.")
offset_deleted = Table(
    store,
    on=delete_offsets,
    others=(group, removal),
    when=memory_is_current & (size(log) < RECORDS),
    during=group_coordinator_service,
    rows=(
        Row(
            "append-tombstone",
            "A tombstone of the offset, committed or pending, is in the log",
            when=committed.is_set | is_pending,
            set={log: with_tombstone, tombstones: tombstones | set_of(size(log))},
            source="OffsetMetadataManager.deleteOffsets",
        ),
    ),
)
clean_up = event(
    "group metadata cleaned up",
    event_doc="offsets.retention.minutes are over, and the group is empty.",
)
cleaned_up = Table(
    store,
    on=clean_up,
    others=(group, removal),
    when=memory_is_current & (size(log) < RECORDS) & exists,
    during=group_coordinator_service,
    rows=(
        Row(
            "open-transaction",
            "The group has no offset, but an open transaction has one of it",
            when=~committed.is_set & has_open_transaction,
            during=open_transaction_keeps_group,
            source="KAFKA-19163, OffsetMetadataManager.cleanupExpiredOffsets",
        ),
        Row(
            "delete-group",
            "The group has no offset, and a tombstone of the group is in the log",
            when=~committed.is_set,
            set={log: with_tombstone, group_tombstones: group_tombstones | set_of(size(log))},
            source="OffsetMetadataManager.cleanupExpiredOffsets, "
            "GroupMetadataManager.maybeDeleteGroup",
        ),
        Row(
            "pending-offset",
            "An open transaction has an offset of the partition, and the old one doesn't expire",
            when=is_pending,
            source="OffsetMetadataManager.cleanupExpiredOffsets",
        ),
        Row(
            "expire-offset",
            "The offset expires, and the open transaction keeps the group",
            when=has_open_transaction,
            set={log: with_tombstone, tombstones: tombstones | set_of(size(log))},
            # of one partition: a transaction on the list has an offset pending from 4.0.1 on
            during=~tombstone_ends_open,
            source="OffsetMetadataManager.cleanupExpiredOffsets",
        ),
        Row(
            "expire-offset-and-group",
            "The offset expires, and the group with it, in one batch",
            set={
                log: with_tombstone,
                tombstones: tombstones | set_of(size(log)),
                group_tombstones: group_tombstones | set_of(size(log)),
            },
            source="OffsetMetadataManager.cleanupExpiredOffsets, "
            "GroupMetadataManager.maybeDeleteGroup",
        ),
    ),
)

# What the coordinator hears of --------------------------------------------------------------------

replay_tombstone = event("tombstone replayed", appended=OFFSET)
removes_offset = replay_tombstone.appended.is_in(tombstones)
removes_group = replay_tombstone.appended.is_in(group_tombstones)
tombstone_replayed = Table(
    group,
    on=replay_tombstone,
    others=(store, removal),
    when=(removes_offset | removes_group)
    & any_of(
        item,
        (item.place == replay_tombstone.appended)
        & if_(
            is_reading,
            is_read(item),
            is_loaded & is_heard(item) & follows_in_log(item.place),
        ),
    ),
    during=group_coordinator_service,
    rows=(
        Row(
            "removed",
            "The offset is gone, with those that are pending; the group is, if it was deleted",
            set={
                committed: if_(removes_offset, None, committed),
                pending: if_(removes_offset, each(n, None), pending),
                exists: exists & ~removes_group,
                open_transactions: if_(
                    removes_offset & tombstone_ends_open, set_of(), open_transactions
                ),
                replicated: if_(
                    is_reading, replicated, replicated | set_of(replay_tombstone.appended)
                ),
                coordinator_load.read: if_(
                    is_reading, coordinator_load.read + 1, coordinator_load.read
                ),
            },
            source="OffsetMetadataManager.replay, GroupMetadataManager.replay",
        ),
    ),
)

# What must hold -----------------------------------------------------------------------------------

marker = ending(item)
is_removed = any_of(place, place.is_in(tombstones) & place.is_in(replicated) & (place > item.place))
is_transactional = item.kind == Kind.TRANSACTION_OFFSET
has_ended = marker.is_set & counts(marker.value)
is_committed = ((item.kind == Kind.OFFSET) & counts(item)) | (
    is_transactional & has_ended & (marker.value.kind == Kind.COMMIT)
)
newest = max_of(item, if_(is_committed & ~is_removed, item.place + 1, 0), default=0)
is_open_of = is_transactional & counts(item) & ~has_ended & (item.producer_id == some(n))
newest_pending = max_of(item, if_(is_open_of & ~is_removed, item.place + 1, 0), default=0)
memory_is_replay = invariant(
    "MemoryIsReplay",
    (group_coordinator_service & is_loaded).implies(
        (if_(committed.is_set, committed.value.appended.value + 1, 0) == newest)
        & committed.is_set.implies(exists)
        & all_of(
            n,
            (if_(pending[n].is_set, pending[n].value.appended.value + 1, 0) == newest_pending)
            & n.is_in(open_transactions).implies(any_of(item, is_open_of)),
        )
    ),
    "The offsets in a coordinator's memory, committed and pending, are those of a replay of its "
    "log, which has no record from before a tombstone. It knows the group of a committed offset, "
    "and counts a transaction as open only until its marker.",
    "OffsetMetadataManager.replay; KAFKA-19163, KAFKA-19164",
    failure=failure(
        "memory has {} and pending {}; it counts as open {}, and the log has another offset, no "
        "open transaction or a deleted group",
        committed,
        pending,
        open_transactions,
    ),
)

own, in_transaction, end = (
    offset_metadata.offset_append,
    offset_metadata.txn_offset_append,
    offset_metadata.end,
)
offset_removal = (
    Change(
        "removal",
        "Offsets are deleted and expire, and the group with them.",
        machines=(removal,),
        tables=(offset_deleted, cleaned_up, tombstone_replayed),
        constants=(REMOVALS,),
        budgets={delete_offsets: REMOVALS, clean_up: REMOVALS},
        features=(open_transaction_keeps_group, tombstone_ends_open),
        properties=(memory_is_replay,),
        bounds={RECORDS: 3},
    )
    .without_properties(
        "CommittedKept",
        "TransactionKept",
        "InPlaceOnceEnded",
        "FetchedIsCommitted",
        "FetchedKept",
        "OffsetsForward",
        "StableFetch",
        "AnsweredKept",
        "MemoryIsReplay",
    )
    .table("group.offset appended")
    .without("older")
    .only_when(is_reading | follows_in_log(own.appended))
    .also(set={exists: True})
    .table("group.offset of a transaction appended")
    .only_when(is_reading | follows_in_log(in_transaction.appended))
    .also(
        set={
            exists: True,
            open_transactions: open_transactions | set_of(in_transaction.producer_id),
        }
    )
    .table("group.transaction ended")
    .only_when(offset_storage.reads_marker | follows_in_log(offset_storage.place))
    .also(
        set={
            open_transactions: if_(
                pending[end.producer_id].is_set,
                open_transactions - set_of(end.producer_id),
                open_transactions,
            )
        }
    )
    .table("offsets.group coordinator failover")
    .also(
        set={
            exists: False,
            open_transactions: set_of(),
            tombstones: those(place, place.is_in(tombstones) & (place < fail_over.kept)),
            group_tombstones: those(
                place, place.is_in(group_tombstones) & (place < fail_over.kept)
            ),
        }
    )
)
