"""Derives facts about a row from partial knowledge, such as its machine's state.

Facts are the possible values of some expressions. The state of a machine excludes some guards. The
truth of a guard is a fact, too: a step takes the second of two rows only if the first one's guard
is false. All functions overestimate: an excluded value never occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import TypeAlias

from ..language import (
    Bool,
    Enum,
    Event,
    Expression,
    Loss,
    Message,
    Optional,
    Protocols,
    Row,
    Sending,
    System,
    Table,
    any_true,
    lift,
)
from ..language.declaration.typecheck import type_of
from ..language.expressions import QUANTIFIERS, EnumValue, children_first, rewrite
from ..language.systems import events_of
from ..language.types import Type, Value, initial_value

Values: TypeAlias = frozenset[Value]
Facts: TypeAlias = Mapping[Expression, Values]

NONE: Values = frozenset({None})
BOTH: Values = frozenset({False, True})

_kind = cache(type_of)


class _Known(dict[Expression, Values]):
    """Facts that cache their conclusions: they don't change."""

    __slots__ = ("found", "inside")

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.found: dict[Expression, Values | None] = {}
        self.inside: dict[Expression, Facts] = {}


def truth_of(value: bool) -> Values:
    """The values of a condition that is certainly `value`."""
    return frozenset({value})


@cache
def feature_facts(protocols: Protocols, release: str) -> Facts:
    """The features of a release, as facts."""
    on = protocols.features_at(release)
    return _Known({x: truth_of(x.data.name in on) for x in protocols.every_feature})


def taken(
    table: Table, protocols: Protocols, release: str, facts: Facts
) -> tuple[tuple[Row, Facts], ...]:
    """The rows that a step may take in a release if `facts` hold, each with the facts that are
    known then."""
    occurring = _features_of(table)
    features = feature_facts(protocols, release).items()
    known = {feature: truth for feature, truth in features if feature in occurring}
    return _taken(table, frozenset({**known, **facts}.items()))


@lru_cache(10_000)
def _taken(
    table: Table, facts: frozenset[tuple[Expression, Values]]
) -> tuple[tuple[Row, Facts], ...]:
    """The same for facts that include the table's features: releases with the same of these
    features share the result."""
    rows: list[tuple[Row, Facts]] = []
    known = _Known(dict(facts))
    left = assume(table.guard, True, known)
    before: list[Expression] = []
    for row in table.rows:
        if possible(row.during, known) != truth_of(True):
            continue
        here = assume(row.guard, True, left)
        if row.goto is not None and lift(row.goto).op == "if":
            # the next state depends on the facts that this row's guard implies for theirs
            for guard in before:
                here = None if here is None else _parts_assumed(guard, False, here)
        if here is not None:
            rows.append((row, here))
        left = assume(row.guard, False, left)
        before.append(row.guard)
    return tuple(rows)


@cache
def _features_of(table: Table) -> frozenset[Expression]:
    """The features that occur in the table."""
    parts = [table.guard]
    for row in table.rows:
        parts += [row.during, row.guard, *(part for pair in table.updates(row) for part in pair)]
        for sending in table.sendings(row):
            parts += [sending.when, *(value for _, value in sending.fields)]
    every = (part for whole in set(parts) for part in children_first(whole))
    return frozenset(part for part in every if part.op == "feature")


def sendings(table: Table, row: Row, facts: Facts) -> Iterator[Sending]:
    """The messages that the row may send if `facts` hold."""
    for sending in table.sendings(row):
        if assume(sending.when, True, facts) is not None:
            yield sending


@cache
def happening(system: System, release: str) -> tuple[Table, ...]:
    """The tables whose event can happen in a release: a message only if a row sends it there.

    A message that no row sends in any release comes from outside.
    """
    every = {s.message for t in system.tables for row in t.rows for s in t.sendings(row)}
    sent: set[Message] = set()
    live: list[Table] = []
    waiting = list(system.tables)
    while ready := [t for t in waiting if _travels(t.on) not in every - sent]:
        live += ready
        waiting = [table for table in waiting if table not in ready]
        for table in ready:
            for row, known in taken(table, system.protocols, release, {}):
                sent |= {sending.message for sending in sendings(table, row, known)}
    return tuple(table for table in system.tables if table in live)


def faults(system: System) -> frozenset[str]:
    """The events with a budget."""
    return frozenset(event.name for events in system.budgets for event in events_of(events))


