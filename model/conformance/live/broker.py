"""A real cluster as a system under test: requests, time, crashes, and held requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from ...wire.connection import BrokerError, NoAnswerError, UnreachableError
from ..session import DisagreementError, System
from .cluster.cluster import OF_TABLES, LiveCluster
from .cluster.producer_epochs import Skip, use_up
from .holds.hold_places import Threads
from .requests import NOT_YET, PATIENCE_S, Requests

PASSING: Final = frozenset(
    ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
     "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION",
     "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
)  # fmt: skip
"""Errors that don't show whether the request had an effect."""
IDS_AT_ONCE: Final = 100
SLOWEST_LOAD_S: Final = 30
EXPIRY_CHECK_MS: Final = "producer.id.expiration.check.interval.ms"
EXPIRY_CHECKS: Final = 4
"""The number of check intervals after which idle producers are forgotten."""
SOON_S: Final = 0.05
MOVED: Final = (
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
)
"""Errors of brokers that are no longer leader or coordinator."""
_PREPARED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
ENDS_HELD: Final = {"append", "decision", "completion"}
"""The places at which a held end stays in progress."""
_NOTHING: Final[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = ("", {}, {})


class NotHeldError(Exception):
    """A request that should have been held was answered with an uninformative error."""


class BrokerSystem(System):
    """An adapter for one run of requests on `cluster`: see `Requests`.

    With `settles`, all markers of an end are written before the next request is sent. `restarts`
    stops the brokers and starts them again. With `threads` requests can be held in the broker.
    """

    prompt = False
    passing = PASSING
    requests = OF_TABLES

    def __init__(
        self, cluster: LiveCluster, *, settles: bool = True,
        restarts: Callable[[], None] | None = None, threads: Threads | None = None,
        tolerates: Callable[[DisagreementError], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        self.cluster = cluster
        self.transaction_version = cluster.transaction_version
        self.settles = settles and "DescribeTransactions" in cluster.versions
        self._restarts, self._threads, self._tolerates = restarts, threads, tolerates
        self._withheld: list[int] = []
        self._refuses = False
        self._held: dict[str, tuple[Future[Mapping[str, Any]], list[int]]] = {}
        self._requests = Requests(cluster)
        self._stuck: set[str] = set()
        self.skipped: dict[str, int] = {}
        """The epochs to which ids were already raised, for `skip_to_epoch`."""
        self._elapsed_since = time.monotonic()
        self._latency = 0.0
        self._ahead: tuple[str, Mapping[str, Any], Mapping[str, Any]] = _NOTHING

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """See System. None: the broker has gone, and others have taken over. Raises BrokerError if
        there is no broker, and NoAnswerError."""
        fields = self._requests.own(fields)
        began = time.monotonic()
        if (request, fields) == self._ahead[:2]:
            answer, self._ahead = self._ahead[2], _NOTHING
        elif "held_at" in fields:
            answer = self._hold(request, fields)
        else:
            answer = self._sent(request, fields)
        self._latency = time.monotonic() - began
        return answer

    def _sent(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        answer = self._of_any(lambda: self._requests.ask(request, fields))
        if answer is not None and answer.get("error") in MOVED:
            self.cluster.forget_places()
        return answer

    def _state(self, name: str) -> Mapping[str, Any]:
        """The state of a transactional id, from its present coordinator."""
        while (answer := self._of_any(lambda: self._requests.state(name))) is None:
            pass
        return answer

    def _of_any(self, ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """Asks the broker that is responsible now. None: that broker has gone without an answer,
        and others have taken over."""
        until = time.monotonic() + SLOWEST_LOAD_S
        while True:
            try:
                return ask()
            except UnreachableError:  # the request wasn't sent
                if not self.cluster.finds_others() or time.monotonic() > until:
                    raise
                time.sleep(SOON_S)
            except NoAnswerError as error:
                if not self.cluster.has_failed_over(error.request):
                    raise
                return None

    def send_ahead(self, request: str, fields: Mapping[str, Any]) -> None:
        """Sends a request right after the next one, before the next one is answered. `ask` then
        returns its answer. With several brokers the order isn't certain, so it isn't sent."""

        fields = self._requests.own(fields)

        def ask() -> None:
            self._ahead = request, fields, self._requests.ask(request, fields)

        if len(self.cluster.brokers) == 1:
            self.cluster.meanwhile = ask

    # Threads that are held --------------------------------------------------------------------

    def warm_up(self) -> None:
        """Begins a transaction, so that the broker loads its classes. A debugger can't hold threads
        in a class that isn't loaded."""
        ask = self._requests.ask
        answer = ask("InitProducerId", {"transactional_id": "warm"})
        who = {name: answer[name] for name in ("producer_id", "producer_epoch")}
        batch = {"partition": "warm", "transactional_id": "warm", **who, "base_sequence": 0}
        ask("Produce", batch)
        ask("EndTxn", {"transactional_id": "warm", **who, "result": "ABORT"})

    def _hold(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Holds a request at the place in its fields. Returns its answer if it doesn't get
        there."""
        assert self._threads is not None
        place, left = fields["held_at"], {k: v for k, v in fields.items() if k != "held_at"}

        def ask() -> Mapping[str, Any]:
            with self.cluster.aside():
                return self._requests.ask(request, left)

        breakpoints = self._threads.hold(place)
        pool = ThreadPoolExecutor(1)
        body = pool.submit(ask)
        pool.shutdown(wait=False)
        if place == "completion":  # this place comes after the answer
            answer, patience = body.result(), PATIENCE_S
        else:
            answer, patience = {}, SOON_S
        while not self._threads.held(breakpoints, patience):
            if body.done():  # no thread got to the place
                self._threads.let_go(breakpoints)
                return body.result()
        self._held[place] = body, breakpoints
        return {**answer, "held": place}

    def resume(self, place: str) -> Mapping[str, Any]:
        """See System. Raises NotHeldError."""
        assert self._threads is not None
        if place not in self._held:
            raise NotHeldError
        body, breakpoints = self._held.pop(place)
        self._threads.let_go(breakpoints)
        answer = body.result()
        return {} if place == "completion" else answer

    def cause(self, line: Mapping[str, Any]) -> None:
        """See System."""
        if "delete_records" in line:
            topic, number = self._requests.place(line["delete_records"])
            self.cluster.delete_records(topic, number, line.get("before", -1))
        elif "expire_producers" in line:
            self.cluster.settings.altered("producer.id.expiration.ms", "1")
            time.sleep(EXPIRY_CHECKS * self.cluster.settings.value(EXPIRY_CHECK_MS) / 1000)
            self.cluster.settings.restore()
        elif "transaction_version" in line:
            self.cluster.settings.alter_features(line["transaction_version"])
        elif "withhold_ids" in line:
            self._withhold_ids(line["withhold_ids"])
        else:
            self._refuse(line["log_refuses"])

    def _withhold_ids(self, is_wanted: bool) -> None:
        """Holds the controller's thread that allocates producer ids, and uses up the broker's ids;
        or releases it, and waits until there are ids again."""
        assert self._threads is not None
        if is_wanted:
            self._withheld = self._threads.hold("allocation")
            self.passing = PASSING - {NOT_YET}  # now this error means: there is no id
        else:
            self._threads.let_go(self._withheld)
            self._withheld, self.passing = [], PASSING
        self._requests.waits_for_ids = not is_wanted
        connection = self.cluster.connection(self.cluster.coordinator(self.cluster.prefix))
        version = min(self.cluster.newest("InitProducerId"), 2)
        fields = {"transactional_id": None, "transaction_timeout": 60_000}
        until = time.monotonic() + PATIENCE_S
        has_ids = True
        while has_ids == is_wanted:
            if time.monotonic() > until:
                raise BrokerError("the broker doesn't run out of producer ids, or gets no new ones")
            wave = IDS_AT_ONCE if is_wanted else 1
            connection.send("InitProducerId", version, fields, wave)
            answer = connection.receive("InitProducerId", version, wave)["error_code"]
            has_ids = answer == "NONE" or (
                is_wanted and not self._threads.held(self._withheld, SOON_S)
            )

    def _refuse(self, is_wanted: bool) -> None:
        """Makes the transaction log refuse records, or accept them again."""
        if is_wanted:
            self.cluster.settings.altered("max.message.bytes", "1")
        else:
            self.cluster.settings.restore()
        self._refuses = is_wanted
        self._probe("UNKNOWN_SERVER_ERROR" if is_wanted else "NONE")

    def _probe(self, error: str) -> None:
        """Waits until InitProducerId has this error: the transaction log accepts or refuses
        records."""
        until = time.monotonic() + PATIENCE_S
        name = f"{self.cluster.prefix}-probe"
        body = {"transactional_id": name, "transaction_timeout": 60_000}
        node = self.cluster.coordinator(name)
        newest = min(self.cluster.newest("InitProducerId"), 2)
        while self.cluster.ask(node, "InitProducerId", body, newest)["error_code"] != error:
            if time.monotonic() > until:
                raise BrokerError("the broker doesn't follow a change of its settings")
            time.sleep(0.02)

    def close(self) -> None:
        """Releases all held threads, and restores changed settings."""
        with suppress(BrokerError):
            if self._refuses:
                self._refuse(False)
            self.cluster.settings.restore()
            self.cluster.settings.restore_features()
            if self._withheld:
                self._withhold_ids(False)
        for place in list(self._held):
            with suppress(BrokerError):
                self.resume(place)

    # Time and crashes -------------------------------------------------------------------------

    def tolerates(self, found: DisagreementError) -> bool:
        """See System."""
        return self._tolerates(found)

    def sleep(self, ms: int) -> None:
        """Waits, and then until transactions whose timeout is over are aborted. `elapsed_ms`
        returns the real time."""
        time.sleep(ms / 1000)
        if self.settles:
            self._until(
                lambda state: state["transaction_state"] != "Ongoing" or not _is_late(state)
            )

    def elapsed_ms(self) -> int:
        """The time since the last call, plus the last request's duration: a transaction may have
        begun when its request was sent."""
        now = time.monotonic()
        ms = (now - self._elapsed_since + self._latency) * 1000
        self._elapsed_since = now
        self._latency = 0.0
        return round(ms) + 1

    def settle(self) -> bool:
        """Waits until no end is in progress, unless an end is held. Returns `settles`."""
        if self.settles and not self._held.keys() & ENDS_HELD:
            self._until(lambda state: state["transaction_state"] not in _PREPARED)
        return self.settles

    def _until(self, is_over: Callable[[Mapping[str, Any]], bool]) -> None:
        """Waits until the condition holds for each id. Skips ids that didn't reach it in time
        before."""
        for name in self._requests.ids:
            until = time.monotonic() + PATIENCE_S
            while name not in self._stuck and not is_over(self._state(name)):
                time.sleep(0.002)
                if time.monotonic() > until:
                    self._stuck.add(name)

    def restart(self) -> None:
        """See System."""
        assert self._restarts is not None
        self._restarts()
        if self._threads is not None:
            self._threads.drop()
        self._held.clear()
        self.cluster.drop()
        until = time.monotonic() + SLOWEST_LOAD_S
        while time.monotonic() < until:
            with suppress(UnreachableError, NoAnswerError):  # a broker is still starting
                if self._is_back():
                    break
            time.sleep(0.1)

    def _is_back(self) -> bool:
        """Whether coordinators and leaders answer again. Raises UnreachableError or
        NoAnswerError."""
        for name in self._requests.ids if self.settles else ():
            if self._state(name)["error_code"] in PASSING:
                self.cluster.forget_places()
                return False
        body = [{"partition": name} for name in self._requests.places]
        return all(self._requests.ask("ListOffsets", one).get("offset", -1) >= 0 for one in body)

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        """See System. Sends one InitProducerId for each epoch."""
        if self.skipped.pop(transactional_id, None) != producer_epoch:
            use_up(self.cluster, [self.skip(transactional_id, producer_epoch)])

    def skip(self, transactional_id: str, producer_epoch: int) -> Skip:
        """The argument of `use_up` that raises an id's epoch."""
        name = str(self._requests.id_of(transactional_id))
        now = self._state(name)["producer_epoch"] if self.settles else 0
        return Skip(name, now, producer_epoch)


def _is_late(state: Mapping[str, Any]) -> bool:
    return state["transaction_start_time"] + state["transaction_timeout"] < time.time() * 1000
