"""Markers where coordinators aren't in their first term: the brokers were restarted before."""

from __future__ import annotations

from epochfence.model.conformance.live.broker import BrokerSystem
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.conformance.session import Session
from epochfence.tests.model.conformance.live.oracle_broker import OracleBroker, running


def test_markers_are_of_the_term_that_the_run_began_in() -> None:
    with running(OracleBroker("4.3", term=2)) as place:
        cluster = LiveCluster(place)
        session = Session(BrokerSystem(cluster), "4.3")
        name = {"transactional_id": "a"}
        told = session.ask("InitProducerId", **name, transaction_timeout_ms=60_000)
        assert told is not None
        who = {"producer_id": told["producer_id"], "producer_epoch": told["producer_epoch"]}
        batch = {"partition": "t-0", "base_sequence": 0, "count": 1}
        session.ask("Produce", **name, **who, **batch)
        session.ask("EndTxn", **name, **who, result="COMMIT")
        marker = {"partition": "t-0", "producer_id": who["producer_id"], "result": "ABORT"}
        of_term, before = (
            session.ask(
                "WriteTxnMarkers",
                **marker,
                producer_epoch=1,
                coordinator_epoch=epoch,
                api_version=1,
            )
            for epoch in (0, -1)
        )
        cluster.close()
    assert of_term == {"error": "NONE"}
    assert before == {"error": "TRANSACTION_COORDINATOR_FENCED"}
