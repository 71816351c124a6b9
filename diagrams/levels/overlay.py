"""A trace on state diagrams: the edge of each step, and the state of each instance after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...checker.trace.trace import Trace, TraceStep
from ...checker.verdict.constant_folding import declared_rows
from ...language import Instance, Machine, Row
from ...language.types import Value
from ...model.engine.interpreter import FullState
from ..drawing.state import StateDiagram


@dataclass(frozen=True)
class Move:
    """A step that leads an instance of a machine along an edge."""

    machine: str
    name: str
    source: str
    target: str


@dataclass(frozen=True)
class Overlay:
    """The instances' first states, by machine and name, and the moves of each step."""

    first: dict[str, dict[str, str]]
    steps: tuple[tuple[Move, ...], ...]


def overlay(
    instance: Instance, trace: Trace, diagrams: Iterable[tuple[Machine, StateDiagram]]
) -> Overlay:
    """The steps of a trace along the edges of these machines' diagrams."""
    tracks = [_Track(instance, machine, diagram) for machine, diagram in diagrams]
    first = {track.machine.name: track.begin(trace.states[0]) for track in tracks}
    rows = declared_rows(instance)
    steps: list[tuple[Move, ...]] = []
    for at, step in enumerate(trace.steps):
        row = rows.get((step.table, step.row))
        # the last step reaches no state if it leaves a range
        state = trace.states[at + 1] if at + 1 < len(trace.states) else None
        moved = () if state is None else (m for t in tracks for m in t.step(step, row, state))
        steps.append(tuple(moved))
    return Overlay(first, tuple(steps))


class _Track:
    """The instances of a machine along a run, each with its state in the drawing."""

    def __init__(self, instance: Instance, machine: Machine, diagram: StateDiagram) -> None:
        self.machine = machine
        self.place = diagram.place
        places = {variable.name: at for at, variable in enumerate(instance.variables)}
        self.places = [places[f"{machine.name}.{name}"] for name in self.place.fields]
        self.shown: dict[str, str] = {}

    def begin(self, state: FullState) -> dict[str, str]:
        """The first state of each instance."""
        self.shown = {name: str(known[0]) for name, known in self.known(state)}
        return dict(self.shown)

    def known(self, state: FullState) -> Iterator[tuple[str, tuple[Value, ...]]]:
        """The name of each instance, and the values of its fields that hold a state."""
        values = [state[at] for at in self.places]
        if self.machine.key is None:
            yield self.machine.name, tuple(values)
            return
        each = [value for value in values if isinstance(value, tuple)]
        for at, known in enumerate(zip(*each, strict=True)):
            yield f"{self.machine.key}{at}", known

    def step(self, step: TraceStep, row: Row | None, state: FullState) -> Iterator[Move]:
        """The instances that a step to the state moves."""
        field = self.machine.state
        assert field is not None
        sets = row is not None and (
            (row.goto is not None and step.table.startswith(f"{self.machine.name}."))
            or any(target.op == "field" and target.data == field.data for target in row.set)
        )
        for name, known in self.known(state):
            before = self.shown[name]
            after = self.place.shown(known, before, moves=sets)
            self.shown[name] = after
            if after != before or (sets and step.actor == name):
                yield Move(self.machine.name, name, before, after)
