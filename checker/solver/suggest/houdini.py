"""Finds the facts that are inductive together: drops facts that a step can break, until no step
can.

Flanagan and Leino, "Houdini, an annotation assistant for ESC/Java" (2001).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ...ground import GroundAction, GroundRow
from ...ground.graph import Node, leaves_of
from ..induction import Induction
from ..terms import Shift, Term, conjunction, disjunction, z3
from .mining import LateError

_FEW = 4  # facts that are asserted first; the number doubles each time


@dataclass(frozen=True)
class Case:
    """A row of an action: the condition under which it is taken, and a function from a condition on
    the state to the same condition on the next state.
    """

    name: str
    action: GroundAction
    row: GroundRow
    taken: Term
    behind: Callable[[Term], Term]


class Houdini:
    """The facts of an induction: those `alive` aren't broken yet. `broken` has the others, each
    with the row that broke it (None: the start).

    Every method raises LateError after the time `until`. A fact that Z3 can't decide within
    `timeout` seconds counts as broken.
    """

    def __init__(self, induction: Induction, until: float, timeout: float) -> None:
        self.induction = induction
        self.relation = induction.relation
        self.until = until
        self.timeout = timeout
        self.alive = dict.fromkeys(induction.facts)
        self.broken: dict[str, str] = {}
        self.terms = {
            name: [self.relation.terms.truth(node) for node in nodes]
            for name, nodes in induction.facts.items()
        }
        self.reads = {
            name: [leaves_of([node]) for node in nodes] for name, nodes in induction.facts.items()
        }
        self.cases = [*self._cases()]

    def _cases(self) -> Iterator[Case]:
        relation = self.relation
        for action in self.induction.grounded.actions:
            there = relation.is_there(action)
            for row in action.rows:
                leaves = [leaf for leaf in relation.leaves if leaf.index in row.updates]
                now, following = relation.now, relation.following
                written = [
                    following[leaf.index] == relation.stored(leaf, row.updates[leaf.index])
                    for leaf in leaves
                ]
                taken = [there, relation.terms.truth(row.guard), relation.ranges, *written]
                taken.append(z3.Not(relation.terms.truth(row.out_of_range)))
                behind = Shift([(now[leaf.index], following[leaf.index]) for leaf in leaves])
                name = self.induction.case(action, row)
                yield Case(name, action, row, conjunction(taken), behind)

    # Dropping facts ---------------------------------------------------------------------------

    def sift(self) -> None:
        """Drops facts until the remaining ones are inductive together."""
        self._sift_start()
        needed: list[frozenset[str] | None] = [None] * len(self.cases)
        while todo := [
            at for at, used in enumerate(needed) if used is None or not used <= self.alive.keys()
        ]:
            for at in todo:
                needed[at] = self._sift_step(self.cases[at])

    def _sift_start(self) -> None:
        solver = self._solver()
        solver.add(self.relation.start)
        wrong = {name: self._denied(name) for name in self.alive}
        self._drop_broken(solver, wrong, [])

    def _sift_step(self, case: Case) -> frozenset[str]:
        """Drops the facts that a step by this row breaks. Returns the facts that protect the
        remaining ones.
        """
        solver = self._solver()
        solver.add(case.taken)
        touched = [name for name in self.alive if self._touches(case, name)]
        wrong = {name: self._denied(name, case) for name in touched}
        return self._drop_broken(solver, wrong, [*self.alive], case.name)

    def _touches(self, case: Case, name: str) -> bool:
        return any(not read.isdisjoint(case.row.updates) for read in self.reads[name])

    def _denied(self, name: str, case: Case | None = None) -> Term:
        """The condition that a fact doesn't hold after a step of `case`, limited to parts that the
        row changes. Without a case: that it doesn't hold.
        """
        parts = zip(self.terms[name], self.reads[name], strict=True)
        if case is None:
            return disjunction(z3.Not(term) for term, _ in parts)
        written = case.row.updates
        return disjunction(
            z3.Not(case.behind(term)) for term, read in parts if not read.isdisjoint(written)
        )

    def values(self, model: Term, *, is_behind: bool = False) -> Values:
        """The numbers of the state in a model, before or after the step."""
        relation = self.relation
        numbers: dict[int, int] = {}
        for leaf in relation.leaves:
            there = None
            if is_behind:
                there = model[relation.following[leaf.index]]
            if there is None:
                there = model.eval(relation.now[leaf.index], True)
            numbers[leaf.index] = int(z3.is_true(there)) if leaf.is_truth else there.as_long()
        return Values(numbers)

    def _drop_broken(
        self, solver: Term, wrong: dict[str, Term], known: Sequence[str], said: str = ""
    ) -> frozenset[str]:
        asking = _Asking(solver, self, known)
        while wrong:
            goal = z3.FreshBool("goal")
            solver.add(z3.Implies(goal, disjunction(wrong.values())))
            answer = asking.answer(goal)
            if answer == z3.unsat:
                return asking.used
            if answer == z3.sat:
                values = self.values(solver.model(), is_behind=bool(said))
                broken = [name for name in wrong if not values.hold(self.induction.facts[name])]
                assert broken, "a model that breaks some breaks one"
            elif len(wrong) > 1:  # then each one separately
                return self._one_by_one(wrong, asking, said)
            else:
                broken = [*wrong]
            self._drop(broken, said)
            wrong = {name: term for name, term in wrong.items() if name in self.alive}
        return frozenset()

    def _one_by_one(self, wrong: dict[str, Term], asking: _Asking, said: str) -> frozenset[str]:
        used = frozenset[str]()
        for name, term in wrong.items():
            if name in self.alive:
                goal = z3.FreshBool("goal")
                asking.solver.add(z3.Implies(goal, term))
                if asking.answer(goal) == z3.unsat:
                    used |= asking.used
                else:
                    self._drop([name], said)
        return used

    def _drop(self, names: Iterable[str], said: str) -> None:
        for name in names:
            del self.alive[name]
            self.broken[name] = said

    # Needed facts -----------------------------------------------------------------------------

    def core(self, case: Case, wrong: Term, allowed: Collection[str]) -> frozenset[str] | None:
        """The facts, of the allowed ones, with which no step by this row satisfies `wrong`; None if
        they aren't sufficient.
        """
        solver = self._solver()
        solver.set("smt.core.minimize", True)
        goal = z3.FreshBool("goal")
        solver.add(case.taken, z3.Implies(goal, wrong))
        asking = _Asking(solver, self, [name for name in self.terms if name in allowed])
        return asking.used if asking.answer(goal) == z3.unsat else None

    def obligations(self, name: str) -> Iterator[tuple[Case, Term]]:
        """The rows that may break a fact or a step property, each with the violation."""
        steps = self.induction.steps
        for case in self.cases:
            if name in steps:
                wrong = case.row.broken[steps[name]]
                if wrong is not self.induction.grounded.graph.false:
                    yield case, self.relation.terms.truth(wrong)
            elif self._touches(case, name):
                yield case, self._denied(name, case)

    def _solver(self) -> Term:
        solver = z3.Solver()
        solver.set("smt.arith.solver", 2)
        return solver

    def left(self) -> float:
        """The seconds for a query. Raises LateError if the time is over."""
        rest = self.until - time.perf_counter()
        if rest <= 0:
            raise LateError
        return min(rest, self.timeout)


class _Asking:
    """Asserts facts when a model contradicts them."""

    def __init__(self, solver: Term, of: Houdini, known: Sequence[str]) -> None:
        self.solver = solver
        self.of = of
        self.known = known
        self.named = {name: z3.Bool(f"fact {name}") for name in known}
        self.asserted: dict[str, Term] = {}
        self.used = frozenset[str]()

    def answer(self, goal: Term) -> Term:
        """Z3's answer with all facts. If it is unsatisfiable, `used` are the facts that it
        needs.
        """
        few = _FEW
        while True:
            self.solver.set("timeout", max(1, round(self.of.left() * 1000)))
            own = {n: b for n, b in self.asserted.items() if n in self.of.alive}
            answer = self.solver.check(goal, *own.values())
            if answer == z3.unsat:
                core = {str(term) for term in self.solver.unsat_core()}
                self.used = frozenset(name for name, term in own.items() if str(term) in core)
            elif answer == z3.unknown and "interrupted" in self.solver.reason_unknown():
                raise KeyboardInterrupt  # Z3 takes Ctrl-C itself
            if answer != z3.sat or not self._assert(few):
                return answer
            few *= 2

    def _assert(self, few: int) -> bool:
        """Asserts at most `few` facts that the model contradicts; False if there are none."""
        values, facts = self.of.values(self.solver.model()), self.of.induction.facts
        left = (n for n in self.known if n in self.of.alive and n not in self.asserted)
        wrong = [*islice((name for name in left if not values.hold(facts[name])), few)]
        for name in wrong:
            self.asserted[name] = self.named[name]
            self.solver.add(z3.Implies(self.named[name], conjunction(self.of.terms[name])))
        return bool(wrong)


class Values:
    """Evaluates conditions in a state, given by the numbers of its leaves."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self.numbers = numbers
        self._done: dict[int, int] = {}

    def hold(self, nodes: Iterable[Node]) -> bool:
        """Whether all nodes hold."""
        return all(map(self.value, nodes))

    def value(self, node: Node) -> int:
        """The value of a node. A truth is 0 or 1."""
        if node.op == "leaf":
            return self.numbers[node.value]
        if node.op == "const":
            return node.value
        found = self._done.get(node.number)
        if found is None:
            found = self._done[node.number] = int(self._made(node))
        return found

    def _made(self, node: Node) -> int:
        args, value = node.args, self.value
        match node.op:
            case "not":
                return not value(args[0])
            case "and":
                return all(map(value, args))
            case "or":
                return any(map(value, args))
            case "eq":
                return value(args[0]) == value(args[1])
            case "lt":
                return value(args[0]) < value(args[1])
            case "add":
                return value(args[0]) + value(args[1])
            case "sub":
                return value(args[0]) - value(args[1])
            case "mul":
                return value(args[0]) * value(args[1])
            case "div":
                return value(args[0]) // node.value
            case "mod":
                return value(args[0]) % node.value
            case _:
                return value(args[1] if value(args[0]) else args[2])


