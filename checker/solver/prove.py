"""Properties proved: by induction with lemmas, by k-induction, by invariants that Spacer finds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...model.interpreter import Interpreter
from ...spec.language import DEFAULT, DeclarationError, Instance, Property, System, instantiate
from ...spec.language.instance import with_constants
from ..spread import Spread
from ..trace import Trace, told
from ..verdict import Verdict
from .bound import bound
from .induction import Induction, Subject
from .invariants import find_invariant
from .lifted import lifted
from .notation import shown
from .obligations import Obligation, Settled, settle_all, write_certificates
from .terms import SolverError, z3


@dataclass(frozen=True)
class Options:
    """How to prove: seconds for an obligation, where they are asked, the largest k, steps to look
    for a counterexample, a folder for certificates, whether declared lemmas are used."""

    timeout: float = 60.0
    spread: Spread = field(default_factory=Spread)
    most: int = 2
    depth: int = 10
    certificates: Path | None = None
    lemmas: bool = True
    spacer: bool = True


@dataclass
class Proof:
    """What became of a property: `proved`, `refuted`, `not inductive` or `unknown`.

    `lemmas` are the facts that its proof rests on, `invariant` what Spacer found. `trace` is a run
    that refutes it; or, of one that isn't inductive, a single step that breaks it from a state that
    it holds in, and that perhaps no run reaches.
    """

    name: str
    sentence: str
    verdict: str = "unknown"
    method: str = ""
    k: int = 0
    lemmas: tuple[str, ...] = ()
    invariant: tuple[str, ...] = ()
    seconds: float = 0.0
    obligations: int = 0
    longest: float = 0.0
    reason: str = ""
    trace: Trace | None = None

    def as_json(self) -> dict[str, Any]:
        """The proof as plain data."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "method": self.method,
            "k": self.k,
            "lemmas": list(self.lemmas),
            "invariant": list(self.invariant),
            "seconds": round(self.seconds, 3),
            "obligations": self.obligations,
            "longest": self.longest,
            "reason": self.reason,
            "trace": None if self.trace is None else self.trace.as_json(),
        }


@dataclass
class Proofs:
    """All that a run proved, with every obligation asked."""

    system: str
    protocol: str
    constants: dict[str, int]
    open: tuple[str, ...]
    proofs: list[Proof]
    lemmas: list[Proof]
    asked: list[Settled] = field(default_factory=list[Settled])
    seconds: float = 0.0
    solver: str = ""

    @property
    def verdict(self) -> Verdict:
        """HOLDS only where each property is proved."""
        verdicts = {proof.verdict for proof in self.proofs}
        if "refuted" in verdicts:
            return Verdict.BROKEN
        return Verdict.HOLDS if verdicts == {"proved"} else Verdict.INCONCLUSIVE

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "system": self.system,
            "protocol": self.protocol,
            "constants": self.constants,
            "open": list(self.open),
            "verdict": self.verdict.name.lower(),
            "exit_code": self.verdict.value,
            "properties": [proof.as_json() for proof in self.proofs],
            "lemmas": [proof.as_json() for proof in self.lemmas],
            "obligations": [settled.as_json() for settled in self.asked],
            "seconds": round(self.seconds, 3),
            "solver": self.solver,
        }


def prove(
    system: System,
    protocol: str | None = None,
    constants: Mapping[str, int] | None = None,
    *,
    bounds: str = DEFAULT,
    switch_on: Iterable[str] = (),
    switch_off: Iterable[str] = (),
    properties: Sequence[str] | None = None,
    options: Options | None = None,
    known: Mapping[str, Settled] | None = None,
    on_settled: Callable[[Settled], None] | None = None,
) -> Proofs:
    """Proves the named properties (none: all), under any values of the constants that only bound
    numbers and that `constants` doesn't set. `known` are answers from an earlier run.

    Raises DeclarationError as `instantiate` does, SolverError where there is no start or no step.
    """
    begun = time.perf_counter()
    options = options or Options()

    def made(names: Sequence[str]) -> Instance:
        return lifted(
            system, protocol, constants, bounds=bounds, switch_on=switch_on, switch_off=switch_off,
            properties=names,
        )  # fmt: skip

    wanted = [item.name for item in system.properties] if properties is None else list(properties)
    declared = {item.name: item for item in (*system.properties, *system.lemmas)}
    for name in wanted:
        if name not in declared:
            told_names = ", ".join(declared)
            raise DeclarationError(f"{system.name} has no property {name} (it has: {told_names})")
    lemmas = [item.name for item in system.lemmas] if options.lemmas else []
    states = [name for name in wanted if declared[name].kind == "invariant"]
    steps = [name for name in wanted if declared[name].kind == "step"]
    invariants = [item.name for item in system.properties if item.kind == "invariant"]
    facts = list(dict.fromkeys([*lemmas, *states, *invariants]))
    first = made(facts or wanted[:1])
    run = _Run(options, known or {}, on_settled or (lambda _: None), declared)
    induction = Induction(first)
    _check_steps(induction)
    run.facts = list(induction.facts)
    run.by_induction(induction, states)
    for name in steps:
        run.of_steps(induction, Induction(made([*facts, name])), name)
    closed = instantiate(
        system, protocol, constants, bounds=bounds, switch_on=switch_on, switch_off=switch_off,
        properties=wanted,
    )  # fmt: skip
    for name in wanted:
        if run.proofs[name].verdict != "proved":
            run.try_harder(Induction(made([*(f for f in facts if f != name), name])), name, closed)
    return Proofs(
        system.name,
        first.protocol,
        first.chosen,
        tuple(info.name for info in first.open),
        [run.proofs[name] for name in wanted],
        [proof for name, proof in run.proofs.items() if name not in wanted],
        run.asked,
        time.perf_counter() - begun,
        f"Z3 {z3.get_version_string()}",
    )


