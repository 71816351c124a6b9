"""Finds lemmas for properties that aren't inductive: mines, sifts and reduces candidates, and
proves the properties with them.

Suggestions change no verdict: they are lemmas to declare.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....language import DEFAULT, Instance, Property, System, instantiate, invariant
from ....model.engine.interpreter import Interpreter
from ...ground.graph import Graph, Node, leaves_of
from ...prepare import available_threads
from ..induction import Induction
from ..notation import declaration
from ..prove import Options, Proof, Proofs, prove
from ..unbounded.numbers import lifted
from .grammar import Grammar
from .houdini import Houdini, Needs
from .mining import Candidate, LateError, Mine, States, put_together

ROUNDS = 1, 2, 3  # most literals of a clause, in each round
MOST_SHOWN = 3  # most lemmas shown that exclude a step but aren't sufficient


@dataclass(frozen=True)
class Settings:
    """The options of a proof; `seconds` is the time for the search for lemmas."""

    system: System
    protocol: str | None = None
    constants: Mapping[str, int] | None = None
    bounds: str = DEFAULT
    switch_on: tuple[str, ...] = ()
    switch_off: tuple[str, ...] = ()
    seconds: float = 120.0

    def instance(self, properties: Iterable[str]) -> Instance:
        """The system with a value for each constant."""
        return self._made(instantiate, properties)

    def lifted(self, properties: Iterable[str]) -> Instance:
        """The system with open constants, where they only bound numbers."""
        return self._made(lifted, properties)

    def _made(self, make: Callable[..., Instance], properties: Iterable[str]) -> Instance:
        return make(
            self.system,
            self.protocol,
            self.constants,
            bounds=self.bounds,
            switch_on=self.switch_on,
            switch_off=self.switch_off,
            properties=list(properties),
        )

    def proofs(self, lemmas: Sequence[Property], names: Sequence[str], options: Options) -> Proofs:
        """The proofs of the properties with further lemmas."""
        return prove(
            replace(self.system, lemmas=(*self.system.lemmas, *lemmas)),
            self.protocol,
            self.constants,
            bounds=self.bounds,
            switch_on=self.switch_on,
            switch_off=self.switch_off,
            properties=names,
            options=options,
        )


@dataclass
class Suggestions:
    """The outcome of a search for lemmas.

    With `lemmas` the properties `proved` are inductive, and `proofs` is the proof. `fewest`: none
    of the lemmas can be dropped. `hints` are inductive and exclude a step that breaks another
    property. `excludes` has, by property, the names of lemmas that exclude its shown step; `left`
    the row that still breaks it. `states` were explored (all, if `whole`), and `inductive` of the
    `candidates` are inductive together. `broken` are lemmas and further properties that an explored
    state breaks. `reason` is the reason for no result.
    """

    asked: list[str]
    states: int = 0
    whole: bool = False
    candidates: int = 0
    inductive: int = 0
    lemmas: list[Property] = field(default_factory=list[Property])
    hints: list[Property] = field(default_factory=list[Property])
    fewest: bool = True
    proved: list[str] = field(default_factory=list[str])
    excludes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    left: dict[str, str] = field(default_factory=dict[str, str])
    broken: list[str] = field(default_factory=list[str])
    proofs: Proofs | None = None
    reason: str = ""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The lemmas, or the hints, as declarations."""
        return declaration(self.lemmas or self.hints)

    def as_json(self) -> dict[str, Any]:
        """The data for JSON."""
        return {
            "asked": self.asked,
            "states": self.states,
            "whole": self.whole,
            "candidates": self.candidates,
            "inductive": self.inductive,
            "lemmas": {item.name: str(item.expression) for item in self.lemmas},
            "hints": {item.name: str(item.expression) for item in self.hints},
            "fewest": self.fewest,
            "proved": self.proved,
            "excludes": self.excludes,
            "left": self.left,
            "broken": self.broken,
            "declaration": self.text,
            "proofs": None if self.proofs is None else self.proofs.as_json(),
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
        }


