"""Clients of any make that do what a run's application does, call by call, on a served cluster."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka
import kafka.errors
from confluent_kafka import Consumer, TopicPartition

from epochfence.checker.trace.schedule.schedule import Call, Schedule
from epochfence.model.conformance.findings.java_client import JavaClient
from epochfence.model.conformance.kafka.broker import VERSIONS, bring
from epochfence.model.serve.server import Server
from epochfence.spec.releases.features import NEWEST
from epochfence.tests.model.serve.clients import librdkafka, read

TOPIC: Final = "orders"
ID: Final = "id"
LIMIT_S: Final = 10
HUNG: Final = "hung"
SETTLING_S: Final = 4
BRIEF_MS: Final = 1_500
"""The delivery timeout of clients that give up a batch in a run."""
ENDS: Final = {"commitTransaction": "C", "abortTransaction": "A"}


class Driven(Protocol):
    """A producer; each method ends when the library's does, and raises what it raises."""

    def call(self, call: Call, value: str) -> None:
        """Does what a call says; `value` is that of a record to be sent."""
        ...

    def close(self) -> None:
        """Ends it, without waiting for anything."""
        ...


class _Given(NamedTuple):
    """What clients are set to."""

    id: str | None
    delivery_ms: int


class _Librdkafka:
    def __init__(self, bootstrap: str, name: str, given: _Given) -> None:
        settings = {} if given.id is None else {"transactional_id": given.id}
        self._producer = librdkafka(
            bootstrap, client_id=name, message_timeout_ms=given.delivery_ms, linger_ms=0, **settings
        )

    def call(self, call: Call, value: str) -> None:
        producer = self._producer
        match call.what:
            case "initTransactions":
                producer.init_transactions(LIMIT_S)
            case "beginTransaction":
                producer.begin_transaction()
            case "commitTransaction":
                producer.commit_transaction(LIMIT_S)
            case "abortTransaction":
                producer.abort_transaction(LIMIT_S)
            case _:
                producer.produce(TOPIC, value, partition=_partition(call))
                producer.poll(0)

    def close(self) -> None:
        del self._producer


class _Aiokafka:
    def __init__(self, bootstrap: str, name: str, given: _Given) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._producer: Any = None

        async def make() -> None:
            self._producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=given.id,
                client_id=name,
                request_timeout_ms=given.delivery_ms,
                enable_idempotence=True,
            )
            if given.id is None:
                await self._producer.start()

        self._run(make())

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * LIMIT_S)

    def call(self, call: Call, value: str) -> None:
        producer = self._producer
        match call.what:
            case "initTransactions":
                self._run(producer.start())
            case "beginTransaction":
                self._run(producer.begin_transaction())
            case "commitTransaction":
                self._run(producer.commit_transaction())
            case "abortTransaction":
                self._run(producer.abort_transaction())
            case _:
                self._run(producer.send(TOPIC, value.encode(), partition=_partition(call)))

    def close(self) -> None:
        async def stop() -> None:
            with suppress(Exception):  # what it still has to do is not waited for
                await asyncio.wait_for(self._producer.stop(), 0.5)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(stop(), self._loop).result(LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)


class _KafkaPython:
    def __init__(self, bootstrap: str, name: str, given: _Given) -> None:
        self._producer: Any = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=given.id, client_id=name,
            max_block_ms=LIMIT_S * 1000, delivery_timeout_ms=given.delivery_ms,
            request_timeout_ms=given.delivery_ms, linger_ms=0, enable_idempotence=True,
        )  # fmt: skip

    def call(self, call: Call, value: str) -> None:
        producer = self._producer
        match call.what:
            case "initTransactions":
                producer.init_transactions()
            case "beginTransaction":
                producer.begin_transaction()
            case "commitTransaction":
                producer.commit_transaction()
            case "abortTransaction":
                producer.abort_transaction()
            case _:
                producer.send(TOPIC, value.encode(), partition=_partition(call))

    def close(self) -> None:
        with suppress(kafka.errors.KafkaError):  # what it still has to do is not waited for
            self._producer.close(timeout=0)


