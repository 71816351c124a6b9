"""The page "Am I affected?" in both languages."""

from __future__ import annotations

import re

from epochfence.diagrams.reference.affected import CHINESE, PAGE, pages
from epochfence.diagrams.reference.chinese import TITLES, releases_in_chinese
from epochfence.spec.bugs import BUGS
from epochfence.spec.bugs.findings import FINDINGS

LINE = re.compile(r"^\* \*\*(.+?)\*\*: (.+) \((.+)\)$", re.MULTILINE)


def test_both_pages_have_the_same_tables_and_entries_in_words_of_their_own() -> None:
    english, chinese = (pages()[name].decode() for name in (PAGE, CHINESE))
    counts = [re.findall(r"\| (?=\d+: )(\d+)", text) for text in (english, chinese)]
    assert counts[0] == counts[1]
    entries = [LINE.findall(text) for text in (english, chinese)]
    assert [name for name, *_ in entries[0]] == [name for name, *_ in entries[1]]
    assert {name for name, *_ in entries[1]} == TITLES.keys()
    for _, title, affected in entries[1]:
        assert re.search("[\u4e00-\u9fff]", title)
        assert not re.search(r"\b(to|and|from|before|with|without|later)\b", affected), affected


def test_a_chinese_title_is_of_a_bug_or_finding_that_there_is() -> None:
    assert TITLES.keys() <= {bug.id for bug in BUGS} | {f"finding {one.number}" for one in FINDINGS}


def test_releases_are_told_in_chinese() -> None:
    assert releases_in_chinese("brokers from 2.4, before 4.0.0") == "broker 2.4 起，早于 4.0.0"
    assert releases_in_chinese("0.11 to 2.8, 3.0.0 and 3.0.1") == "0.11 至 2.8，3.0.0、3.0.1"
