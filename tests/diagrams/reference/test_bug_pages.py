"""Each known bug has a page and an anchor."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from epochfence.diagrams.reference import bug_pages, sections
from epochfence.diagrams.reference.chinese import TITLES
from epochfence.spec.bugs import BUGS, Bug, bug_of

PAGE = Path(__file__).parents[3] / "docs" / "bugs.md"


@cache
def the_pages() -> dict[str, str]:
    cut = sections.cut({"bugs.md": PAGE.read_text(encoding="utf-8")}, ["bugs.md"])
    return bug_pages.added(cut)


def test_each_bug_has_one_page() -> None:
    assert len(the_pages()) == len(BUGS) + 2


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_the_overview_links_the_page(bug: Bug) -> None:
    name = bug_pages.address(bug)
    link = f"| [`{bug.id}`](bugs/{name}.md){{ #{name} }}"
    assert the_pages()["bugs.md"].count(link) == 1
    page = the_pages()[f"bugs/{name}.md"]
    assert f"\n# {bug.id}: {bug.title} {{ #{name} }}\n" in page
    assert f"\nepochfence bugs {bug.id}\n" in page
    assert f"| breaks | `{bug.property}`: " in page


def test_a_page_has_the_facts() -> None:
    page = the_pages()[f"bugs/{bug_pages.address(bug_of('KAFKA-18019'))}.md"]
    assert "| releases | 2.5 to 3.9 |" in page
    assert "| ticket | [KAFKA-18019](https://issues.apache.org/jira/browse/KAFKA-18019) |" in page
    assert "needs version 1 of transactions" in page


def test_the_chinese_table_has_each_bug() -> None:
    page = the_pages()["zh/bugs.md"]
    assert TITLES.keys() <= {bug.id for bug in BUGS}
    assert all(f"| {title} |" in page for title in TITLES.values())
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| [")] == [
        bug.id for bug in BUGS
    ]
