"""What must hold: of every state, or of every step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from .errors import DeclarationError
from .expressions import TRUE, Expression, Field, as_bounded, children_first
from .given import check_kind, check_name, items
from .interned import Interned
from .protocols import check_feature
from .scopes import check_scopes, free_variables
from .typecheck import check_during, type_of
from .types import Bool


@dataclass(frozen=True, eq=False)
class KnownBug(Interned):
    """Why a property is known to break where the features `during` are in force: `what` it is, and
    the features with all of which the property holds within a system's default bounds."""

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
class Property(Interned):
    """An invariant (over a state) or a step property (over a step)."""

    name: str
    kind: Literal["invariant", "step"]
    expression: Expression
    sentence: str
    source: str = ""
    known_bug: KnownBug | None = None

    def __post_init__(self) -> None:
        check_kind(f"property {self.name}, known_bug", self.known_bug, KnownBug, type(None))

    @property
    def machines(self) -> set[str]:
        """The names of the machines that it looks at a field of."""
        fields = (node for node in children_first(self.expression) if node.op == "field")
        return {node.data.machine for node in fields}


def bounded_property(item: Property, having: Collection[Field] = ()) -> Property:
    """The property with what fields of real ranges stand for in a bounded run, but for those that
    it has itself."""
    seen = as_bounded(item.expression, having)
    return item if seen is item.expression else replace(item, expression=seen)


def invariant(
    name: str, expression: Expression, sentence: str, source: str = "",
    known_bug: KnownBug | None = None,
) -> Property:  # fmt: skip
    """A property of every reachable state.

    Raises DeclarationError where it is no condition or speaks of the next state.
    """
    _check(name, expression, speaks_of_next=False)
    return Property(name, "invariant", expression, sentence, source, known_bug)


def step_property(name: str, expression: Expression, sentence: str, source: str = "") -> Property:
    """A property of every step: `after(...)` is a value in the next state.

    Raises DeclarationError where it is no condition or never speaks of the next state.
    """
    _check(name, expression, speaks_of_next=True)
    return Property(name, "step", expression, sentence, source)


def check_from_outside(expression: Expression) -> None:
    """Raises DeclarationError where it is no condition over a whole system: where it leaves open
    which instance of a machine it is about, or speaks of an event."""
    for node in children_first(expression):
        keyed = node.op == "field" and node.data.key is not None and not node.args
        if keyed or node.op == "this":
            raise DeclarationError(f"`{node}`: say which {node.data.key} with .at()")
        if node.op == "parameter":
            raise DeclarationError(f"`{node}` is a parameter of an event")
        if node.op == "after" and any(
            inner.op == "after" for inner in children_first(node.args[0])
        ):
            raise DeclarationError(f"`{node}`: there is one next state, not another behind it")
    kind = type_of(expression)
    if not isinstance(kind, Bool):
        raise DeclarationError(f"`{expression}` is {kind} and no condition")
    check_scopes(expression)
    for name in free_variables(expression):
        raise DeclarationError(f"`{name}` is bound by no all_of, any_of, ...")


def _check(name: str, expression: Expression, *, speaks_of_next: bool) -> None:
    check_name("a property", name)
    check_kind(f"property {name}", expression, Expression)
    try:
        check_from_outside(expression)
    except DeclarationError as error:
        raise DeclarationError(f"property {name}: {error}") from None
    if any(node.op == "after" for node in children_first(expression)) != speaks_of_next:
        use = "a step property uses after(...)" if speaks_of_next else "an invariant has no after()"
        raise DeclarationError(f"property {name}: {use}")
