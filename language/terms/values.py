"""Evaluates expressions on plain Python values: the definition of every operator.

Tests compare native code and solvers with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ..declaration.errors import DeclarationError
from ..declaration.typecheck import type_of
from ..expressions import QUANTIFIERS, EnumValue, Expression, Field, divisor, resolve
from ..types import Bag, Constants, Record, Sequence, Type, Value, choices, initial_value, rank
from .derived import definition

State: TypeAlias = Mapping[str, Value]


def field_name(field: Field) -> str:
    """The variable that a field is part of."""
    return f"{field.machine}.{field.name}"


def evaluate(
    expression: Expression,
    state: State,
    constants: Constants,
    bound: Mapping[Expression, Value] | None = None,
    following: State | None = None,
) -> Value:
    """The value of an expression in a state.

    `bound` gives the variables and elements in scope, `following` the next state for `after`.
    Intermediate values may exceed a sequence's capacity or a field's range: only storing them is an
    error. Raises DeclarationError for a name out of scope and for a map index that is no key.
    """
    return Evaluation(state, constants, following).run(expression, dict(bound or {}))


class Evaluation:
    """Evaluates expressions in a state, or in a step to the `following` state."""

    def __init__(self, state: State, constants: Constants, following: State | None) -> None:
        self.state = state
        self.constants = constants
        self.following = following

    def run(self, e: Expression, scope: dict[Expression, Value]) -> Any:  # noqa: C901 (a case for each operator)
        """The value of an expression, with the given values of variables."""
        args = e.args
        match e.op:
            case "const":
                return e.data.member if isinstance(e.data, EnumValue) else e.data
            case "constant":
                return resolve(e, self.constants)
            case "field":
                value = self.state[field_name(e.data)]
                if args:
                    assert isinstance(value, tuple)
                    return value[_place(value, self.run(args[0], scope))]
                return value
            case "variable" | "element" | "parameter":
                if e not in scope:
                    raise DeclarationError(f"`{e}` is not bound here")
                return scope[e]
            case "after":
                if self.following is None:
                    raise DeclarationError(f"`{e}`: there is no next state here")
                return Evaluation(self.following, self.constants, None).run(args[0], scope)
            case "and":
                left = self.run(args[0], scope)
                if isinstance(left, frozenset):
                    return left & self.run(args[1], scope)
                return left and self.run(args[1], scope)
            case "or":
                left = self.run(args[0], scope)
                if isinstance(left, frozenset):
                    return left | self.run(args[1], scope)
                return left or self.run(args[1], scope)
            case "if":
                return self.run(args[1] if self.run(args[0], scope) else args[2], scope)
            case "position":
                return scope[e] if e in scope else self.run(args[0], scope)
            case _ if e.op in QUANTIFIERS:
                return self.quantified(e, scope)
            case _ if (defined := definition(e)) is not None:
                return self.run(defined, scope)
            case _:
                return self.plain(e, [self.run(a, scope) for a in args])

    def scopes(self, e: Expression, scope: dict[Expression, Value]) -> list[dict[Expression, Any]]:
        """The scope of each instance of a quantifier's body."""
        bound = e.args[0]
        if bound.op == "variable":
            domain = list(choices(bound.data.type, self.constants))
        else:
            domain = list(self.run(bound.args[0], scope))
        place = Expression("position", (bound,))
        ordered = bound.op == "element" and isinstance(type_of(bound.args[0]), Sequence)
        return [
            {**scope, bound: value} | ({place: at} if ordered else {})
            for at, value in enumerate(domain)
        ]

    def quantified(self, e: Expression, scope: dict[Expression, Value]) -> Any:
        bound, body = e.args
        scopes = self.scopes(e, scope)
        domain = [each[bound] for each in scopes]
        results = [self.run(body, each) for each in scopes]
        match e.op:
            case "all":
                return all(results)
            case "any":
                return any(results)
            case "count" | "sum":
                return sum(results)
            case "each":
                return tuple(results)
            case "max" | "min":
                return (max if e.op == "max" else min)(results, default=0)
            case "first_of":
                pairs = zip(domain, results, strict=True)
                return next((value for value, holds in pairs if holds), None)
            case "those":
                return frozenset(v for v, holds in zip(domain, results, strict=True) if holds)
            case _:
                return tuple(v for v, holds in zip(domain, results, strict=True) if holds)

    def plain(self, e: Expression, v: list[Any]) -> Any:  # noqa: C901 (a case for each operator)
        match e.op:
            case "not":
                return not v[0]
            case "eq":
                return v[0] == v[1]
            case "lt":
                return v[0] < v[1]
            case "add":
                return v[0] + v[1]
            case "sub":
                return v[0] - v[1]
            case "mul":
                return v[0] * v[1]
            case "div":
                return v[0] // divisor(e, v[1])
            case "mod":
                return v[0] % divisor(e, v[1])
            case "in":
                return v[0] in v[1]
            case "index" if isinstance(type_of(e.args[0]), Sequence):
                return element_at(*v)
            case "slice":
                return between(*v)
            case "index":
                return v[0][_place(v[0], v[1])]
            case "get":
                return v[0][_position(type_of(e.args[0]), e.data)]
            case "value":
                if v[0] is None:
                    kind = type_of(e)
                    assert kind is not None
                    return initial_value(kind, self.constants)
                return v[0]
            case "some":
                return v[0]
            case "set_of":
                return frozenset(v)
            case "sequence_of":
                return tuple(v)
            case "size":
                return len(v[0])
            case "updated":
                return _placed(v[0], [v[1]], v[2])
            case "make":
                record, names = e.data
                given = dict(zip(names, v, strict=True))
                return tuple(
                    given[name] if name in given else initial_value(of, self.constants)
                    for name, of in record.fields
                )
            case "replace":
                record = type_of(e)
                assert isinstance(record, Record)
                return _with(record, v[0], e.data, v[1:])
            case "last":
                return last_of(*v)
            case "put":
                kind = type_of(e)
                assert isinstance(kind, Bag)
                return canonical(kind.of, (*v[0], v[1]), self.constants)
            case "take":
                return without(*v)
            case _:
                raise DeclarationError(f"no operator is called {e.op}")


