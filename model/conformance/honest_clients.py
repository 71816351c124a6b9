"""Clients that follow the protocol: after each answer, the requests that a client may send next.

A client starts with InitProducerId, and has one request in flight at a time. Its requests follow
from its identity, transaction and sequences. It repeats a request whose answer is lost. A newer
instance of its transactional id makes it a zombie; it continues until a broker fences it.

TransactionManager; KIP-890 for clients that use transaction version 2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from ...spec.releases import api_versions
from ..requests import Answer
from .simulated_clients import Client

Level = Literal["any", "well-behaved"]
"""The requests of a run: any, or only those of honest clients."""
USUAL_TIMEOUT_MS: Final = 60_000
HELD_FROM: Final = 3
"""The first version of InitProducerId that has the sender's producer id and epoch (KIP-360)."""
AGAIN: Final = frozenset(
    ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE",
     "NETWORK_EXCEPTION", "NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS",
     "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT",
     "UNKNOWN_TOPIC_OR_PARTITION")
)  # fmt: skip
"""Errors after which a client sends the same request again. Other errors close the client."""
_SECOND: Final = ("EndTxn", "Produce", "TxnOffsetCommit")
"""The requests whose version depends on whether the transaction version is 2."""


def sends(versions: Mapping[str, tuple[int, int]], transaction_version: int) -> dict[str, int]:
    """The version of each request that a client with these versions sends to a cluster of this
    transaction version."""
    found = {request: newest for request, (_, newest) in versions.items()}
    first = {request: api_versions.first_of_version_2(request) for request in _SECOND}
    if transaction_version < 2 or any(found.get(each, -1) < first[each] for each in _SECOND):
        for request in found.keys() & first.keys():
            found[request] = min(found[request], first[request] - 1)
    if "AddPartitionsToTxn" in found:
        found["AddPartitionsToTxn"] = min(found["AddPartitionsToTxn"], api_versions.OF_BROKERS - 1)
    return found


@dataclass
class Honest:
    """A client, and the state of its transaction.

    `sends` has the version of each request. If it is None, requests have no version. Then
    `is_version_2` is true for transactions of version 2, and `can_bump` if InitProducerId may have
    the client's epoch.
    """

    client: Client
    sends: Mapping[str, int] | None = None
    is_version_2: bool = False
    can_bump: bool = True
    added: frozenset[str] = frozenset()
    has_group: bool = False
    is_open: bool = False
    """Whether the transaction has content that EndTxn can end."""
    last: Answer = field(default_factory=dict[str, Any])
    is_due: bool = True
    """Whether the last request must be sent again."""
    is_over: bool = False

    @classmethod
    def new(
        cls, transactional_id: str | None, sends: Mapping[str, int] | None = None, *,
        is_version_2: bool = False, can_bump: bool = True, timeout_ms: int = USUAL_TIMEOUT_MS,
    ) -> Honest:  # fmt: skip
        """A client that is about to send its InitProducerId."""
        if sends is not None:
            newest = sends.get("EndTxn", -1)
            is_version_2 = newest >= api_versions.first_of_version_2("EndTxn")
            can_bump = sends.get("InitProducerId", -1) >= HELD_FROM
        made = cls(Client(transactional_id, -1, -1), sends, is_version_2, can_bump)
        fields = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        made.last = made._request("InitProducerId", **fields)
        return made

    def copy(self) -> Honest:
        """An independent copy of the client."""
        client = self.client
        sent = {partition: [*batches] for partition, batches in client.sent.items()}
        return replace(self, client=replace(client, sent=sent))

    def key(self) -> tuple[Any, ...]:
        """A key. Clients with the same key may send the same requests."""
        version = None if self.sends is None else tuple(sorted(self.sends.items()))
        where = (self.added, self.has_group, self.is_open, self.is_due, self.is_over)
        return (self.client.transactional_id, version, self.last.get("request"), *where)

    def next(
        self, partitions: Sequence[str], group: str | None = None, count: int = 1
    ) -> list[Answer]:
        """The requests that the client may send next, the last one again included. A closed client
        has none."""
        if self.is_over:
            return []
        if self.is_due:
            return [self.last]
        found = list(self._next(partitions, group, count))
        return [line for line in found if self._knows(line["request"])] + [self.last]

    def _next(self, partitions: Sequence[str], group: str | None, count: int) -> Iterator[Answer]:
        name = self.client.transactional_id
        who = {
            "producer_id": self.client.producer_id,
            "producer_epoch": self.client.producer_epoch,
        }
        if name is None:
            for partition in partitions:
                yield self._batch(partition, count, who)
            return
        own = {"transactional_id": name, **who}
        for partition in partitions:
            if self.is_version_2 or partition in self.added:
                yield self._batch(partition, count, own)
            else:
                yield self._request("AddPartitionsToTxn", **own, partitions=[partition])
        if group is not None:
            commits = self.is_version_2 or self.has_group
            request = "TxnOffsetCommit" if commits else "AddOffsetsToTxn"
            yield self._request(request, **own, group_id=group)
        if self.is_open:
            for result in ("COMMIT", "ABORT"):
                yield self._request("EndTxn", **own, result=result)
        elif self.last.get("result") == "ABORT" and self.can_bump and not self.is_version_2:
            fields = {**own, "transaction_timeout_ms": USUAL_TIMEOUT_MS}
            yield self._request("InitProducerId", **fields)

    def learn(self, line: Answer, answer: Answer | None) -> None:
        """Takes the answer to a request of the client; None: it was lost."""
        self.last, self.is_due = line, False
        error = None if answer is None else answer.get("error")
        if error is None or error in AGAIN:
            self.is_due = True
            return
        if error != "NONE":
            self.is_over = True
            return
        match line["request"]:
            case "Produce":
                self._sent(line)
            case "AddPartitionsToTxn":
                self.added |= frozenset(line["partitions"])
            case "AddOffsetsToTxn" | "TxnOffsetCommit":
                self.has_group = True
            case _:
                self.client.learn(answer)
                self.added, self.has_group = frozenset(), False
        self.is_open = line["request"] not in ("InitProducerId", "EndTxn")

    def _sent(self, line: Answer) -> None:
        known = self.client.sent.setdefault(line["partition"], [])
        one = (line["base_sequence"], line["count"])
        if one not in known[-1:]:
            known.append(one)

    def _batch(self, partition: str, count: int, who: Mapping[str, Any]) -> Answer:
        base = self.client.next_sequence(partition)
        return self._request("Produce", partition=partition, **who, base_sequence=base, count=count)

    def _knows(self, request: str) -> bool:
        return self.sends is None or request in self.sends

    def _request(self, request: str, **fields: Any) -> Answer:
        version = {} if self.sends is None else {"api_version": self.sends.get(request, -1)}
        return {"request": request, **fields, **version}
