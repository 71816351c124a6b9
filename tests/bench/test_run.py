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


@pytest.mark.slow
def test_a_quick_run_tells_what_it_measured_and_writes_nothing() -> None:
    before = PAGE.read_text()
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "run.py", "--quick", "--repeat", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| epochfence |") == 2
    assert "| bytes a state beyond the packed state's" in done.stdout
    assert PAGE.read_text() == before


def test_a_quick_run_of_compilation_tells_what_it_measured_and_writes_nothing() -> None:
    before = PAGE.read_text()
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "compile.py", "--quick"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| at most 2 ") == 3
    assert PAGE.read_text() == before


def test_a_quick_run_of_the_oracle_tells_what_it_measured_and_writes_nothing() -> None:
    before = PAGE.read_text()
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "oracle.py", "--quick"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| at least") == 4
    assert PAGE.read_text() == before


@pytest.mark.slow
def test_a_quick_run_on_spark_tells_what_it_measured_and_writes_nothing() -> None:
    before = PAGE.read_text()
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "spark.py", "--quick"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "592,812" in done.stdout
    assert "| seconds of an almost empty level, 4 shards" in done.stdout
    assert PAGE.read_text() == before
