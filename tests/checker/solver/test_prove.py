"""Proofs: a proved property holds, another one gets its own verdict, and each proof has a twin that
fails without what protects the property."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from epochfence.bench import ktx
from epochfence.checker.check import Options as Search
from epochfence.checker.check import check
from epochfence.checker.solver import obligations
from epochfence.checker.solver import prove as prover
from epochfence.checker.solver.obligations import Answers, Obligation, Script, Settled, settle
from epochfence.checker.solver.prove import Options, Proof, Proofs, prove
from epochfence.checker.solver.terms import SolverError
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
    if_,
    instantiate,
    invariant,
    step_property,
)
from epochfence.language.instances.instantiation import with_constants
from epochfence.model.engine.interpreter import Interpreter
from epochfence.tests.spec.alterations import altered

QUICK = Options(timeout=20, depth=10, spacer=False)
ONE = {"I": 1, "K": 1}


def proof_of(result: Proofs, name: str) -> Proof:
    """What became of one property."""
    return next(proof for proof in result.proofs if proof.name == name)


# The benchmark protocol --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("instances", [2, 3])
def test_all_of_the_benchmark_protocol_is_proved(instances: int) -> None:
    result = prove(ktx.system, constants={"I": instances}, options=QUICK)
    assert result.verdict is Verdict.HOLDS
    assert result.open == ("E", "S")
    assert {proof.name for proof in result.proofs} == {item.name for item in ktx.PROPERTIES}
    assert all(proof.k == 1 for proof in result.proofs)
    assert proof_of(result, "UniqueEpoch").lemmas == ("EpochBound",)
    assert all(answer.verdict == "unsat" for answer in result.asked)


def test_each_lemma_is_an_invariant_to_the_explorer() -> None:
    names = [item.name for item in ktx.LEMMAS]
    instance = instantiate(ktx.system, constants={"K": 1}, properties=names)
    result = check(instance, Search(threads=2))
    assert result.verdict is Verdict.HOLDS
    assert [p.name for p in result.properties] == names


i, k = ktx.i, ktx.k
# What protects a property, taken away: the row and what it does instead.
TWINS = {
    "EpochBound": {"row": "InitOk", "updates": {ktx.pep[i]: ktx.cep + 2}},
    "UniqueEpoch": {"row": "InitOk", "updates": {ktx.cep: ktx.cep, ktx.pep[i]: ktx.cep}},
    "NoHanging": {"row": "ProdLost", "when": (ktx.s != 0) & ktx.in_order},
    "AckedKept": {"row": "ProdOk", "updates": {ktx.bseq[k]: 0}},
    "MarkerSane": {"row": "MarkOk", "updates": {ktx.mk[k]: ktx.mk[k]}},
    "MarkerEpoch": {"row": "MarkOk", "updates": {ktx.bep[k]: 0}},
}


@pytest.mark.slow
@pytest.mark.sample(1, of="what no proof is found of")
@pytest.mark.parametrize("name", [item.name for item in ktx.PROPERTIES])
def test_a_proof_fails_without_what_protects_the_property(name: str) -> None:
    change = TWINS[name]
    row = str(change["row"])
    parts = {key: value for key, value in change.items() if key != "row"}
    broken = altered(ktx.system, table=f"ktx.{row}", row=row, **parts)  # type: ignore[arg-type]
    result = prove(broken, properties=[name], options=replace(QUICK, depth=12, most=1))
    assert result.verdict is not Verdict.HOLDS
    proof = proof_of(result, name)
    assert proof.verdict in ("refuted", "not inductive")
    assert proof.trace is not None


@pytest.mark.slow
def test_what_is_refuted_has_a_run_that_replays() -> None:
    result = prove(ktx.system, constants={"V": 0}, properties=["NoHanging"], options=QUICK)
    assert result.verdict is Verdict.BROKEN
    proof = proof_of(result, "NoHanging")
    assert proof.verdict == "refuted"
    assert proof.trace is not None
    assert len(proof.trace.steps) == 9
    instance = instantiate(ktx.system, constants={"V": 0})
    machine = Interpreter(instance)
    assert proof.trace.states[0] in set(machine.initial_states())
    for before, then in pairwise(proof.trace.states):
        assert then in [step.state for step in machine.steps(before)]
    item = next(p for p in instance.properties if p.name == "NoHanging")
    assert not machine.holds(item.expression, proof.trace.states[-1])


# Ways of proof -----------------------------------------------------------------------------------

LIMIT = constant("limit", 5, 1, 10)
machine = Machine("relay")
first = machine.field("first", Int(0, LIMIT))
second = machine.field("second", Int(0, LIMIT))
move, rise = event("move"), event("rise")
ZERO = invariant("Zero", first == 0, "Nothing ever arrives.")
BELOW = invariant("Below", first <= second, "The first never overtakes the second.")


def relay(*tables: Table) -> System:
    """Two numbers, of which the first takes over what the second has."""
    return System("relay", tables, (ZERO, BELOW), constants=(LIMIT,), terminal=True)


PASSES_ON = Table(machine, move, (Row("move", set={first: second, second: 0}),))
RISES = Table(machine, rise, (Row("rise", when=second < LIMIT, set={second: second + 1}),))
FOLLOWS = Table(machine, move, (Row("move", when=first < second, set={first: first + 1}),))
COPIES = Table(machine, move, (Row("copy a 2", set={first: if_(second == 2, 1, 0)}),))
FLIPS = Table(
    machine,
    rise,
    (Row("up", when=second == 0, set={second: 1}), Row("down", when=second == 1, set={second: 0})),
)
FLIPS_LATER = Table(
    machine,
    move,
    (
        Row("up", when=(first == 1) & (second == 0), set={second: 1}),
        Row("down", when=second == 1, set={second: 0}),
    ),
)
TWO_STEPS = relay(COPIES, FLIPS)


def test_where_one_step_is_not_enough_two_are() -> None:
    """No step leads to 2, so that what passes on a 2 has done so before."""
    result = prove(TWO_STEPS, properties=["Zero"], options=QUICK)
    proof = proof_of(result, "Zero")
    assert (proof.verdict, proof.method, proof.k) == ("proved", "2-induction", 2)
    assert result.open == ("limit",)


def test_so_it_is_with_a_step() -> None:
    never = step_property("NeverUp", after(first) <= first, "The first never rises.")
    result = prove(replace(TWO_STEPS, properties=(never,)), options=QUICK)
    (proof,) = result.proofs
    assert (proof.verdict, proof.method, proof.k) == ("proved", "2-induction", 2)
    assert [answer.case for answer in result.asked if answer.k == 1][-1] == "start"


def test_a_first_step_that_has_none_before_it_is_not_forgotten() -> None:
    """It takes a fault, of which the closed system has none: no bounded search finds it."""
    row = Row("fail", when=first == 0, set={first: 1})
    faults = constant("faults", 0, 0, 9)
    never = step_property("Never", (after(first) == first) | (first != 0), "No fault ever comes.")
    once = System(
        "once",
        (Table(machine, rise, (row,)), FLIPS_LATER),
        (never,),
        terminal=True,
        constants=(LIMIT, faults),
        budgets={rise: faults},
    )
    for most in (2, 3):
        result = prove(once, options=replace(QUICK, most=most))
        assert "faults" in result.open
        assert [proof.verdict for proof in result.proofs] == ["not inductive"]
    assert check(instantiate(once)).verdict is Verdict.HOLDS
    assert check(instantiate(once, constants={"faults": 1})).verdict is Verdict.BROKEN


def test_what_is_not_inductive_shows_a_step_that_breaks_it() -> None:
    options = replace(QUICK, depth=1, most=1)
    result = prove(relay(PASSES_ON, RISES), properties=["Zero"], options=options)
    assert result.verdict is Verdict.INCONCLUSIVE
    proof = proof_of(result, "Zero")
    assert proof.verdict == "not inductive"
    assert proof.trace is not None
    (step,) = proof.trace.steps
    assert step.row == "move"
    assert "Perhaps no run" in proof.trace.conclusion
    before, after = proof.trace.states
    assert before[0] == 0
    assert after[0] != 0


def test_where_nothing_changes_there_is_nothing_for_spacer() -> None:
    still = Table(machine, rise, (Row("still", set={first: first}),))
    never = System("still", (still,), (invariant("One", first == 1, "It is 1."),), terminal=True,
                   constants=(LIMIT,))  # fmt: skip
    options = replace(QUICK, spacer=True, depth=0, timeout=0.001)
    (proof,) = prove(never, options=options).proofs
    assert proof.verdict in ("not inductive", "refuted", "unknown")


@pytest.mark.slow(1)
def test_an_invariant_that_spacer_finds_is_proved_again_and_shown() -> None:
    options = replace(QUICK, spacer=True, lemmas=False, most=1, depth=2)
    result = prove(ktx.system, constants=ONE, properties=["EpochBound"], options=options)
    proof = proof_of(result, "EpochBound")
    assert (proof.verdict, proof.method) == ("proved", "invariant found by Spacer")
    assert any("ktx.rqep[0][0]" in part and "ktx.cep" in part for part in proof.invariant)
    # none of its parts can be spared
    assert len(proof.invariant) <= 2


@pytest.mark.parametrize(
    "answer",
    [
        "(declare-fun wrap (Int) Int) (assert (= (wrap 1) 2))",
        "(assert (= 1",
        "(declare-const nobody Int) (assert (= nobody 2))",
    ],
)
def test_an_invariant_that_cant_be_read_costs_only_its_own_property(
    answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prover, "find_invariant", lambda *_, **__: answer)
    capped = invariant("Capped", second < 3, "It stops at 3.")
    system = replace(relay(FOLLOWS, RISES), properties=(capped, *relay(FOLLOWS).properties))
    options = replace(QUICK, spacer=True, depth=0, most=1)
    result = prove(system, options=options)
    assert proof_of(result, "Below").verdict == "proved"
    proof = proof_of(result, "Capped")
    assert proof.verdict == "not inductive"
    assert "can't be read" in proof.reason


def test_a_number_without_bounds_is_refuted_beyond_any_bound() -> None:
    """Whatever the limit is: the second follows only so far."""
    capped = invariant("Capped", second < 3, "It stops at 3.")
    system = replace(relay(RISES), properties=(capped,))
    result = prove(system, options=QUICK)
    assert proof_of(result, "Capped").verdict == "refuted"
    closed = prove(system, constants={"limit": 2}, options=QUICK)
    assert closed.verdict is Verdict.HOLDS
    assert closed.open == ()


def test_constants_that_bound_numbers_are_left_open() -> None:
    result = prove(relay(FOLLOWS, RISES), properties=["Below"], options=QUICK)
    assert result.verdict is Verdict.HOLDS
    assert result.open == ("limit",)
    instance = instantiate(relay(FOLLOWS, RISES), leave_open=["limit"])
    assert with_constants(instance, {"limit": 7}).constants == {"limit": 7}


# Honesty -----------------------------------------------------------------------------------------

HARD = Obligation(
    "P",
    "row",
    1,
    [
        Script(
            tuple(f"(declare-fun x{n} () Int)" for n in range(3)),
            "(assert (and (> x0 1) (> x1 1) (> x2 1)))"
            "(assert (= (+ (* x0 x0 x0) (* x1 x1 x1)) (* x2 x2 x2)))",
        )
    ],
)


def test_what_z3_cannot_tell_is_unknown() -> None:
    answer = settle(HARD, 0.05)
    assert answer.verdict == "unknown"
    assert answer.reason


@pytest.mark.slow(1)
def test_unknown_is_never_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_a_loss(item: Obligation, timeout: float) -> Settled:
        return Settled(item.key, item.subject, item.case, item.k, "unknown", timeout, (), "timeout")

    monkeypatch.setattr(obligations, "settle", at_a_loss)
    result = prove(ktx.system, constants=ONE, properties=["MarkerSane"], options=QUICK)
    assert proof_of(result, "MarkerSane").verdict == "unknown"
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "timeout" in proof_of(result, "MarkerSane").reason


def test_a_system_without_a_step_proves_nothing() -> None:
    never = Table(machine, rise, (Row("rise", when=second > LIMIT, set={second: 0}),))
    with pytest.raises(SolverError, match="no step"):
        prove(relay(never), properties=["Zero"], options=QUICK)


@pytest.mark.slow(1)
def test_a_run_that_is_broken_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are in the file as soon as they are there, but for those that Z3 couldn't give."""
    file = tmp_path / "answers.jsonl"
    known = Answers(file)
    asked = Obligation("P", "row", 1, [Script((), "(assert true)\n")])
    known.add(asked, Settled(asked.key, "P", "row", 1, "unknown", 1.0, (), "timeout"))
    before = prove(ktx.system, constants=ONE, options=QUICK, known=known)
    known.close()
    *first, last = file.read_text().splitlines(keepends=True)
    assert len(first) + 1 == len(before.asked)
    file.write_text("".join(first) + last[:20])
    again: list[str] = []

    def asked_again(item: Obligation, timeout: float) -> Settled:
        again.append(item.key)
        return settle(item, timeout)

    monkeypatch.setattr(obligations, "settle", asked_again)
    after = prove(ktx.system, constants=ONE, options=QUICK, known=Answers(file))
    assert after.verdict is Verdict.HOLDS
    assert [len(again), len(after.asked)] == [1, len(before.asked)]


