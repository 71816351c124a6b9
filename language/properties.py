"""Properties: of every state, of every step, and of progress in every run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from .declaration.arguments import check_kind, check_name, items
from .declaration.errors import DeclarationError, declared_at
from .declaration.places import Place, here
from .declaration.typecheck import check_during, type_of
from .expressions import (
    QUANTIFIERS,
    TRUE,
    Expression,
    Operand,
    children_first,
    lift,
)
from .protocols import check_feature
from .terms.interned import Interned
from .terms.scopes import bound_name, check_scopes, free_variables
from .types import Bool


@dataclass(frozen=True, eq=False)
class KnownBug(Interned):
    """A bug that breaks a property where the condition `during` on features holds. `what` describes
    it. With all features in `mended_by` the property holds within the default bounds.
    """

    what: str
    mended_by: tuple[Expression, ...]
    during: Expression = TRUE

    def __post_init__(self) -> None:
        given = items("a known bug, mended_by", self.mended_by, Expression, "feature")
        for feature in given:
            check_feature("a known bug, mended_by", feature)
        object.__setattr__(self, "mended_by", given)
        check_kind("a known bug, during", self.during, Expression)
        check_during(self.during)


@dataclass(frozen=True, eq=False)
class Failure(Interned):
    """A sentence about a broken property: `text` with a `{}` for each of the values. The values may
    use the property's own variables, with their values in the violation.
    """

    text: str
    values: tuple[Expression, ...]


def failure(text: str, *values: Operand) -> Failure:
    """The sentence of a violation, such as "record {} is in {} twice". It follows "after 5 steps",
    or "in step 5" for a step property, so it begins in lower case and has no full stop.

    Raises DeclarationError if the number of values isn't that of the `{}`.
    """
    if text.count("{}") != len(values) or text.replace("{}", "").strip("{}") != text.replace(
        "{}", ""
    ):
        raise DeclarationError(f"failure {text!r}: {len(values)} values, one for each {{}}")
    return Failure(text, tuple(map(lift, values)))


Failures: TypeAlias = Failure | tuple[Failure, ...]
"""The sentence of a violation, or several: the first one whose values the violation has counts."""


@dataclass(frozen=True, eq=False)
class Property(Interned):
    """An invariant (over a state), a step property (over a step), or a property of progress.

    For progress, `expression` is the goal. A leads-to starts at the states in which its `premise`
    holds, separately for each value of the variables in `each`.
    """

    name: str
    kind: Literal["invariant", "step", "leads to", "always possible"]
    expression: Expression
    sentence: str
    source: str = ""
    known_bug: KnownBug | None = None
    premise: Expression = TRUE
    each: tuple[Expression, ...] = ()
    failures: tuple[Failure, ...] = ()
    declared: Place | None = field(default=None, repr=False)
    """The file and line of the declaration, found automatically."""

    def __post_init__(self) -> None:
        if self.declared is None:
            object.__setattr__(self, "declared", here())
        check_kind(f"property {self.name}, known_bug", self.known_bug, KnownBug, type(None))

    def failing(self, failure: Failures) -> Property:
        """The property with sentences for its violations.

        Raises DeclarationError for anything else, and for a variable that the property doesn't
        bind.
        """
        where = f"property {self.name}, failure"
        one = (failure,) if isinstance(failure, Failure) else failure
        failures = items(where, one, Failure, "failure()")
        nodes = (*children_first(self.expression), *children_first(self.premise))
        own = {*self.each, *(node.args[0] for node in nodes if node.op in QUANTIFIERS)}
        for value in (value for each in failures for value in each.values):
            for name in free_variables(value) - own:
                raise DeclarationError(f"{where}: `{name}` isn't a variable of the property")
        return replace(self, failures=failures)

    def changed(self, change: Callable[[Expression], Expression]) -> Property:
        """The property with each of its expressions changed."""
        expression, premise = change(self.expression), change(self.premise)
        if expression is self.expression and premise is self.premise:
            return self
        failures = tuple(
            Failure(each.text, tuple(map(change, each.values))) for each in self.failures
        )
        return replace(self, expression=expression, premise=premise, failures=failures)

    @property
    def machines(self) -> set[str]:
        """The names of the machines whose fields the property reads."""
        every = (*children_first(self.expression), *children_first(self.premise))
        return {node.data.machine for node in every if node.op == "field"}

    @property
    def is_progress(self) -> bool:
        """Whether it is about whole runs, and not about single states or steps."""
        return self.kind in ("leads to", "always possible")


def invariant(
    name: str, expression: Expression, sentence: str, source: str = "",
    known_bug: KnownBug | None = None, *, failure: Failures = (),
) -> Property:  # fmt: skip
    """A property of every reachable state. `failure` describes the state that breaks it.

    Raises DeclarationError if it is not a condition or contains `after`.
    """
    _check(name, expression, speaks_of_next=False)
    return Property(name, "invariant", expression, sentence, source, known_bug).failing(failure)


def step_property(
    name: str,
    expression: Expression,
    sentence: str,
    source: str = "",
    known_bug: KnownBug | None = None,
    *,
    failure: Failures = (),
) -> Property:
    """A property of every step: `after(...)` is a value in the next state. `failure` describes the
    step that breaks it.

    Raises DeclarationError if it is not a condition or doesn't contain `after`.
    """
    _check(name, expression, speaks_of_next=True)
    return Property(name, "step", expression, sentence, source, known_bug).failing(failure)


def leads_to(
    name: str, premise: Expression, goal: Expression, sentence: str, source: str = "", *,
    each: tuple[Expression, ...] = (), failure: Failures = (),
) -> Property:  # fmt: skip
    """A property of every run with the system's `fairness`: once `premise` holds, `goal` holds then
    or later. The property is checked for each value of the variables in `each`. `failure` names the
    part that doesn't change any more.

    Raises DeclarationError if either is not a condition, contains `after` or has a free variable
    that isn't in `each`; if neither uses a variable in `each`; and if both are equal.
    """
    where = f"property {name}"
    bound = items(f"{where}, each", each, Expression, "variable")
    for part in (premise, goal):
        _check(name, part, speaks_of_next=False, bound=bound)
    used = {*free_variables(premise), *free_variables(goal)}
    for variable in bound:
        if variable.op != "variable" or variable not in used:
            raise DeclarationError(
                f"{where}, each: `{variable}` is not a variable of premise or goal: leave it out"
            )
    if premise.same_as(goal):
        raise DeclarationError(f"{where}: its premise is its goal: choose another goal")
    made = Property(name, "leads to", goal, sentence, source, None, premise, bound)
    return made.failing(failure)


def always_possible(
    name: str, goal: Expression, sentence: str, source: str = "", *, failure: Failures = ()
) -> Property:
    """A property of every reachable state: some run from it reaches a state in which `goal` holds
    (AG EF). It assumes no fairness. `failure` names the part that can't change any more.

    Raises DeclarationError if it is not a condition or contains `after`.
    """
    _check(name, goal, speaks_of_next=False)
    return Property(name, "always possible", goal, sentence, source).failing(failure)


def check_from_outside(expression: Expression, bound: Collection[Expression] = ()) -> None:
    """Raises DeclarationError if it is not a condition over a whole system: it may not contain a
    field without its instance, a parameter of an event or a free variable that isn't in `bound`.
    """
    for node in children_first(expression):
        keyed = node.op == "field" and node.data.key is not None and not node.args
        if keyed or node.op == "this":
            raise DeclarationError(f"`{node}`: say which {node.data.key} with .at()")
        if node.op == "parameter":
            raise DeclarationError(f"`{node}` is a parameter of an event")
        if node.op == "after" and any(
            inner.op == "after" for inner in children_first(node.args[0])
        ):
            raise DeclarationError(f"`{node}`: after(...) can't be inside of after(...)")
    kind = type_of(expression)
    if not isinstance(kind, Bool):
        raise DeclarationError(f"`{expression}` is {kind} and not a condition")
    check_scopes(expression, frozenset(str(bound_name(each)) for each in bound))
    for name in free_variables(expression) - set(bound):
        raise DeclarationError(f"`{name}` isn't bound: bind it with all_of, any_of, ...")


def _check(
    name: str, expression: Expression, *, speaks_of_next: bool, bound: Collection[Expression] = ()
) -> None:
    check_name("a property", name)
    check_kind(f"property {name}", expression, Expression)
    with declared_at(None, f"property {name}"):
        check_from_outside(expression, bound)
    if any(node.op == "after" for node in children_first(expression)) != speaks_of_next:
        none = "an invariant or a property of progress can't use after()"
        use = "a step property uses after(...)" if speaks_of_next else none
        raise DeclarationError(f"property {name}: {use}")
