"""Bounded model checking: the shortest counterexample within a number of steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...language import Instance
from ...language.instances.instance import ending_anywhere, ends_anywhere
from ...language.instances.instantiation import with_constants
from ..ground import ground
from ..slicing import sliced, without_constants
from ..verdict.result import Outcome, PropertyVerdict, Verdict, described
from ..verdict.violation import Kind, set_violation
from .terms import VERSION, Bits, Integers, Relation, Term, conjunction, z3


@dataclass(frozen=True)
class Depth:
    """Progress: nothing is broken in up to `depth` steps. Times in seconds."""

    depth: int
    seconds: float


@dataclass(kw_only=True)
class Bounded(Outcome):
    """The result of bounded model checking."""

    most: int
    solver: str = ""

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return super().as_json() | {"most": self.most, "solver": self.solver}


def bound(
    instance: Instance,
    depth: int,
    on_depth: Callable[[Depth], None] | None = None,
    *,
    only_properties: bool = False,
    deadlock: bool = True,
    timeout: float | None = None,
) -> Bounded:
    """Checks every run of up to `depth` steps, by length, for at most `timeout` seconds. It checks
    properties, ranges and, with `deadlock`, deadlocks; or only properties. If the instance leaves
    constants open, numbers are integers, and the counterexample has the constants' values.

    The verdict is HOLDS only if no run is longer, INCONCLUSIVE if Z3 can't decide. Raises
    DeclarationError for a faulty declaration, SolverError for a system without an initial state,
    ReplayError if the solver and the executable model differ.
    """
    begun = time.perf_counter()
    if not deadlock:
        instance = ending_anywhere(instance)
    varying = without_constants(ground(instance))
    grounded = sliced(varying)
    relation = Relation(grounded, Integers() if instance.open else Bits())
    found = _Search(relation, only_properties, None if timeout is None else begun + timeout)
    outcome = _begun(instance, depth, only_properties)
    outcome.left_out = [x.name for x in grounded.leaves if x.index in varying.kept - grounded.kept]
    for reached in range(depth + 1):
        faults = found.at(reached, steps=reached < depth)
        try:
            kind = next(faults, None)
        except (_UndecidedError, KeyboardInterrupt) as why:
            before = f"nothing broken in {_steps(reached - 1)}" if reached else "nothing checked"
            outcome.reason = f"{before}; then {str(why) or 'it was interrupted'}."
            if isinstance(why, KeyboardInterrupt):
                outcome.verdict = Verdict.INTERRUPTED
            break
        outcome.depth = reached
        if kind is not None:
            path, values = found.path(reached)
            outcome.constants |= values
            set_violation(
                with_constants(instance, values) if values else instance,
                kind,
                [{state} for state in path],
                lambda state: relation.kept(grounded.vector(state)),
                outcome,
                ranges=not only_properties,
            )
            break
        if on_depth is not None:
            on_depth(Depth(reached, time.perf_counter() - begun))
        if reached < depth and not found.goes_on():
            outcome.verdict = Verdict.HOLDS
            outcome.reason = f"No run is longer than {_steps(reached)}."
            outcome.properties = [PropertyVerdict(p.name, "holds") for p in instance.properties]
            break
    else:
        outcome.reason = f"nothing broken in {_steps(depth)}; longer runs were not searched."
    outcome.seconds = time.perf_counter() - begun
    return outcome


def _begun(instance: Instance, depth: int, only_properties: bool) -> Bounded:
    """The result before the search."""
    outcome = Bounded(
        **described(instance),
        verdict=Verdict.INCONCLUSIVE,
        reason="",
        properties=[PropertyVerdict(p.name, "holds so far") for p in instance.properties],
        depth=0,
        seconds=0.0,
        deadlocks=instance.may_deadlock and not only_properties,
        ends_anywhere=ends_anywhere(instance),
        most=depth,
        solver=VERSION,
    )
    if only_properties:
        outcome.notes.append("ranges were not checked either, because a property was named")
    return outcome


def _steps(number: int) -> str:
    return f"{number} step{'s' * (number != 1)}"


class _UndecidedError(Exception):
    """The search can't continue. The message has the reason."""


class _Search:
    """One solver for all depths; each violation that is excluded at a depth becomes an
    assertion.
    """

    def __init__(self, relation: Relation, only_properties: bool, until: float | None) -> None:
        self.relation = relation
        self.only_properties = only_properties
        self.until = until
        self.solver = z3.SolverFor(relation.numbers.logic)
        relation.check_start()
        self.solver.add(relation.at(0)(relation.start))

    def at(self, depth: int, *, steps: bool) -> Iterator[Kind]:
        """The violations at a depth: of a state after `depth` steps and, with `steps`, of a step
        from it.
        """
        relation = self.relation
        here = relation.at(depth)
        if depth > 1:
            self.solver.add(relation.at(depth - 2)(relation.order))
        if relation.invariants and self._finds(here(z3.Not(conjunction(relation.invariants)))):
            yield Kind.STATE
        if not self.only_properties and self._finds(here(relation.stuck)):
            yield Kind.DEADLOCK
        if not steps:
            return
        self.solver.add(here(relation.choice))
        if self.only_properties:
            self.solver.add(here(z3.Not(relation.out_of_range)))
        elif self._finds(here(relation.out_of_range)):
            yield Kind.STEP
        self.solver.add(here(relation.change))
        if self._finds(here(relation.broken)):
            yield Kind.STEP

    def goes_on(self) -> bool:
        """Whether a run with one more step exists."""
        return self.solver.check() != z3.unsat

    def _finds(self, fault: Term) -> bool:
        """Whether some run has this fault. If none does, it asserts that."""
        if z3.is_false(fault):
            return False
        if self.until is not None:
            left = round((self.until - time.perf_counter()) * 1000)
            if left <= 0:
                raise _UndecidedError("the time limit was reached")
            self.solver.set("timeout", left)
        name = z3.FreshBool("fault")
        self.solver.add(z3.Implies(name, fault))
        verdict = self.solver.check(name)
        if verdict == z3.unknown:
            if "interrupted" in self.solver.reason_unknown():  # Z3 takes Ctrl-C itself
                raise KeyboardInterrupt
            raise _UndecidedError(f"Z3 couldn't tell: {self.solver.reason_unknown()}")
        if verdict == z3.unsat:
            self.solver.add(z3.Not(fault))
        return verdict == z3.sat

    def path(self, depth: int) -> tuple[list[tuple[int, ...]], dict[str, int]]:
        """The states of the found run, and its values of open constants."""
        model, relation = self.solver.model(), self.relation
        opened = relation.grounded.open
        vectors = [relation.vector(model, relation.state(at)) for at in range(depth + 1)]
        values = {
            name: vectors[0][index] or relation.grounded.leaves[index].low
            for index, name in opened.items()
        }
        path = [
            tuple(0 if index in opened else number for index, number in enumerate(vector))
            for vector in vectors
        ]
        return path, values
