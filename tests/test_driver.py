"""A recorded result replaces the one before, and nothing else of its page. A run goes on."""

from __future__ import annotations

import os
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from epochfence.tests.driver import in_processes, lines, options, record, recorded

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


def test_half_a_line_at_the_end_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    assert lines(file) == []
    file.write_text('{"a": 1}\n[2]\n{"a"')
    assert lines(file) == [{"a": 1}, [2]]


@pytest.mark.slow(3)
def test_others_go_on_for_a_process_that_dies(tmp_path: Path) -> None:
    died = f"__import__('os').path.exists({str(tmp_path / 'died')!r})"
    dies = f"{died} or (open({str(tmp_path / 'died')!r}, 'w').close(), __import__('os')._exit(9))"
    assert list(in_processes(eval, ["0", dies, "2"], 1, 6)) == [0, True, 2]
    with pytest.raises(BrokenProcessPool):
        list(in_processes(os._exit, [9], 1, 6))
