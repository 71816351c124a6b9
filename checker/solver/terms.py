"""The explorer's relation as Z3 terms: leaves are variables, nodes are terms.

This is the only translation. With `Bits` each number has the bits of its interval, so a query is
propositional. With `Integers` numbers are unbounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import z3 as untyped  # pyright: ignore[reportMissingTypeStubs]

from ..ground import UNBOUNDED, GroundAction, Grounded, GroundRow, Leaf, choice_leaf
from ..ground.graph import Node, leaves_of

z3: Any = untyped  # its type stubs are wrong
VERSION = f"Z3 {z3.get_version_string()}"
Term = Any
Interval = tuple[int, int]


class SolverError(Exception):
    """Z3 can't decide, or there is no initial state."""


def can_be(solver: Any) -> bool:
    """Whether the assertions of a Z3 solver are satisfiable. Raises SolverError if Z3 can't decide,
    for instance because memory is short.
    """
    verdict = solver.check()
    if verdict == z3.unknown:
        reason = solver.reason_unknown()
        if "interrupted" in reason:  # Z3 takes Ctrl-C itself
            raise KeyboardInterrupt
        raise SolverError(
            f"Z3 couldn't tell whether there is a start, and a step from it: {reason}"
        )
    return verdict == z3.sat


class Numbers(Protocol):
    """The translation of numbers to terms. An `Interval` has the possible values of a term."""

    logic: str

    def variable(self, name: str, of: Interval) -> Term:
        """A variable for the numbers of an interval."""
        ...

    def inside(self, variable: Term, of: Interval) -> Term:
        """The condition that the variable is within the interval."""
        ...

    def constant(self, value: int, of: Interval) -> Term:
        """The term of a number."""
        ...

    def fitted(self, term: Term, source: Interval, of: Interval) -> Term:
        """A term of one interval, converted to another interval that contains its value."""
        ...

    def less(self, a: Term, b: Term, of: Interval) -> Term:
        """Whether a < b."""
        ...

    def modulo(self, a: Term, size: Term, of: Interval) -> Term:
        """a modulo a positive `size`, never negative."""
        ...

    def quotient(self, a: Term, size: Term, of: Interval) -> Term:
        """a divided by a positive `size`, rounded down; `of` reaches a `size` below."""
        ...

    def value(self, term: Term, of: Interval) -> int:
        """The number of a model's value."""
        ...

    def at_most_one(self, truths: Sequence[Term]) -> Term:
        """The condition that no two of them hold."""
        ...


class Bits:
    """Numbers as bit vectors of the width of their interval, signed if it contains negative
    numbers.
    """

    logic = "QF_FD"

    def width(self, of: Interval) -> int:
        low, high = of
        if low >= 0:
            return max(1, high.bit_length())
        return max((-low - 1).bit_length(), high.bit_length() if high > 0 else 0) + 1

    def variable(self, name: str, of: Interval) -> Term:
        return z3.BitVec(name, self.width(of))

    def inside(self, variable: Term, of: Interval) -> Term:
        low, high = of
        width = self.width(of)
        limits: list[Term] = []
        if low >= 0:
            if low > 0:
                limits.append(z3.UGE(variable, low))
            if high < 2**width - 1:
                limits.append(z3.ULE(variable, high))
        else:
            if low > -(2 ** (width - 1)):
                limits.append(variable >= low)
            if high < 2 ** (width - 1) - 1:
                limits.append(variable <= high)
        return conjunction(limits)

    def constant(self, value: int, of: Interval) -> Term:
        return z3.BitVecVal(value, self.width(of))

    def fitted(self, term: Term, source: Interval, of: Interval) -> Term:
        more = self.width(of) - term.size()
        if more > 0:
            return z3.ZeroExt(more, term) if source[0] >= 0 else z3.SignExt(more, term)
        return z3.Extract(self.width(of) - 1, 0, term) if more < 0 else term

    def less(self, a: Term, b: Term, of: Interval) -> Term:
        return z3.ULT(a, b) if of[0] >= 0 else a < b

    def modulo(self, a: Term, size: Term, of: Interval) -> Term:
        return z3.URem(a, size) if of[0] >= 0 else a % size

    def quotient(self, a: Term, size: Term, of: Interval) -> Term:
        return z3.UDiv(a, size) if of[0] >= 0 else (a - a % size) / size

    def value(self, term: Term, of: Interval) -> int:
        return term.as_long() if of[0] >= 0 else term.as_signed_long()

    def at_most_one(self, truths: Sequence[Term]) -> Term:
        return z3.AtMost(*truths, 1) if truths else z3.BoolVal(True)


