"""A table's rows as a decision table in Markdown: the first row whose condition holds is taken."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from ..language import Protocols, Row, Sending, Table, lift
from .facts import settled, taken
from .graph import span
from .notation import readable, readable_sending, readable_update

NO_BREAK = "\u00a0"
_HEAD = "| row | when | then | reply | releases | source |"
_NARROW = 24


def decision_table(
    table: Table, *protocols: Protocols, happens: Collection[str] | None = None
) -> str:
    """The rows in order: name, condition, what it does, reply, releases and source.

    `happens` are the releases in which the event can happen (none: all of them). A row is there in
    those of them in which it can be taken under one of the protocols, which have the same releases.
    """
    every = protocols[0].releases
    there: dict[str, set[str]] = {row.name: set() for row in table.rows}
    for each in protocols:
        for release in every if happens is None else happens:
            for row, _ in taken(table, each, release, {}):
                there[row.name].add(release)
    lines = [_HEAD, "| --- " * _HEAD.count(" |") + "|"]
    above: set[str] = set()
    for row in table.rows:
        releases, during = there[row.name], settled(row.during, {})
        if row.guard.op != "const":
            when = code(readable(row.guard))
        else:
            when = "otherwise" if above & releases else "always"
        does = code(line for effect in effects(table, row) for line in effect)
        reply = code(line for answer in replies(table, row) for line in answer)
        cells = (
            _lines(f"**{plain(row.name)}**", plain(row.note)),
            when,
            does if does or reply else "nothing",
            reply,
            _lines(
                plain(span(releases, every) or "all"),
                "" if during.op == "const" else code(readable(during, _NARROW)),
            ),
            # Long names of methods may be broken at their dots.
            re.sub(r"(?<=[a-z])\.(?=[a-z])", ".<wbr>", plain(row.source)),
        )
        lines.append(f"| {' | '.join(cells)} |")
        above |= releases
    return "\n".join(lines) + "\n"


def _lines(*parts: str) -> str:
    return "<br>".join(part for part in parts if part)


def effects(table: Table, row: Row) -> Iterator[list[str]]:
    """What the row does but for its reply: the next state, an update, a message; over some lines
    each."""
    if row.goto is not None:
        yield _led_by("goto", readable(lift(row.goto)))
    for target, value in row.set.items():
        yield readable_update(target, lift(value))
    for dropped in table.droppings(row):
        named = ", ".join(f"{name}={value}" for name, value in dropped.address)
        yield [f"drop {dropped.message.name}({named})"]
    for sending in row.send:
        yield _led_by("send", readable_sending(sending, table.on))


def replies(table: Table, row: Row) -> Iterator[list[str]]:
    """The row's reply, if it has one: as declared, as its address goes without saying."""
    if isinstance(row.reply, Sending):
        yield readable_sending(row.reply, table.on)
    elif row.reply is not None:
        assert table.response is not None  # the table's own check
        yield readable_sending(table.response(error=row.reply), table.on)


def _led_by(verb: str, lines: list[str]) -> list[str]:
    return [f"{verb} {lines[0]}", *(f"  {line}" for line in lines[1:])]


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
