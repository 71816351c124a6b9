"""Rankings: they prove only true properties, a missing part is named by its row, and a wrong one
proves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.checker.solver import ranking as rules
from epochfence.checker.solver.prove import Options, Proof, prove
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    Bool,
    Int,
    Key,
    Machine,
    Row,
    System,
    Table,
    all_of,
    constant,
    event,
    helps,
    instantiate,
    invariant,
    leads_to,
    ranking,
    strong_fairness,
    weak_fairness,
)
from epochfence.tests.checker.plain_progress import broken, by_removal, explored
from epochfence.tests.checker.solver.plain_ranking import faults
from epochfence.tests.checker.solver.test_prove import another_solver

QUICK = Options(timeout=20, depth=2, most=1, spacer=False)
EXAMPLE = load_system(str(Path(__file__).parents[3] / "docs" / "examples" / "retry.py"))

# Tasks that workers do, each by itself; what goes wrong is bounded by a budget -------------------

WORKERS = constant("workers", 2, 1, 3)
LARGEST, FAULTS = constant("largest", 3, 1, 5), constant("faults", 2, 0, 5)
KEY = Key("worker", WORKERS)
worker = Machine("worker", KEY)
left, ready = worker.field("left", Int(0, LARGEST)), worker.field("ready", Bool())
start, prepare, work = event("start"), event("prepare"), event("work")
rest, fail = event("rest"), event("fail")
i, j = KEY.variable("i"), KEY.variable("j")

START = Table(worker, start, when=left == 0, rows=(Row("start", set={left: LARGEST}),))
PREPARE = Table(
    worker, prepare, when=(left > 0) & ~ready, rows=(Row("prepare", set={ready: True}),)
)
WORK = Table(
    worker,
    work,
    when=(left > 0) & ready,
    rows=(Row("one less", set={left: left - 1, ready: False}),),
)
REST = Table(worker, rest, rows=(Row("rest"),))
FAIL = Table(worker, fail, when=left > 0, rows=(Row("anew", set={left: LARGEST, ready: False}),))

IS_OPEN = left.at(i) > 0
OWN = (helps(prepare, i == j, each=(j,)), helps(work, i == j, each=(j,)))
RANK = (left.at(i), ~ready.at(i))


def tasks(**changed: Any) -> System:
    """Workers that get done at last, whatever is changed."""
    parts: dict[str, Any] = {
        "name": "tasks",
        "tables": (START, PREPARE, WORK, REST, FAIL),
        "properties": (invariant("Small", all_of(i, left.at(i) <= LARGEST), "It is small."),),
        "progress": (leads_to("Done", IS_OPEN, ~IS_OPEN, "A worker gets done.", each=(i,)),),
        "fairness": weak_fairness(prepare, work),
        "rankings": (ranking("Done", RANK, OWN),),
        "constants": (WORKERS, LARGEST, FAULTS),
        "budgets": {fail: FAULTS},
        "terminal": True,
    }
    return System(**{**parts, **changed})


def proved(system: System, protocol: str | None = None) -> Proof:
    """What becomes of the one property that has a ranking."""
    (wanted,) = {item.name for item in system.progress if item.kind == "leads to"}
    result = prove(system, protocol, properties=[wanted], options=QUICK)
    assert result.verdict is (
        Verdict.HOLDS if result.proofs[0].verdict == "proved" else Verdict.INCONCLUSIVE
    )
    return result.proofs[0]


def test_what_gets_done_whatever_the_numbers_is_proved() -> None:
    result = prove(tasks(), properties=["Done"], options=QUICK)
    assert result.verdict is Verdict.HOLDS
    assert result.open == ("largest", "faults")
    assert result.proofs[0].method == "ranking"


MESSAGES = strong_fairness(*(channel.message for channel in EXAMPLE.channels))


def test_a_message_that_is_sent_again_and_again_arrives() -> None:
    """The channels lose any message, without bound: no rank falls from one to the next."""
    assert proved(EXAMPLE).verdict == "proved"


# What is taken away, and the row or state that then isn't as it must be
TAKEN_AWAY: dict[str, tuple[System, str | None, str]] = {
    "an answer that isn't repeated": (EXAMPLE, "1", "server.Ask/seen before: doesn't lower"),
    "messages that need not arrive": (
        replace(EXAMPLE, fairness=EXAMPLE.fairness[:1]), None, rules.SOME_HELP,
    ),
    "nobody need ask again": (replace(EXAMPLE, fairness=MESSAGES), None, rules.SOME_HELP),
    "messages that arrive if they stay": (
        replace(EXAMPLE, fairness=weak_fairness(*(f.event for f in EXAMPLE.fairness))), None,
        "network.Ask/lost: ends Ask",
    ),
    "work need not be done": (tasks(fairness=weak_fairness(prepare)), None, rules.SOME_HELP),
    "faults without number": (tasks(budgets={}), None, "worker.fail/anew (worker0): raises"),
    "work that takes nothing off": (
        tasks(tables=(
            START, PREPARE, REST, FAIL,
            replace(WORK, rows=(Row("none less", set={ready: False}),)),
        )), None, "worker.work/none less (worker0): raises",
    ),
    "a rest that forgets": (
        tasks(tables=(START, PREPARE, WORK, FAIL, replace(REST, rows=(
            Row("forget", set={ready: False}),
        )))), None, "worker.rest/forget (worker0): raises",
    ),
    "a premise that ends": (
        tasks(progress=(
            leads_to("Done", IS_OPEN & ready.at(i), ~IS_OPEN, "P.", each=(i,)),
        )), None, "worker.work/one less (worker0): ends the premise",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TAKEN_AWAY)
def test_without_what_it_needs_there_is_no_proof_and_the_row_is_named(case: str) -> None:
    system, protocol, row = TAKEN_AWAY[case]
    proof = proved(system, protocol)
    assert proof.verdict == "not ranked"
    assert row in proof.reason
    assert proof.trace is not None


WRONG = {
    "constant": (ranking("Done", (0,), OWN), "prepare/prepare (worker0): doesn't lower"),
    "rising": (ranking("Done", (LARGEST - left.at(i),), OWN), "one less (worker0): raises"),
    "in another order": (ranking("Done", RANK[::-1], OWN), "one less (worker0): raises"),
    "below 0": (ranking("Done", (left.at(i) - 2, RANK[1]), OWN), rules.NOT_BELOW),
    "another's work": (
        ranking("Done", RANK, (helps(prepare), helps(work))),
        "(worker1): doesn't lower",
    ),
    "half of what helps": (ranking("Done", RANK, OWN[1:]), rules.SOME_HELP),
    "a rest that helps": (ranking("Done", RANK, (helps(rest), *OWN)), "worker.rest/rest"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_ranking_proves_nothing(case: str) -> None:
    wrong, row = WRONG[case]
    fair = weak_fairness(prepare, work, rest)
    proof = proved(tasks(rankings=(wrong,), fairness=fair))
    assert proof.verdict == "not ranked"
    assert row in proof.reason


# The second opinion ------------------------------------------------------------------------------


def opinion(system: System, protocol: str | None = None, **constants: int) -> bool:
    """Whether each step of a small run is as the ranking has it; then the property holds there."""
    named = [item.name for item in system.rankings]
    instance = instantiate(system, protocol, constants, properties=named, rankings=True)
    graph = explored(instance, 20_000)
    is_good = not faults(instance, graph)
    if is_good:
        assert not broken(instance, graph, by_removal)
    return is_good


@pytest.mark.parametrize("system", [EXAMPLE, tasks()], ids=["retry", "tasks"])
def test_a_plain_look_at_all_states_agrees_with_a_proof(system: System) -> None:
    assert opinion(system)


@pytest.mark.parametrize("case", [*TAKEN_AWAY, *WRONG])
def test_a_plain_look_at_all_states_agrees_that_there_is_none(case: str) -> None:
    if case in TAKEN_AWAY:
        system, protocol, _ = TAKEN_AWAY[case]
        assert not opinion(system, protocol)
    else:
        fair = weak_fairness(prepare, work, rest)
        assert not opinion(tasks(rankings=(WRONG[case][0],), fairness=fair))


# What is said ------------------------------------------------------------------------------------


def test_a_property_without_a_ranking_is_inconclusive_in_a_clear_line() -> None:
    result = prove(EXAMPLE, properties=["CanBeAnswered"], options=QUICK)
    assert result.verdict is Verdict.INCONCLUSIVE
    (proof,) = result.proofs
    assert [proof.verdict, proof.obligations] == ["unknown", 0]
    assert proof.reason.startswith("retry declares no ranking of it (it has those of Answered)")


def test_certificates_convince_another_solver(tmp_path: Path) -> None:
    options = replace(QUICK, certificates=tmp_path)
    result = prove(EXAMPLE, properties=["Answered"], options=options)
    texts = [path.read_text() for path in tmp_path.glob("*.smt2")]
    assert len(texts) == len(result.asked)
    assert {another_solver(text) for text in texts} == {"unsat"}
