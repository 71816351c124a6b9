"""Shrinks a run with a disagreement to a smallest run that shows it.

A line is removed, or made simpler, and the rest runs on a new system. The smaller run counts if it
shows the same `Difference`. Ids and epochs from an earlier answer are replaced by those of the new
run's answer. If that answer's line is removed, the lines that use it are removed too, or use the
answer before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from ..engine.errors import ModelError
from .difference import Difference
from .session import DisagreementError, Exchange, Session, System

USUAL_TIMEOUT_MS = 60_000
TELLERS = ("InitProducerId", "EndTxn")
"""Requests whose answers can have a producer id and epoch."""
TRIES = 3
FEW = 6
"""The length up to which each pair of lines is also removed together."""


@dataclass(frozen=True)
class Step:
    """A line of a trace. `teller` is the number of the step whose answer had the line's producer
    id. `further` is the difference between the line's epoch and that answer's; None without an
    epoch."""

    number: int
    line: dict[str, Any]
    teller: int | None = None
    further: int | None = 0


def smallest(found: DisagreementError, system: Callable[[], System]) -> DisagreementError:
    """The smallest run that shows the same difference. This is `found` if no smaller run shows it,
    or if the same run doesn't show it again."""
    for smaller in shrinking(found, system):
        found = smaller
    return found


def shows_again(found: DisagreementError, system: Callable[[], System]) -> bool:
    """Whether the same requests show the same difference in one of `TRIES` runs."""
    wanted, steps = Difference.of(found), _steps_of(found)
    again = (_again(steps, system, found.protocol) for _ in range(TRIES))
    return any(one is not None and wanted.is_shown_by(Difference.of(one)) for one in again)


def shrinking(
    found: DisagreementError, system: Callable[[], System], *, seconds: float | None = None
) -> Iterator[DisagreementError]:
    """Runs that show the same difference, each smaller than the one before. The last one is the
    smallest, unless the search takes longer than `seconds`."""
    wanted = Difference.of(found)
    until = None if seconds is None else time.monotonic() + seconds
    steps = _steps_of(found)
    seen: set[str] = set()
    while steps:
        before = steps
        for tried in _smaller(steps):
            if (text := str(tried)) in seen:
                continue
            seen.add(text)
            if until is not None and time.monotonic() > until:
                return
            again = _again(tried, system, found.protocol)
            if again is not None and wanted.is_shown_by(Difference.of(again)):
                steps = list(tried[: len(again.trace) - again.is_beside])
                yield again
                break
        if steps is before:
            return


def _steps_of(found: DisagreementError) -> list[Step]:
    return list(_steps(found.trace[:-1] if found.is_beside else found.trace))


def _steps(trace: Sequence[Exchange]) -> Iterator[Step]:
    """The lines of a trace, each with the step whose answer had its producer id."""
    latest: dict[
        int, tuple[int, int]
    ] = {}  # producer id: the last step whose answer had it, and the epoch
    for number, (line, response) in enumerate(trace):
        producer_id = line.get("producer_id", -1)
        if producer_id in latest:
            teller, epoch = latest[producer_id]
            held = line.get("producer_epoch", epoch)
            yield Step(number, line, teller, None if held < 0 else held - epoch)
        else:
            yield Step(number, line)
        answer = response or {}
        if answer.get("producer_id", -1) >= 0 and answer.get("producer_epoch", -1) >= 0:
            latest[answer["producer_id"]] = number, answer["producer_epoch"]


