"""The variables of quantifiers: their scopes, and values in their place."""

from __future__ import annotations

from functools import lru_cache

from ..declaration.errors import DeclarationError
from ..expressions import QUANTIFIERS, Expression, children_first, rewrite
from ..types import Constants, Type, choices, literal


@lru_cache(maxsize=1 << 16)
def free_variables(expression: Expression) -> frozenset[Expression]:
    """The variables and elements that nothing inside the expression binds."""
    if expression.op == "variable":
        return frozenset({expression})
    inside = [free_variables(argument) for argument in expression.args]
    if expression.op in QUANTIFIERS:
        return (inside[1] - {expression.args[0]}) | (inside[0] - {expression.args[0]})
    free = frozenset[Expression]().union(*inside)
    return free | {expression} if expression.op == "element" else free


def bound_name(bound: Expression) -> str | None:
    """The name of a variable or an element; None for anything else."""
    match bound.op:
        case "variable":
            return bound.data.name
        case "element":
            return bound.data
        case _:
            return None


def check_scopes(expression: Expression, names: frozenset[str] = frozenset()) -> None:
    """Raises DeclarationError if a quantifier binds one of `names`, or the variable of a quantifier
    around it that its body uses: the inner variable would capture the outer one in a helper's
    argument. A helper is allowed if it doesn't use the variable that it binds.
    """
    for node in children_first(expression):
        if node.op not in QUANTIFIERS:
            continue
        bound, body = node.args
        name = bound_name(bound)
        if name in names:
            raise DeclarationError(f"`{node}` binds {name} a second time: choose another name")
        for inner in children_first(body):
            if inner.op not in QUANTIFIERS or bound_name(inner.args[0]) != name:
                continue
            captures = inner.args[0].same_as(bound) and bound in free_variables(inner.args[1])
            if captures or bound not in free_variables(body):
                raise DeclarationError(
                    f"`{inner}` binds {name} a second time inside `{node}`: choose another name"
                )


def instances(bound: Expression, body: Expression, constants: Constants) -> list[Expression]:
    """`body` with the variable `bound` replaced by each of its values in turn."""
    domain: Type = bound.data.type
    return [
        substitute(body, {bound: literal(domain, value)}) for value in choices(domain, constants)
    ]


def substitute(body: Expression, values: dict[Expression, Expression]) -> Expression:
    """`body` with each free occurrence of the given variables replaced."""
    if not values:
        return body

    def change(node: Expression) -> Expression | None:
        if node.op == "position" and node.args[0] in values:
            value = values[node.args[0]]
            return value if value.op == "const" else None  # an instance's number is its position
        if node.op in QUANTIFIERS and node.args[0] in values:
            bound, inner = node.args
            others = {name: value for name, value in values.items() if not name.same_as(bound)}
            return Expression(node.op, (bound, substitute(inner, others)), node.data)
        return values.get(node)

    return rewrite(body, change)
