"""A producer client: takes an application's calls and brokers' answers, and returns requests and
results.

The rows are those of `spec.client`. This module has the rest of the client: the queue of requests,
the results that the application waits for, and the sending loop, whose order is Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...spec.client.batches import epochs, expiry
from ...spec.client.batches import sender as sending
from ...spec.client.calls import blocking, calls
from ...spec.client.metrics import TIMES
from ...spec.client.transactions import add_partitions, failures, requests
from ...spec.client.transactions import transaction_manager as manager
from ...spec.errors import Errors
from ...spec.releases.features import KAFKA, close_ends, transactional
from ...spec.systems.reductions.client import CLIENT_ALONE
from ..engine.errors import NotNowError, text, whole
from ..engine.machine import Machine
from .accumulator import Accumulator, topic_of
from .blocking import Limits, Sends
from .metrics import NS_PER_MS, Metrics
from .request_queue import RequestQueue
from .requests import CallFailedError, CallResult, Produce, Record, Request
from .sender import Sender

NONE = "NONE"
TABLES = (
    *calls.TABLES, calls.aborted_at_close, *requests.TABLES, *failures.TABLES,
    *sending.REAL_TABLES, *expiry.TABLES, epochs.bumped,
)  # fmt: skip
"""The steps of the client's machine."""
_PROTOCOLS = {kind: KAFKA.settling({transactional: kind}) for kind in (True, False)}


