"""What rows of an action have in common, so that it is computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..graph import Node
from ..ground import Grounded, GroundRow

COMMON = 8  # rows for which the same fault is looked for once, in the state before the step
INLINE = 120  # nodes up to which rows are written where they are tried


@dataclass(frozen=True)
class Own:
    """What a row does by itself: when those before it aren't taken, when it is at fault, what it
    updates."""

    condition: Node
    fault: Node
    updates: dict[int, Node]

    @property
    def nodes(self) -> list[Node]:
        return [self.condition, self.fault, *self.updates.values()]


class Faults:
    """What is wrong with a step by a row: what many rows have in common, and what is the row's own.

    A step that has nothing to do with a property breaks it if the state before does by itself:
    `common` are such nodes, each for a bit.
    """

    def __init__(self, grounded: Grounded) -> None:
        self.graph = grounded.graph
        rows = [row for action in grounded.actions for row in action.rows]
        parts = {id(row): self._disjuncts(self.graph.or_(row.fault, *row.broken)) for row in rows}
        users = Counter(node for of_row in parts.values() for node in of_row)
        self.common = [
            node
            for node, count in users.most_common(64)
            if count >= COMMON and not node.is_constant
        ]
        self.found = {row: self._divided(of_row) for row, of_row in parts.items()}

    def _disjuncts(self, node: Node) -> list[Node]:
        """The nodes one of which holds if the node does."""
        if node.op == "or":
            return [part for arg in node.args for part in self._disjuncts(arg)]
        if node.op == "not" and node.args[0].op == "and":
            return [p for arg in node.args[0].args for p in self._disjuncts(self.graph.not_(arg))]
        return [node]

    def of(self, row: GroundRow) -> tuple[int, Node]:
        """The bits of the common ones among a row's, and the others."""
        return self.found[id(row)]

    def _divided(self, parts: list[Node]) -> tuple[int, Node]:
        bits = sum(1 << bit for bit, node in enumerate(self.common) if node in parts)
        return bits, self.graph.or_(*(node for node in parts if node not in self.common))


def updates_of_all(rows: Sequence[GroundRow]) -> dict[int, Node]:
    """The updates that all rows have."""
    first, *others = (row.updates for row in rows)
    return {i: n for i, n in first.items() if all(each.get(i) is n for each in others)}


def conjuncts(node: Node) -> tuple[Node, ...]:
    """The nodes that must all hold for the node to hold."""
    return node.args if node.op == "and" else (node,)


def shared_nodes(rows: list[list[Node]]) -> list[Node]:
    """The largest nodes that more than one of the rows computes."""
    users: dict[int, int] = {}
    known: dict[int, Node] = {}
    for nodes in rows:
        seen: set[int] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node.number in seen or node.is_constant:
                continue
            seen.add(node.number)
            known[node.number] = node
            users[node.number] = users.get(node.number, 0) + 1
            stack.extend(node.args)
    shared = {number for number, count in users.items() if count > 1}
    inner = {arg.number for number in shared for arg in known[number].args}
    return [known[n] for n in sorted(shared - inner) if known[n].op != "leaf"]


def cost(nodes: list[Node]) -> int:
    """How many different nodes there are to compute, up to a little over `INLINE`."""
    seen: set[int] = set()
    stack = list(nodes)
    while stack and len(seen) <= INLINE:
        node = stack.pop()
        if node.number not in seen and not node.is_constant:
            seen.add(node.number)
            stack.extend(node.args)
    return len(seen)
