"""The JSON of every kind of result is as its schema says."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import fastjsonschema
import pytest

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.language import instantiate
from epochfence.tests.systems.counter import Ticker

SCHEMA = json.loads((files("epochfence.checker.output") / "result.schema.json").read_text("utf-8"))
is_valid: Callable[[Any], Any] = fastjsonschema.compile(SCHEMA)  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]


def as_read(result: Any) -> dict[str, Any]:
    """The result as a reader of its JSON has it."""
    return json.loads(json.dumps(result.as_json()))


def counting(*, terminal: bool = True) -> lang.Instance:
    return Ticker(any_initial=True).instance(to=3, terminal=terminal)


def lease(protocol: str) -> lang.Instance:
    return instantiate(load_system("docs/examples/lease.py"), protocol)


RUNS: dict[str, tuple[lang.Instance, Options]] = {
    "holds": (lease("2"), Options(explain_size=True)),
    "broken": (lease("1"), Options()),
    "deadlock": (counting(terminal=False), Options()),
    "inconclusive": (counting(), Options(strict=True)),
}


@pytest.mark.parametrize("verdict", RUNS)
def test_a_result_is_as_its_schema_says(verdict: str) -> None:
    instance, options = RUNS[verdict]
    told = as_read(check(instance, options))
    assert told["verdict"] == verdict
    is_valid(told)


def test_several_counterexamples_are_as_the_schema_says() -> None:
    told = as_read(check(lease("1"), Options(all_traces=3)))
    assert len(told["counterexamples"]["found"]) == 2
    is_valid(told)


def test_what_is_not_a_result_is_refused() -> None:
    whole = as_read(check(counting()))
    is_valid(whole)
    wrong: list[dict[str, Any]] = [
        {name: value for name, value in whole.items() if name != left_out} for left_out in whole
    ]
    wrong += [
        {**whole, "exit_code": 12},
        {**whole, "states": 0},
        {**whole, "verdict": "deadlock"},
        {**whole, "more": 1},
        {**whole, "verdict": "perhaps"},
        {**whole, "properties": [{**whole["properties"][0], "verdict": "broken"}]},
    ]
    for each in wrong:
        with pytest.raises(fastjsonschema.JsonSchemaException):
            is_valid(each)
