"""Reads a running cluster as evidence, with requests that change nothing."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

from ...spec.releases import broker_versions
from ..conformance.live.cluster.cluster import addresses
from ..judge.segments.transactions import TransactionLog, TransactionLogReader
from ..records import RecordError
from ..records.files import Kind, read_stream
from ..wire.connection import NAMES, BrokerError, Connection, Security
from .evidence import Entry, Evidence, Open, Partition, Place, Problem
from .logs import Scan, add_log, whole_batches

T = TypeVar("T")
NEWEST: Final = {
    "ListTransactions": 1, "DescribeTransactions": 0, "DescribeProducers": 0, "ListOffsets": 7,
    "Fetch": 11, "Metadata": 9, "FindCoordinator": 3, "DescribeAcls": 1, "ListGroups": 4,
    "OffsetFetch": 7, "DescribeConfigs": 4,
}  # fmt: skip
"""The newest sent version of each API."""
OLDEST: Final = {
    "ListOffsets": 2, "Fetch": 4, "Metadata": 4, "DescribeAcls": 1, "DescribeConfigs": 1,
    "OffsetFetch": 1,
}  # fmt: skip
"""The oldest sent versions; 0 for the other APIs."""
LOG: Final = "__transaction_state"
MOST: Final = 20_000
"""The largest number of examined partitions without --all. Of more partitions a sample is
examined."""
_AT_ONCE: Final = 500
"""The number of partitions or ids in one request."""
_PIECE: Final = 1 << 20
MOST_READ: Final = 8 << 20
"""The largest number of bytes that is read of a partition with open transactions."""
MOST_OF_LOG: Final = 256 << 20
"""The largest number of bytes that is read of the transaction log."""
RECENT: Final = 2_000
"""The number of records at the end of the transaction log that are read for recent events."""
MOST_GROUPS: Final = 1_000
"""The largest number of groups whose offsets are fetched."""
MOST_OTHERS: Final = 5_000
"""The largest number of described transactional ids without an open transaction."""
VERIFICATION: Final = "transaction.partition.verification.enable"
_BROKER: Final = 4
_MOVING: Final = frozenset(
    ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION",
     "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE", "FENCED_LEADER_EPOCH",
     "UNKNOWN_LEADER_EPOCH", "KAFKA_STORAGE_ERROR", "OFFSET_OUT_OF_RANGE")
)  # fmt: skip
"""Errors that may be over at another look."""
_LATEST: Final = -1
_DENY, _TRANSACTIONAL_IDS, _ANY = 2, 5, 1


class Cluster:
    """The cluster at `bootstrap` (one or several HOST:PORT). If `topics` are given, only they are
    examined. Raises BrokerError."""

    def __init__(
        self, bootstrap: str, how: Security | None = None, *, topics: Iterable[str] = (),
        timeout_s: float = 10, most: int = MOST, seed: int = 0,
    ) -> None:  # fmt: skip
        self.bootstrap, self._how, self._timeout_s = bootstrap, how or Security(), timeout_s
        self._wanted, self._most, self._seed = tuple(topics), most, seed
        self._connections: dict[int, Connection] = {}
        error: BrokerError | None = BrokerError("no address")
        for host, port in addresses(bootstrap):
            try:
                self._first = Connection(host, port, self._how, timeout_s=timeout_s)
                break
            except BrokerError as refused:
                error = refused
        else:
            raise error
        self._negotiate()
        self.brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[Place, int] = {}
        self._of_log: dict[int, tuple[int, int]] = {}
        self._is_again = False
        self._is_verifying: bool | None = None
        self._hides_settings = False

    def _negotiate(self) -> None:
        answer = self._first.api_versions()
        offered = {
            NAMES[one["api_key"]]: (one["min_version"], one["max_version"])
            for one in answer["api_keys"] or ()
            if one["api_key"] in NAMES
        }
        self.versions = {
            name: min(newest, offered[name][1])
            for name, newest in NEWEST.items()
            if name in offered and OLDEST.get(name, 0) <= offered[name][1]
        }
        for name in ("Metadata", "ListOffsets", "Fetch"):
            if name not in self.versions:
                raise BrokerError(f"{self._first.place} is older than transactions: no {name}")
        known = {one["name"]: one["max_version"] for one in answer.get("supported_features") or ()}
        final = {
            one["name"]: one["max_version_level"] for one in answer.get("finalized_features") or ()
        }
        newest = {name: high for name, (_, high) in offered.items()}
        self.release = broker_versions.release_of(newest, known)
        self.transaction_version = final.get("transaction.version", 0)

    # Requests -----------------------------------------------------------------------------------

    def _ask(self, node: int, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        connection = self._connections.get(node)
        if connection is None or connection.is_closed:
            host, port = self.brokers[node]
            connection = Connection(host, port, self._how, timeout_s=self._timeout_s)
            self._connections[node] = connection
        return connection.ask(name, self.versions[name], fields)

    @property
    def log_partitions(self) -> frozenset[int]:
        """The partitions of the transaction log that the user may see."""
        return frozenset(self._of_log)

    def close(self) -> None:
        """Disconnects."""
        for connection in (self._first, *self._connections.values()):
            connection.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # All of it ----------------------------------------------------------------------------------

    def look(self, only: Iterable[Place] | None = None) -> Evidence:
        """Examines leaders, coordinators, and leaders again. A transaction counts as open if it was
        open both times. With `only`, only these partitions are examined. Raises BrokerError."""
        found = Evidence(
            self.bootstrap, round(time.time() * 1000), self.release, self.transaction_version,
            server=self.bootstrap, describes_producers="DescribeProducers" in self.versions,
        )  # fmt: skip
        if self.release is None:
            found.notes.append("the brokers are of no known release: known bugs aren't named")
        self._metadata(found)
        found.log_epochs = {number: epoch for number, (_, epoch) in self._of_log.items()}
        found.verifies = self._verifies()
        found.knows_settings = not self._hides_settings
        every = sorted(self._leaders)
        wanted = every if only is None else [place for place in only if place in self._leaders]
        if len(wanted) > self._most:
            says = f"{self._most:,} of {len(wanted):,} partitions, drawn at random"
            found.problems.append(Problem("sample", says))
            wanted = sorted(random.Random(self._seed).sample(wanted, self._most))
        found.looked_at = len(wanted)
        self._is_again = only is not None
        before = {part.place: part for part in self._unstable(wanted, found)}
        self._entries(found, {of.producer_id for part in before.values() for of in part.open})
        for part in self._unstable(before, found):
            known = {(of.producer_id, of.first_offset): of for of in before[part.place].open}
            part.open = tuple(of for of in part.open if (of.producer_id, of.first_offset) in known)
            is_new = before[part.place].last_stable_offset != part.last_stable_offset
            if part.open or not is_new:
                found.partitions.append(part)
        return found

    def _metadata(self, found: Evidence) -> None:
        """Reads brokers, topics and leaders. Adds problems for those that can't be seen."""
        wanted = [{"name": name} for name in self._wanted] or None
        answer = self._metadata_of(wanted)
        topics: list[Any] = answer["topics"] or []
        if all(topic["name"] != LOG for topic in topics):
            topics += self._metadata_of([{"name": LOG}])["topics"]
        self.brokers = {one["node_id"]: (one["host"], one["port"]) for one in answer["brokers"]}
        self._leaders, self._of_log = {}, {}
        for topic in topics:
            name, error = topic["name"], topic["error_code"]
            if name == LOG:
                self._of_log = {
                    one["partition_index"]: (one["leader_id"], one.get("leader_epoch", -1))
                    for one in topic["partitions"]
                }
                continue
            if error != "NONE" and name in self._wanted:
                found.problems.append(Problem("not-seen", f"topic {name}: {_refused(error, name)}"))
            for one in topic["partitions"] or ():
                place = Place(name, one["partition_index"])
                if one["leader_id"] in self.brokers:
                    self._leaders[place] = one["leader_id"]
                else:
                    found.problems.append(Problem("no-leader", str(place), place))
        if not self._wanted and (hidden := self._hidden_topics()):
            found.problems.append(Problem("not-seen", hidden))
        if not self._of_log:
            found.doubts.append(f"the user needs DESCRIBE on {LOG} to know of all coordinators")
        gone = [number for number, (leader, _) in self._of_log.items() if leader < 0]
        if gone:
            which = ", ".join(f"{LOG}-{number}" for number in sorted(gone)[:5])
            says = f"{which} and {len(gone) - 5} more" if len(gone) > 5 else which
            found.problems.append(Problem("coordinator-without-leader", says))
            found.doubts.append(f"{says}: no leader, so nobody has the entries there")

    def _metadata_of(self, topics: list[dict[str, str]] | None) -> dict[str, Any]:
        fields = {"topics": topics, "allow_auto_topic_creation": False}
        return self._first.ask("Metadata", self.versions["Metadata"], fields)

    def _hidden_topics(self) -> str | None:
        """The permission that the user lacks to see every topic, or None. Brokers leave out hidden
        topics silently, so this asks for a topic that doesn't exist."""
        name = f"epochfence-doctor-{secrets.token_hex(8)}"
        error = self._metadata_of([{"name": name}])["topics"][0]["error_code"]
        if error == "TOPIC_AUTHORIZATION_FAILED":
            return "the user needs DESCRIBE and READ on all topics, or name some by --topic"
        return None

    def _verifies(self) -> bool:
        """Whether no broker's settings turn verification off."""
        if self._is_verifying is None:
            self._is_verifying = "DescribeConfigs" not in self.versions or all(
                self._setting(node, VERIFICATION) != "false" for node in self.brokers
            )
        return self._is_verifying

    def _setting(self, node: int, name: str) -> str | None:
        """The value of a broker's setting; None if the broker doesn't return it."""
        one = {"resource_type": _BROKER, "resource_name": str(node), "configuration_keys": [name]}
        try:
            answer = self._ask(node, "DescribeConfigs", {"resources": [one]})["results"]
        except BrokerError:
            return None
        if answer and answer[0]["error_code"] == "CLUSTER_AUTHORIZATION_FAILED":
            self._hides_settings = True
        configs = answer[0]["configs"] or () if answer else ()
        return next((each["value"] for each in configs if each["name"] == name), None)

    # Leaders ------------------------------------------------------------------------------------

    def _unstable(self, places: Iterable[Place], found: Evidence) -> list[Partition]:
        """The partitions whose last stable offset is below the high watermark."""
        by_leader: dict[int, list[Place]] = {}
        for place in places:
            by_leader.setdefault(self._leaders[place], []).append(place)
        parts: list[Partition] = []
        for node, those in by_leader.items():
            for some in _at_once(those):
                try:
                    # in this order, so that transactions that end meanwhile don't count as hidden
                    ends = self._ends(node, some, 0, found)
                    stable = self._ends(node, [*ends], 1, found)
                    parts += self._described(
                        node,
                        [
                            Partition(place, stable[place], end)
                            for place, end in ends.items()
                            if stable.get(place, end) < end
                        ],
                        found,
                    )
                except BrokerError as error:
                    self._not_seen(found, f"{len(some)} partitions of broker {node}: {error}")
        return parts

    def _refuse(
        self, found: Evidence, place: Place, request: str, error: str, need: str = "DESCRIBE"
    ) -> None:
        """Adds a problem for an error in an answer about a partition."""
        cause = "leader-moving" if error in _MOVING else "not-seen"
        says = f"{place}: {request}: {_refused(error, place.topic, need)}"
        problem = Problem(cause, says, place)
        if problem not in found.problems:
            found.problems.append(problem)

    def _not_seen(self, found: Evidence, says: str) -> None:
        problem = Problem("not-seen", says)
        if problem not in found.problems:
            found.problems.append(problem)

    def _ends(
        self, node: int, places: Sequence[Place], isolation_level: int, found: Evidence
    ) -> dict[Place, int]:
        topics: dict[str, list[dict[str, int]]] = {}
        for topic, number in places:
            one = {"partition_index": number, "current_leader_epoch": -1, "timestamp": _LATEST}
            topics.setdefault(topic, []).append(one)
        body = [{"name": name, "partitions": those} for name, those in topics.items()]
        fields = {"replica_id": -1, "isolation_level": isolation_level, "topics": body}
        ends: dict[Place, int] = {}
        for topic in self._ask(node, "ListOffsets", fields)["topics"] if body else ():
            for one in topic["partitions"]:
                place = Place(topic["name"], one["partition_index"])
                if one["error_code"] == "NONE":
                    ends[place] = one["offset"]
                else:
                    self._refuse(found, place, "ListOffsets", one["error_code"])
        return ends

    def _described(self, node: int, parts: list[Partition], found: Evidence) -> list[Partition]:
        """These partitions with their open transactions."""
        if not parts:
            return parts
        by_place = {part.place: part for part in parts}
        if found.describes_producers:
            topics: dict[str, list[int]] = {}
            for topic, number in by_place:
                topics.setdefault(topic, []).append(number)
            body = [{"name": name, "partition_indexes": those} for name, those in topics.items()]
            for topic in self._ask(node, "DescribeProducers", {"topics": body})["topics"]:
                for one in topic["partitions"]:
                    place = Place(topic["name"], one["partition_index"])
                    if one["error_code"] != "NONE":
                        self._refuse(found, place, "DescribeProducers", one["error_code"], "READ")
                    by_place[place].open = tuple(map(_open, _with_transaction(one)))
        else:
            for part in parts:
                self.read(part, found)
        return parts

    def read(self, part: Partition, found: Evidence, most: int = MOST_READ) -> None:
        """Reads a partition from its last stable offset on: the batches of open transactions, and
        the transactions themselves if DescribeProducers is missing."""
        scan = Scan()
        offset, size = part.last_stable_offset, 0
        try:
            while offset < part.end and size < most:
                data, error = self._fetched(part.place, offset)
                if error is not None:
                    self._refuse(found, part.place, "Fetch", error, "READ")
                following = scan.take(data) if data else offset
                if following <= offset:
                    break
                offset, size = following, size + len(data)
        except (BrokerError, RecordError) as error:
            self._not_seen(found, f"{part.place}: its records can't be read: {error}")
        part.is_whole = offset >= part.end
        if not found.describes_producers:
            part.open = tuple(scan.open.values())
        part.spans = scan.spans

    def _fetched(self, place: Place, offset: int) -> tuple[bytes, str | None]:
        """The whole batches from an offset on, and the error, if any."""
        one = {
            "partition": place.number, "current_leader_epoch": -1, "fetch_offset": offset,
            "log_start_offset": -1, "partition_max_bytes": _PIECE, "last_fetched_epoch": -1,
        }  # fmt: skip
        fields = {
            "replica_id": -1, "max_wait": 100, "min_bytes": 0, "max_bytes": _PIECE,
            "isolation_level": 0, "session_id": 0, "session_epoch": -1,
            "topics": [{"topic": place.topic, "partitions": [one]}],
        }  # fmt: skip
        node = self._leaders.get(place)
        if node is None:
            node = self._of_log[place.number][0]
        answer = self._ask(node, "Fetch", fields)["responses"]
        if not answer:
            return b"", "the answer doesn't contain it"
        part = answer[0]["partitions"][0]
        if part["error_code"] != "NONE":
            return b"", part["error_code"]
        return whole_batches(part["records"] or b""), None

    # Groups -------------------------------------------------------------------------------------

    def waiting_groups(self, parts: Sequence[Partition]) -> str | None:
        """Finds for each partition the groups whose committed offset is its last stable offset.
        Returns the reason why some groups may be missing, or None."""
        if not {"ListGroups", "OffsetFetch"} <= self.versions.keys():
            return "the brokers list no groups"
        by_place = {part.place: part for part in parts}
        topics: dict[str, list[int]] = {}
        for topic, number in by_place:
            topics.setdefault(topic, []).append(number)
        requested = [{"name": name, "partition_indexes": those} for name, those in topics.items()]
        left, why = MOST_GROUPS, self._hidden_groups(requested)
        for node in self.brokers:
            response = self._ask(node, "ListGroups", {"states_filter": []})
            if response["error_code"] != "NONE":
                why = f"broker {node} lists no groups: {response['error_code']}"
            for group in response["groups"][:left]:
                name = group["group_id"]
                fields = {"group_id": name, "topics": requested, "require_stable": False}
                answer = self._ask(node, "OffsetFetch", fields)
                for topic in answer["topics"] or ():
                    for one in topic["partitions"]:
                        part = by_place.get(Place(topic["name"], one["partition_index"]))
                        if part is not None and one["committed_offset"] == part.last_stable_offset:
                            part.groups.append(name)
            left -= len(response["groups"])
            if left < 0:
                return f"the first {MOST_GROUPS} groups were asked for their offsets alone"
        return why

    def _hidden_groups(self, topics: list[dict[str, Any]]) -> str | None:
        """The reason why groups may be hidden from the user, or None. Brokers list only groups that
        the user may describe (KafkaApis.handleListGroupsRequest)."""
        name = f"epochfence-doctor-{secrets.token_hex(8)}"
        fields = {"group_id": name, "topics": topics, "require_stable": False}
        answer = self._ask(next(iter(self.brokers)), "OffsetFetch", fields)
        if answer.get("error_code") == "GROUP_AUTHORIZATION_FAILED":
            return "the user needs DESCRIBE on all groups to see every group"
        return None

    # Coordinators -------------------------------------------------------------------------------

    def _entries(self, found: Evidence, producers: set[int]) -> None:
        """Reads the coordinators' entries, and notes doubts whether all were seen."""
        if "ListTransactions" not in self.versions or "DescribeTransactions" not in self.versions:
            return self._entries_of_log(found)
        hidden = self._hidden_ids() if producers else None
        if hidden is not None:
            found.doubts.append(hidden)
        for node in self.brokers:
            fields: dict[str, Any] = {"state_filters": [], "duration_filter": -1}
            fields["producer_id_filters"] = sorted(producers) if self._is_again else []
            if self._is_again and not producers:
                fields["state_filters"] = ["Ongoing"]
            try:
                answer = self._ask(node, "ListTransactions", fields)
            except BrokerError as error:
                found.doubts.append(f"broker {node} doesn't list its transactions: {error}")
                self._not_seen(found, f"the transactions of broker {node}: {error}")
                continue
            error = answer["error_code"]
            if error == "COORDINATOR_LOAD_IN_PROGRESS":
                found.problems.append(Problem("coordinator-loading", f"broker {node}"))
            if error != "NONE":
                found.doubts.append(f"broker {node} doesn't list its transactions: {error}")
                continue
            listed = answer["transaction_states"]
            ids = [one["transactional_id"] for one in listed if one["producer_id"] in producers]
            others = [
                one["transactional_id"] for one in listed if one["producer_id"] not in producers
            ]
            ids += others[:MOST_OTHERS]
            for some in _at_once(ids):
                self._describe(node, some, found)
        return None

    def _describe(self, node: int, ids: Sequence[str], found: Evidence) -> None:
        answer = self._ask(node, "DescribeTransactions", {"transactional_ids": list(ids)})
        for one in answer["transaction_states"]:
            name, error = one["transactional_id"], one["error_code"]
            if error in ("TRANSACTIONAL_ID_NOT_FOUND", "NOT_COORDINATOR"):
                found.doubts.append(f"the coordinator of {name} has moved meanwhile")
            elif error != "NONE":
                found.doubts.append(f"{name}: {error}")
            else:
                partitions = frozenset(
                    Place(topic["topic"], number)
                    for topic in one["topics"]
                    for number in topic["partitions"]
                )
                entry = Entry(
                    name, one["producer_id"], one["producer_epoch"], one["transaction_state"],
                    partitions, one["transaction_timeout"], one["transaction_start_time"],
                )  # fmt: skip
                found.entries.setdefault(entry.producer_id, []).append(entry)

    def _hidden_ids(self) -> str | None:
        """The reason why transactional ids may be hidden from the user, or None. Brokers leave them
        out silently (KafkaApis.handleListTransactionsRequest)."""
        name = f"epochfence-doctor-{secrets.token_hex(8)}"
        node = next(iter(self.brokers))
        with suppress(BrokerError):
            answer = self._ask(node, "DescribeTransactions", {"transactional_ids": [name]})
            error = answer["transaction_states"][0]["error_code"]
            if error == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
                return "the user needs DESCRIBE on all transactional ids to see every entry"
            if "DescribeAcls" not in self.versions:
                return "the brokers lack DescribeAcls, which shows whether ACLs hide entries"
            acls = {
                "resource_type_filter": _TRANSACTIONAL_IDS, "resource_name_filter": None,
                "pattern_type_filter": _ANY, "principal_filter": None, "host_filter": None,
                "operation": _ANY, "permission_type": _DENY,
            }  # fmt: skip
            answer = self._ask(node, "DescribeAcls", acls)
            if answer["error_code"] == "SECURITY_DISABLED":
                return None
            if answer["error_code"] == "NONE":
                denies = any(one["acls"] for one in answer["resources"])
                return "an ACL denies transactional ids: some may be hidden" if denies else None
            return (
                f"DescribeAcls is answered with {answer['error_code']}: the user needs DESCRIBE on "
                "the cluster to show that no entry is hidden"
            )
        return "a broker didn't show whether ACLs hide entries"

    def _entries_of_log(self, found: Evidence) -> None:
        """Reads the entries from the transaction log, for brokers without DescribeTransactions."""
        if not self._of_log:
            found.doubts.append(f"the user needs DESCRIBE and READ on {LOG} to see entries")
            return
        left = MOST_OF_LOG
        for number, (leader, _) in self._of_log.items():
            if leader < 0:
                continue
            log, read, why = self.transaction_log(number, left)
            left -= read
            if why is not None:
                found.doubts.append(f"{LOG}-{number}: {why}")
            add_log(found, log)
            if log.is_whole and why is None:
                found.whole |= log.ids

    def recent_log(self, number: int) -> TransactionLog:
        """The last records of a partition of the transaction log; empty if it can't be read."""
        place = Place(LOG, number)
        end = self._ends(self._of_log[number][0], [place], 0, Evidence("", 0)).get(place, 0)
        start = max(self._start(place), end - RECENT) if end else 0
        return self.transaction_log(number, start=start)[0]

    def transaction_log(
        self, number: int, most: int = MOST_OF_LOG, *, start: int | None = None
    ) -> tuple[TransactionLog, int, str | None]:
        """A partition of the transaction log from an offset on (None: its start), the number of
        read bytes, and the reason why it wasn't read to its end, or None."""
        place = Place(LOG, number)
        reader, path = TransactionLogReader(Path(str(place))), Path(str(place))
        size = 0
        try:
            offset = self._start(place) if start is None else start
            seen = Evidence("", 0)
            end = self._ends(self._of_log[number][0], [place], 0, seen).get(place)
            if end is None:
                return reader.found, size, seen.problems[0].says
            while offset < end:
                if size > most:
                    return reader.found, size, "it is too long to be read whole"
                data, error = self._fetched(place, offset)
                if error is not None:
                    return reader.found, size, _refused(error, LOG, "READ")
                if not data:
                    break
                for item in read_stream(BytesIO(data), Kind.TRANSACTION_LOG):
                    if isinstance(item, RecordError):
                        return reader.found, size, str(item)
                    reader.take(item, path)
                offset, size = reader.end, size + len(data)
        except BrokerError as error:
            return reader.found, size, str(error)
        return reader.found, size, None

    def _start(self, place: Place) -> int:
        one = {"partition_index": place.number, "current_leader_epoch": -1, "timestamp": -2}
        topics = [{"name": place.topic, "partitions": [one]}]
        fields = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        answer = self._ask(self._of_log[place.number][0], "ListOffsets", fields)
        return max(0, answer["topics"][0]["partitions"][0]["offset"])


def _at_once(every: Sequence[T]) -> Iterator[Sequence[T]]:
    """The elements in groups that fit into one request each."""
    for at in range(0, len(every), _AT_ONCE):
        yield every[at : at + _AT_ONCE]


def _with_transaction(one: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (each for each in one["active_producers"] if each["current_txn_start_offset"] >= 0)


def _open(producer: Mapping[str, Any]) -> Open:
    return Open(
        producer["producer_id"],
        producer["producer_epoch"],
        producer["current_txn_start_offset"],
        producer["last_timestamp"],
        producer["coordinator_epoch"],
    )


def _refused(error: str, topic: str, need: str = "DESCRIBE") -> str:
    """An error, with the missing permission if it is one."""
    if error == "TOPIC_AUTHORIZATION_FAILED":
        return f"{error}: the user needs {need} on topic {topic}"
    return error
