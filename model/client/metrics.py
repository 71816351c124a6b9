"""The metrics of a client, computed as in Kafka's sensors and statistics, in samples of 30 s.

The names are `spec.client.metrics`'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import Any, Final

from ...language.declaration.arguments import meant
from ...spec.client.metrics import CLIENT, METRICS, TOPIC, Stat, metrics_at
from ...spec.releases.client_features import none_is_no_number, overlapping_samples
from ...spec.releases.features import KAFKA
from ..engine.errors import UnknownFieldError

WINDOW_MS: Final = 30_000
SAMPLES: Final = 2
"""metrics.sample.window.ms and metrics.num.samples, by default."""
NS_PER_MS: Final = 1_000_000


@dataclass
class Sample:
    """The values recorded since `start_ms`, the last one at `last_ms`."""

    start_ms: int
    last_ms: int
    count: int = 0
    total: float = 0
    largest: float = -inf


class Sensor:
    """The measurements under one name: its newest samples, and the sum of all.

    `overlaps`: a sample's age counts from its last value (otherwise from its start). SampledStat,
    CumulativeSum.
    """

    def __init__(self, *, overlaps: bool = True, has_none: bool = True) -> None:
        self.total: float = 0
        self._overlaps, self._has_none = overlaps, has_none
        self._samples: list[Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Adds a value."""
        self.total += value
        sample = self._sample(now_ms)
        if now_ms - sample.start_ms >= WINDOW_MS:
            sample = self._advance(now_ms)
        sample.count += 1
        sample.total += value
        sample.largest = max(sample.largest, value)
        sample.last_ms = now_ms

    def _sample(self, now_ms: int) -> Sample:
        if not self._samples:
            self._samples.append(Sample(now_ms, now_ms))
        return self._samples[self._current]

    def _advance(self, now_ms: int) -> Sample:
        self._current = (self._current + 1) % (SAMPLES + self._overlaps)
        begun = Sample(now_ms, now_ms)
        self._samples[self._current : self._current + 1] = [begun]
        return begun

    def _purge(self, now_ms: int) -> None:
        for at, sample in enumerate(self._samples):
            since = sample.last_ms if self._overlaps else sample.start_ms
            if now_ms - since >= SAMPLES * WINDOW_MS:
                self._samples[at] = Sample(now_ms, now_ms)

    def measure(self, stat: Stat, now_ms: int) -> float:
        """The statistic at this time."""
        if stat is Stat.TOTAL:
            return self.total
        self._purge(now_ms)
        count = sum(sample.count for sample in self._samples)
        total = sum(sample.total for sample in self._samples)
        match stat:
            case Stat.AVG:
                return total / count if count else (nan if self._has_none else 0)
            case Stat.MAX:
                largest = max((sample.largest for sample in self._samples), default=-inf)
                return largest if count or not self._has_none else nan
            case Stat.RATIO:
                return total / (self._window(now_ms) * NS_PER_MS)
            case _:
                return total / (self._window(now_ms) / 1000)

    def _window(self, now_ms: int) -> int:
        """The length of the measured time in ms; all windows except the newest count as full
        (Rate.windowSize)."""
        elapsed = now_ms - min((s.start_ms for s in self._samples), default=now_ms)
        missing = SAMPLES - 1 - elapsed // WINDOW_MS
        return max(elapsed + max(missing, 0) * WINDOW_MS, 1)


class Metrics:
    """The metrics of a client whose release has these `features`. `gauges` are functions that
    return present values, by metric name."""

    def __init__(
        self,
        features: frozenset[str],
        clock: Callable[[], int],
        gauges: Mapping[str, Callable[[], float]],
    ) -> None:
        self._declared = metrics_at(features)
        self._clock, self._gauges = clock, gauges
        self._kept = {
            "overlaps": KAFKA.holds(overlapping_samples, features),
            "has_none": KAFKA.holds(none_is_no_number, features),
        }
        self._sensors: dict[tuple[str, Any], Sensor] = {}
        self.topics: set[Any] = set()
        """The topics to which a batch was sent. Only they are measured."""

    def _sensor(self, name: str, topic: Any) -> Sensor:
        return self._sensors.setdefault((name, topic), Sensor(**self._kept))

    def record(self, sensor: str, value: float = 1, *, topic: Any = None) -> None:
        """Records a value of the client, or of a topic that is measured."""
        if topic is None or topic in self.topics:
            self._sensor(sensor, topic).record(value, self._clock())

    def value(self, name: str, topic: Any = None) -> float:
        """A metric's present value. Raises UnknownFieldError, with the reason, if the release
        doesn't have the name or the metric has no value here."""
        group = CLIENT if topic is None else TOPIC
        found = self._declared.get((group, name))
        if found is None:
            raise UnknownFieldError(self._strange(name, group), name)
        if found.reason:
            raise UnknownFieldError(f"{name} has no value here: {found.reason}", name)
        if found.stat is Stat.GAUGE:
            return self._gauges[name]()
        return self._sensor(found.sensor, topic).measure(found.stat, self._clock())

    def _strange(self, name: str, group: str) -> str:
        every = {metric.name for metric in METRICS if metric.group == group}
        if name in every:
            return f"{name} is a metric of other releases"
        remedy = f": {question.rstrip()}" if (question := meant(name, sorted(every))) else ""
        return f"{name} is not a metric in {group}{remedy}"

    def all(self, topic: Any = None) -> dict[str, float]:
        """The values of all metrics of the client or of a topic, without those that have no value
        here."""
        group = CLIENT if topic is None else TOPIC
        return {
            metric.name: self.value(metric.name, topic)
            for metric in self._declared.values()
            if metric.group == group and not metric.reason
        }
