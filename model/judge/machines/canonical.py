"""States of a coordinator up to renaming. No step is computed twice.

A transactional id's coordinator takes the same steps for any producer ids, partitions, times and
epochs: rows compare ids for equality, put partitions into sets, copy times, increment and compare
epochs. So a state is stored as a `Form` and a map of names. In the form, ids and partitions are
numbered by the history, and epochs are shifted to `MIDDLE`. `judged.Coordinator` computes a
request's effect in a form once for all histories.

Two decisions need real values. Timeouts are checked each time. Epochs near the ends of their range
aren't shifted, because rows compare them with the ends: only `LOWEST` to `HIGHEST` are shifted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import repeat
from math import ceil, isfinite
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from ....spec.messages import EPOCH, NO_EPOCH, TIMESTAMP, transaction
from ...engine.errors import WrongTypeError
from ...engine.machine import Machine, Taken, watched
from ..operations import Judged, Operation, Rest, Settings, matches
from . import coordinator as judged
from .coordinator import LARGEST_EPOCH, STEPS, Step
from .decisions import AtPartition
from .group import Offset
from .leader import LEADER_REQUESTS, Leader
from .unjudged_answers import COORDINATOR_REQUESTS, GROUP_REQUESTS

T = TypeVar("T")
LOWEST, HIGHEST = 1, LARGEST_EPOCH - 10  # no request raises an epoch by ten
MIDDLE = LARGEST_EPOCH // 2
TIMES = tuple(name for name, info in transaction.fields.items() if info.type == TIMESTAMP)
NEVER = -1
LATER = 2**62
"""The present in a form. Earlier times are 0, 1, ..., one for each of `TIMES`."""
SHORTEST_MS = 1
"""The timeout in ms of a transaction without a recorded one: it may time out at any time."""
MOST = 100_000
"""The largest number of remembered outcomes."""


def machine_for(
    operations: Sequence[Operation],
    settings: Settings,
    about: AtPartition | None = None,
    latest: float = float("inf"),
) -> Judged:
    """The machine that judges these operations of one key, in its initial state. `about` has the
    evidence of its run's transactional ids about a partition. No operation starts or ends after
    `latest`."""
    requests = {operation.request for operation in operations}
    if requests <= {*COORDINATOR_REQUESTS}:
        memory = _memory(settings)
        names = _Names(operations, latest - shortest_ms(operations, settings) + 1)
        return Coordinator(names, memory, memory.unknown, 0, (NEVER,) * len(TIMES))
    if requests <= {*LEADER_REQUESTS}:
        return Leader(operations, settings, about, latest)
    if requests <= {*GROUP_REQUESTS}:
        return Offset(operations, settings, about)
    raise WrongTypeError(f"no key has all of {', '.join(sorted(requests))}", "request")


def shortest_ms(operations: Iterable[Operation], settings: Settings) -> int:
    """The shortest timeout or expiration of these operations, in ms."""
    timeouts = (
        operation.fields.get("transaction_timeout_ms", SHORTEST_MS)
        for operation in operations
        if operation.request == "InitProducerId"
    )
    return min([settings.transactional_id_expiration_ms, *timeouts])


class Form:
    """A state without names. `epochs` are its epochs, if they are shifted. `outcomes` and `steps`
    are its computed successors; None: they depend on the real epochs."""

    __slots__ = (
        "entry", "highest", "is_shifted", "lowest", "outcomes", "producer_epoch", "producer_id",
        "size", "steps", "timed",
    )  # fmt: skip

    def __init__(self, entry: Machine | None, epochs: Sequence[int] = ()) -> None:
        self.entry = entry
        self.is_shifted = bool(epochs)
        self.size = 1 if entry is None else 1 + len(entry["partitions"]) // judged.PER_STEP
        self.lowest, self.highest = min(epochs, default=0), max(epochs, default=0)
        self.producer_id = -1 if entry is None else entry["producer_id"]
        self.producer_epoch = NO_EPOCH if entry is None else entry["producer_epoch"]
        self.outcomes: dict[_RequestKey, list[_Change] | None] = {}
        self.steps: list[_Change] | None = None
        self.timed: judged.Coordinator | None = None  # the state at the times of the last check


class _Change(NamedTuple):
    """A successor of a form: the next form, the additional shift of epochs, the choice of its times
    from the earlier times, now and never (None: unchanged), and the answer (None: not yet). `step`
    is the machine's step, if it depends on the time or on the clients' knowledge."""

    form: Form
    shift: int
    times: Callable[[tuple[int, ...]], tuple[int, ...]] | None
    answer: Mapping[str, Any] | None
    step: Step | None = None


class _Memory:
    """All forms so far of coordinators with these settings."""

    def __init__(self, settings: Settings) -> None:
        self.exact = judged.Coordinator(settings)
        self.unknown = Form(None)
        self.forms: dict[Hashable, Form] = {}
        self.known = 0

    def form(self, entry: Machine, shift: int | None) -> Form:
        """The form of an entry with epochs shifted by `shift`; None: not shifted."""
        if shift is not None:
            entry = _moved(entry, -shift)
        key = entry.kept(judged.UNSEEN, judged.without_keys), shift is None
        found = self.forms.get(key)
        if found is None:
            found = self.forms[key] = Form(entry, () if shift is None else _epochs(entry))
        return found

    def change(
        self,
        before: Form,
        entry: Machine | None,
        answer: Mapping[str, Any] | None,
        step: Step | None = None,
    ) -> _Change | None:
        """The change from a form to this entry; None if it depends on the real epochs."""
        if entry is None:
            return _Change(self.unknown, 0, itemgetter(*[-1] * len(TIMES)), answer, step)
        shift = entry["producer_epoch"] - MIDDLE
        epochs = [entry["producer_epoch"], *_epochs(entry)]
        answer_epoch = (answer or {}).get("producer_epoch", NO_EPOCH)
        if answer_epoch != NO_EPOCH and before.is_shifted:
            epochs.append(answer_epoch)
        if not all(_may_shift(epoch, shift) for epoch in epochs):
            if before.is_shifted:
                return None
            shift = None
        places = [{LATER: len(TIMES), NEVER: -1}.get(entry[name], entry[name]) for name in TIMES]
        entry = entry.copy()
        entry.put(**{name: at for at, name in enumerate(TIMES)})
        times = None if places == [*range(len(TIMES))] else itemgetter(*places)
        return _Change(self.form(entry, shift), shift or 0, times, answer, step)

    def outcomes(
        self, form: Form, request: _Request, request_key: _RequestKey
    ) -> list[_Change] | None:
        """The results of a request in a form in which it gets its recorded answer now or may get it
        later. None: they depend on the real epochs."""
        response = request.response | _epoch(request_key[2])
        found: list[_Change] = []
        for after, answer in self.answers(form, request, request_key):
            if answer is not None and not matches(response, answer):
                continue
            change = self.change(form, after.entry, answer)
            if change is None:
                return None
            if answer is not None or self._may_come(after, response):
                found.append(change)
        self.known += 1
        if self.known > MOST:
            self.known, self.forms, self.unknown = 0, {}, Form(None)
        return found

    def _may_come(self, waiting: judged.Coordinator, response: Mapping[str, Any]) -> bool:
        """Whether a waiting request may get this response; true in doubt. While a record is
        pending, other requests are refused, so only the coordinator's own steps count."""
        coming, seen = [waiting], {waiting.key()}
        while coming:
            now = coming.pop()
            for after, answer in filter(None, (now.take(step, LATER) for step in STEPS)):
                if answer is not None:
                    if matches(response, answer):
                        return True
                elif after.entry is None or after.entry["pending"] is None:
                    return True
                elif after.key() not in seen:
                    seen.add(after.key())
                    coming.append(after)
        return False

    def answers(
        self, form: Form, request: _Request, request_key: _RequestKey
    ) -> Iterator[tuple[judged.Coordinator, Mapping[str, Any] | None]]:
        """All effects of a request in a form, each with its answer (None: not yet)."""
        operation = Operation(request.name, request.fields | _epoch(request_key[1]), LATER)
        return self.exact.at(form.entry, LATER).outcomes(operation, request.ids)

    def steps(self, form: Form) -> list[_Change] | None:
        """The coordinator's own steps in a form. None: they depend on the real epochs."""
        here, found = self.exact.at(form.entry, LATER), list[_Change]()
        for step in STEPS:
            taken = here.take(step, LATER)
            if taken is None:
                continue
            after, answer = taken
            depends = step.is_timed or step.by_client
            change = self.change(form, after.entry, answer, step if depends else None)
            if change is None:
                return None
            found.append(change)
        return found


