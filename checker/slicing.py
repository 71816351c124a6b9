"""Slicing: removes leaves that never change and leaves that nothing reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from .ground import GroundAction, Grounded, GroundRow
from .ground.graph import Node, leaves_of


def without_constants(grounded: Grounded) -> Grounded:
    """Replaces leaves that keep their initial value by that value, and leaves out rows that can
    then never be taken.

    All leaves with one initial value are assumed to be constant until a possible update changes
    them.
    """
    graph = grounded.graph
    first = grounded.initials[0]
    known: dict[int, Node] = {}
    for leaf in grounded.leaves:
        if leaf.index in grounded.open:
            continue
        if all(vector[leaf.index] == first[leaf.index] for vector in grounded.initials):
            number = first[leaf.index]
            known[leaf.index] = graph.truth(bool(number)) if leaf.is_truth else graph.number(number)
    done: dict[int, Node] = {}
    while True:
        # an unchanged node reads none of these leaves, nor of a subset
        done = {number: node for number, node in done.items() if node.number == number}

        def settle(node: Node, done: dict[int, Node] = done) -> Node:
            return graph.substitute(node, known, done)

        changing: set[int] = set()
        for action in grounded.actions:
            if all(settle(node) is graph.false for node in action.possible):
                continue
            for row in action.rows:
                if settle(row.guard) is graph.false:
                    continue
                for index, node in row.updates.items():
                    if index in known and settle(node) is not known[index]:
                        changing.add(index)
        if not changing:
            return _settled(grounded, set(known), settle)
        for index in changing:
            del known[index]


def _settled(grounded: Grounded, known: set[int], settle: Callable[[Node], Node]) -> Grounded:
    graph, false = grounded.graph, grounded.graph.false
    # a constant leaf has its initial value in the next state as well
    following = {at: settle(node) for at, node in grounded.next_leaves.items()}
    settled = {at: node for at, node in following.items() if node.is_constant}
    probed: dict[int, Node] = {}
    actions: list[GroundAction] = []
    for action in grounded.actions:
        possible = tuple(settle(node) for node in action.possible)
        if all(node is false for node in possible):
            continue
        rows: list[GroundRow] = []
        for row in action.rows:
            guard = settle(row.guard)
            if guard is not false:
                updates = {i: settle(n) for i, n in row.updates.items() if i not in known}
                broken = tuple(map(settle, row.broken))
                rows.append(GroundRow(row.row, guard, updates, settle(row.out_of_range), broken))
        if rows:
            actions.append(replace(action, possible=possible, rows=tuple(rows)))
    return replace(
        grounded,
        actions=actions,
        invariants=[settle(node) for node in grounded.invariants],
        terminal=settle(grounded.terminal),
        well_formed=[node for node in map(settle, grounded.well_formed) if not node.is_constant],
        kept=grounded.kept - known,
        probes=[
            (probe, settle(graph.substitute(node, settled, probed)))
            for probe, node in grounded.probes
        ],
        constant=frozenset(known & leaves_of(_nodes(grounded))),
        aims=[
            replace(aim, premise=settle(aim.premise), goal=settle(aim.goal))
            for aim in grounded.aims
        ],
        rankings=[
            replace(
                item,
                rank=tuple(map(settle, item.rank)),
                helpful=tuple(replace(help_, when=settle(help_.when)) for help_ in item.helpful),
            )
            for item in grounded.rankings
        ],
    )


def _nodes(grounded: Grounded) -> Iterator[Node]:
    """The nodes that read leaves."""
    yield from (*grounded.invariants, grounded.terminal)
    for aim in grounded.aims:
        yield from (aim.premise, aim.goal)
    for item in grounded.rankings:
        yield from item.nodes
    for action in grounded.actions:
        yield from action.possible
        for row in action.rows:
            yield from (row.guard, row.out_of_range, *row.broken, *row.updates.values())


def sliced(grounded: Grounded) -> Grounded:
    """The system with only the leaves that can influence a guard or a property under check.

    A leaf is kept if a guard, a property or its premise, the end condition, or an update of a kept
    leaf reads it. A leaf that decides whether an update stays in range is kept as well: a search
    that continued after such a fault would find states that the system doesn't have. A reachable
    state then represents all states with the same kept leaves: the same rows are enabled and the
    same properties hold. This is true of runs as well, because fairness depends only on enabled and
    taken rows.
    """
    writers: dict[int, list[Node]] = {}
    read = leaves_of([*grounded.invariants, grounded.terminal])
    read |= leaves_of(node for aim in grounded.aims for node in (aim.premise, aim.goal))
    read |= leaves_of(node for item in grounded.rankings for node in item.nodes)
    for index in leaves_of(node for _, node in grounded.probes):
        following = grounded.next_leaves.get(index)
        read |= {index} if following is None else leaves_of([following])
    for action in grounded.actions:
        read |= leaves_of(action.possible)
        for row in action.rows:
            read |= leaves_of([row.guard, row.out_of_range, *row.broken])
            for index, node in row.updates.items():
                writers.setdefault(index, []).append(node)
    kept = set(read)
    todo = list(read)
    while todo:
        new = leaves_of(writers.get(todo.pop(), [])) - kept
        kept |= new
        todo.extend(new)
    if frozenset(kept) == grounded.kept:
        return grounded
    return replace(
        grounded,
        actions=[
            replace(action, rows=tuple(_without(row, kept) for row in action.rows))
            for action in grounded.actions
        ],
        well_formed=[node for node in grounded.well_formed if leaves_of([node]) <= kept],
        kept=frozenset(kept),
    )


def _without(row: GroundRow, kept: set[int]) -> GroundRow:
    return replace(row, updates={i: node for i, node in row.updates.items() if i in kept})
