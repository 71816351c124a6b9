"""A run against real brokers: the directed suite, then random requests, and what came of both."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..cluster import Cluster
from ..conformance import Disagreement, Exchange, Session, System
from ..honest import Level
from ..possible_states import RowName, TooManyStates
from ..shrink import smallest
from .broker import BrokerSystem, NotHeld
from .clients import Versions, of_releases, versions_of
from .cluster import LiveCluster
from .connection import BrokerError
from .directed import PATIENCE, Line, Way, existing, ways
from .drawn import Drawn, DrawnHonest
from .threads import Threads
from .together import Going, Shared, at_once, is_slow, takes_long, together

TRIES: Final = 30
"""So often a row is tried that takes a request while an end is in progress."""
TRIES_AGAIN: Final = 2
"""And so often any other."""
LENGTH: Final = 40
"""So many requests a random run has."""
RAW_LENGTH: Final = 12
"""So many it has where ends aren't waited for: with each of them more states are possible."""
MOST_FINDINGS: Final = 20
"""After so many disagreements that differ a run ends."""

_REPLICA = "takes a replica of the transaction log that is behind, and a broker that comes back"
_MOVES = "takes another broker, which takes over"
BESIDE: Final[Mapping[str, str]] = {
    "LeaderAndIsr": _MOVES,
    "load ends": _MOVES,
    "append failure": "takes a transaction log that refuses a record: --alter-configs",
    "coordinator failover": "takes a restart: --restart-command",
    "coordinator failover after a failed append": _REPLICA,
    "transactional id expiry": "takes transactional.id.expiration.ms, which is a week",
    "producer expires": "takes producer.id.expiration.ms: --alter-configs",
    "question expires": "takes producer.id.expiration.ms: --alter-configs",
    "records are deleted": "takes DeleteRecords: --alter-configs",
}
"""The reasons why rows of events that aren't requests aren't provoked."""
_ID = "takes a controller that gives out no producer ids: --debugger"
_TWO_LEVELS = "takes a transaction at the largest epoch: transaction.version has to change"
_AT_ONCE = "takes a request that is held between two of its steps: --debugger"
ALONE: Final[Mapping[str, str]] = {
    "no producer id to be had": _ID,
    "no producer id for the abort": _ID,
    "no producer id for an abort that overtakes a fence": _ID,
    "verify, unknown transactional id": "takes an entry without an epoch: --alter-configs",
    "loading": _MOVES,
    "not the coordinator": _MOVES,
    "coordinator moved": _MOVES,
    "again": "takes a leader that refuses a marker for now",
    "unexpected": "takes a leader that answers a marker as none does",
    "abort overtakes a fence": _AT_ONCE,
    "commit meets a fence": _AT_ONCE,
    "stale epoch, whatever the answer": _AT_ONCE,
    "question no longer counts": _AT_ONCE,
    "commit or abort in progress": _AT_ONCE,
    "end in progress": _AT_ONCE,
    "other end in progress": _AT_ONCE,
    "no two-phase commit here": "takes InitProducerId 6: unstable.api.versions.enable",
    "end at the largest epoch": _TWO_LEVELS,
    "nothing prepared is kept yet": "takes InitProducerId 6: unstable.api.versions.enable",
    "transactional id forgotten": BESIDE["transactional id expiry"],
    "forget the transition, whose record is in the log": _REPLICA,
    "the tombstone is in the log": BESIDE["transactional id expiry"],
}
"""The reasons why requests one after another don't reach certain rows."""
ABSENT: Final[Mapping[tuple[str, str], str]] = {
    ("look up", "describe nothing"): "no DescribeTransactions is without an id",
    ("WriteTxnMarkersResponse", "on a closed connection"): "nobody reads what comes too late",
    ("continue the fence", "unknown transactional id"): "an entry that is fenced has its epoch",
}
"""Rows that a broker can't take; they are there for what asks the tables without one."""


