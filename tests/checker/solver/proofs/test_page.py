"""docs/proofs.md is of these systems' properties, and tells no proof that isn't one."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.bench import ktx
from epochfence.checker.named_systems import load_system
from epochfence.checker.solver.proofs import page
from epochfence.checker.solver.proofs.page import CASES, Case, run, section

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?P<name>\S+) \| (?P<sentence>.*?) \| \*\*(?P<verdict>[\w ]+)\*\*", re.MULTILINE
)

USED = re.compile(
    r"^\| \S+ \| .*? \| \*\*proved\*\*.*? \| (?P<lemmas>[^|]+) \| \d+ \|", re.MULTILINE
)

QUICK = Case("bench/ktx.py", {"I": 2}, ("NoHanging",))


def parts() -> list[str]:
    """The page's sections."""
    return PAGE.split("\n## ")[1:]


def test_the_page_tells_every_property_as_it_is_declared() -> None:
    assert len(parts()) == len(CASES)
    for case, part in zip(CASES, parts(), strict=True):
        path = ROOT / case.system
        system = load_system(str(path) if path.exists() else case.system)
        told = {row["name"]: row["sentence"] for row in ROW.finditer(part)}
        wanted = case.properties or [item.name for item in system.properties]
        declared = {item.name: item.sentence for item in system.every_property}
        assert {name: told[name] for name in wanted} == {name: declared[name] for name in wanted}


@pytest.mark.slow(3)
@pytest.mark.parametrize("at", range(len(CASES)), ids=lambda at: f"section {at + 1}")
def test_each_section_is_of_todays_rows_properties_and_lemmas(at: int) -> None:
    """At each release that it names."""
    assert page.is_current(CASES[at], parts()[at]), f'make proofs SECTIONS="{at + 1}"'


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("rows, properties and lemmas: `", "rows, properties and lemmas: `0"),
        ("Digest of its rows", "It is of these rows"),
        ("| NoHanging |", "| NoHangings |"),
        ("proved, for any E, S**", "proved, for any E**"),
    ],
    ids=["another digest", "none", "a property less", "a bound"],
)
def test_a_section_of_something_else_is_not_current(was: str, now: str) -> None:
    text = parts()[0]
    assert was in text
    assert page.is_current(CASES[0], text)
    assert not page.is_current(CASES[0], text.replace(was, now))


def test_a_section_that_names_a_release_where_z3_is_asked_something_else_is_not_current() -> None:
    at, case = next((at, c) for at, c in enumerate(CASES) if c.system == "producer-ids")
    claim = "**At 4.3 as well.** What Z3 is asked there is the same.\n\n"
    text = parts()[at].replace("Digest of its rows", f"{claim}Digest of its rows")
    assert text != parts()[at]
    assert page.is_current(case, parts()[at])
    assert not page.is_current(case, text)


@pytest.mark.parametrize("name", ["transactions", "idempotence", "producer-ids", "replication"])
def test_each_lemma_is_used_by_a_proof(name: str) -> None:
    """Take away a lemma that is named here: nothing needs it."""
    of_system = [part for case, part in zip(CASES, parts(), strict=True) if case.system == name]
    rows = [row for part in of_system for row in USED.finditer(part)]
    used = {lemma for row in rows for lemma in row["lemmas"].split(", ")}
    assert [item.name for item in load_system(name).lemmas if item.name not in used] == []


@pytest.mark.slow
def test_what_it_says_of_the_benchmark_protocol_is_what_a_run_says() -> None:
    case = Case("bench/ktx.py", {"I": 2})
    written = section(1, case, run(case))
    again = {row["name"]: row["verdict"] for row in ROW.finditer(written)}
    assert again == {row["name"]: row["verdict"] for row in ROW.finditer(parts()[0])}
    assert {again[item.name] for item in ktx.PROPERTIES} == {"proved"}


@pytest.mark.slow(2)
def test_sections_that_are_not_named_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last section is written again, on a page that has it and on one that lacks it."""
    written = tmp_path / "proofs.md"
    monkeypatch.setattr(page, "CASES", (*CASES, QUICK))
    monkeypatch.setattr(sys, "argv", ["page", str(written), str(len(CASES) + 1)])
    texts: list[str] = []
    written.write_text(PAGE, encoding="utf-8")
    for _ in range(2):
        page.main()
        texts.append(written.read_text(encoding="utf-8"))
    for text in texts:
        assert text.split("\n## ")[1:-1] == [part.removesuffix("\n") + "\n" for part in parts()]
        assert "| NoHanging |" in text.split("\n## ")[-1]


@pytest.mark.slow(2)
def test_sections_behind_a_new_one_get_new_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "proofs.md"
    written.write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(page, "CASES", (QUICK, *CASES))
    monkeypatch.setattr(sys, "argv", ["page", str(written), "1"])
    page.main()
    first, *others = written.read_text(encoding="utf-8").split("\n## ")[1:]
    assert first.startswith("1. ktx")
    for number, (part, before) in enumerate(zip(others, parts(), strict=True), 2):
        assert part.startswith(f"{number}. ")
        assert part.partition(".")[2].strip() == before.partition(".")[2].strip()


@pytest.mark.slow(2)
def test_ctrl_c_leaves_the_sections_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "proofs.md"
    written.write_text(PAGE, encoding="utf-8")
    result = run(QUICK)
    results = [result, replace(result, interrupted=True)]
    monkeypatch.setattr(page, "run", lambda case, known: results.pop(0))
    monkeypatch.setattr(page, "CASES", (QUICK, QUICK, *CASES[2:]))
    monkeypatch.setattr(sys, "argv", ["page", str(written)])
    with pytest.raises(SystemExit, match=r"interrupted: .*proofs\.md has no new section 2"):
        page.main()
    _, first, *others = written.read_text(encoding="utf-8").split("\n## ")
    assert "| NoHanging |" in first
    assert first != parts()[0]
    assert [part.strip() for part in others] == [part.strip() for part in parts()[1:]]


def test_a_section_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "proofs.md"
    monkeypatch.setattr(sys, "argv", ["page", str(written), "1", str(len(CASES) + 1)])
    with pytest.raises(SystemExit, match="2"):
        page.main()
    assert f"no section is of {len(CASES) + 1}" in capsys.readouterr().err
    assert not written.exists()


def test_a_page_that_lacks_sections_that_are_not_named_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "proofs.md"
    written.write_text(PAGE.rpartition("\n## ")[0], encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["page", str(written), "1", "2"])
    with pytest.raises(SystemExit, match="name those that are new"):
        page.main()
