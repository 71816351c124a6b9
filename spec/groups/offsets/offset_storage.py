"""The log of a group's offsets, with which the system `group-offsets` explores the coordinator.

The coordinator replays a record once it is replicated, and again when it loads the log. A producer
waits for the response to each of its requests.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Expression,
    Row,
    Table,
    any_of,
    append,
    constant,
    element,
    event,
    first_of,
    if_,
    lift,
    maximum,
    set_of,
    size,
    some,
)
from ....language.changes import Change
from ...messages import PRODUCER_ID, Result
from ...releases.group_features import loaded_once_replicated
from ..coordinator_load import (
    counts,
    deferred_writes_completed,
    fails_over,
    fetched,
    hears_while_loading,
    is_heard,
    is_loaded,
    is_read,
    is_reading,
    loads,
    read,
    reads_on,
    takes_markers,
    unloads,
)
from ..log import RECORDS, Kind, Stored, is_open, is_replicated, log, replicated, store
from ..state import COMMITTED_OFFSET, Heard, committed
from . import offset_metadata
from .txn_offset_commit import offsets_completed

REFUSALS = constant(
    "refusals", 1, 0, 2, meaning="offsets of transactions that the leader doesn't append"
)
fetched_unstable = store.field(
    "fetched_unstable",
    Bool(),
    doc="OffsetFetch with require_stable returned an offset while a "
    "transaction that had one in the log was open.",
)

_e, _f = element("e", log), element("f", log)

# What is appended -----------------------------------------------------------------------------


def _appended(kind: Expression, producer_id: Expression | None, offset: Expression) -> Expression:
    """The log with another record."""
    return append(log, Stored(kind=kind, place=size(log), offset=offset, producer_id=producer_id))


write = event("commit an offset", offset=COMMITTED_OFFSET)
written = Table(
    store,
    on=write,
    when=is_loaded & (size(log) < RECORDS),
    rows=(
        Row(
            "append",
            "The offset is in the log",
            set={log: _appended(Kind.OFFSET, None, write.offset)},
            source="GroupMetadataManager.storeOffsets",
        ),
    ),
)
write_in_transaction = event(
    "commit an offset in a transaction", producer_id=PRODUCER_ID, offset=COMMITTED_OFFSET
)
written_in_transaction = Table(
    store,
    on=write_in_transaction,
    when=is_loaded & (size(log) < RECORDS),
    rows=(
        Row(
            "append",
            "The offset is in the log",
            set={
                log: _appended(
                    Kind.TRANSACTION_OFFSET,
                    some(write_in_transaction.producer_id),
                    write_in_transaction.offset,
                )
            },
            source="GroupMetadataManager.storeOffsets",
        ),
    ),
)
finish = event("end a transaction", producer_id=PRODUCER_ID, result=Result)
finished_id = some(finish.producer_id)
finished = Table(
    store,
    on=finish,
    when=takes_markers
    & (size(log) < RECORDS)
    & any_of(_e, is_open(_e) & (_e.producer_id == finished_id))
    & ~any_of(_e, is_open(_e) & (_e.producer_id == finished_id) & ~is_replicated(_e)),
    rows=(
        Row(
            "append-marker",
            "The marker is in the log",
            set={
                log: _appended(
                    if_(finish.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT),
                    finished_id,
                    lift(0),
                )
            },
            source="KafkaApis.handleWriteTxnMarkersRequest",
        ),
    ),
)

# What the coordinator hears of ----------------------------------------------------------------


def _is_next(producer_id: Expression, place: Expression) -> Expression:
    """Whether a producer, which waits for each answer, has nothing before it in flight."""
    before = (_f.producer_id == some(producer_id)) & (_f.place < place)
    return ~any_of(_f, before & ~is_replicated(_f))


own, in_transaction, end = (
    offset_metadata.offset_append,
    offset_metadata.txn_offset_append,
    offset_metadata.end,
)
own_record = (
    (_e.kind == Kind.OFFSET)
    & (_e.place == own.appended)
    & (_e.offset == own.offset)
    & (_e.producer_id == lift(None))
)
transaction_record = (
    (_e.kind == Kind.TRANSACTION_OFFSET)
    & (_e.place == in_transaction.appended)
    & (_e.offset == in_transaction.offset)
    & (_e.producer_id == some(in_transaction.producer_id))
)
reads_marker = end.heard == Heard.READ
is_marker_due = if_(
    reads_marker,
    is_read(_e),
    is_heard(_e)
    & (is_loaded | hears_while_loading)
    & (is_loaded == (end.heard == Heard.REPLICATED)),
)
marker = first_of(
    _e,
    (_e.kind == if_(end.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT))
    & (_e.producer_id == some(end.producer_id))
    & is_marker_due,
)
place = marker.value.place
replicate = event("replicated", event_doc="A record that a coordinator before 4.0 has read.")
unheard = first_of(_e, ~is_replicated(_e) & ~is_heard(_e))
silently_replicated = Table(
    store,
    on=replicate,
    when=unheard.is_set,
    during=~loaded_once_replicated,
    rows=(
        Row(
            "unheard",
            "The record is replicated, and the coordinator had read it before",
            set={replicated: replicated | set_of(unheard.value.place)},
            source="Partition.maybeIncrementLeaderHW",
        ),
    ),
)
# OffsetFetch ------------------------------------------------------------------------------------

is_written = any_of(_e, (_e.kind == Kind.OFFSET) & is_heard(_e))
newest = maximum(fetched.value, committed.value.appended.value)
storage = (
    Change(
        "storage",
        "The coordinator's offsets are records of a log.",
        machines=(store,),
    )
    .table("group.offset appended")
    .only_when(any_of(_e, own_record & if_(is_reading, is_read(_e), is_loaded & is_heard(_e))))
    .also(
        set={
            replicated: if_(is_reading, replicated, replicated | set_of(own.appended)),
            read: if_(is_reading, read + 1, read),
        }
    )
    .table("group.offset of a transaction appended")
    .only_when(
        any_of(
            _e,
            transaction_record
            & if_(
                is_reading,
                is_read(_e),
                is_loaded
                & is_heard(_e)
                & _is_next(in_transaction.producer_id, in_transaction.appended),
            ),
        )
    )
    .also(
        set={
            replicated: if_(is_reading, replicated, replicated | set_of(in_transaction.appended)),
            read: if_(is_reading, read + 1, read),
        }
    )
    .table("group.transaction ended")
    .only_when(marker.is_set & (reads_marker | _is_next(end.producer_id, place)))
    .also(
        set={
            replicated: if_(reads_marker, replicated, replicated | set_of(place)),
            read: if_(reads_marker, read + 1, read),
        }
    )
    .table("group.offset of a transaction refused")
    .only_when(is_loaded)
    .table("group.complete pending offsets")
    .only_when(is_loaded)
    .table("group.OffsetFetch")
    .only_when(is_loaded & (offset_metadata.fetch.is_writing == is_written))
    .also(
        "committed",
        set={
            fetched_unstable: fetched_unstable
            | (offset_metadata.fetch.require_stable & any_of(_e, is_open(_e) & counts(_e))),
            fetched: if_(
                committed.is_set,
                some(if_(fetched.is_set, newest, committed.value.appended.value)),
                fetched,
            ),
        },
    )
)

TABLES = (
    written,
    written_in_transaction,
    finished,
    offset_metadata.offset_appended,
    offset_metadata.txn_offset_appended,
    offset_metadata.txn_offset_refused,
    offset_metadata.transaction_ended,
    silently_replicated,
    offsets_completed,
    offset_metadata.offset_fetch,
    fails_over,
    reads_on,
    loads,
    deferred_writes_completed,
    unloads,
)
