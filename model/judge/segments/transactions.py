"""The transaction log's partitions: each transactional id's records, and the decisions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any, Final

from ....language.expressions import Expression, lift, rewrite
from ....language.terms.values import evaluate, field_name
from ....spec.coordinator import entry as coordinator
from ....spec.properties.transactions.transactions import PREVIOUS
from ....spec.releases.features import KAFKA
from ...broker.transactions.transaction_log import java_hash
from ...records.codec.errors import RecordError
from ...records.files import Kind, Row, read_file
from .folder import Finding, files_of, lacks_last_snapshot, range_of

DECISIONS = {"PREPARE_COMMIT": "COMMIT", "PREPARE_ABORT": "ABORT"}
EMPTY: Final = "EMPTY"
COMPLETED = {"COMPLETE_COMMIT": "COMMIT", "COMPLETE_ABORT": "ABORT"}
EXPIRING = (EMPTY, *COMPLETED)
"""Only ids in these states expire (TransactionStateManager.removeExpiredTransactionalIds)."""
EXHAUSTED: Final = 32766
"""From this epoch on the next producer id comes (TransactionMetadata.isEpochExhausted)."""


Owner = tuple[str, str]
"""A transactional id, and its partition of the transaction log."""


@dataclass
class Decision:
    """A transaction that was decided: by which record, at what time (ms), for which partitions;
    `is_completed` where the coordinator has said since that all of them have its marker.
    `client_version` is the transaction.version of its client."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    result: str
    partitions: tuple[str, ...]
    file: Path
    byte: int
    timestamp: int = -1
    is_completed: bool = False
    client_version: int = 0


@dataclass(frozen=True)
class Newest:
    """The newest record of a transactional id, or of a producer id; times are in ms."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timestamp: int
    partitions: tuple[str, ...]
    timeout_ms: int
    start_ms: int


@dataclass
class TransactionLog:
    """The content of a partition of the transaction log. It `is_whole` where nothing was compacted
    or deleted, as far as offsets show. It `has_newest` where it has the newest record of each
    transactional id: compaction keeps these."""

    name: str
    folder: Path
    records: int = 0
    ids: set[str] = field(default_factory=set[str])
    epochs: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    """All epochs of each producer id."""
    newest: dict[int, Newest] = field(default_factory=dict[int, Newest])
    """The newest record of each producer id."""
    decisions: list[Decision] = field(default_factory=list[Decision])
    entries: dict[str, Newest] = field(default_factory=dict[str, Newest])
    """The newest record of each transactional id that isn't forgotten."""
    owners: dict[int, dict[Owner, Finding]] = field(default_factory=dict[int, dict[Owner, Finding]])
    """Each producer id's transactional ids, with the first record of each: no two may have one, and
    none is in two partitions."""
    initialized: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """When each transactional id got a new epoch by InitProducerId (ms): its records in EMPTY."""
    is_whole: bool = True
    has_newest: bool = True
    spread: int = 0
    """All ids belong here if the transaction log has n partitions and n divides this number."""
    findings: list[Finding] = field(default_factory=list[Finding])


@cache
def _allowed(protocol: str | None) -> dict[str, Expression]:
    """By state the condition on the one before it, in a release."""
    features = KAFKA.features_at(protocol or KAFKA.newest)

    def settle(node: Expression) -> Expression | None:
        return lift(node.data.name in features) if node.op == "feature" else None

    return {
        target.data.member: (coordinator.state == target) | rewrite(condition, settle)
        for target, condition in PREVIOUS
    }


def may_follow(after: str, before: str, protocol: str | None) -> bool:
    """Whether a record in the state `after` may follow one in `before`, by DeclaredTransitions."""
    condition = _allowed(protocol).get(after)
    if condition is None:
        return False
    return bool(evaluate(condition, {field_name(coordinator.state.data): before}, {}))


def read_transactions(folder: Path, protocol: str | None = None) -> TransactionLog:
    """The transaction log in a folder, looked at. Raises OSError."""
    return TransactionLogReader(folder, protocol).whole()


