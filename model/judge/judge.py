"""Whether some order explains the recorded answers: a linearizability search over one key's
history.

A history holds the requests of clients to a transactional id's coordinator or a partition's leader,
with their answers and times. `judge` looks for an order in which the executable machine gives these
answers. Operations that overlapped in time may have taken effect in either order; an operation
without an answer may have taken effect at any later time, or never. Between operations the machine
takes its own steps (see `model.judge.machines.coordinator`). `carry` judges a part of a history and
returns the states in which it may end: `model.judge.windows` judges long histories part by part.

`model.judge.search` has the search. The judgement is a pure function of arguments that can be
pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from ..engine.reasons import reasons
from .machines.decisions import AtPartition
from .operations import Judged, Operation, Settings
from .search import Budget, Carried, LimitError, Search, Way


class Finding(Enum):
    """The verdict of a judgement, the worst first. `INTERRUPTED`: Ctrl-C came before all keys were
    judged. `UNJUDGED`: the key has no recorded answer that a machine decides on."""

    UNEXPLAINED = "UNEXPLAINED"
    INTERRUPTED = "INTERRUPTED"
    GAVE_UP = "GAVE_UP"
    UNJUDGED = "UNJUDGED"
    EXPLAINED = "EXPLAINED"

    @property
    def exit_code(self) -> int:
        """The exit code of a command with this finding."""
        return {"EXPLAINED": 0, "UNEXPLAINED": 12, "INTERRUPTED": 130}.get(self.name, 20)


def worst(findings: Iterable[Finding]) -> Finding:
    """The worst of the findings; UNJUDGED if there are none."""
    found = set(findings)
    return next((finding for finding in Finding if finding in found), Finding.UNJUDGED)


@dataclass(frozen=True)
class Judgement:
    """The result for one key's history. `answers` counts the operations whose answers were judged.
    The other answers were lost, or don't show the request's effect.

    `operation` is the first one, in the order of answers, that no order explains. `allowed` are
    responses to it that some order explains, each with its `reasons` (see `model.engine.reasons`).
    `note` says if others may be missing. `against` is evidence against the operation in every
    state: from another key, or because no broker gives this answer. `configurations` counts the
    steps of all searches (see `Budget`).
    """

    finding: Finding
    operations: int = 0
    answers: int = 0
    configurations: int = 0
    operation: Operation | None = None
    allowed: tuple[Mapping[str, Any], ...] = ()
    note: str = ""
    reasons: tuple[tuple[str, ...], ...] = ()
    against: str = ""
    open: tuple[str, ...] = ()
    """The open transactions at the end of the found order, each in a sentence."""
    may_be_excerpt: bool = False
    """Whether the first answer fails, as in a recording that begins in the middle of a log."""


def explanation(answers: int) -> Finding:
    """The finding for an explained key with this number of judged answers."""
    return Finding.EXPLAINED if answers else Finding.UNJUDGED


def judge(
    operations: Iterable[Operation],
    settings: Settings | None = None,
    limit: int = 1_000_000,
    carried: Carried | None = None,
    budget: Budget | None = None,
    about: AtPartition | None = None,
) -> Judgement:
    """Judges the history of one key: requests of one transactional id or to one partition.

    `limit` bounds the steps of all searches. `budget` replaces it with the steps that earlier parts
    of the history left. With `carried` the operations continue from there. `about` has the evidence
    of the run's transactional ids about a partition. Raises ModelError for impossible fields, and
    DeclarationError for an unknown release.
    """
    given = list(operations)
    carried = carried or begin(given, settings, about, latest_time(given))
    given = [decided(operation, carried) for operation in given]
    budget = budget or Budget(limit)
    found = _judge([*carried.operations, *given], carried, budget)
    if found.operation is not None:
        found = replace(found, against=_against(found.operation, carried.ways[0].machine))
    answers = sum(map(judging(carried), sorted(given, key=lambda operation: operation.start)))
    if found.finding is Finding.EXPLAINED:
        found = replace(found, finding=explanation(answers))
    elif found.finding is Finding.UNEXPLAINED and not carried.is_excerpt:
        found = replace(found, may_be_excerpt=_is_first(found.operation, given))
    return replace(found, operations=len(given), answers=answers, configurations=budget.spent)


def judging(carried: Carried) -> Callable[[Operation], bool]:
    """A function that returns whether an operation's answer is judged. It takes operations in the
    order of their starts. In an excerpt answers count only after the state is known."""
    from .excerpts import Shown

    return Shown().is_judged if carried.is_excerpt else lambda operation: operation.end is not None


def _is_first(operation: Operation | None, operations: Iterable[Operation]) -> bool:
    """Whether the operation's answer is the first one."""
    ends = (other.end for other in operations if other.end is not None)
    return operation is not None and operation.end == min(ends, default=None)


def _against(operation: Operation, machine: Judged) -> str:
    """The objection to an operation in every state, in a sentence; empty for none."""
    if _is_impossible(operation, machine.errors(operation.request)):
        error = (operation.response or {}).get("error")
        return f"No broker of this release answers {operation.request} with {error}."
    return machine.against(operation)


def _is_impossible(operation: Operation, errors: Collection[str]) -> bool:
    """Whether brokers of the release never give the operation's answer."""
    return (operation.response or {}).get("error", "NONE") not in errors


