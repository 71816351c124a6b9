"""Which tests are run: all that expect something recorded, and of inputs that are drawn so many as
`sample(n)` says, the same ones by the same seed. And in which order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.tests.conftest import (
    QUICK,
    SPARK,
    is_drawn,
    keep_long_or_others,
    keep_samples,
    put_longest_first,
)

ROOT = Path(__file__).parents[1]


class Case:
    """As much of a collected test as is looked at."""

    def __init__(
        self, nodeid: str, sample: int | None, slow: tuple[int, ...] | None = None, **more: str
    ) -> None:
        self.nodeid = nodeid
        self.marks: dict[str, Any] = {}
        if sample is not None:
            self.marks["sample"] = SimpleNamespace(args=(sample,), kwargs=more)
        if slow is not None:
            self.marks["slow"] = SimpleNamespace(args=slow)

    def long(self) -> Case:
        """The case, marked so."""
        self.marks["long"] = SimpleNamespace(args=())
        return self

    def get_closest_marker(self, name: str) -> Any:
        return self.marks.get(name)


def kept(seed: int, cases: list[Case], *, long: bool = False) -> list[str]:
    told: list[Case] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    config: Any = SimpleNamespace(option=SimpleNamespace(seed=seed, long=long), hook=hook)
    items: list[Any] = list(cases)
    keep_long_or_others(config, items)
    keep_samples(config, items)
    assert {*told} == {*cases} - {*items}
    return [item.nodeid for item in items]


EVERY = [
    Case("plain", None),
    *(Case(f"many[{n}]", 2) for n in range(20)),
    *(Case(f"mixed[{n}]", 1 if n > 2 else None) for n in range(6)),
    *(Case(f"few[{n}]", 5) for n in range(3)),
    *(Case(name, 1, of="kin") for name in ("one of them", "another of them")),
]


def test_so_many_cases_are_kept_and_all_that_are_not_marked() -> None:
    names = kept(1, EVERY)
    count = {name: sum(each.startswith(name) for each in names) for name in ("many", "mixed")}
    assert count == {"many": 2, "mixed": 4}
    assert len({"one of them", "another of them"} & {*names}) == 1
    assert {"plain", "few[0]", "few[1]", "few[2]", "mixed[0]", "mixed[1]", "mixed[2]"} <= {*names}


def test_a_seed_draws_the_same_and_seeds_together_every_case() -> None:
    assert kept(7, EVERY) == kept(7, EVERY)
    drawn = {name for seed in range(200) for name in kept(seed, EVERY)}
    assert drawn == {case.nodeid for case in EVERY}


def test_this_run_has_no_more_cases_than_asked_for(request: pytest.FixtureRequest) -> None:
    counts: Counter[tuple[str, int]] = Counter()
    for item in request.session.items:
        if (marker := item.get_closest_marker("sample")) is not None:
            group = marker.kwargs.get("of", item.nodeid.partition("[")[0])
            count = marker.args[0]
            counts[group, count] += 1
            assert request.config.option.every_case or counts[group, count] <= count


def test_a_long_test_runs_with_long_alone() -> None:
    cases = [Case("short", None), Case("long", None).long(), Case("one of many", 1)]
    assert kept(1, cases) == ["short", "one of many"]
    assert kept(1, cases, long=True) == ["long"]


# What a sample may be of, beside tests that draw by a seed. No expectation of these is recorded
# in a place that could be out of date without another test that fails.
DRAWN = {
    "engines": "which have to agree with one another",
    "mutants": "which are altered rows: docs/mutation.md tells how many are killed",
    "kills": "which come at any moment",
    "a proof's parts": "docs/proofs.md has a digest of each; tests compare all of them",
    "a proof at an earlier release": "as the parts of other proofs",
    "what no proof is found of": "which are altered rows",
}


def test_only_what_is_drawn_is_sampled(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        marker = item.get_closest_marker("sample")
        if marker is not None and "tests/brokers/" not in item.nodeid:
            by_seed = "seed" in getattr(item, "fixturenames", ())
            kind = marker.kwargs.get("of", "").partition(":")[0]
            assert by_seed or kind in DRAWN, item.nodeid


def test_hypothesis_draws_the_same_by_the_same_seed_and_remembers_nothing() -> None:
    def drawn() -> list[int]:
        found = list[int]()

        @given(st.integers())
        def each(number: int) -> None:
            found.append(number)

        each()
        return found

    assert len({*drawn()}) > 10
    assert drawn() == drawn()
    assert settings().database is None


@given(st.none())
def by_hypothesis(_: None) -> None:
    pass


def test_what_is_drawn_is_marked(request: pytest.FixtureRequest) -> None:
    items: list[Any] = [
        SimpleNamespace(obj=by_hypothesis),
        SimpleNamespace(fixturenames=("tmp_path", "seed")),
        SimpleNamespace(obj=test_what_is_drawn_is_marked, fixturenames=("request",)),
    ]
    for item in items:
        item.get_closest_marker = lambda name: None
    assert [is_drawn(item) for item in items] == [True, True, False]


def test_the_longest_scopes_come_first() -> None:
    """Quick files whole, and the functions of others by what their marks say."""
    slow, quick = "tests/fuzz/test_fuzz.py::", "tests/test_samples.py::"
    items: list[Any] = [
        Case(f"{quick}a", None),
        Case(f"{slow}b", None, ()),
        Case(f"{slow}c[1]", None, ()),
        Case(f"{slow}d", None, (60,)),
        Case(f"{slow}c[2]", None, ()),
        Case(f"{SPARK}e", None),
        Case(f"{quick}f", None),
    ]
    put_longest_first(ROOT, items)
    names = [item.nodeid.removeprefix(quick).removeprefix(slow) for item in items]
    assert names == [f"{SPARK}e", "d", "c[1]", "c[2]", "b", "a", "f"]


def test_many_quick_tests_come_before_a_slow_one() -> None:
    slow, quick = "tests/fuzz/test_fuzz.py::", "tests/test_samples.py::"
    many = [Case(f"{quick}{n}", None) for n in range(int(2 / QUICK) + 1)]
    items: list[Any] = [Case(f"{slow}a", None, (2,)), *many, Case(f"{slow}b", None, (3,))]
    put_longest_first(ROOT, items)
    assert items == [items[0], *many, items[-1]]
    assert [items[0].nodeid, items[-1].nodeid] == [f"{slow}b", f"{slow}a"]
