"""Why a property is broken: the parts of it that are false, for which instances, with values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ...language import Instance
from ...language.because import Fact, Scope, because
from ...language.expressions import Expression, children_first, show
from ...language.scopes import bound_name
from ...language.typecheck import type_of
from ...language.types import Value, show_value
from ...language.values import Evaluation
from ...model.engine.interpreter import FullState

MOST, LOOKED_AT = 6, 100  # the most facts to report, and to look at


class Values(Evaluation):
    """The values of expressions in a state, or in a step: see language.because.Values."""

    @classmethod
    def of(cls, instance: Instance, state: FullState, following: FullState | None) -> Values:
        """Those of the instance's own states."""

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


def why_broken(
    instance: Instance, condition: Expression, state: FullState, following: FullState | None = None,
    bound: Scope | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """Lines that say which parts of a false condition make it so, in a state or in the step from it
    to the `following` one, each with the values of both sides. A line `for ...:` names instances,
    and the lines about them are indented below it. At most so many. Variables that are `bound`
    around the condition are named nowhere.
    """
    values = Values.of(instance, state, following)
    lines: list[str] = []
    told = 0
    around = dict(bound or {})
    facts = list(islice(because(values, condition, around), LOOKED_AT))
    facts = [fact for fact in facts if _varies(fact.expression)] or facts
    for scope, of in _by_scope(facts, around):
        texts = list(dict.fromkeys(_told(values, fact) for fact in of))[: MOST - told]
        told += len(texts)
        if texts:
            lines += [scope] if scope else []
            lines += [f"  {text}" if scope else text for text in texts]
    return tuple(lines) if told < MOST else (*lines, "and more")


def _by_scope(facts: list[Fact], around: Scope) -> Iterator[tuple[str, list[Fact]]]:
    """The facts about the same instances, those of fewer with the first that are about more."""
    scopes = [set(fact.scope.items()) for fact in facts]
    places = [next(at for at, wide in enumerate(scopes) if wide >= scope
                   and not any(wide < other for other in scopes)) for scope in scopes]  # fmt: skip
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
    """Whether it depends on anything but constants."""
    return any(node.op not in ("const", "constant") for node in children_first(e) if not node.args)


def _told(values: Values, fact: Fact) -> str:
    """A fact, with the values of both sides of a comparison unless it shows them itself."""
    e = fact.expression
    if e.op not in ("eq", "lt", "le", "in"):
        return str(fact)
    shown = [_shown(side, values.value(side, fact.scope)) for side in e.args]
    if shown[0] == shown[1] or shown == list(map(show, e.args)):
        return str(fact)
    return f"{fact} ({shown[0]} and {shown[1]})"


def _shown(e: Expression, value: Value) -> str:
    kind = type_of(e)
    return str(value) if kind is None else show_value(kind, value)