class ProducerClient:
    """A producer: transactional with a transactional id, else idempotent.

    `protocol` is the client's release. `now_ms` is the time; the caller changes it, and `run` does
    when the client backs off. Most other parameters are the producer's settings.
    `compression_ratio` is the actual compression ratio; None: no compression. The brokers'
    capabilities are the highest versions of requests and the `transaction_version`.
    `knows_topic_ids`: the metadata has the ids of all topics.

    Calls raise CallFailedError. `init_transactions`, `commit_transaction`, `abort_transaction` and
    `send_offsets` continue in the background, and return a `CallResult`. `run` returns the sent
    requests in order. The caller answers each with `answer`, `disconnect` or `reject_version`.

    Raises WrongTypeError or OutOfRangeError for an impossible setting.
    """

    def __init__(
        self, transactional_id: str | None = None, *, protocol: str | None = None, now_ms: int = 0,
        transaction_timeout_ms: int = 60_000, delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        linger_ms: int = 0, retries: int = 2**31 - 1, retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1000, batch_size: int = 16_384, max_in_flight: int = 5,
        compression_ratio: float | None = None, transaction_version: int = 0,
        init_producer_id_version: int = 5, txn_offset_commit_version: int = 6,
        produce_version: int = 12, buffer_memory: int = 33_554_432, max_block_ms: int = 60_000,
        max_request_size: int = 1_048_576,
    ) -> None:  # fmt: skip
        if transactional_id is not None:
            text("transactional_id", transactional_id)
        whole("max_in_flight", max_in_flight, 1)
        settings = {
            "delivery_timeout_ms": delivery_timeout_ms,
            "request_timeout_ms": request_timeout_ms,
            "linger_ms": linger_ms,
            "retries": retries,
            "retry_backoff_ms": retry_backoff_ms,
            "retry_backoff_max_ms": retry_backoff_max_ms,
            "in_flight": max_in_flight,
        }
        self.limits = Limits(buffer_memory, max_request_size, max_block_ms)
        for name, value in (settings | vars(self.limits) | {"batch_size": batch_size}).items():
            whole(name, value, 0)
        settings["retry_backoff_max_ms"] = max(retry_backoff_ms, retry_backoff_max_ms)
        self.machine = Machine(
            TABLES,
            _PROTOCOLS[transactional_id is not None],
            protocol=protocol,
            constants=settings,
            reductions=CLIENT_ALONE,
        )
        self.machine.put(
            init_version=init_producer_id_version,
            offsets_version=txn_offset_commit_version,
            produce_version=produce_version,
            finalized_version=transaction_version,
            keeps_order=max_in_flight == 1,
        )
        self.transactional_id = transactional_id
        self.queue = RequestQueue(
            self.machine, transactional_id, transaction_timeout_ms, retry_backoff_ms
        )
        self.accumulator = Accumulator(
            self.machine, batch_size, compression_ratio, buffer_memory, max_request_size
        )
        self._metrics = Metrics(self.machine.features, lambda: self._now_ms, self._gauges())
        self.sender = Sender(self.accumulator, self._metrics, self._react, self._is_awaited)
        self.sends = Sends(
            self.accumulator, self.limits, self._metrics, self.add_partition, self._send_failed
        )
        self.is_node_up = True
        self.knows_topic_ids = True
        self.outstanding: list[Request | Produce] = []
        self.unauthorized_topics: list[Any] = []
        self._lost: list[Request | Produce] = []
        self._is_stopped = False
        self._shuts_down = False
        self._call = CallResult()
        self._sent: list[Request | Produce] = []
        self.now_ms = now_ms

    @property
    def now_ms(self) -> int:
        """The time in ms."""
        return self._now_ms

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        self.machine.outside(clock__now=value)
        self._now_ms = value

    # Calls ------------------------------------------------------------------------------------

    def init_transactions(self) -> CallResult:
        """initTransactions"""
        if not self._begins("initTransactions"):
            self._call = self.queue.add(self.queue.init()).result
        return self._called("initTransactions", self._call)

    def begin_transaction(self) -> None:
        """beginTransaction"""
        self._begins("beginTransaction", txn=0)
        self._metrics.record(TIMES["beginTransaction"], 0)

    def commit_transaction(self) -> CallResult:
        """commitTransaction"""
        version = self.queue.version
        if not self._begins("commitTransaction"):
            self._call = self._complete_transaction("COMMIT", version)
        return self._called("commitTransaction", self._call)

    def abort_transaction(self) -> CallResult:
        """abortTransaction"""
        version = self.queue.version
        if not self._begins("abortTransaction"):
            self._call = self._complete_transaction("ABORT", version)
        return self._called("abortTransaction", self._call)

    def add_partition(self, partition: Any) -> None:
        """The first half of `send`: adds the partition to the transaction."""
        self._begins("send", partition=partition)

    def append(self, partition: Any, size: int = 100) -> Record:
        """The second half of `send`: puts a record of `size` bytes into a batch."""
        return self.sends.append(Record(partition, size), self._now_ms)

    def send(self, partition: Any, size: int = 100) -> Record:
        """Sends a record to a partition. The record takes `size` bytes of a batch.

        The send waits while its topic is in `sends.unknown_topics`, or memory is missing.
        `Record.waits_for` has the reason, and `run` continues the send. `Record.error` has the
        errors that `send` doesn't raise.
        """
        return self.sends.send(Record(partition, size), self._now_ms)

    def flush(self) -> CallResult:
        """Sends all batches without linger. The result is complete when all records have a
        result."""
        return self.sends.flush(self._called("flush", CallResult()))

    def fail_send(self, error: str) -> Record:
        """A send that fails before its record is in a batch, such as in a serializer."""
        self._metrics.record("errors")
        self._send_failed(error)
        return Record(None, 0, is_done=True, error=error)

    def _send_failed(self, error: str) -> None:
        reaction = self.machine.handle("send failed", error=error).reply
        if reaction.error == "ILLEGAL_STATE":
            raise CallFailedError(reaction.error)
        self._react(reaction)

    def send_offsets(
        self,
        offsets: Mapping[Any, int],
        group: Mapping[str, Any] | None,
        *,
        checks_member: bool = True,
    ) -> CallResult:
        """sendOffsetsToTransaction. `group` has group_id, and a member's generation, member_id and
        group_instance_id. Without `checks_member` this is TransactionManager's method, which
        doesn't check that a generation comes with a member id."""
        held = group or {}
        self._begins(
            "sendOffsetsToTransaction",
            names_group=group is not None,
            lacks_member=checks_member
            and held.get("generation", -1) > 0
            and not held.get("member_id"),
        )
        assert group is not None
        result = self._called("sendOffsetsToTransaction", CallResult())
        if self.machine.value(manager.adds_implicitly):
            self.queue.add(self.queue.offsets_request(result, offsets, group))
        else:
            request = self.queue.request("ADD_OFFSETS_TO_TXN", result, group_id=group["group_id"])
            request.fields |= {"offsets": offsets, "group": group}
            self.queue.add(request)
        return result

    def wait(self, result: CallResult, timeout_ms: int | None = None) -> None:
        """Waits for a call's result. Raises CallFailedError with the result's error. If there is no
        result, raises CallFailedError with TIMEOUT if `timeout_ms` is given, or if the call waits
        only for max.block.ms in its release and that time is over; else NotNowError, as the result
        may still come."""
        if not result.is_completed:
            if timeout_ms is None and not self._is_late(result):
                raise NotNowError("there is no result yet: run the client, and answer its requests")
            raise CallFailedError("TIMEOUT")
        if result.call and not result.is_acknowledged and result.is_successful:
            self._metrics.record(TIMES[result.call], (self._now_ms - result.called_ms) * NS_PER_MS)
        result.is_acknowledged = True
        if result is self._call:
            self.machine.handle("acknowledge call")
        if result.error is not None:
            raise CallFailedError(result.error)

    def _called(self, call: str, result: CallResult) -> CallResult:
        result.call, result.called_ms = call, self._now_ms
        return result

    def _is_late(self, result: CallResult) -> bool:
        waited = self._now_ms - result.called_ms
        may_be = result.call and self.machine.value(blocking.WAITS_SO_LONG[result.call])
        return bool(may_be and waited >= self.limits.max_block_ms)

    def close(self, *, force: bool = False) -> None:
        """Closes the client. Without `force`, `run` completes the present requests, and aborts an
        open transaction."""
        self.machine.handle("close")
        self.sends.close(self._now_ms)
        if force:
            self._is_stopped = True
            for request in self.queue.waiting:
                request.result.complete("KAFKA_EXCEPTION")
                self.fail("KAFKA_EXCEPTION", is_fatal=True)
            if self.machine["pending_call"] is not None:  # TransactionManager.close
                self._call.complete("KAFKA_EXCEPTION")
            self.sender.drop("KAFKA_EXCEPTION", undrained_only=False)

    def fail(self, error: str, *, is_fatal: bool) -> None:
        """Brings the client to its abortable or its fatal error state."""
        self._react(self.machine.handle("error", error=error, is_fatal=is_fatal).reply)

    def _begins(self, call: str, **fields: Any) -> bool:
        """Makes a call. Returns whether it continues the call before. Raises CallFailedError."""
        outcome = self.machine.handle(call, **fields)
        answer = outcome.reply
        if answer.raises is not None:
            if outcome.row == "begin-commit-without-id-invalid":
                self._complete_transaction("COMMIT", self.queue.version)
            raise CallFailedError(answer.raises, answer.cause)
        return answer.continues

    def _complete_transaction(self, result: str, version: int) -> CallResult:
        self.queue.ask_for_partitions()
        request = self.queue.request(
            "END_TXN", CallResult(), result=result, transaction_version=version
        )
        end = self.queue.add(request)
        if self.machine.value(manager.is_initializing):
            return self.queue.add(self.queue.init()).result
        if not self.machine["bump_asked"]:
            return end.result
        return self.queue.add(self.queue.init(is_bump=True)).result

    # Requests ---------------------------------------------------------------------------------

    @property
    def producer_id(self) -> int:
        """The client's producer id; -1: none."""
        return self.queue.producer_id

    @property
    def producer_epoch(self) -> int:
        """The client's producer epoch; -1: none."""
        return self.machine["producer_epoch"]

    def _react(self, reaction: Any, request: Request | None = None) -> None:
        """Applies a row's reaction to a request, or to the client alone."""
        result = request.result if request is not None else CallResult()
        match reaction.step:
            case "DONE" | "STOP":
                result.complete()
            case "FAIL":
                result.complete(reaction.error)
                if reaction.ends_call:
                    self._call.complete(reaction.error)
            case "RETRY" | "LOOK_UP" if request is not None:
                self.queue.retry(request, reaction)
            case _:
                pass

    # What is measured -------------------------------------------------------------------------

    def _gauges(self) -> dict[str, Callable[[], float]]:
        return {
            "requests-in-flight": lambda: len({_request_of(sent) for sent in self.outstanding}),
            "waiting-threads": lambda: self.sends.waiting_for_memory,
            "buffer-total-bytes": lambda: self.limits.buffer_memory,
            "buffer-available-bytes": lambda: self.accumulator.free_memory,
        }

    @property
    def metrics(self) -> dict[str, float]:
        """The values of the client's metrics, by Kafka's names. Metrics without a value here are
        missing."""
        return self._metrics.all()

    def topic_metrics(self, topic: Any) -> dict[str, float]:
        """The values of a topic's metrics; empty before a batch was sent to the topic."""
        return self._metrics.all(topic) if topic in self._metrics.topics else {}

    def metric(self, name: str, topic: Any = None) -> float:
        """The value of a metric of the client or of a topic, by Kafka's name. Raises
        UnknownFieldError, with the reason, if the release doesn't have the metric or it has no
        value here."""
        return self._metrics.value(name, topic)

    def next_request(self) -> Request | None:
        """Removes the next request from the queue, and returns it."""
        self.queue.ask_for_partitions()
        while self.queue.waiting:
            reaction = self.machine.handle(
                "next request",
                request=self.queue.waiting[0].api,
                has_incomplete_batches=self.accumulator.has_incomplete,
            ).reply
            if reaction.step == "WAIT":
                return None
            request = self.queue.waiting.pop(0)
            self._goes_on = True
            if reaction.step == "GO_ON":
                return request
            self._react(reaction, request)
            if reaction.step in ("FAIL", "STOP"):
                return None
            return self.queue.waiting.pop(0) if self.queue.waiting else None
        return None

    # The sending loop -------------------------------------------------------------------------

    def run(self) -> list[Request | Produce]:
        """Runs the sending loop until every further step needs an answer. Returns the sent
        requests."""
        self._sent = []
        while not self._stops():
            if not (self._shut_down() or self._iterate() or self._back_off()):
                break
        self.sends.settle()
        return self._sent

    def _stops(self) -> bool:
        """Whether the loop has ended. A closed client's loop ends when nothing is to be sent, no
        answer is missing and no transaction is open. Waiting requests are then never sent. After
        the client has begun to abort, only the end of the transaction counts.

        Sender.run
        """
        if self.machine["is_closed"]:
            works = self.outstanding or self._lost or self.accumulator.has_undrained
            self._is_stopped |= not (
                (works and not self._shuts_down)
                or self.machine.value(close_ends & manager.has_ongoing_transaction)
            )
        return self._is_stopped

    def _iterate(self) -> bool:
        """Runs the loop once. Returns whether anything happened."""
        self._goes_on = self.sends.go_on(self._now_ms)
        self._send_what_is_due()
        lost, self._lost = self._lost, []
        for sent in lost:
            self._goes_on = True
            self._disconnected(sent)
        return self._goes_on

    def _send_what_is_due(self) -> None:
        """Sender.runOnce"""
        machine = self.machine
        for partition, mark in list(machine["unresolved"].items()):
            if mark is not None:
                outcome = machine.attempt("resolve sequences", partition=partition)
                if outcome is not None:
                    self._goes_on = True
                    self._react(outcome.reply)
        if machine["state"] == "FATAL_ERROR":
            self._goes_on |= self.sender.drop(machine["last_error"], undrained_only=False)
            return
        given_up = machine.attempt("give up initializing")
        if given_up is not None:
            for request in self.queue.waiting:
                request.result.complete("AUTHENTICATION_FAILED")
            self.sender.drop(given_up.reply.error, undrained_only=False)
            self._react(given_up.reply)
            self._goes_on = True
            return
        self._bump()
        if machine["state"] == "FATAL_ERROR":  # runOnce raises here
            self._goes_on = True
            return
        if not self._send_request():
            self._send_batches()

    def _bump(self) -> None:
        if self.machine.attempt("bump epoch") is not None:
            self._goes_on = True
        wanted = self.machine.attempt("want a producer id")
        if wanted is not None and self.machine.value(manager.is_initializing):
            self.queue.add(self.queue.init())

    def _send_request(self) -> bool:
        """Sends a request to a coordinator, if one may go. Returns whether batches wait for it.

        Sender.maybeSendAndPollTransactionalRequest
        """
        machine = self.machine
        if machine["request_in_flight"]:
            return True
        if machine.value(manager.drops_undrained):
            reason = machine.value(manager.reason_to_drop)
            self._goes_on |= self.sender.drop(reason, undrained_only=True)
        request = self.next_request()
        if request is None:
            return False
        member = request.fields
        reaction = machine.handle(
            "send request",
            request=request.api,
            is_node_up=self.is_node_up,
            names_member=member.get("generation", -1) != -1
            or bool(member.get("member_id"))
            or member.get("group_instance_id") is not None,
            knows_topic_ids=self.knows_topic_ids,
        ).reply
        if reaction.step != "SEND":
            self._goes_on = self.is_node_up or reaction.step != "RETRY"
            self._react(reaction, request)
            return True
        if request.is_retry:
            self.now_ms += request.backoff_ms
        if reaction.version:
            request.fields["version"] = reaction.version
        self._send(request)
        return True

    def _send(self, request: Request | Produce) -> None:
        self._goes_on = True
        self._sent.append(request)
        self.outstanding.append(request)

    def _send_batches(self) -> None:
        """Sender.sendProducerData"""
        if self.is_node_up:
            is_transactional = self.transactional_id is not None
            sent = self.sender.drain(is_transactional=is_transactional, version=self.queue.version)
            for produce in sent:
                self._send(produce)
        self._goes_on |= self.sender.expire()

    def _is_awaited(self, batch: int) -> bool:
        in_flight = (*self.outstanding, *self._lost)
        return any(isinstance(sent, Produce) and sent.batch == batch for sent in in_flight)

    def _shut_down(self) -> bool:
        """Aborts the open transaction of a closed client that has sent everything.

        Sender.run
        """
        machine = self.machine
        self._shuts_down |= machine["is_closed"] and not (
            self.accumulator.has_undrained or self.outstanding or self._lost or self.queue.waiting
        )
        row = machine.may("abort as it closes") if self._shuts_down else None
        if row is None:
            return False
        if row.startswith("goes-round"):
            machine.handle("abort as it closes")
            return False
        if row == "force-close":
            self._iterate()
            self.close(force=True)
            return True
        version = self.queue.version
        machine.handle("abort as it closes")
        self._call = self._complete_transaction("ABORT", version)
        self._iterate()
        return True

    def _back_off(self) -> bool:
        """Moves the clock to the end of a batch's backoff, if a batch waits for it. Returns whether
        one did."""
        if not self.is_node_up or self.machine["request_in_flight"]:
            return False
        due = self.accumulator.next_retry_ms(self.now_ms)
        if due is not None:
            self.now_ms = due
        return due is not None

    # Answers ----------------------------------------------------------------------------------

    def answer(
        self, sent: Request | Produce, error: str = NONE, *, producer_id: int = -1,
        producer_epoch: int = -1, partition_errors: Mapping[Any, str] | None = None,
        base_offset: int = -1, log_start_offset: int = -1,
    ) -> None:  # fmt: skip
        """Takes the answer to a sent request, with an error for each partition (`partition_errors`)
        or one for all. Raises NotNowError for a request that was answered before."""
        self._take(sent)
        if isinstance(sent, Produce):
            self.sender.answer(sent.batch, error, base_offset, log_start_offset)
            if all(_request_of(other) != _request_of(sent) for other in self.outstanding):
                self._metrics.record("request-time", self._now_ms - sent.sent_ms)
            self.sends.settle()
            return
        match sent.api:
            case "ADD_PARTITIONS_TO_TXN":
                errors = dict.fromkeys(sent.fields["partitions"], error)
                self._partitions_answered(sent, partition_errors or errors)
            case "TXN_OFFSET_COMMIT":
                errors = dict.fromkeys(sent.fields["offsets"], error)
                self._offsets_answered(sent, partition_errors or errors)
            case api:
                fields: dict[str, Any] = {"error": error}
                if api in _RESPONSES:
                    fields |= {"producer": _ME, "connection": 0}
                if api in ("INIT_PRODUCER_ID", "END_TXN"):
                    fields |= {"producer_id": max(producer_id, 0), "producer_epoch": producer_epoch}
                elif api == "FIND_COORDINATOR":
                    fields["coordinator"] = sent.fields["key_type"]
                reaction = self.machine.handle(_EVENTS[api], **fields).reply
                self._react(reaction, sent)
                if reaction.step == "GO_ON" and api == "END_TXN":
                    sent.result.complete()
                elif reaction.step == "GO_ON":
                    held = sent.fields
                    self.queue.add(
                        self.queue.offsets_request(sent.result, held["offsets"], held["group"])
                    )

    def disconnect(self, sent: Request | Produce) -> None:
        """Notes that the connection closed before the answer."""
        self._take(sent)
        self._disconnected(sent)

    def lose_connections(self) -> None:
        """Closes all connections. `run` handles this after it has sent everything possible."""
        self._lost += self.outstanding
        self.outstanding.clear()

    def _disconnected(self, sent: Request | Produce) -> None:
        if isinstance(sent, Produce):
            self.sender.answer(sent.batch, "NETWORK_EXCEPTION")
        else:
            self._react(self.machine.handle("answer lost", request=sent.api).reply, sent)

    def reject_version(self, sent: Request | Produce) -> None:
        """Notes that the broker doesn't support the needed version of the request."""
        self._take(sent)
        if isinstance(sent, Produce):
            self.sender.answer(sent.batch, "UNSUPPORTED_VERSION")
        else:
            self._react(self.machine.handle("version mismatch", request=sent.api).reply, sent)

    def _take(self, sent: Request | Produce) -> None:
        if sent not in self.outstanding:
            raise NotNowError(f"{sent.api} doesn't wait for an answer")
        self.outstanding.remove(sent)

    def _partitions_answered(self, request: Request, errors: Mapping[Any, str]) -> None:
        outcome = NONE
        for error in errors.values():
            code = getattr(Errors, error)
            step = self.machine.value(add_partitions.partition_step(code))
            if step == "REQUEST":
                outcome = error
                break
            if step == "UNAUTHORIZED" or (step == "REFUSED" and outcome == NONE):
                outcome = error
        reactions = [
            self.machine.handle(
                "AddPartitionsToTxnResponse",
                producer=_ME,
                connection=0,
                partition=partition,
                error=outcome,
            ).reply
            for partition in errors
        ]
        if outcome == "TOPIC_AUTHORIZATION_FAILED":
            self.unauthorized_topics = sorted(
                {topic_of(p) for p, error in errors.items() if error == outcome}
            )
        self._react(reactions[-1], request)

    def _offsets_answered(self, request: Request, errors: Mapping[Any, str]) -> None:
        self.machine.put(request_in_flight=False)
        is_looked_up = False
        for partition, error in errors.items():
            reaction = self.machine.handle("TxnOffsetCommit for a partition", error=error).reply
            if reaction.step == "DONE":
                self.queue.offsets.pop(partition, None)
            elif reaction.step == "LOOK_UP" and not is_looked_up:
                is_looked_up = True
                self.queue.look_up_for(request)
            elif reaction.step == "FAIL":
                self._react(reaction, request)
                break
        if request.result.is_completed:
            self.queue.offsets.clear()
        elif not self.queue.offsets:
            request.result.complete()
        else:
            request.is_retry = True
            self.queue.add(request)

    @property
    def has_pending_offsets(self) -> bool:
        """Whether a group's offsets wait to be committed."""
        return bool(self.queue.offsets)


def _request_of(sent: Request | Produce) -> tuple[str, int]:
    """The key of a request. Batches of one Produce have the same key."""
    return sent.api, sent.request if isinstance(sent, Produce) else id(sent)


_EVENTS = {
    "FIND_COORDINATOR": "FindCoordinator answered",
    "INIT_PRODUCER_ID": "InitProducerIdResponse",
    "ADD_OFFSETS_TO_TXN": "AddOffsetsToTxn answered",
    "END_TXN": "EndTxnResponse",
}
_RESPONSES, _ME = {"INIT_PRODUCER_ID", "END_TXN"}, 0
"""The requests whose answers are also messages in the systems, and so name a client and its
connection."""
