"""Sends that wait: for their topic's metadata, then for memory, for max.block.ms in all; and flush.

`spec.client.blocking` has the outcomes. A send that waits is a thread of its own of the
application; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ...language import Expression
from ...spec.client import blocking, calls
from ...spec.releases.client_features import close_wakes, request_limit_named
from .accumulator import Accumulator, topic_of
from .metrics import NS_PER_MS, Metrics
from .requests import CallFailedError, CallResult, Record

API_EXCEPTIONS: Final = frozenset(("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"))
"""The ApiExceptions of TransactionManager.maybeFailWithError."""


@dataclass
class Limits:
    """buffer.memory and max.request.size in bytes, max.block.ms."""

    buffer_memory: int
    max_request_size: int
    max_block_ms: int


@dataclass(eq=False)
class Waiting:
    """A send that waits: since `called_ms` in all, since `since_ms` for the present reason; of the
    bytes of memory that are `wanted` it has `held` some back by now. `adds`: the partition is still
    to be registered."""

    record: Record
    called_ms: int
    since_ms: int
    adds: bool = True
    wanted: int = 0
    held: int = 0


class Sends:
    """The sends of a client on `accumulator`. `add` registers a record's partition, `fail` makes
    the client fail with a record's error, `unknown_topics` are those without metadata."""

    def __init__(
        self, accumulator: Accumulator, limits: Limits, metrics: Metrics,
        add: Callable[[Any], None], fail: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.accumulator, self.limits, self.metrics = accumulator, limits, metrics
        self.machine = accumulator.machine
        self.unknown_topics: set[Any] = set()
        self.waiting: list[Waiting] = []
        """In the order in which they are served."""
        self._add, self._fail = add, fail
        self._flushes: list[tuple[CallResult, list[Record]]] = []

    @property
    def waiting_for_memory(self) -> int:
        """The number of sends that wait for memory."""
        return sum(waiting.record.waits_for == "memory" for waiting in self.waiting)

    def send(self, record: Record, now_ms: int) -> Record:
        """KafkaProducer.doSend. Raises CallFailedError for an exception that is no ApiException;
        other errors are the record's, as those of a record that waits are."""
        if self.machine["is_closed"]:
            self._add(record.partition)  # raises, whatever the record
        waiting = Waiting(record, now_ms, now_ms)
        if topic_of(record.partition) in self.unknown_topics:
            return self._waits(waiting, "metadata", now_ms)
        return self._enters(waiting, now_ms)

    def append(self, record: Record, now_ms: int) -> Record:
        """The part of it that puts the record into a batch."""
        return self._appends(Waiting(record, now_ms, now_ms, adds=False), now_ms)

    def _waits(self, waiting: Waiting, what: str, now_ms: int) -> Record:
        waiting.record.waits_for, waiting.since_ms = what, now_ms
        self.waiting.append(waiting)
        self._hurry()
        return waiting.record

    def flush(self, result: CallResult) -> CallResult:
        """Has all batches sent at once; the result is there when all of it has its fate.

        RecordAccumulator.beginFlush, awaitFlushCompletion
        """
        self._flushes.append((result, self.accumulator.incomplete()))
        self.settle()
        return result

    def settle(self) -> None:
        """Completes finished calls of `flush`."""
        for flush in list(self._flushes):
            result, records = flush
            if all(record.is_done for record in records):
                result.complete()
                self._flushes.remove(flush)
        self._hurry()

    def _hurry(self) -> None:
        hurries = bool(self._flushes) or self.waiting_for_memory > 0
        if hurries != self.machine["hurries"]:
            self.machine.put(hurries=hurries)

    def _enters(self, waiting: Waiting, now_ms: int) -> Record:
        """The next step of a send once the topic is known."""
        record, limits = waiting.record, self.limits
        size = record.size + blocking.BATCH_OVERHEAD
        record.message = blocking.too_large(
            size,
            limits.max_request_size,
            limits.buffer_memory,
            names_limit=self.machine.value(request_limit_named),
        )
        if record.message is not None:
            return self._fails(record, blocking.TOO_LARGE)
        if not self.machine.value(calls.appends_first):
            waiting.adds = False
            failed = self._added(record)
            if failed is not None:
                return failed
        return self._appends(waiting, now_ms)

    def _appends(self, waiting: Waiting, now_ms: int) -> Record:
        """RecordAccumulator.append, until the record is in a batch or has to wait for memory."""
        record = waiting.record
        waiting.wanted = self.accumulator.wanted(record)
        if waiting.wanted > self.limits.buffer_memory:
            self._throws(record, self.machine.value(blocking.NEVER_ENOUGH))
        if waiting.wanted > self.accumulator.free_memory:
            return self._waits(waiting, "memory", now_ms)
        return self._placed(waiting)

    def _placed(self, waiting: Waiting) -> Record:
        record = waiting.record
        error = self.accumulator.append(record)
        if error is not None:
            self._throws(record, error)
        return (self._added(record) if waiting.adds else None) or record

    def _added(self, record: Record) -> Record | None:
        """TransactionManager.maybeAddPartition; the failed record that the application gets where
        that raises an ApiException. A record that is in a batch already stays there."""
        try:
            self._add(record.partition)
        except CallFailedError as failed:
            if failed.error not in API_EXCEPTIONS:
                raise
            is_there = self.accumulator.has(record)
            returned = Record(record.partition, record.size) if is_there else record
            return self._fails(returned, failed.error)
        return None

    def _throws(self, record: Record, error: str) -> None:
        """For an exception that is no ApiException: the send itself raises it, and the client goes
        on."""
        self.metrics.record("errors")
        record.is_done, record.error = True, error
        raise CallFailedError(error)

    def _fails(self, record: Record, error: Expression | str) -> Record:
        """For an ApiException: it is the record's, and may be the client's."""
        self.metrics.record("errors")
        name = error if isinstance(error, str) else self.machine.value(error)
        record.is_done, record.error, record.waits_for = True, name, None
        self._fail(name)
        return record

    # Waiting ----------------------------------------------------------------------------------

    def go_on(self, now_ms: int) -> bool:
        """Sends go on that got the awaited metadata or memory, or have waited for too long; whether
        any."""
        found = False
        for waiting in list(self.waiting):
            found |= self._goes_on(waiting, now_ms)
        self.settle()
        return found

    def _goes_on(self, waiting: Waiting, now_ms: int) -> bool:
        is_over = now_ms - waiting.called_ms >= self.limits.max_block_ms
        if waiting.record.waits_for == "metadata":
            return self._looks_up(waiting, now_ms, is_over=is_over)
        waiting.held += self.accumulator.take(waiting.wanted - waiting.held)
        has_memory = waiting.held == waiting.wanted
        if not (has_memory or is_over):
            return False
        self._wakes(waiting, now_ms)
        if has_memory:
            self._resumed(waiting.record, lambda: self._placed(waiting))
        else:
            self.metrics.record("buffer-exhausted-records")
            self._resumed(waiting.record, lambda: self._fails(waiting.record, blocking.NO_MEMORY))
        return True

    def _looks_up(self, waiting: Waiting, now_ms: int, *, is_over: bool) -> bool:
        is_known = topic_of(waiting.record.partition) not in self.unknown_topics
        if not (is_known or is_over):
            return False
        self._leaves(waiting)
        closed = self.accumulator.closed_error
        if closed is not None:
            waiting.record.is_done, waiting.record.error = True, closed
        elif is_known:
            waited = (now_ms - waiting.since_ms) * NS_PER_MS
            self.metrics.record("metadata-wait-time-ns-total", waited)
            self._resumed(waiting.record, lambda: self._enters(waiting, now_ms))
        else:
            self._resumed(waiting.record, lambda: self._fails(waiting.record, blocking.NO_METADATA))
        return True

    def _resumed(self, record: Record, step: Callable[[], object]) -> None:
        """An error of a send that had to wait becomes its record's error: nobody else gets it."""
        try:
            step()
        except CallFailedError as failed:
            if not self.accumulator.has(record):
                record.is_done, record.error = True, failed.error

    def _wakes(self, waiting: Waiting, now_ms: int) -> None:
        """It waits for memory no longer. Other batches may use its memory."""
        self._leaves(waiting)
        self.accumulator.give_back(waiting.held)
        waited = (now_ms - waiting.since_ms) * NS_PER_MS
        self.metrics.record("bufferpool-wait-time", waited)

    def _leaves(self, waiting: Waiting) -> None:
        self.waiting.remove(waiting)
        waiting.record.waits_for = None

    def close(self, now_ms: int) -> None:
        """The client closes: who waits for memory waits no longer.

        BufferPool.close
        """
        if not self.machine.value(close_wakes):
            return
        for waiting in [one for one in self.waiting if one.record.waits_for == "memory"]:
            self._wakes(waiting, now_ms)
            self.metrics.record("errors")
            waiting.record.is_done, waiting.record.error = True, "KAFKA_EXCEPTION"
        self.settle()
