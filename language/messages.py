"""Messages between machines: their addresses, how they are sent, lost and dropped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .declaration.arguments import check_kind, check_name, items, pairs
from .declaration.errors import DeclarationError
from .declaration.typecheck import check_during, fits, type_of
from .expressions import TRUE, Bound, Expression, Field, Operand, lift
from .machines import Event, Machine
from .terms.interned import Interned
from .terms.operators import element
from .types import Bool, Key, Record, Type, check_names, check_type


@dataclass(frozen=True)
class End:
    """An end of a message: its machine, and the field of the address that names the instance ("" if
    the machine has one instance).
    """

    machine: str
    field: str = ""


SENDER, TO = "sender", "to"  # the address fields of a message with a declared sender


@dataclass(frozen=True, eq=False)
class Message(Event):
    """A typed record for the machine at the end `goes_to`.

    Its address names the instances that it goes between; messages of one address wait in one bag.
    If the sender is declared (`comes_from`), the address is the fields `sender` and `to`; a machine
    without a key has no field. Otherwise the address is all fields of a key type, except those
    `carried` as content. `answers` is the request of a response. `errors` are the values of its
    field `error`, each with a condition on features.
    """

    goes_to: End = End("")
    comes_from: End | None = None
    answers: Message | None = None
    carried: tuple[str, ...] = ()
    errors: tuple[tuple[Expression, Expression], ...] = ()
    title: str = ""
    """Its name in pictures, if Kafka's differs."""

    @property
    def address(self) -> tuple[tuple[str, Key], ...]:
        """The fields that name the sender and the addressee, in declared order."""
        keys = [(n, t) for n, t in self.parameters if isinstance(t, Key) and n not in self.carried]
        if self.comes_from is not None:
            keys = [(n, t) for n, t in keys if n in (SENDER, TO)]
        return tuple(keys)

    @property
    def content(self) -> Record:
        """The other fields, as the record that waits in the bag."""
        address = dict(self.address)
        fields = tuple((n, t) for n, t in self.parameters if n not in address)
        return Record(self.name, fields or (("present", Bool()),))

    @property
    def is_between_peers(self) -> bool:
        """Whether it goes from one instance of a machine to another of the same."""
        source = self.comes_from
        return source is not None and source.field != "" and source.machine == self.goes_to.machine

    def __call__(self, **fields: Operand) -> Sending:
        return Sending(self, tuple((name, lift(value)) for name, value in fields.items()))


def message(
    message_name: str, to: Machine, *, sender: Machine | None = None, message_doc: str = "",
    answers: Message | None = None, carried: tuple[str, ...] = (),
    errors: Mapping[Expression, Operand] | None = None, message_title: str = "", **fields: Type,
) -> Message:  # fmt: skip
    """A message to the machine `to` with these fields.

    With a `sender`, the fields `sender` and `to` are its address. A response goes back: it has its
    request's address, with sender and addressee exchanged if the request declares them.

    Raises DeclarationError if the address names no instance of `to`, or two; for a response that
    doesn't go back; for fields that can't be read; and for fields with the name of a part of the
    address.
    """
    where = f"message {message_name}"
    check_name("a message", message_name)
    carried = items(f"{where}, carried", carried, str, "name")
    _check_machines(where, to, *([] if sender is None else [sender]))
    check_names(where, fields, Message)
    check_kind(f"{where}, answers", answers, Message, type(None))
    allowed = _errors(where, errors or {}, fields.get("error"))
    if answers is not None:
        source, address = _back(where, to, sender, answers)
    else:
        source, address = _between(sender, to)
    for name, kind in fields.items():
        check_type(f"{where}, field {name}", kind)
        if address.get(name, kind) != kind:
            raise DeclarationError(
                f"{where} has two fields called {name}: the address of "
                f"{answers.name if answers else ''} has one"
            )
    for name in carried:
        if not isinstance(fields.get(name), Key):
            raise DeclarationError(f"{where}, carried: {name} isn't a field that holds a key")
    parameters = {**address, **fields}
    made = Message(
        message_name, tuple(parameters.items()), message_doc, goes_to=End(to.name),
        comes_from=source, answers=answers, carried=carried, errors=allowed, title=message_title,
    )  # fmt: skip
    found = [n for n, key in made.address if key == to.key and (source is None or n == TO)]
    if to.key is not None and not found:
        raise DeclarationError(f"{where}: no field of key {to.key} names the receiver")
    if len(found) > 1:
        raise DeclarationError(
            f"{where}: {' and '.join(found)} are both of key {to.key}, and each could name the "
            "receiver. Give sender= and to= with the machines, and leave these fields out; name a "
            "key that is content in carried="
        )
    return dataclasses.replace(made, goes_to=End(to.name, *found))


