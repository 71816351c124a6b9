"""The parts of a condition that make it true or false in a state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..expressions import Expression, show
from ..types import Value

Scope = Mapping[Expression, Value]

_SIGNS = {"eq": ("==", "!="), "lt": ("<", ">="), "le": ("<=", ">")}


class Values(Protocol):
    """Evaluates expressions in a state, with values of the variables in scope."""

    def value(self, expression: Expression, scope: Scope) -> Value:
        """The value of an expression."""
        ...

    def instances(self, quantified: Expression, scope: Scope) -> Iterable[Scope] | None:
        """The scope of each instance of a quantifier's body; None if only the whole quantifier
        counts.
        """
        ...


@dataclass(frozen=True)
class Fact:
    """A part that is true or false by itself, with the variables in scope."""

    scope: Scope
    expression: Expression
    is_true: bool

    def __str__(self) -> str:
        e = self.expression
        if e.op in _SIGNS:
            left, right = map(show, e.args)
            return f"{left} {_SIGNS[e.op][not self.is_true]} {right}"
        text = show(e)
        return text if self.is_true else f"not {text}"


def because(values: Values, e: Expression, scope: Scope | None = None) -> Iterator[Fact]:
    """Yields the smallest parts of a condition that decide its truth; for a quantifier, each
    instance that decides it.
    """
    scope = scope or {}
    is_true = bool(values.value(e, scope))
    match e.op:
        case "not":
            yield from because(values, e.args[0], scope)
        case "if":
            decided = values.value(e.args[0], scope)
            yield from because(values, e.args[1 if decided else 2], scope)
        case "and" | "or":
            for part in e.args:
                if bool(values.value(part, scope)) == is_true:
                    yield from because(values, part, scope)
        case "all" | "any" if is_true == (e.op == "any"):
            yield from _instances(values, e, scope, is_true)
        case _:
            yield Fact(scope, e, is_true)


def _instances(values: Values, e: Expression, scope: Scope, is_true: bool) -> Iterator[Fact]:
    scopes = values.instances(e, scope)
    if scopes is None:
        yield Fact(scope, e, is_true)
        return
    for within in scopes:
        if bool(values.value(e.args[1], within)) == is_true:
            yield from because(values, e.args[1], within)
