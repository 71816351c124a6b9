"""How many findings, bugs, systems and releases there are: the same on each page, and as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochfence.diagrams.playground.puzzles import PUZZLES
from epochfence.spec.bugs import BUGS
from epochfence.spec.bugs.findings import FINDINGS
from epochfence.spec.systems import SHIPPED
from epochfence.tests.documentation import rows_of

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
WORDS = [
    *("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
]
NUMBER = rf"(?P<number>\d+|{'|'.join(WORDS)})"
OPEN = sum(one.before is None for one in FINDINGS)
BROKERS = len(rows_of("conformance.md", "release | Kafka"))
COUNTS = {
    rf"{NUMBER} (?:known|published) bugs\b(?! as puzzles)": len(BUGS),
    rf"{NUMBER} 个已(?:公开的|知)缺陷": len(BUGS),
    rf"(?<!first ){NUMBER} findings\b": len(FINDINGS),
    rf"{NUMBER} bugs that the newest release": OPEN,
    rf"{NUMBER} in the newest release": OPEN,
    rf"(?:最新版本中发现|最新版本仍有) {NUMBER} 处": OPEN,
    rf"disagreements with {NUMBER} releases": BROKERS,
    rf"Kafka's (?:own )?brokers of {NUMBER} releases": BROKERS,
    rf"对照 {NUMBER} 个版本": BROKERS,
    rf"{NUMBER} shipped systems\b": len(SHIPPED),
    rf"{NUMBER} known bugs as puzzles\b": len(PUZZLES),
}
"""How each count is told, and what it is."""


def number(text: str) -> int:
    """A number in digits, or in a word."""
    return int(text) if text.isdigit() else WORDS.index(text.lower())


def told(text: str, pattern: str) -> list[int]:
    """The numbers of a page, with its lines joined and without the targets of its links."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    found = re.finditer(pattern, plain, re.IGNORECASE)
    return [number(match["number"]) for match in found]


@pytest.mark.parametrize("pattern", COUNTS)
def test_pages_agree_on_a_count(pattern: str) -> None:
    wrong = {
        page.name: counts
        for page in PAGES
        if (counts := told(page.read_text(encoding="utf-8"), pattern))
        and {*counts} != {COUNTS[pattern]}
    }
    assert wrong == {}


def test_the_counts_are_told() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [pattern for pattern in COUNTS if not told(text, pattern)] == []


def test_a_count_is_seen_across_lines_and_as_a_word() -> None:
    assert told("There are Sixteen\n[known bugs](x), or 3 known bugs.", next(iter(COUNTS))) == [
        16,
        3,
    ]
