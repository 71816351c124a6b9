"""Each finding has a page with its facts, and a ticket or the text of one."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from epochfence.diagrams.reference import finding_pages, sections
from epochfence.spec.bugs.findings import FINDINGS, Finding

PAGE = Path(__file__).parents[3] / "docs" / "findings.md"
each_finding = pytest.mark.parametrize("one", FINDINGS, ids=lambda one: str(one.number))


@cache
def the_pages() -> dict[str, str]:
    cut = sections.cut({"findings.md": PAGE.read_text(encoding="utf-8")}, ["findings.md"])
    return finding_pages.decorated(cut)


@each_finding
def test_a_page_has_the_headline_and_the_facts(one: Finding) -> None:
    page = the_pages()[f"findings/{one.number}.md"]
    assert f"\n# {one.number}. {one.title} {{" in page
    rows = dict(re.findall(r"^\| ([\w ]+) \| (.*) \|$", page, re.MULTILINE))
    assert [*rows][:6] == ["severity", "releases", "needs", "seen at", "ticket", "remedy"]
    assert (rows["severity"], rows["needs"]) == (one.damage.value, one.needs)
    assert (rows["remedy"], rows["releases"]) == (one.remedy, one.affected)


@each_finding
def test_a_page_has_a_ticket_or_the_text_of_one(one: Finding) -> None:
    page = the_pages()[f"findings/{one.number}.md"]
    text = f'??? note "The text of a ticket"\n\n    ```text\n    Summary: {one.title}\n'
    assert (text in page) == (one.bug == "")
    assert (f"browse/{one.bug})" in page) == (one.bug != "")


def test_a_text_is_in_the_markup_of_the_tracker() -> None:
    entry = (
        "A `row`, **not** a\nline, and [a page](x.md) or [one](https://a/b).\n\n"
        "```sh\nrun `it`\n```\n\n1. First\n   step.\n2. Second\n\n* [Point](#a)\n"
    )
    told = finding_pages.report(FINDINGS[8], entry, "4.4.0").partition("\n\n")
    assert told[2] == (
        "A {{row}}, *not* a line, and a page or [one|https://a/b].\n\n"
        "{code}\nrun `it`\n{code}\n\n# First step.\n# Second\n\n* Point\n"
    )
    assert "\nComponent: clients\nAffects: clients from 4.0.0 (seen at 4.4.0)\n" in told[0]
