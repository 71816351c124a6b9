"""The OpenAPI description of the control port, and the programs that docs/control.md shows."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.cli.checking.traces import schedule_in
from epochfence.model.serve.control import Control, description
from epochfence.model.serve.server import Server

from .faults.test_faults import Http

DOCS = Path(__file__).parents[3] / "docs"
PROGRAMS = DOCS / "examples" / "control"
BUILT = {
    "go": (("go", "build", "-o", "{out}", "{program}"), ("{out}",)),
    "rs": (("rustc", "-o", "{out}", "{program}"), ("{out}",)),
    "js": ((), ("node", "{program}")),
}
"""By suffix: the command that builds a program, and the one that runs it."""


@pytest.fixture
def control() -> Iterator[Control]:
    schedule = partial(schedule_in, protocol="4.3", by_clock=False, only_shipped=True)
    with Server("4.3") as server, Control(server, schedule=schedule) as control:
        yield control


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (target for name, target in node.items() if name == "$ref")
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from references(part)


def test_every_reference_has_its_target() -> None:
    document = description()
    targets = set(references(document))
    assert {target.rpartition("/")[2] for target in targets} >= {"Fault", "matcher", "Refused"}
    for target in targets:
        found = document
        for name in target.removeprefix("#/").split("/"):
            found = found[name]
        assert isinstance(found, dict)


def test_it_describes_every_request_and_no_other(control: Control) -> None:
    application: Any = control._http.config.app
    routes = {
        (route.path, method) for route in application.routes for method in route.methods - {"HEAD"}
    }
    paths = description()["paths"]
    assert {(path, method.upper()) for path, at in paths.items() for method in at} == routes


def checked(path: str, method: str, answer: tuple[int, Any]) -> Any:
    """The body of an answer, which must have a described status and be valid under its schema."""
    document = description()
    status, body = answer
    described = document["paths"][path][method]["responses"][str(status)]
    if "$ref" in described:
        described = document["components"]["responses"]["Refused"]
    schema = described["content"]["application/json"]["schema"]
    fastjsonschema.validate({**schema, "components": document["components"]}, body)
    return body


def test_answers_are_as_described(control: Control) -> None:
    http = Http(control)
    assert checked("/openapi.json", "get", http.ask("GET", "/openapi.json")) == description()
    held = {"name": "held", "do": "hold", "on": {"request": "EndTxn"}}
    checked("/faults", "post", http.ask("POST", "/faults", held))
    failed = {"do": "bump_epoch", "transactional_id": "no"}
    assert "failed" in checked("/faults", "post", http.ask("POST", "/faults", failed))
    assert "error" in checked("/faults", "post", http.ask("POST", "/faults", {"do": "x"}))
    release = "/faults/{name}/release"
    checked(release, "post", http.ask("POST", "/faults/held/release"))
    checked(release, "post", http.ask("POST", "/faults/none/release"))
    (shown,) = checked("/faults", "get", http.ask("GET", "/faults"))
    assert shown["name"] == "held"
    assert checked("/acls", "get", http.ask("GET", "/acls")) is None
    acl = {"principal": "User:a", "operation": "READ", "resource": "TOPIC", "name": "orders"}
    assert checked("/acls", "put", http.ask("PUT", "/acls", {"acls": [acl]}))["acls"]
    assert "error" in checked("/acls", "put", http.ask("PUT", "/acls", {}))
    assert checked("/transactions", "get", http.ask("GET", "/transactions")) == []


@pytest.mark.slow(6)
def test_a_counterexample_is_replayed_over_http(control: Control, tmp_path: Path) -> None:
    trace = tmp_path / "late.itf.json"
    made = CliRunner().invoke(app, ["bugs", "KIP-890c", "--trace", str(trace)])
    assert made.exit_code == 0, made.output
    data = json.loads(trace.read_bytes())
    http = Http(control)

    def replay(**meta: str) -> Any:
        body = {**data, "#meta": {**data["#meta"], **meta}}
        return checked("/replay", "post", http.ask("POST", "/replay", body))

    assert replay() == {"error": "the trace is of release 3.9, not 4.3"}
    of_file = replay(protocol="4.3", system="/etc/hosts.py")
    refused = "the trace is of a system in a file, and this runs only shipped ones"
    assert of_file == {"error": refused}
    assert checked("/replay", "post", http.ask("POST", "/replay", {}))["error"]
    with Server("3.9") as server:
        schedule = partial(schedule_in, protocol="3.9", by_clock=False, only_shipped=True)
        with Control(server, schedule=schedule) as other:
            answer = checked("/replay", "post", Http(other).ask("POST", "/replay", data))
    assert "commitTransaction" in answer["clients"]
    assert [fault["do"] for fault in answer["faults"]] == ["delay"]


def test_the_page_shows_the_programs() -> None:
    text = (DOCS / "control.md").read_text(encoding="utf-8")
    files = sorted(PROGRAMS.iterdir())
    assert [file.suffix for file in files] == [".go", ".js", ".rs"]
    assert all(f"\n{file.read_text(encoding='utf-8')}```\n" in text for file in files)


@pytest.mark.long
@pytest.mark.parametrize(
    "suffix",
    [suffix for suffix, commands in BUILT.items() if shutil.which((*commands[0], *commands[1])[0])],
)
def test_a_program_adds_a_fault(suffix: str, control: Control, tmp_path: Path) -> None:
    """Those whose compiler or interpreter is on the path."""
    places = {"out": tmp_path / "control", "program": PROGRAMS / f"control.{suffix}"}
    build, start = ([part.format(**places) for part in command] for command in BUILT[suffix])
    if build:
        subprocess.run(build, cwd=tmp_path, check=True, timeout=300)
    done = subprocess.run(
        [*start, control.address], capture_output=True, text=True, check=True, timeout=60
    )
    (shown,) = json.loads(done.stdout)
    assert shown == {"name": "lost", "do": "lose_answer", "fired": 0, "waiting": 0}
