"""Explains a broken property: its failure sentence, and its false parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ...language import Instance, Key, Map, Optional, Property, Sequence, Set
from ...language.declaration.typecheck import type_of
from ...language.expressions import Expression, children_first, show
from ...language.terms.reasons import Fact, Scope, because
from ...language.terms.scopes import bound_name, free_variables
from ...language.terms.values import Evaluation, field_name
from ...language.types import Type, Value, show_value
from ...model.engine.interpreter import FullState

MOST, LOOKED_AT = 6, 100  # most facts to report, and to examine


class Values(Evaluation):
    """The values of expressions in a state, or in a step: see language.terms.reasons.Values."""

    @classmethod
    def of(cls, instance: Instance, state: FullState, following: FullState | None) -> Values:
        """The values in states of the instance."""

        def named(values: FullState) -> dict[str, Value]:
            return {v.name: value for v, value in zip(instance.variables, values, strict=True)}

        after = None if following is None else named(following)
        return cls(named(state), instance.constants, after)

    def value(self, expression: Expression, scope: Scope) -> Value:
        """The value of an expression."""
        return self.run(expression, dict(scope))

    def instances(self, quantified: Expression, scope: Scope) -> list[Scope]:
        """The scope of each instance of a quantifier's body."""
        return list(self.scopes(quantified, dict(scope)))


def failure_sentence(
    instance: Instance,
    item: Property,
    state: FullState,
    following: FullState | None = None,
    *,
    after: int,
    bound: Scope | None = None,
    and_then: str = "",
) -> str:
    """The sentence about a broken property, with the values of the state `after` so many steps, or
    of the step from it to the `following` state; the rule follows in brackets. `bound` are the
    variables of a progress property, and `and_then` ends its sentence.
    """
    steps = "1 step" if after == 1 else f"{after} steps"
    when = f"after {steps}" if after else "in the initial state"
    if following is not None:
        when = f"in step {after + 1}"
    happened = _filled(instance, item, state, following, bound or {})
    what = f": {when} {happened}" if happened else f" {when}"
    return f"{item.name} doesn't hold{what}{and_then}. ({item.sentence})"


def _filled(
    instance: Instance, item: Property, state: FullState, following: FullState | None, bound: Scope
) -> str:
    """The first failure sentence whose variables a violation binds; empty if there is none."""
    values = Values.of(instance, state, following)
    known = {variable.name for variable in instance.variables}
    condition, around = item.expression, dict(bound)
    if bool(values.value(condition, around)):
        return ""  # a step property that another step breaks: the values would be wrong
    facts = list(islice(because(values, condition, around), LOOKED_AT))
    for failure in item.failures:
        nodes = [node for value in failure.values for node in children_first(value)]
        if any(node.op == "field" and field_name(node.data) not in known for node in nodes):
            continue
        free = frozenset[Expression]().union(*map(free_variables, failure.values))
        scope = next((fact.scope for fact in facts if free <= fact.scope.keys()), None)
        if scope is not None:
            shown = (
                in_prose(type_of(value), values.value(value, scope)) for value in failure.values
            )
            return failure.text.format(*shown)
    return ""


def in_prose(kind: Type | None, value: Value) -> str:
    """The value in a sentence: `partition 0`, and a set without braces."""
    match kind:
        case Key():
            return kind.in_prose(int(str(value)))
        case Set():
            assert isinstance(value, frozenset)
            return ", ".join(sorted(in_prose(kind.of, each) for each in value)) or "none"
        case Sequence():
            assert isinstance(value, tuple)
            return ", ".join(in_prose(kind.of, each) for each in value) or "none"
        case Map():
            assert isinstance(value, tuple)
            each = (f"{kind.key.in_prose(k)}: {in_prose(kind.of, v)}" for k, v in enumerate(value))
            return ", ".join(each)
        case Optional():
            return "none" if value is None else in_prose(kind.of, value)
        case None:
            return str(value)
        case _:
            return show_value(kind, value)


