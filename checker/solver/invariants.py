"""Invariants found by Spacer (property-directed reachability over Horn clauses).

Its result is only a candidate: it is reduced, and proved by induction like any other fact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ground import Grounded, Leaf
from ..ground.graph import Node
from .induction import Induction, Subject
from .terms import SolverError, Term, z3

_REACHED = "reached"


@dataclass(frozen=True)
class Question:
    """A system as Horn clauses. `names` are the variables of a state in them."""

    text: str
    names: tuple[str, ...]


def question(induction: Induction, subject: Subject, assumed: Sequence[str]) -> Question:
    """The question for Spacer: whether the subject holds under the assumed facts."""
    names = tuple(f"{leaf.name} at 0" for leaf in induction.relation.leaves)
    return Question(_clauses(induction, subject, assumed), names)


def conditions(induction: Induction, answer: str) -> list[Node]:
    """The conditions in Spacer's answer. Raises SolverError for a condition that no declaration can
    express.
    """
    leaves = {f"{leaf.name} at 0": leaf for leaf in induction.relation.leaves}
    reader = _Reader(induction.grounded, leaves)
    parts: list[Node] = []
    try:
        terms = list(z3.parse_smt2_string(answer))
    except z3.Z3Exception as error:
        raise SolverError(f"Spacer's invariant can't be read: {error}") from None
    for term in terms:
        node = reader.node(term)
        parts += node.args if node.op == "and" else [node]
    return parts


class _Reader:
    """Converts Z3's terms to nodes."""

    def __init__(self, grounded: Grounded, leaves: Mapping[str, Leaf]) -> None:
        self.graph = grounded.graph
        self.leaves = leaves

    def node(self, term: Term) -> Node:
        """A Boolean term as a node. Raises SolverError for a term that no declaration can
        express.
        """
        graph, kind, args = self.graph, term.decl().kind(), term.children()
        match kind:
            case z3.Z3_OP_TRUE | z3.Z3_OP_FALSE:
                return graph.truth(kind == z3.Z3_OP_TRUE)
            case z3.Z3_OP_AND:
                return graph.and_(*map(self.node, args))
            case z3.Z3_OP_OR:
                return graph.or_(*map(self.node, args))
            case z3.Z3_OP_NOT:
                return graph.not_(self.node(args[0]))
            case z3.Z3_OP_IMPLIES:
                return graph.or_(graph.not_(self.node(args[0])), self.node(args[1]))
            case z3.Z3_OP_UNINTERPRETED:
                return self.leaf(term)
            case z3.Z3_OP_EQ if z3.is_bool(args[0]):
                return graph.equal(*map(self.node, args))
            case z3.Z3_OP_EQ:
                return graph.equal(*self.sides(args))
            case z3.Z3_OP_LE:
                return graph.at_most(*self.sides(args))
            case z3.Z3_OP_GE:
                return graph.at_most(*reversed(self.sides(args)))
            case z3.Z3_OP_LT:
                return graph.less(*self.sides(args))
            case z3.Z3_OP_GT:
                return graph.less(*reversed(self.sides(args)))
            case _:
                raise SolverError(f"Spacer's invariant has a part that can't be read: {term}")

    def leaf(self, term: Term) -> Node:
        """The leaf of a variable."""
        leaf = self.leaves.get(term.decl().name())
        if leaf is None:
            raise SolverError(f"Spacer's invariant has a part that can't be read: {term}")
        return self.graph.leaf(leaf.index, leaf.low, leaf.high, leaf.is_truth)

    def sides(self, args: Sequence[Term]) -> tuple[Node, Node]:
        """Both sides of a comparison, with subtracted terms moved to the other side."""
        graph, counts = self.graph, dict[Node, int]()
        number = self.count(args[0], 1, counts) + self.count(args[1], -1, counts)
        left, right = graph.number(max(number, 0)), graph.number(max(-number, 0))
        for node, times in counts.items():
            for _ in range(abs(times)):
                if times > 0:
                    left = graph.add(left, node)
                else:
                    right = graph.add(right, node)
        return left, right

    def count(self, term: Term, times: int, counts: dict[Node, int]) -> int:
        """Adds `times` times the term to the coefficients `counts` of leaves; returns its
        constant.
        """
        term = z3.simplify(term)
        kind, args = term.decl().kind(), term.children()
        if z3.is_int_value(term):
            return times * term.as_long()
        if kind == z3.Z3_OP_ADD:
            return sum(self.count(arg, times, counts) for arg in args)
        if kind == z3.Z3_OP_MUL and z3.is_int_value(args[0]):
            return self.count(args[1], times * args[0].as_long(), counts)
        if kind != z3.Z3_OP_UNINTERPRETED:
            raise SolverError(f"Spacer's invariant has a part that can't be read: {term}")
        node = self.leaf(term)
        counts[node] = counts.get(node, 0) + times
        return 0


def _clauses(induction: Induction, subject: Subject, assumed: Sequence[str]) -> str:
    """The system as Horn clauses: the start, a clause for each row, and the violation."""
    relation = induction.relation
    leaves, terms, here = relation.leaves, relation.terms, relation.at(0)
    now = [here(relation.now[leaf.index]) for leaf in leaves]
    names = [*now, *map(here, relation.places.values())]
    reached = z3.Function(_REACHED, *(term.sort() for term in now), z3.BoolSort())
    horn = z3.SolverFor("HORN")

    def clause(body: list[Term], head: Term) -> None:
        horn.add(z3.ForAll(names, z3.Implies(z3.And(body), head)))

    clause([here(relation.start)], reached(*now))
    facts = [relation.ranges, *(induction.all_of(induction.facts[name]) for name in assumed)]
    known = [reached(*now), *map(here, facts)]
    for action in induction.grounded.actions:
        for row in action.rows:
            after = [
                relation.stored(leaf, row.updates[leaf.index])
                if leaf.index in row.updates
                else relation.now[leaf.index]
                for leaf in leaves
            ]
            taken = [relation.is_there(action), terms.truth(row.guard)]
            taken.append(z3.Not(terms.truth(row.out_of_range)))
            clause([*known, *map(here, taken)], reached(*map(here, after)))
    clause([*known, z3.Not(here(induction.all_of(subject.nodes)))], z3.BoolVal(False))
    return horn.sexpr()


def find_invariant(query: Question, timeout: float) -> str | None:
    """Conditions whose conjunction is inductive and sufficient according to Spacer, as an SMT-LIB
    text; None if it finds nothing in `timeout` seconds.
    """
    horn = z3.SolverFor("HORN")
    horn.set("timeout", max(1, round(timeout * 1000)))
    horn.from_string(query.text)
    if horn.check() != z3.sat:
        return None
    model = horn.model()
    found = next((d for d in model.decls() if d.name() == _REACHED), None)
    if found is None:
        return None
    variables = [z3.Const(name, found.domain(at)) for at, name in enumerate(query.names)]
    body = model[found].else_value()
    solver = z3.Solver()
    solver.add(z3.substitute_vars(body, *variables))
    return solver.to_smt2()
