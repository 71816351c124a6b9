"""All engines on some larger random systems; and a disagreement is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.solver.bound import bound
from epochfence.checker.verdict.result import Result
from epochfence.language import Instance
from epochfence.tests.agreement import systems, ways
from epochfence.tests.agreement.run import (
    compared,
    done,
    failures,
    run,
    section,
)
from epochfence.tests.agreement.ways import NAMES, WAYS
from epochfence.tests.checker.plain_search import search

TAKEN = 2  # systems: `make agreement` takes more, until every way was taken, and so CI does
SEED = 7


@pytest.mark.slow(2 * TAKEN)
def test_all_engines_agree_on_larger_systems(seed: int, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    found = run(TAKEN, float("inf"), seed, results)
    assert [told for told in failures(found) if told.startswith("these disagree")] == []
    agreed = [item for item in found if "ways" in item]
    assert len(agreed) >= TAKEN - 1  # one may take too long
    assert all(systems.LEAST <= item["states"] <= ways.MOST for item in agreed)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems of a few states."""
    monkeypatch.setattr(systems, "LEAST", 2)
    monkeypatch.setattr(systems, "ASKED", (4, 30))


@pytest.mark.slow(1)
def test_a_run_does_the_systems_that_are_missing(tmp_path: Path, small: None) -> None:
    results = tmp_path / "results.jsonl"
    first = run(1, 60, SEED, results)
    results.write_text(results.read_text() + '{"number": 1, "sta')
    assert done(results) == (SEED, first)
    assert run(1, 60, SEED + 1, results) == first
    assert [item["number"] for item in run(2, 60, SEED + 1, results)] == [0, 1]
    assert [item["number"] for item in run(6, 60, SEED, results, first=5)] == [0, 1, 5]
    results.write_text("")
    assert [item["number"] for item in run(1, 60, SEED, results)] == [0]


def other_states(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a state more in what it comes to."""

    def changed(*given: Any, **more: Any) -> Any:
        result = function(*given, **more)
        return replace(result, states=result.states + 1)

    return changed


def no_trace(*given: Any, **more: Any) -> Any:
    """Z3, without the counterexample that it finds."""
    result = bound(*given, **more)
    return replace(result, trace=None, depth=result.most)


def other_where(wanted: Callable[[Options], Any]) -> Callable[..., Any]:
    """The explorer with other states in runs with certain options."""

    def changed(instance: Instance, options: Options, *more: Any) -> Result:
        run = other_states(check) if wanted(options) else check
        return run(instance, options, *more)

    return changed


WRONG: dict[Callable[..., Any], tuple[str, Callable[..., Any]]] = {
    ways.threads: ("check", other_where(lambda options: options.threads == 2)),
    ways.reductions: ("taken", lambda result: result),
    ways.passes: ("plainly", other_states(ways.plainly)),
    ways.in_parts: ("plainly", other_states(ways.plainly)),
    ways.eight: ("plainly", other_states(ways.plainly)),
    ways.killed: ("check", other_where(lambda options: options.resume)),
    ways.spark: ("check", other_where(lambda options: options.spark)),
    ways.solved: ("bound", no_trace),
    ways.interpreted: ("search", other_states(search)),
    ways.walked: ("expanded", lambda *_: Counter()),
}


@pytest.mark.slow(1)
@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_another_answer_is_a_disagreement(
    way: Callable[..., Any], small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way reports a system for which its engine gives another answer."""
    breaks = way is ways.solved
    monkeypatch.setattr(systems, "ways_of", lambda *_: [way])
    monkeypatch.setattr(systems, "is_taken", lambda *_: breaks)
    made = "Z3 finds it" if breaks else None
    number = next(
        number
        for number in range(1_000)
        if (names := compared(SEED, number)["ways"]) and made in (None, *names)
    )
    monkeypatch.setattr(ways, *WRONG[way])
    told = compared(SEED, number)
    assert "AssertionError" in told["error"]
    assert failures([told])[0] == f"these disagree: [{number}]"


def test_a_way_that_was_never_taken_fails_the_run(tmp_path: Path) -> None:
    item: dict[str, Any] = {
        "number": 0, "states": 1_000, "verdict": "HOLDS", "steps": None, "draws": 0,
        "seconds": 1.0, "ways": [*NAMES],
    }  # fmt: skip
    assert failures([item]) == []
    for name in NAMES:
        without = item | {"ways": [other for other in NAMES if other != name]}
        assert failures([without]) == [f"never compared: {name}"]
    left_out = {"number": 1, "passed_over": "takes long"}
    assert failures([item, left_out]) == ["1 of 2 systems were passed over"]
    assert failures([])
    text = section(SEED, [item, left_out])
    assert text.startswith(f"2 systems of seed {SEED}, the last of them number 1:")
    assert text.endswith(f"| all | {len(NAMES)} |")
