"""Breadth-first search in plain Python: the second opinion on the native explorer."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...checker.verdict.probes import Probe, probes
from ...language import Instance
from ...model.engine.interpreter import FullState, Interpreter


@dataclass
class Reference:
    """What a search found: counts as the explorer states them, and the first faults by level.
    `first` has the depth of the states to which each row led first, 0 where no step took it."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    taken: list[int] = field(default_factory=list[int])
    first: list[int] = field(default_factory=list[int])
    broken: dict[str, int] = field(default_factory=dict[str, int])
    deadlock: int | None = None
    out_of_range: int | None = None
    met: set[Probe] = field(default_factory=set[Probe])


def search(instance: Instance, limit: int = 200_000) -> Reference:
    """Every reachable state of a small instance.

    `broken` maps a property to the number of states in its shortest counterexample, as `deadlock`
    and `out_of_range` do for theirs; `met` are the probes that something meets.
    Nothing stops the search but its end, or
    more than `limit` states (ValueError).
    """
    machine = Interpreter(instance)
    rows = len(instance.row_names)
    found = Reference(taken=[0] * rows, first=[0] * rows)
    left = set(probes(instance))

    def look(
        of: str, state: FullState, following: FullState | None = None, table: str = ""
    ) -> None:
        for probe in [x for x in left if x.of == of and (x.about == table or not table)]:
            if machine.holds(probe.expression, state, following):
                found.met.add(probe)
                left.discard(probe)

    seen: set[FullState] = set(machine.initial_states())
    frontier = list(seen)
    while frontier:
        found.depth += 1
        following: list[FullState] = []
        for state in frontier:
            _judge(machine, state, found)
            look("state", state)
            enabled = 0
            for step in machine.steps(state):
                enabled += 1
                found.taken[step.row] += 1
                found.first[step.row] = found.first[step.row] or found.depth
                look("start", state)
                look("way", state, table=step.action.table)
                if step.state is None:
                    found.out_of_range = found.out_of_range or found.depth + 1
                    continue
                for item in instance.properties:
                    if item.kind == "step" and not machine.step_holds(item, state, step.state):
                        found.broken.setdefault(item.name, found.depth + 1)
                look("step", state, step.state)
                if step.state not in seen:
                    seen.add(step.state)
                    following.append(step.state)
            found.transitions += enabled
            if not enabled:
                look("end", state)
            if not enabled and not machine.holds(instance.terminal, state):
                found.deadlock = found.deadlock or found.depth
        if len(seen) > limit:
            raise ValueError(f"more than {limit} states")
        frontier = following
    found.states = len(seen)
    return found


def _judge(machine: Interpreter, state: FullState, found: Reference) -> None:
    for item in machine.instance.properties:
        if item.kind == "invariant" and not machine.holds(item.expression, state):
            found.broken.setdefault(item.name, found.depth)
