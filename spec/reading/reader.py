"""A read_committed consumer: a fetch in its two steps, and the batches of a response one by one.

The response has batches and the list of aborted transactions, each with its producer id and first
offset (FetchResponse). The consumer keeps the list as a queue, the smallest first offset ahead. A
producer id is aborted from the first offset up to its abort marker (CompletedFetch). The list is
the leader's at the time of the read, whatever the cleaner does later. A batch has one entry.
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
looks = Table(
    reading.fetcher,
    on=look,
    others=(reading.store,),
    when=~reading.fetching
    & (size(reading.batches) == 0)
    & (reading.next_offset <= reading.high_watermark),
    source="UnifiedLog.fetchLastStableOffsetMetadata",
    rows=(
        Row(
            "first-unstable-offset",
            "A transaction is open: the fetch reads up to its start",
            when=reading.is_unstable,
            set={reading.fetching: True, reading.limit: some(reading.first_unstable.value.offset)},
        ),
        Row(
            "later-high-watermark",
            "The fetch reads up to the high watermark at the time of the read",
            set={reading.fetching: True, reading.limit: None},
            during=~reading.watermark_read_once,
            source="KAFKA-9807, Log.fetchLastStableOffsetMetadata before 2.5",
        ),
        Row(
            "high-watermark",
            "The fetch reads up to the high watermark of now",
            set={reading.fetching: True, reading.limit: some(reading.high_watermark)},
            during=reading.watermark_read_once,
        ),
    ),
)

read = event("fetch reads", event_doc="The leader reads the log, and the aborted transactions.")
limit = if_(reading.limit.is_set, reading.limit.value, reading.high_watermark)
entry, earlier = element("read", reading.log), element("before", reading.log)


def is_below_limit(entry: Expression) -> Expression:
    """Whether an entry lies below the end of the read."""
    ahead = count_of(
        earlier, (earlier.offset >= reading.next_offset) & (earlier.offset < entry.offset)
    )
    return (entry.offset < limit) & (ahead < FETCH_BATCHES)


end_offset = reading.ending(entry).value.offset
is_first_in_transaction = ~any_of(
    earlier,
    (earlier.offset < entry.offset)
    & (earlier.kind == Kind.DATA)
    & (earlier.producer_id == entry.producer_id)
    & (reading.ending(earlier).value.offset == end_offset),
)
is_listed = (
    reading.is_aborted(entry) & is_first_in_transaction & (end_offset >= reading.next_offset)
)
is_read = (entry.offset >= reading.next_offset) & is_below_limit(entry)
reads = Table(
    reading.fetcher,
    on=read,
    others=(reading.store,),
    when=reading.fetching,
    rows=(
        Row(
            "no-batches",
            "The cleaner has left nothing there: the position moves to the end of the read",
            when=~any_of(entry, is_read),
            set={
                reading.fetching: False,
                reading.limit: None,
                reading.next_offset: if_(reading.next_offset < limit, limit, reading.next_offset),
            },
            source="CompletedFetch.fetchRecords",
        ),
        Row(
            "batches",
            "The response has batches, and the aborted transactions among them",
            set={
                reading.fetching: False,
                reading.limit: None,
                reading.batches: keep(entry, is_read),
                reading.aborted_transactions: keep(
                    entry, (entry.kind == Kind.DATA) & is_listed & is_below_limit(entry)
                ),
            },
            source="LocalLog.addAbortedTransactions, TransactionIndex.collectAbortedTxns",
        ),
    ),
)

# At the consumer ----------------------------------------------------------------------------------

following = event("next batch", event_doc="The consumer takes the next batch of the response.")
batch = first(reading.batches).value
n, aborted = PRODUCER_ID.variable("n"), element("a", reading.aborted_transactions)
is_aborted_now = n.is_in(reading.aborted_producer_ids) | any_of(
    aborted, (aborted.producer_id == n) & (aborted.offset <= batch.offset)
)
is_last_batch = size(reading.batches) == 1
takes = Table(
    reading.fetcher,
    on=following,
    when=size(reading.batches) > 0,
    set={
        reading.batches: without_first(reading.batches),
        reading.aborted_transactions: keep(aborted, aborted.offset > batch.offset),
        reading.next_offset: batch.offset + 1,
    },
    rows=(
        Row(
            "abort-marker",
            "An abort marker: its producer id is no longer aborted",
            when=batch.kind == Kind.ABORT,
            set={
                reading.aborted_producer_ids: those(
                    n, ~is_last_batch & is_aborted_now & (n != batch.producer_id)
                ),
            },
            source="CompletedFetch.containsAbortMarker",
        ),
        Row(
            "aborted-batch",
            "The producer id is aborted: the consumer drops the batch",
            when=batch.producer_id.is_in(those(n, is_aborted_now)),
            set={
                reading.aborted_producer_ids: those(n, ~is_last_batch & is_aborted_now),
                reading.dropped: if_(
                    batch.kind == Kind.DATA,
                    reading.dropped | set_of(batch.transaction),
                    reading.dropped,
                ),
            },
            source="CompletedFetch.isBatchAborted",
        ),
        Row(
            "commit-marker",
            "A commit marker is skipped",
            when=batch.kind == Kind.COMMIT,
            set={reading.aborted_producer_ids: those(n, ~is_last_batch & is_aborted_now)},
            source="CompletedFetch.nextFetchedRecord",
        ),
        Row(
            "record",
            "The application gets the record",
            set={
                reading.aborted_producer_ids: those(n, ~is_last_batch & is_aborted_now),
                reading.delivered: reading.delivered | set_of(batch.transaction),
            },
            source="CompletedFetch.nextFetchedRecord",
        ),
    ),
)

TABLES = (looks, reads, takes)
