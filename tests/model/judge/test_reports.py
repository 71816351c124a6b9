"""Small histories from public bug reports, each with its right finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochfence.tests.cli.test_cli import Ended, epochfence

REPORTS = Path(__file__).with_name("reports")


def judged(name: str, protocol: str, *options: str) -> Ended:
    """What the command finds of a report."""
    return epochfence("judge", REPORTS / f"{name}.jsonl", "--protocol", protocol, *options)


@pytest.mark.parametrize("protocol", ["3.6", "4.3"])
@pytest.mark.parametrize("name", ["answer-that-no-broker-gives", "init-answered-out-of-range"])
def test_no_broker_gives_this_answer(name: str, protocol: str) -> None:
    ended = judged(name, protocol)
    assert ended.code == 12, ended.out
    assert "No broker of this release answers" in ended.out


@pytest.mark.parametrize("protocol", ["3.9.2", "3.9.7", "4"])
def test_the_number_of_a_patch_names_a_release(protocol: str) -> None:
    ended = judged("answer-that-no-broker-gives", protocol)
    assert ended.code == 12, ended.out
    assert ended.out.splitlines()[0].endswith("(exit 12)")  # the verdict comes first


@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.3"])
def test_a_leader_that_starts_from_a_snapshot_knows_the_last_batch_alone(protocol: str) -> None:
    ended = judged("leader-from-a-snapshot", protocol)
    assert ended.code == 0, ended.out


@pytest.mark.parametrize("protocol", ["0.11.0.2", "2.5", "3.9", "4.0.0", "4.3"])
def test_elapsed_time_does_not_multiply_states(protocol: str) -> None:
    ended = judged("end-after-eight-days", protocol, "--limit", "1000")
    assert ended.code == 0, ended.out


SEGMENTS = {
    "lost": (12, "orders-0/00000000000000000000.log, byte 232: offset 5 is missing"),
    "pid": (12, "transaction from offset 5 will get no end: epoch 1"),
    "snap": (12, "6.snapshot: lacks producer 4000, whose transaction is open from offset 5"),
    "name": (20, "abc.snapshot: isn't read: its name isn't an offset of 20 digits"),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_damaged_files_are_not_explained(name: str) -> None:
    code, told = SEGMENTS[name]
    ended = epochfence("judge", "--segments", REPORTS / "segments" / name)
    assert (ended.code, ended.err) == (code, "")
    assert told in ended.out
