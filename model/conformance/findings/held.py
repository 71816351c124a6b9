"""Findings with a race between a broker's threads. A debugger holds one of them."""

from __future__ import annotations

from typing import Any

from ..live.broker import BrokerSystem
from .brokers import (
    Brokers,
    InconclusiveError,
    Observation,
    answer_of,
    identity,
    needs_version_2,
    new_instance,
    transaction_version,
)

_BATCH = {"partition": "t-0", "base_sequence": 0}


def _must(system: BrokerSystem, request: str, fields: dict[str, Any]) -> None:
    error = answer_of(system, request, fields)["error"]
    if error != "NONE":
        raise InconclusiveError(f"{request} is refused: {error}")


def _hold(system: BrokerSystem, request: str, fields: dict[str, Any], place: str) -> None:
    answer = answer_of(system, request, {**fields, "held_at": place})
    if answer.get("held") != place:
        raise InconclusiveError(f"{request} isn't held in the broker: {answer.get('error')}")


def _add(system: BrokerSystem, own: dict[str, Any]) -> None:
    """Adds a partition, as a client does before transaction version 2."""
    _must(system, "AddPartitionsToTxn", {**own, "partitions": ["t-0"], "api_version": 3})


def late_fence_end(brokers: Brokers) -> Observation:
    """Finding 8."""
    with brokers.held_requests() as system:
        level = min(system.cluster.transaction_version, 1)
        with transaction_version(system.cluster, level):
            own = new_instance(system)
            _add(system, own)
            brokers.say("a newer instance fences a transaction, and its thread is held")
            _hold(system, "InitProducerId", {"transactional_id": "a"}, "fence")
            _must(system, "EndTxn", {**own, "result": "ABORT", "api_version": 3})
            system.settle()
            brokers.say("the older instance aborts, and begins its next transaction")
            _add(system, own)
            _must(system, "Produce", {**_BATCH, **own, "api_version": 9})
            error = system.resume("fence")["error"]
            brokers.say(f"the thread goes on, and the newer instance gets {error}")
            state = answer_of(system, "DescribeTransactions", {"transactional_id": "a"})["state"]
            ended = {**own, "result": "ABORT", "api_version": 3}
            answers = {
                "EndTxn": answer_of(system, "EndTxn", ended)["error"],
                "InitProducerId": system.ask("InitProducerId", {"transactional_id": "a"}),
            }
    begun = answers["InitProducerId"] or {"error": "no answer"}
    stuck = state == "PrepareAbort" and begun["error"] == "CONCURRENT_TRANSACTIONS"
    found = f"{state}; EndTxn: {answers['EndTxn']}, InitProducerId: {begun['error']}"
    return Observation("Ongoing; EndTxn: NONE, or a fence that ends", found, stuck)


def question_of_version_2(brokers: Brokers) -> Observation:
    """Finding 11."""
    with brokers.held_requests() as system:
        needs_version_2(system.cluster)
        own = new_instance(system)
        brokers.say("a client of version 2 aborts, and the coordinator's thread is held")
        _hold(system, "EndTxn", {**own, "result": "ABORT", "api_version": 5}, "decision")
        own["producer_epoch"] += 1  # the epoch that the answer will have
        error = answer_of(system, "Produce", {**_BATCH, **own, "api_version": 12})["error"]
        if error != "CONCURRENT_TRANSACTIONS":
            raise InconclusiveError(f"its next batch gets {error}, not CONCURRENT_TRANSACTIONS")
        brokers.say("its next batch is refused, and leaves a question of version 2 in the leader")
        identity(system.resume("decision"))
        own = new_instance(system)
        _add(system, own)
        brokers.say("an instance of an older client library sends a batch, whose question is held")
        _hold(system, "Produce", {**_BATCH, **own, "api_version": 11}, "verification")
        _must(system, "EndTxn", {**own, "result": "ABORT", "api_version": 4})
        system.settle()
        error = system.resume("verification")["error"]
        brokers.say(f"it aborts; then the question is answered, and the batch gets {error}")
        producers = answer_of(system, "DescribeProducers", {"partition": "t-0"})["producers"]
        state = answer_of(system, "DescribeTransactions", {"transactional_id": "a"})["state"]
    is_open = any(one[3] >= 0 for one in producers)
    found = f"{error}; the coordinator has {state}, and the partition " + (
        "an open transaction" if is_open else "none"
    )
    hangs = error == "NONE" and is_open and state == "CompleteAbort"
    return Observation("the batch is refused, and the partition has no transaction", found, hangs)
