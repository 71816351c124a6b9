"""All drivers with some inputs; and the oracle sees what it is there to see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from epochfence.tests.fuzz import run, sizes, traces, workers
from epochfence.tests.fuzz.harness import REFUSED, Case, Ended, Surface, problem, write_failure
from epochfence.tests.fuzz.run import replay
from epochfence.tests.fuzz.workers import run_case, run_for

INPUTS = 25  # of each surface: CI fuzzes for a minute as well


@pytest.mark.slow(4)
def test_nothing_is_wrong_with_some_inputs(seed: int, tmp_path: Path) -> None:
    """In a process of its own: workers are forked, and this one may have threads and a JVM."""
    figures = tmp_path / "figures.json"
    program = Path(run.__file__)
    options = (
        "--inputs", INPUTS, "--seconds", 600, "--seed", seed, "--failures", tmp_path,
        "--json", figures,
    )  # fmt: skip
    command = [sys.executable, program, *options]
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"make fuzz SEED={seed}\n{ended.stdout[-5_000:]}{ended.stderr}"
    surfaces = json.loads(figures.read_text())["surfaces"]
    assert set(surfaces) == set(run.SURFACES)
    assert {found["inputs"] for found in surfaces.values()} == {INPUTS}


@pytest.mark.parametrize(
    ("case", "ended", "seen"),
    [
        (Case(()), Ended(0), None),
        (Case(()), Ended(2, "epochfence: none.py: no such file\n"), None),
        (Case(()), Ended(1, "epochfence: internal error\n"), "not documented"),
        (Case(()), Ended(0, error="Traceback"), "Traceback"),
        (Case(()), Ended(2, ""), "without a line"),
        (Case(()), Ended(2, "Error\n"), "of no form"),
        (Case(()), Ended(2, "epochfence: " + "x" * 2_000), "2012 characters"),
        (Case(()), Ended(2, "epochfence: a\nepochfence: b\n"), "more than one line"),
        (Case((), place="file"), Ended(2, "epochfence: wrong\n"), "doesn't name file"),
        (Case((), bound=12), Ended(0), "better verdict"),
        (Case((), bound=12), Ended(20), "better verdict"),
        (Case((), bound=20), Ended(0), "better verdict"),
        (Case((), bound=20), Ended(12), None),
        (Case((), bound=REFUSED), Ended(12), "better verdict"),
        (Case((), bound=12), Ended(2, "epochfence: line 1 is not valid JSON\n"), None),
        (Case((), exactly=0), Ended(12), "0 is meant"),
    ],
)
def test_the_oracle(case: Case, ended: Ended, seen: str | None) -> None:
    found = problem(case, ended)
    assert (found is None) if seen is None else (seen in (found or ""))


def _end(case: Case, _: Path) -> Ended:
    match case.words[0]:
        case "dies":
            os._exit(3)
        case "hangs":
            end = time.process_time() + 5
            while time.process_time() < end:
                pass
        case "sleeps":
            time.sleep(600)
        case "eats":
            try:
                assert bytearray(5 << 30)
            except MemoryError as error:
                return Ended(1, error=repr(error))
    return Ended(0)


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("word", "seen"),
    [("dies", "ends the process: exit 3"), ("hangs", "processor time"), ("eats", "MemoryError")],
)
def test_a_worker_outlives_no_bad_input_unseen(word: str, seen: str) -> None:
    def generate(random: Random) -> Case:
        return Case((word if random.random() < 0.5 else "ends",))

    surface = Surface("made up", generate, _end, seconds=0.2)
    words = [surface.case(1, number).words[0] for number in range(4)]
    found = run_for(surface, 1, 0, 60, len(words))
    assert found.inputs == len(words)
    assert word in words
    assert [number for number, _ in found.failures] == [
        at for at, each in enumerate(words) if each == word
    ]
    assert all(seen in wrong for _, wrong in found.failures)


@pytest.mark.parametrize(("power", "seen"), [(1, None), (2, "for 4 times the input")])
def test_a_reader_whose_time_grows_faster_than_its_input_is_noticed(
    power: int, seen: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = [0.0]

    def reads(case: Case, _: Path) -> Ended:
        clock[0] += len(case.files["h.jsonl"]) ** power / 1_000
        return Ended(0)

    monkeypatch.setattr(sizes, "command", reads)
    monkeypatch.setattr(sizes.time, "process_time", lambda: clock[0])
    ended = sizes.run(sizes.case("names", 50), tmp_path)
    assert (ended.error == "") if seen is None else (seen in ended.error)


@pytest.mark.parametrize("kind", [kind for kind in sizes.KINDS if kind.startswith("names")])
def test_a_name_that_occurs_twice_among_many_is_found_in_linear_time(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = sizes.run(sizes.case(kind, 20_000), tmp_path)
    assert (ended.code, ended.error) == (REFUSED, "")
    assert "'name 79999' occurs twice" in ended.err


@pytest.mark.slow(1)
def test_an_input_that_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SILENCE", 2)
    found = run_case(Surface("made up", lambda _: Case(()), _end), Case(("sleeps",)))
    assert found == "it doesn't come back, and has done nothing for 2 s"


def test_a_failing_input_is_kept_and_runs_again(tmp_path: Path) -> None:
    line = b'{"request": "InitProducerId", "transactional_id": 1}\n'
    words = ("diff", "--protocols", "4.0.0", "4.1", "requests.jsonl")
    case = Case(words, {"requests.jsonl": line}, exactly=0, place="requests.jsonl")
    path = write_failure(tmp_path, "requests", case, "", {"seed": 1, "number": 0})
    assert Case.from_json(json.loads(path.read_text())["case"]) == case
    assert "transactional_id is a string: not 1" in (replay(path) or "")


# What the drivers found ---------------------------------------------------------------------------


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "line",
    [
        {"request": "EndTxn", "transactional_id": "a", "producer_id": [], "producer_epoch": 0,
         "result": "COMMIT"},
        {"request": "EndTxn", "transactional_id": "a", "producer_id": "0", "producer_epoch": 0,
         "result": "COMMIT"},
        {"request": "Produce", "partition": "t-0", "producer_id": {}, "producer_epoch": 0,
         "base_sequence": 0},
        {"request": "Fetch", "partition": "t-0", "batches": 1},
        {"skip_to_epoch": 3},
        {"sleep_ms": 1, "restart": True},
        {"restart": "x" * 5_000},
    ],
)  # fmt: skip
def test_no_line_of_a_trace_is_replayed_that_is_no_request(line: dict[str, object]) -> None:
    files = {traces.FILE: json.dumps(line).encode()}
    for words in (("replay", "4.1"), ("diff", "--protocols", "4.0.0", "4.1", traces.FILE)):
        case = Case(words, files, bound=REFUSED, place=traces.FILE)
        assert run_case(traces.SURFACE, case) is None
