"""Proves leads-to properties by a ranking: obligations without bounds on numbers.

A state *owes* if the premise holds and the goal does not. While a run owes, no step may raise the
rank, and some helpful event must be possible. A step of a helpful event must lower the rank, or
make an earlier helpful event possible. Until then a weakly fair event must stay possible, and the
condition `when` of a strongly fair event must hold. So no fair run owes for ever. Proof: suppose
the rank doesn't change from some state on, and take the first helpful event that is possible again
and again. Fairness says that it is taken. Then the rank is lower, or an earlier event is possible:
a contradiction. (The rules WELL and JUST of Z. Manna and A. Pnueli, 1991, with an order of the
strongly fair events.)

The rests of budgets are the first parts of the rank, and a step that uses a budget lowers its rest:
a proof covers any number of faults, and the steps after the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...language.instances.instantiation import with_constants
from ...language.systems import BUDGET
from ...language.terms.values import evaluate
from ...language.types import show_value
from ...model.engine.interpreter import FullState, Interpreter
from ..ground import Aim, GroundAction, GroundRanking, GroundRow, choice_leaf
from ..ground.graph import Node
from ..trace.lasso import Fairnesses, label_of
from ..trace.trace import Trace, shown_trace
from .induction import Induction, Subject
from .obligations import Obligation, Settled

SOME_HELP = "something helpful is possible"
NOT_BELOW = "no part of the rank is below 0"
LEAVES = ": ends the premise, and not by the goal"
RAISES, NEEDED, STOPS = ": raises the rank", ": doesn't lower the rank", ": ends "


@dataclass(frozen=True)
class Help:
    """A helpful event for one choice of instances: its `place` in the ranking, its name with the
    instances, its steps, and the conditions under which it helps and is possible.
    """

    place: int
    name: str
    is_strong: bool
    steps: frozenset[tuple[int, int]]
    when: Node
    possible: Node


class Ranked:
    """A progress property to prove by a ranking, for one value of its variables."""

    def __init__(self, induction: Induction, item: GroundRanking) -> None:
        self.induction = induction
        self.graph = induction.grounded.graph
        self.aim: Aim = induction.grounded.aims[item.aim]
        self.of = item
        self.rank = item.rank
        self.spent = {
            leaf.index
            for leaf in induction.grounded.leaves
            if str(leaf.path[0]).startswith(f"{BUDGET}.")
        }

    @property
    def where(self) -> str:
        """The values of the property's variables, as the end of an obligation's text."""
        values = self.aim.name.removeprefix(self.aim.of.name).strip()
        return f" ({values})" if values else ""

    @property
    def owes(self) -> Node:
        """Whether a state satisfies the premise of the property, but not its goal."""
        return self.graph.and_(self.aim.premise, self.graph.not_(self.aim.goal))

    @cached_property
    def helpful(self) -> list[Help]:
        """The helpful and fair steps."""
        grounded = self.induction.grounded
        fairnesses = Fairnesses(grounded.instance)
        found: list[Help] = []
        for item in self.of.helpful:
            event = self.of.of.helpful[item.place].event
            of_event = [a for a in grounded.actions if a.instances == item.instances]
            for at, fairness in enumerate(fairnesses.every):
                steps = [
                    (action, row)
                    for action in of_event
                    for row in action.rows
                    if at in fairnesses.of_row[row.row] and fairness.event is event
                ]
                if not steps:
                    continue
                names = ", ".join(show_value(key, number) for key, number in item.instances)
                possible = self.graph.or_(*(self._possible(*step) for step in steps))
                found.append(
                    Help(
                        item.place,
                        f"{event.name}{f' for {names}' if names else ''}",
                        fairness.kind == "strong",
                        frozenset((id(action), row.row) for action, row in steps),
                        item.when,
                        self.graph.and_(item.when, possible),
                    )
                )
        return found

    def _possible(self, action: GroundAction, row: GroundRow) -> Node:
        """Whether a row can be taken. A step out of its range counts: it is an error by itself."""
        graph, places = self.graph, len(action.possible)
        if places == 1:
            return graph.and_(action.possible[0], row.guard)
        guards = (
            graph.substitute(row.guard, {choice_leaf(places): graph.number(place)})
            for place in range(places)
        )
        return graph.or_(*map(graph.and_, action.possible, guards))

    def obligations(self, name: str, assumed: Sequence[str]) -> Iterator[Obligation]:
        """Yields the obligations of the ranking."""
        graph, subject, where = self.graph, Subject(name), self.where
        helped = graph.or_(*(item.possible for item in self.helpful))
        none = graph.and_(self.owes, graph.not_(helped))
        if none is not graph.false:
            yield self.induction.never(subject, assumed, none, SOME_HELP + where)
        low = graph.or_(*(graph.less(part, graph.number(0)) for part in self.rank))
        if low is not graph.false:
            below = graph.and_(self.owes, low)
            yield self.induction.never(subject, assumed, below, NOT_BELOW + where)
        for action in self.induction.grounded.actions:
            for row in action.rows:
                for wrong, said in self._step(action, row):
                    step = self.induction.denied(
                        subject, assumed, action, row, wrong, said=said + where
                    )
                    if step is not None:
                        yield step

    def _step(self, action: GroundAction, row: GroundRow) -> Iterator[tuple[Node, str]]:
        """Yields conditions that no step by a row may satisfy, each with its text. They are
        separate, because most rows change only few of them.
        """
        graph = self.graph
        done: dict[int, Node] = {}

        def after(node: Node) -> Node:
            return graph.substitute(node, row.updates, done)

        owed = graph.and_(self.owes, graph.not_(after(self.aim.goal)))
        yield graph.and_(owed, graph.not_(after(self.aim.premise))), LEAVES
        if not self.spent.isdisjoint(row.updates):
            return  # the rest of a budget is lower
        lower, same = self._compared([(part, after(part)) for part in self.rank])
        yield graph.and_(owed, graph.not_(graph.or_(lower, same))), RAISES
        stays = graph.and_(owed, same)
        for item in self.helpful:
            is_step = (id(action), row.row) in item.steps
            if stays is graph.false:
                break
            earlier = [after(each.possible) for each in self.helpful if each.place < item.place]
            missing = graph.and_(stays, graph.not_(graph.or_(*earlier)))
            if is_step:
                yield graph.and_(missing, item.when), NEEDED
                continue
            held = item.when if item.is_strong else item.possible
            then = after(held)
            if then is not held:
                yield graph.and_(missing, held, graph.not_(then)), STOPS + item.name

    def _compared(self, pairs: Sequence[tuple[Node, Node]]) -> tuple[Node, Node]:
        """The conditions that the rank is lower after a step, and that it is the same."""
        graph = self.graph
        lower, same = graph.false, graph.true
        for before, then in pairs:
            lower = graph.or_(lower, graph.and_(same, graph.less(then, before)))
            same = graph.and_(same, graph.equal(then, before))
        return lower, same

    def counterexample(self, answer: Settled) -> Trace | None:
        """The state and the wrong step in an obligation's model, as a trace; None if the executable
        model can't take the step.
        """
        induction = self.induction
        (numbers,) = induction.states(dict(answer.model), 1)
        values = {name: numbers[index] for index, name in induction.grounded.open.items()}
        instance = with_constants(induction.instance, values)
        machine, state = Interpreter(instance), induction.grounded.plain(numbers)
        case = answer.case.removesuffix(self.where)
        before = self._rank_of(machine, state)
        if case in (SOME_HELP, NOT_BELOW):
            said = f"The rank is {_shown(before)}."
            if case == SOME_HELP:
                said += " An event helps if it is fair and possible and its condition holds. "
                said += f"None of these helps: {self._listed}."
            return shown_trace(instance, [state], [], said)
        for step in machine.steps(state):
            if step.state is None:
                continue
            names = ", ".join(show_value(*each) for each in label_of(step).instances)
            row = instance.row_names[step.row]
            then = self._rank_of(machine, step.state)
            if not case.startswith(f"{row} ({names}):" if names else f"{row}:"):
                continue
            if then > before or not case.endswith(RAISES):
                said = _said(case, _shown(before), _shown(then))
                return shown_trace(instance, [state, step.state], [step], said)
        return None

    @property
    def _listed(self) -> str:
        """The helpful events in their order, with those that aren't fair."""
        fair = {item.event for item in self.induction.instance.system.fairness}
        named = [item.name for item in self.helpful]
        named += [f"{h.event.name} (not fair)" for h in self.of.of.helpful if h.event not in fair]
        return ", ".join(named)

    def _rank_of(self, machine: Interpreter, state: FullState) -> tuple[int, ...]:
        """The rank in a state, without the rest of budgets."""
        of = next(item for item in machine.instance.rankings if item.name == self.of.of.name)
        constants, bound = machine.instance.constants, dict(self.aim.bound)
        found = (evaluate(part, machine.as_mapping(state), constants, bound) for part in of.rank)
        return tuple(int(value) for value in found if isinstance(value, int))


def _said(case: str, before: str, then: str) -> str:
    """The sentence about a wrong step, with the rank before and after it."""
    if case.endswith(RAISES):
        return f"The rank rises from {before} to {then}."
    if case.endswith(LEAVES):
        return "The premise ends, and the goal doesn't hold."
    if case.endswith(NEEDED):
        return f"The rank stays {before}, and no earlier event of the ranking is possible."
    return f"The rank stays {before}, and {case.rpartition(STOPS)[2]} isn't possible any more."


def _shown(rank: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, rank))})"


def ranked(induction: Induction) -> dict[str, list[Ranked]]:
    """The progress properties with a declared ranking, by name."""
    found: dict[str, list[Ranked]] = {}
    for item in induction.grounded.rankings:
        found.setdefault(item.of.name, []).append(Ranked(induction, item))
    return found
