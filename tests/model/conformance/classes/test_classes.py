"""Local steps for Kafka's classes, and their comparison, without a JVM."""

from __future__ import annotations

import dataclasses
import json
import pickle
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
from packaging.requirements import Requirement

from epochfence.checker.many.workers import Workers
from epochfence.cli.oracle import classes as command
from epochfence.model.conformance.classes import host
from epochfence.model.conformance.classes.comparison import ABSENT, Comparison, compare
from epochfence.model.conformance.classes.host import (
    IN,
    OUT,
    DiedError,
    Host,
    UnavailableError,
    jars_in,
)
from epochfence.model.conformance.classes.machines import MACHINES, client_steps
from epochfence.model.conformance.classes.machines.client_steps import NOT_OFFERED, SEEDS, Client
from epochfence.model.conformance.classes.machines.group_offsets_steps import GroupOffsets
from epochfence.model.conformance.classes.machines.zookeeper_id_steps import ZooKeeperIds
from epochfence.model.conformance.classes.steps import LocalStep, LocalSteps
from epochfence.model.machine import Machine
from epochfence.spec.groups.offsets import offset_metadata
from epochfence.spec.groups.state import committed
from epochfence.tests.cli.test_cli import ROOT, epochfence


class Faithful:
    """In the place of a JVM: a class that does as the tables say, but for `other` results."""

    def __init__(self, steps: list[LocalStep], *, dies_after: int = 10**9) -> None:
        self.expected = {step.given: result_of(step) for step in steps}
        self.dies_after = dies_after
        self.sent: list[tuple[int, ...]] = []
        self.other: dict[int, int] = {}

    def send(self, steps: Sequence[tuple[int, ...]]) -> None:
        self.sent = list(steps)

    def results(self, count: int) -> list[tuple[int, ...]]:
        self.dies_after -= count
        if self.dies_after < 0:
            raise DiedError("the JVM ended with 1: OutOfMemoryError")
        found = [list(self.expected[given]) for given in self.sent]
        for place, value in self.other.items():
            found[0][place] = value
        return [tuple(each) for each in found]


def result_of(step: LocalStep) -> tuple[int, ...]:
    answer = tuple(0 if value is None else value for value in step.answer)
    given = 0, *answer, *(0 if value is None else value for value in step.after)
    return given + (0,) * (OUT - len(given))


def newest(name: str) -> LocalSteps:
    """The machine at the last release whose class has it."""
    return MACHINES[name](MACHINES[name].until or "4.4")


@cache
def some_steps(count: int = 300, name: str = "coordinator") -> list[LocalStep]:
    return list(islice(newest(name).steps(), count))


def compared(steps: list[LocalStep], jvm: Faithful, name: str = "coordinator") -> Comparison:
    return compare(newest(name), steps, cast("Host", jvm))


@pytest.mark.parametrize("name", MACHINES)
def test_each_local_step_occurs_once_and_fits_the_pipe(name: str) -> None:
    steps, machine = some_steps(2500, name), newest(name)
    assert len({(step.given, step.rows) for step in steps}) == len(steps)
    assert all(len(step.given) <= IN for step in steps)
    assert {len(step.answer) for step in steps} == {len(machine.answers)}
    assert {len(step.after) for step in steps} == {len(machine.fields)}
    assert len(machine.answers) + len(machine.fields) < OUT
    assert {row for step in steps for row in step.rows} <= set(machine.rows())


@pytest.mark.parametrize("name", [each for each in MACHINES if each != Client.name])
def test_the_way_to_a_state_is_a_shortest_one(name: str) -> None:
    steps = some_steps(2500, name)
    assert steps[0].way() == []
    lengths = [len(step.way()) for step in steps]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("name", MACHINES)
def test_a_class_that_does_as_the_tables_say_agrees(name: str) -> None:
    steps = some_steps(2500, name)
    result = compared(steps, Faithful(steps), name)
    assert (result.steps, result.disagreeing) == (len(steps), 0)


