"""Bounded model checking and the explorer agree: verdict, length, property."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings

from epochfence.checker.check import Options, check
from epochfence.checker.ground import ground
from epochfence.checker.named_systems import load_system
from epochfence.checker.solver.bound import bound
from epochfence.checker.solver.terms import Integers, Relation, SolverError, z3
from epochfence.checker.solver.unbounded.numbers import lifted
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    Bool,
    Instance,
    Machine,
    Row,
    System,
    Table,
    constant,
    event,
    instantiate,
    invariant,
)
from epochfence.language.expressions import children_first
from epochfence.tests.checker.drawn_systems import instances
from epochfence.tests.checker.plain_search import search
from epochfence.tests.checker.test_random_systems import Outcome, expected, replay
from epochfence.tests.systems.counter import Ticker

ROOT = Path(__file__).parents[3]
MOST_STEPS = 12
ONE = {"producers": 1, "partitions": 1, "transactions": 1}
SENDER = {"partitions": 1, "records": 2, "faults": 1}


@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(instances(60))
def test_on_random_systems(instance: Instance) -> None:
    try:
        reference = search(instance, 400)
    except ValueError:
        reject()
    wanted = expected(reference, instance)
    found = bound(instance, MOST_STEPS)
    if wanted.steps is not None and wanted.steps <= MOST_STEPS:
        assert Outcome(found.verdict, len(found.trace.steps) if found.trace else None) == wanted
        replay(instance, found)
    else:
        assert found.verdict in (Verdict.HOLDS, Verdict.INCONCLUSIVE)
        # only where there is no longer run may it say that everything holds
        assert wanted.verdict is Verdict.HOLDS or found.verdict is Verdict.INCONCLUSIVE
    for item in instance.properties:
        alone = instantiate(
            instance.system, instance.protocol, instance.constants, properties=[item.name]
        )
        found = bound(alone, MOST_STEPS, only_properties=True)
        length = reference.broken.get(item.name, MOST_STEPS + 2) - 1
        assert (found.verdict is Verdict.BROKEN) == (length <= MOST_STEPS)
        if found.verdict is Verdict.BROKEN:
            assert found.trace is not None
            assert len(found.trace.steps) == length


@pytest.mark.parametrize(
    ("name", "release", "constants", "off"),
    [
        ("docs/examples/lease.py", "1", {}, ()),
        ("bench/ktx.py", None, {"V": 0}, ()),
        ("bench/ktx.py", None, {"I": 1, "K": 1, "V": 0}, ()),
        *(
            pytest.param(
                "producer-ids",
                *case,
                marks=[pytest.mark.slow, pytest.mark.long],
            )
            for case in (("2.5", {}, ()), ("4.3", {}, ("block_awaited_elsewhere",)))
        ),
    ],
)
def test_on_systems_with_a_fault(
    name: str, release: str | None, constants: dict[str, int], off: tuple[str, ...]
) -> None:
    path = ROOT / name
    system = load_system(str(path) if path.exists() else name)
    instance = instantiate(system, release, constants, switch_off=off)
    explored = check(instance, Options(symmetry=False))
    assert explored.verdict is Verdict.BROKEN
    found = bound(instance, explored.depth + 2)
    assert found.verdict is Verdict.BROKEN
    assert found.properties == explored.properties
    replay(instance, found)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "release", "constants", "depth"),
    [
        ("docs/examples/lease.py", "2", {}, 14),
        ("bench/ktx.py", None, {}, 8),
        ("docs/examples/two_phase_commit.py", None, {}, 11),
        ("bench/lamport_mutex.py", None, {}, 8),
        ("producer-ids", "3.6", {}, 8),
        ("idempotence", "2.0", SENDER, 8),
        ("idempotence", "4.3", SENDER, 8),
        ("transactions", "2.5", ONE, 8),
        ("transactions", "4.3", ONE, 8),
    ],
)
def test_on_systems_without(
    name: str, release: str | None, constants: dict[str, int], depth: int
) -> None:
    path = ROOT / name
    system = load_system(str(path) if path.exists() else name)
    found = bound(instantiate(system, release, constants), depth)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.depth == depth
    assert {p.verdict for p in found.properties} == {"holds so far"}


SMALL = {
    "producer-ids": {"brokers": 2, "handlers": 1, "largest_producer_id": 1, "faults": 0},
    "idempotence": {"partitions": 1, "records": 1, "faults": 2},
    "transactions": ONE | {"faults": 0},
}


def releases(system: System) -> list[str]:
    """All releases, but one of those that the system has no feature to tell apart by."""
    asked = {
        node.data.name
        for _, part in system.parts()
        for node in children_first(part)
        if node.op == "feature"
    }
    alike = {
        frozenset(system.protocols.features_at(release) & asked): release
        for release in system.protocols.releases
    }
    return list(alike.values())


@pytest.mark.slow
@pytest.mark.sample(1, of="engines: bounds")
@pytest.mark.parametrize(
    ("name", "release"),
    [(name, release) for name in SMALL for release in releases(load_system(name))],
)
def test_every_property_at_every_release(name: str, release: str) -> None:
    """What breaks first breaks in as many steps, then the others; what holds does so as deep as
    there are states."""
    system = load_system(name)
    left = {item.name for item in system.properties}
    while left:
        instance = instantiate(system, release, SMALL[name], properties=left)
        explored = check(instance, Options(symmetry=False))
        found = bound(instance, explored.depth)
        if explored.verdict is Verdict.HOLDS:
            assert found.verdict in (Verdict.HOLDS, Verdict.INCONCLUSIVE)
            break
        assert (found.verdict, found.properties) == (explored.verdict, explored.properties)
        left -= {item.name for item in found.properties if item.verdict == "broken"}


@pytest.mark.slow
@pytest.mark.long
def test_the_orphan_record() -> None:
    """KAFKA-14402, as the explorer finds it."""
    instance = instantiate(
        load_system("transactions"), "2.5", ONE, properties=["NoHangingTransaction"]
    )
    found = bound(instance, 25, only_properties=True)
    assert found.properties == check(instance).properties
    assert found.trace is not None
    assert len(found.trace.steps) == 19
    replay(instance, found)


machine = Machine("switch")
is_on = machine.field("on", Bool())
flip = event("flip")


def switch(*rows: Row) -> System:
    """A machine of one bit."""
    return System(
        "switch",
        (Table(machine, flip, rows),),
        (invariant("P", is_on | ~is_on, "True."),),
        terminal=True,
    )


def test_where_no_run_is_longer_everything_holds() -> None:
    found = bound(instantiate(switch(Row("on", when=~is_on, set={is_on: True}))), 5)
    assert found.verdict is Verdict.HOLDS
    assert found.depth == 1
    assert "longer than 1 step" in found.reason
    assert found.properties[0].verdict == "holds"


def test_numbers_without_bounds() -> None:
    """No limit below 7 lets the number rise that far; the run says which one does."""
    limit = constant("limit", 3, 1, 5)
    counter = Ticker(limit)
    system = counter.system(counter.below(7), to=limit, constants=(limit,))
    assert bound(instantiate(system, constants={"limit": 5}), 9).verdict is Verdict.HOLDS
    found = bound(lifted(system), 9)
    assert found.verdict is Verdict.BROKEN
    assert found.trace is not None
    assert len(found.trace.steps) == 7
    assert found.constants["limit"] >= 7


def test_products_and_divisions_without_bounds() -> None:
    """-4 is divided evenly by 4 after the first step, if the limit is large enough."""
    limit = constant("limit", 3, 1, 5)
    counter = Ticker(limit)
    number = 3 * counter.x - 7
    whole = invariant("Whole", number == (number // 5) * 5 + number % 5, "Nothing is lost.")
    few = invariant("Few", (limit * counter.x < 16) | (number % 4 != 0), "Not far.")
    system = counter.system(whole, few, to=limit, constants=(limit,))
    found = bound(lifted(system), 8)
    assert [p.name for p in found.properties if p.verdict == "broken"] == ["Few"]
    assert found.trace is not None
    assert len(found.trace.steps) == 1
    assert found.constants["limit"] >= 16


def test_what_z3_cannot_tell_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = instantiate(switch(Row("on", when=~is_on, set={is_on: True})))
    assert "time limit was reached" in bound(instance, 5, timeout=1e-9).reason
    ask = z3.Solver.check

    def at_a_loss(solver: Any, *assumed: object) -> object:
        return z3.unknown if assumed else ask(solver)

    monkeypatch.setattr(z3.Solver, "check", at_a_loss)
    found = bound(instance, 5)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "Z3 couldn't tell" in found.reason
    assert {item.verdict for item in found.properties} == {"holds so far"}


def test_a_start_that_cannot_be_says_nothing() -> None:
    grounded = ground(instantiate(switch(Row("on", when=~is_on, set={is_on: True}))))
    grounded.initials.clear()
    relation = Relation(grounded, Integers())
    with pytest.raises(SolverError, match="no initial state"):
        relation.check_start()
