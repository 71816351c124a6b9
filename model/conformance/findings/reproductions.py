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
from ..live.broker import EXPIRY_CHECK_MS, EXPIRY_CHECKS
from ..live.cluster.cluster import LiveCluster
from . import held, leaderless, permissions
from .brokers import (
    EXPIRY_MS,
    LARGEST_EPOCH,
    LAST_EPOCH,
    LONGEST,
    PATIENCE_S,
    TOO_LARGE,
    A,
    B,
    Brokers,
    InconclusiveError,
    Observation,
    answer_of,
    create,
    delete,
    identity,
    must,
    needs_version_2,
    new_instance,
    shown,
    transaction_version,
    wait_for_batches,
    wait_until,
)
from .java_client import JavaClient

_MANY: Final = 20
"""A client with this many requests in the run repeats them until delivery.timeout.ms is over."""
_PASSING: Final = (
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
)
_OF_COMMITS: Final = {"delivery_timeout_ms": 4000, "request_timeout_ms": 1500}


def local_bump(brokers: Brokers) -> Observation:
    """Finding 1, KAFKA-14034."""
    restart = brokers.restart
    if restart is None:
        raise InconclusiveError("the brokers have to restart: give --restart-command")
    wanted, done = threading.Event(), threading.Event()

    def restarting() -> None:  # the proxy waits until the broker is back
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
        must(producer, "send", 0, "first")
        wait_for_batches(proxy, 1)
        for value in (A, B):
            must(producer, "send", 0, value)
        if not wanted.wait(PATIENCE_S):
            raise InconclusiveError("the client didn't send two batches at once")
        brokers.say("the broker appends A and B; their answers are lost, and it restarts")
        restart()
        cluster.revive()
        done.set()
        wait_until(lambda: proxy.faults.all_fired, "a fault never fired")
        brokers.say("its snapshot has the last batch alone; the client sends A and B again")
        wait_for_batches(proxy, 5)
        time.sleep(1)
        found = producer.do("values")
    expected = f"first,{A},{B}"
    return Observation(shown(expected), shown(found), found != expected)


class _Unknown(NamedTuple):
    """The outcome of a run in which the leader doesn't know the producer of batches A and B: the
    number of requests with A before B's delay is over, and the records at the end."""

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
        must(producer, "send", 1, "elsewhere")
        wait_for_batches(proxy, 1)
        brokers.say("a topic is deleted while an idempotent producer sends A and B")
        delete(cluster, topic)
        for value in (A, B):
            must(producer, "send", 0, value)
        wait_for_batches(proxy, 2)
        brokers.say("A is refused for the moment; the topic is created again, and B arrives")
        create(cluster, topic)
        wait_until(
            lambda: proxy.answered["Produce"] >= _MANY or "," in producer.do("values"),
            f"A is sent {proxy.answered['Produce'] - 2} times, and not appended",
        )
        if not proxy.faults.all_fired:
            raise InconclusiveError("the client didn't send two batches at once")
        requests, values = proxy.answered["Produce"] - 2, producer.do("values")
        brokers.say(f"the log has {shown(values)}, after {requests} requests with A")
        if "," not in values:
            must(producer, "send", 0, TOO_LARGE)
            brokers.say("a record that is too large is refused, and the client bumps its epoch")
            wait_until(lambda: "," in producer.do("values"), "A is never appended")
            values = producer.do("values")
        return _Unknown(requests, values)


@contextmanager
def _at_the_last_epoch(brokers: Brokers, **settings: Any) -> Generator[tuple[Proxy, JavaClient]]:
    """A producer behind a proxy, at its last epoch: one batch was refused for each epoch."""
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
            must(producer, "send", 0, value)
        seen = proxy.answered["Produce"]
        wait_until(lambda: proxy.faults.all_fired, "a fault never fired")
        brokers.say("A goes out again, its answer is lost, and it goes out once more")
        wait_until(lambda: proxy.answered["Produce"] > seen + 2, "A isn't sent again")
        time.sleep(1)
        found = producer.do("values")
    return Observation("A", shown(found), found != A)


