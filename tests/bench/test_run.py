"""`make bench`: the page has a place for its result; quick.py runs its programs."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"


SECTIONS = ["measured", "store", "progress", "compile", "spark", "solver", "oracle"]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_one_place_for_the_result(name: str) -> None:
    text = PAGE.read_text()
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    assert (text.count(begin), text.count(end)) == (1, 1)
    assert text.index(begin) < text.index(end)
