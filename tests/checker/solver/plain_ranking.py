"""A ranking on all states of a small run, in plain Python: the second opinion on its obligations.

Nothing here reads a ground row: steps, fairness and what budgets have left are the interpreter's.
"""

from __future__ import annotations

from collections.abc import Iterator

from epochfence.language import Expression, Instance, Ranking
from epochfence.language.systems import BUDGET
from epochfence.language.terms.values import evaluate
from epochfence.language.types import Value
from epochfence.model.engine.interpreter import FullState, Interpreter
from epochfence.tests.checker.plain_progress import Fair, Graph, aims

Rank = tuple[int, ...]


class PlainRanking:
    """A ranking for one value of its property's variables, over all states and steps."""

    def __init__(
        self, instance: Instance, graph: Graph, ranking: Ranking, bound: dict[Expression, Value]
    ) -> None:
        self.instance = instance
        self.graph = graph
        self.ranking = ranking
        self.bound = bound
        self.machine = Interpreter(instance)
        self.of = next(item for item in instance.progress if item.name == ranking.name)
        every = range(len(graph.states))
        self.everywhere = {fair for state in every for fair in graph.possible(state)}
        self.ranks = [self.rank(state) for state in graph.states]
        self.owes = [
            self.holds(self.of.premise, state) and not self.holds(self.of.expression, state)
            for state in graph.states
        ]

    def holds(self, condition: Expression, state: FullState) -> bool:
        return self.machine.holds(condition, state, bound=self.bound.items())

    def rank(self, state: FullState) -> Rank:
        """The rank of a state, with what is spent of budgets as the first number."""
        values = self.machine.as_mapping(state)
        spent = sum(
            number
            for name, number in values.items()
            if name.startswith(f"{BUDGET}.") and isinstance(number, int)
        )
        constants = self.instance.constants
        parts = [evaluate(part, values, constants, self.bound) for part in self.ranking.rank]
        return (-spent, *(int(part) for part in parts if isinstance(part, int)))

    def helpful(self, state: int) -> dict[tuple[int, Fair], bool]:
        """What the ranking names and is fair, by its place there, where `when` holds; and whether
        it is possible."""
        possible = self.graph.possible(state)
        found: dict[tuple[int, Fair], bool] = {}
        for place, item in enumerate(self.ranking.helpful):
            for fair in self.everywhere:
                if self.instance.system.fairness[fair[0]].event is not item.event:
                    continue
                bound = {**self.bound, **dict(zip(item.each, fair[1], strict=False))}
                if self.machine.holds(item.when, self.graph.states[state], bound=bound.items()):
                    found[place, fair] = fair in possible
        return found

    def faults(self) -> Iterator[str]:
        """What isn't as the ranking has it."""
        helpful = [self.helpful(at) if owes else {} for at, owes in enumerate(self.owes)]
        for state, owes in enumerate(self.owes):
            if owes:
                if not any(helpful[state].values()):
                    yield f"nothing helpful in {state}"
                if min(self.ranks[state][1:], default=0) < 0:
                    yield f"below 0 in {state}"
                for by, target in self.graph.steps[state]:
                    yield from self.wrong(state, by, target, helpful)

    def wrong(
        self,
        state: int,
        by: frozenset[Fair],
        target: int,
        helpful: list[dict[tuple[int, Fair], bool]],
    ) -> Iterator[str]:
        """What is wrong with a step."""
        if self.holds(self.of.expression, self.graph.states[target]):
            return
        if not self.owes[target]:
            yield f"{state} to {target} ends the premise"
            return
        before, after = self.ranks[state], self.ranks[target]
        if after > before:
            yield f"{state} to {target} raises the rank"
        if after != before:
            return
        for (place, fair), possible in helpful[state].items():
            if any(earlier < place and can for (earlier, _), can in helpful[target].items() if can):
                continue
            is_strong = self.graph.kinds[fair[0]] == "strong"
            there = helpful[target].get((place, fair))
            if fair in by:
                yield f"{state} to {target} doesn't lower the rank"
            elif is_strong and there is None:
                yield f"{state} to {target} ends {fair}'s condition"
            elif not is_strong and possible and not there:
                yield f"{state} to {target} ends {fair}"


def faults(instance: Instance, graph: Graph) -> list[str]:
    """What isn't as the rankings of an instance have it, on all of its states."""
    found: list[str] = []
    for ranking in instance.rankings:
        for _, at, bound in aims(instance):
            if instance.progress[at].name == ranking.name:
                found += PlainRanking(instance, graph, ranking, bound).faults()
    return found
