"""The common parts of an action's rows, computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ....language import Instance
from ...ground import Grounded, GroundRow
from ...ground.graph import Node

COMMON = 8  # least rows whose common fault is checked once, in the state before the step
INLINE = 120  # most nodes of inline code

FLAG_BITS = 48  # of a note: the other bits are the state's index in its block
RANGE, DEADLOCK, FIRST = 1, 2, 4
MOST_PROPERTIES = FLAG_BITS - 4
"""Properties that have a flag of their own. Any others share one, those of steps another."""


def flags_in(flags: int) -> Iterator[int]:
    """Yields each flag in `flags`."""
    return (1 << bit for bit in range(flags.bit_length()) if flags >> bit & 1)


class Flags:
    """The bits for a state's violations: a step from it leaves a range, no step is possible, or the
    state or a step from it breaks a property. `of` has the flags of properties by their names."""

    def __init__(self, instance: Instance) -> None:
        kinds = [(item.name, item.kind) for item in instance.properties]
        places = (
            at if at < MOST_PROPERTIES else MOST_PROPERTIES + (kind == "step")
            for at, (_, kind) in enumerate(kinds)
        )
        self.of = {name: FIRST << at for (name, _), at in zip(kinds, places, strict=True)}
        self.of_invariants = [self.of[name] for name, kind in kinds if kind == "invariant"]
        self.of_steps = [self.of[name] for name, kind in kinds if kind == "step"]

    @property
    def invariants(self) -> int:
        """The flags of all invariants together."""
        return sum(set(self.of_invariants))


Fault: TypeAlias = tuple[Node, int]
"""When something is wrong with a step, and its flag."""


@dataclass(frozen=True)
class Own:
    """A row's individual part: its condition after the rows before it, its faults, and its
    updates.
    """

    condition: Node
    faults: tuple[Fault, ...]
    updates: dict[int, Node]

    @property
    def nodes(self) -> list[Node]:
        return [self.condition, *(node for node, _ in self.faults), *self.updates.values()]


class Faults:
    """The faults of steps: common ones of many rows, and individual ones of each row.

    If a row doesn't change the fields of a step property, the fault depends only on the state
    before, and many rows have the same one. `common` has such faults, each with a bit.
    """

    def __init__(self, grounded: Grounded, flags: Flags) -> None:
        self.graph = grounded.graph
        self.flags = (RANGE, *flags.of_steps)
        rows = [row for action in grounded.actions for row in action.rows]
        parts = {id(row): self._parts(row) for row in rows}
        users = Counter(fault for of_row in parts.values() for fault in of_row)
        self.common = [
            fault
            for fault, count in users.most_common(64)
            if count >= COMMON and not fault[0].is_constant
        ]
        self.found = {row: self._divided(of_row) for row, of_row in parts.items()}

    def _parts(self, row: GroundRow) -> list[Fault]:
        every = zip((row.out_of_range, *row.broken), self.flags, strict=True)
        found = ((part, flag) for node, flag in every for part in self._disjuncts(node))
        return [fault for fault in dict.fromkeys(found) if fault[0] is not self.graph.false]

    def _disjuncts(self, node: Node) -> list[Node]:
        """The disjuncts of the node: it holds if one of them does."""
        if node.op == "or":
            return [part for arg in node.args for part in self._disjuncts(arg)]
        if node.op == "not" and node.args[0].op == "and":
            return [p for arg in node.args[0].args for p in self._disjuncts(self.graph.not_(arg))]
        return [node]

    def of(self, row: GroundRow) -> tuple[int, tuple[Fault, ...]]:
        """The bits of a row's common faults, and its individual faults with their flags."""
        return self.found[id(row)]

    def alike(self, rows: Sequence[int]) -> list[list[int]]:
        """Groups of bits of common faults: the same rows have all faults of a group. `rows` has the
        bits of each row's common faults.
        """
        makers: dict[tuple[int, ...], list[int]] = {}
        for bit in range(len(self.common)):
            makers.setdefault(tuple(row >> bit & 1 for row in rows), []).append(bit)
        return [bits for of, bits in makers.items() if any(of)]

    def _divided(self, parts: list[Fault]) -> tuple[int, tuple[Fault, ...]]:
        bits = sum(1 << bit for bit, fault in enumerate(self.common) if fault in parts)
        own: dict[int, list[Node]] = {}
        for node, flag in parts:
            if (node, flag) not in self.common:
                own.setdefault(flag, []).append(node)
        return bits, tuple((self.graph.or_(*nodes), flag) for flag, nodes in own.items())


def updates_of_all(rows: Sequence[GroundRow]) -> dict[int, Node]:
    """The updates that all rows share."""
    first, *others = (row.updates for row in rows)
    return {i: n for i, n in first.items() if all(each.get(i) is n for each in others)}


def conjuncts(node: Node) -> tuple[Node, ...]:
    """The conjuncts of the node: it holds if all of them do."""
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
    """The number of different nodes to compute; counting stops above `INLINE`."""
    seen: set[int] = set()
    stack = list(nodes)
    while stack and len(seen) <= INLINE:
        node = stack.pop()
        if node.number not in seen and not node.is_constant:
            seen.add(node.number)
            stack.extend(node.args)
    return len(seen)
