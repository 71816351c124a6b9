"""A run against real brokers: the directed suite, then random requests, and the results of both."""

from __future__ import annotations

import math
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...cluster import Cluster
from ...wire.connection import BrokerError, NoAnswerError
from ..difference import Difference
from ..honest_clients import Level
from ..possible_states import RowName, TooManyStatesError
from ..session import NO_ANSWER, DisagreementError, Exchange, Session, System
from ..shrink import shows_again, shrinking
from .broker import BrokerSystem, NotHeldError
from .causes import Finding, changes_nothing, is_known
from .clients import Versions, of_releases, versions_of
from .cluster.apis import Lacking
from .cluster.cluster import LiveCluster
from .cluster.producer_epochs import StalledError
from .cluster.setup import begin
from .holds.hold_places import Threads
from .suites.directed_suite import PATIENCE, Line, Way, existing, ways
from .suites.parallel import Going, Shared, at_once, is_slow, takes_long, together
from .suites.random_requests import LEVELS, Drawn, DrawnHonest
from .suites.search_cache import Searches

TRIES: Final = 30
"""The number of tries for a row that needs a request while an end is in progress."""
TRIES_AGAIN: Final = 2
"""The number of tries for other rows."""
LENGTH: Final = 40
"""The number of requests in a random run."""
RAW_LENGTH: Final = 12
"""The number if the run doesn't wait for ends: each request adds possible states."""
SHRINK_S: Final = 60
"""The time in s for shrinking one disagreement. Shrinking those of random requests takes together
at most the time of the suite, or this time if it is longer."""
BARREN: Final = 20
"""The number of consecutive runs without any answer after which a suite ends."""
BACK_S: Final = 10
"""The time in s to wait for a broker that has gone, without --restart-command."""
MOST_TIMEOUTS: Final = 3
"""The number of timeouts after which the directed suite no longer sends a request."""
START: Final = "start"
"""The name of the requests before the suites."""

_REPLICA = "needs a replica of the transaction log that is behind, and a broker that comes back"
_MOVES = "needs another broker, which takes over"
BESIDE: Final[Mapping[str, str]] = {
    "LeaderAndIsr": _MOVES,
    "load ends": _MOVES,
    "append failure": "needs a transaction log that refuses a record: --alter-configs",
    "coordinator failover": "needs a restart: --restart-command",
    "coordinator failover after a failed append": _REPLICA,
    "transactional id expiry": "needs transactional.id.expiration.ms, which is a week",
    "producer expires": "needs producer.id.expiration.ms: --alter-configs",
    "question expires": "needs producer.id.expiration.ms: --alter-configs",
    "records are deleted": "needs DeleteRecords: --alter-configs",
}
"""For events that aren't requests: the reason why their rows aren't provoked."""
_ID = "needs a controller that gives out no producer ids: --debugger"
_TWO_LEVELS = "needs a transaction at the largest epoch: transaction.version has to change"
_AT_ONCE = "needs a request that is held between two of its steps: --debugger"
ALONE: Final[Mapping[str, str]] = {
    "no-producer-id": _ID,
    "no-producer-id-for-fence": _ID,
    "no-producer-id-over-fence": _ID,
    "verify-unknown-id": "needs an entry without an epoch: --alter-configs",
    "loading": _MOVES,
    "not-coordinator": _MOVES,
    "coordinator-unavailable": _MOVES,
    "retry": "needs a leader that refuses a marker for now",
    "unexpected": "needs an answer to a marker that no leader gives",
    "abort-overtakes-fence": _AT_ONCE,
    "commit-during-fence": _AT_ONCE,
    "stale-epoch-verified": _AT_ONCE,
    "guard-mismatch": _AT_ONCE,
    "prepared": _AT_ONCE,
    "already-prepared": _AT_ONCE,
    "prepared-otherwise": _AT_ONCE,
    "two-phase-commit-disabled": "needs InitProducerId 6: unstable.api.versions.enable",
    "largest-epoch": _TWO_LEVELS,
    "keep-prepared-unsupported": "needs InitProducerId 6: unstable.api.versions.enable",
    "forgotten": BESIDE["transactional id expiry"],
    "record-in-log": _REPLICA,
    "tombstone-in-log": BESIDE["transactional id expiry"],
}
"""For rows that sequential requests don't reach: the reason."""
ABSENT: Final[Mapping[tuple[str, str], str]] = {
    ("look up", "describe-null-id"): "no DescribeTransactions is without an id",
    ("WriteTxnMarkersResponse", "closed-connection"): "nobody reads an answer that comes too late",
    ("continue the fence", "unknown-id"): "an entry that is fenced has its epoch",
}
"""Rows that a broker can't take. They are for users of the tables without a broker."""


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
    known: Counter[str] = field(default_factory=Counter[str])
    """The number of times that each known difference occurred, by its line."""
    without: list[str] = field(default_factory=list[str])
    """The requests that weren't sent because the user lacks permission."""
    lacking: list[Lacking] = field(default_factory=list[Lacking])
    """The APIs of which some versions weren't sent."""
    went_away: list[str] = field(default_factory=list[str])
    """The brokers that went away while others took over."""
    interrupted: bool = False
    internal: str | None = None
    """The traceback of an error of this program, which has ended the run."""

    is_directed: bool = False
    """Whether the directed suite was asked for."""

    @property
    def existing(self) -> list[RowName]:
        """The rows that a broker can take."""
        return [row for row in self.rows if (row.event, row.row) not in ABSENT]

    @property
    def from_outside(self) -> list[RowName]:
        """The rows that were provoked, or that sequential requests can reach as far as known."""
        return [row for row in self.rows if row in self.provoked or why_not(row) is None]


