"""Random small systems in the language, for comparing engines with each other.

Types are taken by how many values they have, so that a system has some hundreds of states.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from random import Random
from typing import Any

from hypothesis import strategies as st

from epochfence import language as lang
from epochfence.language import Event, Expression, Machine, Message, Property, Row, Table
from epochfence.language.declaration.places import Place
from epochfence.language.declaration.typecheck import type_of
from epochfence.language.expressions import Operand, resolve
from epochfence.language.types import Type
from epochfence.tests.checker.drawn_expressions import (
    BIT,
    COLOUR,
    FAST,
    GROUP,
    MARK,
    OLD,
    ORDERED_BY,
    OWNED,
    POINT,
    POOL,
    SCALARS,
    A,
    B,
    Drawing,
    M,
    N,
    Scope,
    cardinality,
    paths,
)

PROTOCOLS = lang.Protocols(("1", "2"), (FAST, OLD))
DRAWN = Place("<drawn>", 1)
CARRIED: tuple[Type, ...] = (
    BIT, lang.Bool(), MARK, lang.Optional(BIT), lang.Set(A), COLOUR, A,
    POINT, lang.Optional(POINT), lang.Map(A, BIT), lang.Bag(BIT, 2), lang.Sequence(BIT, 2),
    lang.Map(B, lang.Optional(BIT)), lang.Sequence(POINT, 1), lang.Bag(POINT, 1), OWNED, GROUP,
)  # fmt: skip


# Drawn again: a first value outside its type, a quantifier that hides what it should look at.
PASSED_OVER = ("its first value can't be", "a second time")


class SystemDrawing(Drawing):
    """Draws a system whose states are at most about `room`."""

    def __init__(self, random: Random, room: int) -> None:
        super().__init__(random, {})
        self.room = room
        self.constants = {"N": self.number(1, 3), "M": self.number(1, 2)}
        self.names_keys = self.chance(45)
        self.machines: list[Machine] = []
        self.channels: list[lang.Channel] = []
        self.tables: list[Table] = []
        self.bounded: list[Event] = []

    def instance(self) -> lang.Instance:
        """The system, instantiated."""
        kept = 25 if self.chance(50) else 1  # room for what travels
        self.room //= kept
        self.all_machines()
        self.room *= kept
        if kept > 1:
            self.traffic()
        for machine in self.machines:
            for at in range(self.number(1, 3)):
                self.happening(machine, f"{machine.name}'s event {at}")
        keys = (A, B)[: self.number(1, 2)]
        alone = [pair for m in self.machines if m.key is None for pair in self.fields(m)]
        terminal: Operand = True
        if self.chance(40):
            terminal = self.truth(Scope(tuple(alone), self.names_keys), 1)
        system = lang.System(
            "random",
            tuple(self.tables),
            tuple(self.property(f"P{at}") for at in range(self.number(2, 4))),
            constants=(N, M),
            protocols=PROTOCOLS,
            channels=tuple(self.channels),
            budgets=self.budgets(),
            interchangeable=() if self.names_keys and self.chance(80) else keys,
            terminal=terminal,
        )
        return lang.instantiate(system, self.pick(("1", "2")), self.constants)

    def budgets(self) -> dict[Event | tuple[Event, ...], Operand]:
        """How often events may happen, each by itself or all together."""
        events = list(dict.fromkeys(self.bounded))
        if len(events) > 1 and self.chance(50):
            return {tuple(events): self.pick((1, 2, M))}
        return {event: self.pick((1, 2, M)) for event in events}

    @property
    def messages(self) -> list[Message]:
        """What travels."""
        return [channel.message for channel in self.channels]

    # Machines ------------------------------------------------------------------------------

    def all_machines(self) -> None:
        """One or two machines."""
        for at in range(self.number(1, 2)):
            self.machine(f"m{at}")

    def machine(self, name: str) -> None:
        """A machine with one to three fields."""
        key = self.pick((None, A, B))
        machine = Machine(name, key)
        copies = 1 if key is None else key.count(self.constants)
        for at in range(self.number(1, 3)):
            sizes = [(kind, cardinality(kind, self.constants) ** copies) for kind in POOL]
            fitting = [(kind, size) for kind, size in sizes if size <= self.room]
            if at == 0:
                fitting = [(kind, size) for kind, size in fitting if size > 3] or fitting
            if fitting:
                kind, size = self.pick(fitting)
                self.field(machine, f"f{at}", kind, size)
                self.room //= size
        if not machine.fields:
            machine.field("f0", lang.Bool())
        self.machines.append(machine)

    def field(self, machine: Machine, name: str, kind: Type, size: int) -> None:
        """A field, with its first value or values."""
        if isinstance(kind, lang.Enum):
            machine.state_field(name, kind)
        elif kind in SCALARS and size <= 9 and self.chance(30):
            machine.field(name, kind, any_initial=True)
        elif self.chance(25):
            machine.field(name, kind, self.expression(kind, Scope((), machine.key is None), 1))
        else:
            machine.field(name, kind)

    def fields(self, machine: Machine) -> list[tuple[Expression, Type]]:
        """A machine's fields as sources."""
        return [(info.expression, info.type) for info in machine.fields.values()]

    # Messages ------------------------------------------------------------------------------

    def traffic(self) -> None:
        """A request, maybe its response, and the tables that take them."""
        owners = {machine.name: machine for machine in self.machines}
        request = self.message("request", None)
        if request is None:
            return
        response = self.message("response", request) if self.chance(60) else None
        self.table(owners[request.goes_to.machine], request, response)
        if response is not None:
            self.table(owners[response.goes_to.machine], response, None)
        if self.chance(30):
            reached = {key: m for m in self.machines for key in (m.key,)}
            taker = owners[request.goes_to.machine]
            finders = [taker, *(m for k, m in reached.items() if k is None)]
            self.table(self.pick(finders), lang.lost(request), None)

    def message(self, name: str, answers: Message | None) -> Message | None:
        """A message with its channel; none where there is no room left for it."""
        to = self.pick(self.machines)
        fields: dict[str, Any] = {}
        known = () if answers is None else dict(answers.address).values()
        peers = to.key is not None and answers is None and self.chance(50)
        if answers is not None and answers.comes_from is not None:
            peers = True
            to = next(m for m in self.machines if m.name == answers.comes_from.machine)
        if peers:
            pass
        elif to.key is not None and to.key not in known:
            fields[f"to_{to.name}"] = to.key
        elif self.chance(30) and answers is None:
            fields["from_which"] = self.pick((A, B))
        for label in ("p", "q")[: self.number(0, 2)]:
            fields[label] = self.pick(CARRIED)
        if answers is not None:
            fields["error"] = MARK
        carried = tuple(n for n in ("p", "q") if fields.get(n) == A)
        sender = to if peers else None
        made = lang.message(name, to, sender=sender, answers=answers, carried=carried, **fields)
        most = self.number(1, 2)
        places = prod(key.count(self.constants) for _, key in made.address)
        ordered = self.chance(30)
        line = (lang.Sequence if ordered else lang.Bag)(made.content, most)
        size = cardinality(line, self.constants) ** places
        if size > min(self.room, 150):
            return None
        self.room //= size
        capacity = M if resolve(M, self.constants) == most and self.chance(50) else most
        duplicates: Operand = 0
        if self.room >= 3 and self.chance(50):
            duplicates = self.pick((1, M))
            self.room //= 3
        self.channels.append(
            lang.Channel(made, capacity, ordered, lossy=self.chance(30), duplicates=duplicates)
        )
        return made

    def sending(self, message: Message, on: Event, scope: Scope) -> lang.Sending:
        """A message filled in; a response has its request's address unless it is given here."""
        known: set[str] = set()
        if isinstance(on, Message) and message.answers == on:
            known = {name for name, _ in on.address}
        peers = message.comes_from is not None
        given: dict[str, Operand] = {}
        to_each: list[Expression] = []
        for name, key in message.address:
            if (name in known and (peers or self.chance(60))) or (peers and name == "sender"):
                continue
            if name not in known and self.chance(30):
                bound = key.variable(f"each {name}")
                to_each.append(bound)
                scope = scope.with_((bound, key))
                given[name] = bound
            else:
                given[name] = self.key(key, scope)
        for name, kind in message.content.fields:
            if self.chance(80) and name in dict(message.parameters):
                given[name] = self.expression(kind, scope, 1)
        sent = message(**given)
        for bound in to_each:
            sent = lang.to_each(bound, self.truth(scope, 1), sent)
        if self.chance(20):
            sent = replace(sent, when=sent.when & self.truth(scope, 1))
        return sent

    # Tables --------------------------------------------------------------------------------

    def happening(self, machine: Machine, name: str) -> None:
        """A table on an event with parameters."""
        scope = Scope(tuple(self.fields(machine)), self.names_keys)
        found = [path.type for path in paths(scope)]
        kinds = [kind for kind in found if kind in SCALARS]
        kinds += [kind.key for kind in found if isinstance(kind, lang.Map)]
        kinds += [kind.of for kind in found if isinstance(kind, lang.Set)]
        kinds += [*kinds, *kinds, *SCALARS, lang.Optional(BIT)]
        parameters: dict[str, Any] = {}
        variables: list[Expression] = []
        if self.chance(70):
            parameters["p"] = self.pick(kinds)
        if self.chance(40):
            variables.append(lang.variable("chosen", self.pick([k for k in kinds if k in SCALARS])))
        on = lang.event(name, *variables, **parameters)
        if self.room >= 3 and self.chance(25):
            self.bounded.append(on)
            self.room //= 3
        self.table(machine, on, None)

    def table(self, machine: Machine, on: Event, response: Message | None) -> None:
        """A table of one to three rows."""
        sources = self.fields(machine)
        if machine.key is not None:
            sources.append((machine.this, machine.key))
        sources += [(getattr(on, name), kind) for name, kind in on.parameters] * 2
        sources += [(bound, bound.data.type) for bound in on.variables] * 2
        scope = Scope(tuple(sources), self.names_keys)
        elsewhere = [m for m in self.machines if m is not machine and self.chance(40)]
        for other in elsewhere:
            for seen, kind in self.fields(other):
                if other.key is not None:
                    seen = seen.at(self.key(other.key, scope))
                scope = scope.with_((seen, kind))
        rows = [
            self.row(f"row {at}", machine, on, scope, response) for at in range(self.number(1, 3))
        ]
        when = self.truth(scope, 1) if self.chance(15) else lang.lift(True)
        made = Table(
            machine,
            on,
            tuple(rows),
            response,
            when,
            others=tuple(elsewhere),
            declared=DRAWN,  # rows that are drawn may hide each other
        )
        self.tables.append(made)

    def row(
        self, name: str, machine: Machine, on: Event, scope: Scope, response: Message | None
    ) -> Row:
        """A row: what it sets, where it goes, what it sends."""
        updates: dict[Expression, Operand] = {}
        for _ in range(self.number(1, 2)):
            target, kind = self.target(machine, scope)
            if target is not machine.state and target not in updates:
                updates[target] = self.change(target, kind, scope)
        goto: Operand = None
        if machine.state is not None and self.chance(50):
            goto = self.expression(machine.fields[machine.state.data.name].type, scope, 1)
        reply: Expression | lang.Sending | None = None
        if response is not None and self.chance(80):
            plain = isinstance(on, Message) and dict(response.address) == dict(on.address)
            if plain and self.chance(50):
                reply = self.expression(MARK, scope, 1)
            else:
                reply = self.sending(response, on, scope)
        others = [
            m
            for m in self.messages
            if m != response and (m.comes_from is None or m.comes_from.machine == machine.name)
        ]
        lost = [m for m in others if m.comes_from is not None or m.goes_to.machine == machine.name]
        send = tuple(self.sending(m, on, scope) for m in others if self.chance(40))
        during = lang.lift(True)
        if self.chance(15):
            during = self.pick((FAST, OLD, ~FAST, FAST & ~OLD, FAST | OLD))
        when = self.truth(scope, self.number(1, 3)) if self.chance(60) else True
        drop = tuple(lang.dropping(m) if self.chance(30) else m for m in lost if self.chance(15))
        return Row(name, "", when, goto, updates, reply, send, during, drop=drop)

    def target(self, machine: Machine, scope: Scope) -> tuple[Expression, Type]:
        """A field of the machine or a part of one."""
        target, kind = self.pick(self.fields(machine))
        for _ in range(2):
            if isinstance(kind, lang.Map) and self.has_key(kind.key, scope) and self.chance(60):
                target, kind = target[self.key(kind.key, scope)], kind.of
            elif isinstance(kind, lang.Record) and self.chance(50):
                name, of = self.pick(kind.fields)
                target, kind = getattr(target, name), of
        return target, kind

    def change(self, target: Expression, kind: Type, scope: Scope, steps: int = 2) -> Expression:
        """A new value for a target, mostly one that takes it through all values of its type."""
        if steps == 0 or self.chance(30):
            return self.expression(kind, scope, self.number(1, 3))
        match kind:
            case lang.Int():
                more = target + self.pick((1, M))
                return more if self.chance(6) else lang.wrap(more, kind)
            case lang.Bool():
                return ~target
            case lang.Optional():
                other = self.expression(kind.of, scope, 1)
                return lang.if_(target.is_set, None, other)
            case lang.Set():
                one = lang.set_of(self.expression(kind.of, scope, 1))
                return lang.if_(self.truth(scope, 1), target - one, target | one)
            case lang.Sequence():
                one = self.expression(kind.of, scope, 1)
                longer = self.pick((lang.push, lang.append))(target, one)
                if isinstance(kind.of, lang.Record) and self.chance(50):
                    longer = lang.insert_by(target, one, ORDERED_BY[kind.of.name])
                full = lang.size(target) == kind.capacity
                return lang.if_(full, self.pick((target, lang.without_first(target))), longer)
            case lang.Bag():
                one = self.expression(kind.of, scope, 1)
                full = lang.size(target) == kind.capacity
                return lang.if_(full, lang.take(target, one), lang.put(target, one))
            case lang.Record():
                name, of = self.pick(kind.fields)
                inside = self.change(getattr(target, name), of, scope, steps - 1)
                return lang.replace(target, **{name: inside})
            case lang.Map() if self.has_key(kind.key, scope):
                key = self.key(kind.key, scope)
                inside = self.change(target[key], kind.of, scope, steps - 1)
                return lang.updated(target, key, inside)
            case _:
                return self.expression(kind, scope, 1)

    # Properties ----------------------------------------------------------------------------

    def property(self, name: str) -> Property:
        """An invariant or a step property over all machines."""
        quantified = [key.variable(f"some {key}") for key in (A, B) if self.chance(60)]
        sources: list[tuple[Expression, Type]] = [(bound, bound.data.type) for bound in quantified]
        for machine in self.machines:
            if machine.key is None:
                sources += self.fields(machine)
                continue
            bound = machine.key.variable(f"each {machine.name}")
            quantified.append(bound)
            sources.append((bound, machine.key))
            sources += [(seen.at(bound), kind) for seen, kind in self.fields(machine)]
        scope = Scope(tuple(sources), self.names_keys)
        body = self.truth(scope, 3)
        is_step = self.chance(40)
        if is_step:
            later = [
                (lang.after(seen), kind) for seen, kind in sources if seen not in {*quantified}
            ]
            now, kind = self.pick(later)
            beside = self.expression(kind, scope.with_(*later), 1)
            plain = type_of(beside) is not None or isinstance(kind, lang.Optional)
            same = now == beside if plain else lang.lift(True)
            body = body | same
            body = body | self.truth(scope.with_(*later), 2)
        elif self.chance(60):
            body = body | self.truth(scope, 2)
        for bound in quantified:
            body = self.pick((lang.all_of, lang.any_of))(bound, body)
        declare = lang.step_property if is_step else lang.invariant
        return declare(name, body, "A property.")


def instances(room: int = 300) -> st.SearchStrategy[lang.Instance]:
    """Random systems. Hypothesis draws a seed alone: systems drawn choice by choice are alike."""

    def drawn(random: Random) -> lang.Instance:
        while True:
            try:
                return SystemDrawing(random, room).instance()
            except lang.DeclarationError as error:
                if not any(reason in str(error) for reason in PASSED_OVER):
                    raise

    return st.randoms(use_true_random=True).map(drawn)
