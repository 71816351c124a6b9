"""What `bench/spark.py` measures with, and what it makes of what is recorded."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import scale  # pyright: ignore[reportMissingImports]
import spark as bench  # pyright: ignore[reportMissingImports]

from epochfence.model.judge.histories import read_history
from epochfence.model.judge.judge import Finding, judge

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


def test_events_are_histories_that_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "TEMPLATES", 3)
    keys = bench.events(500, tmp_path / "events.jsonl")
    found = read_history([tmp_path / "events.jsonl"])
    assert len(found) == keys == 5
    assert {len(operations) for operations in found.values()} == {100}
    assert {judge(operations).finding for operations in found.values()} == {Finding.EXPLAINED}


def test_histories_are_judged_as_a_user_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Spark's start, which the tests of the command have."""
    calls: list[list[str]] = []

    def measure(command: list[str], folder: Path) -> SimpleNamespace:
        calls.append(command)
        assert Path(command[command.index("--input") + 1]).stat().st_size > 0
        return SimpleNamespace(exit_code=0, output="", seconds=2.0, peak_rss_bytes=1)

    monkeypatch.setattr(bench, "TEMPLATES", 3)
    monkeypatch.setattr(bench, "measure", measure)
    told = bench.judged(500, tmp_path)
    assert (told["events"], told["keys"], told["seconds"]) == (500, 5, 2.0)
    (command,) = calls
    assert command[1] == "judge"
    assert not list(tmp_path.glob("*.jsonl"))


def test_what_is_recorded_becomes_a_section_with_each_aim() -> None:
    found = json.loads(scale.RECORDED.read_text())
    found["histories"] = [
        {"events": count, "keys": count // 100, "bytes": 1, "seconds": count / 40_000, "peak": 1}
        for count in (10_000_000, 20_000_000)
    ]
    section = re.sub(" +", " ", bench.page(found))
    for size, part in found["searches"].items():
        assert f"| {size} | {part['spark']['states']:,} |" in section
        assert f"candidates sent a new state, {size}" in section
    assert "| time for twice the events, times that" in section
    assert "| minutes for 10,000,000 events" in section
    assert "at most 10 " in section
