"""A matrix of properties and releases: each property holds, breaks by a known bug, or breaks by an
unexplained run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ...language import System
from ..verdict.result import Verdict
from ..verdict.violation import DEADLOCK
from .journal import Journal
from .known_bugs import Asking, Fixes, Known, ended_early
from .sweep import Piece, sweep
from .workers import Workers

_ALONE = Workers()
OnResult: TypeAlias = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Cell:
    """The outcome of a property at a release, or at a mixed protocol.

    `trace` is the counterexample, `steps` its length. `bugs` are the ids of the bugs without which
    the property holds; none if no known bug explains the violation. A `vacuous` property can't
    break within these bounds. It is `untested` if no state meets the condition of any part of it.
    """

    protocol: str
    name: str
    verdict: Literal["holds", "broken", "vacuous", "inconclusive"]
    steps: int | None = None
    bugs: tuple[str, ...] = ()
    trace: Any = None
    untested: bool = False

    @property
    def is_unexplained(self) -> bool:
        """Whether the property breaks and no known bug explains it."""
        return self.verdict == "broken" and not self.bugs

    def as_json(self) -> dict[str, Any]:
        """The cell for JSON."""
        return {
            "protocol": self.protocol,
            "property": self.name,
            "verdict": self.verdict,
            "steps": self.steps,
            "bugs": list(self.bugs),
            "trace": self.trace,
        }


@dataclass(frozen=True)
class Matrix:
    """The cells of a system. `alike` maps each protocol to the first one with the same features in
    this system: both share their cells. An `interrupted` matrix lacks cells.
    """

    system: str
    properties: tuple[str, ...]
    protocols: tuple[str, ...]
    alike: dict[str, str]
    cells: dict[tuple[str, str], Cell]
    interrupted: bool = False

    def cell(self, protocol: str, name: str) -> Cell:
        """The cell of a property at a protocol; an inconclusive one if it is missing."""
        found = self.cells.get((self.alike[protocol], name))
        return replace(found or Cell("", name, "inconclusive"), protocol=protocol)

    @property
    def every_cell(self) -> list[Cell]:
        """The cells, one protocol after the other."""
        return [self.cell(at, name) for at in self.protocols for name in self.properties]

    def as_json(self) -> dict[str, Any]:
        """The cells for JSON."""
        return {
            "system": self.system,
            "protocols": list(self.protocols),
            "alike": self.alike,
            "cells": [cell.as_json() for cell in self.every_cell],
        }


def matrix(
    piece: Piece,
    protocols: Sequence[str],
    known: Iterable[Known] = (),
    workers: Workers = _ALONE,
    journal: Journal | None = None,
    on_result: OnResult | None = None,
    *,
    progress: bool = False,
) -> Matrix:
    """Checks the piece's properties, or those of its system (with `progress` also progress
    properties), at each of these protocols, with the other settings of the piece.

    A run continues after a broken property, to decide all properties. A known bug explains a broken
    property if the property holds in the same run with the bug's fix. Raises the errors of `sweep`
    and `instantiate`; Ctrl-C ends it with the finished cells, `interrupted`.
    """
    system = piece.system
    piece = replace(piece, deadlock=piece.deadlock and piece.instance().may_deadlock)
    settled = _Settled()
    alike = system.first_alike(protocols)
    wanted = piece.properties
    safety, liveness = (
        tuple(item.name for item in items if wanted is None or item.name in wanted)
        for items in (system.properties, system.progress if progress or wanted else ())
    )
    askings: list[Asking[list[Cell]]] = []
    for protocol in dict.fromkeys(alike.values()):
        here = replace(piece, protocol=protocol, properties=(*safety, *liveness), keep_going=True)
        askings.append(_cells(here, [bug for bug in known if _has(system, protocol, bug)]))
    runs = _Runs(settled, lambda new: sweep(new, workers, journal, on_result))
    cells, interrupted = _all_answered(askings, runs)
    stuck = (DEADLOCK,) if piece.deadlock else ()
    names = tuple(dict.fromkeys((*safety, *stuck, *liveness, *(cell.name for cell in cells))))
    return Matrix(
        system.name,
        names,
        tuple(protocols),
        alike,
        {(cell.protocol, cell.name): cell for cell in cells},
        interrupted,
    )


def _has(system: System, protocol: str, bug: Known) -> bool:
    """Whether a protocol may have a bug of this system: it is not older than the bug, and lacks the
    fix.
    """
    protocols = system.protocols
    if bug.system != system.name or set(bug.fix) <= protocols.features_at(protocol):
        return False
    places = map(protocols.releases.index, protocols.releases_in(protocol))
    return bug.since is None or max(places) >= protocols.releases.index(bug.since)


class _Settled:
    """Numbers for settled systems. Pieces that differ only in features have the same number if the
    same rows and properties remain.
    """

    def __init__(self) -> None:
        self.by_features: dict[frozenset[str], int] = {}
        self.numbers: dict[Hashable, int] = {}

    def __call__(self, piece: Piece) -> int:
        features = _features(piece)
        if features not in self.by_features:
            whole = replace(piece, properties=None).instance(progress=True)
            left = (
                whole.variables,
                whole.actions,
                whole.properties,
                whole.progress,
                whole.terminal,
            )
            self.by_features[features] = self.numbers.setdefault(left, len(self.numbers))
        return self.by_features[features]


def _features(piece: Piece) -> frozenset[str]:
    protocols = piece.system.protocols
    on = (protocols.features_at(piece.protocol) | {*piece.switch_on}) - {*piece.switch_off}
    return on & piece.system.feature_names


class _Runs:
    """A cache of runs: the result of one run is that of another with the same settled system that
    checks no further property.
    """

    def __init__(
        self, settled: _Settled, explore: Callable[[list[Piece]], list[dict[str, Any]]]
    ) -> None:
        self.settled = settled
        self.explore = explore
        self.made: dict[int, list[tuple[frozenset[str], dict[str, Any]]]] = {}

    def make(self, pieces: Iterable[Piece]) -> bool:
        """Explores the pieces without a cached result; False if a result is missing afterwards."""
        left: list[Piece] = []
        for piece in sorted(
            pieces, key=lambda each: (each.counterexamples_only, -len(_checked_names(each)))
        ):
            answered = any(self._answers(other, piece) for other in left)
            if not answered and self.result(piece) is None:
                left.append(piece)
        results = self.explore(left)
        if len(results) < len(left):
            return False
        for piece, result in zip(left, results, strict=True):
            self.made.setdefault(self.settled(piece), []).append((_checked_names(piece), result))
        return True

    def result(self, piece: Piece) -> dict[str, Any] | None:
        """The cached result for a piece, or None."""
        every = self.made.get(self.settled(piece), ())
        return next((result for checked, result in every if _checked_names(piece) <= checked), None)

    def _answers(self, run: Piece, other: Piece) -> bool:
        alike = self.settled(other) == self.settled(run)
        as_much = run.counterexamples_only <= other.counterexamples_only
        return alike and as_much and _checked_names(other) <= _checked_names(run)


def _checked_names(piece: Piece) -> frozenset[str]:
    """The names of the properties that a run checks."""
    return frozenset((*(piece.properties or ()), *([DEADLOCK] if piece.deadlock else [])))


def _all_answered(askings: Iterable[Asking[list[Cell]]], runs: _Runs) -> tuple[list[Cell], bool]:
    """Advances all generators together: each yields the pieces that it needs next. Returns the
    cells, and whether Ctrl-C ended the runs.
    """
    cells: list[Cell] = []
    waiting = [(asking, next(asking)) for asking in askings]
    while waiting:
        try:
            if not runs.make(piece for _, pieces in waiting for piece in pieces):
                return cells, True
        except KeyboardInterrupt:
            return cells, True
        left: list[tuple[Asking[list[Cell]], list[Piece]]] = []
        for asking, pieces in waiting:
            results = [result for each in pieces if (result := runs.result(each)) is not None]
            try:
                left.append((asking, asking.send(results)))
            except StopIteration as end:
                cells += end.value
        waiting = left
    return cells, False


def _cells(piece: Piece, bugs: Sequence[Known]) -> Asking[list[Cell]]:
    """The cells of a protocol. Broken ones have the bugs that explain them."""
    [result] = yield [piece]
    found = _result_cells(piece, result)
    broken = {
        cell.name: cell
        for cell in found
        if cell.verdict == "broken" and cell.name in _checked_names(piece)
    }
    explained = yield from _explained(piece, broken, bugs)
    return [replace(cell, bugs=explained.get(cell.name, ())) for cell in found]


def _result_cells(piece: Piece, result: dict[str, Any]) -> list[Cell]:
    """The cells from the result of a run: one for each checked property, and one for an error of
    the declaration, after which no run continues.
    """
    items = {item["name"]: item for item in result["properties"]}
    empty = {
        item["subject"] for item in result["vacuous"] if item["kind"] in ("property", "premise")
    }
    untested = {item["subject"] for item in result["vacuous"] if item["whole"]}
    open_ended = ended_early(result)

    def cell(name: str) -> Cell:
        item = items.get(name)
        if item is not None and item["verdict"] == "broken":
            return Cell(piece.protocol, name, "broken", item["trace_length"], trace=item["trace"])
        known = not open_ended if item is None else item["verdict"] == "holds"
        holds = "vacuous" if name in empty else "holds"
        verdict = holds if known else "inconclusive"
        return Cell(piece.protocol, name, verdict, untested=name in untested)

    return [cell(name) for name in sorted(_checked_names(piece) | items.keys())]


def _explained(
    piece: Piece, broken: Mapping[str, Cell], bugs: Sequence[Known]
) -> Asking[dict[str, tuple[str, ...]]]:
    """The bugs without which each property holds: a known bug of the property, else another one,
    else a minimal set. A property that breaks without all bugs is left out.
    """
    known = {bug.property for bug in bugs}
    here = [bug for bug in bugs if bug.property in broken]
    others = [bug for bug in bugs if bug.property not in broken]
    fixes = Fixes(piece, {name: cell.trace for name, cell in broken.items()})
    explained: dict[str, tuple[str, ...]] = {}
    for name in sorted(broken, key=lambda name: name not in known):
        ordered = sorted(here, key=lambda bug: bug.property != name)
        found = yield from _first(fixes, name, ([bug] for bug in ordered))
        if not found and bugs and (yield from fixes.mend(bugs, name)):
            found = yield from _first(fixes, name, ([bug] for bug in others))
            found = found or (yield from _fewest(fixes, name, [*ordered, *others]))
        if found:
            explained[name] = tuple(bug.id for bug in found)
        fixes.close(name)
    return explained


def _first(fixes: Fixes, name: str, sets: Iterable[list[Known]]) -> Asking[list[Known]]:
    """The first set of bugs without which the property holds; empty if there is none."""
    for bugs in sets:
        if (yield from fixes.mend(bugs, name)):
            return bugs
    return []


def _fewest(fixes: Fixes, name: str, bugs: Sequence[Known]) -> Asking[list[Known]]:
    """A minimal set of bugs without which the property holds."""
    found = yield from _first(fixes, name, fixes.likely(bugs, name))
    if found:
        return found
    needed = list(bugs)
    for bug in bugs:
        fewer = [other for other in needed if other is not bug]
        if (yield from fixes.mend(fewer, name)):
            needed = fewer
    return needed


def _is_empty(one: Matrix) -> bool:
    """Whether each property is untested everywhere."""
    return all(cell.untested for cell in one.every_cell if cell.name != DEADLOCK)


def outcome(found: Iterable[Matrix], *, interrupted: bool = False) -> Verdict:
    """The verdict of all matrices: BROKEN if a violation is unexplained, else INTERRUPTED if one
    was interrupted, else INCONCLUSIVE if a cell is undecided or all properties of a system hold
    vacuously everywhere, else HOLDS.
    """
    found = list(found)
    cells = [cell for each in found for cell in each.every_cell]
    if any(cell.is_unexplained for cell in cells):
        return Verdict.BROKEN
    if interrupted:
        return Verdict.INTERRUPTED
    if any(cell.verdict == "inconclusive" for cell in cells) or any(map(_is_empty, found)):
        return Verdict.INCONCLUSIVE
    return Verdict.HOLDS
