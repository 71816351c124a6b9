"""The producer client: with a cluster in memory over a network that loses things, and alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.model import Cluster, ProducerClient, states
from epochfence.model.client.requests import CallFailedError, Produce, Record, Request
from epochfence.model.engine.errors import NotNowError, OutOfRangeError
from epochfence.spec.client.transactions import transaction_manager
from epochfence.spec.releases.features import NEWEST, RELEASED
from epochfence.tests.model.client.producers import (
    batches,
    client_of,
    initialized,
    only,
    transactional_of,
)

LOSE_REQUEST, LOSE_ANSWER, ANSWER = "lose request", "lose answer", "answer"
Faults = st.lists(st.sampled_from([LOSE_REQUEST, LOSE_ANSWER, ANSWER]), max_size=30)
Sends = st.lists(st.sampled_from(["t-0", "t-1", "run"]), min_size=1, max_size=25)


def network(client: ProducerClient, cluster: Cluster, faults: Iterator[str]) -> bool:
    """Carries what the client sends now, as far as it isn't lost; whether there was any."""
    sent = client.run()
    for request in sent:
        fault = next(faults, ANSWER)
        if fault == LOSE_REQUEST and any_sequence_starts(cluster, request):
            fault = ANSWER
        if fault == ANSWER:
            cluster.answer(client, request)
            continue
        if fault == LOSE_ANSWER:
            lose_answer(client, cluster, request)
        else:
            client.disconnect(request)
    return bool(sent)


def lose_answer(client: ProducerClient, cluster: Cluster, sent: Request | Produce) -> None:
    """The cluster takes a request, and its answer is lost."""
    deaf = ProducerClient(client.transactional_id, protocol=cluster.protocol)
    deaf.answer = _unheard  # type: ignore[method-assign]
    cluster.answer(deaf, sent)
    client.disconnect(sent)


def any_sequence_starts(cluster: Cluster, sent: Request | Produce) -> bool:
    """Whether the leader doesn't know the producer, and takes the batch behind this one as well
    (finding 2): then records get lost or are there twice if this one doesn't arrive first."""
    if not isinstance(sent, Produce) or cluster.protocol == "2.0":
        return False
    is_known = sent.producer_id in cluster.leader(sent.partition).producers
    return not is_known and not (sent.is_transactional and cluster.protocol == NEWEST)


def settle(client: ProducerClient, cluster: Cluster, faults: Iterator[str]) -> None:
    """Carries until the client has nothing to send."""
    for _ in range(200):
        if not network(client, cluster, faults):
            return
    pytest.fail("the client sends for ever")


def _unheard(*_: Any, **__: Any) -> None:
    """An answer that arrives nowhere."""


def offsets(cluster: Cluster, partition: str, *, committed: bool) -> list[int]:
    batches = cluster.fetch(partition, committed=committed)
    return [o for batch in batches for o in range(batch.base_offset, batch.last_offset + 1)]


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
    settle(client, cluster, left)
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
        settle(client, cluster, left)
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


@pytest.mark.parametrize("release", ["2.5", NEWEST])
@pytest.mark.parametrize("is_answered", [True, False])
def test_a_first_batch_behind_its_next_expires_or_the_next_is_there_twice(
    release: str, is_answered: bool
) -> None:
    """Finding 2: a leader takes any first sequence of a producer that it doesn't know."""
    cluster = Cluster(protocol=release)
    client = ProducerClient(protocol=release, delivery_timeout_ms=5_000)
    cluster.answer(client, only(client))
    records = [client.send("t-0")]
    lost = only(client)
    records.append(client.send("t-0"))
    appended = only(client)
    client.disconnect(lost)
    if is_answered:
        cluster.answer(client, appended)
    else:
        lose_answer(client, cluster, appended)
    settle(client, cluster, iter([]))
    there = offsets(cluster, "t-0", committed=False)
    if is_answered:
        assert [record.error for record in records] == ["TIMEOUT", None]
        assert there == [0]
    else:
        assert [record.offset for record in records] == [1, 2]
        assert there == [0, 1, 2]


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
    with pytest.raises(CallFailedError):
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
    assert client.topic_metrics("t")["record-retry-total"] == 0
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
    assert client.metric("record-send-total") == 50
    assert client.metric("requests-in-flight") == 0


def test_waiting_is_on_the_clock() -> None:
    client = ProducerClient(retry_backoff_ms=50)
    (asked,) = client.run()
    client.answer(asked, "COORDINATOR_LOAD_IN_PROGRESS")
    (again,) = client.run()
    assert (again.api, client.now_ms) == ("INIT_PRODUCER_ID", 50)


def test_closed_with_a_call_that_nobody_waited_for_it_stops() -> None:
    client = ProducerClient("orders")
    call = client.init_transactions()
    client.answer(only(client))
    client.answer(only(client), "TRANSACTION_ABORTABLE")
    client.close()
    assert client.run() == []
    assert call.error == "KAFKA_EXCEPTION"  # TransactionManager.close, which knows no earlier error


