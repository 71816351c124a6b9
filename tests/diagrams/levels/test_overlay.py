"""A trace on a diagram: where its instances are, and which edges it takes."""

from __future__ import annotations

import random

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.checker.trace.trace import Trace, shown_trace
from epochfence.diagrams.levels.overlay import overlay
from epochfence.diagrams.levels.page import diagrams_of
from epochfence.language import Instance, System, instantiate
from epochfence.model.engine.interpreter import Interpreter, Step
from epochfence.spec.systems import shipped
from epochfence.tests.diagrams.levels.test_page import LEASE, ORDERS


def walked(system: System, release: str, seed: int) -> tuple[Instance, Trace]:
    """A random run, of steps that change something where there are some."""
    chance = random.Random(seed)
    instance = instantiate(system, release)
    machine = Interpreter(instance)
    states = [next(iter(machine.initial_states()))]
    steps: list[Step] = []
    while len(steps) < 40:
        possible = [step for step in machine.steps(states[-1]) if step.state is not None]
        if not possible:
            break
        moving = [step for step in possible if step.state != states[-1]]
        steps.append(chance.choice(moving or possible))
        assert steps[-1].state is not None
        states.append(steps[-1].state)
    return instance, shown_trace(instance, states, steps, "")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("name", "release"), [(ORDERS, "1"), (ORDERS, "3"), (LEASE, "1"), ("replication", "4.3")]
)
def test_a_run_goes_from_state_to_state_along_edges(name: str, release: str, seed: int) -> None:
    system = shipped(name) if name == "replication" else load_system(name)
    instance, trace = walked(system, release, seed)
    diagrams = [(machine, each) for machine, each in diagrams_of(system) if each is not None]
    laid = overlay(instance, trace, diagrams)
    places = {name: dict(each) for name, each in laid.first.items()}
    for at, moves in enumerate(laid.steps, 1):
        for move in moves:
            diagram = next(each for machine, each in diagrams if machine.name == move.machine)
            ends = {
                (t.source, t.target)
                for t in diagram.transitions
                if t.moves and release in t.releases
            }
            assert (move.source, move.target) in ends
            assert places[move.machine][move.name] == move.source
            places[move.machine][move.name] = move.target
        for machine, diagram in diagrams:
            assert machine.state is not None
            value = trace.data[at][f"{machine.name}.{machine.state.data.name}"]
            known = value if isinstance(value, dict) else {machine.name: value}
            for instance_name, shown in places[machine.name].items():
                state = known[instance_name]
                assert (
                    shown == state
                    or shown in diagram.place.only_prepared
                    or not at_rest(trace, at, machine.name, diagram.place.fields[1:])
                )
    assert sum(map(len, laid.steps)) > 0


def at_rest(trace: Trace, at: int, machine: str, fields: tuple[str, ...]) -> bool:
    """Whether nothing is prepared in a state."""
    return all(trace.data[at][f"{machine}.{name}"] in (None, "none") for name in fields)
