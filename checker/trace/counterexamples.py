"""Counterexamples that differ in their rows, the shortest first.

The second one is the shortest run to a fault that lacks a row of the first; each further one lacks
a row of every earlier one. So each search leaves out a set of rows that hits all found runs
(Reiter's hitting sets). If no search is left, every run to a fault takes all rows of a found one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ..verdict.result import Counterexample, Enumeration, PropertyVerdict
from .trace import Trace

Rows: TypeAlias = frozenset[str]


@dataclass(frozen=True)
class Tried:
    """The outcome of a search without some rows: a counterexample or none, the limit that `stopped`
    the search early, and the number of explored states."""

    found: Counterexample | None
    stopped: str
    states: int


@dataclass
class _Branch:
    """Runs without the rows `off`. No run to a fault has fewer than `steps` steps; `found` is the
    shortest one, when known.
    """

    off: Rows
    steps: int
    found: Counterexample | None = None


def _order(branch: _Branch) -> tuple[int, bool]:
    return branch.steps, branch.found is None


def enumerate_from(
    first: Counterexample, wanted: int, look: Callable[[int, Rows], Tried]
) -> Enumeration:
    """Up to `wanted` counterexamples, with the first one. `look` carries out the search with this
    number, without some rows.
    """
    done = Enumeration(wanted, [first])
    empty: list[Rows] = []
    whole = _Branch(Rows(), len(first.trace.steps))
    left: list[_Branch] = _hitting([whole], rows_of(first.trace), empty)
    while left and len(done.found) < wanted:
        branch = min(left, key=_order)
        if branch.found is not None:
            done.found.append(branch.found)
            left = _hitting(left, rows_of(branch.found.trace), empty)
            continue
        done.searches += 1
        tried = look(done.searches, branch.off)
        done.states += tried.states
        if tried.stopped:
            done.stopped = tried.stopped
            break
        if tried.found is None:
            empty.append(branch.off)
            left = [each for each in left if not branch.off <= each.off]
        else:
            branch.found, branch.steps = tried.found, len(tried.found.trace.steps)
    done.are_all = not left
    return done


def broken_by(
    found: Iterable[Counterexample], properties: Iterable[PropertyVerdict]
) -> list[PropertyVerdict]:
    """The verdict of each property, if later counterexamples break some."""
    every = {item.name: item for item in properties}
    for item in found:
        name = item.broken
        if name and (name not in every or every[name].verdict != "broken"):
            every[name] = PropertyVerdict(name, "broken", len(item.trace.steps))
    return [*every.values()]


def rows_of(trace: Trace) -> list[str]:
    """The rows that a run takes, by table and name, each once."""
    return [*dict.fromkeys(f"{step.table}/{step.row}" for step in trace.steps)]


def _hitting(branches: list[_Branch], rows: list[str], empty: list[Rows]) -> list[_Branch]:
    """The branches that lack one of the rows, without supersets of other branches, and without
    branches that have no fault.
    """
    kept = {branch.off: branch for branch in branches if not branch.off.isdisjoint(rows)}
    for branch in branches:
        if branch.off.isdisjoint(rows):
            for off in (branch.off | {row} for row in rows):
                kept.setdefault(off, _Branch(off, branch.steps))
    return [
        branch
        for off, branch in kept.items()
        if not any(other < off for other in kept) and not any(other <= off for other in empty)
    ]
