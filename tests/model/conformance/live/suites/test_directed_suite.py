"""The ways to rows: they are there, they lead there, and a client could go them."""

from __future__ import annotations

from functools import cache

import pytest

from epochfence.model.cluster import Cluster
from epochfence.model.conformance.live.suites.directed_suite import Way, existing, variants, ways
from epochfence.model.conformance.possible_states import RowName
from epochfence.model.engine.machine import noted
from epochfence.model.requests import answer

VERSIONS = {
    "InitProducerId": (0, 5), "AddPartitionsToTxn": (0, 5), "EndTxn": (0, 5), "Produce": (3, 12),
    "AddOffsetsToTxn": (0, 4), "TxnOffsetCommit": (0, 5), "WriteTxnMarkers": (1, 2),
}  # fmt: skip


@cache
def found(protocol: str) -> dict[RowName, Way]:
    return ways(protocol, None, VERSIONS, steps=5_000)


@pytest.mark.long
@pytest.mark.slow(4)
@pytest.mark.parametrize("protocol", ["3.6", "4.3"])
def test_each_way_leads_to_its_row(protocol: str) -> None:
    assert len(found(protocol)) > 40
    assert set(found(protocol)) <= set(existing(Cluster(protocol=protocol), VERSIONS))
    for row, way in found(protocol).items():
        cluster = Cluster(protocol=protocol, holds_markers=True)
        taken: set[RowName] = set()
        for place, line in enumerate(way.lines, 1):
            with noted() as rows:
                answer(cluster, line)
                if not (way.races and place >= len(way.lines) - 1):
                    cluster.deliver_markers()
            taken = {RowName.of(*one) for one in rows}
        assert row in taken, (row, way)


@pytest.mark.slow(3)
def test_ways_are_short_and_right_requests_among_them() -> None:
    rows = {(row.event, row.row): way for row, way in found("4.3").items()}
    assert len(rows["InitProducerId", "increment-epoch"].lines) == 1
    assert [line["request"] for line in rows["AddPartitionsToTxn", "add"].lines] == [
        "InitProducerId",
        "AddPartitionsToTxn",
    ]
    assert len(rows["WriteTxnMarkers", "end-transaction"].lines) == 3


def test_versions_that_do_without_the_same_are_sent_once() -> None:
    assert variants("EndTxn", VERSIONS) == [5, 4, 1]
    assert variants("AddPartitionsToTxn", VERSIONS) == [5, 3, 1]
    assert variants("DescribeProducers", VERSIONS) == []
