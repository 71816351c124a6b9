"""A run from a state to the nearest one that somebody asks for, found by the checker."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...checker.check import Options, check
from ...checker.prepare import available_threads
from ...checker.trace.trace import ReplayError
from ...checker.verdict.result import Verdict
from ...language import (
    Bool,
    DeclarationError,
    Enum,
    Expression,
    Instance,
    Int,
    Key,
    Map,
    Optional,
    Property,
    Record,
    all_true,
    any_of,
    invariant,
    lift,
    position,
)
from ...language.declaration.arguments import meant
from ...language.types import Type, choices, literal
from ...model.engine.interpreter import FullState

LONGEST = 300  # characters of a condition
SECONDS, MEMORY = 30.0, 2 << 30
STUCK = "stuck"
COMPARED = re.compile(r"(?P<name>\S+?)\s*(?P<sign>!=|<=|>=|==|=|<|>)\s*(?P<value>\S+)")
BROKEN = re.compile(r"(?P<name>\w+)\s+is\s+broken")


class GoalError(ValueError):
    """A goal that is impossible. The message is one line that says why."""


@dataclass(frozen=True)
class Place:
    """A scalar part of the state, as a view names it: `scoped` has it with the variables that pick
    its instances, each with the number of that instance."""

    expression: Expression
    type: Type
    scoped: tuple[tuple[Expression, int], ...]

    def where(self, condition: Expression) -> Expression:
        """A condition on it, closed."""
        for variable, number in reversed(self.scoped):
            condition = any_of(variable, (position(variable) == number) & condition)
        return condition


def places(instance: Instance) -> dict[str, Place]:
    """The scalar parts of an instance's state that a goal may name, as `producer0.state`."""
    found: dict[str, Place] = {}
    for machine in instance.system.machines:
        for name, info in machine.fields.items():
            if f"{machine.name}.{name}" not in {item.name for item in instance.variables}:
                continue
            for shown, place in _parts(instance, name, info.expression, info.type, ()):
                if machine.key is None:
                    found[f"{machine.name}.{shown}"] = place
                    continue
                variable = machine.key.variable(f"at{len(place.scoped)}")
                seen = place.expression.at(variable)
                for number in choices(machine.key, instance.constants):
                    assert isinstance(number, int)
                    scoped = ((variable, number), *place.scoped)
                    found[f"{machine.key}{number}.{shown}"] = replace(
                        place, expression=seen, scoped=scoped
                    )
    return found


def _parts(
    instance: Instance, where: str, expression: Expression, kind: Type,
    scoped: tuple[tuple[Expression, int], ...],
) -> Iterator[tuple[str, Place]]:  # fmt: skip
    match kind:
        case Map():
            variable = kind.key.variable(f"at{len(scoped)}_{len(where)}")
            for number in choices(kind.key, instance.constants):
                assert isinstance(number, int)
                inside = (*scoped, (variable, number))
                shown = f"{where}[{kind.key}{number}]"
                yield from _parts(instance, shown, expression[variable], kind.of, inside)
        case Record():
            for name, of in kind.fields:
                part = getattr(expression, name)
                yield from _parts(instance, f"{where}.{name}", part, of, scoped)
        case Int() | Bool() | Enum() | Key() | Optional(of=Int() | Bool() | Enum() | Key()):
            yield where, Place(expression, kind, scoped)
        case _:
            pass


def goal_of(instance: Instance, text: str, known: Mapping[str, Place]) -> tuple[Property, bool]:
    """The property that is broken where the goal is met, and whether it is that nothing can happen.

    A goal is `stuck`, `NAME is broken`, or comparisons of parts of the state with `and` between
    them. Raises GoalError.
    """
    text = text.strip()
    if not text or len(text) > LONGEST:
        raise GoalError(f"a goal has 1 to {LONGEST} characters, as producer0.state = READY")
    if text == STUCK:
        return invariant("Goal", lift(True), "Nothing can happen."), True
    named = BROKEN.fullmatch(text)
    if named is not None:
        for item in instance.properties:
            if item.name == named["name"]:
                return item, False
        raise GoalError(f"no property of states or steps is called {named['name']}")
    met = all_true(*(_compared(part, known) for part in re.split(r"\s+and\s+", text)))
    return invariant("Goal", ~met, "The goal isn't met."), False


