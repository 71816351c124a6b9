"""Reproduces findings of docs/findings.md on brokers that run.

Each reproduction uses names of its own on the cluster, and removes its topics. It observes one
behaviour, and compares it with the behaviour without the bug.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ...serve.proxy import Proxy
from ...wire.connection import BrokerError, Security
from ..live.broker import EXPIRY_CHECK_MS, EXPIRY_CHECKS, BrokerSystem
from ..live.cluster.cluster import LiveCluster
from ..live.cluster.setup import warm_up
from .java_client import JavaClient

LARGEST_EPOCH: Final = 32_767
LAST_EPOCH: Final = LARGEST_EPOCH - 1
"""The last epoch that a client may have."""
PATIENCE_S: Final = 60
EXPIRY_MS: Final = "producer.id.expiration.ms"
LONGEST: Final = 500
"""The topic's max.message.bytes, in bytes."""
TOO_LARGE: Final = "c" * 2 * LONGEST
A, B = "a" * 50, "b" * 50
"""Two values that no batch holds both of, if a batch holds one record."""
_MANY: Final = 20
"""A client that sends so many requests in this run sends them until delivery.timeout.ms is over."""
_PASSING: Final = (
    "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
)  # fmt: skip
_OF_COMMITS: Final = {"delivery_timeout_ms": 4000, "request_timeout_ms": 1500}


class InconclusiveError(Exception):
    """The run didn't reach the point that decides; the message says why."""


class Observation(NamedTuple):
    """The behaviour that decides: without the bug, and on this cluster."""

    expected: str
    observed: str
    is_there: bool


@dataclass(frozen=True)
class Brokers:
    """The brokers at `bootstrap`, and the means that reproductions have.

    `class_path` has Kafka's client. `restart` kills the brokers and starts them again; None if they
    can't be restarted. `say` is called with each step, in a sentence.
    """

    bootstrap: str
    security: Security
    class_path: Callable[[], str]
    restart: Callable[[], None] | None
    say: Callable[[str], object]

    @contextmanager
    def cluster(self) -> Generator[LiveCluster]:
        """A connection to the cluster that removes its topics at the end. Raises BrokerError."""
        cluster = LiveCluster(self.bootstrap, self.security, may_be_shared=True)
        try:
            yield cluster
        finally:
            cluster.close()

    @contextmanager
    def requests(self) -> Generator[BrokerSystem]:
        """Requests by hand."""
        with self.cluster() as cluster:
            warm_up(cluster)
            yield BrokerSystem(cluster)

    @contextmanager
    def producer(self, proxy: Proxy, topic: str, **settings: Any) -> Generator[JavaClient]:
        """Kafka's own producer behind a proxy, with one record in each batch."""
        given = {"topic": topic, "batch_size": 0, **settings}
        with JavaClient(proxy.bootstrap, self.class_path(), **given) as producer:
            yield producer

    @contextmanager
    def topic(self, cluster: LiveCluster) -> Generator[str]:
        """A topic of two partitions; no record may be larger than `LONGEST`."""
        name = f"{cluster.prefix}-finding"
        _create(cluster, name)
        try:
            yield name
        finally:
            _delete(cluster, name)


def _create(cluster: LiveCluster, topic: str) -> None:
    made = {
        "name": topic,
        "num_partitions": 2,
        "replication_factor": 1,
        "configs": [{"name": "max.message.bytes", "value": str(LONGEST)}],
    }
    asked = {"topics": [made], "timeout": 1000 * PATIENCE_S}

    def is_created() -> bool:
        (one,) = cluster.ask(cluster.controller, "CreateTopics", asked)["topics"]
        if one["error_code"] not in ("NONE", "TOPIC_ALREADY_EXISTS"):
            raise BrokerError(f"{cluster.place} creates no topic {topic}: {one['error_code']}")
        return one["error_code"] == "NONE"

    _until(is_created, "the topic isn't created")
    _until(lambda: cluster.partitions_of(topic) == 2, "the topic has no leaders")


def _delete(cluster: LiveCluster, topic: str) -> None:
    asked = {"topic_names": [topic], "timeout": 1000 * PATIENCE_S}
    (one,) = cluster.ask(cluster.controller, "DeleteTopics", asked)["responses"]
    if one["error_code"] not in ("NONE", "UNKNOWN_TOPIC_OR_PARTITION"):
        raise BrokerError(f"{cluster.place} doesn't delete {topic}: {one['error_code']}")


