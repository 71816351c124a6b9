"""A recorded result replaces the one before, and nothing else of its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochfence.tests.recording import options, record, recorded

BEGIN, END = "<!-- soak: begin -->\n", "<!-- soak: end -->\n"
OTHER = "<!-- kills: begin -->\nkept\n<!-- kills: end -->\n"


def test_a_result_is_replaced_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{OTHER}{BEGIN}old\n{END}after\n")
    record(page, "soak", r"new \1")
    assert page.read_text() == f"before\n{OTHER}{BEGIN}new \\1\n{END}after\n"
    assert (recorded(page, "soak"), recorded(page, "kills")) == ("new \\1\n", "kept\n")


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{END}" * 2])
def test_a_page_without_its_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="needs the marks"):
        record(page, "soak", "new")
    assert page.read_text() == text


def test_a_program_has_the_options_that_it_can_use(tmp_path: Path) -> None:
    given = options("", seconds=60, page=tmp_path / "soak.md").parse_args(["--seed", "7"])
    assert vars(given) == {"seed": 7, "seconds": 60, "record": False}
    assert {*vars(options("").parse_args([]))} == {"seed"}
