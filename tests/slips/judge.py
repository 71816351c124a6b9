"""What becomes of a slip: whether the language, the search or what it says of a result notices it.

A slip that nothing notices is compared with the declaration as it was: the same steps between the
same states, and properties that mean the same, make it equivalent, which is counted apart.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

from epochfence.checker.check import check
from epochfence.checker.solver.lint import lint
from epochfence.checker.verdict.probes import TERMINAL
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import DeclarationError, Expression, Instance, System, instantiate
from epochfence.language.declaration.loading import declared
from epochfence.language.expressions import resolve
from epochfence.language.systems import NETWORK
from epochfence.language.types import (
    Bag,
    Map,
    Optional,
    Sequence,
    Set,
    Type,
    choices,
    initial_value,
)
from epochfence.model.engine.interpreter import FullState, Interpreter
from epochfence.tests.mutation.engine import Outcome
from epochfence.tests.slips.families import draw
from epochfence.tests.slips.planting import KINDS, plant

PLACE = re.compile(r"^\S*drawn\.py:\d+: ")
DRAWS = 3_000  # values of the fields, for which properties are compared


class Fate(StrEnum):
    """What became of a slip."""

    REFUSED = "refused"
    BROKEN = "broken"
    TOLD = "reported after HOLDS"
    LINTED = "reported by lint"
    INCONCLUSIVE = "inconclusive"
    EQUIVALENT = "equivalent"
    SURVIVOR = "survivor"


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


@dataclass(frozen=True)
class Slip:
    """A slip of a kind, planted into a declaration of a family: the sources before and after."""

    name: str
    kind: str
    family: str
    before: str
    after: str

    def __str__(self) -> str:
        return self.name

    @property
    def difference(self) -> str:
        """What the slip changed, and a little around it."""
        before, after = ast.unparse(ast.parse(self.before)), self.after.strip()
        start = _alike(before, after)
        end = _alike(before[start:][::-1], after[start:][::-1])
        left, right = before[max(0, start - 60) : start], before[len(before) - end :][:40]
        was, became = before[start : len(before) - end], after[start : len(after) - end]
        return f"...{left}[{was} -> {became}]{right}..."


def slips(count: int, seed: int) -> Iterator[Slip]:
    """So many slips, each planted into a declaration, all drawn with a seed."""
    random, number = Random(seed), 0
    while number < count:
        family, source = draw(random)
        kind = random.choice(sorted(KINDS))
        slipped = plant(source, kind, random)
        if slipped is not None:
            number += 1
            yield Slip(f"slip {number} of seed {seed}", kind, family, source, slipped)


def judge(those: list[Slip]) -> list[Outcome]:
    """What becomes of slips. Of a survivor the outcome tells what the slip changed."""
    with tempfile.TemporaryDirectory() as folder:
        fates = [judged(slip.before, slip.after, Path(folder)) for slip in those]
    return [
        Outcome(slip.name, slip.kind, fate, slip.difference if fate is Fate.SURVIVOR else said)
        for slip, (fate, said) in zip(those, fates, strict=True)
    ]


def judged(source: str, slipped: str, folder: Path) -> tuple[Fate, str]:
    """The fate of a slip, and the text about it."""
    file = folder / "drawn.py"
    file.write_text(slipped)
    try:
        system = declared(str(file))
        instance = instantiate(system, progress=True)
        result = check(instance)
    except DeclarationError as error:
        said = str(error)
        if "\n" in said or not PLACE.search(said):
            raise AssertionError(f"a message without a place: {said}") from error
        return Fate.REFUSED, said.rpartition("/")[2]
    if result.verdict is not Verdict.HOLDS and not result.untested:
        inconclusive = result.verdict in (Verdict.INCONCLUSIVE, Verdict.INTERRUPTED)
        return Fate.INCONCLUSIVE if inconclusive else Fate.BROKEN, result.reason
    if said := [*map(str, result.unexplained), *could_say_more(result)]:
        return Fate.TOLD, "; ".join(said)
    file.write_text(source)
    meant = declared(str(file))
    if is_equivalent(instantiate(meant, progress=True), instance):
        return Fate.EQUIVALENT, ""
    told = faults(system) - faults(meant)
    return (Fate.LINTED, "; ".join(sorted(told))) if told else (Fate.SURVIVOR, "")


def could_say_more(result: Result) -> list[str]:
    """What a result notes of properties and `terminal`, in notes that begin with the name of one,
    and of messages that no row takes."""
    names = tuple(f"{name} " for name in (*(item.name for item in result.properties), TERMINAL))
    return [note for note in result.notes if note.startswith((*names, "a message in flight"))]


def faults(system: System) -> set[str]:
    """What `lint` calls wrong of a system, whatever is reachable."""
    found = lint(system, None, system.tables)
    return {f"{item.kind}: {item.table}/{item.rows}" for item in found if item.is_error}


def is_equivalent(meant: Instance, slipped: Instance) -> bool:
    """Whether two instances take the same steps, and their properties say the same."""
    if [v.name for v in meant.variables] != [v.name for v in slipped.variables]:
        return False
    if steps(meant) != steps(slipped):
        return False
    every = [(*of.properties, *of.progress) for of in (meant, slipped)]
    names = {item.name: item for item in every[1]}
    if {item.name for item in every[0]} != set(names):
        return False
    if set(meant.system.fairness) != set(slipped.system.fairness):
        return False
    random = Random(0)
    machine = Interpreter(meant)
    states = [any_state(meant, random) for _ in range(DRAWS)]
    pairs = list(zip(states, random.sample(states, len(states)), strict=True))

    def alike(one: Expression, other: Expression, *, of_step: bool) -> bool:
        return one.same_as(other) or all(
            machine.holds(one, state, following if of_step else None)
            == machine.holds(other, state, following if of_step else None)
            for state, following in pairs
        )

    return alike(meant.terminal, slipped.terminal, of_step=False) and all(
        item.kind == names[item.name].kind
        and alike(item.expression, names[item.name].expression, of_step=item.kind == "step")
        and alike(item.premise, names[item.name].premise, of_step=False)
        for item in every[0]
    )


def steps(instance: Instance) -> set[tuple[FullState, FullState | None]]:
    """Every step that some run takes, from state to state, whatever it is called."""
    machine = Interpreter(instance)
    frontier = list(machine.initial_states())
    seen, found = set(frontier), set[tuple[FullState, FullState | None]]()
    while frontier:
        state = frontier.pop()
        for step in machine.steps(state):
            found.add((state, step.state))
            if step.state is not None and step.state not in seen:
                seen.add(step.state)
                frontier.append(step.state)
    return found


def any_state(instance: Instance, random: Random) -> FullState:
    """A state that types allow, reachable or not; nothing travels in it."""
    return tuple(
        initial_value(of.type, instance.constants)
        if of.name.startswith(f"{NETWORK}.")
        else any_value(of.type, instance, random)
        for of in instance.variables
    )


def any_value(kind: Type, instance: Instance, random: Random) -> Any:
    """A value of a type."""
    match kind:
        case Map(key, of):
            return tuple(any_value(of, instance, random) for _ in choices(key, instance.constants))
        case Set(of):
            every = choices(of, instance.constants)
            return frozenset(value for value in every if random.random() < 0.5)
        case Sequence(of) | Bag(of):
            size = random.randint(0, resolve(kind.capacity, instance.constants))
            return tuple(any_value(of, instance, random) for _ in range(size))
        case Optional(of):
            return None if random.random() < 0.5 else any_value(of, instance, random)
        case _:
            return random.choice(choices(kind, instance.constants))
