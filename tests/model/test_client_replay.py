"""Walks of bounded clients, step by step on the client that users drive.

The test compares all that a client shows: its state, its id, epoch and sequences, the requests that
it waits for, and the result of each record.

A bounded client drains a record when it likes; here it is given to the client then. What the client
does by itself it does as soon as it can, so that walks go there first; but a batch that goes again
waits until a request to the coordinator is answered. That leaves out records that are drained after
their commit was asked for (`early_ends`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from epochfence.language import Instance, instantiate
from epochfence.model import ProducerClient
from epochfence.model.client.requests import CallFailedError, CallResult, Produce, Record, Request
from epochfence.model.engine.compiler.stepper import Stepper
from epochfence.model.engine.interpreter import FullState, Step
from epochfence.spec.releases.features import transaction_version_2, transactional
from epochfence.spec.systems import shipped
from epochfence.spec.systems.reductions.calls import CALLS
from epochfence.spec.systems.reductions.requests import REQUESTS
from epochfence.tests.conformance.client_cases import expire

REPLAY = "tests/model/test_client_replay.py"
CHECKED = ()
AS_A_WHOLE = tuple(one for one in (*REQUESTS, *CALLS) if one.refined_by == REPLAY)
"""A step of a system is one or two of the client and its queue: a run has all of them."""
LARGEST = 2**15 - 1
LATER = 10**6
"""A log that starts here has lost what was acknowledged."""


def records_of(sent: Request | Produce) -> tuple[Record, ...]:
    return sent.records if isinstance(sent, Produce) else ()


class Driven:
    """A client at real ranges in the place of a bounded one."""

    def __init__(self, instance: Instance) -> None:
        is_transactional = transactional.data.name in instance.features
        self.client = ProducerClient(
            "replayed" if is_transactional else None,
            protocol=instance.protocol,
            transaction_version=2 if transaction_version_2.data.name in instance.features else 0,
            delivery_timeout_ms=2**31 - 1,
            max_in_flight=instance.constants["in_flight"],
        )
        # A bounded client drains each partition as if it had a node of its own.
        self.client.accumulator.leaders = {
            partition: partition for partition in range(instance.constants["partitions"])
        }
        self.result: CallResult | None = None
        self.records: dict[tuple[int, int], Record] = {}
        # epochs are used up after as many more as in the bounded run
        self.shift = 0 if is_transactional else LARGEST - instance.constants["largest_epoch"]
        if not is_transactional:
            self.pump()
            self.initialized(0, instance.constants["first_epoch"])

    def take(self, event: str, fields: Mapping[str, Any]) -> None:
        """What a bounded step is for this client, if it is for anybody."""
        client = self.client
        match event.split():
            case ["initTransactions"]:
                self.result = client.init_transactions()
            case ["beginTransaction"]:
                client.begin_transaction()
                self.records = {}
            case ["send"]:
                client.add_partition(fields["partition"])
            case ["drain"]:
                where = fields["partition"]
                self.records[where, fields["record"]] = client.send(where)
            case ["commitTransaction"]:
                self.result = client.commit_transaction()
            case ["abortTransaction"]:
                self.result = client.abort_transaction()
            case ["batch", "expires"]:
                record = self.records[fields["partition"], fields["record"]]
                number = client.accumulator.number_of(record)
                is_unresolved = client.accumulator.held(number).in_retry
                client.outstanding = [s for s in client.outstanding if record not in records_of(s)]
                expire(client, record, is_unresolved=is_unresolved)
            case ["lost", "Produce" | "ProduceResponse"] | ["held", "up", "Produce"]:
                client.disconnect(self.batch(fields))
            case ["lost", _] | ["request", "overtaken"]:
                client.disconnect(self.request())
            case ["ProduceResponse"]:
                # the answer has offsets where the bounded client compares them
                base, start = fields["base_offset"], fields["log_start_offset"]
                if start < 0:
                    base, start = 0, LATER
                client.answer(
                    self.batch(fields), fields["error"], base_offset=base, log_start_offset=start
                )
            case ["producer", "id", "given", "out"]:
                self.initialized(self.client.machine["producer_id"] + 1, 0)
            case ["InitProducerIdResponse" | "AddPartitionsToTxnResponse" | "EndTxnResponse"]:
                names = ("producer_id", "producer_epoch")
                told = {name: fields[name] for name in names if name in fields}
                client.answer(self.request(), fields["error"], **told)
            case _:  # the client does it by itself
                assert event in AT_ONCE
        self.pump()

    def initialized(self, producer_id: int, producer_epoch: int) -> None:
        epoch = self.shift + producer_epoch
        self.client.answer(self.request(), producer_id=producer_id, producer_epoch=epoch)

    def pump(self) -> None:
        """Sends what is to be sent; a coordinator is found at once, and the application hears of a
        call's result as soon as it is there."""
        while True:
            self.client.run()
            lookups = [sent for sent in self.client.outstanding if sent.api == "FIND_COORDINATOR"]
            for sent in lookups:
                self.client.answer(sent)
            if self.result is not None and self.result.is_completed:
                result, self.result = self.result, None
                with suppress(CallFailedError):
                    self.client.wait(result)
            elif not lookups:
                return

    def is_held_back(self, fields: Mapping[str, Any]) -> bool:
        """Whether a record goes again once the request that is in flight is answered. In a bounded
        run it has gone."""
        record = self.records.get((fields["partition"], fields["record"]))
        machine = self.client.machine
        return machine["request_in_flight"] and any(
            self.client.accumulator.held(number).status == "QUEUED"
            for number, batch in self.client.accumulator.batches.items()
            if record in batch.records
        )

    def batch(self, fields: Mapping[str, Any]) -> Produce:
        record = self.records[fields["partition"], fields["record"]]
        batches = (sent for sent in self.client.outstanding if isinstance(sent, Produce))
        return next(sent for sent in batches if record in sent.records)

    def request(self) -> Request:
        return next(sent for sent in self.client.outstanding if isinstance(sent, Request))

    def bounded(self, epoch: int) -> int:
        return epoch if epoch < 0 else epoch - self.shift

    def view(self) -> dict[str, Any]:
        machine, client = self.client.machine, self.client
        requests = [sent for sent in client.outstanding if isinstance(sent, Request)]
        waits: list[Any] = [(sent.api, sent.fields.get("result")) for sent in requests]
        for number, batch in client.accumulator.batches.items():
            held = client.accumulator.held(number)
            if held.status == "SENT" or (held.status == "QUEUED" and requests):
                epoch = self.bounded(held.producer_epoch)
                waits.append(("PRODUCE", batch.partition, held.base_sequence, epoch))
        return {
            "state": machine["state"],
            "epoch": self.bounded(client.producer_epoch),
            "id": client.producer_id,
            "waits": sorted(waits, key=str),
            "must bump": machine["must_bump"],
            "in transaction": machine["added"],
            "told": {
                key: "ACKNOWLEDGED" if r.error is None else "FAILED"
                for key, r in self.records.items()
                if r.is_done
            },
        }


