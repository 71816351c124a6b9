"""Wraps printed lines to the width of the terminal."""

from __future__ import annotations

import re
import textwrap

_UNITED = re.compile(r"(?<=\d) (?=(?:s|ms|[KMG]iB|[KMG]B|steps?|states)\b)|(?<=\bstep) (?=\d)")
_JOINED = "\0"  # a space at which no line ends


def wrapped(line: str, width: int, first: str = "", then: str = "") -> list[str]:
    """A line in lines of this width, indented by `first` and `then`. A word stays whole, and so do
    a number and what it counts."""
    lines = textwrap.wrap(
        _UNITED.sub(_JOINED, line), width, initial_indent=first, subsequent_indent=then,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [part.replace(_JOINED, " ") for part in lines]