def _errors(
    where: str, errors: Mapping[Expression, Operand], kind: Type | None
) -> tuple[tuple[Expression, Expression], ...]:
    """The possible values of a field `error` of this type, each with its condition."""
    where = f"{where}, errors"
    pairs(where, errors, "{error: condition}")
    for error, during in errors.items():
        check_kind(where, error, Expression)
        try:
            if kind is None or not fits(type_of(error), kind):
                remedy = "the message has no such field, so declare it"
                if kind is not None:
                    remedy = "use that field's values"
                raise DeclarationError(f"`{error}` can't be in a field called error: {remedy}")
            check_during(lift(during))
        except DeclarationError as refused:
            raise DeclarationError(f"{where}: {refused}") from None
    return tuple((error, lift(during)) for error, during in errors.items())


def _check_machines(where: str, *ends: object) -> None:
    for end in ends:
        if not isinstance(end, Machine):
            raise DeclarationError(
                f"{where}: to= and sender= take a machine, not `{end}`: a field needs another name"
            )


def _between(sender: Machine | None, to: Machine) -> tuple[End | None, Mapping[str, Key]]:
    """The sender of a message, and its address; empty if the sender isn't declared."""
    if sender is None:
        return None, {}
    ends = {SENDER: sender.key, TO: to.key}
    address = {name: key for name, key in ends.items() if key is not None}
    return End(sender.name, SENDER if SENDER in address else ""), address


def _back(
    where: str, to: Machine, sender: Machine | None, request: Message
) -> tuple[End | None, Mapping[str, Key]]:
    """The sender of a response, and its address."""
    source = request.comes_from
    if source is None:
        if sender is not None:
            raise DeclarationError(
                f"{where} answers {request.name}: give sender= in {request.name} as well"
            )
        return None, dict(request.address)
    for word, said, end in (("to", to, source), ("from", sender, request.goes_to)):
        if said is not None and said.name != end.machine:
            raise DeclarationError(
                f"{where} answers {request.name}: it goes from {request.goes_to.machine} to "
                f"{source.machine}, not {word} {said.name}"
            )
    exchanged = {TO: SENDER, SENDER: TO}
    address = {exchanged[name]: key for name, key in request.address}
    return End(request.goes_to.machine, SENDER if SENDER in address else ""), address


@dataclass(frozen=True, eq=False)
class Loss(Event):
    """The event that a message leaves the network without arrival. A machine reacts to it: an
    instance at one end of the message, or a machine with one instance.

    The loss has the message's fields.
    """

    message: Message | None = None


def lost(message: Message) -> Loss:
    """The event that a message in flight is lost. A table on it declares its machine's reaction."""
    check_kind("lost", message, Message)
    return in_transit("lost", message)


def in_transit(what: str, message: Message) -> Loss:
    """An event that takes a message in flight from the network. A row of its table may forward the
    message.
    """
    return Loss(f"{what} {message.name}", message.parameters, message.doc, message=message)


def instance_field(on: Event, machine: Machine) -> str:
    """The address field that names the instance of `machine` for a table on the message: the
    addressee. On a loss it is the end of that machine; between peers, the instance that requested a
    response or sent another message. "" if the machine has one instance.

    Raises DeclarationError if the address names no instance of the machine, or more than one.
    """
    message = on.message if isinstance(on, Loss) else on
    assert isinstance(message, Message)
    if on is message:
        if machine.name != message.goes_to.machine:
            raise DeclarationError(f"{on.name} goes to {message.goes_to.machine}")
        return message.goes_to.field
    if machine.key is None:
        return ""
    found = fields_of(message, machine)
    if message.comes_from is not None:
        found = found[:1] if message.answers is None else found[-1:]
    if len(found) > 1:
        raise DeclarationError(f"{on.name}: {' or '.join(found)} could be the {machine.name}")
    return found[0]


