"""The first tables of docs/proofs.md say what its sections prove, and what a run breaks."""

from __future__ import annotations

from itertools import product

import pytest
from markdown.extensions.toc import slugify

from epochfence.checker.named_systems import load_system
from epochfence.checker.solver.proofs import page
from epochfence.checker.solver.proofs.overview import BROKEN, Broken, Section, anchor, table
from epochfence.checker.solver.proofs.page import CASES
from epochfence.checker.verdict.result import Verdict
from epochfence.tests.checker.solver.proofs.test_page import PAGE, parts
from epochfence.tests.model.counterexamples import checked

RENEW = "make proofs SECTIONS=1"
EACH = [key for each in BROKEN for key in product([each], each.properties, each.releases)]


@pytest.mark.slow(1)
@pytest.mark.long
@pytest.mark.parametrize(("broken", "name", "release"), EACH, ids=[f"{n}, {r}" for _, n, r in EACH])
def test_what_does_not_hold_is_broken_by_a_run(broken: Broken, name: str, release: str) -> None:
    """The run is taken again by the interpreter and by the executable machines."""
    result = checked(broken.instance(name, release))
    assert result.verdict in (Verdict.BROKEN, Verdict.LEADS_TO_BROKEN), result.reason
    assert [item.name for item in result.properties if item.verdict == "broken"] == [name]


@pytest.mark.slow(1)
def test_the_tables_of_the_page_are_those_of_its_sections() -> None:
    sections = ["\n## " + part.removesuffix("\n") + "\n" for part in parts()]
    assert page.whole(sections) == PAGE, RENEW


def test_every_property_is_proved_or_broken_at_each_release_of_the_page() -> None:
    """The page doesn't say what an empty cell means."""
    lines = PAGE[: PAGE.index("\n## ")].splitlines()
    rows = [line for line in lines if line.startswith("| ") and line.count("|") == 9]
    assert len(rows) == 2 + 22 + 7  # heads and properties
    assert [row for row in rows if "–" in row] == []


def section(text: str, release: str = "4.2", on: tuple[str, ...] = ()) -> Section:
    return Section("7. transactions", text, load_system("transactions"), release, on)


def row(name: str, *sections: Section) -> str:
    """A property's line of the table."""
    (line,) = (each for each in table("transactions", sections).splitlines() if f" {name} " in each)
    return line


def test_what_is_not_proved_is_not_in_the_table() -> None:
    told = "| BumpedOnce | s | **{}**: induction, k=1 | – | 1 | 1.0 |"
    assert " [7] " in row("BumpedOnce", section(told.format("proved")))
    assert "| BumpedOnce " not in table("transactions", [section(told.format("not inductive"))])


def test_a_proof_with_more_features_names_them() -> None:
    told = "| NotFencedByItself | s | **proved**: k=1 | – | 1 | 1.0 |"
    line = row("NotFencedByItself", section(told, "4.4", ("late_fence_end_refused",)), section(""))
    assert line.endswith("; [7] with `late_fence_end_refused` |")
    assert "**no**" in line


def test_a_proof_is_of_other_releases_where_its_section_says_so() -> None:
    told = "| BumpedOnce | s | **proved**: k=1 | – | 1 | 1.0 |\n\n**At {} as well.** Z3\n"
    line = row("BumpedOnce", section(told.format("3.6, 4.0.1 and 4.1 with x")))
    assert line == "| BumpedOnce | – | [7] | [7] | [7] with `x` | [7] | – | – |"
    with_more = section(told.format("4.2 with x and 4.1 with x with y"))
    line = row("BumpedOnce", with_more)
    assert line == "| BumpedOnce | – | – | – | [7] with `x`, `y` | [7] | – | – |"


def test_a_proof_of_what_a_run_breaks_is_refused() -> None:
    told = "| Atomic | s | **proved**: k=1 | – | 1 | 1.0 |"
    with pytest.raises(ValueError, match=r"Atomic is proved at 4\.1, and `KAFKA-19446` breaks"):
        table("transactions", [section(told, "4.1")])


def test_links_to_sections_are_those_of_the_site() -> None:
    headings = [part.partition("\n")[0] for part in parts()]
    assert len(headings) == len(CASES)
    assert [anchor(each) for each in headings] == [slugify(each, "-") for each in headings]
    assert all(f"]: #{anchor(each)}\n" in PAGE for each in headings)