class JavaError(Exception):
    """What Kafka's own client has raised, by its name."""


class JavaProducer(JavaClient):
    """Kafka's own producer of a version that brokers are tried with."""

    def __init__(self, bootstrap: str, version: str = VERSIONS[NEWEST], **settings: Any) -> None:
        super().__init__(bootstrap, f"{bring(version)}/*", **settings)


class _Java:
    def __init__(self, bootstrap: str, name: str, given: _Given) -> None:
        settings: dict[str, Any] = {} if given.id is None else {"transactional_id": given.id}
        self._producer = JavaProducer(
            bootstrap,
            client_id=name,
            max_block_ms=LIMIT_S * 1000,
            delivery_timeout_ms=given.delivery_ms,
            request_timeout_ms=given.delivery_ms,
            **settings,
        )

    def call(self, call: Call, value: str) -> None:
        said = self._producer.do(call.what, _partition(call), value)
        if said != "ok":
            raise JavaError(said)

    def close(self) -> None:
        self._producer.close()


CLIENTS: Final[Mapping[str, Callable[[str, str, _Given], Driven]]] = {
    "librdkafka": _Librdkafka,
    "aiokafka": _Aiokafka,
    "kafka-python": _KafkaPython,
    "Java": _Java,
}


def _partition(call: Call) -> int:
    return int(call.on.removeprefix("partition")) if call.what in ("send", "drain") else 0


def _name(error: BaseException) -> str:
    """What a client has raised, in a word."""
    if isinstance(error, confluent_kafka.KafkaException):
        return error.args[0].name()
    if isinstance(error, JavaError):
        return str(error)
    inner = error.__cause__ or next((a for a in error.args if isinstance(a, BaseException)), None)
    return type(error).__name__ if inner is None else _name(inner)


class Outcome(NamedTuple):
    """What a client did in a schedule. `sent` has its records by transactions; `told` has, by them,
    C or A where the client saw it committed or aborted, an error, or a dash where it wasn't asked
    to be ended; `read` is what committed consumers read, `hangs` that a transaction stays open,
    `unfired` which faults had no occasion."""

    told: Mapping[str, str]
    sent: Mapping[str, int]
    other: tuple[str, ...]
    read: tuple[str, ...]
    hangs: bool
    unfired: tuple[str, ...]

    @property
    def wrong(self) -> list[str]:
        """What an application may not meet."""
        found: list[str] = []
        for transaction, told in self.told.items():
            is_read = any(value.startswith(f"{transaction}/") for value in self.read)
            if told in ("A", "–") and is_read:
                found.append(f"{transaction} is read")
            wanted = [f"{transaction}/{n}" for n in range(self.sent.get(transaction, 0))]
            if told == "C" and not {*wanted} <= {*self.read}:
                found.append(f"{transaction} isn't read whole")
        if len({*self.read}) < len(self.read):
            found.append("a record is there twice")
        if self.hangs:
            found.append("a transaction hangs")
        return found

    def text(self) -> str:
        """It as a cell of a table."""
        told = " ".join(self.told.values())
        notes = [*self.wrong, *(["the fault has no occasion"] if self.unfired else [])]
        notes = [f"**{note}**" if note in self.wrong else note for note in notes]
        others = [f"({', '.join(self.other)})"] if self.other else []
        return " ".join(
            [*filter(None, [told]), *others, "→", " ".join(self.read) or "nothing"]
        ) + "".join(f"; {note}" for note in notes)


