"""Extremes and majorities: numbers and truths that are made of other operators."""

from __future__ import annotations

from ..declaration.arguments import check_kind
from ..declaration.errors import DeclarationError
from ..declaration.typecheck import type_of
from ..expressions import Expression, Operand, lift
from ..types import Key, Set
from .operators import if_, size


def minimum(a: Operand, b: Operand) -> Expression:
    """The smaller of two numbers."""
    return if_(lift(a) <= b, a, b)


def maximum(a: Operand, b: Operand) -> Expression:
    """The larger of two numbers."""
    return if_(lift(a) <= b, b, a)


def max_of(bound: Expression, number: Operand, default: Operand = None) -> Expression:
    """The largest value of `number` over all values of the variable or element `bound`.

    `default` is the result for a collection without elements. An element needs it, and a variable
    must not have it: raises DeclarationError otherwise.
    """
    return _extreme("max", bound, number, default)


def min_of(bound: Expression, number: Operand, default: Operand = None) -> Expression:
    """The smallest value of `number`; `default` and errors are those of `max_of`."""
    return _extreme("min", bound, number, default)


def _extreme(op: str, bound: Expression, number: Operand, default: Operand) -> Expression:
    found = Expression(op, (bound, lift(number)))
    if bound.op != "element":
        if default is not None:
            raise DeclarationError(f"`{found}`: a variable has a value: leave out the default")
        return found
    if default is None:
        raise DeclarationError(
            f"`{found}`: give default=..., its value if `{bound.args[0]}` is empty"
        )
    return if_(size(bound.args[0]) == 0, default, found)


def majority(votes: Expression, of: Key | Operand) -> Expression:
    """Whether the set `votes` has more than half of `of`: a key's instances, a number or a set.

    Raises DeclarationError if `votes` is no set, or not a set of that key's instances.
    """
    check_kind("majority", votes, Expression)
    kind = type_of(votes)
    if not isinstance(kind, Set):
        raise DeclarationError(f"`{votes}` is {kind} and not a set: majority takes a set")
    if isinstance(of, Key):
        if kind.of != of:
            raise DeclarationError(f"`{votes}` is {kind}: write a set of {of}s")
        return size(votes) * 2 > of.size
    whole = lift(of)
    return size(votes) * 2 > (size(whole) if isinstance(type_of(whole), Set) else whole)
