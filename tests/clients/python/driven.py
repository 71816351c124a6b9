"""Clients in Python for `epochfence serve --rules`: `driven.py CLIENT NAME=VALUE...`.

The program makes the calls of standard input, one in each line, and prints their outcomes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

LIMIT_S: Final = 30


class Driven(Protocol):
    """A producer, and a reader. Each call raises what the library raises."""

    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, partition: int, value: str) -> None: ...
    def flush(self) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def values(self, partition: int) -> list[str]: ...


class Librdkafka:
    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        import confluent_kafka

        self._library, self._topic, self._settings = confluent_kafka, topic, settings
        self._failed: list[str] = []
        given = {**settings, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self._producer = confluent_kafka.Producer(given)

    def init(self) -> None:
        self._producer.init_transactions(LIMIT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(str(error))

    def send(self, partition: int, value: str) -> None:
        self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
        self._producer.poll(0)

    def flush(self) -> None:
        left = self._producer.flush(LIMIT_S)
        failed, self._failed = self._failed, []
        if left or failed:
            raise RuntimeError(failed[0] if failed else f"{left} records are left")

    def commit(self) -> None:
        self._producer.commit_transaction(LIMIT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(LIMIT_S)

    def values(self, partition: int) -> list[str]:
        bootstrap = self._settings["bootstrap.servers"]
        consumer = self._library.Consumer({
            "bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False,
            "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0,
        })  # fmt: skip
        consumer.assign([self._library.TopicPartition(self._topic, partition, 0)])
        found: list[str] = []
        while (message := consumer.poll(LIMIT_S)) is not None and message.error() is None:
            found.append((message.value() or b"").decode())
        consumer.close()
        return found


class Aiokafka:
    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        import aiokafka

        self._library, self._topic, self._settings = aiokafka, topic, settings
        self._loop = asyncio.new_event_loop()
        self._sent: list[Any] = []

        async def make() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=settings["bootstrap.servers"], enable_idempotence=True,
                client_id=settings["client.id"],
                transactional_id=settings.get("transactional.id"),
            )  # fmt: skip
            if "transactional.id" not in settings:
                await producer.start()
            return producer

        self._producer = self._do(make())

    def _do(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def init(self) -> None:
        self._do(self._producer.start())

    def begin(self) -> None:
        self._do(self._producer.begin_transaction())

    def send(self, partition: int, value: str) -> None:
        sent = self._producer.send(self._topic, value.encode(), partition=partition)
        self._sent.append(self._do(sent))

    def flush(self) -> None:
        sent, self._sent = self._sent, []
        self._do(asyncio.wait_for(asyncio.gather(*sent), LIMIT_S))

    def commit(self) -> None:
        self._do(asyncio.wait_for(self._producer.commit_transaction(), LIMIT_S))

    def abort(self) -> None:
        self._do(asyncio.wait_for(self._producer.abort_transaction(), LIMIT_S))

    def values(self, partition: int) -> list[str]:
        return self._do(self._values(partition))

    async def _values(self, partition: int) -> list[str]:
        place = self._library.TopicPartition(self._topic, partition)
        consumer: Any = self._library.AIOKafkaConsumer(
            bootstrap_servers=self._settings["bootstrap.servers"],
            isolation_level="read_committed", enable_auto_commit=False,
        )  # fmt: skip
        await consumer.start()
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        found: list[str] = []
        while records := (await consumer.getmany(place, timeout_ms=1000)).get(place):
            found += [record.value.decode() for record in records]
        await consumer.stop()
        return found


class KafkaPython:
    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        import kafka

        self._library: Any = kafka
        self._topic, self._settings = topic, settings
        self._sent: list[Any] = []
        self._producer: Any = kafka.KafkaProducer(
            bootstrap_servers=settings["bootstrap.servers"], client_id=settings["client.id"],
            transactional_id=settings.get("transactional.id"), enable_idempotence=True,
            linger_ms=0, max_block_ms=LIMIT_S * 1000,
        )  # fmt: skip

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: str) -> None:
        self._sent.append(self._producer.send(self._topic, value.encode(), partition=partition))

    def flush(self) -> None:
        sent, self._sent = self._sent, []
        for one in sent:
            one.get(LIMIT_S)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def values(self, partition: int) -> list[str]:
        place = self._library.TopicPartition(self._topic, partition)
        consumer = self._library.KafkaConsumer(
            bootstrap_servers=self._settings["bootstrap.servers"], enable_auto_commit=False,
            isolation_level="read_committed", consumer_timeout_ms=1000,
        )  # fmt: skip
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        found = [record.value.decode() for record in consumer]
        consumer.close()
        return found


CLIENTS: Final[Mapping[str, Callable[[Mapping[str, str], str], Driven]]] = {
    "librdkafka": Librdkafka,
    "aiokafka": Aiokafka,
    "kafka-python": KafkaPython,
}


def _outcome(client: Driven, call: str) -> str:
    name, *rest = call.split()
    match name:
        case "initTransactions":
            client.init()
        case "beginTransaction":
            client.begin()
        case "send":
            client.send(int(rest[0]), rest[1])
        case "flush":
            client.flush()
        case "commitTransaction":
            client.commit()
        case "abortTransaction":
            client.abort()
        case "values":
            return ",".join(client.values(int(rest[0])))
        case _:
            return "unsupported"
    return "ok"


def main() -> None:
    """Makes the calls."""
    settings = dict(each.split("=", 1) for each in sys.argv[2:])
    client = CLIENTS[sys.argv[1]](settings, settings.pop("topic"))
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            said = _outcome(client, line)
        except Exception as error:  # whatever a library raises is an outcome
            said = f"{type(error).__name__} {error}".replace("\n", " ")
        print(said, flush=True)


if __name__ == "__main__":
    main()
