"""Whether some order explains what was seen: a linearizability search over one key's history.

A history is what clients asked of a transactional id's coordinator, or of a partition's leader, and
what they were told, with the times between which it happened. `judge` looks for an order in which
the executable machine gives just these answers: operations that overlapped in time may have taken
effect in either order, one that was never answered at any later time or never, and between them
happens what the machine does by itself (`model.judged` says what that is). `carry` goes through a
part of a history and says how it may go on from there: `model.windows` judges long ones so.

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


class Judged(Protocol):
    """A machine in a state. No method changes it: each gives machines in other states, and the
    machine itself where an operation has changed nothing."""

    def read(self, operation: Operation) -> Any:
        """The operation as `outcomes` takes it, for all states that come of this one."""
        ...

    def outcomes(self, operation: Any, /) -> Iterable[tuple[Judged, bool]]:
        """All that the operation can do now where it is answered as it was, or later; what is
        likely first. With each, whether it is answered by then."""
        ...

    def answers(self, operation: Any, /) -> Iterable[Mapping[str, Any]]:
        """All that the operation may be answered with now."""
        ...

    def events(self, until: float) -> Iterable[tuple[Judged, Mapping[str, Any] | None]]:
        """All that can happen by itself up to this time, with the answer to the operation that
        waits for one, if it comes with that."""
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

    def may_still(self, responses: Iterable[Mapping[str, Any]]) -> bool:
        """Whether each of these responses may be given in this state or a later one; true where in
        doubt."""
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


class Way(NamedTuple):
    """A state in which a history may be: the machine, which operations are in it, and which one
    waits for its answer. Operations are named by their places in `Carried.operations`."""

    machine: Judged
    done: frozenset[int] = frozenset()
    waiting: int | None = None


@dataclass(frozen=True)
class Carried:
    """Where a history has come to: the ways there, and the operations that some of them lack.

    `is_whole` says that there are no other ways. `configurations` counts the steps to get there.
    """

    ways: tuple[Way, ...]
    operations: tuple[Operation, ...] = ()
    is_whole: bool = True
    configurations: int = 0


LOOK_AHEAD = 8
"""At so many answers the search looks before it goes on from a state."""


class _Limit(Exception):
    """The search has taken more steps than it may."""


class _Search:
    """A search for an order of operations, given by their places, that follows one of these ways.

    `asked` is an operation whose answers are collected. Nothing is known of what comes after the
    time `horizon`.
    """

    def __init__(
        self, operations: Mapping[int, Operation], ways: Sequence[Way], limit: int,
        asked: Operation | None = None, horizon: float = float("inf"),
    ) -> None:  # fmt: skip
        by_start = sorted(operations, key=lambda place: operations[place].start)
        self.known_places = [place for place in by_start if operations[place].end is not None]
        self.lost_places = [place for place in by_start if operations[place].end is None][::-1]
        self.known = [operations[place] for place in self.known_places]
        self.lost = [operations[place] for place in self.lost_places]
        self.starts = [operation.start for operation in self.known]
        self.ends = [operation.end or 0 for operation in self.known]
        self.ways = ways
        machine = ways[0].machine
        self.known_asked = [machine.read(o) for o in self.known]
        self.lost_asked = [machine.read(o) for o in self.lost]
        self.idle = [o is not asked and machine.is_idle(o) for o in self.known]
        self.refusals = [
            not idle and o.response is not None and o.response["error"] != "NONE"
            for o, idle in zip(self.known, self.idle, strict=True)
        ]
        ranks = map(machine.rank, self.known)
        self.ranks = [
            (not idle, *ranked) for idle, *ranked in zip(self.idle, ranks, self.ends, strict=True)
        ]
        self.told = [{} if o is asked else o.response or {} for o in self.known]
        self.limit = limit
        self.asked = asked
        self.horizon = horizon
        self.met_horizon = False
        self.answers: list[Mapping[str, Any]] = []
        self.steps = -1  # to be at the start is none
        self.reached = float("-inf")  # what was answered before this time is explained

    def finds(self) -> bool:
        """Whether there is such an order. Raises _Limit."""
        return next(self.arrivals(len(self.known)), None) is not None

    def arrivals(self, goal: int) -> Iterator[_Config]:
        """All configurations in which the first `goal` answered operations are done, by their
        starts. Raises _Limit."""
        start = _Config(self.ways[0].machine, next=map(self._config, self.ways))
        stack, dead, deepest = [start], set[Hashable](), -1
        while stack:
            config = next(stack[-1].next, None)
            if config is None:
                config = stack.pop()
                dead.add(config.key())
                deepest = max(deepest, config.base)
                continue
            if config.base >= goal:
                yield config
                continue
            # further on there is no dead end so far, nor so many that it is worth looking ahead
            if config.base <= deepest and (not self._may_end(config) or config.key() in dead):
                continue
            self.steps += 1
            if self.steps > self.limit:
                raise _Limit
            config.next = self.after(config)
            stack.append(config)

    def _config(self, way: Way) -> _Config:
        """A way as a configuration of this search. What is done in a way and isn't given here
        came after all that is."""
        ahead = {at for at, place in enumerate(self.known_places) if place in way.done}
        base = 0
        while base in ahead:
            ahead.remove(base)
            base += 1
        taken = {at for at, place in enumerate(self.lost_places) if place in way.done}
        waiting = None
        for is_known, places in ((True, self.known_places), (False, self.lost_places)):
            if way.waiting in places:
                waiting = is_known, places.index(way.waiting)
        return _Config(way.machine, base, frozenset(ahead), frozenset(taken), waiting)

    def way(self, config: _Config) -> Way:
        """A configuration of this search as a way."""
        known = (*range(config.base), *config.ahead)
        done = [self.known_places[at] for at in known]
        done += [self.lost_places[at] for at in config.taken]
        waiting = None
        if config.waiting is not None:
            is_known, at = config.waiting
            waiting = (self.known_places if is_known else self.lost_places)[at]
        return Way(config.machine, frozenset(done), waiting)

    def after(self, config: _Config) -> Iterator[_Config]:
        """The configurations that may follow, those that are likely first."""
        candidates, until = self._candidates(config)
        self.reached = max(self.reached, until)
        later: list[_Config] = []
        for at in candidates:
            if at in config.refused:
                continue
            asked, fits = self.known_asked[at], False
            if self.known[at] is self.asked:
                self._collect(config.machine.answers(asked))
            for after, is_answered in config.machine.outcomes(asked):
                fits = True
                if is_answered:
                    done = self._done(config, after, at)
                    is_same = after is config.machine
                    if is_same and self.refusals[at] and until < self.ends[at]:
                        later.append(done)  # another state may be what it was refused in
                        continue
                    yield done
                    if is_same and self.idle[at]:
                        return  # it is as good now as at any other time
                elif config.waiting is None:
                    yield self._with(config, after, waiting=(True, at))
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
            if self.known[at] is self.asked:
                self._collect([answer])
            if matches(self.known[at].response, answer):
                yield self._done(config, after, at, waiting=None)
        yield from later

    def _may_end(self, config: _Config) -> bool:
        """Whether the answers that come next can still be given."""
        base, ahead = config.base, config.ahead
        coming = enumerate(self.told[base : base + LOOK_AHEAD], base)
        return config.machine.may_still([told for at, told in coming if at not in ahead])

    def _candidates(self, config: _Config) -> tuple[list[int], float]:
        """The answered operations that can come next, those that changed nothing and then by when
        they were answered, and the time by which the first answered of them must have."""
        found: list[int] = []
        until = self.horizon
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
        self.met_horizon |= until == self.horizon
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
            for after, is_answered in config.machine.outcomes(self.lost_asked[at]):
                if not is_answered and config.waiting is None:
                    yield self._with(config, after, taken=taken, waiting=(False, at))
                elif is_answered and after.key() != before:
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

    def _collect(self, answers: Iterable[Mapping[str, Any]]) -> None:
        self.answers += (answer for answer in answers if answer not in self.answers)


def judge(
    operations: Iterable[Operation],
    settings: Settings | None = None,
    limit: int = 1_000_000,
    carried: Carried | None = None,
) -> Judgement:
    """Judges the history of one key: requests of one transactional id or to one partition.

    `limit` bounds the steps of each search. With `carried` they are what follows there. Raises
    ModelError for fields that can't be, and DeclarationError for a release that there isn't.
    """
    given = list(operations)
    carried = carried or begin(given, settings)
    history = [*carried.operations, *(decided(operation, carried) for operation in given)]
    steps, reached = carried.configurations, float("-inf")

    def explained(part: Mapping[int, Operation], asked: Operation | None = None) -> bool:
        nonlocal steps, reached
        search = _Search(part, carried.ways, limit, asked)
        try:
            return search.finds()
        finally:
            steps += search.steps
            reached = search.reached
            answers[:] = search.answers

    answers: list[Mapping[str, Any]] = []
    try:
        if explained(dict(enumerate(history))):
            return Judgement(Finding.EXPLAINED, len(given), steps)
        if not carried.is_whole:
            return Judgement(Finding.GAVE_UP, len(given), steps)
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
        place = next(place for place, operation in part.items() if operation is first)
        allowed = [
            answer
            for answer in list(answers)
            if explained(part | {place: first._replace(response=answer)})
        ]
    except _Limit:
        return Judgement(Finding.GAVE_UP, len(given), steps)
    return Judgement(Finding.UNEXPLAINED, len(given), steps, first, tuple(allowed))


def begin(about: Iterable[Operation], settings: Settings | None = None) -> Carried:
    """Where a history begins. `about` is the history, or what tells as much of it: each producer
    id and epoch that a kind of request has. Raises as `judge` does."""
    from .forms import machine_for

    return Carried((Way(machine_for(list(about), settings or Settings())),))


def carry(
    operations: Sequence[Operation], goal: int, carried: Carried, limit: int, most: int
) -> Carried:
    """Goes on, up to where the first `goal` answered operations are done, by their starts.

    They are those of `carried` and these behind them, in the order of starts and `decided`; others
    may follow that start no earlier. The first way may take `limit` steps; then up to `most` ways
    are looked for, in as many steps as it takes for four at each operation. Without any way
    nothing explains these operations, if that `is_whole`.
    """
    history = [*carried.operations, *operations]
    search = _Search(dict(enumerate(history)), carried.ways, limit, horizon=history[-1].start)
    found: dict[Hashable, Way] = {}
    is_whole = carried.is_whole
    try:
        for config in search.arrivals(goal):
            if len(found) == most:
                is_whole = False
                break
            found.setdefault(config.key(), search.way(config))
            if len(found) == 1:
                search.limit = search.steps + 4 * len(history)
    except _Limit:
        is_whole = False
    ways = tuple(found.values())
    # what is done in every way is behind; a lost one is done and may wait for its answer still
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
            )
            for way in ways
        ),
        tuple(history[place] for place in left),
        is_whole and not search.met_horizon,
        carried.configurations + search.steps,
    )


def decided(operation: Operation, carried: Carried) -> Operation:
    """The operation, without its answer where that says nothing of what it did."""
    error = "NONE" if operation.response is None else operation.response["error"]
    if operation.response is None or not carried.ways[0].machine.is_decided(error):
        return operation._replace(end=None, response=None)
    return operation


def _until(history: Sequence[Operation], answered: Sequence[Operation]) -> dict[int, Operation]:
    """A history up to the last of these answers, by places. What is answered later need not have
    taken effect by then; if it has, then as it says later."""
    known = {id(operation) for operation in answered}
    now = answered[-1].end or 0
    return {
        place: operation if id(operation) in known else operation._replace(end=None)
        for place, operation in enumerate(history)
        if operation.start <= now
    }
