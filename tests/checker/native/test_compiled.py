"""Compiled functions: their code is kept, and not longer than what is compiled into them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epochfence.checker.native import compiled

INNER = (
    "from compiled import compiled\n\n"
    "@compiled(inline='always')\ndef inner(x):\n    return x + {}\n"
)
OUTER = (
    "from compiled import compiled\nfrom inner import inner\n\n"
    "@compiled\ndef outer(x):\n    return inner(x)\n\n"
    "print(outer(1), outer.stats.cache_hits.total())\n"
)


@pytest.mark.slow(8)
def test_a_function_is_compiled_again_once_one_that_is_compiled_into_it_changes(
    tmp_path: Path,
) -> None:
    shutil.copy(Path(compiled.__file__), tmp_path)
    (tmp_path / "outer.py").write_text(OUTER)

    def run(added: int) -> str:
        (tmp_path / "inner.py").write_text(INNER.format(added))
        # -B: Python's own cache takes a file of the same size and second for the same file
        done = subprocess.run(
            [sys.executable, "-B", "outer.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert [run(1), run(1), run(5), run(1)] == ["2 0", "2 1", "6 0", "2 1"]


def test_no_function_is_compiled_otherwise() -> None:
    files = Path(compiled.__file__).parents[1].rglob("*.py")
    assert [path.name for path in files if "njit" in path.read_text()] == ["compiled.py"]
