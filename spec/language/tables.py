"""Machines, events, messages, and the tables of rows that say what a machine does on an event."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import DeclarationError
from .expressions import (
    QUANTIFIERS,
    Expression,
    Field,
    Operand,
    Parameter,
    children_first,
    element,
    lift,
    rewrite,
)
from .typecheck import check_constant, fits, type_of
from .types import Bool, Constants, Enum, Key, Record, Type, check_names, choices, literal

TRUE = lift(True)


@dataclass(frozen=True)
class FieldInfo:
    """A field as its machine declares it; `initial` is none where any value may be the first."""

    expression: Expression
    type: Type
    initial: Expression | None
    doc: str = ""

    @property
    def name(self) -> str:
        """The field's name."""
        return self.expression.data.name


@dataclass(eq=False)
class Machine:
    """A named set of fields, one instance per identity of `key` (none: a single instance)."""

    name: str
    key: Key | None = None
    doc: str = ""
    fields: dict[str, FieldInfo] = field(default_factory=dict[str, FieldInfo])
    state: Expression | None = None

    def field(
        self, name: str, kind: Type, initial: Operand = None, *, doc: str = "",
        any_initial: bool = False,
    ) -> Expression:  # fmt: skip
        """Declares a field and answers it as an expression.

        Without `initial` it starts with its type's initial value, with `any_initial` with any.
        Raises DeclarationError for a second field of the name or an initial value outside the type.
        """
        if name in self.fields:
            raise DeclarationError(f"machine {self.name} has two fields called {name}")
        this = Expression("field", (), Field(self.name, name, kind, self.key))
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

    @property
    def this(self) -> Expression:
        """The instance's own identity, for its rows to use. Raises DeclarationError without key."""
        if self.key is None:
            raise DeclarationError(f"{self.name} has one instance, without an identity")
        return Expression("this", (), Field(self.name, "this", self.key, self.key))

    def state_field(
        self, name: str, kind: Enum, initial: Operand = None, *, doc: str = ""
    ) -> Expression:
        """Declares the field that `goto` sets and that diagrams draw."""
        self.state = self.field(name, kind, initial, doc=doc)
        return self.state


@dataclass(frozen=True)
class Event:
    """Something that happens to a machine: `parameters` are chosen freely within their types.

    A parameter is read as an attribute of the event; `variables` are parameters given as variables
    that rows use as they are.
    """

    name: str
    parameters: tuple[tuple[str, Type], ...] = ()
    doc: str = ""
    variables: tuple[Expression, ...] = ()

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(name)
        kind = dict(self.parameters).get(name)
        if kind is None:
            raise DeclarationError(f"{self.name} has no parameter {name}")
        return Expression("parameter", (), Parameter(self.name, name, kind))


def event(
    event_name: str, *variables: Expression, event_doc: str = "", **parameters: Type
) -> Event:
    """An event over these variables and parameters.

    Raises DeclarationError for two of one name, and for a name that can't be read.
    """
    check_names(f"event {event_name}", parameters, Event)
    names = set(parameters)
    for bound in variables:
        if bound.op != "variable" or bound.data.name in names:
            raise DeclarationError(f"event {event_name}: `{bound}` is no variable, or there twice")
        names.add(bound.data.name)
    return Event(event_name, tuple(parameters.items()), event_doc, variables)


@dataclass(frozen=True)
class Message(Event):
    """A typed record sent to the machine called `to`.

    Its fields of a key type, but for those `carried` as content, are its address: they name the
    instances that it goes between, and messages of one address wait in one bag. `answers` names
    the request that a response belongs to; a response takes the request's address. `errors` are
    what its field `error` may say, each with the condition on features under which it may.
    """

    to: str = ""
    answers: Message | None = None
    carried: tuple[str, ...] = ()
    errors: tuple[tuple[Expression, Expression], ...] = ()

    @property
    def address(self) -> tuple[tuple[str, Key], ...]:
        """The fields that name the instances it goes between, in declared order."""
        return tuple(
            (n, t) for n, t in self.parameters if isinstance(t, Key) and n not in self.carried
        )

    @property
    def content(self) -> Record:
        """The other fields, as the record that waits in the bag."""
        address = dict(self.address)
        fields = tuple((n, t) for n, t in self.parameters if n not in address)
        return Record(self.name, fields or (("present", Bool()),))

    def __call__(self, **fields: Operand) -> Sending:
        return Sending(self, tuple((name, lift(value)) for name, value in fields.items()))


