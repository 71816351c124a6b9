"""A shortest run from a state to a state that meets a goal, found by the checker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...checker.check import Options, check
from ...checker.prepare import available_threads
from ...checker.trace.trace import ReplayError
from ...checker.verdict.result import Verdict
from ...language import DeclarationError, Instance
from ...model.engine.interpreter import FullState
from .goals import Found, GoalError, Place, goal_of

SECONDS, MEMORY = 30.0, 2 << 30


def until(
    instance: Instance,
    state: FullState,
    text: str,
    known: Mapping[str, Place],
    cancelled: Callable[[], bool] = lambda: False,
) -> Found:
    """A shortest run from the state to a state that meets the goal. The search ends early if it is
    `cancelled`. Raises GoalError."""
    begun = time.monotonic()

    def hurry(_: Any) -> None:
        if cancelled() or time.monotonic() - begun > SECONDS:
            raise KeyboardInterrupt  # ends a search and keeps its results

    try:
        goal, is_stuck = goal_of(instance, text, known)
        variables = tuple(
            replace(variable, initials=(value,))
            for variable, value in zip(instance.variables, state, strict=True)
        )
        begin = replace(
            instance,
            variables=variables,
            properties=(goal,),
            progress=(),
            system=replace(
                instance.system, properties=(goal,), progress=(), lemmas=(), unreached=()
            ),
        )
        threads = available_threads()
        options = Options(
            threads=threads, memory=MEMORY, deadlock=is_stuck, symmetry=False, brief=True
        )
        result = check(begin, options, hurry)
    except DeclarationError as error:
        raise GoalError(str(error)) from None
    except ReplayError:
        raise GoalError(f"{text}: internal error of the checker, please report it") from None
    if result.trace is not None and result.verdict in (Verdict.BROKEN, Verdict.DEADLOCK):
        return Found(result.trace.states, f"after {len(result.trace.states) - 1} steps")
    seen = f"{result.states:,} states, {result.depth} levels"
    if result.verdict is Verdict.HOLDS:
        return Found((), f"no run from here reaches it: {seen} searched", all_seen=True)
    if cancelled():
        return Found((), f"cancelled: {seen} searched")
    return Found((), f"not within {SECONDS:.0f} seconds and {MEMORY >> 30} GiB: {seen} searched")
