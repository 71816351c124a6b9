"""A read_committed consumer: a fetch in its two steps, and the batches of a response one by one.

With the batches comes the list of aborted transactions, each with its producer id and first offset
(FetchResponse). The consumer has it as a queue, the smallest first offset ahead: a producer id is
aborted from the first offset on, up to its abort marker (CompletedFetch). The list is the leader's
at the time of the read, whatever the cleaner does meanwhile. A batch has one entry.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Row,
    Table,
    any_of,
    count_of,
    element,
    event,
    first,
    if_,
    keep,
    set_of,
    size,
    some,
    those,
    without_first,
)
from ..leader.state import Kind
from . import state as reading
from .state import FETCH_BATCHES, PRODUCER_ID

# At the leader ------------------------------------------------------------------------------------

look = event("fetch begins", event_doc="The leader looks up the last stable offset.")
_STABLE = "Log.fetchLastStableOffsetMetadata"
looks = Table(
    reading.fetcher,
    on=look,
    others=(reading.store,),
    when=~reading.fetching
    & (size(reading.batches) == 0)
    & (reading.next_offset <= reading.high_watermark),
    rows=(
        Row(
            "up to the first unstable offset",
            when=reading.is_unstable,
            set={reading.fetching: True, reading.limit: some(reading.first_unstable.value.offset)},
            source=_STABLE,
        ),
        Row(
            "up to the high watermark, whatever it will be",
            during=~reading.watermark_read_once,
            set={reading.fetching: True, reading.limit: None},
            source=f"{_STABLE} before 2.5",
        ),
        Row(
            "up to the high watermark",
            set={reading.fetching: True, reading.limit: some(reading.high_watermark)},
            source=_STABLE,
            during=reading.watermark_read_once,
        ),
    ),
)

read = event("fetch reads", event_doc="The leader reads the log, and the aborted transactions.")
_up_to = if_(reading.limit.is_set, reading.limit.value, reading.high_watermark)
_e, _before = element("read", reading.log), element("before", reading.log)


def _is_reached(entry: Expression) -> Expression:
    """Whether an entry lies below the end of what is read."""
    ahead = count_of(
        _before, (_before.offset >= reading.next_offset) & (_before.offset < entry.offset)
    )
    return (entry.offset < _up_to) & (ahead < FETCH_BATCHES)


_end = reading.ending(_e).value.offset
_is_first_of_its_transaction = ~any_of(
    _before,
    (_before.offset < _e.offset)
    & (_before.kind == Kind.DATA)
    & (_before.producer_id == _e.producer_id)
    & (reading.ending(_before).value.offset == _end),
)
_is_listed = reading.is_aborted(_e) & _is_first_of_its_transaction & (_end >= reading.next_offset)
_is_batch = (_e.offset >= reading.next_offset) & _is_reached(_e)
reads = Table(
    reading.fetcher,
    on=read,
    others=(reading.store,),
    when=reading.fetching,
    rows=(
        Row(
            "nothing is left there",
            when=~any_of(_e, _is_batch),
            set={
                reading.fetching: False,
                reading.limit: None,
                reading.next_offset: if_(reading.next_offset < _up_to, _up_to, reading.next_offset),
            },
            source="CompletedFetch.fetchRecords",
        ),
        Row(
            "batches",
            set={
                reading.fetching: False,
                reading.limit: None,
                reading.batches: keep(_e, _is_batch),
                reading.aborted_transactions: keep(
                    _e, (_e.kind == Kind.DATA) & _is_listed & _is_reached(_e)
                ),
            },
            source="Log.addAbortedTransactions, TransactionIndex.collectAbortedTxns",
        ),
    ),
)

# At the consumer ----------------------------------------------------------------------------------

following = event("next batch", event_doc="The consumer goes on to the next batch that it has.")
_batch = first(reading.batches).value
_n, _a = PRODUCER_ID.variable("n"), element("a", reading.aborted_transactions)
_is_aborted_now = _n.is_in(reading.aborted_producer_ids) | any_of(
    _a, (_a.producer_id == _n) & (_a.offset <= _batch.offset)
)
_is_last = size(reading.batches) == 1
_TAKEN = {
    reading.batches: without_first(reading.batches),
    reading.aborted_transactions: keep(_a, _a.offset > _batch.offset),
    reading.aborted_producer_ids: those(_n, ~_is_last & _is_aborted_now),
    reading.next_offset: _batch.offset + 1,
}
_of_aborted = _batch.producer_id.is_in(those(_n, _is_aborted_now))
takes = Table(
    reading.fetcher,
    on=following,
    when=size(reading.batches) > 0,
    rows=(
        Row(
            "an abort marker",
            when=_batch.kind == Kind.ABORT,
            set={
                **_TAKEN,
                reading.aborted_producer_ids: those(
                    _n, ~_is_last & _is_aborted_now & (_n != _batch.producer_id)
                ),
            },
            source="CompletedFetch.containsAbortMarker",
        ),
        Row(
            "of an aborted producer id",
            when=_of_aborted,
            set={
                **_TAKEN,
                reading.dropped: if_(
                    _batch.kind == Kind.DATA,
                    reading.dropped | set_of(_batch.transaction),
                    reading.dropped,
                ),
            },
            source="CompletedFetch.isBatchAborted",
        ),
        Row(
            "a commit marker",
            when=_batch.kind == Kind.COMMIT,
            set=_TAKEN,
            source="CompletedFetch.nextFetchedRecord",
        ),
        Row(
            "a record",
            set={**_TAKEN, reading.delivered: reading.delivered | set_of(_batch.transaction)},
            source="CompletedFetch.nextFetchedRecord",
        ),
    ),
)

TABLES = (looks, reads, takes)
