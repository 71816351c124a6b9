"""Refinement checks: a reduced system has the behaviour of the whole one.

A reduction maps each state of the whole system to one of the reduced system: it drops fields that
are left out, and replaces values by canonical forms. The map is a refinement mapping if each step
of the whole system is a step of the reduced one, or changes no field of the reduced one. For a
reduction that only replaces fields the converse must hold, too: each step of the reduced system is
one of the whole system. A reduction that restricts the environment (`NotOffered`, `Never`) has
fewer steps by intent; only the converse is checked.

Where a value stands for one that the environment chooses, as the time is, many states of the whole
system map to one of the reduced system (`is_chosen`). Each step of the whole system must be one of
the reduced system, and each step of the reduced system one of some of these states. The whole
system may have more tables and other numbers: a clock that ticks.

The whole system sends the messages that the reduced one leaves out, and has room for them. It may
take one of them, without effect, before a step that the reduced system takes immediately.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..language import Channel, Instance, Message, System, Table, instantiate
from ..language.declaration.errors import DeclarationError
from ..language.declaration.typecheck import type_of
from ..language.expressions import (
    Bound,
    Expression,
    Operand,
    children_first,
    field_set,
    lift,
    rewrite,
)
from ..language.instances.reductions import (
    Canonical,
    LeftOut,
    Never,
    NotOffered,
    Reduction,
    Settled,
)
from ..language.systems import NETWORK
from ..language.terms.values import canonical, evaluate, field_name
from ..language.types import (
    Bag,
    Enum,
    Int,
    Map,
    Optional,
    Record,
    Sequence,
    Set,
    Type,
    Value,
    choices,
)
from ..model.engine.compiler.stepper import Stepper
from ..model.engine.interpreter import FullState, Step
from .verdict.constant_folding import message_of

MOST = 20_000
"""The number of states of the whole system that are compared by default."""
ROOM = 2
"""The messages of an address that the whole system has beyond the capacity of the reduced one."""


@dataclass(frozen=True)
class Mismatch:
    """A step that only one of the two systems has. `run` has the labels of the steps before it."""

    run: tuple[str, ...]
    step: str
    is_of_whole: bool

    def __str__(self) -> str:
        side = "whole" if self.is_of_whole else "reduced"
        return f"only the {side} system has {self.step} after {', '.join(self.run) or 'no step'}"


@dataclass(frozen=True)
class Refinement:
    """The result of one refinement check. `states` of the whole system were compared, and `steps`
    of it exist in both systems. The check is `exhaustive` if it compared all states within the
    bounds.

    `taken` are the rows that the reduction changes and that steps took, and `untaken` the others
    that it changes. For a reduction that restricts the environment, only steps count that the
    reduced system lacks. Without a row in `taken`, the check is vacuous.
    """

    states: int
    steps: int
    exhaustive: bool
    mismatch: Mismatch | None
    taken: frozenset[str] = frozenset()
    untaken: frozenset[str] = frozenset()


def whole_system(
    system: System,
    reduction: Reduction,
    tables: tuple[Table, ...] = (),
    fixed: Mapping[Expression, int] | None = None,
) -> System:
    """The system without one of its reductions, with further tables and with fixed numbers.

    Raises DeclarationError if the system doesn't have the reduction, is invalid without it, or was
    changed after its reductions: the change would be missing in the whole system.
    """
    reduced = system.reduced
    if reduced is None or reduction not in reduced.reductions:
        raise DeclarationError(f"{system.name} doesn't have this reduction")
    if _contents(system.tables) != _contents(reduced.tables):
        raise DeclarationError(
            f"{system.name} was changed after its reductions: compare the system before the change"
        )
    rest = tuple(one for one in reduced.reductions if one is not reduction)
    given: dict[str, Any] = dict(reduced.given)
    match reduction:
        case LeftOut(of=Message() as message):
            given["channels"] = _with_room(given["channels"], message)
            if reduction.is_always:  # no table takes it, so its fields have no effect
                of = [p for p, _ in message.parameters if p not in dict(message.address)]
                why = reduction.because
                rest += tuple(LeftOut(getattr(message, p), because=why) for p in of)
        case LeftOut(of=Enum() as enum):
            given["fixed"] = {
                constant: len(enum.members) if constant is enum.size else value
                for constant, value in system.fixed.items()
            }
        case _:
            pass
    return _extended(system, given | {"reductions": rest}, tables, fixed)


def _extended(
    system: System,
    given: dict[str, Any],
    tables: tuple[Table, ...],
    fixed: Mapping[Expression, int] | None,
) -> System:
    """A system of the `given` parts and its reductions, with further tables and fixed numbers."""
    given["tables"] = (*given["tables"], *tables)
    given["fixed"] = given.get("fixed", system.fixed) | (fixed or {})
    return replace(system, **given, reduced=None)


def _contents(tables: tuple[Table, ...]) -> list[tuple[str, str, list[int]]]:
    """The condition of each table and its rows, by identity: reduced rows stay the same objects."""
    return [(table.name, str(table.guard), [id(row) for row in table.rows]) for table in tables]


def _with_room(channels: tuple[Channel, ...], message: Message) -> tuple[Channel, ...]:
    """The channels, with room for messages of this kind that the reduced system leaves out."""
    others = [channel for channel in channels if channel.message.name != message.name]
    own = [replace(c, capacity=lift(c.most) + ROOM) for c in channels if c not in others]
    return (*others, *(own or [Channel(message, 1)]))


def refine(
    system: System,
    reduction: Reduction,
    *,
    protocol: str | None = None,
    bounds: str = "default",
    constants: dict[str, int] | None = None,
    most: int = MOST,
    is_chosen: bool = False,
    loses_nothing: bool = False,
    tables: tuple[Table, ...] = (),
    fixed: Mapping[Expression, int] | None = None,
) -> Refinement:
    """Compares a system with the same system without one reduction, step by step from the start.

    It compares at most `most` states of the whole system, in breadth-first order. The whole system
    also has `tables` and the numbers `fixed`. With `is_chosen` some state of the whole system that
    maps to a state of the reduced one must take each of its steps, not every such state; this is
    compared if no state is left. With `loses_nothing` a `NotOffered` must have every step of the
    whole system: other parameters of the event have the same effect.

    Raises DeclarationError for a reduction that the system doesn't have.
    """
    settings: dict[str, Any] = {"protocol": protocol, "bounds": bounds, "constants": constants}
    whole = instantiate(whole_system(system, reduction, tables, fixed), **settings)
    both = _Both(whole, instantiate(system, **settings), reduction, is_chosen)
    both.restricts &= not loses_nothing
    found = both.compared(most)
    like = both.reduced
    if fixed or tables:  # rows that differ by these alone aren't changed by the reduction
        assert system.reduced is not None
        parts = dict(system.reduced.given)
        like = instantiate(_extended(system, parts, tables, fixed), **settings)
    before, after = _rows(whole), _rows(like)
    labels = before.keys() | after.keys()
    changed = {label for label in labels if before.get(label) != after.get(label)}
    return replace(found, taken=changed & both.taken, untaken=changed - both.taken)


def _form(reduction: Reduction, reduced: Instance) -> Callable[[FullState], FullState]:
    """A function that replaces a state, with the fields of the reduced system, by its reduced
    form.
    """
    match reduction:
        case Settled():
            return _settled(reduction, reduced)
        case Canonical() if reduction.of.op == "parameter":
            message = _InFlight(reduction.of.data.event, reduced)
            return message.form(reduction.when, {reduction.of.data.name: reduction.value})
        case Canonical():
            return _canonical(reduction, reduced)
        case LeftOut(of=Message() as message) if not reduction.is_always:
            return _InFlight(message.name, reduced).form(reduction.when, None)
        case _:
            return lambda state: state


class _InFlight:
    """The messages of one kind in flight."""

    def __init__(self, message: str, reduced: Instance) -> None:
        self.reduced = reduced
        self.names = [variable.name for variable in reduced.variables]
        self.at = self.names.index(f"{NETWORK}.{message}")
        kind = reduced.variables[self.at].type
        while isinstance(kind, Map):
            kind = kind.of
        assert isinstance(kind, (Bag, Sequence))
        self.kind = kind
        channels = reduced.system.channels
        sent = next(c.message for c in channels if c.message.name == message)
        address = dict(sent.address)
        self.keys = [choices(kind, reduced.constants) for kind in address.values()]
        self.fields = [name for name, _ in sent.parameters if name not in address]
        self.variables = {
            (message, name): Expression("variable", (), Bound(f"sent {name}", kind))
            for name, kind in sent.parameters
        }
        self.bound = [self.variables[message, name] for name in (*address, *self.fields)]

    def _read(self, value: Operand) -> Expression:
        """The expression with variables in place of the message's fields."""
        reduced = self.reduced.system.reduced
        assert reduced is not None

        def change(node: Expression) -> Expression | None:
            if node.op == "feature":
                return lift(node.data.name in self.reduced.features)
            if node.op == "parameter":
                return self.variables[node.data.event, node.data.name]
            return None

        return rewrite(reduced.expression(lift(value)), change)

    def form(
        self, when: Operand, values: Mapping[str, Operand] | None
    ) -> Callable[[FullState], FullState]:
        """A function that gives the messages for which `when` holds these values; None drops
        them.
        """
        condition = self._read(when)
        others = None if values is None else {n: self._read(v) for n, v in values.items()}
        constants = self.reduced.constants

        def settle(state: FullState) -> FullState:
            before = dict(zip(self.names, state, strict=True))

            def settled(value: Any, place: tuple[Value, ...]) -> Value:
                if len(place) < len(self.keys):
                    keys = self.keys[len(place)]
                    parts = zip(value, keys, strict=True)
                    return tuple(settled(part, (*place, key)) for part, key in parts)
                kept: list[Any] = []
                for message in value:
                    bound = dict(zip(self.bound, (*place, *message), strict=True))
                    if not evaluate(condition, before, constants, bound):
                        kept.append(message)
                    elif others is not None:
                        kept.append(
                            tuple(
                                evaluate(others[name], before, constants, bound)
                                if name in others
                                else held
                                for name, held in zip(self.fields, message, strict=True)
                            )
                        )
                if isinstance(self.kind, Sequence):
                    return tuple(kept)
                return canonical(self.kind.of, tuple(kept), constants)

            return (*state[: self.at], settled(state[self.at], ()), *state[self.at + 1 :])

        return settle


