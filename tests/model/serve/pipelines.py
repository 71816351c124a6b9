"""Consume, process and produce in transactions, by clients that nobody here wrote.

Each takes `count` records of topic `in` as a member of group `g`, and writes each one to topic
`out`, in a transaction that has the offset as well; those whose number is in `aborts` are aborted
once, and taken again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import kafka.structs

from epochfence.tests.model.serve.clients import TIMEOUT_S, in_transactions

GROUP = "g"
Pipeline = Callable[[str, int, Collection[int]], None]


def librdkafka(bootstrap: str, count: int, aborts: Collection[int]) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["in"])
    producer = in_transactions(bootstrap, "pipeline")
    left = set(aborts)
    done = 0
    while done < count:
        message: Any = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        producer.begin_transaction()
        producer.produce("out", message.value())
        here = confluent_kafka.TopicPartition("in", message.partition(), message.offset() + 1)
        producer.send_offsets_to_transaction([here], consumer.consumer_group_metadata(), TIMEOUT_S)
        if done in left:
            left.remove(done)
            assert producer.flush(TIMEOUT_S) == 0
            producer.abort_transaction(TIMEOUT_S)
            here.offset -= 1
            consumer.seek(here)
        else:
            producer.commit_transaction(TIMEOUT_S)
            done += 1
    consumer.close()


def by_aiokafka(bootstrap: str, count: int, aborts: Collection[int]) -> None:
    async def run() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            "in",
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id="pipeline"
        )
        left = set(aborts)
        done = 0
        async with consumer, producer:
            while done < count:
                message: Any = await consumer.getone()
                here = aiokafka.TopicPartition("in", message.partition)
                await producer.begin_transaction()
                await producer.send_and_wait("out", message.value)
                await producer.send_offsets_to_transaction({here: message.offset + 1}, GROUP)
                if done in left:
                    left.remove(done)
                    await producer.abort_transaction()
                    consumer.seek(here, message.offset)
                else:
                    await producer.commit_transaction()
                    done += 1

    asyncio.run(asyncio.wait_for(run(), 3 * TIMEOUT_S))


def kafka_python(bootstrap: str, count: int, aborts: Collection[int]) -> None:
    consumer: Any = kafka.KafkaConsumer(
        "in",
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    producer: Any = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id="pipeline")
    producer.init_transactions()
    left = set(aborts)
    done = 0
    while done < count:
        message = next(consumer)
        here = kafka.structs.TopicPartition("in", message.partition)
        offsets = {here: kafka.structs.OffsetAndMetadata(message.offset + 1, "", -1)}
        producer.begin_transaction()
        producer.send("out", message.value).get(TIMEOUT_S)
        producer.send_offsets_to_transaction(offsets, GROUP)
        if done in left:
            left.remove(done)
            producer.abort_transaction()
            consumer.seek(here, message.offset)
        else:
            producer.commit_transaction()
            done += 1
    producer.close()
    consumer.close()


PIPELINES: dict[str, Pipeline] = {
    "librdkafka": librdkafka,
    "aiokafka": by_aiokafka,
    "kafka-python": kafka_python,
}
