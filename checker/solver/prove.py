"""Proves properties by induction with lemmas, by k-induction, and by Spacer's invariants."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ...language import DEFAULT, DeclarationError, Instance, Property, System, instantiate
from ...language.declaration.arguments import one_of
from ...language.instances.instantiation import with_constants
from ...model.engine.interpreter import Interpreter
from ..ground.graph import Node
from ..many.workers import Workers
from ..trace.trace import Trace, shown_trace
from ..verdict.result import Verdict
from .bound import Bounded, bound
from .induction import Induction, Subject
from .invariants import conditions, find_invariant, question
from .notation import shown
from .obligations import Answers, Obligation, Settled, settle_all, write_certificates
from .ranking import ranked
from .terms import VERSION, SolverError, can_be, z3
from .unbounded.numbers import lifted

_FEW = 3  # most rows of failed obligations in a reason


@dataclass(frozen=True)
class Options:
    """The options of a proof: seconds for an obligation, the workers, the largest k, steps of the
    search for a counterexample, a folder for certificates, whether declared lemmas are used.
    """

    timeout: float = 60.0
    workers: Workers = field(default_factory=Workers)
    most: int = 2
    depth: int = 10
    certificates: Path | None = None
    lemmas: bool = True
    spacer: bool = True


@dataclass
class Proof:
    """The outcome of a property: `proved`, `refuted`, `not inductive` (of progress `not ranked`) or
    `unknown`.

    `lemmas` are the facts that its proof uses, `invariant` is Spacer's result. `trace` is a run
    that refutes it. If it isn't inductive, `trace` is a single step that breaks it, from a state in
    which it holds; perhaps no run reaches that state.
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
        """The proof for JSON."""
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
    """All proofs of a run, with every settled obligation."""

    system: str
    protocol: str
    constants: dict[str, int]
    features: list[str]
    open: tuple[str, ...]
    proofs: list[Proof]
    lemmas: list[Proof]
    asked: list[Settled] = field(default_factory=list[Settled])
    seconds: float = 0.0
    solver: str = ""
    interrupted: bool = False
    switched: list[str] = field(default_factory=list[str])

    @property
    def verdict(self) -> Verdict:
        """HOLDS only if each property is proved."""
        verdicts = {proof.verdict for proof in self.proofs}
        if "refuted" in verdicts:
            return Verdict.BROKEN
        if self.interrupted:
            return Verdict.INTERRUPTED
        return Verdict.HOLDS if verdicts == {"proved"} else Verdict.INCONCLUSIVE

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "system": self.system,
            "protocol": self.protocol,
            "constants": self.constants,
            "features": self.features,
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
    known: Answers | None = None,
) -> Proofs:
    """Proves the named properties (None: all), for all values of constants that only bound numbers,
    except those in `constants`. The properties and lemmas may use each other; if that isn't enough,
    the system's other invariants as well. Obligations with `known` answers aren't settled again.

    Once obligations are being settled, Ctrl-C ends it with the finished results. Raises
    DeclarationError as `instantiate` does, SolverError for a system without an initial state or
    without a step.
    """
    begun = time.perf_counter()
    options = options or Options()
    wanted = [item.name for item in system.properties] if properties is None else list(properties)
    declared = {item.name: item for item in system.every_property}
    for name in wanted:
        if name not in declared:
            there = one_of(name, declared, listed=[item.name for item in system.properties])
            raise DeclarationError(f"{system.name} has no property {name} ({there})")
    lemmas = [item.name for item in system.lemmas] if options.lemmas else []
    invariants = [item.name for item in system.properties if item.kind == "invariant"]

    def induction(names: Sequence[str]) -> Induction:
        return Induction(
            lifted(
                system,
                protocol,
                constants,
                bounds=bounds,
                switch_on=switch_on,
                switch_off=switch_off,
                properties=dict.fromkeys(names),
            )
        )

    run = _Run(options, known or Answers(), declared)
    attempt = _Attempt(run, induction([*lemmas, *wanted]))
    _check_steps(attempt.induction)
    try:  # at Ctrl-C, `together` waits for no worker
        with options.workers.together("prove") as workers:
            run.options = replace(options, workers=workers)
            left = attempt.prove(run.with_rule(wanted, system))
            if left and not {*invariants} <= {*wanted}:  # the other properties may help as lemmas
                attempt = _Attempt(run, induction([*lemmas, *invariants, *left]))
                left = attempt.prove(left)
            for name in (name for name in left if name in attempt.ranked):
                run.proof(name).trace = attempt.raised(name)
            left = [name for name in left if name not in attempt.ranked]
            if left:
                closed = instantiate(
                    system,
                    protocol,
                    constants,
                    bounds=bounds,
                    switch_on=switch_on,
                    switch_off=switch_off,
                    properties=left,
                )
                _Harder(run, attempt, closed).settle(left)
    except KeyboardInterrupt:
        run.interrupt(wanted)
    return run.result(attempt.induction.instance, wanted, time.perf_counter() - begun)