def why_not(row: RowName) -> str | None:
    """The reason why sequential requests don't reach a row; None if none is known."""
    if (row.event, row.row) in ABSENT:
        return ABSENT[row.event, row.row]
    if row.event == "continue the fence" and row.row not in ALONE:
        return _AT_ONCE
    if row.row == "unknown-id" and row.event != "look up":
        return ALONE["verify-unknown-id"]
    return ALONE.get(row.row, BESIDE.get(row.event))


class Run:
    """Suites against a cluster. `report` has the results so far, also if the cluster goes away.

    `protocol` is the release that the cluster is compared with, `level` the kind of requests. With
    `settles` each end is over before the next request; otherwise the answers before and after an
    end are both allowed.
    """

    def __init__(
        self, cluster: LiveCluster, bootstrap: str, protocol: str, *, settles: bool = True,
        seed: int = 0, as_client: str | None = None, restarts: Callable[[], None] | None = None,
        threads: Threads | None = None, alters: bool = False, level: Level = "any",
        searches: Searches | None = None, shows: Callable[[str], None] = lambda _: None,
        known: Iterable[str] = (), alters_features: bool = False,
    ) -> None:  # fmt: skip
        self.cluster, self.protocol = cluster, protocol
        self.restarts, self.threads, self.alters = restarts, threads, alters
        self._searches, self._shows, self.alters_features = searches, shows, alters_features
        if alters_features and cluster.transaction_version not in LEVELS:
            raise BrokerError(
                f"{cluster.place} has transaction.version {cluster.transaction_version}: "
                "--alter-features needs 1 or 2, as a coordinator at 0 can't log a transaction of "
                "version 2"
            )
        oracle = Cluster(protocol=protocol, transaction_version=cluster.transaction_version)
        gone = None
        try:
            begin(cluster)
        except BrokerError as error:
            if not cluster.silences:  # there are no findings yet
                raise
            gone = str(error)
        self.settles = settles and "DescribeTransactions" in cluster.versions
        self.versions = versions_of(cluster.versions, as_client)
        self.report = Report(
            bootstrap, protocol, cluster.transaction_version, self.versions, self.settles, seed,
            rows=existing(oracle, self.versions), level=level,
            without=cluster.without, lacking=cluster.lacking(), went_away=cluster.went_away,
            ended_early=gone, known=Counter(dict.fromkeys(known, 0)),
        )  # fmt: skip
        self._releases = [*of_releases(self.versions, oracle)]
        self._known: dict[Difference, Finding] = {}
        self._unshrunk: list[DisagreementError] = []
        self._shrunk: Difference | None = None
        self._tolerated = 0
        self._unused, self._most_unused = 0.0, math.inf
        self._barren = 0
        for error in cluster.silences:
            self._beside(error)

    def system(self) -> System:
        """A system under test on the cluster, with new names."""
        return self._system()

    def _system(self, restarts: Callable[[], None] | None = None) -> BrokerSystem:
        while True:
            if self.cluster.is_hurt:
                self._revive()
            try:
                return BrokerSystem(
                    self.cluster,
                    settles=self.settles,
                    restarts=restarts or self.restarts,
                    threads=self.threads,
                    tolerates=self._tolerates,
                )
            except NoAnswerError as error:  # a coordinator's epoch, which only markers need
                self._beside(error)
                self.cluster.leave_out("WriteTxnMarkers", error.what)
                self.versions = {k: v for k, v in self.versions.items() if k != "WriteTxnMarkers"}

    def _revive(self) -> None:
        """Connects again. Raises BrokerError if the brokers have gone."""
        try:
            self.cluster.revive(BACK_S if self.restarts is None else 1)
        except BrokerError:
            if self.restarts is None:
                raise
            self.restarts()
            self.cluster.revive()

    def _session(self) -> Session:
        return Session(self.system(), self.protocol, keeps_rows=True)

    # The directed suite -----------------------------------------------------------------------

    def directed(self) -> None:
        """Provokes each row with the requests that a search found."""
        self.report.is_directed = True
        found: Mapping[RowName, Way] = {}
        with self._counted("directed"):
            self._shows("directed: looking for a way to each row")
            found = self._ways()
            if self.threads is not None:
                BrokerSystem(self.cluster).warm_up()
            wanted = {row: found[row] for row in self.report.rows if row in found}
            for number, (row, way) in enumerate(wanted.items(), 1):
                self._shows(f"directed: row {number} of {len(wanted)}, {self._so_far()}")
                if row not in self.report.provoked and not is_slow(way):
                    self._go(row, way)
            for those in at_once({row: way for row, way in wanted.items() if is_slow(way)}):
                self._shows(f"directed: slow rows, {self._so_far()}")
                self._go_together(
                    {row: way for row, way in those.items() if row not in self.report.provoked}
                )
        is_whole = self.report.ended_early is None
        for row in self.report.rows if found else ():
            if row in self.report.provoked or row in self.report.missed:
                continue
            if is_whole or row not in found:
                self.report.missed[row] = self._why_not(row)

    def _ways(self) -> Mapping[RowName, Way]:
        body: dict[str, Any] = {
            "protocol": self.protocol,
            "transaction_version": self.cluster.transaction_version,
            "versions": self.versions,
            "patience": PATIENCE,
            "restarts": self.restarts is not None,
            "holds": self.threads is not None and self.settles,
            "alters": self.alters,
            "level": self.report.level,
        }
        if self._searches is None:
            return ways(**body)
        return self._searches.found(body, lambda: ways(**body))

    def _so_far(self) -> str:
        report = self.report
        return (
            f"{len(report.provoked)} rows provoked, {self.cluster.sent:,} requests, "
            f"{len(report.findings)} disagreements"
        )

    def _why_not(self, row: RowName) -> str:
        """The reason why the search found no way to a row."""
        if self.report.level == "well-behaved" and why_not(row) is None:
            return _NOT_HONEST
        why = why_not(row) or _NOT_FOUND
        given = {"--debugger": self.threads, "--restart-command": self.restarts}
        given |= {"--alter-configs": self.alters or None}
        is_given = any(why.endswith(option) and given[option] is not None for option in given)
        if why == _NOT_FOUND and self.report.without:
            return _NOT_ALLOWED
        return _NOT_FOUND if is_given else why

    def _is_silent(self, line: Line) -> bool:
        """Whether a line's request has timed out `MOST_TIMEOUTS` times."""
        name = line.get("request")
        if name not in self.cluster.versions:
            return False
        version = line.get("api_version", self.cluster.newest(name))
        return self.cluster.timeouts[name, version] >= MOST_TIMEOUTS

    def _go(self, row: RowName, way: Way) -> None:
        if any(map(self._is_silent, way.lines)):
            self.report.missed[row] = _SILENT
            return
        before = self._tolerated
        for _ in range(TRIES if way.races else TRIES_AGAIN):
            for _ in self._taking(self._session(), way):
                pass
            met = self._unshrunk[:]
            self._shrink()
            if row in self.report.provoked:
                return
            if met or self._tolerated > before:  # another try would give the same
                self.report.missed[row] = _DISAGREES
                return
        self.report.missed[row] = _RACE if way.races else _OTHERWISE

    def _go_together(self, found: Mapping[RowName, Way]) -> None:
        """Runs several ways with a long wait together, with one wait for all. Ways that fail are
        tried again, one by one."""
        shared = None if self.restarts is None else Shared(self.restarts)
        going: list[Going] = []
        try:
            for way in found.values():
                system = self._system(shared)
                session = Session(system, self.protocol, keeps_rows=True)
                going.append(Going(system, self._taking(session, way)))
            together(going, shared)
        except StalledError as error:
            self.report.missed |= {row: str(error) for row in found}
            return
        finally:
            for one in going:
                one.rest.close()
        self._shrink()
        for row, way in found.items():
            if row not in self.report.provoked:
                self._go(row, way)

    def _taking(self, session: Session, way: Way) -> Generator[Line]:
        """Sends the lines of a way to the cluster, and then reads the state. Yields a slow line
        before it is sent."""
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
        except DisagreementError as found:
            if not self._names_an_old_coordinator(session):
                self._unshrunk.append(found)
        except StalledError:
            self._tolerated += 1
        except (NotHeldError, TooManyStatesError):
            pass  # the way isn't possible now, or too many states are possible
        finally:
            system.close()
            self._count(session)

    def _names_an_old_coordinator(self, session: Session) -> bool:
        """Whether a marker of the run may have an old coordinator epoch although the run has no
        restart. A leader that refuses it is right."""
        lines = [exchange.line for exchange in session.trace]
        marks = any(line.get("request") == "WriteTxnMarkers" for line in lines)
        restarts = any("restart" in line for line in lines)
        return marks and not restarts and self.cluster.has_new_coordinators()

    def _shrink(self) -> None:
        """Shrinks and keeps the findings of ways. This needs further requests and restarts."""
        while self._unshrunk:
            self._found("directed", self._unshrunk.pop(0))

    def _looks(self, session: Session) -> list[Line]:
        """The requests that show the state without changing it."""
        body = [exchange.line for exchange in session.trace]
        partitions = {line["partition"] for line in body if "partition" in line}
        names = {line["transactional_id"] for line in body if line.get("transactional_id")}
        deleted = {line["delete_records"] for line in body if "delete_records" in line}
        lines: list[Line] = []
        for partition in sorted(partitions):
            if partition not in deleted:  # a consumer would first ask for the log's start
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
        """Sends random requests for this time, most of them right. Time for shrinking doesn't
        count."""
        began, number, self._unused = time.monotonic(), 0, 0.0
        self._most_unused = max(seconds, SHRINK_S)
        with self._counted("random"):
            while True:
                passed = time.monotonic() - began - self._unused
                if passed >= seconds:
                    break
                self._shows(f"random: {passed:.0f} of {seconds:g} s, {self._so_far()}")
                self._drawn(random.Random(f"{self.report.seed} {number}"))
                number += 1

    def _drawn(self, draw: random.Random) -> None:
        session = self._session()
        restarts = self.restarts is not None
        one: DrawnHonest | Drawn = (
            Drawn(draw, session, [], self.versions, restarts, self.alters_features)
            if self.report.level == "any"
            else DrawnHonest(draw, session, [], self._releases, restarts)
        )
        try:
            while len(session.trace) < (LENGTH if self.settles else RAW_LENGTH):
                one.step()
            for line in self._looks(session):
                session.take(line)
        except DisagreementError as found:
            if not self._names_an_old_coordinator(session):
                self._found("random", found)
        except TooManyStatesError:
            pass  # too many states are possible
        finally:
            session.system.close()
            self._count(session)

    # What came of it --------------------------------------------------------------------------

    def _count(self, session: Session) -> None:
        self.report.provoked |= session.possible.rows & set(self.report.rows)
        for line, response in session.trace:
            if "request" in line and response is not None:
                self.report.answers[line["request"], response.get("error", "NONE")] += 1

        self._barren = 0 if any(_is_answer(one) for one in session.trace) else self._barren + 1
        if self._barren == BARREN:
            raise BrokerError(f"{self.cluster.place} doesn't answer any more")

    def _found(self, suite: str, found: DisagreementError) -> None:
        """Keeps a new disagreement with its smallest run."""
        finding = self._kept(suite, found)
        if finding is None:
            return
        began = time.monotonic()
        difference = finding.difference
        self._shows(
            f"disagreement {len(self.report.findings)}: {difference.request}: "
            f"{', '.join(difference.given)}"
        )
        left = min(SHRINK_S, self._most_unused - self._unused)
        self._shrunk = difference
        try:
            if left > 0:
                finding.is_repeated = shows_again(found, self.system)
            if finding.is_repeated:
                for smaller in shrinking(found, self.system, seconds=left):
                    finding.disagreement = smaller
        finally:  # also if the brokers go away meanwhile
            self._shrunk = None
            self._unused += time.monotonic() - began
            other = self._known.setdefault(finding.difference, finding)
            if other is not finding:
                other.count += finding.count
                self._known[difference] = other
                self.report.findings.remove(finding)

    def _kept(self, suite: str, found: DisagreementError) -> Finding | None:
        """The finding for a new disagreement; None for others, which are only counted."""
        if (name := is_known(found, self.report.known)) is not None:
            self.report.known[name] += 1
            return None
        known = self._known.get(Difference.of(found))
        if known is not None:
            known.count += 1
            return None
        finding = self._known[Difference.of(found)] = Finding(suite, found)
        self.report.findings.append(finding)
        return finding

    def _tolerates(self, found: DisagreementError) -> bool:
        """Whether a run continues after a difference that is known or was found before. It does so
        only if both answers are refusals, which change no state."""
        difference = Difference.of(found)
        if not changes_nothing(found):
            return False
        if self._shrunk is not None and self._shrunk.is_shown_by(difference):
            return False
        if difference not in self._known and is_known(found, self.report.known) is None:
            return False
        self._tolerated += 1
        if self._shrunk is None:
            self._kept("", found)
        return True

    def _beside(self, error: NoAnswerError) -> None:
        """Keeps the finding that a request of the run itself got no answer."""
        last = Exchange({"request": error.request}, {NO_ANSWER: error.what})
        self._kept(START, DisagreementError([last], [], self.protocol, is_beside=True))

    def keep(self, suite: str) -> None:
        """Keeps the remaining findings unshrunk: the brokers have gone."""
        for found in self._unshrunk:
            self._kept(suite, found)
        self._unshrunk.clear()

    def _counted(self, suite: str) -> _Counted:
        return _Counted(self, suite)


