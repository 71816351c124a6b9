"""What happens to the log: appends, markers, replication, another leader, and the log cleaner.

The cleaner removes a record whose key comes again behind it, what was aborted, and a marker once
none of its transaction's records is left (LogCleaner, CleanedTransactionMetadata). It cleans up to
the last stable offset, and takes segments together in groups; here there are two. Where its offset
map is full it stops, and copies the rest of the segment as it is. Here `delete.retention.ms` is
over at once: `reading+retention` has it.
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
_of, _start = reading.ongoing[send.producer_id], reading.opened[send.producer_id]
_sent = Entry(
    offset=reading.log_end, kind=Kind.DATA, producer_id=send.producer_id, key=send.key,
    transaction=if_(_of.is_set, _of.value, reading.begun),
)  # fmt: skip
appends = Table(
    reading.store,
    on=send,
    others=(reading.decisions,),
    when=(reading.log_end < ENTRIES) & (_of.is_set | (reading.begun < TRANSACTIONS)),
    rows=(
        Row(
            "of an open transaction",
            when=_of.is_set,
            set={
                reading.log: append(reading.log, _sent),
                reading.log_end: reading.log_end + 1,
                _start: some(if_(_start.is_set, _start.value, reading.log_end)),
            },
            source="ProducerAppendInfo.appendDataBatch",
        ),
        Row(
            "the first of a transaction",
            set={
                reading.log: append(reading.log, _sent),
                reading.log_end: reading.log_end + 1,
                _start: some(if_(_start.is_set, _start.value, reading.log_end)),
                _of: some(reading.begun),
                reading.begun: reading.begun + 1,
            },
            source="ProducerAppendInfo.appendDataBatch",
        ),
    ),
)

end = event("append a marker", producer_id=PRODUCER_ID, commits=Bool())
_ended, _opened = reading.ongoing[end.producer_id], reading.opened[end.producer_id]
_marker = Entry(
    offset=reading.log_end, kind=if_(end.commits, Kind.COMMIT, Kind.ABORT),
    producer_id=end.producer_id, key=MARKERS_KEY, transaction=_ended.value,
)  # fmt: skip
markers = Table(
    reading.store,
    on=end,
    others=(reading.decisions,),
    when=(reading.log_end < ENTRIES) & _ended.is_set,
    rows=(
        Row(
            "the transaction ends",
            set={
                reading.log: append(reading.log, _marker),
                reading.log_end: reading.log_end + 1,
                _opened: None,
                reading.committed: if_(
                    end.commits, reading.committed | set_of(_ended.value), reading.committed
                ),
                _ended: None,
            },
            source="ProducerAppendInfo.appendEndTxnMarker",
        ),
    ),
)

# Replicas -----------------------------------------------------------------------------------------

replicate = event("replicate", event_doc="The followers have one entry more.")
replicates = Table(
    reading.store,
    on=replicate,
    when=reading.high_watermark < reading.log_end,
    rows=(
        Row(
            "the high watermark goes on",
            set={reading.high_watermark: reading.high_watermark + 1},
            source="Partition.maybeIncrementLeaderHW",
        ),
    ),
)

change = event("another leader", event_doc="It has the same log, and reads it.")
_n, _left = PRODUCER_ID.variable("n"), element("left", reading.log)
_first_left = first_of(_left, reading.is_left(_left) & (_left.producer_id == _n))
changes = Table(
    reading.store,
    on=change,
    rows=(
        Row(
            "read the log",
            set={
                reading.opened: each(
                    _n, if_(_first_left.is_set, some(_first_left.value.offset), None)
                )
            },
            source="UnifiedLog.rebuildProducerState",
        ),
    ),
)

# The log cleaner ----------------------------------------------------------------------------------

clean = event("clean", event_doc="The log cleaner goes over the log once.")
entry, _o = element("kept", reading.log), element("other", reading.log)
is_clean = entry.offset < reading.last_stable_offset


def is_in_first_segment(entry: Expression) -> Expression:
    """Whether it is in the segments that are cleaned separately."""
    return entry.offset < SEGMENT


_is_newer = (
    (position(_o) > position(entry))
    & (_o.kind == Kind.DATA)
    & (_o.offset < reading.last_stable_offset)
    & ~reading.is_aborted(_o)
    & (_o.key == entry.key)
)
_between = element("between", reading.log)
_is_its_data = (
    (position(_o) < position(entry))
    & (_o.kind == Kind.DATA)
    & (_o.producer_id == entry.producer_id)
    & ~any_of(
        _between,
        (position(_between) > position(_o))
        & (position(_between) < position(entry))
        & (_between.kind != Kind.DATA)
        & (_between.producer_id == entry.producer_id),
    )
)
# of an abort that the index lacks the cleaner knows no data
_is_known = (entry.kind == Kind.COMMIT) | ~entry.transaction.is_in(reading.unlisted)
is_needed = _is_known & any_of(
    _o,
    _is_its_data
    & (reading.groups_together | (is_in_first_segment(_o) == is_in_first_segment(entry))),
)
is_obsolete = any_of(_o, _is_newer)
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
            "remove what is obsolete",
            set={reading.log: keep(entry, ~is_clean | is_retained)},
            source="LogCleaner, CleanedTransactionMetadata.onControlBatchRead",
        ),
    ),
)

clean_in_part = event(
    "clean in part", up_to=OFFSET, event_doc="The cleaner stops before `up_to`, in a segment."
)
_is_before = is_clean & (entry.offset < clean_in_part.up_to)
_t, _first = variable("t", TRANSACTION), element("first", reading.log)
_begins_behind = any_of(
    entry, (entry.transaction == _t) & (entry.kind == Kind.DATA) & reading.was_aborted(entry)
) & ~any_of(
    _first,
    (_first.transaction == _t) & (_first.kind == Kind.DATA) & (_first.offset < clean_in_part.up_to),
)
cleans_in_part = Table(
    reading.store,
    on=clean_in_part,
    when=(clean_in_part.up_to > 0) & (clean_in_part.up_to <= reading.last_stable_offset),
    rows=(
        Row(
            "the index of the whole segment",
            during=reading.index_of_whole_segments,
            set={reading.log: keep(entry, ~_is_before | is_retained)},
            source="Cleaner.cleanSegments, TransactionIndex.collectAbortedTxns",
        ),
        Row(
            "the index of what was cleaned",
            during=~reading.index_of_whole_segments,
            set={
                reading.log: keep(entry, ~_is_before | is_retained),
                reading.unlisted: reading.unlisted | those(_t, _begins_behind),
            },
            source="Cleaner.cleanSegments before 2.8.2 and 3.0.2",
        ),
    ),
)

TABLES = (appends, markers, replicates, changes, cleans, cleans_in_part)
