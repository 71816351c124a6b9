"""Ways that wait for one restart, and ids that come to their last epochs together."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.model.conformance.live import run
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.conformance.live.run import Run
from epochfence.model.conformance.live.suites.directed_suite import Line, Way
from epochfence.model.conformance.live.suites.parallel import at_once
from epochfence.model.conformance.possible_states import RowName
from epochfence.tests.model.conformance.live.oracle_broker import OracleBroker, running

BEGIN: Line = {
    "request": "InitProducerId",
    "transactional_id": "a",
    "transaction_timeout_ms": 60_000,
}
WHO: Line = {"transactional_id": "a", "producer_id": 0}
RESTART: Line = {"restart": True}


def test_a_restart_is_one_for_all_who_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(result: str, epoch: int = 0) -> Line:
        return {"request": "EndTxn", **WHO, "producer_epoch": epoch, "result": result}

    skipped: Line = {"skip_to_epoch": 7, "transactional_id": "a"}
    given = {
        ("LeaderAndIsr", "elected"): (BEGIN, RESTART),
        ("EndTxn", "empty-abort"): (BEGIN, RESTART, end("ABORT")),
        ("EndTxn", "complete-otherwise"): (BEGIN, RESTART, end("ABORT"), end("COMMIT")),
        ("EndTxn", "empty-commit"): (BEGIN, skipped, end("COMMIT", 7)),
        ("InitProducerId", "stale-producer"): (
            BEGIN,
            skipped,
            RESTART,
            {**BEGIN, "producer_id": 0, "producer_epoch": 3},
        ),
    }
    broker, begun = OracleBroker("4.3"), list[int]()

    def restart() -> None:
        begun.append(len(broker.kafka.coordinator.entries))
        broker.kafka.restart()

    with running(broker) as place:
        cluster = LiveCluster(place)
        made = Run(cluster, place, "4.3", restarts=restart)
        found = {
            row: Way(given[row.event, row.row])
            for row in made.report.rows
            if (row.event, row.row) in given
        }
        monkeypatch.setattr(run, "ways", lambda *_, **__: found)  # pyright: ignore
        before = len(broker.kafka.coordinator.entries)
        made.directed()
        cluster.close()
    assert found.keys() <= made.report.provoked, found.keys() - made.report.provoked
    assert [str(one.disagreement) for one in made.report.findings] == []
    assert begun == [before + len(given)], begun


def way(*lines: dict[str, Any]) -> Way:
    return Way((BEGIN, *lines))


def test_of_ways_that_hold_the_one_thread_each_has_its_turn() -> None:
    held = {**BEGIN, "held_at": "completion"}
    given = {
        "first": way(held, RESTART),
        "second": way({**BEGIN, "held_at": "append"}, RESTART),
        "third": way({"withhold_ids": True}),
        "fourth": way(held, RESTART),
        "fifth": way({"skip_to_epoch": 7, "transactional_id": "a"}),
    }
    named = {RowName("m", "e", name, ""): one for name, one in given.items()}
    turns = [[row.row for row in turn] for turn in at_once(named)]
    assert turns == [["fifth", "third"], ["second", "first"], ["fourth"], []]
