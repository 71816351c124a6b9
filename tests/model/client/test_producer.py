"""The producer client: with a cluster in memory over a network that loses things, and alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.model import Cluster, ProducerClient, states
from epochfence.model.client.accumulator import Produce, Record
from epochfence.model.client.requests import CallFailed, Request
from epochfence.model.engine.errors import NotNow, OutOfRange
from epochfence.spec.client import transaction_manager
from epochfence.spec.client.add_partitions import partition_step
from epochfence.spec.errors import Errors
from epochfence.spec.features import NEWEST, RELEASED
from epochfence.tests.conformance.client_cases import expire

LOSE_REQUEST, LOSE_ANSWER, ANSWER = "lose request", "lose answer", "answer"
Faults = st.lists(st.sampled_from([LOSE_REQUEST, LOSE_ANSWER, ANSWER]), max_size=30)
Sends = st.lists(st.sampled_from(["t-0", "t-1", "run"]), min_size=1, max_size=25)


def only(client: ProducerClient) -> Request | Produce:
    """The one thing that the client sends now."""
    (sent,) = client.run()
    return sent


def batches(client: ProducerClient) -> list[Produce]:
    """What the client sends now, which must be batches."""
    sent = client.run()
    assert all(isinstance(one, Produce) for one in sent)
    return [one for one in sent if isinstance(one, Produce)]


def network(client: ProducerClient, cluster: Cluster, faults: Iterator[str]) -> bool:
    """Carries what the client sends now, as far as it isn't lost; whether there was any."""
    sent = client.run()
    for request in sent:
        fault = next(faults, ANSWER)
        if fault == ANSWER:
            cluster.answer(client, request)
            continue
        if fault == LOSE_ANSWER:
            deaf = ProducerClient(client.transactional_id, protocol=cluster.protocol)
            deaf.answer = _unheard  # type: ignore[method-assign]
            cluster.answer(deaf, request)
        client.disconnect(request)
    return bool(sent)


def _unheard(*_: Any, **__: Any) -> None:
    """An answer that arrives nowhere."""


def offsets(cluster: Cluster, partition: str, *, committed: bool) -> list[int]:
    batches = cluster.fetch(partition, committed=committed)
    return [o for batch in batches for o in range(batch.base_offset, batch.last_offset + 1)]


def client_of(cluster: Cluster, transactional_id: str | None = None) -> ProducerClient:
    return ProducerClient(
        transactional_id, protocol=cluster.protocol,
        transaction_version=cluster.transaction_version, delivery_timeout_ms=10**9,
    )  # fmt: skip


def initialized(cluster: Cluster) -> ProducerClient:
    client = client_of(cluster, "orders")
    call = client.init_transactions()
    cluster.serve(client)
    client.wait(call)
    return client


@pytest.mark.parametrize("release", ["2.0", "2.5", NEWEST])
@settings(max_examples=15, deadline=None)
@given(sends=Sends, faults=Faults)
def test_every_record_is_there_once_and_in_order(
    release: str, sends: list[str], faults: list[str]
) -> None:
    cluster = Cluster(protocol=release)
    client, left = client_of(cluster), iter(faults)
    records: dict[str, list[Record]] = defaultdict(list)
    for step in sends:
        if step == "run":
            network(client, cluster, left)
        else:
            records[step].append(client.send(step))
    while network(client, cluster, left):
        pass
    for partition, sent in records.items():
        assert [record.error for record in sent] == [None] * len(sent)
        assert [record.offset for record in sent] == list(range(len(sent)))
        assert offsets(cluster, partition, committed=False) == list(range(len(sent)))


@pytest.mark.parametrize("release", ["2.0", "2.7", NEWEST])
@settings(max_examples=12, deadline=None)
@given(transactions=st.lists(st.tuples(Sends, st.booleans()), max_size=4), faults=Faults)
def test_committed_records_are_there_and_aborted_ones_are_not(
    release: str, transactions: list[tuple[list[str], bool]], faults: list[str]
) -> None:
    cluster = Cluster(protocol=release)
    client, left = client_of(cluster, "orders"), iter(faults)
    kept: dict[str, list[int]] = defaultdict(list)

    def finish(call: Any) -> None:
        while network(client, cluster, left):
            pass
        client.wait(call)

    finish(client.init_transactions())
    for sends, commits in transactions:
        client.begin_transaction()
        records: list[Record] = []
        for step in sends:
            if step == "run":
                network(client, cluster, left)
            else:
                records.append(client.send(step))
        finish(client.commit_transaction() if commits else client.abort_transaction())
        assert all(record.is_done for record in records)
        for record in records if commits else ():
            assert record.error is None
            kept[record.partition].append(record.offset)
    for partition in ("t-0", "t-1"):
        assert offsets(cluster, partition, committed=True) == kept[partition]


