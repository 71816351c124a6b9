"""A client that runs transactions until it is ended: `worker.py CLIENT BOOTSTRAP NAME START_MS
SLOT_S PARTITIONS SEED`.

It tells what it does on standard output, a line each, so that much of it is known where it is
killed: `send TRANSACTION RECORD PARTITION`, `ack RECORD`, `fail RECORD`, `end TRANSACTION OUTCOME`.
Each slot of time has a transactional id and two partitions of its own, which all clients share.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka
import kafka.errors

TOPIC: Final = "soak"
TRANSACTION_TIMEOUT_MS: Final = 5_000
PATIENCE_S: Final = 30
"""So long a client tries what brokers or faults hinder."""
PAUSE_S: Final = 0.1
MOST_RECORDS: Final = 3
ABORTED: Final = 0.2


@dataclass
class Plan:
    """What one client is to do, drawn as it goes."""

    name: str
    start_ms: int
    slot_s: float
    partitions: int
    random: random.Random
    number: int = 0

    @property
    def slot(self) -> int:
        """The slot that it is now."""
        return int((time.time() - self.start_ms / 1000) / self.slot_s)

    def transactions(self, slot: int) -> Iterator[tuple[str, list[tuple[str, int]], bool]]:
        """Transactions of a slot, until it is over: the name, records with their partitions, and
        whether to commit."""
        while self.slot == slot:
            self.number += 1
            name = f"{self.name}/{self.number}"
            records = [
                (f"{name}/{n}", (2 * slot + self.random.randrange(2)) % self.partitions)
                for n in range(self.random.randint(1, MOST_RECORDS))
            ]
            for record, partition in records:
                tell("send", name, record, f"{TOPIC}-{partition}")
            yield name, records, self.random.random() >= ABORTED
            time.sleep(self.random.random() * PAUSE_S)


def tell(*words: str) -> None:
    """A line that is out before anything else happens."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def by_librdkafka(bootstrap: str, plan: Plan, slot: int) -> None:
    """Transactions of a slot by librdkafka."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"librdkafka-{slot}",
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "log_level": 0,
            "linger.ms": 1,
            "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
    )

    def told(error: Any, message: Any) -> None:
        tell("ack" if error is None else "fail", message.value().decode())

    producer.init_transactions(PATIENCE_S)
    for name, records, commits in plan.transactions(slot):
        producer.begin_transaction()
        try:
            for record, partition in records:
                producer.produce(TOPIC, record, partition=partition, on_delivery=told)
            producer.flush(PATIENCE_S)
            if commits:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
        except confluent_kafka.KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(PATIENCE_S)
            commits = False
        tell("end", name, "committed" if commits else "aborted")


def by_aiokafka(bootstrap: str, plan: Plan, slot: int) -> None:
    """Transactions of a slot by aiokafka."""

    async def run() -> None:
        producer: Any = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=f"aiokafka-{slot}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        await producer.start()
        try:
            for name, records, commits in plan.transactions(slot):
                await producer.begin_transaction()
                for record, partition in records:
                    await producer.send_and_wait(TOPIC, record.encode(), partition=partition)
                    tell("ack", record)
                await (producer.commit_transaction if commits else producer.abort_transaction)()
                tell("end", name, "committed" if commits else "aborted")
        finally:
            await asyncio.wait_for(producer.stop(), 1)

    asyncio.run(asyncio.wait_for(run(), 2 * PATIENCE_S))


def by_kafka_python(bootstrap: str, plan: Plan, slot: int) -> None:
    """Transactions of a slot by kafka-python."""
    producer: Any = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=f"kafka-python-{slot}",
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        max_block_ms=PATIENCE_S * 1000,
    )
    try:
        producer.init_transactions()
        for name, records, commits in plan.transactions(slot):
            producer.begin_transaction()
            sent = [
                (record, producer.send(TOPIC, record.encode(), partition=partition))
                for record, partition in records
            ]
            for record, future in sent:
                future.get(PATIENCE_S)
                tell("ack", record)
            (producer.commit_transaction if commits else producer.abort_transaction)()
            tell("end", name, "committed" if commits else "aborted")
    finally:
        producer.close(timeout=0)


CLIENTS: Final[dict[str, Callable[[str, Plan, int], None]]] = {
    "librdkafka": by_librdkafka,
    "aiokafka": by_aiokafka,
    "kafka-python": by_kafka_python,
}
ERRORS: Final = (
    confluent_kafka.KafkaException,
    aiokafka.errors.KafkaError,
    kafka.errors.KafkaError,
    TimeoutError,
    AssertionError,
)
"""What clients raise that can't go on; another one begins then."""


def main(client: str, bootstrap: str, *given: str) -> None:
    """Runs transactions, with another producer for each slot and behind each error."""
    name, start_ms, slot_s, partitions, seed = given
    plan = Plan(name, int(start_ms), float(slot_s), int(partitions), random.Random(seed))
    while True:
        try:
            CLIENTS[client](bootstrap, plan, plan.slot)
        except ERRORS as error:
            tell("error", type(error).__name__, str(error).replace("\n", " ")[:200])
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
