"""When each place of each action may be taken, asked in an order in which little has to be asked.

Of some hundred conditions a handful hold of a state. A condition that many share (such as a
remaining budget of faults) is tested once. Others each ask first for a message in a slot: one look
at a word says whether any of some slots has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...ground import GroundAction
from ...ground.graph import Graph, Node
from .sharing import conjuncts

SHARED = 3  # conditions from which on what they have in common is asked for once
TOGETHER = 4  # slots that are looked at together


@dataclass(frozen=True)
class Gate:
    """A place of an action, and the conditions that are left to test before its rows are tried."""

    action: GroundAction
    place: int
    condition: Node


@dataclass(frozen=True)
class Group:
    """Gates and groups that are looked at only if a condition holds."""

    condition: Node
    inside: tuple[Item, ...]


Item: TypeAlias = "Gate | Group"


def gates(
    graph: Graph, actions: Sequence[GroundAction], word_of: Callable[[int], int]
) -> list[Item]:
    """The conditions to ask, in order, so that rows are tried only where they may be taken.
    `word_of` gives the word of a packed state that a leaf lies in."""
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
            asked = Counter(part for gate in every for part in conjuncts(gate.condition))
            del asked[self.graph.true]
            common, count = max(asked.items(), key=lambda each: each[1], default=(None, 0))
            if common is None or count < SHARED:
                return items + self.by_slots(every)
            inside = [gate for gate in every if common in conjuncts(gate.condition)]
            every = [gate for gate in every if common not in conjuncts(gate.condition)]
            left = [self.without(gate, common) for gate in inside]
            items.append(Group(common, tuple(self.of(left))))

    def without(self, gate: Gate, asked: Node) -> Gate:
        """The gate where a part of its condition is known to hold."""
        left = (part for part in conjuncts(gate.condition) if part is not asked)
        return Gate(gate.action, gate.place, self.graph.and_(*left))

    def by_slots(self, every: list[Gate]) -> list[Item]:
        """Gates that each ask for a bit of the same word, in groups; the others unchanged."""
        bits: dict[int, list[tuple[Node, Gate]]] = {}
        items: list[Item] = []
        for gate in every:
            asked = (part for part in conjuncts(gate.condition) if self.is_bit(part))
            bit = next(asked, None)
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
        """Whether the node is a truth that is kept in the state."""
        return node.op == "leaf" and node.value >= 0 and node.is_truth
