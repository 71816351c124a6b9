"""`delete.retention.ms`: how long the log cleaner keeps a marker or tombstone that it could remove.

From 3.1 on the cleaning that finds no record of a marker's transaction any more, or a tombstone,
sets the delete horizon: that is when a later cleaning may remove it (KIP-534). Before, a segment
kept its records unless the last one that was cleaned had been written to so much later. That was
too short for a late cleaning, and for ever where all is in one segment.

Time passes in steps of `delete.retention.ms`, and cleanings and reads take none. So a reader is in
time that has read all of the log, from where it began, before the next step.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Change,
    Int,
    Machine,
    Row,
    Set,
    Table,
    all_of,
    any_of,
    append,
    constant,
    element,
    event,
    failure,
    feature,
    first_of,
    if_,
    invariant,
    keep,
    set_of,
    those,
    variable,
)
from ...leader.state import Kind
from ...reading import partition
from ...reading import state as reading
from ...reading.partition import (
    clean,
    entry,
    is_clean,
    is_in_first_segment,
    is_needed,
    is_obsolete,
)
from ...reading.state import (
    CLEANINGS,
    ENTRIES,
    KEY,
    OFFSET,
    PARTIAL_CLEANINGS,
    PRODUCER_ID,
    PRODUCER_IDS,
    SEGMENT,
)

delete_horizon = feature(
    "delete_horizon",
    "3.3",
    sentence="A marker or tombstone stays for delete.retention.ms after the cleaning that could "
    "have removed it first (from 3.1). Before, the times at which segments were written "
    "counted.",
    source="KIP-534, MemoryRecords.filterTo",
)

STEPS = constant("retentions", 1, 0, 2, meaning="how often delete.retention.ms passes")
TOMBSTONES = constant("tombstones", 0, 0, 2, meaning="records without a value")
TIME = Int(0, STEPS, "time")

retention = Machine("retention", doc="The time, and what the cleaner keeps for some of it.")
now = retention.field("now", TIME, doc="In steps of delete.retention.ms.")
tombstones = retention.field("tombstones", Set(OFFSET), doc="The records that have no value.")
first_modified = retention.field(
    "first_modified", TIME, doc="When the first segment was last written to."
)
last_modified = retention.field(
    "last_modified", TIME, doc="When the one behind it was last written to."
)
first_dirty = retention.field(
    "first_dirty", OFFSET, doc="The start of the part that was never cleaned."
)
removable = retention.field(
    "removable",
    Set(OFFSET),
    doc="Markers and tombstones that a cleaning has met, with nothing left to keep them for.",
)
due = retention.field("due", Set(OFFSET), doc="Those whose delete horizon has passed.")
overdue = retention.field(
    "overdue", Set(OFFSET), doc="Those that a cleaning has kept all the same."
)

follower = Machine(
    "follower",
    doc="A reader that reads all of the log, once, and keeps its state: the open transactions, as "
    "a replica does, and which keys have a value, as a table does.",
)
position_of = follower.field("position", OFFSET, doc="Where it reads next.")
late = follower.field(
    "late", Bool(), doc="delete.retention.ms has passed since it began, and it hasn't read all."
)
left_open = follower.field(
    "open", Set(PRODUCER_ID), doc="Whose transactions it has met, and no end of them."
)
with_value = follower.field("with_value", Set(KEY), doc="The keys that have a value.")

# Time, and what is appended -----------------------------------------------------------------------

_o, _n, _k = variable("o", OFFSET), PRODUCER_ID.variable("n"), variable("k", KEY)

passes = event("delete.retention.ms passes")
is_behind = (position_of > 0) & (position_of < reading.last_stable_offset)
passing = Table(
    retention,
    on=passes,
    others=(follower, reading.store),
    when=now < STEPS,
    rows=(
        Row(
            "horizons-pass",
            "The delete horizons of what a cleaning has met pass",
            set={now: now + 1, due: removable, late: late | is_behind},
            source="Cleaner.cleanInto",
        ),
    ),
)

modified_at_first = if_(reading.log_end < SEGMENT, now, first_modified)
modified_at_last = if_(reading.log_end < SEGMENT, last_modified, now)

delete = event("append a tombstone", producer_id=PRODUCER_ID, key=KEY)
open_transaction = reading.ongoing[delete.producer_id]
tombstone = partition.Entry(
    offset=reading.log_end,
    kind=Kind.DATA,
    producer_id=delete.producer_id,
    key=delete.key,
    transaction=open_transaction.value,
)
deletes = Table(
    reading.store,
    on=delete,
    others=(reading.decisions, retention),
    when=(reading.log_end < ENTRIES) & open_transaction.is_set,
    rows=(
        Row(
            "of-open-transaction",
            "A record without a value, of an open transaction",
            set={
                reading.log: append(reading.log, tombstone),
                reading.log_end: reading.log_end + 1,
                tombstones: tombstones | set_of(reading.log_end),
                first_modified: modified_at_first,
                last_modified: modified_at_last,
            },
            source="ProducerAppendInfo.appendDataBatch",
        ),
    ),
)

# The log cleaner ----------------------------------------------------------------------------------

is_marker = entry.kind != Kind.DATA
is_tombstone = entry.offset.is_in(tombstones)
has_gone = if_(
    is_marker,
    ~reading.markers_have_no_key & is_obsolete,
    reading.is_aborted(entry) | is_obsolete,
)
may_go = if_(is_marker, ~is_needed, is_tombstone)
was_written_earlier = (
    is_in_first_segment(entry) & (first_dirty > SEGMENT) & (first_modified < last_modified)
)
is_over = if_(delete_horizon, entry.offset.is_in(due), was_written_earlier)
stays = ~is_clean | (~has_gone & ~(may_go & is_over))
left = any_of(entry, (entry.offset == _o) & is_clean & stays & may_go)
cleans = Table(
    reading.store,
    on=clean,
    others=(retention,),
    when=reading.last_stable_offset > 0,
    rows=(
        Row(
            "remove-obsolete-and-overdue",
            "Obsolete entries go, and those that were kept for their time",
            set={
                reading.log: keep(entry, stays),
                first_dirty: reading.last_stable_offset,
                removable: those(_o, left),
                due: those(_o, left & _o.is_in(due)),
                overdue: those(_o, left & _o.is_in(due)),
            },
            source="Cleaner.cleanInto, Cleaner.shouldRetainRecord, MemoryRecords.filterTo",
        ),
    ),
)

# A reader of all of it ----------------------------------------------------------------------------

follow = event("follow", event_doc="The follower reads the next entry.")
found_record = element("r", reading.log)
found = first_of(
    found_record,
    (found_record.offset >= position_of) & (found_record.offset < reading.last_stable_offset),
)
next_entry = found.value
next_key = set_of(next_entry.key)
same = element("same", reading.log)
counts = any_of(same, (same.offset == next_entry.offset) & ~reading.is_aborted(same))
follows = Table(
    follower,
    on=follow,
    others=(reading.store, retention),
    when=found.is_set & ~late,
    rows=(
        Row(
            "marker",
            "The marker of a transaction",
            when=next_entry.kind != Kind.DATA,
            set={
                position_of: next_entry.offset + 1,
                left_open: left_open - set_of(next_entry.producer_id),
            },
            source="ProducerAppendInfo.appendEndTxnMarker",
        ),
        Row(
            "record",
            "A record of a transaction",
            set={
                position_of: next_entry.offset + 1,
                left_open: left_open | set_of(next_entry.producer_id),
                with_value: if_(
                    counts,
                    if_(
                        next_entry.offset.is_in(tombstones),
                        with_value - next_key,
                        with_value | next_key,
                    ),
                    with_value,
                ),
            },
            source="ProducerAppendInfo.appendDataBatch",
        ),
    ),
)

# What must hold -----------------------------------------------------------------------------------

item = element("e", reading.log)
is_ahead = item.offset >= position_of
marker_in_time = invariant(
    "MarkerInTime",
    late
    | all_of(
        _n,
        _n.is_in(left_open).implies(
            reading.ongoing[_n].is_set
            | any_of(item, (item.producer_id == _n) & (item.kind != Kind.DATA) & is_ahead)
        ),
    ),
    "A reader of all of the log within delete.retention.ms meets the end of each transaction of "
    "which it has met a record.",
    "KIP-534; KAFKA-4545",
    failure=failure(
        "a reader at offset {} has met a record of {}, and the log has no marker of it any more",
        position_of,
        _n,
    ),
)
tombstone_in_time = invariant(
    "TombstoneInTime",
    late
    | all_of(
        _k,
        _k.is_in(with_value).implies(
            any_of(
                item,
                (item.key == _k)
                & (item.kind == Kind.DATA)
                & ~reading.is_aborted(item)
                & (is_ahead | ~item.offset.is_in(tombstones)),
            )
        ),
    ),
    "A reader of all of the log within delete.retention.ms meets the tombstone of each key of "
    "which it has met a value.",
    "KIP-534; KAFKA-4545",
    failure=failure(
        "a reader at offset {} has met a value of key {}, and the log has no tombstone of it "
        "any more",
        position_of,
        _k,
    ),
)
not_for_ever = invariant(
    "NotForEver",
    overdue == set_of(),
    "No cleaning keeps a marker or tombstone that an earlier one could have removed, "
    "delete.retention.ms ago.",
    "KIP-534; KAFKA-8522",
    failure=failure("the entries at these offsets are kept too long: {}", overdue),
)


retention_change = (
    Change(
        "retention",
        "The cleaner keeps markers and tombstones for delete.retention.ms.",
        tables=(deletes, cleans, passing, follows),
        constants=(STEPS, TOMBSTONES),
        fixed={PARTIAL_CLEANINGS: 0},
        budgets={delete: TOMBSTONES},
        properties=(marker_in_time, tombstone_in_time, not_for_ever),
        features=(delete_horizon,),
        bounds={PRODUCER_IDS: 1, ENTRIES: 4, CLEANINGS: 3},
    )
    .without_tables("store.clean", "store.clean in part")
    .table("store.append a record")
    .also(set={first_modified: modified_at_first, last_modified: modified_at_last})
    .table("store.append a marker")
    .also(set={first_modified: modified_at_first, last_modified: modified_at_last})
)
