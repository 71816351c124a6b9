"""Wraps printed lines to the width of the terminal, and makes tables."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_UNITED = re.compile(r"(?<=\d) (?=(?:s|ms|[KMG]iB|[KMG]B|steps?|states)\b)|(?<=\bstep) (?=\d)")
_JOINED = "\0"  # a no-break space


def wrapped(line: str, width: int, first: str = "", then: str = "") -> list[str]:
    """A line in lines of this width, indented by `first` and `then`. Words stay whole, and a number
    stays with its noun."""
    lines = textwrap.wrap(
        _UNITED.sub(_JOINED, line), width, initial_indent=first, subsequent_indent=then,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [part.replace(_JOINED, " ") for part in lines]


def grid(*, show_header: bool = True) -> Table:
    """A table of text without lines."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, show_header=show_header)