def _judge(history: Sequence[Operation], carried: Carried, budget: Budget) -> Judgement:
    """The judgement without its counts."""
    answered = sorted((o for o in history if o.end is not None), key=lambda o: (o.end or 0, o.line))
    whole_budget = budget
    # The first `good` answers are explained, and the first `bad` aren't.
    good = bad = len(answered)
    part = dict(enumerate(history))
    impossible = _first_impossible(answered, carried.ways[0].machine)
    if impossible is not None:
        good, bad = impossible, impossible + 1
        part = _until(history, answered[:good]) if good else {}
        whole_budget, budget = budget, Budget(min(budget.left, MOST_OF_IMPOSSIBLE))
    whole, end, note = Search(part, carried.ways, budget), None, ""
    try:
        end = whole.found()
        if end is None and not carried.is_whole:
            note = NOT_FIRST
    except LimitError:
        note = NOT_FIRST
    if impossible is None and end is not None:
        return Judgement(Finding.EXPLAINED, open=tuple(end.machine.open()))
    if impossible is None and note:
        return Judgement(Finding.GAVE_UP)
    if end is None and not note:
        good, bad = sum((o.end or 0) < whole.reached for o in answered[:good]), good
    elif not carried.is_whole:
        note = note or NOT_ALL
    ahead, allowed, why = 1, list[Mapping[str, Any]](), list[tuple[str, ...]]()
    try:
        while bad - good > 1:
            middle = min(good + ahead, (good + bad) // 2)
            ahead *= 2
            if Search(_until(history, answered[:middle]), carried.ways, budget).finds():
                good = middle
            else:
                bad = middle
        first, part = answered[bad - 1], _until(history, answered[:bad])
        recorded_error = (first.response or {}).get("error")
        for answer, taken in Search(part, carried.ways, budget, first).allowed():
            allowed.append(answer)
            why.append(tuple(reasons(taken, first.request, answer["error"], recorded_error)))
    except LimitError:
        note = note or (NOT_FIRST if bad - good > 1 else NOT_ALL)
    if impossible is not None:
        whole_budget.take(budget.spent)
    first = answered[bad - 1]
    return Judgement(
        Finding.UNEXPLAINED, operation=first, allowed=tuple(allowed), note=note, reasons=tuple(why)
    )


def _first_impossible(answered: Sequence[Operation], machine: Judged) -> int | None:
    """The index of the first answer that no broker of the release gives, or None."""
    errors = {request: machine.errors(request) for request in {o.request for o in answered}}
    impossible = (at for at, o in enumerate(answered) if _is_impossible(o, errors[o.request]))
    return next(impossible, None)


MOST_OF_IMPOSSIBLE: Final = 10_000
"""The limit of the searches' steps if an answer is impossible: the verdict needs no search."""
NOT_FIRST = "this response or an earlier one: the search for the first took too many steps"
NOT_ALL = "there may be others: the search for them took too many steps"


def begin(
    operations: Iterable[Operation],
    settings: Settings | None = None,
    about: AtPartition | None = None,
    latest: float = float("inf"),
) -> Carried:
    """The start of a history. `operations` is the history, or a summary with each producer id and
    epoch of each kind of request. No operation starts or ends after `latest`. Raises as `judge`
    does."""
    from .excerpts import unknown_machine_for
    from .machines.canonical import machine_for

    given, settings = list(operations), settings or Settings()
    if settings.excerpt:
        return Carried((Way(unknown_machine_for(given, settings)),), is_excerpt=True)
    return Carried((Way(machine_for(given, settings, about, latest)),))


def latest_time(operations: Iterable[Operation]) -> float:
    """The time of the last start or end; 0 without operations."""
    return max((max(o.start, o.end or 0) for o in operations), default=0)


def carry(
    operations: Sequence[Operation], goal: int, carried: Carried, budget: Budget, most: int
) -> Carried:
    """Continues until the first `goal` answered operations, in the order of starts, are done.

    The operations are those of `carried`, then `operations`, in the order of starts and `decided`.
    Later operations start no earlier. The search for the first way may use the whole budget. Then
    up to `most` ways are searched, from at most four configurations for each operation. If the
    result has no way and `is_whole`, no order explains the operations.
    """
    history = [*carried.operations, *operations]
    search = Search(dict(enumerate(history)), carried.ways, budget, horizon=history[-1].start)
    found: dict[Hashable, Way] = {}
    is_whole = carried.is_whole
    try:
        for config in search.arrivals(goal):
            if len(found) == most:
                is_whole = False
                break
            found.setdefault(config.key(), search.way(config))
            if len(found) == 1:
                search.most = search.steps + 4 * len(history)
    except LimitError:
        is_whole = False
    ways = tuple(found.values())
    # operations that are done in every way are dropped, unless a way waits for their answer
    done = frozenset[int].intersection(*(way.done for way in ways)) if ways else frozenset[int]()
    done -= {way.waiting for way in ways}
    left = [place for place in range(len(history)) if place not in done]
    names = {place: at for at, place in enumerate(left)}
    return Carried(
        tuple(
            Way(
                way.machine,
                frozenset(names[place] for place in way.done - done),
                None if way.waiting is None else names[way.waiting],
                is_carried=True,
                since=way.since,
            )
            for way in ways
        ),
        tuple(history[place] for place in left),
        is_whole and not search.met_horizon,
        carried.is_excerpt,
    )


def decided(operation: Operation, carried: Carried) -> Operation:
    """The operation, without an answer that doesn't show the request's effect."""
    response, is_decided = operation.response, carried.ways[0].machine.is_decided
    if response is None or not is_decided(operation.request, response["error"]):
        return operation._replace(end=None, response=None)
    return operation


def _until(history: Sequence[Operation], answered: Sequence[Operation]) -> dict[int, Operation]:
    """A history up to the last of these answers, by place. An operation with a later answer may
    have taken effect by then; its effect is that of its later answer."""
    known = {id(operation) for operation in answered}
    now = answered[-1].end or 0
    return {
        place: operation if id(operation) in known else operation._replace(end=None)
        for place, operation in enumerate(history)
        if operation.start <= now
    }
