"""Which of a run's probes some state or step meets, looked for among the states that were found."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph import Node
from ..ground import GroundAction, Grounded, Steps, choice_leaf
from .pack import Packing
from .vectors import Formula, formula, gathered, in_words


@dataclass(frozen=True)
class Sought:
    """States that are sought: such that one of the `cases` has both its conditions. The second one
    is looked at only where the first one holds."""

    cases: tuple[tuple[Formula, Formula], ...]

    def among(self, words: Any) -> bool:
        """Whether one of the states, given as rows of words, is such."""
        for first, second in self.cases:
            there = first(words)
            if there.any() and second(words[there]).any():
                return True
        return False


def sought(grounded: Grounded, packing: Packing) -> list[Sought]:
    """For each probe of the system the states that meet it, or from which such a step leads."""
    always = formula(grounded.graph.true, packing)
    of_steps = [node for probe, node in grounded.probes if probe.of_step]
    by_step = iter(_before_steps(grounded, of_steps, packing))
    return [
        next(by_step) if probe.of_step else _of(node, always, packing)
        for probe, node in grounded.probes
    ]


def _of(node: Node, always: Formula, packing: Packing) -> Sought:
    """The states in which a node holds."""
    never = node.is_constant and not node.value
    return Sought(() if never else ((formula(node, packing), always),))


def _before_steps(grounded: Grounded, nodes: list[Node], packing: Packing) -> list[Sought]:
    """For each node over a step, the states from which a step leads of which it holds."""
    if not nodes:
        return []
    graph = grounded.graph
    every_step = Steps(graph, nodes, grounded.next_leaves)
    behind = {
        old.value: at for at, old in grounded.next_leaves.items() if old.op == "leaf"
    }  # a leaf's place in the state after
    found: list[dict[Node, list[Node]]] = [{} for _ in nodes]
    for action in grounded.actions:
        for row in action.rows:
            updates = {behind[at]: node for at, node in row.updates.items() if at in behind}
            held = every_step.by(updates)
            if all(node is graph.false for node in held):
                continue
            for choice, possible in _choices(grounded, action):
                guard = graph.and_(possible, graph.substitute(row.guard, choice))
                for at, node in enumerate(held):
                    if node is not graph.false:
                        found[at].setdefault(graph.substitute(node, choice), []).append(guard)
    return [
        Sought(
            tuple(
                (formula(holds, packing), formula(graph.or_(*guards), packing))
                for holds, guards in sorted(cases.items(), key=lambda case: len(case[1]))
                if holds is not graph.false
            )
        )
        for cases in found
    ]


def _choices(grounded: Grounded, action: GroundAction) -> Iterable[tuple[Mapping[int, Node], Node]]:
    """What an action may take, as values of its choice, each with when it is there."""
    leaf = choice_leaf(len(action.possible))
    for place, possible in enumerate(action.possible):
        yield {leaf: grounded.graph.number(place)}, possible


def met(every: Sequence[Sought], packing: Packing, states: Iterable[Any]) -> list[bool]:
    """Of each of what is sought whether it is among the packed states, given as rows of bytes."""
    left = {at: one for at, one in enumerate(every) if one.cases}
    found = [False] * len(every)
    if not left:
        return found
    for part in gathered(states):
        words = in_words(part, packing)
        for at in [at for at, one in left.items() if one.among(words)]:
            found[at] = True
            del left[at]
        if not left:
            break
    return found
