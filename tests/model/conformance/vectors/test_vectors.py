"""Vectors: each does on the oracle what it says, from its fields and from its requests; and the
runner of vectors in Java, on the example that stands beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from epochfence.language.types import Map
from epochfence.model.conformance.possible_states import RowName
from epochfence.model.conformance.vectors import search as searching
from epochfence.model.conformance.vectors.json_files import text, vectors
from epochfence.model.conformance.vectors.search import Event, Search, after, first, machines
from epochfence.model.conformance.vectors.values import message, named, read_mapping
from epochfence.model.engine.machine import Machine, noted
from epochfence.tests.cli.test_cli import epochfence

ROOT = Path(__file__).parents[4]
RUNNER = ROOT / "docs" / "examples" / "vectors"
RELEASE = "4.4"

pytestmark = pytest.mark.together  # the search is made once in a process


@cache
def search() -> Search:
    return Search(RELEASE)


@cache
def written(of: str) -> dict[str, Any]:
    return json.loads(text(vectors(search(), of)))


def event_of(data: dict[str, Any]) -> Event:
    return Event(data["event"], tuple(data["without"]), data["arguments"], data["outside"])


def put(machine: Machine, fields: dict[str, Any]) -> None:
    kinds = machine.names
    given = {n: read_mapping(v) if isinstance(kinds[n].type, Map) else v for n, v in fields.items()}
    machine.put(**given)


def differs(machine: Machine, vector: dict[str, Any]) -> str:
    """What is otherwise than the vector says; nothing where all is as it says."""
    with noted() as taken:
        sent = event_of(vector).happens(machine)
    row = next(iter(taken), None)
    expected = RowName(*(vector[name] for name in RowName._fields))
    if row is None or RowName.of(*row) != expected:
        return f"row {row}"
    told = json.loads(json.dumps(list(map(message, sent or ()))))
    state = json.loads(json.dumps(named(machine.state)))
    if told != vector["sent"]:
        return f"sent {told}"
    return "" if state == vector["before"] | vector["after"] else f"state {state}"


@cache
def blank() -> dict[str, Machine]:
    cluster = first(RELEASE)
    return {m.tables[0].machine.name: m for m in cluster.machines()}


def from_fields(vector: dict[str, Any]) -> Machine:
    machine = blank()[vector["machine"]].copy()
    put(machine, vector["before"])
    return machine


@pytest.mark.slow(20)
@pytest.mark.parametrize("of", ["coordinator", "leader"])
def test_each_vector_does_what_it_says(of: str) -> None:
    for vector in written(of)["vectors"]:
        assert not differs(from_fields(vector), vector), vector


@pytest.mark.slow(20)
@pytest.mark.parametrize("of", ["coordinator", "leader"])
def test_requests_and_events_lead_to_the_state(of: str) -> None:
    led = 0
    for vector in written(of)["vectors"]:
        reached = vector["reached"]
        node = after(RELEASE, tuple(reached["requests"]))
        assert node is not None
        if "of" not in reached:
            continue
        machine = machines(node.cluster)[reached["of"]].copy()
        for event in reached["events"]:
            assert event_of(event).happens(machine) is not None
        assert json.loads(json.dumps(named(machine.state))) == vector["before"], vector
        led += 1
    assert led > 0.9 * len(written(of)["vectors"])


@pytest.mark.slow(20)
def test_a_changed_outcome_is_found() -> None:
    for vector in written("coordinator")["vectors"]:
        if "error" in (vector["sent"] or [{}])[0]:
            changed = deepcopy(vector)
            changed["sent"][0]["error"] = "NETWORK_EXCEPTION"
            assert differs(from_fields(changed), changed).startswith("sent")
        changed = deepcopy(vector)
        changed["after"]["producer_epoch"] = 12345
        if vector["machine"] == "transaction":
            assert differs(from_fields(changed), changed).startswith(("state", "sent"))


@pytest.mark.slow(20)
def test_most_rows_have_one_and_each_other_a_reason() -> None:
    every = [written(of) for of in ("coordinator", "leader")]
    covered = sum(data["rows_covered"] for data in every)
    assert covered >= 0.85 * sum(data["rows"] for data in every)
    for data in every:
        assert len(data["not_covered"]) == data["rows"] - data["rows_covered"]
        assert all(row["why"] for row in data["not_covered"])


@pytest.mark.slow(30)
def test_the_command_writes_the_same_bytes_under_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the search that there is; a page's command searches again."""
    monkeypatch.setattr(searching, "Search", {RELEASE: search()}.__getitem__)
    done = epochfence("vectors", str(tmp_path / "v"), "--machine", "leader")
    assert (done.code, done.err) == (0, "")
    names = sorted(path.name for path in (tmp_path / "v").iterdir())
    assert names == ["leader.json", "vectors.schema.json"]
    told = (tmp_path / "v" / "leader.json").read_text()
    assert told == text(vectors(search(), "leader"))
    schema = json.loads((tmp_path / "v" / "vectors.schema.json").read_text())
    check = fastjsonschema.compile(schema)
    for data in (json.loads(told), written("coordinator")):
        check(data)