class _Run:
    """The obligations of a run, their answers, and the records of proofs."""

    def __init__(
        self,
        options: Options,
        known: Answers,
        declared: Mapping[str, Property],
    ) -> None:
        self.options = options
        self.known = known
        self.declared = declared
        self.settled: dict[str, Settled] = {}
        self.interrupted = False
        self.proofs: dict[str, Proof] = {}

    def ask(self, items: Iterable[Obligation]) -> None:
        """Settles obligations without an answer; the first ones while others are still
        generated.
        """
        found: dict[str, Settled | None] = {}
        pending: dict[str, Obligation] = {}

        def unsettled() -> Iterator[Obligation]:
            for item in items:
                found[item.key] = self.known.get(item)
                if found[item.key] is None:
                    pending[item.key] = item
                    yield item

        try:
            for answer in settle_all(unsettled(), self.options.timeout, self.options.workers):
                self.known.add(pending[answer.key], answer)
                found[answer.key] = answer
        finally:  # Ctrl-C keeps the answers so far
            self.settled |= {key: answer for key, answer in found.items() if answer is not None}

    def with_rule(self, names: Sequence[str], system: System) -> list[str]:
        """The properties for which there is a proof rule. The others get a reason."""
        ranked = {item.name for item in system.rankings}
        for name in (n for n in names if self.declared[n].is_progress and n not in ranked):
            has = f"it has those of {', '.join(sorted(ranked))}" if ranked else "it has none"
            self.proof(name).reason = (
                f"{system.name} declares no ranking of it ({has}); "
                "check --progress checks it within bounds"
            )
        return [name for name in names if not self.declared[name].is_progress or name in ranked]

    def result(self, instance: Instance, wanted: Sequence[str], seconds: float) -> Proofs:
        """The result of the run."""
        return Proofs(
            instance.system.name,
            instance.protocol,
            instance.chosen,
            sorted(instance.features),
            tuple(info.name for info in instance.open),
            [self.proof(name) for name in wanted],
            [proof for name, proof in self.proofs.items() if name not in wanted],
            list(self.settled.values()),
            seconds,
            VERSION,
            self.interrupted,
            instance.switched,
        )

    def interrupt(self, names: Iterable[str]) -> None:
        """Sets the reason of unsettled properties to the interrupt."""
        self.interrupted = True
        for proof in map(self.proof, names):
            if proof.verdict == "unknown" and not proof.reason:
                proof.reason = "interrupted"

    def answers(self, items: Sequence[Obligation]) -> list[Settled]:
        """The answers to settled obligations."""
        return [self.settled[item.key] for item in items]

    def proof(self, name: str) -> Proof:
        """The record of a property, a lemma, or a fact of all states."""
        if name not in self.proofs:
            item = self.declared.get(name)
            sentence = item.sentence if item else "Each value of a state is in its stored form."
            self.proofs[name] = Proof(name, sentence)
        return self.proofs[name]

    def succeed(self, name: str, method: str, k: int, items: Sequence[Obligation]) -> None:
        """Records a proof, with its dependencies."""
        proof, found = self.proof(name), self.answers(items)
        proof.verdict, proof.method, proof.k, proof.reason = "proved", method, k, ""
        proof.lemmas = tuple(sorted({fact for answer in found for fact in answer.used} - {name}))
        self.spent(name, found)
        if self.options.certificates is not None:
            write_certificates(items, self.options.certificates)

    def fail(self, name: str, found: Sequence[Settled]) -> None:
        """Records that some of a fact's obligations don't hold, or that Z3 can't tell."""
        proof = self.proof(name)
        self.spent(name, found)
        wrong = [answer for answer in found if answer.verdict == "sat"]
        reasons = {answer.reason for answer in found if answer.reason}
        if wrong:
            proof.verdict = "not inductive"
            proof.reason = f"{len(wrong)} of {len(found)} obligations fail"
            item = self.declared.get(name)  # None: the fact of all states isn't declared
            if item is not None and item.is_progress:
                proof.verdict = "not ranked"
                proof.reason += f": {_some([answer.case for answer in wrong])}"
        else:
            proof.reason = f"Z3 can't tell: {', '.join(sorted(reasons))}"

    def spent(self, name: str, found: Sequence[Settled]) -> None:
        """Adds the cost of obligations to the record."""
        proof = self.proof(name)
        proof.seconds += sum(answer.seconds for answer in found)
        proof.obligations += len(found)
        proof.longest = max([proof.longest, *(answer.seconds for answer in found)])


