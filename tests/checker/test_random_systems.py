"""The native explorer and the plain Python search agree on random systems."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings

from epochfence.checker.check import RANGE, Options, check
from epochfence.checker.reference import Reference, search
from epochfence.checker.verdict import Result, Verdict
from epochfence.model.interpreter import Interpreter
from epochfence.spec.language import Instance, expressions, instantiate
from epochfence.spec.language.expressions import children_first
from epochfence.tests.checker.drawn_systems import instances

PLAIN = Options(symmetry=False, slicing=False)
MOST_STATES = 1_500
few = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def only(instance: Instance, properties: list[str]) -> Instance:
    """The instance with these properties alone."""
    return instantiate(
        instance.system, instance.protocol, instance.constants, properties=properties
    )


def searched(instance: Instance) -> Reference:
    """What the plain search finds; a system too large for it is no example."""
    try:
        return search(instance, MOST_STATES)
    except ValueError:
        reject()


@dataclass(frozen=True)
class Outcome:
    """A verdict, and the number of steps of the counterexample."""

    verdict: Verdict
    steps: int | None = None


def expected(reference: Reference, instance: Instance) -> Outcome:
    """The first fault by level; in a level, of a state before a deadlock before of a step."""
    found: list[tuple[int, int, Outcome]] = []
    for item in instance.properties:
        length = reference.broken.get(item.name)
        if length is not None and item.kind == "invariant":
            found.append((length, 0, Outcome(Verdict.BROKEN, length - 1)))
        elif length is not None:
            found.append((length - 1, 2, Outcome(Verdict.BROKEN, length - 1)))
    if reference.deadlock is not None:
        outcome = Outcome(Verdict.DEADLOCK, reference.deadlock - 1)
        found.append((reference.deadlock, 1, outcome))
    if reference.fault is not None:
        outcome = Outcome(Verdict.BROKEN, reference.fault - 1)
        found.append((reference.fault - 1, 2, outcome))
    return min(found, key=lambda f: f[:2])[2] if found else Outcome(Verdict.HOLDS)


def outcome(result: Result) -> Outcome:
    """What the explorer found."""
    return Outcome(result.verdict, None if result.trace is None else len(result.trace.steps))


def replayed(instance: Instance, result: Result) -> None:
    """The trace is a run of the model, and ends in what the result says."""
    assert result.trace is not None
    machine = Interpreter(instance)
    states = result.trace.states
    assert states[0] in set(machine.initial_states())
    for before, after in pairwise(states):
        assert after in [step.state for step in machine.steps(before)]
    last = list(machine.steps(states[-1]))
    properties = {item.name: item for item in instance.properties}
    broken = [p.name for p in result.properties if p.verdict == "broken"]
    if result.verdict is Verdict.DEADLOCK:
        assert not last
        assert not broken
    elif broken == [RANGE]:
        assert any(step.fault for step in last)
        assert len(states) == len(result.trace.steps)
    elif properties[broken[0]].kind == "invariant":
        assert not machine.holds(properties[broken[0]].expression, states[-1])
    else:
        assert not machine.step_holds(properties[broken[0]], states[-2], states[-1])


def compared(instance: Instance, reference: Reference) -> None:
    """The explorer in all its ways, against the search."""
    wanted = expected(reference, instance)
    counted = None
    for threads in (1, 2):
        result = check(instance, Options(threads, symmetry=False, slicing=False))
        assert outcome(result) == wanted
        counts = (result.states, result.transitions, result.depth, [n for _, n in result.rows])
        if wanted.verdict is Verdict.HOLDS:
            assert counts == (
                reference.states, reference.transitions, reference.depth, reference.taken
            )  # fmt: skip
        else:
            replayed(instance, result)
        assert counted in (None, counts)
        counted = counts
    for options in (Options(symmetry=False), Options(slicing=False), Options(threads=2)):
        result = check(instance, options)
        assert outcome(result) == wanted
        if wanted.verdict is Verdict.HOLDS:
            assert result.states <= reference.states
        else:
            replayed(instance, result)


@few
@given(instances())
def test_native_code_finds_what_a_plain_search_finds(instance: Instance) -> None:
    reference = searched(instance)
    names = [item.name for item in instance.properties]
    holding = [name for name in names if name not in reference.broken]
    compared(only(instance, holding) if holding else instance, reference)
    if holding and reference.broken:
        last = max(reference.broken, key=lambda name: reference.broken[name])
        compared(only(instance, [last]), reference)
