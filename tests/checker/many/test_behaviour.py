"""Two releases side by side: the shortest run in which they differ, and every row that does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.checker.many.behaviour import Answer, Behaviour, compare
from epochfence.checker.named_systems import load_system
from epochfence.language import DeclarationError, instantiate, lift
from epochfence.spec.bugs import bug_of
from epochfence.tests.cli.test_cli import ROOT, epochfence

RETRY = str(ROOT / "docs" / "examples" / "retry.py")
LEASE = str(ROOT / "docs" / "examples" / "lease.py")


def found(file: str, before: str, after: str, most: int = 10_000) -> Behaviour:
    system = load_system(file)
    return compare(instantiate(system, before), instantiate(system, after), most)


def test_the_shortest_run_is_found() -> None:
    """In release 1 a server says nothing to a call that it has seen."""
    told = found(RETRY, "1", "2")
    assert told.exhaustive
    (first, *_) = told.found
    assert first.before is not None
    assert first.after is not None
    assert (first.before.sends, len(first.after.sends)) == ((), 1)
    assert first.after.sends[0].startswith("Answer(")
    rows = [step.row for step in first.run.steps]
    assert (len(rows), rows[0], rows[-1]) == (5, "ask", "seen before")
    lengths = [len(each.run.steps) for each in told.found]
    assert lengths == sorted(lengths)


def test_the_other_way_round_it_is_the_same_run() -> None:
    there, back = found(RETRY, "1", "2"), found(RETRY, "2", "1")
    assert [(x.before, x.after) for x in there.found] == [(x.after, x.before) for x in back.found]


@pytest.mark.parametrize("file", [RETRY, LEASE])
def test_a_release_does_not_differ_from_itself(file: str) -> None:
    told = found(file, "2", "2")
    assert (told.found, told.exhaustive) == ((), True)


def test_what_is_not_looked_at_is_said() -> None:
    told = found(LEASE, "1", "2", most=3)
    assert (told.found, told.pairs, told.exhaustive) == ((), 3, False)


@pytest.mark.slow(1)
def test_what_can_happen_in_one_alone_differs() -> None:
    """A stale write is refused in release 2: who is refused gives up, and who isn't is done."""
    told = found(LEASE, "1", "2")
    assert told.found
    assert all(each.before != each.after for each in told.found)


# The command -------------------------------------------------------------------------------------


def test_the_command_shows_the_run(tmp_path: Path) -> None:
    file = tmp_path / "told.json"
    given = ("diff", RETRY, "--protocols", "1", "2", "--behaviour", "--json", file)
    ended = epochfence(*given)
    assert ended.code == 0
    assert "The shortest run in which 1 and 2 differ" in ended.out
    assert "  1: [seen before] sends nothing" in ended.out
    data = json.loads(file.read_text())
    assert data["exhaustive"]
    assert data["differences"][0]["before"] == {"row": "seen before", "sends": []}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--bounds", "small"), "--bounds, --set and --states need --behaviour"),
        (("--behaviour", "--bounds", "huge"), "no bounds called huge"),
        (("--behaviour", "--set", "x=1"), "has no constant x"),
        (("--behaviour", "--states", "0"), "--states"),
    ],
)
def test_bad_input_is_one_line(more: tuple[str, ...], says: str) -> None:
    ended = epochfence("diff", RETRY, "--protocols", "1", "2", *more)
    assert ended.code == 2
    assert says in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.slow(10)
def test_what_is_in_a_log_differs() -> None:
    """KAFKA-19446: a late marker whose connection is closed, so that nobody is answered."""
    system, constants = load_system("transactions"), dict(bug_of("KAFKA-19446").constants)
    told = compare(instantiate(system, "4.1", constants), instantiate(system, "4.2", constants))
    assert told.exhaustive
    (only,) = told.found
    assert (only.action, len(only.run.steps)) == ("partition.WriteTxnMarkers", 28)
    assert only.before is not None
    assert only.after is not None
    assert (only.before.sends, only.after.sends) == ((), ())
    unseen = replace(system, observed=())
    pair = instantiate(unseen, "4.1", constants), instantiate(unseen, "4.2", constants)
    assert not compare(*pair).found


def test_what_is_in_a_replicas_log_differs() -> None:
    """KIP-279: a follower has another record than its leader, and keeps it. No message tells."""
    system, constants = load_system("replication"), {"replicas": 2, "crashes": 0}
    pair = instantiate(system, "1.1", constants), instantiate(system, "2.0", constants)
    (only,) = compare(*pair, 700).found
    assert (only.action, len(only.run.steps)) == ("replica.OffsetForLeaderEpoch", 9)
    assert only.before == Answer("truncate-to-leader", ())
    assert only.after == Answer("ask-again", ())
    unseen = replace(system, observed=())
    pair = instantiate(unseen, "1.1", constants), instantiate(unseen, "2.0", constants)
    assert not compare(*pair, 700).found


def test_what_is_observed_is_a_field() -> None:
    with pytest.raises(DeclarationError, match=r"observed: .* is not a field"):
        replace(load_system(RETRY), observed=(lift(1),))
