"""A table's rows as a decision table in Markdown: the first row whose condition holds is taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..spec.language import Protocols, Row, Sending, Table, lift
from .graph import NONE, span
from .notation import readable, readable_sending, readable_update

NO_BREAK = "\u00a0"


def decision_table(table: Table, protocols: Protocols) -> str:
    """The rows in order, each with its releases and source, its condition, and what it does."""
    lines = ["| row | when | then |", "| --- | --- | --- |"]
    above: set[str] = set()
    for row in table.rows:
        holds = {
            release
            for release in protocols.releases
            if protocols.holds(row.during, protocols.features_at(release))
        }
        if row.guard.op != "const":
            when = code(readable(row.guard))
        else:
            when = "otherwise" if above & holds else "always"
        does = code(line for effect in effects(table, row) for line in effect) or "nothing"
        lines.append(f"| {_title(row, span(holds, protocols.releases))} | {when} | {does} |")
        above |= holds
    return "\n".join(lines) + "\n"


def _title(row: Row, releases: str) -> str:
    parts = [f"**{plain(row.name)}**"]
    if releases:
        parts.append("in none of the releases" if releases == NONE else f"only in {releases}")
    parts += [plain(row.note)] if row.note else []
    # Long names of methods may be broken at their dots.
    parts += [re.sub(r"(?<=[a-z])\.(?=[a-z])", ".<wbr>", plain(row.source))] if row.source else []
    return "<br>".join(parts)


def effects(table: Table, row: Row) -> Iterator[list[str]]:
    """What the row does: the next state, an update, the reply, a message; each over some lines."""
    if row.goto is not None:
        yield _led_by("goto", readable(lift(row.goto)))
    for target, value in row.set.items():
        yield readable_update(target, lift(value))
    for verb, sending in _messages(table, row):
        yield _led_by(verb, readable_sending(sending, table.on))


def _messages(table: Table, row: Row) -> Iterator[tuple[str, Sending]]:
    """As the row declares them: the address of a reply goes without saying."""
    if isinstance(row.reply, Sending):
        yield "reply", row.reply
    elif row.reply is not None:
        assert table.response is not None  # the table's own check
        yield "reply", table.response(error=row.reply)
    for sending in row.send:
        yield "send", sending


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
