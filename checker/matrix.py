"""Properties against releases: which hold, which break by a bug that is known, and which break by a
run that none explains."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from ..language import System
from .fault import DEADLOCK
from .journal import Kept
from .sweep import Piece, sweep
from .verdict import Verdict
from .workers import Spread

_ALONE = Spread()
T = TypeVar("T")
Asking: TypeAlias = Generator[Piece, dict[str, Any], T]
"""What is found out by one exploration after the other: gives the next, is sent its result."""
OnResult: TypeAlias = Callable[[dict[str, Any]], None]


class Known(Protocol):
    """A known bug: its property in its system, and the features that mend it. Releases have it from
    `since` on (none: from the first)."""

    @property
    def id(self) -> str: ...
    @property
    def system(self) -> str: ...
    @property
    def fix(self) -> tuple[str, ...]: ...
    @property
    def since(self) -> str | None: ...
    @property
    def property(self) -> str: ...


@dataclass(frozen=True)
class Cell:
    """A property at a release, or at a protocol of several.

    `steps` is how long the counterexample is, `trace` the counterexample; `bugs` are the ids of the
    bugs without which the same run breaks nothing, none where no known one explains it. What is
    `vacuous` can't break within these bounds.
    """

    protocol: str
    name: str
    verdict: Literal["holds", "broken", "vacuous", "inconclusive"]
    steps: int | None = None
    bugs: tuple[str, ...] = ()
    trace: Any = None

    @property
    def is_unexplained(self) -> bool:
        """Whether it breaks by a run that no known bug explains."""
        return self.verdict == "broken" and not self.bugs

    def as_json(self) -> dict[str, Any]:
        """The cell as plain data."""
        return {
            "protocol": self.protocol, "property": self.name, "verdict": self.verdict,
            "steps": self.steps, "bugs": list(self.bugs), "trace": self.trace,
        }  # fmt: skip


@dataclass(frozen=True)
class Matrix:
    """The cells of a system. `alike` has for each protocol the one that it doesn't differ from, for
    what the system declares, and whose cells it has."""

    system: str
    properties: tuple[str, ...]
    protocols: tuple[str, ...]
    alike: dict[str, str]
    cells: dict[tuple[str, str], Cell]

    def cell(self, protocol: str, name: str) -> Cell:
        """What becomes of a property at one of the protocols; inconclusive where nothing did."""
        found = self.cells.get((self.alike[protocol], name))
        return replace(found or Cell("", name, "inconclusive"), protocol=protocol)

    @property
    def every_cell(self) -> list[Cell]:
        """The cells, one protocol after the other."""
        return [self.cell(at, name) for at in self.protocols for name in self.properties]

    def as_json(self) -> dict[str, Any]:
        """The cells as plain data."""
        return {
            "system": self.system, "protocols": list(self.protocols), "alike": self.alike,
            "cells": [cell.as_json() for cell in self.every_cell],
        }  # fmt: skip


def matrix(
    piece: Piece,
    protocols: Sequence[str],
    known: Iterable[Known] = (),
    spread: Spread = _ALONE,
    kept: Kept | None = None,
    on_result: OnResult | None = None,
    *,
    progress: bool = False,
) -> Matrix:
    """The properties that a piece names, or those of its system, with `progress` those of progress
    as well, at each of these protocols, all else as the piece has it.

    A property that breaks is left out, and the others are looked for again. A known bug explains
    what breaks if the same run with the bug's fix switched on doesn't break it.
    Raises what `sweep` and `instantiate` raise; Ctrl-C ends it with what is there.
    """
    system = piece.system
    alike = system.first_alike(protocols)
    wanted = piece.properties
    safety, asked = (
        tuple(item.name for item in items if wanted is None or item.name in wanted)
        for items in (system.properties, system.progress if progress or wanted else ())
    )
    askings: list[Asking[list[Cell]]] = []
    for protocol in dict.fromkeys(alike.values()):
        here = replace(piece, protocol=protocol)
        bugs = [bug for bug in known if _has(system, protocol, bug)]
        if safety or here.deadlock:
            askings.append(_cells(replace(here, properties=safety), bugs))
        if asked:
            askings.append(_cells(replace(here, properties=asked, deadlock=False), bugs))
    cells = _all_answered(askings, lambda pieces: sweep(pieces, spread, kept, on_result))
    stuck = (DEADLOCK,) if piece.deadlock else ()
    names = tuple(dict.fromkeys((*safety, *stuck, *asked, *(cell.name for cell in cells))))
    return Matrix(
        system.name, names, tuple(protocols), alike,
        {(cell.protocol, cell.name): cell for cell in cells},
    )  # fmt: skip


def _has(system: System, protocol: str, bug: Known) -> bool:
    """Whether a bug of this system can be in a protocol: it is from then on, and isn't mended."""
    protocols = system.protocols
    if bug.system != system.name or set(bug.fix) <= protocols.features_at(protocol):
        return False
    places = map(protocols.releases.index, protocols.releases_in(protocol))
    return bug.since is None or max(places) >= protocols.releases.index(bug.since)


