"""Pages from templates, each as one file with its style and script."""

# Jinja has filters of any type.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

SHARED = Path(__file__).parent / "report"
"""The folder of the style and the chart of all pages."""
SHORT = 20  # the most letters of an unbroken name
_PARTS = re.compile(r"(?<=\w)(?=[.\[])|(?<=\])(?=[.\[])|(?<==)(?=\w)")
_WORDS = re.compile(r"(?<=_)(?=\w)|(?<=[a-z])(?=[A-Z])")


@cache
def templates(*rooms: Path) -> Environment:
    """The templates of these folders, and the shared templates."""
    environment = Environment(
        loader=FileSystemLoader((*rooms, SHARED)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = "{:,}".format
    environment.filters["breakable"] = breakable
    return environment


def breakable(text: str) -> Markup:
    """The text as markup with possible line breaks in long names: before a dot or a bracket, after
    an equals sign, or between the words of a name without such parts."""
    return Markup(" ").join(
        Markup("<wbr>").join(map(escape, _parts(name))) for name in text.split(" ")
    )


def _parts(name: str) -> list[str]:
    if len(name) <= SHORT:
        return [name]
    return (_PARTS if _PARTS.search(name) else _WORDS).split(name)


def style(*, run: bool = True) -> str:
    """The style that pages share, with that of a report and of its run, or without."""
    names = ("base.css", "page.css") if run else ("base.css",)
    return "".join((SHARED / name).read_text("utf-8") for name in names)


def one_file(room: Path, style: str, **values: Any) -> str:
    """The folder's page with this style. Its security policy allows only the folder's script."""
    script = (room / "page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        templates(room)
        .get_template("page.html")
        .render(style=style, script=script, script_hash=digest, **values)
    )
