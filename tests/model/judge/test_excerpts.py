"""A recording that begins in the middle of a log is judged from an unknown state."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from epochfence.model.judge.histories import read_runs
from epochfence.model.judge.judge import Finding, Judgement
from epochfence.model.judge.operations import Settings
from epochfence.model.judge.verdicts import EXCERPT, judge_run
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.model.judge.honest import Line, eventful, steady, without_markers

REPORTS = Path(__file__).with_name("reports")
RELEASES = ("2.5", "3.6", "4.0.1", "4.3")


def judged(lines: list[Line], release: str, folder: Path) -> list[Judgement]:
    """What judge finds of each key of an excerpt."""
    file = folder / "excerpt.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    runs = read_runs([file])
    chosen = Settings(release, excerpt=True)
    return [found for run in runs for _, found in judge_run(run, chosen, 20_000)]


@pytest.mark.parametrize("name", ["excerpt-produce", "excerpt-init"])
def test_a_reported_excerpt_is_explained_with_the_option_and_gets_a_hint_without(name: str) -> None:
    file = REPORTS / f"{name}.jsonl"
    without, ended = epochfence("judge", file), epochfence("judge", file, "--excerpt")
    assert (without.code, ended.code) == (12, 0), ended.out
    assert EXCERPT in without.out
    assert EXCERPT not in ended.out
    assert "EXPLAINED from an unknown state" in ended.out


@pytest.mark.parametrize("release", RELEASES)
def test_the_end_of_a_steady_run_is_explained_wherever_it_begins(
    release: str, tmp_path: Path
) -> None:
    lines = steady(release)
    for history in (lines, without_markers(lines)):
        for at in range(1, len(history) - 1, 3):
            for found in judged(history[at:], release, tmp_path):
                assert found.finding in (Finding.EXPLAINED, Finding.UNJUDGED), (at, found)


@pytest.mark.slow(1)
@pytest.mark.parametrize("release", RELEASES)
def test_the_end_of_an_eventful_run_is_explained(release: str, tmp_path: Path) -> None:
    """With the offsets that were recorded, or some of them."""
    for seed in range(4):
        lines = eventful(release, Random(seed), 40)
        if seed % 2:
            for line in lines[seed::2]:
                (line.get("response") or {}).pop("base_offset", None)
        for at in (5, 20, 33):
            for found in judged(lines[at:], release, tmp_path):
                assert found.finding is not Finding.UNEXPLAINED, (seed, at, found)


def batch(sequence: int, offset: int, at: int, count: int = 1) -> Line:
    """A batch that is acknowledged at an offset."""
    return {
        "request": "Produce", "partition": "p", "producer_id": 7, "producer_epoch": 0,
        "base_sequence": sequence, "count": count, "start": at, "end": at + 1,
        "response": {"error": "NONE", "base_offset": offset},
    }  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("wrong", [-1, 1, 10**6])
def test_a_wrong_offset_behind_known_ones_is_seen(wrong: int, release: str, tmp_path: Path) -> None:
    lines = [batch(30 + at, 80 + at, 2 * at) for at in range(12)]
    (found,) = judged(lines, release, tmp_path)
    assert (found.finding, found.answers) == (Finding.EXPLAINED, 12)
    lines[9]["response"]["base_offset"] += wrong
    (found,) = judged(lines, release, tmp_path)
    assert found.finding is Finding.UNEXPLAINED


@pytest.mark.parametrize("release", RELEASES)
def test_a_batch_from_before_the_recording_may_come_again(release: str, tmp_path: Path) -> None:
    lines = [batch(30, 80, 0), batch(27, 70, 2), batch(31, 81, 4), batch(29, 75, 6)]
    (found,) = judged(lines, release, tmp_path)
    assert found.finding is Finding.EXPLAINED
    (found,) = judged([*lines, batch(28, 60, 8)], release, tmp_path)  # it lay before 27
    assert found.finding is Finding.UNEXPLAINED


def unplaced(sequence: int, at: int) -> Line:
    """A batch that is acknowledged at an offset that isn't recorded."""
    return batch(sequence, 0, at) | {"response": {"error": "NONE"}}


def answered(offset: int) -> Line:
    """An answer with an offset."""
    return {"response": {"error": "NONE", "base_offset": offset}}


