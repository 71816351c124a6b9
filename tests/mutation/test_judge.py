"""The mutation tester itself: which mutants a small system has, and what becomes of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.tests.mutation import judge as judging
from epochfence.tests.mutation import report
from epochfence.tests.mutation.crossing import answer, system
from epochfence.tests.mutation.judge import Outcome, judge
from epochfence.tests.mutation.mutants import every_mutant, mutants
from epochfence.tests.mutation.run import sample
from epochfence.tests.mutation.scenarios import Scenario, Trial, counted

MUTANTS = {m.name: m for table in system.tables for m in mutants(system, table)}


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    """The newest release, run without a fault."""
    scenario = Scenario("2", (("N", 3),))
    return [Trial(system, scenario, counted(system, scenario))]


@pytest.fixture(autouse=True)
def no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "ANSWERS", [])


# Mutants ------------------------------------------------------------------------------------------


def test_a_row_has_a_mutant_for_each_of_its_parts() -> None:
    assert [name for name in MUTANTS if "lamp.turn/stop" in name] == [
        "lamp.turn/stop: guard negated",
        "lamp.turn/stop: no next state",
        "lamp.turn/stop: goto GREEN",
        "lamp.turn/stop: without turns",
    ]
    assert [name for name in MUTANTS if "lamp.Ask" in name] == [
        "lamp.Ask/refuse: guard negated",
        "lamp.Ask/refuse: no reply",
        "lamp.Ask/refuse: replies NOT_YET",
        "lamp.Ask/refuse: below 'let go'",
        "lamp.Ask/let go: guard negated",
        "lamp.Ask/let go: no reply",
        "lamp.Ask/let go: replies REFUSED",
    ]
    assert "walker.ask/ask: doesn't send Ask" in MUTANTS


def test_rows_that_exclude_each_other_are_not_swapped() -> None:
    """`stop` and `go` have different lights; `old` is there in a release of its own."""
    swapped = [name for name in MUTANTS if "below" in name]
    assert swapped == ["lamp.turn/never: below 'stop'", "lamp.turn/go: below 'old'",
                       "lamp.Ask/refuse: below 'let go'"]  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_differs_in_the_rows_that_it_names(name: str) -> None:
    mutant = MUTANTS[name]
    (changed,) = [t for t in mutant.of(system).tables if t.name == mutant.table.name]
    others = [row for row in mutant.table.rows if row.name not in mutant.touched]
    assert changed.rows != mutant.table.rows
    assert [row for row in changed.rows if row.name not in mutant.touched] == others


# Fates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fate", "by"),
    [
        ("lamp.turn/go: goto BROKEN", "properties", "crossing 2, N=3: Whole"),
        ("lamp.Ask/let go: no reply", "properties", "crossing 2, N=3: deadlock"),
        ("lamp.turn/go: no next state", "coverage", "crossing 2, N=3"),
        ("lamp.turn/stop: without turns", "counts", "crossing 2, N=3"),
        ("lamp.turn/stop: goto GREEN", "counts", "crossing 2, N=3"),
        ("lamp.turn/never: without turns", "survivor", "its row is never taken"),
        ("lamp.turn/never: below 'stop'", "equivalent", ""),
        ("lamp.turn/go: without spare", "equivalent", ""),
        ("lamp.Ask/refuse: replies NOT_YET", "survivor", "other states, in the same numbers"),
    ],
)
def test_what_becomes_of_a_mutant(name: str, fate: str, by: str, trials: list[Trial]) -> None:
    found = judge(MUTANTS[name], trials)
    assert (found.fate, found.by) == (fate, by)


def test_answers_kill_what_no_run_sees(
    trials: list[Trial], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests run against the system with the fault, in a process of their own."""
    file = tmp_path / "test_crossing_answers.py"
    file.write_text(
        "from epochfence.model.interpreter import Interpreter\n"
        "from epochfence.spec.language import instantiate\n"
        "from epochfence.tests.mutation.crossing import system\n"
        "def test_refused():\n"
        "    model = Interpreter(instantiate(system))\n"
        "    state = model.as_mapping(next(iter(model.initial_states())))\n"
        "    state['network.Ask'] = ((False,),)\n"
        "    (step,) = model.steps(tuple(state.values()), 'lamp.Ask')\n"
        "    assert ('REFUSED',) in model.as_mapping(step.state)['network.AskResponse']\n"
    )
    failing = tmp_path / "test_failing_answers.py"
    failing.write_text("def test():\n    assert False\n")
    monkeypatch.setattr(judging, "ANSWERS", [failing, file])
    assert judge(MUTANTS["lamp.Ask/refuse: replies NOT_YET"], trials).fate == "answers"
    assert judge(MUTANTS["lamp.turn/never: below 'stop'"], trials).fate == "equivalent"
    assert str(answer.rows[0].reply) == "REFUSED"


def test_quick_takes_what_kills_first(trials: list[Trial]) -> None:
    mutant = MUTANTS["lamp.turn/stop: without turns"]
    last = Trial(system, Scenario("1"), replace(trials[0].counts, states=0))
    assert judge(mutant, [*trials, last], quick=True).by == str(trials[0])


# Scores -------------------------------------------------------------------------------------------

OUTCOMES = [
    Outcome("a.e/r: guard negated", "a", "properties", "Whole"),
    Outcome("a.e/r: no reply", "a", "counts"),
    Outcome("a.e/r: replies X", "a", "survivor", "other states, in the same numbers"),
    Outcome("a.e/s: without x", "a", "equivalent"),
    Outcome("b.e/r: no | reply", "b", "survivor", "its row is never taken"),
]


def test_equivalents_stand_apart_from_the_score() -> None:
    assert report.table(OUTCOMES) == [
        ("a", "4", "66.7", "1", "0", "0", "1", "1", "1"),
        ("b", "1", "0.0", "0", "0", "0", "0", "1", "0"),
        ("all", "5", "50.0", "1", "0", "0", "1", "2", "1"),
    ]


def test_the_page_has_every_survivor_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "reasons", lambda: {"b.e/r": "Nobody looks.", "a.e/s": "No."})
    text = report.page(OUTCOMES, 5)
    assert (
        "| a.e/r: replies X | other states, in the same numbers | **not explained yet** |" in text
    )
    assert "| b.e/r: no &#124; reply | its row is never taken | Nobody looks. |" in text
    assert "| a.e/s: without x |" in text.partition("## Equivalent")[2]
    assert "guard negated |" not in text
    assert "drawn at random" not in text
    assert "These are 5 of the 9 mutants" in report.page(OUTCOMES, 9)


def test_a_sample_has_as_many_of_each_machine() -> None:
    names = sample(list(every_mutant()), 30, seed=1)
    machines = Counter(every_mutant()[name].machine for name in names)
    assert len(set(names)) == 30
    assert max(machines.values()) - min(machines.values()) <= 1
    assert names == sample(list(every_mutant()), 30, seed=1) != sample(list(every_mutant()), 30, 2)
