"""The oracle's client at real ranges, told of as machines alone are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epochfence.model import ProducerClient
from epochfence.spec.features import KAFKA, NEWEST
from epochfence.tests.spec.alone import NOTHING

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


class Oracle:
    """The machine of a client with a transactional id, as `model.ProducerClient` has it."""

    def __init__(self, release: str = NEWEST, *off: str) -> None:
        assert not off
        self.machine = ProducerClient("orders", protocol=release).machine

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
        outcome = self.machine.handle(event, **{**SAYS.get(event, {}), **values})
        reply = getattr(outcome.reply, "_asdict", dict)()
        told = [", ".join(f"{name} {_words(value)}" for name, value in reply.items() if value)]
        after = self.machine.state
        told += [word for name in after for word in _changed(name, before[name], after[name])]
        return outcome.row, "; ".join(filter(None, told)) or NOTHING


def _keyed(value: Any) -> Any:
    """With numbers as keys, where JSON has their texts."""
    if not isinstance(value, dict):
        return value
    return {int(k) if k.isdigit() else k: _keyed(each) for k, each in value.items()}


def _changed(name: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(new, dict):
        for key in {**old, **new}:
            yield from _changed(f"{name}.{key}", old.get(key), new.get(key))
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