def suggest(settings: Settings, found: Proofs, options: Options) -> Suggestions:
    """Finds lemmas for the properties that a run of `prove` found not inductive.

    Ctrl-C ends it, and `found` is then interrupted. Raises DeclarationError and SolverError as
    `prove` does.
    """
    begun = time.perf_counter()
    every = {item.name: item for item in settings.system.every_property}
    open_ = [p for p in found.proofs if p.verdict in ("not inductive", "unknown")]
    targets = [proof for proof in open_ if not every[proof.name].is_progress]
    result = Suggestions([proof.name for proof in targets])
    if targets:
        try:
            _Search(settings, targets, options, result, begun + settings.seconds).run()
        except KeyboardInterrupt:
            result.reason, found.interrupted = "interrupted", True
    else:
        result.reason = "no invariant or property of steps remains to be proved"
    result.seconds = time.perf_counter() - begun
    return result


class _Search:
    def __init__(
        self,
        settings: Settings,
        targets: Sequence[Proof],
        options: Options,
        result: Suggestions,
        until: float,
    ) -> None:
        self.settings = settings
        self.traces = {proof.name: proof.trace for proof in targets if proof.trace is not None}
        self.options = options
        self.result = result
        self.until = until
        system = settings.system
        lemmas = [item.name for item in system.lemmas] if options.lemmas else []
        invariants = [item.name for item in system.properties if item.kind == "invariant"]
        self.names = [*dict.fromkeys((*lemmas, *invariants, *result.asked))]

    def run(self) -> None:
        """Searches for lemmas, in longer and longer clauses."""
        result = self.result
        states = self._states()
        try:
            if wrong := [name for name in result.asked if name in result.broken]:
                result.reason = f"an explored state breaks {', '.join(wrong)}: use check"
            elif states.wrong:
                result.reason = "an explored step breaks a property or leaves a range: use check"
            else:
                any(self._is_enough(states, most) for most in ROUNDS)
        except LateError:
            result.reason = (
                f"the time limit of {self.settings.seconds:g} s was reached; give more with "
                "--deadline, or fewer instances with --set"
            )
        finally:
            states.close()

    def _states(self) -> States:
        """The explored states. If a lemma or a further property is broken, the search ends, and it
        is repeated without them.
        """
        result = self.result
        while True:
            states = States(self.settings.instance(self.names), available_threads())
            result.states, result.whole = states.count, states.whole
            broken = states.broken() if states.wrong else set[str]()
            result.broken += sorted(broken)
            if not broken or broken & {*result.asked}:
                return states
            states.close()
            self.names = [name for name in self.names if name not in broken]

    def _is_enough(self, states: States, most: int) -> bool:
        """Whether clauses of at most `most` literals prove all properties in question. The last
        attempt also reports a part of the properties.
        """
        result = self.result
        mine = Mine(states, Grammar(states.prepared.instance, states.names), most, self.until)
        mined = mine.candidates()
        induction = Induction(self.settings.lifted(self.names))
        candidates = added(induction, states, mined)
        result.candidates = len(candidates)
        houdini = Houdini(induction, self.until, self.options.timeout)
        houdini.sift()
        inductive = {name: c for name, c in candidates.items() if name in houdini.alive}
        result.inductive = len(inductive)
        needs = Needs(houdini)
        good = [name for name in result.asked if self._is_proved(needs, name)]
        if len(good) < len(result.asked) and most != ROUNDS[-1]:
            return False
        result.left = {
            name: houdini.broken[name]
            for name in result.asked
            if name not in good and name in houdini.broken
        }
        if good:
            self._tell(needs, good, inductive)
        else:
            self._hint(inductive)
            which = "searched candidates" if mine.more else "candidates"
            result.reason = f"no conjunction of the {which} is enough"
        return True

    def _is_proved(self, needs: Needs, name: str) -> bool:
        """Whether the remaining facts prove a property."""
        alive = needs.houdini.alive
        if name not in needs.houdini.induction.steps:
            return name in alive or name not in needs.houdini.induction.facts
        return needs.closed([name], alive) is not None

    def _tell(self, needs: Needs, good: list[str], inductive: Mapping[str, Candidate]) -> None:
        """Records the needed lemmas, and the proof with them."""
        result = self.result
        spare = sorted(inductive, key=lambda name: inductive[name].effort, reverse=True)
        kept, result.fewest = needs.fewest(good, spare, [*needs.houdini.alive])
        lemmas = put_together([inductive[name] for name in kept if name in inductive])
        found = self._named(lemmas)
        plain = replace(self.options, most=1, depth=1, spacer=False)
        proofs = self.settings.proofs(found, good, plain)
        proved = [proof.name for proof in proofs.proofs if proof.verdict == "proved"]
        if not proved:
            result.reason = "the proof with them failed"
            return
        result.lemmas, result.proved, result.proofs = found, proved, proofs
        result.excludes = self._excluding(found)

    def _hint(self, inductive: Mapping[str, Candidate]) -> None:
        """Records lemmas that exclude a shown step, but aren't sufficient."""
        every = sorted(inductive.values(), key=lambda candidate: candidate.effort)
        found = self._named(every)
        excludes = self._excluding(found)
        chosen = {name for names in excludes.values() for name in names[:MOST_SHOWN]}
        pairs = zip(found, every, strict=True)
        self.result.hints = self._named(each for item, each in pairs if item.name in chosen)
        self.result.excludes = self._excluding(self.result.hints)

    def _named(self, candidates: Iterable[Candidate]) -> list[Property]:
        taken = {item.name for item in self.settings.system.every_property}
        names = (name for n in range(1, 1 << 30) if (name := f"Suggested{n}") not in taken)
        return [
            invariant(name, candidate.expression, "Suggested by a tool: say it in words.")
            for candidate, name in zip(candidates, names, strict=False)
        ]

    def _excluding(self, found: Sequence[Property]) -> dict[str, list[str]]:
        """For each property, the lemmas that exclude the first state of its shown step."""
        system = replace(self.settings.system, lemmas=(*self.settings.system.lemmas, *found))
        instance = replace(self.settings, system=system).instance(item.name for item in found)
        machine = Interpreter(instance)
        return {
            name: [
                item.name
                for item in instance.properties
                if not machine.holds(item.expression, trace.states[0])
            ]
            for name, trace in self.traces.items()
        }


