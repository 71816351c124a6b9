"""Results that are recorded in the documentation, and the options of the programs that record them.

A page has a result between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from epochfence.files import write_whole


def _parts(page: Path, name: str) -> tuple[str, str, str]:
    """A page up to a result, with the mark; the result; the rest, from the other mark on."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    text = page.read_text(encoding="utf-8")
    if (text.count(begin), text.count(end)) != (1, 1) or text.index(end) < text.index(begin):
        raise ValueError(f"{page} needs the marks {begin.strip()} and {end.strip()}, once each")
    before, _, rest = text.partition(begin)
    old, _, after = rest.partition(end)
    return before + begin, old, end + after


def recorded(page: Path, name: str) -> str:
    """The result that a page has. Raises ValueError where it lacks the marks."""
    return _parts(page, name)[1]


def record(page: Path, name: str, text: str) -> None:
    """Replaces the result that a page has. Raises ValueError where it lacks the marks."""
    before, _, after = _parts(page, name)
    write_whole(page, f"{before}{text.rstrip()}\n{after}")


def options(
    description: str | None, *, seconds: float | None = None, page: Path | None = None
) -> argparse.ArgumentParser:
    """A parser with `--seed`, which is random by default; with `--seconds` where the program has a
    default for it, and with `--record` where its result has a page."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    if seconds is not None:
        parser.add_argument("--seconds", type=float, default=seconds, help="(default: %(default)s)")
    if page is not None:
        parser.add_argument("--record", action="store_true", help=f"in docs/{page.name}")
    return parser
