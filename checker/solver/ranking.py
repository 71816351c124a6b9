"""Proves leads-to properties by a ranking: obligations without bounds on numbers.

A state *owes* where the premise holds and the goal doesn't. While a run owes, no step may raise the
rank; some helpful event must be possible; a step of one lowers the rank, or makes one possible that
is named before it. A weakly fair one stays possible until then, and of a strongly fair one `when`
goes on to hold. So no fair run owes for ever: let the rank stay unchanged from some state on. Of
the helpful event that is named first, of those that are possible again and again, fairness says
that it is taken. The rank is lower then, or one named before is possible, and neither is so. (The
rules WELL and JUST of Z. Manna and A. Pnueli, 1991, with the strongly fair ones in an order.)

A step that spends of a budget lowers its rest, which comes before the other parts of the rank: a
proof covers any number of faults, and the steps after the last one.
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
    """A fair event as a ranking names it: its `place` there, for its instances by name; its rows;
    when it is possible and helps."""

    place: int
    name: str
    is_strong: bool
    steps: frozenset[tuple[int, int]]
    when: Node
    possible: Node


class Ranked:
    """A property of progress that is to be proved by a ranking, for one value of its variables."""

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
        """The text about an obligation, followed by its values."""
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
        """Whether a row can be taken. It may write a value out of range: such a step is wrong by
        itself."""
        graph, places = self.graph, len(action.possible)
        if places == 1:
            return graph.and_(action.possible[0], row.guard)
        guards = (
            graph.substitute(row.guard, {choice_leaf(places): graph.number(place)})
            for place in range(places)
        )
        return graph.or_(*map(graph.and_, action.possible, guards))

    def obligations(self, name: str, assumed: Sequence[str]) -> Iterator[Obligation]:
        """All that is to be shown, of the property of that name."""
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
        """The condition that no step by a row may meet while an obligation is pending, and its
        text: each by itself, as most rows write nothing that it is about."""
        graph = self.graph
        done: dict[int, Node] = {}

        def after(node: Node) -> Node:
            return graph.substitute(node, row.updates, done)

        owed = graph.and_(self.owes, graph.not_(after(self.aim.goal)))
        yield graph.and_(owed, graph.not_(after(self.aim.premise))), LEAVES
        if not self.spent.isdisjoint(row.updates):
            return  # less is left of a budget
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
        """Whether the rank is lower afterwards, and whether it is the same."""
        graph = self.graph
        lower, same = graph.false, graph.true
        for before, then in pairs:
            lower = graph.or_(lower, graph.and_(same, graph.less(then, before)))
            same = graph.and_(same, graph.equal(then, before))
        return lower, same

    def counterexample(self, answer: Settled) -> Trace | None:
        """The state that an obligation's model names, and the step that isn't as it must be; none
        where the model of the rows can't take it."""
        induction = self.induction
        (numbers,) = induction.states(dict(answer.model), 1)
        values = {name: numbers[index] for index, name in induction.grounded.open.items()}
        instance = with_constants(induction.instance, values)
        machine, state = Interpreter(instance), induction.grounded.plain(numbers)
        case = answer.case.removesuffix(self.where)
        before = self._rank_of(machine, state)
        if case in (SOME_HELP, NOT_BELOW):
            why = "" if case == NOT_BELOW else f" None of this is possible: {self._listed}."
            return shown_trace(instance, [state], [], f"The rank is {_shown(before)}.{why}")
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
        """The helpful events in their order, and those of them that aren't fair."""
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
    """The violation of a step, by the rank before and after it."""
    if case.endswith(RAISES):
        return f"The rank rises from {before} to {then}."
    if case.endswith(LEAVES):
        return "The premise ends, and the goal isn't there."
    if case.endswith(NEEDED):
        return f"The rank stays {before}, and nothing is possible that is named before."
    return f"The rank stays {before}, and {case.rpartition(STOPS)[2]} isn't possible any more."


def _shown(rank: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, rank))})"


def ranked(induction: Induction) -> dict[str, list[Ranked]]:
    """By name, the properties of progress that a ranking is declared of."""
    found: dict[str, list[Ranked]] = {}
    for item in induction.grounded.rankings:
        found.setdefault(item.of.name, []).append(Ranked(induction, item))
    return found
