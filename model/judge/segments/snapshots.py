"""Producer snapshots, compared with the producers that the log gives: both ways, in every field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

EXPIRATION_MS: Final = 86_400_000
"""producer.id.expiration.ms, by default"""


class Known(NamedTuple):
    """A producer by its log: its state (a ProducerStateEntry), the offset of its last batch or
    marker, and whether that was a marker."""

    entry: Any
    wrote: int
    is_marker: bool


class Difference(NamedTuple):
    """A difference: the place of the snapshot's entry (none: of the whole), a sentence, and whether
    it may have a reason that no file shows."""

    byte: int | None
    what: str
    is_doubtful: bool = False


def as_entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """A snapshot's entry as the machine has it."""
    batch = row["last_sequence"], row["last_offset"], row["offset_delta"], row["timestamp"]
    first = row["current_txn_first_offset"]
    return {
        "producer_epoch": row["epoch"],
        "batch_metadata": [batch] if row["last_offset"] >= 0 else [],
        "coordinator_epoch": row["coordinator_epoch"],
        "current_txn_first_offset": None if first < 0 else first,
        "last_timestamp": row["timestamp"],
    }


def compare(
    rows: Mapping[int, tuple[int, Mapping[str, Any]]], known: Mapping[int, Known], *,
    written_ms: int, is_known_from_start: bool, may_be_deleted: bool,
) -> Iterator[Difference]:  # fmt: skip
    """A snapshot's entries with their places, by producer id, beside the producers of the log.

    `written_ms`: the snapshot was written then, or later. `may_be_deleted`: a producer may have
    gone with its records. ProducerStateManager.writeSnapshot
    """
    for producer_id, (byte, row) in rows.items():
        if producer_id in known:
            yield from _fields(producer_id, byte, row, known[producer_id])
        elif is_known_from_start:
            yield Difference(byte, f"producer {producer_id} has nothing in the log")
    idle = [
        (known[producer_id].wrote, row["timestamp"])
        for producer_id, (_, row) in rows.items()
        if producer_id in known and row["current_txn_first_offset"] < 0
    ]
    for producer_id, producer in known.items():
        if producer_id not in rows:
            for missing in _missing(producer_id, producer, idle, written_ms):
                yield missing._replace(is_doubtful=missing.is_doubtful or may_be_deleted)


def _fields(
    producer_id: int, byte: int, row: Mapping[str, Any], known: Known
) -> Iterator[Difference]:
    entry = known.entry
    newest = entry.batch_metadata[-1:]
    first = entry.current_txn_first_offset
    ours = {
        "epoch": entry.producer_epoch,
        "last_sequence": newest[0].last_sequence if newest else -1,
        "last_offset": newest[0].last_offset if newest else -1,
        "offset_delta": newest[0].offset_delta if newest else 0,
        "timestamp": entry.last_timestamp,
        "coordinator_epoch": entry.coordinator_epoch,
        "current_txn_first_offset": -1 if first is None else first,
    }
    for name, value in ours.items():
        if row[name] != value:
            # a producer that had expired in between has seen no marker yet
            returned = name == "coordinator_epoch" and row[name] == -1 and not known.is_marker
            what = f"producer {producer_id} has {name} {row[name]}, but the log gives {value}"
            yield Difference(byte, what, returned)


def _missing(
    producer_id: int, producer: Known, idle: list[tuple[int, int]], written_ms: int
) -> Iterator[Difference]:
    """A producer that only the log has: it had expired, or the entry is lost. It doesn't expire
    while its transaction is open, nor before one that has been idle for longer
    (ProducerStateManager.isProducerExpired)."""
    first, since = producer.entry.current_txn_first_offset, producer.entry.last_timestamp
    if first is not None:
        what = f"lacks producer {producer_id}, whose transaction is open from offset {first}"
        yield Difference(None, what)
    elif any(wrote < producer.wrote and timestamp <= since for wrote, timestamp in idle):
        what = f"lacks producer {producer_id}, but has one that was idle for longer"
        yield Difference(None, what)
    elif written_ms - since < EXPIRATION_MS:
        what = f"lacks producer {producer_id}: no file shows that it had expired"
        yield Difference(None, what, is_doubtful=True)