def id_before(brokers: Brokers) -> Observation:
    """Finding 4."""
    patient = {"delivery_timeout_ms": 4000, "request_timeout_ms": 2000}
    patient |= {"retry_backoff_ms": 6000, "retry_backoff_max_ms": 6000}
    with _at_the_last_epoch(brokers, **patient) as (proxy, producer):
        on = {"request": "Produce"}
        proxy.faults.add({"do": "delay", "on": on, "until": {"ms": 8000}})
        brokers.say("A is late, and expires while it waits to be sent again")
        must(producer, "send", 0, A)
        time.sleep(3)
        must(producer, "send", 0, B)
        wait_until(lambda: producer.do("values") != "", "B isn't appended")
        brokers.say("B goes out with a new producer id; then A arrives")
        wait_until(lambda: proxy.faults.all_fired, "A never arrives")
        time.sleep(1)
        found = producer.do("values")
    return Observation("B", shown(found), found != B)


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
        must(producer, "send", 0, A)
        wait_for_batches(proxy, 1)
        brokers.say(f"A is appended; the request comes again after {forgotten_ms // 1000 + 1} s")
        wait_until(lambda: proxy.faults.all_fired, "the request doesn't come again")
        time.sleep(1)
        found = producer.do("values")
    return Observation("A", shown(found), found != A)


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
        wait_until(lambda: producer.do("initTransactions") == "ok", "initTransactions() fails")
        for call in ("beginTransaction", "send", "commitTransaction", "beginTransaction"):
            must(producer, call, 0, B)
        must(producer, "send", 0, A)
        ended = proxy.answered["EndTxn"]
        on = {"request": "EndTxn"}
        proxy.faults.add({"do": "hold_answer", "on": on, "until": {"ms": 3000}})
        brokers.say("one thread commits, and the answer to EndTxn takes 3 s")
        must(producer, "commitAside")
        wait_until(lambda: proxy.answered["EndTxn"] > ended, "the client sends no EndTxn")
        brokers.say("another thread sends a record above max.request.size, which fails")
        producer.do("send", 0, TOO_LARGE)
        first = producer.do("outcome")
        brokers.say(f"commitTransaction(): {first}; it is called again")
        found = "ok" if first == "ok" else producer.do("commitTransaction")
        values = producer.do("values")
    if values != f"{B},{A}":
        raise InconclusiveError(f"the transaction isn't committed: {shown(values)}")
    observed = f"commitTransaction(): {found}, and its record is read"
    return Observation("commitTransaction(): ok", observed, found != "ok")


@dataclass(frozen=True)
class _OffsetsOfAnId:
    """A group's offsets in transactions of one transactional id, without a member id."""

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
        """Starts a new instance, and adds the group to its transaction. Returns its identity."""
        body = {"transactional_id": self.name, "transaction_timeout": 60_000}
        answer = self._ask("InitProducerId", 1, body)
        own = {name: answer[name] for name in ("producer_id", "producer_epoch")}
        own["transactional_id"] = self.name
        self._ask("AddOffsetsToTxn", 1, {**own, "group_id": self.name})
        return own

    def commit(self, own: Mapping[str, Any], offset: int) -> str:
        """The error of a TxnOffsetCommit."""
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": self.topic, "partitions": [part]}]
        nobody = {"member_id": "", "generation_id": -1, "group_instance_id": None}
        body = {**own, **nobody, "group_id": self.name, "topics": topics}
        errors: list[str] = []

        def is_there() -> bool:
            answer = self._ask("TxnOffsetCommit", 3, body)
            errors.append(answer["topics"][0]["partitions"][0]["error_code"])
            return errors[-1] not in _PASSING

        wait_until(is_there, "the group has no coordinator")
        return errors[-1]

    def end(self, own: Mapping[str, Any]) -> None:
        """Commits the transaction."""
        self._ask("EndTxn", 1, {**own, "committed": True})

    def fetch(self) -> int:
        """The committed offset. Waits until it is stable."""
        body = {
            "group_id": self.name,
            "require_stable": True,
            "topics": [{"name": self.topic, "partition_indexes": [0]}],
        }
        found: list[Mapping[str, Any]] = []

        def is_stable() -> bool:
            (part,) = self._ask("OffsetFetch", 7, body)["topics"][0]["partitions"]
            found.append(part)
            return part["error_code"] == "NONE"

        wait_until(is_stable, "the offset isn't stable")
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
    return Observation(shown(f"{A},{B}"), shown(values), values.startswith(B))


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
        new_instance(system)
        system.skip_to_epoch("a", LAST_EPOCH - 2)
        held = {**new_instance(system), "api_version": 3}
        brokers.say(f"a client with epoch {held['producer_epoch']} asks for a new one (KIP-360)")
        answer = identity(answer_of(system, "InitProducerId", held))
        brokers.say(f"it gets {answer['producer_epoch']}; the answer is lost, and it asks again")
        found = answer_of(system, "InitProducerId", held)["error"]
    return Observation(f"NONE, and epoch {LAST_EPOCH} again", found, found != "NONE")