class Needs:
    """Finds a small set of facts that is sufficient for others."""

    def __init__(self, houdini: Houdini) -> None:
        self.houdini = houdini
        self.cores: dict[tuple[str, str], frozenset[str]] = {}

    def closed(self, targets: Sequence[str], allowed: Collection[str]) -> list[str] | None:
        """The facts that the targets need, directly or indirectly; None if the allowed facts aren't
        sufficient.
        """
        needed = dict.fromkeys(targets)
        todo = [*targets]
        while todo:
            target = todo.pop()
            for case, wrong in self.houdini.obligations(target):
                key = target, case.name
                core = self.cores.get(key)
                if core is None or not core <= {*allowed, target}:
                    core = self.houdini.core(case, wrong, {*allowed, *targets})
                    if core is None:
                        return None
                    self.cores[key] = core
                todo += [name for name in core if name not in needed]
                needed |= dict.fromkeys(core)
        return [*needed]

    def fewest(
        self, targets: Sequence[str], spare: Sequence[str], allowed: Collection[str]
    ) -> tuple[list[str], bool]:
        """Tries to drop each fact in `spare`, in this order. Returns the needed facts, and whether
        there was time for each of them.
        """
        kept = self.closed(targets, allowed) or []
        for name in [name for name in spare if name in kept]:
            if name not in kept:
                continue
            try:
                others = [n for n in allowed if n != name and (n in kept or n not in spare)]
                fewer = self.closed(targets, others)
            except LateError:
                return kept, False
            if fewer is not None:
                kept = fewer
        return kept, True
