"""Brokers in memory, with what goes between them."""

import pytest

from epochfence.model.cluster import Cluster
from epochfence.model.conformance.possible_states import PossibleStates
from epochfence.model.engine.errors import ModelError
from epochfence.model.requests import answer
from epochfence.spec.releases.features import RELEASES


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("older", [{"Produce": 10, "EndTxn": 1}, {"Produce": 11, "EndTxn": 4}])
@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_a_transaction_of_an_older_client_ends_under_its_own_version(
    release: str, older: dict[str, int], result: str
) -> None:
    """From 4.2 a marker of version 2 at the transaction's own epoch is refused, one of an older
    client's transaction isn't (KIP-1228)."""
    cluster = Cluster(protocol=release)
    producer_id, epoch = cluster.init_producer_id("orders")[1:]
    cluster.add_partitions("orders", producer_id, epoch, ["sales-0"])
    cluster.produce(
        "sales-0",
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional_id="orders",
        api_version=older["Produce"],
    )
    ended = cluster.end_txn("orders", producer_id, epoch, result, api_version=older["EndTxn"])

    assert ended.error == "NONE"
    assert cluster.coordinator.entries["orders"]["state"] == f"COMPLETE_{result}"
    leader = cluster.leader("sales-0")
    assert leader.last_stable_offset == leader.log_end_offset == 2
    assert len(cluster.fetch("sales-0")) == (result == "COMMIT")


def test_transaction_version_may_change_in_the_middle_of_a_transaction() -> None:
    """Requests do what their own version says, the coordinator's own ends what the cluster's says:
    docs/findings.md, 10."""
    cluster = Cluster(protocol="4.3")
    producer_id, epoch = cluster.init_producer_id("orders", 1000)[1:]
    cluster.produce(
        "sales-0",
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional_id="orders",
    )
    cluster.update_features(transaction_version=1)
    ended = cluster.end_txn("orders", producer_id, epoch, "COMMIT", api_version=5)
    assert (ended.error, ended.producer_epoch) == ("NONE", epoch + 1)

    cluster.skip_to_epoch("orders", 32766)
    cluster.add_partitions("orders", producer_id, 32766, ["sales-0"])
    cluster.sleep(2000)
    entry = cluster.coordinator.entries["orders"]
    assert (entry["producer_id"], entry["producer_epoch"]) == (producer_id, 32767)
    reserved = cluster.end_txn("orders", producer_id, 32766, "ABORT", api_version=5)
    assert (reserved.error, reserved.producer_epoch) == ("NONE", 32767)


def test_a_transaction_version_that_is_none_is_refused() -> None:
    cluster = Cluster(protocol="4.3")
    with pytest.raises(ModelError, match="transaction_version"):
        cluster.update_features(transaction_version=3)
    assert cluster.transaction_version == 2


ABORT = {"request": "EndTxn", "transactional_id": "orders", "result": "ABORT"}


def test_an_end_without_partitions_is_completed_later_than_it_is_answered() -> None:
    """KafkaApis answers when PrepareAbort is in the log; CompleteAbort comes after it."""
    cluster = Cluster(protocol="4.1", holds_markers=True)
    producer_id, epoch = cluster.init_producer_id("orders")[1:]
    ended = cluster.end_txn("orders", producer_id, epoch, "ABORT")
    assert (ended.error, ended.producer_epoch) == ("NONE", epoch + 1)

    assert cluster.end_txn("orders", producer_id, epoch, "ABORT").error == "CONCURRENT_TRANSACTIONS"
    assert cluster.to_complete() == ["orders"]
    cluster.deliver_markers()
    assert cluster.to_complete() == []
    assert cluster.end_txn("orders", producer_id, epoch, "ABORT") == ended


@pytest.mark.parametrize("error", ["NONE", "CONCURRENT_TRANSACTIONS"])
def test_a_system_may_be_asked_again_before_or_after_it_completes(error: str) -> None:
    states = PossibleStates("4.1", prompt=False)
    held = {"producer_id": 7, "producer_epoch": 0}
    bumped = {"error": "NONE", "producer_id": 7, "producer_epoch": 1}
    asked = {"request": "InitProducerId", "transactional_id": "orders"}
    assert states.ask(asked, {"error": "NONE", **held}) == []
    assert states.ask({**ABORT, **held}, bumped) == []
    refused = {"error": error, "producer_id": -1, "producer_epoch": -1}
    assert states.ask({**ABORT, **held}, bumped if error == "NONE" else refused) == []


HELD = {"transactional_id": "orders", "producer_id": 0, "producer_epoch": 0}
BATCH = {"request": "Produce", "partition": "t-0", **HELD, "base_sequence": 0}
AHEAD = BATCH | {"producer_epoch": 32767, "base_sequence": 1}