def _settled(form: Settled, reduced: Instance) -> Callable[[FullState], FullState]:
    """A function that sets the fields of a `Settled` to its values in states where it applies."""
    constants = reduced.constants
    names = [variable.name for variable in reduced.variables]
    key = next(iter(form.set)).data.key
    instance = None if key is None else key.variable("settled_instance")
    places = [None] if key is None else choices(key, constants)

    def of_features(node: Expression) -> Expression | None:
        return lift(node.data.name in reduced.features) if node.op == "feature" else None

    def of_instance(value: Operand) -> Expression:
        # a value without fields needs no instance
        whole = rewrite(lift(value), of_features)
        if instance is not None and any(n.op == "field" for n in children_first(whole)):
            return whole.at(instance)
        return whole

    when = of_instance(form.when)
    values = {field_name(of.data): of_instance(value) for of, value in form.set.items()}

    def settle(state: FullState) -> FullState:
        before = dict(zip(names, state, strict=True))
        after: dict[str, Any] = dict(before)
        for place, one in enumerate(places):
            bound: dict[Expression, Value] = {} if instance is None else {instance: one}
            if not evaluate(when, before, constants, bound):
                continue
            for name, value in values.items():
                if name not in after:
                    continue
                made, held = evaluate(value, before, constants, bound), after[name]
                after[name] = made if key is None else (*held[:place], made, *held[place + 1 :])
        return tuple(after[name] for name in names)

    return settle


