"""Evaluates declared conditions from constants and features, without a state."""

from __future__ import annotations

from collections.abc import Collection

from ..declaration.errors import DeclarationError
from ..expressions import Expression, resolve
from ..types import Constants


def truth(e: Expression, constants: Constants, features: Collection[str]) -> bool | None:
    """The condition's truth if constants and features decide it; else None."""

    def of(part: Expression) -> bool | None:
        return truth(part, constants, features)

    match e.op:
        case "const":
            return bool(e.data) if isinstance(e.data, bool) else None
        case "feature":
            return e.data.name in features
        case "not":
            inner = of(e.args[0])
            return None if inner is None else not inner
        case "and" | "or":
            parts = [of(part) for part in e.args]
            decides = e.op == "or"
            if decides in parts:
                return decides
            return None if None in parts else not decides
        case "all" | "any":
            inner = of(e.args[1])
            surely = inner is not None and (e.args[0].op == "variable" or inner == (e.op == "all"))
            return inner if surely else None
        case "if":
            chosen = of(e.args[0])
            return None if chosen is None else of(e.args[1 if chosen else 2])
        case "eq" | "lt" | "le":
            try:
                left, right = (resolve(part, constants) for part in e.args)
            except DeclarationError:
                return None
            return (
                left == right if e.op == "eq" else left < right if e.op == "lt" else left <= right
            )
        case _:
            return None
