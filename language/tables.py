"""Tables of rows: the actions of a machine on an event or a message."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, MutableSet
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import compress, product

from .declaration.arguments import check_kind, check_name, items, pairs
from .declaration.errors import DeclarationError, declared_at
from .declaration.places import Place, here
from .declaration.typecheck import check_constant, check_during, fits, suits, type_of
from .expressions import (
    TRUE,
    Expression,
    Operand,
    folded,
    lift,
    naming,
)
from .machines import Event, Machine
from .messages import SENDER, TO, Dropping, Loss, Message, Sending, fields_of, instance_field
from .protocols import Protocols
from .terms.implication import implied
from .terms.scopes import check_scopes, free_variables
from .types import Bool, Sequence


@dataclass(frozen=True, eq=False)
class Row:
    """One line of a table: a guard, and the updates and messages of a step where it holds.

    `id` is a short key within its table. It never changes: results, coverage, traces and changes
    name the row by it. `name` is a sentence for readers, and may be improved at any time; without
    one it is the id.

    `goto` is the machine's next state, `set` its other updates (all read the state before),
    `reply` the answer to the request (an error alone stands for the response with that error),
    `send` further messages, `during` the features under which the row exists, `source` where the
    behaviour is written down. `drop` lists messages in flight that are lost. A message alone stands
    for all its messages to or from the row's own instance.
    """

    id: str
    name: str = ""
    when: Operand = True
    goto: Operand = None
    set: Mapping[Expression, Operand] = field(default_factory=dict[Expression, Operand])
    reply: Sending | Expression | None = None
    send: tuple[Sending, ...] = ()
    during: Expression = TRUE
    source: str = ""
    note: str = ""
    drop: tuple[Message | Dropping, ...] = ()
    declared: Place | None = field(default=None, repr=False)
    """The file and line of the declaration, found automatically."""
    fits_in: tuple[object, ...] = field(default=(), init=False, repr=False)
    """The table (machine, event, response, others) in which it was checked."""

    def __post_init__(self) -> None:
        if self.declared is None:
            object.__setattr__(self, "declared", here())
        check_name("a row", self.id)
        where = f"row {self.id!r}"
        check_kind(f"{where}, name", self.name, str)
        if not self.name:
            object.__setattr__(self, "name", self.id)
        for name, kinds, what in (
            ("send", Sending, "message"), ("drop", (Message, Dropping), "message"),
        ):  # fmt: skip
            given = items(f"{where}, {name}", getattr(self, name), kinds, what)
            object.__setattr__(self, name, given)
        pairs(f"{where}, set", self.set, "{field: value}")
        for target in self.set:
            check_kind(f"{where}, set", target, Expression)
        check_kind(f"{where}, reply", self.reply, Sending, Expression, type(None))
        check_kind(f"{where}, during", self.during, Expression)
        for name in ("source", "note"):
            check_kind(f"{where}, {name}", getattr(self, name), str)

    @property
    def guard(self) -> Expression:
        """`when` as an expression."""
        return lift(self.when)

    def rewritten(
        self, of: Callable[[Expression], Expression], sent: Callable[[Sending], Sending]
    ) -> Row:
        """The row with changed expressions (`of`; not `during`) and messages (`sent`)."""
        reply = self.reply
        if reply is not None:
            reply = sent(reply) if isinstance(reply, Sending) else of(reply)
        return dataclasses.replace(
            self,
            when=of(self.guard),
            goto=None if self.goto is None else of(lift(self.goto)),
            set={of(target): of(lift(value)) for target, value in self.set.items()},
            reply=reply,
            send=tuple(map(sent, self.send)),
        )


@cache
def exclude(one: Expression, other: Expression) -> bool:
    """Whether the two conditions on features exclude each other. If so, their rows may share a
    name.
    """
    both = one & other
    features = sorted({node.data.name for node in naming(both) if node.op == "feature"})
    for truths in product((False, True), repeat=len(features)):
        if Protocols.holds(both, frozenset(compress(features, truths))):
            return False
    return True


def check_hidden(table: str, rows: tuple[Row, ...], only: Collection[Row] | None = None) -> None:
    """Raises DeclarationError, at the row's line, for a row that is hidden by a row before it: its
    guard implies the earlier guard, in the same releases or fewer. `only` are the checked rows
    (default: all).

    Rows are compared condition by condition, and comparisons of one expression with constants by
    their values. `lint` finds more, with a solver.
    """
    seen: list[tuple[Row, frozenset[Expression], frozenset[Expression]]] = []
    for row in rows:
        asks, during = conjuncts(row.guard), conjuncts(row.during)
        for earlier, needs, needs_during in seen:
            if only is not None and row not in only:
                break
            if needs_during <= during and all(implied(part, asks) for part in needs - asks):
                always = not needs and not needs_during
                why = "always holds" if always else "holds wherever this one does"
                raise DeclarationError(
                    f"table {table}: the row {row.id!r} is never taken, because the row "
                    f"{earlier.id!r} before it {why}: put it before that one, or leave it out"
                ).within("", row.declared)
        seen.append((row, asks, during))


def conjuncts(condition: Expression) -> frozenset[Expression]:
    """The parts of a conjunction; none for True."""
    found: set[Expression] = set()
    left = [condition]
    while left:
        part = left.pop()
        if part.op == "and":
            left += part.args
        elif part is not TRUE:
            found.add(part)
    return frozenset(found)


@dataclass(frozen=True, eq=False)
class Table:
    """A decision table: on the event or message `on`, `machine` takes the first row whose guard
    holds.

    `response` is the message that rows reply with. If `when` doesn't hold, the event can't happen;
    a message stays in flight. `others` are other machines whose fields rows may read and set.

    Three arguments hold for every row: `during` is a further condition on features, `set` are
    updates that each row makes, and `source` is that of the rows that name none. The rows of the
    table, in `rows`, have all three.

    Raises DeclarationError, naming table and row, for unknown fields, mixed types, values outside
    their type, two rows of one id that one release can have, updates to a field of another machine,
    and a row that is never taken because a row before it is always taken instead.
    """

    machine: Machine
    on: Event
    rows: tuple[Row, ...]
    response: Message | None = None
    when: Operand = True
    doc: str = ""
    others: tuple[Machine, ...] = ()
    during: Expression = TRUE
    set: Mapping[Expression, Operand] = field(default_factory=dict[Expression, Operand])
    source: str = ""
    withheld: frozenset[object] = field(default=frozenset[object](), repr=False)
    """The reductions `NotOffered` that `when` already contains. A changed table keeps them."""
    declared: Place | None = field(default=None, repr=False)
    """The file and line of the declaration, found automatically."""

    def __post_init__(self) -> None:
        is_view = self.declared is not None  # a view may leave a row without an effect
        if self.declared is None:
            object.__setattr__(self, "declared", here())
        check_kind("a table's machine", self.machine, Machine)
        check_kind("a table's event", self.on, Event)
        where = f"table {self.name}"
        check_kind(f"{where}, response", self.response, Message, type(None))
        for name, kind in (("rows", Row), ("others", Machine)):
            given = items(f"{where}, {name}", getattr(self, name), kind, kind.__name__.lower())
            object.__setattr__(self, name, given)
        self._share()
        ids = [row.id for row in self.rows]
        if not ids:
            raise DeclarationError(f"{where}: it has no rows: give at least one")
        with declared_at(None, f"table {self.name}"):
            self._check_parameters()
            if isinstance(self.on, (Message, Loss)):
                instance_field(self.on, self.machine)
            for chosen in self.on.variables:
                for collection in chosen.args:
                    self._owned(collection)
            self._condition(self.guard)
            if self.response is not None:
                self._check_response(self.response, is_named=True)
        where = (self.machine, self.on, self.response, *self.others)
        for row in self.rows:
            if row.fits_in == where:  # checked before: a view shares most rows with its table
                continue
            try:
                self._check(row)
            except DeclarationError as error:
                raise error.within(f"table {self.name}, row {row.id!r}", row.declared) from None
            object.__setattr__(row, "fits_in", where)
        for row in self.rows:
            if ids.count(row.id) > 1 and any(
                other is not row and other.id == row.id and not exclude(other.during, row.during)
                for other in self.rows
            ):
                raise DeclarationError(
                    f"table {self.name}: two rows are called {row.id!r}, and no release or "
                    "feature separates them: rename one of them"
                )
        if not is_view:
            check_hidden(self.name, self.rows)

    def _share(self) -> None:
        """Moves the shared features, updates and source of the table into its rows. A copy of the
        table with other rows then doesn't change those.
        """
        where = f"table {self.name}"
        check_kind(f"{where}, during", self.during, Expression)
        check_kind(f"{where}, source", self.source, str)
        pairs(f"{where}, set", self.set, "{field: value}")
        if self.during is TRUE and not self.set and not self.source:
            return
        object.__setattr__(self, "rows", tuple(map(self._with_shared, self.rows)))
        object.__setattr__(self, "during", TRUE)
        object.__setattr__(self, "set", {})
        object.__setattr__(self, "source", "")

    def _with_shared(self, row: Row) -> Row:
        for target in self.set:
            if target in row.set:
                raise DeclarationError(
                    f"table {self.name}, row {row.id!r}: `{target}` is set by every row of the "
                    "table: leave it out of the table's set, or out of the row's"
                )
        during = row.during if self.during is TRUE else folded(row.during & self.during)
        return dataclasses.replace(
            row, during=during, set={**self.set, **row.set}, source=row.source or self.source
        )

    @property
    def name(self) -> str:
        """Machine and event."""
        return f"{self.machine.name}.{self.on.name}"

    @property
    def guard(self) -> Expression:
        """`when` as an expression."""
        return lift(self.when)

    def label(self, row: Row) -> str:
        """Machine, event and the row's id; with its features if another row has the id."""
        alike = sum(other.id == row.id for other in self.rows)
        return f"{self.name}/{row.id}" + (f" ({row.during})" if alike > 1 else "")

    def _check_parameters(self) -> None:
        """Raises DeclarationError for a parameter with the name of the instance: readers would
        confuse them.
        """
        key = self.machine.key
        if key is None or isinstance(self.on, (Message, Loss)):
            return
        named = [*self.on.parameters, *((str(v), type_of(v)) for v in self.on.variables)]
        for name, kind in named:
            if kind == key and name in (self.machine.name, key.name):
                raise DeclarationError(
                    f"the parameter {name} of {self.on.name} isn't the {self.machine.name} that it "
                    f"happens to: that is {self.machine.name}.this; leave the parameter out, or "
                    f"call it other_{name} if another one is meant"
                )

    def updates(self, row: Row) -> tuple[tuple[Expression, Expression], ...]:
        """The row's updates, `goto` among them, as pairs of target and value."""
        pairs = [(target, lift(value)) for target, value in row.set.items()]
        if row.goto is not None:
            if self.machine.state is None:
                raise DeclarationError(f"goto, but machine {self.machine.name} has no state field")
            pairs.insert(0, (self.machine.state, lift(row.goto)))
        return tuple(pairs)

    def sendings(self, row: Row) -> tuple[Sending, ...]:
        """The row's messages, the reply first, each with its sender filled in, and a response with
        its request's address."""
        known = self._sendings.get(row)
        if known is None:
            known = self._sendings[row] = self._sent(row)
        return known

    @cached_property
    def _sendings(self) -> dict[Row, tuple[Sending, ...]]:
        return {}

    def _sent(self, row: Row) -> tuple[Sending, ...]:
        sent = list(row.send)
        if isinstance(row.reply, Expression):
            if self.response is None:
                raise DeclarationError("a reply, but the table names no response")
            sent.insert(0, self.response(error=row.reply))
        elif row.reply is not None:
            self._check_response(row.reply.message)
            if row.reply.message.comes_from is not None and TO in dict(row.reply.fields):
                raise DeclarationError(f"{row.reply.message.name} is a reply: leave to= out")
            sent.insert(0, row.reply)
        return tuple(self._addressed(sending) for sending in sent)

    def _check_response(self, message: Message, is_named: bool = False) -> None:
        """Raises DeclarationError for a reply that isn't the table's response and answers no
        request, or answers another request. A table on an event or a response may answer a request
        that waited.
        """
        request = self.on.message if isinstance(self.on, Loss) else self.on
        assert request is not None
        if message.answers is None:
            if self.response is not None and message.name == self.response.name:
                return
            raise DeclarationError(
                f"{message.name} is a reply, but isn't declared as a response: declare it with "
                "answers=, name it as the table's response, or use send="
            )
        waits = not isinstance(request, Message) or request.answers is not None
        if not waits and message.answers.name != request.name:
            called = "the response" if is_named else "a reply"
            raise DeclarationError(
                f"{message.name} is {called} to {request.name}, but answers "
                f"{message.answers.name}: take the message that answers {request.name}, or send= it"
            )

    def droppings(self, row: Row) -> Iterator[Dropping]:
        """The messages that the row drops: one item for each end that its own instance can be."""
        for item in row.drop:
            if isinstance(item, Dropping):
                yield item
            elif self.machine.key is None:
                yield Dropping(item, ())
            else:
                for name in fields_of(item, self.machine):
                    yield Dropping(item, ((name, self.machine.this),))

    @cached_property
    def parts(self) -> tuple[tuple[str, Expression], ...]:
        """Every expression, with its place in the declaration."""
        found = [(f"table {self.name}", self.guard)]
        for row in self.rows:
            parts = [row.guard, row.during]
            parts += [part for update in self.updates(row) for part in update]
            for sending in self.sendings(row):
                parts += [sending.when, *(value for _, value in sending.fields)]
            for dropped in self.droppings(row):
                parts += [value for _, value in dropped.address]
            found += [(f"table {self.name}, row {row.id!r}", part) for part in parts]
        return tuple(found)

    @cached_property
    def messages(self) -> frozenset[Message]:
        """The messages that the table takes, and those that its rows send or drop."""
        taken = self.on.message if isinstance(self.on, Loss) else self.on
        found = {taken} if isinstance(taken, Message) else set[Message]()
        for row in self.rows:
            found |= {sending.message for sending in self.sendings(row)}
            found |= {dropped.message for dropped in self.droppings(row)}
        return frozenset(found)

    def _addressed(self, sending: Sending) -> Sending:
        message, source = sending.message, sending.message.comes_from
        if source is not None and SENDER in dict(sending.fields):
            raise DeclarationError(f"{message.name}: leave sender= out, it is filled in")
        filled: dict[str, Expression] = {}
        if isinstance(self.on, Loss) and self.on.message == message:  # the row forwards it
            filled = {name: getattr(self.on, name) for name, _ in message.address}
        else:
            if isinstance(self.on, Message) and message.answers == self.on:
                parameters = dict(self.on.parameters)  # a response may have further address fields
                names = [n for n, _ in message.address if source is not None or n in parameters]
                filled = {
                    n: getattr(self.on, SENDER if source and n == TO else n)
                    for n in names
                    if source is None or n == TO
                }
            if source is not None and source.machine != self.machine.name:
                raise DeclarationError(
                    f"{message.name} comes from {source.machine}, not from {self.machine.name}"
                )
            if source is not None and source.field:
                filled = {source.field: self.machine.this, **filled}
        if not filled:
            return sending
        fields = {**filled, **dict(sending.fields)}
        return dataclasses.replace(sending, fields=tuple(fields.items()))

    def _check(self, row: Row) -> None:
        self._condition(row.guard)
        check_during(row.during)
        targets: set[Expression] = set()
        for target, value in self.updates(row):
            self._target(target)
            self._owned(target)
            self._owned(value)
            if target in targets:
                raise DeclarationError(f"`{target}` is set twice")
            targets.add(target)
            expected = type_of(target)
            assert expected is not None
            if suits(value, expected):
                continue
            if not fits(type_of(value), expected):
                raise DeclarationError(
                    f"`{target}` is {expected}: it can't be set to `{value}` ({type_of(value)})"
                )
            check_constant(value, expected, target)
        for sending in self.sendings(row):
            self._check_sending(sending)
        for dropped in self.droppings(row):
            address = dict(dropped.message.address)
            for name, value in dropped.address:
                if name not in address:
                    raise DeclarationError(f"the address of {dropped.message.name} has no {name}")
                self._owned(value)
                if not fits(type_of(value), address[name]):
                    raise DeclarationError(f"{dropped.message.name}.{name} is not `{value}`")

    def _condition(self, part: Expression, bound: tuple[Expression, ...] = ()) -> None:
        self._owned(part, bound)
        kind = type_of(part)
        if not isinstance(kind, Bool):
            raise DeclarationError(f"`{part}` is {kind} and not a condition")

    def _target(self, target: Expression) -> None:
        base = target
        while base.op in ("index", "get"):
            base = base.args[0]
            if isinstance(type_of(base), Sequence):
                raise DeclarationError(
                    f"`{target}` can't be set, as `{base}` is a sequence: set it as a whole, for "
                    f"instance to append({base}[:n], ...)"
                )
        if base.op != "field":
            raise DeclarationError(f"`{target}` can't be set: it is not a field, nor part of one")

    @cached_property
    def _named(self) -> MutableSet[Expression]:
        """The names that passed the check: most are in many rows."""
        return set()

    @cached_property
    def _known(self) -> MutableSet[tuple[Expression, tuple[Expression, ...]]]:
        """The expressions that passed the check, each with its bound variables."""
        return set()

    def _owned(self, expression: Expression, bound: tuple[Expression, ...] = ()) -> None:
        """Raises DeclarationError for another machine's field or another event's parameter."""
        if (expression, bound) in self._known:
            return
        nodes = naming(expression)
        for node in nodes:
            if node not in self._named:
                self._check_name(node)
                self._named.add(node)
        if any(node.op in ("variable", "element") for node in nodes):
            in_scope = (*self.on.variables, *bound)
            check_scopes(expression, frozenset(map(str, in_scope)))
            for name in free_variables(expression) - {*in_scope}:
                raise DeclarationError(
                    f"`{name}` isn't bound: neither {self.on.name} nor all_of, any_of, ... binds it"
                )
        self._known.add((expression, bound))

    def _check_name(self, node: Expression) -> None:
        if node.op == "field":
            machines = {m.name: m for m in (self.machine, *self.others)}
            owner = machines.get(node.data.machine)
            if owner is None:
                raise DeclarationError(
                    f"`{node}` is a field of {node.data.machine}, not of {self.machine.name}"
                )
            if node.data.name not in owner.fields:
                raise DeclarationError(f"machine {owner.name} has no field {node.data.name}")
            if owner.fields[node.data.name].expression.data is not node.data:
                raise DeclarationError(
                    f"`{node}` is a field of another machine that is called {owner.name} too"
                )
            if owner is not self.machine and owner.key is not None and not node.args:
                raise DeclarationError(f"`{node}`: say which {owner.key} with .at()")
        elif node.op == "this" and node.data.machine != self.machine.name:
            raise DeclarationError(
                f"`{node.data.machine}.this` is not an instance here, because the table is "
                f"{self.machine.name}'s: use the event's own {node.data.type}, if it has one"
            )
        elif node.op == "parameter" and node.data.event != self.on.name:
            raise DeclarationError(
                f"`{node}` is a parameter of {node.data.event}, not of {self.on.name}"
            )
        elif node.op == "after":
            raise DeclarationError(f"`{node}`: only step properties can refer to the next state")
        elif node.op == "in_flight":
            raise DeclarationError(f"`{node}`: only properties can use in_flight(...)")

    def _check_sending(self, sending: Sending) -> None:
        declared = dict(sending.message.parameters)
        for bound in sending.to_each:
            if bound.op != "variable":
                raise DeclarationError(
                    f"{sending.message.name}, to_each: `{bound}` isn't a variable"
                )
        self._condition(sending.when, sending.to_each)
        for name, value in sending.fields:
            kind = declared.get(name)
            if kind is None:
                raise DeclarationError(f"message {sending.message.name} has no field {name}")
            self._owned(value, sending.to_each)
            if suits(value, kind):
                continue
            if not fits(type_of(value), kind):
                raise DeclarationError(
                    f"{sending.message.name}.{name} is {kind}: not `{value}` ({type_of(value)})"
                )
            check_constant(value, kind, f"{sending.message.name}.{name}")
        for name, _ in sending.message.address:
            if name not in dict(sending.fields):
                raise DeclarationError(f"{sending.message.name}: its address lacks {name}")
