"""Repeats a counterexample of one instance, given as data, on another instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...language import Instance
from ...model.engine.interpreter import FullState, Interpreter
from ..verdict.violation import DEADLOCK
from .plain_data import state_as_data


def still_broken(instance: Instance, name: str, trace: Mapping[str, Any]) -> bool:
    """Whether the run of a trace, as data of `Trace.as_json`, is possible in this instance, by the
    same rows, and breaks the property or deadlocks at its end.

    False says nothing about other runs. The result is also False for a run that repeats for ever.
    """
    states, steps = trace["states"], trace["steps"]
    if trace["loop"] is not None or len(states) != len(steps) + 1:
        return False
    machine = Interpreter(instance)
    begun = (s for s in machine.initial_states() if state_as_data(instance, s) == states[0])
    run = list(begun)[:1]
    for step, wanted in zip(steps, states[1:], strict=True):
        if not run:
            return False
        possible = _taken(machine, run[-1], step["action"].partition("(")[0], step["row"])
        after = next((s for s in possible if state_as_data(instance, s) == wanted), None)
        run = [] if after is None else [*run, after]
    if not run:
        return False
    if name == DEADLOCK:
        return machine.is_stuck(run[-1])
    return any(item.name == name for item in machine.broken(run))


def _taken(machine: Interpreter, state: FullState, event: str, row: str) -> Iterator[FullState]:
    """The next states by a row, given by its name and its table's event."""
    names = machine.instance.row_names
    tables = dict.fromkeys(action.table for action in machine.instance.actions)
    for table in (each for each in tables if each.partition(".")[2] == event):
        for step in machine.steps(state, table):
            if step.state is not None and names[step.row] == f"{table}/{row}":
                yield step.state
