"""Judges histories of a key with very many operations, window by window.

A window ends at a point without operations in flight, if it has one. All possible ways through it
continue in the next window (`judge.carry`). The memory is that of a window, and the finding is that
of `judge.judge`, except that it may be GAVE_UP: only `WAYS` ways are followed, and if none of them
explains the history, it isn't known to be unexplained.
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
"""The number of operations of a window. Some continue in the next one."""
WAYS = 256
FREE = 64
"""The steps for each operation that don't count against the limit, once its window is done."""
BEHIND = 8
"""One in this number of a window's operations comes after its end, and is only examined."""


def judge_windows(
    operations: Iterable[Operation],
    seen: Sequence[Operation],
    settings: Settings | None = None,
    limit: int = 1_000_000,
    size: int = WINDOW,
    about: AtPartition | None = None,
) -> Judgement:
    """Judges a key's operations, which come in the order of their starts.

    `seen` is `distinct(operations)`; `about` is that of `judge.judge`. `limit` bounds the steps of
    all searches, without `FREE` steps for each operation of finished windows. Raises as
    `judge.judge`.
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
    """A summary of operations: the first one with each request, producer id, epoch and answered id,
    and in each transaction that `about` knows. They keep their order."""
    found: dict[tuple[Any, ...], Operation] = {}
    transaction_of = None if about is None else about.transactions()
    for operation in operations:
        fields, response = operation.fields, operation.response or {}
        requested = [
            fields.get(name) for name in ("producer_id", "producer_epoch", "transactional")
        ]
        in_ = 0 if transaction_of is None else transaction_of(operation)
        error = response.get("error") if operation.request == "OffsetFetch" else None
        key = operation.request, *requested, response.get("producer_id"), in_, error
        found.setdefault(key, operation)
    return list(found.values())


def _failed(
    window: Sequence[Operation], carried: Carried, after: Carried, budget: Budget
) -> Judgement:
    """The judgement of a history that no way continues."""
    found = judge(window, carried=carried, budget=budget) if after.is_whole else None
    if found is None or found.finding is not Finding.UNEXPLAINED:
        return Judgement(Finding.GAVE_UP)
    return found


def _goal(answered: Sequence[Operation]) -> int:
    """The number of these operations, in the order of starts, after which a window should end: at
    the last point without operations in flight in its second half, or near its end."""
    most = len(answered) - len(answered) // BEHIND
    quiet, latest = 0, float("-inf")
    for at, operation in enumerate(answered[: most + 1]):
        if operation.start > latest:
            quiet = at
        latest = max(latest, operation.end or 0)
    return quiet if quiet > len(answered) // 2 else most


class _Counted:
    """An iterator that counts its operations, and those with judged answers."""

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
