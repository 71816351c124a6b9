"""A system that gives no more, or a process that is gone: one line of why, and exit 2."""

from __future__ import annotations

import os
import pty
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.many import sweep as sweeps
from epochfence.checker.many.sweep import Piece, explore
from epochfence.checker.many.workers import Workers
from epochfence.cli.exits import whole_errors
from epochfence.tests.cli import test_exits as importable  # in other processes, by this name
from epochfence.tests.cli.test_cli import KTX, ROOT, TINY, Ended, epochfence

LEASE = str(ROOT / "docs" / "examples" / "lease.py")
UNDER_A_LIMIT = """
import resource, psutil
from epochfence.checker.check import Options, check
from epochfence.language import instantiate
from epochfence.checker.named_systems import load_system
instance = instantiate(load_system({lease!r}))
most = psutil.Process().memory_info().vms + (1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
print(check(instance, Options(threads=2)).verdict.name)
"""


def told_in_a_line(ended: Ended) -> str:
    """The line of a refusal."""
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert line.startswith("epochfence: ")
    return line


def under(limit: int, most: int, *arguments: str) -> Ended:
    """A command in a process of its own, with a limit on what it may take."""

    def limited() -> None:
        resource.setrlimit(limit, (most, most))

    done = subprocess.run(
        [sys.executable, "-m", "epochfence.cli", *arguments],
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def explored_unless_killed(piece: Piece) -> dict[str, Any]:
    """The result of a piece, but for one of them."""
    if dict(piece.constants)["E"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return explore(piece)


@pytest.mark.slow(1)
def test_a_killed_process_of_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept.jsonl"
    words = ("sweep", KTX, *TINY[:4], "--set", "S=1", "--results", kept, "--jobs", "2")
    assert epochfence(*words, "--set", "E=1").code == 0
    before = kept.read_bytes()
    monkeypatch.setattr(sweeps, "explore", importable.explored_unless_killed)
    ended = epochfence(*words, "--set", "E=2..3")
    *others, line = ended.err.splitlines()  # the other run may be done before
    assert (ended.code, len(others) < 2) == (2, True)
    assert "a worker process died: it was killed, or ran out of memory" in line
    assert kept.read_bytes().startswith(before)


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "words",
    [("sweep", KTX, *TINY[:4], "--set", "E=1..2"), ("prove", LEASE)],
    ids=["sweep", "prove"],
)
def test_what_processes_need_to_talk_to_each_other(words: tuple[str, ...]) -> None:
    line = told_in_a_line(under(resource.RLIMIT_FSIZE, 0, *words, "--jobs", "2"))
    assert "can't start processes" in line
    assert "try --jobs 1, which needs none" in line


def test_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    for name in ("submit", "shutdown"):  # Python's own joins a thread that never ran
        monkeypatch.setattr(ProcessPoolExecutor, name, refused)
    with pytest.raises(ChildProcessError, match="can't start new thread"):
        list(Workers(2).each(abs, [1, 2], "test"))


def without_a_thread(piece: Piece) -> dict[str, Any]:
    """A process that has too few addresses for one more stack."""
    raise RuntimeError("can't start new thread")


@pytest.mark.slow(1)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_no_more_threads_in_a_process_of_a_sweep(
    jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "explore", importable.without_a_thread)
    words = ("sweep", KTX, *TINY[:4], "--set", "S=1", "--set", "E=1..2", "--jobs", jobs)
    assert "can't start new thread" in told_in_a_line(epochfence(*words))


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "words", [("judge",), ("decode", "--as", "log"), ("diff", "--protocols", "4.0.0", "4.3")]
)
def test_a_fifo_is_waited_for_not_in_silence(words: tuple[str, ...], tmp_path: Path) -> None:
    """Where somebody sits before a terminal."""
    fifo = tmp_path / "requests.jsonl"
    os.mkfifo(fifo)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "epochfence.cli", *words, fifo]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        fifo.write_bytes(b"")
        assert process.wait() in (0, 2, 20)
    told = os.read(ours, 1_000).decode()
    assert f"epochfence: {fifo} is a pipe: waiting for data" in told
    for end in (ours, theirs):
        os.close(end)


@pytest.mark.slow(1)
def test_addresses_that_the_system_refuses() -> None:
    line = told_in_a_line(under(resource.RLIMIT_AS, 16 << 30, "check", LEASE, "--memory", "200"))
    assert "not enough memory: can't reserve " in line
    assert "ulimit -v is 16777216: raise it, or give --memory less" in line


def test_memory_that_is_gone_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("epochfence.checker.check.prepare", refused)
    assert told_in_a_line(epochfence("check", LEASE)) == "epochfence: not enough memory"


def test_an_error_that_python_loses_for_want_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    lost = "error return without exception set"
    with pytest.raises(SystemExit, match="2"), whole_errors():
        raise SystemError(lost)
    told = capsys.readouterr().err
    assert told == f"epochfence: Python lost an error, maybe for lack of memory: {lost}\n"
    with pytest.raises(SystemError, match="of ours"), whole_errors():
        raise SystemError("of ours")


@pytest.mark.slow(1)
def test_what_is_reserved_follows_a_limit_on_addresses() -> None:
    program = UNDER_A_LIMIT.format(lease=LEASE)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("HOLDS\n", 0), done.stderr


def _short(solver: Any) -> None:
    solver.set("rlimit", 1)


@pytest.mark.parametrize(
    ("prepare", "says"), [(_short, "couldn't tell"), (lambda _: None, None)], ids=["short", "ample"]
)
def test_what_z3_cannot_tell_is_no_answer(prepare: Callable[[Any], None], says: str | None) -> None:
    from epochfence.checker.solver.terms import SolverError, can_be, z3

    alone = z3.Context()  # what others asked before decides how long it takes
    solver, (a, b, c) = z3.Solver(ctx=alone), z3.Ints("a b c", ctx=alone)
    solver.add(a * a + b * b == c * c, a > 1, b > a, c > b, c < 20)
    prepare(solver)
    if says is None:
        assert can_be(solver)
    else:
        with pytest.raises(SolverError, match=says):
            can_be(solver)


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("place", "why"), [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")]
)
def test_what_cant_be_printed_is_known_before_the_work(place: str, why: str) -> None:
    """All cells of `semantics` take minutes, and were lost."""
    script = f'exec "$0" -m epochfence.cli semantics >{place}'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == f"epochfence: can't write to standard output: {why}\n"
