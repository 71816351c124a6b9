"""Compares a system under test with the oracle: its requests, its answers, and the allowed answers.

    class MyBroker(System):
        def ask(self, request, fields):
            return my_broker.send(request, fields)

`Session` sends requests to a system and raises `DisagreementError` at the first answer that isn't
allowed. `replay` does the same with a trace, whose file `epochfence diff` also accepts.
`model.conformance.testing` generates the requests.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple

from ..cluster import Cluster
from ..engine.errors import ModelError
from ..requests import Answer, Line, checked, text_of
from .possible_states import PossibleState, PossibleStates

CAUSED = {
    "log_refuses", "withhold_ids", "expire_producers", "delete_records", "transaction_version",
}  # fmt: skip
"""The lines of a trace that cause faults, by broker settings or by requests of others."""

NO_ANSWER = "no_answer"
"""The only field of a response that stands for a missing answer. Its value is the reason."""


class UnansweredError(Exception):
    """A system doesn't answer a request, or its answer can't be read. An adapter raises it if this
    is the system's fault. A lost answer is None instead.

    `request` is the request's name, also if the adapter sent it for itself. `what` describes the
    failure in a few words: "the connection was closed".
    """

    def __init__(self, message: str, request: str, what: str) -> None:
        super().__init__(message)
        self.request, self.what = request, what


class System(ABC):
    """An adapter to a system under test. Each new adapter starts with an empty system.

    `transaction_version` is the finalized feature level (default: the release's). `prompt`: the
    system aborts timed-out transactions when time passes, and writes an end's markers before it
    answers. `passing` are errors that are always allowed and don't show whether the request had an
    effect, such as NOT_COORDINATOR. `requests` are the requests that the system knows.
    """

    transaction_version: int | None = None
    prompt: ClassVar[bool] = True
    passing: frozenset[str] = frozenset()
    requests: ClassVar[frozenset[str]] = frozenset(
        ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn", "Fetch")
    )

    @abstractmethod
    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The response to a request, with the fields of `model.requests`; None: it was lost.
        Missing fields aren't compared, so a response may have only an error. Raises
        UnansweredError."""

    def sleep(self, ms: int) -> None:
        """Lets time pass. Systems without this method have no time."""
        raise NotImplementedError

    def restart(self) -> None:
        """Crashes and restarts the system. Systems without this method never restart."""
        raise NotImplementedError

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        """Raises the epoch of an id without a transaction, as repeated InitProducerId requests
        would. Without this method, an id's last epochs aren't reached."""
        raise NotImplementedError

    def cause(self, line: Mapping[str, Any]) -> None:
        """Causes the event of a line with one of `CAUSED`. Without this method no such event
        happens."""
        raise NotImplementedError

    def resume(self, place: str) -> Mapping[str, Any] | None:
        """Continues the request that is held at this place (`held_at` in its fields, `held` in its
        answer), and returns its response. Without this method no request is held."""
        raise NotImplementedError

    def elapsed_ms(self) -> int:
        """The time since the last call, for a system with a clock of its own. Without this method,
        time passes only when a line makes the system sleep."""
        raise NotImplementedError

    def settle(self) -> bool:
        """Waits until no end is in progress. Returns whether that is certain. Only systems that
        aren't `prompt` need it. Without this method, ends may always be in progress."""
        raise NotImplementedError

    def tolerates(self, found: DisagreementError) -> bool:
        """Whether an answer that isn't allowed is tolerated. Then the run continues as if the
        answer was lost. Without this method no such answer is tolerated."""
        return False

    def close(self) -> None:  # noqa: B027
        """Closes the system at the end of its use."""

    @classmethod
    def can(cls, hook: str) -> bool:
        """Whether the adapter overrides this method."""
        return getattr(cls, hook) is not getattr(System, hook)


class Exchange(NamedTuple):
    """A line of a trace and its response; None: there is none, or it was lost."""

    line: Answer
    response: Answer | None

    def __str__(self) -> str:
        fields = dict(self.line)
        name = fields.pop("request", None)
        if name is None:
            return text_of(fields)
        if self.response is None:
            answered = "(lost)"
        else:
            answered = self.response.get(NO_ANSWER) or text_of(self.response)
        return f"{name}({text_of(fields)}) → {answered}"


class DisagreementError(AssertionError):
    """The last answer of a trace isn't allowed. `allowed` are the allowed answers. `reasons` has
    for each of them its row, and the conditions that exclude the actual answer. `is_beside`: the
    adapter sent the last request for itself, and got no answer."""

    def __init__(
        self, trace: list[Exchange], allowed: list[Answer], protocol: str,
        reasons: Sequence[Sequence[str]] = (), *, is_beside: bool = False,
    ) -> None:  # fmt: skip
        self.trace = trace
        self.is_beside = is_beside
        self.allowed = allowed
        self.protocol = protocol
        shown = [f"{at} {exchange}" for at, exchange in enumerate(trace, 1)]
        self.reasons = reasons
        for answer, lines in zip_longest(allowed, reasons[: len(allowed)], fillvalue=()):
            shown.append(f"  {protocol} allows: {text_of(dict(answer))}")
            shown += [f"    {line}" for line in lines]
        what = "no answer" if self.no_answer else "an answer that isn't allowed"
        super().__init__("\n".join([what, *shown]))

    @property
    def no_answer(self) -> str | None:
        """The failure instead of the last answer; None if there is an answer."""
        return (self.trace[-1].response or {}).get(NO_ANSWER)

    def lines(self) -> str:
        """The trace as the text of a file, for `replay` and `epochfence diff`, without the
        adapter's own request."""
        exchanges = self.trace[:-1] if self.is_beside else self.trace
        return "".join(f"{json.dumps(exchange.line)}\n" for exchange in exchanges)


class Session:
    """A run of requests to a system, compared with the allowed answers at `protocol`.

    `trace` has the run, with the producer ids that a cluster in memory would give. `compared`
    counts the answers that were neither lost nor a passing error. With `keeps_rows`,
    `possible.rows` are the rows that were certainly taken.
    """

    def __init__(
        self, system: System, protocol: str | None = None, *, keeps_rows: bool = False
    ) -> None:
        self.system = system
        self.possible = PossibleStates(
            protocol,
            prompt=system.prompt,
            passing=system.passing,
            transaction_version=system.transaction_version,
            keeps_rows=keeps_rows,
        )
        level = system.transaction_version
        self.guide = PossibleState(Cluster(protocol=protocol, transaction_version=level))
        self.protocol = self.guide.cluster.protocol
        self.trace: list[Exchange] = []
        self.compared = 0

    def ask(self, request: str, **fields: Any) -> Answer | None:
        """Sends a request, and returns the system's response. Raises DisagreementError if it isn't
        allowed, and ModelError for unknown fields."""
        line = {"request": request, **fields}
        return self._put(line, lambda: self.system.ask(request, fields))

    def _put(
        self, line: dict[str, Any], call: Callable[[], Mapping[str, Any] | None]
    ) -> Answer | None:
        try:
            response = call()
        except UnansweredError as error:
            if error.request != line.get("request"):
                raise self._silence(error) from error
            response = {NO_ANSWER: error.what}
        self._time_goes_by()
        ours = self.guide.inward(line)
        answered = self.guide.take(line)
        if response is not None:
            self.guide.name(answered, response)
        said = None if response is None else self.guide.inward(response)
        self.trace.append(Exchange(ours, said))
        if response is not None and response.get("error") not in self.possible.passing:
            self.compared += 1
        if allowed := self.possible.ask(line, response):
            shown = [self.guide.inward(answer) for answer in allowed]
            reasons = [self.possible.reasons(line, response or {}, answer) for answer in allowed]
            found = DisagreementError([*self.trace], shown, self.protocol, reasons)
            if not self.system.tolerates(found):
                raise found
            self.possible.ask(line, None)
        if self.system.can("settle"):
            with self._needing():
                is_settled = self.system.settle()
            if is_settled:
                self.possible.settle()
        return None if response is None else dict(response)

    @contextmanager
    def _needing(self) -> Generator[None]:
        """Raises DisagreementError if a request that the adapter sends for itself gets no
        answer."""
        try:
            yield
        except UnansweredError as error:
            raise self._silence(error) from error

    def _silence(self, error: UnansweredError) -> DisagreementError:
        last = Exchange({"request": error.request}, {NO_ANSWER: error.what})
        return DisagreementError([*self.trace, last], [], self.protocol, is_beside=True)

    def take(self, line: Line) -> None:
        """Executes a line of a trace. Raises as `ask`."""
        checked(line)
        fields = self.guide.outward(line, unknown=None)
        if "sleep_ms" in fields:
            self.sleep(fields["sleep_ms"])
        elif "restart" in fields:
            self.restart()
        elif "skip_to_epoch" in fields:
            self.skip_to_epoch(fields["transactional_id"], fields["skip_to_epoch"])
        elif "release" in fields:
            self._put(dict(line), lambda: self.system.resume(fields["release"]))
        elif "request" not in fields and CAUSED & fields.keys():
            self._happens(dict(line))
            with self._needing():
                self.system.cause(fields)
            self.possible.happens(line)
            self.possible.passing = self.system.passing
        elif "acls" in fields:
            raise ModelError("acls: a system under test has its own ACLs")
        else:
            self.ask(fields.pop("request", ""), **fields)

    def sleep(self, ms: int) -> None:
        """Lets time go by."""
        self._happens({"sleep_ms": ms})
        with self._needing():
            self.system.sleep(ms)
        if not self.system.can("elapsed_ms"):
            self.possible.sleep(ms)
        self._time_goes_by()

    def _time_goes_by(self) -> None:
        if self.system.can("elapsed_ms"):
            self.possible.sleep(self.system.elapsed_ms())

    def restart(self) -> None:
        """Restarts the system."""
        self._happens({"restart": True})
        with self._needing():
            self.system.restart()
        self.possible.restart()

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> bool:
        """Raises an id's epoch to this one, if that is possible. Returns whether it was."""
        states = (self.guide, *self.possible.states)
        coordinators = (state.cluster.coordinator for state in states)
        can = all(c.can_skip_to_epoch(transactional_id, producer_epoch) for c in coordinators)
        if can:
            self._happens({"skip_to_epoch": producer_epoch, "transactional_id": transactional_id})
            with self._needing():
                self.system.skip_to_epoch(transactional_id, producer_epoch)
            self.possible.skip_to_epoch(transactional_id, producer_epoch)
        return can

    def _happens(self, line: Answer) -> None:
        self.guide.take(line)
        self.trace.append(Exchange(line, None))


def replay(lines: Iterable[Line], system: System, protocol: str | None = None) -> list[Exchange]:
    """Sends the lines of a trace (see `model.requests.read`) to a system.

    Returns the session's exchanges. Raises DisagreementError at the first answer that isn't
    allowed, and ModelError for a wrong line.
    """
    session = Session(system, protocol)
    try:
        for line in lines:
            session.take(line)
    finally:
        system.close()
    return session.trace
