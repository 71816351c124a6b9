"""Checks whether a broken property still breaks if known bugs are fixed."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Protocol, TypeAlias, TypeVar

from ...language import Instance
from ..trace.reproduction import still_broken
from ..verdict.result import Verdict
from ..verdict.violation import DEADLOCK
from .sweep import Piece

MOST_LIKELY = 3  # most bugs in a set of `likely`
T = TypeVar("T")
Asking: TypeAlias = Generator[list[Piece], list[dict[str, Any]], T]
"""A search in several runs that depend on each other: it gives the next run, and is sent the
result."""


class Known(Protocol):
    """A known bug: its system, its property, and the features that fix it. Releases have it from
    `since` on (None: from the first).
    """

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


class Fixes:
    """Finds the properties that still break in a run without some bugs. `broken` has the properties
    that break in the run, each with a counterexample as data.

    A search without some bugs is skipped if a known counterexample is possible without them. Each
    search that finds a broken property adds a counterexample.
    """

    def __init__(self, piece: Piece, broken: Mapping[str, Any]) -> None:
        self.piece = piece
        self.open = dict.fromkeys(broken)
        self.found = {name: [trace] for name, trace in broken.items()}
        self.holds: dict[tuple[str, ...], set[str]] = {}
        self.instances: dict[tuple[str, ...], Instance] = {}
        self.taken: dict[tuple[tuple[str, ...], str, int], bool] = {}

    def close(self, name: str) -> None:
        """Excludes the property from further runs."""
        del self.open[name]

    def mend(self, bugs: Sequence[Known], name: str) -> Asking[bool]:
        """Whether the property holds without these bugs."""
        ids = tuple(sorted(bug.id for bug in bugs))
        if name not in self.holds.get(ids, ()) and self._takes_away(bugs, name):
            names = [each for each in self.open if self._takes_away(bugs, each)]
            [result] = yield [self._run(bugs, names)]
            for item in result["properties"]:
                if item["name"] in names and item["verdict"] == "broken":
                    self.found[item["name"]].append(item["trace"])
            self.holds.setdefault(ids, set()).update(_holding(result, names))
        return name in self.holds.get(ids, ())

    def likely(self, bugs: Sequence[Known], name: str) -> Iterator[list[Known]]:
        """Sets of several bugs, small ones first. The fixes of a set exclude each counterexample
        that is known at that time.
        """
        for size in range(2, min(MOST_LIKELY, len(bugs)) + 1):
            for some in combinations(bugs, size):
                every = range(len(self.found[name]))
                if all(any(not self._is_taken([bug], name, at) for bug in some) for at in every):
                    yield list(some)

    def _takes_away(self, bugs: Sequence[Known], name: str) -> bool:
        """Whether each known counterexample is impossible without these bugs."""
        return not any(self._is_taken(bugs, name, at) for at in range(len(self.found[name])))

    def _is_taken(self, bugs: Sequence[Known], name: str, at: int) -> bool:
        ids = tuple(sorted(bug.id for bug in bugs))
        if (ids, name, at) not in self.taken:
            if ids not in self.instances:
                self.instances[ids] = self._run(bugs, [*self.found]).instance()
            trace = self.found[name][at]
            self.taken[ids, name, at] = still_broken(self.instances[ids], name, trace)
        return self.taken[ids, name, at]

    def _run(self, bugs: Sequence[Known], names: Sequence[str]) -> Piece:
        """The piece of a run without some bugs that checks these properties."""
        fixes = tuple(dict.fromkeys(name for bug in bugs for name in bug.fix))
        return replace(
            self.piece,
            properties=tuple(name for name in names if name != DEADLOCK),
            deadlock=DEADLOCK in names,
            switch_on=(*self.piece.switch_on, *fixes),
            counterexamples_only=True,
        )


def _holding(result: Mapping[str, Any], names: Sequence[str]) -> set[str]:
    """The checked properties that a finished run doesn't break."""
    verdicts = {item["name"]: item["verdict"] for item in result["properties"]}
    if ended_early(result):
        return set()
    return {name for name in names if verdicts.get(name, "holds") == "holds"}


def ended_early(result: Mapping[str, Any]) -> bool:
    """Whether a run ended too early to decide the properties that it doesn't break."""
    no_end = Verdict(result["exit_code"]) in (Verdict.INCONCLUSIVE, Verdict.INTERRUPTED)
    unknown = any(item["verdict"] == "unknown" for item in result["properties"])
    return unknown or (no_end and not any(item["whole"] for item in result["vacuous"]))
