"""`check --watch`: a line for each save, the trace below, and an end by Ctrl-C."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from epochfence.tests.cli.test_cli import ROOT, epochfence

RESEND = (ROOT / "docs" / "examples" / "resend.py").read_text()


@pytest.mark.slow(3)
def test_each_save_is_checked_until_ctrl_c(tmp_path: Path) -> None:
    file = tmp_path / "resend.py"
    file.write_text(RESEND)
    command = [sys.executable, "-m", "epochfence.cli", "check", str(file), "--watch"]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=both, text=True) as watching:
        assert watching.stdout is not None
        try:
            holds = " default bounds: HOLDS 2 properties; 15 states, "
            assert holds in watching.stdout.readline()
            file.write_text(RESEND.replace("from", "frm", 1))
            assert f"{file}:" in watching.stdout.readline()
            file.write_text(RESEND)
            assert holds in watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            assert watching.stdout.readline() == "epochfence: interrupted\n"
            assert watching.wait() == 130
        finally:
            watching.kill()


@pytest.mark.slow(3)
def test_small_bounds_come_first_and_a_counterexample_ends_the_check() -> None:
    command = [
        sys.executable, "-m", "epochfence.cli", "check", "docs/examples/without_a_row.py",
        "--property", "Order", "--set", "faults=1", "--watch",
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert " small bounds: BROKEN Order; 114 states, " in watching.stdout.readline()
            lines = iter(watching.stdout.readline, "")
            assert next(lines) == "Shortest counterexample (row in brackets):\n"
            assert any(line.startswith("Order doesn't hold") for line in lines)
        finally:
            watching.kill()


@pytest.mark.parametrize("option", ["--json -", "--coverage", "--all-traces 2", "--keep-going"])
def test_options_that_write_results_are_refused(option: str) -> None:
    done = epochfence("check", "idempotence", "--watch", *option.split())
    assert (done.code, done.err) == (
        2,
        f"epochfence: --watch can't be used with {option.split()[0]}: "
        "it prints verdicts and traces alone\n",
    )