def aftermath(system: System) -> frozenset[str]:
    """The events that no budget bounds and that happen only after a fault: their guard needs a
    field that is none at first, and only a fault sets it."""
    bounded = faults(system)
    unset: dict[Expression, Values] = {}
    for machine in system.machines:
        for info in system.fields_of(machine):
            if isinstance(info.type, Optional) and info.initial is None:
                unset[info.expression] = NONE
    tables = [table for table in system.tables if table.on.name not in bounded]
    happens: list[Table] = []
    while ready := [t for t in tables if assume(t.guard, True, _Known(unset)) is not None]:
        tables = [table for table in tables if table not in ready]
        happens += ready
        for table in happens:
            for row in table.rows:
                for target, update in table.updates(row):
                    if target in unset and possible(update, _Known(unset)) != NONE:
                        del unset[target]
    return frozenset(table.on.name for table in tables)


def _travels(event: Event) -> Event | None:
    return event.message if isinstance(event, Loss) else event


def possible(e: Expression, facts: Facts) -> Values | None:
    """The values that `e` may have; None if there are too many."""
    if e in facts:
        return facts[e]
    found = facts.found if isinstance(facts, _Known) else {}
    if e not in found:
        values = _derived(e, facts)
        found[e] = _domain(_kind(e)) if values is None else values
    return found[e]


def assume(e: Expression, truth: bool, facts: Facts | None) -> Facts | None:
    """The facts if the condition `e` is `truth`; None if that is impossible."""
    if facts is None:
        return None
    values = possible(e, facts) or BOTH
    if values == truth_of(truth):
        return facts
    if truth not in values:
        return None
    known = _parts_assumed(e, truth, facts)
    if known is None or possible(e, known) == truth_of(truth):
        return known
    return _Known({**known, e: truth_of(truth)})


def settled(e: Expression, facts: Facts) -> Expression:
    """The expression without the conditions that `facts` decide."""

    def change(node: Expression) -> Expression | None:
        args = node.args
        values = possible(node, facts) if isinstance(_kind(node), Bool) else None
        if values is not None and len(values) == 1:
            return lift(values == truth_of(True))
        match node.op:
            case "if" if (truth := possible(args[0], facts)) and len(truth) == 1:
                return settled(args[1] if True in truth else args[2], facts)
            case "and" | "or" if isinstance(_kind(node), Bool):
                # an argument that decides the operator would have decided the node above
                left = [argument for argument in args if len(possible(argument, facts) or BOTH) > 1]
                return settled(left[0], facts) if len(left) == 1 else None
            case op if op in QUANTIFIERS and (inside := _inside(args[0], facts)) is not facts:
                return Expression(op, (args[0], *(settled(a, inside) for a in args[1:])), node.data)
            case _:
                return None

    return rewrite(e, change)


def rewritten(row: Row, change: Callable[[Expression], Expression]) -> Row:
    """The row, with a function applied to each expression of its condition and effect."""

    def sent(sending: Sending) -> Sending:
        fields = tuple((name, change(value)) for name, value in sending.fields)
        return replace(sending, fields=fields, when=change(sending.when))

    reply = row.reply
    if reply is not None:
        reply = sent(reply) if isinstance(reply, Sending) else change(reply)
    return replace(
        row,
        when=change(row.guard),
        goto=None if row.goto is None else change(lift(row.goto)),
        set={change(target): change(lift(value)) for target, value in row.set.items()},
        reply=reply,
        send=tuple(map(sent, row.send)),
    )


def _inside(bound: Expression, facts: Facts) -> Facts:
    """The facts that are valid in the scope of `bound`: outside, its name may mean another
    variable."""
    inside = facts.inside if isinstance(facts, _Known) else {}
    if bound not in inside:
        left = {k: v for k, v in facts.items() if bound not in set(children_first(k))}
        inside[bound] = facts if len(left) == len(facts) else _Known(left)
    return inside[bound]


