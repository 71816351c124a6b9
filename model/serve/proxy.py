"""A proxy between clients and real brokers that injects faults into requests and answers.

The proxy forwards requests and answers byte for byte, except for the addresses in answers. It
listens on a separate port for each broker, and gives clients that port.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from operator import itemgetter
from socket import gethostbyname
from typing import Any, Final
from uuid import UUID

from ...spec.releases.broker_versions import BY_NAME
from ..conformance.live.cluster.cluster import addresses
from ..wire.connection import (
    ABOUT_US,
    KNOWN,
    NAMES,
    BrokerError,
    Connection,
    Security,
    request_bytes,
)
from ..wire.connection import response_of as fields_of
from ..wire.listener import LOST, UNANSWERED, Answer, Brokers, Request, Silence
from ..wire.raw_connection import Link
from .base import Served
from .faults.faults import Fault, Faults
from .faults.injection import Faulted, now_ms
from .history import RECORDED

REFUSED: Final = {
    "hold_markers": "brokers send them to each other: where their listener is behind the proxy, "
    "hold WriteTxnMarkers",
    "time_out_transaction": "real brokers do so by their clock: give the client a short "
    "transaction.timeout.ms",
    "expire_producer": "real brokers do so by their clock: give them a short "
    "producer.id.expiration.ms",
    "expire_members": "real brokers do so by their clock: give the consumer a short "
    "session.timeout.ms",
}
"""The faults of a cluster that a proxy can't cause, each with an alternative."""
NO_COMMAND: Final = "real brokers fail over as they end: name a --restart-command"
_HIDDEN: Final = frozenset(
    ("SaslHandshake", "SaslAuthenticate", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch",
     "FetchSnapshot", "DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter",
     "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge",
     "StreamsGroupHeartbeat")
)  # fmt: skip
"""APIs that the proxy doesn't offer: those with addresses of controllers, and those of groups with
topic ids."""
_NEWEST: Final = {**BY_NAME, "Metadata": 12, "TxnOffsetCommit": 6}
"""The newest forwarded version of an API. TxnOffsetCommit 6 names topics by ids, which Metadata 12
resolves."""
_WITH_ADDRESSES: Final = frozenset(("Metadata", "FindCoordinator", "DescribeCluster"))
PATIENCE_S: Final = 30
"""The time in s for which a rival repeats InitProducerId while the coordinator is busy."""
_SOON: Final = frozenset(
    ("CONCURRENT_TRANSACTIONS", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
     "NOT_COORDINATOR")
)  # fmt: skip
_TRANSACTION: Final = 1