class _Attempt:
    """Induction over one step with facts that may all use each other. A failed fact is left out,
    and facts that used it are tried again.
    """

    def __init__(self, run: _Run, induction: Induction) -> None:
        self.run = run
        self.induction = induction
        self.ranked = ranked(induction)
        self.facts = list(induction.facts)  # may be assumed: not failed yet
        self.pending: dict[str, list[Obligation]] = {}  # proved if their used facts are
        self.proved = {
            name
            for name, proof in run.proofs.items()
            if proof.verdict == "proved" and name in run.declared
        }
        self.failed: dict[str, list[Settled]] = {}

    def prove(self, names: Sequence[str]) -> list[str]:
        """Proves these facts and their dependencies; returns those that fail."""
        while todo := [name for name in self._needed(names) if name not in self.pending]:
            for name, items in self._settled(todo).items():
                found = self.run.answers(items)
                bad = [answer for answer in found if answer.verdict != "unsat"]
                if bad:
                    self.failed[name] = bad
                    self.run.fail(name, found)
                else:
                    self.pending[name] = items
            self.facts = [name for name in self.facts if name not in self.failed]
            for name in list(self.pending):
                if self._used(name) & {*self.failed}:
                    del self.pending[name]
        for name in self._needed(names):
            self.run.succeed(name, *self._method(name), self.pending.pop(name))
            self.proved.add(name)
        return [name for name in names if name in self.failed]

    def _needed(self, names: Sequence[str]) -> list[str]:
        """The names that are neither proved nor failed, with the facts that their answers use."""
        needed = [name for name in names if name not in self.failed]
        for name in needed:
            if name in self.pending:
                needed += sorted(self._used(name) - {*needed})
        return [name for name in needed if name not in self.proved]

    def _used(self, name: str) -> set[str]:
        answers = self.run.answers(self.pending[name])
        return {fact for answer in answers for fact in answer.used}

    def _settled(self, names: Sequence[str]) -> dict[str, list[Obligation]]:
        obligations: dict[str, list[Obligation]] = {}

        def each() -> Iterator[Obligation]:
            for name in names:
                obligations[name] = []
                for item in self._obligations(name):
                    obligations[name].append(item)
                    yield item

        self.run.ask(each())
        return obligations

    def _obligations(self, name: str) -> Iterator[Obligation]:
        if name in self.ranked:
            return chain(*(item.obligations(name, self.facts) for item in self.ranked[name]))
        subject = self.induction.subject(name)
        if subject is None:
            return iter(())
        return self.induction.obligations(subject, [fact for fact in self.facts if fact != name])

    def raised(self, name: str) -> Trace | None:
        """The first step that contradicts the ranking of a property."""
        for answer in (each for each in self.failed[name] if each.verdict == "sat"):
            for item in self.ranked[name]:
                if answer.case.endswith(item.where):
                    return item.counterexample(answer)
        return None

    def _method(self, name: str) -> tuple[str, int]:
        if name in self.ranked:
            return "ranking", 0
        subject = self.induction.subject(name)
        if subject is None:
            return "no row can break it", 0
        return ("induction" if subject.nodes else "each step, from lemmas"), 1


