"""Calls of `send` that wait for metadata and then for memory, together at most max.block.ms; and
`flush`.

`spec.client.calls.blocking` has the outcomes. Each waiting send is a separate thread of the
application. Other sends continue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ...language import Expression
from ...spec.client.calls import blocking, calls
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
    """A waiting send. It was called at `called_ms`, and waits for its present reason since
    `since_ms`. It needs `wanted` bytes of memory, and has reserved `held` of them. `adds`: the send
    must still add the partition to the transaction."""

    record: Record
    called_ms: int
    since_ms: int
    adds: bool = True
    wanted: int = 0
    held: int = 0


class Sends:
    """The sends of a client on `accumulator`. `add` adds a record's partition to the transaction.
    `fail` applies a record's error to the client. `unknown_topics` are the topics without
    metadata."""

    def __init__(
        self, accumulator: Accumulator, limits: Limits, metrics: Metrics,
        add: Callable[[Any], None], fail: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.accumulator, self.limits, self.metrics = accumulator, limits, metrics
        self.machine = accumulator.machine
        self.unknown_topics: set[Any] = set()
        self.waiting: list[Waiting] = []
        """The waiting sends; the first one gets memory first."""
        self._add, self._fail = add, fail
        self._flushes: list[tuple[CallResult, list[Record]]] = []

    @property
    def waiting_for_memory(self) -> int:
        """The number of sends that wait for memory."""
        return sum(waiting.record.waits_for == "memory" for waiting in self.waiting)

    def send(self, record: Record, now_ms: int) -> Record:
        """KafkaProducer.doSend. Raises CallFailedError for an exception that is no ApiException. An
        ApiException, or any error after a wait, becomes the record's error."""
        if self.machine["is_closed"]:
            self._add(record.partition)  # raises for every record
        waiting = Waiting(record, now_ms, now_ms)
        if topic_of(record.partition) in self.unknown_topics:
            return self._waits(waiting, "metadata", now_ms)
        return self._enters(waiting, now_ms)

    def append(self, record: Record, now_ms: int) -> Record:
        """The second part of a send: puts the record into a batch."""
        return self._appends(Waiting(record, now_ms, now_ms, adds=False), now_ms)

    def _waits(self, waiting: Waiting, what: str, now_ms: int) -> Record:
        waiting.record.waits_for, waiting.since_ms = what, now_ms
        self.waiting.append(waiting)
        self._hurry()
        return waiting.record

    def flush(self, result: CallResult) -> CallResult:
        """Sends all batches without linger. The result is complete when each of their records has
        its result.

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
        """The step of a send after the topic's metadata is known."""
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
        """RecordAccumulator.append: puts the record into a batch, or makes it wait for memory."""
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
        """TransactionManager.maybeAddPartition. If it raises an ApiException, returns the failed
        record for the application. A record that is already in a batch stays there."""
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
        """Fails a send with an exception that is no ApiException: the call raises it, and the
        client continues."""
        self.metrics.record("errors")
        record.is_done, record.error = True, error
        raise CallFailedError(error)

    def _fails(self, record: Record, error: Expression | str) -> Record:
        """Fails a send with an ApiException: the record gets the error, and the client may fail."""
        self.metrics.record("errors")
        name = error if isinstance(error, str) else self.machine.value(error)
        record.is_done, record.error, record.waits_for = True, name, None
        self._fail(name)
        return record

    # Waiting ----------------------------------------------------------------------------------

    def go_on(self, now_ms: int) -> bool:
        """Continues the sends that have their metadata or memory, or have waited for max.block.ms.
        Returns whether there was any."""
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
        """Continues a send after a wait. Its errors become the record's."""
        try:
            step()
        except CallFailedError as failed:
            if not self.accumulator.has(record):
                record.is_done, record.error = True, failed.error

    def _wakes(self, waiting: Waiting, now_ms: int) -> None:
        """Ends a wait for memory. The reserved memory is free again."""
        self._leaves(waiting)
        self.accumulator.give_back(waiting.held)
        waited = (now_ms - waiting.since_ms) * NS_PER_MS
        self.metrics.record("bufferpool-wait-time", waited)

    def _leaves(self, waiting: Waiting) -> None:
        self.waiting.remove(waiting)
        waiting.record.waits_for = None

    def close(self, now_ms: int) -> None:
        """Closes the client: sends that wait for memory fail.

        BufferPool.close
        """
        if not self.machine.value(close_wakes):
            return
        for waiting in [one for one in self.waiting if one.record.waits_for == "memory"]:
            self._wakes(waiting, now_ms)
            self.metrics.record("errors")
            waiting.record.is_done, waiting.record.error = True, "KAFKA_EXCEPTION"
        self.settle()