@pytest.mark.parametrize("name", MACHINES)
def test_rows_that_are_left_out_exist(name: str) -> None:
    releases = ("3.6", "4.4") if MACHINES[name].until is None else ("2.5", "2.8")
    rows = {row for release in releases for row in MACHINES[name](release).rows()}
    assert rows >= set(newest(name).rows_left_out)


def test_the_page_says_which_events_of_a_client_are_not_offered() -> None:
    page = (ROOT / "docs" / "classes.md").read_text(encoding="utf-8")
    _, found = page.split("These events aren't offered:\n\n* ")
    listed = found.split("\n\n")[0].split("\n* ")
    assert [" ".join(each.split()) for each in listed] == [why for _, why in NOT_OFFERED]


def test_each_event_of_a_client_that_is_not_offered_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first states: an exclusion that nothing meets would be dead."""
    met: set[str] = set()

    def is_left_out(*of: Any) -> bool:
        found = {why for is_so, why in NOT_OFFERED if is_so(*of)}
        met.update(found)
        return bool(found)

    monkeypatch.setattr(client_steps, "NOT_OFFERED", ((is_left_out, "any of them"),))
    list(Client("3.6").steps(300))
    assert met == {why for _, why in NOT_OFFERED}


@pytest.mark.parametrize(("release", "has"), [("3.6", False), ("4.4", True)])
def test_a_client_is_answered_the_errors_that_its_release_knows(release: str, *, has: bool) -> None:
    steps = islice(Client(release).steps(), 400)
    assert any("TRANSACTION_ABORTABLE" in step.said for step in steps) == has


def test_a_clients_seeds_lead_to_rows_far_from_its_first_state() -> None:
    machine = Client("4.4")
    ends = [
        list(machine.path(version, *path))[-1] for version, paths in SEEDS.items() for path in paths
    ]
    assert {row for step in ends for row in step.rows} >= {
        ("ProduceResponse", "abortable-not-adjusted"),
        ("EndTxnResponse", "invalid-transition-fatal"),
        ("bump epoch", "no-producer-id"),
    }


@pytest.mark.parametrize("place", range(1, 19))
def test_every_number_of_a_result_counts(place: int) -> None:
    step = next(
        step
        for step in some_steps(2500)
        if step.rows[0] == ("InitProducerId", "increment-epoch")
        and len(step.rows) == 2
        and step.answer[1] == 0
    )
    jvm = Faithful([step])
    jvm.other = {place: 77}
    result = compared([step], jvm)
    assert result.disagreeing == 1
    assert "77 in Kafka's class" in result.disagreements[0].places[0]


@pytest.mark.parametrize("release", ["2.5", "2.8"])
def test_ids_from_zookeeper_have_few_states(release: str) -> None:
    """A block that wasn't written may be the current one, far above the next id (KAFKA-12620)."""
    steps = list(islice(ZooKeeperIds(release).steps(), 10_000))
    assert len(steps) < 10_000
    assert any(step.given[0] == 1 and 0 <= step.given[3] < step.given[2] for step in steps)
    taken = {row for step in steps for row in step.rows}
    assert {*ZooKeeperIds(release).rows()} - taken == {("SetDataResponse", "closed-connection")}


def test_a_mutated_row_is_noticed() -> None:
    """A row that drops a committed transaction's offset differs from the class."""
    name = GroupOffsets.name
    steps = some_steps(6200, name)
    jvm = Faithful(steps)
    ended = offset_metadata.transaction_ended
    completed = next(row for row in ended.rows if row.id == "completed")
    changed = dataclasses.replace(completed, set={**completed.set, committed: committed})
    rows = tuple(changed if row is completed else row for row in ended.rows)
    tables = tuple(
        dataclasses.replace(table, rows=rows) if table is ended else table
        for table in MACHINES[name]("4.4").blank.tables
    )
    mutant = GroupOffsets("4.4", Machine(tables, protocol="4.4"))
    known = (step for step in mutant.steps(34) if step.given in jvm.expected)
    result = compare(mutant, known, cast("Host", jvm))
    assert {row for found in result.disagreements for row in found.step.rows} == {
        (ended.on.name, "completed")
    }


