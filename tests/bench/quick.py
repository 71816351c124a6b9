"""The programs of bench/, quickly: each runs, tells what it measured and writes nothing.

`make test` leaves them out, as they take up to half a minute each: CI runs pytest
tests/bench/quick.py.
"""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import scale  # pyright: ignore[reportMissingImports]
import spark as bench  # pyright: ignore[reportMissingImports]

from epochfence.checker.native.cache import object_cache
from epochfence.spec.systems import SHIPPED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"


def quick_run(name: str, *more: str) -> str:
    """What a program of bench/ prints; it ends well, and leaves the page as it is."""
    before = PAGE.read_text()
    command = [sys.executable, ROOT / "bench" / name, "--quick", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert PAGE.read_text() == before
    return done.stdout


# The programs, each with what it prints so many times.
QUICK: dict[tuple[str, ...], dict[str, int]] = {
    ("run.py", "--repeat", "1", "--without", "stateright"): {
        "| epochfence |": 2,
        "| bytes a state beyond the packed": 1,
    },
    ("compile.py",): {
        "| seconds until ": len(SHIPPED),
        "| of these to lower and compile": len(SHIPPED),
    },
    ("store.py",): {"| bytes a state of transactions": 1},
    ("progress.py",): {"| seconds for progress": 1, "| bytes a transition": 1},
    ("oracle.py",): {"| at least": 5},
}


@pytest.mark.parametrize("command", QUICK, ids=lambda command: command[0])
def test_a_quick_run_tells_what_it_measured_and_writes_nothing(command: tuple[str, ...]) -> None:
    told = quick_run(*command)
    assert {text: told.count(text) for text in QUICK[command]} == QUICK[command]


def test_a_small_part_is_measured_and_nothing_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = PAGE.read_text(), scale.RECORDED.read_text()
    tiny = (1, 1, 1, 2)
    name = "-".join(map(str, tiny))
    monkeypatch.setattr(bench, "QUICK", tiny)
    monkeypatch.setattr(bench, "QUICK_HAND_OVER", 115)
    monkeypatch.setitem(bench.SHARDS, tiny, 4)
    monkeypatch.setitem(bench.MINUTES, name, 1)
    monkeypatch.setattr(sys, "argv", ["spark.py", "--quick", "--part", name])
    monkeypatch.setenv(object_cache.VARIABLE, object_cache.OFF)  # as the program sets it
    assert bench.main() == 0
    told = capsys.readouterr().out
    assert "1,279" in told
    assert "| seconds of an almost empty level, 4 shards" in told
    assert (PAGE.read_text(), scale.RECORDED.read_text()) == before
