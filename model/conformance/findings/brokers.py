"""The brokers of a reproduction, and common steps of reproductions."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ...serve.proxy import Proxy
from ...wire.connection import BrokerError, Security
from ..live.broker import BrokerSystem
from ..live.cluster.cluster import LiveCluster
from ..live.cluster.setup import warm_up
from ..live.holds.hold_places import Threads
from .java_client import JavaClient

LARGEST_EPOCH: Final = 32_767
LAST_EPOCH: Final = LARGEST_EPOCH - 1
"""The last epoch of a producer id that a client gets."""
PATIENCE_S: Final = 60
EXPIRY_MS: Final = "producer.id.expiration.ms"
LONGEST: Final = 500
"""The topic's max.message.bytes, in bytes."""
TOO_LARGE: Final = "c" * 2 * LONGEST
A, B = "a" * 50, "b" * 50
"""Two values of records."""


class InconclusiveError(Exception):
    """The run didn't reach the deciding point. The message has the reason."""


class Observation(NamedTuple):
    """The deciding behaviour: without the bug, and on this cluster."""

    expected: str
    observed: str
    is_there: bool


@contextmanager
def holding(cluster: LiveCluster, debugger: str) -> Generator[BrokerSystem]:
    """A system for single requests. The debugger at HOST:PORT can hold them in the broker."""
    threads = Threads(debugger)
    try:
        warm_up(cluster)
        BrokerSystem(cluster).warm_up()
        system = BrokerSystem(cluster, threads=threads)
        try:
            yield system
        finally:
            system.close()
    finally:
        threads.drop()


@dataclass(frozen=True)
class Brokers:
    """The brokers at `bootstrap`, and the resources of reproductions.

    `class_path` returns the class path of Kafka's client. `restart` kills the brokers and starts
    them again; None: they can't be restarted. `say` gets a sentence for each step. `debugger`
    (HOST:PORT) is the debug port of a broker's JVM. `user` is a user without permissions.
    """

    bootstrap: str
    security: Security
    class_path: Callable[[], str]
    restart: Callable[[], None] | None
    say: Callable[[str], object]
    debugger: str | None = None
    user: Security | None = None

    @contextmanager
    def cluster(self) -> Generator[LiveCluster]:
        """A connection to the cluster. Removes its topics at the end. Raises BrokerError."""
        cluster = LiveCluster(self.bootstrap, self.security, may_be_shared=True)
        try:
            yield cluster
        finally:
            cluster.close()

    @contextmanager
    def requests(self) -> Generator[BrokerSystem]:
        """A system for single requests."""
        with self.cluster() as cluster:
            warm_up(cluster)
            yield BrokerSystem(cluster)

    @contextmanager
    def held_requests(self) -> Generator[BrokerSystem]:
        """A system for single requests that the debugger can hold. Raises InconclusiveError without
        a debugger."""
        if self.debugger is None:
            raise InconclusiveError("a thread of the broker has to be held: give --debugger")
        with self.cluster() as cluster, holding(cluster, self.debugger) as system:
            yield system

    @contextmanager
    def producer(self, proxy: Proxy, topic: str, **settings: Any) -> Generator[JavaClient]:
        """Kafka's own producer behind a proxy, with one record in each batch."""
        given = {"topic": topic, "batch_size": 0, **settings}
        with JavaClient(proxy.bootstrap, self.class_path(), **given) as producer:
            yield producer

    @contextmanager
    def topic(self, cluster: LiveCluster, partitions: int = 2) -> Generator[str]:
        """A new topic, whose records may have `LONGEST` bytes. Removes it at the end."""
        name = f"{cluster.prefix}-finding"
        create(cluster, name, partitions)
        try:
            yield name
        finally:
            delete(cluster, name)


def create(cluster: LiveCluster, topic: str, partitions: int = 2) -> None:
    """Creates a topic, and waits for the leaders of its partitions."""
    made = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": "max.message.bytes", "value": str(LONGEST)}],
    }
    body = {"topics": [made], "timeout": 1000 * PATIENCE_S}

    def is_created() -> bool:
        (one,) = cluster.ask(cluster.controller, "CreateTopics", body)["topics"]
        if one["error_code"] not in ("NONE", "TOPIC_ALREADY_EXISTS"):
            raise BrokerError(f"{cluster.place} creates no topic {topic}: {one['error_code']}")
        return one["error_code"] == "NONE"

    wait_until(is_created, "the topic isn't created")
    wait_until(lambda: cluster.partitions_of(topic) == partitions, "the topic has no leaders")


def delete(cluster: LiveCluster, topic: str) -> None:
    """Deletes a topic, if it exists."""
    body = {"topic_names": [topic], "timeout": 1000 * PATIENCE_S}
    (one,) = cluster.ask(cluster.controller, "DeleteTopics", body)["responses"]
    if one["error_code"] not in ("NONE", "UNKNOWN_TOPIC_OR_PARTITION"):
        raise BrokerError(f"{cluster.place} doesn't delete {topic}: {one['error_code']}")


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    """Waits for a condition. Raises InconclusiveError with the message `otherwise`."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > until:
            raise InconclusiveError(otherwise)
        time.sleep(0.02)


def wait_for_batches(proxy: Proxy, count: int) -> None:
    """Waits until `count` batches were answered."""
    wait_until(
        lambda: proxy.answered["Produce"] >= count,
        f"the client sent {proxy.answered['Produce']} of {count} batches",
    )


def must(producer: JavaClient, call: str, partition: int = 0, value: str = "") -> None:
    """Makes a call of a producer. Raises InconclusiveError if it fails."""
    outcome = producer.do(call, partition, value)
    if outcome != "ok":
        raise InconclusiveError(f"{call} fails with {outcome}")


def answer_of(system: BrokerSystem, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer to a request. Raises InconclusiveError if its coordinator moves."""
    answer = system.ask(request, fields)
    if answer is None:
        raise InconclusiveError(f"the coordinator moved during {request}")
    return answer


def identity(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The producer id and epoch of an answer, with the transactional id."""
    if answer["error"] != "NONE":
        raise InconclusiveError(f"a producer id is refused: {answer['error']}")
    names = ("producer_id", "producer_epoch")
    return {"transactional_id": "a", **{name: answer[name] for name in names}}


def new_instance(system: BrokerSystem) -> dict[str, Any]:
    """The identity of a new instance of the transactional id `a`."""
    system.settle()
    return identity(answer_of(system, "InitProducerId", {"transactional_id": "a"}))


def needs_version_2(cluster: LiveCluster) -> None:
    """Raises InconclusiveError without transactions of version 2."""
    if cluster.transaction_version < 2:
        raise InconclusiveError("transaction.version is below 2 here, and the finding needs 2")


def shown(values: str) -> str:
    """The names of records, in their order."""
    names = {A: "A", B: "B"}
    return ", ".join(names.get(value, value) for value in values.split(",")) or "no record"


@contextmanager
def transaction_version(cluster: LiveCluster, level: int) -> Generator[None]:
    """Sets transaction.version to a level, and restores it at the end."""
    try:
        cluster.settings.alter_features(level)
        yield
    finally:
        cluster.settings.restore_features()
