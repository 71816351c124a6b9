"""Requests of older versions get the errors that their clients know, as KafkaApis and
AddPartitionsToTxnManager tell them."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.model import Cluster, ProducerClient, TransactionCoordinator
from epochfence.model.judge.judge import Finding, judge
from epochfence.model.judge.operations import Operation, Settings
from epochfence.model.requests import run
from epochfence.spec.releases import api_versions
from epochfence.spec.releases.features import KAFKA, RELEASED

NAME = {"transactional_id": "orders"}
STALE = {"producer_id": 0, "producer_epoch": 0}
INIT = {"request": "InitProducerId", **NAME}
STALE_REQUESTS = {
    "InitProducerId": {**INIT, **STALE},
    "AddPartitionsToTxn": {"request": "AddPartitionsToTxn", **NAME, **STALE, "partitions": ["t-0"]},
    "EndTxn": {"request": "EndTxn", **NAME, **STALE, "result": "ABORT"},
}
KNOWS_FENCED = {"InitProducerId": 4, "AddPartitionsToTxn": 2, "EndTxn": 2}
BEFORE_25 = RELEASED[: RELEASED.index("2.5")]
SINCE_27 = RELEASED[RELEASED.index("2.7") :]


@pytest.mark.parametrize("release", RELEASED)
@pytest.mark.parametrize("request_", STALE_REQUESTS)
def test_a_fenced_client_is_told_what_it_knows(request_: str, release: str) -> None:
    """KIP-588: InitProducerId from version 4 on, AddPartitionsToTxn and EndTxn from 2 on."""
    first = KNOWS_FENCED[request_]

    def told(**version: int) -> str:
        # two clients before it: the third one's epoch is 2, and the epoch before it doesn't count
        answers = run([INIT, INIT, INIT, STALE_REQUESTS[request_] | version], release)
        return str(answers[-1]["error"])

    newer = "PRODUCER_FENCED" if release in SINCE_27 else "INVALID_PRODUCER_EPOCH"
    if release in BEFORE_25 and request_ == "InitProducerId":  # takes no epoch
        newer = told(api_version=first - 1)
        assert newer == "NONE"
    else:
        assert told(api_version=first - 1) == "INVALID_PRODUCER_EPOCH"
    assert told(api_version=first) == told() == newer


@pytest.mark.parametrize("release", RELEASED)
def test_a_batch_outside_its_transaction_is_told_what_its_client_knows(release: str) -> None:
    """KIP-1050: TRANSACTION_ABORTABLE for Produce from version 11 on."""
    features = KAFKA.features_at(release)
    produce = {"request": "Produce", "partition": "t-0", **NAME, **STALE, "base_sequence": 0}

    def told(version: int) -> str:
        return str(run([INIT, produce | {"api_version": version}], release)[-1]["error"])

    asks = "verification" in features
    assert told(10) == ("INVALID_TXN_STATE" if asks else "NONE")
    assert told(11) == ("TRANSACTION_ABORTABLE" if "abortable_error" in features else told(10))


@pytest.mark.parametrize(
    "release", [r for r in RELEASED if "transaction_version_2" in KAFKA.features_at(r)]
)
def test_the_version_of_an_end_says_its_transaction_version(release: str) -> None:
    """KIP-890: from version 5 on an end takes a new epoch."""
    for version, epoch in ((4, 0), (5, 1)):
        coordinator = TransactionCoordinator(protocol=release)
        for partition in range(50):
            coordinator.elect(partition, 0)
        coordinator.init_producer_id("orders", 60_000)
        assert coordinator.add_partitions("orders", 0, 0, ["t-0"]) == "NONE"
        ended = coordinator.end_txn("orders", 0, 0, "COMMIT", api_version=version)
        assert ended is not None
        assert ended.error == "NONE"
        metadata = coordinator.metadata("orders")
        assert metadata is not None
        assert max(metadata.producer_epoch, ended.producer_epoch) == epoch


@pytest.mark.parametrize("broker", RELEASED)
def test_a_client_of_any_release_ends_a_transaction_with_brokers_of_any(broker: str) -> None:
    for release in RELEASED:
        cluster = Cluster(protocol=broker)
        knows_2 = "transaction_version_2" in KAFKA.features_at(release)
        client = ProducerClient(
            "orders", protocol=release, transaction_version=cluster.transaction_version * knows_2
        )
        initialized = client.init_transactions()
        cluster.serve(client)
        client.wait(initialized)
        client.begin_transaction()
        client.send("t-0")
        cluster.serve(client)
        committed = client.commit_transaction()
        cluster.serve(client)
        client.wait(committed)
        assert len(cluster.fetch("t-0")) == 1


@pytest.mark.parametrize(
    ("request_", "told", "features"),
    [
        ("InitProducerId", 4, {"producer_fenced_error"}),
        ("InitProducerId", 3, set[str]()),
        ("EndTxn", 5, {"producer_fenced_error", "transaction_version_2"}),
        ("EndTxn", 2, {"producer_fenced_error"}),
        ("Produce", 12, {"abortable_error", "transaction_version_2"}),
        ("Produce", 10, set[str]()),
        ("AddOffsetsToTxn", 2, {"producer_fenced_error", "transaction_version_2"}),
    ],
)
def test_what_a_client_knows_says_which_versions_it_sends(
    request_: str, told: int, features: set[str]
) -> None:
    assert api_versions.newest(request_, features) == told
    assert features.isdisjoint(api_versions.without(request_, told))


def fenced(error: str, **version: Any) -> list[Operation]:
    """The history of a client that another one has fenced."""

    def init(at: int, **answer: Any) -> Operation:
        return Operation("InitProducerId", {"transaction_timeout_ms": 60_000}, at, at + 1, answer)

    first = init(0, error="NONE", producer_id=7, producer_epoch=0)
    rest = [init(10 * epoch, error="NONE", producer_id=7, producer_epoch=epoch) for epoch in (1, 2)]
    late = {"producer_id": 7, "producer_epoch": 0, "result": "ABORT", **version}
    return [first, *rest, Operation("EndTxn", late, 30, 31, {"error": error})]


@pytest.mark.parametrize("release", SINCE_27)
def test_an_older_client_s_history_is_explained(release: str) -> None:
    older, newer = "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"

    def found(history: list[Operation]) -> Finding:
        return judge(history, Settings(protocol=release)).finding

    assert found(fenced(older, api_version=1)) is Finding.EXPLAINED
    assert found(fenced(newer, api_version=2)) is Finding.EXPLAINED
    assert found(fenced(newer)) is Finding.EXPLAINED
    assert found(fenced(newer, api_version=1)) is Finding.UNEXPLAINED
    assert found(fenced(older, api_version=2)) is Finding.UNEXPLAINED