def test_bad_input_is_told_and_nothing_written(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for arguments, why in (
        ((str(tmp_path),), "has other files (mine.txt)"),
        ((str(tmp_path / "new"), "--protocol", "9.9"), "unknown release"),
        ((str(tmp_path / "new"), "--machine", "client"), "--machine"),
        ((str(tmp_path / "mine.txt"),), "can't create this folder"),
    ):
        ended = epochfence("vectors", *arguments)
        assert ended.code == 2
        assert why in ended.err
        assert ended.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


# In Java ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runner, compiled."""
    if shutil.which("javac") is None:
        pytest.skip("no JDK is installed: apt install openjdk-17-jdk-headless")
    folder = tmp_path_factory.mktemp("classes")
    command = ["javac", "-Xlint:all", "-Werror", "-d", folder, *RUNNER.glob("*.java")]
    subprocess.run(command, check=True)
    return folder


def run_in_java(classes: Path, folder: Path, content: str) -> tuple[int, str, str]:
    """The runner's exit code, output and errors on a file."""
    (folder / "vectors.json").write_text(content)
    command = ["java", "-cp", str(classes), "Runner", str(folder / "vectors.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_the_runner_has_fifty_lines_at_most() -> None:
    assert len((RUNNER / "Runner.java").read_text().splitlines()) <= 50


@pytest.mark.slow(20)
def test_what_is_implemented_passes(classes: Path, tmp_path: Path) -> None:
    code, out, err = run_in_java(classes, tmp_path, text(written("coordinator")))
    assert (code, err) == (0, "")
    assert f"vectors/coordinator.json\n{out}" in (ROOT / "docs" / "vectors.md").read_text()


@pytest.mark.slow(20)
def test_a_changed_outcome_is_told(classes: Path, tmp_path: Path) -> None:
    changed = deepcopy(written("coordinator"))
    rows = {"other-epoch": 0, "prepare": 0}
    for at, vector in enumerate(changed["vectors"]):
        if vector["row"] in rows and vector["without"] == ["transaction_version_2"]:
            rows[vector["row"]] = at
    answered, ended = rows.values()
    changed["vectors"][answered]["sent"][0]["error"] = "NONE"
    changed["vectors"][ended]["after"]["pending_epoch"] = 7
    code, out, err = run_in_java(classes, tmp_path, text(changed))
    assert (code, err) == (1, "")
    *lines, count = out.splitlines()
    assert "32 pass, 2 differ" in count
    told = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}
    assert told.keys() == {
        f"vectors[{answered}] EndTxn, other-epoch",
        f"vectors[{ended}] EndTxn, prepare",
    }
    assert "error=PRODUCER_FENCED" in told[f"vectors[{answered}] EndTxn, other-epoch"]
    assert told[f"vectors[{ended}] EndTxn, prepare"] == "pending_epoch is 0, not 7"


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("content", "code", "why"),
    [
        ('{"format": 1, "vectors": []}', 1, ""),
        ('{"format": 2, "vectors": []}', 2, "this reads format 1"),
        ('{"format": 1, "vectors": [', 2, "usage"),
    ],
)
def test_nothing_to_run_is_not_well(
    content: str, code: int, why: str, classes: Path, tmp_path: Path
) -> None:
    ended, _, err = run_in_java(classes, tmp_path, content)
    assert ended == code
    assert why in err
    assert err.count("\n") == (1 if why else 0)
