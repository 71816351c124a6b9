"""Conditions as machine code hold in the states in which NumPy's evaluation has them hold."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.checker.check import Options, check
from epochfence.checker.ground import Leaf
from epochfence.checker.ground.graph import Graph, Node
from epochfence.checker.native.search import coverage
from epochfence.checker.native.search.pair_conditions import Seeker
from epochfence.checker.native.search.vectors import formula, in_words
from epochfence.checker.native.store.pack import packed
from epochfence.language import Int, instantiate
from epochfence.spec.systems import shipped

RANGES = [(-3, 4), (0, 1), (5, 9), (-70_000, 70_000), (0, 1), (-(2**61), 2**61)]
TRUTHS = 1, 4
LEAVES = [Leaf(at, (), low, high, Int(low, high)) for at, (low, high) in enumerate(RANGES)]
PACKING = packed([[leaf] for leaf in LEAVES])


@st.composite
def conditions(draw: st.DrawFn) -> Node:  # noqa: C901 (a case for each operator)
    """A truth over the leaves, of the operators that there are."""
    graph = Graph()

    def number(depth: int) -> Node:
        if not depth or draw(st.integers(0, 4)) == 0:
            at = draw(st.sampled_from([0, 2, 3, 5, None]))
            if at is None:
                return graph.number(draw(st.integers(-9, 9)))
            return graph.leaf(at, *RANGES[at], False)
        match draw(st.sampled_from("+-*/%?b")):
            case "+":
                return graph.add(small(depth), small(depth))
            case "-":
                return graph.subtract(small(depth), small(depth))
            case "*":
                return graph.multiply(small(depth), graph.number(draw(st.integers(-5, 5))))
            case "/":
                return graph.divide(number(depth - 1), draw(st.integers(1, 7)))
            case "%":
                return graph.modulo(number(depth - 1), draw(st.integers(1, 7)))
            case "?":
                return graph.choose(truth(depth - 1), number(depth - 1), number(depth - 1))
            case _:
                return graph.as_number(truth(depth - 1))

    def small(depth: int) -> Node:
        return graph.modulo(number(depth - 1), 1_000)

    def truth(depth: int) -> Node:
        if not depth:
            at = draw(st.sampled_from(TRUTHS))
            return graph.leaf(at, *RANGES[at], True)
        match draw(st.sampled_from("=<!&|?t")):
            case "=":
                return graph.equal(number(depth - 1), number(depth - 1))
            case "<":
                return graph.less(number(depth - 1), number(depth - 1))
            case "!":
                return graph.not_(truth(depth - 1))
            case "&":
                return graph.and_(*(truth(depth - 1) for _ in range(3)))
            case "|":
                return graph.or_(*(truth(depth - 1) for _ in range(3)))
            case "?":
                return graph.choose(*(truth(depth - 1) for _ in range(3)))
            case _:
                return graph.equal(truth(depth - 1), truth(depth - 1))

    return truth(draw(st.integers(0, 4)))


def some_words(seed: int) -> Any:
    """Packed states as rows of words."""
    draw = np.random.default_rng(seed)
    vectors = (tuple(int(draw.integers(low, high + 1)) for low, high in RANGES) for _ in range(50))
    states = b"".join(map(PACKING.pack, vectors))
    rows = np.frombuffer(states, dtype=np.uint8).reshape(-1, PACKING.stride)
    return in_words(rows, PACKING)


@settings(max_examples=15)
@given(st.lists(st.tuples(conditions(), conditions()), min_size=1, max_size=4), st.integers(0))
def test_code_finds_what_numpy_finds(nodes: list[tuple[Node, Node]], seed: int) -> None:
    pairs = [(formula(first, PACKING), formula(second, PACKING)) for first, second in nodes]
    words = some_words(seed)
    seeker = Seeker(pairs, PACKING)
    for state in (words[at : at + 1] for at in range(len(words))):
        wanted = [bool((first(state) & second(state)).any()) for first, second in pairs]
        assert seeker(state).tolist() == wanted
    together = np.logical_or.reduce([first(words) & second(words) for first, second in pairs], 1)
    assert seeker(words).tolist() == together.tolist()


@pytest.mark.slow(5)
def test_what_is_compiled_at_once_tells_the_same_as_numpy_alone() -> None:
    instance = instantiate(shipped("idempotence"), "3.6", {"faults": 0, "losses": 0})
    told = list[object]()
    for first in (0, 1 << 60):
        with patch.object(coverage, "COMPILED_FROM", first):
            result = check(instance, Options(threads=2))
        told.append((result.verdict, result.vacuous, result.notes))
    assert told[0] == told[1]
    assert result.vacuous
