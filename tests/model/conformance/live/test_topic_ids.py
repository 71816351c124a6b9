"""TxnOffsetCommit 6, in which a topic goes by its id (KIP-1319)."""

from __future__ import annotations

from contextlib import closing

import pytest

from epochfence.model.conformance.live.cluster.apis import limits
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.conformance.live.requests import Requests
from epochfence.model.serve.server import Server


@pytest.mark.parametrize(
    ("caps", "version"), [((), 6), (("TxnOffsetCommit=5",), 5), (("Metadata=9",), 5)]
)
def test_offsets_are_committed_by_id_where_the_cluster_tells_it(
    caps: tuple[str, ...], version: int
) -> None:
    with (
        Server("4.4") as server,
        closing(LiveCluster(server.bootstrap, limited=limits((), caps))) as cluster,
    ):
        assert cluster.newest("TxnOffsetCommit") == version
        run = Requests(cluster)
        told = run.ask("InitProducerId", {"transactional_id": "a"})
        asked = {"transactional_id": "a", "producer_id": told["producer_id"], "group_id": "g"}
        of_epoch = {
            epoch: asked | {"producer_epoch": epoch} for epoch in (told["producer_epoch"], 9)
        }
        answers = [run.ask("TxnOffsetCommit", one)["error"] for one in of_epoch.values()]
        assert answers == ["NONE", "INVALID_PRODUCER_EPOCH"]
        assert server.answered["TxnOffsetCommit"] == 2
