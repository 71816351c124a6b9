"""Actions are tried where their conditions hold, in whatever groups these are asked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from epochfence.checker.ground import GroundAction
from epochfence.checker.ground.graph import Graph, Node
from epochfence.checker.native.codegen.gates import TOGETHER, Gate, Group, Item, gates

BITS, NUMBERS, HIGH = 12, 3, 3


def drawn(graph: Graph, random: np.random.Generator) -> list[GroundAction]:
    """Actions whose conditions have much in common, as those of a system have."""
    bits = [graph.leaf(at, 0, 1, True) for at in range(BITS)]
    numbers = [graph.leaf(BITS + at, 0, HIGH, False) for at in range(NUMBERS)]

    def part() -> Node:
        if random.random() < 0.6:
            bit = bits[random.integers(BITS)]
            return bit if random.random() < 0.8 else graph.not_(bit)
        left = numbers[random.integers(NUMBERS)]
        return graph.less(left, graph.number(int(random.integers(1, HIGH))))

    def possible() -> Node:
        return graph.and_(*(part() for _ in range(random.integers(0, 4))))

    return [
        GroundAction(tuple(possible() for _ in range(random.integers(1, 3))), ())
        for _ in range(random.integers(1, 16))
    ]


def reached(
    graph: Graph, items: list[Item] | tuple[Item, ...], state: dict[int, Node]
) -> Iterator[Gate]:
    """The gates that are come to in a state."""
    for item in items:
        assert item.condition is not graph.false  # a constant is taken to be true
        if graph.substitute(item.condition, state) is graph.true:
            if isinstance(item, Group):
                yield from reached(graph, item.inside, state)
            else:
                yield item


def groups(items: list[Item] | tuple[Item, ...]) -> Iterator[Group]:
    """All groups, inner ones too."""
    for item in items:
        if isinstance(item, Group):
            yield item
            yield from groups(item.inside)


def test_each_place_is_tried_once_and_where_it_is_possible(seed: int) -> None:
    random = np.random.default_rng(seed)
    kinds: set[str] = set()
    for _ in range(60):
        graph = Graph()
        actions = drawn(graph, random)
        items = gates(graph, actions, lambda leaf: leaf // 6)
        for group in groups(items):
            kinds.add(group.condition.op)
            assert group.condition.op != "or" or len(group.inside) <= TOGETHER
        for _ in range(10):
            state = {at: graph.truth(bool(random.integers(2))) for at in range(BITS)}
            for at in range(BITS, BITS + NUMBERS):
                state[at] = graph.number(int(random.integers(HIGH + 1)))
            tried = [(id(gate.action), gate.place) for gate in reached(graph, items, state)]
            expected = {
                (id(action), place)
                for action in actions
                for place, possible in enumerate(action.possible)
                if graph.substitute(possible, state) is graph.true
            }
            assert len(tried) == len(expected)
            assert set(tried) == expected
    assert {"or", "leaf", "lt"} <= kinds  # groups of each kind were looked at
