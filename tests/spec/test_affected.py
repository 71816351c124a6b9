"""The releases that known bugs and findings concern: words, data, advice and doctor agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochfence.spec.bugs import BUGS, Bug
from epochfence.spec.bugs.advice import Setting, advice, client_of
from epochfence.spec.bugs.findings import FINDINGS
from epochfence.spec.bugs.hanging import HANGING
from epochfence.spec.releases.features import RELEASED

DOCS = Path(__file__).parents[2] / "docs"
OF_KAFKA = [bug for bug in BUGS if bug.id.startswith(("KAFKA-", "KIP-"))]
NUMBER = r"\d+(?:\.\d+)+"
UNRELEASED = re.compile(rf"a trunk\b.*|{NUMBER} before its release")
Line = tuple[int, ...]


def line_of(text: str) -> Line:
    """The line of a release: 4.2 of 4.2.2, 0.11.0 of 0.11."""
    numbers = tuple(map(int, text.split(".")))
    return (*numbers, 0)[:3] if numbers[0] == 0 else numbers[:2]


def is_whole(text: str) -> bool:
    """Whether a number names a line, with all its patches."""
    return len(text.split(".")) <= len(line_of(text)) - (text == "0.11")


LINES = sorted({line_of(release) for release in RELEASED})


def affected_lines(text: str) -> tuple[set[Line], set[Line]]:
    """The lines that `Bug.affected` names, and those of them with all patches."""
    releases = re.split(r", with|; | with more|, and every|, without", text)[0]
    some: set[Line] = set()
    whole: set[Line] = set()
    for match in re.finditer(rf"(before )?({NUMBER})(?: to ({NUMBER})| (and later))?", releases):
        before, first, last, later = match.groups()
        if before is not None:
            reached = {line for line in LINES if line <= line_of(first)}
            partly = {line_of(first)}
            some |= reached - (partly if is_whole(first) else set())
            whole |= reached - partly
            continue
        low = line_of(first)
        high = LINES[-1] if later else line_of(last or first)
        reached = {line for line in LINES if low <= line <= high}
        partly = {line_of(each) for each in (first, last) if each and not is_whole(each)}
        some, whole = some | reached, whole | (reached - partly)
    return some, whole


@pytest.mark.parametrize("bug", OF_KAFKA, ids=[bug.id for bug in OF_KAFKA])
def test_a_bug_s_words_name_the_releases_that_have_it(bug: Bug) -> None:
    if UNRELEASED.fullmatch(bug.affected):
        assert not bug.releases
        return
    some, whole = affected_lines(bug.affected)
    has = set(bug.releases)
    assert {line_of(release) for release in has} <= some
    assert {release for release in RELEASED if line_of(release) in whole} <= has


def test_a_word_that_names_too_much_or_too_little_is_noticed() -> None:
    assert affected_lines("4.0.0 to 4.1.2, 4.2.0")[0] == {(4, 0), (4, 1), (4, 2)}
    assert affected_lines("4.0.0 to 4.1.2, 4.2.0")[1] == set()
    assert affected_lines("before 2.0.1")[0] == {line for line in LINES if line <= (2, 0)}
    assert (2, 0) not in affected_lines("before 2.0.1")[1]
    assert affected_lines("4.0 and 4.1") == ({(4, 0), (4, 1)}, {(4, 0), (4, 1)})


@pytest.mark.parametrize("release", RELEASED)
def test_doctor_names_what_advice_lists(release: str) -> None:
    """With client and brokers of one release, in every setting of transaction.version."""
    client = client_of(f"java-{release}")
    listed = {
        item.id
        for version_2 in (False, True)
        for item in advice(client, release, Setting(version_2=version_2, verification=False))
    }
    causes = [cause for those in HANGING.values() for cause in those if cause.is_in(release)]
    names = {cause.name.partition(",")[0] for cause in causes}
    assert names - {"KAFKA-12671"} <= listed  # Java's client adds its partitions


def test_the_pages_have_the_words_of_the_data() -> None:
    page = (DOCS / "bugs.md").read_text(encoding="utf-8")
    for bug in BUGS:
        assert f"| {bug.affected} | `{bug.property}` |" in page, bug.id
    findings = (DOCS / "findings.md").read_text(encoding="utf-8")
    for one in FINDINGS:
        assert f"| {one.affected} | {one.needs} |" in findings, one.number
    doctor = (DOCS / "doctor.md").read_text(encoding="utf-8")
    for cause in (cause for causes in HANGING.values() for cause in causes):
        assert f"| {cause.name} | {cause.affected} | {cause.of.title} |" in doctor
