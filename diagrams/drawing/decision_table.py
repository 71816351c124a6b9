"""A table's rows as text, in their order: a step takes the first row whose condition holds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from textwrap import fill
from typing import NamedTuple

from ...language import Expression, Protocols, Row, Sending, Table, lift
from ..facts import feature_facts, rewritten, settled, taken
from ..names import Names
from ..notation import WIDTH, in_brief, readable, readable_sending, readable_update
from .graph import span

NO_BREAK = "\u00a0"
PAGE_WIDTH = 100  # of a page's text, and of a laptop's screen
CODE_WIDTH = 84  # of a condition or update, without a word before it such as `when`


class Seen(NamedTuple):
    """A table that the page has shown already, with its system."""

    system: str
    table: Table


def decision_table(
    table: Table,
    *protocols: Protocols,
    happens: Collection[str] | None = None,
    seen: Seen | None = None,
) -> str:
    """The rows in order, in Markdown: name, releases, source, condition and effect.

    `happens` are the releases in which the event can happen (none: all of them). A row is there in
    those of them in which it can be taken under one of the protocols, which have the same releases.
    A row of the table that was `seen` may have the same id. If this row has the same condition and
    all of its effects, only the additional effects are printed.
    """
    every = protocols[0].releases
    there: dict[Row, set[str]] = {row: set() for row in table.rows}
    for each in protocols:
        for release in every if happens is None else (r for r in happens if r in every):
            for row, _ in taken(table, each, release, {}):
                there[row].add(release)
    had = {row.id: _RowLines.of(seen.table, row) for row in seen.table.rows} if seen else {}
    names = Names(table)
    parts: list[str] = []
    printed: list[str] = []
    above: set[str] = set()
    for number, row in enumerate(table.rows, start=1):
        releases = there[row]
        lines = _RowLines.of(table, row, names)
        more, alike = _RowLines.of(table, row).beside(had.get(row.id)), ""
        if seen is None or more is None:
            otherwise = "otherwise" if above & releases else "always"
            body = [*(lines.when or [otherwise]), *(lines.does or ["nothing changes"])]
        else:
            body = [lines.does[at] for at in more]
            alike = f"as in {seen.system}{', and:' if body else ''}"
        where = _where(span(releases, every) or "all", _features(row, protocols, releases))
        parts.append(f"{_head(number, row, where, plain(row.source), alike)}\n")
        if body:
            parts.append("\n".join(("```text", *body, "```\n")))
            printed += body
        above |= releases
    if explained := names.explained(printed, CODE_WIDTH):
        parts.append("\n".join(("```text", "where", *explained, "```\n")))
    return "\n".join(parts)


def _features(row: Row, protocols: tuple[Protocols, ...], releases: Collection[str]) -> Expression:
    """The condition on features, as far as the row's releases don't imply it."""
    found: dict[str, Expression] = {}
    for release in releases:
        first, *others = (feature_facts(each, release) for each in protocols)
        known = {f: v for f, v in first.items() if all(other.get(f) == v for other in others)}
        left = settled(row.during, known)
        found[str(left)] = left
    return next(iter(found.values())) if len(found) == 1 else settled(row.during, {})


def _where(releases: str, during: Expression) -> str:
    """The releases that have a row, and its condition on features."""
    if during.op == "const":
        return plain(releases)
    return f"{plain(releases)} where `{' '.join(map(str.strip, readable(during)))}`"


def _head(number: int, row: Row, *remarks: str) -> str:
    """The row's name, its note and the remarks."""
    note = f": {plain(row.note)}" if row.note else ""
    name = wrapped(f"**{number}. {plain(row.name)}**{note}<br>")
    said = " · ".join(filter(None, remarks))
    return f"{name}\n{wrapped(f'<small>{said}</small>')}"


def wrapped(text: str) -> str:
    """A paragraph in lines of a page's width."""
    return fill(text, PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)


class _RowLines(NamedTuple):
    """A row in lines: its condition (empty: always), and its effect."""

    when: list[str]
    does: list[str]

    @classmethod
    def of(cls, table: Table, row: Row, names: Names | None = None) -> _RowLines:
        row = rewritten(row, names or partial(in_brief, on=table.on))
        always = row.guard is lift(True)
        when = [] if always else _led_by("when ", readable(row.guard, CODE_WIDTH))
        does = [*effects(table, row, CODE_WIDTH)]
        does += [_led_by("reply", lines) for lines in replies(table, row, CODE_WIDTH)]
        return cls(when, ["\n".join(lines) for lines in does])

    def beside(self, other: _RowLines | None) -> list[int] | None:
        """The indices of this row's effects that the other row lacks, if both have the same
        condition and this row has all effects of the other; otherwise None."""
        if other is None or other.when != self.when or not set(other.does) <= set(self.does):
            return None
        return [at for at, part in enumerate(self.does) if part not in other.does]


def effects(table: Table, row: Row, width: int = WIDTH) -> Iterator[list[str]]:
    """The row's effects without its reply: the next state, updates and messages, each in lines."""
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
    """The row's reply, if it has one, without its address."""
    if isinstance(row.reply, Sending):
        yield readable_sending(row.reply, table.on, width)
    elif row.reply is not None:
        assert table.response is not None  # Table's constructor checks it
        yield readable_sending(table.response(error=row.reply), table.on, width)


def _led_by(verb: str, lines: list[str]) -> list[str]:
    return [f"{verb} {lines[0]}", *(f"{' ' * (len(verb) + 1)}{line}" for line in lines[1:])]


_MARKDOWN = re.compile(r"[\\`*<>|~#&]|\b_|_\b|\](?=\()")


def code(lines: Iterable[str]) -> str:
    """Lines of code as one cell; empty without lines."""
    # Markdown would join several spaces, and drop leading ones.
    text = "<br>".join(
        re.sub(r"^ +| {2,}", lambda s: NO_BREAK * len(s[0]), _escaped(x)) for x in lines
    )
    return text and f"<code>{text}</code>"


def plain(text: str) -> str:
    """Text with Markdown's special characters escaped, except in code between backticks."""
    parts = re.split(r"(`[^`|]+`)", text)  # a `|` would end a cell
    return "".join(part if at % 2 else _escaped(part) for at, part in enumerate(parts))


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(lambda sign: f"&#{ord(sign[0])};", text)