class TransactionLogReader:
    """Reads a partition of the transaction log, from a folder (`whole`) or record by record
    (`take`). `found` has the content so far."""

    def __init__(self, folder: Path, protocol: str | None = None) -> None:
        self.found = TransactionLog(folder.name, folder)
        self.protocol = protocol
        self.number = int(folder.name.rpartition("-")[2])
        self.open: dict[str, Decision] = {}
        self.end = 0

    def whole(self) -> TransactionLog:
        """Everything in the folder."""
        found, files = self.found, files_of(self.found.folder)
        found.findings += files.findings
        found.has_newest = 0 in files.segments
        for base, log in files.segments.items():
            self._skip(base, log, None)
            for item in read_file(log, Kind.TRANSACTION_LOG):
                self.take(item, log)
        is_damaged = any(finding.is_damage for finding in found.findings)
        found.has_newest &= not is_damaged
        if not is_damaged:
            found.findings += lacks_last_snapshot(files, found.folder, self.end)
        if self.lacked is not None:
            log, byte, what = self.lacked
            why = "by compaction or by damage: transitions and markers aren't judged"
            found.findings.append(Finding(log, byte, f"{what} missing, {why}", is_damage=True))
        for offset, path in files.snapshots.items():
            if files.segments and offset > self.end:
                what = f"is of an offset behind the log, which ends at {self.end}"
                found.findings.append(Finding(path, None, what))
            found.findings += _of_snapshot(path)
        return found

    lacked: tuple[Path, int | None, str] | None = None

    def _skip(self, offset: int, log: Path, byte: int | None) -> None:
        """Offsets below this one are missing, if any are."""
        if offset > self.end:
            self.found.is_whole = False
            self.lacked = self.lacked or (log, byte, range_of(self.end, offset))
            self.end = offset

    def take(self, item: Row | RecordError, log: Path) -> None:
        """The next row, or the error in its place."""
        found = self.found
        if isinstance(item, RecordError):
            found.findings.append(Finding(log, item.at, f"can't be read: {item}", True))
            found.is_whole = False
        elif item.what == "batch":
            offset, last = item.fields["offset"], item.fields["last_offset"]
            if offset < self.end:
                what = f"offset {offset} is there already, or was passed over"
                found.findings.append(Finding(log, item.byte, what))
                found.is_whole = False
            self._skip(offset, log, item.byte)
            if item.fields["producer_id"] != -1 or item.fields["transactional"]:
                what = (
                    f"the batch at offset {offset} has a producer, and coordinators write without"
                )
                found.findings.append(Finding(log, item.byte, what))
            if item.fields["records"] != last - offset + 1:
                found.is_whole = False
                what = f"records from offset {offset} on are"
                self.lacked = self.lacked or (log, item.byte, what)
            self.end = max(self.end, last + 1)
        elif item.what in ("transaction", "tombstone"):
            self._record(item, log)

    def _record(self, item: Row, log: Path) -> None:
        found, fields = self.found, item.fields
        found.records += 1
        name = fields["transactional_id"]
        if name not in found.ids:
            found.ids.add(name)
            value = java_hash(name)
            place = 0 if value == -(2**31) else abs(value)
            found.spread = gcd(found.spread, place - self.number)
        before = found.entries.pop(name, None)
        if item.what == "tombstone":
            if before is not None and found.is_whole and before.state not in EXPIRING:
                what = f"{name}: a tombstone may not follow {before.state}"
                found.findings.append(Finding(log, item.byte, what))
            return
        producer_id, epoch = fields["producer_id"], fields["producer_epoch"]
        has = f"{name}: producer {producer_id} is another transactional id's as well"
        owner = name, found.name
        found.owners.setdefault(producer_id, {}).setdefault(owner, Finding(log, item.byte, has))
        found.epochs.setdefault(producer_id, set()).add(epoch)
        found.entries[name] = found.newest[producer_id] = Newest(
            name,
            producer_id,
            epoch,
            fields["state"],
            fields["transaction_last_update_timestamp_ms"],
            tuple(fields["partitions"]),
            fields["transaction_timeout_ms"],
            fields["transaction_start_timestamp_ms"],
        )
        if before is not None and found.is_whole:
            for what in _wrong(before, found.entries[name], self.protocol):
                found.findings.append(Finding(log, item.byte, f"{name}: {what}"))
        if fields["state"] == EMPTY:
            at = fields["transaction_last_update_timestamp_ms"]
            found.initialized.setdefault(name, []).append(at)
        _decide(found, self.open, fields, log, item.byte)


