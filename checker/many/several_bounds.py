"""Checks properties at several bounds in turn: a property holds if it holds at all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .journal import Journal
from .matrix import OnResult
from .sweep import Piece, sweep
from .workers import Workers

_ALONE = Workers()


@dataclass(frozen=True)
class Answer:
    """The verdict of a property: "holds", "broken" or "inconclusive". `run` is the index of the
    last run that checked it, `steps` the length of the counterexample, and `trace` the
    counterexample as plain data, if requested."""

    name: str
    verdict: str
    run: int
    steps: int | None = None
    trace: Any = None

    @property
    def holds(self) -> bool:
        """Whether the property holds in every run that checked it."""
        return self.verdict == "holds"


def asked(
    questions: Sequence[Sequence[Piece]],
    workers: Workers = _ALONE,
    journal: Journal | None = None,
    on_result: OnResult | None = None,
    *,
    traces: bool = False,
) -> list[dict[str, Answer]]:
    """The verdicts of the properties for each question (a sequence of pieces), by name.

    The pieces of a question are explored in turn. A property that doesn't hold in one piece isn't
    checked in the next ones. With `traces`, answers have counterexamples. Raises the errors of
    `sweep`; Ctrl-C ends it with KeyboardInterrupt.
    """
    found: list[dict[str, Answer]] = [{} for _ in questions]
    for run in range(max(map(len, questions), default=0)):
        numbers = [number for number, pieces in enumerate(questions) if run < len(pieces)]
        pieces = {
            number: _left(questions[number][run], found[number], traces) for number in numbers
        }
        wanted = {number: piece for number, piece in pieces.items() if piece.properties}
        results = sweep(list(wanted.values()), workers, journal, on_result)
        if len(results) < len(wanted):
            raise KeyboardInterrupt
        for number, result in zip(wanted, results, strict=True):
            for name in wanted[number].properties or ():
                found[number][name] = _answer(name, result, run)
    return found


def _left(piece: Piece, answers: dict[str, Answer], traces: bool) -> Piece:
    names = piece.properties or tuple(item.name for item in piece.system.properties)
    left = tuple(name for name in names if name not in answers or answers[name].holds)
    return replace(piece, properties=left, keep_going=True, brief=not traces)


def _answer(name: str, result: dict[str, Any], run: int) -> Answer:
    for item in result["properties"]:
        if item["name"] == name and item["verdict"] in ("holds", "broken"):
            return Answer(name, item["verdict"], run, item["trace_length"], item["trace"])
    return Answer(name, "inconclusive", run)