class _Run:
    def __init__(
        self,
        options: Options,
        known: Mapping[str, Settled],
        on_settled: Callable[[Settled], None],
        declared: Mapping[str, Property],
    ) -> None:
        self.options = options
        self.known = dict(known)
        self.on_settled = on_settled
        self.declared = declared
        self.asked: list[Settled] = []
        self.proofs: dict[str, Proof] = {}
        self.facts: list[str] = []  # what may be assumed, as it hasn't failed
        self.answers: dict[str, tuple[list[Obligation], list[Settled]]] = {}
        self.failed: dict[str, list[Settled]] = {}

    def settled(self, items: Sequence[Obligation]) -> list[Settled]:
        """The answers to obligations, asked once each."""
        timeout, spread = self.options.timeout, self.options.spread
        for answer in settle_all(items, timeout, spread, self.known, self.on_settled):
            self.known[answer.key] = answer
        asked = {answer.key for answer in self.asked}
        found = [self.known[item.key] for item in items]
        self.asked += [answer for answer in found if answer.key not in asked]
        return found

    def proof(self, name: str) -> Proof:
        """The record of a property, a lemma, or of what all states have in common."""
        if name not in self.proofs:
            item = self.declared.get(name)
            sentence = item.sentence if item else "Each state is made of values as they are stored."
            self.proofs[name] = Proof(name, sentence)
        return self.proofs[name]

    def by_induction(self, induction: Induction, names: Sequence[str]) -> None:
        """The named facts by plain induction, and those that they need; each may use all others.
        What fails is left out, and what needed it is asked again."""
        for name in names:
            if name not in induction.facts and name not in self.failed:
                self._succeed(name, "nothing that a row writes bears on it", 0, [], [])

        def needed() -> list[str]:
            """What is to be proved, and has no answer that still counts."""
            wanted = [name for name in names if name in self.facts]
            for name in wanted:
                if name in self.answers:
                    used = {fact for answer in self.answers[name][1] for fact in answer.used}
                    wanted += sorted(used - {*wanted})
            return [name for name in wanted if name not in self.answers]

        while todo := needed():
            for name in todo:
                subject = Subject(name, induction.facts[name])
                items = induction.obligations(subject, [f for f in self.facts if f != name])
                self.answers[name] = items, self.settled(items)
            for name in todo:
                bad = [a for a in self.answers[name][1] if a.verdict != "unsat"]
                if bad:
                    self.failed[name] = bad
                    self._spent(self.proof(name), self.answers.pop(name)[1])
                    self.facts.remove(name)
            for name in list(self.answers):
                if any({*answer.used} & {*self.failed} for answer in self.answers[name][1]):
                    del self.answers[name]
        for name in self.answers:
            if self.proof(name).verdict != "proved":
                self._succeed(name, "induction", 1, *self.answers[name])

    def of_steps(self, first: Induction, induction: Induction, name: str) -> None:
        """A property of steps, by the facts that its steps need."""
        while True:
            facts = [fact for fact in self.facts if fact in induction.facts]
            items = induction.obligations(Subject(name, ()), facts)
            found = self.settled(items)
            bad = [answer for answer in found if answer.verdict != "unsat"]
            if bad:
                self.failed[name] = bad
                return self._spent(self.proof(name), found)
            used = sorted({fact for answer in found for fact in answer.used})
            self.by_induction(first, used)
            if not {*used} & {*self.failed}:
                return self._succeed(name, "each step, from lemmas", 1, items, found)

    def _known_of(self, induction: Induction) -> list[str]:
        return [name for name in self.answers if name in induction.facts]

    def _succeed(
        self,
        name: str,
        method: str,
        k: int,
        items: Sequence[Obligation],
        found: Sequence[Settled],
    ) -> None:
        proof = self.proof(name)
        proof.verdict, proof.method, proof.k = "proved", method, k
        used = {fact for answer in found for fact in answer.used} - {name}
        proof.lemmas = tuple(sorted(used))
        self._spent(proof, found)
        if self.options.certificates is not None:
            write_certificates(items, self.options.certificates)

    def _spent(self, proof: Proof, found: Sequence[Settled]) -> None:
        proof.seconds += sum(answer.seconds for answer in found)
        proof.obligations += len(found)
        proof.longest = max([proof.longest, *(answer.seconds for answer in found)])

    def try_harder(self, induction: Induction, name: str, closed: Instance) -> None:
        """What plain induction doesn't settle: a counterexample, a larger k, Spacer."""
        proof, options = self.proof(name), self.options
        begun = time.perf_counter()
        if self._refuted(name, closed):
            return
        is_invariant = self.declared[name].kind == "invariant"
        subject = Subject(name, induction.facts[name] if is_invariant else ())
        known = self._known_of(induction)
        for k in range(2, options.most + 1):
            items = induction.obligations(subject, known, k)
            found = self.settled(items)
            if all(answer.verdict == "unsat" for answer in found):
                return self._succeed(name, f"{k}-induction", k, items, found)
            proof.k = k
        if is_invariant and options.spacer and self._by_spacer(induction, subject, known):
            return None
        proof.seconds += time.perf_counter() - begun
        steps = [
            a for a in self.failed[name] if a.verdict == "sat" and not a.case.startswith("start")
        ]
        if steps:
            proof.verdict = "not inductive"
            proof.trace = counterexample_to_induction(induction, steps[0])
            proof.reason = f"{len(steps)} of {proof.obligations} obligations fail"
        else:
            reasons = {answer.reason for answer in self.failed[name] if answer.reason}
            proof.reason = f"Z3 can't tell: {', '.join(sorted(reasons))}"
        return None

    def _refuted(self, name: str, closed: Instance) -> bool:
        """Whether there is a short counterexample under the system's own constants."""
        alone = replace(closed, properties=tuple(p for p in closed.properties if p.name == name))
        found = bound(alone, self.options.depth, only_properties=True)
        if found.verdict is not Verdict.BROKEN:
            return False
        proof = self.proof(name)
        proof.verdict, proof.method, proof.trace = "refuted", "bounded model checking", found.trace
        proof.reason = found.reason
        return True

    def _by_spacer(self, induction: Induction, subject: Subject, known: Sequence[str]) -> bool:
        """Whether an invariant that Spacer finds proves the subject by plain induction."""
        found = find_invariant(induction, subject, known, self.options.timeout)
        if found is None:
            return False
        parts = [*found, *subject.nodes]
        names = {f"{subject.name}, part {at}": node for at, node in enumerate(parts, 1)}
        wanted = [
            f"{subject.name}, part {len(found) + at}" for at in range(1, len(subject.nodes) + 1)
        ]
        for name, node in names.items():
            induction.add(name, [node])

        def proved(parts: Sequence[str]) -> tuple[list[Obligation], list[Settled]] | None:
            items: list[Obligation] = []
            for name in parts:
                others = [*known, *(part for part in parts if part != name)]
                items += induction.obligations(Subject(name, (names[name],)), others)
            answers = self.settled(items)
            return (items, answers) if all(a.verdict == "unsat" for a in answers) else None

        kept = list(names)
        proof = proved(kept)
        if proof is None:
            return False
        for name in list(kept):
            if name not in wanted:
                fewer = [part for part in kept if part != name]
                smaller = proved(fewer)
                if smaller is not None:
                    kept, proof = fewer, smaller
        self._succeed(subject.name, "invariant found by Spacer", 1, *proof)
        record = self.proofs[subject.name]
        record.lemmas = tuple(lemma for lemma in record.lemmas if lemma not in names)
        leaves = induction.grounded.leaves
        record.invariant = tuple(shown(names[n], leaves) for n in kept if n not in wanted)
        return True


def _check_steps(induction: Induction) -> None:
    """Raises SolverError where no step can be taken from any state: all would be proved of it."""
    relation = induction.relation
    solver = z3.Solver()
    solver.add(relation.start, relation.choice)
    if solver.check() == z3.unsat:
        raise SolverError("no step can be taken from the start: whatever is proved says nothing")


def counterexample_to_induction(induction: Induction, answer: Settled) -> Trace | None:
    """The step that an obligation's model names; none where it needs a longer run."""
    (numbers,) = induction.states(dict(answer.model), 1)
    values = {name: numbers[index] for index, name in induction.grounded.open.items()}
    instance = with_constants(induction.instance, values)
    machine = Interpreter(instance)
    state = induction.grounded.plain(numbers)
    item = next((p for p in instance.properties if p.name == answer.subject), None)
    for step in machine.steps(state):
        if step.state is None or not answer.case.startswith(instance.row_names[step.row]):
            continue
        if item is not None:
            if item.kind == "step" and machine.step_holds(item, state, step.state):
                continue
            if item.kind == "invariant" and machine.holds(item.expression, step.state):
                continue
        return told(instance, [state, step.state], [step], "Perhaps no run reaches this state.")
    return None
