"""Scripts of known bugs, by name."""

from __future__ import annotations

import pytest

from epochfence.model.serve.faults.scripts import Script, entries, script_of, scripts
from epochfence.model.serve.server import Server
from epochfence.spec.bugs import BUGS, bug_of
from epochfence.tests.cli.test_cli import epochfence


def test_each_bug_has_a_script_or_a_reason() -> None:
    assert [entry["bug"] for entry in entries()] == [bug.id for bug in BUGS]
    named = {script.bug for script in scripts()}
    assert {entry["bug"] for entry in entries() if "why" not in entry} == named


@pytest.mark.parametrize("script", scripts(), ids=[script.bug for script in scripts()])
def test_a_script_is_taken_by_a_cluster_of_a_release_with_the_bug(script: Script) -> None:
    assert script.release in bug_of(script.bug).releases
    assert script_of(script.bug) is script
    with Server(script.release, port=0) as server:
        added = [server.faults.add(dict(fault)) for fault in script.faults]
        assert server.faults.unfired == added != []


def test_a_script_by_name_names_release_and_calls() -> None:
    ended = epochfence("serve", "--script", "KAFKA-14402", "--port", "0", "--seconds", "0.1")
    assert ended.code == 20  # nobody came, so the fault didn't fire
    assert "Kafka 3.5 in memory" in ended.out
    assert "initTransactions" in ended.out
    assert "hold" in ended.out


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("KAFKA-1440", "no bug is called KAFKA-1440: did you mean KAFKA-14402?"),
        ("KAFKA-16352", "KAFKA-16352 has no script: "),
        ("nothing.json", "can't read nothing.json: No such file"),
    ],
)
def test_a_script_that_isnt_there(name: str, why: str) -> None:
    ended = epochfence("serve", "--script", name, "--port", "0", "--seconds", "0.1")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert why in ended.err


def test_scripts_are_listed() -> None:
    ended = epochfence("serve", "--list-scripts")
    assert all(script.bug in ended.out for script in scripts())
