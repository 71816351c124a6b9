"""The evidence for a diagnosis: open transactions of partitions, and the coordinators' entries.

It comes from a cluster's answers or from data directories.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ..judge.segments.transactions import Decision


class Verdict(IntEnum):
    """The verdict of a case, and of the whole diagnosis. Its value is the command's exit code."""

    HEALTHY = 0
    HANGS = 12
    UNKNOWN = 20


class Place(NamedTuple):
    """A partition."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


def place_of(name: str) -> Place:
    """The partition of a name such as orders-0."""
    topic, _, number = name.rpartition("-")
    return Place(topic, int(number))


@dataclass(frozen=True)
class Open:
    """An open transaction of a partition. `last_ms` is the time of the producer's last write,
    `coordinator_epoch` that of the producer's last marker here. -1: none."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_ms: int = -1
    coordinator_epoch: int = -1


@dataclass
class Span:
    """The batches of an open transaction that were read: their first and last offset, their number,
    the number of records, and the time of the first one (ms)."""

    first: int
    last: int
    batches: int
    records: int
    since_ms: int


@dataclass
class Partition:
    """A partition with an open transaction. Offsets from `last_stable_offset` up to `end`, the high
    watermark, are hidden from read_committed consumers. `spans` are by producer id. Unless
    `is_whole`, there may be more open transactions and batches. `groups` are those whose committed
    offset is the last stable offset."""

    place: Place
    last_stable_offset: int
    end: int
    open: tuple[Open, ...] = ()
    spans: dict[int, Span] = field(default_factory=dict[int, Span])
    markers: dict[int, int] = field(default_factory=dict[int, int])
    """The number of markers in the whole partition, by producer id; empty if not counted."""
    is_whole: bool = True
    doubts: list[str] = field(default_factory=list[str])
    """Reasons why the partition may have an end that wasn't read."""
    groups: list[str] = field(default_factory=list[str])

    @property
    def hidden(self) -> int:
        """The number of hidden offsets."""
        return max(0, self.end - self.last_stable_offset)

    def since_ms(self, of: Open) -> int:
        """The time of an open transaction's first write, in ms; -1 if it isn't known."""
        span = self.spans.get(of.producer_id)
        return span.since_ms if span is not None and span.first == of.first_offset else -1


@dataclass(frozen=True)
class Entry:
    """A coordinator's entry of a transactional id. `state` is Kafka's name of the state; times are
    in ms (-1: not known). `decided_ms` is the time of the decision."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: frozenset[Place] = frozenset()
    timeout_ms: int = -1
    start_ms: int = -1
    decided_ms: int = -1
    doubt: str = ""
    """A reason why there may be a newer entry, or ""."""


ONGOING: Final = "Ongoing"
DECIDED: Final = ("PrepareCommit", "PrepareAbort")


@dataclass(frozen=True)
class Problem:
    """Another problem than an open transaction: its cause (a key of `CAUSES`), a description, and
    its partition, if any."""

    cause: str
    says: str
    place: Place | None = None


@dataclass
class Evidence:
    """All evidence. `looked_at` is the number of examined partitions, and `partitions` are those
    with open transactions. `entries` are by producer id. `doubts` are reasons why other entries may
    exist. `seen` has for each `Case.key` the time (ms) for which it has been seen."""

    source: str
    now_ms: int
    release: str | None = None
    transaction_version: int | None = None
    server: str = ""
    """The server address in the commands of remedies."""
    describes_producers: bool = True
    verifies: bool = True
    """Whether leaders verify batches at coordinators, if their release can (KIP-890)."""
    knows_settings: bool = True
    """Whether the user may read the brokers' settings."""
    log_epochs: dict[int, int] = field(default_factory=dict[int, int])
    """The coordinator epochs by partition of the transaction log."""
    looked_at: int = 0
    partitions: list[Partition] = field(default_factory=list[Partition])
    entries: dict[int, list[Entry]] = field(default_factory=dict[int, list[Entry]])
    decisions: dict[int, list[Decision]] = field(default_factory=dict[int, list[Decision]])
    """The decisions by producer id, as far as the transaction log was read."""
    has_all_decisions: bool = False
    """Whether the transaction log is complete: nothing was compacted or deleted."""
    whole: set[str] = field(default_factory=set[str])
    """Transactional ids whose decisions are all known."""
    doubts: list[str] = field(default_factory=list[str])
    problems: list[Problem] = field(default_factory=list[Problem])
    notes: list[str] = field(default_factory=list[str])
    patience_ms: int = 5_000
    """The time in ms that a marker or a coordinator's load may take."""
    seen: dict[Any, int] = field(default_factory=dict[Any, int])
