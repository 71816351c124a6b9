"""Honest histories of whole runs are explained, keys held against each other; and of damaged ones
the table of docs/judge.md says how many are seen."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from epochfence.model.judge.judge import Finding
from epochfence.tests.model.judge.damage import DAMAGES, PAGE, RELEASES, cells, honest
from epochfence.tests.model.judge.honest import Line, eventful, judged, unexplained, without_markers

RENEW = "python tests/model/judge/damage.py renews the table"


@pytest.mark.slow(1)
@pytest.mark.parametrize("release", ["2.5", "3.6", "4.0.1", "4.3"])
def test_an_eventful_run_is_explained(release: str, seed: int, tmp_path: Path) -> None:
    for number in range(5):
        lines = eventful(release, Random(seed + number), 40)
        for history in (lines, without_markers(lines)):
            found = judged(history, release, tmp_path / "history.jsonl")
            assert [str(one.operation) for one in unexplained(found)] == [], seed + number


@pytest.mark.parametrize("release", RELEASES)
def test_a_steady_run_is_explained(release: str, tmp_path: Path) -> None:
    for has_markers in (True, False):
        lines = honest(release, has_markers=has_markers)
        found = judged(lines, release, tmp_path / "history.jsonl")
        assert {one.finding for one in found} == {Finding.EXPLAINED}


@pytest.mark.slow(2)
@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
def test_so_many_damaged_histories_are_seen(damage: str, tmp_path: Path) -> None:
    assert cells(damage, tmp_path / "history.jsonl") in PAGE.read_text(encoding="utf-8"), RENEW


def test_an_answer_that_is_lost_is_never_held_against_a_history() -> None:
    (line,) = (x for x in PAGE.read_text(encoding="utf-8").splitlines() if "answer is lost" in x)
    assert {cell.split(" of ")[0].strip() for cell in line.split("|")[2:-1]} == {"0"}


def _steady(release: str, request: str, nth: int) -> tuple[list[Line], Line]:
    lines = [dict(line) for line in honest(release, has_markers=True)]
    return lines, [line for line in lines if line["request"] == request][nth]


def test_a_marker_that_nobody_decided_is_named_with_its_transactional_id(tmp_path: Path) -> None:
    lines, marker = _steady("4.3", "WriteTxnMarkers", 0)
    marker["result"] = "ABORT"
    (found,) = unexplained(judged(lines, "4.3", tmp_path / "history.jsonl"))
    assert found.operation is not None
    assert found.operation.request == "WriteTxnMarkers"
    assert found.against == "Nothing of transactional_id a decides ABORT in epoch 1."


def test_a_first_batch_that_nobody_added_is_named_where_leaders_ask(tmp_path: Path) -> None:
    lines, added = _steady("3.6", "AddPartitionsToTxn", -1)
    lines.remove(added)
    (found,) = unexplained(judged(lines, "3.6", tmp_path / "history.jsonl"))
    assert found.against == "Nothing of transactional_id a adds the partition in epoch 1 for it."
    assert judged(lines, "2.5", tmp_path / "history.jsonl")[0].against == ""


def test_a_marker_comes_no_earlier_than_what_decides_it(tmp_path: Path) -> None:
    """What is before the end that decides it, and behind the transaction's timeout."""
    lines, marker = _steady("4.3", "WriteTxnMarkers", 0)
    end = next(line for line in lines if line["request"] == "EndTxn")
    marker["start"] = marker["end"] = end["start"] - 0.5
    assert any(unexplained(judged(lines, "4.3", tmp_path / "history.jsonl")))
