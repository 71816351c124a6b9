"""A cluster of real brokers: which versions of requests it takes, who leads and coordinates what,
and topics of one's own in it, which are removed at the end.

Only names under a random prefix are made, written to and removed.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final

from ...spec import broker_versions
from ...spec.api_versions import OF_BROKERS
from ...spec.broker_config import BROKER_SETTINGS
from .connection import NAMES, PORT, BrokerError, Connection, Gone, Security
from .refusals import Refused, refusal

NEWEST: Final = {
    "Produce": 12, "Fetch": 12, "ListOffsets": 7, "Metadata": 9, "FindCoordinator": 3,
    "InitProducerId": 6, "AddPartitionsToTxn": 5, "AddOffsetsToTxn": 4, "EndTxn": 5,
    "TxnOffsetCommit": 5, "WriteTxnMarkers": 2, "DescribeProducers": 0, "DescribeTransactions": 0,
    "CreateTopics": 5, "DeleteTopics": 5, "DeleteGroups": 2, "DeleteRecords": 2,
    "DescribeConfigs": 4, "IncrementalAlterConfigs": 1,
}  # fmt: skip
"""The newest versions that are sent. Above them topics go by ids, and coordinators are asked for
in groups."""
_OLDEST = {
    "Produce": 3, "Fetch": 4, "ListOffsets": 2, "Metadata": 4, "FindCoordinator": 1,
    "CreateTopics": 2, "DeleteTopics": 1, "WriteTxnMarkers": 1,
}  # fmt: skip
_TRANSACTION, _GROUP = 1, 0
_TOPIC, _BROKER, _TOPIC_CONFIG = 2, 4, 1
LOG: Final = "__transaction_state"
ALTERED: Final[Mapping[str, tuple[int, str]]] = {
    "max.message.bytes": (_TOPIC, LOG),
    "producer.id.expiration.ms": (_BROKER, ""),
}
"""The settings that are changed for a moment: whose they are. Those of all brokers count as not set
before."""
KNOWN: Final = {
    each.name: str(each.default).lower()
    for each in BROKER_SETTINGS
    if each.name
    in ("transaction.max.timeout.ms", "transaction.partition.verification.enable",
        "transaction.two.phase.commit.enable")
}  # fmt: skip
"""Settings of brokers of which the tables know only Kafka's default."""
PREFIX: Final = "epochfence-"
"""With it all names begin that are ours; a random part follows."""
MOST_BROKERS: Final = 5
PARTITIONS: Final = 100
"""So many partitions a topic of ours has: a run of requests takes new ones."""
PATIENCE_S: Final = 30
_SOON = frozenset(
    ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "LEADER_NOT_AVAILABLE",
     "UNKNOWN_TOPIC_OR_PARTITION", "NOT_COORDINATOR", "NOT_CONTROLLER")
)  # fmt: skip


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """The hosts and ports of HOST:PORT[,HOST:PORT]... Raises BrokerError for what is none."""
    found: list[tuple[str, int]] = []
    for part in bootstrap.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon:
            host, port = port, str(PORT)
        if not host or not port.isdigit() or not 0 < int(port) < 2**16:
            raise BrokerError(f"{part or bootstrap!r}: write HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return found


class LiveCluster:
    """The cluster that `bootstrap` (HOST:PORT, or several) leads to.

    Raises BrokerError where it can't be talked to, or is one that isn't to be touched: with topics
    of others, or of more than five brokers, unless it `may_be_shared`.
    """

    def __init__(
        self, bootstrap: str, how: Security | None = None, *, may_be_shared: bool = False
    ) -> None:
        self._how = how or Security()
        self._connections: dict[tuple[int, int], Connection] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._topics: list[str] = []
        self._groups: list[str] = []
        self._terms: tuple[int, ...] = ()
        self._free: Iterator[tuple[str, int]] = iter(())
        self.without: list[str] = []
        """The requests that the user may not ask."""
        self._leaders: dict[tuple[str, int], int] = {}
        self.prefix = f"{PREFIX}{secrets.token_hex(4)}"
        self.sent = 0
        self._restores: list[tuple[str, str | None]] = []
        self._aside = threading.local()
        self._numbers: set[int] = set()
        self._lock = threading.Lock()
        self.meanwhile: Callable[[], object] | None = None
        """Asks for something else before the next request is answered, over one connection."""
        self._early: Callable[[], dict[str, Any]] | None = None
        self._answered_first: dict[str, Any] = {}
        self._first = self._any_of(addresses(bootstrap))
        try:
            self.versions, self.features = self._negotiated()
            self.brokers = self._described(may_be_shared)
        except BaseException as error:
            self._first.close()
            if isinstance(error, Gone) and self._how == Security():
                raise BrokerError(
                    f"{error}: brokers that want TLS or SASL do so, for which --config has a "
                    "client's properties"
                ) from None
            raise

    def _any_of(self, places: list[tuple[str, int]]) -> Connection:
        error = BrokerError("no address")
        for host, port in places:
            try:
                return Connection(host, port, self._how)
            except BrokerError as refused:
                error = refused
        raise error

    def _negotiated(self) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
        """The versions of each request that both sides know, and the broker's features."""
        told = self._first.api_versions()
        found: dict[str, tuple[int, int]] = {}
        for one in told["api_keys"]:
            name = NAMES.get(one["api_key"], "")
            if name in NEWEST:
                low = max(one["min_version"], _OLDEST.get(name, 0))
                high = min(one["max_version"], NEWEST[name])
                if low <= high:
                    found[name] = (low, high)
        self.supported = {
            NAMES[one["api_key"]]: one["max_version"]
            for one in told["api_keys"]
            if one["api_key"] in NAMES
        }
        self.levels = {f["name"]: f["max_version"] for f in told.get("supported_features", ())}
        features = {f["name"]: f["max_version_level"] for f in told.get("finalized_features", ())}
        for name in ("InitProducerId", "EndTxn", "Produce", "Metadata", "CreateTopics"):
            if name not in found:
                low, high = _OLDEST.get(name, 0), NEWEST[name]
                raise BrokerError(
                    f"{self._first.place} doesn't support {name} of version {low} to {high}"
                )
        return found, features

    @property
    def release(self) -> str | None:
        """The release of the tables that its versions speak for; None where they speak for none."""
        return broker_versions.release_of(self.supported, self.levels)

    @property
    def transaction_version(self) -> int:
        """The finalized feature level."""
        return self.features.get("transaction.version", 0)

    def _described(self, may_be_shared: bool) -> dict[int, tuple[str, int]]:
        told = self._first.ask("Metadata", self.newest("Metadata"), {"topics": None})
        brokers = {one["node_id"]: (one["host"], one["port"]) for one in told["brokers"]}
        self._controller = told["controller_id"]
        others = sorted(topic["name"] for topic in told["topics"] if not topic["is_internal"])
        others = [name for name in others if not name.startswith("__")]
        if not may_be_shared and others:
            raise BrokerError(
                f"{self._first.place} has topics of others ({others[0]}{', …' * (len(others) > 1)})"
                ": --shared runs beside them"
            )
        if not may_be_shared and len(brokers) > MOST_BROKERS:
            raise BrokerError(
                f"{self._first.place} is of {len(brokers)} brokers: --shared takes more than "
                f"{MOST_BROKERS}"
            )
        return brokers

    def newest(self, name: str) -> int:
        """The newest version of a request that both sides know. Raises BrokerError."""
        if name not in self.versions:
            raise BrokerError(f"{self._first.place} takes no {name}")
        return self.versions[name][1]

    # Asking -----------------------------------------------------------------------------------

    def ask(
        self, node: int, name: str, fields: Mapping[str, Any], version: int | None = None
    ) -> dict[str, Any]:
        """A broker's response to a request, each over another of two connections than the one
        before. Raises BrokerError where none comes, and Refused where the user may not ask."""
        told = self._asked(node, name, fields, version)
        if (error := refusal(told, fields)) is not None:
            raise Refused(self._first.place, name, error, PREFIX)
        return told

    def _asked(
        self, node: int, name: str, fields: Mapping[str, Any], version: int | None
    ) -> dict[str, Any]:
        self.sent += 1
        version = self.newest(name) if version is None else version
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
        """A number of connections that nothing else is asked over meanwhile."""
        with self._lock:
            number = next(one for one in count(2) if one not in self._numbers)
            self._numbers.add(number)
        try:
            yield number
        finally:
            self._numbers.discard(number)

    @contextmanager
    def aside(self) -> Generator[None]:
        """Meanwhile, what this thread asks goes over connections of its own: the answer may take
        its time."""
        with self.own_number() as number:
            self._aside.number = number
            try:
                yield
            finally:
                self._aside.number = None

    def connection(self, node: int, number: int = 0) -> Connection:
        """A connection to a broker, a new one where there is none. Raises BrokerError."""
        if (node, number) not in self._connections:
            host, port = self.brokers.get(node, ("", 0))
            if not port:
                raise BrokerError(f"the cluster doesn't tell where its broker {node} is")
            self._connections[node, number] = Connection(host, port, self._how)
        return self._connections[node, number]

    def drop(self) -> None:
        """Its brokers go away: the next requests use new connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self.forget_coordinators()

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
            told = self._soon("FindCoordinator", {"key": key, "key_type": kind})
            self._coordinators[kind, key] = self._coordinators[kind, ""] = told["node_id"]
        return self._coordinators[kind, key]

    def forget_coordinators(self) -> None:
        """They have moved: they are asked for again."""
        self._coordinators.clear()
        self._terms = ()

    def coordinator_epochs(self) -> tuple[int, ...]:
        """The coordinators' epochs by partitions of the transaction log: which terms these are of
        their leaders. None before there is a transaction log, and none where markers aren't sent:
        nothing else names them."""
        if not self._terms and "WriteTxnMarkers" in self.versions:
            found = {p["partition_index"]: p.get("leader_epoch", 0) for p in self._topic(LOG)}
            self._terms = tuple(found[number] for number in range(len(found)))
        return self._terms

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition."""
        return self._leaders[topic, partition]

    def warm_up(self) -> None:
        """Has the brokers make what they make as it is first asked for: their own topics. What the
        user may not ask is left out from then on."""
        self._leave_out()
        for number in range(2 * PARTITIONS):
            name = f"{self.prefix}-{number}"
            asked = {"transactional_id": name, "transaction_timeout": 60_000}
            asked |= {"producer_id": -1, "producer_epoch": -1}
            until = time.monotonic() + PATIENCE_S
            while self._first_answer("InitProducerId", name, asked) in _SOON:
                if time.monotonic() > until:
                    raise BrokerError(f"{self._first.place} hands out no producer id")
                time.sleep(0.05)
                self.forget_coordinators()

    def _leave_out(self) -> None:
        """Has what brokers alone ask no versions, where the user isn't one of them: their markers
        and their questions. Of a topic and an id that nobody knows both do nothing."""
        nowhere, who = f"{self.prefix}-nowhere", {"producer_id": 0, "producer_epoch": 0}
        marker = {**who, "topics": [{"name": nowhere, "partition_indexes": [0]}]}
        question = {
            **who, "transactional_id": nowhere, "verify_only": True,
            "topics": [{"name": nowhere, "partitions": [0]}],
        }  # fmt: skip
        low, high = self.versions.get("AddPartitionsToTxn", (0, 0))
        log = {"topics": [{"name": LOG}], "allow_auto_topic_creation": False}
        if not (self._may("WriteTxnMarkers", {"markers": [marker]}) and self._may("Metadata", log)):
            self.versions.pop("WriteTxnMarkers", None)
            self.without.append("WriteTxnMarkers")
        if high >= OF_BROKERS and not self._may("AddPartitionsToTxn", {"transactions": [question]}):
            self.versions["AddPartitionsToTxn"] = low, OF_BROKERS - 1
            self.without.append(f"AddPartitionsToTxn of version {OF_BROKERS} on")

    def _may(self, name: str, fields: Mapping[str, Any]) -> bool:
        """Whether the user may ask this, which does nothing, of who takes it."""
        if name in self.versions:
            try:
                self.ask(self._controller, name, fields)
            except Refused:
                return False
        return True

    def _first_answer(self, request: str, name: str, fields: Mapping[str, Any]) -> str:
        return self.ask(self.coordinator(name), request, fields)["error_code"]

    def _soon(self, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a request that a broker may not be ready for at once."""
        until = time.monotonic() + PATIENCE_S
        while True:
            told = self.ask(next(iter(self.brokers)), name, fields)
            if told["error_code"] not in _SOON or time.monotonic() > until:
                break
            time.sleep(0.1)
        if told["error_code"] != "NONE":
            raise BrokerError(f"{self._first.place} answers {name} with {told['error_code']}")
        return told

    # Topics -----------------------------------------------------------------------------------

    def new_partition(self) -> tuple[str, int]:
        """A partition of ours that nothing was written to: its topic and number."""
        found = next(self._free, None)
        if found is None:
            topic = self._new_topic()
            self._free = ((topic, number) for number in range(PARTITIONS))
            found = next(self._free)
        return found

    def _new_topic(self) -> str:
        topic = f"{self.prefix}-{len(self._topics)}"
        made = {"name": topic, "num_partitions": PARTITIONS, "replication_factor": 1}
        told = self.ask(
            self._controller, "CreateTopics", {"topics": [made], "timeout": PATIENCE_S * 1000}
        )
        (one,) = told["topics"]
        if one["error_code"] != "NONE":
            raise BrokerError(f"{self._first.place} makes no topic {topic}: {one['error_code']}")
        self._topics.append(topic)
        self._await_leaders(topic)
        return topic

    def _await_leaders(self, topic: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
            (told,) = self.ask(next(iter(self.brokers)), "Metadata", asked)["topics"]
            found = {
                (topic, one["partition_index"]): one["leader_id"]
                for one in told["partitions"]
                if one["error_code"] == "NONE" and one["leader_id"] >= 0
            }
            if len(found) == PARTITIONS and self._lead(topic, found):
                self._leaders |= found
                return
            if time.monotonic() > until:
                raise BrokerError(f"{self._first.place}: no leader for all partitions of {topic}")
            time.sleep(0.05)

    def _lead(self, topic: str, leaders: Mapping[tuple[str, int], int]) -> bool:
        """Whether the leaders know that they are."""
        for node in set(leaders.values()):
            partitions = [
                {"partition_index": number, "timestamp": -1}
                for (_, number), leader in leaders.items()
                if leader == node
            ]
            asked = {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}]}
            (told,) = self.ask(node, "ListOffsets", asked)["topics"]
            if any(one["error_code"] != "NONE" for one in told["partitions"]):
                return False
        return True

    def delete_records(self, topic: str, partition: int) -> None:
        """Deletes all that is replicated of a partition of ours."""
        one = {"partition_index": partition, "offset": -1}
        asked = {"topics": [{"name": topic, "partitions": [one]}], "timeout_ms": PATIENCE_S * 1000}
        self.ask(self.leader(topic, partition), "DeleteRecords", asked)

    # Settings ---------------------------------------------------------------------------------

    def check_settings(self) -> None:
        """Raises BrokerError where a broker has another value of a setting than the tables know,
        as far as the user may ask for it."""
        for node in self.brokers if "DescribeConfigs" in self.versions else ():
            try:
                told = self._described_settings(_BROKER, str(node), [*KNOWN])
            except Refused:
                return
            for name, config in told.items():
                if config["value"] != KNOWN[name]:
                    raise BrokerError(
                        f"broker {node} has {name}={config['value']}, and what is declared is for "
                        f"{KNOWN[name]}: run it on brokers with that"
                    )

    def setting(self, name: str) -> int:
        """A broker's setting."""
        return int(self._described_setting(_BROKER, str(next(iter(self.brokers))), name)["value"])

    def _described_setting(self, kind: int, of: str, name: str) -> dict[str, Any]:
        told = self._described_settings(kind, of, [name])
        if name not in told:
            raise BrokerError(f"{self._first.place} doesn't tell {name}")
        return told[name]

    def _described_settings(
        self, kind: int, of: str, names: list[str]
    ) -> dict[str, dict[str, Any]]:
        """Those of these settings that exist, by name. A broker reports its own."""
        node = int(of) if kind == _BROKER else self._controller
        resource = {"resource_type": kind, "resource_name": of, "configuration_keys": names}
        told = self.ask(node, "DescribeConfigs", {"resources": [resource]})
        (result,) = told["results"]
        if result["error_code"] != "NONE":
            raise BrokerError(
                f"{self._first.place} doesn't tell {', '.join(names)}: {result['error_code']}"
            )
        return {config["name"]: config for config in result["configs"]}

    def altered(self, name: str, value: str) -> None:
        """Changes one of `ALTERED` for a moment, until `restore`."""
        kind, of = ALTERED[name]
        known = self._described_setting(kind, of, name) if kind == _TOPIC else None
        is_own = known is not None and known["config_source"] == _TOPIC_CONFIG
        self._restores.append((name, known["value"] if known is not None and is_own else None))
        self._set(name, value)

    def restore(self) -> None:
        """Sets back what was changed."""
        while self._restores:
            self._set(*self._restores[-1])
            self._restores.pop()

    def _set(self, name: str, value: str | None) -> None:
        kind, of = ALTERED[name]
        config = {"name": name, "value": value, "config_operation": int(value is None)}
        resource = {"resource_type": kind, "resource_name": of, "configs": [config]}
        told = self.ask(self._controller, "IncrementalAlterConfigs", {"resources": [resource]})
        (response,) = told["responses"]
        if response["error_code"] != "NONE":
            raise BrokerError(f"{self._first.place}: {name}: {response['error_code']}")

    def partitions_of(self, topic: str) -> int:
        """The number of a topic's partitions."""
        return len(self._topic(topic))

    def _topic(self, topic: str) -> list[dict[str, Any]]:
        """The description of a topic's partitions."""
        asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        (told,) = self.ask(next(iter(self.brokers)), "Metadata", asked)["topics"]
        return told["partitions"]

    def close(self, *, keeps: bool = False) -> list[str]:
        """Removes the topics and groups that were made, unless it `keeps` them, and disconnects:
        what wasn't removed all the same, in lines. Transactional ids go by themselves, after
        transactional.id.expiration.ms."""
        left: list[str] = []
        with suppress(BrokerError):
            self.restore()
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
        asked = {"topic_names": self._topics, "timeout": PATIENCE_S * 1000}
        self.ask(self._controller, "DeleteTopics", asked)

    def _remove_groups(self) -> None:
        if "DeleteGroups" in self.versions:
            for group in self._groups:
                node = self.group_coordinator(group)
                self.ask(node, "DeleteGroups", {"groups_names": [group]})
