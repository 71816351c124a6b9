"""A table's rows as a decision table in Markdown: the first row whose condition holds is taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..spec.language import Protocols, Row, Sending, Table, lift
from .graph import span
from .notation import readable, readable_sending, readable_update

HEADINGS = (
    "row", "when", "goto", "updates", "reply and messages", "releases", "source",
)  # fmt: skip
NO_BREAK = "\u00a0"


def decision_table(table: Table, protocols: Protocols) -> str:
    """The rows in order. A column that no row fills is left out, as are releases if all have it."""
    rows = [_cells(table, row, protocols, at == 0) for at, row in enumerate(table.rows)]
    filled = [i for i in range(len(HEADINGS)) if any(row[i] for row in rows)]
    lines = [[HEADINGS[i] for i in filled], ["---"] * len(filled)]
    lines += [[row[i] for i in filled] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cells(table: Table, row: Row, protocols: Protocols, is_first: bool) -> tuple[str, ...]:
    holds = [
        release
        for release in protocols.releases
        if protocols.holds(row.during, protocols.features_at(release))
    ]
    name = f"**{plain(row.name)}**" + (f"<br>{plain(row.note)}" if row.note else "")
    always = row.guard.op == "const"
    return (
        name,
        ("always" if is_first else "otherwise") if always else code(readable(row.guard)),
        "" if row.goto is None else code(readable(lift(row.goto))),
        _blocks(readable_update(target, lift(value)) for target, value in row.set.items()),
        _blocks(readable_sending(sending) for sending in _messages(table, row)),
        span(holds, protocols.releases),
        plain(row.source),
    )


def _messages(table: Table, row: Row) -> Iterator[Sending]:
    """As the row declares them: the address of a reply goes without saying."""
    if isinstance(row.reply, Sending):
        yield row.reply
    elif row.reply is not None:
        assert table.response is not None  # the table's own check
        yield table.response(error=row.reply)
    yield from row.send


def _blocks(blocks: Iterable[list[str]]) -> str:
    return "<br>".join(code(block) for block in blocks)


def code(lines: Iterable[str]) -> str:
    """Lines of code as one cell."""
    return "<br>".join(_code(line) for line in lines)


def _code(line: str) -> str:
    inside = line.lstrip(" ")
    margin = NO_BREAK * (len(line) - len(inside))
    # A bar would end the cell, in backquotes as well.
    if "|" in inside or "`" in inside:
        return f"<code>{margin}{plain(inside)}</code>"
    return f"`{margin}{inside}`"


def plain(text: str) -> str:
    """Text without the signs that Markdown takes for its own."""
    return re.sub(r"[\\`*_\[\]<>|~#&]", lambda sign: f"&#{ord(sign.group())};", text)
