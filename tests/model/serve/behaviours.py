"""What clients do in schedules of faults, as docs/serve.md shows it.

`python tests/model/serve/behaviours.py` runs all of them and writes the tables of the page; Java's
client needs the jars that `make brokers` brings.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiokafka
import confluent_kafka
import kafka
import kafka.errors

from epochfence.model.conformance.kafka.broker import VERSIONS, bring, java
from epochfence.model.serve.server import Server
from epochfence.spec.releases.features import NEWEST
from epochfence.tests.driver import record
from epochfence.tests.model.serve.clients import librdkafka, read

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "serve.md"
RELEASES: Final = ("2.5", "4.3")
ID: Final = "id"
LIMIT_S: Final = 10
Plan = Sequence[tuple[str, str]]
ENDED: Final = {"commit": "C", "abort": "A"}
PLAN: Final[Plan] = (("0", "commit"), ("1", "commit"), ("2", "commit"))


class Schedule(NamedTuple):
    """A schedule: what it is called on the page, its fault, and how transactions are to end."""

    title: str
    fault: dict[str, Any]
    plan: Plan = PLAN


SECOND_END = {"request": "EndTxn", "nth": 2}
SCHEDULES: Final = (
    Schedule("the answer to the second EndTxn is lost", {"do": "lose_answer", "on": SECOND_END}),
    Schedule(
        "the coordinator fails over at the second EndTxn, and loads for 200 ms",
        {"do": "fail_over_coordinator", "on": SECOND_END, "loading_ms": 200},
    ),
    Schedule(
        "the answer to the second batch is lost",
        {"do": "lose_answer", "on": {"request": "Produce", "nth": 2}},
    ),
    Schedule(
        "the answer to InitProducerId is lost",
        {"do": "lose_answer", "on": {"request": "InitProducerId"}},
    ),
    Schedule(
        "markers wait for 300 ms from the first EndTxn on",
        {"do": "hold_markers", "on": {"request": "EndTxn"}, "until": {"ms": 300}},
    ),
    Schedule("a rival has the id before the second EndTxn", {"do": "bump_epoch", "on": SECOND_END}),
    Schedule(
        "the second transaction times out before its EndTxn",
        {"do": "time_out_transaction", "on": SECOND_END},
    ),
    Schedule(
        "leaders forget the producer behind the first EndTxn",
        {"do": "expire_producer", "on": {"request": "EndTxn"}, "when": "after"},
    ),
    Schedule(
        "the first EndTxn (commit) comes again behind the second batch, whose transaction aborts",
        {"do": "duplicate", "on": {"request": "EndTxn"}, "until": {"request": "Produce"}},
        (("0", "commit"), ("1", "abort"), ("2", "commit")),
    ),
)


# Clients ------------------------------------------------------------------------------------------


def by_librdkafka(bootstrap: str, plan: Plan) -> list[str]:
    told: list[str] = []
    producer = librdkafka(bootstrap, transactional_id=ID, socket_timeout_ms=10_000)
    try:
        producer.init_transactions(LIMIT_S)
        for value, end in plan:
            producer.begin_transaction()
            producer.produce("orders", value)
            try:
                assert producer.flush(LIMIT_S) == 0
                (producer.commit_transaction if end == "commit" else producer.abort_transaction)(
                    LIMIT_S
                )
                told.append(ENDED[end])
            except confluent_kafka.KafkaException as error:
                what: Any = error.args[0]
                if not what.txn_requires_abort():
                    raise
                producer.abort_transaction(LIMIT_S)
                told.append(f"A:{what.name()}")
    except confluent_kafka.KafkaException as error:
        told.append(f"F:{error.args[0].name()}")
    return told


def by_aiokafka(bootstrap: str, plan: Plan) -> list[str]:
    async def run() -> list[str]:
        told: list[str] = []
        producer: Any = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=ID, request_timeout_ms=10_000
        )
        try:
            await producer.start()
            for value, end in plan:
                await producer.begin_transaction()
                try:
                    await producer.send_and_wait("orders", value.encode())
                    if end == "commit":
                        await producer.commit_transaction()
                    else:
                        await producer.abort_transaction()
                    told.append(ENDED[end])
                except aiokafka.errors.KafkaError as error:
                    try:
                        await producer.abort_transaction()
                    except AssertionError:  # which it raises where the error was fatal
                        raise error from None
                    told.append(f"A:{type(error).__name__}")
        except aiokafka.errors.KafkaError as error:
            told.append(f"F:{type(error).__name__}")
        await producer.stop()
        return told

    return asyncio.run(asyncio.wait_for(run(), 6 * LIMIT_S))


def by_kafka_python(bootstrap: str, plan: Plan) -> list[str]:
    told: list[str] = []
    producer: Any = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=ID, max_block_ms=10_000
    )
    try:
        producer.init_transactions()
        for value, end in plan:
            producer.begin_transaction()
            try:
                producer.send("orders", value.encode()).get(LIMIT_S)
                if end == "commit":
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
                told.append(ENDED[end])
            except kafka.errors.KafkaError as error:
                producer.abort_transaction()
                told.append(f"A:{_cause(error)}")
    except kafka.errors.KafkaError as error:
        told.append(f"F:{_cause(error)}")
    producer.close(timeout=1)
    return told


def _cause(error: BaseException) -> str:
    """The name of what a client has wrapped."""
    inner = error.__cause__ or next((a for a in error.args if isinstance(a, BaseException)), None)
    return type(error).__name__ if inner is None else _cause(inner)


def by_java(bootstrap: str, plan: Plan, version: str = VERSIONS[NEWEST]) -> list[str]:
    """Kafka's own client. Raises UnavailableError."""
    jars = bring(version)
    done = subprocess.run(
        [java(), "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*",
         Path(__file__).with_name("Behaviour.java"), bootstrap,
         *(f"{value}={end}" for value, end in plan)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


CLIENTS: dict[str, Callable[[str, Plan], list[str]]] = {
    "librdkafka": by_librdkafka,
    "aiokafka": by_aiokafka,
    "kafka-python": by_kafka_python,
    "Java": by_java,
}


# The page -----------------------------------------------------------------------------------------


def behaviour(client: str, release: str, schedule: Schedule) -> str:
    """A cell of the page: the answer to the client, and the records that are read then."""
    with Server(release, topics={"orders": 1}, brokers=2) as server:
        server.faults.add(schedule.fault)
        told = CLIENTS[client](server.bootstrap, schedule.plan)
        found = read(server.bootstrap, "orders")
        assert server.faults.unfired == [], server.report()
    return f"{' '.join(told)} → {' '.join(found) or 'nothing'}"


def tables() -> str:
    """The tables of all releases."""
    parts: list[str] = []
    for release in RELEASES:
        parts += [f"At {release}:", "", f"| schedule | {' | '.join(CLIENTS)} |"]
        parts.append("|---" * (len(CLIENTS) + 1) + "|")
        for schedule in SCHEDULES:
            cells = [behaviour(client, release, schedule) for client in CLIENTS]
            parts.append(f"| {schedule.title} | {' | '.join(cells)} |")
            print(parts[-1], flush=True)
        parts.append("")
    return "\n".join(parts)


def shown(client: str, release: str, schedule: Schedule) -> str:
    """The cell that the page has."""
    text = PAGE.read_text(encoding="utf-8").split(f"\nAt {release}:\n")[1].split("\n\n")[0]
    place = list(CLIENTS).index(client) + 2
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {schedule.title} |"))
    return row.split(" | ")[place - 1].removesuffix(" |").strip()


if __name__ == "__main__":
    record(PAGE, "clients", tables())
