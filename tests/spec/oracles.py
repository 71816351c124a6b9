"""The oracle's machines at real ranges, described as machines alone are: a client, a group's
coordinator, and the offset of a partition that a group has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epochfence.model import ProducerClient
from epochfence.model.engine.machine import Machine
from epochfence.spec.groups.tables import DRIVEN, DRIVEN_OFFSETS
from epochfence.spec.releases.features import KAFKA, NEWEST
from epochfence.tests.spec.alone import NOT_ENABLED, NOTHING

# What events say where a vector doesn't: of every answer, and of one to a batch.
SAYS: dict[str, dict[str, Any]] = {
    "InitProducerIdResponse": {
        "producer": 0, "connection": 0, "producer_id": 0, "producer_epoch": -1,
    },
    "EndTxnResponse": {"producer": 0, "connection": 0, "producer_id": 0, "producer_epoch": -1},
    "ProduceResponse": {
        "producer": 0, "partition": "t-0", "record": 0, "txn": 0, "base_offset": -1,
        "log_start_offset": -1,
    },
}  # fmt: skip


_OF_MEMBER = {"member": None, "instance": None, "generation": -1}
SAYS |= {
    "validateGroupStatus": {"request": "OTHER", "names_group": False, "is_loading": False},
    "JoinGroup": {
        "member": None, "instance": None, "new_member": "new", "requires_id": True,
        "session_timeout_ms": 10_000, "is_consistent": True, "is_same": False,
        "keeps_protocol": True, "skips_assignment": False,
    },
    "complete join": {"is_late": False, "successor": None},
    "SyncGroup": {**_OF_MEMBER, "names_other_protocol": False},
    "Heartbeat": _OF_MEMBER,
    "LeaveGroup": {"member": None, "instance": None, "successor": None},
    "convert TxnOffsetCommit error": {"error": "NONE", "knows_loading": True},
    "session ends": {"successor": None},
    "OffsetCommit": {**_OF_MEMBER, "knows_not_found": True},
    "TxnOffsetCommit for the group": {**_OF_MEMBER, "knows_not_found": True},
    "OffsetFetch": {"require_stable": False, "is_writing": False},
    "transaction ended": {"heard": "REPLICATED"},
}  # fmt: skip


class Oracle:
    """The machine of a client with a transactional id, as `model.ProducerClient` has it."""

    def __init__(self, release: str = NEWEST, *off: str) -> None:
        assert not off
        self.machine = self.made(release)

    def made(self, release: str) -> Machine:
        """The machine of a release."""
        return ProducerClient("orders", protocol=release).machine

    @classmethod
    def features(cls, release: str, off: tuple[str, ...]) -> frozenset[str]:
        """What makes it do otherwise than in another release: any feature may."""
        return KAFKA.features_at(release) - {*off}

    def set_written(self, fields: Mapping[str, Any]) -> None:
        """Gives fields the values written."""
        self.machine.put(**{name: _keyed(value) for name, value in fields.items()})

    def happens(self, event: str, values: Mapping[str, Any]) -> tuple[str, str]:
        """The row that an event takes, and what it replies and changes."""
        before = self.machine.state
        outcome = self.machine.attempt(event, **{**SAYS.get(event, {}), **values})
        if outcome is None:
            return "", NOT_ENABLED
        reply = getattr(outcome.reply, "_asdict", dict)()
        told = [", ".join(f"{name} {_words(value)}" for name, value in reply.items() if value)]
        after = self.machine.state
        told += [word for name in after for word in _changed(name, before[name], after[name])]
        return outcome.row, "; ".join(filter(None, told)) or NOTHING


class GroupOracle(Oracle):
    """A group, as `model.broker.group_coordinator` has it."""

    def made(self, release: str) -> Machine:
        """The machine of a release."""
        return Machine(DRIVEN, KAFKA, protocol=release)


class OffsetsOracle(Oracle):
    """The offset of a partition that a group has."""

    def made(self, release: str) -> Machine:
        """The machine of a release."""
        return Machine(DRIVEN_OFFSETS, KAFKA, protocol=release)


def _keyed(value: Any) -> Any:
    """With numbers as keys, where JSON has their texts."""
    if not isinstance(value, dict):
        return value
    return {int(k) if k.isdigit() else k: _keyed(each) for k, each in value.items()}


def _changed(name: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(new, dict):
        for key in {**old, **new}:
            yield from _changed(f"{name}.{key}", old[key], new[key])
    elif hasattr(new, "_asdict") and hasattr(old, "_asdict"):
        yield from _changed(name, old._asdict(), new._asdict())
    elif old != new:
        yield f"{name} {_words(new)}"


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, frozenset):
        return "{" + ", ".join(map(str, sorted(value))) + "}"
    return "none" if value is None else str(value)
