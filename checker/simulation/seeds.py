"""Random walks of many seeds: independent simulations, in processes or on Spark's executors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...language import DeclarationError
from ..many.journal import Journal
from ..many.sweep import Piece
from ..many.workers import Workers
from ..prepare import prepare
from ..trace.trace import ReplayError
from ..verdict.result import Verdict
from .simulate import MOST_SEED, Simulation, Walks, begun, nothing_found, seed_of, simulate

MOST_SEEDS = 1_000_000
_ALONE = Workers()
Results = dict[int, dict[str, Any]]  # by the index of the seed


@dataclass(frozen=True)
class Seeded:
    """The walks of one seed of a system, as data for another process."""

    piece: Piece
    walks: Walks

    @property
    def key(self) -> dict[str, Any]:
        """The settings that decide the result."""
        names = ("seed", "depth", "steps", "idle", "guided", "slicing")
        return self.piece.chosen | {name: getattr(self.walks, name) for name in names}


def walk(seeded: Seeded) -> dict[str, Any]:
    """The result of one seed's walks as plain data."""
    return simulate(seeded.piece.instance(), seeded.walks).as_json()


def simulate_seeds(
    piece: Piece,
    options: Walks,
    seeds: int,
    workers: Workers = _ALONE,
    journal: Journal | None = None,
    on_result: Callable[[Mapping[str, Any]], None] | None = None,
) -> Simulation:
    """Takes the walks of `seeds` seeds, from the options' seed on (None: a random one), each up to
    the limits of the options.

    If a seed has a violation, the walks of the smallest such seed are repeated in this process, and
    its counterexample is shrunk. Larger seeds don't count, so the result doesn't depend on the
    workers. A seed with a result in the `journal` isn't walked again. Ctrl-C ends the walks with
    the results so far.

    Raises DeclarationError for a faulty declaration, for the seed of another declaration, and
    without a limit of steps or idle steps (`seconds` isn't repeatable); ReplayError if native code
    and the executable model differ, or the repeated walks find nothing; JournalError; the errors of
    `Workers.each`.
    """
    if options.steps is None and options.idle is None:
        raise DeclarationError("walks of several seeds need a limit of steps, or of idle steps")
    instance = piece.instance()
    prepared = prepare(instance, symmetry=False, slicing=options.slicing)
    number, seed = seed_of(prepared, options.seed)
    most = min(MOST_SEEDS, MOST_SEED - number + 1)
    if not 1 <= seeds <= most:
        raise DeclarationError(f"{seeds:,} seeds from {number} on: give 1 to {most:,}")
    alone = replace(options, threads=1, shorter=0.0, seconds=None, memory=None)
    every = [Seeded(piece, replace(alone, seed=str(number + at))) for at in range(seeds)]
    outcome = begun(instance, prepared, options, seed)
    started = time.perf_counter()
    found: Results = {}
    try:
        for at, result in _results(every, workers, journal):
            found[at] = result
            if on_result is not None:
                on_result(result)
            hit = _hit(found)
            if hit is not None and found.keys() >= {*range(hit)}:
                break
    except KeyboardInterrupt:
        if not found:
            raise
        outcome.verdict = Verdict.INTERRUPTED
    hit = _hit(found)
    if hit is not None:
        outcome = simulate(instance, replace(options, seed=str(number + hit), seconds=None))
        if outcome.trace is None and outcome.verdict is not Verdict.INTERRUPTED:
            raise ReplayError(f"the walks of seed {number + hit} found something only once")
    else:
        _add(outcome, found, time.perf_counter() - started)
    outcome.engine |= {"name": "walks of seeds", "spark": workers.spark is not None}
    outcome.seeds = {"first": number, "asked": seeds, "walked": len(found)}
    return outcome


def _hit(found: Results) -> int | None:
    """The first index with a violation."""
    hits = (at for at, result in found.items() if result["found_in_walk"] is not None)
    return min(hits, default=None)


def _results(
    every: Sequence[Seeded], workers: Workers, journal: Journal | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The indices of seeds and their results: first those in the journal."""
    left: list[int] = []
    for at, seeded in enumerate(every):
        known = None if journal is None else journal.get(seeded.key)
        if known is None:
            left.append(at)
        else:
            yield at, known
    name = f"simulate {every[0].piece.system.name}"
    for place, result in workers.each(walk, [every[at] for at in left], name):
        if result["exit_code"] == Verdict.INTERRUPTED.value:
            raise KeyboardInterrupt
        if journal is not None:
            journal.add(every[left[place]].key, result)
        yield left[place], result


def _add(outcome: Simulation, found: Results, seconds: float) -> None:
    """Adds up results without a violation."""
    outcome.seconds = seconds
    outcome.walks = sum(result["walks"] for result in found.values())
    outcome.steps = sum(result["steps"] for result in found.values())
    rows = [[row["taken"] for row in result["rows"]] for result in found.values()]
    names = [name for name, _ in outcome.rows]
    outcome.rows = list(zip(names, map(sum, zip(*rows, strict=True)), strict=True))
    outcome.curve = [(outcome.steps, len(outcome.rows) - len(outcome.never_taken))]
    outcome.reason = nothing_found(outcome)
