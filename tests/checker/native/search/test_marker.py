"""Machine code marks states as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.ground.graph import Node
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search import marker
from epochfence.checker.native.search.marker import compiled, interpreted, kind_of_bits
from epochfence.checker.native.search.vectors import formula
from epochfence.tests.checker.native.search.test_pair_conditions import (
    PACKING,
    conditions,
    some_words,
)


@pytest.mark.slow(1)
@settings(max_examples=20)
@given(st.lists(st.tuples(conditions(), conditions()), min_size=1, max_size=18), st.integers(0))
def test_states_are_marked_alike(nodes: list[tuple[Node, Node]], seed: int) -> None:
    words = some_words(seed)
    pairs = [(formula(premise, PACKING), formula(goal, PACKING)) for premise, goal in nodes]
    marks = np.full((4, len(words)), 255, dtype=kind_of_bits(len(pairs)))
    met = compiled(pairs, PACKING)(words, marks[0], marks[1])
    assert met == interpreted(pairs)(words, marks[2], marks[3])
    assert marks[:2].tolist() == marks[2:].tolist()


@pytest.mark.parametrize("protocol", ["1", "2"])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_comes_to_happen_is_the_same_by_both(
    protocol: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = lang.instantiate(load_system("docs/examples/retry.py"), protocol, progress=True)
    by_numpy = check(instance, Options(threads=1))
    monkeypatch.setattr(marker, "COMPILED_FROM", 0)
    by_code = check(instance, Options(threads=threads))
    assert by_code.verdict is by_numpy.verdict
    assert by_code.properties == by_numpy.properties
    assert by_code.trace == by_numpy.trace