def _until(is_so: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > until:
            raise InconclusiveError(otherwise)
        time.sleep(0.02)


def _answered(proxy: Proxy, count: int) -> None:
    _until(
        lambda: proxy.answered["Produce"] >= count,
        f"the client sent {proxy.answered['Produce']} of {count} batches",
    )


def _ok(producer: JavaClient, call: str, partition: int = 0, value: str = "") -> None:
    outcome = producer.do(call, partition, value)
    if outcome != "ok":
        raise InconclusiveError(f"{call} fails with {outcome}")


def _asked(system: BrokerSystem, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    answer = system.ask(request, fields)
    if answer is None:
        raise InconclusiveError(f"the coordinator moved during {request}")
    return answer


def _identity(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The producer id and epoch of an answer."""
    if answer["error"] != "NONE":
        raise InconclusiveError(f"a producer id is refused: {answer['error']}")
    names = ("producer_id", "producer_epoch")
    return {"transactional_id": "a", **{name: answer[name] for name in names}}


def _new_instance(system: BrokerSystem) -> dict[str, Any]:
    system.settle()
    return _identity(_asked(system, "InitProducerId", {"transactional_id": "a"}))


def _needs_version_2(cluster: LiveCluster) -> None:
    if cluster.transaction_version < 2:
        raise InconclusiveError("transaction.version is below 2 here, and the finding needs 2")


def _shown(values: str) -> str:
    names = {A: "A", B: "B"}
    return ", ".join(names.get(value, value) for value in values.split(",")) or "no record"


def local_bump(brokers: Brokers) -> Observation:
    """Finding 1, KAFKA-14034."""
    restart = brokers.restart
    if restart is None:
        raise InconclusiveError("the brokers have to restart: give --restart-command")
    wanted, done = threading.Event(), threading.Event()

    def restarting() -> None:  # in the proxy, which goes on when the broker is back
        wanted.set()
        done.wait(PATIENCE_S)

    with (
        brokers.cluster() as cluster,
        brokers.topic(cluster) as topic,
        Proxy(brokers.bootstrap, how=brokers.security, restart=restarting) as proxy,
        brokers.producer(proxy, topic) as producer,
    ):
        second = {"request": "Produce", "nth": 2}
        proxy.faults.add({"do": "hold", "on": second, "until": {"ms": 1500}})
        proxy.faults.add({"do": "lose_answer", "on": second, "until": {"request": "Produce"}})
        third = {"request": "Produce", "nth": 3}
        proxy.faults.add({"do": "fail_over_coordinator", "on": third, "when": "after"})
        brokers.say("an idempotent producer sends a record, then A and B at once")
        _ok(producer, "send", 0, "first")
        _answered(proxy, 1)
        for value in (A, B):
            _ok(producer, "send", 0, value)
        if not wanted.wait(PATIENCE_S):
            raise InconclusiveError("the client didn't send two batches at once")
        brokers.say("the broker appends A and B; their answers are lost, and it restarts")
        restart()
        cluster.revive()
        done.set()
        _until(lambda: proxy.faults.all_fired, "a fault had no occasion")
        brokers.say("its snapshot has the last batch alone; the client sends A and B again")
        _answered(proxy, 5)
        time.sleep(1)
        found = producer.do("values")
    expected = f"first,{A},{B}"
    return Observation(_shown(expected), _shown(found), found != expected)


class _Unknown(NamedTuple):
    """Batches A and B of a producer that the leader doesn't know: the number of requests with A
    before the end of its delay, and the records at the end."""

    requests: int
    values: str


def _unknown_producer(brokers: Brokers) -> _Unknown:
    with (
        brokers.cluster() as cluster,
        brokers.topic(cluster) as topic,
        Proxy(brokers.bootstrap, how=brokers.security) as proxy,
        brokers.producer(proxy, topic, retry_backoff_ms=50, retry_backoff_max_ms=50) as producer,
    ):
        for nth, ms in ((2, 500), (3, 2500)):
            on = {"request": "Produce", "nth": nth}
            proxy.faults.add({"do": "hold", "on": on, "until": {"ms": ms}})
        _ok(producer, "send", 1, "elsewhere")
        _answered(proxy, 1)
        brokers.say("a topic is deleted while an idempotent producer sends A and B")
        _delete(cluster, topic)
        for value in (A, B):
            _ok(producer, "send", 0, value)
        _answered(proxy, 2)
        brokers.say("A is refused for the moment; the topic is created again, and B arrives")
        _create(cluster, topic)
        _until(
            lambda: proxy.answered["Produce"] >= _MANY or "," in producer.do("values"),
            f"A is sent {proxy.answered['Produce'] - 2} times, and not appended",
        )
        if not proxy.faults.all_fired:
            raise InconclusiveError("the client didn't send two batches at once")
        requests, values = proxy.answered["Produce"] - 2, producer.do("values")
        brokers.say(f"the log has {_shown(values)}, after {requests} requests with A")
        if "," not in values:
            _ok(producer, "send", 0, TOO_LARGE)
            brokers.say("a record that is too large is refused, and the client bumps its epoch")
            _until(lambda: "," in producer.do("values"), "A is never appended")
            values = producer.do("values")
        return _Unknown(requests, values)


@contextmanager
def _at_the_last_epoch(brokers: Brokers, **settings: Any) -> Generator[tuple[Proxy, JavaClient]]:
    """A producer behind a proxy, after as many refused batches as a producer id has epochs."""
    with (
        brokers.cluster() as cluster,
        brokers.topic(cluster) as topic,
        Proxy(brokers.bootstrap, how=brokers.security) as proxy,
        brokers.producer(proxy, topic, **settings) as producer,
    ):
        brokers.say(f"{LARGEST_EPOCH} batches that are too large; the client bumps after each")
        refused = producer.do("refused", 1, f"{TOO_LARGE} {LARGEST_EPOCH}")
        if refused != str(LARGEST_EPOCH):
            raise InconclusiveError(f"{refused} of {LARGEST_EPOCH} batches are refused")
        yield proxy, producer


def without_producer_id(brokers: Brokers) -> Observation:
    """Finding 3."""
    with _at_the_last_epoch(brokers) as (proxy, producer):
        faults: tuple[dict[str, Any], ...] = (
            {"do": "hold", "until": {"ms": 500}},
            {"do": "lose_request"},
            {"do": "lose_answer"},
        )
        for nth, fault in enumerate(faults, 1):
            proxy.faults.add({**fault, "on": {"request": "Produce", "nth": nth}})
        brokers.say("one more is refused while A is on its way, which is lost")
        for value in (TOO_LARGE, A):
            _ok(producer, "send", 0, value)
        seen = proxy.answered["Produce"]
        _until(lambda: proxy.faults.all_fired, "a fault had no occasion")
        brokers.say("A goes out again, its answer is lost, and it goes out once more")
        _until(lambda: proxy.answered["Produce"] > seen + 2, "A isn't sent again")
        time.sleep(1)
        found = producer.do("values")
    return Observation("A", _shown(found), found != A)


def id_before(brokers: Brokers) -> Observation:
    """Finding 4."""
    patient = {"delivery_timeout_ms": 4000, "request_timeout_ms": 2000}
    patient |= {"retry_backoff_ms": 6000, "retry_backoff_max_ms": 6000}
    with _at_the_last_epoch(brokers, **patient) as (proxy, producer):
        on = {"request": "Produce"}
        proxy.faults.add({"do": "delay", "on": on, "until": {"ms": 8000}})
        brokers.say("A is late, and expires while it waits to be sent again")
        _ok(producer, "send", 0, A)
        time.sleep(3)
        _ok(producer, "send", 0, B)
        _until(lambda: producer.do("values") != "", "B isn't appended")
        brokers.say("B goes out with a new producer id; then A arrives")
        _until(lambda: proxy.faults.all_fired, "A never arrives")
        time.sleep(1)
        found = producer.do("values")
    return Observation("B", _shown(found), found != B)


def outlived_state(brokers: Brokers) -> Observation:
    """Finding 5."""
    with (
        brokers.cluster() as cluster,
        brokers.topic(cluster) as topic,
        Proxy(brokers.bootstrap, how=brokers.security) as proxy,
        brokers.producer(proxy, topic) as producer,
    ):
        expiry_ms = cluster.settings.value(EXPIRY_MS)
        forgotten_ms = expiry_ms + EXPIRY_CHECKS * cluster.settings.value(EXPIRY_CHECK_MS)
        if forgotten_ms > 1000 * PATIENCE_S:
            raise InconclusiveError(
                f"a broker forgets a producer after {EXPIRY_MS}={expiry_ms} and "
                f"{EXPIRY_CHECKS} times {EXPIRY_CHECK_MS}: {forgotten_ms // 1000} s here, and the "
                f"run waits for {PATIENCE_S} s at most"
            )
        late = {"request": "Produce"}
        proxy.faults.add({"do": "duplicate", "on": late, "until": {"ms": forgotten_ms + 1000}})
        _ok(producer, "send", 0, A)
        _answered(proxy, 1)
        brokers.say(f"A is appended; the request comes again after {forgotten_ms // 1000 + 1} s")
        _until(lambda: proxy.faults.all_fired, "the request doesn't come again")
        time.sleep(1)
        found = producer.do("values")
    return Observation("A", _shown(found), found != A)


def send_beside_commit(brokers: Brokers) -> Observation:
    """Finding 14."""
    with (
        brokers.cluster() as cluster,
        brokers.topic(cluster) as topic,
        Proxy(brokers.bootstrap, how=brokers.security) as proxy,
        brokers.producer(
            proxy, topic, transactional_id=f"{cluster.prefix}-threads", max_block_ms=10_000,
            max_request_size=LONGEST,
        ) as producer,
    ):  # fmt: skip
        _until(lambda: producer.do("initTransactions") == "ok", "initTransactions() fails")
        for call in ("beginTransaction", "send", "commitTransaction", "beginTransaction"):
            _ok(producer, call, 0, B)
        _ok(producer, "send", 0, A)
        ended = proxy.answered["EndTxn"]
        on = {"request": "EndTxn"}
        proxy.faults.add({"do": "hold_answer", "on": on, "until": {"ms": 3000}})
        brokers.say("one thread commits, and the answer to EndTxn takes 3 s")
        _ok(producer, "commitAside")
        _until(lambda: proxy.answered["EndTxn"] > ended, "the client sends no EndTxn")
        brokers.say("another thread sends a record above max.request.size, which fails")
        producer.do("send", 0, TOO_LARGE)
        first = producer.do("outcome")
        brokers.say(f"commitTransaction(): {first}; it is called again")
        found = "ok" if first == "ok" else producer.do("commitTransaction")
        values = producer.do("values")
    if values != f"{B},{A}":
        raise InconclusiveError(f"the transaction isn't committed: {_shown(values)}")
    observed = f"commitTransaction(): {found}, and its record is read"
    return Observation("commitTransaction(): ok", observed, found != "ok")


@dataclass(frozen=True)
class _OffsetsOfAnId:
    """The offsets of a group, committed under one transactional id that names no member."""

    cluster: LiveCluster
    topic: str
    name: str

    def _ask(self, request: str, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_S
        while True:
            of_group = request in ("TxnOffsetCommit", "OffsetFetch")
            coordinator = self.cluster.group_coordinator if of_group else self.cluster.coordinator
            answer = self.cluster.ask(coordinator(self.name), request, fields, version)
            error = answer.get("error_code", "NONE")
            if error == "NONE":
                return answer
            if error not in _PASSING or time.monotonic() > until:
                raise InconclusiveError(f"{request} is refused: {error}")
            self.cluster.forget_places()
            time.sleep(0.02)

    def begin(self) -> dict[str, Any]:
        """The producer id and epoch of a new instance, whose transaction has the group."""
        asked = {"transactional_id": self.name, "transaction_timeout": 60_000}
        answer = self._ask("InitProducerId", 1, asked)
        own = {name: answer[name] for name in ("producer_id", "producer_epoch")}
        own["transactional_id"] = self.name
        self._ask("AddOffsetsToTxn", 1, {**own, "group_id": self.name})
        return own

    def commit(self, own: Mapping[str, Any], offset: int) -> str:
        """The error of a TxnOffsetCommit."""
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": self.topic, "partitions": [part]}]
        nobody = {"member_id": "", "generation_id": -1, "group_instance_id": None}
        asked = {**own, **nobody, "group_id": self.name, "topics": topics}
        errors: list[str] = []

        def is_there() -> bool:
            answer = self._ask("TxnOffsetCommit", 3, asked)
            errors.append(answer["topics"][0]["partitions"][0]["error_code"])
            return errors[-1] not in _PASSING

        _until(is_there, "the group has no coordinator")
        return errors[-1]

    def end(self, own: Mapping[str, Any]) -> None:
        """Commits the transaction."""
        self._ask("EndTxn", 1, {**own, "committed": True})

    def fetch(self) -> int:
        """The offset, once it is stable."""
        asked = {
            "group_id": self.name,
            "require_stable": True,
            "topics": [{"name": self.topic, "partition_indexes": [0]}],
        }
        found: list[Mapping[str, Any]] = []

        def is_stable() -> bool:
            (part,) = self._ask("OffsetFetch", 7, asked)["topics"][0]["partitions"]
            found.append(part)
            return part["error_code"] == "NONE"

        _until(is_stable, "the offset isn't stable")
        return found[-1]["committed_offset"]


def refused_offset(brokers: Brokers) -> Observation:
    """Finding 16."""
    with brokers.cluster() as cluster, brokers.topic(cluster) as topic:
        offsets = _OffsetsOfAnId(cluster, topic, f"{cluster.prefix}-offsets")
        older = offsets.begin()
        if (error := offsets.commit(older, 5)) != "NONE":
            raise InconclusiveError(f"an offset is refused: {error}")
        offsets.end(older)
        brokers.say(f"offset {offsets.fetch()} is committed; a newer instance takes over")
        newer = offsets.begin()
        for own, offset in ((newer, 7), (older, 6)):
            error = offsets.commit(own, offset)
            brokers.say(f"offset {offset} of epoch {own['producer_epoch']}: {error}")
        offsets.end(newer)
        found = offsets.fetch()
    return Observation("offset 7 after the commit", f"offset {found}", found != 7)


def first_batches(brokers: Brokers) -> Observation:
    """Finding 2."""
    values = _unknown_producer(brokers).values
    return Observation(_shown(f"{A},{B}"), _shown(values), values.startswith(B))


def endless_retries(brokers: Brokers) -> Observation:
    """Finding 7."""
    requests = _unknown_producer(brokers).requests
    found = f"{requests} requests with A, each refused with OUT_OF_ORDER_SEQUENCE_NUMBER"
    is_there = requests >= _MANY - 2
    return Observation(
        "A is appended, or fails, after a few requests",
        found if is_there else f"A is appended after {requests} requests",
        is_there,
    )


def last_bump(brokers: Brokers) -> Observation:
    """Finding 6."""
    with brokers.requests() as system:
        _new_instance(system)
        system.skip_to_epoch("a", LAST_EPOCH - 2)
        held = {**_new_instance(system), "api_version": 3}
        brokers.say(f"a client with epoch {held['producer_epoch']} asks for a new one (KIP-360)")
        answer = _identity(_asked(system, "InitProducerId", held))
        brokers.say(f"it gets {answer['producer_epoch']}; the answer is lost, and it asks again")
        found = _asked(system, "InitProducerId", held)["error"]
    return Observation(f"NONE, and epoch {LAST_EPOCH} again", found, found != "NONE")


def largest_epoch(brokers: Brokers) -> Observation:
    """Finding 10."""
    with brokers.requests() as system:
        _needs_version_2(system.cluster)
        _new_instance(system)
        system.skip_to_epoch("a", LAST_EPOCH - 1)
        a = _new_instance(system)
        batch = {**a, "partition": "t-0", "base_sequence": 0, "api_version": 12}
        appended = _asked(system, "Produce", batch)["error"]
        if appended != "NONE":
            raise InconclusiveError(f"a batch is refused: {appended}")
        brokers.say(f"a client with epoch {a['producer_epoch']} has a transaction of version 2")
        with _transaction_version(system.cluster, 1):
            brokers.say("transaction.version goes down to 1, and another instance fences it")
            _asked(system, "InitProducerId", {"transactional_id": "a"})
            system.settle()
            answer = _asked(system, "EndTxn", {**a, "result": "ABORT", "api_version": 5})
    epoch = answer.get("producer_epoch")
    found = answer["error"] if answer["error"] != "NONE" else f"NONE, and epoch {epoch}"
    return Observation(f"an error, or an epoch up to {LAST_EPOCH}", found, epoch == LAST_EPOCH + 1)


@contextmanager
def _transaction_version(cluster: LiveCluster, level: int) -> Generator[None]:
    try:
        cluster.settings.alter_features(level)
        yield
    finally:
        cluster.settings.restore_features()


def ends_of_another(brokers: Brokers) -> Observation:
    """Finding 12."""
    with brokers.requests() as system:
        _needs_version_2(system.cluster)
        a, b = _new_instance(system), _new_instance(system)
        brokers.say(
            f"instance A has epoch {a['producer_epoch']}; B, with an older client library, fences "
            f"it with epoch {b['producer_epoch']}"
        )
        added = {**b, "partitions": ["t-0"], "api_version": 3}
        ended = {**b, "result": "ABORT", "api_version": 4}
        for request, fields in (("AddPartitionsToTxn", added), ("EndTxn", ended)):
            error = _asked(system, request, fields)["error"]
            if error != "NONE":
                raise InconclusiveError(f"B's {request} is refused: {error}")
        system.settle()
        brokers.say("B aborts its transaction; then A aborts one that it never had")
        answer = _asked(system, "EndTxn", {**a, "result": "ABORT", "api_version": 5})
        has_both = answer["error"] == "NONE" and _identity(answer) == b
    found = answer["error"]
    if has_both:
        found = f"NONE: A has B's epoch {b['producer_epoch']}, and both may write"
    return Observation("PRODUCER_FENCED", found, has_both)


def commit_in_downgrade(brokers: Brokers, level: int = 1) -> Observation:
    """Finding 9: transaction.version goes to this level."""
    with brokers.cluster() as cluster, brokers.topic(cluster) as topic:
        _needs_version_2(cluster)
        with (
            Proxy(brokers.bootstrap, how=brokers.security) as proxy,
            brokers.producer(
                proxy, topic, transactional_id=f"{cluster.prefix}-downgrade",
                max_block_ms=10_000, **_OF_COMMITS,
            ) as producer,
        ):  # fmt: skip
            on = {"request": "Produce", "nth": 2, "times": 1000}
            proxy.faults.add({"do": "lose_request", "on": on})
            for call in ("initTransactions", "beginTransaction", "send", "commitTransaction"):
                _ok(producer, call, 0, "first")
            _ok(producer, "beginTransaction")
            _ok(producer, "send", 0, "lost")
            with _transaction_version(cluster, level):
                brokers.say(f"transaction.version goes to {level} during a transaction")
                time.sleep(1)  # connections are made again, and the client hears of it
                failed = producer.do("commitTransaction")
                if failed == "ok":
                    raise InconclusiveError("the commit succeeds, although its batch is lost")
                brokers.say(f"its batch never arrives: commitTransaction() throws {failed}")
                found = producer.do("abortTransaction")
    return Observation("abortTransaction(): ok", f"abortTransaction(): {found}", found != "ok")


def stable_below_start(brokers: Brokers) -> Observation:
    """Finding 17."""
    count, start = 5, 3
    with brokers.requests() as system:
        a = _new_instance(system)
        began = {**a, "partitions": ["t-0"], "api_version": 3}
        batch = {**a, "partition": "t-0", "base_sequence": 0, "count": count, "api_version": 9}
        for request, fields in (("AddPartitionsToTxn", began), ("Produce", batch)):
            if (error := _asked(system, request, fields)["error"]) != "NONE":
                raise InconclusiveError(f"{request} is refused: {error}")
        brokers.say(f"an open transaction has one batch of {count} records, from offset 0 on")
        system.cause({"delete_records": "t-0", "before": start})
        asked = {"partition": "t-0", "committed": True}
        found = _asked(system, "ListOffsets", asked).get("offset", -1)
        brokers.say(f"records before offset {start} are deleted; the last stable offset is {found}")
        _asked(system, "EndTxn", {**a, "result": "ABORT", "api_version": 3})
    return Observation(f"{start}, the log's first offset", f"{found}", found < start)


@dataclass(frozen=True)
class Reproduction:
    """A reproduction, and its demands on cluster and machine."""

    run: Callable[[Brokers], Observation]
    restarts: bool = False
    alters_features: bool = False


REPRODUCTIONS: Final[Mapping[int, Reproduction]] = {
    1: Reproduction(local_bump, restarts=True),
    2: Reproduction(first_batches),
    3: Reproduction(without_producer_id),
    4: Reproduction(id_before),
    5: Reproduction(outlived_state),
    6: Reproduction(last_bump),
    7: Reproduction(endless_retries),
    9: Reproduction(commit_in_downgrade, alters_features=True),
    10: Reproduction(largest_epoch, alters_features=True),
    12: Reproduction(ends_of_another),
    14: Reproduction(send_beside_commit),
    16: Reproduction(refused_offset),
    17: Reproduction(stable_below_start),
}
