"""Delivery semantics: the cells of docs/semantics.md, and what each property is protected by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from typer.testing import CliRunner

from epochfence.checker.check import Options, check
from epochfence.checker.many.several_bounds import Answer, asked
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.cli import app
from epochfence.cli.checking.semantics import COLUMNS, sign, window_piece, window_sign
from epochfence.language import System, instantiate
from epochfence.spec.delivery.cells import (
    CLIENTS,
    COMMITS,
    REPLICAS,
    Cell,
    cell_of,
    every_cell,
)
from epochfence.spec.delivery.promises import MOST_CACHED, MOST_IN_FLIGHT, NOT_PROMISED
from epochfence.spec.releases.features import NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.driver import recorded
from epochfence.tests.spec.alterations import altered
from epochfence.tests.spec.semantics_page import PAGE, shown, tell, window_line

SYSTEM = shipped("delivery")
NAMES = tuple(item.name for item in SYSTEM.properties)
CELLS = every_cell()
FEW = [cell for cell in CELLS if not cell.transactions]  # the others have more states
BEST = Cell(commit="together")


def run(
    cell: Cell,
    constants: Mapping[str, int] | None = None,
    *,
    bounds: str = CLIENTS,
    properties: tuple[str, ...] = NAMES,
    system: System = SYSTEM,
    off: tuple[str, ...] = (),
) -> Result:
    """A cell checked at one of its bounds, with some constants of its own."""
    values = cell.constants(bounds) | dict(constants or {})
    instance = instantiate(system, NEWEST, values, properties=properties, switch_off=off)
    return check(instance, Options(deadlock=False, brief=True))


# The page ---------------------------------------------------------------------------------------


def _line(cell: Cell) -> str:
    (line,) = (row for row in recorded(PAGE, "cells").splitlines() if f"`{cell.id}`" in row)
    return line


@pytest.mark.slow(3)
@pytest.mark.long
@pytest.mark.parametrize("cell", FEW, ids=lambda cell: cell.id)
def test_the_page_says_what_the_runs_of_a_cell_come_to(cell: Cell) -> None:
    (told,) = tell([cell])
    found = re.sub(r"\[(.*?)\]\(#run-\d+\)", r"\1", _line(cell))
    signs = [text.strip() for text in found.split("|")[2:-1]]
    assert signs == [sign(told.answers, name) for name in COLUMNS]
    for text, name in zip(_line(cell).split("|")[2:-1], COLUMNS, strict=True):
        broken = shown(told, name)
        if broken is None:
            assert "#run" not in text
            continue
        steps = told.steps[broken]
        (run_number,) = re.findall(r"#run-(\d+)", text)
        section = (
            recorded(PAGE, "runs").partition(f"#### Run {run_number}\n")[2].partition("###")[0]
        )
        assert len(re.findall(r"^\d+\. ", section, re.MULTILINE)) == len(steps)


def test_the_page_has_every_cell_and_every_run_that_it_links_to() -> None:
    assert re.findall(r"^\| `([^`]+)`", recorded(PAGE, "cells"), re.MULTILINE) == [
        cell.id for cell in CELLS
    ]
    linked = set(re.findall(r"#run-(\d+)", recorded(PAGE, "cells")))
    assert linked == set(re.findall(r"^#### Run (\d+)", recorded(PAGE, "runs"), re.MULTILINE))
    assert "?" not in recorded(PAGE, "cells")
    assert not re.search(r"\| no( \||,)", recorded(PAGE, "cells")), "a cell without its run"


@pytest.mark.slow(5)
@pytest.mark.long
@pytest.mark.parametrize("cached", range(1, MOST_CACHED + 1))
def test_up_to_the_size_of_the_cache_requests_in_flight_are_safe(cached: int) -> None:
    line = window_line(cached)
    assert line in recorded(PAGE, "window")
    signs = [text.strip() for text in line.split("|")[2:-1]]
    assert [sign == "yes" for sign in signs] == [
        in_flight <= cached for in_flight in range(1, MOST_IN_FLIGHT + 1)
    ]


@pytest.mark.slow(2)
def test_before_kip_360_one_more_in_flight_is_an_error_and_no_duplicate() -> None:
    (answers,) = asked([[window_piece(1, 2, "2.4")]])
    assert window_sign(answers) == "yes"


@pytest.mark.slow(1)
def test_a_run_that_came_to_no_end_is_no_yes() -> None:
    piece = replace(window_piece(5, 5, NEWEST), memory=1 << 20)
    (answers,) = asked([[piece]])
    assert {answer.verdict for answer in answers.values()} == {"inconclusive"}
    assert window_sign(answers) == "?"


def test_what_is_inconclusive_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 25 sizes, one that wasn't decided."""

    def undecided(questions: Sequence[object]) -> list[dict[str, Answer]]:
        verdicts = ["inconclusive", *["holds"] * (len(questions) - 1)]
        return [{"Order": Answer("Order", verdict, 0)} for verdict in verdicts]

    monkeypatch.setattr("epochfence.checker.many.several_bounds.asked", undecided)
    ended = CliRunner().invoke(app, ["window"])
    assert ended.exit_code == 20
    assert "?" in ended.stdout