class Integers:
    """Numbers as Z3's integers. All terms are SMT-LIB, which other solvers read."""

    logic = "ALL"

    def variable(self, name: str, of: Interval) -> Term:
        return z3.Int(name)

    def inside(self, variable: Term, of: Interval) -> Term:
        low, high = of
        return variable >= low if high == UNBOUNDED else z3.And(variable >= low, variable <= high)

    def constant(self, value: int, of: Interval) -> Term:
        return z3.IntVal(value)

    def fitted(self, term: Term, source: Interval, of: Interval) -> Term:
        return term

    def less(self, a: Term, b: Term, of: Interval) -> Term:
        return a < b

    def modulo(self, a: Term, size: Term, of: Interval) -> Term:
        return a % size

    def quotient(self, a: Term, size: Term, of: Interval) -> Term:
        return a / size  # rounds down, because the divisor is positive

    def value(self, term: Term, of: Interval) -> int:
        return term.as_long()

    def at_most_one(self, truths: Sequence[Term]) -> Term:
        parts: list[Term] = []
        earlier = z3.BoolVal(False)
        for truth in truths:
            parts.append(z3.Not(z3.And(earlier, truth)))
            earlier = z3.Or(earlier, truth)
        return conjunction(parts)


def interval(node: Node) -> Interval:
    """The possible numbers of a node."""
    return node.low, node.high


def _hull(*nodes: Node) -> Interval:
    return min(n.low for n in nodes), max(n.high for n in nodes)


def conjunction(parts: Iterable[Term]) -> Term:
    """The conjunction of terms."""
    terms = list(parts)
    if not terms:
        return z3.BoolVal(True)
    return terms[0] if len(terms) == 1 else z3.And(terms)


def disjunction(parts: Iterable[Term]) -> Term:
    """The disjunction of terms."""
    terms = list(parts)
    if not terms:
        return z3.BoolVal(False)
    return terms[0] if len(terms) == 1 else z3.Or(terms)


class Terms:
    """Nodes as terms, each once; `leaf` gives the variable of a leaf."""

    def __init__(self, numbers: Numbers, leaf: Callable[[Node], Term]) -> None:
        self.numbers = numbers
        self.leaf = leaf
        self.known: dict[int, Term] = {}

    def truth(self, node: Node) -> Term:
        """The node as a Boolean term."""
        term = self._term(node)
        return term if node.is_truth else term != self.numbers.constant(0, interval(node))

    def number(self, node: Node, of: Interval | None = None) -> Term:
        """The node as a number term for an interval (default: its own)."""
        term = self._term(node)
        if node.is_truth:
            one, zero = (self.numbers.constant(n, (0, 1)) for n in (1, 0))
            term = z3.If(term, one, zero)
        return self.numbers.fitted(term, interval(node), of or interval(node))

    def _term(self, node: Node) -> Term:
        found = self.known.get(node.number)
        if found is None:
            found = self.known[node.number] = self._made(node)
        return found

    def _made(self, node: Node) -> Term:  # noqa: C901 (a case for each operator)
        args, numbers = node.args, self.numbers
        match node.op:
            case "const":
                if node.is_truth:
                    return z3.BoolVal(bool(node.value))
                return numbers.constant(node.value, interval(node))
            case "leaf":
                return self.leaf(node)
            case "not":
                return z3.Not(self.truth(args[0]))
            case "and":
                return z3.And([self.truth(a) for a in args])
            case "or":
                return z3.Or([self.truth(a) for a in args])
            case "eq":
                if args[0].is_truth and args[1].is_truth:
                    return self.truth(args[0]) == self.truth(args[1])
                of = _hull(*args)
                return self.number(args[0], of) == self.number(args[1], of)
            case "lt":
                of = _hull(*args)
                return numbers.less(self.number(args[0], of), self.number(args[1], of), of)
            case "add":
                of = interval(node)
                return self.number(args[0], of) + self.number(args[1], of)
            case "sub":
                of = interval(node)
                return self.number(args[0], of) - self.number(args[1], of)
            case "mul":
                of = interval(node)
                return self.number(args[0], of) * self.number(args[1], of)
            case "div":
                low, high = interval(args[0])
                of = low - node.value if low < 0 else 0, max(high, node.value)
                whole = numbers.quotient(
                    self.number(args[0], of), numbers.constant(node.value, of), of
                )
                return numbers.fitted(whole, of, interval(node))
            case "mod":
                of = min(args[0].low, 0), max(args[0].high, node.value)
                rest = numbers.modulo(
                    self.number(args[0], of), numbers.constant(node.value, of), of
                )
                return numbers.fitted(rest, of, interval(node))
            case _:
                if node.is_truth:
                    return z3.If(*(self.truth(a) for a in args))
                of = interval(node)
                then, otherwise = (self.number(a, of) for a in args[1:])
                return z3.If(self.truth(args[0]), then, otherwise)


