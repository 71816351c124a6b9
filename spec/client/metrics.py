"""A producer's metrics: their names in each release, and their parts.

A metric is a statistic of what a sensor has recorded, a gauge of what there is now, or nothing that
a client without a wire could tell; then it says why. Metrics of single nodes are left out, as a
client here has one node for all.

Source: SenderMetricsRegistry, KafkaProducerMetrics, BufferPool, RecordAccumulator, Selector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from ...language import Expression, lift
from ..releases.client_features import (
    blocked_time_measured,
    metadata_wait_measured,
    no_deprecated_totals,
    prepare_measured,
    totals_measured,
)
from ..releases.features import KAFKA

CLIENT: Final = "producer-metrics"
TOPIC: Final = "producer-topic-metrics"


class Stat(Enum):
    """How a metric sums up a sensor's values."""

    AVG = "Avg"
    MAX = "Max"
    RATE = "Rate"
    """By second."""
    RATIO = "Rate of NANOSECONDS"
    """Of nanoseconds, by nanosecond."""
    TOTAL = "CumulativeSum"
    GAUGE = "Gauge"


class Metric(NamedTuple):
    """A metric, in the releases in which `during` holds: the `stat` of a `sensor`, which has
    Kafka's name without the topic, or the reason why it has no value here."""

    name: str
    group: str
    sensor: str = ""
    stat: Stat = Stat.GAUGE
    during: Expression = lift(True)
    reason: str = ""


def _spread(name: str, sensor: str) -> Iterator[Metric]:
    yield Metric(f"{name}-avg", CLIENT, sensor, Stat.AVG)
    yield Metric(f"{name}-max", CLIENT, sensor, Stat.MAX)


def _meter(name: str, group: str, sensor: str) -> Iterator[Metric]:
    yield Metric(f"{name}-rate", group, sensor, Stat.RATE)
    yield Metric(f"{name}-total", group, sensor, Stat.TOTAL, totals_measured)


def _time(name: str, during: Expression = blocked_time_measured) -> Metric:
    return Metric(f"{name}-time-ns-total", CLIENT, f"{name}-time-ns-total", Stat.TOTAL, during)


def _none(reason: str, *names: str, group: str = CLIENT) -> Iterator[Metric]:
    for name in names:
        during = totals_measured if name.endswith("-total") else lift(True)
        yield Metric(name, group, during=during, reason=reason)


_WIRE: Final = "there is no wire"
_AUTHENTICATION: Final = "nobody logs in"
_PROCESS: Final = "it is about the process"

METRICS: Final = (
    *_spread("batch-size", "batch-size"),
    Metric("compression-rate-avg", CLIENT, "compression-rate", Stat.AVG),
    *_spread("record-queue-time", "queue-time"),
    *_spread("request-latency", "request-time"),
    *_meter("record-send", CLIENT, "records-per-request"),
    Metric("records-per-request-avg", CLIENT, "records-per-request", Stat.AVG),
    *_meter("record-retry", CLIENT, "record-retries"),
    *_meter("record-error", CLIENT, "errors"),
    *_spread("record-size", "record-size"),
    Metric("requests-in-flight", CLIENT),
    *_meter("batch-split", CLIENT, "batch-split-rate"),
    *_meter("record-send", TOPIC, "records-per-batch"),
    *_meter("byte", TOPIC, "bytes"),
    Metric("compression-rate", TOPIC, "compression-rate", Stat.AVG),
    *_meter("record-retry", TOPIC, "record-retries"),
    *_meter("record-error", TOPIC, "record-errors"),
    Metric("waiting-threads", CLIENT),
    Metric("buffer-total-bytes", CLIENT),
    Metric("buffer-available-bytes", CLIENT),
    *_meter("buffer-exhausted", CLIENT, "buffer-exhausted-records"),
    Metric("bufferpool-wait-ratio", CLIENT, "bufferpool-wait-time", Stat.RATIO),
    Metric(
        "bufferpool-wait-time-total",
        CLIENT,
        "bufferpool-wait-time",
        Stat.TOTAL,
        totals_measured & ~no_deprecated_totals,
    ),
    Metric(
        "bufferpool-wait-time-ns-total",
        CLIENT,
        "bufferpool-wait-time",
        Stat.TOTAL,
        blocked_time_measured,
    ),
    *map(_time, ("flush", "txn-init", "txn-begin", "txn-send-offsets", "txn-commit", "txn-abort")),
    _time("metadata-wait", metadata_wait_measured),
    Metric(
        "txn-prepare-time-ns-total",
        CLIENT,
        during=prepare_measured,
        reason="ProducerClient has no prepareTransaction",
    ),
    *_none("there is no metadata that could be old", "metadata-age"),
    *_none("no quota throttles", "produce-throttle-time-avg", "produce-throttle-time-max"),
    *_none(
        _WIRE,
        "connection-close-rate",
        "connection-close-total",
        "connection-count",
        "connection-creation-rate",
        "connection-creation-total",
        "incoming-byte-rate",
        "incoming-byte-total",
        "io-ratio",
        "io-time-ns-avg",
        "io-wait-ratio",
        "io-wait-time-ns-avg",
        "network-io-rate",
        "network-io-total",
        "outgoing-byte-rate",
        "outgoing-byte-total",
        "request-rate",
        "request-size-avg",
        "request-size-max",
        "request-total",
        "response-rate",
        "response-total",
        "select-rate",
        "select-total",
    ),
    *(
        Metric(name, CLIENT, during=totals_measured & ~no_deprecated_totals, reason=_WIRE)
        for name in ("io-waittime-total", "iotime-total")
    ),
    *(
        Metric(name, CLIENT, during=blocked_time_measured, reason=_WIRE)
        for name in ("io-time-ns-total", "io-wait-time-ns-total")
    ),
    *_none(
        _AUTHENTICATION,
        "failed-authentication-rate",
        "failed-authentication-total",
        "failed-reauthentication-rate",
        "failed-reauthentication-total",
        "reauthentication-latency-avg",
        "reauthentication-latency-max",
        "successful-authentication-no-reauth-total",
        "successful-authentication-rate",
        "successful-authentication-total",
        "successful-reauthentication-rate",
        "successful-reauthentication-total",
    ),
    *_none(_PROCESS, "commit-id", "version", "start-time-ms", group="app-info"),
    *_none(_PROCESS, "count", group="kafka-metrics-count"),
)
"""All metrics of a producer. Of those without a value, releases before 2.5 had fewer."""


TIMES: Final[Mapping[str, str]] = {
    "initTransactions": "txn-init-time-ns-total",
    "beginTransaction": "txn-begin-time-ns-total",
    "sendOffsetsToTransaction": "txn-send-offsets-time-ns-total",
    "commitTransaction": "txn-commit-time-ns-total",
    "abortTransaction": "txn-abort-time-ns-total",
    "flush": "flush-time-ns-total",
}
"""By call, the sensor of the time that it takes where it doesn't fail."""


def metrics_at(features: frozenset[str]) -> dict[tuple[str, str], Metric]:
    """The metrics of a release, by group and name."""
    return {(m.group, m.name): m for m in METRICS if KAFKA.holds(m.during, features)}
