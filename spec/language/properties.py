"""What must hold: of every state, or of every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import DeclarationError
from .expressions import Expression, children_first
from .typecheck import type_of
from .types import Bool


@dataclass(frozen=True)
class Property:
    """An invariant (over a state) or a step property (over a step)."""

    name: str
    kind: Literal["invariant", "step"]
    expression: Expression
    sentence: str
    source: str = ""


def invariant(name: str, expression: Expression, sentence: str, source: str = "") -> Property:
    """A property of every reachable state.

    Raises DeclarationError where it is no condition or speaks of the next state.
    """
    _check(name, expression, speaks_of_next=False)
    return Property(name, "invariant", expression, sentence, source)


def step_property(name: str, expression: Expression, sentence: str, source: str = "") -> Property:
    """A property of every step: `after(...)` is a value in the next state.

    Raises DeclarationError where it is no condition or never speaks of the next state.
    """
    _check(name, expression, speaks_of_next=True)
    return Property(name, "step", expression, sentence, source)


def _check(name: str, expression: Expression, *, speaks_of_next: bool) -> None:
    try:
        kind = type_of(expression)
    except DeclarationError as error:
        raise DeclarationError(f"property {name}: {error}") from None
    if not isinstance(kind, Bool):
        raise DeclarationError(f"property {name}: `{expression}` is {kind} and no condition")
    if any(node.op == "after" for node in children_first(expression)) != speaks_of_next:
        use = "a step property uses after(...)" if speaks_of_next else "an invariant has no after()"
        raise DeclarationError(f"property {name}: {use}")
