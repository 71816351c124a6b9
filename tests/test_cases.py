"""One case for several values: each is tested, and a failure says which one failed."""

from __future__ import annotations

import inspect

import pytest

from epochfence.tests.cases import in_each


def test_a_failure_names_its_value() -> None:
    seen: list[tuple[int, int]] = []

    @in_each("value", (1, 2, 3))
    def below(value: int, most: int) -> None:
        seen.append((value, most))
        assert value < most

    assert list(inspect.signature(below).parameters) == ["most"]
    below(most=4)
    assert seen == [(1, 4), (2, 4), (3, 4)]
    with pytest.raises(AssertionError) as failed:
        below(most=2)
    assert failed.value.__notes__ == ["with value = 2"]


def test_no_test_is_left_without_a_value() -> None:
    def takes(value: int) -> None:
        assert value

    with pytest.raises(AssertionError, match="no value of value"):
        in_each("value", ())(takes)
    with pytest.raises(AssertionError, match="no argument other"):
        in_each("other", (1,))(takes)
