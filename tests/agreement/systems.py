"""Random systems of some thousands of states, and all engines in all their ways on each.

Of each block of systems, half are to have a counterexample.
"""

from __future__ import annotations

import math
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from epochfence.checker.native.search.explore import Progress
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Instance, instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.model.engine.interpreter import Interpreter
from epochfence.tests.agreement.drawing import draw
from epochfence.tests.agreement.ways import (
    BLOCK,
    MOST,
    NEVER,
    PLAIN,
    PLAIN_STEPS,
    Case,
    compiled_once,
    interpreted,
    is_taken,
    plainly,
    ways_of,
)
from epochfence.tests.checker.test_random_systems import outcome, replay, verdict_of

LEAST = 1_000  # reachable states
ASKED = (700, 8_000)  # states that are asked for: mostly, there are some times as many
FIRST_STEPS = 10  # that are looked at before anything is compiled


@dataclass
class Agreement:
    """What one system came to. `ways` are the comparisons that were made of it."""

    number: int
    states: int
    verdict: str
    steps: int | None
    draws: int
    """Systems that were drawn before it, and were too small, too large or of the other kind."""
    seconds: float
    """Of processor time."""
    ways: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Wanted:
    """A system of at most so many states and steps between them, that breaks a property or doesn't
    break any."""

    states: int
    steps: int
    breaks: bool

    def look(self, progress: Progress | Result) -> None:
        """Raises _TooManyError where there are more."""
        if progress.states > self.states or progress.transitions > self.steps:
            raise _TooManyError


class _TooManyError(Exception):
    """There are more states or steps than are wanted."""


def processor_seconds() -> float:
    """Processor time of this process so far, and of those that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def agree(seed: int, number: int, folder: Path) -> Agreement:
    """Draws systems until one is of the size and kind that is wanted, and compares all that looks
    at it.

    Raises AssertionError where two don't agree.
    """
    begun, draws = processor_seconds(), 0
    chosen = ways_of(seed, number)
    most = (PLAIN, PLAIN_STEPS) if interpreted in chosen else (MOST, NEVER)
    wanted = Wanted(*most, is_taken(seed, number, "breaks", BLOCK // 2))
    while True:
        random = Random(f"{seed} {number} {draws}")
        least, highest = (math.log(min(size, wanted.states / 4)) for size in ASKED)
        with compiled_once():
            drawn = draw(random, round(math.exp(random.uniform(least, highest))))
            found = sized(drawn, random, wanted)
            if found is not None:
                instance, first, states = found
                case = Case(instance, first, states, random, folder)
                if wanted.breaks:
                    replay(instance, first)
                made = [name for way in chosen for name in way(case)]
                seconds = round(processor_seconds() - begun, 2)
                came = outcome(first)
                return Agreement(
                    number, states, came.verdict.name, came.steps, draws, seconds, made
                )
        draws += 1


def sized(
    instance: Instance, random: Random, wanted: Wanted
) -> tuple[Instance, Result, int] | None:
    """An instance of so many states, with properties of which one breaks or that all hold, and the
    run that shows it; the number of states that can be reached, whatever breaks. None where it is
    too small or large, or has no such properties."""
    left = holding_at_first(instance, random)
    broken: tuple[Instance, Result] | None = None
    may_end = False  # anywhere, as it was found to do

    while left or wanted.breaks:
        alone = only(instance, left)
        if may_end:
            alone = ending_anywhere(alone)
        try:
            result = plainly(alone, wanted.look)
            wanted.look(result)
        except _TooManyError:
            return None
        if verdict_of(result) is Verdict.HOLDS:
            whole = broken if wanted.breaks else (alone, result)
            large = result.states >= LEAST
            return (*whole, result.states) if whole is not None and large else None
        names = [item.name for item in result.properties if item.verdict == "broken"]
        if result.verdict is Verdict.DEADLOCK:
            may_end = True
        elif names[0] in left:
            left.remove(names[0])
        else:
            return None  # a range is left: who knows how many states there are
        broken = alone, result
    return None


def holding_at_first(instance: Instance, random: Random) -> list[str]:
    """The properties that a few steps at random don't break: what others are worth is soon seen."""
    machine = Interpreter(instance)
    left = {item.name: item for item in instance.properties}
    before, state = None, random.choice(list(machine.initial_states()))
    for _ in range(FIRST_STEPS):
        for name, item in list(left.items()):
            if item.kind == "invariant":
                holds = machine.holds(item.expression, state)
            else:
                holds = before is None or machine.step_holds(item, before, state)
            if not holds:
                del left[name]
        following = [step.state for step in machine.steps(state) if step.state is not None]
        if not following:
            break
        before, state = state, random.choice(following)
    return list(left)


def only(instance: Instance, names: list[str]) -> Instance:
    """The instance with some of its properties."""
    return instantiate(instance.system, instance.protocol, instance.constants, properties=names)