def largest_epoch(brokers: Brokers) -> Observation:
    """Finding 10."""
    with brokers.requests() as system:
        needs_version_2(system.cluster)
        new_instance(system)
        system.skip_to_epoch("a", LAST_EPOCH - 1)
        a = new_instance(system)
        batch = {**a, "partition": "t-0", "base_sequence": 0, "api_version": 12}
        appended = answer_of(system, "Produce", batch)["error"]
        if appended != "NONE":
            raise InconclusiveError(f"a batch is refused: {appended}")
        brokers.say(f"a client with epoch {a['producer_epoch']} has a transaction of version 2")
        with transaction_version(system.cluster, 1):
            brokers.say("transaction.version goes down to 1, and another instance fences it")
            answer_of(system, "InitProducerId", {"transactional_id": "a"})
            system.settle()
            answer = answer_of(system, "EndTxn", {**a, "result": "ABORT", "api_version": 5})
    epoch = answer.get("producer_epoch")
    found = answer["error"] if answer["error"] != "NONE" else f"NONE, and epoch {epoch}"
    return Observation(f"an error, or an epoch up to {LAST_EPOCH}", found, epoch == LAST_EPOCH + 1)


def ends_of_another(brokers: Brokers) -> Observation:
    """Finding 12."""
    with brokers.requests() as system:
        needs_version_2(system.cluster)
        a, b = new_instance(system), new_instance(system)
        brokers.say(
            f"instance A has epoch {a['producer_epoch']}; B, with an older client library, fences "
            f"it with epoch {b['producer_epoch']}"
        )
        added = {**b, "partitions": ["t-0"], "api_version": 3}
        ended = {**b, "result": "ABORT", "api_version": 4}
        for request, fields in (("AddPartitionsToTxn", added), ("EndTxn", ended)):
            error = answer_of(system, request, fields)["error"]
            if error != "NONE":
                raise InconclusiveError(f"B's {request} is refused: {error}")
        system.settle()
        brokers.say("B aborts its transaction; then A aborts one that it never had")
        answer = answer_of(system, "EndTxn", {**a, "result": "ABORT", "api_version": 5})
        has_both = answer["error"] == "NONE" and identity(answer) == b
    found = answer["error"]
    if has_both:
        found = f"NONE: A has B's epoch {b['producer_epoch']}, and both may write"
    return Observation("PRODUCER_FENCED", found, has_both)


def commit_in_downgrade(brokers: Brokers, level: int = 1) -> Observation:
    """Finding 9: transaction.version goes to this level."""
    with brokers.cluster() as cluster, brokers.topic(cluster) as topic:
        needs_version_2(cluster)
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
                must(producer, call, 0, "first")
            must(producer, "beginTransaction")
            must(producer, "send", 0, "lost")
            with transaction_version(cluster, level):
                brokers.say(f"transaction.version goes to {level} during a transaction")
                time.sleep(1)  # connections are made again, and the client hears of it
                failed = producer.do("commitTransaction")
                if failed == "ok":
                    raise InconclusiveError("the commit succeeds, although its batch is lost")
                brokers.say(f"its batch never arrives: commitTransaction() throws {failed}")
                found = producer.do("abortTransaction")
    return Observation("abortTransaction(): ok", f"abortTransaction(): {found}", found != "ok")


