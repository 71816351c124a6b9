"""The state that a diagnosis is made from: what is open in partitions, and what coordinators have.

A cluster's answers and data directories are both read into it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ..judge.segments.transactions import Decision


class Verdict(IntEnum):
    """What a finding, and the whole, come to; each is the exit code of the command."""

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
    """A transaction that a partition's leader has open. `last_ms` is when its producer wrote last,
    `coordinator_epoch` that of the producer's last marker here. -1 stands for none."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_ms: int = -1
    coordinator_epoch: int = -1


@dataclass
class Span:
    """The batches of an open transaction that were read: the first and the last offset, how many
    records, and the time of the first (ms)."""

    first: int
    last: int
    batches: int
    records: int
    since_ms: int


@dataclass
class Partition:
    """A partition in which something is open. Offsets from `last_stable_offset` up to `end`, the
    high watermark, are hidden from read_committed consumers. `spans` are by producer id; not
    `is_whole`: there may be more open, and more batches. `groups` have their committed offset at
    the last stable offset."""

    place: Place
    last_stable_offset: int
    end: int
    open: tuple[Open, ...] = ()
    spans: dict[int, Span] = field(default_factory=dict[int, Span])
    markers: dict[int, int] = field(default_factory=dict[int, int])
    """By producer id, how many markers the whole partition has; empty where nobody counted."""
    is_whole: bool = True
    doubts: list[str] = field(default_factory=list[str])
    """Why an end may be here that wasn't seen."""
    groups: list[str] = field(default_factory=list[str])

    @property
    def hidden(self) -> int:
        """How many offsets are hidden."""
        return max(0, self.end - self.last_stable_offset)

    def since_ms(self, of: Open) -> int:
        """When an open transaction wrote first, as far as that is known; else -1."""
        span = self.spans.get(of.producer_id)
        return span.since_ms if span is not None and span.first == of.first_offset else -1


@dataclass(frozen=True)
class Entry:
    """A coordinator's entry of a transactional id: `state` in Kafka's words, times in ms (-1: not
    known). `decided_ms` is when a state with a decision was entered."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: frozenset[Place] = frozenset()
    timeout_ms: int = -1
    start_ms: int = -1
    decided_ms: int = -1
    doubt: str = ""
    """Why there may be a newer one."""


ONGOING: Final = "Ongoing"
DECIDED: Final = ("PrepareCommit", "PrepareAbort")


@dataclass(frozen=True)
class Problem:
    """Something that is wrong beside open transactions: its cause (a key of `CAUSES`), what was
    seen, and the partition that it is about, if it is about one."""

    cause: str
    says: str
    place: Place | None = None


@dataclass
class Evidence:
    """All of it. `looked_at` partitions were looked at, and `partitions` have something open.
    `doubts` say why an entry may exist that isn't in `entries`, which are by producer id. `seen`
    has how long (ms) what a key stands for has been seen, as `Case.key` has them."""

    source: str
    now_ms: int
    release: str | None = None
    transaction_version: int | None = None
    server: str = ""
    """The address for commands of remedies."""
    describes_producers: bool = True
    verifies: bool = True
    """Whether leaders ask coordinators, where their release does (KIP-890)."""
    knows_settings: bool = True
    """Whether the brokers' settings may be read."""
    log_epochs: dict[int, int] = field(default_factory=dict[int, int])
    """The coordinator epochs by partitions of the transaction log."""
    looked_at: int = 0
    partitions: list[Partition] = field(default_factory=list[Partition])
    entries: dict[int, list[Entry]] = field(default_factory=dict[int, list[Entry]])
    decisions: dict[int, list[Decision]] = field(default_factory=dict[int, list[Decision]])
    """By producer id, as far as the transaction log was read."""
    has_all_decisions: bool = False
    """Whether nothing of the transaction log was compacted or deleted."""
    whole: set[str] = field(default_factory=set[str])
    """Transactional ids whose decisions are all known."""
    doubts: list[str] = field(default_factory=list[str])
    problems: list[Problem] = field(default_factory=list[Problem])
    notes: list[str] = field(default_factory=list[str])
    patience_ms: int = 5_000
    """So long a marker may be on its way, and a coordinator load."""
    seen: dict[Any, int] = field(default_factory=dict[Any, int])
