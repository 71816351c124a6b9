"""Clients that nobody here wrote, for tests of a served cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from epochfence.model.serve.control import Control

TIMEOUT_S = 20
"""So long a client may take for what it does at once."""


def eventually(is_so: Callable[[], bool]) -> None:
    """Waits until something is so."""
    until = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < until, "it never came to be"
        time.sleep(0.01)


def librdkafka(bootstrap: str, **settings: Any) -> Producer:
    """A producer, idempotent unless said otherwise. Underscores in a setting's name are dots."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 1}
    return Producer({**quiet, "enable.idempotence": True, **given})


def in_transactions(bootstrap: str, transactional_id: str, **settings: Any) -> Producer:
    """A producer that has asked for its producer id."""
    producer = librdkafka(bootstrap, transactional_id=transactional_id, **settings)
    producer.init_transactions(TIMEOUT_S)
    return producer


def commit_one_and_begin_another(producer: Producer) -> None:
    """Transactions txn0, which is committed, and txn1, which is left open: a record each."""
    for value in ("txn0", "txn1"):
        producer.begin_transaction()
        producer.produce("orders", value)
        assert producer.flush(TIMEOUT_S) == 0
        if value == "txn0":
            producer.commit_transaction(TIMEOUT_S)


def read(
    bootstrap: str, topic: str, *, committed: bool = True, partition: int = 0, offset: int = 0
) -> list[str]:
    """The values of a partition from an offset to its end, as a consumer of librdkafka gives
    them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "log_level": 0,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, partition, offset)])
    found: list[str] = []
    while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
        found.append((message.value() or b"").decode())
    assert message is not None, "it came to no end"
    consumer.close()
    return found


class Http:
    """Requests to a control, and its answers."""

    def __init__(self, control: Control) -> None:
        self.port = int(control.address.rpartition(":")[2])

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status and the body of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        connection.request(method, path, None if method == "GET" else data, headers or kind)
        answer = connection.getresponse()
        data = answer.read()
        told = json.loads(data) if answer.getheader("Content-Type") == "application/json" else data
        connection.close()
        return answer.status, told
