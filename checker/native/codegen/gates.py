"""Orders the tests of actions' conditions so that few tests are needed in a state.

Of some hundred conditions a handful hold in a state. A condition that many share (such as a
remaining budget of faults) is tested once. Others test first for a message in a slot: one test of a
word covers several slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...ground import GroundAction
from ...ground.graph import Graph, Node
from .sharing import conjuncts

SHARED = 3  # least conditions whose common part is tested once
TOGETHER = 4  # slots that one test covers


@dataclass(frozen=True)
class Gate:
    """A place of an action, and the remaining conditions to test before its rows are tried."""

    action: GroundAction
    place: int
    condition: Node


@dataclass(frozen=True)
class Group:
    """Gates and groups that are tested only if a condition holds."""

    condition: Node
    inside: tuple[Item, ...]


Item: TypeAlias = "Gate | Group"


def gates(
    graph: Graph, actions: Sequence[GroundAction], word_of: Callable[[int], int]
) -> list[Item]:
    """The tests of conditions, in order; rows are tried only if they may be taken. `word_of`
    returns the word of a leaf in a packed state.
    """
    every = [
        Gate(action, place, possible)
        for action in actions
        for place, possible in enumerate(action.possible)
        if possible is not graph.false
    ]
    return _Order(graph, word_of).of(every)


class _Order:
    def __init__(self, graph: Graph, word_of: Callable[[int], int]) -> None:
        self.graph = graph
        self.word_of = word_of

    def of(self, every: list[Gate]) -> list[Item]:
        """Gates in groups by their common conditions, the largest group first."""
        items: list[Item] = []
        while True:
            counts = Counter(part for gate in every for part in conjuncts(gate.condition))
            del counts[self.graph.true]
            common, count = max(counts.items(), key=lambda each: each[1], default=(None, 0))
            if common is None or count < SHARED:
                return items + self.by_slots(every)
            inside = [gate for gate in every if common in conjuncts(gate.condition)]
            every = [gate for gate in every if common not in conjuncts(gate.condition)]
            left = [self.without(gate, common) for gate in inside]
            items.append(Group(common, tuple(self.of(left))))

    def without(self, gate: Gate, known: Node) -> Gate:
        """The gate, without a part of its condition that is known to hold."""
        left = (part for part in conjuncts(gate.condition) if part is not known)
        return Gate(gate.action, gate.place, self.graph.and_(*left))

    def by_slots(self, every: list[Gate]) -> list[Item]:
        """Groups of gates that each test a bit of the same word; the others unchanged."""
        bits: dict[int, list[tuple[Node, Gate]]] = {}
        items: list[Item] = []
        for gate in every:
            tested = (part for part in conjuncts(gate.condition) if self.is_bit(part))
            bit = next(tested, None)
            if bit is None:
                items.append(gate)
            else:
                bits.setdefault(self.word_of(bit.value), []).append((bit, gate))
        for of_word in bits.values():
            for first in range(0, len(of_word), TOGETHER):
                some = of_word[first : first + TOGETHER]
                inside = tuple(gate for _, gate in some)
                any_bit = self.graph.or_(*(bit for bit, _ in some))
                items += inside if len(some) == 1 else [Group(any_bit, inside)]
        return items

    def is_bit(self, node: Node) -> bool:
        """Whether the node is a truth that is stored in the state."""
        return node.op == "leaf" and node.value >= 0 and node.is_truth
