"""A client on its own: what it does on one event after another, on plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from epochfence.language import Event, Message, System, instantiate
from epochfence.language.types import Value
from epochfence.spec import messages as kafka
from epochfence.spec.client import epochs as epoch_bump
from epochfence.spec.client import expiry, producer, sender
from epochfence.spec.features import NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.spec import network
from epochfence.tests.spec.both import Both

BOUNDS = {
    "partitions": 2, "records": 3, "in_flight": 3, "producer_ids": 3, "largest_epoch": 5,
    "largest_sequence": 7, "faults": 6,
}  # fmt: skip
_TRANSACTIONS, _IDEMPOTENCE = shipped("transactions"), shipped("idempotence")
TRANSACTIONAL = replace(
    _TRANSACTIONS, name="transactional client",
    tables=producer.TABLES + sender.TABLES + expiry.TABLES,
    properties=(), progress=(), fairness=(), lemmas=(), unreached=(),
    budgets={producer.FAULTY_EVENTS + sender.FAULTY_EVENTS + expiry.FAULTY_EVENTS: kafka.FAULTS},
    terminal=False,
)  # fmt: skip
IDEMPOTENT = replace(
    _IDEMPOTENCE, name="idempotent client",
    tables=sender.TABLES + expiry.TABLES + epoch_bump.TABLES,
    properties=(), progress=(), fairness=(), lemmas=(), unreached=(),
    budgets={
        sender.FAULTY_EVENTS + expiry.FAULTY_EVENTS + epoch_bump.FAULTY_EVENTS: kafka.FAULTS
    },
    terminal=False,
)  # fmt: skip
_FIELDS = (
    "status", "producer_id", "producer_epoch", "base_sequence", "in_retry", "sequence_reset",
    "unanswered",
)  # fmt: skip


@cache
def _machine(kind: int, release: str, off: tuple[str, ...]) -> Both:
    system: System = (IDEMPOTENT, TRANSACTIONAL)[kind]
    more = {"producers": 1, "transactions": 2, "early_ends": 1} if kind else {"first_epoch": 1}
    on = [name[1:] for name in off if name.startswith("+")]
    off = tuple(name for name in off if not name.startswith("+"))
    bounds = BOUNDS | more
    return Both(instantiate(system, release, bounds, switch_on=on, switch_off=off))


def batch(
    sequence: int = 0, status: str = "SENT", *, epoch: int = 1, producer_id: int = 0,
    retry: bool = False, reset: bool = False, unanswered: bool = False,
) -> Value:  # fmt: skip
    """A batch in flight."""
    return (status, producer_id, epoch, sequence, retry, reset, unanswered)


UNSENT = batch(0, "UNSENT", epoch=-1)
ACKED, FAILED = batch(0, "ACKNOWLEDGED", epoch=-1), batch(0, "FAILED", epoch=-1)


class Client:
    """A client in a release, without the features named (with those named `+feature`), from its
    first state on or with other fields given."""

    transactional = False

    def __init__(self, release: str = NEWEST, *off: str, **given: Value) -> None:
        self.model = _machine(self.transactional, release, off)
        self.state = dict(self.model.as_mapping(next(iter(self.model.initial_states()))))
        self.set(**given)

    def set(self, **given: Value) -> None:
        """Gives fields other values."""
        for name, value in given.items():
            assert f"producer.{name}" in self.state
            self.state[f"producer.{name}"] = (value,)

    def __getitem__(self, name: str) -> Any:
        """A field."""
        value: Any = self.state[f"producer.{name}"]
        return value[0]

    def batch(self, partition: int, record: int) -> dict[str, Any]:
        """A batch's fields by name."""
        return dict(zip(_FIELDS, self["batches"][partition][record], strict=True))

    def take(self, event: Event | str, **parameters: Value) -> str:
        """Takes an event with these parameters; the row, empty where it isn't enabled."""
        name = event if isinstance(event, str) else event.name
        for step in self.model.steps(tuple(self.state.values()), f"producer.{name}"):
            bound = {v.data.name: value for v, value in step.bound if v.op == "variable"}
            if all(bound[n] == v for n, v in parameters.items()):
                assert step.state is not None, step.fault
                self.state = dict(self.model.as_mapping(step.state))
                return self.model.instance.row_names[step.row].partition("/")[2]
        return ""

    def does(self, event: Event | str, **parameters: Value) -> str:
        """What becomes of it by an event: all that changes and all that is sent, in short."""
        return self._told(dict(self.state), event, **parameters)

    def _told(self, before: dict[str, Any], event: Event | str, **parameters: Value) -> str:
        row = self.take(event, **parameters)
        return "; ".join(self._changes(before)) or "nothing" if row else ""

    def gets(self, message: Message, *address: int, **content: Value) -> str:
        """What becomes of it by a message."""
        return self._gets(message, message, *address, **content)

    def answer(self, error: str, partition: int = 0, record: int = 0, **more: Value) -> str:
        """What becomes of it by a leader's answer."""
        content = {"error": error, "record": record, "txn": self["txn"] or 0} | more
        return self.gets(kafka.ProduceResponse, 0, partition, **content)

    def in_transit(self, event: Event, message: Message, *address: int, **content: Value) -> str:
        """What becomes of it where something happens to a message on the way."""
        return self._gets(event, message, *address, **content)

    def _gets(self, event: Event, message: Message, *address: int, **content: Value) -> str:
        name = f"network.{message.name}"
        kept = self.state[name]
        network.put(self.model, self.state, message, address, content)
        told = self._told({**self.state, name: kept}, event)
        if not told:  # it would stay in flight
            self.state[name] = kept
        return told

    # What changes, in short -----------------------------------------------------------------------

    def _changes(self, before: dict[str, Any]) -> Iterator[str]:
        for name, value in self.state.items():
            if value == before[name] or name.startswith("budget."):
                continue
            machine, _, field = name.partition(".")
            old: Any = before[name]
            new: Any = value
            if machine == "network":
                yield from _sent(field, old, new)
            elif machine == "application":
                yield f"{field} {_plain(new)}"
            elif field == "batches":
                for p, line in enumerate(new[0]):
                    for r, one in enumerate(line):
                        if one != old[0][p][r]:
                            yield f"{p}.{r} {_shown(one)}"
            elif isinstance(new[0], tuple):
                for p, one in enumerate(new[0]):
                    if one != old[0][p]:
                        yield f"{field}.{p} {_plain(one)}"
            else:
                yield f"{field} {_plain(new[0])}" if field != "state" else str(new[0])


