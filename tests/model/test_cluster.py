"""Brokers in memory, with what goes between them."""

import pytest

from epochfence.model.cluster import Cluster
from epochfence.spec.features import RELEASES


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("transaction_version", [0, 1])
@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_a_transaction_of_an_older_client_ends_under_its_own_version(
    release: str, transaction_version: int, result: str
) -> None:
    """From 4.2 a marker of version 2 at the transaction's own epoch is refused, one of an older
    client's transaction isn't (KIP-1228)."""
    cluster = Cluster(protocol=release)
    producer_id, epoch = cluster.init_producer_id("orders")[1:]
    cluster.add_partitions("orders", producer_id, epoch, ["sales-0"])
    cluster.produce(
        "sales-0", producer_id=producer_id, producer_epoch=epoch, base_sequence=0,
        transactional_id="orders", transaction_version=transaction_version,
    )  # fmt: skip
    ended = cluster.end_txn(
        "orders", producer_id, epoch, result, transaction_version=transaction_version
    )

    assert ended.error == "NONE"
    assert cluster.coordinator.entries["orders"]["state"] == f"COMPLETE_{result}"
    leader = cluster.leader("sales-0")
    assert leader.last_stable_offset == leader.log_end_offset == 2
    assert len(cluster.fetch("sales-0")) == (result == "COMMIT")