@pytest.mark.parametrize("release", ["2.5", "3.6", "3.9"])
def test_before_4_0_a_groups_offsets_take_every_row(release: str) -> None:
    machine = GroupOffsets(release)
    taken = {row for step in machine.steps(60) for row in step.rows}
    assert [row for row in machine.rows() if row not in taken] == []


@pytest.mark.parametrize(("release", "drops"), [("3.6", True), ("4.4", False)])
def test_before_4_0_the_log_keeps_what_a_refusal_drops(release: str, drops: bool) -> None:
    """Another coordinator that reads the log has the pending offset (finding 16)."""
    refuse = offset_metadata.refuse.name
    steps = [step for step in GroupOffsets(release).steps(60) if step.rows[-1][0] == refuse]
    assert steps
    assert any(step.answer[-1] == 0 for step in steps) == drops


def test_a_reader_isnt_compared_while_a_marker_waits_for_its_thread() -> None:
    steps = list(GroupOffsets("3.6").steps(60))
    names = GroupOffsets.fields
    waits = names.index("(first completion)")
    waiting = [step for step in steps if step.after[waits]]
    assert waiting
    assert {step.answer[-1] for step in waiting} == {None}
    assert {step.answer[-1] for step in GroupOffsets("3.9").steps(40)} == {0, 1}


def test_a_field_that_a_release_lacks_is_named_and_not_compared() -> None:
    steps = some_steps(1)
    jvm = Faithful(steps)
    jvm.other = {10: ABSENT}
    steps = [steps[0]._replace(after=(1, *steps[0].after[1:]))]
    jvm.expected[steps[0].given] = result_of(steps[0])
    result = compared(steps, jvm)
    assert (result.disagreeing, result.lacking) == (0, {"nextProducerId"})


def test_the_results_before_the_jvm_died_are_kept() -> None:
    steps = some_steps(2500)
    result = compared(steps, Faithful(steps, dies_after=2100))
    assert (result.steps, result.died) == (2000, "the JVM ended with 1: OutOfMemoryError")


def test_the_results_before_the_jvm_died_of_the_next_steps_are_kept() -> None:
    steps = some_steps(2500)

    class Dies(Faithful):
        def send(self, steps: Sequence[tuple[int, ...]]) -> None:
            if self.sent:
                raise DiedError("the JVM ended with 1: OutOfMemoryError")
            super().send(steps)

    result = compared(steps, Dies(steps))
    assert (result.steps, result.died) == (2000, "the JVM ended with 1: OutOfMemoryError")


def test_jars_that_are_missing_or_of_another_scala_get_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="it has no jars"):
        jars_in(tmp_path)
    (tmp_path / "kafka_2.12-3.6.2.jar").touch()
    with pytest.raises(UnavailableError, match=r"of Scala 2\.12, and not of 2\.13"):
        jars_in(tmp_path)
    (tmp_path / "kafka_2.12-3.6.2.jar").rename(tmp_path / "kafka_2.13-3.6.2.jar")
    with pytest.raises(UnavailableError, match=r"mockito-core-VERSION\.jar isn't there"):
        jars_in(tmp_path)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("--classes 9.9", "--classes 9.9: "),
        ("--classes 4.3 --jars /nowhere", "--jars /nowhere: no such folder"),
        ("--classes 4.3 --bootstrap h:1", "takes --machine, --bounds, --jars, --results, --engine"),
        ("--machine coordinator", "are for --classes"),
        ("--engine spark --bootstrap h:1", "are for --classes"),
        ("--results /nowhere", "are for --classes"),
        ("--classes 4.3 --master local[2]", "--master needs --engine spark"),
        ("--classes 4.3,9.9", "--classes 9.9: "),
        ("--classes 4.3,4.4 --jars .", "--jars has the jars of one release"),
        ("--classes 2.8 --machine producer-ids", "--machine producer-ids is from 3.6 on"),
        ("--classes 3.6 --machine zookeeper-ids", "--machine zookeeper-ids is from 2.5 to 2.8"),
        ("--classes 2.4 --machine group-offsets", "--machine group-offsets is from 2.5 on"),
        ("", "needs --bootstrap HOST:PORT, or --classes RELEASE"),
    ],
)
def test_wrong_options_get_one_line(command: str, says: str) -> None:
    ended = epochfence("conform", *command.split())
    assert ended.code == 2
    assert says in ended.err
    assert ended.err.count("\n") == 1