@pytest.mark.parametrize("release", ["2.0", "3.6", NEWEST])
@pytest.mark.parametrize("transactional_id", [None, "orders"])
def test_every_row_runs_on_every_release(release: str, transactional_id: str | None) -> None:
    machine = ProducerClient(transactional_id, protocol=release).machine
    without = [event for event in machine.events if not machine.rows_of(event)]
    assert without == (["bump epoch"] if release == "2.0" else [])


def test_its_states_are_those_of_transitions() -> None:
    fsm = states(ProducerClient("orders").machine)
    assert fsm.may_initTransactions()
    fsm.initTransactions()
    assert fsm.state == "INITIALIZING"
    fsm.error(error="KAFKA_EXCEPTION", is_fatal=True)
    assert fsm.state == "FATAL_ERROR"


@pytest.mark.parametrize("release", RELEASED)
def test_a_transaction_on_every_release(release: str) -> None:
    cluster = Cluster(protocol=release)
    client = initialized(cluster)
    for commits in (True, False, True):
        client.begin_transaction()
        record = client.send("t-0")
        cluster.serve(client)
        call = client.commit_transaction() if commits else client.abort_transaction()
        cluster.serve(client)
        client.wait(call)
        assert record.is_done
        assert record.error is None
    assert offsets(cluster, "t-0", committed=True) == [0, 4]
    bumps = client.machine.value(transaction_manager.adds_implicitly)
    assert client.producer_epoch == (3 if bumps else 0)


@pytest.mark.parametrize("release", ["3.6", "4.1"])
def test_a_second_client_fences_the_first(release: str) -> None:
    cluster = Cluster(protocol=release)
    first, second = client_of(cluster, "orders"), client_of(cluster, "orders")
    for client in (first, second):
        call = client.init_transactions()
        cluster.serve(client)
        client.wait(call)
    first.begin_transaction()
    record = first.send("t-0")
    cluster.serve(first)
    assert record.error is not None
    second.begin_transaction()
    with pytest.raises(CallFailed):
        first.commit_transaction()


def test_offsets_of_a_group_go_with_the_transaction() -> None:
    cluster = Cluster(protocol="4.1")
    client = initialized(cluster)
    client.begin_transaction()
    sent = client.send_offsets({"in-0": 5}, {"group_id": "readers"})
    ended = client.commit_transaction()
    cluster.serve(client)
    assert sent.is_successful
    assert ended.is_successful


def test_a_batch_that_is_too_large_is_split_and_the_next_ones_are_smaller() -> None:
    client = ProducerClient(compression_ratio=0.2, batch_size=1000)
    client.accumulator.ratios["t"] = 0.2
    client.answer(only(client), producer_id=7, producer_epoch=0)
    records = [client.send("t-0", 600) for _ in range(3)]
    (whole,) = client.run()
    client.answer(whole, "MESSAGE_TOO_LARGE")
    for at in range(3):
        (part,) = batches(client)
        assert (part.base_sequence, len(part.records)) == (at, 1)
        client.answer(part, base_offset=at, log_start_offset=0)
    assert [record.offset for record in records] == [0, 1, 2]
    assert client.metrics["batch-split-total"] == 1
    assert client.sender.topic_metrics["t"]["record-retry-total"] == 0
    for _ in range(2):
        client.send("t-0", 600)
    assert [len(part.records) for part in batches(client)] == [1, 1]


def test_batches_that_are_done_leave_nothing_behind() -> None:
    cluster = Cluster()
    client = client_of(cluster)
    for _ in range(50):
        client.send("t-0")
        cluster.serve(client)
    assert len(client.accumulator.batches) == 0
    assert not client.machine["details"]
    assert client.metrics == {"record-send-total": 50, "requests-in-flight": 0}