# What a property needs --------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """What breaks the property `breaks` of the cell in which all of them hold."""

    name: str
    breaks: str
    constants: Mapping[str, int] = field(default_factory=dict[str, int])
    bounds: str = CLIENTS
    system: System = SYSTEM
    off: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.breaks}: {self.name}"


ELECTIONS = {
    "leader_epochs": 3,
    "crashes": 1,
    "records": 1,
    "extra_entries": 1,
    "disconnections": 0,
    "consumer_crashes": 0,
}
TRANSACTION = {"transactional_id": 1, "read_committed": 1}
KIP_101 = "a follower that truncates to its high watermark leads"
BY_HIGH_WATERMARK = ("truncated_by_epoch",)
PLAIN = {"idempotence": 0, "extra_entries": 1}
FAULTS = (
    Fault("no idempotence", "AtMostOnce", PLAIN),
    Fault("no idempotence", "InOrder", PLAIN),
    Fault("the offset is committed after processing", "AtMostOnce", {"offsets": 0}),
    Fault("the offset is committed before processing", "AtLeastOnce", {"offsets": 1}),
    Fault("the offset is committed before processing", "NoSilentLoss", {"offsets": 1}),
    Fault("acks=1", "NoSilentLoss", PLAIN | {"acks": 1}),
    Fault("no retries", "AtLeastOnce", PLAIN | {"retries": 0}),
    Fault("two sessions", "AtMostOnce", {"sessions": 2, "extra_entries": 2}),
    Fault(
        "an unclean election of who was left behind",
        "NoSilentLoss",
        {"unclean_elections": 1, "crashes": 2},
        REPLICAS,
    ),
    Fault(
        "a leader looks at no sequence",
        "InOrder",
        {"extra_entries": 1},
        system=altered(SYSTEM, table="replica.Produce", row="out-of-order", when=False),
    ),
    Fault(KIP_101, "DuplicateKnown", ELECTIONS, off=BY_HIGH_WATERMARK),
    Fault(KIP_101, "MarkerKept", ELECTIONS | TRANSACTION, off=BY_HIGH_WATERMARK),
    Fault(KIP_101, "AbortedAlike", ELECTIONS | TRANSACTION, off=BY_HIGH_WATERMARK),
    Fault(
        "an unclean election with one replica in sync",
        "MarkerKept",
        ELECTIONS | TRANSACTION | {"unclean_elections": 1, "min_insync_replicas": 1},
    ),
)


@pytest.mark.parametrize("bounds", [CLIENTS, REPLICAS])
def test_an_idempotent_producer_and_an_atomic_consumer_are_exactly_once(bounds: str) -> None:
    assert run(BEST, bounds=bounds).verdict is Verdict.HOLDS


@pytest.mark.slow(2)
@pytest.mark.parametrize("sessions", [1, 2])
def test_a_new_leader_knows_producers_and_how_their_transactions_ended(sessions: int) -> None:
    """By clean elections, after crashes, where a transaction was aborted before as well."""
    constants = ELECTIONS | TRANSACTION | {"sessions": sessions, "extra_entries": sessions + 1}
    kept = ("DuplicateKnown", "MarkerKept", "AbortedAlike")
    assert run(BEST, constants, properties=kept).verdict is Verdict.HOLDS


@pytest.mark.slow(2)
@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_what_protects_a_property(fault: Fault) -> None:
    result = run(
        BEST,
        fault.constants,
        bounds=fault.bounds,
        properties=(fault.breaks,),
        system=fault.system,
        off=fault.off,
    )
    assert result.verdict is Verdict.BROKEN, result.reason


def test_each_property_has_something_that_protects_it() -> None:
    assert {fault.breaks for fault in FAULTS} == set(NAMES)