def fields_of(message: Message, machine: Machine) -> list[str]:
    """The fields of the address that name an instance of the machine, the sender first.

    Raises DeclarationError if there is none.
    """
    if message.comes_from is None:
        found = [name for name, key in message.address if key == machine.key]
    else:
        ends = (message.comes_from, message.goes_to)
        found = [end.field for end in ends if end.machine == machine.name]
    if not found:
        raise DeclarationError(
            f"no part of the address of {message.name} names an instance of {machine.name}"
        )
    return found


def in_flight(name: str, message: Message, *address: Operand, **named: Operand) -> Expression:
    """A variable for a quantifier: it ranges over the messages of a kind in flight with this
    `address`, in its order or by its names. Only properties read messages in flight.

    Raises DeclarationError for an address that isn't the message's.
    """
    check_kind(f"in_flight {name}", message, Message)
    rest = [field for field, _ in message.address[len(address) :]]
    unknown = [field for field in named if field not in rest]
    if unknown:
        raise DeclarationError(f"the address of {message.name} has no further part {unknown[0]}")
    every = (*address, *(named[field] for field in rest if field in named))
    bag = Expression("in_flight", tuple(map(lift, every)), message)
    type_of(bag)
    return element(name, bag)


@dataclass(frozen=True, eq=False)
class Sending(Interned):
    """A message with the values of its fields. It is sent if `when` holds, once for every value of
    the variables `to_each`.
    """

    message: Message
    fields: tuple[tuple[str, Expression], ...]
    to_each: tuple[Expression, ...] = ()
    when: Expression = TRUE

    def __str__(self) -> str:
        inner = ", ".join(f"{name}={value}" for name, value in self.fields)
        each = f" to each {', '.join(map(str, self.to_each))}" if self.to_each else ""
        where = "" if self.when.same_as(TRUE) else f" where {self.when}"
        return f"{self.message.name}({inner}){each}{where}"

    def rewritten(self, of: Callable[[Expression], Expression]) -> Sending:
        """The sending with changed expressions."""
        fields = tuple((name, of(value)) for name, value in self.fields)
        return dataclasses.replace(self, fields=fields, when=of(self.when))


@dataclass(frozen=True)
class Dropping:
    """The messages that a row drops: all of a kind in flight whose address has these values."""

    message: Message
    address: tuple[tuple[str, Expression], ...]


def dropping(message: Message, **address: Operand) -> Dropping:
    """The messages of a kind in flight whose address has these values, for the `drop` of a row."""
    check_kind("dropping", message, Message)
    return Dropping(message, tuple((name, lift(value)) for name, value in address.items()))


def to_each(bound: Expression, when: Operand, sending: Sending) -> Sending:
    """The message once for every value of the key variable `bound` for which `when` holds."""
    check_kind("to_each", bound, Expression)
    check_kind("to_each", sending, Sending)
    both = lift(when) if sending.when.same_as(TRUE) else lift(when) & sending.when
    return dataclasses.replace(sending, to_each=(bound, *sending.to_each), when=both)


def to_others(sending: Sending) -> Sending:
    """The message to every instance of its machine except the sender.

    Raises DeclarationError for a message between two machines, and for a message with a `to`.
    """
    check_kind("to_others", sending, Sending)
    message = sending.message
    if not message.is_between_peers:
        raise DeclarationError(
            f"to_others: {message.name} isn't declared as a message between instances of one "
            "machine: say sender= and to=, or take to_each"
        )
    if TO in dict(sending.fields):
        raise DeclarationError(f"to_others({message.name}): leave to= out, it is filled in")
    machine, key = message.goes_to.machine, dict(message.address)[TO]
    other = Expression("variable", (), Bound("other", key, "to_others"))
    this = Expression("this", (), Field(machine, "this", key, key))
    filled = dataclasses.replace(sending, fields=((TO, other), *sending.fields))
    return to_each(other, other != this, filled)