class _Run:
    """The clients of a schedule, each in a thread of its own."""

    def __init__(
        self, client: str, server: Server, schedule: Schedule, transactional_id: str | None
    ) -> None:
        delivery_ms = BRIEF_MS if schedule.expiries else 1000 * LIMIT_S
        self._schedule = schedule
        names = dict.fromkeys(call.client for call in schedule.calls)
        given = _Given(transactional_id, delivery_ms)
        self._clients = {name: CLIENTS[client](server.bootstrap, name, given) for name in names}
        self._threads = {name: ThreadPoolExecutor(1) for name in names}
        self._last: dict[str, Future[None]] = {}
        self._in: dict[str, str] = {}
        self.sent: dict[str, int] = {}
        self.told: dict[str, str] = {}
        self.other: list[str] = []

    def all(self) -> None:
        """Does all calls in the order of their steps, and waits where the run does."""
        events: list[tuple[int, Callable[[], None]]] = []
        for call in self._schedule.calls:
            events.append((call.step, partial(self._begin, call)))
            if call.ends is not None:
                events.append((call.ends, partial(self._await, call.client)))
        given_up_s = 2 * BRIEF_MS / 1000
        events += ((step, partial(time.sleep, given_up_s)) for step in self._schedule.expiries)
        for _, happens in sorted(events, key=lambda each: each[0]):
            happens()
        for client in self._last:
            self._await(client)

    def _await(self, client: str) -> None:
        try:
            self._last[client].result(2 * LIMIT_S)
        except TimeoutError:
            if HUNG not in self.other:
                self.other.append(HUNG)

    def _begin(self, call: Call) -> None:
        transaction = self._in.get(call.client, "")
        if call.what == "beginTransaction":
            transaction = self._in[call.client] = call.on
        value = ""
        if call.what in ("send", "drain"):
            number = self.sent.get(transaction, 0)
            value = f"{transaction}/{number}" if transaction else f"record{number}"
            self.sent[transaction] = self.sent.get(transaction, 0) + 1
        self._last[call.client] = self._threads[call.client].submit(
            self._do, call, transaction, value
        )

    def _do(self, call: Call, transaction: str, value: str) -> None:
        try:
            self._clients[call.client].call(call, value)
        except Exception as error:  # whatever a library raises is what is looked for
            if call.what in ENDS:
                self.told[transaction] = _name(error)
            else:
                self.other.append(f"{call.what}: {_name(error)}")
            return
        if call.what == "beginTransaction":
            self.told[transaction] = "–"
        elif call.what in ENDS:
            self.told[transaction] = ENDS[call.what]

    def close(self) -> None:
        """Ends all of them."""
        for client in self._clients.values():
            client.close()
        for thread in self._threads.values():
            thread.shutdown(wait=False, cancel_futures=True)


def outcome(
    client: str, release: str, schedule: Schedule, partitions: int, *, transactional: bool = True
) -> Outcome:
    """What a client of this make does in a schedule, on a cluster of a release."""
    with Server(release, topics={TOPIC: partitions}, brokers=2) as server:
        for fault in schedule.faults:
            server.faults.add(dict(fault))
        run = _Run(client, server, schedule, ID if transactional else None)
        try:
            run.all()
            _settle(server)
        finally:
            run.close()
        # what waits for nothing in particular has its request
        unfired = tuple(fault.name for fault in server.faults.unfired if not fault.waiting)
        found: list[str] = []
        for partition in range(partitions):
            found += read(server.bootstrap, TOPIC, partition=partition)
        told = dict(sorted(run.told.items()))
        ended = all(each in ("C", "A") for each in told.values())
        hangs = (
            ended and not unfired and any(_is_open(server, number) for number in range(partitions))
        )
        for fault in server.faults.all.values():
            fault.release()
    return Outcome(told, run.sent, tuple(run.other), tuple(found), hangs, unfired)


def _settle(server: Server) -> None:
    """Waits for what is late: faults that haven't fired, and what clients send of themselves."""
    until = time.monotonic() + SETTLING_S
    while server.faults.unfired and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)


def _is_open(server: Server, partition: int) -> bool:
    """Whether a transaction is open in a partition."""
    ends: list[int] = []
    for isolation in ("read_committed", "read_uncommitted"):
        consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": "ends",
                "log_level": 0,
                "isolation.level": isolation,
            }
        )
        ends.append(consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), LIMIT_S)[1])
        consumer.close()
    return ends[0] != ends[1]
