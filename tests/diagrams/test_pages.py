"""The generated documentation is what the declarations say now."""

import re
from dataclasses import replace
from pathlib import Path

from epochfence.diagrams.pages import DRAWINGS, PAGE, pages, write
from epochfence.spec.load import load_system
from epochfence.spec.systems import SHIPPED, shipped

DOCS = Path(__file__).parents[2] / "docs"
ORDERS = load_system(str(Path(__file__).parent / "orders.py"))


def test_the_committed_pages_are_up_to_date() -> None:
    generated = pages(map(shipped, SHIPPED))
    kept = {f"{DRAWINGS}/{path.name}" for path in (DOCS / DRAWINGS).glob("*.svg")}
    assert kept == generated.keys() - {PAGE}, "run make docs"
    stale = [name for name, text in generated.items() if (DOCS / name).read_bytes() != text]
    assert stale == [], "run make docs"


def test_writing_removes_drawings_of_what_is_gone(tmp_path: Path) -> None:
    old = tmp_path / DRAWINGS / "gone.svg"
    old.parent.mkdir()
    old.touch()
    write(tmp_path)
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert written == pages(map(shipped, SHIPPED)).keys()


def test_a_page_tells_of_every_machine_table_and_row() -> None:
    files = pages([ORDERS])
    text = files[PAGE].decode()
    for machine in ORDERS.machines:
        assert f"\n### {machine.name}\n" in text
    for table in ORDERS.tables:
        assert f"\n#### {table.on.name}\n" in text
        for row in table.rows:
            assert f"| **{row.name}**" in text
    assert set(re.findall(r"\((diagrams/\S+?\.svg)\)", text)) == files.keys() - {PAGE}


def test_a_removed_row_changes_the_page() -> None:
    first, *rest = ORDERS.tables
    less = replace(ORDERS, tables=(replace(first, rows=first.rows[1:]), *rest))
    assert pages([less])[PAGE] != pages([ORDERS])[PAGE]


def test_what_two_systems_share_is_told_once() -> None:
    text = pages([ORDERS, replace(ORDERS, name="more orders")])[PAGE].decode()
    assert text.count("\n## ") == 2
    assert text.count("\n### order\n") == 1
