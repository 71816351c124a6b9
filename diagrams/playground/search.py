"""A breadth-first search in the interpreter. It runs in parts, and can be ended between two
parts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

from ...language import DeclarationError
from ...model.engine.interpreter import FullState
from ..explorer.goals import Found, GoalError, Place, goal_of
from ..explorer.session import Session

MOST = 100_000  # stored states


class Search:
    """A search for a shortest run from a state to a state that meets a goal. Raises GoalError."""

    def __init__(
        self, session: Session, state: FullState, goal: str, known: Mapping[str, Place]
    ) -> None:
        try:
            self._goal, self._is_stuck = goal_of(session.instance, goal, known)
        except DeclarationError as error:
            raise GoalError(str(error)) from None
        self._session = session
        self._came: dict[FullState, FullState | None] = {state: None}
        self._open = deque([state])
        self._met = not self._is_stuck and self._is_met(state)
        self._last = (state,)

    @property
    def seen(self) -> str:
        """The progress in words."""
        return f"{len(self._came):,} states"

    def go_on(self, seconds: float) -> Found | None:
        """Continues the search for this time. Returns the result, or None if the search isn't
        finished."""
        until = time.monotonic() + seconds
        while not self._met and self._open and len(self._came) < MOST:
            if time.monotonic() > until:
                return None
            self._expand(self._open.popleft())
        if self._met:
            states = self._run(self._last)
            return Found(states, f"after {len(states) - 1} steps")
        if not self._open:
            return Found((), f"no run from here reaches it: {self.seen} searched", all_seen=True)
        return Found((), f"not within {self.seen}, and this page keeps no more")

    def _expand(self, state: FullState) -> None:
        possible = self._session.stepper.steps(state)
        is_end = True
        for step in possible:
            is_end, after = False, step.state
            if after is None:
                continue
            if self._goal.kind == "step" and not self._is_stuck and self._is_met(state, after):
                self._met, self._last = True, (state, after)
                return
            if after in self._came:
                continue
            self._came[after] = state
            self._open.append(after)
            if self._goal.kind != "step" and not self._is_stuck and self._is_met(after):
                self._met, self._last = True, (after,)
                return
        if self._is_stuck and is_end and not self._session.is_end(state):
            self._met, self._last = True, (state,)

    def _is_met(self, state: FullState, after: FullState | None = None) -> bool:
        if self._goal.kind == "step" and after is None:
            return False
        return not self._session.interpreter.holds(self._goal.expression, state, after)

    def _run(self, last: tuple[FullState, ...]) -> tuple[FullState, ...]:
        """The states from the first one to these."""
        found: list[FullState] = []
        state: FullState | None = last[0]
        while state is not None:
            found.append(state)
            state = self._came[state]
        return (*reversed(found), *last[1:])
