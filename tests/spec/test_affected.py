"""The releases that known bugs and findings concern: words, data, advice and doctor agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from epochfence.spec.bugs import BUGS, Bug
from epochfence.spec.bugs.advice import Setting, advice, client_of, exact
from epochfence.spec.bugs.bug import version_of
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


KAFKA_S: Final = (
    ("0.11.0", 3), ("1.0", 2), ("1.1", 1), ("2.0", 1), ("2.1", 1), ("2.2", 2), ("2.3", 1),
    ("2.4", 1), ("2.5", 1), ("2.6", 3), ("2.7", 2), ("2.8", 2), ("3.0", 2), ("3.1", 2), ("3.2", 3),
    ("3.3", 2), ("3.4", 1), ("3.5", 2), ("3.6", 2), ("3.7", 2), ("3.8", 1), ("3.9", 2), ("4.0", 2),
    ("4.1", 2), ("4.2", 2), ("4.3", 1), ("4.4", 0),
)  # fmt: skip
"""The lines of Kafka's releases, each with its last patch."""
PATCHES: Final = [f"{line}.{patch}" for line, last in KAFKA_S for patch in range(last + 1)]
WITH_FIX: Final = [bug for bug in OF_KAFKA if bug.fixed_in]


def is_named(text: str, version: str) -> bool:
    """Whether `Bug.affected` names a version, to its patch."""
    releases = re.split(r", with|; | with more|, and every|, without", text)[0]
    wanted = version_of(version)
    for match in re.finditer(rf"(before )?({NUMBER})(?: to ({NUMBER})| (and later))?", releases):
        before, first, last, later = match.groups()
        low, high = version_of(first), version_of(last or first)
        if before is not None:
            if wanted < low:
                return True
        elif low <= wanted and (later or wanted[: len(high)] <= high):
            return True
    return False


@pytest.mark.parametrize("bug", WITH_FIX, ids=[bug.id for bug in WITH_FIX])
def test_each_patch_release_has_the_fix_or_is_named(bug: Bug) -> None:
    since = exact(bug.since or RELEASED[0])
    for version in PATCHES:
        numbers = version_of(version)
        if numbers[:2] >= since[:2] and not (version < "1.0.2" and bug.id == "KAFKA-17507"):
            assert is_named(bug.affected, version) != bug.is_fixed_in(numbers), version
    assert set(bug.fixed_in) <= {*PATCHES}


def test_every_bug_that_a_release_has_fixed_says_in_which() -> None:
    for bug in OF_KAFKA:
        is_fixed = bool(bug.releases) and RELEASED[-1] not in bug.releases
        assert is_fixed == bool(bug.fixed_in), bug.id


@pytest.mark.parametrize("bug", WITH_FIX, ids=[bug.id for bug in WITH_FIX])
def test_the_declared_releases_have_the_fix_of_their_patch(bug: Bug) -> None:
    for release in RELEASED[RELEASED.index(bug.since or RELEASED[0]) :]:
        assert (release in bug.releases) != bug.is_fixed_in(exact(release)), release


@pytest.mark.parametrize(
    ("client", "broker", "bug", "is_listed"),
    [
        ("4.4", "2.8.1", "KAFKA-13727", True), ("4.4", "2.8.2", "KAFKA-13727", False),
        ("4.4", "2.8", "KAFKA-13727", False), ("4.4", "3.0.1", "KAFKA-13727", True),
        ("4.4", "3.1.0", "KAFKA-13727", True), ("4.4", "3.1.1", "KAFKA-13727", False),
        ("4.4", "3.1.1", "KAFKA-14055", True), ("4.4", "3.1.2", "KAFKA-14055", False),
        ("4.4", "3.2.0", "KAFKA-14055", True), ("4.4", "3.2.1", "KAFKA-14055", False),
        ("4.4", "3.0.2", "KAFKA-4545", True), ("4.4", "3.1.0", "KAFKA-4545", False),
        ("4.4", "2.2.1", "KAFKA-8351", True), ("4.4", "2.2.2", "KAFKA-8351", False),
        ("4.4", "3.9.0", "KAFKA-17507", True), ("4.4", "3.9.1", "KAFKA-17507", False),
        ("4.4", "4.2.1", "KAFKA-20634", True), ("4.4", "4.2.2", "KAFKA-20634", False),
        ("4.4", "4.0.0", "KAFKA-19367", True), ("4.4", "4.0.2", "KAFKA-19367", False),
        ("3.9.2", "4.4", "KAFKA-18019", True), ("2.4.1", "4.4", "KAFKA-18019", False),
    ],
)  # fmt: skip
def test_advice_is_about_the_patch_release(
    client: str, broker: str, bug: str, is_listed: bool
) -> None:
    found = {item.id: item for item in advice(client_of(f"java-{client}"), broker)}
    assert (bug in found) == is_listed
    if bug == "KAFKA-13727" and is_listed and broker == "3.1.0":
        assert found[bug].remedy == "Upgrade the brokers to 3.1.1 or 3.2.0."


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
