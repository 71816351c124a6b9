"""The functions that come as LLVM IR: they are those of the sources, and a first run takes them."""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epochfence.checker.native.jit import shipped
from epochfence.checker.native.jit.functions import Compiled
from epochfence.checker.native.store import store

ROOT = Path(shipped.__file__).parents[3]
RENEW = "python -m epochfence.checker.native.jit.shipped renews it"
RUN = """
import sys
from epochfence.cli import app
try:
    app(sys.argv[1:], prog_name="epochfence")
finally:
    print("with" if "numba" in sys.modules else "without", "numba", file=sys.stderr, end="")
"""


def index_states(groups):  # type: ignore[no-untyped-def]
    return groups


def test_functions_are_those_of_the_sources_and_of_the_installed_libraries() -> None:
    kept = shipped.contents()
    assert (kept["target"], kept["versions"]) == (shipped.target(), shipped.versions()), RENEW
    found = {name: digest for name, (digest, *_) in kept["functions"].items()}
    entries = shipped.ENTRIES.items()
    wanted = {f"{n}: {kinds}": shipped.digest(shipped.named(n)) for n, kinds in entries}
    assert found == wanted, RENEW


@pytest.mark.slow(30)
@pytest.mark.long
def test_the_file_is_what_numba_makes_of_the_sources(tmp_path: Path) -> None:
    file = tmp_path / "functions.xz"
    code = f"from {shipped.__name__} import main\nmain(__import__('pathlib').Path({str(file)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert json.loads(lzma.decompress(file.read_bytes())) == shipped.contents(), RENEW


def test_a_function_of_another_source_is_not_taken() -> None:
    name = "store.store.index_states"
    kinds = tuple(shipped.ENTRIES[name].split(", "))
    function = shipped.named(name)
    assert shipped.shipped(function, kinds) is not None
    assert shipped.shipped(function, (*kinds, "i")) is None
    index_states.__module__ = function.function.__module__
    changed = Compiled(index_states, "never")
    assert changed.name == function.name
    assert shipped.shipped(changed, kinds) is None


def test_a_number_that_a_function_uses_is_a_part_of_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = shipped.digest(store.insert_all)
    shipped.digest.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(store, "BLOCK", store.BLOCK + 1)
        assert shipped.digest(store.insert_all) != before
    shipped.digest.cache_clear()


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    "command",
    [
        "check docs/examples/resend.py",
        "check docs/examples/without_a_row.py --property Order --set faults=1",
        "simulate docs/examples/resend.py --steps 100",
    ],
)
def test_a_first_run_of_an_installation_needs_no_numba(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path), "EPOCHFENCE_CACHE": str(tmp_path)},
    )
    assert "compiled in" in done.stdout or "walks" in done.stdout, done.stdout
    assert done.stderr.endswith("without numba"), done.stderr[-500:]
