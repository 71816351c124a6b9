"""The offsets of one partition that a group commits: in the log, and as the coordinator has them.

What the group's tables for offsets are explored with. A record counts for the coordinator once it
is replicated, and again as a coordinator that starts reads the log. A producer waits for the answer
to each of its requests.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Event,
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
    only,
    set_of,
    size,
    some,
)
from ..messages import PRODUCER_ID, Result
from ..releases.group_features import loaded_once_replicated
from . import commits
from .joined import Updates, joined
from .loading import (
    counts,
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
)
from .log import RECORDS, Kind, Stored, is_open, is_replicated, log, replicated, store
from .offsets import offsets_completed
from .state import COMMITTED_OFFSET, Heard, committed

REFUSALS = constant(
    "refusals", 1, 0, 2, meaning="offsets of transactions that the leader doesn't append"
)
fetched_unstable = store.field(
    "fetched_unstable", Bool(), doc="OffsetFetch with require_stable returned an offset while a "
    "transaction that had one in the log was open.",
)  # fmt: skip

_e, _f = element("e", log), element("f", log)

# What is appended -----------------------------------------------------------------------------


def _appended(kind: Expression, producer_id: Expression | None, offset: Expression) -> Updates:
    return {
        log: append(log, Stored(kind=kind, place=size(log), offset=offset, producer_id=producer_id))
    }


write = event("commit an offset", offset=COMMITTED_OFFSET)
written = Table(
    store,
    on=write,
    when=is_loaded & (size(log) < RECORDS),
    rows=(
        Row(
            "in the log",
            set=_appended(Kind.OFFSET, None, write.offset),
            source="GroupMetadataManager.storeOffsets",
        ),
    ),
)
write_in_transaction = event(
    "commit an offset in a transaction", producer_id=PRODUCER_ID, offset=COMMITTED_OFFSET
)
_txn = write_in_transaction
written_in_transaction = Table(
    store,
    on=_txn,
    when=is_loaded & (size(log) < RECORDS),
    rows=(
        Row(
            "in the log",
            set=_appended(Kind.TRANSACTION_OFFSET, some(_txn.producer_id), _txn.offset),
            source="GroupMetadataManager.storeOffsets",
        ),
    ),
)
finish = event("end a transaction", producer_id=PRODUCER_ID, result=Result)
_its = some(finish.producer_id)
finished = Table(
    store,
    on=finish,
    when=takes_markers
    & (size(log) < RECORDS)
    & any_of(_e, is_open(_e) & (_e.producer_id == _its))
    & ~any_of(_e, is_open(_e) & (_e.producer_id == _its) & ~is_replicated(_e)),
    rows=(
        Row(
            "its marker",
            set=_appended(
                if_(finish.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT), _its, lift(0)
            ),
            source="KafkaApis.handleWriteTxnMarkersRequest",
        ),
    ),
)

# What the coordinator hears of ----------------------------------------------------------------


def _is_next(producer_id: Expression, place: Expression) -> Expression:
    """Whether a producer, which waits for each answer, has nothing before it in flight."""
    before = (_f.producer_id == some(producer_id)) & (_f.place < place)
    return ~any_of(_f, before & ~is_replicated(_f))


def _taken(table: Table, place: Expression, when: Expression, reads: Expression) -> Table:
    """The table for a record that is replicated now, or that is read."""
    found: Updates = {
        replicated: if_(reads, replicated, replicated | set_of(place)),
        read: if_(reads, read + 1, read),
    }
    return joined(table, store, when=when, updates={row.id: found for row in table.rows})


def _offset_taken(
    table: Table, kind: Expression, said: Event, producer_id: Expression | None,
    is_next: Expression,
) -> Table:  # fmt: skip
    is_it = (
        (_e.kind == kind)
        & (_e.place == said.appended)
        & (_e.offset == said.offset)
        & (_e.producer_id == lift(producer_id))
    )
    due = if_(is_reading, is_read(_e), is_loaded & is_heard(_e) & is_next)
    return _taken(table, said.appended, any_of(_e, is_it & due), is_reading)


_own, _in_transaction, _end = commits.offset_append, commits.txn_offset_append, commits.end
offset_appended = _offset_taken(commits.offset_appended, Kind.OFFSET, _own, None, lift(True))
txn_offset_appended = _offset_taken(
    commits.txn_offset_appended,
    Kind.TRANSACTION_OFFSET,
    _in_transaction,
    some(_in_transaction.producer_id),
    _is_next(_in_transaction.producer_id, _in_transaction.appended),
)
_reads = _end.heard == Heard.READ
_due = if_(
    _reads,
    is_read(_e),
    is_heard(_e)
    & (is_loaded | hears_while_loading)
    & (is_loaded == (_end.heard == Heard.REPLICATED)),
)
_marker = first_of(
    _e,
    (_e.kind == if_(_end.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT))
    & (_e.producer_id == some(_end.producer_id))
    & _due,
)
_place = _marker.value.place
transaction_ended = _taken(
    commits.transaction_ended,
    _place,
    _marker.is_set & (_reads | _is_next(_end.producer_id, _place)),
    _reads,
)
replicate = event("replicated", event_doc="A record that a coordinator before 4.0 has read.")
_unheard = first_of(_e, ~is_replicated(_e) & ~is_heard(_e))
silently_replicated = Table(
    store,
    on=replicate,
    when=_unheard.is_set,
    rows=only(
        ~loaded_once_replicated,
        Row(
            "nobody hears of it",
            set={replicated: replicated | set_of(_unheard.value.place)},
            source="Partition.maybeIncrementLeaderHW",
        ),
    ),
)
offset_refused = joined(commits.txn_offset_refused, store, when=is_loaded)
completed = joined(offsets_completed, store, when=is_loaded)

# OffsetFetch ------------------------------------------------------------------------------------

_is_written = any_of(_e, (_e.kind == Kind.OFFSET) & is_heard(_e))
_newest = maximum(fetched.value, committed.value.appended.value)
offset_fetch = joined(
    commits.offset_fetch,
    store,
    when=is_loaded & (commits.fetch.is_writing == _is_written),
    updates={
        "committed": {
            fetched_unstable: fetched_unstable
            | (commits.fetch.require_stable & any_of(_e, is_open(_e) & counts(_e))),
            fetched: if_(
                committed.is_set,
                some(if_(fetched.is_set, _newest, committed.value.appended.value)),
                fetched,
            ),
        }
    },
)

TABLES = (
    written, written_in_transaction, finished, offset_appended, txn_offset_appended, offset_refused,
    transaction_ended, silently_replicated, completed, offset_fetch, fails_over, reads_on, loads,
)  # fmt: skip
