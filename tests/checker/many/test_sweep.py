"""Many explorations of one system: the same results as one by one, journal as they come in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.checker.check import check
from epochfence.checker.many import sweep as sweeps
from epochfence.checker.many.journal import Journal, JournalError
from epochfence.checker.many.workers import Workers
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Verdict
from epochfence.language import DeclarationError, Protocols, instantiate
from epochfence.tests.cli.test_cli import ROOT, epochfence

LEASE = str(ROOT / "docs" / "examples" / "lease.py")
SYSTEM = load_system(LEASE)
GIVEN = {"leases": (2, 3), "expiries": (1,)}
TIMES = {"seconds", "compile_seconds", "kernel_from_cache", "states_per_second", "memory_bytes"}


def some() -> list[sweeps.Piece]:
    return sweeps.pieces(SYSTEM, ["1", "2"], GIVEN)


def test_each_is_what_a_single_run_finds() -> None:
    results = sweeps.sweep(some())
    for piece, result in zip(some(), results, strict=True):
        alone = check(instantiate(SYSTEM, piece.protocol, dict(piece.constants))).as_json()
        assert {k: v for k, v in result.items() if k not in TIMES} == {
            k: v for k, v in alone.items() if k not in TIMES
        }
    chosen = [(result["protocol"], result["constants"]["leases"]) for result in results]
    assert chosen == [("1", 2), ("1", 3), ("2", 2), ("2", 3)]
    assert sweeps.worst(results) is Verdict.BROKEN
    assert sweeps.worst(results[2:]) is Verdict.HOLDS


@pytest.mark.slow(1)
def test_more_than_one_process_comes_to_the_same() -> None:
    def told(workers: Workers) -> list[tuple[str, int, int]]:
        results = sweeps.sweep(some(), workers)
        return [(r["verdict"], r["states"], r["transitions"]) for r in results]

    assert told(Workers(2)) == told(Workers(1))


def test_what_is_kept_is_not_done_again(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    done: list[str] = []
    with closing(Journal(file, "now")) as journal:
        first = sweeps.sweep(
            some()[:3], journal=journal, on_result=lambda r: done.append(r["protocol"])
        )
        with pytest.raises(JournalError, match=r"results\.jsonl is in use by another process"):
            Journal(file, "now")
    assert len(done) == 3
    # a run that was killed as it wrote leaves half a line
    with file.open("a") as torn:
        torn.write('{"digest": "now", "chos')
    done.clear()
    with closing(Journal(file, "now")) as journal:
        every = sweeps.sweep(
            some(), journal=journal, on_result=lambda r: done.append(r["protocol"])
        )
    assert done == ["2"]
    assert every[:3] == first
    with closing(Journal(file, "now")) as journal:
        assert len(journal.found) == 4
    # of other declarations nothing is taken
    with closing(Journal(file, "later")) as journal:
        assert journal.found == {}


def test_what_came_to_no_end_is_done_again(tmp_path: Path) -> None:
    piece, *_ = some()
    with closing(Journal(tmp_path / "results.jsonl", "now")) as journal:
        small = sweeps.sweep([replace(piece, memory=1)], journal=journal)
        assert sweeps.worst(small) is Verdict.INCONCLUSIVE
        assert sweeps.sweep([piece], journal=journal) != small


@pytest.mark.parametrize("text", ["my notes", '{"digest": "now"}\n', "1\n", "[" * 100_000])
def test_a_file_of_something_else_stays_as_it_is(text: str, tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text(text)
    with pytest.raises(JournalError, match="notes, line 1: not a saved result"):
        Journal(file, "now")
    assert file.read_text() == text


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_what_is_no_plain_file_is_refused(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
    with pytest.raises(JournalError, match=r"can't use .*place: "):
        Journal(place, "now")


def test_an_edited_verdict_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with closing(Journal(file, "now")) as journal:
        assert sweeps.worst(sweeps.sweep(some()[:1], journal=journal)) is Verdict.BROKEN
    file.write_text(file.read_text().replace('"exit_code": 12', '"exit_code": 0'))
    with pytest.raises(JournalError, match=r"line 1: .* its checksum doesn't fit"):
        Journal(file, "now")


@pytest.mark.slow(1)
def test_a_digest_is_of_all_that_matters() -> None:
    one, *_ = some()
    assert sweeps.digest(one) == sweeps.digest(some()[1])
    other = sweeps.pieces(load_system(str(ROOT / "docs" / "examples" / "retry.py")), ["1"], {})[0]
    assert sweeps.digest(one) != sweeps.digest(other)
    different = (
        replace(one, properties=("OneHolder",)),
        replace(one, switch_on=("fencing",)),
        replace(one, deadlock=False),
        replace(one, bounds="large"),
        replace(one, protocol="2"),
    )
    assert all(one.chosen != piece.chosen for piece in different)


SHOWN = (
    "from epochfence.checker.many.sweep import *; "
    "print(digest(pieces(load_system({}), ['1'], {{}})[0]))"
)


@pytest.mark.slow(1)
def test_a_digest_is_the_same_in_each_process() -> None:
    """Sets are in another order in each."""
    text = f"from epochfence.checker.named_systems import load_system; {SHOWN.format(repr(LEASE))}"
    found = {
        subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {f"{sweeps.digest(some()[0])}\n".encode()}


@pytest.mark.parametrize("command", ["sweep", "matrix"])
def test_after_a_change_of_a_file_its_old_results_are_not_used(
    command: str, tmp_path: Path
) -> None:
    """They stay in the results, and are used again once the change is taken back."""
    mine, results = tmp_path / "mine.py", tmp_path / "results.jsonl"
    text = Path(LEASE).read_text()
    guard = "when=Write.lease < written,"
    assert guard in text
    given = (command, mine, "--protocols", "2", "--jobs", "1", "--results", results)
    saved: list[int] = []
    for change, code in ((guard, 0), (f"{guard[:-1]} - 3,", 12), (guard, 0)):
        mine.write_text(text.replace(guard, change))
        ended = epochfence(*given)
        assert ended.code == code, ended.out
        saved.append(len(results.read_text().splitlines()))
    assert saved[0] < saved[1] == saved[2]


@pytest.mark.parametrize(
    ("text", "found"),
    [("2", [2]), ("1..3", [1, 2, 3]), ("1,5,1", [1, 5]), ("1..2,7", [1, 2, 7])],
)
def test_values(text: str, found: list[int]) -> None:
    assert sweeps.values(text) == found


@pytest.mark.parametrize("text", ["", "a", "1..", "3..1", "1..x"])
def test_no_values(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        sweeps.values(text)


def test_releases() -> None:
    protocols = Protocols(("1", "2", "3"), ())
    assert sweeps.releases("1..2", protocols) == ["1", "2"]
    assert sweeps.releases("3,1", protocols) == ["3", "1"]
    parts = Protocols(("1", "2"), (), parts=("client",))
    assert sweeps.releases("1,2+client=1", parts) == ["1", "2+client=1"]
    for text in ("4", "1..4", "3..1", ""):
        with pytest.raises(DeclarationError):
            sweeps.releases(text, protocols)


# The command -------------------------------------------------------------------------------------


@pytest.mark.slow(1)
def test_the_command_tells_a_line_for_each(tmp_path: Path) -> None:
    told, journal = tmp_path / "told.json", tmp_path / "kept.jsonl"
    given = ("sweep", LEASE, "--protocols", "1..2", "--set", "leases=2..3", "--jobs", "1")
    ended = epochfence(*given, "--results", journal, "--json", told)
    assert ended.code == 12
    lines = [line.split() for line in ended.out.splitlines()]
    assert [line[:2] for line in lines[2:6]] == [["1", "2"], ["1", "3"], ["2", "2"], ["2", "3"]]
    assert "Everything holds in 2 of 4 runs. (exit 12, BROKEN)" in ended.out
    results = json.loads(told.read_text())["results"]
    assert [result["verdict"] for result in results] == ["broken", "broken", "holds", "holds"]
    again = epochfence(*given, "--results", journal)
    assert (again.code, again.out, again.err) == (12, ended.out, "")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--set", "leases=x"), "--set leases=x: write NAME=1..3 or NAME=1,2,5"),
        (("--set", "leases=0..2"), "leases=0"),
        (("--set", "locks=1"), "locks"),
        (("--protocols", "1..9"), "unknown protocol 9"),
        (("--property", "Nothing"), "Nothing"),
        (("--engine", "cluster"), "--engine cluster: must be local or spark"),
        (("--master", "local[2]"), "--master needs --engine spark"),
        (("--memory", "0"), "--memory 0"),
        (("--results", "no/such/folder.jsonl"), "no/such/folder.jsonl"),
        (("--results", LEASE), "lease.py, line 1: not a saved result"),
    ],
)
def test_bad_input_is_one_line(more: tuple[str, ...], says: str) -> None:
    ended = epochfence("sweep", LEASE, *more)
    assert ended.code == 2
    assert says in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_on_spark_it_comes_to_the_same(tmp_path: Path) -> None:
    given = ("sweep", LEASE, "--protocols", "1..2", "--set", "leases=2..3")
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    assert epochfence(*given, "--jobs", "1", "--json", here).code == 12
    ended = epochfence(*given, "--engine", "spark", "--json", there)
    assert ended.code == 12, ended.err

    def counts(file: Path) -> list[tuple[str, int, int, int]]:
        names = ("verdict", "states", "transitions", "depth")
        return [tuple(r[n] for n in names) for r in json.loads(file.read_text())["results"]]

    assert counts(here) == counts(there)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_proofs_on_spark_come_to_the_same(tmp_path: Path) -> None:
    given = ("prove", LEASE, "--property", "OneHolder", "--property", "NoStaleWrite")
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    assert epochfence(*given, "--jobs", "1", "--json", here).code == 0
    ended = epochfence(*given, "--engine", "spark", "--json", there)
    assert ended.code == 0, ended.err

    def verdicts(file: Path) -> list[tuple[str, str, tuple[str, ...]]]:
        told = json.loads(file.read_text())
        return sorted((o["subject"], o["case"], o["verdict"]) for o in told["obligations"])

    assert verdicts(here) == verdicts(there)
