"""The local steps of a partition leader, as Kafka's UnifiedLog takes them.

The partition has one producer id. The environment sends every batch and marker with arguments from
the partition's state: the epochs around the producer's and the extreme ones, the sequences around
the last one and those of the cached batches. A step begins at the log's end.

Reductions: the log has at most `LONGEST` records; all records have one timestamp; records are older
than producer.id.expiration.ms only in steps in which ids expire.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from .....spec.errors import Errors
from .....spec.leader.state import last_stable_offset
from .....spec.leader.tables import DRIVEN
from .....spec.releases.api_versions import before as older_than
from .....spec.systems.reductions.leader import LEADER_ALONE
from ....machine import Machine
from ..steps import LocalStep, LocalSteps, breadth_first

NOW: Final = 2_000_000_000
OLD: Final = NOW - 86_400_000
PRODUCER_ID: Final = 1000
LARGEST_EPOCH: Final = 2**15 - 1
LARGEST: Final = 2**31 - 1
LONGEST: Final = 3
CACHED: Final = 5
_CODES: Final = dict(Errors.members)


class Batch(NamedTuple):
    """A cached batch."""

    last_sequence: int = 0
    last_offset: int = 0
    offset_delta: int = 0
    timestamp: int = 0


class Partition(NamedTuple):
    """A partition for the host: -1 for absent numbers. Offsets begin at 0."""

    known: int = 0
    epoch: int = -1
    coordinator_epoch: int = -1
    txn_first: int = -1
    used: int = NOW
    batches: tuple[Batch, ...] = ()
    asked: int = 0
    asked_epoch: int = 0
    lowest: int = 0
    asked_at: int = 0
    supports: int = 0
    start: int = 0
    end: int = 0

    def numbers(self, watermark: int) -> tuple[int, ...]:
        padded = (*self.batches, *(Batch(),) * (CACHED - len(self.batches)))
        return (
            *self[:5],
            len(self.batches),
            *(number for batch in padded for number in batch),
            *self[6:],
            watermark,
        )


EMPTY: Final = Partition()
FULL: Final = Partition(
    known=1,
    epoch=0,
    coordinator_epoch=0,
    end=6,
    batches=tuple(Batch(at, at, 0, NOW) for at in range(CACHED)),
)
SEEDS: Final = (
    EMPTY,
    Partition(known=1, epoch=LARGEST_EPOCH - 1, end=1, batches=(Batch(LARGEST - 1, 0, 0, NOW),)),
    FULL,
    FULL._replace(txn_first=1, start=2),
)
REFUSALS: Final = (
    "PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH",
)  # fmt: skip
"""The coordinator's errors in the answer to a verification: TransactionCoordinator."""
ROWS_LEFT_OUT: Final = {
    (
        "AddPartitionsByLeaderResponse",
        "abortable-unknown",
    ): "a coordinator of the leader's release doesn't give this answer",
}
"""Rows that don't run, with the reason."""
OF_THE_CLASS_ALONE: Final = {
    "segments, leaderEpochCache": "a step has one segment and one leader epoch",
    "snapshots, lastMapOffset, lastSnapOffset": "no step reads or takes a snapshot",
    "oldestTxnLastTimestamp": "only a metric reads it",
    "ongoingTxns, unreplicatedTxns": "compared by the last stable offset",
}
"""Fields of Kafka's classes that the tables don't have, with the reason."""


@dataclass(frozen=True)
class _Event:
    """An event with its arguments, for the machine and for the host."""

    operation: int
    name: str
    fields: dict[str, Any]
    version: int = 0
    numbers: tuple[int, ...] = ()
    """For the host: epoch, sequence, offset delta, whether the batch is transactional, origin,
    whether verification is on, the guard, coordinator epoch, whether the marker commits, offset,
    the coordinator's answer."""

    def shown(self) -> str:
        given = ", ".join(
            f"{name}={value}"
            for name, value in self.fields.items()
            if name not in ("producer", "partition", "producer_id", "timestamp", "beneath_log")
        )
        return f"{self.name}({given})"