def _compared(text: str, known: Mapping[str, Place]) -> Expression:
    found = COMPARED.fullmatch(text.strip())
    if found is None:
        raise GoalError(f"{text.strip()}: write PART = VALUE, `NAME is broken` or `stuck`")
    place = known.get(found["name"])
    if place is None:
        near = meant(found["name"], known).strip()
        what = f"{found['name']} is not a part of the state with a single value"
        raise GoalError(f"{what}: {near}" if near else what)
    e, sign, value = place.expression, found["sign"].replace("==", "="), found["value"]
    if isinstance(place.type, Optional) and value == "none" and sign in ("=", "!="):
        return place.where(e == None if sign == "=" else e != None)
    kind = place.type.of if isinstance(place.type, Optional) else place.type
    return place.where(_sides(e, sign, kind, value, text))


def _sides(e: Expression, sign: str, kind: Type, value: str, text: str) -> Expression:
    match kind:
        case Bool() if value in ("yes", "no") and sign in ("=", "!="):
            return e if (value == "yes") == (sign == "=") else ~e
        case Enum() if value in kind.names and sign in ("=", "!="):
            other = literal(kind, value)
        case Key() if sign in ("=", "!=") and re.fullmatch(rf"{kind}\d{{1,4}}", value):
            e, other = position(e), lift(int(value.removeprefix(str(kind))))
        case Int() if re.fullmatch(r"-?\d{1,18}", value):
            other = lift(int(value))
        case _:
            raise GoalError(
                f"{text.strip()}: the part can't have the value {value[:40]}, or can't be compared "
                f"by {sign}"
            )
    signs: dict[str, Expression] = {
        "=": e == other, "!=": e != other, "<": e < other, "<=": e <= other, ">": e > other,
        ">=": e >= other,
    } if isinstance(kind, Int) else {"=": e == other, "!=": e != other}  # fmt: skip
    return signs[sign]


@dataclass(frozen=True)
class Found:
    """The states of a shortest run to the goal, none of them where there is no such run; `why`
    describes the explored part."""

    states: tuple[FullState, ...]
    why: str


def until(instance: Instance, state: FullState, text: str, known: Mapping[str, Place]) -> Found:
    """A shortest run from the state to one where the goal is met. Raises GoalError."""
    begun = time.monotonic()

    def hurry(_: Any) -> None:
        if time.monotonic() - begun > SECONDS:
            raise KeyboardInterrupt  # ends a search, which keeps its results

    try:
        goal, is_stuck = goal_of(instance, text, known)
        variables = tuple(
            replace(variable, initials=(value,))
            for variable, value in zip(instance.variables, state, strict=True)
        )
        begin = replace(
            instance, variables=variables, properties=(goal,), progress=(),
            system=replace(
                instance.system, properties=(goal,), progress=(), lemmas=(), unreached=()
            ),
        )  # fmt: skip
        threads = available_threads()
        options = Options(
            threads=threads, memory=MEMORY, deadlock=is_stuck, symmetry=False, brief=True
        )
        result = check(begin, options, hurry)
    except DeclarationError as error:
        raise GoalError(str(error)) from None
    except ReplayError:
        raise GoalError(f"{text}: the checker lost its way, please report it") from None
    if result.trace is not None and result.verdict in (Verdict.BROKEN, Verdict.DEADLOCK):
        return Found(result.trace.states, f"after {len(result.trace.states) - 1} steps")
    seen = f"{result.states:,} states, {result.depth} levels"
    if result.verdict is Verdict.HOLDS:
        return Found((), f"no run from here comes to it: {seen} looked at")
    return Found((), f"not within {SECONDS:.0f} seconds and {MEMORY >> 30} GiB: {seen} looked at")
