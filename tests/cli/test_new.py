"""What `epochfence new` writes runs, is short, and overwrites nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from epochfence.tests.cli.test_cli import epochfence


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow(1)
def test_what_it_writes_runs_as_it_says(here: Path) -> None:
    ended = epochfence("new", "counting")
    assert (ended.code, ended.err) == (0, "")
    for command in ("check counting.py", "check counting.py --protocol 1"):
        assert f"  epochfence {command}\n" in ended.out
    assert sorted(path.name for path in here.iterdir()) == ["counting.py", "test_counting.py"]

    holds = epochfence("check", "counting.py")
    assert holds.code == 0
    assert "all 5 rows are taken" in holds.out
    broken = epochfence("check", "counting.py", "--protocol", "1")
    assert broken.code == 12
    assert (
        "CountedOnce doesn't hold: after 4 steps the counter is at 2, and the last request is 1"
        in broken.out
    )
    assert epochfence("lint", "counting.py").code == 0
    assert epochfence("prove", "counting.py", "--property", "CountedOnce", "--jobs", "1").code in (
        0,
        20,
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_counting.py"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_it_is_short_and_in_our_own_style(here: Path) -> None:
    epochfence("new", "counting")
    for name in ("counting.py", "test_counting.py"):
        lines = (here / name).read_text().splitlines()
        assert len(lines) <= 65
        assert max(map(len, lines)) <= 100
        assert not any("$" in line for line in lines)
    settings = Path(__file__).parents[2] / "pyproject.toml"
    for check in (["check", "--ignore", "I001"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *check, "--config", str(settings), "."]
        done = subprocess.run(ruff, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("there", ["counting.py", "test_counting.py"])
def test_it_overwrites_nothing(here: Path, there: str) -> None:
    (here / there).symlink_to(here / "nowhere")
    ended = epochfence("new", "counting")
    assert (ended.code, ended.out) == (2, "")
    assert f"{there} exists and is not overwritten" in ended.err
    assert [path.name for path in here.iterdir()] == [there]


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "name",
    ["", "Counting", "1st", "a-b", "a.b", "../a", "/a", "a b", "é", "x" * 61, "json", "class",
     "epochfence", "conftest", "counting.py", "a\n"],
)  # fmt: skip
def test_a_name_that_python_could_not_take_is_refused(here: Path, name: str) -> None:
    ended = epochfence("new", name)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("epochfence: ")
    assert list(here.iterdir()) == []