class TransactionalClient(Client):
    """A client with a transactional id: in its first transaction, with id 0 and epoch 1, where
    nothing else is said."""

    transactional = True

    def __init__(self, release: str = NEWEST, *off: str, **given: Value) -> None:
        begun: dict[str, Value] = {"state": "IN_TRANSACTION", "producer_epoch": 1, "txn": 0}
        super().__init__(release, *off, **(begun | given))
        if self["txn"] is not None:
            self.state["application.outcome"] = ("BEGUN", "NOT_BEGUN")


def _plain(value: Any) -> str:
    if isinstance(value, frozenset):
        return "{" + ", ".join(map(_plain, sorted(value))) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_plain, value)) + ")"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _shown(one: Any) -> str:
    status, producer_id, epoch, sequence, *flags = one
    if status not in ("SENT", "QUEUED"):
        assert one == batch(0, status, epoch=-1)
        return status
    marks = zip(flags, ("in retry", "reset", "unanswered"), strict=True)
    text = f"{status} {producer_id}/{epoch} #{sequence}"
    return ", ".join([text, *(mark for on, mark in marks if on)])


def _sent(name: str, old: Any, new: Any) -> Iterator[str]:
    """What is new in a channel: a map of maps of messages, each a tuple of scalars."""
    if new and new[0] and not isinstance(new[0][0], tuple):
        yield from (f"{name}{_plain(one)}" for one in new if one not in old)
    else:
        for before, after in zip(old, new, strict=False):
            yield from _sent(name, before, after)
