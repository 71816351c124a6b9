"""Prints decoded rows as tables or as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .codec.errors import RecordError
from .files import Row

PAGE = 500  # rows of one table: a table is printed when its widths are known
LONGEST = 60  # the shown characters of a key or value in a table


def tell(rows: Iterable[Row], console: Console) -> None:
    """Prints rows as tables, page by page. Fields that are -1 (Kafka's none) are left out."""
    left = ((str(row.byte), row.what, _line(row.fields)) for row in rows)
    while page := list(islice(left, PAGE)):
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("byte", justify="right")
        table.add_column("what")
        table.add_column("fields", overflow="fold")
        for byte, what, line in page:
            table.add_row(byte, what, Text(line))
        console.print(table)


def json_line(item: Row | RecordError, **place: str) -> str:
    """A row or an error as a JSON object on one line; bytes are hexadecimal digits. `place` is the
    file, if there are several."""
    if isinstance(item, RecordError):
        found: dict[str, Any] = {"what": "error", "field": item.field, "reason": item.reason}
        return json.dumps({**place, "byte": item.at, **found})
    return json.dumps({**place, "byte": item.byte, "what": item.what, **item.fields}, default=_hex)


def _hex(data: Any) -> str:
    assert isinstance(data, bytes)
    return data.hex()


def _line(fields: dict[str, Any]) -> str:
    return ", ".join(_told(fields))


def _told(fields: dict[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        match value:
            case -1:  # Kafka's none
                pass
            case bool():
                if value:
                    yield name
            case bytes():
                yield f"{name} {_text(value)}"
            case tuple() | list():
                items = cast("Iterable[object]", value)
                yield f"{name} [{', '.join(map(_item, items))}]"
            case dict():
                yield f"{name} {_item(cast('object', value))}"
            case _:
                yield f"{name} {'null' if value is None else value}"


def _item(item: object) -> str:
    match item:
        case (str() as name, bytes() as value):  # a header
            return f"{name} {_text(value)}"
        case dict():
            return f"({_line(cast('dict[str, Any]', item))})"
        case _:
            return str(item)


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    shown = json.dumps(text, ensure_ascii=False) if text.isprintable() and text else data.hex()
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}… ({len(data)} bytes)"