def _canonical(form: Canonical, reduced: Instance) -> Callable[[FullState], FullState]:
    """A function that replaces parts of a field by their canonical form."""
    keys, node = 0, form.of
    while node.op == "index":
        keys += 1
        node = node.args[0]
    data = field_set(form.of)
    keys += data.key is not None
    at = [variable.name for variable in reduced.variables].index(field_name(data))
    of = type_of(form.of)
    assert of is not None
    whole = Expression("variable", (), Bound("whole", of))

    def of_value(node: Expression) -> Expression | None:
        if node.op == "feature":
            return lift(node.data.name in reduced.features)
        return whole if node is form.of else None

    when, settled = (rewrite(lift(part), of_value) for part in (form.when, form.value))
    constants = reduced.constants

    def settle(value: Any, depth: int) -> Value:
        if depth:
            return tuple(settle(part, depth - 1) for part in value)
        if not evaluate(when, {}, constants, {whole: value}):
            return value
        return evaluate(settled, {}, constants, {whole: value})

    return lambda state: (*state[:at], settle(state[at], keys), *state[at + 1 :])


def _rows(instance: Instance) -> dict[str, list[str]]:
    """The text of each row with its table's condition, by label. A label may have several rows."""
    found: dict[str, list[str]] = {}
    for action in instance.actions:
        for row in action.rows:
            text = f"{action.when} {row.guard} {row.rooms} {row.updates}"
            found.setdefault(f"{action.table}/{row.id}", []).append(text)
    return found