class Bounded:
    """A bounded system's clients, as they show themselves."""

    def __init__(self, instance: Instance) -> None:
        self.place = {v.name: at for at, v in enumerate(instance.variables)}
        self.features = instance.features

    def view(self, state: FullState, who: int) -> dict[str, Any]:
        def has(name: str) -> Any:
            values: Any = state[self.place[f"producer.{name}"]]
            return values[who]

        name = has("state")
        if name == "UNINITIALIZED" and transactional.data.name not in self.features:
            name = "INITIALIZING"  # it asks at once
        waits: list[Any] = []
        is_completing = name in ("COMMITTING_TRANSACTION", "ABORTING_TRANSACTION")
        if name == "INITIALIZING" or (is_completing and has("txn") is None and has("bump_asked")):
            waits.append(("INIT_PRODUCER_ID", None))
        elif is_completing:
            waits.append(("END_TXN", "COMMIT" if name.startswith("COMMIT") else "ABORT"))
        if has("adding"):
            waits.append(("ADD_PARTITIONS_TO_TXN", None))
        in_flight = ("SENT", "QUEUED") if waits else ("SENT",)
        told: dict[tuple[int, int], str] = {}
        for q, batches in enumerate(has("batches")):
            for s, (status, _, its_epoch, sequence, *_) in enumerate(batches):
                if status in in_flight:
                    waits.append(("PRODUCE", q, sequence, its_epoch))
                elif status in ("ACKNOWLEDGED", "FAILED"):
                    told[q, s] = status
        epoch = has("producer_epoch")
        found: dict[str, Any] = {
            "state": name,
            "epoch": epoch,
            "id": has("producer_id") if epoch >= 0 else -1,
        }
        if name == "FATAL_ERROR":  # what it was doing is forgotten here, and left as it was there
            return found
        found["waits"] = sorted(waits, key=str)
        if transactional.data.name not in self.features:
            return found | {"told": told}
        if has("txn") is not None:
            found |= {"told": told, "must bump": has("must_bump")}
        if transaction_version_2.data.name not in self.features:
            found["in transaction"] = has("added")
        return found


def event_of(
    instance: Instance, before: FullState, step: Step
) -> tuple[str, dict[str, Any], int] | None:
    """The event of a client's step, what it brings, and whose it is."""
    machine, _, event = step.action.table.partition(".")
    if machine != "producer":
        return None
    fields: dict[str, Any] = {}
    content: Any = None
    for taken, value in step.bound:
        if taken.op == "variable":
            fields[taken.data.name] = value
        else:
            content = value
    for channel in instance.system.channels:
        if channel.message.name == event.split()[-1]:
            if channel.ordered:
                names = [variable.name for variable in instance.variables]
                queues: Any = before[names.index(f"network.{channel.message.name}")]
                content = queues[fields["producer"]][fields["partition"]][0]
            named = channel.message.content.fields
            fields |= {name: part for (name, _), part in zip(named, content, strict=True)}
    return event, fields, fields["producer"]


