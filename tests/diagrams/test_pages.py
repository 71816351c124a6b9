"""The generated pages show what is declared: machines, tables and rows."""

import re
from dataclasses import replace
from pathlib import Path

from epochfence.checker.named_systems import load_system
from epochfence.diagrams.pages import DRAWINGS, FOLDER, PAGE, pages

DOCS = Path(__file__).parents[2] / "docs"
ORDERS = load_system(str(Path(__file__).parent / "orders.py"))
LINK = re.compile(r"\((\S+?\.(?:svg|md|html))(?:#\w+)?\)")


def test_pages_tell_of_every_machine_table_and_row() -> None:
    files = pages([ORDERS])
    for machine in ORDERS.machines:
        text = files[f"{FOLDER}/{machine.name}.md"].decode()
        assert f"\n# {machine.name}\n" in text
        assert f"[{machine.name}]({FOLDER}/{machine.name}.md)" in files[PAGE].decode()
        for table in (table for table in ORDERS.tables if table.machine is machine):
            assert f"\n## {table.on.name}\n" in text
            for row in table.rows:
                assert re.search(rf"\*\*\d+\. {re.escape(row.name)}\*\*", text)


def test_links_lead_to_every_file() -> None:
    files = pages([ORDERS])
    led: set[str] = set()
    for name in (name for name in files if name.endswith(".md")):
        for target in LINK.findall(files[name].decode()):
            led.add((DOCS / name).parent.joinpath(target).resolve().relative_to(DOCS).as_posix())
    assert led == files.keys() - {PAGE}


def test_a_removed_row_changes_the_page() -> None:
    longest = max(ORDERS.tables, key=lambda table: len(table.rows))
    fewer = replace(longest, rows=longest.rows[1:])
    tables = tuple(fewer if table is longest else table for table in ORDERS.tables)
    less = replace(ORDERS, tables=tables)
    assert pages([less]) != pages([ORDERS])


def test_rows_are_there_only_where_their_event_can_happen() -> None:
    """Nobody sends Place before the second release."""
    refunds = ORDERS.protocols.features[0]
    begin = ORDERS.tables[0]
    late = replace(begin, rows=(replace(begin.rows[0], during=refunds),))
    files = pages([replace(ORDERS, tables=(late, *ORDERS.tables[1:]))])
    text = files[f"{FOLDER}/order.md"].decode()
    row = r"\*\*\d+\. too late\*\*<br>\n<small>2–3</small>\n\n```text\notherwise\nnothing changes\n"
    assert re.search(row, text)


def test_what_two_systems_share_is_told_once() -> None:
    more = replace(ORDERS, name="more orders", tables=ORDERS.tables[:-1])
    files = pages([ORDERS, more])
    assert files[PAGE].decode().count("\n## ") == 2
    assert files.keys() - pages([ORDERS]).keys() == {f"{DRAWINGS}/system-more orders.svg"}
    order, customer = (files[f"{FOLDER}/{name}.md"].decode() for name in ("order", "customer"))
    assert "only.\n" not in order
    assert "## PayResponse\n\nIn orders only.\n" in customer


def test_two_machines_of_one_name_have_a_page_each() -> None:
    orders = load_system(str(Path(__file__).parent / "orders.py"))
    files = pages([ORDERS, replace(orders, name="others")])
    assert {f"{FOLDER}/order.md", f"{FOLDER}/others-order.md"} <= files.keys()
