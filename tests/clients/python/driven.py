"""Clients in Python for `epochfence serve --rules`: `driven.py CLIENT NAME=VALUE...`.

The program makes the calls of standard input, one in each line, and prints their outcomes.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

LIMIT_S: Final = 30
QUIET_S: Final = 8
"""A member that gets no record for so long has none."""


class Driven(Protocol):
    """A producer, a reader, and a member of a group. Each call raises what the library raises."""

    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, partition: int, value: str) -> None: ...
    def flush(self) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def values(self, partition: int) -> list[str]: ...
    def poll(self) -> list[str]: ...
    def send_offsets(self) -> None: ...
    def leave(self) -> None: ...


class Librdkafka:
    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        import confluent_kafka

        self._library, self._topic, self._settings = confluent_kafka, topic, settings
        self._failed: list[str] = []
        self._member: Any = None
        given = {name: v for name, v in settings.items() if name not in ("group.id", "input")}
        given |= {"enable.idempotence": "true", "linger.ms": "0", "log_level": "0"}
        if "metadata.max.age.ms" in settings:
            given["topic.metadata.refresh.interval.ms"] = settings["metadata.max.age.ms"]
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

    def poll(self) -> list[str]:
        if self._member is None:
            self._member = self._library.Consumer({
                "bootstrap.servers": self._settings["bootstrap.servers"], "log_level": 0,
                "client.id": self._settings["client.id"], "group.id": self._settings["group.id"],
                "isolation.level": "read_committed", "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            })  # fmt: skip
            self._member.subscribe([self._settings["input"]])
        message = self._member.poll(QUIET_S)
        if message is not None and message.error() is not None:
            raise RuntimeError(str(message.error()))
        return [] if message is None else [message.value().decode()]

    def send_offsets(self) -> None:
        member = self._member
        self._producer.send_offsets_to_transaction(
            member.position(member.assignment()), member.consumer_group_metadata(), LIMIT_S
        )

    def leave(self) -> None:
        self._member.close()


class Aiokafka:
    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        import aiokafka

        self._library, self._topic, self._settings = aiokafka, topic, settings
        self._loop = asyncio.new_event_loop()  # the client works on between the calls
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._sent: list[Any] = []
        self._member: Any = None
        age_ms = int(settings.get("metadata.max.age.ms", 300_000))

        async def make() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=settings["bootstrap.servers"],
                enable_idempotence=True,
                client_id=settings["client.id"],
                metadata_max_age_ms=age_ms,
                transactional_id=settings.get("transactional.id"),
            )
            if "transactional.id" not in settings:
                await producer.start()
            return producer

        self._producer = self._do(make())

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def init(self) -> None:
        self._do(self._producer.start())

    def begin(self) -> None:
        self._do(self._producer.begin_transaction())

    def send(self, partition: int, value: str) -> None:
        sent = self._producer.send(self._topic, value.encode(), partition=partition)
        self._sent.append(self._do(sent))

    def flush(self) -> None:
        sent, self._sent = self._sent, []
        self._do(self._flush(sent))

    async def _flush(self, sent: list[Any]) -> None:
        await asyncio.wait_for(asyncio.gather(*sent), LIMIT_S)

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
            isolation_level="read_committed",
            enable_auto_commit=False,
        )
        await consumer.start()
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        found: list[str] = []
        while records := (await consumer.getmany(place, timeout_ms=1000)).get(place):
            found += [record.value.decode() for record in records]
        await consumer.stop()
        return found

    def poll(self) -> list[str]:
        return self._do(self._poll())

    async def _poll(self) -> list[str]:
        if self._member is None:
            self._member = self._library.AIOKafkaConsumer(
                self._settings["input"],
                bootstrap_servers=self._settings["bootstrap.servers"],
                client_id=self._settings["client.id"],
                group_id=self._settings["group.id"],
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            )
            await self._member.start()
        found = await self._member.getmany(timeout_ms=QUIET_S * 1000)
        return [record.value.decode() for records in found.values() for record in records]

    def send_offsets(self) -> None:
        self._do(self._send_offsets())

    async def _send_offsets(self) -> None:
        member = self._member
        places = {place: await member.position(place) for place in member.assignment()}
        await self._producer.send_offsets_to_transaction(places, self._settings["group.id"])

    def leave(self) -> None:
        self._do(self._member.stop())


class KafkaPython:
    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        import kafka

        self._library: Any = kafka
        self._topic, self._settings = topic, settings
        self._sent: list[Any] = []
        self._member: Any = None
        self._producer: Any = kafka.KafkaProducer(
            bootstrap_servers=settings["bootstrap.servers"],
            client_id=settings["client.id"],
            transactional_id=settings.get("transactional.id"),
            enable_idempotence=True,
            linger_ms=0,
            max_block_ms=LIMIT_S * 1000,
            metadata_max_age_ms=int(settings.get("metadata.max.age.ms", 300_000)),
        )

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
            bootstrap_servers=self._settings["bootstrap.servers"],
            enable_auto_commit=False,
            isolation_level="read_committed",
            consumer_timeout_ms=1000,
        )
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        found = [record.value.decode() for record in consumer]
        consumer.close()
        return found

    def poll(self) -> list[str]:
        if self._member is None:
            self._member = self._library.KafkaConsumer(
                self._settings["input"],
                bootstrap_servers=self._settings["bootstrap.servers"],
                client_id=self._settings["client.id"],
                group_id=self._settings["group.id"],
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            )
        until = time.monotonic() + QUIET_S
        found: list[str] = []
        while not found and time.monotonic() < until:
            for records in self._member.poll(timeout_ms=200).values():
                found += [record.value.decode() for record in records]
        return found

    def send_offsets(self) -> None:
        member = self._member
        places = {
            place: self._library.OffsetAndMetadata(member.position(place), "", -1)
            for place in member.assignment()
        }
        self._producer.send_offsets_to_transaction(places, member.group_metadata())

    def leave(self) -> None:
        self._member.close()


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
        case "poll":
            return ",".join(client.poll())
        case "sendOffsets":
            client.send_offsets()
        case "leave":
            client.leave()
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
