"""Long pages of the site, cut into an overview and a page for each section.

In the repository such a page is one file. On the site each section is a page below the page's
address. The overview lists the sections with their old anchors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from posixpath import dirname, join, normpath, relpath

from markdown.extensions.toc import slugify, unique

LARGEST = 350
"""The most lines of a section. A longer section is cut again: at its own headings, or between the
rows of its table."""

FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
"""A fenced block of Markdown."""

_HEADING = re.compile(r"^(?P<marks>#{2,6}) (?P<title>.+)$", re.MULTILINE)
_ROW = re.compile(r"^\*\*(?P<number>\d+)\. ", re.MULTILINE)
_LINK = re.compile(r"(?P<before>\]\(|^\[[^\]\n]+\]: )(?P<target>[^)\s]+)", re.MULTILINE)
_MARKUP = re.compile(r"[`*]|\]\([^)]*\)|\[|<[^>]*>")


_WIDE = "---\nhide: [toc]\n---\n\n"
"""The front matter of a page without headings: it has no table of contents."""


@dataclass(frozen=True)
class _Heading:
    level: int
    title: str
    anchor: str
    start: int
    """The start of its line in the page's text; a group of rows has no line."""
    body: int
    """The start of the text after it."""


@dataclass(frozen=True)
class _Part:
    """A new page: a span of an old page."""

    name: str
    heading: _Heading | None
    start: int
    end: int
    """The end of its own text; the parts that it lists follow."""
    shift: int
    """The number of levels by which its headings rise."""
    inside: tuple[_Part, ...]


def cut(pages: Mapping[str, str], long: Iterable[str]) -> dict[str, str]:
    """Cuts the pages named `long`, and corrects the links to their sections.

    Pages are Markdown by the path of their file, as `protocol/producer.md`. The result has only new
    and changed pages. Raises ValueError if a new page has the name of an old one.
    """
    found: dict[str, str] = {}
    places: dict[tuple[str, str], str] = {}
    parts = {name: _parts(name, pages[name]) for name in long}
    for name, whole in parts.items():
        places |= {(name, anchor): page for anchor, page in _places(whole, pages[name])}
    for name, text in pages.items():
        if name not in parts:
            mended = _mended(text, name, name, places)
            found |= {name: mended} if mended != text else {}
        else:
            new = _written(parts[name], name, text, places)
            if twice := sorted(new.keys() & (pages.keys() | found.keys()) - {name}):
                raise ValueError(f"a section of {name} would be {twice[0]}, which exists")
            found |= new
    return found


def _headings(text: str) -> list[_Heading]:
    """The headings below the page's title, with their anchors on the site."""
    hidden = _hidden(text)
    taken: set[str] = set()
    first = re.search(r"^# (.+)$", hidden, re.MULTILINE)
    if first is not None:
        unique(slugify(_plain(first[1]), "-"), taken)
    return [
        _Heading(
            len(match["marks"]),
            match["title"],
            unique(slugify(_plain(match["title"]), "-"), taken),
            match.start(),
            match.end(),
        )
        for match in _HEADING.finditer(hidden)
    ]


def _hidden(text: str) -> str:
    """The text, with spaces in place of its fenced blocks."""
    return FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)


def _plain(title: str) -> str:
    return _MARKUP.sub("", title)


def _parts(name: str, text: str) -> _Part:
    return _part(name, None, 0, len(text), text, _headings(text))


def _part(
    name: str, heading: _Heading | None, start: int, end: int, text: str, below: list[_Heading]
) -> _Part:
    """The page of a span. It is cut only if it is long."""
    raised = (heading.level if heading else 1) - 1
    is_short = heading is not None and text.count("\n", start, end) <= LARGEST
    if not below and not is_short:
        below = _groups(text, start, end)
    level = min((each.level for each in below), default=0)
    top = [each for each in below if each.level == level]
    if is_short or len(top) < 2:
        return _Part(name, heading, start, end, raised, ())
    taken: set[str] = set()
    ends = [*(each.start for each in top[1:]), end]
    inside = tuple(
        _part(
            f"{name.removesuffix('.md')}/{unique(_slug(each), taken)}.md",
            each,
            each.body,
            stop,
            text,
            [other for other in below if each.body <= other.start < stop],
        )
        for each, stop in zip(top, ends, strict=True)
    )
    return _Part(name, heading, start, top[0].start, raised, inside)