CLAIM, RANGE, FIRST, SECOND, UNUSED = (Script((), f"(assert {name})\n") for name in "abcde")


@pytest.mark.parametrize(
    ("verdict", "facts", "is_known"),
    [
        ("unsat", {"First": FIRST, "Second": SECOND, "Third": UNUSED}, True),  # one more
        ("unsat", {"First": FIRST}, True),  # one that wasn't used is gone
        ("unsat", {"Second": SECOND}, False),  # the one that was used is gone
        ("unsat", {"First": UNUSED, "Second": SECOND}, False),  # and is another one
        ("sat", {"First": FIRST, "Second": SECOND, "Third": UNUSED}, False),
        ("sat", {"First": FIRST, "Second": SECOND}, True),
    ],
)
def test_what_follows_from_some_facts_isnt_asked_again_with_others(
    tmp_path: Path, verdict: str, facts: dict[str, Script], is_known: bool
) -> None:
    def asked(facts: Mapping[str, Script]) -> Obligation:
        named = tuple((name, (piece,)) for name, piece in facts.items())
        return Obligation("P", "row", 1, [CLAIM, RANGE], named)

    before, later = asked({"First": FIRST, "Second": SECOND}), asked(facts)
    used = ("First",) if verdict == "unsat" else ()
    known = Answers(tmp_path / "answers.jsonl")
    known.add(before, Settled(before.key, "P", "row", 1, verdict, 1.0, used))
    known.close()
    for answers in (known, Answers(tmp_path / "answers.jsonl")):
        found = answers.get(later)
        assert (found is not None) == is_known
        assert found is None or (found.key, found.used) == (later.key, used)
        assert answers.get(replace(later, claim=later.claim[1:])) is None
        assert answers.get(replace(later, claim=later.claim[:1])) is None
        assert answers.get(replace(later, case="another row")) is None


