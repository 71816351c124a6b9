"""The server of a cluster in memory: the handlers of requests, and the clock."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ...spec.access.acls import Acls
from ...spec.releases.api_versions import LARGEST
from ...spec.releases.broker_versions import (
    BY_NAME,
    check_transaction_version,
    metadata_version,
    newest_of,
)
from ...spec.releases.features import RELEASED
from ..cluster import Cluster
from ..wire.connection import KNOWN
from ..wire.listener import LOST, Answer, Brokers, Limits, Request, Silence
from .base import Served
from .faults.actions import Actions
from .faults.faults import Fault
from .faults.injection import Faulted, now_ms
from .handlers.configs import ConfigApis
from .handlers.consumer_groups import ConsumerGroupApis
from .handlers.groups import GroupApis
from .handlers.logs import LogApis
from .handlers.metadata import MetadataApis, Nodes, ReplicaApis
from .handlers.offsets import OffsetApis
from .handlers.partitions import Partitions
from .handlers.transactions import TransactionApis
from .settings import Settings
from .users import ANONYMOUS, VERSIONS, Users

MOST_BROKERS: Final = 5
CHECK: Final = "log.retention.check.interval.ms"
LOOK_S: Final = 0.1
"""The interval in s of the check for timed-out transactions; Kafka's default is 10 s."""


def offered(protocol: str) -> dict[str, tuple[int, int]]:
    """The first and last version of each API that the server offers for a release: Kafka's versions
    that have a schema."""
    found: dict[str, tuple[int, int]] = {}
    for name, newest in newest_of(protocol).items():
        first, last = KNOWN[name]
        is_early = name in EARLY and RELEASED.index(protocol) < RELEASED.index("4.0.0")
        if newest >= first and not is_early:
            found[name] = (first, min(newest, last))
    return found


EARLY: Final = ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe")
"""APIs that brokers before 4.0 offer only with settings for early access."""


