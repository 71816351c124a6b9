"""Proof by induction over one step, or over k steps, with lemmas.

A property is divided by the row of the last step: the row's updates are substituted into the
property, and parts that the row doesn't write disappear. Only one choice of interchangeable
instances is checked for each row: renaming maps it to every other choice, and changes neither the
property nor the assumptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...language import Instance, Key
from ..ground import GroundAction, GroundRow
from ..ground.graph import Node, leaves_of
from ..native.symmetry.symmetry import find_symmetry
from .obligations import Obligation, Script, assumption, script
from .terms import Integers, Relation, Term, z3
from .unbounded.numbers import relevant

WELL_FORMED = "well-formed"


@dataclass(frozen=True)
class Subject:
    """A claim to prove: about each state (`nodes` hold), or about each step (`step` is its index
    among the step properties).
    """

    name: str
    nodes: tuple[Node, ...] = ()
    step: int | None = None


class Induction:
    """A system with its properties to prove. `facts` are claims about every state: a fact is
    assumed in the states before a step, and shown in the state after it. `steps` has the indices of
    step properties.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.grounded = relevant(instance)
        self.relation = Relation(self.grounded, Integers())
        self.relation.check_start()
        orbits = find_symmetry(self.grounded, renaming=False).orbits
        self.alike = frozenset(orbit.key for orbit in orbits)  # keys with interchangeable instances
        self._printed: dict[tuple[str, int, int], Script] = {}
        self._ranges: dict[tuple[int, int], Script] = {}
        self._read: dict[str, set[int]] = {}
        invariants = [item.name for item in instance.properties if item.kind == "invariant"]
        steps = [item.name for item in instance.properties if item.kind == "step"]
        self.steps = {name: place for place, name in enumerate(steps)}
        self.facts = {WELL_FORMED: tuple(self.grounded.well_formed)} | {
            name: (node,) for name, node in zip(invariants, self.grounded.invariants, strict=True)
        }
        graph = self.grounded.graph
        self.facts = {
            name: nodes
            for name, nodes in self.facts.items()
            if any(n is not graph.true for n in nodes)
        }

    def add(self, name: str, nodes: Sequence[Node]) -> None:
        """Adds a fact. It may distinguish instances, so each choice of instances is checked from
        now on.
        """
        self.facts[name] = tuple(nodes)
        self.alike = frozenset[Key]()

    def subject(self, name: str) -> Subject | None:
        """The subject with this name; None if no row can break it."""
        if name in self.steps:
            return Subject(name, step=self.steps[name])
        return Subject(name, self.facts[name]) if name in self.facts else None

    # Obligations ------------------------------------------------------------------------------

    def obligations(
        self, subject: Subject, assumed: Sequence[str], k: int = 1
    ) -> Iterator[Obligation]:
        """The obligations that the subject holds by k-induction, with the assumed facts."""
        if subject.nodes:
            yield from (self._start(subject, at) for at in range(k))
        if subject.step is not None:
            yield from (self._first(subject, subject.step, at) for at in range(k - 1))
        for action in filter(self._is_representative, self.grounded.actions):
            for row in action.rows:
                step = self._step(subject, assumed, k, action, row)
                if step is not None:
                    yield step

    def _is_representative(self, action: GroundAction) -> bool:
        """Whether an action is the representative choice of interchangeable instances: it takes the
        first one, then the next one.
        """
        taken = dict.fromkeys(self.alike, 0)
        for key, number in action.instances:
            if key in taken:
                if number > taken[key]:
                    return False
                taken[key] = max(taken[key], number + 1)
        return True

    def _start(self, subject: Subject, at: int) -> Obligation:
        """The claim that the subject holds after `at` steps from the start."""
        broken = z3.Not(self.relation.at(at)(self.all_of(subject.nodes)))
        return self._from_start(subject, at, [broken])

    def _first(self, subject: Subject, step: int, at: int) -> Obligation:
        """The claim that the step after `at` steps from the start doesn't break the subject."""
        relation = self.relation
        here = relation.at(at)
        wrong = here(relation.breaks(step))
        return self._from_start(
            subject, at, [here(relation.choice), z3.Not(here(relation.out_of_range)), wrong]
        )

    def _from_start(self, subject: Subject, at: int, wrong: Sequence[Term]) -> Obligation:
        """The obligation that `wrong` is false after `at` steps from the start."""
        relation = self.relation
        parts = [relation.at(0)(relation.start)]
        for depth in range(at):
            here = relation.at(depth)
            parts += [here(relation.choice), here(relation.change)]
            parts.append(z3.Not(here(relation.out_of_range)))
        case = "start" + f" + {at}" * (at > 0)
        return Obligation(subject.name, case, at + 1, [script(*parts, *wrong)])

    def _step(
        self,
        subject: Subject,
        assumed: Sequence[str],
        k: int,
        action: GroundAction,
        row: GroundRow,
    ) -> Obligation | None:
        """The obligation that no step by this row breaks the subject; None if the row doesn't
        affect it.
        """
        graph = self.grounded.graph
        if subject.step is not None:
            wrong = row.broken[subject.step]
        else:
            done: dict[int, Node] = {}
            after = [graph.substitute(node, row.updates, done) for node in subject.nodes]
            pairs = zip(after, subject.nodes, strict=True)
            wrong = graph.not_(graph.and_(*(new for new, old in pairs if new is not old)))
        return self.denied(subject, assumed, action, row, wrong, k)

    def denied(
        self,
        subject: Subject,
        assumed: Sequence[str],
        action: GroundAction,
        row: GroundRow,
        wrong: Node,
        k: int = 1,
        said: str = "",
    ) -> Obligation | None:
        """The obligation that no step by this row satisfies `wrong`; None if that is trivial.
        `said` is a text for the case.
        """
        graph, relation, last = self.grounded.graph, self.relation, k - 1
        if wrong is graph.false or graph.and_(row.guard, wrong) is graph.false:
            return None
        here = relation.at(last)
        terms = relation.terms
        parts = [
            here(relation.is_there(action)),
            here(terms.truth(row.guard)),
            here(z3.Not(terms.truth(row.out_of_range))),
            here(terms.truth(wrong)),
        ]
        for depth in range(last):
            before = relation.at(depth)
            parts += [before(relation.choice), before(relation.change)]
            parts.append(z3.Not(before(relation.out_of_range)))
        if subject.step is not None:
            breaks = relation.breaks(subject.step) if last else z3.BoolVal(False)
            parts += [z3.Not(relation.at(depth)(breaks)) for depth in range(last)]
        read = leaves_of([*action.possible, row.guard, row.out_of_range, wrong])
        return self._claimed(subject, assumed, self.case(action, row) + said, k, parts, read)

    def never(self, subject: Subject, assumed: Sequence[str], wrong: Node, said: str) -> Obligation:
        """The obligation that no state satisfies `wrong`."""
        term = self.relation.at(0)(self.relation.terms.truth(wrong))
        return self._claimed(subject, assumed, said, 1, [term], leaves_of([wrong]))

    def _claimed(
        self,
        subject: Subject,
        assumed: Sequence[str],
        case: str,
        k: int,
        parts: Sequence[Term],
        read: set[int],
    ) -> Obligation:
        """The obligation that `parts` are unsatisfiable together. If k is 1, they `read` these
        leaves.
        """
        known, own = {name: self.facts[name] for name in assumed}, subject.nodes
        if k == 1:  # of the facts of all states, only those about leaves that the rest reads
            common = known.pop(WELL_FORMED, ())
            read = read.union(*(self._leaves(name) for name in known))
            near = tuple(node for node in common if leaves_of([node]) & read)
            known |= {WELL_FORMED: near} if near else {}
            if subject.name == WELL_FORMED:
                own = tuple(node for node in own if leaves_of([node]) & read)
            read |= leaves_of([*near, *own])
        else:
            read = {leaf.index for leaf in self.relation.leaves}
        facts = [
            (name, [self._assumed(name, node, at) for at in range(k) for node in nodes])
            for name, nodes in (*known.items(), (subject.name, own))
        ]
        numbers = [index for index in sorted(read) if not self.grounded.leaves[index].is_truth]
        claim = [script(*parts), *(self._range(index, at) for at in range(k) for index in numbers)]
        return Obligation(subject.name, case, k, claim, tuple(f for f in facts if f[1]))

    def case(self, action: GroundAction, row: GroundRow) -> str:
        """The name of the row, with its instances."""
        names = ", ".join(f"{key}{number}" for key, number in action.instances)
        row_name = self.instance.row_names[row.row]
        return f"{row_name} ({names})" if names else row_name

    def all_of(self, nodes: Sequence[Node]) -> Term:
        """The nodes as one term over the variables of the state."""
        graph = self.grounded.graph
        return self.relation.terms.truth(graph.and_(*nodes))

    def _assumed(self, name: str, node: Node, depth: int) -> Script:
        """A part of a fact over the variables at a depth. Its text is cached: most facts are
        assumed often.
        """
        key = name, node.number, depth
        if key not in self._printed:
            term = self.relation.at(depth)(self.relation.terms.truth(node))
            self._printed[key] = assumption(name, term)
        return self._printed[key]

    def _range(self, leaf: int, depth: int) -> Script:
        """The claim that a leaf's variable at a depth is in its range."""
        key = leaf, depth
        if key not in self._ranges:
            self._ranges[key] = script(self.relation.at(depth)(self.relation.ranges_of({leaf})))
        return self._ranges[key]

    def _leaves(self, name: str) -> set[int]:
        """The leaves that a fact reads."""
        if name not in self._read:
            self._read[name] = leaves_of(self.facts[name])
        return self._read[name]

    # Counterexamples --------------------------------------------------------------------------

    def states(self, model: Mapping[str, int], k: int) -> list[tuple[int, ...]]:
        """The numbers of the states before the step in a model of an obligation."""
        first = [
            max(leaf.low, 0) if leaf.low <= 0 <= leaf.high else leaf.low
            for leaf in self.grounded.leaves
        ]
        found: list[tuple[int, ...]] = []
        for depth in range(k):
            numbers = list(first)
            for leaf in self.relation.leaves:
                numbers[leaf.index] = model.get(f"{leaf.name} at {depth}", first[leaf.index])
            found.append(tuple(numbers))
        return found
