"""Takes a run step by step in a test: `replay --pytest` writes tests with this module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...language import instantiate
from ...model.engine.interpreter import FullState, Interpreter, Step
from ..named_systems import load_system
from .trace import TraceStep, shown_step, shown_trace

Change = tuple[str, str, str]
"""Where something changes, what it is before and what it is after, as a trace shows it."""


class Run:
    """A run of a system's tables, at a release, with constants, and with or without features.

    It begins in the initial state with these printed values of variables. Only variables with
    several initial values are needed. Raises DeclarationError for unknown names, AssertionError if
    no run begins with these values.
    """

    def __init__(
        self,
        system: str,
        protocol: str,
        constants: Mapping[str, int],
        *,
        switch_on: Iterable[str] = (),
        switch_off: Iterable[str] = (),
        initial: Mapping[str, str] | None = None,
    ) -> None:
        self.instance = instantiate(
            load_system(system),
            protocol,
            constants,
            switch_on=switch_on,
            switch_off=switch_off,
            progress=True,
        )
        self.machine = Interpreter(self.instance)
        begins = (initial or {}).items()
        starts = [s for s in self.machine.initial_states() if begins <= self._shown(s).items()]
        if not starts:
            raise AssertionError(f"not an initial state of {system} at {protocol}")
        self.states: list[FullState] = [starts[0]]
        self.steps: list[Step] = []

    def _shown(self, state: FullState) -> dict[str, str]:
        return dict(shown_trace(self.instance, [state], [], "").initial)

    def takes(self, actor: str, action: str, row: str, *changes: Change) -> None:
        """Takes the step of an actor on an event or message. Raises AssertionError if it isn't
        possible, has another row, or makes other changes.
        """
        before = self.states[-1]
        number = len(self.states)
        possible = [
            (step, shown_step(self.instance, step, before, step.state))
            for step in self.machine.steps(before)
        ]
        here = [(step, shown) for step, shown in possible if shown.actor == actor]
        same = [(step, shown) for step, shown in here if shown.action == action]
        if not same:
            others = "; ".join(shown.action for _, shown in here) or "nothing"
            raise AssertionError(f"step {number}: {actor} can't take {action}, but {others}")
        by_row = [(step, shown) for step, shown in same if shown.row == row]
        if not by_row:
            found = same[0][1]
            raise AssertionError(
                f"step {number}, {actor}, {action}: row {found.row}, not {row}\n{_listed(found)}"
            )
        for step, shown in by_row:
            if shown.changes == changes:
                self.steps.append(step)
                self.states += [] if step.state is None else [step.state]
                return
        raise AssertionError(
            f"step {number}, {actor}, {action}, row {row}: it changes\n{_listed(by_row[0][1])}"
        )

    @property
    def broken(self) -> set[str]:
        """The properties that the last state or the last step breaks; `deadlock` if the last state
        has no next step but isn't terminal.
        """
        stuck = {"deadlock"} if self.machine.is_stuck(self.states[-1]) else set[str]()
        return {item.name for item in self.machine.broken(self.states)} | stuck

    @property
    def leaves_range(self) -> str:
        """The reason that the last step reaches no state, if it would leave a type's range; else
        "".
        """
        return self.steps[-1].out_of_range if self.steps else ""


def _listed(step: TraceStep) -> str:
    return "\n".join(f"  {change!r}" for change in step.changes) or "  nothing"
