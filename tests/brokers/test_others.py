"""The page of other brokers: its sections, its rows, and what is said where a tool is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from epochfence.model.cluster import Cluster
from epochfence.model.conformance.live.causes import RANKS
from epochfence.model.conformance.live.cluster.apis import NEWEST, OLDEST, OPTIONAL
from epochfence.model.conformance.live.suites.directed_suite import existing
from epochfence.spec.groups.members.classic_group import TABLES as GROUP
from epochfence.tests.brokers import others
from epochfence.tests.brokers.others import LEVELS, OTHERS, PAGE, section, sections

RUN = {
    "transaction_version": 2,
    "requests": {"directed": 1000, "random": 200},
    "rows": [],
    "disagreements": [{}],
    "ended_early": None,
    "lacking": [],
}
CAUSE = {"name": "x", "count": 2, "rows": ["partition: Produce, row append (S.m)"]}


def test_a_section_has_the_worst_first_and_tells_what_honest_clients_meet() -> None:
    field, data, fencing = (
        CAUSE | {"rank": rank, "name": name}
        for rank, name in (("a field", "f"), ("lost or duplicated data", "d"), ("fencing", "e"))
    )
    honest, every = RUN | {"causes": [field]}, RUN | {"causes": [fencing, field, data]}
    lines = section(OTHERS[0], [honest, every]).splitlines()
    assert "| any | 1,000 | 200 | 0 | 1 | yes |" in lines
    row = "partition: Produce, row append (S.m)"
    assert lines[-3:] == [
        f"| lost or duplicated data | d | {row} |  | 2 |",
        f"| fencing | e | {row} |  | 2 |",
        f"| a field | f | {row} | yes | 4 |",
    ]


def test_a_section_takes_its_place_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nText.\n\n## tansu\n\nold\n", encoding="utf-8")
    monkeypatch.setattr(others, "PAGE", page)
    others.write("kfake", "## kfake\n\none\n")
    others.write("tansu", "## tansu\n\nnew\n")
    assert page.read_text() == "# Title\n\nText.\n\n## kfake\n\none\n\n## tansu\n\nnew\n"


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.name)
def test_the_page_tells_of_each_broker_and_names_rows_that_there_are(other: others.Other) -> None:
    versions = {name: (OLDEST.get(name, 0), newest) for name, newest in NEWEST.items()}
    levels = (0, 2) if other.protocol >= "4" else (0,)
    rows: set[str] = set()
    for level in levels:
        cluster = Cluster(protocol=other.protocol, transaction_version=level)
        rows |= {f"{r.machine}: {r.event}, row {r.row}" for r in existing(cluster, versions)}
    rows |= {
        f"{t.machine.name}: {t.name.partition('.')[2]}, row {r.id}" for t in GROUP for r in t.rows
    }
    lines = sections(PAGE.read_text(encoding="utf-8"))[other.name].splitlines()
    assert any(line.startswith(f"{other.name} {other.version}, ") for line in lines)
    assert sum(line.startswith(tuple(f"| {level} |" for level in LEVELS)) for line in lines) == 2
    table = [line.split(" | ") for line in lines if line.startswith(tuple(f"| {r}" for r in RANKS))]
    assert table
    for _, cause, names, *_ in table:
        for name in names.split("; ") if names else ():
            first = name.split(", then ")[0]
            assert any(first == row or first.startswith(f"{row} (") for row in rows), (cause, name)


def test_the_docs_list_the_apis_that_a_run_sends() -> None:
    text = (PAGE.parent / "conformance.md").read_text(encoding="utf-8")
    part = text.partition("### A broker other than Kafka")[2].partition("\n### ")[0]
    shown = [line for line in part.splitlines() if line.startswith("| ") and " to " in line]
    assert shown == [
        f"| {name} | {OLDEST.get(name, 0)} to {newest} | {OPTIONAL.get(name, 'needed')} |"
        for name, newest in NEWEST.items()
    ]


def test_a_missing_tool_is_told_in_a_line(tmp_path: Path) -> None:
    left = {name: value for name, value in os.environ.items() if name not in ("KFAKE", "TANSU")}
    done = subprocess.run(
        [sys.executable, str(Path(others.__file__)), "kfake", "tansu"],
        env=left | {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "others: brokers need go: install it (Debian and Ubuntu: apt install golang)",
        "others: brokers need cargo: install it (Debian and Ubuntu: apt install cargo)",
    ]


def test_an_unknown_broker_is_told_in_a_line() -> None:
    assert others.main(["redpanda"]) == 2