def _all_answered(
    askings: Sequence[Asking[list[Cell]]],
    explore: Callable[[list[Piece]], list[dict[str, Any]]],
) -> list[Cell]:
    """Goes on with all of them at once, an exploration of each at a time. Ctrl-C ends it."""
    cells: list[Cell] = []
    waiting = [(asking, next(asking)) for asking in askings]
    while waiting:
        try:
            results = explore([piece for _, piece in waiting])
        except KeyboardInterrupt:
            break
        if len(results) < len(waiting):
            break
        left: list[tuple[Asking[list[Cell]], Piece]] = []
        for (asking, _), result in zip(waiting, results, strict=True):
            try:
                left.append((asking, asking.send(result)))
            except StopIteration as end:
                cells += end.value
        waiting = left
    return cells


def _cells(piece: Piece, bugs: Sequence[Known]) -> Asking[list[Cell]]:
    """The cells of a protocol: what breaks is left out until the rest holds, and explained."""
    found: list[Cell] = []
    left = piece
    while True:
        result = yield left
        told = _told(left, result)
        found += told
        broken = next((cell for cell in told if cell.verdict == "broken"), None)
        if broken is None or not _is_asked(left, broken):
            break
        rest = tuple(name for name in left.properties or () if name != broken.name)
        left = replace(left, properties=rest, deadlock=left.deadlock and broken.name != DEADLOCK)
        if not left.properties and not left.deadlock:
            break
    explained: list[Cell] = []
    for cell in found:
        if cell.verdict == "broken" and _is_asked(piece, cell):
            cell = replace(cell, bugs=(yield from _explanation(piece, cell, bugs)))
        explained.append(cell)
    return explained


def _is_asked(piece: Piece, cell: Cell) -> bool:
    """Whether a piece names what the cell is about. It doesn't name a fault of the declaration,
    behind which no run goes on."""
    return cell.name == DEADLOCK or cell.name in (piece.properties or ())


def _told(piece: Piece, result: dict[str, Any]) -> list[Cell]:
    """What one exploration says for certain: the one thing that it broke, or of all how they are
    where it went to its end."""
    verdict, trace = Verdict(result["exit_code"]), result["trace"]
    names = [*(piece.properties or ()), *([DEADLOCK] if piece.deadlock else [])]

    def cell(name: str, verdict: Any, steps: int | None = None) -> Cell:
        counter = trace if verdict == "broken" else None
        return Cell(piece.protocol, name, verdict, steps, trace=counter)

    if verdict is Verdict.DEADLOCK:
        return [cell(DEADLOCK, "broken", len(trace["steps"]))]
    if verdict in (Verdict.BROKEN, Verdict.LEADS_TO_BROKEN):
        broken = next(item for item in result["properties"] if item["verdict"] == "broken")
        found = cell(broken["name"], "broken", broken["trace_length"])
        others = [] if _is_asked(piece, found) else [cell(name, "inconclusive") for name in names]
        return [found, *others]
    if verdict is not Verdict.HOLDS:
        return [cell(name, "inconclusive") for name in names]
    empty = {
        item["subject"] for item in result["vacuous"] if item["kind"] in ("property", "premise")
    }
    return [cell(name, "vacuous" if name in empty else "holds") for name in names]


def _explanation(piece: Piece, cell: Cell, bugs: Sequence[Known]) -> Asking[tuple[str, ...]]:
    """The bugs without which the cell doesn't break: one that is known for this property, or else
    as few as it takes."""
    alone = () if cell.name == DEADLOCK else (cell.name,)
    run = replace(piece, properties=alone, deadlock=cell.name == DEADLOCK)

    def holds(mended: Sequence[Known]) -> Asking[bool]:
        fixes = tuple(dict.fromkeys(name for bug in mended for name in bug.fix))
        result = yield replace(run, switch_on=(*run.switch_on, *fixes))
        return bool(result["exit_code"] == Verdict.HOLDS.value)

    likely = [bug for bug in bugs if bug.property == cell.name]
    for bug in likely:
        if (yield from holds([bug])):
            return (bug.id,)
    needed = list(bugs)
    if not needed or not (yield from holds(needed)):
        return ()
    for bug in bugs:
        if bug not in likely and (yield from holds([bug])):
            return (bug.id,)
    for bug in bugs:
        fewer = [other for other in needed if other is not bug]
        if (yield from holds(fewer)):
            needed = fewer
    return tuple(bug.id for bug in needed)


def outcome(found: Iterable[Matrix]) -> Verdict:
    """What matrices come to: something breaks that no known bug explains, something isn't decided,
    or all holds or is explained."""
    cells = [cell for each in found for cell in each.every_cell]
    if any(cell.is_unexplained for cell in cells):
        return Verdict.BROKEN
    if any(cell.verdict == "inconclusive" for cell in cells):
        return Verdict.INCONCLUSIVE
    return Verdict.HOLDS
