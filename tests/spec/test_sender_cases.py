"""The sending side against what Kafka's own unit tests of it say, answer by answer."""

from __future__ import annotations

from typing import Any

from epochfence.language import instantiate
from epochfence.language.types import Value
from epochfence.model.engine.interpreter import Interpreter
from epochfence.spec.systems import shipped

FIELDS = (
    "status", "producer_id", "producer_epoch", "base_sequence", "in_retry", "sequence_reset",
    "unanswered",
)  # fmt: skip


class Client:
    """The client of the system at some release, with a leader that answers as the test says.

    `epoch`, `batch` and `next_sequence` tell its state.
    """

    def __init__(self, protocol: str, **constants: int) -> None:
        bounds = {"in_flight": 3, "faults": 6, "first_epoch": 1, **constants}
        self.machine = Interpreter(instantiate(shipped("idempotence"), protocol, bounds))
        first = next(iter(self.machine.initial_states()))
        self.state: dict[str, Any] = dict(self.machine.as_mapping(first))

    def take(self, event: str, *bound: int) -> str:
        """The row that the event takes, with these values of its own parameters."""
        full = tuple(self.state[name] for name in self.machine.names)
        for step in self.machine.steps(full):
            values = tuple(value for _, value in step.bound)[-len(bound) :] if bound else ()
            if step.action.table == event and values == bound and step.state is not None:
                self.state = dict(self.machine.as_mapping(step.state))
                return self.machine.instance.row_names[step.row].partition("/")[2]
        return ""

    def drain(self, partition: int, record: int) -> str:
        return self.take("producer.drain", partition, record)

    def drain_again(self, partition: int, record: int) -> str:
        return self.take("producer.drain", partition, record)

    def sent(self, partition: int) -> tuple[int, int]:
        """Epoch and sequence of the request that was sent last."""
        line = self._line("Produce", partition)
        return line[-1][1], line[-1][2]

    def answer(self, partition: int, record: int, error: str) -> str:
        """The leader's answer to the record's request, and the row that the client takes."""
        requests = self._line("Produce", partition)
        kept = tuple(request for request in requests if request[4] != record)
        self._put("Produce", partition, kept)
        self._put("ProduceResponse", partition, ((error, record, 0, -1, -1),))
        return self.take("producer.ProduceResponse", 0, partition)

    @property
    def epoch(self) -> Any:
        return self._of("producer_epoch")

    def batch(self, partition: int, record: int) -> dict[str, Any]:
        return dict(zip(FIELDS, self._of("batches")[partition][record], strict=True))

    def next_sequence(self, partition: int) -> int:
        return self._of("next_sequence")[partition]

    def _of(self, field: str) -> Any:
        return self.state[f"producer.{field}"][0]

    def _line(self, message: str, partition: int) -> Any:
        return self.state[f"network.{message}"][0][partition]

    def _put(self, message: str, partition: int, content: Value) -> None:
        lines = list(self.state[f"network.{message}"][0])
        lines[partition] = content
        self.state = {**self.state, f"network.{message}": (tuple(lines),)}


def test_several_in_flight_are_retried_in_order() -> None:
    """SenderTest.testIdempotenceWithMultipleInflightsRetriedInOrder."""
    client = Client("4.3")
    for record in range(3):
        client.drain(0, record)
    assert client.answer(0, 0, "NOT_ENOUGH_REPLICAS") == "retriable"
    for record in (1, 2):
        row = client.answer(0, record, "OUT_OF_ORDER_SEQUENCE_NUMBER")
        assert row == "out-of-order-behind-another"
    for record in range(3):
        assert [client.drain_again(0, other) != "" for other in range(record + 1, 3)] == (
            [False] * (2 - record)
        )
        assert client.drain_again(0, record)
        assert client.sent(0) == (1, record)
        assert client.answer(0, record, "NONE") == "acknowledged"


