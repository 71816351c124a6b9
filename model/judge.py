"""Whether some order explains what was seen: a linearizability search over one key's history.

A history is what clients asked of a transactional id's coordinator, or of a partition's leader, and
what they were told, with the times between which it happened. `judge` looks for an order in which
the executable machine gives just these answers: operations that overlapped in time may have taken
effect in either order, one that was never answered at any later time or never, and between them
happens what the machine does by itself (`model.judged` says what that is).

The search goes depth first and remembers each (operations done, state) that leads nowhere (Wing &
Gong 1993, Lowe 2017). It is a pure function of what is given, and all of that can be pickled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from ..spec.features import KAFKA


class Operation(NamedTuple):
    """A request and its answer. Times are in ms; `end` and `response` are None where the answer
    was lost. A response has only what is to be compared. `line` and `file` say where it was."""

    request: str
    fields: Mapping[str, Any]
    start: float
    end: float | None = None
    response: Mapping[str, Any] | None = None
    line: int = 0
    client: str = ""
    file: str = ""

    def __str__(self) -> str:
        told = "no answer" if self.response is None else shown(self.response)
        return f"{self.request}({shown(self.fields)}) → {told}"


def shown(fields: Mapping[str, Any]) -> str:
    """Fields and values on one line."""
    return ", ".join(f"{name}={value}" for name, value in fields.items())


@dataclass(frozen=True)
class Settings:
    """What the brokers were: the release, and their settings under their own names."""

    protocol: str = KAFKA.newest
    transaction_version: int | None = None
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    verification: bool = True


class Finding(Enum):
    """What a judgement comes to, with the exit code of it."""

    EXPLAINED = 0
    UNEXPLAINED = 12
    GAVE_UP = 20


@dataclass(frozen=True)
class Judgement:
    """What is found of one key's history.

    `operation` is the first, by the times of the answers, that no order explains, and `allowed` are
    the responses to it that some order would. `configurations` counts the steps of the search.
    """

    finding: Finding
    operations: int
    configurations: int
    operation: Operation | None = None
    allowed: tuple[Mapping[str, Any], ...] = ()


class Answered(NamedTuple):
    """The machine after an operation or a step of its own. `answer` is None where there is none
    yet: it comes with a step of the machine's own."""

    after: Judged
    answer: Mapping[str, Any] | None


class Judged(Protocol):
    """A machine in a state. No method changes it: each gives machines in other states, and the
    machine itself where an operation has changed nothing."""

    def outcomes(self, operation: Operation, *, at_once: bool = False) -> Iterable[Answered]:
        """All that the operation can do now, what is likely first; what is answered later may be
        left out with `at_once`."""
        ...

    def events(self, until: float) -> Iterable[Answered]:
        """All that can happen by itself up to this time, with the answer to the operation that
        waits for one."""
        ...

    def key(self) -> Hashable:
        """What it is told by from all states in which it does something else."""
        ...

    def rank(self, operation: Operation) -> float:
        """What is lower for an operation that is likely to come first; it decides nothing."""
        ...

    def is_idle(self, operation: Operation) -> bool:
        """Whether its response is one that is given at once, and with no change of anything,
        whenever it took effect."""
        ...

    def may_still(self, response: Mapping[str, Any]) -> bool:
        """Whether this response may be given in this state or a later one; true where in doubt."""
        ...

    def is_decided(self, error: str) -> bool:
        """Whether it is the machine that decides on this error. Any other comes from what is around
        it and says nothing of what the request has done."""
        ...


