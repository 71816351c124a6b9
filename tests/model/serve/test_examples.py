"""The programs that docs/serve-examples.md shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
SCRIPTS = DOCS / "examples" / "scripts"


def test_the_page_shows_the_files() -> None:
    text = (DOCS / "serve-examples.md").read_text(encoding="utf-8")
    files = sorted(SCRIPTS.iterdir())
    assert [file.suffix for file in files] == [".json", ".go", ".js", ".py"]
    assert all(f"\n{file.read_text(encoding='utf-8')}```\n" in text for file in files)


@pytest.mark.slow(3)
def test_the_program_in_python_passes() -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "lost_answer.py"], cwd=SCRIPTS, env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
