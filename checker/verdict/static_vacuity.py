"""Finds vacuity without a run, from the possible values of each part.

A part of the state has its initial values and those that rows write into it. A row whose condition
none of these values meets is never taken, and writes nothing. All that is reported is certain. Only
a run shows how parts relate to each other (`x` is 2 only where `y` is 3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import product

from ...language import Instance, Table
from ..ground import GroundAction, Grounded, GroundRow, ground
from ..ground.graph import Node
from .probes import fields_read
from .vacuity import Vacuity, vacuities

MOST_VALUES = 64  # most values of a part; with more, any value in its range is possible

Values = frozenset[int] | None  # the possible numbers of a node; None: all in its range

_NEVER, _ALWAYS, _EITHER = frozenset({0}), frozenset({1}), frozenset({0, 1})


def foreseen(instance: Instance, tables: Collection[Table] | None = None) -> list[Vacuity]:
    """The items that are vacuous in every run of the instance, as far as that is visible without a
    run. With only some of the `tables`, the items about their rows.

    Raises DeclarationError if the instance can't be grounded.
    """
    found = _Foreseen(ground(instance)).vacuities()
    if tables is None or len(tables) == len(instance.system.tables):
        return found
    names = {table.name for table in tables}
    return [item for item in found if names & {row.partition("/")[0] for row in item.rows}]


class _Foreseen:
    """The possible values of leaves."""

    def __init__(self, grounded: Grounded) -> None:
        self.grounded = grounded
        self.leaves: dict[int, Values] = {}
        for leaf in grounded.leaves:
            first = frozenset(vector[leaf.index] for vector in grounded.initials)
            self.leaves[leaf.index] = None if leaf.index in grounded.open else _few(first)
        self.ranges = {leaf.index: (leaf.low, leaf.high) for leaf in grounded.leaves}
        self.done: dict[Node, Values] = {}
        while self._grows():
            self.done = {}

    def vacuities(self) -> list[Vacuity]:
        """The vacuities that follow from the values."""
        grounded = self.grounded
        instance = grounded.instance
        taken = [0] * len(instance.row_names)
        for row in self._possible_rows():
            taken[row.row] = 1
        unmet = [probe for probe, node in grounded.probes if self.of(node) == _NEVER]
        return vacuities(instance, taken, unmet, list(self._unbreakable()))

    def _unbreakable(self) -> Iterator[str]:
        """Properties that hold and whose fields no row changes."""
        one_value = {at for at, values in self.leaves.items() if values and len(values) == 1}
        changing = {str(x.path[0]) for x in self.grounded.leaves if x.index not in one_value}
        invariants = iter(self.grounded.invariants)
        of_steps = zip(*(row.broken for row in self._possible_rows()), strict=True)
        true = self.grounded.graph.true
        for item in self.grounded.instance.properties:
            if item.kind == "invariant":
                node = next(invariants)
                holds, always = self.of(node) == _ALWAYS, node is true
            else:
                holds, always = all(self.of(node) == _NEVER for node in next(of_steps, ())), False
            if always or (holds and not fields_read(item.expression) & changing):
                yield item.name

    def _possible_rows(self) -> Iterator[GroundRow]:
        for action in self.grounded.actions:
            if self._may_happen(action):
                yield from (row for row in action.rows if self.of(row.guard) != _NEVER)

    def _may_happen(self, action: GroundAction) -> bool:
        return any(self.of(node) != _NEVER for node in action.possible)

    def _grows(self) -> bool:
        """Adds the values that possible rows write to the values of leaves; False if there are no
        new ones.
        """
        known = dict(self.leaves)
        for row in self._possible_rows():
            for at, node in row.updates.items():
                more, had = self.of(node), self.leaves[at]
                low, high = self.ranges[at]  # no state has a value out of range
                self.leaves[at] = (
                    None
                    if more is None or had is None
                    else _few(had.union(each for each in more if low <= each <= high))
                )
        return self.leaves != known

    def of(self, root: Node) -> Values:
        """The possible numbers of a node."""
        stack = [root]
        while stack:
            node = stack[-1]
            left = [arg for arg in self._needed(node) if arg not in self.done]
            if left:
                stack += left
                continue
            stack.pop()
            self.done[node] = self._evaluated(node)
        return self.done[root]

    def _needed(self, node: Node) -> Iterable[Node]:
        """The leaves that a node's value depends on. A leaf of the next state depends on the same
        leaf before the step.
        """
        following = self.grounded.next_leaves.get(node.value) if node.op == "leaf" else None
        return node.args if following is None else (following,)

    def _evaluated(self, node: Node) -> Values:
        args = [self.done[arg] for arg in self._needed(node)]
        match node.op:
            case "const":
                return frozenset({node.value})
            case "leaf":
                return args[0] if args else self.leaves.get(node.value)
            case "and" | "or":
                decides = _NEVER if node.op == "and" else _ALWAYS
                if decides in args:
                    return decides
                return _EITHER - decides if all(arg == _EITHER - decides for arg in args) else None
            case "ite":
                if args[0] in (_NEVER, _ALWAYS):
                    return args[1 if args[0] == _ALWAYS else 2]
                return None if args[1] is None or args[2] is None else _few(args[1] | args[2])
            case "eq" if None in args:
                (a, b), (c, d) = (_range(arg, x) for arg, x in zip(node.args, args, strict=True))
                return _NEVER if b < c or d < a else None
            case "lt":
                return _less(*(_range(arg, x) for arg, x in zip(node.args, args, strict=True)))
            case _:
                by = [frozenset({node.value})] if node.op in ("div", "mod") else []
                return _combined(node.op, [*args, *by])


def _few(values: frozenset[int]) -> Values:
    return values if len(values) <= MOST_VALUES else None


def _range(node: Node, values: Values) -> tuple[int, int]:
    return (node.low, node.high) if values is None else (min(values), max(values))


def _less(left: tuple[int, int], right: tuple[int, int]) -> Values:
    if left[1] < right[0]:
        return _ALWAYS
    return _NEVER if left[0] >= right[1] else None


def _operated(op: str, args: tuple[int, ...]) -> int:
    match op, args:
        case "not", (a,):
            return 1 - a
        case "eq", (a, b):
            return int(a == b)
        case "add", (a, b):
            return a + b
        case "sub", (a, b):
            return a - b
        case "mul", (a, b):
            return a * b
        case "div", (a, b):
            return a // b
        case "mod", (a, b):
            return a % b
        case _:
            raise TypeError(op)


def _combined(op: str, args: list[Values]) -> Values:
    """The results of an operation for each choice of values, if these are few."""
    known = [arg for arg in args if arg is not None]
    if len(known) < len(args):
        return None
    count = 1
    for arg in known:
        count *= len(arg)
    if count > MOST_VALUES * MOST_VALUES:
        return None
    return _few(frozenset(_operated(op, choice) for choice in product(*known)))