class Server(Served):
    """A context manager that runs a cluster in memory. `brokers` is the number of brokers. Clients
    connect to `bootstrap`.

    `protocol` is the release, `partitions` the number of partitions of an automatically created
    topic. Broker ids begin at `first_id`. The brokers listen on `host`, from `port` on, and
    advertise the host `advertised`. `transaction_version` is the finalized level of that feature
    (default: the release's newest). `settings` are the brokers' settings (`BROKER` of
    `model.serve.settings`), `racks` their racks, in turn. At most `in_sync` replicas of a partition
    are in sync. With `acls` the cluster has an authorizer (`cluster.acls` changes it). With
    `passwords`, by user name, clients need SASL (PLAIN, SCRAM); with `unsecured_tokens`,
    OAUTHBEARER. Raises CantListenError, ModelError for a wrong ACL, and ValueError for an
    impossible topic, setting or level, or for users that brokers of the release don't support.
    """

    def __init__(
        self, protocol: str, *, brokers: int = 1, partitions: int = 1, host: str = "127.0.0.1",
        port: int = 0, topics: Mapping[str, int] | None = None, acls: Acls | None = None,
        passwords: Mapping[str, str] | None = None, unsecured_tokens: bool = False,
        settings: Mapping[str, str] | None = None, racks: Sequence[str] = (),
        in_sync: int | None = None, advertised: str | None = None, first_id: int = 0,
        transaction_version: int | None = None,
    ) -> None:  # fmt: skip
        made_by = {"num.partitions": str(partitions)} if partitions != 1 else {}
        self.settings = Settings(protocol, {**made_by, **(settings or {})})
        if not 0 < self.settings.number("default.replication.factor") <= brokers:
            raise ValueError(f"default.replication.factor is above the {brokers} broker(s)")
        self._advertised = advertised
        self.cluster = Cluster(protocol=protocol, now_ms=_wall_ms(), acls=acls)
        if transaction_version is not None:
            check_transaction_version(transaction_version, protocol)
            self.cluster.update_features(transaction_version=transaction_version)
        self.users = _users(protocol, passwords, unsecured_tokens)
        for limit in ("group_min_session_timeout_ms", "group_max_session_timeout_ms"):
            self.cluster.group_settings[limit] = self.settings.number(limit.replace("_", "."))
        self.nodes = Nodes(brokers, racks=tuple(racks), most_in_sync=in_sync, first=first_id)
        made = self.settings.number("num.partitions")
        self.partitions = Partitions(self.cluster, self.settings, made=made)
        for name, count in (topics or {}).items():
            error = self.partitions.create(name, count)
            if error != "NONE":
                raise ValueError(f"no topic can be called {name!r}: {error}")
        self.answered: Counter[str] = Counter()
        """The number of answered requests of each API."""
        self.logs = LogApis(self.cluster, self.nodes, self.partitions, self.settings)
        self.groups = GroupApis(self.cluster, self.nodes)
        self.consumer_groups = ConsumerGroupApis(self.cluster, self.partitions, self.groups)
        self.offsets = OffsetApis(
            self.cluster, self.partitions, self.groups, self.consumer_groups, self.settings
        )
        self.metadata = MetadataApis(
            self.nodes, self.partitions, self.settings, self.offsets.delete_topic
        )
        self.replicas = ReplicaApis(self.cluster, self.nodes, self.partitions)
        self.configs = ConfigApis(self.cluster, self.partitions, self.settings)
        self.transactions = TransactionApis(self.cluster, self.nodes, self.partitions)
        self._answers: dict[str, Callable[[Request], Any]] = {
            **self.metadata.answers,
            **self.logs.answers,
            **self.transactions.answers,
            **self.groups.answers,
            **self.consumer_groups.answers,
            **self.offsets.answers,
            **self.configs.answers,
            **self.replicas.answers,
        }
        offers = offered(self.cluster.protocol)
        if self.users is not None:
            self._answers |= self.users.answers
            offers |= VERSIONS
        version = self.cluster.transaction_version
        level = metadata_version(self.cluster.protocol)
        self.brokers = Brokers(
            self._answer,
            {name: offers[name] for name in ("ApiVersions", *self._answers) if name in offers},
            count=brokers,
            first=first_id,
            host=host,
            port=port,
            features={"transaction.version": version} if version else {},
            supported={"metadata.version": level} if level else {},
            left=lambda connection: self.users and self.users.left(connection),
            limits=Limits(
                self.settings.number("max.connections"),
                self.settings.number("connections.max.idle.ms") / 1000,
                self.settings.number("socket.request.max.bytes"),
                self.settings.number("queued.max.request.bytes"),
            ),
        )
        self._faulted = Faulted(self._answer, self._act, self.brokers.failures, marks=self._marks)
        self.brokers.handle = self._handle
        self.actions = Actions(
            self.cluster, self.nodes, self._rivals, self._faulted.later, self.logs.wake
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._addresses().values())

    def _addresses(self) -> Mapping[int, tuple[str, int]]:
        """The brokers' advertised addresses."""
        addresses, name = self.brokers.addresses, self._advertised
        return (
            addresses
            if name is None
            else {node: (name, port) for node, (_, port) in addresses.items()}
        )

    def _handle(self, request: Request) -> Awaitable[Answer | Silence]:
        if request.version > BY_NAME.get(request.name, LARGEST):
            self.name_topics(request.fields, "topic" if request.name == "Fetch" else "name")
        return self._faulted.handle(request)

    def name_of_topic(self, topic_id: UUID) -> str | None:
        return self.partitions.name_of(topic_id)

    async def _begin(self) -> None:
        self.nodes.addresses = self._addresses()
        self._faulted.later(self._watches())

    async def _watches(self) -> None:
        """Aborts timed-out transactions and deletes old records at intervals."""
        cleaned_ms = self.cluster.now_ms
        while True:
            await asyncio.sleep(LOOK_S)
            self._tick()
            self.cluster.sleep(0)
            self.groups.settle()
            self.consumer_groups.expire()
            self.partitions.count_all()
            if self.cluster.now_ms >= cleaned_ms + self.settings.number(CHECK):
                self.partitions.clean()
                cleaned_ms = self.cluster.now_ms
            self.logs.wake()

    def _tick(self) -> None:
        """Sets the cluster's clock to the wall-clock time."""
        passed = _wall_ms() - self.cluster.now_ms
        if passed > 0:
            self.cluster.pass_time(passed)

    async def _answer(self, request: Request) -> Answer | Silence:
        self._tick()
        principal = ANONYMOUS
        if self.users is not None and request.name not in VERSIONS:
            authenticated = self.users.principal(request.connection)
            if authenticated is None:  # as SaslServerAuthenticator does
                return LOST
            principal = authenticated
        answer = self._answers[request.name](dataclasses.replace(request, principal=principal))
        if inspect.isawaitable(answer):
            answer = await answer
        if request.name in _MOVE:
            self.logs.wake()
        self.answered[request.name] += 1
        return answer

    def _act(self, fault: Fault, transactional_id: str | None) -> None:
        self._tick()
        self.actions.act(fault, transactional_id)

    def _rivals(self, transactional_id: str, timeout_ms: int) -> str:
        """The answer to a rival's InitProducerId."""
        request = Request(
            "InitProducerId",
            self.brokers.versions["InitProducerId"][1],
            {"transactional_id": transactional_id, "transaction_timeout": timeout_ms},
            client_id="rival",
            connection=-1,
            node=self.nodes.coordinator(transactional_id),
        )
        begun = now_ms()
        answer = self.transactions.init_producer_id(request)
        self._faulted.record(request, begun, answer)
        return answer.fields["error_code"]

    def _marks(self, holds: bool) -> None:
        self.cluster.hold_markers(holds)
        self.logs.wake()

    def report(self) -> str:
        return "\n".join(self._faulted.report(self.answered, self.brokers.refused))


def _users(protocol: str, passwords: Mapping[str, str] | None, takes_tokens: bool) -> Users | None:
    """The users of the cluster; None without authentication."""
    if passwords is None and not takes_tokens:
        return None
    for is_wanted, what, since in (
        (True, "SaslAuthenticate", "1.0"),
        (takes_tokens, "SASL/OAUTHBEARER", "2.0.0"),
    ):
        if is_wanted and RELEASED.index(protocol) < RELEASED.index(since):
            raise ValueError(f"brokers of {protocol} don't support {what}; from {since} on they do")
    return Users(passwords, takes_tokens=takes_tokens)


_MOVE: Final = frozenset(("InitProducerId", "EndTxn"))
"""The requests after which markers may be written."""


def _wall_ms() -> int:
    return round(now_ms())
