"""The smallest run that shows a disagreement, looked for among parts of the one that was found.

A line is left out, or made simpler, and what is left is put to a new system. Whose a request was is
kept apart from what ids and epochs were called: a line that names what an earlier one was told
names what that one is told now, and goes where that one goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .conformance import Disagreement, Exchange, Session, System
from .engine.errors import ModelError

USUAL_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class Step:
    """A line of a trace. `teller` is the step whose answer gave the producer id that it names, and
    `further` the distance of its epoch beyond the one given there."""

    number: int
    line: dict[str, Any]
    teller: int | None = None
    further: int = 0


def smallest(found: Disagreement, system: Callable[[], System]) -> Disagreement:
    """The smallest run that the system disagrees in at its last request, which is one of the same
    name: `found` itself where a smaller one, or the same one again, doesn't show it."""
    last = found.trace[-1].line.get("request")
    steps = list(_steps(found.trace))

    def shown(tried: Sequence[Step]) -> Disagreement | None:
        again = _again(tried, system, found.protocol)
        return again if again and again.trace[-1].line.get("request") == last else None

    while True:
        before = steps
        for tried in _smaller(steps):
            again = shown(tried)
            if again is not None:
                found, steps = again, list(tried[: len(again.trace)])
                break
        if steps is before:
            return found


def _steps(trace: Sequence[Exchange]) -> Iterator[Step]:
    """The lines of a trace, each with the step that gave the ids that it names."""
    told: dict[
        int, tuple[int, int]
    ] = {}  # by producer id: the last step that gave it, and the epoch
    for number, (line, response) in enumerate(trace):
        producer_id = line.get("producer_id", -1)
        if producer_id in told:
            teller, epoch = told[producer_id]
            yield Step(number, line, teller, line.get("producer_epoch", epoch) - epoch)
        else:
            yield Step(number, line)
        answer = response or {}
        if answer.get("producer_id", -1) >= 0 and answer.get("producer_epoch", -1) >= 0:
            told[answer["producer_id"]] = number, answer["producer_epoch"]


def _again(
    steps: Sequence[Step], system: Callable[[], System], protocol: str
) -> Disagreement | None:
    """Puts the steps to a new system: the disagreement, if there is one."""
    asked = system()
    try:
        session = Session(asked, protocol)
        told: dict[int, tuple[int, int]] = {}
        for step in steps:
            line = dict(step.line)
            if step.teller is not None:
                if step.teller not in told:
                    return None
                line["producer_id"], epoch = told[step.teller]
                line["producer_epoch"] = epoch + step.further
                if not 0 <= line["producer_epoch"] < 2**15:
                    return None
            before = len(session.trace)
            session.take(line)
            if len(session.trace) == before:  # an id whose epoch can't be raised
                return None
            answer = session.trace[-1].response or {}
            told[step.number] = answer.get("producer_id", -1), answer.get("producer_epoch", -1)
    except Disagreement as found:
        return found
    except ModelError:
        return None
    finally:
        asked.close()
    return None


def _smaller(steps: list[Step]) -> Iterator[list[Step]]:
    """Runs that are smaller by one change each, the largest changes first."""
    size = len(steps) // 2
    while size:
        for start in range(len(steps) - 1 - size, -1, -1):
            gone = {step.number for step in steps[start : start + size]}
            yield from _without(steps, gone)
        size //= 2
    for at, step in enumerate(steps):
        for line in _simpler(step.line):
            yield [*steps[:at], replace(step, line=line), *steps[at + 1 :]]
    for kind in ("transactional_id", "partition"):
        names = sorted({step.line[kind] for step in steps if step.line.get(kind)})
        for name in names[1:]:
            yield [_renamed(step, kind, name, names[0]) for step in steps]


def _without(steps: Sequence[Step], gone: set[int]) -> Iterator[list[Step]]:
    """The run without these steps and those that name what they were told; and the same with later
    sequences moved to where the batches now are."""
    left: list[Step] = []
    moved: list[Step] = []
    removed: dict[tuple[Any, ...], int] = {}
    gone = set(gone)
    for step in steps:
        line = step.line
        whose = (step.teller, step.further, line.get("partition"))
        if step.number in gone or step.teller in gone:
            gone.add(step.number)
            if line.get("request") == "Produce":
                removed[whose] = removed.get(whose, 0) + line.get("count", 1)
            continue
        left.append(step)
        by = removed.get(whose, 0) if line.get("request") == "Produce" else 0
        if by and line["base_sequence"] >= by:
            line = line | {"base_sequence": line["base_sequence"] - by}
        moved.append(replace(step, line=line))
    if left and left[-1] is steps[-1]:
        if moved != left:
            yield moved
        yield left


def _simpler(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The line with a simpler value."""
    if line.get("transaction_timeout_ms", USUAL_TIMEOUT_MS) != USUAL_TIMEOUT_MS:
        yield line | {"transaction_timeout_ms": USUAL_TIMEOUT_MS}
    if line.get("count", 1) > 1:
        yield line | {"count": 1}
    if line.get("base_sequence", 0) > 0:
        yield line | {"base_sequence": 0}
    if line.get("request") == "Produce" and "transactional_id" in line:
        yield {name: value for name, value in line.items() if name != "transactional_id"}
    if len(line.get("partitions", ())) > 1:
        yield line | {"partitions": list(line["partitions"][:1])}


def _renamed(step: Step, kind: str, old: str, new: str) -> Step:
    line = dict(step.line)
    if line.get(kind) == old:
        line[kind] = new
    if kind == "partition" and old in line.get("partitions", ()):
        line["partitions"] = sorted({new if name == old else name for name in line["partitions"]})
    return replace(step, line=line)
