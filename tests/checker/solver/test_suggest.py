"""Lemmas suggested by a tool: with them the property is proved, and nothing false ever is."""

from __future__ import annotations

import runpy
from dataclasses import replace
from time import perf_counter
from typing import Any

import pytest

from epochfence.bench import ktx
from epochfence.checker.named_systems import load_system
from epochfence.checker.solver.induction import Induction
from epochfence.checker.solver.prove import Options, Proofs, prove
from epochfence.checker.solver.suggest import houdini, mining
from epochfence.checker.solver.suggest.grammar import Grammar
from epochfence.checker.solver.suggest.houdini import Houdini
from epochfence.checker.solver.suggest.mining import Mine, States
from epochfence.checker.solver.suggest.suggest import Settings, Suggestions, added, suggest
from epochfence.checker.solver.terms import z3
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    Int,
    Machine,
    Row,
    System,
    Table,
    after,
    constant,
    event,
    invariant,
    lift,
    step_property,
)
from epochfence.model.engine.interpreter import Interpreter

QUICK = Options(timeout=20, depth=1, most=1, spacer=False)
PETERSON = "docs/examples/peterson.py"
TWO_PHASES = "docs/examples/two_phase_commit.py"

LIMIT = constant("limit", 5, 1, 10)
machine = Machine("climb")
height = machine.field("height", Int(0, LIMIT))
depth = machine.field("depth", Int(0, LIMIT))
UP = Table(machine, event("rise"), (Row("up", when=height < LIMIT, set={height: height + 1}),))
CAPPED = invariant("Capped", height < 3, "It stops at 3.")
JUMP = Table(machine, event("jump"), (Row("jump", when=depth == 2, set={height: height}),))


def climb(*tables: Table, **changes: Any) -> System:
    """A number that rises, without end."""
    return System("climb", tables, (CAPPED,), constants=(LIMIT,), terminal=True, **changes)


def asked(settings: Settings, *names: str) -> tuple[Proofs, Suggestions]:
    """What is proved, and what is suggested for the rest."""
    found = settings.proofs((), names, QUICK)
    return found, suggest(settings, found, QUICK)


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("path", "name", "lemmas"),
    [(PETERSON, "MutualExclusion", 2), (TWO_PHASES, "Consistent", 9)],
    ids=["peterson", "two phases"],
)
def test_with_what_is_suggested_a_property_is_inductive(path: str, name: str, lemmas: int) -> None:
    """The text is a declaration: the example's own module takes it as it is."""
    small = {"RM": 2} if path == TWO_PHASES else {}
    settings = Settings(load_system(path), constants=small)
    found, result = asked(settings, name)
    assert found.verdict is Verdict.INCONCLUSIVE, "suggestions change no verdict"
    assert result.proved == [name]
    assert result.fewest
    assert len(result.lemmas) <= lemmas
    assert result.excludes[name]
    module, text = runpy.run_path(path), result.text
    for name_, own in {
        "rm_state.": "PARTICIPANT.",
        "tm_state.": "DECISION.",
        "RM.": "MANAGER.",
    }.items():
        text = text.replace(name_, own)  # what its module calls otherwise
    names: dict[str, Any] = {}
    exec(f"from epochfence.language import *\n{text}", module, names)
    declared = tuple(names[item.name] for item in result.lemmas)
    system = replace(module["system"], lemmas=declared)
    assert prove(system, constants=small, properties=[name], options=QUICK).verdict is Verdict.HOLDS
    fewer = replace(system, lemmas=declared[1:])
    less = prove(fewer, constants=small, properties=[name], options=QUICK)
    assert less.verdict is Verdict.INCONCLUSIVE


@pytest.mark.slow(4)
def test_a_lemma_that_is_taken_away_is_found_again() -> None:
    """Whatever is suggested in its place: the proof goes through."""
    lacking = tuple(item for item in ktx.LEMMAS if item.name != "RequestEpochs")
    assert len(lacking) + 1 == len(ktx.LEMMAS)
    properties = tuple(item for item in ktx.PROPERTIES if item.name == "EpochBound")
    system = replace(ktx.system, lemmas=lacking, properties=properties)
    _, result = asked(Settings(system, constants={"K": 1, "I": 1}), "EpochBound")
    assert result.proved == ["EpochBound"]
    assert result.proofs is not None
    assert {answer.verdict for answer in result.proofs.asked} == {"unsat"}