def _before_the_end(protocol: str) -> PossibleStates:
    """States in which a transaction has a batch."""
    states = PossibleStates(protocol, prompt=False)
    begun = {"error": "NONE", "producer_id": 0, "producer_epoch": 0}
    add = {"request": "AddPartitionsToTxn", **HELD, "partitions": ["t-0"]}
    assert states.ask({"request": "InitProducerId", "transactional_id": "orders"}, begun) == []
    assert states.ask(add, {"error": "NONE"}) == []
    assert states.ask(BATCH, {"error": "NONE", "base_offset": 0}) == []
    return states


@pytest.mark.parametrize(("protocol", "allowed"), [("3.5", 1), ("3.6", 0)])
@pytest.mark.parametrize("settled", [False, True])
def test_a_marker_may_come_between_a_look_at_a_transaction_and_the_append(
    protocol: str, allowed: int, settled: bool
) -> None:
    states = _before_the_end(protocol)
    assert states.ask(ABORT | HELD, {"error": "NONE"}) == []
    if settled:
        states.settle()
    refused = states.ask(AHEAD, {"error": "INVALID_TXN_STATE", "base_offset": -1})
    assert len(refused) == max(allowed, settled)


def test_an_answer_that_a_marker_in_between_allows_has_its_row() -> None:
    states = _before_the_end("3.6")
    states.ask(ABORT | HELD, {"error": "NONE"})
    wrong = {"error": "UNKNOWN_SERVER_ERROR", "base_offset": -1}
    why = {one["error"]: states.reasons(AHEAD, wrong, one) for one in states.ask(AHEAD, wrong)}
    race = "INVALID_TXN_STATE"
    assert why.keys() == {"INVALID_PRODUCER_EPOCH", "OUT_OF_ORDER_SEQUENCE_NUMBER", race}
    for lines in why.values():
        assert lines[0].startswith("by partition: "), why


def test_another_broker_takes_over_and_goes_on_with_what_was_decided() -> None:
    kafka = Cluster(protocol="4.3", holds_markers=True)
    held = kafka.init_producer_id("id")[1:]
    kafka.add_partitions("id", *held, ["t-0"])
    assert kafka.end_txn("id", *held, "COMMIT").error == "NONE"
    end = kafka.fail_over("id")
    assert kafka.init_producer_id("id").error == "COORDINATOR_LOAD_IN_PROGRESS"
    end()
    kafka.deliver_markers()
    assert kafka.coordinator.entries["id"]["state"] == "COMPLETE_COMMIT"
    # the marker of the term before wasn't sent any more
    assert [batch.coordinator_epoch for batch in kafka.leader("t-0").batches] == [1]


def test_a_transaction_is_timed_out_and_another_one_isn_t() -> None:
    kafka = Cluster(protocol="4.3")
    for name in ("a", "b"):
        held = kafka.init_producer_id(name)[1:]
        kafka.add_partitions(name, *held, ["t-0"])
    assert kafka.time_out("a")
    assert not kafka.time_out("a")
    assert not kafka.time_out("nobody")
    states = {name: entry["state"] for name, entry in kafka.coordinator.entries.items()}
    assert states == {"a": "COMPLETE_ABORT", "b": "ONGOING"}


def test_markers_are_held_and_let_go() -> None:
    kafka = Cluster(protocol="4.3")
    held = kafka.init_producer_id("id")[1:]
    kafka.add_partitions("id", *held, ["t-0"])
    kafka.hold_markers(True)
    kafka.end_txn("id", *held, "COMMIT")
    assert kafka.init_producer_id("id").error == "CONCURRENT_TRANSACTIONS"
    kafka.hold_markers(False)
    assert kafka.init_producer_id("id").error == "NONE"


def test_a_producer_is_forgotten_unless_its_transaction_is_open() -> None:
    kafka = Cluster(protocol="4.3")
    kafka.produce("t-0", producer_id=7, producer_epoch=0, base_sequence=0)
    _, producer_id, epoch = kafka.init_producer_id("id")
    kafka.add_partitions("id", producer_id, epoch, ["t-0"])
    kafka.produce(
        "t-0", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional_id="id"
    )
    leader = kafka.leader("t-0")
    assert [leader.expire_producer(each) for each in (7, 7, producer_id)] == [True, False, False]
    assert list(leader.producers) == [producer_id]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_fetch_has_the_last_stable_offset(release: str, is_committed: bool) -> None:
    """Before 2.1 only in read_committed (ReplicaManager.readFromLocalLog); since then,
    Partition.readRecords reads it in any case."""
    asked = {"request": "Fetch", "partition": "sales-0", "committed": is_committed}
    is_old = RELEASES.index(release) < RELEASES.index("2.1")
    told = answer(Cluster(protocol=release), asked)
    assert told["last_stable_offset"] == (-1 if is_old and not is_committed else 0)