@dataclass(frozen=True)
class Finding:
    """A disagreement, as the smallest run to it; the suite that found it, and how often it came."""

    suite: str
    disagreement: Disagreement


@dataclass
class Report:
    """The result of a run. `rows` are those of the release, in the order of tables."""

    bootstrap: str
    protocol: str
    transaction_version: int
    versions: Versions
    is_settled: bool
    seed: int
    rows: list[RowName] = field(default_factory=list[RowName])
    provoked: set[RowName] = field(default_factory=set[RowName])
    missed: dict[RowName, str] = field(default_factory=dict[RowName, str])
    answers: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    findings: list[Finding] = field(default_factory=list[Finding])
    requests: dict[str, int] = field(default_factory=dict[str, int])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    ended_early: str | None = None
    level: Level = "any"
    without: list[str] = field(default_factory=list[str])
    """The requests that weren't sent because the user lacks permission."""

    @property
    def existing(self) -> list[RowName]:
        """The rows that a broker can take."""
        return [row for row in self.rows if (row.event, row.row) not in ABSENT]

    @property
    def from_outside(self) -> list[RowName]:
        """The rows that are provoked, or no reason is known why they can't be by requests one after
        another."""
        return [row for row in self.rows if row in self.provoked or why_not(row) is None]


def why_not(row: RowName) -> str | None:
    """Why requests one after another don't reach a row, where that is known."""
    if (row.event, row.row) in ABSENT:
        return ABSENT[row.event, row.row]
    if row.event == "continue the fence" and row.row not in ALONE:
        return _AT_ONCE
    if row.row == "unknown transactional id" and row.event != "look up":
        return ALONE["verify, unknown transactional id"]
    return ALONE.get(row.row, BESIDE.get(row.event))


