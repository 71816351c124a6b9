"""Finding 13: a transaction is aborted while one of its partitions has no leader."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import NamedTuple

from ...serve.proxy import Proxy
from ...wire.connection import BrokerError
from ..live.cluster.cluster import LiveCluster
from .brokers import A, B, Brokers, InconclusiveError, Observation, must, shown, wait_until
from .java_client import JavaClient

_IDS = 200
"""The number of transactional ids that are tried: their coordinators are on all brokers."""
_NONE = -1
_COMPLETE = "CompleteAbort"


class _Instance(NamedTuple):
    """A producer, and the broker that coordinates its transactional id."""

    producer: JavaClient
    name: str
    coordinator: int


def _names(cluster: LiveCluster) -> dict[int, str]:
    """Two brokers, each with a transactional id that it coordinates."""
    found: dict[int, str] = {}
    for number in range(_IDS):
        name = f"{cluster.prefix}-leader-{number}"
        found.setdefault(cluster.coordinator(name), name)
        if len(found) == 2:
            return found
    raise InconclusiveError("one broker coordinates all transactional ids: the finding needs two")


def _state(cluster: LiveCluster, one: _Instance) -> str:
    body = {"transactional_ids": [one.name]}
    (answer,) = cluster.ask(one.coordinator, "DescribeTransactions", body)["transaction_states"]
    return answer["transaction_state"]


def dropped_marker(brokers: Brokers) -> Observation:
    """Finding 13, KAFKA-20734."""
    if brokers.restart is None:
        raise InconclusiveError("a broker has to restart: give --restart-command")
    with brokers.cluster() as cluster, ExitStack() as stack:
        count = len(cluster.brokers)
        if count < 2:
            raise InconclusiveError("the finding needs two brokers, and this cluster has one")
        topic = stack.enter_context(brokers.topic(cluster, count))
        proxy = stack.enter_context(Proxy(brokers.bootstrap, how=brokers.security))
        instances: list[_Instance] = []
        for node, name in _names(cluster).items():
            producer = stack.enter_context(
                brokers.producer(proxy, topic, transactional_id=name, max_block_ms=30_000)
            )
            wait_until(lambda one=producer: one.do("initTransactions") == "ok", "no producer id")
            must(producer, "beginTransaction")
            for partition in range(count):
                must(producer, "send", partition, A)
            must(producer, "flush")
            instances.append(_Instance(producer, name, node))
        brokers.say(f"a transaction has a record in each of {count} partitions, on {count} brokers")
        is_back = threading.Event()

        def aborts() -> tuple[_Instance, int]:
            one, partition = _leaderless(cluster, instances, topic, is_back)
            brokers.say(f"a broker is killed: partition {partition} has no leader")
            must(one.producer, "abortTransaction")
            state = _state(cluster, one)
            brokers.say(f"abortTransaction(): ok; then the coordinator has {state}")
            return one, partition

        with ThreadPoolExecutor(1) as pool:
            aborted = pool.submit(aborts)
            try:
                brokers.restart()
            finally:
                is_back.set()
            one, partition = aborted.result()
        brokers.say("the broker is back")
        wait_until(lambda: _state(cluster, one) == _COMPLETE, "the abort isn't complete")
        for other in instances:
            if other is not one:
                other.producer.do("abortTransaction")
        brokers.say("the abort is complete")
        for call in ("beginTransaction", "send", "commitTransaction"):
            must(one.producer, call, partition, B)
        brokers.say(f"the same producer commits its next transaction, B in partition {partition}")
        wait_until(lambda: B in one.producer.do("values", partition), "B isn't read")
        found = one.producer.do("values", partition)
    return Observation(
        "B is read, and A isn't, as its transaction is aborted",
        f"{shown(found).replace(', ', ' and ')} " + ("is read" if found == B else "are read"),
        found != B,
    )


def _leaderless(
    cluster: LiveCluster, instances: list[_Instance], topic: str, is_back: threading.Event
) -> tuple[_Instance, int]:
    """Waits until an instance's coordinator sees a partition without a leader. Returns the instance
    and the partition."""
    body = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    found: list[tuple[_Instance, int]] = []

    def is_leaderless() -> bool:
        for one in instances:
            with suppress(BrokerError):  # the coordinator is the broker that has gone
                (answer,) = cluster.ask(one.coordinator, "Metadata", body)["topics"]
                for each in answer["partitions"] or ():
                    if each["leader_id"] == _NONE:
                        found.append((one, each["partition_index"]))
                        return True
        if is_back.is_set():
            raise InconclusiveError("no partition lost its leader meanwhile")
        return False

    wait_until(is_leaderless, "no partition lost its leader")
    return found[0]