def _groups(text: str, start: int, end: int) -> list[_Heading]:
    """The rows of a long table in short groups, as headings."""
    rows = [*_ROW.finditer(text, start, end)]
    groups: list[list[re.Match[str]]] = []
    for at, row in enumerate(rows, 1):
        stop = rows[at].start() if at < len(rows) else end
        if not groups or text.count("\n", groups[-1][0].start(), stop) > LARGEST:
            groups.append([])
        groups[-1].append(row)
    return [
        _Heading(
            6,
            f"Rows {rows[0]['number']} to {rows[-1]['number']}"
            if rows[1:]
            else f"Row {rows[0][1]}",
            f"rows-{rows[0]['number']}",
            rows[0].start(),
            rows[0].start(),
        )
        for rows in groups
    ]


def _slug(heading: _Heading) -> str:
    """`5` for a heading `5. Title`, otherwise the anchor."""
    number = re.match(r"(\d+)\. ", heading.title)
    return number[1] if number else heading.anchor


def _places(part: _Part, text: str) -> Iterator[tuple[str, str]]:
    """The page of each anchor."""
    for each in _headings(text):
        yield from ((each.anchor, name) for name in _holding(part, each))


def _holding(part: _Part, heading: _Heading) -> Iterator[str]:
    if part.heading == heading or part.start <= heading.start < part.end:
        yield part.name
    for each in part.inside:
        yield from _holding(each, heading)


def _written(
    part: _Part, old: str, text: str, places: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    """The page of a part and those inside it."""
    own = _mended(text[part.start : part.end], old, part.name, places)
    if part.shift:
        hidden = _hidden(own)
        for match in reversed([*_HEADING.finditer(hidden)]):
            own = own[: match.start()] + own[match.start() + part.shift :]
    if part.heading:
        own = f"# {part.heading.title} {{ #{part.heading.anchor} }}\n{own}"
    if part.inside:
        own = f"{own.rstrip()}\n\n{_listed(part, text)}\n"
    pages = {part.name: own}
    title = part.heading.title if part.heading else _title(text)
    for before, each, behind in _neighbours(part.inside):
        mine = _written(each, old, text, places)
        way = [f"[{title}]({_to(part.name, each.name)})"]
        way += [f"[← {_brief(before)}]({_to(before.name, each.name)})"] if before else []
        way += [f"[{_brief(behind)} →]({_to(behind.name, each.name)})"] if behind else []
        alone = not _headings(mine[each.name])
        page = f"{' · '.join(way)}\n\n{mine[each.name].rstrip()}\n\n{' · '.join(way)}\n"
        pages |= mine | {each.name: f"{_WIDE if alone else ''}{page}"}
    return pages


def _listed(part: _Part, text: str) -> str:
    """A list of the pages inside, with the old anchors of their headings."""
    lines: list[str] = []
    headings = _headings(text)
    for each in part.inside:
        lines.append(f"* [{_name(each)}]({_to(each.name, part.name)}){{ #{_anchor(each)} }}")
        for below in headings:
            for name in _holding(each, below) if below != each.heading else ():
                link = f"{_to(name, part.name)}#{below.anchor}"
                lines.append(f"    * [{below.title}]({link}){{ #{below.anchor} }}")
    return "\n".join(lines)


def _name(part: _Part) -> str:
    return part.heading.title if part.heading else part.name


def _brief(part: _Part) -> str:
    """The title, or the number of a long one."""
    number = re.match(r"(\d+)\. .{40}", _name(part))
    return number[1] if number else _name(part)


def _anchor(part: _Part) -> str:
    return part.heading.anchor if part.heading else ""


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def _neighbours(
    parts: tuple[_Part, ...],
) -> Iterator[tuple[_Part | None, _Part, _Part | None]]:
    padded = (None, *parts, None)
    for (before, each), (_, behind) in pairwise(pairwise(padded)):
        assert each is not None
        yield before, each, behind


def _mended(text: str, old: str, new: str, places: Mapping[tuple[str, str], str]) -> str:
    """A text of the page `old` with its links corrected for the page `new`."""

    def mend(match: re.Match[str]) -> str:
        path, hash_, anchor = match["target"].partition("#")
        if "://" in path or path.startswith(("/", "mailto:")):
            return match[0]
        target = normpath(join(dirname(old), path)) if path else old
        place = places.get((target, anchor), target)
        if place == target and old == new:
            return match[0]
        return f"{match['before']}{'' if place == new else _to(place, new)}{hash_}{anchor}"

    rest: list[str] = []
    at = 0
    for fence in FENCE.finditer(text):
        rest += [_LINK.sub(mend, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*rest, _LINK.sub(mend, text[at:])])


def _to(target: str, page: str) -> str:
    return relpath(target, dirname(page) or ".")
