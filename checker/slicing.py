"""Leaves that nothing looks at are left out of the state."""

from __future__ import annotations

from dataclasses import replace

from .graph import Node, leaves_of
from .ground import GroundAction, Grounded, GroundRow


def sliced(grounded: Grounded) -> Grounded:
    """The system with only the leaves that can influence a guard or a property under check.

    A leaf is kept when a guard, a property or the end condition reads it, or an update of a kept
    leaf does. Reachable states then stand for all states that agree on the kept leaves, with the
    same rows enabled and the same properties holding. Range faults of left-out leaves are not
    looked for.
    """
    writers: dict[int, list[Node]] = {}
    read = leaves_of([*grounded.invariants, grounded.terminal])
    for action in grounded.actions:
        read |= leaves_of([action.possible])
        for row in action.rows:
            read |= leaves_of([row.guard, row.broken])
            for index, node in row.updates.items():
                writers.setdefault(index, []).append(node)
    kept = set(read)
    todo = list(read)
    while todo:
        new = leaves_of(writers.get(todo.pop(), [])) - kept
        kept |= new
        todo.extend(new)
    if len(kept) == len(grounded.leaves):
        return grounded
    return replace(
        grounded,
        actions=[
            GroundAction(
                action.possible, tuple(_without(row, kept, grounded) for row in action.rows)
            )
            for action in grounded.actions
        ],
        kept=frozenset(kept),
    )


def _without(row: GroundRow, kept: set[int], grounded: Grounded) -> GroundRow:
    updates = {index: node for index, node in row.updates.items() if index in kept}
    graph = grounded.graph
    faults: list[Node] = []
    for index, node in updates.items():
        leaf = grounded.leaves[index]
        if node.low < leaf.low:
            faults.append(graph.less(node, graph.number(leaf.low)))
        if node.high > leaf.high:
            faults.append(graph.less(graph.number(leaf.high), node))
    fault = row.fault if leaves_of([row.fault]) <= kept else graph.or_(*faults)
    return replace(row, updates=updates, fault=fault)
