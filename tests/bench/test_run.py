"""`make bench`: it runs, with whatever peers are there, and the page has a place for its result."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"


@pytest.mark.parametrize("name", ["measured", "compile", "spark", "solver", "oracle"])
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


@pytest.mark.slow
def test_a_quick_run_tells_what_it_measured_and_writes_nothing() -> None:
    told = quick_run("run.py", "--repeat", "1")
    assert told.count("| epochfence |") == 2
    assert "| bytes a state beyond the packed state's" in told


@pytest.mark.slow
def test_a_quick_run_of_compilation_tells_what_it_measured_and_writes_nothing() -> None:
    told = quick_run("compile.py")
    assert told.count("| seconds until ") == told.count("| of these to lower and compile") == 3


def test_a_quick_run_of_the_oracle_tells_what_it_measured_and_writes_nothing() -> None:
    told = quick_run("oracle.py")
    assert told.count("| at least") == 5
