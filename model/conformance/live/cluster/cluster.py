"""A cluster of real brokers: its request versions, leaders, coordinators and the run's own topics.

The topics are removed at the end. A run creates, writes and removes only names with a random
prefix.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final
from uuid import UUID

from .....spec.releases import broker_versions
from .....spec.releases.api_versions import OF_BROKERS
from ....wire.connection import (
    NAMES,
    PORT,
    TIMEOUT_S,
    BrokerError,
    Connection,
    GoneError,
    NoAnswerError,
    Security,
    SilentError,
    UnreachableError,
)
from ..answers import only
from .apis import METADATA_WITH_IDS, NEEDED, NEWEST, OF_VERSION_2, OLDEST, OPTIONAL, Lacking, sent
from .missing_permissions import MissingPermissionError, refusal
from .settings import LOG, TRANSACTION_VERSION, Settings

_TRANSACTION, _GROUP = 1, 0
PREFIX: Final = "epochfence-"
"""The start of all names that a run creates; a random part follows."""
MOST_BROKERS: Final = 5
PARTITIONS: Final = 100
"""The number of partitions of a created topic. Each run of requests takes new partitions."""
PATIENCE_S: Final = 30
IDLE_S: Final = 30
"""The idle time in s after which a connection isn't used again: the broker may be about to close
it."""
OF_TABLES: Final = frozenset(
    ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce",
     "EndTxn", "WriteTxnMarkers", "Fetch", "ListOffsets", "DescribeProducers",
     "DescribeTransactions")
)  # fmt: skip
"""The requests that are compared."""
_OWN: Final = OF_TABLES | {"FindCoordinator", "CreateTopics"}
"""The requests that name only names of the run. A user who may send one such request may send
others of its kind."""
_OF_ID: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
SOON: Final = frozenset(
    ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "LEADER_NOT_AVAILABLE",
     "UNKNOWN_TOPIC_OR_PARTITION", "NOT_COORDINATOR", "NOT_CONTROLLER")
)  # fmt: skip


def _permission(name: str, version: int, fields: Mapping[str, Any], error: str) -> tuple[Any, ...]:
    """A key for the permission that a request needs. The error shows which one is missing."""
    has_id = fields.get("transactional_id", fields.get("v3_and_below_transactional_id")) is not None
    if error == _OF_ID and has_id and name in OF_TABLES:
        return (_OF_ID,)  # the run's own ids: every request needs WRITE
    return name, has_id, fields.get("key_type"), version >= OF_BROKERS


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """The hosts and ports of HOST:PORT[,HOST:PORT]... Raises BrokerError for an invalid one."""
    found: list[tuple[str, int]] = []
    for part in bootstrap.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon:
            host, port = port, str(PORT)
        if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 2**16:
            raise BrokerError(f"{part or bootstrap!r}: write HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return found


class LiveCluster:
    """The cluster at `bootstrap` (one or several HOST:PORT).

    Raises BrokerError if the cluster can't be reached, or if it has topics of others or more than
    five brokers and not `may_be_shared`. `timeout_s` is the timeout of each answer. `limited` has
    the newest versions of APIs, see `apis.limits`.
    """

    def __init__(
        self, bootstrap: str, how: Security | None = None, *, may_be_shared: bool = False,
        timeout_s: float = TIMEOUT_S, limited: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self._how, self._timeout_s, self._limited = how or Security(), timeout_s, limited or {}
        self._connections: dict[tuple[int, int], Connection] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._topics: list[str] = []
        self._ids: dict[str, UUID] = {}
        self._groups: list[str] = []
        self._terms: tuple[int, ...] = ()
        self._free: Iterator[tuple[str, int]] = iter(())
        self.without: list[str] = []
        """The requests that the user may not send."""
        self.unusable: dict[str, str] = {}
        """The requests that are skipped because they got no answer, each with the reason."""
        self.silences: list[NoAnswerError] = []
        """The requests without an answer at the start of the run."""
        self.went_away: list[str] = []
        """The brokers that went away while others took over, as text, each with the request."""
        self.is_hurt = False
        """Whether a request got no answer since the last `revive`."""
        self._hurt_at = -1
        self.timeouts: Counter[tuple[str, int]] = Counter()
        """The number of timeouts of each request and version."""
        self._granted: set[tuple[Any, ...]] = set()
        self._leaders: dict[tuple[str, int], int] = {}
        self.prefix = f"{PREFIX}{secrets.token_hex(4)}"
        self.sent = 0
        self.settings = Settings(self)
        self._aside = threading.local()
        self._numbers: set[int] = set()
        self._lock = threading.Lock()
        self._of_version_2: dict[str, int] = {}
        """The newest sent versions at transaction.version 0."""
        self.meanwhile: Callable[[], object] | None = None
        """Sends another request before the next request is answered, over the same connection."""
        self._early: Callable[[], dict[str, Any]] | None = None
        self._answered_first: dict[str, Any] = {}
        self.any: int = -1
        """The id of a broker that answers."""
        self.controller: int = -1
        self._first = self._any_of(addresses(bootstrap))
        try:
            self.versions, self.features = self._negotiated()
            self.brokers = self._described(may_be_shared)
        except BaseException as error:
            self._first.close()
            if isinstance(error, GoneError) and self._how == Security():
                raise BrokerError(
                    f"{error}: brokers with TLS or SASL do so; give --config with a client's "
                    "properties"
                ) from None
            raise

    @property
    def place(self) -> str:
        """The host and port of the bootstrap server."""
        return self._first.place

    def _any_of(self, places: list[tuple[str, int]]) -> Connection:
        error = BrokerError("no address")
        for host, port in places:
            try:
                return Connection(host, port, self._how, timeout_s=self._timeout_s)
            except BrokerError as refused:
                error = refused
        raise error

    def _negotiated(self) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
        """The versions of each request that both sides support, and the broker's features."""
        answer = self._first.api_versions()
        self.offered = {
            NAMES[one["api_key"]]: (one["min_version"], one["max_version"])
            for one in answer["api_keys"] or ()
            if one["api_key"] in NAMES
        }
        self.supported = {name: high for name, (_, high) in self.offered.items()}
        known, final = (
            {one["name"]: one for one in answer.get(which) or ()}
            for which in ("supported_features", "finalized_features")
        )
        self.levels = {name: one["max_version"] for name, one in known.items()}
        features = {name: one["max_version_level"] for name, one in final.items()}
        limited = dict(self._limited)
        knows_version_2 = self.supported.get("EndTxn", 0) >= OF_VERSION_2["EndTxn"]
        if knows_version_2 and not features.get(TRANSACTION_VERSION):
            self._of_version_2 = {name: first - 1 for name, first in OF_VERSION_2.items()}
        for name, newest in self._of_version_2.items():
            limited[name] = min(newest, limited.get(name, newest))
        found = sent(self.offered, limited)
        for name in NEEDED:
            if name not in found:
                span = f"{OLDEST.get(name, 0)} to {NEWEST[name]}"
                raise BrokerError(f"{self._first.place} doesn't offer {name} of version {span}")
        return found, features

    @property
    def release(self) -> str | None:
        """The release of the tables that matches the broker's versions; None if none does."""
        return broker_versions.release_of(self.supported, self.levels)

    def level_at(self, node: int) -> int:
        """A broker's present level of transaction.version."""
        answer = self.connection(node).api_versions()
        final = answer.get("finalized_features") or ()
        levels = {one["name"]: one["max_version_level"] for one in final}
        return levels.get(TRANSACTION_VERSION, 0)

    @property
    def transaction_version(self) -> int:
        """The finalized feature level."""
        return self.features.get(TRANSACTION_VERSION, 0)

    def _described(self, may_be_shared: bool) -> dict[int, tuple[str, int]]:
        answer = self._first.ask("Metadata", self.newest("Metadata"), {"topics": None})
        brokers = self._brokers_of(answer)
        if not brokers:
            raise BrokerError(f"{self._first.place} doesn't name a broker in its metadata")
        topics = answer["topics"] or ()
        others = sorted(topic["name"] for topic in topics if not topic["is_internal"])
        others = [name for name in others if not name.startswith("__")]
        if not may_be_shared and others:
            raise BrokerError(
                f"{self._first.place} has topics of others ({others[0]}{', …' * (len(others) > 1)})"
                ": --shared runs beside them"
            )
        if not may_be_shared and len(brokers) > MOST_BROKERS:
            raise BrokerError(
                f"{self._first.place} is one of {len(brokers)} brokers: for more than "
                f"{MOST_BROKERS} give --shared"
            )
        return brokers

    def _brokers_of(self, answer: Mapping[str, Any]) -> dict[int, tuple[str, int]]:
        """The brokers in an answer to Metadata. Notes the controller."""
        brokers = {one["node_id"]: (one["host"], one["port"]) for one in answer["brokers"] or ()}
        known = answer["controller_id"] in brokers
        self.any = next(iter(brokers), -1)
        self.controller = answer["controller_id"] if known else self.any
        return brokers

    def lacking(self) -> list[Lacking]:
        """The APIs of which some versions aren't sent."""
        found: list[Lacking] = []
        for name, newest in NEWEST.items():
            offered, now = self.offered.get(name), self.versions.get(name)
            if name in self.unusable:
                why = f"{self.unusable[name]}: {OPTIONAL[name]}"
            elif now is None:
                why = OPTIONAL[name]
            elif self._limited.get(name, newest) < min(newest, self.supported[name]):
                why = "--cap"
            elif self._of_version_2.get(name, newest) < min(newest, self.supported[name]):
                why = f"no client sends them at {TRANSACTION_VERSION} 0"
            else:
                continue
            found.append(Lacking(name, offered, now, why))
        return found

    def newest(self, name: str) -> int:
        """The newest version of a request that both sides support. Raises BrokerError."""
        if name not in self.versions:
            raise BrokerError(f"{self._first.place} doesn't support {name}")
        return self.versions[name][1]

    # Asking -----------------------------------------------------------------------------------

    def ask(
        self, node: int, name: str, fields: Mapping[str, Any], version: int | None = None
    ) -> dict[str, Any]:
        """A broker's response to a request. Requests alternate between two connections.

        Raises NoAnswerError without an answer, UnreachableError if there is no broker, and
        MissingPermissionError if the user may not send it. If the request was allowed before, a
        refusal counts as an answer.
        """
        version = self.newest(name) if version is None else version
        try:
            answer = self._response(node, name, fields, version)
        except NoAnswerError as error:
            self.is_hurt, self._hurt_at = True, node
            if isinstance(error, SilentError):
                self.timeouts[name, version] += 1
            self.meanwhile = self._early = None
            raise
        error = refusal(answer, fields)
        same = _permission(name, version, fields, error or "")
        if error is None:
            self._granted |= {same, _permission(name, version, fields, _OF_ID)}
        elif name not in _OWN or same not in self._granted:
            raise MissingPermissionError(self._first.place, name, error, PREFIX)
        elif name not in OF_TABLES:
            what = f"{error}, although it answered before"
            raise NoAnswerError(self._first.place, name, what)
        return answer

    def _response(
        self, node: int, name: str, fields: Mapping[str, Any], version: int
    ) -> dict[str, Any]:
        self.sent += 1
        if (number := getattr(self._aside, "number", None)) is not None:
            return self.connection(node, number).ask(name, version, fields)
        if self.meanwhile is None and self._early is None:
            return self.connection(node, self.sent % 2).ask(name, version, fields)
        connection = self.connection(node)
        connection.send(name, version, fields)
        if self.meanwhile is not None:
            then, self.meanwhile = self.meanwhile, None
            self._early = lambda: connection.receive(name, version)
            then()
            return self._answered_first
        assert self._early is not None
        self._answered_first, self._early = self._early(), None
        return connection.receive(name, version)

    @contextmanager
    def own_number(self) -> Generator[int]:
        """A connection number that nothing else uses until the end."""
        with self._lock:
            number = next(one for one in count(2) if one not in self._numbers)
            self._numbers.add(number)
        try:
            yield number
        finally:
            self._numbers.discard(number)

    @contextmanager
    def aside(self) -> Generator[None]:
        """Gives this thread connections of its own until the end, for an answer that may be
        late."""
        with self.own_number() as number:
            self._aside.number = number
            try:
                yield
            finally:
                self._aside.number = None

    def connection(self, node: int, number: int = 0) -> Connection:
        """A connection to a broker; opens one if there is none. Raises BrokerError."""
        known = self._connections.get((node, number))
        if known is not None and time.monotonic() - known.used_at > IDLE_S:
            known.close()
        if known is None or known.is_closed:
            self._connections[node, number] = known = self._connected(node)
        return known

    def _connected(self, node: int) -> Connection:
        host, port = self.brokers.get(node, ("", 0))
        if not port:
            raise BrokerError(f"the cluster doesn't give the address of its broker {node}")
        return Connection(host, port, self._how, timeout_s=self._timeout_s)

    def drop(self) -> None:
        """Closes all connections. The next requests use new ones."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self.meanwhile = self._early = None
        self.forget_places()

    # Brokers that go away ---------------------------------------------------------------------

    def revive(self, patience_s: float = PATIENCE_S) -> None:
        """Waits until the brokers accept new connections. Raises BrokerError."""
        self.is_hurt = False
        self.drop()
        until = time.monotonic() + patience_s
        while True:
            try:
                self._connected(self.any).close()
                return
            except BrokerError:
                if time.monotonic() > until and not self.finds_others():
                    raise
                time.sleep(0.1)

    def has_failed_over(self, request: str) -> bool:
        """Whether the broker that didn't answer this request has gone, while another one
        answers."""
        if len(self.brokers) == 1:
            return False
        try:
            self._connected(self._hurt_at).close()
        except UnreachableError:
            self.went_away.append(f"broker {self._hurt_at} went away at {request}")
            return self.finds_others()
        except BrokerError:
            pass
        return False

    def finds_others(self) -> bool:
        """Looks for a broker that answers, and takes its metadata. Returns whether there is one."""
        for node in self.brokers if len(self.brokers) > 1 else ():
            try:
                answer = self.connection(node).ask(
                    "Metadata", self.newest("Metadata"), {"topics": []}
                )
            except BrokerError:
                continue
            self.brokers = self.brokers | self._brokers_of(answer)
            self.any = node
            self.forget_places()
            return True
        return False

    def coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""
        return self._coordinator(_TRANSACTION, transactional_id)

    def group_coordinator(self, group_id: str) -> int:
        """The broker that coordinates a group."""
        if group_id not in self._groups:
            self._groups.append(group_id)
        return self._coordinator(_GROUP, group_id)

    def _coordinator(self, kind: int, key: str) -> int:
        if len(self.brokers) == 1 and (kind, "") in self._coordinators:
            return self._coordinators[kind, ""]
        if (kind, key) not in self._coordinators:
            answer = self._soon("FindCoordinator", {"key": key, "key_type": kind})
            self._compare_place(answer["node_id"], (answer["host"], answer["port"]))
            self._coordinators[kind, key] = self._coordinators[kind, ""] = answer["node_id"]
        return self._coordinators[kind, key]

    def _compare_place(self, node: int, place: tuple[str, int]) -> None:
        """Notes as a disagreement that FindCoordinator and Metadata name different addresses of a
        broker."""
        known = self.brokers.get(node, place)
        if place == known or any(each.request == "FindCoordinator" for each in self.silences):
            return
        (host, port), (known_host, known_port) = place, known
        what = f"broker {node} is at {host}:{port}, and by Metadata at {known_host}:{known_port}"
        self.silences.append(NoAnswerError(self.place, "FindCoordinator", what))

    def forget_places(self) -> None:
        """Forgets coordinators and leaders: they may have moved."""
        self._coordinators.clear()
        self._leaders.clear()
        self._terms = ()

    def coordinator_epochs(self) -> tuple[int, ...]:
        """The coordinators' epochs by partition of the transaction log: its leader epochs. Empty
        without a transaction log, and if markers aren't sent: only they name these epochs."""
        if not self._terms and "WriteTxnMarkers" in self.versions:
            found = {p["partition_index"]: p.get("leader_epoch", 0) for p in self._topic(LOG)}
            self._terms = tuple(epoch for _, epoch in sorted(found.items()))
        return self._terms

    def has_new_coordinators(self) -> bool:
        """Whether the coordinators' epochs have changed since the last look. The next run uses the
        new ones."""
        before, self._terms = self._terms, ()
        return bool(before) and self.coordinator_epochs() != before

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition."""
        if (topic, partition) not in self._leaders:
            self._await_leaders(topic, are_new=False)
        return self._leaders[topic, partition]

    def leave_out(self, name: str, why: str) -> None:
        """Stops sending a request, for the reason `why`."""
        self.versions.pop(name, None)
        self.unusable[name] = why

    def _soon(self, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a request; repeats it while the broker isn't ready."""
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self.ask(self.any, name, fields)
            if answer["error_code"] not in SOON or time.monotonic() > until:
                break
            time.sleep(0.1)
        if answer["error_code"] != "NONE":
            raise BrokerError(f"{self._first.place} answers {name} with {answer['error_code']}")
        return answer

    # Topics -----------------------------------------------------------------------------------

    def new_partition(self) -> tuple[str, int]:
        """An unused partition of the run's topics: its topic and number."""
        found = next(self._free, None)
        if found is None:
            topic = self._new_topic()
            self._free = ((topic, number) for number in range(PARTITIONS))
            found = next(self._free)
        return found

    def _new_topic(self) -> str:
        topic = f"{self.prefix}-{len(self._topics)}"
        made = {"name": topic, "num_partitions": PARTITIONS, "replication_factor": 1}
        answer = self.ask(
            self.controller, "CreateTopics", {"topics": [made], "timeout": PATIENCE_S * 1000}
        )
        one = only("CreateTopics", answer["topics"], name=topic)
        if one["error_code"] != "NONE":
            raise BrokerError(f"{self._first.place} can't create {topic}: {one['error_code']}")
        self._topics.append(topic)
        self._await_leaders(topic)
        return topic

    def _await_leaders(self, topic: str, *, are_new: bool = True) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            body = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
            answer = only("Metadata", self.ask(self.any, "Metadata", body)["topics"], name=topic)
            found = {
                (topic, one["partition_index"]): one["leader_id"]
                for one in answer["partitions"] or ()
                if one["error_code"] == "NONE" and one["leader_id"] >= 0
            }
            if len(found) == PARTITIONS and (not are_new or self._lead(topic, found)):
                self._leaders |= found
                return
            if time.monotonic() > until:
                raise BrokerError(f"{self._first.place}: no leader for all partitions of {topic}")
            time.sleep(0.05)

    def _lead(self, topic: str, leaders: Mapping[tuple[str, int], int]) -> bool:
        """Whether the leaders know that they lead."""
        for node in set(leaders.values()):
            partitions = [
                {"partition_index": number, "timestamp": -1}
                for (_, number), leader in leaders.items()
                if leader == node
            ]
            body = {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}]}
            answer = only("ListOffsets", self.ask(node, "ListOffsets", body)["topics"], name=topic)
            if any(one["error_code"] != "NONE" for one in answer["partitions"] or ()):
                return False
        return True

    def delete_records(self, topic: str, partition: int, before: int = -1) -> None:
        """Deletes a partition's records below the offset `before` (-1: all replicated ones)."""
        one = {"partition_index": partition, "offset": before}
        body = {"topics": [{"name": topic, "partitions": [one]}], "timeout_ms": PATIENCE_S * 1000}
        self.ask(self.leader(topic, partition), "DeleteRecords", body)

    def partitions_of(self, topic: str) -> int:
        """The number of a topic's partitions."""
        return len(self._topic(topic))

    def topic_id(self, topic: str) -> UUID:
        """The id of one of the run's topics."""
        if topic not in self._ids:
            body = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
            answer = self.ask(self.any, "Metadata", body, METADATA_WITH_IDS)
            self._ids[topic] = only("Metadata", answer["topics"], name=topic)["topic_id"]
        return self._ids[topic]

    def _topic(self, topic: str) -> list[dict[str, Any]]:
        """The description of a topic's partitions."""
        body = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        answer = self.ask(self.any, "Metadata", body)["topics"]
        return only("Metadata", answer, name=topic)["partitions"] or []

    def close(self, *, keeps: bool = False) -> list[str]:
        """Removes the created topics and groups, unless `keeps`, and disconnects. Returns lines
        about those that remain. Transactional ids expire after transactional.id.expiration.ms."""
        left: list[str] = []
        with suppress(BrokerError):
            self.settings.restore()
            self.settings.restore_features()
        for remove, names in (
            ()
            if keeps
            else ((self._remove_topics, self._topics), (self._remove_groups, self._groups))
        ):
            try:
                if names:
                    remove()
            except BrokerError as error:
                left.append(f"not removed: {', '.join(names)} ({error})")
        self.drop()
        self._first.close()
        return left

    def _remove_topics(self) -> None:
        body = {"topic_names": self._topics, "timeout": PATIENCE_S * 1000}
        self.ask(self.controller, "DeleteTopics", body)

    def _remove_groups(self) -> None:
        if "DeleteGroups" in self.versions:
            for group in self._groups:
                node = self.group_coordinator(group)
                self.ask(node, "DeleteGroups", {"groups_names": [group]})
