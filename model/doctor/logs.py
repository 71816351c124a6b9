"""Reads batches and records of logs as evidence: open transactions, and the coordinators'
decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, Final

from ..judge.segments.across_partitions import time_of
from ..judge.segments.transactions import TransactionLog
from ..records import RecordError
from ..records.files import Kind, Row, read_stream
from .evidence import DECIDED, Entry, Evidence, Open, Problem, Span, place_of

_BATCH_HEAD: Final = 12
"""The bytes of a batch up to the end of its length."""


def add_log(found: Evidence, log: TransactionLog, doubt: str = "") -> None:
    """Adds the entries and decisions of a partition of the transaction log. `doubt` is a reason why
    there may be newer ones, or ""."""
    for each in log.entries.values():
        state = "".join(word.capitalize() for word in each.state.split("_"))
        entry = Entry(
            each.transactional_id, each.producer_id, each.producer_epoch, state,
            frozenset(map(place_of, each.partitions)), each.timeout_ms, each.start_ms,
            each.timestamp if state in DECIDED else -1, doubt,
        )  # fmt: skip
        found.entries.setdefault(entry.producer_id, []).append(entry)
    for decision in log.decisions:
        found.decisions.setdefault(decision.producer_id, []).append(decision)


RIVALS: Final = 3
WITHIN_MS: Final = 60_000
LATELY_MS: Final = 10 * 60_000


def add_rivals(found: Evidence, log: TransactionLog) -> None:
    """Adds a problem for each transactional id with RIVALS recent new epochs by InitProducerId
    within a minute."""
    for name, times in log.initialized.items():
        last = [at for at in times if at > times[-1] - WITHIN_MS]
        if len(last) >= RIVALS and times[-1] > found.now_ms - LATELY_MS:
            says = (
                f"{name}: {len(last)} new epochs by InitProducerId within "
                f"{max(1, round((last[-1] - last[0]) / 1000))} s, the last at {time_of(last[-1])}"
            )
            found.problems.append(Problem("instances-fence-each-other", says))


class Scan:
    """Finds open transactions and their batches, batch by batch. `open` starts with the
    transactions that were open before the first batch. `markers` counts the markers of each
    producer; `marked_ms` is the time of the last one. `end` is the offset after the last batch."""

    def __init__(self, open_: Iterable[Open] = ()) -> None:
        self.open = {of.producer_id: of for of in open_}
        self.end = 0
        self.markers: dict[int, int] = {}
        self.marked_ms = -1
        self.spans: dict[int, Span] = {}
        self._terms: dict[int, int] = {}

    def take(self, data: bytes) -> int:
        """Reads the next batches. Returns the offset after them. Raises RecordError."""
        for item in read_stream(BytesIO(data), Kind.LOG):
            if isinstance(item, RecordError):
                raise item
            self.take_row(item)
        return self.end

    def take_row(self, item: Row) -> None:
        """Reads the next row: a batch, or a record of it."""
        if item.what == "batch":
            self.end = item.fields["last_offset"] + 1
            self._batch(item.fields)
        elif item.what == "marker":
            self._marker(item)

    def _marker(self, item: Row) -> None:
        producer_id = item.fields["producer_id"]
        self.markers[producer_id] = self.markers.get(producer_id, 0) + 1
        self.marked_ms = max(self.marked_ms, item.fields["timestamp"])
        self._terms[producer_id] = item.fields["coordinator_epoch"]
        self.open.pop(producer_id, None)
        self.spans.pop(producer_id, None)

    def _batch(self, fields: Mapping[str, Any]) -> None:
        if not fields["transactional"] or fields["control"]:
            return
        producer_id, last = fields["producer_id"], fields["last_offset"]
        known = self.open.get(producer_id)
        first = fields["offset"] if known is None else known.first_offset
        self.open[producer_id] = Open(
            producer_id,
            fields["producer_epoch"],
            first,
            fields["max_timestamp"],
            self._terms.get(producer_id, -1),
        )
        span = self.spans.setdefault(producer_id, Span(first, last, 0, 0, fields["base_timestamp"]))
        span.last, span.batches = last, span.batches + 1
        span.records += fields["records"]


def whole_batches(data: bytes) -> bytes:
    """The data without an incomplete batch at its end."""
    at = 0
    while at + _BATCH_HEAD <= len(data):
        size = _BATCH_HEAD + int.from_bytes(data[at + 8 : at + _BATCH_HEAD])
        if at + size > len(data):
            break
        at += size
    return data[:at]