def downgrade_to_0(brokers: Brokers) -> Observation:
    """Finding 18."""
    with brokers.cluster() as cluster, brokers.topic(cluster) as topic:
        needs_version_2(cluster)
        name = f"{cluster.prefix}-downgrade"

        def starts() -> str:
            """The outcome of a new instance's initTransactions()."""
            with brokers.producer(
                proxy, topic, transactional_id=name, max_block_ms=5_000
            ) as producer:
                return producer.do("initTransactions")

        with Proxy(brokers.bootstrap, how=brokers.security) as proxy:
            with brokers.producer(proxy, topic, transactional_id=name) as producer:
                wait_until(lambda: producer.do("initTransactions") == "ok", "no producer id")
                for call in ("beginTransaction", "send", "commitTransaction"):
                    must(producer, call, 0, A)
            brokers.say("a transaction of version 2 is committed, and its client ends")
            time.sleep(1)  # the markers are written
            with transaction_version(cluster, 0):
                brokers.say(f"transaction.version goes to 0; a new client begins: {starts()}")
            found = starts()
            brokers.say(f"transaction.version is 2 again; a new client begins: {found}")
    return Observation("initTransactions(): ok", f"initTransactions(): {found}", found != "ok")


def stable_below_start(brokers: Brokers) -> Observation:
    """Finding 17."""
    count, start = 5, 3
    with brokers.requests() as system:
        a = new_instance(system)
        began = {**a, "partitions": ["t-0"], "api_version": 3}
        batch = {**a, "partition": "t-0", "base_sequence": 0, "count": count, "api_version": 9}
        for request, fields in (("AddPartitionsToTxn", began), ("Produce", batch)):
            if (error := answer_of(system, request, fields)["error"]) != "NONE":
                raise InconclusiveError(f"{request} is refused: {error}")
        brokers.say(f"an open transaction has one batch of {count} records, from offset 0 on")
        system.cause({"delete_records": "t-0", "before": start})
        body = {"partition": "t-0", "committed": True}
        found = answer_of(system, "ListOffsets", body).get("offset", -1)
        brokers.say(f"records before offset {start} are deleted; the last stable offset is {found}")
        answer_of(system, "EndTxn", {**a, "result": "ABORT", "api_version": 3})
    return Observation(f"{start}, the log's first offset", f"{found}", found < start)


@dataclass(frozen=True)
class Reproduction:
    """A reproduction, and its requirements.

    It `restarts` a broker, changes transaction.version (`alters_features`), holds a broker's
    threads in a debugger (`holds`), or needs a user without permissions (`denies`). A cluster that
    is started for it has this number of `brokers`, with these `settings`.
    """

    run: Callable[[Brokers], Observation]
    restarts: bool = False
    alters_features: bool = False
    holds: bool = False
    denies: bool = False
    brokers: int = 1
    settings: tuple[str, ...] = ()

    @property
    def is_for_kraft(self) -> bool:
        """Whether a cluster that is started for it needs KRaft."""
        return self.denies or self.brokers > 1


REPRODUCTIONS: Final[Mapping[int, Reproduction]] = {
    1: Reproduction(local_bump, restarts=True),
    2: Reproduction(first_batches),
    3: Reproduction(without_producer_id),
    4: Reproduction(id_before),
    5: Reproduction(outlived_state, settings=(f"{EXPIRY_MS}=500",)),
    6: Reproduction(last_bump),
    7: Reproduction(endless_retries),
    8: Reproduction(held.late_fence_end, alters_features=True, holds=True),
    9: Reproduction(commit_in_downgrade, alters_features=True),
    10: Reproduction(largest_epoch, alters_features=True),
    11: Reproduction(held.question_of_version_2, holds=True),
    12: Reproduction(ends_of_another),
    13: Reproduction(leaderless.dropped_marker, restarts=True, brokers=2),
    14: Reproduction(send_beside_commit),
    15: Reproduction(permissions.unreadable_topic, denies=True),
    16: Reproduction(refused_offset),
    17: Reproduction(stable_below_start),
    18: Reproduction(downgrade_to_0, alters_features=True),
}
