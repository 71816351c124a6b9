"""`make bench`: it runs, with whatever peers are there, and the page has a place for its result."""

import subprocess
import sys
from pathlib import Path

import pytest

from epochfence.spec.systems import SHIPPED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"


SECTIONS = ["measured", "store", "progress", "compile", "spark", "solver", "oracle"]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_one_place_for_the_result(name: str) -> None:
    text = PAGE.read_text()
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    assert (text.count(begin), text.count(end)) == (1, 1)
    assert text.index(begin) < text.index(end)


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


@pytest.mark.slow(10)
@pytest.mark.sample(1, of="benches")
@pytest.mark.parametrize("command", QUICK, ids=lambda command: command[0])
def test_a_quick_run_tells_what_it_measured_and_writes_nothing(command: tuple[str, ...]) -> None:
    told = quick_run(*command)
    assert {text: told.count(text) for text in QUICK[command]} == QUICK[command]
