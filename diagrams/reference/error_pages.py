"""The generated pages on errors: an overview, and a page for each error."""

from __future__ import annotations

from collections.abc import Iterator

from ...spec.releases.release import NEWEST
from ..drawing.decision_table import plain
from .errors import Answer, Handling, Meaning, meaning, names

PAGE = "errors.md"
FOLDER = "errors"
_NOTE = "<!-- Generated from the declarations in spec/ by `make docs`. -->"
_HEAD = f"""\
{_NOTE}

# Errors

Each page has one error of Kafka's protocol: the rows of a broker that answer it, a Java client's
reaction, and the choices that are left to the application. All of it is read off the tables, at
release {NEWEST}. `epochfence explain-error ERROR --client R --broker R` prints the same for other
releases.

| error | number | requests with this answer |
| --- | --- | --- |
"""


def pages() -> dict[str, bytes]:
    """The generated files by their path in the documentation's folder."""
    found = [meaning(name) for name in names()]
    texts = {PAGE: _HEAD + "".join(map(_entry, found))}
    texts |= {f"{FOLDER}/{one.error}.md": "\n".join(_page(one)) for one in found}
    return {path: text.encode() for path, text in texts.items()}


def _entry(found: Meaning) -> str:
    requests = ", ".join(found.requests) if found.answers else "only of older brokers"
    return f"| [{found.error}]({FOLDER}/{found.error}.md) | {found.code} | {requests} |\n"


def _page(found: Meaning) -> Iterator[str]:
    yield f"{_NOTE}\n\n# {found.error}\n"
    yield f"Error {found.code}; client and broker {NEWEST}. [All errors](../{PAGE}).\n"
    if not found.answers:
        yield f"No broker of {NEWEST} answers a request of the protocol with it; older ones do.\n"
    for request in found.requests:
        part = found.of(request)
        yield f"## {request}\n"
        if part.answers:
            yield "A broker gives this answer if\n"
        yield from map(_line, part.answers)
        if part.handlings:
            yield "\nThe client\n"
            yield from map(_line, {each.place: each for each in part.handlings}.values())
        yield ""
        yield from (f"{sentence}\n" for sentence in part.advice)


def _line(row: Answer | Handling) -> str:
    places = "; ".join(f"`{place}`" for place in (row.place, row.source) if place)
    return f"* {plain(row.sentence)} ({places})"
