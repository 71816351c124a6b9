"""The committed offsets of groups, from the records of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ..records import RecordError
from ..records.files import Kind, Row, read_file
from .evidence import Partition, Place

TOPIC: Final = "__consumer_offsets"
_KINDS: Final = ("OFFSET_COMMIT", "LEGACY_OFFSET_COMMIT")


class _Key(NamedTuple):
    group: str
    place: Place


class _Committed(NamedTuple):
    """The place of a record in the log, and its committed offset."""

    at: int
    offset: int | None


class GroupOffsets:
    """Reads the records of one partition of `__consumer_offsets`. A transaction's offset counts
    after its commit marker, unless a later record has another offset (GroupMetadata.
    completePendingTxnOffsetCommit)."""

    def __init__(self) -> None:
        self._committed: dict[_Key, _Committed] = {}
        self._pending: dict[int, dict[_Key, _Committed]] = {}
        self._producer_id = -1

    def read(self, log: Path) -> str | None:
        """Reads the records of a segment. Returns the first error, or None."""
        error: str | None = None
        try:
            for item in read_file(log, Kind.OFFSETS_LOG):
                if isinstance(item, RecordError):
                    error = error or f"{log}: {item}"
                else:
                    self._take(item)
        except FileNotFoundError:
            error = f"{log}: it was deleted during the run"
        return error

    def _take(self, item: Row) -> None:
        fields = item.fields
        if item.what == "batch":
            self._producer_id = fields["producer_id"] if fields["transactional"] else -1
        elif item.what == "marker":
            pending = self._pending.pop(fields["producer_id"], {})
            for key, committed in pending.items() if fields["result"] == "COMMIT" else ():
                self._set(self._committed, key, committed)
        elif item.what in ("offset", "tombstone") and fields["type"] in _KINDS:
            key = _Key(fields["group"], Place(fields["topic"], fields["partition"]))
            committed = _Committed(fields["offset"], fields.get("committed_offset"))
            is_open = self._producer_id >= 0
            into = self._pending.setdefault(self._producer_id, {}) if is_open else self._committed
            self._set(into, key, committed)

    @staticmethod
    def _set(into: dict[_Key, _Committed], key: _Key, committed: _Committed) -> None:
        if key not in into or into[key].at < committed.at:
            into[key] = committed

    def add_waiting(self, parts: Iterable[Partition]) -> None:
        """Adds to each partition the groups whose committed offset is its last stable offset."""
        by_place = {part.place: part for part in parts}
        for (group, place), committed in sorted(self._committed.items()):
            part = by_place.get(place)
            if part is not None and committed.offset == part.last_stable_offset:
                part.groups.append(group)
