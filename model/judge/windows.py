"""Histories of a key that has very many operations, judged a window at a time.

A window ends where nothing is in flight, if it has such a place; all ways in which it may have gone
are carried on to the next (`judge.carry`). So a history takes the memory of a window, and comes to
the finding of `judge.judge`, but that it may give up: where there are more than `WAYS` ways, they
are no longer followed all, and a history that the others don't explain isn't known to be
unexplained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from .judge import Finding, Judgement, begin, carry, decided, explanation, judge, judging
from .machines.decisions import AtPartition
from .operations import Operation, Settings
from .search import Budget, Carried

WINDOW = 5_000
"""Operations of a window, of which some go on to the next."""
WAYS = 256
FREE = 64
"""So many times an operation may ask the machine beside the limit, where it is behind at last."""
BEHIND = 8
"""The part of a window (one in so many operations) that is looked at behind its end."""


def judge_windows(
    operations: Iterable[Operation],
    seen: Sequence[Operation],
    settings: Settings | None = None,
    limit: int = 1_000_000,
    size: int = WINDOW,
    about: AtPartition | None = None,
) -> Judgement:
    """Judges a key's operations, which come in the order of their starts.

    `seen` is `distinct` of them, and `about` as `judge.judge` has it. `limit` bounds the steps of
    all searches, but for those that a history takes because it is long: those that it takes to ask
    the machine `FREE` times for each operation. Raises as `judge.judge`.
    """
    carried = begin(seen, settings, about)
    budget = Budget(limit)
    coming = _Counted((decided(operation, carried) for operation in operations), carried)
    while True:
        window = list(islice(coming, size))
        if len(window) < size:
            found = judge(window, carried=carried, budget=budget)
            break
        goal, spent = (
            _goal([o for o in (*carried.operations, *window) if o.end is not None]),
            budget.spent,
        )
        after = carry(window, goal, carried, budget, WAYS)
        if not after.ways:
            found = _failed(window, carried, after, budget)
            break
        carried = after
        free = FREE * size * after.ways[0].machine.size
        budget.left += min(budget.spent - spent, free)
    for _ in coming:
        pass
    finding = found.finding
    if finding in (Finding.EXPLAINED, Finding.UNJUDGED):
        finding = explanation(coming.answers)
    return replace(
        found,
        finding=finding,
        operations=coming.count,
        answers=coming.answers,
        configurations=budget.spent,
    )


def distinct(operations: Iterable[Operation], about: AtPartition | None = None) -> list[Operation]:
    """One operation of each request, producer id and epoch, of each id that is answered, and the
    first in each transaction that `about` tells of. They come in the order of their starts."""
    found: dict[tuple[Any, ...], Operation] = {}
    transaction_of = None if about is None else about.transactions()
    for operation in operations:
        fields, response = operation.fields, operation.response or {}
        asked = [fields.get(name) for name in ("producer_id", "producer_epoch", "transactional")]
        in_ = 0 if transaction_of is None else transaction_of(operation)
        told = response.get("error") if operation.request == "OffsetFetch" else None
        key = operation.request, *asked, response.get("producer_id"), in_, told
        found.setdefault(key, operation)
    return list(found.values())


def _failed(
    window: Sequence[Operation], carried: Carried, after: Carried, budget: Budget
) -> Judgement:
    """The text for a history without a way on."""
    found = judge(window, carried=carried, budget=budget) if after.is_whole else None
    if found is None or found.finding is not Finding.UNEXPLAINED:
        return Judgement(Finding.GAVE_UP)
    return found


def _goal(answered: Sequence[Operation]) -> int:
    """How many of these operations, by their starts, a window should end behind: the last place
    where nothing is in flight, if there is one behind its half, or nearly all."""
    most = len(answered) - len(answered) // BEHIND
    quiet, latest = 0, float("-inf")
    for at, operation in enumerate(answered[: most + 1]):
        if operation.start > latest:
            quiet = at
        latest = max(latest, operation.end or 0)
    return quiet if quiet > len(answered) // 2 else most


class _Counted:
    """Operations, counted as they are taken, and those of them that are answered."""

    def __init__(self, operations: Iterable[Operation], carried: Carried) -> None:
        self.left = iter(operations)
        self.is_judged = judging(carried)
        self.count = self.answers = 0

    def __iter__(self) -> Iterator[Operation]:
        return self

    def __next__(self) -> Operation:
        found = next(self.left)
        self.count += 1
        self.answers += self.is_judged(found)
        return found