def another_solver(text: str) -> str:
    """What cvc5 answers to an SMT-LIB text, read strictly."""
    cvc5: Any = importlib.import_module("cvc5")  # it tells no types
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("strict-parsing", "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "certificate")
    symbols, answers = parser.getSymbolManager(), ""
    while not (command := parser.nextCommand()).isNull():
        answers += command.invoke(solver, symbols)
    return answers.strip()


def test_certificates_convince_another_solver(tmp_path: Path) -> None:
    folder = tmp_path / "proofs"
    options = replace(QUICK, certificates=folder)
    names = ["UniqueEpoch", "NoHanging"]
    result = prove(ktx.system, constants=ONE, properties=names, options=options)
    assert len([*folder.glob("*.smt2")]) == len(result.asked)
    prove(TWO_STEPS, properties=["Zero"], options=options)
    texts = {path.name: path.read_text() for path in folder.glob("*.smt2")}
    sums = {f"{sha256(text.encode()).hexdigest()}  {name}" for name, text in texts.items()}
    assert {*(folder / "SHA256SUMS").read_text().splitlines()} == sums
    assert any("-2-" in name for name in texts)
    assert {another_solver(text) for text in texts.values()} == {"unsat"}
    # what they assume is needed
    alone = [re.sub(r"^\(assert \|assumed: .*\n", "", text, flags=re.M) for text in texts.values()]
    assert {another_solver(text) for text in alone} == {"unsat", "sat"}
