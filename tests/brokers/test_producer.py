"""A producer's metrics and what it refuses, as Kafka's own classes of each release have them."""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from epochfence.model import ProducerClient
from epochfence.model.client.metrics import Sensor
from epochfence.model.client.requests import CallFailedError, Record
from epochfence.model.conformance.kafka.broker import Broker, java
from epochfence.spec.client.metrics import Stat, metrics_at
from epochfence.spec.releases.client_features import none_is_no_number, overlapping_samples
from epochfence.spec.releases.features import KAFKA
from epochfence.tests.brokers.topics import with_orders
from epochfence.tests.model.client.producers import idempotent

PROGRAM = Path(__file__).parent / "Producer.java"
RECORDS = 200
OVERHEAD = 21
"""Of a record in a batch, at most: DefaultRecord.MAX_RECORD_OVERHEAD."""
EXCEPTIONS = {
    "MESSAGE_TOO_LARGE": "RecordTooLargeException",
    "TIMEOUT": "TimeoutException",
    "BUFFER_EXHAUSTED": "BufferExhaustedException",
    "ILLEGAL_ARGUMENT": "thrown IllegalArgumentException",
}


def drawn(seed: int) -> list[list[int]]:
    """Lines of values at times, seldom two windows apart, and a time to measure at."""
    draw = random.Random(seed)
    lines: list[list[int]] = []
    for _ in range(RECORDS):
        line, at = list[int](), 0
        for _ in range(draw.randrange(8)):
            at += draw.choice((0, 1, 700, 29_999, 30_000, 45_000, 70_000))
            line += [at, draw.randrange(1000)]
        lines.append([*line, at + draw.choice((0, 1, 500, 29_000, 59_999, 60_000, 90_000))])
    return lines


def measured(line: list[int], features: frozenset[str]) -> list[float]:
    sensor = Sensor(
        overlaps=KAFKA.holds(overlapping_samples, features),
        has_none=KAFKA.holds(none_is_no_number, features),
    )
    for at, value in zip(line[:-1:2], line[1::2], strict=True):
        sensor.record(value, at)
    return [sensor.measure(stat, line[-1]) for stat in (Stat.AVG, Stat.MAX, Stat.RATE)]


def value_size(size: int) -> int:
    """The bytes that a record of a value takes of a batch, at most; it has neither key nor headers.

    DefaultRecord.recordSizeUpperBound
    """
    length = 1 if size < 64 else 2
    return OVERHEAD + 1 + length + size + 1


def told_of(client: ProducerClient, size: int) -> str:
    try:
        record: Record = client.send("orders-0", value_size(size))
        client.now_ms += 200
        client.run()
    except CallFailedError as failed:
        return EXCEPTIONS[failed.error]
    assert record.error is not None
    name = EXCEPTIONS[record.error]
    return name if record.message is None else f"{name}\t{record.message}"


def refused(release: str) -> dict[str, str]:
    unknown = idempotent(release, max_block_ms=200)
    unknown.sends.unknown_topics.add("orders")
    crowded = idempotent(release, buffer_memory=2500, batch_size=1000, max_block_ms=200)
    crowded.send("t-1", 10)
    return {
        "request": told_of(idempotent(release, max_request_size=1000), 2000),
        "buffer": told_of(idempotent(release, buffer_memory=1000, batch_size=100), 2000),
        "batch": told_of(idempotent(release, buffer_memory=1000), 10),
        "topic": told_of(unknown, 10),
        "memory": f"{told_of(crowded, 2000)}\t{crowded.metric('buffer-available-bytes')}",
    }


def test_metrics_and_refusals_are_those_of_kafka_s_own_classes(broker: Broker, seed: int) -> None:
    lines = drawn(seed)
    with with_orders(broker.bootstrap, 1):
        done = subprocess.run(
            [java(), "-cp", f"{broker.jars}/*", PROGRAM, broker.bootstrap],
            input="".join(" ".join(map(str, line)) + "\n" for line in lines),
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    told: dict[str, list[str]] = defaultdict(list)
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition("\t")
        told[kind].append(rest)
    features = KAFKA.features_at(broker.release)
    assert told["name"] == sorted(" ".join(key) for key in metrics_at(features))
    sends = dict(line.split("\t", 1) for line in told["send"])
    sends["topic"] = sends["topic"].partition("\t")[0]
    assert refused(broker.release) == sends
    for line, theirs in zip(lines, told["measured"], strict=True):
        mine = measured(line, features)
        wanted = [float(value) for value in theirs.split("\t")]
        assert mine == pytest.approx(wanted, nan_ok=True), line
