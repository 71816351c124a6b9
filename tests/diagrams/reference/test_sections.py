"""Long pages become an overview and a page for each section, and every link leads where it led."""

from __future__ import annotations

import pytest

from epochfence.diagrams.reference.sections import LARGEST, cut

PAGE = """# Bugs

An intro with [a link](tour.md) and [one to a section](#2-second).

## 1. First `code`

Text, and [another section](#deeper).

```text
## not a heading [not](#2-second)
```

### Deeper

## 2. Second

![a picture](charts/x.svg)
"""
OTHER = "# Other\n\n[Second](../bugs.md#2-second), [all](../bugs.md), [out](https://x/bugs.md#2-second)\n"


def the_pages() -> dict[str, str]:
    return cut({"bugs.md": PAGE, "a/other.md": OTHER, "tour.md": "# Tour\n"}, ["bugs.md"])


def test_each_section_has_a_page() -> None:
    assert [*the_pages()] == ["bugs.md", "bugs/1.md", "bugs/2.md", "a/other.md"]


def test_the_overview_lists_sections_with_their_anchors() -> None:
    overview = the_pages()["bugs.md"]
    assert overview.startswith("# Bugs\n\nAn intro with [a link](tour.md) and ")
    assert "[one to a section](bugs/2.md#2-second)" in overview
    assert overview.endswith(
        "* [1. First `code`](bugs/1.md){ #1-first-code }\n"
        "    * [Deeper](bugs/1.md#deeper){ #deeper }\n"
        "* [2. Second](bugs/2.md){ #2-second }\n"
    )


def test_a_section_begins_with_its_title_and_names_its_neighbours() -> None:
    first, second = the_pages()["bugs/1.md"], the_pages()["bugs/2.md"]
    assert "# 1. First `code` { #1-first-code }\n" in first
    assert "[Bugs](../bugs.md) · [2. Second →](2.md)\n" in first
    assert "[Bugs](../bugs.md) · [← 1. First `code`](1.md)\n" in second


def test_headings_are_raised_and_code_stays() -> None:
    first = the_pages()["bugs/1.md"]
    assert "\n## Deeper\n" in first
    assert "\n## not a heading [not](#2-second)\n" in first


def test_links_are_mended() -> None:
    pages = the_pages()
    assert "[another section](#deeper)" in pages["bugs/1.md"]
    assert "![a picture](../charts/x.svg)" in pages["bugs/2.md"]
    assert pages["a/other.md"] == OTHER.replace("../bugs.md#2", "../bugs/2.md#2", 1)


def test_other_pages_stay_as_they_are() -> None:
    assert "tour.md" not in the_pages()


def test_a_long_section_is_cut_at_its_headings() -> None:
    lines = "line\n" * LARGEST
    text = f"# A\n\n## B\n\n### C\n\n{lines}\n### D\n\n{lines}\n## E\n"
    assert [*cut({"a.md": text}, ["a.md"])] == ["a.md", "a/b.md", "a/b/c.md", "a/b/d.md", "a/e.md"]


def test_a_long_table_is_cut_between_rows() -> None:
    row = "line\n" * (LARGEST // 2)
    rows = "".join(f"**{number}. A row**<br>\n\n{row}\n" for number in range(1, 5))
    pages = cut({"a.md": f"# A\n\n## Event\n\nHappens.\n\n{rows}\n## E\n"}, ["a.md"])
    assert "# Row 2 { #rows-2 }\n**2. A row**<br>\n" in pages["a/event/rows-2.md"]
    assert "Happens.\n\n* [Row 1](event/rows-1.md){ #rows-1 }\n" in pages["a/event.md"]
    assert len(pages) == 7


def test_headings_of_one_name_have_pages_of_their_own() -> None:
    pages = cut({"a.md": "# A\n\n[2](#b_1)\n\n## B\n\nx\n\n## B\n\ny\n"}, ["a.md"])
    assert "[2](a/b_1.md#b_1)" in pages["a.md"]
    assert "y\n" in pages["a/b_1.md"]


def test_a_section_cannot_replace_a_page() -> None:
    with pytest.raises(ValueError, match=r"a section of a\.md would be a/b\.md, which exists"):
        cut({"a.md": "# A\n\n## B\n\n## C\n", "a/b.md": "# B\n"}, ["a.md"])
