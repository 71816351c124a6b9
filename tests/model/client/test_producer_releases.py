"""What the producer client does otherwise in one release than in another."""

from __future__ import annotations

import pytest

from epochfence.model import Cluster, ProducerClient
from epochfence.model.client.requests import CallFailedError, CallResult, Request
from epochfence.spec.client.transactions.add_partitions import partition_step
from epochfence.spec.errors import Errors
from epochfence.spec.releases.features import NEWEST, RELEASED
from epochfence.tests.conformance.client_cases import expire
from epochfence.tests.model.client.producers import (
    batches,
    idempotent,
    initialized,
    only,
    raised,
    transactional_of,
)


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
    with pytest.raises(CallFailedError, match=error):
        client.wait(call)
    if since:
        client.init_transactions()
        assert only(client).api == "INIT_PRODUCER_ID"
    else:
        with pytest.raises(CallFailedError):
            client.init_transactions()


PARTITION_TOLD = (
    ("NONE", {"0.11.0.0": "TAKEN"}),
    ("UNKNOWN_TOPIC_OR_PARTITION", {"0.11.0.0": "REQUEST"}),
    ("TOPIC_AUTHORIZATION_FAILED", {"0.11.0.0": "UNAUTHORIZED"}),
    ("OPERATION_NOT_ATTEMPTED", {"0.11.0.0": "REFUSED"}),
    ("REQUEST_TIMED_OUT", {"0.11.0.0": "REFUSED", "3.3": "REQUEST"}),
    ("UNKNOWN_PRODUCER_ID", {"0.11.0.0": "REFUSED", "2.5": "REQUEST"}),
)


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


@pytest.mark.parametrize("release", [each for each in RELEASED if each >= "2.5"])
def test_a_client_whose_abort_failed_may_be_initialized_again_until_4_0(release: str) -> None:
    """TransactionManager.State.isTransitionValid; the partition stays in the transaction.
    InitProducerIdHandler resets sequences for a new epoch alone."""
    client = transactional_of(release)
    client.send("t-0")
    client.answer(only(client))
    client.answer(only(client), base_offset=0)
    call = client.abort_transaction()
    client.answer(only(client), "INVALID_PRODUCER_ID_MAPPING")
    with pytest.raises(CallFailedError):
        client.wait(call)
    if client.machine["state"] == "FATAL_ERROR":
        assert release >= "4.0"
        assert raised(client.init_transactions)[0] == "KAFKA_EXCEPTION"
        return
    again = client.init_transactions()
    assert client.machine["state"] == "INITIALIZING"
    client.answer(only(client), producer_id=8, producer_epoch=0)
    client.wait(again)
    client.begin_transaction()
    client.send("t-0")
    (sent,) = batches(client)
    sequence = 1 if release < "2.7" else 0  # KAFKA-12152
    assert (sent.producer_id, sent.base_sequence) == (8, sequence)


@pytest.mark.parametrize(("error", "told"), PARTITION_TOLD)
def test_what_becomes_of_a_partition_by_release(error: str, told: dict[str, str]) -> None:
    """TransactionManager.AddPartitionsToTxnHandler.handleResponse"""
    for release in RELEASED:
        machine = ProducerClient("orders", protocol=release).machine
        since = [r for r in told if RELEASED.index(r) <= RELEASED.index(release)]
        step = machine.value(partition_step(getattr(Errors, error)))
        assert step == told[since[-1]], release


@pytest.mark.parametrize("release", ["2.0", "2.5"])
def test_a_fenced_client_says_so_since_2_3(release: str) -> None:
    """TransactionManager.maybeFailWithError"""
    client = ProducerClient("orders", protocol=release)
    client.machine.put(state="FATAL_ERROR", last_error="PRODUCER_FENCED")
    with pytest.raises(CallFailedError) as failed:
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