def _derived(e: Expression, facts: Facts) -> Values | None:
    args = e.args
    match e.op:
        case "const":
            return frozenset({e.data.member if isinstance(e.data, EnumValue) else e.data})
        case "and" | "or" if isinstance(_kind(e), Bool):
            deciding = truth_of(e.op == "or")
            first = possible(args[0], facts)
            if first == deciding:
                return deciding
            second = possible(args[1], facts)
            return second if second in (deciding, first) else None
        case "not":
            inner = possible(args[0], facts)
            return None if inner is None else frozenset(not value for value in inner)
        case "eq" | "in" if (other := _unfolded(e)) is not None:
            return possible(other, facts)
        case "eq":
            left, right = (possible(argument, facts) for argument in args)
            if left is None or right is None:
                return None
            if not left & right:
                return truth_of(False)
            return truth_of(True) if left == right and len(left) == 1 else None
        case "if":
            ways = ((args[1], True), (args[2], False))
            known = [(way, assume(args[0], truth, facts)) for way, truth in ways]
            return _union(possible(way, here) for way, here in known if here is not None)
        case "some":
            return possible(args[0], facts)
        case "is_set":
            inner = possible(args[0], facts)
            return None if inner is None else frozenset(value is not None for value in inner)
        case "value":
            inner = possible(args[0], facts)
            return inner if inner is None or None not in inner else _read_of_none(e, inner)
        case "all" | "any":
            decided = truth_of(e.op == "all")
            return decided if possible(args[1], _inside(args[0], facts)) == decided else None
        case _:
            return None


def _read_of_none(e: Expression, inner: Values) -> Values | None:
    """The values of `e`, the content of an optional that may be empty. Engines read an empty
    optional as the type's initial value."""
    kind = _kind(e)
    if not isinstance(kind, Bool | Enum):
        return None
    return (inner - NONE) | {initial_value(kind, {})}


def _parts_assumed(e: Expression, truth: bool, facts: Facts) -> Facts | None:
    args = e.args
    match e.op:
        case "not":
            return assume(args[0], not truth, facts)
        case "and" | "or":
            first = assume(args[0], truth, facts)
            if (e.op == "and") == truth:
                return assume(args[1], truth, first)
            return _either(first, assume(args[1], truth, assume(args[0], not truth, facts)))
        case "eq" | "in" if (other := _unfolded(e)) is not None:
            return assume(other, truth, facts)
        case "eq":
            left, right = (possible(argument, facts) for argument in args)
            return _among(args[1], left, truth, _among(args[0], right, truth, facts))
        case "is_set":
            return _among(args[0], NONE, not truth, facts)
        case "if":
            condition, then, otherwise = args
            if possible(then, facts) == truth_of(not truth):
                return assume(otherwise, truth, assume(condition, False, facts))
            if possible(otherwise, facts) == truth_of(not truth):
                return assume(then, truth, assume(condition, True, facts))
            return facts
        case _:
            return facts


@cache
def _unfolded(e: Expression) -> Expression | None:
    """`x == none` and `x in {a, b}` by simpler means."""
    left, right = e.args
    if e.op == "in" and right.op == "set_of":
        return any_true(*(left == member for member in right.args))
    if e.op == "eq" and right.same_as(lift(None)):
        return ~left.is_set
    return None


def _among(e: Expression, values: Values | None, truth: bool, facts: Facts | None) -> Facts | None:
    """The facts if `e` is one of `values`, or (not `truth`) if it differs from their only one. Then
    several values say nothing: `e` may differ from any of them."""
    if facts is None or values is None or not (truth or len(values) == 1):
        return facts
    before = possible(e, facts)
    if before is None:
        return _Known({**facts, e: values}) if truth else facts
    now = before & values if truth else before - values
    if not now:
        return None
    if now == before:
        return facts
    if e.op == "if":
        condition, then, otherwise = e.args
        return _either(
            _among(then, now, True, assume(condition, True, facts)),
            _among(otherwise, now, True, assume(condition, False, facts)),
        )
    if isinstance(_kind(e), Bool):
        return assume(e, now == truth_of(True), facts)
    return _Known({**facts, e: now})


def _either(one: Facts | None, other: Facts | None) -> Facts | None:
    if one is None or other is None:
        return one if other is None else other
    return _Known({e: one[e] | other[e] for e in one if e in other})


def _union(parts: Iterable[Values | None]) -> Values | None:
    union: Values = frozenset()
    for values in parts:
        if values is None:
            return None
        union |= values
    return union or None


def _domain(kind: Type | None) -> Values | None:
    match kind:
        case Bool():
            return BOTH
        case Enum():
            return frozenset(kind.names)
        case Optional():
            inner = _domain(kind.of)
            return None if inner is None else inner | NONE
        case _:
            return None
