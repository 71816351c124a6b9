"""What makes states is what a count in plain Python says, and an estimate is near to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.store.distinct import Distinct, mask_of
from epochfence.checker.size import Size
from epochfence.language import Instance, instantiate
from epochfence.model.engine.interpreter import FullState, Interpreter
from epochfence.tests.cli.test_cli import KTX, epochfence

LEASE = Path(__file__).parents[2] / "docs" / "examples" / "lease.py"


@pytest.fixture(scope="module")
def lease() -> Instance:
    return instantiate(load_system(str(LEASE)), constants={"leases": 2})


@pytest.fixture(scope="module")
def states(lease: Instance) -> list[FullState]:
    """All that the executable model reaches."""
    model = Interpreter(lease)
    seen = dict.fromkeys(model.initial_states())
    todo = list(seen)
    while todo:
        for step in model.steps(todo.pop()):
            if step.state is not None and step.state not in seen:
                seen[step.state] = None
                todo.append(step.state)
    return list(seen)


@pytest.fixture(scope="module")
def size(lease: Instance) -> Size:
    options = Options(threads=2, symmetry=False, slicing=False, explain_size=True)
    found = check(lease, options).size
    assert found is not None
    return found


@pytest.mark.slow(1)
def test_each_part_is_counted(lease: Instance, states: list[FullState], size: Size) -> None:
    names = [variable.name for variable in lease.variables]
    parts = {part.name: part for part in size.parts}
    groups = {f"{name.split('.')[0]}.*" for name in names}
    assert size.states == len(states)
    for name in (*names, *groups):
        inside = [at for at, n in enumerate(names) if n == name or f"{n.split('.')[0]}.*" == name]
        outside = [at for at in range(len(names)) if at not in inside]
        seen = len({tuple(state[at] for at in inside) for state in states})
        left = len({tuple(state[at] for at in outside) for state in states})
        if name not in parts:  # what never changes has no part, and one member is no group
            assert seen == 1 or len(inside) == 1
            continue
        part = parts[name]
        assert (part.values.number, part.without.number) == (seen, left)
        assert part.values.exact
        assert part.without.exact
    assert [p.without.number for p in size.parts] == sorted(p.without.number for p in size.parts)


def test_each_channel_is_counted(lease: Instance, states: list[FullState], size: Size) -> None:
    names = [variable.name for variable in lease.variables]
    assert len(size.traffic) == 5
    for channel in size.traffic:
        at = names.index(f"network.{channel.name}")
        bags = [list(state[at]) for state in states]  # type: ignore[union-attr]
        there = [sum(len(bag) for bag in every) for every in bags]  # type: ignore[arg-type]
        contents = {content for every in bags for bag in every for content in bag}  # type: ignore[union-attr]
        assert channel.most == max(there)
        assert channel.mean == pytest.approx(sum(there) / len(states))
        assert channel.contents.number == len(contents)


def test_what_bounds_a_part_is_said(size: Size) -> None:
    by = {part.name: part.bounded_by for part in size.parts}
    assert by["client.lease"] == "clients=2, leases=2"
    assert by["budget.lease expires"] == "expiries in a run, expiries=1"
    assert by["budget.lost Acquire or lost Granted"] == "1 in a run"
    assert by["network.Write"] == "1 at once for each address, clients=2, leases=2"
    assert by["client.*"] == ""


def test_of_very_many_there_is_an_estimate() -> None:
    numbers = np.arange(2_000_000, dtype=np.uint64) % np.uint64(1_500_000)
    found = Distinct()
    found.keep_masked(numbers.ctypes.data, len(numbers), 8, mask_of([2**64 - 1]))
    assert not found.count.exact
    assert found.count.number == pytest.approx(1_500_000, rel=0.02)
    assert str(found.count).startswith("about 1,")


def test_it_is_printed_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "told.json"
    ended = epochfence("check", LEASE, "--set", "leases=2", "--explain-size", "--json", file)
    assert ended.code == 0
    assert "bound first: " in ended.out
    assert '"states_without"' in file.read_text()


@pytest.mark.slow(1)
def test_a_search_that_met_a_limit_says_it_too() -> None:
    limit = psutil.Process().memory_info().rss / 2**30 + 0.03
    ended = epochfence("check", KTX, "--memory", f"{limit:.3f}", "--explain-size")
    assert ended.code == 20
    assert "states found (states without" in ended.out


def test_spark_does_not_say_it() -> None:
    ended = epochfence("check", LEASE, "--explain-size", "--engine", "spark")
    assert ended.code == 2
    assert "--explain-size needs --engine local" in ended.err
