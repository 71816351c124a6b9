"""Scalar expressions as a graph: equal parts are one node.

Every node is a whole number or a truth, with its interval. Simple identities are applied when nodes
are made, so engines never see facts that follow from intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...language import DeclarationError


class Node:
    """An operator over nodes; `value` is a constant's number or a leaf's index."""

    __slots__ = ("args", "high", "is_truth", "low", "number", "op", "value")

    def __init__(
        self,
        op: str,
        args: tuple[Node, ...],
        value: int,
        low: int,
        high: int,
        is_truth: bool,
        number: int,
    ) -> None:
        self.op = op
        self.args = args
        self.value = value
        self.low = low
        self.high = high
        self.is_truth = is_truth
        self.number = number

    @property
    def is_constant(self) -> bool:
        """Whether the value is known."""
        return self.op == "const"

    def __repr__(self) -> str:
        if self.op in ("const", "leaf"):
            return f"{'#' if self.op == 'leaf' else ''}{self.value}"
        return f"{self.op}({', '.join(map(repr, self.args))})"


class Graph:
    """Makes nodes, each only once. A sum, difference or product beyond 64 bits raises
    DeclarationError, unless the graph is `unbounded`.
    """

    def __init__(self, *, unbounded: bool = False) -> None:
        self.unbounded = unbounded
        self._nodes: dict[tuple[str, tuple[Node, ...], int, bool], Node] = {}
        self.true = self._node("const", (), 1, 1, 1, True)
        self.false = self._node("const", (), 0, 0, 0, True)

    def _node(
        self, op: str, args: tuple[Node, ...], value: int, low: int, high: int, is_truth: bool
    ) -> Node:
        key = (op, args, value, is_truth)
        node = self._nodes.get(key)
        if node is None:
            node = Node(op, args, value, low, high, is_truth, len(self._nodes))
            self._nodes[key] = node
        return node

    def number(self, value: int) -> Node:
        """A known whole number."""
        return self._node("const", (), value, value, value, False)

    def truth(self, value: bool) -> Node:
        """A known truth."""
        return self.true if value else self.false

    def leaf(self, index: int, low: int, high: int, is_truth: bool) -> Node:
        """The value of a leaf of the state, within `low`..`high`."""
        if low == high:
            return self.truth(bool(low)) if is_truth else self.number(low)
        return self._node("leaf", (), index, low, high, is_truth)

    def not_(self, a: Node) -> Node:
        """Negation."""
        if a.is_constant:
            return self.truth(not a.value)
        if a.op == "not":
            return a.args[0]
        return self._node("not", (a,), 0, 0, 1, True)

    def and_(self, *parts: Node) -> Node:
        """Conjunction."""
        kept, denied = _distinct("and", parts, self.true)
        if self.false in kept or not kept.keys().isdisjoint(denied):
            return self.false
        if any(a.op == "and" and all(part in kept for part in a.args) for a in denied):
            return self.false  # x and y and not (x and y)
        if not kept:
            return self.true
        args = tuple(kept)
        return args[0] if len(args) == 1 else self._node("and", args, 0, 0, 1, True)

    def or_(self, *parts: Node) -> Node:
        """Disjunction."""
        kept, denied = _distinct("or", parts, self.false)
        if self.true in kept or not kept.keys().isdisjoint(denied):
            return self.true
        if not kept:
            return self.false
        args = tuple(kept)
        return args[0] if len(args) == 1 else self._node("or", args, 0, 0, 1, True)

    def given(self, a: Node, condition: Node, holds: bool) -> Node:
        """A truth, simplified for the case that `condition` has the truth `holds`."""
        if condition.op == "not":
            return self.given(a, condition.args[0], not holds)
        if a is condition:
            return self.truth(holds)
        match a.op:
            case "not":
                return self.not_(self.given(a.args[0], condition, holds))
            case "and":
                return self.and_(*(self.given(part, condition, holds) for part in a.args))
            case "or":
                return self.or_(*(self.given(part, condition, holds) for part in a.args))
            case "ite":
                return self.choose(*(self.given(part, condition, holds) for part in a.args))
            case _:
                return a

    def equal(self, a: Node, b: Node) -> Node:
        """Whether two numbers, or two truths, are equal."""
        if a is b:
            return self.true
        if a.high < b.low or b.high < a.low:
            return self.false
        if a.is_constant and b.is_constant:
            return self.truth(a.value == b.value)
        if a.is_truth:
            for one, other in ((a, b), (b, a)):
                if one is self.true:
                    return other
                if one is self.false:
                    return self.not_(other)
        for one, other in ((a, b), (b, a)):
            if one.is_constant and other.op == "ite" and not other.is_truth:
                return self._through(other, one, self.equal)
        if a.number > b.number:
            a, b = b, a
        return self._node("eq", (a, b), 0, 0, 1, True)

    def _through(self, choice: Node, constant: Node, compare: Callable[[Node, Node], Node]) -> Node:
        """A comparison of a choice with a constant, applied to both branches."""
        condition, then, otherwise = choice.args
        left, right = compare(then, constant), compare(otherwise, constant)
        return self.choose(condition, left, right)

    def less(self, a: Node, b: Node) -> Node:
        """Whether a < b."""
        if a is b or a.low >= b.high:
            return self.false
        if a.high < b.low:
            return self.true
        return self._node("lt", (a, b), 0, 0, 1, True)

    def at_most(self, a: Node, b: Node) -> Node:
        """Whether a <= b."""
        return self.not_(self.less(b, a))

    def add(self, a: Node, b: Node) -> Node:
        """a + b."""
        if a.is_constant and b.is_constant:
            return self.number(a.value + b.value)
        for one, other in ((a, b), (b, a)):
            if one.is_constant and one.value == 0:
                return other
        return self._sum("add", a, b, a.low + b.low, a.high + b.high)

    def subtract(self, a: Node, b: Node) -> Node:
        """a - b."""
        if a is b:
            return self.number(0)
        if a.is_constant and b.is_constant:
            return self.number(a.value - b.value)
        if b.is_constant and b.value == 0:
            return a
        return self._sum("sub", a, b, a.low - b.high, a.high - b.low)

    def _sum(self, op: str, a: Node, b: Node, low: int, high: int) -> Node:
        if (low < -(2**63) or high >= 2**63) and not self.unbounded:
            raise DeclarationError(f"a number may become {low}..{high}, which is beyond 64 bits")
        return self._node(op, (a, b), 0, low, high, False)

    def multiply(self, a: Node, b: Node) -> Node:
        """a * b."""
        for one, other in ((a, b), (b, a)):
            if one.is_constant and one.value in (0, 1):
                return other if one.value else self.number(0)
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        if a.is_constant and b.is_constant:
            return self.number(a.value * b.value)
        return self._sum("mul", a, b, min(ends), max(ends))

    def divide(self, a: Node, size: int) -> Node:
        """a divided by `size`, rounded down, for every sign of a."""
        low, high = a.low // size, a.high // size
        if low == high:
            return self.number(low)
        return a if size == 1 else self._node("div", (a,), size, low, high, False)

    def modulo(self, a: Node, size: int) -> Node:
        """a modulo `size`, for every sign of a."""
        if a.low >= 0 and a.high < size:
            return a
        if a.is_constant:
            return self.number(a.value % size)
        return self._node("mod", (a,), size, 0, size - 1, False)

    def choose(self, condition: Node, then: Node, otherwise: Node) -> Node:  # noqa: C901 (a rule for each simplification)
        """`then` where `condition` holds, else `otherwise`."""
        if condition is self.true or then is otherwise:
            return then
        if condition is self.false:
            return otherwise
        if then.is_truth:
            if then is self.true:
                return self.or_(condition, otherwise)
            if then is self.false:
                return self.and_(self.not_(condition), otherwise)
            if otherwise is self.false:
                return self.and_(condition, then)
            if otherwise is self.true:
                return self.or_(self.not_(condition), then)
        if condition.op == "not":
            return self.choose(condition.args[0], otherwise, then)
        if condition.op == "eq" and not then.is_truth:
            # if x == c then c else x  is x
            pair = {condition.args[0].number, condition.args[1].number}
            if {then.number, otherwise.number} == pair:
                return otherwise
        low, high = min(then.low, otherwise.low), max(then.high, otherwise.high)
        if condition.op == "lt":
            if condition.args == (then, otherwise):  # the smaller of two
                high = min(then.high, otherwise.high)
            elif condition.args == (otherwise, then):
                low = max(then.low, otherwise.low)
        if condition.op == "eq" and otherwise in condition.args:
            (excluded,) = {*condition.args} - {otherwise}
            if excluded.is_constant and excluded.value == otherwise.low:
                low = min(then.low, otherwise.low + 1)
        return self._node("ite", (condition, then, otherwise), 0, low, high, then.is_truth)

    def as_number(self, a: Node) -> Node:
        """A truth as 0 or 1."""
        return self.choose(a, self.number(1), self.number(0)) if a.is_truth else a

    def total(self, parts: Iterable[Node]) -> Node:
        """The sum of numbers."""
        result = self.number(0)
        for part in parts:
            result = self.add(result, part)
        return result

    def substitute(
        self, node: Node, leaves: Mapping[int, Node], done: dict[int, Node] | None = None
    ) -> Node:
        """The node with leaves replaced by other nodes; `done` caches results between calls."""
        done = {} if done is None else done
        found = done.get(node.number)
        if found is None:
            if node.op == "leaf":
                found = leaves.get(node.value, node)
            else:
                args = tuple([self.substitute(each, leaves, done) for each in node.args])
                found = node if args == node.args else self._rebuilt(node, args)
            done[node.number] = found
        return found

    def _rebuilt(self, n: Node, args: tuple[Node, ...]) -> Node:
        match n.op:
            case "not":
                return self.not_(args[0])
            case "and":
                return self.and_(*args)
            case "or":
                return self.or_(*args)
            case "eq":
                return self.equal(*args)
            case "lt":
                return self.less(*args)
            case "add":
                return self.add(*args)
            case "sub":
                return self.subtract(*args)
            case "mul":
                return self.multiply(*args)
            case "div":
                return self.divide(args[0], n.value)
            case "mod":
                return self.modulo(args[0], n.value)
            case _:
                return self.choose(*args)


def _distinct(op: str, parts: Iterable[Node], neutral: Node) -> tuple[dict[Node, None], list[Node]]:
    """The different parts, with nested `op` flattened and the neutral element dropped; and the
    operands of negated parts.
    """
    kept: dict[Node, None] = {}
    denied: list[Node] = []
    for part in parts:
        for one in part.args if part.op == op else (part,):
            if one is not neutral:
                kept[one] = None
                if one.op == "not":
                    denied.append(one.args[0])
    return kept, denied


def leaves_of(nodes: Iterable[Node]) -> set[int]:
    """The indices of the leaves that the nodes read; indices below 0 are choices."""
    seen: set[int] = set()
    found: set[int] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.number in seen:
            continue
        seen.add(node.number)
        if node.op == "leaf" and node.value >= 0:
            found.add(node.value)
        stack.extend(node.args)
    return found