def matches(response: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> bool:
    """Whether the answer is the response that was seen, as far as that was recorded."""
    return response is None or response.items() <= answer.items()


_NOTHING: Iterator[Any] = iter(())


@dataclass(slots=True)
class _Config:
    """How far an order has come: all answered operations before `base` and those in `ahead` are in
    it, of the others those in `taken`. `waiting` has been asked and isn't answered."""

    machine: Judged
    base: int = 0
    ahead: frozenset[int] = frozenset()
    taken: frozenset[int] = frozenset()
    waiting: tuple[bool, int] | None = None  # is it an answered one, and which
    refused: set[int] = field(default_factory=set[int])  # what this machine answers otherwise
    next: Iterator[_Config] = _NOTHING

    def key(self) -> Hashable:
        return self.base, self.ahead, self.taken, self.waiting, self.machine.key()


LOOK_AHEAD = 8
"""At so many answers the search looks before it goes on from a state."""


class _Limit(Exception):
    """The search has taken more steps than it may."""


class _Search:
    """A search for an order of these operations; `asked` is one whose answers are collected."""

    def __init__(
        self, operations: Sequence[Operation], machine: Judged, limit: int,
        asked: Operation | None = None,
    ) -> None:  # fmt: skip
        by_start = sorted(operations, key=lambda operation: operation.start)
        self.known = [o for o in by_start if o.end is not None]
        self.starts = [operation.start for operation in self.known]
        self.ends = [operation.end or 0 for operation in self.known]
        self.lost = [o for o in by_start if o.end is None][::-1]
        self.idle = [o is not asked and machine.is_idle(o) for o in self.known]
        ranks = map(machine.rank, self.known)
        self.ranks = [
            (not idle, *ranked) for idle, *ranked in zip(self.idle, ranks, self.ends, strict=True)
        ]
        self.machine = machine
        self.limit = limit
        self.asked = asked
        self.answers: list[Mapping[str, Any]] = []
        self.steps = 0
        self.reached = float("-inf")  # what was answered before this time is explained

    def finds(self) -> bool:
        """Whether there is such an order. Raises _Limit."""
        start = _Config(self.machine)
        start.next = self.after(start)
        stack, dead = [start], set[Hashable]()
        while stack:
            config = next(stack[-1].next, None)
            if config is None:
                dead.add(stack.pop().key())
                continue
            if config.base == len(self.known):
                return True
            if dead and (not self._may_end(config) or config.key() in dead):
                continue
            self.steps += 1
            if self.steps > self.limit:
                raise _Limit
            config.next = self.after(config)
            stack.append(config)
        return False

    def after(self, config: _Config) -> Iterator[_Config]:
        """The configurations that may follow, those that are likely first."""
        candidates, until = self._candidates(config)
        self.reached = max(self.reached, until)
        for at in candidates:
            if at in config.refused:
                continue
            operation, fits = self.known[at], False
            for after, answer in config.machine.outcomes(operation, at_once=self.idle[at]):
                if answer is None:
                    fits = True
                    if config.waiting is None:
                        yield self._with(config, after, waiting=(True, at))
                    continue
                self._collect(operation, answer)
                if matches(operation.response, answer):
                    fits = True
                    yield self._done(config, after, at)
                    if self.idle[at] and after is config.machine:
                        return  # it is as good now as at any other time
            if not fits:
                config.refused.add(at)
        yield from self._lost(config, until)
        for after, answer in config.machine.events(until):
            if answer is None or config.waiting is None:
                yield self._with(config, after, waiting=config.waiting)
                continue
            is_known, at = config.waiting
            if not is_known:
                if matches(self.lost[at].response, answer):
                    yield self._with(config, after, waiting=None)
                continue
            self._collect(self.known[at], answer)
            if matches(self.known[at].response, answer):
                yield self._done(config, after, at, waiting=None)

    def _may_end(self, config: _Config) -> bool:
        """Whether the answers that come next can still be given."""
        for at in range(config.base, min(config.base + LOOK_AHEAD, len(self.known))):
            operation = self.known[at]
            if at in config.ahead or operation is self.asked or operation.response is None:
                continue
            if not config.machine.may_still(operation.response):
                return False
        return True

    def _candidates(self, config: _Config) -> tuple[list[int], float]:
        """The answered operations that can come next, those that changed nothing and then by when
        they were answered, and the time by which the first answered of them must have."""
        found: list[int] = []
        until = float("inf")
        waits = config.waiting[1] if config.waiting and config.waiting[0] else None
        for at in range(config.base, len(self.known)):
            if self.starts[at] > until:
                break
            if at in config.ahead:
                continue
            if self.ends[at] < until:
                until = self.ends[at]
            if at != waits:
                found.append(at)
        if len(found) > 1:
            found.sort(key=self.ranks.__getitem__)
        return found, until

    def _lost(self, config: _Config, until: float) -> Iterator[_Config]:
        """Operations without an answer that take effect now, the latest first."""
        if len(config.taken) == len(self.lost):
            return
        before, seen = config.machine.key(), set[str]()
        for at, operation in enumerate(self.lost):
            if operation.start > until or at in config.taken:
                continue
            content = f"{operation.request} {sorted(operation.fields.items())}"
            if content in seen:  # as good as the other one
                continue
            seen.add(content)
            taken = config.taken | {at}
            for after, answer in config.machine.outcomes(operation):
                if answer is None and config.waiting is None:
                    yield self._with(config, after, taken=taken, waiting=(False, at))
                elif (
                    answer is not None
                    and matches(operation.response, answer)
                    and after.key() != before
                ):
                    yield self._with(config, after, taken=taken, waiting=config.waiting)

    def _with(
        self, config: _Config, machine: Judged, *, waiting: tuple[bool, int] | None,
        taken: frozenset[int] | None = None,
    ) -> _Config:  # fmt: skip
        return _Config(
            machine, config.base, config.ahead, config.taken if taken is None else taken, waiting
        )

    def _done(self, config: _Config, machine: Judged, at: int, **waiting: None) -> _Config:
        base, ahead = config.base, config.ahead
        if at == base:
            base += 1
            while base in ahead:
                ahead -= {base}
                base += 1
        else:
            ahead |= {at}
        made = _Config(machine, base, ahead, config.taken, waiting.get("waiting", config.waiting))
        if machine is config.machine:
            made.refused = config.refused
        return made

    def _collect(self, operation: Operation, answer: Mapping[str, Any]) -> None:
        if operation is self.asked and answer not in self.answers:
            self.answers.append(answer)


def judge(
    operations: Iterable[Operation], settings: Settings | None = None, limit: int = 1_000_000
) -> Judgement:
    """Judges the history of one key: requests of one transactional id or to one partition.

    `limit` bounds the steps of each search. Raises ModelError for fields that can't be, and
    DeclarationError for a release that there isn't.
    """
    from .judged import machine_for

    given = list(operations)
    machine = machine_for(given, settings or Settings())
    history = [_undecided(operation, machine) for operation in given]
    steps, reached = 0, float("-inf")

    def explained(part: Sequence[Operation], asked: Operation | None = None) -> bool:
        nonlocal steps, reached
        search = _Search(part, machine, limit, asked)
        try:
            return search.finds()
        finally:
            steps += search.steps
            reached = search.reached
            answers[:] = search.answers

    answers: list[Mapping[str, Any]] = []
    try:
        if explained(history):
            return Judgement(Finding.EXPLAINED, len(given), steps)
        answered = sorted(
            (o for o in history if o.end is not None), key=lambda o: (o.end or 0, o.line)
        )
        # the first so many answers are explained, and the first so many aren't
        good, bad = sum((o.end or 0) < reached for o in answered), len(answered)
        ahead = 1
        while bad - good > 1:
            middle = min(good + ahead, (good + bad) // 2)
            ahead *= 2
            if explained(_until(history, answered[:middle])):
                good = middle
            else:
                bad = middle
        first = answered[bad - 1]
        part = _until(history, answered[:bad])
        explained(part, first)
        others = [operation for operation in part if operation is not first]
        allowed = [
            answer
            for answer in list(answers)
            if explained([*others, first._replace(response=answer)])
        ]
    except _Limit:
        return Judgement(Finding.GAVE_UP, len(given), steps)
    return Judgement(Finding.UNEXPLAINED, len(given), steps, first, tuple(allowed))


def _undecided(operation: Operation, machine: Judged) -> Operation:
    """The operation, without its answer where that says nothing of what it did."""
    error = "NONE" if operation.response is None else operation.response["error"]
    if operation.response is None or not machine.is_decided(error):
        return operation._replace(end=None, response=None)
    return operation


def _until(history: Sequence[Operation], answered: Sequence[Operation]) -> list[Operation]:
    """A history up to the last of these answers. What is answered later need not have taken effect
    by then; if it has, then as it says later."""
    known = {id(operation) for operation in answered}
    now = answered[-1].end or 0
    return [
        operation if id(operation) in known else operation._replace(end=None)
        for operation in history
        if operation.start <= now
    ]
