"""A read_committed fetch in its two steps: how far the reader may read, and what it reads.

With the records comes the list of aborted transactions, by which the consumer drops theirs
(isolation.is_filtered has its order); here it follows from the log. A fetch gives one entry: what a
consumer has buffered is decided already.
"""

from __future__ import annotations

from ...language import Row, Table, element, event, first_of, if_, set_of, some
from ..leader.state import Kind
from .state import (
    delivered,
    dropped,
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

look = event("fetch begins", event_doc="The leader looks up the last stable offset.")
_STABLE = "Log.fetchLastStableOffsetMetadata"
looks = Table(
    fetcher,
    on=look,
    others=(store,),
    when=~fetching & (next_offset <= high_watermark),
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

read = event("fetch reads", event_doc="The leader reads the log, and the consumer takes it.")
_up_to = if_(limit.is_set, limit.value, high_watermark)
_e = element("read", log)
_next = first_of(_e, (_e.offset >= next_offset) & (_e.offset < _up_to))
_found = first_of(_e, (_e.offset >= next_offset) & (_e.offset < _up_to) & is_aborted(_e))
_is_aborted = _found.is_set & (_found.value.offset == _next.value.offset)
_READ = {fetching: False, limit: None, next_offset: _next.value.offset + 1}
_transaction = _next.value.transaction
reads = Table(
    fetcher,
    on=read,
    others=(store,),
    when=fetching,
    rows=(
        Row(
            "nothing is left there",
            when=~_next.is_set,
            set={
                fetching: False,
                limit: None,
                next_offset: if_(next_offset < _up_to, _up_to, next_offset),
            },
            source="CompletedFetch.fetchRecords",
        ),
        Row(
            "a marker",
            when=_next.value.kind != Kind.DATA,
            set=_READ,
            source="CompletedFetch.nextFetchedRecord",
        ),
        Row(
            "of an aborted transaction",
            when=_is_aborted,
            set={**_READ, dropped: dropped | set_of(_transaction)},
            source="CompletedFetch.isBatchAborted",
        ),
        Row(
            "a record",
            set={**_READ, delivered: delivered | set_of(_transaction)},
            source="CompletedFetch.nextFetchedRecord",
        ),
    ),
)

TABLES = (looks, reads)
