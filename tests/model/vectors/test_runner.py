"""The runner of vectors in Java, on the example that stands beside it."""

from __future__ import annotations

import shutil
import subprocess
from copy import deepcopy
from pathlib import Path

import pytest

from epochfence.model.vectors.written import text
from epochfence.tests.model.vectors.searched import written

ROOT = Path(__file__).parents[3]
RUNNER = ROOT / "docs" / "examples" / "vectors" / "Runner.java"


def run_in_java(folder: Path, content: str) -> tuple[int, str, str]:
    """The runner's exit code, output and errors on a file."""
    if shutil.which("javac") is None:
        pytest.skip("no JDK is installed: apt install openjdk-17-jdk-headless")
    (folder / "vectors.json").write_text(content)
    command = ["java", str(RUNNER), str(folder / "vectors.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow(20)
def test_what_is_implemented_passes(tmp_path: Path) -> None:
    code, out, err = run_in_java(tmp_path, text(written("coordinator")))
    assert (code, err) == (0, "")
    assert f"vectors/coordinator.json\n{out}" in (ROOT / "docs" / "vectors.md").read_text()


@pytest.mark.slow(20)
def test_a_changed_outcome_is_told(tmp_path: Path) -> None:
    changed = deepcopy(written("coordinator"))
    rows = {"other epoch": 0, "end": 0}
    for at, vector in enumerate(changed["vectors"]):
        if vector["row"] in rows and vector["without"] == ["transaction_version_2"]:
            rows[vector["row"]] = at
    answered, ended = rows.values()
    changed["vectors"][answered]["sent"][0]["error"] = "NONE"
    changed["vectors"][ended]["after"]["pending_epoch"] = 7
    code, out, err = run_in_java(tmp_path, text(changed))
    assert (code, err) == (1, "")
    *lines, count = out.splitlines()
    assert "32 pass, 2 differ" in count
    told = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}
    assert told.keys() == {
        f"vectors[{answered}] EndTxn, other epoch", f"vectors[{ended}] EndTxn, end",
    }  # fmt: skip
    assert "error=PRODUCER_FENCED" in told[f"vectors[{answered}] EndTxn, other epoch"]
    assert told[f"vectors[{ended}] EndTxn, end"] == "pending_epoch is 0, not 7"


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("content", "code", "why"),
    [
        ('{"format": 1, "vectors": []}', 1, ""),
        ('{"format": 2, "vectors": []}', 2, "this reads format 1"),
        ('{"format": 1, "vectors": [', 2, "usage"),
    ],
)
def test_nothing_to_run_is_not_well(content: str, code: int, why: str, tmp_path: Path) -> None:
    ended, _, err = run_in_java(tmp_path, content)
    assert ended == code
    assert why in err
    assert err.count("\n") == (1 if why else 0)
