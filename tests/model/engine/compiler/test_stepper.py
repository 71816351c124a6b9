"""Compiled rows do what the interpreter does with them, on drawn systems and the shipped ones."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from epochfence import language as lang
from epochfence.language import Instance, instantiate
from epochfence.model.engine.compiler.stepper import Bound, Stepper
from epochfence.model.engine.interpreter import FullState, Interpreter, Remembering, Step
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.checker.drawn_systems import instances

STATES = 40


def every_step(instance: Instance, state: FullState) -> tuple[list[object], list[object]]:
    """The steps of a state, as the one and as the other has them: row, fault or not, the state."""
    found: list[list[object]] = []
    for steps in (Interpreter(instance).steps(state), Stepper(instance).steps(state)):
        found.append(
            [(s.state is None or s.row, s.bound, s.state, bool(s.out_of_range)) for s in steps]
        )
    return found[0], found[1]


@pytest.mark.slow(1)
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ),
)
@given(instances())
def test_drawn_systems_step_alike(instance: Instance) -> None:
    seen = list(instance.initial_states())[:STATES]
    for state in seen:
        expected, found = every_step(instance, state)
        assert found == expected
        new = [s for _, _, s, _ in expected if s is not None and s not in seen]  # type: ignore[misc]
        seen.extend(dict.fromkeys(new[: STATES - len(seen)]))


def test_of_a_part_that_its_whole_replaces_nothing_is_left() -> None:
    key = lang.Key("a", 2)
    machine, go = lang.Machine("m"), lang.event("go")
    field = machine.field("f", lang.Map(key, lang.Int(0, 1)))
    each = lang.each(key.variable("k"), 1)
    row = lang.Row("row", set={field[0]: field[0] - 1, field: each})  # -1 is out of range
    system = lang.System("s", (lang.Table(machine, go, rows=(row,)),), (), terminal=True)
    instance = instantiate(system)
    (state,) = instance.initial_states()
    expected, found = every_step(instance, state)
    assert found == expected
    assert [reached for _, _, reached, _ in found] == [((1, 1),)]  # type: ignore[misc]


def one_step(
    stepper: Stepper, instance: Instance, state: FullState, random: Random
) -> tuple[int, Bound, Step] | None:
    """A step at random: of any action that has one."""
    for index in random.sample(range(len(instance.actions)), len(instance.actions)):
        bindings = list(stepper.bindings(index, state))
        for bound in random.sample(bindings, len(bindings)):
            if (step := stepper.take(index, state, bound)) is not None:
                return index, bound, step
    return None


def walk(instance: Instance, steps: int, seed: int) -> int:
    """Goes at random by compiled rows, and has the interpreter take each step as well."""
    random, stepper, interpreter = Random(seed), Stepper(instance), Interpreter(instance)
    starts = list(instance.initial_states())
    state, taken = random.choice(starts), 0
    while taken < steps:
        found = None if random.random() < 0.005 else one_step(stepper, instance, state, random)
        if found is None:
            state = random.choice(starts)
            continue
        index, bound, step = found
        before = sum(len(other.rows) for other in instance.actions[:index])
        action = instance.actions[index]
        expected = interpreter._take(action, before, interpreter.as_mapping(state), dict(bound))
        assert expected is not None
        assert (step.row, step.state) == (expected.row, expected.state), step.action.table
        assert step.state is not None
        state, taken = step.state, taken + 1
    return taken


@pytest.mark.slow(1)
@pytest.mark.sample(1, of="engines: a stepper")
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("release", ["2.0", "4.0.0", "4.3"])
def test_shipped_systems_step_alike(name: str, release: str) -> None:
    assert walk(instantiate(shipped(name), release), 300, seed=1) == 300


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SHIPPED)
def test_long_walks_step_alike(name: str, seed: int) -> None:
    assert walk(instantiate(shipped(name)), 2_500, seed) == 2_500


@pytest.mark.slow(1)
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_remembered_is_what_is_evaluated(name: str, seed: int) -> None:
    instance = instantiate(shipped(name))
    random, remembering, interpreter = Random(seed), Remembering(instance), Interpreter(instance)
    states, state = list(instance.initial_states()), None
    for _ in range(40):
        state = random.choice(states) if state is None else state
        steps = list(interpreter.steps(state))
        assert list(remembering.steps(state)) == steps
        reached = [step.state for step in steps if step.state is not None]
        state = random.choice(reached) if reached else None
