"""A coordinator on its own: what it answers, prepares and keeps, on plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from epochfence.language import Event, Message, instantiate
from epochfence.language.types import Value
from epochfence.model.engine.interpreter import Step
from epochfence.spec import messages as kafka
from epochfence.spec.coordinator import entry as transaction
from epochfence.spec.coordinator import log as transaction_log
from epochfence.spec.coordinator import markers, tables
from epochfence.spec.features import NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.spec import network
from epochfence.tests.spec.both import Both

LARGEST = 9  # the largest epoch, kept for the coordinator
LAST = LARGEST - 1  # the last one that a client may hold
BOUNDS = {"producers": 2, "partitions": 2, "producer_ids": 4, "largest_epoch": LARGEST, "faults": 6}
VERSION_1 = ("transaction_version_2",)  # without it

SYSTEM = replace(
    shipped("transactions"),
    name="coordinator",
    tables=tables.TABLES + transaction_log.TABLES + markers.TABLES,
    properties=(),
    progress=(),
    fairness=(),
    lemmas=(),
    unreached=(),
    budgets={
        (transaction.timeout, *transaction_log.FAULTY_EVENTS, *markers.FAULTY_EVENTS): kafka.FAULTS
    },
    terminal=False,
)


@cache
def machine(release: str, off: tuple[str, ...]) -> Both:
    """The coordinator in a release without some features."""
    on = [name for name in off if name.startswith("+")]
    return Both(
        instantiate(
            SYSTEM, release, BOUNDS, switch_on=[name[1:] for name in on],
            switch_off=[name for name in off if name not in on],
        )
    )  # fmt: skip


class Coordinator:
    """A coordinator in a release, without the features named (with those named `+feature`), from
    its first state on or with other fields of its entry given."""

    def __init__(self, release: str = NEWEST, *off: str, **given: Value) -> None:
        self.model = machine(release, off)
        self.state = self.model.as_mapping(next(iter(self.model.initial_states())))
        for name, value in given.items():
            self.state[self._named(name)] = value

    def __getitem__(self, name: str) -> Any:
        """A field of its entry, or the producer id that it is offered."""
        return self.state[self._named(name)]

    def _named(self, name: str) -> str:
        owner = "producer_id_manager" if name == "offered_id" else "transaction"
        assert f"{owner}.{name}" in self.state
        return f"{owner}.{name}"

    def steps(self, event: str | None = None) -> Iterator[tuple[str, str, Step]]:
        """What may happen, or what that event may do: the event, the row and the step."""
        table = None if event is None else f"transaction.{event}"
        for step in self.model.steps(tuple(self.state.values()), table):
            name = step.action.table.removeprefix("transaction.")
            yield name, self.model.instance.row_names[step.row].partition("/")[2], step

    def take(self, step: Step) -> None:
        """Goes on with a step."""
        assert step.state is not None, step.fault
        self.state = self.model.as_mapping(step.state)

    def does(self, event: Event, **parameters: Value) -> str | None:
        """Takes an event with these parameters; the row taken, none where it is not enabled."""
        for _, row, step in self.steps(event.name):
            bound = {
                variable.data.name: value
                for variable, value in step.bound
                if variable.op == "variable"
            }
            if all(bound[n] == v for n, v in parameters.items()):
                self.take(step)
                return row
        return None

    def arrives(self, message: Message, *address: int, **content: Value) -> None:
        """Puts a message on the network."""
        network.put(self.model, self.state, message, address, content)

    def sent(self, message: Message, *address: int) -> dict[str, Value] | None:
        """What it has sent there, taken off the network; none where there is none."""
        return network.take(self.model, self.state, message, address)

    def told(self, message: Message, *address: int) -> str:
        """An answer as its error and, where one is told, the producer id and epoch; or nothing."""
        answer = self.sent(message, *address)
        if answer is None:
            return ""
        epoch = answer.get("producer_epoch", -1)
        if epoch == -1:
            return str(answer["error"])
        return f"{answer['error']} {answer['producer_id']}/{epoch}"

    @property
    def prepared(self) -> str:
        """The pending record: its state, then what it says that matters there."""
        target = self["pending"]
        if target == "ONGOING":
            return f"ONGOING {sorted(self['pending_partitions'])}"
        if target == "PREPARE_EPOCH_FENCE":
            return f"{target} {self['fence_end'][1]}"
        producer_id = self["pending_id"] if target == "EMPTY" else self["producer_id"]
        record = f"{target} {producer_id}/{self['pending_epoch']}"
        record += f" after {self['pending_last_epoch']}"
        return record if self["next_id"] is None else f"{record}, next {self['next_id']}"

    def asked(self, request: Message, response: Message, *address: int, **content: Value) -> str:
        """The answer to a request or, where it has to wait for one, the record prepared."""
        before = dict(self.state)
        self.arrives(request, *address, **content)
        assert self.does(request)
        told = self.told(response, *address)
        if told:  # at once, so that nothing is changed; but a producer id may be lost
            kept = {name: self.state[name] for name in before if name.startswith("transaction.")}
            assert kept.items() <= before.items()
        return told or self.prepared

    def init(self, expected: tuple[int, int] | None = None, client: int = 0) -> str:
        """InitProducerId, with the id and epoch expected."""
        producer_id, epoch = expected or (0, -1)
        return self.asked(
            kafka.InitProducerId, kafka.InitProducerIdResponse, client,
            expected_id=producer_id, expected_epoch=epoch,
        )  # fmt: skip

    def add(self, producer_id: int, epoch: int, partition: int = 0, client: int = 0) -> str:
        """AddPartitionsToTxn of a client."""
        return self.asked(
            kafka.AddPartitionsToTxn, kafka.AddPartitionsToTxnResponse, client, partition,
            producer_id=producer_id, producer_epoch=epoch,
        )  # fmt: skip

    def add_by_leader(self, producer_id: int, epoch: int, partition: int = 0) -> str:
        """AddPartitionsToTxn of a leader, which with version 1 only verifies."""
        return self.asked(
            kafka.AddPartitionsByLeader, kafka.AddPartitionsByLeaderResponse, partition, 0,
            producer_id=producer_id, producer_epoch=epoch,
        )  # fmt: skip

    def end(self, result: str, producer_id: int, epoch: int, client: int = 0) -> str:
        """EndTxn."""
        return self.asked(
            kafka.EndTxn, kafka.EndTxnResponse, client,
            producer_id=producer_id, producer_epoch=epoch, result=result,
        )  # fmt: skip

    def entry(self) -> str:
        """Its durable part and what a retry is compared with."""
        text = f"{self['state']} {self['producer_id']}/{self['producer_epoch']}"
        text += f" after {self['last_producer_epoch']}"
        if self["previous_id"] is not None:
            text += f", before {self['previous_id']}"
        if self["next_id"] is not None:
            text += f", next {self['next_id']}"
        return text