def _of_snapshot(path: Path) -> Iterator[Finding]:
    """The findings about a producer snapshot: coordinators write without a producer id."""
    with suppress(FileNotFoundError):  # a running broker deletes old ones
        for item in read_file(path, Kind.SNAPSHOT):
            if isinstance(item, RecordError):
                yield Finding(path, item.at, f"can't be read: {item}", is_damage=True)
            else:
                what = f"producer {item.fields['producer_id']} has nothing in the log"
                yield Finding(path, item.byte, what)


def _wrong(before: Newest, after: Newest, protocol: str | None) -> Iterable[str]:
    if not may_follow(after.state, before.state, protocol):
        yield f"{after.state} may not follow {before.state}"
    same = after.producer_id == before.producer_id
    if same and after.producer_epoch < before.producer_epoch:
        yield f"epoch {after.producer_epoch} follows epoch {before.producer_epoch}"
    if after.state != "ONGOING" and (more := {*after.partitions} - {*before.partitions}):
        yield f"{after.state} names {min(more)}, which the record before doesn't"
    if after.state in COMPLETED and {*after.partitions} & {*before.partitions}:
        yield f"{after.state} has partitions: they are all done then"
    if after.state == EMPTY and after.producer_epoch > EXHAUSTED:
        yield f"EMPTY in epoch {after.producer_epoch}, which no client gets"
    if not same and before.producer_epoch < EXHAUSTED:
        ids = f"producer {after.producer_id} follows producer {before.producer_id}"
        yield f"{ids}, whose epoch {before.producer_epoch} isn't the last"


def _decide(
    found: TransactionLog, open_: dict[str, Decision], fields: dict[str, Any], log: Path, byte: int
) -> None:
    name, state = fields["transactional_id"], fields["state"]
    if state in DECISIONS:
        decision = Decision(
            name, fields["producer_id"], fields["producer_epoch"], DECISIONS[state],
            tuple(fields["partitions"]), log, byte,
            fields["transaction_last_update_timestamp_ms"],
            client_version=fields["client_transaction_version"],
        )  # fmt: skip
        found.decisions.append(decision)
        open_[name] = decision
    elif name in open_:
        open_.pop(name).is_completed = COMPLETED.get(state) is not None


CONTROLLERS: Final = r"__cluster_metadata-\d+"
"""The controllers' log, which a broker writes to at any time, and which knows no producers."""


def is_of_controllers(folder: Path) -> bool:
    """Whether a folder is the controllers' log."""
    return re.fullmatch(CONTROLLERS, folder.name) is not None


def is_of_transactions(folder: Path) -> bool:
    """Whether a folder is a partition of the transaction log."""
    return re.fullmatch(r"__transaction_state-\d+", folder.name) is not None


DEFAULT_PARTITIONS: Final = 50
"""transaction.state.log.num.partitions, by default"""


def are_all(logs: Iterable[tuple[str, int]]) -> bool:
    """Whether these are all partitions of the transaction log, as far as they show it; each with
    its name and its `spread`.

    They have to be numbered without gaps, and each id has to belong where it is
    (TransactionStateManager.partitionFor). If their ids would also fit the default number of
    partitions, there may be others.
    """
    numbers, spread = set[int](), 0
    for name, each in logs:
        numbers.add(int(name.rpartition("-")[2]))
        spread = gcd(spread, each)
    count = len(numbers)
    if not count or numbers != set(range(count)) or spread % count:
        return False
    return count == DEFAULT_PARTITIONS or spread % DEFAULT_PARTITIONS != 0
