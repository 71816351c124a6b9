"""What becomes of mutants: which property, test or count tells them from the original.

In this order:

* **properties**: in a scenario with the row, a property breaks that holds without the fault, a
  value leaves its range, or there is a deadlock;
* **coverage**: a row is taken that no run of the scenario takes without the fault, or none takes
  one that is taken without it; a test asks of each row that some run takes it;
* **answers**: a test of answers in given states fails (`answers`);
* **counts**: states, transitions, depth or how often a row is taken are others than recorded in
  `baseline.tsv`, which is a test as well, but one that can't say what is wrong.

Of those left, a mutant is *equivalent* within the scenarios' bounds if it reaches the very same
states as the original, whole ones, with nothing sliced away. Else it is a *survivor*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import DeclarationError
from epochfence.tests.mutation.answers import Answers
from epochfence.tests.mutation.engine import Outcome
from epochfence.tests.mutation.mutants import Mutant
from epochfence.tests.mutation.scenarios import Counts, TooLargeError, Trial, found, run
from epochfence.tests.mutation.together import AT_ONCE, Compiled

MOST_TRIALS = 5  # scenarios that look for a broken property once another difference is known
NEVER_TAKEN = "its row is never taken"
OTHER_STATES = "other states, in the same numbers"
BLOW_UP = 10  # times the states of the original: more is another behaviour for certain

Fate: TypeAlias = Literal["properties", "coverage", "answers", "counts", "equivalent", "survivor"]
KILLED: tuple[Fate, ...] = ("properties", "coverage", "answers", "counts")


@dataclass
class _Case:
    """A mutant, the differences from the original so far, and the scenarios that it was run in."""

    mutant: Mutant
    told: dict[Fate, str] = field(default_factory=dict["Fate", str])
    tried: list[Trial] = field(default_factory=list[Trial])

    def goes_on(self, most: int) -> bool:
        """Whether it is run in another scenario, after so many that showed a difference."""
        return "properties" not in self.told and (not self.told or len(self.tried) < most)

    def outcome(self) -> Outcome:
        name, machine = self.mutant.name, self.mutant.machine
        for fate in (*KILLED, "equivalent"):
            if fate in self.told:
                return Outcome(name, machine, fate, self.told[fate])
        return Outcome(name, machine, "survivor", OTHER_STATES if self.tried else NEVER_TAKEN)


def judge(
    mutants: list[Mutant], trials: list[Trial], answers: Answers, *, quick: bool = False
) -> list[Outcome]:
    """Runs mutants in each of the scenarios that have them, until a property kills them or
    (`quick`) anything does; then tests of answers on those left.

    Where anything else has, no more than MOST_TRIALS are spent on the search for a property.
    """
    cases = [_Case(mutant) for mutant in mutants]
    most = 1 if quick else MOST_TRIALS
    for trial in trials:
        here = [case for case in cases if case.goes_on(most) and matters(case.mutant, trial)]
        for case, told in zip(here, seen([case.mutant for case in here], trial), strict=True):
            case.tried.append(trial)
            if told is not None:
                fate, by = told
                case.told.setdefault(fate, f"{trial}{by}")
    enough = KILLED if quick else ("properties", "coverage")
    for case in cases:
        if case.told.keys().isdisjoint(enough) and answers.differ(case.mutant):
            case.told["answers"] = ""
    _note_equivalents([case for case in cases if case.tried and not case.told], trials)
    return [case.outcome() for case in cases]


def matters(mutant: Mutant, trial: Trial) -> bool:
    """Whether the mutant may do something else in a scenario: its row is there, and is taken where
    only what it does has changed."""
    for place in mutant.within(trial.system):
        names = {f"{place.table.name}/{row}" for row in place.touched}
        if mutant.inside:
            there = names & trial.row_names
            return bool(there) and not there.isdisjoint(trial.counts.taken)
        return names <= trial.row_names
    return False


# A scenario's runs -------------------------------------------------------------------------------

Seen: TypeAlias = tuple[Fate, str] | None


def seen(mutants: list[Mutant], trial: Trial) -> Iterator[Seen]:
    """What runs of the scenario see of each mutant."""
    for at in range(0, len(mutants), AT_ONCE):
        yield from _seen_together(mutants[at : at + AT_ONCE], trial)


def _seen_together(mutants: list[Mutant], trial: Trial) -> Iterator[Seen]:
    """The same for mutants in one system; for fewer where they have an effect on each other."""
    compiled = _compiled(mutants, trial)
    if compiled is not None:
        for number in range(1, len(mutants) + 1):
            yield _told(trial, partial(compiled.run, number))
    elif len(mutants) > 1:
        half = len(mutants) // 2
        yield from _seen_together(mutants[:half], trial)
        yield from _seen_together(mutants[half:], trial)
    else:
        yield seen_alone(mutants[0], trial)


def _compiled(mutants: list[Mutant], trial: Trial) -> Compiled | None:
    """The mutants in one system, if that comes to what is recorded without a fault."""
    try:
        compiled = Compiled(trial, mutants)
        broken, counts = compiled.run(0)
        return compiled if not broken and counts.recorded == trial.recorded else None
    except (DeclarationError, TooLargeError):
        return None


def seen_alone(mutant: Mutant, trial: Trial) -> Seen:
    """What a run of the scenario sees of the mutant in a system of its own.

    Raises RuntimeError where the scenario doesn't come to what is recorded without a fault.
    """
    holds, broken = trial.counts.holds, trial.counts.broken

    def alone(most: int) -> tuple[str, Counts]:
        result = run(trial.scenario.instance(mutant.of(trial.system), holds), most)
        return _broken(result, trial), found(result, holds, broken)

    return _told(trial, alone)


def _told(trial: Trial, outcome: Callable[[int], tuple[str, Counts]]) -> Seen:
    try:
        broken, counts = outcome(BLOW_UP * trial.recorded.states)
    except TooLargeError:
        return "counts", ": too many states"
    except DeclarationError as error:
        return "properties", f": {error}"
    if broken:
        return "properties", f": {broken}"
    if counts.taken != trial.counts.taken:
        return "coverage", ""
    return None if counts.recorded == trial.recorded else ("counts", "")


def _broken(result: Result, trial: Trial) -> str:
    """The property that is broken, or what else is wrong, in the words of `Compiled.run`."""
    if result.verdict is Verdict.HOLDS:
        return ""
    if result.verdict is Verdict.DEADLOCK:
        return "deadlock"
    broken = {item.name for item in result.properties if item.verdict == "broken"}
    invariants = {item.name for item in trial.system.properties if item.kind == "invariant"}
    return broken.pop() if broken <= invariants else "a step"


# Equivalence -------------------------------------------------------------------------------------


def _note_equivalents(cases: list[_Case], trials: list[Trial]) -> None:
    """Notes those that reach the states of the original in each scenario that they were run in."""
    for trial in trials:
        here = [case for case in cases if trial in case.tried]
        for at in range(0, len(here), AT_ONCE):
            part = here[at : at + AT_ONCE]
            alike = _alike([case.mutant for case in part], trial)
            cases = [case for case in cases if case not in part or case.mutant in alike]
    for case in cases:
        case.told["equivalent"] = ""


def _alike(mutants: list[Mutant], trial: Trial) -> list[Mutant]:
    """Those of the mutants that reach the same states in the same steps."""
    try:
        compiled = Compiled(trial, mutants, slicing=False)
    except DeclarationError:
        if len(mutants) == 1:
            return []
        half = len(mutants) // 2
        return _alike(mutants[:half], trial) + _alike(mutants[half:], trial)
    original = compiled.levels(0)
    return [
        mutant
        for number, mutant in enumerate(mutants, 1)
        if compiled.levels(number, original) is not None
    ]