def message(
    message_name: str, to: Machine, *, message_doc: str = "", answers: Message | None = None,
    carried: tuple[str, ...] = (), errors: Mapping[Expression, Operand] | None = None,
    **fields: Type,
) -> Message:  # fmt: skip
    """A message to the machine `to` with these fields; a response also has its request's address.

    Raises DeclarationError where the address does not say which instance of `to` it goes to, and
    for fields that can't be read or that have one name with a part of the address.
    """
    address: dict[str, Type] = dict(answers.address) if answers is not None else {}
    check_names(f"message {message_name}", fields, Message)
    for name, kind in fields.items():
        if address.get(name, kind) != kind:
            raise DeclarationError(
                f"message {message_name} has two fields called {name}: the address of "
                f"{answers.name if answers else ''} has one"
            )
    for name in carried:
        if not isinstance(fields.get(name), Key):
            raise DeclarationError(f"message {message_name} carries no key called {name}")
    parameters = {**address, **fields}
    allowed = tuple((error, lift(during)) for error, during in (errors or {}).items())
    made = Message(
        message_name, tuple(parameters.items()), message_doc, (), to.name, answers, carried, allowed
    )
    if to.key is not None and to.key not in [key for _, key in made.address]:
        raise DeclarationError(f"message {message_name}: no field of key {to.key} says to which")
    return made


@dataclass(frozen=True)
class Loss(Event):
    """A message leaves the network without having arrived, and the machine with the address's key
    finds out.

    Its fields are the message's.
    """

    message: Message | None = None


def lost(message: Message) -> Loss:
    """The event that a message in flight is lost: a table on it says what its machine does then."""
    return in_transit("lost", message)


def in_transit(what: str, message: Message) -> Loss:
    """The event that something happens to a message in flight, which takes it from the network: a
    row of its table may send it on."""
    return Loss(f"{what} {message.name}", message.parameters, message.doc, (), message)


def in_flight(name: str, message: Message, *address: Operand) -> Expression:
    """A name for the messages of a kind that are under way, for a quantifier to bind: between the
    instances of the `address`, in its order. Only properties look at what is in flight.

    Raises DeclarationError for an address that isn't the message's.
    """
    bag = Expression("in_flight", tuple(map(lift, address)), message)
    type_of(bag)
    return element(name, bag)


@dataclass(frozen=True)
class Sending:
    """A message with its fields filled in, sent where `when` holds, once for every value of
    the variables `to_each`."""

    message: Message
    fields: tuple[tuple[str, Expression], ...]
    to_each: tuple[Expression, ...] = ()
    when: Expression = TRUE

    def __str__(self) -> str:
        inner = ", ".join(f"{name}={value}" for name, value in self.fields)
        each = f" to each {', '.join(map(str, self.to_each))}" if self.to_each else ""
        where = "" if self.when == TRUE else f" where {self.when}"
        return f"{self.message.name}({inner}){each}{where}"


def to_each(bound: Expression, when: Operand, sending: Sending) -> Sending:
    """The message once for every value of the key variable `bound` for which `when` holds."""
    both = lift(when) if sending.when == TRUE else lift(when) & sending.when
    return Sending(sending.message, sending.fields, (bound, *sending.to_each), both)