NOBODY_WAITS = ("not-awaited", "closed-connection")
"""Rows of answers that don't reach a client."""
AGAIN = "producer.drain/again"
AT_ONCE = ("resolve sequences", "bump epoch", "producer id given out")
"""What a client does as soon as it can: a row, and events."""


def is_at_once(instance: Instance, step: Step) -> bool:
    """Whether a client does this as soon as it can."""
    event = step.action.table.partition(".")[2]
    return event in AT_ONCE or instance.row_names[step.row] == AGAIN


class Clients:
    """Clients at real ranges beside those of a bounded run."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.bounded = instance, Bounded(instance)
        self.driven: dict[int, Driven] = {}

    def who_acts(self, step: Step, event: str, who: int) -> Driven | None:
        """The client that is to do the same; None where nobody waits for the event. A crash leaves
        a new one."""
        if event == "crash" or who not in self.driven:
            self.driven[who] = Driven(self.instance)
        row = self.instance.row_names[step.row].partition("/")[2]
        return None if event == "crash" or row in NOBODY_WAITS else self.driven[who]

    def compare(self, state: FullState, who: int, *done: object) -> None:
        """Holds a client to its state in the run; `done` is what it has just done."""
        expected, got = self.bounded.view(state, who), self.driven[who].view()
        assert {name: got[name] for name in expected} == expected, done


class Walk:
    """A random walk through a bounded system."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self.stepper, self.random = Stepper(instance), Random(seed)
        self.starts = list(instance.initial_states())
        events = [action.table.partition(".")[2] for action in instance.actions]
        self.at_once = [at for at, event in enumerate(events) if event in (*AT_ONCE, "drain")]
        self.others = [at for at, event in enumerate(events) if event not in AT_ONCE]
        self.again = {at for at, row in enumerate(instance.row_names) if row == AGAIN}

    def start(self) -> FullState:
        return self.random.choice(self.starts)

    def step(self, state: FullState, actions: list[int]) -> Step | None:
        """A step of one of these actions, if one is enabled."""
        for index in self.random.sample(actions, len(actions)):
            found = [
                self.stepper.take(index, state, b) for b in self.stepper.bindings(index, state)
            ]
            is_drain = index in self.at_once and index in self.others
            taken = [
                step
                for step in found
                if step is not None
                and (not is_drain or (step.row in self.again) == (actions is self.at_once))
            ]
            if taken:
                return self.random.choice(taken)
        return None


def replay(instance: Instance, steps: int, seed: int) -> int:
    """Goes at random, what is done at once first; the number of steps that were compared."""
    walk, clients = Walk(instance, seed), Clients(instance)
    state, compared = walk.start(), 0
    for _ in range(steps):
        step = walk.step(state, walk.at_once) or walk.step(state, walk.others)
        if step is None or walk.random.random() < 0.005:
            state, clients = walk.start(), Clients(instance)
            continue
        found = event_of(instance, state, step)
        assert step.state is not None
        if found is None:
            state = step.state
            continue
        event, fields, who = found
        client = clients.who_acts(step, event, who)
        if client is not None and instance.row_names[step.row] != AGAIN:
            if "record" in fields and client.is_held_back(fields):
                continue
            client.take(event, fields)
        state = step.state
        if walk.step(state, walk.at_once) is None:
            clients.compare(state, who, event, instance.row_names[step.row], fields)
            compared += 1
    return compared


BOUNDS = {
    "transactions": {"faults": 3, "records": 2},
    "idempotence": {"faults": 5, "records": 5, "in_flight": 3, "producer_ids": 2}
    | {"producer_expiries": 1, "largest_sequence": 7},
}
each_system = pytest.mark.parametrize("name", BOUNDS)
# The order of a heap hangs on all that went through it: a bounded run takes one that shows the bug.
IN_ORDER = ("renumbered_in_order",)


@pytest.mark.slow(1)
@pytest.mark.sample(1, of="engines: clients")
@each_system
@pytest.mark.parametrize("release", ["2.0", "2.5", "3.6", "4.0.0", "4.3"])
def test_bounded_clients_do_what_clients_do(name: str, release: str) -> None:
    instance = instantiate(shipped(name), release, BOUNDS[name], switch_on=IN_ORDER)
    assert replay(instance, 1_000, seed=1) > 300


@pytest.mark.slow
@pytest.mark.sample(1)
@each_system
@pytest.mark.parametrize("release", ["2.0", "2.7", "3.5", "4.1", "4.3"])
def test_long_walks_are_replayed(name: str, release: str, seed: int) -> None:
    instance = instantiate(shipped(name), release, BOUNDS[name], switch_on=IN_ORDER)
    assert replay(instance, 2_000, seed) > 500
