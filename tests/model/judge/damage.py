"""What judge sees of a history that was honest and was changed in one place.

`python tests/model/judge/damage.py` writes the table of docs/judge.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

from epochfence.tests.driver import record
from epochfence.tests.model.judge.honest import (
    PARTITIONS,
    Line,
    judged,
    steady,
    unexplained,
    without_markers,
)

PAGE = Path(__file__).parents[3] / "docs" / "judge.md"
RELEASES: Final = ("2.5", "3.6", "4.3")
Damaged = Iterator[list[Line]]
Damage = Callable[[list[Line]], Damaged]


def _at(lines: list[Line], request: str, change: Callable[[Line], object]) -> Damaged:
    """The history with one line of this request changed, for each of them; without those in which
    the change changes nothing."""
    for place, line in enumerate(lines):
        if line["request"] == request:
            changed = deepcopy(line)
            change(changed)
            if changed != line:
                yield [*lines[:place], changed, *lines[place + 1 :]]


def _more(name: str, request: str, by: int, *, told: bool = False) -> Damage:
    """A number that is higher by so much, in a request or its answer."""

    def change(line: Line) -> None:
        given = line["response"] if told else line
        if given.get(name, -1) >= 0 and given[name] + by >= 0:
            given[name] += by

    return lambda lines: _at(lines, request, change)


def _set(request: str, **given: Any) -> Damage:
    return lambda lines: _at(lines, request, lambda line: line.update(given))


def _swapped(request: str) -> Damage:
    """COMMIT for ABORT and the other way around."""
    other = {"COMMIT": "ABORT", "ABORT": "COMMIT"}
    return lambda lines: _at(lines, request, lambda line: line.update(result=other[line["result"]]))


def _refused(request: str) -> Damage:
    def change(line: Line) -> None:
        if line["response"]["error"] == "NONE":
            line["response"] = {"error": "INVALID_PRODUCER_EPOCH"}

    return lambda lines: _at(lines, request, change)


def _removed(request: str) -> Damage:
    return lambda lines: (
        lines[:at] + lines[at + 1 :] for at, line in enumerate(lines) if line["request"] == request
    )


def _twice(request: str) -> Damage:
    """A line of a request that was never sent, 1 ms behind one like it."""
    return lambda lines: (
        [*lines, {**line, "start": line["start"] + 1, "end": line["end"] + 1}]
        for line in lines
        if line["request"] == request
    )


def _late(lines: list[Line]) -> Damaged:
    """A line takes the time of the next one of its key, and that one takes its."""
    for at, line in enumerate(lines):
        key = _key(line)
        behind = next((n for n in range(at + 1, len(lines)) if _key(lines[n]) == key), None)
        if behind is not None:
            found = deepcopy(lines)
            for one, other in ((at, behind), (behind, at)):
                found[one] |= {name: lines[other][name] for name in ("start", "end")}
            yield found


def _key(line: Line) -> str:
    return line.get("partition", line.get("transactional_id", ""))


def _lost(lines: list[Line]) -> Damaged:
    for at, line in enumerate(lines):
        found = {name: value for name, value in line.items() if name not in ("end", "response")}
        yield [*lines[:at], found, *lines[at + 1 :]]


def _elsewhere(line: Line) -> None:
    line["partitions"] = [PARTITIONS[part == PARTITIONS[0]] for part in line["partitions"]]


DAMAGES: Final[dict[str, Damage]] = {
    "Produce's answer: an offset one too high": _more("base_offset", "Produce", 1, told=True),
    "Produce's answer: an offset one too low": _more("base_offset", "Produce", -1, told=True),
    "InitProducerId's answer: an epoch one too high": _more(
        "producer_epoch", "InitProducerId", 1, told=True
    ),
    "InitProducerId's answer: another producer id": _more(
        "producer_id", "InitProducerId", 7, told=True
    ),
    "EndTxn's answer: an epoch one too high": _more("producer_epoch", "EndTxn", 1, told=True),
    "Produce's answer: an error": _refused("Produce"),
    "AddPartitionsToTxn's answer: an error": _refused("AddPartitionsToTxn"),
    "EndTxn's answer: an error": _refused("EndTxn"),
    "Produce in a later epoch": _more("producer_epoch", "Produce", 1),
    "Produce with a later sequence": _more("base_sequence", "Produce", 1),
    "Produce with a record more": _more("count", "Produce", 1),
    "Produce outside of transactions": _set("Produce", transactional=False),
    "AddPartitionsToTxn in a later epoch": _more("producer_epoch", "AddPartitionsToTxn", 1),
    "AddPartitionsToTxn of the other partition": lambda lines: _at(
        lines, "AddPartitionsToTxn", _elsewhere
    ),
    "EndTxn in a later epoch": _more("producer_epoch", "EndTxn", 1),
    "EndTxn: COMMIT and ABORT swapped": _swapped("EndTxn"),
    "marker: COMMIT and ABORT swapped": _swapped("WriteTxnMarkers"),
    "marker in a later epoch": _more("producer_epoch", "WriteTxnMarkers", 1),
    **{
        f"a line of {request} is removed": _removed(request)
        for request in (
            "InitProducerId",
            "AddPartitionsToTxn",
            "Produce",
            "EndTxn",
            "WriteTxnMarkers",
        )
    },
    **{
        f"{request} that was never sent": _twice(request)
        for request in ("Produce", "EndTxn", "WriteTxnMarkers")
    },
    "two lines of a key swap their times": _late,
    "an answer is lost (which is allowed)": _lost,
}


@cache
def honest(release: str, *, has_markers: bool) -> tuple[Line, ...]:
    """The history that is damaged."""
    lines = steady(release)
    return tuple(lines if has_markers else without_markers(lines))


def cell(damage: str, release: str, *, has_markers: bool, file: Path) -> str:
    """How many of so many damaged histories are unexplained."""
    seen = tried = 0
    for lines in DAMAGES[damage](list(honest(release, has_markers=has_markers))):
        tried += 1
        seen += any(True for _ in unexplained(judged(lines, release, file)))
    return f"{seen} of {tried}" if tried else "–"


def cells(damage: str, file: Path) -> str:
    """The line of the table for a damage."""
    found = (
        cell(damage, release, has_markers=has_markers, file=file)
        for has_markers in (True, False)
        for release in RELEASES
    )
    return f"| {damage} | {' | '.join(found)} |"


def table(file: Path) -> str:
    """The table of the page."""
    heads = [*RELEASES, *(f"{release}, no markers" for release in RELEASES)]
    lines = [f"| what is changed | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    return "\n".join([*lines, *(cells(damage, file) for damage in DAMAGES)]) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = table(Path(folder) / "history.jsonl")
    record(PAGE, "damage", made)
