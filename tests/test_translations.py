"""The pages in Chinese say what those in English do: section by section they have the same
commands, pictures, links and figures. They are set as Chinese is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from posixpath import normpath

import pytest

from epochfence.diagrams.reference import rule_pages
from epochfence.diagrams.reference.sections import FENCE
from epochfence.model.serve.rules.book import RULES

ROOT = Path(__file__).parents[1]
TRANSLATED = {
    "docs/zh/README.md": "README.md",
    "docs/zh/checked.md": "docs/checked.md",
    "docs/zh/explore.md": "docs/explore.md",
    "docs/zh/glossary.md": "docs/glossary.md",
    "docs/zh/semantics.md": "docs/semantics.md",
    "docs/zh/tour.md": "docs/tour.md",
}
OVERVIEWS = {"docs/semantics.md": "\n## Cells\n"}
"""Pages of which an overview is translated, up to this line."""
FINDINGS_IN_CHINESE = "docs/zh/findings.md"  # headlines and summaries alone
RULES_IN_CHINESE = "docs/zh/rules.md"  # the rules alone, and what happens without them
# what is beside docs/ and so can't be linked from there, and the link to the translation itself
NOT_LINKED = {"SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/zh/README.md"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
FIGURE = re.compile(r"(?<![\w.-])\d+(?:\.\d+)*(?: million| 万)?(?![A-Za-z\d_-])")
CODE = re.compile(r"`[^`]*`")
CHINESE = r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"


def told(page: str, text: str) -> list[tuple[list[str], Counter[str], Counter[str]]]:
    """The commands, the links and the figures of each section of a page's text."""
    commands_hidden = FENCE.sub(lambda fence: fence[0].replace("\n#", "\n "), text)
    sections = re.split(r"^#+ ", commands_hidden, flags=re.MULTILINE)[1:]
    return [(fences(one), links(page, one), figures(one)) for one in sections]


def fences(section: str) -> list[str]:
    """The fenced blocks of a section."""
    return [fence[0] for fence in FENCE.finditer(section)]


def links(page: str, section: str) -> Counter[str]:
    """What a section links to and shows, from the root; a translation counts as its original."""
    targets = LINK.findall(FENCE.sub("", section))
    own = TRANSLATED.get(page, page)
    paths = [
        t if "://" in t else f"{own}{t}" if t.startswith("#") else normpath(f"{page}/../{t}")
        for t in targets
    ]
    return Counter(TRANSLATED.get(path, path) for path in paths if path not in NOT_LINKED)


def figures(section: str) -> Counter[str]:
    """The numbers that a section tells in digits, but for those of commands and links."""
    found = FIGURE.findall(CODE.sub("", LINK.sub("", FENCE.sub("", section))))
    return Counter(map(figure, found))


def figure(text: str) -> str:
    """A number in millions, or in wan (ten thousands), written in full."""
    number, _, unit = text.partition(" ")
    times = {"": 0, "million": 1_000_000, "万": 10_000}[unit]
    return f"{float(number) * times:.0f}" if times else number


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_translation_has_the_same_sections_commands_links_and_figures(page: str) -> None:
    ours = told(page, (ROOT / page).read_text(encoding="utf-8"))
    name = TRANSLATED[page]
    text, end, _ = (ROOT / name).read_text(encoding="utf-8").partition(OVERVIEWS.get(name, "\0"))
    assert (end != "") == (name in OVERVIEWS)
    assert ours == told(name, text)


def test_the_findings_in_chinese_are_those_of_the_page() -> None:
    row = re.compile(r"^\| (\d+) \| \[[^]]*\]\((?:\.\./findings\.md)?(#[^)]*)\)", re.MULTILINE)
    ours, original = (
        row.findall((ROOT / page).read_text(encoding="utf-8"))
        for page in (FINDINGS_IN_CHINESE, "docs/findings.md")
    )
    assert original
    assert ours == original


def test_the_rules_in_chinese_are_those_of_the_page() -> None:
    """Each with its place and with the property that breaks without it."""
    row = re.compile(r"^\| \[(\d+)\]\((?:\.\./rules\.md)?(#[^)]*)\) \|.*\| (\S+) \|$", re.MULTILINE)
    ours = row.findall((ROOT / RULES_IN_CHINESE).read_text(encoding="utf-8"))
    original = row.findall(rule_pages.pages()[rule_pages.PAGE].decode())
    assert len(original) == len(RULES)
    assert ours == original


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("2.5", "2.6"),
        ("--bounds small", "--bounds large"),
        ("\n## ", "\n## x\n\n## "),
        ("../findings.md", "../bugs.md"),
    ],
)
def test_what_is_out_of_step_is_seen(right: str, wrong: str) -> None:
    page = "docs/zh/README.md"
    text = (ROOT / page).read_text(encoding="utf-8")
    assert told(page, text.replace(right, wrong, 1)) != told(page, text)


@pytest.mark.parametrize("page", [*TRANSLATED, FINDINGS_IN_CHINESE, RULES_IN_CHINESE])
def test_chinese_is_set_as_chinese_is(page: str) -> None:
    """Signs between Chinese words are full width. A line of a paragraph ends only where a space
    may stand: browsers show its end as one."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    prose = CODE.sub("", LINK.sub("]", text))
    assert re.findall(rf"{CHINESE}[ ]?[,:;?()]|[,:;?()]{CHINESE}", prose) == []
    assert (
        re.findall(rf"{CHINESE}[*`\])]*\n *[*`\[(]*{CHINESE}", text.replace("\n* ", "\n\n")) == []
    )
