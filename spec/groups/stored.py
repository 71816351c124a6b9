"""The offsets of one partition that a group commits: in the log, and as the coordinator has them.

What the group's tables for offsets are explored with. A record counts for the coordinator once it
is replicated (`replicated`). Those of different producers are replicated in any order, which is
more than can happen; a producer waits for the answer to each of its requests.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Event,
    Expression,
    Machine,
    Optional,
    Row,
    Sequence,
    Set,
    Table,
    any_of,
    append,
    constant,
    element,
    enum,
    event,
    first_of,
    if_,
    lift,
    record,
    set_of,
    size,
    some,
)
from ..messages import OFFSET, PRODUCER_ID, Result
from . import commits
from .joined import Updates, joined
from .offsets import offsets_completed
from .state import COMMITTED_OFFSET

RECORDS = constant("offset_records", 4, 1, 6, meaning="offsets and markers that are appended")
REFUSALS = constant(
    "refusals", 1, 0, 2, meaning="offsets of transactions that the leader doesn't append"
)

Kind = enum("OffsetKind", "OFFSET", "TRANSACTION_OFFSET", "COMMIT", "ABORT")
Stored = record(
    "StoredOffset", kind=Kind, place=OFFSET, offset=COMMITTED_OFFSET,
    producer_id=Optional(PRODUCER_ID),
)  # fmt: skip

store = Machine("offsets", doc="The partition of __consumer_offsets, as its leader has it.")
log = store.field("log", Sequence(Stored, RECORDS), doc="Without the group's own records.")
replicated = store.field("replicated", Set(OFFSET), doc="The records that are.")
fetched_unstable = store.field(
    "fetched_unstable", Bool(), doc="OffsetFetch with require_stable told an offset while a "
    "transaction that had one in the log was open.",
)  # fmt: skip

_e, _f = element("e", log), element("f", log)


def _ends(item: Expression) -> Expression:
    return item.kind.is_in(Kind.COMMIT, Kind.ABORT)


def ending(item: Expression) -> Expression:
    """The marker that ends the transaction of a record, as far as the log has it."""
    return first_of(_f, _ends(_f) & (_f.producer_id == item.producer_id) & (_f.place > item.place))


def is_open(item: Expression) -> Expression:
    """Whether it is an offset of a transaction without a marker."""
    return (item.kind == Kind.TRANSACTION_OFFSET) & ~ending(item).is_set


def is_replicated(item: Expression) -> Expression:
    """Whether the coordinator knows of it."""
    return item.place.is_in(replicated)


# What is appended -----------------------------------------------------------------------------


def _appended(kind: Expression, producer_id: Expression | None, offset: Expression) -> Updates:
    return {
        log: append(log, Stored(kind=kind, place=size(log), offset=offset, producer_id=producer_id))
    }


write = event("commit an offset", offset=COMMITTED_OFFSET)
written = Table(
    store,
    on=write,
    when=size(log) < RECORDS,
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
    when=size(log) < RECORDS,
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
    when=(size(log) < RECORDS)
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


def _heard(table: Table, place: Expression, when: Expression) -> Table:
    """The table for a record that is replicated now."""
    found: Updates = {replicated: replicated | set_of(place)}
    updates = {row.name: found for row in table.rows}
    return joined(table, store, when=when, updates=updates)


def _is_there(kind: Expression, said: Event, producer_id: Expression | None) -> Expression:
    return any_of(
        _e,
        (_e.kind == kind)
        & (_e.place == said.appended)
        & (_e.offset == said.offset)
        & (_e.producer_id == lift(producer_id))
        & ~is_replicated(_e),
    )


def _is_next(producer_id: Expression, place: Expression) -> Expression:
    """Whether a producer, which waits for each answer, has nothing before it under way."""
    before = (_f.producer_id == some(producer_id)) & (_f.place < place)
    return ~any_of(_f, before & ~is_replicated(_f))


_own, _in_transaction, _end = commits.append, commits.append_in_transaction, commits.end
offset_appended = _heard(commits.offset_appended, _own.appended, _is_there(Kind.OFFSET, _own, None))
txn_offset_appended = _heard(
    commits.txn_offset_appended,
    _in_transaction.appended,
    _is_there(Kind.TRANSACTION_OFFSET, _in_transaction, some(_in_transaction.producer_id))
    & _is_next(_in_transaction.producer_id, _in_transaction.appended),
)
_marker = first_of(
    _e,
    (_e.kind == if_(_end.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT))
    & (_e.producer_id == some(_end.producer_id))
    & ~is_replicated(_e),
)
transaction_ended = _heard(
    commits.transaction_ended,
    _marker.value.place,
    _marker.is_set & _is_next(_end.producer_id, _marker.value.place),
)
offset_fetch = joined(
    commits.offset_fetch,
    store,
    updates={
        "what is committed": {
            fetched_unstable: fetched_unstable
            | (commits.fetch.require_stable & any_of(_e, is_open(_e) & is_replicated(_e)))
        }
    },
)

TABLES = (
    written, written_in_transaction, finished, offset_appended, txn_offset_appended,
    commits.txn_offset_refused, transaction_ended, offsets_completed, offset_fetch,
)  # fmt: skip
