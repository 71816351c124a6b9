"""Goals of a run, as text: a part of the state with a value, a broken property, or a deadlock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...language import (
    Bool,
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
STUCK = "stuck"
COMPARED = re.compile(r"(?P<name>\S+?)\s*(?P<sign>!=|<=|>=|==|=|<|>)\s*(?P<value>\S+)")
BROKEN = re.compile(r"(?P<name>\w+)\s+is\s+broken")


class GoalError(ValueError):
    """A goal that is impossible. The message is one line with the reason."""


@dataclass(frozen=True)
class Place:
    """A scalar part of the state, with the name that views show. `scoped` are the variables for
    instances in its expression, each with the number of the instance."""

    expression: Expression
    type: Type
    scoped: tuple[tuple[Expression, int], ...]

    def where(self, condition: Expression) -> Expression:
        """A closed condition on the part."""
        for variable, number in reversed(self.scoped):
            condition = any_of(variable, (position(variable) == number) & condition)
        return condition


@dataclass(frozen=True)
class Found:
    """The states of a shortest run to the goal; empty without such a run. `why` describes the
    explored part, and `all_seen` is true if the search explored every state from its start."""

    states: tuple[FullState, ...]
    why: str
    all_seen: bool = False


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
    instance: Instance,
    where: str,
    expression: Expression,
    kind: Type,
    scoped: tuple[tuple[Expression, int], ...],
) -> Iterator[tuple[str, Place]]:
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
    """The property that a run breaks when it meets the goal, and whether the goal is a deadlock.

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
