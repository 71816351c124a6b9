"""Tests of a transactional producer on a served cluster. Run them with pytest."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer


def producer(kafka, name: str) -> Producer:
    made = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
    made.init_transactions(10)
    return made


def send(producer: Producer, *records: str) -> None:
    """Sends the records in a transaction of their own."""
    producer.begin_transaction()
    for record in records:
        producer.produce("orders", record)
    producer.commit_transaction(10)


def committed(kafka, count: int) -> list[str]:
    """The first `count` records that a read_committed consumer reads."""
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "readers"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        return [(one.value() or b"").decode() for one in consumer.consume(count, timeout=20)]
    finally:
        consumer.close()


@pytest.mark.kafka("3.6", "4.4", topics={"orders": 1})
def test_a_lost_answer_to_a_commit(kafka, kafka_faults, kafka_history) -> None:
    orders = producer(kafka, "orders")
    kafka_faults.lose_answer("EndTxn", nth=2)
    send(orders, "a")
    send(orders, "b")
    assert committed(kafka, 2) == ["a", "b"]


@pytest.mark.kafka(topics={"orders": 1})
def test_a_second_instance_fences_the_first(kafka) -> None:
    first = producer(kafka, "orders")
    send(first, "a")
    second = producer(kafka, "orders")
    with pytest.raises(Exception, match=r"fenced|newer"):
        send(first, "b")
    send(second, "c")
    assert committed(kafka, 2) == ["a", "c"]