@pytest.mark.parametrize(("release", "offset"), [("1.0", 3), ("2.1", 3), ("2.3", -1), ("2.4", -1)])
def test_what_an_old_producer_id_had_acknowledged_does_not_count(release: str, offset: int) -> None:
    """Sender.completeBatch, and from 2.3 TransactionManager.handleCompletedBatch, before 2.5"""
    client = idempotent(release)
    first, second = (client.send("t-0") and only(client) for _ in range(2))
    client.answer(first, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    client.answer(second, base_offset=3)
    assert client.machine.at("last_acked", "t-0") == -1
    assert client.machine.at("last_acked_offset", "t-0") == offset


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


@pytest.mark.parametrize("release", RELEASED)
def test_calls_out_of_turn(release: str) -> None:
    """KAFKA-13412: TransactionManager.transitionTo, handleCachedTransactionRequestResult"""
    since = RELEASED.index(release) >= RELEASED.index("3.3")
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


def aborts_and_initializes(release: str) -> tuple[ProducerClient, Request, CallResult]:
    """A client whose abort timed out, and that is initialized with EndTxn in flight; that EndTxn,
    and the call."""
    client = transactional_of(release)
    client.add_partition("t-0")
    client.answer(only(client))
    client.abort_transaction()
    end = only(client)
    assert isinstance(end, Request)
    return client, end, client.init_transactions()


@pytest.mark.parametrize("release", ["2.5", "2.8", "3.2"])
def test_an_end_makes_a_client_ready_that_initializes(release: str) -> None:
    """KAFKA-13412: TransactionManager.State.isTransitionValid. The answer to InitProducerId then
    leads to no state, and initTransactions gets no result."""
    client, end, call = aborts_and_initializes(release)
    assert client.machine["state"] == "INITIALIZING"
    client.answer(end)
    assert client.machine["state"] == "READY"
    assert not client.machine["added"]
    client.answer(only(client), producer_id=7, producer_epoch=1)
    assert client.run() == []
    assert (client.machine["state"], client.producer_epoch) == ("READY", 1)
    assert not call.is_completed


def test_a_client_that_aborts_is_not_initialized_since_3_3() -> None:
    """KAFKA-13412: TransactionManager.handleCachedTransactionRequestResult"""
    assert raised(lambda: aborts_and_initializes("3.3")) == ("ILLEGAL_STATE", None)


@pytest.mark.parametrize("release", ["2.5", "3.2"])
def test_an_earlier_end_ends_the_next_transaction(release: str) -> None:
    """KAFKA-13412: the transaction after it asks again for a partition that is asked for."""
    client = transactional_of(release)
    client.add_partition("t-0")
    client.answer(only(client))
    client.abort_transaction()
    client.init_transactions()  # it goes before EndTxn
    client.answer(only(client), producer_id=7, producer_epoch=1)
    client.begin_transaction()
    end = only(client)
    assert isinstance(end, Request)
    assert (end.api, end.fields["result"]) == ("END_TXN", "ABORT")
    client.add_partition("t-1")
    call = client.commit_transaction()
    client.answer(end)
    assert (client.machine["state"], call.is_completed) == ("READY", False)
    asked = only(client)
    assert asked.api == "ADD_PARTITIONS_TO_TXN"
    client.begin_transaction()
    client.add_partition("t-1")
    client.answer(asked)
    assert [*client.machine["new_partitions"]] == [*client.machine["added"]] != []


@pytest.mark.parametrize("release", ["2.7", "3.5"])
def test_a_send_after_an_error(release: str) -> None:
    """KafkaProducer.doSend, TransactionManager.failIfNotReadyForSend, maybeAddPartition"""
    since = release == "3.5"
    client = transactional_of(release)
    client.fail("INVALID_PRODUCER_EPOCH", is_fatal=False)
    if since:
        assert client.send("t-0").error == "INVALID_PRODUCER_EPOCH"
    else:
        wrapped = ("KAFKA_EXCEPTION", "INVALID_PRODUCER_EPOCH")
        assert raised(lambda: client.send("t-0")) == wrapped
    assert client.accumulator.has_undrained == since
    other = idempotent(release)
    other.fail("KAFKA_EXCEPTION", is_fatal=True)
    if since:
        assert raised(lambda: other.send("t-0")) == ("KAFKA_EXCEPTION", "KAFKA_EXCEPTION")
    else:
        record = other.send("t-0")
        other.run()
        assert record.error == "KAFKA_EXCEPTION"


@pytest.mark.parametrize("error", ["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"])
def test_a_send_returns_an_api_exception_and_raises_what_that_does_to_its_client(
    error: str,
) -> None:
    """KafkaProducer.doSend, TransactionManager.maybeFailWithError and maybeTransitionToErrorState:
    only a fenced client may fail once more."""
    client = transactional_of("4.4")
    client.fail(error, is_fatal=True)
    if error == "PRODUCER_FENCED":
        record = client.send("t-0")
        assert (record.is_done, record.error) == (True, error)
    else:
        assert raised(lambda: client.send("t-0")) == ("ILLEGAL_STATE", None)
    assert client.machine["state"] == "FATAL_ERROR"


@pytest.mark.parametrize("release", ["2.7", "3.5"])
def test_a_record_that_got_no_batch_fails_its_transaction_since_3_2(release: str) -> None:
    """KAFKA-9279"""
    client = transactional_of(release)
    client.fail_send("TIMEOUT")
    told = "ABORTABLE_ERROR" if release == "3.5" else "IN_TRANSACTION"
    assert client.machine["state"] == told


def test_a_record_that_fails_out_of_turn_raises_and_leaves_the_state() -> None:
    """TransactionManager.transitionTo: only the client's own thread makes that fatal."""
    client = ProducerClient("orders")
    assert raised(lambda: client.fail_send("TIMEOUT")) == ("ILLEGAL_STATE", None)
    assert client.machine["state"] == "UNINITIALIZED"


def test_after_a_record_that_fails_out_of_turn_a_new_epoch_is_needed() -> None:
    """TransactionManager.maybeTransitionToErrorState notes that before its transition fails."""
    client = initialized(Cluster(protocol="3.6"))
    assert raised(lambda: client.fail_send("TIMEOUT")) == ("ILLEGAL_STATE", None)
    assert client.machine["must_bump"]


def test_a_client_that_may_not_initialize_as_it_aborts_knows_that_error() -> None:
    """TransactionManager.InitProducerIdHandler.handleResponse"""
    client = transactional_of("3.6")
    client.send("t-0")
    client.answer(only(client))
    client.answer(only(client), base_offset=0)
    client.send("t-1")
    client.answer(only(client), "INVALID_PRODUCER_ID_MAPPING")
    client.abort_transaction()
    client.answer(only(client), "INVALID_PRODUCER_ID_MAPPING")
    client.answer(only(client), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    assert client.machine["state"] == "ABORTING_TRANSACTION"
    assert client.machine["last_error"] == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


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


@pytest.mark.parametrize("release", ["4.0.1", NEWEST])
def test_an_abort_before_there_is_a_producer_id_ends_a_client(release: str) -> None:
    """docs/findings.md, 14; TransactionManager.beginCompletingTransaction, resetTransactionState"""
    client = ProducerClient("orders", protocol=release, transaction_version=2)
    call = client.init_transactions()
    sought = only(client)
    client.send("t-0", 2_000_000)
    client.answer(sought)
    assert client.run() == []
    with pytest.raises(CallFailedError, match="MESSAGE_TOO_LARGE"):
        client.wait(call)
    end = client.abort_transaction()
    asked = only(client)
    assert asked.api == "INIT_PRODUCER_ID"
    client.answer(asked, producer_id=7, producer_epoch=0)
    assert client.run() == []
    assert end.is_successful
    assert raised(client.begin_transaction) == ("ILLEGAL_STATE", None)


@pytest.mark.parametrize("release", ["3.6", "3.9", "4.0.1"])
def test_a_commit_before_there_is_a_producer_id(release: str) -> None:
    """TransactionManager.initializeTransactions, State.isTransitionValid"""
    client = ProducerClient("orders", protocol=release)
    call = client.init_transactions()
    client.answer(only(client))
    client.disconnect(only(client))
    client.answer(only(client), "GROUP_AUTHORIZATION_FAILED")
    client.run()
    assert call.error == "GROUP_AUTHORIZATION_FAILED"
    with pytest.raises(CallFailedError):
        client.wait(call)
    call = client.abort_transaction()
    assert client.run() == []
    client.wait(call)
    assert raised(lambda: client.send("t-0", 2_000_000)) == ("ILLEGAL_STATE", None)
    client.begin_transaction()
    if release == "4.0.1":
        client.commit_transaction()
        assert client.machine["state"] == "INITIALIZING"
    else:
        assert raised(client.commit_transaction) == ("ILLEGAL_STATE", None)
        assert client.machine["state"] == "COMMITTING_TRANSACTION"
        assert client.run() == []
        assert client.machine["state"] == "FATAL_ERROR"


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
@pytest.mark.parametrize("release", ["2.2", "2.3", NEWEST])
def test_a_closed_client_ends_its_transaction_by_itself(release: str, call: str) -> None:
    """KafkaProducer.throwIfProducerClosed, Sender.run; KAFKA-6635"""
    client = transactional_of(release)
    client.send("t-0")
    client.answer(only(client))  # the partition is in the transaction
    client.close()
    if release == "2.2":
        getattr(client, call)()
        return
    assert raised(getattr(client, call)) == ("ILLEGAL_STATE", None)
    (sent,) = batches(client)
    client.answer(sent, base_offset=0)
    end = only(client)
    assert isinstance(end, Request)
    assert (end.api, end.fields["result"]) == ("END_TXN", "ABORT")
    client.answer(end)
    assert client.run() == []
    assert client.machine["state"] == "READY"


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
    if RELEASED.index(release) < RELEASED.index("2.5"):
        client.send_offsets({"t-0": 5}, group)
    else:
        assert raised(lambda: client.send_offsets({"t-0": 5}, group)) == ("ILLEGAL_ARGUMENT", None)
    client.send_offsets({"t-0": 5}, {**group, "generation": 0})
    client.send_offsets({"t-0": 5}, {**group, "member_id": "me"})


@pytest.mark.parametrize("release", ["0.11.0.0", "2.5", "3.6", "4.3"])
def test_offsets_of_a_topic_that_may_not_be_read_end_a_client(release: str) -> None:
    """Finding 15: a group that may not be read makes its transaction abortable, a topic doesn't."""
    outcomes: dict[str, str] = {}
    for error in ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"):
        client = transactional_of(release)
        sent = client.send_offsets({"t-0": 5}, {"group_id": "readers"})
        while not sent.is_completed:
            request = only(client)
            client.answer(request, error if request.api == "TXN_OFFSET_COMMIT" else "NONE")
        outcomes[error] = client.machine["state"]
    assert outcomes == {
        "GROUP_AUTHORIZATION_FAILED": "ABORTABLE_ERROR",
        "TOPIC_AUTHORIZATION_FAILED": "FATAL_ERROR",
    }


@pytest.mark.parametrize("release", RELEASED)
def test_a_client_before_2_0_1_fails_while_the_group_is_read(release: str) -> None:
    """KAFKA-7296, TransactionManager.TxnOffsetCommitHandler; 2.0 is 2.0.1."""
    states: dict[str, str] = {}
    for error in ("COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_TOPIC_OR_PARTITION"):
        client = transactional_of(release)
        client.send_offsets({"t-0": 5}, {"group_id": "readers"})
        while (request := only(client)).api != "TXN_OFFSET_COMMIT":
            client.answer(request)
        client.answer(request, error)
        states[error] = client.machine["state"]
    assert states == {
        "COORDINATOR_LOAD_IN_PROGRESS": "FATAL_ERROR"
        if release < "2" or release == "2.0.0"
        else "IN_TRANSACTION",
        "UNKNOWN_TOPIC_OR_PARTITION": "IN_TRANSACTION",
    }


@pytest.mark.parametrize("broker", ["2.5", "2.6", "3.9", "4.4"])
@pytest.mark.parametrize("release", ["0.11.0.0", "1.1", "2.0.0", "2.0", "2.1"])
def test_brokers_from_2_6_on_spare_an_old_client(release: str, broker: str) -> None:
    """KAFKA-9656: its TxnOffsetCommit is below version 2."""
    cluster, client = Cluster(protocol=broker), ProducerClient("orders", protocol=release)
    call = client.init_transactions()
    cluster.serve(client)
    client.wait(call)
    client.begin_transaction()
    cluster.fail_over_group("readers")
    client.send_offsets({"t-0": 5}, {"group_id": "readers"})
    for _ in range(5):
        for request in client.run():
            cluster.answer(client, request)
    is_fatal = (release < "2" or release == "2.0.0") and broker == "2.5"
    assert client.machine["state"] == ("FATAL_ERROR" if is_fatal else "IN_TRANSACTION")
