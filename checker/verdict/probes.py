"""Probes: conditions that some reachable state (or step) must meet, or a result is vacuous.

For example, a property `all_of(x, p.implies(q))` also holds in a system where `p` is never true.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ...language import (
    Action,
    Bag,
    Expression,
    Instance,
    Loss,
    Map,
    Message,
    Sequence,
    all_true,
    any_of,
    any_true,
    lift,
    size,
    variable,
)
from ...language.expressions import Field, children_first
from ...language.systems import DEFAULT_CAPACITY, NETWORK, events_of
from ...language.terms.values import field_name
from ...language.types import Type

TERMINAL = "terminal"
LONGEST = 160  # most characters of a shown expression


@dataclass(frozen=True)
class Probe:
    """A condition that some state must meet, or some step, some state with a step (a `start`), some
    state without a step (an `end`), or, for `way`, some state in which a row of the table `about`
    can be taken.

    The conclusion after all premises isn't checked: its condition is that of the last premise.
    Otherwise `about` is the name of the property or message, or `terminal`. `shown` is the declared
    premise, the collection that must have an element, or the note on a `part` of a property that
    could be stronger. `behind` is the condition of the outer probe, which must be met first.

    Two probes should not be met: rows `wait` for a channel of the default capacity, and a message
    is `untaken` because no row of its table takes it. There `about` is the table.
    """

    kind: Literal["premise", "domain", "part", "message", "end", "way", "said", "wait", "untaken"]
    about: str
    shown: str
    expression: Expression
    of: Literal["state", "step", "start", "end", "way"]
    behind: Expression | None = None

    @property
    def asks_for_more(self) -> bool:
        """Whether the probe tests that a property or `terminal` could be stronger, and not that it
        is vacuous.
        """
        return self.kind in ("part", "end", "way") or self.of == "end"


def probes(instance: Instance) -> tuple[Probe, ...]:
    """All probes of the instance, each once."""
    found: list[Probe] = []
    for item in instance.properties:
        of = "start" if item.kind == "step" else "state"
        found += (x for x in _premises(item.name, item.expression, of) if x.kind != "said")
    found += _messages(instance)
    found += _terminal(instance)
    found += _waits(instance)
    found += _untaken(instance)
    return tuple(dict.fromkeys(found))


def is_untested(name: str, expression: Expression, unmet: Container[Expression]) -> bool:
    """Whether no state tested any part of a property: each part is after a condition in `unmet`."""
    said = [probe for probe in _premises(name, expression, "state") if probe.kind == "said"]
    return all(probe.expression in unmet for probe in said)


def _terminal(instance: Instance) -> Iterator[Probe]:
    """The probes of `terminal`: some state is an end, each part of `terminal` accepts an end, and
    no end has a further step of the protocol. Faults, which have a budget, and losses aren't steps
    of the protocol.
    """
    accepted = instance.terminal
    if accepted.op == "const":
        return
    yield Probe("end", TERMINAL, "", accepted, "end")
    for probe in _premises(TERMINAL, accepted, "end"):
        if probe.kind == "said":
            continue
        found = replace(probe, behind=accepted if probe.behind is None else probe.behind)
        if probe.kind == "premise":
            found = replace(
                found,
                kind="part",
                shown=f"has a premise that is never true at the end of a run: {probe.shown}",
            )
        yield found  # for collections only the inner parts: an empty collection at an end is normal
    system = instance.system
    faults = {event for events in system.budgets for event in events_of(events)}
    steps = {action.table for action in instance.actions if any(r.updates for r in action.rows)}
    for table in system.tables:
        own = table.on not in faults and not isinstance(table.on, Loss)
        if own and table.name in steps:
            yield Probe("way", table.name, _short(accepted), accepted, "way")


def _premises(
    name: str, expression: Expression, of: Literal["state", "start", "end"]
) -> Iterator[Probe]:
    """The probes for the premises in a condition."""

    def supposed(
        e: Expression, given: tuple[_Given, ...], behind: Expression | None, *, inside: bool
    ) -> Iterator[Probe]:
        """The premises in a condition; `given` are those around it, outermost first. In a
        conclusion, only `implies` makes a premise: a disjunction may be intended as one.
        """
        if e.op == "and":
            for part in e.args:
                yield from supposed(part, given, behind, inside=inside)
        elif e.op == "not" and e.args[0].op in _DUAL:
            yield from supposed(_negated(e.args[0]), given, behind, inside=True)
        elif e.op == "all":
            bound, body = e.args
            within = (*given, _Given(bound, binds=True))
            if bound.op == "element":
                probe = made("domain", bound.args[0], within, behind)
                yield probe
                behind = probe.expression
            yield from supposed(body, within, behind, inside=inside)
        elif is_implication(e) and (e.data == "implies" or not inside):
            premise = e.args[0].args[0]
            within = (*given, _Given(premise))
            probe = made("premise", premise, within, behind)
            yield probe
            yield from supposed(e.args[1], within, probe.expression, inside=True)
        else:
            yield Probe("said", name, _short(e), lift(True) if behind is None else behind, of)
            for shown, weaker in _loose(e):
                yield made("part", shown, (*given, *weaker), behind)

    def made(
        kind: Literal["premise", "domain", "part"],
        shown: Expression | str,
        within: tuple[_Given, ...],
        behind: Expression | None,
    ) -> Probe:
        met = _met(within)
        of_step = any(node.op == "after" for node in children_first(met))
        text = shown if isinstance(shown, str) else _short(shown)
        return Probe(kind, name, text, met, "step" if of_step else of, behind)

    yield from supposed(expression, (), None, inside=False)
    for part in children_first(expression):
        compares = part.op in ("eq", "le", "lt") and part.args[0].op != "const"
        if compares and part.args[0].same_as(part.args[1]):
            shown = f"compares {_short(part.args[0])} with itself"
            yield Probe("part", name, shown, lift(False), of)


@dataclass(frozen=True)
class _Given:
    """A premise, or a name that a quantifier binds."""

    expression: Expression
    binds: bool = False


_DUAL = {"and": "or", "or": "and", "all": "any", "any": "all"}
_COARSE = ("mul", "div", "mod")  # numbers with gaps need not reach a bound


def _negated(e: Expression) -> Expression:
    """The condition `~e`, with the negation one level further down."""
    if e.op in ("all", "any"):
        return Expression(_DUAL[e.op], (e.args[0], ~e.args[1]))
    return Expression(_DUAL[e.op], tuple(~part for part in e.args))


def _loose(e: Expression) -> Iterator[tuple[str, tuple[_Given, ...]]]:
    """Cases that some state should meet: if none does, a stronger condition holds as well. They are
    an element of `any_of` for which the condition is false, an alternative that holds alone, and a
    reached bound. Each has the text for the case that no state meets it.
    """
    if e.op == "any" and e.args[1] is not lift(True):
        bound, body = e.args
        yield (
            f"says any_of, but all_of holds too: {_short(body)}",
            (_Given(bound, binds=True), _Given(~body)),
        )
    elif e.op == "or":
        parts = _alternatives(e)
        for part in parts:
            others = tuple(_Given(~other) for other in parts if other is not part)
            yield f"also holds without the alternative {_short(part)}", others
            for shown, weaker in _loose(part):
                yield shown, (*others, *weaker)
    elif e.op == "and":
        for part in e.args:
            yield from _loose(part)
    elif e.op == "all":
        for shown, weaker in _loose(e.args[1]):
            yield shown, (_Given(e.args[0], binds=True), *weaker)
    elif e.op in ("le", "lt") and not any(n.op in _COARSE for n in children_first(e)):
        left, right = e.args
        # Equality if the property holds; `==` refuses a bound beyond a type.
        edge = right <= left if e.op == "le" else right <= left + 1
        yield f"is weaker than needed: {_short(e)} never reaches its bound", (_Given(edge),)


def _alternatives(e: Expression) -> list[Expression]:
    """The parts of a disjunction."""
    return [part for arg in e.args for part in _alternatives(arg)] if e.op == "or" else [e]


def is_implication(e: Expression) -> bool:
    """Whether a condition has the form of a premise and a conclusion."""
    return e.op == "or" and len(e.args) == 2 and e.args[0].op == "not"


def _met(given: tuple[_Given, ...]) -> Expression:
    """Whether there are values for the names such that every premise holds."""
    result = lift(True)
    for part in reversed(given):
        if part.binds:
            result = any_of(part.expression, result)
        else:
            result = part.expression if result is lift(True) else part.expression & result
    return result


def _messages(instance: Instance) -> Iterator[Probe]:
    for declared in instance.variables:
        machine, _, name = declared.name.partition(".")
        if machine == NETWORK:
            bag = Expression("field", (), Field(NETWORK, name, declared.type, None))
            yield Probe("message", name, name, _holds_some(bag, declared.type), "state")


def _holds_some(bag: Expression, kind: Type) -> Expression:
    if isinstance(kind, Map):
        key = variable(f"key{len(str(bag))}", kind.key)
        return any_of(key, _holds_some(bag[key], kind.of))
    assert isinstance(kind, (Bag, Sequence))
    return size(bag) > 0


def _waits(instance: Instance) -> Iterator[Probe]:
    """Probes for rows that can't be taken because a channel of the default capacity is full."""
    default = {c.message for c in instance.system.channels if c.capacity is None}
    for action in instance.actions:
        found: dict[Message, list[Expression]] = {}
        earlier = lift(True)
        for row in action.rows:
            for message, room in row.rooms:
                if message in default:
                    found.setdefault(message, []).append(earlier & row.guard & ~room)
            earlier = earlier & ~row.guard
        for message, conditions in found.items():
            full = f"{message.name}, capacity {DEFAULT_CAPACITY}"
            waits = _somewhere(action, any_true(*conditions))
            yield Probe("wait", action.table, full, waits, "state")


def _untaken(instance: Instance) -> Iterator[Probe]:
    """Probes for messages in flight that their table accepts, but none of its rows."""
    of = {table.name: table for table in instance.system.tables}
    for action in instance.actions:
        table = of.get(action.table)
        if table is None or not isinstance(table.on, Message):
            continue
        guards = [row.guard for row in action.rows]
        if not any(guard.same_as(lift(True)) for guard in guards):
            none = all_true(*(~guard for guard in guards))
            yield Probe("untaken", table.name, table.on.name, _somewhere(action, none), "state")


def _somewhere(action: Action, condition: Expression) -> Expression:
    """Whether an action is possible for some binding for which the condition holds."""
    names = list(action.bounds)
    if action.choice is not None:
        names.append(action.choice)
    result = action.when & condition
    for bound in reversed(names):
        result = any_of(bound, result)
    return result


def fields_read(e: Expression) -> set[str]:
    """The variables that a condition reads."""
    return {field_name(node.data) for node in children_first(e) if node.op == "field"}


def _short(e: Expression) -> str:
    text = str(e)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