@pytest.mark.parametrize("release", ["2.0", "2.5"])
def test_lost_order_is_a_new_producer_id_or_a_new_epoch(release: str) -> None:
    client = ProducerClient(protocol=release)
    client.answer(only(client), producer_id=7, producer_epoch=0)
    first = client.send("t-0")
    client.answer(only(client), base_offset=0)
    second = client.send("t-0")
    client.answer(only(client), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert first.offset == 0
    if release == "2.0":
        assert only(client).api == "INIT_PRODUCER_ID"
        assert second.error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    else:
        (sent,) = batches(client)
        assert (sent.producer_id, sent.producer_epoch, sent.base_sequence) == (7, 1, 0)


def test_waiting_is_on_the_clock() -> None:
    client = ProducerClient(retry_backoff_ms=50)
    (asked,) = client.run()
    client.answer(asked, "COORDINATOR_LOAD_IN_PROGRESS")
    (again,) = client.run()
    assert (again.api, client.now_ms) == ("INIT_PRODUCER_ID", 50)


@pytest.mark.parametrize("release", RELEASED)
@pytest.mark.parametrize(
    ("transactional_id", "error"),
    [
        ("orders", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        (None, "CLUSTER_AUTHORIZATION_FAILED"),
    ],
)
def test_who_may_not_initialize_may_ask_again_from_3_6_on(
    release: str, transactional_id: str | None, error: str
) -> None:
    """TransactionManager.InitProducerIdHandler, Sender.shouldHandleAuthorizationError"""
    client = ProducerClient(transactional_id, protocol=release)
    call = None
    if transactional_id is not None:
        call = client.init_transactions()
        client.answer(only(client))
    client.answer(only(client), error)
    client.run()
    since = RELEASED.index(release) >= RELEASED.index("3.6")
    assert client.machine["last_error"] == (None if since else error)
    if call is None:  # an idempotent client asks by itself
        assert client.machine["state"] == ("INITIALIZING" if since else "FATAL_ERROR")
        return
    assert client.machine["state"] == ("UNINITIALIZED" if since else "FATAL_ERROR")
    with pytest.raises(CallFailed, match=error):
        client.wait(call)
    if since:
        client.init_transactions()
        assert only(client).api == "INIT_PRODUCER_ID"
    else:
        with pytest.raises(CallFailed):
            client.init_transactions()


@pytest.mark.parametrize("release", RELEASED)
def test_transaction_abortable_is_an_error_since_kip_890(release: str) -> None:
    """TransactionManager.InitProducerIdHandler.handleResponse: an unknown code before 3.8."""
    client = ProducerClient("orders", protocol=release)
    client.init_transactions()
    client.answer(only(client))
    client.answer(only(client), "TRANSACTION_ABORTABLE")
    if RELEASED.index(release) >= RELEASED.index("3.8"):
        told = ("ABORTABLE_ERROR", "TRANSACTION_ABORTABLE")
    else:
        told = ("FATAL_ERROR", "KAFKA_EXCEPTION")
    assert (client.machine["state"], client.machine["last_error"]) == told


def test_closed_with_a_call_that_nobody_waited_for_it_stops() -> None:
    client = ProducerClient("orders")
    call = client.init_transactions()
    client.answer(only(client))
    client.answer(only(client), "TRANSACTION_ABORTABLE")
    client.close()
    assert client.run() == []
    assert call.error == "TRANSACTION_ABORTABLE"


def test_a_batch_that_expires_as_it_is_sent_is_answered_in_vain() -> None:
    client = ProducerClient(delivery_timeout_ms=10)
    client.answer(only(client), producer_id=7, producer_epoch=0)
    record = client.send("t-0")
    client.now_ms += 10
    (sent,) = client.run()
    assert record.error == "TIMEOUT"
    client.answer(sent, base_offset=0)
    assert (record.error, record.offset) == ("TIMEOUT", -1)


def test_what_can_not_be() -> None:
    client = ProducerClient("orders")
    with pytest.raises(CallFailed, match="ILLEGAL_STATE"):
        client.begin_transaction()
    call = client.init_transactions()
    with pytest.raises(NotNow):
        client.wait(call)
    with pytest.raises(CallFailed, match="TIMEOUT"):
        client.wait(call, 10)
    (asked,) = client.run()
    client.answer(asked)
    with pytest.raises(NotNow, match="FIND_COORDINATOR"):
        client.answer(asked)
    (asked,) = client.run()
    with pytest.raises(OutOfRange) as raised:
        client.answer(asked, "NO_SUCH_ERROR")
    assert raised.value.field == "error"


_ANSWER: dict[str, Any] = {"producer": 0, "connection": 0, "producer_id": 0, "producer_epoch": -1}
_BATCH = {
    "producer": 0, "partition": "t-0", "record": 0, "txn": 0, "base_offset": -1,
    "log_start_offset": -1,
}  # fmt: skip
_TRANSACTIONAL = {
    "state": "IN_TRANSACTION", "init_version": 5, "coordinator_version": 3,
    "batches": {"t-0": {0: {"status": "SENT"}}},
    "details": {"t-0": {0: {"count": 1, "attempts": 2**31 - 1}}},
}  # fmt: skip
# What comes of an error that answers a request, from each release on: the step and the last error.
# A batch has no attempts left.
TOLD = (
    ("InitProducerIdResponse", "INVALID_PRODUCER_EPOCH",
     {"2.0": "FAIL KAFKA_EXCEPTION", "2.7": "FAIL PRODUCER_FENCED"}),
    ("EndTxnResponse", "REQUEST_TIMED_OUT", {"2.0": "FAIL KAFKA_EXCEPTION", "3.5": "RETRY None"}),
    ("EndTxnResponse", "CONCURRENT_TRANSACTIONS", {"2.0": "RETRY None"}),
    ("EndTxnResponse", "INVALID_TXN_STATE", {"2.0": "FAIL INVALID_TXN_STATE"}),
    ("AddOffsetsToTxn answered", "INVALID_TXN_STATE",
     {"2.0": "FAIL KAFKA_EXCEPTION", "3.6": "FAIL INVALID_TXN_STATE"}),
    ("AddOffsetsToTxn answered", "INVALID_PRODUCER_ID_MAPPING",
     {"2.0": "FAIL KAFKA_EXCEPTION", "2.5": "FAIL INVALID_PRODUCER_ID_MAPPING"}),
    ("AddOffsetsToTxn answered", "UNKNOWN_TOPIC_OR_PARTITION",
     {"2.0": "FAIL KAFKA_EXCEPTION", "3.5": "RETRY None"}),
    ("TxnOffsetCommit for a partition", "COORDINATOR_LOAD_IN_PROGRESS", {"2.0": "RETRY None"}),
    ("TxnOffsetCommit for a partition", "CONCURRENT_TRANSACTIONS",
     {"2.0": "FAIL KAFKA_EXCEPTION", "3.8": "RETRY None"}),
    ("TxnOffsetCommit for a partition", "INVALID_PRODUCER_EPOCH",
     {"2.0": "FAIL PRODUCER_FENCED", "2.7": "FAIL INVALID_PRODUCER_EPOCH",
      "3.6": "FAIL PRODUCER_FENCED"}),
    ("TxnOffsetCommit for a partition", "FENCED_INSTANCE_ID",
     {"2.0": "FAIL KAFKA_EXCEPTION", "2.5": "FAIL FENCED_INSTANCE_ID"}),
    ("TxnOffsetCommit for a partition", "UNKNOWN_MEMBER_ID",
     {"2.0": "FAIL KAFKA_EXCEPTION", "2.5": "FAIL COMMIT_FAILED"}),
    ("ProduceResponse", "INVALID_PRODUCER_EPOCH",
     {"2.0": "FAIL PRODUCER_FENCED", "2.7": "FAIL INVALID_PRODUCER_EPOCH"}),
    ("ProduceResponse", "TIMEOUT", {"2.0": "FAIL TIMEOUT", "4.1": "FAIL TRANSACTION_ABORTABLE"}),
    ("ProduceResponse", "INVALID_TXN_STATE",
     {"2.0": "FAIL INVALID_TXN_STATE", "4.1": "FAIL TRANSACTION_ABORTABLE"}),
)  # fmt: skip
PARTITION_TOLD = (
    ("NONE", {"2.0": "TAKEN"}),
    ("UNKNOWN_TOPIC_OR_PARTITION", {"2.0": "REQUEST"}),
    ("TOPIC_AUTHORIZATION_FAILED", {"2.0": "UNAUTHORIZED"}),
    ("OPERATION_NOT_ATTEMPTED", {"2.0": "REFUSED"}),
    ("REQUEST_TIMED_OUT", {"2.0": "REFUSED", "3.5": "REQUEST"}),
    ("UNKNOWN_PRODUCER_ID", {"2.0": "REFUSED", "2.5": "REQUEST"}),
)


@pytest.mark.parametrize(("event", "error", "told"), TOLD)
def test_what_comes_of_an_error_by_release(event: str, error: str, told: dict[str, str]) -> None:
    """TransactionManager's handlers and maybeTransitionToErrorState, KAFKA-14417, KAFKA-14278,
    KAFKA-19176; what each release says was read in its source."""
    for release in RELEASED:
        machine = ProducerClient("orders", protocol=release).machine
        machine.put(**_TRANSACTIONAL)
        fields: dict[str, Any] = {"error": error}
        if event in ("EndTxnResponse", "InitProducerIdResponse"):
            fields |= _ANSWER
        elif event == "ProduceResponse":
            fields |= _BATCH
        step = machine.handle(event, **fields).reply.step
        since = [r for r in told if RELEASED.index(r) <= RELEASED.index(release)]
        assert f"{step} {machine['last_error']}" == told[since[-1]], release


@pytest.mark.parametrize("release", ["2.5", "2.7", "3.5", "3.6"])
def test_an_end_is_sent_after_an_invalid_producer_id_mapping(release: str) -> None:
    """TransactionManager.beginCompletingTransaction: the error that it looks for has been cleared
    by transitionTo."""
    client = initialized(Cluster(protocol=release))
    client.begin_transaction()
    client.add_partition("orders-0")
    client.answer(only(client))
    client.add_partition("orders-1")
    client.answer(only(client), "INVALID_PRODUCER_ID_MAPPING")
    assert client.machine["state"] == "ABORTABLE_ERROR"
    client.abort_transaction()
    end = only(client)
    assert end.api == "END_TXN"
    client.answer(end)
    assert only(client).api == "INIT_PRODUCER_ID"


@pytest.mark.parametrize(("error", "told"), PARTITION_TOLD)
def test_what_becomes_of_a_partition_by_release(error: str, told: dict[str, str]) -> None:
    """TransactionManager.AddPartitionsToTxnHandler.handleResponse"""
    for release in RELEASED:
        machine = ProducerClient("orders", protocol=release).machine
        since = [r for r in told if RELEASED.index(r) <= RELEASED.index(release)]
        step = machine.value(partition_step(getattr(Errors, error)))
        assert step == told[since[-1]], release


@pytest.mark.parametrize("release", RELEASED)
def test_what_a_state_does_not_allow_is_fatal_since_3_6(release: str) -> None:
    """TransactionManager.transitionTo, KAFKA-14831"""
    machine = ProducerClient("orders", protocol=release).machine
    machine.put(state="READY")
    machine.handle("error", error="GROUP_AUTHORIZATION_FAILED", is_fatal=False)
    if RELEASED.index(release) >= RELEASED.index("3.6"):
        assert (machine["state"], machine["last_error"]) == ("FATAL_ERROR", "ILLEGAL_STATE")
    else:
        assert (machine["state"], machine["last_error"]) == ("READY", None)


@pytest.mark.parametrize("release", ["2.0", "2.5"])
def test_a_fenced_client_says_so_since_2_3(release: str) -> None:
    """TransactionManager.maybeFailWithError"""
    client = ProducerClient("orders", protocol=release)
    client.machine.put(state="FATAL_ERROR", last_error="PRODUCER_FENCED")
    with pytest.raises(CallFailed) as failed:
        client.begin_transaction()
    told = ("KAFKA_EXCEPTION", "PRODUCER_FENCED") if release == "2.0" else ("PRODUCER_FENCED", None)
    assert (failed.value.error, failed.value.cause) == told


@pytest.mark.parametrize(("release", "sequence"), [("2.5", 1), ("2.7", 0)])
def test_a_partition_with_nothing_in_flight_starts_again_since_2_7_1(
    release: str, sequence: int
) -> None:
    """KAFKA-12152"""
    client = ProducerClient(protocol=release)
    client.answer(only(client), producer_id=7, producer_epoch=0)
    for partition in ("t-0", "t-1"):
        client.send(partition)
        client.answer(only(client), base_offset=0)
    client.send("t-0")
    client.answer(only(client), "UNKNOWN_SERVER_ERROR")
    client.send("t-1")
    (sent,) = batches(client)
    assert (sent.producer_epoch, sent.base_sequence) == (1, sequence)


@pytest.mark.parametrize("release", ["2.5", "2.7"])
def test_the_last_batch_under_an_old_epoch_ends_its_sequences(release: str) -> None:
    """TransactionManager.handleCompletedBatch before 2.7.1, maybeUpdateProducerIdAndEpoch since"""
    client = ProducerClient(protocol=release)
    client.answer(only(client), producer_id=7, producer_epoch=0)
    for partition in ("t-0", "t-1"):
        client.send(partition)
    refused, other = batches(client)
    client.answer(refused, "UNKNOWN_SERVER_ERROR")
    client.run()
    client.answer(other, base_offset=0)
    client.send(other.partition)
    (sent,) = batches(client)
    assert (sent.producer_epoch, sent.base_sequence) == (1, 0)


def idempotent(release: str = NEWEST, **settings: Any) -> ProducerClient:
    """A client without transactional id that has its producer id."""
    client = ProducerClient(protocol=release, **settings)
    client.answer(only(client), producer_id=7, producer_epoch=0)
    return client


@pytest.mark.parametrize(("release", "waits"), [("3.6", [100, 100, 100]), ("3.7", [100, 200, 400])])
def test_a_batch_waits_longer_each_time_since_3_7(release: str, waits: list[int]) -> None:
    """KIP-580; what lingers are batches that were never sent (MemoryRecordsBuilder.isFull)."""
    client = idempotent(release, linger_ms=5_000)
    client.send("t-0")
    client.now_ms += 5_000
    sent = only(client)
    for wait in waits:
        client.answer(sent, "NOT_ENOUGH_REPLICAS")
        before = client.now_ms
        sent = only(client)
        assert client.now_ms - before == wait


def test_what_an_old_producer_id_had_acknowledged_does_not_count() -> None:
    """Sender.completeBatch before 2.5"""
    client = idempotent("2.0")
    first, second = (client.send("t-0") and only(client) for _ in range(2))
    client.answer(first, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    client.answer(second, base_offset=0)
    assert client.machine.at("last_acked", "t-0") == -1


def test_what_is_refused_under_an_old_producer_id_uses_a_sequence_of_the_new_one_twice() -> None:
    """TransactionManager.adjustSequencesDueToFailedBatch before 2.5"""
    client = idempotent("2.0")
    first, second = (client.send("t-0") and only(client) for _ in range(2))
    client.answer(first, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    client.answer(only(client), producer_id=8, producer_epoch=0)
    for _ in range(2):
        client.send("t-0")
        (sent,) = batches(client)
        assert (sent.producer_id, sent.base_sequence) == (8, 0)
        if second in client.outstanding:
            client.answer(second, "UNKNOWN_SERVER_ERROR")


def test_an_unknown_producer_id_that_is_not_tried_again_is_lost_order() -> None:
    """TransactionManager.handleFailedBatch: UnknownProducerIdException is a kind of that."""
    client = idempotent(retries=0)
    client.send("t-0")
    client.answer(only(client), "UNKNOWN_PRODUCER_ID", log_start_offset=0)
    client.send("t-0")
    (sent,) = batches(client)
    assert (sent.producer_epoch, sent.base_sequence) == (1, 0)


def test_with_version_2_lost_order_asks_for_no_epoch() -> None:
    """TransactionManager.transitionToAbortableErrorOrFatalError"""
    cluster = Cluster()
    client = initialized(cluster)
    client.begin_transaction()
    record = client.send("t-0")
    client.disconnect(only(client))
    client.run()
    expire(client, record, is_unresolved=True)
    client.run()
    assert client.machine["state"] == "ABORTABLE_ERROR"
    assert not client.machine["must_bump"]


@pytest.mark.parametrize("release", RELEASED)
def test_an_answer_does_not_bring_a_failed_client_back(release: str) -> None:
    """TransactionManager.transitionTo"""
    client = ProducerClient("orders", protocol=release)
    client.init_transactions()
    client.answer(only(client))
    asked = only(client)
    client.fail("KAFKA_EXCEPTION", is_fatal=True)
    client.answer(asked, producer_id=7, producer_epoch=0)
    assert client.machine["state"] == "FATAL_ERROR"


@pytest.mark.parametrize(
    ("release", "state"),
    [
        ("2.5", "COMMITTING_TRANSACTION"),
        ("3.5", "COMMITTING_TRANSACTION"),
        ("3.6", "FATAL_ERROR"),
        ("4.0.0", "INITIALIZING"),
    ],
)
def test_a_commit_allows_no_new_epoch_before_4_0(release: str, state: str) -> None:
    """TransactionManager.State.isTransitionValid, completeTransaction"""
    machine = ProducerClient("orders", protocol=release).machine
    machine.put(state="COMMITTING_TRANSACTION", must_bump=True)
    machine.handle("EndTxnResponse", **_ANSWER, error="NONE")
    assert machine["state"] == state


def test_an_end_tells_the_next_epoch_where_the_next_transaction_has_version_1() -> None:
    """TransactionManager.EndTxnHandler.handleResponse"""
    cluster = Cluster()
    client = initialized(cluster)
    client.begin_transaction()
    client.send("t-0")
    cluster.serve(client)
    client.machine.put(finalized_version=0)
    client.commit_transaction()
    assert client.machine["transaction_version"] < 2
    cluster.serve(client)
    assert (client.machine["state"], client.producer_epoch) == ("READY", 1)


def transactional_of(release: str, **settings: Any) -> ProducerClient:
    """A client in a transaction."""
    client = ProducerClient("orders", protocol=release, **settings)
    call = client.init_transactions()
    client.answer(only(client))
    client.answer(only(client), producer_id=7, producer_epoch=0)
    client.wait(call)
    client.begin_transaction()
    return client


def raised(call: Callable[[], object]) -> tuple[str, str | None]:
    """The error that a call raises, and its cause."""
    with pytest.raises(CallFailed) as failed:
        call()
    return failed.value.error, failed.value.cause


@pytest.mark.parametrize("release", RELEASED)
def test_calls_out_of_turn(release: str) -> None:
    """KAFKA-13412: TransactionManager.transitionTo, handleCachedTransactionRequestResult"""
    since = RELEASED.index(release) >= RELEASED.index("3.5")
    told = ("ILLEGAL_STATE", None) if since else ("KAFKA_EXCEPTION", None)
    client = transactional_of(release)
    assert raised(client.begin_transaction) == told
    assert raised(client.init_transactions) == told
    client.add_partition("t-0")
    call = client.commit_transaction()
    assert raised(client.abort_transaction) == told
    assert client.commit_transaction() is call
    client.answer(only(client))
    client.answer(only(client))
    if since:
        assert raised(client.begin_transaction) == ("ILLEGAL_STATE", None)
        client.wait(call)
    client.begin_transaction()


@pytest.mark.parametrize("release", ["2.7", "3.5"])
def test_a_send_after_an_error(release: str) -> None:
    """KafkaProducer.doSend, TransactionManager.failIfNotReadyForSend, maybeAddPartition"""
    since = release == "3.5"
    client = transactional_of(release)
    client.fail("INVALID_PRODUCER_EPOCH", is_fatal=False)
    wrapped = ("KAFKA_EXCEPTION", "INVALID_PRODUCER_EPOCH")
    told = ("INVALID_PRODUCER_EPOCH", None) if since else wrapped
    assert raised(lambda: client.send("t-0")) == told
    assert client.accumulator.has_undrained == since
    other = idempotent(release)
    other.fail("KAFKA_EXCEPTION", is_fatal=True)
    if since:
        assert raised(lambda: other.send("t-0")) == ("KAFKA_EXCEPTION", "KAFKA_EXCEPTION")
    else:
        record = other.send("t-0")
        other.run()
        assert record.error == "KAFKA_EXCEPTION"


@pytest.mark.parametrize("release", ["2.7", "3.5"])
def test_a_record_that_got_no_batch_fails_its_transaction_since_3_2(release: str) -> None:
    """KAFKA-9279"""
    client = transactional_of(release)
    client.fail_send("TIMEOUT")
    told = "ABORTABLE_ERROR" if release == "3.5" else "IN_TRANSACTION"
    assert client.machine["state"] == told


def test_a_record_that_fails_out_of_turn_changes_nothing() -> None:
    """TransactionManager.transitionTo: only the client's own thread makes that fatal."""
    client = ProducerClient("orders")
    assert raised(lambda: client.fail_send("TIMEOUT")) == ("ILLEGAL_STATE", None)
    assert client.machine["state"] == "UNINITIALIZED"


@pytest.mark.parametrize(
    ("release", "told"),
    [("2.0", None), ("2.5", "KAFKA_EXCEPTION"), ("2.7", "TRANSACTION_ABORTED")],
)
def test_what_is_left_of_a_closed_clients_transaction(release: str, told: str | None) -> None:
    """KAFKA-6635, KAFKA-10186"""
    client = transactional_of(release, linger_ms=5_000)
    record = client.send("t-0")
    client.answer(only(client))  # the partition is in the transaction
    if told is not None:
        client.abort_transaction()
        client.run()
        assert record.error == told
    else:
        client.close()
        (sent,) = batches(client)
        client.answer(sent, base_offset=0)
        assert client.run() == []
        assert client.machine["state"] == "IN_TRANSACTION"


def test_before_2_1_a_batch_expires_only_while_it_waits() -> None:
    """KIP-91; RecordAccumulator.expiredBatches, ProducerBatch.maybeExpire in 2.0"""
    client = idempotent("2.0", delivery_timeout_ms=10, request_timeout_ms=1_000)
    record = client.send("t-0")
    sent = only(client)
    client.now_ms += 10_000
    assert client.run() == []
    assert not record.is_done
    client.is_node_up = False
    client.answer(sent, "NOT_ENOUGH_REPLICAS")
    client.now_ms += 1_100
    client.run()
    assert not record.is_done
    client.now_ms += 1
    client.run()
    assert record.error == "TIMEOUT"


@pytest.mark.parametrize(("release", "epoch", "sequence"), [("3.5", 1, 0), ("3.6", 0, 1)])
def test_an_error_for_a_batch_that_was_given_up(release: str, epoch: int, sequence: int) -> None:
    """Sender.failBatch"""
    client = idempotent(release, delivery_timeout_ms=10)
    client.send("t-0")
    sent = only(client)
    client.now_ms += 10
    client.run()
    client.disconnect(sent)
    client.send("t-0")
    (sent,) = batches(client)
    assert (sent.producer_epoch, sent.base_sequence) == (epoch, sequence)


@pytest.mark.parametrize(
    ("release", "state"), [("3.5", "ABORTABLE_ERROR"), ("3.6", "IN_TRANSACTION")]
)
def test_an_error_from_the_transaction_before(release: str, state: str) -> None:
    """Sender.failBatch, TransactionManager.maybeTransitionToErrorState"""
    client = transactional_of(release, delivery_timeout_ms=10)
    client.send("t-0")
    client.answer(only(client))
    sent = only(client)
    client.now_ms += 10
    client.run()
    call = client.abort_transaction()
    while not call.is_completed:
        client.answer(only(client), producer_id=7, producer_epoch=1)
    client.wait(call)
    client.begin_transaction()
    client.disconnect(sent)
    assert client.machine["state"] == state


@pytest.mark.parametrize("release", RELEASED)
def test_a_generation_needs_its_member(release: str) -> None:
    """KafkaProducer.throwIfInvalidGroupMetadata, which came with group metadata in 2.5"""
    client = transactional_of(release)
    group = {"group_id": "group", "generation": 1, "member_id": ""}
    if release == "2.0":
        client.send_offsets({"t-0": 5}, group)
    else:
        assert raised(lambda: client.send_offsets({"t-0": 5}, group)) == ("ILLEGAL_ARGUMENT", None)
    client.send_offsets({"t-0": 5}, {**group, "generation": 0})
    client.send_offsets({"t-0": 5}, {**group, "member_id": "me"})
