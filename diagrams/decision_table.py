"""A table's rows as text, in the order in which they are tried: the first whose condition holds is
taken."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from textwrap import fill

from ..language import Expression, Protocols, Row, Sending, Table, lift
from .facts import feature_facts, rewritten, settled, taken
from .graph import span
from .notation import WIDTH, in_brief, readable, readable_sending, readable_update

NO_BREAK = "\u00a0"
PAGE_WIDTH = 100  # of a page's text, and of a laptop's screen
CODE_WIDTH = 84  # of a condition or update, after the word that it is led by


def decision_table(
    table: Table, *protocols: Protocols, happens: Collection[str] | None = None
) -> str:
    """The rows in order, in Markdown: name, releases, source, what decides and what follows.

    `happens` are the releases in which the event can happen (none: all of them). A row is there in
    those of them in which it can be taken under one of the protocols, which have the same releases.
    """
    every = protocols[0].checked
    there: dict[Row, set[str]] = {row: set() for row in table.rows}
    for each in protocols:
        for release in every if happens is None else (r for r in happens if r in every):
            for row, _ in taken(table, each, release, {}):
                there[row].add(release)
    parts: list[str] = []
    above: set[str] = set()
    for number, row in enumerate(table.rows, start=1):
        releases = there[row]
        named = span(releases, every) or "all"
        parts.append(f"{_head(number, row, named, _features(row, protocols, releases))}\n")
        otherwise = "otherwise" if above & releases else "always"
        body = _body(table, rewritten(row, partial(in_brief, on=table.on)), otherwise)
        parts.append("\n".join(("```text", *body, "```\n")))
        above |= releases
    return "\n".join(parts)


def _features(row: Row, protocols: tuple[Protocols, ...], releases: Collection[str]) -> Expression:
    """What the row asks of features that its releases don't say."""
    found: dict[str, Expression] = {}
    for release in releases:
        first, *others = (feature_facts(each, release) for each in protocols)
        known = {f: v for f, v in first.items() if all(other.get(f) == v for other in others)}
        left = settled(row.during, known)
        found[str(left)] = left
    return next(iter(found.values())) if len(found) == 1 else settled(row.during, {})


def _head(number: int, row: Row, releases: str, during: Expression) -> str:
    """The row's name, its note, and in which releases it is there by which source."""
    note = f": {plain(row.note)}" if row.note else ""
    where = plain(releases)
    if during.op != "const":
        where += f" where {code([' '.join(map(str.strip, readable(during)))])}"
    remarks = " · ".join(part for part in (where, plain(row.source)) if part)
    name = wrapped(f"**{number}. {plain(row.name)}**{note}<br>")
    return f"{name}\n{wrapped(f'<small>{remarks}</small>')}"


def wrapped(text: str) -> str:
    """A paragraph in lines of a page's width."""
    return fill(text, PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)


def _body(table: Table, row: Row, otherwise: str) -> Iterator[str]:
    """When the row is taken and what it does, each part led by what it is."""
    guard = readable(row.guard, CODE_WIDTH)
    yield from _led_by("when ", guard) if row.guard.op != "const" else (otherwise,)
    done = [*effects(table, row, CODE_WIDTH)]
    answers = [_led_by("reply", lines) for lines in replies(table, row, CODE_WIDTH)]
    for lines in done + answers:
        yield from lines
    if not done and not answers:
        yield "nothing changes"


def effects(table: Table, row: Row, width: int = WIDTH) -> Iterator[list[str]]:
    """What the row does but for its reply: the next state, an update, a message; over some lines
    each."""
    if row.goto is not None:
        yield _led_by("goto", readable(lift(row.goto), width))
    for target, value in row.set.items():
        yield readable_update(target, lift(value), width)
    for dropped in table.droppings(row):
        named = ", ".join(f"{name}={value}" for name, value in dropped.address)
        yield [f"drop {dropped.message.name}({named})"]
    for sending in row.send:
        yield _led_by("send", readable_sending(sending, table.on, width))


def replies(table: Table, row: Row, width: int = WIDTH) -> Iterator[list[str]]:
    """The row's reply, if it has one: as declared, as its address goes without saying."""
    if isinstance(row.reply, Sending):
        yield readable_sending(row.reply, table.on, width)
    elif row.reply is not None:
        assert table.response is not None  # the table's own check
        yield readable_sending(table.response(error=row.reply), table.on, width)


def _led_by(verb: str, lines: list[str]) -> list[str]:
    return [f"{verb} {lines[0]}", *(f"{' ' * (len(verb) + 1)}{line}" for line in lines[1:])]


def code(lines: Iterable[str]) -> str:
    """Lines of code as one cell; empty where there are none."""
    # Markdown would make one space of several, and drop those in front.
    text = "<br>".join(
        re.sub(r"^ +| {2,}", lambda s: NO_BREAK * len(s[0]), plain(x)) for x in lines
    )
    return text and f"<code>{text}</code>"


def plain(text: str) -> str:
    """Text without the signs that Markdown takes for its own."""
    signs = r"[\\`*<>|~#&]|\b_|_\b|\](?=\()"
    return re.sub(signs, lambda sign: f"&#{ord(sign[0])};", text)