# Operations that compiled rows also call ----------------------------------------------------------


def element_at(values: Any, place: int) -> Any:
    """The element at a place of a sequence, or None."""
    return values[place] if 0 <= place < len(values) else None


def between(values: Any, start: int, stop: int | None) -> Any:
    """The elements from `start` up to, but without, `stop`; places below 0 count as 0."""
    return values[max(0, start) : None if stop is None else max(0, stop)]


def last_of(values: Any) -> Any:
    """The last element, or None."""
    return values[-1] if values else None


def without(bag: Any, value: Any) -> Any:
    """The bag with one occurrence of the value fewer."""
    if value not in bag:
        return bag
    place = bag.index(value)
    return (*bag[:place], *bag[place + 1 :])


def canonical(of: Type, values: tuple[Value, ...], constants: Constants) -> tuple[Value, ...]:
    """A bag's elements in canonical order."""
    return tuple(sorted(values, key=lambda value: rank(of, value, constants)))


def _position(kind: Type | None, name: str) -> int:
    assert isinstance(kind, Record)
    return [n for n, _ in kind.fields].index(name)


def _with(record: Record, start: Any, names: tuple[str, ...], values: list[Any]) -> Any:
    changed = list(start)
    for name, value in zip(names, values, strict=True):
        changed[_position(record, name)] = value
    return tuple(changed)


def assign(
    target: Expression,
    value: Value,
    state: dict[str, Value],
    before: State,
    constants: Constants,
    bound: Mapping[Expression, Value],
) -> None:
    """Puts `value` at `target` in `state`; keys in `target` are read from `before`."""
    path: list[int] = []
    node = target
    while node.op != "field":
        if node.op == "index":
            key = evaluate(node.args[1], before, constants, bound)
            assert isinstance(key, int)
            path.append(key)
        else:
            path.append(_position(type_of(node.args[0]), node.data))
        node = node.args[0]
    if node.args:
        key = evaluate(node.args[0], before, constants, bound)
        assert isinstance(key, int)
        path.append(key)
    name = field_name(node.data)
    state[name] = _placed(state[name], path[::-1], value)


def _place(whole: tuple[Value, ...], place: int) -> int:
    if not 0 <= place < len(whole):
        raise DeclarationError(f"a map of {len(whole)} keys has no key {place}")
    return place


def _placed(whole: Value, path: list[int], value: Value) -> Value:
    if not path:
        return value
    assert isinstance(whole, tuple)
    here = _place(whole, path[0])
    return (*whole[:here], _placed(whole[here], path[1:], value), *whole[here + 1 :])
