"""The search for an order of a history's operations that explains their answers.

The search is depth-first and remembers each dead end, as a pair of the done operations and the
state (Wing & Gong 1993, Lowe 2017). `model.judge.judge` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, NamedTuple

from ..engine.errors import ModelError
from ..engine.machine import Taken
from .operations import Judged, Operation, content, matches, sole_names


class Way(NamedTuple):
    """A possible state of a history: the machine, the done operations, and the operation that waits
    for its answer. Operations are indices in `Carried.operations`."""

    machine: Judged
    done: frozenset[int] = frozenset()
    waiting: int | None = None
    is_carried: bool = False
    """Whether the way comes from an earlier part of the history."""
    since: float = 0
    """The earliest time of the next operation."""


@dataclass(frozen=True)
class Carried:
    """The possible states after a part of a history: the ways, and the operations that some of them
    lack.

    `is_whole`: there are no other ways. `is_excerpt`: the history began in an unknown state.
    """

    ways: tuple[Way, ...]
    operations: tuple[Operation, ...] = ()
    is_whole: bool = True
    is_excerpt: bool = False


_NOTHING: Iterator[Any] = iter(())


@dataclass(slots=True)
class Config:
    """A partial order. It has all answered operations before `base`, those in `ahead`, and the
    operations without an answer in `taken`. `waiting` has taken effect and isn't answered yet."""

    machine: Judged
    base: int = 0
    ahead: frozenset[int] = frozenset()
    taken: frozenset[int] = frozenset()
    waiting: tuple[bool, int] | None = None  # whether it has an answer, and its index
    since: float = 0  # the latest start of the answered operations in the order
    refused: set[int] = field(default_factory=set[int])  # answered otherwise here
    next: Iterator[Config] = _NOTHING

    def key(self) -> Hashable:
        return self.base, self.ahead, self.taken, self.waiting, self.machine.key()

    def is_as_far_as(self, other: Config) -> bool:
        """Whether the same operations are done."""
        return (self.base, self.ahead, self.taken) == (other.base, other.ahead, other.taken)


LOOK_AHEAD = 8
"""The number of next answers that are checked before the search continues from a state, apart from
those in flight."""


PER_STEP = 32
"""The number of examined operations that counts as one step."""


class LimitError(Exception):
    """The searches have used all allowed steps."""


class Budget:
    """The steps that all searches of one history may take. Each computation of an operation's
    effects or of the machine's own steps is one step. Large states and many examined operations
    (`PER_STEP`) cost more."""

    def __init__(self, limit: int) -> None:
        self.left, self.spent = limit, 0

    def take(self, steps: int = 1) -> None:
        """Takes steps. Raises LimitError."""
        if self.left < steps:
            self.spent += self.left
            self.left = 0
            raise LimitError
        self.left -= steps
        self.spent += steps


@dataclass(frozen=True)
class _Rest:
    """The rest of a search at a configuration."""

    search: Search
    config: Config

    @property
    def highest_offset(self) -> float:
        """See Rest. It may include some done operations."""
        known, taken = self.search.highest_offsets[self.config.base], self.config.taken
        later = (offset for at, offset in self.search.later_offsets if at not in taken)
        return max(known, *later, -1)

    def has(self, producer_id: int) -> bool:
        """See Rest."""
        known, lost = self.search.places_of(producer_id)
        base, ahead, taken = self.config.base, self.config.ahead, self.config.taken
        return any(at >= base and at not in ahead for at in reversed(known)) or any(
            at not in taken for at in lost
        )


