"""Compiled functions: their code is kept, and not longer than what is compiled into them."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from epochfence.checker.native.jit import functions
from epochfence.checker.native.store.distinct import TABLE_BITS, keep_masked, mask_of

INNER = (
    "from .jit.functions import compiled\n\n"
    "@compiled(inline='always')\ndef inner(x):\n    return x + {}\n"
)
OUTER = (
    "from .jit.functions import compiled, compiling_seconds\nfrom .inner import inner\n\n"
    "@compiled\ndef outer(x):\n    return inner(x)\n\n"
    "import sys\nprint(outer(1), compiling_seconds() > 0, 'numba' in sys.modules)\n"
)


@pytest.mark.slow(8)
@pytest.mark.long
def test_a_function_is_compiled_again_once_one_that_is_compiled_into_it_changes(
    tmp_path: Path,
) -> None:
    native = tmp_path / "alone" / "checker" / "native"
    here = Path(functions.__file__).parents[1]
    for name in (
        "__init__",
        "jit/__init__",
        "jit/functions",
        "jit/intrinsics",
        "jit/numba_ir",
        "jit/shipped",
        "cache/__init__",
        "cache/machine_code",
        "cache/object_cache",
        "cache/object_code",
    ):
        (native / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(here / f"{name}.py", native / f"{name}.py")
    shutil.copy(here / "jit" / "functions.xz", native / "jit")
    shutil.copy(here.parents[1] / "files.py", tmp_path / "alone")
    (native / "outer.py").write_text(OUTER)

    def run(added: int) -> str:
        (native / "inner.py").write_text(INNER.format(added))
        # -B: Python's own cache takes a file of the same size and second for the same file
        done = subprocess.run(
            [sys.executable, "-B", "-m", "alone.checker.native.outer"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert [run(1), run(1), run(5), run(1)] == [
        "2 True True",
        "2 False False",
        "6 True True",
        "2 False False",
    ]


def test_no_function_is_compiled_otherwise() -> None:
    files = Path(functions.__file__).parents[1].rglob("*.py")
    assert [path.name for path in files if "njit" in path.read_text()] == ["numba_ir.py"]


def test_arrays_that_are_passed_again_and_again_stay_where_they_are() -> None:
    states, table = np.arange(2, dtype=np.uint64), np.zeros(1 << TABLE_BITS, dtype=np.uint64)
    kept, spare = np.zeros(2, dtype=np.int64), np.zeros_like(table)
    passed = functions.Passed(table, kept, spare)
    del table, spare
    words, masks = mask_of([2**64 - 1])
    for _ in range(2):
        keep_masked(states.ctypes.data, 2, 8, words, masks, passed)
    assert kept.tolist() == [2, 0]


def test_what_is_compiled_takes_contiguous_arrays_alone() -> None:
    every_other = np.zeros(4, dtype=np.int64)[::2]
    with pytest.raises(TypeError, match="contiguous"):
        functions.Passed(every_other)


@pytest.mark.slow(1)
def test_what_is_kept_is_used_without_numba() -> None:
    code = (
        "import sys\nfrom epochfence.checker.check import check\n"
        "from epochfence.language import instantiate\n"
        "from epochfence.checker.named_systems import load_system\n"
        "check(instantiate(load_system('docs/examples/lease.py'), '1', {'leases': 1}))\n"
        "print('numba' in sys.modules)"
    )

    def run() -> str:
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(functions.__file__).parents[3],
        ).stdout

    run()  # the first one may have to compile
    assert run() == "False\n"