class _Harder:
    """The further attempts if induction over one step fails: a counterexample, a larger k,
    Spacer.
    """

    def __init__(self, run: _Run, attempt: _Attempt, closed: Instance) -> None:
        self.run = run
        self.options = run.options
        self.induction = attempt.induction
        self.failed = attempt.failed
        self.closed = closed
        attempt.prove(attempt.facts)
        self.facts = attempt.facts

    def settle(self, names: Sequence[str]) -> None:
        """Tries each method for each name, until one settles it."""
        for way in (self._refuted, self._by_more_steps, self._by_spacer):
            settled = way(names)
            names = [name for name in names if name not in settled]
        for name in names:
            steps = [a for a in self.failed[name] if a.verdict == "sat" and a.case != "start"]
            if steps:
                trace = counterexample_to_induction(self.induction, steps[0])
                self.run.proof(name).trace = trace

    def _refuted(self, names: Sequence[str]) -> set[str]:
        """The names with a short counterexample under the system's own constants."""
        every = {item.name: item for item in self.closed.properties}
        alone = [replace(self.closed, properties=(every[name],)) for name in names]
        depth, timeout = self.options.depth, self.options.timeout
        look = partial(_bounded, depth=depth, timeout=timeout)
        settled: set[str] = set()
        for at, (found, seconds) in self.options.workers.each(look, alone, "refute"):
            proof = self.run.proof(names[at])
            proof.seconds += seconds
            if found.verdict is Verdict.BROKEN:
                proof.verdict, proof.method = "refuted", "bounded model checking"
                proof.trace, proof.reason = found.trace, found.reason
                settled.add(names[at])
        return settled

    def _by_more_steps(self, names: Sequence[str]) -> set[str]:
        """The names that hold by k-induction."""
        settled: set[str] = set()
        for k in range(2, self.options.most + 1):
            items = {
                name: [*self.induction.obligations(self._subject(name), self.facts, k)]
                for name in names
                if name not in settled
            }
            self.run.ask([item for each in items.values() for item in each])
            for name, own in items.items():
                found = self.run.answers(own)
                if all(answer.verdict == "unsat" for answer in found):
                    self.run.succeed(name, f"{k}-induction", k, own)
                    settled.add(name)
                else:
                    self.run.spent(name, found)
                    self.run.proof(name).k = k
        return settled

    def _by_spacer(self, names: Sequence[str]) -> set[str]:
        """The names that an invariant of Spacer's proves."""
        if not self.induction.relation.leaves:
            return set()  # nothing changes
        names = [name for name in names if self._subject(name).nodes and self.options.spacer]
        queries = [question(self.induction, self._subject(name), self.facts) for name in names]
        ask = partial(find_invariant, timeout=self.options.timeout)
        found = [
            (names[at], answer) for at, answer in self.options.workers.each(ask, queries, "Spacer")
        ]
        settled: set[str] = set()
        for name, answer in found:
            if answer is None:
                continue
            try:
                invariant = conditions(self.induction, answer)
            except SolverError as error:  # this property stays open, others keep their results
                self.run.proof(name).reason += f"; {error}"
                continue
            if self._holds_with(name, invariant):
                settled.add(name)
        return settled

    def _subject(self, name: str) -> Subject:
        subject = self.induction.subject(name)
        assert subject is not None, "a property that no row can break doesn't fail"
        return subject

    def _holds_with(self, name: str, found: Sequence[Node]) -> bool:
        """Whether conditions prove the name by plain induction; unneeded ones are dropped."""
        parts = [*found, *self._subject(name).nodes]
        nodes = {f"{name}, part {at}": node for at, node in enumerate(parts, 1)}
        own = list(nodes)[len(found) :]
        for part, node in nodes.items():
            self.induction.add(part, [node])

        def proved(parts: Sequence[str]) -> list[Obligation] | None:
            items: list[Obligation] = []
            for part in parts:
                others = [*self.facts, *(other for other in parts if other != part)]
                items += self.induction.obligations(Subject(part, (nodes[part],)), others)
            self.run.ask(items)
            good = all(answer.verdict == "unsat" for answer in self.run.answers(items))
            return items if good else None

        kept = list(nodes)
        items = proved(kept)
        if items is None:
            return False
        for part in [part for part in nodes if part not in own]:
            fewer = [other for other in kept if other != part]
            smaller = proved(fewer)
            if smaller is not None:
                kept, items = fewer, smaller
        self.run.succeed(name, "invariant found by Spacer", 1, items)
        proof, leaves = self.run.proof(name), self.induction.grounded.leaves
        proof.lemmas = tuple(lemma for lemma in proof.lemmas if lemma not in nodes)
        proof.invariant = tuple(shown(nodes[part], leaves) for part in kept if part not in own)
        return True


def _bounded(instance: Instance, depth: int, timeout: float) -> tuple[Bounded, float]:
    """A bounded search for a violation of a property, and its seconds of processor time."""
    begun = time.thread_time()
    found = bound(instance, depth, only_properties=True, timeout=timeout)
    return found, time.thread_time() - begun


def _some(cases: Sequence[str]) -> str:
    """The first cases, as text."""
    more = f"; and {len(cases) - _FEW} more" if len(cases) > _FEW else ""
    return "; ".join(cases[:_FEW]) + more


def _check_steps(induction: Induction) -> None:
    """Raises SolverError if no state has a step: everything would be proved."""
    relation = induction.relation
    solver = z3.Solver()
    solver.add(relation.start, relation.choice)
    if not can_be(solver):
        raise SolverError("no step is possible from the start, so a proof would say nothing")


def counterexample_to_induction(induction: Induction, answer: Settled) -> Trace | None:
    """The step in an obligation's model as a trace; None if it needs a longer run."""
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
        return shown_trace(
            instance, [state, step.state], [step], "Perhaps no run reaches this state."
        )
    return None