PLAIN = batch(-1, 0, 4) | {"producer_id": -1, "producer_epoch": -1}
MARKER: Line = {
    "request": "WriteTxnMarkers", "partition": "p", "producer_id": 7,
    "producer_epoch": 0, "result": "ABORT", "start": 2, "end": 3, "response": {"error": "NONE"},
}  # fmt: skip
LARGEST = 2**31 - 1
SHOWN = {
    "a sequence is left out": ([batch(10, 5, 0), batch(12, 6, 2)], "UNEXPLAINED"),
    "one is left out where there is room": ([batch(27, 77, 0), batch(30, 80, 2)], "EXPLAINED"),
    "one is left out at the wrap": ([batch(LARGEST, 6, 0), batch(1, 7, 2)], "UNEXPLAINED"),
    "sequences wrap": ([batch(LARGEST, 6, 0), batch(0, 7, 2)], "EXPLAINED"),
    "one behind others": ([batch(28, 78, 0), batch(27, 77, 2), batch(30, 79, 4)], "UNEXPLAINED"),
    "a repeated one without room": ([batch(30, 80, 0), batch(27, 79, 2)], "UNEXPLAINED"),
    "a new epoch in mid-sequence": (
        [batch(28, 78, 0), batch(3, 79, 2) | {"producer_epoch": 1}], "UNEXPLAINED"
    ),
    "a new epoch": ([batch(28, 78, 0), batch(0, 79, 2) | {"producer_epoch": 1}], "EXPLAINED"),
    "the first offset isn't recorded": ([unplaced(30, 0), batch(31, 81, 2)], "EXPLAINED"),
    "a repeated one's isn't": ([batch(30, 80, 0), unplaced(27, 2), batch(31, 81, 4)], "EXPLAINED"),
    "another producer's isn't": (
        [batch(3, 80, 0) | {"producer_id": 8}, unplaced(30, 2), batch(31, 81, 4)], "EXPLAINED"
    ),
    "two at one offset": (
        [batch(7, 12, 0), batch(3, 13, 2) | {"producer_id": 8}, batch(8, 13, 4)], "UNEXPLAINED"
    ),
    "repeated ones at one offset": (
        [batch(9, 40, 0), batch(7, 12, 2), batch(3, 12, 4) | {"producer_id": 8}], "UNEXPLAINED"
    ),
    "one behind the other": (
        [batch(7, 12, 0), batch(3, 13, 2) | {"producer_id": 8}, batch(8, 14, 4)], "EXPLAINED"
    ),
    "none is": ([unplaced(30, 0), unplaced(31, 2)], "UNJUDGED"),
    "a marker without room": ([batch(30, 80, 0), MARKER, PLAIN | answered(81)], "UNEXPLAINED"),
    "a marker with room": ([batch(30, 80, 0), MARKER, PLAIN | answered(82)], "EXPLAINED"),
    "a marker, and more than may be repeated": (
        [batch(30, 80, 0), MARKER, *(batch(31 + at, 81 + at, 6 + 2 * at) for at in range(6))],
        "UNEXPLAINED",
    ),
    "a marker of the next epoch without room": (
        [batch(30, 80, 0), MARKER | {"producer_epoch": 1},
         batch(0, 81, 4) | {"producer_epoch": 1}], "UNEXPLAINED",
    ),
    "markers around one whose offset isn't recorded": (
        [unplaced(30, 0), MARKER, unplaced(31, 4), MARKER | {"start": 6, "end": 7},
         batch(31, 82, 8), batch(32, 84, 10)], "EXPLAINED",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SHOWN)
def test_what_a_state_that_is_shown_later_explains(what: str, tmp_path: Path) -> None:
    lines, finding = SHOWN[what]
    (found,) = judged(lines, "4.4", tmp_path)
    assert found.finding.name == finding


def test_what_comes_before_a_known_state_is_not_counted_as_judged(tmp_path: Path) -> None:
    refused = batch(4, 0, 0) | {"response": {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}}
    (found,) = judged([refused], "4.3", tmp_path)
    assert (found.finding, found.answers) == (Finding.UNJUDGED, 0)
    taken = batch(9, 50, 2, count=2)
    (found,) = judged([refused, taken], "4.3", tmp_path)
    assert (found.finding, found.answers) == (Finding.EXPLAINED, 1)
    (found,) = judged([refused, taken, batch(9, 52, 4, count=2)], "4.3", tmp_path)
    assert found.finding is Finding.UNEXPLAINED