def test_the_first_fails_and_those_behind_it_are_numbered_anew() -> None:
    """SenderTest.testIdempotenceWithMultipleInflightsWhereFirstFailsFatallyAndSequenceOf...."""
    client = Client("4.3")
    client.drain(0, 0)
    client.drain(0, 1)
    assert client.answer(0, 0, "UNKNOWN_SERVER_ERROR") == "refused-bumps-epoch"
    # in the test both answers come before the bump
    client.answer(0, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert client.take("producer.bump epoch") == "bumped"
    assert client.drain_again(0, 1)
    assert client.sent(0) == (2, 0)
    assert client.answer(0, 1, "NONE") == "acknowledged"


def test_a_healthy_partition_goes_on_under_the_old_epoch() -> None:
    """TransactionManagerTest.testHealthyPartitionRetriesDuringEpochBump."""
    client = Client("4.3")
    for partition in (0, 1):
        client.drain(partition, 0)
        client.drain(partition, 1)
        client.answer(partition, 0, "NONE")
    row = client.answer(0, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert row == "out-of-order-bumps-epoch"
    assert client.drain(1, 2) == ""
    assert client.take("producer.bump epoch") == "bumped"
    assert client.epoch == 2
    assert client.drain_again(0, 1)
    assert client.sent(0) == (2, 0)
    assert client.drain(1, 2) == ""
    client.answer(1, 1, "NOT_ENOUGH_REPLICAS")
    assert client.drain_again(1, 1)
    assert client.sent(1) == (1, 1)
    client.answer(1, 1, "NONE")
    assert client.drain(1, 2) == "new-epoch"
    assert client.sent(1) == (2, 0)
    assert client.next_sequence(1) == 1


def test_a_later_batch_that_was_appended_resolves_those_before() -> None:
    """TransactionManagerTest.testNoProducerIdResetAfterLastInFlightBatchSucceeds."""
    client = Client("4.3")
    for record in range(3):
        client.drain(0, record)
    client.answer(0, 0, "NOT_ENOUGH_REPLICAS")
    assert client.take("producer.batch expires", 0, 0) == "in-retry-unresolved"
    assert client.take("producer.batch expires", 0, 1) == "first-attempt"
    assert client.take("producer.resolve sequences", 0) == ""
    client.answer(0, 2, "NONE")
    assert client.take("producer.resolve sequences", 0) == "all-appended"
    assert (client.epoch, client.next_sequence(0)) == (1, 3)


def test_an_expired_batch_without_others_takes_a_new_epoch() -> None:
    """TransactionManagerTest.testBumpEpochAfterTimeoutWithoutPendingInflightRequests."""
    client = Client("4.3")
    client.drain(0, 0)
    client.answer(0, 0, "NOT_ENOUGH_REPLICAS")
    assert client.take("producer.batch expires", 0, 0) == "in-retry-unresolved"
    assert client.drain(0, 1) == ""
    assert client.take("producer.resolve sequences", 0) == "order-lost-bumps-epoch"
    assert client.take("producer.bump epoch") == "bumped"
    assert (client.epoch, client.next_sequence(0)) == (2, 0)
    assert client.drain(0, 1)
    assert client.sent(0) == (2, 0)


def test_the_last_sequence_acknowledged_never_goes_back() -> None:
    """SenderTest.testCorrectHandlingOfOutOfOrderResponsesWhenSecondSucceeds."""
    client = Client("4.3")
    client.drain(0, 0)
    client.drain(0, 1)
    client.answer(0, 1, "NONE")
    client.answer(0, 0, "NONE")
    assert client.state["producer.last_acked"][0][0] == 1


def test_a_batch_in_flight_keeps_what_it_was_sent_with() -> None:
    """SenderTest.testBatchesDrainedWithOldProducerIdShouldSucceedOnSubsequentRetry."""
    client = Client("4.3")
    client.drain(0, 0)
    client.drain(1, 0)
    client.answer(1, 0, "NOT_ENOUGH_REPLICAS")
    client.answer(0, 0, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    client.take("producer.bump epoch")
    assert client.drain_again(0, 0)
    assert client.drain_again(1, 0)
    assert (client.sent(0), client.sent(1)) == ((2, 0), (1, 0))


def test_before_local_bumps_a_batch_of_an_old_producer_id_is_given_up() -> None:
    """Sender.completeBatch of 2.0: only a batch of the client's own producer id is sent again."""
    client = Client("2.0", producer_ids=2)
    client.drain(0, 0)
    client.drain(0, 1)
    row = client.answer(0, 0, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert row == "order-lost-new-id"
    assert client.answer(0, 1, "NOT_ENOUGH_REPLICAS") == "old-id-given-up"
    assert client.take("producer.producer id given out") == "new-id"
    assert client.drain(0, 2)
    assert client.batch(0, 2)["producer_id"] == 1
    assert client.sent(0) == (0, 0)
