"""Evaluates nodes on many packed states at once by NumPy, after a search."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ground import Leaf
from ...ground.graph import Node
from ..store.pack import Packing, Place

COMPILED_FROM = 1 << 14  # least states for which compilation pays
FIRST, AT_ONCE = 1 << 8, 1 << 14  # states that are evaluated together, at first and at most


@dataclass(frozen=True)
class Formula:
    """A condition on a packed state, as a list of steps. A step may use the results of earlier
    steps.

    A step is an operator, the positions of its arguments, and a constant, a modulus or the place of
    a leaf.
    """

    steps: tuple[tuple[str, tuple[int, ...], int | Place], ...]

    def __call__(self, words: Any) -> Any:
        """Whether the condition holds, for each of the packed states, given as rows of 64-bit
        words.
        """
        done: list[Any] = []
        for op, args, value in self.steps:
            done.append(_applied(op, [done[at] for at in args], value, words))
        return np.broadcast_to(done[-1].astype(bool), len(words))


def formula(node: Node, packing: Packing) -> Formula:
    """The node as a formula. Raises KeyError for a leaf that packed states don't have."""
    order: dict[int, int] = {}
    steps: list[tuple[str, tuple[int, ...], int | Place]] = []
    stack = [node]
    while stack:
        at = stack[-1]
        left = [arg for arg in at.args if arg.number not in order]
        if left:
            stack += left
            continue
        stack.pop()
        if at.number not in order:
            order[at.number] = len(steps)
            value = packing.places[at.value] if at.op == "leaf" else at.value
            steps.append((at.op, tuple(order[arg.number] for arg in at.args), value))
    return Formula(tuple(steps))


class Columns:
    """Evaluates nodes on rows of 64-bit words, each part of them once. Leaves without a place have
    the numbers in `known`.
    """

    def __init__(self, words: Any, packing: Packing, known: Sequence[int]) -> None:
        self.words = words
        self.packing = packing
        self.known = known
        self._done: dict[int, Any] = {}

    def __call__(self, node: Node) -> Any:
        """The node's value in each of the packed states."""
        return np.broadcast_to(self._value(node), len(self.words))

    def _value(self, node: Node) -> Any:
        found = self._done.get(node.number)
        if found is None:
            found = self._done[node.number] = self._made(node)
        return found

    def _made(self, node: Node) -> Any:
        if node.op != "leaf":
            return _applied(node.op, [*map(self._value, node.args)], node.value, self.words)
        place = self.packing.places.get(node.value)
        if place is None:
            return np.array([self.known[node.value]], dtype=np.int64)
        return _applied("leaf", [], place, self.words)


def _applied(op: str, args: list[Any], value: int | Place, words: Any) -> Any:
    match op:
        case "const":
            return np.array([value], dtype=np.int64)
        case "leaf":
            assert isinstance(value, Place)
            mask = np.uint64((1 << value.width) - 1)
            found = (words[:, value.word] >> np.uint64(value.shift)) & mask
            return found.astype(np.int64) + value.low
        case "not":
            return args[0] == 0
        case "and":
            return np.logical_and.reduce(np.broadcast_arrays(*args))
        case "or":
            return np.logical_or.reduce(np.broadcast_arrays(*args))
        case "eq":
            return args[0] == args[1]
        case "lt":
            return args[0] < args[1]
        case "add":
            return args[0] + args[1]
        case "sub":
            return args[0] - args[1]
        case "mul":
            return args[0] * args[1]
        case "div":
            return args[0] // value
        case "mod":
            return args[0] % value
        case _:
            assert op == "ite", op
            return np.where(args[0].astype(bool), args[1], args[2])


def in_ranges(states: bytes, packing: Packing, leaves: Iterable[Leaf]) -> bool:
    """Whether each leaf of contiguous packed states is within its range, and all unused bits are
    zero. A search writes only such states.
    """
    rows = np.frombuffer(states, dtype=np.uint8).reshape(-1, packing.stride)
    most = {leaf.index: leaf.high - leaf.low for leaf in leaves}
    used = [0] * packing.words
    for place in packing.places.values():
        used[place.word] |= place.mask
    unused = np.array([~bits & (1 << 64) - 1 for bits in used], dtype=np.uint64)
    bounded = [(at, most[i]) for i, at in packing.places.items() if most[i] + 1 != 1 << at.width]
    for first in range(0, len(rows), AT_ONCE):
        words = in_words(rows[first : first + AT_ONCE], packing)
        if (words & unused).any() or any((_shifted(words, at) > n).any() for at, n in bounded):
            return False
    return True


def _shifted(words: Any, place: Place) -> Any:
    return words[:, place.word] >> np.uint64(place.shift) & np.uint64((1 << place.width) - 1)


def in_words(states: Any, packing: Packing) -> Any:
    """Packed states, given as rows of bytes, as rows of 64-bit words."""
    words = np.zeros((len(states), 8 * packing.words), dtype=np.uint8)
    words[:, : packing.stride] = states
    return words.view(np.uint64)


def gathered(parts: Iterable[Any]) -> Iterator[Any]:
    """Joins or divides arrays of rows into larger and larger ones, up to AT_ONCE rows."""
    held: list[Any] = []
    rows, wanted = 0, FIRST
    for part in parts:
        at = 0
        while at < len(part):
            held.append(part[at : at + wanted - rows])
            at += len(held[-1])
            rows += len(held[-1])
            if rows == wanted:
                yield np.concatenate(held)
                held, rows, wanted = [], 0, min(4 * wanted, AT_ONCE)
    if held:
        yield np.concatenate(held)
