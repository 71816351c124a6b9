"""The directed suite's searches are kept on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from epochfence.checker.native.cache.object_cache import ObjectCache
from epochfence.model.conformance.live.suites.directed_suite import Way, ways
from epochfence.model.conformance.live.suites.search_cache import Searches
from epochfence.model.conformance.possible_states import RowName

VERSIONS = {
    "InitProducerId": (0, 5),
    "AddPartitionsToTxn": (0, 3),
    "EndTxn": (0, 4),
    "Produce": (3, 11),
}


def test_a_search_is_done_once_and_again_if_its_entry_is_damaged(tmp_path: Path) -> None:
    made: list[str] = []

    def found(protocol: str) -> Mapping[RowName, Way]:
        def search() -> Mapping[RowName, Way]:
            made.append(protocol)
            return ways(protocol, None, VERSIONS, steps=50)

        return Searches(ObjectCache(tmp_path)).found({"protocol": protocol}, search)

    first = found("4.3")
    assert first
    assert found("4.3") == first
    assert found("3.6")
    assert made == ["4.3", "3.6"]
    for entry in [path for path in tmp_path.rglob("*") if path.is_file()]:
        entry.write_bytes(entry.read_bytes()[:-1] + b"x")
    assert found("4.3") == first
    assert made == ["4.3", "3.6", "4.3"]
