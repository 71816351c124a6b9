"""Brokers in memory, with what goes between them."""

import pytest

from epochfence.model.cluster import Cluster
from epochfence.model.engine.errors import ModelError
from epochfence.model.possible_states import PossibleStates
from epochfence.spec.features import RELEASES


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
        "sales-0", producer_id=producer_id, producer_epoch=epoch, base_sequence=0,
        transactional_id="orders", api_version=older["Produce"],
    )  # fmt: skip
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
        "sales-0", producer_id=producer_id, producer_epoch=epoch, base_sequence=0,
        transactional_id="orders",
    )  # fmt: skip
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
