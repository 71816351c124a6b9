"""A partition's log: appends, markers, replication, leader changes, and the log cleaner.

The cleaner removes three kinds of entries: a record whose key occurs again behind it, a record of
an aborted transaction, and a marker once no record of its transaction is left. It cleans up to the
last stable offset, and takes segments together in groups; here there are two groups. Where its
offset map is full it stops, and copies the rest of the segment unchanged. Here
`delete.retention.ms` is over at once. The change `retention` has it.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Row,
    Table,
    any_of,
    append,
    each,
    element,
    event,
    first_of,
    if_,
    keep,
    position,
    set_of,
    some,
    those,
    variable,
)
from ..leader.state import Kind
from . import state as reading
from .state import (
    ENTRIES,
    KEY,
    MARKERS_KEY,
    OFFSET,
    PRODUCER_ID,
    SEGMENT,
    TRANSACTION,
    TRANSACTIONS,
    Entry,
)

# Producers and their coordinators -----------------------------------------------------------------

send = event("append a record", producer_id=PRODUCER_ID, key=KEY)
transaction = reading.ongoing[send.producer_id]
start_offset = reading.opened[send.producer_id]
sent_entry = Entry(
    offset=reading.log_end,
    kind=Kind.DATA,
    producer_id=send.producer_id,
    key=send.key,
    transaction=if_(transaction.is_set, transaction.value, reading.begun),
)
appends = Table(
    reading.store,
    on=send,
    others=(reading.decisions,),
    when=(reading.log_end < ENTRIES) & (transaction.is_set | (reading.begun < TRANSACTIONS)),
    source="ProducerAppendInfo.appendDataBatch",
    rows=(
        Row(
            "in-transaction",
            "A record of the producer's open transaction",
            when=transaction.is_set,
            set={
                reading.log: append(reading.log, sent_entry),
                reading.log_end: reading.log_end + 1,
                start_offset: some(if_(start_offset.is_set, start_offset.value, reading.log_end)),
            },
        ),
        Row(
            "first-in-transaction",
            "The first record of a transaction",
            set={
                reading.log: append(reading.log, sent_entry),
                reading.log_end: reading.log_end + 1,
                start_offset: some(if_(start_offset.is_set, start_offset.value, reading.log_end)),
                transaction: some(reading.begun),
                reading.begun: reading.begun + 1,
            },
        ),
    ),
)

end = event("append a marker", producer_id=PRODUCER_ID, commits=Bool())
ended_transaction = reading.ongoing[end.producer_id]
markers = Table(
    reading.store,
    on=end,
    others=(reading.decisions,),
    when=(reading.log_end < ENTRIES) & ended_transaction.is_set,
    rows=(
        Row(
            "end-transaction",
            "The marker ends the producer's transaction",
            set={
                reading.log: append(
                    reading.log,
                    Entry(
                        offset=reading.log_end,
                        kind=if_(end.commits, Kind.COMMIT, Kind.ABORT),
                        producer_id=end.producer_id,
                        key=MARKERS_KEY,
                        transaction=ended_transaction.value,
                    ),
                ),
                reading.log_end: reading.log_end + 1,
                reading.opened[end.producer_id]: None,
                reading.committed: if_(
                    end.commits,
                    reading.committed | set_of(ended_transaction.value),
                    reading.committed,
                ),
                ended_transaction: None,
            },
            source="ProducerAppendInfo.appendEndTxnMarker",
        ),
    ),
)

# Replicas -----------------------------------------------------------------------------------------

replicate = event("replicate", event_doc="The followers have one more entry.")
replicates = Table(
    reading.store,
    on=replicate,
    when=reading.high_watermark < reading.log_end,
    rows=(
        Row(
            "advance-high-watermark",
            "The high watermark advances",
            set={reading.high_watermark: reading.high_watermark + 1},
            source="Partition.maybeIncrementLeaderHW",
        ),
    ),
)

change = event("another leader", event_doc="It has the same log, and reads it.")
n, unended = PRODUCER_ID.variable("n"), element("left", reading.log)
first_unended = first_of(unended, reading.is_left(unended) & (unended.producer_id == n))
changes = Table(
    reading.store,
    on=change,
    rows=(
        Row(
            "rebuild-producer-state",
            "The new leader reads the open transactions off the log",
            set={
                reading.opened: each(
                    n, if_(first_unended.is_set, some(first_unended.value.offset), None)
                )
            },
            source="UnifiedLog.rebuildProducerState",
        ),
    ),
)

# The log cleaner ----------------------------------------------------------------------------------

clean = event("clean", event_doc="The log cleaner cleans the log once.")
entry, other = element("kept", reading.log), element("other", reading.log)
is_clean = entry.offset < reading.last_stable_offset


def is_in_first_segment(entry: Expression) -> Expression:
    """Whether an entry is in the segments that are cleaned separately."""
    return entry.offset < SEGMENT


is_newer = (
    (position(other) > position(entry))
    & (other.kind == Kind.DATA)
    & (other.offset < reading.last_stable_offset)
    & ~reading.is_aborted(other)
    & (other.key == entry.key)
)
between = element("between", reading.log)
is_data_of_marker = (
    (position(other) < position(entry))
    & (other.kind == Kind.DATA)
    & (other.producer_id == entry.producer_id)
    & ~any_of(
        between,
        (position(between) > position(other))
        & (position(between) < position(entry))
        & (between.kind != Kind.DATA)
        & (between.producer_id == entry.producer_id),
    )
)
# the cleaner knows no data of an abort that the transaction index lacks
is_indexed = (entry.kind == Kind.COMMIT) | ~entry.transaction.is_in(reading.unlisted)
is_needed = is_indexed & any_of(
    other,
    is_data_of_marker
    & (reading.groups_together | (is_in_first_segment(other) == is_in_first_segment(entry))),
)
is_obsolete = any_of(other, is_newer)
is_retained = if_(
    entry.kind == Kind.DATA,
    ~reading.is_aborted(entry) & ~is_obsolete,
    is_needed & (reading.markers_have_no_key | ~is_obsolete),
)
cleans = Table(
    reading.store,
    on=clean,
    when=any_of(entry, is_clean & ~is_retained),
    rows=(
        Row(
            "remove-obsolete",
            "Obsolete and aborted records go, and markers without records",
            set={reading.log: keep(entry, ~is_clean | is_retained)},
            source="Cleaner.cleanInto, CleanedTransactionMetadata.onControlBatchRead",
        ),
    ),
)

clean_in_part = event(
    "clean in part", up_to=OFFSET, event_doc="The cleaner stops before `up_to`, in a segment."
)
is_cleaned = is_clean & (entry.offset < clean_in_part.up_to)
t, earlier = variable("t", TRANSACTION), element("first", reading.log)
starts_behind = any_of(
    entry, (entry.transaction == t) & (entry.kind == Kind.DATA) & reading.was_aborted(entry)
) & ~any_of(
    earlier,
    (earlier.transaction == t)
    & (earlier.kind == Kind.DATA)
    & (earlier.offset < clean_in_part.up_to),
)
cleans_in_part = Table(
    reading.store,
    on=clean_in_part,
    when=(clean_in_part.up_to > 0) & (clean_in_part.up_to <= reading.last_stable_offset),
    rows=(
        Row(
            "keep-index",
            "The segment keeps its whole transaction index",
            set={reading.log: keep(entry, ~is_cleaned | is_retained)},
            during=reading.index_of_whole_segments,
            source="KAFKA-13727, Cleaner.cleanSegments, TransactionIndex.collectAbortedTxns",
        ),
        Row(
            "cut-index",
            "The index loses the aborted transactions that start behind the cleaned part",
            set={
                reading.log: keep(entry, ~is_cleaned | is_retained),
                reading.unlisted: reading.unlisted | those(t, starts_behind),
            },
            during=~reading.index_of_whole_segments,
            source="Cleaner.cleanSegments before 2.8.2 and 3.0.2",
        ),
    ),
)

TABLES = (appends, markers, replicates, changes, cleans, cleans_in_part)