def added(induction: Induction, states: States, mined: Iterable[Candidate]) -> dict[str, Candidate]:
    """Adds the candidates to an induction as facts. Returns them by the facts' names, the simplest
    first.
    """
    grounded = induction.grounded
    grammar = Grammar(induction.instance, states.names)
    known = dict(_never_changing(grounded.graph, induction, states))
    done: dict[int, Node] = {}
    found: dict[str, Candidate] = {}
    seen = {node for nodes in induction.facts.values() for node in nodes}
    for candidate in sorted(mined, key=lambda each: each.effort):
        said = grammar.closed(grammar.as_grounded(candidate.expression))
        read = grounded.read(said, {})
        assert isinstance(read, Node)
        node = grounded.graph.substitute(read, known, done)
        if node.is_constant or node in seen or not leaves_of([node]) <= grounded.kept:
            continue
        seen.add(node)
        name = f"candidate {len(found)}"
        found[name] = candidate
        induction.add(name, [node])
    return found


def _never_changing(
    graph: Graph, induction: Induction, states: States
) -> Iterator[tuple[int, Node]]:
    """The leaves with one value in all explored states that the proof doesn't contain."""
    fixed = states.unchanging
    for leaf in induction.grounded.leaves:
        if leaf.index not in induction.grounded.kept and leaf.name in fixed:
            number = fixed[leaf.name]
            yield leaf.index, graph.truth(bool(number)) if leaf.is_truth else graph.number(number)
