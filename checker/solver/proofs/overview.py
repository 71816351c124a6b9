"""The first tables of docs/proofs.md: the properties that are proved at each release, and those
that don't hold.

Proved properties are read from the page's own sections. Properties that don't hold are declared
here, with bounds for a quick search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ....language import Instance, System, instantiate
from ....language.instances.instance import ending_anywhere
from ....spec.bugs import bug_of
from ....spec.bugs.bug import transactions
from ...named_systems import load_system

_PROVED = re.compile(r"^\| (?P<name>\w+) \| .*? \| \*\*proved\*\*", re.MULTILINE)
_ALSO = re.compile(r"^\*\*At (?P<releases>.+) as well\.\*\*", re.MULTILINE)


@dataclass(frozen=True)
class Broken:
    """Properties of a system that don't hold at these releases. `why` is a bug or a finding, as on
    the page. Constants and features are those of a small search that finds the run.
    """

    why: str
    properties: tuple[str, ...]
    releases: tuple[str, ...]
    constants: Mapping[str, int]
    switch_on: tuple[str, ...] = ()
    system: str = "transactions"

    def instance(self, name: str, release: str) -> Instance:
        """The search; a run may end anywhere."""
        return ending_anywhere(
            instantiate(
                load_system(self.system),
                release,
                self.constants,
                properties=[name],
                switch_on=self.switch_on,
            )
        )


def _by_bug(name: str, releases: tuple[str, ...], *properties: str) -> Broken:
    """The entry of a published bug, within the bug's bounds; its property, unless others are
    given.
    """
    bug = bug_of(name)
    return Broken(f"`{name}`", properties or (bug.property,), releases, bug.constants)


_ENDS_LATE = (
    "[finding 8](findings.md"
    "#8-the-late-end-of-a-fence-ends-a-later-transaction-it-hangs-or-it-is-torn)"
)
_LATE_MARKER = "[late marker](findings.md#in-older-releases)"
_OF_MARKERS = ("MarkersMatchDecision", "NoLostAcknowledgement", "OutcomeAsReported")
_TWO_PARTITIONS = transactions(partitions=2, transactions=2, faults=1, delays=1)
_ALONE = {"producers": 1, "partitions": 1, "transactions": 1, "faults": 2}
BROKEN = (
    _by_bug("KAFKA-19446", ("4.0.1", "4.1"), *_OF_MARKERS),
    Broken("`KAFKA-19446`", ("Atomic",), ("4.0.1", "4.1"), _TWO_PARTITIONS),
    Broken(_LATE_MARKER, _OF_MARKERS, ("2.5", "3.6"), bug_of("KAFKA-19446").constants),
    Broken(_LATE_MARKER, ("Atomic",), ("2.5", "3.6"), _TWO_PARTITIONS),
    _by_bug("KAFKA-20090", ("4.0.1", "4.1", "4.2")),
    _by_bug("KAFKA-20310", ("4.0.1", "4.1", "4.2")),
    Broken(_ENDS_LATE, ("NotFencedByItself",), ("4.0.1", "4.1", "4.2", "4.3", "4.4"), _ALONE),
    Broken(
        "`KAFKA-20310`",
        ("NotFencedByItself",),
        ("4.0.1", "4.1", "4.2"),
        {**_ALONE, "transactions": 2, "largest_epoch": 2, "producer_ids": 2},
        ("late_fence_end_refused",),
    ),
    Broken(
        _ENDS_LATE,
        ("PrepareCompletes",),
        ("2.5", "3.6"),
        transactions(transactions=2, faults=1, timeouts=1),
    ),
    _by_bug("KAFKA-18019", ("2.5", "3.6")),
    _by_bug("KAFKA-20357", ("3.6",)),
    _by_bug("KIP-588", ("2.5",)),
    _by_bug("KAFKA-14402", ("2.5",)),
    Broken(
        "`KAFKA-14402`",
        ("ZombieFenced",),
        ("2.5",),
        {**bug_of("KAFKA-14402").constants, "producers": 2},
    ),
    # the late batch has the previous producer id: the transactional id has expired
    Broken(
        "`KAFKA-14402`",
        ("Order",),
        ("2.5",),
        transactions(transactions=2, faults=2, expiries=1, id_expiries=1, producer_ids=2),
    ),
    _by_bug("KAFKA-9666", ("2.5",), "EpochsNotWasted", "EpochsInTurn", "OneEpochForADecision"),
)


@dataclass(frozen=True)
class Section:
    """A section of the page: its heading, its text, and its system."""

    heading: str
    text: str
    system: System
    release: str
    switch_on: tuple[str, ...]

    @property
    def number(self) -> str:
        """Its number, in brackets: a link that `target` defines."""
        return f"[{self.heading.partition('.')[0]}]"

    @property
    def target(self) -> str:
        """The anchor of its number."""
        return f"{self.number}: #{anchor(self.heading)}"

    @property
    def releases(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The releases of the section, with the features that are switched on."""
        yield self.release, self.switch_on
        for also in _ALSO.finditer(self.text):
            for each in re.split(", | and ", also["releases"]):
                release, *features = each.split(" with ")
                yield release, (*self.switch_on, *features)

    @property
    def proved(self) -> list[str]:
        """The names of the properties and lemmas that are proved."""
        return [row["name"] for row in _PROVED.finditer(self.text)]


def anchor(heading: str) -> str:
    """The anchor of a heading in a page."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def table(name: str, sections: Sequence[Section]) -> str:
    """The properties of a system that these sections prove, and those that don't hold, by release.
    Raises ValueError if they contradict each other."""
    system = load_system(name)
    sections = [section for section in sections if section.system.name == name]
    on = {section.switch_on for section in sections}
    common = on.pop() if len(on) == 1 else ()
    known = _known(name, sections)
    there = {(row, release) for row, release, _ in known}
    releases = [each for each in system.protocols.releases if each in {at for _, at in there}]

    def cell(row: str, release: str) -> str:
        said = sorted(
            (on, text) for (of, at, on), text in known.items() if (of, at) == (row, release)
        )
        return "; ".join(text + _with(on if on != common else ()) for on, text in said) or "–"

    lines = [f"`{name}`{_with(common)}:", "", f"| | {' | '.join(releases)} |"]
    lines.append("|---" * (len(releases) + 1) + "|")
    for row in (item.name for item in (*system.properties, *system.progress)):
        if any((row, release) in there for release in releases):
            lines.append(f"| {row} | {' | '.join(cell(row, each) for each in releases)} |")
    return "\n".join(lines)


def _known(name: str, sections: Sequence[Section]) -> dict[tuple[str, str, tuple[str, ...]], str]:
    """The verdict of each property, at each release, with the features that are switched on. A
    proof with further features adds nothing to another one.
    """
    proved: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for section in sections:
        for item, (release, on) in product(section.proved, section.releases):
            proved.setdefault((item, release, on), []).append(section.number)
    known = {
        (item, release, on): ", ".join(numbers)
        for (item, release, on), numbers in proved.items()
        if not any(key[:2] == (item, release) and {*key[2]} < {*on} for key in proved)
    }
    for each in (each for each in BROKEN if each.system == name):
        for key in product(each.properties, each.releases, [each.switch_on]):
            if key in proved:
                raise ValueError(f"{key[0]} is proved at {key[1]}, and {each.why} breaks it")
            known[key] = f"**no**, {each.why}"
    return known


def _with(features: Sequence[str]) -> str:
    return " with " + ", ".join(f"`{name}`" for name in features) if features else ""
