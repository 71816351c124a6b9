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
from .state import (
    FETCH_BATCHES,
    PRODUCER_ID,
    aborted_producer_ids,
    aborted_transactions,
    batches,
    delivered,
    dropped,
    ending,
    fetcher,
    fetching,
    first_unstable,
    high_watermark,
    is_aborted,
    is_unstable,
    limit,
    log,
    next_offset,
    store,
    watermark_read_once,
)

# At the leader ------------------------------------------------------------------------------------

look = event("fetch begins", event_doc="The leader looks up the last stable offset.")
_STABLE = "Log.fetchLastStableOffsetMetadata"
looks = Table(
    fetcher,
    on=look,
    others=(store,),
    when=~fetching & (size(batches) == 0) & (next_offset <= high_watermark),
    rows=(
        Row(
            "up to the first unstable offset",
            when=is_unstable,
            set={fetching: True, limit: some(first_unstable.value.offset)},
            source=_STABLE,
        ),
        Row(
            "up to the high watermark, whatever it will be",
            during=~watermark_read_once,
            set={fetching: True, limit: None},
            source=f"{_STABLE} before 2.5",
        ),
        Row(
            "up to the high watermark",
            set={fetching: True, limit: some(high_watermark)},
            source=_STABLE,
            during=watermark_read_once,
        ),
    ),
)

read = event("fetch reads", event_doc="The leader reads the log, and the aborted transactions.")
_up_to = if_(limit.is_set, limit.value, high_watermark)
_e, _before = element("read", log), element("before", log)


def _is_reached(entry: Expression) -> Expression:
    """Whether an entry lies below the end of what is read."""
    ahead = count_of(_before, (_before.offset >= next_offset) & (_before.offset < entry.offset))
    return (entry.offset < _up_to) & (ahead < FETCH_BATCHES)


_end = ending(_e).value.offset
_is_first_of_its_transaction = ~any_of(
    _before,
    (_before.offset < _e.offset)
    & (_before.kind == Kind.DATA)
    & (_before.producer_id == _e.producer_id)
    & (ending(_before).value.offset == _end),
)
_is_listed = is_aborted(_e) & _is_first_of_its_transaction & (_end >= next_offset)
_is_batch = (_e.offset >= next_offset) & _is_reached(_e)
reads = Table(
    fetcher,
    on=read,
    others=(store,),
    when=fetching,
    rows=(
        Row(
            "nothing is left there",
            when=~any_of(_e, _is_batch),
            set={
                fetching: False,
                limit: None,
                next_offset: if_(next_offset < _up_to, _up_to, next_offset),
            },
            source="CompletedFetch.fetchRecords",
        ),
        Row(
            "batches",
            set={
                fetching: False,
                limit: None,
                batches: keep(_e, _is_batch),
                aborted_transactions: keep(
                    _e, (_e.kind == Kind.DATA) & _is_listed & _is_reached(_e)
                ),
            },
            source="Log.addAbortedTransactions, TransactionIndex.collectAbortedTxns",
        ),
    ),
)

# At the consumer ----------------------------------------------------------------------------------

following = event("next batch", event_doc="The consumer goes on to the next batch that it has.")
_batch = first(batches).value
_n, _a = PRODUCER_ID.variable("n"), element("a", aborted_transactions)
_is_aborted_now = _n.is_in(aborted_producer_ids) | any_of(
    _a, (_a.producer_id == _n) & (_a.offset <= _batch.offset)
)
_is_last = size(batches) == 1
_TAKEN = {
    batches: without_first(batches),
    aborted_transactions: keep(_a, _a.offset > _batch.offset),
    aborted_producer_ids: those(_n, ~_is_last & _is_aborted_now),
    next_offset: _batch.offset + 1,
}
_of_aborted = _batch.producer_id.is_in(those(_n, _is_aborted_now))
takes = Table(
    fetcher,
    on=following,
    when=size(batches) > 0,
    rows=(
        Row(
            "an abort marker",
            when=_batch.kind == Kind.ABORT,
            set={
                **_TAKEN,
                aborted_producer_ids: those(
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
                dropped: if_(
                    _batch.kind == Kind.DATA, dropped | set_of(_batch.transaction), dropped
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
            set={**_TAKEN, delivered: delivered | set_of(_batch.transaction)},
            source="CompletedFetch.nextFetchedRecord",
        ),
    ),
)

TABLES = (looks, reads, takes)
