"""The transaction log's partitions: each transactional id's records, and what was decided."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from ....language.expressions import Expression, lift, rewrite
from ....language.values import evaluate, field_name
from ....spec.coordinator import entry as coordinator
from ....spec.features import KAFKA
from ....spec.properties.transactions import PREVIOUS
from ...records.errors import RecordError
from ...records.files import Kind, read_file
from .partition import Finding

DECISIONS = {"PREPARE_COMMIT": "COMMIT", "PREPARE_ABORT": "ABORT"}
COMPLETED = {"COMPLETE_COMMIT": "COMMIT", "COMPLETE_ABORT": "ABORT"}


@dataclass
class Decision:
    """A transaction that was decided: by which record, for which partitions; `is_completed` where
    the coordinator has said since that all of them have its marker."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    result: str
    partitions: tuple[str, ...]
    file: Path
    byte: int
    is_completed: bool = False


@dataclass
class TransactionLog:
    """What a partition of the transaction log holds. It `is_whole` where nothing was compacted or
    deleted, as far as offsets show."""

    name: str
    folder: Path
    records: int = 0
    ids: set[str] = field(default_factory=set[str])
    producers: set[int] = field(default_factory=set[int])
    decisions: list[Decision] = field(default_factory=list[Decision])
    ongoing: dict[int, tuple[str, tuple[str, ...]]] = field(
        default_factory=dict[int, "tuple[str, tuple[str, ...]]"]
    )
    """By producer id what is open: the transactional id, and the partitions added."""
    is_whole: bool = True
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
    found = TransactionLog(folder.name, folder)
    newest: dict[str, dict[str, Any]] = {}
    open_: dict[str, Decision] = {}
    end = 0
    for log in sorted(folder.glob("*.log")):
        for item in read_file(log, Kind.TRANSACTION_LOG):
            if isinstance(item, RecordError):
                found.findings.append(Finding(log, item.at, f"can't be read: {item}", True))
                found.is_whole = False
                continue
            if item.what == "batch":
                found.is_whole &= item.fields["offset"] == end
                end = item.fields["last_offset"] + 1
                continue
            if item.what not in ("transaction", "tombstone"):
                continue
            found.records += 1
            name = item.fields["transactional_id"]
            found.ids.add(name)
            before = newest.pop(name, None)
            if item.what == "tombstone":
                continue
            newest[name] = item.fields
            found.producers.add(item.fields["producer_id"])
            if before is not None and found.is_whole:
                for what in _wrong(before, item.fields, protocol):
                    found.findings.append(Finding(log, item.byte, f"{name}: {what}"))
            _decide(found, open_, item.fields, log, item.byte)
    for name, fields in newest.items():
        if fields["state"] == "ONGOING":
            found.ongoing[fields["producer_id"]] = name, tuple(fields["partitions"])
    return found


def _wrong(before: dict[str, Any], after: dict[str, Any], protocol: str | None) -> Iterable[str]:
    if not may_follow(after["state"], before["state"], protocol):
        yield f"{after['state']} may not follow {before['state']}"
    same = after["producer_id"] == before["producer_id"]
    if same and after["producer_epoch"] < before["producer_epoch"]:
        yield f"epoch {after['producer_epoch']} follows epoch {before['producer_epoch']}"


def _decide(
    found: TransactionLog, open_: dict[str, Decision], fields: dict[str, Any], log: Path, byte: int
) -> None:
    name, state = fields["transactional_id"], fields["state"]
    if state in DECISIONS:
        decision = Decision(
            name, fields["producer_id"], fields["producer_epoch"], DECISIONS[state],
            tuple(fields["partitions"]), log, byte,
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