def passed_on(answer: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """The first and last forwarded version of each API, from an answer to ApiVersions.

    The proxy understands these versions. They name topics (except TxnOffsetCommit 6), and look up
    one coordinator at a time.
    """
    found: dict[str, tuple[int, int]] = {}
    for one in answer["api_keys"]:
        name = NAMES.get(one["api_key"])
        if name is None or name in _HIDDEN:
            continue
        first, last = KNOWN[name]
        low = max(one["min_version"], first)
        high = min(one["max_version"], last, _NEWEST.get(name, last))
        if low <= high:
            found[name] = (low, high)
    return found


class Proxy(Served):
    """A context manager that runs a proxy to the cluster at `upstream` (one or several HOST:PORT).

    Clients connect to `bootstrap` in plain text; `how` has the security of the connections to the
    brokers. `restart` kills the brokers and starts them again, for fail_over_coordinator. The proxy
    listens on `host`, from `port` on. If brokers advertise the proxy's addresses for a listener,
    `upstream` must have this listener of each broker, in the order of ids. Raises BrokerError and
    CantListenError.
    """

    def __init__(
        self, upstream: str, *, host: str = "127.0.0.1", port: int = 0,
        how: Security | None = None, restart: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self._how, self._restart = how or Security(), restart
        self._place = host, port
        self._upstream: dict[int, tuple[str, int]] = {}
        self._behind: set[int] = set()  # brokers that advertise the proxy's address
        self._links: dict[tuple[int, int], Link] = {}
        self._timeouts: dict[str, int] = {}
        self._topics: dict[UUID, str] = {}
        self.answered: Counter[str] = Counter()
        """The number of answered requests of each API."""
        self.broken: list[str] = []
        """The reason for each request without an answer."""
        answer = self._look(upstream)
        self.brokers = Brokers(
            self._answer, passed_on(answer), count=0, host=host, port=port, left=self._left,
            supported={
                one["name"]: one["max_version"] for one in answer.get("supported_features", ())
            },
        )  # fmt: skip
        self._tell_features(answer)
        if self.brokers.supported:  # brokers do so from ApiVersions 3 on
            self.brokers.features_of = self._features_of
        refused = REFUSED if restart else {**REFUSED, "fail_over_coordinator": NO_COMMAND}
        self._faulted = Faulted(
            self._answer,
            self._act,
            self.brokers.failures,
            copies=self._copy,
            faults=Faults(refused=refused),
        )
        self.brokers.handle = self._handle

    def _look(self, upstream: str) -> dict[str, Any]:
        """The versions of the first broker that answers. Its metadata has the other brokers."""
        error, places = BrokerError(f"{upstream}: no address"), addresses(upstream)
        for host, port in places:
            try:
                connection = Connection(host, port, self._how)
            except BrokerError as refused:
                error = refused
                continue
            try:
                answer = connection.api_versions()
                versions = passed_on(answer)
                if "Metadata" not in versions:
                    raise BrokerError(
                        f"{connection.place} has no version of Metadata that is known here"
                    )
                version = versions["Metadata"][1]
                found = connection.ask("Metadata", version, {"topics": []})["brokers"]
            finally:
                connection.close()
            found.sort(key=itemgetter("node_id"))
            for index, one in enumerate(found):
                node = one["node_id"]
                self._upstream[node] = (one["host"], one["port"])
                if self._is_ours(index, one["host"], one["port"]):
                    self._behind.add(node)
                    if index >= len(places):
                        raise BrokerError(
                            f"broker {node} advertises this proxy's address: --upstream has to "
                            "name that listener of each broker, in the order of their ids"
                        )
                    self._upstream[node] = places[index]
            return answer
        raise error

    def _is_ours(self, index: int, host: str, port: int) -> bool:
        """Whether an address is the proxy's own for the broker of this index."""
        own, first = self._place
        if not first or port != first + index:
            return False
        try:
            return own in ("0.0.0.0", "::") or gethostbyname(host) == gethostbyname(own)
        except OSError:
            return False

    def _tell_features(self, answer: Mapping[str, Any]) -> None:
        """Takes the cluster's features from a broker's answer, for clients."""
        features = {f["name"]: f["max_version_level"] for f in answer.get("finalized_features", ())}
        self.brokers.features = features
        self.brokers.features_epoch = answer.get("finalized_features_epoch", 0)

    async def _features_of(self, node: int) -> None:
        """Renews the cluster's features from a broker. They are unchanged if the broker doesn't
        answer."""
        try:
            link = await Link.open(*self._upstream[node], self._how)
            try:
                answer = await link.told("ApiVersions", 3, ABOUT_US)
            finally:
                link.close()
        except BrokerError:
            return
        if answer["error_code"] == "NONE":
            self._tell_features(answer)

    async def _begin(self) -> None:
        for node in sorted(self._upstream):
            await self.brokers.listen(node)

    def name_of_topic(self, topic_id: UUID) -> str | None:
        return self._topics.get(topic_id)

    # Forwarding ---------------------------------------------------------------------------------

    async def _handle(self, request: Request) -> Answer | Silence:
        if request.version > BY_NAME.get(request.name, request.version):
            self.name_topics(request.fields)
        return await self._faulted.handle(request)

    async def _answer(self, request: Request) -> Answer | Silence:
        """The answer of the request's broker, over the client's own connection to it."""
        place = (request.connection, request.node)
        try:
            if place not in self._links:
                self._links[place] = await Link.open(*self._upstream[request.node], self._how)
            answer = await self._forward(self._links[place], request)
        except BrokerError as error:
            self._links.pop(place, None)
            self.broken.append(str(error))
            return LOST
        self.answered[request.name] += 1
        return answer

    async def _copy(self, request: Request) -> Answer | Silence:
        """The answer to a repeated request, over a separate connection."""
        try:
            link = await Link.open(*self._upstream[request.node], self._how)
            try:
                return await self._forward(link, request)
            finally:
                link.close()
        except BrokerError as error:
            self.broken.append(str(error))
            return LOST

    async def _forward(self, link: Link, request: Request) -> Answer | Silence:
        name, fields = request.name, request.fields
        if name == "InitProducerId" and fields["transactional_id"]:
            self._timeouts[fields["transactional_id"]] = fields["transaction_timeout"]
        if name == "Produce" and fields["acks"] == 0:
            await link.send(request.data)
            return UNANSWERED
        data = await link.ask(request.data)
        if name not in RECORDED and name not in _WITH_ADDRESSES:
            return Answer({}, data=data)
        answer = fields_of(name, request.version, data)
        if name == "Metadata":
            topics = (topic for topic in answer["topics"] if "topic_id" in topic and topic["name"])
            self._topics |= {topic["topic_id"]: topic["name"] for topic in topics}
        else:
            self.name_topics(answer)
        if await self._with_our_addresses(name, answer):
            return Answer(answer)
        return Answer(answer, data=data)

    async def _with_our_addresses(self, name: str, answer: dict[str, Any]) -> bool:
        """Replaces brokers' addresses in an answer by the proxy's. Returns whether there are
        any."""
        places: list[dict[str, Any]]
        if name == "FindCoordinator":
            places = [answer] if answer["error_code"] == "NONE" else []
        elif name == "Produce":
            places = answer.get("node_endpoints") or []
        else:
            places = answer.get("brokers") or []
        for place in places:
            node = place.get("node_id", place.get("broker_id"))
            assert node is not None
            if node not in self._behind:
                self._upstream[node] = (place["host"], place["port"])
            if node not in self.brokers.addresses:
                await self.brokers.listen(node)
            place["host"], place["port"] = self.brokers.addresses[node]
        return bool(places)

    def _left(self, connection: int) -> None:
        for place in [place for place in self._links if place[0] == connection]:
            self._links.pop(place).close()

    # Faults of the cluster ----------------------------------------------------------------------

    async def _act(self, fault: Fault, transactional_id: str | None) -> None:
        try:
            if fault.do == "fail_over_coordinator":
                assert self._restart is not None
                await asyncio.to_thread(self._restart)
                fault.failed = None
            elif transactional_id is None:
                fault.failed = "no transactional id is named: give the fault one"
            else:
                fault.failed = await self._rivals(transactional_id, fault.producer_epoch)
        except BrokerError as error:
            fault.failed = str(error)
        if fault.failed is None:
            fault.fired += 1

    async def _rivals(self, transactional_id: str, wanted: int | None) -> str | None:
        """Sends a rival's InitProducerId for the id until it gets an epoch, or the wanted epoch.
        Returns None, or the reason why it didn't."""
        node = next(iter(self._upstream))
        link = await Link.open(*self._upstream[node], self._how)
        try:
            body = {"key": transactional_id, "key_type": _TRANSACTION}
            version = self.brokers.versions["FindCoordinator"][1]
            answer = await link.told("FindCoordinator", version, body)
        finally:
            link.close()
        if answer["error_code"] != "NONE":
            return f"its coordinator isn't known: {answer['error_code']}"
        place = self._upstream.get(answer["node_id"], (answer["host"], answer["port"]))
        link = await Link.open(*place, self._how)
        try:
            return await self._asks(link, transactional_id, answer["node_id"], wanted)
        finally:
            link.close()

    async def _asks(
        self, link: Link, transactional_id: str, node: int, wanted: int | None
    ) -> str | None:
        version = self.brokers.versions["InitProducerId"][1]
        fields = {
            "transactional_id": transactional_id,
            "producer_id": -1,
            "producer_epoch": -1,
            "transaction_timeout": self._timeouts.get(transactional_id, 60_000),
        }
        data = request_bytes("InitProducerId", version, fields)
        request = Request("InitProducerId", version, fields, "rival", -1, node, data)
        until = now_ms() + PATIENCE_S * 1000
        while True:
            begun = now_ms()
            answer = fields_of("InitProducerId", version, await link.ask(data))
            self._faulted.record(request, begun, Answer(answer))
            error, epoch = answer["error_code"], answer["producer_epoch"]
            if error == "NONE" and (wanted is None or epoch == wanted):
                return None
            if error == "NONE" and wanted is not None and epoch > wanted:
                return f"{transactional_id} is at epoch {epoch} already"
            if error not in ("NONE", *_SOON):
                return f"the rival gets {error}"
            if error != "NONE":
                if now_ms() > until:
                    return f"the rival gets {error}, for {PATIENCE_S} s"
                await asyncio.sleep(0.02)

    def report(self) -> str:
        """The numbers of requests with and without an answer, and the outcome of the faults, as
        lines."""
        lines = self._faulted.report(self.answered, self.brokers.refused)
        if self.broken:
            lines.insert(1, f"{len(self.broken)} requests without an answer: {self.broken[0]}")
        return "\n".join(lines)
