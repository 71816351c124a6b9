"""Explains an answer of the oracle: the deciding row, and the conditions of other answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language.expressions import EnumValue, Expression
from ...language.tables import Row
from ...language.terms.reasons import Scope, because
from ...language.types import Value
from .machine import Taken

MOST = 4
"""The most parts of a guard that are reported."""


def reasons(taken: Sequence[Taken], request: str, answered: str, other: str | None) -> list[str]:
    """An explanation of a request's answer, in lines. `taken` are the request's rows. The first
    line has the row that answered with the error `answered`, and its source. If `other` is another
    error, the next lines have the nearest row that answers with it, and the reason why it wasn't
    taken. Empty if no row gave the answer."""
    response = f"{request}Response"
    telling = [
        (type(message).__name__ == response, at)
        for at, one in enumerate(taken)
        for message in one.sent
        if getattr(message, "error", None) == answered
    ]
    if not telling:
        return []
    last = max(telling)[1]
    deciding, until = taken[last], taken[: last + 1]
    first = next(one for one in until if one.table.machine is deciding.table.machine)
    if deciding.reply is None:  # a later event answered the request
        rows = dict.fromkeys(_named(one, one.row) for one in (first, deciding))
    else:
        rows = [_named(deciding, deciding.row)]
    found = [f"by {', then '.join(rows)}"]
    if other is None or other == answered:
        return found
    others = [
        (len(facts), -at, one, row, facts)
        for at, one in enumerate(until)
        for row in one.machine.rows_of(one.table.on.name)
        if other in _errors(one, row, response, is_last=one.table is deciding.table)
        or (other == "NONE" and one is first and one.table.updates(row) and not _answers(one, row))
        for facts in [list(dict.fromkeys(_against(one, row.guard)))]
    ]
    if not others:
        return [*found, f"not {other}: no row that this request reaches gives this answer"]
    *_, one, row, facts = min(others, key=lambda each: each[:2])
    if row is one.row:
        return [*found, f"not {other}: the same row gives this answer in other states"]
    nearest = f"not {other}: {_named(one, row)} isn't taken,"
    if not facts:
        return [*found, f"{nearest} as row {one.row.id} comes first"]
    more = [f"{len(facts) - MOST} more"] if len(facts) > MOST else []
    return [*found, nearest, f"  as {' and '.join([*facts[:MOST], *more])}"]


def _named(one: Taken, row: Row) -> str:
    source = f" ({row.source})" if row.source else ""
    return f"{one.table.machine.name}: {one.table.on.name}, row {row.id}{source}"


def _errors(one: Taken, row: Row, response: str, *, is_last: bool) -> set[str]:
    """The errors in a row's answers to a request. NONE is only an answer if the event `is_last`;
    otherwise the request continues."""
    found = {
        error
        for sending in one.table.sendings(row)
        if sending.message.name == response or sending.message is one.table.response
        for name, value in sending.fields
        if name == "error"
        for error in _named_errors(one, value)
    }
    return found if is_last else found - {"NONE"}


def _answers(one: Taken, row: Row) -> bool:
    """Whether a row sends an answer. If it doesn't, a later event answers with NONE."""
    return any(name == "error" for sent in one.table.sendings(row) for name, _ in sent.fields)


def _named_errors(one: Taken, value: Expression) -> Iterator[str]:
    match value.op:
        case "if" if value.args[0].op == "feature":
            yield from _named_errors(one, value.args[1 if one.value(value.args[0]) else 2])
        case "if":
            yield from _named_errors(one, value.args[1])
            yield from _named_errors(one, value.args[2])
        case "const" if isinstance(value.data, EnumValue):
            yield value.data.member
        case _:
            pass


def _against(one: Taken, guard: Expression) -> Iterator[str]:
    """The true conditions that make a guard false."""
    if not one.value(guard):
        yield from map(str, because(_At(one), guard))


class _At:
    """The values of a machine's expressions, without the instances of quantifiers."""

    def __init__(self, one: Taken) -> None:
        self._one = one

    def value(self, expression: Expression, scope: Scope) -> Value:
        """See Values."""
        return self._one.value(expression)

    def instances(self, quantified: Expression, scope: Scope) -> None:
        """See Values."""