class _Both:
    def __init__(
        self, whole: Instance, reduced: Instance, reduction: Reduction, is_chosen: bool
    ) -> None:
        self.whole, self.reduced = whole, reduced
        self.is_chosen = is_chosen
        self.has_numbers = whole.constants != reduced.constants
        self.steppers = Stepper(whole), Stepper(reduced)
        self.restricts = isinstance(reduction, (NotOffered, Never))
        self.form = _form(reduction, reduced)
        places = {variable.name: at for at, variable in enumerate(whole.variables)}
        self.parts = [
            (places[variable.name], whole.variables[places[variable.name]].type, variable.type)
            for variable in reduced.variables
        ]
        self.known: dict[FullState, dict[tuple[str, FullState | None], Step]] = {}
        self.leaves_out = isinstance(reduction, LeftOut)
        self.untaken = self._untaken(reduction)
        self.rows: tuple[set[int], set[int]] = set(), set()
        """The rows that steps of each system took, by number."""

    def _untaken(self, reduction: Reduction) -> tuple[int, Value] | None:
        """The index of the network of a message that no table takes, and the empty network."""
        if not isinstance(reduction, LeftOut) or not isinstance(reduction.of, Message):
            return None
        if not reduction.is_always:
            return None
        name = reduction.of.name
        if any(getattr(message_of(t.on), "name", "") == name for t in self.whole.system.tables):
            raise DeclarationError(f"{name} is left out, but a table takes it")
        at = [variable.name for variable in self.whole.variables].index(f"{NETWORK}.{name}")
        return at, next(iter(self.whole.initial_states()))[at]

    def image(self, state: FullState) -> FullState:
        """The state of the reduced system for a state of the whole one."""
        constants = self.reduced.constants
        return self.form(
            tuple(
                projected(state[at], own, to, constants, self.has_numbers)
                for at, own, to in self.parts
            )
        )

    def compared(self, most: int) -> Refinement:
        starts = list(self.whole.initial_states())
        before: dict[FullState, tuple[FullState, str] | None] = dict.fromkeys(starts)
        waiting = deque(starts)
        images = {self.image(state) for state in starts}
        if images != set(self.reduced.initial_states()):
            return Refinement(0, 0, False, Mismatch((), "an initial state", True))
        states = steps = 0
        owed: dict[FullState, tuple[FullState, dict[tuple[str, FullState | None], Step]]] = {}
        while waiting and states < most:
            state = waiting.popleft()
            states += 1
            image = self.image(state)
            there = self._reduced_steps(image)
            seen: set[tuple[str, FullState | None]] = set()
            for step in self.steppers[0].steps(state):
                if step.state is None:
                    return Refinement(states, steps, False, self._found(before, state, step, True))
                following = step.state
                if self.untaken is not None:
                    at, empty = self.untaken
                    following = (*following[:at], empty, *following[at + 1 :])
                to = self.image(following)
                key = (step.action.table, to)
                seen.add(key)
                steps += key in there
                if key not in there or not self.restricts:
                    self.rows[0].add(step.row)
                if key not in there and to != image and not self.restricts:
                    return Refinement(states, steps, False, self._found(before, state, step, True))
                if self.restricts and key not in there:
                    continue  # no later state is in the reduced system
                if following not in before:
                    before[following] = (state, self._label(0, step))
                    waiting.append(following)
            if not self.restricts:
                self.rows[1].update(step.row for step in there.values())
            if self.is_chosen:
                _, left = owed.setdefault(image, (state, dict(there)))
                for key in seen:
                    left.pop(key, None)
                continue
            for key, step in there.items():
                if key not in seen and key[1] != image and not self._takes_later(state, key):
                    return Refinement(states, steps, False, self._found(before, state, step, False))
        invented = None if waiting else self._invented(before, owed)
        return Refinement(states, steps, not waiting, invented)

    @property
    def taken(self) -> set[str]:
        """The rows that steps took, without those of a restricted system that both have."""
        each = zip((self.whole, self.reduced), self.rows, strict=True)
        return {instance.row_names[row] for instance, rows in each for row in rows}

    def _invented(
        self,
        before: dict[FullState, tuple[FullState, str] | None],
        owed: dict[FullState, tuple[FullState, dict[tuple[str, FullState | None], Step]]],
    ) -> Mismatch | None:
        """A step of the reduced system that no state of the whole one takes."""
        for image, (state, left) in owed.items():
            for key, step in left.items():
                if key[1] != image:
                    return self._found(before, state, step, False)
        return None

    def _takes_later(self, state: FullState, key: tuple[str, FullState | None]) -> bool:
        """Whether the whole system takes the step after further steps that the reduced one
        lacks.
        """
        image, known, waiting = self.image(state), {state}, [state]
        while waiting:
            for step in self.steppers[0].steps(waiting.pop()):
                if step.state is None:
                    continue
                to = self.image(step.state)
                if (step.action.table, to) == key:
                    return True
                if to == image and step.state not in known:
                    known.add(step.state)
                    waiting.append(step.state)
        return False

    def _reduced_steps(self, image: FullState) -> dict[tuple[str, FullState | None], Step]:
        """The steps by table and next state; the state is None for a step that leaves a range."""
        found = self.known.get(image)
        if found is None:
            found = {
                (step.action.table, self._settled(step.state)): step
                for step in self.steppers[1].steps(image)
            }
            self.known[image] = found
        return found

    def _settled(self, state: FullState | None) -> FullState | None:
        """A state of the reduced system, without messages that the reduction leaves out in it."""
        return self.form(state) if state is not None and self.leaves_out else state

    def _label(self, side: int, step: Step) -> str:
        if step.state is None:
            return f"{step.action.table}: {step.out_of_range}"
        return (self.whole, self.reduced)[side].row_names[step.row]

    def _found(
        self,
        before: dict[FullState, tuple[FullState, str] | None],
        state: FullState,
        step: Step,
        is_of_whole: bool,
    ) -> Mismatch:
        run: list[str] = []
        while (link := before[state]) is not None:
            state, label = link
            run.insert(0, label)
        return Mismatch(tuple(run), self._label(0 if is_of_whole else 1, step), is_of_whole)


def projected(
    value: Any, own: Type, to: Type, constants: Mapping[str, int], has_numbers: bool = False
) -> Value:
    """A value converted to a type whose records have only some of its fields. With other numbers
    (`has_numbers`), a number beyond the type's range is converted to its nearest value."""
    if value is None or (own == to and not has_numbers):
        return value
    match own, to:
        case Int(), Int():
            low, high = to.range(constants)
            return min(max(value, low), high)
        case Record(), Record():
            names = [name for name, _ in own.fields]
            kinds = dict(own.fields)
            return tuple(
                projected(value[names.index(name)], kinds[name], kind, constants, has_numbers)
                for name, kind in to.fields
            )
        case Optional(), Optional():
            return projected(value, own.of, to.of, constants, has_numbers)
        case (Map() | Sequence(), Map() | Sequence()):
            return tuple(projected(part, own.of, to.of, constants, has_numbers) for part in value)
        case Bag(), Bag():
            return canonical(
                to.of,
                tuple(projected(part, own.of, to.of, constants, has_numbers) for part in value),
                constants,
            )
        case Set(), Set():
            return frozenset(
                projected(part, own.of, to.of, constants, has_numbers) for part in value
            )
        case _:
            return value