class Search:
    """A search for an order of operations that continues one of these ways. `operations` are by
    place.

    `in_question` is an operation whose answer is open. Events after the time `horizon` aren't
    known. `most` bounds the number of expanded configurations.
    """

    def __init__(
        self, operations: Mapping[int, Operation], ways: Sequence[Way], budget: Budget,
        in_question: Operation | None = None, horizon: float = float("inf"),
    ) -> None:  # fmt: skip
        # of operations with the same start, the first answered one comes first
        by_start = sorted(
            operations, key=lambda at: (operations[at].start, operations[at].end or float("inf"))
        )
        self.known_places = [place for place in by_start if operations[place].end is not None]
        self.lost_places = [place for place in by_start if operations[place].end is None][::-1]
        self.known = [operations[place] for place in self.known_places]
        self.lost = [operations[place] for place in self.lost_places]
        self.starts = [operation.start for operation in self.known]
        self.ends = [operation.end or 0 for operation in self.known]
        self.ways = ways
        self.read = ways[0].machine.read
        machine = ways[0].machine
        self.known_or_open = [
            o._replace(response={}) if o is in_question else o for o in self.known
        ]
        self.known_requests = [machine.read(o) for o in self.known_or_open]
        self.lost_requests = [machine.read(o) for o in self.lost]
        self.idle = [o is not in_question and machine.is_idle(o) for o in self.known]
        self.refusals = [
            not idle and o.response is not None and o.response["error"] != "NONE"
            for o, idle in zip(self.known, self.idle, strict=True)
        ]
        ranks = map(machine.rank, self.known)
        self.ranks = [
            (not idle, *ranked) for idle, *ranked in zip(self.idle, ranks, self.ends, strict=True)
        ]
        offsets = [
            float("inf") if o is in_question else (o.response or {}).get("base_offset", -1)
            for o in self.known
        ]
        self.highest_offsets = [*accumulate(reversed([*offsets, -1.0]), max)][::-1]
        # answers after the end of the examined part
        self.later_offsets = [
            (at, o.response["base_offset"])
            for at, o in enumerate(self.lost)
            if o.response is not None and "base_offset" in o.response
        ]
        is_whole = horizon == float("inf") and not any(way.is_carried for way in ways)
        names = sole_names(operations.values()) if is_whole else frozenset[Hashable]()
        self.lost_contents = [content(o, names) for o in self.lost]
        self.twins = self._twins(in_question, names)
        self._places: dict[int, tuple[list[int], list[int]]] = {}
        for here, operations_here in enumerate((self.known, self.lost)):
            for at, operation in enumerate(operations_here):
                producer_id = operation.fields.get("producer_id", -1)
                self._places.setdefault(producer_id, ([], []))[here].append(at)
        self.budget = budget
        self.most: int | None = None
        self.in_question = in_question
        self.horizon = horizon
        self.met_horizon = False
        self.asking: Operation | None = None  # the operation that a machine took last
        self.answered: list[tuple[Mapping[str, Any], Config, Callable[[], Sequence[Taken]]]] = []
        self.dead: set[Hashable] = set()
        self.deepest = -1  # the largest `base` of a dead end
        self.steps = 0
        self.reached = float("-inf")  # answers before this time are explained

    def places_of(self, producer_id: int) -> tuple[list[int], list[int]]:
        """The places of a producer's operations, in `known` and in `lost`."""
        return self._places.get(producer_id, ([], []))

    def _twins(self, in_question: Operation | None, names: frozenset[Hashable]) -> list[int | None]:
        """For each answered operation an interchangeable one with the same start and no later
        answer, or None. Only orders in which that one comes first are tried."""
        latest: dict[Hashable, int] = {}
        found: list[int | None] = []
        for at, operation in enumerate(self.known):
            key = content(operation, names), operation.start
            found.append(None if operation is in_question else latest.get(key))
            if operation is not in_question:
                latest[key] = at
        return found

    @cached_property
    def copies(self) -> list[list[int]]:
        """For each operation without an answer: the answered operations with the same request."""
        found: dict[Hashable, list[int]] = {}
        for at, operation in enumerate(self.known_or_open):
            found.setdefault(content(operation._replace(response=None)), []).append(at)
        return [found.get(content(o._replace(response=None)), []) for o in self.lost]

    def finds(self) -> bool:
        """Whether there is such an order. Raises LimitError."""
        return self.found() is not None

    def found(self) -> Config | None:
        """The end of such an order, or None. Raises LimitError."""
        return next(self.arrivals(len(self.known)), None)

    def arrivals(self, goal: int) -> Iterator[Config]:
        """All configurations in which the first `goal` answered operations are done, by their
        starts. Raises LimitError."""
        return self._arrivals(goal, map(self._config, self.ways))

    def allowed(self) -> Iterator[tuple[Mapping[str, Any], Sequence[Taken]]]:
        """The answers to `in_question` for which there is such an order, and the rows that give
        them. Raises LimitError.

        The successors of an answer depend only on the state after it, so a dead end after one
        answer is also one after another answer.
        """
        for _ in self.arrivals(len(self.known)):
            pass  # this puts the answers to `in_question` into `answered`
        seen = set[Hashable]()
        for answer, config, rows in self.answered:
            key = frozenset(answer.items())
            if key in seen:
                continue
            dead = self.dead.copy()
            if any(True for _ in self._arrivals(len(self.known), [config])):
                self.dead = dead  # states on the path aren't dead ends for this one
                seen.add(key)
                yield answer, rows()

    def _arrivals(self, goal: int, starts: Iterable[Config]) -> Iterator[Config]:
        stack = [Config(self.ways[0].machine, next=iter(starts))]
        on_path = set[Hashable]()  # own steps may lead back to an earlier state
        while stack:
            try:
                config = next(stack[-1].next, None)
            except ModelError as error:
                raise self._with_place(error) from None
            if config is None:
                config = stack.pop()
                if stack:
                    key = config.key()
                    self.dead.add(key)
                    on_path.discard(key)
                    self.deepest = max(self.deepest, config.base)
                continue
            if config.base >= goal:
                yield config
                continue
            # beyond the deepest dead end the check isn't worth its cost
            if config.base <= self.deepest and self._is_dead(config):
                continue
            if config.is_as_far_as(stack[-1]):
                if (key := config.key()) in on_path:
                    continue
                on_path.add(key)
            if self.steps == self.most:
                raise LimitError
            self.steps += 1
            config.next = self.after(config)
            stack.append(config)

    def _with_place(self, error: ModelError) -> ModelError:
        """The error with the place of the operation that caused it."""
        if self.asking is None or not self.asking.line:
            return error
        place = f"{self.asking.file}, line {self.asking.line}: {self.asking.request}"
        return type(error)(f"{place}: {error}", error.field)

    def _config(self, way: Way) -> Config:
        """A way as a configuration of this search. The way's operations that are missing here came
        after all given ones."""
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
        return Config(way.machine, base, frozenset(ahead), frozenset(taken), waiting, way.since)

    def way(self, config: Config) -> Way:
        """A configuration of this search as a way."""
        known = (*range(config.base), *config.ahead)
        done = [self.known_places[at] for at in known]
        done += [self.lost_places[at] for at in config.taken]
        waiting = None
        if config.waiting is not None:
            is_known, at = config.waiting
            waiting = (self.known_places if is_known else self.lost_places)[at]
        return Way(config.machine, frozenset(done), waiting, is_carried=True, since=config.since)

    def after(self, config: Config) -> Iterator[Config]:  # noqa: C901 (the loop that decides the speed)
        """The possible next configurations, likely ones first."""
        candidates, until = self._candidates(config)
        self.reached = max(self.reached, until)
        later: list[Config] = []
        for at in candidates:
            if at in config.refused:
                continue
            request, fits = self.known_requests[at], False
            self.asking = self.known[at]
            if self.asking is self.in_question:
                self._answer(config, at)
            for after, is_answered in self._outcomes(config, request):
                fits = True
                if is_answered and self.asking is self.in_question:
                    continue
                if is_answered:
                    done = self._done(config, after, at)
                    is_same = after is config.machine
                    if is_same and self.refusals[at] and until < self.ends[at]:
                        later.append(done)  # it may have been refused in another state
                        continue
                    yield done
                    if is_same and self.idle[at]:
                        return  # no other time is better for it
                elif config.waiting is None:
                    yield self._with(config, after, waiting=(True, at))
            if not fits:
                config.refused.add(at)
        yield from self._lost(config, until, later)
        # operations after the horizon may be anything
        rest = _Rest(self, config) if self.horizon == float("inf") else None
        for step in config.machine.events(config.since, until, rest):
            self.budget.take(config.machine.size)
            if step is None:
                continue
            after, answer = step
            if answer is None or config.waiting is None:
                yield self._with(config, after, waiting=config.waiting)
                continue
            is_known, at = config.waiting
            if not is_known:
                if matches(self.lost[at].response, answer):
                    yield self._with(config, after, waiting=None)
                continue
            if self.known[at] is self.in_question:
                rows = partial(config.machine.rows, None, answer)
                self.answered.append((answer, self._done(config, after, at, waiting=None), rows))
            elif matches(self.known[at].response, answer):
                yield self._done(config, after, at, waiting=None)
        yield from later

    def _outcomes(self, config: Config, request: Any) -> Iterator[tuple[Judged, bool]]:
        """The possible effects of an operation in a configuration. Each effect costs a step. Raises
        LimitError."""
        size = config.machine.size
        self.budget.take(size)
        for number, found in enumerate(config.machine.outcomes(request)):
            if number:
                self.budget.take(size)
            yield found

    def _is_dead(self, config: Config) -> bool:
        return not self._may_end(config) or config.key() in self.dead

    def _may_end(self, config: Config) -> bool:
        """Whether the next answers are still possible."""
        coming: list[Operation] = []
        until = self.horizon
        for at in range(config.base, len(self.known_or_open)):
            if at >= config.base + LOOK_AHEAD and self.starts[at] > until:
                break
            if at not in config.ahead:
                coming.append(self.known_or_open[at])
                until = min(until, self.ends[at])
        self.budget.take(len(coming) // PER_STEP)
        return config.machine.may_still(coming)

    def _candidates(self, config: Config) -> tuple[list[int], float]:
        """The answered operations that can come next, idle ones first, then in the order of
        answers; and the time by which one of them must take effect."""
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
            twin = self.twins[at]
            is_first = twin is None or twin < config.base or twin in config.ahead or twin == waits
            if is_first and at != waits:
                found.append(at)
        self.met_horizon |= until == self.horizon
        self.budget.take(len(found) // PER_STEP)
        if len(found) > 1:
            found.sort(key=self.ranks.__getitem__)
        return found, until

    def _lost(self, config: Config, until: float, later: list[Config]) -> Iterator[Config]:
        """The configurations after an operation without an answer, the latest one first. Those in
        which a later copy wouldn't get its recorded answer go to `later`."""
        if len(config.taken) == len(self.lost):
            return
        self.budget.take(len(self.lost) // PER_STEP)
        before, seen = config.machine.key(), set[Hashable]()
        for at, operation in enumerate(self.lost):
            if operation.start > until or at in config.taken:
                continue
            key = self.lost_contents[at]
            if key in seen:  # interchangeable with an earlier one
                continue
            seen.add(key)
            taken = config.taken | {at}
            self.asking = operation
            for after, is_answered in self._outcomes(config, self.lost_requests[at]):
                if not is_answered and config.waiting is None:
                    yield self._with(config, after, taken=taken, waiting=(False, at))
                elif is_answered and after.key() != before:
                    found = self._with(config, after, taken=taken, waiting=config.waiting)
                    if self._fits_copy(found, at):
                        yield found
                    else:
                        later.append(found)

    def _fits_copy(self, config: Config, lost: int) -> bool:
        """Whether the next copy of an operation without an answer could get its recorded answer
        now; true without a copy."""
        coming = (at for at in self.copies[lost] if at >= config.base and at not in config.ahead)
        if (copy := next(coming, None)) is None:
            return True
        return any(True for _ in self._outcomes(config, self.known_requests[copy]))

    def _with(
        self, config: Config, machine: Judged, *, waiting: tuple[bool, int] | None,
        taken: frozenset[int] | None = None,
    ) -> Config:  # fmt: skip
        taken = config.taken if taken is None else taken
        return Config(machine, config.base, config.ahead, taken, waiting, config.since)

    def _done(self, config: Config, machine: Judged, at: int, **waiting: None) -> Config:
        base, ahead = config.base, config.ahead
        if at == base:
            base += 1
            while base in ahead:
                ahead -= {base}
                base += 1
        else:
            ahead |= {at}
        waits = waiting.get("waiting", config.waiting)
        since = max(config.since, self.starts[at])
        made = Config(machine, base, ahead, config.taken, waits, since)
        if machine is config.machine:
            made.refused = config.refused
        return made

    def _answer(self, config: Config, at: int) -> None:
        """Adds the successors for each possible answer to `in_question` now to `answered`."""
        known = self.known[at]
        for answer in config.machine.answers(self.known_requests[at]):
            self.budget.take(config.machine.size)
            request = self.read(known._replace(response=answer))
            rows = partial(config.machine.rows, request, answer)
            self.answered += (
                (answer, self._done(config, after, at), rows)
                for after, is_answered in config.machine.outcomes(request)
                if is_answered
            )
