"""The mutation tester itself: which mutants a small system has, and what becomes of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from epochfence.tests.mutation import report
from epochfence.tests.mutation.answers import Answers
from epochfence.tests.mutation.crossing import answer, system
from epochfence.tests.mutation.engine import Kept, Outcome, Records, rows, scores
from epochfence.tests.mutation.judge import judge
from epochfence.tests.mutation.mutants import every_mutant, mutants
from epochfence.tests.mutation.run import chunks, sample
from epochfence.tests.mutation.scenarios import Scenario, Trial, counted

MUTANTS = {m.name: m for table in system.tables for m in mutants(table, [system])}


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    """The newest release, run without a fault."""
    scenario = Scenario("2", (("N", 3),))
    return [Trial(system, scenario, counted(system, scenario).recorded)]


@pytest.fixture(scope="module")
def nothing_said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """No test of answers."""
    file = tmp_path_factory.mktemp("answers") / "test_nothing.py"
    file.write_text("def test_nothing():\n    pass\n")
    with closing(Answers(MUTANTS, [file])) as answers:
        yield answers


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
    assert swapped == [
        "lamp.turn/never: below 'stop'",
        "lamp.turn/go: below 'old'",
        "lamp.Ask/refuse: below 'let go'",
    ]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_differs_in_the_rows_that_it_names(name: str) -> None:
    mutant = MUTANTS[name]
    (place,) = mutant.places
    (changed,) = [t for t in mutant.of(system).tables if t.name == place.table.name]
    others = [row for row in place.table.rows if row.id not in place.touched]
    assert changed.rows != place.table.rows
    assert [row for row in changed.rows if row.id not in place.touched] == others


@pytest.mark.parametrize("update", ["txn", "ending", "bump_asked"])
def test_reductions_leave_a_mutant_as_it_is(update: str) -> None:
    """transactions settles the fields of a client that has failed, in rows that the mutant leaves
    them out of."""
    mutant = every_mutant()[f"producer.EndTxnResponse/fenced: without {update}"]
    shown = next(each for each in mutant.systems() if each.name == "transactions")
    (place,) = mutant.within(shown)
    (changed,) = [t for t in mutant.of(shown).tables if t.name == place.table.name]
    assert changed.rows == place.rows


UNSEEN, ALIKE = "lamp.Ask/refuse: replies NOT_YET", "lamp.turn/never: below 'stop'"

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
def test_what_becomes_of_a_mutant(
    name: str, fate: str, by: str, trials: list[Trial], nothing_said: Answers
) -> None:
    (alone,) = judge([MUTANTS[name]], trials, nothing_said)
    assert (alone.fate, alone.by) == (fate, by)
    together = judge(list(MUTANTS.values()), trials, nothing_said)
    assert alone in together


@pytest.mark.slow(1)
def test_answers_kill_what_no_run_sees(
    trials: list[Trial], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests run against the system with the fault, in a process of their own."""
    file = tmp_path / "test_crossing_answers.py"
    file.write_text(
        "from epochfence.model.engine.interpreter import Interpreter\n"
        "from epochfence.language import instantiate\n"
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
    with closing(Answers(MUTANTS, [failing, file])) as answers:
        told, silent = judge([MUTANTS[name] for name in (UNSEEN, ALIKE)], trials, answers)
    assert (told.fate, silent.fate) == ("answers", "equivalent")
    assert str(answer.rows[0].reply) == "REFUSED"


@pytest.mark.slow(1)
def test_without_a_test_that_runs_nothing_is_said(tmp_path: Path) -> None:
    with (
        closing(Answers(MUTANTS, [tmp_path / "test_missing.py"])) as answers,
        pytest.raises(RuntimeError, match="can't be collected"),
    ):
        answers.differ(MUTANTS[UNSEEN])


def test_quick_takes_what_kills_first(trials: list[Trial], nothing_said: Answers) -> None:
    mutant = MUTANTS["lamp.turn/stop: without turns"]
    last = Trial(system, Scenario("1"), trials[0].recorded._replace(states=0, transitions=10**9))
    (found,) = judge([mutant], [*trials, last], nothing_said, quick=True)
    assert found.by == str(trials[0])


# What was judged before ---------------------------------------------------------------------------


def test_what_was_judged_stands_while_nothing_changes(tmp_path: Path) -> None:
    """Tests of answers don't change the differences that a run has found."""
    path, by_run, by_test = tmp_path / "build" / "mutation.jsonl", OUTCOMES[0], OUTCOMES[2]

    def standing(runs: str, tests: str) -> dict[str, Outcome]:
        return Records(path, runs, tests, by_run=frozenset(("properties",))).standing()

    assert standing("runs", "tests") == {}
    lines = [json.dumps(asdict(Kept("runs", "tests", one))) for one in (by_run, by_test)]
    for now, left in (
        (("runs", "tests"), {by_run.name: by_run, by_test.name: by_test}),
        (("runs", "others"), {by_run.name: by_run}),
        (("others", "tests"), {}),
    ):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert standing(*now) == left
        assert standing("runs", "tests") == left  # what doesn't stand is not kept


@pytest.mark.slow(2)
def test_groups_have_their_systems_in_common() -> None:
    names = list(every_mutant())
    groups = chunks(names, len(names) // 7)
    assert sorted(name for group in groups for name in group) == sorted(names)
    for group in groups:
        assert len(group) <= 7
        assert len({tuple(every_mutant()[name].systems()) for name in group}) == 1


# Scores -------------------------------------------------------------------------------------------

OUTCOMES = [
    Outcome("a.e/r: guard negated", "a", "properties", "Whole"),
    Outcome("a.e/r: no reply", "a", "counts"),
    Outcome("a.e/r: replies X", "a", "survivor", "other states, in the same numbers"),
    Outcome("a.e/s: without x", "a", "equivalent"),
    Outcome("b.e/r: no | reply", "b", "survivor", "its row is never taken"),
]


def test_equivalents_stand_apart_from_the_score() -> None:
    assert rows(scores(OUTCOMES), report.FATES) == [
        ("a", "4", "66.7", "1", "0", "0", "1", "1", "1"),
        ("b", "1", "0.0", "0", "0", "0", "0", "1", "0"),
        ("all", "5", "50.0", "1", "0", "0", "1", "2", "1"),
    ]


def test_the_page_counts_survivors_by_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "reasons", lambda: {"b.e/r": "Nobody looks.", "a.e/s": "No."})
    text = report.page(scores(OUTCOMES))
    assert "| not explained yet | 1 |\n| Nobody looks. | 1 |\n" in text
    assert "No." not in text


def test_a_sample_has_as_many_of_each_machine() -> None:
    names = sample(list(every_mutant()), 30, seed=1)
    machines = Counter(every_mutant()[name].machine for name in names)
    assert len(set(names)) == 30
    assert max(machines.values()) - min(machines.values()) <= 1
    assert names == sample(list(every_mutant()), 30, seed=1) != sample(list(every_mutant()), 30, 2)