def test_a_closed_client_sends_none_of_the_requests_that_wait() -> None:
    """Sender.run: no batch is undrained, nothing is in flight, and no transaction is open."""
    client = ProducerClient("orders")
    call = client.init_transactions()
    client.close()
    assert client.run() == []
    assert (client.machine["state"], call.is_completed) == ("INITIALIZING", False)


def test_a_closed_client_aborts_before_it_looks_at_its_state() -> None:
    """Sender.run calls beginAbort before runOnce, which would leave the error behind it."""
    client = ProducerClient("orders")
    call = client.init_transactions()
    client.answer(only(client))
    client.run()
    client.close()
    client.answer(client.outstanding[0], "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    assert client.run() == []
    assert call.error == "KAFKA_EXCEPTION"


@pytest.mark.parametrize(
    ("release", "error", "after"),
    [("3.6", "INVALID_RECORD", ["END_TXN"]), ("3.9", "KAFKA_EXCEPTION", []),
     (NEWEST, "KAFKA_EXCEPTION", [])],
)  # fmt: skip
def test_a_closed_client_waits_for_a_result_to_be_taken_or_gives_up(
    release: str, error: str, after: list[str]
) -> None:
    """Sender.run: beginAbort raises while nobody has taken the result of the commit."""
    client = transactional_of(release)
    client.send("t-0")
    client.answer(only(client))
    batch = only(client)
    call = client.commit_transaction()
    client.answer(batch, "INVALID_RECORD")
    client.close()
    assert client.run() == []
    assert (client.machine["state"], call.error) == ("ABORTABLE_ERROR", error)
    with pytest.raises(CallFailedError, match=error):
        client.wait(call)
    assert [sent.api for sent in client.run()] == after


@pytest.mark.parametrize(
    "error", ["TRANSACTION_ABORTABLE", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]
)
@pytest.mark.parametrize("release", ["3.9", NEWEST])
def test_a_closed_client_takes_a_failed_abort_for_its_own(release: str, error: str) -> None:
    """Sender.run: beginAbort returns the result that nobody has taken, and aborts nothing."""
    client = ProducerClient("orders", protocol=release)
    call = client.init_transactions()
    client.answer(only(client))
    client.run()
    assert client.send("t-0", 2_000_000).error == "MESSAGE_TOO_LARGE"
    client.answer(client.outstanding[0], "CONCURRENT_TRANSACTIONS")
    client.run()
    with pytest.raises(CallFailedError, match="MESSAGE_TOO_LARGE"):
        client.wait(call)
    call = client.abort_transaction()
    request = only(client)
    client.close()
    client.answer(request, error)
    assert client.run() == []
    assert call.error == error
    may_go_on = error == "TRANSACTION_ABORTABLE"
    assert client.machine["state"] == ("ABORTABLE_ERROR" if may_go_on else "UNINITIALIZED")
    with pytest.raises(CallFailedError, match=error):
        client.wait(call)
    assert [sent.api for sent in client.run()] == ["INIT_PRODUCER_ID"] * may_go_on


def test_a_client_that_fails_for_want_of_an_id_gives_its_records_up() -> None:
    """TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded raises, and the next round drops."""
    client = ProducerClient()
    record = client.send("t-0")
    client.answer(only(client), "TRANSACTION_ABORTABLE")
    assert client.run() == []
    assert (client.machine["state"], record.error) == ("FATAL_ERROR", "ILLEGAL_STATE")


def test_a_closed_client_takes_no_record_whatever_its_size() -> None:
    """KafkaProducer.doSend asks first whether the client is closed."""
    client = ProducerClient()
    client.close()
    for size in (1, 2_000_000):
        with pytest.raises(CallFailedError, match="ILLEGAL_STATE"):
            client.send("t-0", size)
    assert client.machine["last_error"] is None


def test_a_batch_that_expires_as_it_is_sent_is_answered_in_vain() -> None:
    client = ProducerClient(delivery_timeout_ms=10)
    client.answer(only(client), producer_id=7, producer_epoch=0)
    record = client.send("t-0")
    client.now_ms += 10
    (sent,) = client.run()
    assert record.error == "TIMEOUT"
    client.answer(sent, base_offset=0)
    assert (record.error, record.offset) == ("TIMEOUT", -1)


def in_flight_as_the_partition_is_forgotten(release: str) -> tuple[ProducerClient, Record, Produce]:
    """A batch in flight to a partition of which an earlier one is answered UNKNOWN_PRODUCER_ID."""
    client = transactional_of(release)
    client.send("t-0")
    client.answer(only(client))
    client.answer(only(client), base_offset=0)
    client.send("t-0")
    (first,) = batches(client)
    record = client.send("t-0")
    (second,) = batches(client)
    client.answer(first, "UNKNOWN_PRODUCER_ID", log_start_offset=0)
    assert client.run() == []
    return client, record, second


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
)
@pytest.mark.parametrize("release", ["2.8", NEWEST])
def test_a_batch_whose_sequences_are_forgotten_never_goes_again(error: str, release: str) -> None:
    """RecordAccumulator.insertInSequenceOrder raises an error: the batch stays in flight."""
    client, record, sent = in_flight_as_the_partition_is_forgotten(release)
    client.answer(sent, error, log_start_offset=-1)
    assert (client.run(), record.is_done) == ([], False)
    client.now_ms += 120_000
    client.run()
    assert record.error == "TIMEOUT"