@dataclass(frozen=True)
class Row:
    """One line of a table: where `when` holds, what changes and what is answered.

    `goto` is the machine's next state, `set` its other updates (all read the state before),
    `reply` the answer to the request (an error alone stands for the response with that error),
    `send` further messages, `during` the features under which the row exists, `source` where the
    behaviour is written down.
    """

    name: str
    when: Operand = True
    goto: Operand = None
    set: Mapping[Expression, Operand] = field(default_factory=dict[Expression, Operand])
    reply: Sending | Expression | None = None
    send: tuple[Sending, ...] = ()
    during: Expression = TRUE
    source: str = ""
    note: str = ""

    @property
    def guard(self) -> Expression:
        """`when` as an expression."""
        return lift(self.when)


@dataclass(frozen=True, eq=False)
class Table:
    """What `machine` does on the event or message `on`: the first row whose guard holds.

    `response` is the message that rows reply with. The event isn't taken up unless `when` holds: a
    message then stays in flight. `elsewhere` are other machines that rows may read and set.

    Raises DeclarationError, naming table and row, for whatever can't be: unknown fields, mixed
    types, values outside of their type, two rows of one name, an update to a field of another
    machine.
    """

    machine: Machine
    on: Event
    rows: tuple[Row, ...]
    response: Message | None = None
    when: Expression = TRUE
    doc: str = ""
    elsewhere: tuple[Machine, ...] = ()

    def __post_init__(self) -> None:
        names = [row.name for row in self.rows]
        try:
            self._condition(self.when)
        except DeclarationError as error:
            raise DeclarationError(f"table {self.name}: {error}") from None
        for row in self.rows:
            if names.count(row.name) > 1:
                raise DeclarationError(f"table {self.name}: two rows are called {row.name!r}")
            try:
                self._check(row)
            except DeclarationError as error:
                raise DeclarationError(f"table {self.name}, row {row.name!r}: {error}") from None

    @property
    def name(self) -> str:
        """Machine and event."""
        return f"{self.machine.name}.{self.on.name}"

    def updates(self, row: Row) -> tuple[tuple[Expression, Expression], ...]:
        """The row's updates, `goto` among them, as pairs of target and value."""
        pairs = [(target, lift(value)) for target, value in row.set.items()]
        if row.goto is not None:
            if self.machine.state is None:
                raise DeclarationError(f"goto, but machine {self.machine.name} has no state field")
            pairs.insert(0, (self.machine.state, lift(row.goto)))
        return tuple(pairs)

    def sendings(self, row: Row) -> tuple[Sending, ...]:
        """The row's messages, the reply first; a response has its request's address filled in."""
        sent = list(row.send)
        if isinstance(row.reply, Expression):
            if self.response is None:
                raise DeclarationError("a reply, but the table names no response")
            sent.insert(0, self.response(error=row.reply))
        elif row.reply is not None:
            sent.insert(0, row.reply)
        return tuple(self._addressed(sending) for sending in sent)

    def _addressed(self, sending: Sending) -> Sending:
        if not isinstance(self.on, Message) or sending.message.answers != self.on:
            return sending
        given = dict(sending.fields)
        filled = tuple(
            (name, getattr(self.on, name)) for name, _ in self.on.address if name not in given
        )
        return Sending(sending.message, filled + sending.fields, sending.to_each, sending.when)

    def _check(self, row: Row) -> None:
        self._condition(row.guard)
        self._condition(row.during)
        for node in children_first(row.during):
            if node.op not in ("feature", "const", "not", "and", "or"):
                raise DeclarationError(f"`{row.during}` is not made of features alone")
        targets: list[Expression] = []
        for target, value in self.updates(row):
            self._target(target)
            self._owned(target)
            self._owned(value)
            if target in targets:
                raise DeclarationError(f"`{target}` is set twice")
            targets.append(target)
            expected = type_of(target)
            assert expected is not None
            if not fits(type_of(value), expected):
                raise DeclarationError(
                    f"`{target}` is {expected}: it can't be set to `{value}` ({type_of(value)})"
                )
            check_constant(value, expected, f"`{target}`")
        for sending in self.sendings(row):
            self._check_sending(sending)

    def _condition(self, part: Expression, bound: tuple[Expression, ...] = ()) -> None:
        self._owned(part, bound)
        kind = type_of(part)
        if not isinstance(kind, Bool):
            raise DeclarationError(f"`{part}` is {kind} and no condition")

    def _target(self, target: Expression) -> None:
        base = target
        while base.op in ("index", "get"):
            base = base.args[0]
        if base.op != "field":
            raise DeclarationError(f"`{target}` can't be set: it is not a field, nor part of one")

    def _owned(self, expression: Expression, bound: tuple[Expression, ...] = ()) -> None:
        """Only the machine's own declared fields and the event's own parameters may be used."""
        machines = {m.name: m for m in (self.machine, *self.elsewhere)}
        for node in children_first(expression):
            if node.op == "field":
                owner = machines.get(node.data.machine)
                if owner is None:
                    raise DeclarationError(
                        f"`{node}` is a field of {node.data.machine}, not of {self.machine.name}"
                    )
                if node.data.name not in owner.fields:
                    raise DeclarationError(f"machine {owner.name} has no field {node.data.name}")
                if owner is not self.machine and owner.key is not None and not node.args:
                    raise DeclarationError(f"`{node}`: say which {owner.key} with .at()")
            elif node.op == "parameter" and node.data.event != self.on.name:
                raise DeclarationError(
                    f"`{node}` is a parameter of {node.data.event}, not of {self.on.name}"
                )
            elif node.op == "after":
                raise DeclarationError(f"`{node}`: only step properties speak of the next state")
            elif node.op == "in_flight":
                raise DeclarationError(f"`{node}`: only properties speak of what is in flight")
        for name in free_variables(expression) - {*self.on.variables, *bound}:
            raise DeclarationError(
                f"`{name}` is bound neither by {self.on.name} nor by all_of, ..."
            )

    def _check_sending(self, sending: Sending) -> None:
        declared = dict(sending.message.parameters)
        for bound in sending.to_each:
            if bound.op != "variable":
                raise DeclarationError(f"{sending.message.name} to each `{bound}`: no variable")
        self._condition(sending.when, sending.to_each)
        for name, value in sending.fields:
            kind = declared.get(name)
            if kind is None:
                raise DeclarationError(f"message {sending.message.name} has no field {name}")
            self._owned(value, sending.to_each)
            if not fits(type_of(value), kind):
                raise DeclarationError(
                    f"{sending.message.name}.{name} is {kind}: not `{value}` ({type_of(value)})"
                )
            check_constant(value, kind, f"{sending.message.name}.{name}")
        for name, _ in sending.message.address:
            if name not in dict(sending.fields):
                raise DeclarationError(f"{sending.message.name}: its address lacks {name}")


