"""What Kafka's own tests say of record bytes and of producer settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epochfence.tests.conformance import config, records

CASES = Path(__file__).parents[1] / "conformance" / "cases"
OPERATIONS = {"config.json": config.OPERATIONS, "txn_log_bytes.json": records.OPERATIONS}


def cases() -> list[Any]:
    return [
        pytest.param(OPERATIONS[name], case, id=case["id"])
        for name in OPERATIONS
        for case in json.loads((CASES / name).read_text())
    ]


def disagreement(want: Any, got: Any) -> str | None:
    """The first place where what was got isn't what is wanted; objects may have more."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key, part in want.items():
            found = disagreement(part, got.get(key))
            if found:
                return f"{key}: {found}"
        return None
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        found = (disagreement(w, g) for w, g in zip(want, got, strict=True))
        return next((each for each in found if each), None)
    return None if want == got else f"{want!r} is wanted, {got!r} came"


@pytest.mark.parametrize(("operations", "case"), cases())
def test_a_case_of_kafka_is_met(operations: dict[str, Any], case: dict[str, Any]) -> None:
    for step in case["steps"]:
        result = operations[step["op"]](step)
        want = step["expect"] | step.get("also", {})
        assert disagreement(want, result) is None, step
        if not {"error", "raises"} & want.keys():
            assert result.get("raises") is None
            assert result.get("error", "NONE") == "NONE"


def test_a_disagreement_is_seen() -> None:
    assert disagreement({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}], "d": 3}) is None
    assert disagreement({"a": [{"b": 1}]}, {"a": [{"b": 2}]}) == "a: b: 1 is wanted, 2 came"
    assert disagreement({"a": [1]}, {"a": [1, 2]}) is not None
    assert disagreement({"a": True}, {}) is not None