def test_without_java_or_maven_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ended = epochfence("conform", "--classes", "4.3", "--bounds", "small")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "Kafka's jars need Maven (mvn)" in ended.err


def test_only_results_and_spark_need_an_extra() -> None:
    """A JVM and the tables are enough for a comparison."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = [Requirement(line).name for line in (*extras["check"], *extras["broker"])]
    absent = dict.fromkeys("z3" if name == "z3-solver" else name for name in names)
    program = (
        f"import sys; sys.modules |= {absent}\n"
        "from epochfence.cli.oracle import classes\n"
        "from epochfence.model.conformance.classes import comparison, host, machines\n"
        "classes._compared = lambda piece: {'unavailable': '', 'lines': [piece.name], "
        "'result': {}, 'exit_code': 0}\n"
        "sys.argv = ['epochfence', *'conform --classes 4.3 --machine leader'.split(), *%s]\n"
        "from epochfence.cli import main; main()"
    )
    needs = "is not installed: run pip install 'epochfence[check]'"
    for options, code, out, said in (
        ([], 0, "leader\n", ""),
        (["--results", "/dev/null"], 2, "", needs),
        (["--engine", "spark"], 2, "", needs),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program % options], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (code, out)
        assert said in done.stderr
        assert done.stderr.count("\n") == len(said[:1])


def test_each_machine_of_each_release_is_compared_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a file of results has isn't compared again, but for what is inconclusive."""
    seen: list[tuple[Any, ...]] = []

    def compared(piece: tuple[Any, ...]) -> dict[str, Any]:
        seen.append(piece[:3])
        release, name, _, _ = piece
        if (release, name) == ("4.3", "client") and len(seen) < 20:
            return {"unavailable": "java of a JDK from 17 on is needed", "host": "far"}
        code = 20 if name == "leader" and len(seen) < 20 else 0
        said = f"{name} at {release}"
        return {"unavailable": "", "lines": [said], "result": {"said": said}, "exit_code": code}

    monkeypatch.setattr(command, "_compared", compared)
    saved, told = tmp_path / "results", tmp_path / "told.json"
    given = "--classes", "2.8,4.3", "--bounds", "small", "--results", saved, "--json", told
    ended = epochfence("conform", *given)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.endswith("java of a JDK from 17 on is needed\n")
    before = {*seen}
    assert len(before) == len(seen)
    assert {piece[0] for piece in seen} == {"2.8", "4.3"}

    seen[:] = [("",)] * 20
    ended = epochfence("conform", *given)
    assert ended.code == 0
    again = seen[20:]
    assert {piece[1] for piece in again if piece in before} == {"leader", "client"}
    machines = [each["said"] for each in json.loads(told.read_text())["machines"]]
    assert len(machines) == len({*before, *again})
    assert machines[0] == "coordinator at 2.8"
    assert sorted(ended.out.splitlines()) == sorted(machines)


def test_an_executor_without_a_jdk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def each(_: Workers, work: Any, pieces: list[Any], name: str) -> Iterator[tuple[int, Any]]:
        assert name == "classes"
        work, pieces = pickle.loads(pickle.dumps((work, pieces)))  # as Spark sends them
        yield 0, work(pieces[0])

    monkeypatch.setattr(Workers, "each", each)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ended = epochfence("conform", "--classes", "4.3", "--engine", "spark")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert f"the executor on {socket.gethostname()}: Kafka's jars need Maven (mvn)" in ended.err


def test_a_cache_on_a_full_disk_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any) -> Path:
        return Path("/dev/full") / "cache"

    monkeypatch.setattr(host, "user_cache_path", full)
    monkeypatch.setattr(host.shutil, "which", lambda name: f"/bin/{name}")
    with pytest.raises(UnavailableError, match="can't write /dev/full"):
        host.jars_of("4.3.1")
