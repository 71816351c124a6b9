"""client.json on a producer client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from epochfence.language import each, lift, wrap
from epochfence.model import ProducerClient
from epochfence.model.client.requests import CallFailedError, CallResult, Produce, Record, Request
from epochfence.spec.client import state
from epochfence.spec.client.batches import accumulator
from epochfence.spec.client.transactions import transaction_manager
from epochfence.spec.messages import SEQUENCE
from epochfence.tests.conformance.draft import RELEASE
from epochfence.tests.conformance.harness import Adapter, RaisedError

HALF_A_BATCH = 8_200  # bytes; two of them don't fit into one uncompressed


NO_MORE = 2**31 - 1  # attempts
MUCH_LATER = 2**62  # delivery.timeout.ms is over


def expire(client: ProducerClient, record: Record, *, is_unresolved: bool) -> None:
    """The time of a record's batch is up, all others' is not. `is_unresolved`: it has been tried
    before."""
    number, now = client.accumulator.number_of(record), client.now_ms
    client.accumulator.put(number, in_retry=is_unresolved)
    client.now_ms = MUCH_LATER
    outcome = client.machine.handle("batch expires", partition=record.partition, record=number)
    client.now_ms = now
    client.sender.fail(number, "TIMEOUT", outcome.reply)


def fail_batch(client: ProducerClient, record: Record, error: str, *, adjusts: bool) -> None:
    """A record's batch fails for good, as it may not be tried again. `adjusts`: nothing was
    appended, for sure, as it was tried once."""
    number, now = client.accumulator.number_of(record), client.now_ms
    if not adjusts:
        client.accumulator.put_details(number, attempts=NO_MORE)
    client.now_ms = MUCH_LATER
    client.sender.answer(number, error)
    client.now_ms = now


class Client(Adapter):
    """client.json"""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        splits = given.get("split_on_too_large", False)
        self.client = ProducerClient(
            given["txn_id"] if given["mode"] == "transactional" else None,
            protocol=RELEASE,
            now_ms=given.get("now_ms", 0),
            transaction_timeout_ms=given["txn_timeout_ms"],
            delivery_timeout_ms=given["delivery_timeout_ms"],
            linger_ms=given["linger_ms"],
            retries=given["retries"],
            retry_backoff_ms=given["retry_backoff_ms"],
            max_in_flight=1 if given["ordered_one_in_flight"] else 5,
            compression_ratio=0.2 if splits else None,
            transaction_version=given["transaction_version"],
            init_producer_id_version=given["init_producer_id_max_version"],
            txn_offset_commit_version=given.get("txn_offset_commit_max_version", 3),
            produce_version=given.get("produce_max_version", 11),
        )
        if splits:
            self.client.accumulator.ratios["test"] = 0.2
        self.size = HALF_A_BATCH if splits else 10
        self.unseen: list[Request | Produce] = []
        self.records: dict[str, Record] = {}
        self.results: dict[str, CallResult] = {}
        self._is_about_to_close = False
        if "state" in given:
            self._initialize(given["state"])

    def _initialize(self, state: Mapping[str, Any]) -> None:
        """Gets to a state that is given by the exchange that leads there."""
        result = None
        if self.given["mode"] == "transactional":
            result = self.client.init_transactions()
        while not self.client.producer_id >= 0:
            for request in self.client.run():
                producer = {name: state[name] for name in ("producer_id", "producer_epoch")}
                wanted = producer if request.api == "INIT_PRODUCER_ID" else {}
                self.client.answer(request, **wanted)
        if result is not None:
            self.client.wait(result)

    def perform(self, op: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if op != "commit":
            self._close()
        try:
            return super().perform(op, arguments)
        except CallFailedError as failed:
            cause = {} if failed.cause is None else {"cause": failed.cause}
            raise RaisedError(failed.error, **cause) from None

    def observe(self, name: str, wanted: Any) -> Any:
        self._close()
        return super().observe(name, wanted)

    def _close(self) -> None:
        if self._is_about_to_close:
            self._is_about_to_close = False
            self.client.close()

    # Calls ------------------------------------------------------------------------------------

    def _begun(self, handle: str, result: CallResult) -> dict[str, Any]:
        same = next((name for name, other in self.results.items() if other is result), None)
        self.results[handle] = result
        return {"same_result_as": same}

    def init_transactions(self, handle: str) -> dict[str, Any]:
        return self._begun(handle, self.client.init_transactions())

    def begin_transaction(self) -> None:
        self.client.begin_transaction()

    def commit(self, handle: str) -> dict[str, Any]:
        return self._begun(handle, self.client.commit_transaction())

    def abort(self, handle: str) -> dict[str, Any]:
        return self._begun(handle, self.client.abort_transaction())

    def add_partition(self, partition: str) -> None:
        self.client.add_partition(partition)

    def append_only(self, record: str, partition: str) -> None:
        self.records[record] = self.client.append(partition, self.size)

    def send(self, record: str, partition: str) -> None:
        self.records[record] = self.client.send(partition, self.size)

    def send_offsets(
        self, handle: str, offsets: Mapping[str, int], group: Mapping[str, Any] | None
    ) -> None:
        self.results[handle] = self.client.send_offsets(offsets, group, checks_member=False)

    def await_(self, handle: str, timeout_ms: int | None) -> None:
        result = self.results[handle]
        if timeout_ms is None and not result.is_completed:
            self.unseen += self.client.run()  # the client goes on while it is waited for
        self.client.wait(result, timeout_ms)

    def close(self, force: bool) -> None:
        """Kafka's test calls TransactionManager.beginCommit after Sender.initiateClose. With
        KafkaProducer.commitTransaction that needs two threads: the call found the client open, and
        another thread closed it. So a commit comes before the close that it follows."""
        if force:
            self.client.close(force=True)
        else:
            self._is_about_to_close = True

    def send_fails_locally(self, record: str, error: str) -> None:
        self.records[record] = self.client.fail_send(error)

    # The network ------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        before = self.client.now_ms
        self.sent = [_shown(sent) for sent in (*self.unseen, *self.client.run())]
        self.unseen.clear()
        return {"elapsed_ms": self.client.now_ms - before}

    def observe_sent(self, wanted: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """What was sent, in the order that is wanted where the order doesn't count: that of
        batches for different partitions, and of batches among requests."""
        left, found = list(self.sent), []
        for entry in wanted:
            queue = _queue(entry)
            at = next((i for i, sent in enumerate(left) if _queue(sent) == queue), None)
            if at is not None:
                found.append(left.pop(at))
        return found + left

    def deliver(
        self,
        api: str,
        error: str,
        batch_of: str | None = None,
        key_type: str | None = None,
        disconnect: bool = False,
        version_mismatch: bool = False,
        **fields: Any,
    ) -> dict[str, Any]:
        sent = next(
            request
            for request in self.client.outstanding
            if request.api == api
            and (
                (batch_of is None or self.records[batch_of] in request.records)
                if isinstance(request, Produce)
                else (key_type is None or request.fields["key_type"] == key_type)
            )
        )
        if disconnect:
            self.client.disconnect(sent)
        elif version_mismatch:
            self.client.reject_version(sent)
        else:
            self.client.answer(sent, error, **fields)
        will_retry = isinstance(sent, Produce) and any(
            held.status == "QUEUED" for held in self._batches_of(sent.records)
        )
        return {"will_retry": will_retry}

    def _batches_of(self, records: Iterable[Record]) -> list[Any]:
        accumulator = self.client.accumulator
        return [
            accumulator.held(number)
            for number, batch in accumulator.batches.items()
            if any(record in batch.records for record in records)
        ]

    def observe_next_request(self, _: Any) -> dict[str, Any] | None:
        request = self.client.next_request()
        return request and {"api": request.api, "retry_backoff_ms": request.backoff_ms}

    def sleep(self, ms: int) -> None:
        self.client.now_ms += ms

    def node_down(self, keep_in_flight: bool) -> None:
        self.client.is_node_up = False
        if not keep_in_flight:
            self.client.lose_connections()

    def node_up(self) -> None:
        self.client.is_node_up = True

    def set_broker_features(self, transaction_version: int) -> None:
        self.client.machine.put(finalized_version=transaction_version)

    def forget_broker_versions(self) -> None:
        """Versions are remembered by what they mean."""

    # Single transitions -------------------------------------------------------------------------

    def inject_error(self, severity: str, error: str) -> None:
        self.client.fail(error, is_fatal=severity == "FATAL")

    def increment_sequence(self, partition: str, by: int) -> None:
        machine = self.client.machine
        following = machine["next_sequence"]
        following[partition] = machine.value(wrap(lift(following[partition]) + by, SEQUENCE))
        machine.put(next_sequence=following)

    def request_epoch_bump(self, partition: str) -> None:
        machine = self.client.machine
        machine.put(bump_for=machine["bump_for"] | {partition})

    def expire_batch(self, batch_of: str, mark_unresolved: bool) -> None:
        expire(self.client, self.records[batch_of], is_unresolved=mark_unresolved)

    def fail_batch(self, batch_of: str, error: str, adjust_sequences: bool) -> None:
        fail_batch(self.client, self.records[batch_of], error, adjusts=adjust_sequences)

    def background_failed_batch(self, partition: str, error: str) -> None:
        machine = self.client.machine
        batches, details = machine["batches"], machine["details"]
        batches[partition] = {-1: {"status": "SENT"}}
        details[partition] = {-1: {"count": 1, "attempts": NO_MORE}}
        machine.put(batches=batches, details=details)
        machine.handle(
            "ProduceResponse", producer=0, partition=partition, record=-1, txn=0, error=error,
            base_offset=-1, log_start_offset=-1,
        )  # fmt: skip
        if self.client.machine["last_error"] == "ILLEGAL_STATE":
            raise RaisedError("ILLEGAL_STATE")

    def check(self) -> None:
        """Only looks."""

    # What can be seen ---------------------------------------------------------------------------

    def _value(self, expression: Any) -> Any:
        return self.client.machine.value(expression)

    def observe_txn_state(self, _: Any) -> str:
        return self.client.machine["state"]

    def observe_has_error(self, _: Any) -> bool:
        return self._value(transaction_manager.has_error)

    def observe_has_fatal_error(self, _: Any) -> bool:
        return self.client.machine["state"] == "FATAL_ERROR"

    def observe_last_error(self, _: Any) -> str | None:
        return self.client.machine["last_error"]

    def observe_unauthorized_topics(self, _: Any) -> list[str]:
        return self.client.unauthorized_topics

    def observe_has_producer_id(self, _: Any) -> bool:
        return self._value(transaction_manager.has_id)

    def observe_producer_id(self, _: Any) -> int:
        return self.client.producer_id

    def observe_producer_epoch(self, _: Any) -> int:
        return self.client.producer_epoch

    def observe_has_ongoing_txn(self, _: Any) -> bool:
        return self._value(transaction_manager.has_ongoing_transaction)

    def observe_is_completing(self, _: Any) -> bool:
        return self._value(transaction_manager.completing)

    def observe_has_partitions_to_add(self, _: Any) -> bool:
        machine = self.client.machine
        return bool(machine["new_partitions"] | machine["adding"])

    def observe_has_pending_offset_commits(self, _: Any) -> bool:
        return self.client.has_pending_offsets

    def observe_txn_v2_enabled(self, _: Any) -> bool:
        return self._value(transaction_manager.is_version_2)

    def observe_txn_request_in_flight(self, _: Any) -> bool:
        return self.client.machine["request_in_flight"]

    def observe_has_unresolved_sequences(self, _: Any) -> bool:
        marks = self.client.machine["unresolved"].values()
        return any(mark is not None for mark in marks)

    def observe_can_bump_epoch(self, _: Any) -> bool:
        return self._value(transaction_manager.can_bump)

    def observe_has_undrained_batches(self, _: Any) -> bool:
        return self.client.accumulator.has_undrained

    def observe_has_incomplete_batches(self, _: Any) -> bool:
        return self.client.accumulator.has_incomplete

    def observe_in_flight_produce(self, _: Any) -> int:
        return sum(isinstance(sent, Produce) for sent in self.client.outstanding)

    def observe_coordinator_known(self, _: Any) -> dict[str, bool]:
        machine = self.client.machine
        return {
            "TRANSACTION": machine["transaction_coordinator"],
            "GROUP": machine["group_coordinator"],
        }

    def observe_records(self, _: Any) -> dict[str, Any]:
        return {
            label: {
                "done": record.is_done,
                "failed": record.error is not None,
                "error": record.error,
                "offset": record.offset,
            }
            for label, record in self.records.items()
        }

    def observe_results(self, _: Any) -> dict[str, Any]:
        return {
            handle: {
                "completed": result.is_completed,
                "successful": result.is_successful,
                "acked": result.is_acknowledged,
                "error": result.error,
            }
            for handle, result in self.results.items()
        }

    def observe_partitions(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return {partition: self._partition(partition) for partition in wanted}

    def _partition(self, partition: str) -> dict[str, Any]:
        machine = self.client.machine
        held = machine.at("batches", partition)
        batches = [
            (held[number], details) for number, details in machine.at("details", partition).items()
        ]
        queued = sorted(
            (
                (batch.status == "UNSENT", batch.base_sequence, details.place)
                for batch, details in batches
                if batch.status in ("UNSENT", "QUEUED")
            ),
        )
        tracked = sorted(
            (batch.base_sequence, batch.producer_epoch)
            for batch, details in batches
            if batch.status in ("SENT", "QUEUED") and not details.is_untracked
        )
        producer_epoch = machine.at("entry_epoch", partition)
        last_acked, last_offset = (
            machine.at(name, partition) for name in ("last_acked", "last_acked_offset")
        )
        looked_at = (
            accumulator.is_send_to_partition_allowed,
            accumulator.has_stale_producer_id_and_epoch,
            state.has_tracked,
        )
        is_allowed, is_stale, has_tracked = (
            machine.value(each(state.q, function(state.q)))[partition] for function in looked_at
        )
        return {
            "next_seq": machine.at("next_sequence", partition),
            "last_acked_seq": None if last_acked < 0 else last_acked,
            "last_acked_offset": None if last_offset < 0 else last_offset,
            "in_txn": partition in machine["added"],
            "pending_add": partition in machine["new_partitions"] | machine["adding"],
            "send_allowed": is_allowed,
            "has_in_flight": has_tracked,
            "unresolved": machine.at("unresolved", partition) is not None,
            "stale": is_stale,
            "producer_id": machine.at("entry_id", partition) if producer_epoch >= 0 else -1,
            "producer_epoch": producer_epoch,
            "queued_batches": len(queued),
            "queued_seqs": [sequence for _, sequence, _ in queued],
            "in_flight_batches": [
                {"base_seq": sequence, "producer_epoch": epoch} for sequence, epoch in tracked
            ],
        }


def _queue(sent: Mapping[str, Any]) -> Any:
    """What among the things sent has an order: batches of one partition; requests."""
    return sent.get("partition") if sent["api"] == "PRODUCE" else None


def _shown(sent: Request | Produce) -> dict[str, Any]:
    """What was sent, under the names of the cases."""
    if isinstance(sent, Produce):
        return {
            "api": "PRODUCE",
            "partition": sent.partition,
            "base_seq": sent.base_sequence,
            "count": len(sent.records),
            "producer_id": sent.producer_id,
            "producer_epoch": sent.producer_epoch,
            "transactional": sent.is_transactional,
        }
    fields = dict(sent.fields)
    if "partitions" in fields:
        fields["partitions"] = sorted(fields["partitions"])
    fields["txn_id"] = fields.pop("transactional_id")
    fields["txn_timeout_ms"] = fields.pop("transaction_timeout_ms", None)
    return {"api": sent.api, **fields}


# `await` can't be a method's name
setattr(Client, "await", Client.await_)