@pytest.mark.parametrize("release", ["2.8", NEWEST])
def test_a_batch_whose_sequences_are_forgotten_is_appended_in_vain(release: str) -> None:
    """TransactionManager.updateLastAckedOffset raises an error before the batch is done."""
    client, record, sent = in_flight_as_the_partition_is_forgotten(release)
    client.answer(sent, base_offset=2)
    assert (client.run(), record.is_done) == ([], False)
    assert client.machine.at("last_acked", "t-0") == -1


@pytest.mark.parametrize("sends_again", [False, True])
@pytest.mark.parametrize("version", [0, 2])
def test_a_late_acknowledgement_of_an_earlier_epoch(version: int, *, sends_again: bool) -> None:
    """TransactionManager.resetSequenceNumbers; maybeAddPartition makes an entry to note it in."""
    client = transactional_of(NEWEST, transaction_version=version)
    for _ in range(3):
        client.send("t-0")
    if version < 2:
        client.answer(only(client))
    (late,) = batches(client)
    client.now_ms += 120_000
    client.run()
    call = client.abort_transaction()
    client.answer(only(client), producer_id=7, producer_epoch=1)
    if version < 2:
        client.answer(only(client), producer_id=7, producer_epoch=1)
    client.wait(call)
    if sends_again:
        client.begin_transaction()
        client.send("t-0")
    client.answer(late, base_offset=0)
    assert client.machine.at("last_acked", "t-0") == (2 if sends_again else -1)


@pytest.mark.parametrize(("release", "is_done"), [("3.6", False), ("3.7", True)])
def test_a_duplicate_whose_sequences_are_forgotten(release: str, *, is_done: bool) -> None:
    """TxnPartitionMap.maybeUpdateLastAckedSequence needs no entry of the partition."""
    client, record, sent = in_flight_as_the_partition_is_forgotten(release)
    client.answer(sent, "DUPLICATE_SEQUENCE_NUMBER")
    assert record.is_done == is_done
    assert client.machine.at("last_acked", "t-0") == -1


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_a_batch_given_up_for_want_of_an_id_holds_the_next_ones_up(
    *, is_acknowledged: bool
) -> None:
    """Sender.maybeAbortBatches leaves it in TxnPartitionEntry's batches in flight."""
    client = ProducerClient()
    client.answer(only(client), producer_id=7, producer_epoch=32_767)
    client.send("t-0")
    (first,) = batches(client)
    client.send("t-0")
    (second,) = batches(client)
    client.answer(first, "INVALID_RECORD")
    client.answer(only(client), "CLUSTER_AUTHORIZATION_FAILED")
    client.answer(only(client), producer_id=8, producer_epoch=0)
    record = client.send("t-0")
    assert client.run() == []
    if is_acknowledged:
        client.answer(second, base_offset=0)
        assert [each.records for each in batches(client)] == [(record,)]
    else:
        client.answer(second, "INVALID_RECORD")
        client.now_ms += 120_000
        assert (client.run(), record.error) == ([], "TIMEOUT")


def test_the_version_of_transactions_is_learnt_as_init_transactions_returns() -> None:
    """KafkaProducer.initTransactions, after TransactionalRequestResult.await."""
    client = ProducerClient("orders", transaction_version=2)
    call = client.init_transactions()
    client.answer(only(client))
    client.answer(only(client), producer_id=7, producer_epoch=0)
    assert client.queue.version == 0
    client.wait(call)
    assert client.queue.version == 2


def test_what_can_not_be() -> None:
    client = ProducerClient("orders")
    with pytest.raises(CallFailedError, match="ILLEGAL_STATE"):
        client.begin_transaction()
    call = client.init_transactions()
    with pytest.raises(NotNowError):
        client.wait(call)
    with pytest.raises(CallFailedError, match="TIMEOUT"):
        client.wait(call, 10)
    (asked,) = client.run()
    client.answer(asked)
    with pytest.raises(NotNowError, match="FIND_COORDINATOR"):
        client.answer(asked)
    (asked,) = client.run()
    with pytest.raises(OutOfRangeError) as raised:
        client.answer(asked, "NO_SUCH_ERROR")
    assert raised.value.field == "error"