def _again(
    steps: Sequence[Step], system: Callable[[], System], protocol: str
) -> DisagreementError | None:
    """Runs the steps on a new system. Returns the disagreement, if any."""
    new_system = system()
    try:
        session = Session(new_system, protocol)
        identities: dict[int, tuple[int, int]] = {}
        for step in steps:
            line = dict(step.line)
            if step.teller is not None:
                if step.teller not in identities:
                    return None
                line["producer_id"], epoch = identities[step.teller]
                if step.further is not None:
                    line["producer_epoch"] = epoch + step.further
                    if line["producer_id"] < 0 or not 0 <= line["producer_epoch"] < 2**15:
                        return None
            before = len(session.trace)
            session.take(line)
            if len(session.trace) == before:  # the id's epoch can't be raised
                return None
            answer = session.trace[-1].response or {}
            identities[step.number] = (
                answer.get("producer_id", -1),
                answer.get("producer_epoch", -1),
            )
    except DisagreementError as found:
        return found
    except ModelError:
        return None
    finally:
        new_system.close()
    return None


def _smaller(steps: list[Step]) -> Iterator[list[Step]]:
    """Runs with one change each that makes them smaller, the largest changes first."""
    size = len(steps) // 2
    while size:
        for start in range(len(steps) - 1 - size, -1, -1):
            gone = {step.number for step in steps[start : start + size]}
            yield from _without(steps, gone)
        size //= 2
    for at, step in enumerate(steps):
        simpler = [replace(step, line=line) for line in _simpler(step.line)]
        if step.further is not None and abs(step.further) > 1:
            simpler.append(replace(step, further=1 if step.further > 0 else -1))
        for one in simpler:
            yield [*steps[:at], one, *steps[at + 1 :]]
    for kind in ("transactional_id", "partition"):
        names = sorted({step.line[kind] for step in steps if step.line.get(kind)})
        for name in names[1:]:
            yield [_renamed(step, kind, name, names[0]) for step in steps]
    if len(steps) <= FEW:
        for pair in combinations(steps[:-1], 2):
            yield from _without(steps, {step.number for step in pair})


def _without(steps: Sequence[Step], gone: set[int]) -> Iterator[list[Step]]:
    """The run without these steps and the steps that use their answers; then the run in which the
    latter use earlier answers. For each, a variant with adjusted sequences of later batches comes
    first."""
    for left in (_dropped(steps, gone), _relinked(steps, gone) if len(gone) < 3 else []):
        if left and left[-1].number == steps[-1].number:
            moved = _moved(steps, left)
            if moved != left:
                yield moved
            yield left


def _dropped(steps: Sequence[Step], gone: set[int]) -> list[Step]:
    left: list[Step] = []
    gone = set(gone)
    for step in steps:
        if step.number in gone or step.teller in gone:
            gone.add(step.number)
        else:
            left.append(step)
    return left


def _relinked(steps: Sequence[Step], gone: set[int]) -> list[Step]:
    """The steps without those in `gone`. Steps that used their answers use the previous answer to
    the same id."""
    by_number = {step.number: step for step in steps}
    left: list[Step] = []
    for step in steps:
        if step.number in gone:
            continue
        if step.teller in gone:
            name = by_number[step.teller].line.get("transactional_id")
            tellers = [
                each.number
                for each in left
                if each.line.get("request") in TELLERS and each.line["transactional_id"] == name
            ]
            if not tellers:
                gone = gone | {step.number}
                continue
            step = replace(step, teller=tellers[-1])
        left.append(step)
    return left


def _moved(steps: Sequence[Step], left: Sequence[Step]) -> list[Step]:
    """The remaining steps, with sequences adjusted for the removed batches."""
    kept = {step.number: step for step in left}
    moved: list[Step] = []
    removed: dict[tuple[Any, ...], int] = {}
    for step in steps:
        line = step.line
        whose = (step.teller, step.further, line.get("partition"))
        is_batch = line.get("request") == "Produce"
        if step.number not in kept:
            if is_batch:
                removed[whose] = removed.get(whose, 0) + line.get("count", 1)
            continue
        by = removed.get(whose, 0) if is_batch else 0
        if by and line["base_sequence"] >= by:
            line = line | {"base_sequence": line["base_sequence"] - by}
        moved.append(replace(kept[step.number], line=line))
    return moved


def _simpler(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Variants of the line, each with a simpler value."""
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
