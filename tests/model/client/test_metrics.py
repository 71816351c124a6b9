"""A producer's metrics: by Kafka's names in each release, and what a run makes of them."""

from __future__ import annotations

from math import isnan

import pytest

from epochfence.model import ProducerClient
from epochfence.model.client.requests import CallResult
from epochfence.model.engine.errors import UnknownFieldError
from epochfence.spec.client.metrics import METRICS, Stat, metrics_at
from epochfence.spec.releases.features import KAFKA, NEWEST, RELEASED
from epochfence.tests.model.client.producers import batches, idempotent, only


@pytest.mark.slow(1)
def test_every_metric_has_a_value_or_says_why_not() -> None:
    for release in RELEASED:
        client = idempotent(release)
        client.send("t-0")
        client.run()
        declared = metrics_at(KAFKA.features_at(release))
        valued = {key for key, metric in declared.items() if not metric.reason}
        topics = {("producer-topic-metrics", name) for name in client.topic_metrics("t")}
        assert valued == topics | {("producer-metrics", name) for name in client.metrics}
        assert len(valued) >= 21


def test_each_sensor_that_is_declared_is_recorded() -> None:
    client = ProducerClient("a", batch_size=1000, buffer_memory=2000, linger_ms=5)
    seen = {sensor for sensor, _ in _recorded(client)}
    assert {metric.sensor for metric in METRICS if metric.sensor} - seen == set()


def _recorded(client: ProducerClient) -> list[tuple[str, object]]:
    """What a run records that has everything in it."""
    metrics, found = client._metrics, list[tuple[str, object]]()  # pyright: ignore[reportPrivateUsage]
    record = metrics.record

    def noted(sensor: str, value: float = 1, *, topic: object = None) -> None:
        found.append((sensor, topic))
        record(sensor, value, topic=topic)

    metrics.record = noted
    call = client.init_transactions()
    client.answer(only(client))
    client.answer(only(client), producer_id=7, producer_epoch=0)
    client.wait(call)
    client.begin_transaction()
    for _ in range(2):
        client.send("t-0", 400)
    client.sends.unknown_topics.add("u")
    client.send("u-0", 400)
    client.sends.unknown_topics.clear()
    client.wait(_served(client, client.flush(), "MESSAGE_TOO_LARGE", "NETWORK_EXCEPTION"))
    client.wait(_served(client, client.send_offsets({"t-0": 1}, {"group_id": "g"})))
    client.wait(_served(client, client.commit_transaction()))
    client.begin_transaction()
    client.send("t-0")
    client.wait(_served(client, client.flush(), "INVALID_RECORD"))
    client.wait(_served(client, client.abort_transaction()))
    client.begin_transaction()
    for partition in ("t-0", "t-1", "t-2"):
        client.send(partition, 900)
    client.now_ms += 60_000
    client.wait(_served(client, client.abort_transaction()))
    return found


def _served(client: ProducerClient, result: CallResult, *errors: str) -> CallResult:
    left = list(errors)
    while sent := client.run():
        for request in sent:
            is_batch = request.api == "PRODUCE"
            error = left.pop(0) if left and is_batch else "NONE"
            client.answer(request, error, producer_id=7, producer_epoch=0)
    return result


def test_what_a_run_comes_to() -> None:
    client = idempotent(linger_ms=5)
    for size in (100, 300):
        client.send("t-0", size)
    client.now_ms += 5
    (batch,) = batches(client)
    client.now_ms += 20
    assert client.metric("requests-in-flight") == 1
    client.answer(batch, base_offset=0)
    client.send("u-0", 50)
    client.now_ms += 15
    client.run()
    client.now_ms += 30_000
    assert client.metric("batch-size-avg") == (461 + 111) / 2
    assert client.metric("batch-size-max") == 461
    assert client.metric("record-queue-time-avg") == 10
    assert client.metric("record-queue-time-max") == 15
    assert client.metric("request-latency-avg") == 20
    assert client.metric("records-per-request-avg") == 1.5
    assert client.metric("record-size-max") == 361
    assert client.metric("record-size-avg") == (361 + 111) / 2
    assert client.metric("record-send-total") == 3
    assert client.metric("record-send-rate") == pytest.approx(3 / 30.035)
    assert client.metric("byte-total", "t") == 461
    assert client.topic_metrics("v") == {}
    client.now_ms += 90_000
    assert client.metric("record-send-rate") == 0
    assert isnan(client.metric("batch-size-avg"))


@pytest.mark.parametrize(("release", "least"), [("2.1", 0), ("2.3", None)])
def test_the_average_of_nothing(release: str, least: float | None) -> None:
    value = idempotent(release).metric("batch-size-avg")
    assert isnan(value) if least is None else value == least


@pytest.mark.parametrize(
    ("name", "topic", "told"),
    [
        (
            "record-sent-total",
            None,
            "is not a metric in producer-metrics: did you mean record-send-",
        ),
        ("byte-total", None, "byte-total is not a metric in producer-metrics"),
        ("io-ratio", None, "io-ratio has no value here: there is no wire"),
        ("bufferpool-wait-time-total", None, "is a metric of other releases"),
        ("byte", "t", "is not a metric in producer-topic-metrics"),
    ],
)
def test_a_name_that_has_no_value(name: str, topic: str | None, told: str) -> None:
    with pytest.raises(UnknownFieldError, match=told) as raised:
        idempotent(NEWEST).metric(name, topic)
    assert raised.value.field == name


def test_metrics_of_a_compressed_batch() -> None:
    client = idempotent(compression_ratio=0.5)
    client.send("t-0", 1000)
    client.run()
    assert client.metric("compression-rate-avg") == 0.5
    assert client.metric("batch-size-avg") == 561
    assert {m.stat for m in METRICS} == set(Stat)