def _is_answer(exchange: Exchange) -> bool:
    return exchange.response is not None and NO_ANSWER not in exchange.response


_NOT_FOUND = "the search finds no way to it"
_NOT_ALLOWED = "the search finds no way to it without requests that need CLUSTER_ACTION"
_NOT_HONEST = "no honest client reaches it"
_SILENT = "a request on the way to it gets no answer in time"
_DISAGREES = "the brokers disagree on the way to it"
_RACE = f"not seen in {TRIES} tries: a request has to come before an end's markers are written"
_OTHERWISE = "its path was gone, and another row may have given the same answer"


class _Counted:
    """Counts the requests and the seconds of a suite, and notes the reason for an early end."""

    def __init__(self, run: Run, suite: str) -> None:
        self._run, self._suite = run, suite

    def __enter__(self) -> None:
        self._began, self._sent = time.monotonic(), self._run.cluster.sent

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> bool:
        report = self._run.report
        report.requests[self._suite] = self._run.cluster.sent - self._sent
        report.seconds[self._suite] = time.monotonic() - self._began
        if error is None:
            return False
        self._run.keep(self._suite)
        match error:
            case BrokerError():
                report.ended_early = str(error)
            case KeyboardInterrupt():
                report.ended_early, report.interrupted = "it was interrupted", True
                self._run.cluster.drop()  # answers may still arrive on these connections
            case Exception():
                report.ended_early = f"internal error: {type(error).__name__}: {error}"
                report.internal = "".join(traceback.format_exception(error))
            case _:
                return False
        return True