class Run:
    """Suites against a cluster. `report` grows; what it has is kept where the cluster goes away.

    `protocol` is the release that the cluster is held to, `level` which requests are sent. With
    `settles` each end is over before anything else is asked, else answers of both kinds are
    allowed.
    """

    def __init__(
        self, cluster: LiveCluster, bootstrap: str, protocol: str, *, settles: bool = True,
        seed: int = 0, as_client: str | None = None, restarts: Callable[[], None] | None = None,
        threads: Threads | None = None, alters: bool = False, level: Level = "any",
    ) -> None:  # fmt: skip
        self.cluster, self.protocol = cluster, protocol
        self.settles = settles and "DescribeTransactions" in cluster.versions
        self.restarts, self.threads, self.alters = restarts, threads, alters
        cluster.check_settings()
        cluster.warm_up()
        self.versions = versions_of(cluster.versions, as_client)
        self.report = Report(
            bootstrap, protocol, cluster.transaction_version, self.versions, self.settles, seed
        )
        oracle = Cluster(protocol=protocol, transaction_version=cluster.transaction_version)
        self.report.level = level
        self._releases = [*of_releases(self.versions, oracle)]
        self.report.rows = existing(oracle, self.versions)
        self.report.without = cluster.without
        self._known: set[tuple[Any, ...]] = set()
        self._unshrunk: list[Disagreement] = []

    def system(self) -> System:
        """The cluster as if nothing had been done in it."""
        return self._system()

    def _system(self, restarts: Callable[[], None] | None = None) -> BrokerSystem:
        return BrokerSystem(
            self.cluster, settles=self.settles, restarts=restarts or self.restarts,
            threads=self.threads,
        )  # fmt: skip

    def _session(self) -> Session:
        return Session(self.system(), self.protocol, keeps_rows=True)

    # The directed suite -----------------------------------------------------------------------

    def directed(self) -> None:
        """Goes to each row on the way that a search found."""
        found = ways(
            self.protocol, self.cluster.transaction_version, self.versions, patience=PATIENCE,
            restarts=self.restarts is not None,
            holds=self.threads is not None and self.settles, alters=self.alters,
            level=self.report.level,
        )  # fmt: skip
        with self._counted("directed"):
            if self.threads is not None:
                BrokerSystem(self.cluster).warm_up()
            wanted = {row: found[row] for row in self.report.rows if row in found}
            for row, way in wanted.items():
                if row not in self.report.provoked and not is_slow(way):
                    self._go(row, way)
            for those in at_once({row: way for row, way in wanted.items() if is_slow(way)}):
                self._go_together(
                    {row: way for row, way in those.items() if row not in self.report.provoked}
                )
        is_whole = self.report.ended_early is None
        for row in self.report.rows:
            if row in self.report.provoked or row in self.report.missed:
                continue
            if is_whole or row not in found:
                self.report.missed[row] = self._why_not(row)

    def _why_not(self, row: RowName) -> str:
        """Why the search has found no way to a row."""
        if self.report.level == "well-behaved" and why_not(row) is None:
            return _NOT_HONEST
        why = why_not(row) or _NOT_FOUND
        given = {"--debugger": self.threads, "--restart-command": self.restarts}
        given |= {"--alter-configs": self.alters or None}
        is_given = any(why.endswith(option) and given[option] is not None for option in given)
        if why == _NOT_FOUND and self.report.without:
            return _NOT_ALLOWED
        return _NOT_FOUND if is_given else why

    def _go(self, row: RowName, way: Way) -> None:
        for _ in range(TRIES if way.races else TRIES_AGAIN):
            for _ in self._taking(self._session(), way):
                pass
            self._shrink()
            if row in self.report.provoked:
                return
        self.report.missed[row] = _RACE if way.races else _OTHERWISE

    def _go_together(self, found: Mapping[RowName, Way]) -> None:
        """Goes ways on which something takes long, which is done for all of them at once. Those
        that come to nothing are gone once more, alone."""
        shared = None if self.restarts is None else Shared(self.restarts)
        going: list[Going] = []
        try:
            for way in found.values():
                system = self._system(shared)
                session = Session(system, self.protocol, keeps_rows=True)
                going.append(Going(system, self._taking(session, way)))
            together(going, shared)
        finally:
            for one in going:
                one.rest.close()
        self._shrink()
        for row, way in found.items():
            if row not in self.report.provoked:
                self._go(row, way)

    def _taking(self, session: Session, way: Way) -> Generator[Line]:
        """Sends the lines of a way to the cluster, and reads the state afterwards. A line that
        takes long is announced first."""
        system: Any = session.system
        settles = system.settles
        try:
            for left, line in enumerate(way.lines, 1 - len(way.lines)):
                if takes_long(line):
                    yield line
                if way.races and left == -1:
                    system.settles = False
                    last = session.guide.outward(way.lines[-1], unknown=None)
                    system.send_ahead(last.pop("request"), last)
                session.take(line)
            system.settles = settles
            for line in self._looks(session):
                session.take(line)
        except Disagreement as found:
            self._unshrunk.append(found)
        except NotHeld:
            pass  # the way is gone
        finally:
            system.close()
            self._count(session)

    def _shrink(self) -> None:
        """Keeps what was found on ways, which takes requests and restarts of its own."""
        while self._unshrunk:
            self._found("directed", self._unshrunk.pop(0))

    def _looks(self, session: Session) -> list[Line]:
        """The requests that show the state without changing it."""
        asked = [exchange.line for exchange in session.trace]
        partitions = {line["partition"] for line in asked if "partition" in line}
        names = {line["transactional_id"] for line in asked if line.get("transactional_id")}
        deleted = {line["delete_records"] for line in asked if "delete_records" in line}
        lines: list[Line] = []
        for partition in sorted(partitions):
            if partition not in deleted:  # where a log starts, its consumers ask first
                lines += [
                    {"request": "Fetch", "partition": partition},
                    {"request": "Fetch", "partition": partition, "committed": False},
                ]
            lines += [
                {"request": "ListOffsets", "partition": partition},
                {"request": "DescribeProducers", "partition": partition},
            ]
        for name in sorted(names):
            lines.append({"request": "DescribeTransactions", "transactional_id": name})
        return [line for line in lines if line["request"] in self.versions]

    # The random suite -------------------------------------------------------------------------

    def random(self, seconds: float) -> None:
        """Draws requests for so many seconds, most of them right."""
        until = time.monotonic() + seconds
        number = 0
        with self._counted("random"):
            while time.monotonic() < until and len(self.report.findings) < MOST_FINDINGS:
                self._drawn(random.Random(f"{self.report.seed} {number}"))
                number += 1

    def _drawn(self, draw: random.Random) -> None:
        session = self._session()
        restarts = self.restarts is not None
        one: DrawnHonest | Drawn = (
            Drawn(draw, session, [], self.versions, restarts)
            if self.report.level == "any"
            else DrawnHonest(draw, session, [], self._releases, restarts)
        )
        try:
            while len(session.trace) < (LENGTH if self.settles else RAW_LENGTH):
                one.step()
            for line in self._looks(session):
                session.take(line)
        except Disagreement as found:
            self._found("random", found)
        except TooManyStates:
            pass  # so much is open that anything would be allowed
        finally:
            self._count(session)

    # What came of it --------------------------------------------------------------------------

    def _count(self, session: Session) -> None:
        self.report.provoked |= session.possible.rows & set(self.report.rows)
        for line, response in session.trace:
            if "request" in line and response is not None:
                self.report.answers[line["request"], response.get("error", "NONE")] += 1

    def _found(self, suite: str, found: Disagreement) -> None:
        """Keeps a disagreement that is like none before, as its smallest run."""
        if _kind(found) in self._known:
            return
        self._known.add(_kind(found))
        shown = found
        try:
            shown = smallest(found, self.system)
        finally:  # also where the brokers go away meanwhile
            self._known.add(_kind(shown))
            self.report.findings.append(Finding(suite, shown))

    def keep(self, suite: str) -> None:
        """Keeps what is still to be shrunk as it was found: the brokers are gone."""
        for found in self._unshrunk:
            if _kind(found) not in self._known:
                self._known.add(_kind(found))
                self.report.findings.append(Finding(suite, found))
        self._unshrunk.clear()

    def _counted(self, suite: str) -> _Counted:
        return _Counted(self, suite)