def free_variables(expression: Expression) -> set[Expression]:
    """The variables and elements that nothing inside the expression binds."""
    if expression.op == "variable":
        return {expression}
    inside = [free_variables(argument) for argument in expression.args]
    if expression.op in QUANTIFIERS:
        return (inside[1] - {expression.args[0]}) | (inside[0] - {expression.args[0]})
    free = set[Expression]().union(*inside)
    return free | {expression} if expression.op == "element" else free


def only(during: Expression, *rows: Row) -> tuple[Row, ...]:
    """The rows, each only under a further condition on features."""
    return tuple(dataclasses.replace(row, during=row.during & during) for row in rows)


def instances(bound: Expression, body: Expression, constants: Constants) -> list[Expression]:
    """`body` with the variable `bound` replaced by each of its values in turn."""
    domain: Type = bound.data.type
    return [
        substitute(body, {bound: literal(domain, value)}) for value in choices(domain, constants)
    ]


def substitute(body: Expression, values: dict[Expression, Expression]) -> Expression:
    """`body` with each of the given variables replaced where nothing in it binds them."""

    def change(node: Expression) -> Expression | None:
        if node.op in QUANTIFIERS and node.args[0] in values:
            bound, inner = node.args
            others = {name: value for name, value in values.items() if not name.same_as(bound)}
            return Expression(node.op, (bound, substitute(inner, others)), node.data)
        return values.get(node)

    return rewrite(body, change)
