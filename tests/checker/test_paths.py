"""Paths between two conditions are those of a plain search on the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.paths import Path as Found
from epochfence.checker.paths import paths_between
from epochfence.checker.prepare import Options
from epochfence.language import (
    DeclarationError,
    Expression,
    instantiate,
    size,
)
from epochfence.language.declaration.loading import declared
from epochfence.language.declaration.typecheck import type_of
from epochfence.model.engine.interpreter import FullState, Interpreter

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
Condition = Callable[[FullState], bool]


@dataclass(frozen=True)
class Plain:
    """What a plain search finds: lengths, whether there is a cycle, and states without a path."""

    shortest: int | None
    longest: int | None
    is_endless: bool
    lost: int


def graph(machine: Interpreter) -> dict[FullState, list[FullState]]:
    """All states, each with the states that its steps lead to."""
    after: dict[FullState, list[FullState]] = {}
    left = list(machine.initial_states())
    while left:
        state = left.pop()
        if state not in after:
            after[state] = [step.state for step in machine.steps(state) if step.state is not None]
            left += after[state]
    return after


def plain(
    after: dict[FullState, list[FullState]],
    initials: list[FullState],
    begin: Condition,
    end: Condition,
) -> Plain:
    entered = {state for state in initials if begin(state) and not end(state)}
    held = {state for state in after if begin(state) and not end(state)}
    entered |= {one for state, every in after.items() if state not in held for one in every} & held
    inside, left = set[FullState](), list(entered)
    while left:
        state = left.pop()
        if state not in inside:
            inside.add(state)
            left += [one for one in after[state] if not end(one)]
    distance: dict[FullState, int] = {}
    while new := [
        state
        for state in inside - distance.keys()
        if any(end(one) or one in distance for one in after[state])
    ]:
        nearest = {s: min(0 if end(x) else distance.get(x, 1 << 30) for x in after[s]) for s in new}
        distance |= {state: length + 1 for state, length in nearest.items()}
    longest: dict[FullState, int] = {}
    while new := [
        state
        for state in distance.keys() - longest.keys()
        if all(one in longest or one not in distance for one in after[state])
    ]:
        longest |= {s: 1 + max(longest.get(one, 0) for one in after[s]) for s in new}
    starts = entered & distance.keys()
    endless = len(longest) < len(distance)
    return Plain(
        min((distance[state] for state in starts), default=None),
        None if endless else max((longest[state] for state in starts), default=None),
        bool(starts) and endless,
        len(inside) - len(distance),
    )


def system_of(file: str) -> tuple[Any, dict[str, Any]]:
    """The system of an example, and its machines' fields by name."""
    system = declared(str(EXAMPLES / file))
    return system, {
        name: info.expression
        for machine in system.machines
        for name, info in machine.fields.items()
    }


def states_of(state: Expression) -> Any:
    """The enum of a state field."""
    return type_of(state)


def conditions(file: str) -> tuple[Any, list[tuple[Expression, Expression, Expression | None]]]:
    system, fields = system_of(file)
    state = fields["state"]
    kind = states_of(state)
    if file == "retry.py":
        waits, done = state == kind.WAITING, state == kind.DONE
        return system, [(waits, done, None), (done, waits, None), (waits, fields["seen"], None)]
    client = system.interchangeable[0].variable("c")
    at = state.at(client)
    return system, [
        (at == kind.ASKING, at == kind.HOLDING, client),
        (at == kind.HOLDING, at == kind.IDLE, client),
        (at == kind.WRITING, size(fields["holders"]) == 0, client),
    ]


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("file", "protocol", "constants"),
    [("lease.py", "2", {"leases": 1, "expiries": 0}), ("retry.py", "1", {}), ("retry.py", "2", {})],
)
def test_paths_are_those_of_a_plain_search(
    file: str, protocol: str, constants: dict[str, int]
) -> None:
    system, pairs = conditions(file)
    instance = instantiate(system, protocol, constants)
    machine = Interpreter(instance)
    after, initials = graph(machine), list(machine.initial_states())
    for begin, end, variable in pairs:
        each = () if variable is None else (variable,)
        found = paths_between(instance, begin, end, each=each)
        bounds = [()] if variable is None else [((variable, value),) for value in (0, 1)]
        wanted = [
            plain(after, initials, *(holding(machine, one, bound) for one in (begin, end)))
            for bound in bounds
        ]
        shortest = [one.shortest for one in wanted if one.shortest is not None]
        longest = [one.longest for one in wanted if one.longest is not None]
        assert length(found.shortest) == min(shortest, default=None)
        assert (found.cycle is not None) == any(one.is_endless for one in wanted)
        assert found.lost == sum(one.lost for one in wanted)
        if found.cycle is None:
            assert length(found.longest) == max(longest, default=None)
        else:
            assert found.longest is None
            loop = found.cycle.trace.data[found.cycle.loop or 0]
            assert found.cycle.trace.data[-1] == loop


def holding(machine: Interpreter, condition: Expression, bound: Any) -> Condition:
    return cache(lambda state: machine.holds(condition, state, bound=bound))


def length(path: Found | None) -> int | None:
    return None if path is None else path.length


def test_a_cycle_makes_a_path_unbounded() -> None:
    system, fields = system_of("retry.py")
    state = fields["state"]
    kind = states_of(state)
    found = paths_between(instantiate(system, "1"), state == kind.WAITING, state == kind.DONE)
    assert (found.longest, found.shortest is not None) == (None, True)
    assert found.cycle is not None
    rows = [step.row for step in found.cycle.trace.steps[found.cycle.loop :]]
    assert rows
    assert found.cycle.first == 1


def test_what_is_no_pair_of_conditions_or_no_whole_search_is_refused() -> None:
    system, fields = system_of("lease.py")
    instance = instantiate(system, "2")
    free, none = size(fields["holders"]) == 0, size(fields["holders"]) == 2
    with pytest.raises(DeclarationError, match="its premise is its goal"):
        paths_between(instance, free, free)
    with pytest.raises(DeclarationError, match="not a condition"):
        paths_between(instance, fields["newest"], free)
    with pytest.raises(DeclarationError, match="not all states were found: the memory limit"):
        paths_between(instance, free, ~free, Options(memory=1))
    found = paths_between(instance, free, none)
    assert (found.shortest, found.longest, found.cycle) == (None, None, None)
    assert found.lost > 0