def why_broken(
    instance: Instance,
    condition: Expression,
    state: FullState,
    following: FullState | None = None,
    bound: Scope | None = None,
) -> tuple[str, ...]:
    """Lines with the parts that make a condition false, in a state or in the step from it to the
    `following` state, each with the values of both sides. A line `for ...:` names instances, and
    the lines about them are indented below it. The number of lines is limited. Variables that are
    `bound` around the condition aren't mentioned.
    """
    values = Values.of(instance, state, following)
    lines: list[str] = []
    count = 0
    around = dict(bound or {})
    facts = list(islice(because(values, condition, around), LOOKED_AT))
    facts = [fact for fact in facts if _varies(fact.expression)] or facts
    for scope, of in _by_scope(facts, around):
        texts = list(dict.fromkeys(_in_words(values, fact) for fact in of))[: MOST - count]
        count += len(texts)
        if texts:
            lines += [scope] if scope else []
            lines += [f"  {text}" if scope else text for text in texts]
    return tuple(lines) if count < MOST else (*lines, "and more")


def _by_scope(facts: list[Fact], around: Scope) -> Iterator[tuple[str, list[Fact]]]:
    """The facts grouped by instances. A fact about fewer instances joins the first larger group
    that contains them.
    """
    scopes = [set(fact.scope.items()) for fact in facts]
    places = [
        next(
            at
            for at, wide in enumerate(scopes)
            if wide >= scope and not any(wide < other for other in scopes)
        )
        for scope in scopes
    ]
    for place in dict.fromkeys(places):
        named = (
            f"{bound_name(bound)}={_shown(bound, value)}"
            for bound, value in facts[place].scope.items()
            if bound_name(bound) is not None and bound not in around
        )
        head = ", ".join(named)
        yield (
            f"for {head}:" if head else "",
            [fact for fact, at in zip(facts, places, strict=True) if at == place],
        )


def _varies(e: Expression) -> bool:
    """Whether the expression depends on anything but constants."""
    return any(node.op not in ("const", "constant") for node in children_first(e) if not node.args)


def _in_words(values: Values, fact: Fact) -> str:
    """A fact in words, with the values of the parts that it compares."""
    e = fact.expression
    match e.op:
        case "eq" | "lt" | "le" | "in":
            (left, one), (right, other) = ((x, _value(values, x, fact.scope)) for x in e.args)
        case "is_set":
            return f"{show(e.args[0])} is {'set' if fact.is_true else 'not set'}"
        case _ if e.args and fact.is_true is False:
            return f"{show(e)} is false"
        case _:
            return str(fact)
    signs = {"lt": ("below", "not below"), "le": ("at most", "above")}
    if one == str(left) and other != str(right):  # the varying part comes first
        (left, one), (right, other) = (right, other), (left, one)
        signs = {"lt": ("above", "not above"), "le": ("at least", "below")}
    first, second = (
        shown if str(x) == shown else f"{show(x)} = {shown}"
        for x, shown in ((left, one), (right, other))
    )
    match e.op, fact.is_true:
        case "in", is_in:
            (left, one), (right, other) = ((x, _value(values, x, fact.scope)) for x in e.args)
            member = one if left.op in ("variable", "element") else f"{show(left)} = {one}"
            member = one if one == str(left) else member
            group = other if other == str(right) else f"{show(right)} = {other}"
            return f"{group} {'contains' if is_in else 'does not contain'} {member}"
        case "eq", True:
            return first if second == other else f"{show(left)} = {show(right)} = {one}"
        case "eq", False:
            return f"{first}, not {second}"
        case _:
            return f"{first}, {signs[e.op][not fact.is_true]} {second}"


def _value(values: Values, e: Expression, scope: Scope) -> str:
    return _shown(e, values.value(e, scope))


def _shown(e: Expression, value: Value) -> str:
    kind = type_of(e)
    return str(value) if kind is None else show_value(kind, value)
