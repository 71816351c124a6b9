"""Machines, their fields, and their events."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from .declaration.arguments import check_kind, check_name, items
from .declaration.errors import DeclarationError, declared_at
from .declaration.places import Place, here
from .declaration.typecheck import check_constant, fits, type_of
from .expressions import Expression, Field, Operand, Parameter, children_first, lift
from .terms.interned import Interned
from .terms.operators import element
from .terms.scopes import bound_name
from .types import SCALARS, Enum, Key, Type, check_names, check_type


@dataclass(frozen=True, eq=False)
class FieldInfo(Interned):
    """A field as its machine declares it. `initial` is None if each value is a possible first
    value.
    """

    expression: Expression
    type: Type
    initial: Expression | None
    doc: str = ""
    declared: Place | None = field(default=None, repr=False)
    """The file and line of the declaration, found automatically."""

    def __post_init__(self) -> None:
        if self.declared is None:
            object.__setattr__(self, "declared", here())

    @property
    def name(self) -> str:
        """The field's name."""
        return self.expression.data.name


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@dataclass(eq=False)
class Machine:
    """A named set of fields, one instance per identity of `key` (none: a single instance)."""

    name: str
    key: Key | None = None
    doc: str = ""
    fields: dict[str, FieldInfo] = field(default_factory=dict[str, FieldInfo])
    state: Expression | None = None
    title: str = ""
    """Its name in pictures, with `{}` for the instance, such as "Leader of {}"."""

    def titled(self, number: int = 0) -> str:
        """The name of an instance in pictures, such as "Producer A"."""
        if self.key is None:
            return self.title or _capital(self.name.replace("_", " "))
        return self.title.format(self.key.in_prose(number)) or _capital(self.key.in_prose(number))

    def __post_init__(self) -> None:
        check_name("a machine", self.name)
        check_kind(f"machine {self.name}, key", self.key, Key, type(None))

    def field(
        self, name: str, kind: Type, initial: Operand = None, *, doc: str = "",
        any_initial: bool = False,
    ) -> Expression:  # fmt: skip
        """Declares a field and returns it as an expression.

        It starts with `initial`, by default its type's initial value; with `any_initial`, with any
        value.

        Raises DeclarationError for a second field of the name or an initial value outside the type.
        """
        check_name(f"machine {self.name}: a field", name)
        check_type(f"machine {self.name}, field {name}", kind)
        if name in self.fields:
            raise DeclarationError(f"machine {self.name} has two fields called {name}")
        data = Field(self.name, name, kind, self.key)
        this = Expression("field", (), data)
        first = None if initial is None else lift(initial)
        if first is not None:
            where = f"machine {self.name}, field {name}"
            if any(node.op in ("field", "this", "parameter") for node in children_first(first)):
                raise DeclarationError(f"{where}: its initial value `{first}` reads the state")
            if not fits(type_of(first), kind):
                raise DeclarationError(f"{where}: its initial value `{first}` is not {kind}")
            check_constant(first, kind, where)
        if any_initial:
            marker = Expression("any_value", ())
            self.fields[name] = FieldInfo(this, kind, marker, doc)
        else:
            self.fields[name] = FieldInfo(this, kind, first, doc)
        return this

    def copy(self, *, without: Collection[str] = ()) -> Machine:
        """A copy of the machine, without the fields `without`, for a change that adds fields. A
        field that is declared on the machine itself would be in every system.
        """
        kept = {name: info for name, info in self.fields.items() if name not in without}
        return replace(self, fields=kept)

    @property
    def this(self) -> Expression:
        """The instance's own identity, for expressions in its rows. Raises DeclarationError without
        key.
        """
        if self.key is None:
            raise DeclarationError(f"{self.name} has one instance, without an identity")
        return Expression("this", (), Field(self.name, "this", self.key, self.key))

    def state_field(
        self, name: str, kind: Enum, initial: Operand = None, *, doc: str = ""
    ) -> Expression:
        """Declares the field that `goto` sets and that diagrams draw."""
        self.state = self.field(name, kind, initial, doc=doc)
        return self.state


@dataclass(frozen=True, eq=False)
class Event(Interned):
    """An event of a machine. Its `parameters` take any values of their types.

    A parameter is read as an attribute of the event. `variables` are parameters that are variables,
    or elements of a collection in the state.
    """

    name: str
    parameters: tuple[tuple[str, Type], ...] = ()
    doc: str = ""
    variables: tuple[Expression, ...] = ()

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(name)
        found = vars(self)[name] = self._parameter(name)  # cached: many rows read it
        return found

    def _parameter(self, name: str) -> Expression:
        kind = dict(self.parameters).get(name)
        if kind is None:
            for chosen in self.variables:
                if chosen.op == "element" and chosen.data == name:
                    return chosen
            raise DeclarationError(f"{self.name} has no parameter {name}")
        return Expression("parameter", (), Parameter(self.name, name, kind))


def event(
    event_name: str, *variables: Expression, event_doc: str = "", **parameters: Type | Expression
) -> Event:
    """An event over these variables and parameters.

    A parameter ranges over a type, or over the elements of a set, a sequence or a bag of the
    machine in the current state: `event("grant", client=waiting)`.

    Raises DeclarationError for two of one name, for a name that can't be read, and for a value
    without elements.
    """
    check_name("an event", event_name)
    check_names(f"event {event_name}", parameters, Event)
    types = {name: kind for name, kind in parameters.items() if not isinstance(kind, Expression)}
    for name, kind in types.items():
        check_type(f"event {event_name}, parameter {name}", kind)
    chosen = [element(n, of) for n, of in parameters.items() if isinstance(of, Expression)]
    names = set(parameters)
    for bound in items(f"event {event_name}", variables, Expression, "variable"):
        named = bound_name(bound)
        if named is None or named in names:
            raise DeclarationError(
                f"event {event_name}: `{bound}` is not a variable of its own: use "
                f"KEY.variable(name) or element(name, ...), each once"
            )
        names.add(named)
    every = (*variables, *chosen)
    with declared_at(None, f"event {event_name}"):
        records = [e for e in every if e.op == "element" and not isinstance(type_of(e), SCALARS)]
    if len(records) > 1:
        raise DeclarationError(
            f"event {event_name}: {' and '.join(e.data for e in records)} are both no plain values"
        )
    return Event(event_name, tuple(types.items()), event_doc, every)
