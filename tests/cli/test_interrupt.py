"""Ctrl-C: the command prints its findings, calls nothing proved or holding, and exits with 130."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.many import sweep as sweeps
from epochfence.checker.named_systems import load_system
from epochfence.checker.solver import bound
from epochfence.checker.solver.obligations import Answers
from epochfence.checker.solver.prove import prove
from epochfence.checker.verdict.result import Verdict
from epochfence.language import instantiate
from epochfence.model.judge.judge import Judgement, judge
from epochfence.tests.cli.test_cli import KTX, ROOT, TINY, epochfence

LEASE = str(ROOT / "docs" / "examples" / "lease.py")


class After:
    """A callback that is interrupted at its `count`-th call."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, *_: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("threads", [1, 2])
def test_a_search_tells_of_its_whole_levels(threads: int) -> None:
    instance = instantiate(load_system(LEASE), "2")
    whole = check(instance)
    result = check(instance, Options(threads=threads), After(20))
    assert result.verdict is Verdict.INTERRUPTED
    assert result.reason.startswith("it was interrupted after level ")
    assert 0 < result.states < whole.states
    assert 0 < result.transitions < whole.transitions
    assert {item.verdict for item in result.properties} == {"unknown"}
    assert result.as_json()["exit_code"] == 130


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    instance = instantiate(load_system(LEASE), "2")
    first = check(instance, Options(checkpoint=tmp_path / "run"), After(20))
    assert first.verdict is Verdict.INTERRUPTED
    second = check(instance, Options(resume=tmp_path / "run"))
    assert (second.verdict, second.states) == (Verdict.HOLDS, check(instance).states)


def test_a_sweep_tells_of_the_runs_that_are_done() -> None:
    every = sweeps.pieces(load_system(LEASE), ["1", "2"], {"leases": [2, 3]})
    found = sweeps.sweep(every, on_result=After(2))
    assert len(found) == 2
    assert sweeps.worst(found, len(every)) is Verdict.BROKEN  # the first is
    assert sweeps.worst(found[:0], len(every)) is Verdict.INTERRUPTED


def _at_once(_: Any) -> None:
    raise AssertionError("an interrupted piece is no result")


def test_an_interrupted_piece_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    every = sweeps.pieces(load_system(LEASE), ["2"], {"leases": [2, 3]})
    monkeypatch.setattr(sweeps, "explore", lambda _: {"exit_code": 130})
    with pytest.raises(KeyboardInterrupt):
        sweeps.sweep(every, on_result=_at_once)


def test_bounded_search_tells_how_deep_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    finds, stop = bound._Search._finds, After(9)

    def interrupted(search: Any, fault: Any) -> bool:
        stop()
        return finds(search, fault)

    monkeypatch.setattr(bound._Search, "_finds", interrupted)
    result = bound.bound(instantiate(load_system(LEASE), "2"), 9)
    assert result.verdict is Verdict.INTERRUPTED
    assert result.reason.startswith("nothing broken in ")
    assert result.reason.endswith("then it was interrupted.")
    assert "holds" not in {item.verdict for item in result.properties}


def test_a_proof_tells_what_was_settled() -> None:
    result = prove(load_system(LEASE), "2", known=Answers(None, After(2)))
    assert result.verdict is Verdict.INTERRUPTED
    assert result.asked
    assert {proof.verdict for proof in result.proofs} == {"unknown"}
    assert {proof.reason for proof in result.proofs} == {"interrupted"}


def test_what_has_nothing_to_tell_says_so_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epochfence.cli.options.load_system", After(1))
    ended = epochfence("check", KTX, *TINY)
    assert (ended.code, ended.out, ended.err) == (130, "", "epochfence: interrupted\n")


def test_judge_tells_of_the_keys_that_it_has_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    after, told = After(2), tmp_path / "told.json"

    def judged(*given: Any, **named: Any) -> Judgement:
        after()
        return judge(*given, **named)

    monkeypatch.setattr("epochfence.model.judge.verdicts.judge", judged)
    history = ROOT / "docs" / "examples" / "histories" / "fenced.jsonl"
    ended = epochfence("judge", str(history), "--protocol", "3.6", "--json", str(told))
    assert ended.code == 130
    last = "5 operations on 1 of 2 keys, 5 answers judged: INTERRUPTED (exit 130)\n"
    assert (
        ended.out == f"{last}transactional_id orders: 5 operations, 5 answers judged, EXPLAINED\n"
    )
    assert json.loads(told.read_text())["finding"] == "INTERRUPTED"


def test_lint_tells_what_it_has_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    whole = epochfence("lint", LEASE)
    monkeypatch.setattr("epochfence.checker.solver.lint._Lint._overlap", After(1))
    ended = epochfence("lint", LEASE, "--json", str(told))
    assert (whole.code, ended.code) == (0, 130)
    assert ended.out.endswith("Interrupted: not every table was checked. (exit 130)\n")
    assert "none" in whole.out
    assert [line for line in ended.out.splitlines() if "none" in line] == [
        "  reached by no run: none"  # which needs no solver
    ]
    assert json.loads(told.read_text())["interrupted"]


STARTED = 3.0  # seconds of processor time, after which a command is exploring


def processor_time(process: int) -> float:
    """What a process and those that it has started have used, in seconds."""
    first, used = psutil.Process(process), 0.0
    for each in (first, *first.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            used += times.user + times.system
    return used


@pytest.mark.slow
@pytest.mark.parametrize("command", [("check", KTX), ("sweep", KTX, "--set", "E=2..3")])
def test_a_real_signal(command: tuple[str, ...], tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    run = subprocess.Popen(
        [sys.executable, "-m", "epochfence.cli", *command, "--set", "S=3", "--json", str(told)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while processor_time(run.pid) < STARTED:
        assert run.poll() is None
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=600)
    assert run.returncode == 130, (out, err)
    assert "Traceback" not in err
    if command[0] == "check":
        assert json.loads(told.read_text())["verdict"] == "interrupted"
        assert "(exit 130, INTERRUPTED)" in " ".join(out.split())