def test_a_release_that_is_affected_finds_kip_101_here_as_well() -> None:
    """A follower that truncates to its high watermark loses what was acknowledged."""
    values = BEST.constants(CLIENTS) | {"crashes": 2, "consumer_crashes": 0, "records": 1}
    lost = ("NoSilentLoss",)
    off = instantiate(SYSTEM, NEWEST, values, properties=lost, switch_off=("truncated_by_epoch",))
    assert check(off, Options(deadlock=False, brief=True)).verdict is Verdict.BROKEN


@pytest.mark.parametrize(
    ("cell", "other"),
    [
        (Cell(0, retries=False, idempotence=False), {"retries": 1}),
        (Cell(commit="together"), {"read_committed": 1}),
    ],
    ids=["retries with acks=0", "isolation without transactions"],
)
def test_what_the_table_leaves_out_changes_nothing(cell: Cell, other: dict[str, int]) -> None:
    one, two = run(cell, properties=("InOrder",)), run(cell, other, properties=("InOrder",))
    assert one.verdict is two.verdict is Verdict.HOLDS
    assert (one.states, one.transitions) == (two.states, two.transitions)


@pytest.mark.slow(1)
@pytest.mark.parametrize(("name", "steps"), [("sessions", 13), ("partitions", 4)])
def test_what_idempotence_does_not_promise(name: str, steps: int) -> None:
    (item,) = (each for each in NOT_PROMISED if each.name == name)
    instance = instantiate(item.system(), NEWEST, item.constants, properties=(item.property,))
    result = check(instance, Options(deadlock=False, brief=True))
    assert (result.verdict, result.properties[0].trace_length) == (Verdict.BROKEN, steps)


# The command ------------------------------------------------------------------------------------

REFUSED = {
    "acks=1 enable.idempotence=true": "ConfigException: Must set acks to all",
    "retries=0 enable.idempotence=true": "ConfigException: Must set retries to non-zero",
    "max.in.flight.requests.per.connection=6": "at most 5. Current value is 6.",
    "transactional.id=a enable.idempotence=false": "without also enabling idempotence",
    "min.insync.replicas=4": "counts as 3",
    "min.insync.replicas=4 --protocol 3.6": "NOT_ENOUGH_REPLICAS",
    "min.insync.replicas=0": "InvalidConfigurationException: Invalid value 0",
    "replication.factor=0": "INVALID_REPLICATION_FACTOR",
    "min.insync.replicas=two": "InvalidConfigurationException: Invalid value two",
    "unclean.leader.election.enable=si": "Expected value to be either true or false",
    "isolation.level=serializable": "ConfigException: Invalid value serializable",
    "replication.factor=2": "the table has",
    "commit=never": "the table has",
    "ack=1": "did you mean acks?",
    "acks": "write NAME=VALUE",
}


@pytest.mark.parametrize("settings", REFUSED)
def test_what_kafka_refuses_is_refused_with_its_error(settings: str) -> None:
    result = CliRunner().invoke(app, ["semantics", *settings.split()])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert REFUSED[settings] in line


def test_a_cell_that_is_not_there_is_one_line() -> None:
    result = CliRunner().invoke(app, ["semantics", "--show", "idempotent.isr9"])
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


@pytest.mark.slow(2)
def test_the_command_prints_a_cell_and_its_run() -> None:
    found = ["acks=0", "min.insync.replicas=1", "unclean.leader.election.enable=false"]
    asked = ["semantics", *found, "commit=before", "--jobs", "1"]
    table = CliRunner().invoke(app, asked)
    assert table.exit_code == 0
    assert re.search(r"acks0\.isr1\.clean\.before +yes +no, 5 +no +no, 5 +yes", table.stdout)
    shown = CliRunner().invoke(app, ["semantics", "--show", "acks0.isr1.clean.before"])
    assert "disconnect [nothing-awaited]" in shown.stdout


def test_a_cell_without_an_end_is_inconclusive() -> None:
    asked = ["semantics", "--show", "acks0.isr1.clean.before", "--memory", "0.001"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 20
    assert "AtMostOnce: ?" in shown.stdout


def test_every_cell_is_one_that_kafka_takes_and_has_a_name_of_its_own() -> None:
    from epochfence.model.client.config import resolve

    assert [cell_of(cell.id) for cell in CELLS] == CELLS
    assert {cell.commit for cell in CELLS} == set(COMMITS)
    for cell in CELLS:
        assert resolve(cell.settings)["enable.idempotence"] is cell.idempotence