class Shift:
    """A prepared substitution of variables: `z3.substitute` converts all pairs in Python at each
    call.
    """

    def __init__(self, pairs: Sequence[tuple[Term, Term]]) -> None:
        self._pairs = pairs  # keeps the terms alive
        array = z3.Ast * len(pairs)
        self._old = array(*(old.as_ast() for old, _ in pairs))
        self._new = array(*(new.as_ast() for _, new in pairs))

    def __call__(self, term: Term) -> Term:
        """The term with the variables replaced."""
        made = z3.Z3_substitute(
            term.ctx_ref(), term.as_ast(), len(self._pairs), self._old, self._new
        )
        return z3.BoolRef(made, term.ctx)


@dataclass(frozen=True)
class Taken:
    """A row for one binding, with its action."""

    action: GroundAction
    row: GroundRow


class Relation:
    """A grounded system as terms over variables: the start, the step to the next state, the
    violations.

    `now` and `following` have the variables of the state and the next state, by leaf. `chosen` has
    a Boolean for each of `steps`: it is taken. `places` are the slots of bags that are taken. `at`
    shifts a term to a depth.
    """

    def __init__(self, grounded: Grounded, numbers: Numbers) -> None:
        self.grounded = grounded
        self.numbers = numbers
        self.leaves = [grounded.leaves[index] for index in sorted(grounded.kept)]
        self.now = {leaf.index: self.variable(leaf, "") for leaf in self.leaves}
        self.following = {leaf.index: self.variable(leaf, "'") for leaf in self.leaves}
        self.steps = [Taken(a, row) for a in grounded.actions for row in a.rows]
        self.chosen = [z3.Bool(f"step {index}") for index in range(len(self.steps))]
        self.chosen_next = [z3.Bool(f"step {index}'") for index in range(len(self.steps))]
        self.places = {
            choice_leaf(many): numbers.variable(f"place of {many}", (0, many - 1))
            for many in {len(action.possible) for action in grounded.actions} - {1}
        }
        self._shifts: dict[int, Shift] = {}
        self.terms = Terms(numbers, self._leaf)

    def variable(self, leaf: Leaf, suffix: str) -> Term:
        """The variable of a leaf at one depth."""
        name = f"{leaf.name}{suffix}"
        if leaf.is_truth:
            return z3.Bool(name)
        return self.numbers.variable(name, (leaf.low, leaf.high))

    def _leaf(self, node: Node) -> Term:
        if node.value >= 0:
            return self.now[node.value]
        return self.places[node.value]

    @cached_property
    def in_range(self) -> Term:
        """The condition that the variables are a state: within their ranges, and well-formed."""
        return conjunction([self.ranges, *map(self.terms.truth, self.grounded.well_formed)])

    @cached_property
    def ranges(self) -> Term:
        """The condition that all variables are within their leaves' ranges."""
        return self.ranges_of({leaf.index for leaf in self.leaves})

    def ranges_of(self, leaves: Set[int]) -> Term:
        """The condition that the variables of some leaves are within their ranges."""
        return conjunction(
            self.numbers.inside(self.now[leaf.index], (leaf.low, leaf.high))
            for leaf in self.leaves
            if leaf.index in leaves and not leaf.is_truth
        )

    @cached_property
    def start(self) -> Term:
        """The condition that the state is an initial one, for some values of open constants."""
        settled = [leaf for leaf in self.leaves if leaf.index not in self.grounded.open]
        states = (
            conjunction(self.equals(self.now, leaf, vector[leaf.index]) for leaf in settled)
            for vector in sorted({self.kept(vector) for vector in self.grounded.initials})
        )
        return z3.And(disjunction(states), self.in_range)

    def check_start(self) -> None:
        """Raises SolverError if there is no well-formed initial state."""
        solver = z3.SolverFor(self.numbers.logic)
        solver.add(self.start, self.in_range)
        if not can_be(solver):
            raise SolverError("there is no initial state, so a check would say nothing")

    def kept(self, vector: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of a state, with 0 for leaves that aren't kept."""
        kept = self.grounded.kept
        return tuple(n if index in kept else 0 for index, n in enumerate(vector))

    def equals(self, state: Mapping[int, Term], leaf: Leaf, number: int) -> Term:
        """The condition that a leaf has the given number."""
        variable = state[leaf.index]
        if leaf.is_truth:
            return variable if number else z3.Not(variable)
        return variable == self.numbers.constant(number, (leaf.low, leaf.high))

    @cached_property
    def possible(self) -> list[Term]:
        """For each step, the condition that it can be taken, from the chosen place."""
        result: list[Term] = []
        there: dict[int, Term] = {}
        for step in self.steps:
            action = step.action
            if id(action) not in there:
                there[id(action)] = self.is_there(action)
            result.append(conjunction([there[id(action)], self.terms.truth(step.row.guard)]))
        return result

    def is_there(self, action: GroundAction) -> Term:
        """The condition that the action is possible at the chosen place."""
        places = action.possible
        if len(places) == 1:
            return self.terms.truth(places[0])
        graph = self.grounded.graph
        chosen = graph.leaf(choice_leaf(len(places)), 0, len(places) - 1, False)
        return disjunction(
            conjunction([self.terms.truth(graph.equal(chosen, graph.number(at))), holds])
            for at, holds in enumerate(map(self.terms.truth, places))
        )

    @cached_property
    def choice(self) -> Term:
        """The condition that exactly one step is chosen, and can be taken."""
        parts = [z3.Implies(*pair) for pair in zip(self.chosen, self.possible, strict=True)]
        parts += [disjunction(self.chosen), self.numbers.at_most_one(self.chosen)]
        return conjunction(parts)

    @cached_property
    def change(self) -> Term:
        """The condition that the chosen step, if in range, leads from this state to the next."""
        parts: list[Term] = []
        writers: dict[int, list[tuple[Term, Node]]] = {leaf.index: [] for leaf in self.leaves}
        for chosen, step in zip(self.chosen, self.steps, strict=True):
            for index, node in step.row.updates.items():
                writers[index].append((chosen, node))
        for leaf in self.leaves:
            parts.append(self.following[leaf.index] == self._written(leaf, writers[leaf.index]))
        return conjunction(parts)

    def _written(self, leaf: Leaf, writers: list[tuple[Term, Node]]) -> Term:
        """The leaf's next value. Rows that write the same node share a case."""
        result = self.now[leaf.index]
        together: dict[int, tuple[Node, list[Term]]] = {}
        for chosen, node in writers:
            together.setdefault(node.number, (node, []))[1].append(chosen)
        for node, chosen in together.values():
            result = z3.If(disjunction(chosen), self.stored(leaf, node), result)
        return result

    def stored(self, leaf: Leaf, node: Node) -> Term:
        """A node's value in the form of the leaf, if it is in range."""
        if leaf.is_truth:
            return self.terms.truth(node)
        return self.terms.number(node, (leaf.low, leaf.high))

    @cached_property
    def out_of_range(self) -> Term:
        """The condition that the chosen step writes a value out of its range."""
        return self._wrong([step.row.out_of_range for step in self.steps])

    @cached_property
    def broken(self) -> Term:
        """The condition that the chosen step breaks a step property."""
        return self._wrong([self.grounded.graph.or_(*step.row.broken) for step in self.steps])

    def breaks(self, which: int) -> Term:
        """The condition that the chosen step breaks the step property with this index."""
        return self._wrong([step.row.broken[which] for step in self.steps])

    def _wrong(self, conditions: list[Node]) -> Term:
        """The disjunction of the conditions of chosen steps, without unsatisfiable ones."""
        alone = z3.SolverFor(self.numbers.logic)
        alone.add(self.in_range)
        wrong: list[Term] = []
        for chosen, possible, node in zip(self.chosen, self.possible, conditions, strict=True):
            if node is self.grounded.graph.false:
                continue
            holds = self.terms.truth(node)
            alone.push()
            alone.add(possible, holds)
            if alone.check() != z3.unsat:
                wrong.append(z3.And(chosen, holds))
            alone.pop()
        return disjunction(wrong)

    @cached_property
    def order(self) -> Term:
        """The condition that the chosen step and the next one are in order: two independent steps
        are taken in the order of their indices.

        Every run can be reordered in this way without a change of its last state.
        """
        reads = [
            leaves_of(
                [*s.action.possible, s.row.guard, s.row.out_of_range, *s.row.updates.values()]
            )
            for s in self.steps
        ]
        writes = [set(step.row.updates) for step in self.steps]
        parts: list[Term] = []
        for late, chosen in enumerate(self.chosen):
            before = [
                self.chosen_next[early]
                for early in range(late)
                if not writes[early] & (reads[late] | writes[late])
                if not writes[late] & reads[early]
            ]
            if before:
                parts.append(z3.Implies(chosen, z3.Not(disjunction(before))))
        return conjunction(parts)

    @cached_property
    def invariants(self) -> list[Term]:
        """The invariants under check, in their order."""
        return [self.terms.truth(node) for node in self.grounded.invariants]

    @cached_property
    def stuck(self) -> Term:
        """The condition of a deadlock: no row can be taken, and the state isn't terminal."""
        graph = self.grounded.graph
        moves: list[Node] = []
        for action in self.grounded.actions:
            for place, holds in enumerate(action.possible):
                choice = {choice_leaf(len(action.possible)): graph.number(place)}
                moves += [
                    graph.and_(holds, graph.substitute(row.guard, choice)) for row in action.rows
                ]
        return self.terms.truth(graph.not_(graph.or_(self.grounded.terminal, *moves)))

    def at(self, depth: int) -> Shift:
        """The substitution that shifts a term to a depth: the state has this depth, and the next
        state has the following one.
        """
        shift = self._shifts.get(depth)
        if shift is None:
            pairs: list[tuple[Term, Term]] = []
            for state, here in ((self.now, depth), (self.following, depth + 1)):
                there = self.state(here)
                pairs += [(term, there[index]) for index, term in state.items()]
            for chosen, here in ((self.chosen, depth), (self.chosen_next, depth + 1)):
                pairs += [(term, z3.Bool(f"step {n} at {here}")) for n, term in enumerate(chosen)]
            for number, term in self.places.items():
                pairs.append((term, z3.Const(f"place of {-number} at {depth}", term.sort())))
            shift = self._shifts[depth] = Shift(pairs)
        return shift

    def state(self, depth: int) -> dict[int, Term]:
        """The variables of the state at a depth."""
        return {leaf.index: self.variable(leaf, f" at {depth}") for leaf in self.leaves}

    def vector(self, model: Any, state: Mapping[int, Term]) -> tuple[int, ...]:
        """The numbers of a state in a model, with 0 for leaves that aren't kept."""
        numbers = [0] * len(self.grounded.leaves)
        for leaf in self.leaves:
            value: Any = model.eval(state[leaf.index], model_completion=True)
            if leaf.is_truth:
                numbers[leaf.index] = int(z3.is_true(value))
            else:
                numbers[leaf.index] = self.numbers.value(value, (leaf.low, leaf.high))
        return tuple(numbers)
