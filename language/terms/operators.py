"""Operators without a Python symbol: conditionals, quantifiers, records, collections, numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..declaration.arguments import check_name, shown
from ..declaration.errors import DeclarationError
from ..expressions import Expression, Operand, lift

if TYPE_CHECKING:
    from ..types import Int


def if_(condition: Operand, then: Operand, otherwise: Operand) -> Expression:
    """`then` if `condition` holds, else `otherwise`."""
    return Expression("if", (lift(condition), lift(then), lift(otherwise)))


def after(expression: Expression) -> Expression:
    """The value in the next state: for step properties."""
    return Expression("after", (expression,))


# Quantifiers ----------------------------------------------------------------------------------


def element(name: str, of: Expression) -> Expression:
    """A variable for a quantifier: it ranges over the elements of the set, sequence or bag `of`."""
    check_name("an element", name)
    return Expression("element", (lift(of),), name)


def all_of(bound: Expression, *further: Operand) -> Expression:
    """Whether the condition, which is the last argument, holds for every value of the variable or
    element `bound`: `all_of(p, p != 0)`. With several variables, for all of their values together:
    `all_of(p, n, count[p][n] < 3)`.

    Raises DeclarationError if the condition is missing, or a further variable is none.
    """
    return _nested("all", bound, further)


def any_of(bound: Expression, *further: Operand) -> Expression:
    """Whether the condition, which is the last argument, holds for some value of `bound`; with
    several variables, for some of their values together: `any_of(p, n, count[p][n] == 3)`.

    Raises DeclarationError as `all_of` does.
    """
    return _nested("any", bound, further)


def _nested(op: str, bound: Expression, further: tuple[Operand, ...]) -> Expression:
    """One quantifier or map for each variable, the first outermost."""
    if not further:
        what = "value" if op == "each" else "condition"
        raise DeclarationError(f"{_WRITTEN[op]}({bound}): give a {what} behind the variable")
    *others, body = further
    result = lift(body)
    for variable in reversed((bound, *others)):
        if not isinstance(variable, Expression):
            raise DeclarationError(
                f"{_WRITTEN[op]}({bound}, ...): {shown(variable)} is not a variable"
            )
        result = Expression(op, (variable, result))
    return result


_WRITTEN = {"all": "all_of", "any": "any_of", "each": "each"}


def count_of(bound: Expression, condition: Operand) -> Expression:
    """The number of values of `bound` for which `condition` holds."""
    return Expression("count", (bound, lift(condition)))


def sum_of(bound: Expression, number: Operand) -> Expression:
    """The sum of `number` over every value of the variable or element `bound`."""
    return Expression("sum", (bound, lift(number)))


def each(bound: Expression, *further: Operand) -> Expression:
    """The map from every key `bound` to a value, which is the last argument; with several
    variables, a map of maps: `each(p, n, 0)`.

    Raises DeclarationError if the value is missing, or a further variable is none.
    """
    return _nested("each", bound, further)


def those(bound: Expression, condition: Operand) -> Expression:
    """The set of the values of `bound` for which `condition` holds."""
    return Expression("those", (bound, lift(condition)))


# Values ---------------------------------------------------------------------------------------


def some(value: Operand) -> Expression:
    """An optional that holds `value`. A plain value is converted where an optional is expected."""
    return Expression("some", (lift(value),))


def first_of(bound: Expression, condition: Operand) -> Expression:
    """The first element that satisfies `condition`, in the sequence that `bound` ranges over, as an
    optional. For a variable it is the first value of its type. The first of a key's instances
    depends on their order: they are then not interchangeable.
    """
    return Expression("first_of", (bound, lift(condition)))


def set_of(*elements: Operand) -> Expression:
    """The set of `elements`."""
    return Expression("set_of", tuple(lift(e) for e in elements))


def sequence_of(*elements: Operand) -> Expression:
    """The sequence of `elements`."""
    return Expression("sequence_of", tuple(lift(e) for e in elements))


def size(collection: Expression) -> Expression:
    """The number of elements of a set, a sequence or a bag."""
    return Expression("size", (collection,))


def replace(record: Expression, /, **fields: Operand) -> Expression:
    """The record with these fields changed."""
    names = tuple(sorted(fields))
    return Expression("replace", (record, *(lift(fields[name]) for name in names)), names)


def append(sequence: Expression, value: Operand) -> Expression:
    """The sequence with `value` at its end. Beyond the capacity the checker reports an error."""
    return Expression("append", (sequence, lift(value)))


def push(sequence: Expression, value: Operand) -> Expression:
    """The sequence with `value` at its end. A full sequence drops its first element, as a cache
    does.
    """
    return Expression("push", (sequence, lift(value)))


def insert_by(sequence: Expression, value: Operand, field: str) -> Expression:
    """The sequence with `value` inserted before the first element whose `field` is larger."""
    return Expression("insert_by", (sequence, lift(value)), field)


def first(sequence: Expression) -> Expression:
    """The first element, as an optional."""
    return Expression("first", (sequence,))


def last(sequence: Expression) -> Expression:
    """The last element, as an optional."""
    return Expression("last", (sequence,))


def without_first(sequence: Expression) -> Expression:
    """The sequence without its first element; an empty one stays empty."""
    return Expression("without_first", (sequence,))


def is_prefix(shorter: Expression, longer: Expression) -> Expression:
    """Whether the sequence `shorter` is a prefix of `longer`, or equal to it."""
    return Expression("is_prefix", (shorter, longer))


def keep(bound: Expression, condition: Operand) -> Expression:
    """The sequence or bag that `bound` ranges over, with only the elements that satisfy it."""
    return Expression("keep", (bound, lift(condition)))


def put(bag: Expression, value: Operand) -> Expression:
    """The bag with one more `value`. Beyond the capacity the checker reports an error."""
    return Expression("put", (bag, lift(value)))


def take(bag: Expression, value: Operand) -> Expression:
    """The bag with one `value` fewer; unchanged if it has none."""
    return Expression("take", (bag, lift(value)))


def updated(mapping: Expression, key: Operand, value: Operand) -> Expression:
    """The map with `value` under `key`."""
    return Expression("updated", (mapping, lift(key), lift(value)))


def position(item: Expression) -> Expression:
    """The index of a key's instance, or of an `element` in its sequence, counted from 0.

    A key whose index is read isn't interchangeable.
    """
    return Expression("position", (item,))


def wrap(number: Operand, into: Int) -> Expression:
    """`number` modulo the size of the range `into`, as a value of the range: a number that wraps
    around.
    """
    return Expression("wrap", (lift(number),), into)
