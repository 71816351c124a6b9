"""Step properties, grounded for the leaves that each step changes."""

from __future__ import annotations

from collections.abc import Mapping

from .graph import Graph, Node


class Steps:
    """Step properties for steps that change little of the state.

    `unchanged` has the leaves of the next state, each with its value for a step that doesn't change
    it.
    """

    def __init__(self, graph: Graph, nodes: list[Node], unchanged: Mapping[int, Node]) -> None:
        self.graph = graph
        self.nodes = nodes
        self.unchanged: dict[int, Node] = {}
        self.bits = {leaf: 1 << at for at, leaf in enumerate(unchanged)}
        self.reads: dict[int, int] = {}
        self.kept: dict[int, dict[int, Node]] = {}  # by the bits of changed leaves
        for node in nodes:
            graph.substitute(node, unchanged, self.unchanged)
            self._note_reads(node)

    def _note_reads(self, node: Node) -> int:
        """Records the leaves of the next state that the node and its parts read, as bits."""
        found = self.reads.get(node.number)
        if found is None:
            found = self.bits.get(node.value, 0) if node.op == "leaf" else 0
            for part in node.args:
                found |= self._note_reads(part)
            self.reads[node.number] = found
        return found

    def by(self, updates: Mapping[int, Node]) -> list[Node]:
        """For each property, the condition that a step with these updates satisfies it."""
        changed = sum(self.bits[leaf] for leaf in updates)
        kept = self.kept.get(changed)
        if kept is None:
            kept = {n: node for n, node in self.unchanged.items() if not self.reads[n] & changed}
            self.kept[changed] = kept
        known = kept.copy()
        return [self.graph.substitute(node, updates, known) for node in self.nodes]
