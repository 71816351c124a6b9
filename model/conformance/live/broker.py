"""A real cluster as a system under test: requests, time, crashes, and requests that are held."""

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
"""Errors that say nothing about the request's effect."""
IDS_AT_ONCE: Final = 100
SLOWEST_LOAD_S: Final = 30
EXPIRY_CHECK_MS: Final = "producer.id.expiration.check.interval.ms"
EXPIRY_CHECKS: Final = 4
"""Idle producers are forgotten after so many intervals."""
SOON_S: Final = 0.05
MOVED: Final = (
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
)
"""Errors of brokers that lead and coordinate no more."""
_PREPARED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
ENDS_HELD: Final = {"append", "decision", "completion"}
"""A held end stays in progress."""
_NOTHING: Final[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = ("", {}, {})


class NotHeldError(Exception):
    """A request was answered that should have been held, by an error that says nothing about it."""


class BrokerSystem(System):
    """The adapter, for one run of requests on `cluster`: see `Requests`.

    With `settles` an end is over before anything else is asked: its markers are written. `restarts`
    stops the brokers and starts them again; with `threads` a request can be held on its way.
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
        """The epochs of ids that were raised ahead, for `skip_to_epoch`."""
        self._told = time.monotonic()
        self._latency = 0.0
        self._ahead: tuple[str, Mapping[str, Any], Mapping[str, Any]] = _NOTHING

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """See System. None: its broker has gone, and others have taken over. Raises BrokerError
        where there is no broker, and NoAnswerError."""
        fields = self._requests.own(fields)
        began = time.monotonic()
        if (request, fields) == self._ahead[:2]:
            told, self._ahead = self._ahead[2], _NOTHING
        elif "held_at" in fields:
            told = self._hold(request, fields)
        else:
            told = self._sent(request, fields)
        self._latency = time.monotonic() - began
        return told

    def _sent(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        told = self._of_any(lambda: self._requests.ask(request, fields))
        if told is not None and told.get("error") in MOVED:
            self.cluster.forget_places()
        return told

    def _state(self, name: str) -> Mapping[str, Any]:
        """The state of a transactional id, from whoever coordinates it."""
        while (told := self._of_any(lambda: self._requests.state(name))) is None:
            pass
        return told

    def _of_any(self, ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """An answer of whichever broker has it now; None: that one has gone in place of it, and
        others have taken over."""
        until = time.monotonic() + SLOWEST_LOAD_S
        while True:
            try:
                return ask()
            except UnreachableError:  # it wasn't sent
                if not self.cluster.finds_others() or time.monotonic() > until:
                    raise
                time.sleep(SOON_S)
            except NoAnswerError as error:
                if not self.cluster.has_failed_over(error.request):
                    raise
                return None

    def send_ahead(self, request: str, fields: Mapping[str, Any]) -> None:
        """Sends a request right behind the next one, before that is answered; `ask` then has the
        answer to it. Several brokers would take the two in any order: there it isn't sent."""

        fields = self._requests.own(fields)

        def ask() -> None:
            self._ahead = request, fields, self._requests.ask(request, fields)

        if len(self.cluster.brokers) == 1:
            self.cluster.meanwhile = ask

    # Threads that are held --------------------------------------------------------------------

    def warm_up(self) -> None:
        """Begins a transaction, for which the broker loads its classes: in a class that isn't
        loaded no thread can be held."""
        ask = self._requests.ask
        told = ask("InitProducerId", {"transactional_id": "warm"})
        who = {name: told[name] for name in ("producer_id", "producer_epoch")}
        batch = {"partition": "warm", "transactional_id": "warm", **who, "base_sequence": 0}
        ask("Produce", batch)
        ask("EndTxn", {"transactional_id": "warm", **who, "result": "ABORT"})

    def _hold(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Holds the request at the place in its fields. Returns its answer if it doesn't get
        there."""
        assert self._threads is not None
        place, left = fields["held_at"], {k: v for k, v in fields.items() if k != "held_at"}

        def ask() -> Mapping[str, Any]:
            with self.cluster.aside():
                return self._requests.ask(request, left)

        breakpoints = self._threads.hold(place)
        pool = ThreadPoolExecutor(1)
        asked = pool.submit(ask)
        pool.shutdown(wait=False)
        if place == "completion":  # which follows the answer
            told, patience = asked.result(), PATIENCE_S
        else:
            told, patience = {}, SOON_S
        while not self._threads.held(breakpoints, patience):
            if asked.done():  # and no thread has come there
                self._threads.let_go(breakpoints)
                return asked.result()
        self._held[place] = asked, breakpoints
        return {**told, "held": place}

    def resume(self, place: str) -> Mapping[str, Any]:
        """See System. Raises NotHeldError."""
        assert self._threads is not None
        if place not in self._held:
            raise NotHeldError
        asked, breakpoints = self._held.pop(place)
        self._threads.let_go(breakpoints)
        told = asked.result()
        return {} if place == "completion" else told

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
        """Holds the controller's thread that gives out producer ids, and takes those that the
        broker has; or lets it go on, until there are ids again."""
        assert self._threads is not None
        if is_wanted:
            self._withheld = self._threads.hold("allocation")
            self.passing = PASSING - {NOT_YET}  # the answer: there is none
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
            told = connection.receive("InitProducerId", version, wave)["error_code"]
            has_ids = told == "NONE" or (
                is_wanted and not self._threads.held(self._withheld, SOON_S)
            )

    def _refuse(self, is_wanted: bool) -> None:
        """Has the transaction log refuse records, or take them again."""
        if is_wanted:
            self.cluster.settings.altered("max.message.bytes", "1")
        else:
            self.cluster.settings.restore()
        self._refuses = is_wanted
        self._probe("UNKNOWN_SERVER_ERROR" if is_wanted else "NONE")

    def _probe(self, error: str) -> None:
        """Waits until the transaction log takes records, or refuses them: until InitProducerId has
        this error."""
        until = time.monotonic() + PATIENCE_S
        name = f"{self.cluster.prefix}-probe"
        asked = {"transactional_id": name, "transaction_timeout": 60_000}
        node = self.cluster.coordinator(name)
        newest = min(self.cluster.newest("InitProducerId"), 2)
        while self.cluster.ask(node, "InitProducerId", asked, newest)["error_code"] != error:
            if time.monotonic() > until:
                raise BrokerError("the broker doesn't follow a change of its settings")
            time.sleep(0.02)

    def close(self) -> None:
        """Lets every thread go on, and restores changed settings."""
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
        """Waits, also until transactions that have timed out by then are aborted. `elapsed_ms`
        returns the time."""
        time.sleep(ms / 1000)
        if self.settles:
            self._until(
                lambda state: state["transaction_state"] != "Ongoing" or not _is_late(state)
            )

    def elapsed_ms(self) -> int:
        """The time since the last call, and the time of the last answer once more: a transaction
        may have begun as soon as it was asked for."""
        now = time.monotonic()
        ms = (now - self._told + self._latency) * 1000
        self._told = now
        self._latency = 0.0
        return round(ms) + 1

    def settle(self) -> bool:
        """Waits until no end is in progress but one that is held; whether it did."""
        if self.settles and not self._held.keys() & ENDS_HELD:
            self._until(lambda state: state["transaction_state"] not in _PREPARED)
        return self.settles

    def _until(self, is_over: Callable[[Mapping[str, Any]], bool]) -> None:
        """Waits for each id, but for one whose end has stayed in flight before: nobody ends it."""
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
            with suppress(UnreachableError, NoAnswerError):  # it is still starting
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
        asked = [{"partition": name} for name in self._requests.places]
        return all(self._requests.ask("ListOffsets", one).get("offset", -1) >= 0 for one in asked)

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        """See System: InitProducerId by InitProducerId."""
        if self.skipped.pop(transactional_id, None) != producer_epoch:
            use_up(self.cluster, [self.skip(transactional_id, producer_epoch)])

    def skip(self, transactional_id: str, producer_epoch: int) -> Skip:
        """The time that `use_up` takes to raise an id's epoch."""
        name = str(self._requests.id_of(transactional_id))
        now = self._state(name)["producer_epoch"] if self.settles else 0
        return Skip(name, now, producer_epoch)


def _is_late(state: Mapping[str, Any]) -> bool:
    return state["transaction_start_time"] + state["transaction_timeout"] < time.time() * 1000