@lru_cache(maxsize=8)
def _memory(settings: Settings) -> _Memory:
    return _Memory(settings)


def _epoch(epoch: int | None) -> dict[str, int]:
    return {} if epoch is None else {"producer_epoch": epoch}


def _may_shift(epoch: int, by: int) -> bool:
    return LOWEST <= epoch <= HIGHEST and LOWEST <= epoch - by <= HIGHEST


def _epochs(entry: Machine) -> list[int]:
    """All epochs in an entry."""
    found: list[int] = []
    entry.mapped(EPOCH, lambda epoch: found.append(epoch) or epoch)
    return [epoch for epoch in found if epoch != NO_EPOCH]


def _moved(entry: Machine, by: int) -> Machine:
    """An entry with `by` added to all epochs."""
    return entry.mapped(EPOCH, lambda epoch: epoch if epoch == NO_EPOCH else epoch + by)


class _Names:
    """The numbers of a history's producer ids and partitions. No producer has id 0.

    A timeout that begins at `never_over_from` or later isn't over by the end of the history, so
    this time replaces all later ones.
    """

    def __init__(self, operations: Sequence[Operation], never_over_from: float) -> None:
        self.never_over_from = max(0, ceil(never_over_from)) if isfinite(never_over_from) else None
        held = {
            found["producer_id"]
            for operation in operations
            for found in (operation.fields, operation.response or {})
            if found.get("producer_id", -1) >= 0
        }
        self.ids = (max(held, default=0) + 1, *sorted(held, reverse=True))
        self.numbers = {producer_id: at for at, producer_id in enumerate(self.ids)}
        self.partitions: dict[Any, int] = {}

    def numbered(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
        """The fields with numbers for names, without the epoch, and the epoch."""
        fields = dict(given)
        if fields.get("producer_id", -1) >= 0:
            fields["producer_id"] = self.numbers[fields["producer_id"]]
        if isinstance(fields.get("partitions"), (list, tuple, set, frozenset)):
            numbers, parts = self.partitions, fields["partitions"]
            fields["partitions"] = sorted(numbers.setdefault(p, len(numbers)) for p in parts)
        is_epoch = type(fields.get("producer_epoch")) is int
        return fields, fields.pop("producer_epoch") if is_epoch else None


_RequestKey = tuple[str, int | None, int | None]
"""The key of a request: its content, its epoch (or None) and that of its response (or None)."""


class _Request:
    """An operation without names and epochs. `ids` are the producer ids that it may get."""

    __slots__ = ("_found", "_shift", "exactly", "fields", "ids", "name", "response", "start")

    def __init__(self, operation: Operation, names: _Names) -> None:
        self.name, self.start = operation.request, int(operation.start)
        self.fields, request_epoch = names.numbered(operation.fields)
        self.response, response_epoch = names.numbered(operation.response or {})
        if self.name == "InitProducerId" and "transaction_timeout_ms" not in self.fields:
            is_refused = self.response.get("error") == "INVALID_TRANSACTION_TIMEOUT"
            self.fields["transaction_timeout_ms"] = 0 if is_refused else SHORTEST_MS
        new_id = self.response.get("producer_id", -1)
        self.ids = (new_id,) if new_id >= 0 else range(len(names.ids))
        content = f"{self.name} {self.fields} {self.ids} {self.response}"
        self.exactly: _RequestKey = content, request_epoch, response_epoch
        self._shift, self._found = 0, self.exactly

    def at(self, shift: int) -> _RequestKey | None:
        """The key with its epochs shifted by `shift`; None if they leave the range."""
        if shift == 0:
            return self.exactly
        if shift != self._shift:  # most calls have the same shift
            content, request_epoch, response_epoch = self.exactly
            self._shift, self._found = shift, None
            if request_epoch is not None and request_epoch != NO_EPOCH:
                if not _may_shift(request_epoch, shift):
                    return None
                request_epoch -= shift
            if response_epoch is not None and response_epoch != NO_EPOCH:
                if not _may_shift(response_epoch, shift):
                    return None
                response_epoch -= shift
            self._found = content, request_epoch, response_epoch
        return self._found


class Coordinator:
    """The coordinator of one transactional id: a form and its names."""

    __slots__ = ("form", "last_answered", "memory", "names", "shift", "times")

    def __init__(
        self, names: _Names, memory: _Memory, form: Form, shift: int, times: tuple[int, ...],
        last_answered: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        self.names, self.memory = names, memory
        self.form, self.shift, self.times = form, shift, times
        # the id and epoch at the last answer: clients know no later ones
        self.last_answered = last_answered

    @property
    def held(self) -> tuple[int, int]:
        """The number of the producer id, and the epoch."""
        return self.form.producer_id, self.form.producer_epoch + self.shift

    def read(self, operation: Operation) -> _Request:
        """See Judged."""
        return _Request(operation, self.names)

    def key(self) -> Hashable:
        """See Judged."""
        return self.form, self.shift, self.times, self.last_answered

    def is_decided(self, request: str, error: str) -> bool:
        """See Judged."""
        return self.memory.exact.is_decided(request, error)

    def errors(self, request: str) -> frozenset[str]:
        """See Judged."""
        return self.memory.exact.errors(request)

    def open(self) -> Iterator[str]:
        """See Judged."""
        state = None if self.form.entry is None else self.form.entry["state"]
        if state in ("ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT"):
            number, epoch = self.held
            word = "open" if state == "ONGOING" else f"in {state}"
            yield f"the transaction of producer {self.names.ids[number]}, epoch {epoch}, is {word}"

    def against(self, operation: Operation) -> str:
        """See Judged."""
        return ""

    def rank(self, operation: Operation) -> float:
        """See Judged. Epochs rise."""
        for found in (operation.response or {}, operation.fields):
            if found.get("producer_epoch", -1) >= 0:
                return found["producer_epoch"]
        return float("inf")

    def is_idle(self, operation: Operation) -> bool:
        """See Judged. InitProducerId creates a missing entry even if it fails."""
        response, request = operation.response, operation.request
        return (
            response is not None
            and request != "InitProducerId"
            and response["error"] in self.memory.exact.harmless
        )

    @property
    def size(self) -> int:
        """See Judged."""
        return self.form.size

    def may_still(self, operations: Iterable[Operation]) -> bool:
        """See Judged. The epoch of a producer id doesn't go back."""
        form = self.form
        if form.entry is None:
            return True
        producer_id, epoch = self.names.ids[form.producer_id], form.producer_epoch + self.shift
        for operation in operations:
            response = operation.response or {}
            if (
                response.get("producer_epoch", epoch) < epoch
                and response.get("producer_id") == producer_id
            ):
                return False
        return True

    def outcomes(self, request: _Request) -> Iterable[tuple[Coordinator, bool]]:
        """See Judged."""
        request_key, known = request.at(self.shift), self.form.outcomes
        if request_key in known:
            found = known[request_key]
        elif request_key is None:
            found = None
        else:
            found = known[request_key] = self.memory.outcomes(self.form, request, request_key)
        if found is None:
            return self._as_mine(self._exactly().outcomes(request))
        return map(self._answered, found, repeat(request.start)) if found else ()

    def answers(self, request: _Request) -> Iterator[Mapping[str, Any]]:
        """See Judged."""
        here = self._exactly()
        for _, answer in self.memory.answers(here.form, request, request.exactly):
            if answer is not None:
                yield here._named(answer)

    def rows(self, request: _Request | None, answer: Mapping[str, Any]) -> Sequence[Taken]:
        """See Judged."""
        here = self._exactly()
        exact = self.memory.exact.at(here.form.entry, LATER)

        def answers() -> Iterator[Mapping[str, Any] | None]:
            if request is not None:
                yield from (
                    given for _, given in self.memory.answers(here.form, request, request.exactly)
                )
            else:
                yield from (found and found[1] for found in (exact.take(s, LATER) for s in STEPS))

        with watched() as taken:
            for given in answers():
                if given is not None and here._named(given) == answer:
                    break
                taken.clear()
        return taken

    def events(
        self, since: float, until: float, rest: Rest | None = None
    ) -> Iterator[tuple[Coordinator, Mapping[str, Any] | None]]:
        """See Judged. All requests concern the same id, so `rest` isn't used."""
        form = self.form
        times = range(int(min(max(since, *self.times), until)), int(until) + 1)
        if form.steps is None:
            form.steps = self.memory.steps(form)
            if form.steps is None:
                yield from self._as_mine(self._exactly().events(since, until))
                return
        for change in form.steps:
            now = times[0]
            if (
                change.step is not None
                and change.step.by_client
                and self.held != self.last_answered
            ):
                continue
            if change.step is not None and change.step.is_timed:
                if not self._is_time(change.step, times[-1]):
                    continue
                now = times[bisect_left(times, True, key=partial(self._is_time, change.step))]
            after, answer = self._after(change, now), change.answer
            if after is not self or answer is not None:
                yield after, None if answer is None else self._named(answer)

    def _answered(self, change: _Change, now: int) -> tuple[Coordinator, bool]:
        return self._after(change, now), change.answer is not None

    def _after(self, change: _Change, now: int) -> Coordinator:
        form, shift, pick, answer, _ = change
        shift += self.shift
        if self.names.never_over_from is not None:
            now = min(now, self.names.never_over_from)
        times = self.times if pick is None else pick((*self.times, now, NEVER))
        is_same = form is self.form and shift == self.shift and times == self.times
        if is_same and (answer is None or self.last_answered == self.held):
            return self
        if not form.is_shifted:
            shift = 0
        elif form.highest + shift > HIGHEST or form.lowest + shift < LOWEST:
            assert form.entry is not None
            form, shift = self.memory.form(_moved(form.entry, shift), None), 0
        after = Coordinator(self.names, self.memory, form, shift, times, self.last_answered)
        if answer is not None:
            after.last_answered = after.held
        return after

    def _named(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer with names for numbers."""
        if answer.get("producer_epoch", NO_EPOCH) == NO_EPOCH:
            return answer
        return {
            "error": answer["error"],
            "producer_id": self.names.ids[answer["producer_id"]],
            "producer_epoch": answer["producer_epoch"] + self.shift,
        }

    def _is_time(self, step: Step, now: int) -> bool:
        """Whether a timed step can happen at this time."""
        timed = self.form.timed
        if timed is None:
            timed = self.form.timed = self.memory.exact.at(self.form.entry, now)
        assert timed.entry is not None
        timed.coordinator.now_ms = now
        timed.entry.put(**dict(zip(TIMES, self.times, strict=True)))
        return step.can(timed.coordinator)

    def _exactly(self) -> Coordinator:
        """The coordinator in a form that isn't shifted."""
        if not self.form.is_shifted:
            return self
        assert self.form.entry is not None
        form = self.memory.form(_moved(self.form.entry, self.shift), None)
        return Coordinator(self.names, self.memory, form, 0, self.times, self.last_answered)

    def _as_mine(self, found: Iterable[tuple[Coordinator, T]]) -> Iterator[tuple[Coordinator, T]]:
        """The results, with this object for an unchanged state."""
        mine = self.key()
        for after, answer in found:
            yield (self if after.key() == mine else after), answer