class Leader(LocalSteps):
    """The local steps of a partition with one producer id, at one release."""

    name = "leader"
    java = "LeaderSteps"
    since = "2.5"
    most = 2_000
    answers = ("answers", "error", "first offset", "last offset", "is a duplicate", "guard")
    fields = (
        "(cached)", "producerEpoch", "coordinatorEpoch", "currentTxnFirstOffset", "lastTimestamp",
        "batchMetadata",
        *(
            f"batchMetadata {at}, {name}"
            for at in range(CACHED)
            for name in ("lastSeq", "lastOffset", "offsetDelta", "timestamp")
        ),
        "(verification)", "verification epoch", "lowestSequence", "verification timestamp",
        "supportsEpochBump", "logStartOffset", "logEndOffset", "lastStableOffset",
    )  # fmt: skip
    of_the_class_alone = OF_THE_CLASS_ALONE
    rows_left_out = ROWS_LEFT_OUT

    def __init__(self, protocol: str, machine: Machine | None = None) -> None:
        super().__init__(machine or Machine(DRIVEN, protocol=protocol, reductions=LEADER_ALONE))
        self.blank.outside(clock__now=NOW)
        features = self.blank.features
        self.asks = "verification" in features
        newer = ("TRANSACTION_ABORTABLE",) if "abortable_error" in features else ()
        self.refusals = (*REFUSALS, *newer)
        self.asks_about_offsets = "offsets_verified" in features

    def steps(self, most: int | None = None) -> Iterator[LocalStep]:
        return breadth_first(SEEDS, self._steps_of, most, _is_explored)

    def _steps_of(self, before: Partition) -> Iterator[tuple[LocalStep, Partition]]:
        start = self._machine(before)
        watermarks = before.end, (before.start + before.end) // 2
        for at, event in enumerate(self._events(before)):
            watermark = watermarks[at % 2] if event.name != "records are deleted" else before.end
            machine = start.copy()
            outcome = machine.attempt(
                event.name, switch_off=older_than(event.version), **event.fields
            )
            if outcome is not None:
                row = event.name, outcome.row
                yield self._step(event, before, watermark, machine, outcome.reply, row)
        for aged in {before, before._replace(used=OLD), before._replace(asked_at=OLD)}:
            yield from self._expiry(aged)

    def _expiry(self, before: Partition) -> Iterator[tuple[LocalStep, Partition]]:
        machine = self._machine(before)
        rows = list[tuple[str, str]]()
        for name in ("producer expires", "question expires"):
            outcome = machine.attempt(name, producer_id=PRODUCER_ID)
            if outcome is not None:
                rows.append((name, outcome.row))
        yield self._step(_Event(3, "ids expire", {}), before, before.end, machine, None, *rows)

    def _step(
        self, event: _Event, before: Partition, watermark: int, machine: Machine, reply: Any,
        *rows: tuple[str, str],
    ) -> tuple[LocalStep, Partition]:  # fmt: skip
        numbers = event.numbers + (0,) * (11 - len(event.numbers))
        after = self._partition(machine)
        first = before.txn_first if before.txn_first >= 0 else after.txn_first
        if before.txn_first < 0 and reply is not None and rows[-1][1] == "empty-transaction":
            first = reply.first_offset
        machine.put(high_watermark=watermark, first_unstable_offset=None if first < 0 else first)
        stable = machine.value(last_stable_offset)
        known = after.numbers(stable)
        expected: list[int | None] = list(known)
        if not after.known:
            expected[1:26] = [*(None,) * 4, 0, *(None,) * 20]
        if not after.asked:
            expected[27:31] = (None,) * 4
        for batch in range(len(after.batches), CACHED):
            expected[6 + 4 * batch : 10 + 4 * batch] = (None,) * 4
        step = LocalStep(
            given=(event.operation, event.version, *numbers, *before.numbers(watermark)),
            answer=_answer(event, reply),
            after=tuple(expected),
            rows=rows,
            said=event.shown(),
        )
        return step, _canonical(after)

    # Partitions -------------------------------------------------------------------------------

    def _machine(self, before: Partition) -> Machine:
        machine = self.blank.copy()
        if before.known:
            entry = {
                "producer_epoch": before.epoch,
                "coordinator_epoch": before.coordinator_epoch,
                "current_txn_first_offset": None if before.txn_first < 0 else before.txn_first,
                "last_timestamp": before.used,
                "batch_metadata": tuple(batch._asdict() for batch in before.batches),
            }
            machine.put(producers={PRODUCER_ID: entry})
        if before.asked:
            question = {
                "epoch": before.asked_epoch,
                "lowest_sequence": before.lowest,
                "verification_guard": 0,
                "timestamp": before.asked_at,
                "supports_epoch_bump": bool(before.supports),
            }
            machine.put(verification_states={PRODUCER_ID: question}, guards=1)
        machine.put(log_start_offset=before.start, log_end_offset=before.end)
        return machine

    def _partition(self, machine: Machine) -> Partition:
        entry = machine.at("producers", PRODUCER_ID)
        question = machine.at("verification_states", PRODUCER_ID)
        question_fields = (0, 0, 0, 0, 0)
        if question is not None:
            question_fields = (
                1,
                question.epoch,
                question.lowest_sequence,
                question.timestamp,
                int(question.supports_epoch_bump),
            )
        first = entry.current_txn_first_offset
        batches = tuple(
            Batch(b.last_sequence, b.last_offset, b.offset_delta, b.timestamp)
            for b in entry.batch_metadata
        )
        return Partition(
            int(entry.producer_epoch >= 0), entry.producer_epoch, entry.coordinator_epoch,
            -1 if first is None else first, entry.last_timestamp, batches, *question_fields,
            machine["log_start_offset"], machine["log_end_offset"],
        )  # fmt: skip

    # Events -----------------------------------------------------------------------------------

    def _events(self, at: Partition) -> Iterator[_Event]:
        around = {at.epoch - 1, at.epoch, at.epoch + 1, 0, LARGEST_EPOCH}
        if at.asked:
            around |= {at.asked_epoch, at.asked_epoch + 1}
        epochs = sorted(epoch for epoch in around if 0 <= epoch <= LARGEST_EPOCH)
        sequences = {0, 1, LARGEST}
        for batch in (*at.batches[:2], *at.batches[-1:]):
            sequences |= {batch.last_sequence - batch.offset_delta, batch.last_sequence + 1}
            sequences |= {batch.last_sequence + 2}
        if at.asked:
            sequences |= {at.lowest, at.lowest + 1}
        sequences = sorted({sequence % 2**31 for sequence in sequences if sequence >= 0})
        for epoch in epochs:
            for version in self.versions:
                yield from self._batches(at, epoch, sequences, version)
                yield from self._markers(at, epoch, version)
        for offset in range(at.start + 1, at.end + 1):
            numbers = (*(0,) * 9, offset)
            yield _Event(4, "records are deleted", {"offset": offset}, 0, numbers)

    def _batches(
        self, at: Partition, epoch: int, sequences: list[int], version: int
    ) -> Iterator[_Event]:
        batch = {
            "producer_id": PRODUCER_ID,
            "producer_epoch": epoch,
            "timestamp": NOW,
        }
        for transactional in (True, False):
            for origin in (0, 1, 2) if transactional else (0, 2):
                asks = origin == 0 or (origin == 1 and self.asks_about_offsets)
                asks = asks and transactional and (self.asks or version == 2)
                for sequence in [0] if origin == 1 else sequences:
                    for delta in (0, 1):
                        last = (sequence + delta) % 2**31
                        fields = batch | {
                            "base_sequence": sequence,
                            "last_sequence": last,
                            "offset_delta": delta,
                            "from_client": origin == 0,
                        }
                        numbers = epoch, sequence, delta, int(transactional), origin, int(asks)
                        yield _Event(
                            0, "Produce", fields | {
                                "from_coordinator": origin == 1, "beneath_log": False,
                                "idempotent_only": not transactional,
                            }, version, numbers,
                        )  # fmt: skip
                        if not asks:
                            continue
                        answers = [("NONE", 0)]
                        if at.asked:
                            answers.append(("NONE", 1))
                        if delta == 0 and sequence == 0:
                            answers += [(error, 0) for error in self.refusals]
                        for error, guarded in answers:
                            yield _Event(
                                1,
                                "AddPartitionsByLeaderResponse",
                                fields
                                | {
                                    "producer": 0,
                                    "partition": 0,
                                    "error": error,
                                    "guarded": bool(guarded),
                                },
                                version,
                                (*numbers, guarded, 0, 0, 0, _CODES[error]),
                            )

    def _markers(self, at: Partition, epoch: int, version: int) -> Iterator[_Event]:
        by = at.coordinator_epoch
        for coordinator_epoch in sorted({max(by - 1, 0), max(by, 0), by + 1}):
            for commits, result in enumerate(("ABORT", "COMMIT")):
                for is_replicated in (False, True):
                    fields = {
                        "producer_id": PRODUCER_ID,
                        "producer_epoch": epoch,
                        "result": result,
                        "coordinator_epoch": coordinator_epoch,
                        "timestamp": NOW,
                        "is_replicated": is_replicated,
                    }
                    origin = 2 if is_replicated else 1
                    numbers = epoch, 0, 0, 1, origin, 0, 0, coordinator_epoch, commits
                    yield _Event(2, "WriteTxnMarkers", fields, version, numbers)


def _answer(event: _Event, reply: Any) -> tuple[int | None, ...]:
    """The answer to a batch or marker: how many answers, the error and offsets; None: any
    number."""
    if reply is None:
        return (0, None, None, None, None, None)
    error = _CODES[reply.error]
    if event.name == "WriteTxnMarkers":
        return (1, error, None, None, None, 0)
    if reply.guard is not None or error:
        return (1, error, None, None, None, int(reply.guard is not None))
    return (1, error, reply.first_offset, reply.last_offset, int(reply.is_duplicate), 0)


def _is_explored(at: Partition) -> bool:
    return (
        at.end <= LONGEST
        and not 1 < at.epoch < LARGEST_EPOCH - 1
        and at.coordinator_epoch <= 1
        and not (at.asked and 1 < at.asked_epoch < LARGEST_EPOCH - 1)
        and not (at.asked and 2 < at.lowest < LARGEST - 1)
        and all(not 3 < batch.last_sequence < LARGEST - 1 for batch in at.batches)
    )


def _canonical(at: Partition) -> Partition:
    """The canonical state: the producer isn't idle."""
    return at._replace(used=NOW, asked_at=NOW if at.asked else 0)