_NOT_FOUND = "the search finds no way to it"
_NOT_ALLOWED = "the search finds no way to it without what takes CLUSTER_ACTION"
_NOT_HONEST = "no honest client comes to it"
_RACE = f"not seen in {TRIES} tries: a request has to come before an end's markers are written"
_OTHERWISE = "its way was gone, and another row may have answered alike"


class _Counted:
    """Counts the requests and the seconds of a suite, and keeps why it ended early."""

    def __init__(self, run: Run, suite: str) -> None:
        self._run, self._suite = run, suite

    def __enter__(self) -> None:
        self._began, self._sent = time.monotonic(), self._run.cluster.sent

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> bool:
        report = self._run.report
        report.requests[self._suite] = self._run.cluster.sent - self._sent
        report.seconds[self._suite] = time.monotonic() - self._began
        if isinstance(error, BrokerError):
            report.ended_early = str(error)
            self._run.keep(self._suite)
            return True
        return False


def _kind(found: Disagreement) -> tuple[Any, ...]:
    """The key that disagreements of one cause share."""
    last: Exchange = found.trace[-1]
    response = last.response or {}
    allowed = sorted({str(answer.get("error")) for answer in found.allowed})
    other = (
        [name for name, value in response.items() if value != found.allowed[0].get(name)]
        if str(response.get("error")) in allowed
        else []
    )
    return last.line.get("request"), response.get("error"), tuple(allowed), tuple(sorted(other))