def test_what_an_explored_state_breaks_is_never_proved() -> None:
    _, result = asked(Settings(load_system(PETERSON), "1"), "MutualExclusion")
    assert not result.lemmas
    assert "an explored state breaks MutualExclusion" in result.reason


def test_what_breaks_beyond_the_explored_states_is_never_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mining, "MOST_STATES", 2)
    _, result = asked(Settings(climb(UP)), "Capped")
    assert not result.whole
    assert not result.proved
    assert not result.lemmas
    assert result.left["Capped"] == "climb.rise/up"


def test_what_is_inductive_holds_in_every_state_of_a_broken_protocol() -> None:
    """Candidates of the right protocol, sifted by the steps of the broken one."""
    settings = Settings(load_system(PETERSON))
    right, broken = States(settings.instance([]), 1), replace(settings, protocol="1")
    mine = Mine(right, Grammar(right.prepared.instance, right.names), 3, perf_counter() + 60)
    mined = mine.candidates()
    induction = Induction(broken.lifted([]))
    candidates = added(induction, right, mined)
    sifted = Houdini(induction, perf_counter() + 60, 10)
    sifted.sift()
    kept = {name for name in candidates if name in sifted.alive}
    assert kept < candidates.keys(), "some hold in the right protocol alone"
    instance = broken.instance([])
    machine, seen = Interpreter(instance), set(Interpreter(instance).initial_states())
    todo = [*seen]
    while todo:
        new = {step.state for step in machine.steps(todo.pop()) if step.state is not None} - seen
        seen |= new
        todo += new
    said = {name: candidates[name].expression for name in candidates}
    false = {name for name, e in said.items() if not all(machine.holds(e, s) for s in seen)}
    assert false
    assert not false & kept


def test_what_z3_cannot_tell_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = "_Asking"
    monkeypatch.setattr(getattr(houdini, asking), "answer", lambda *_: z3.unknown)
    _, result = asked(Settings(load_system(PETERSON)), "MutualExclusion")
    assert result.inductive == 0
    assert not result.proved


def test_where_nothing_is_found_a_line_says_why() -> None:
    """What would help isn't in the grammar: a number that isn't the lowest one."""
    never = invariant("Never", height == 0, "It never moves.")
    copies = Table(machine, event("copy"), (Row("copy", when=depth == 4, set={height: depth}),))
    sinks = Table(machine, event("sink"), (Row("sink", when=depth == 0, set={depth: 2}),))
    system = replace(climb(copies, sinks), properties=(never,))
    _, result = asked(Settings(system), "Never")
    assert result.reason == "no conjunction of the candidates is enough"
    assert result.candidates > 0
    assert result.left == {"Never": "climb.copy/copy"}


def test_a_deadline_that_is_met_is_told() -> None:
    _, result = asked(Settings(load_system(PETERSON), seconds=1e-6), "MutualExclusion")
    assert "the time limit of" in result.reason
    assert not result.lemmas


def test_there_is_nothing_to_suggest_for_what_is_proved_or_of_progress() -> None:
    for path, name in {"retry": "CanBeAnswered", "lease": "NoStaleWrite"}.items():
        _, result = asked(Settings(load_system(f"docs/examples/{path}.py")), name)
        assert result.asked == []
        assert "no invariant" in result.reason


def test_a_search_that_is_interrupted_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Houdini) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Houdini, "sift", interrupted)
    found, result = asked(Settings(load_system(PETERSON)), "MutualExclusion")
    assert result.reason == "interrupted"
    assert found.verdict is Verdict.INTERRUPTED


def test_a_declared_lemma_that_is_false_is_told_and_not_used() -> None:
    system = load_system(PETERSON)
    wrong = invariant("Wrong", lift(False), "It never holds.")
    _, result = asked(Settings(replace(system, lemmas=(wrong,))), "MutualExclusion")
    assert result.broken == ["Wrong"]
    assert result.proved == ["MutualExclusion"]


def test_a_step_that_breaks_a_property_is_told() -> None:
    stays = step_property("Stays", (height == 3).implies(after(height) == 3), "It stays at 3.")
    system = replace(climb(UP), properties=(stays,))
    _, result = asked(Settings(system), "Stays")
    assert "an explored step breaks" in result.reason
    assert not result.proved
