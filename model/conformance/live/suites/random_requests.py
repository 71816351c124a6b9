"""Random requests. Most of them are right, so that most transactions end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

from ...honest_clients import HELD_FROM, Honest
from ...session import Session
from ...simulated_clients import Client, batch, identity
from ..clients import GROUP, SHORT_MS, Versions
from .directed_suite import USUAL_MS, variants

T = TypeVar("T")
IDS: Final = ("a", "b")
PARTITIONS: Final = ("t-0", "t-1")
WRONG: Final = 0.15
"""The share of requests that are wrong in one of their fields."""
LEVELS: Final = (1, 2)
"""The levels between which transaction.version changes. At 0 a coordinator can't write the entries
of clients of version 2 (TransactionLog.valueToBytes)."""
CHANGES: Final = 0.05
"""The share of steps that change transaction.version, if changes are allowed."""
RESTARTS: Final = 0.02
"""The share of steps that restart the brokers."""
OLD: Final = 0.25
"""The share of requests of an older version."""
NEW_CLIENTS: Final = 0.08
"""The share of steps in which a new honest client starts."""
LOOKS: Final = 0.15
"""The share of steps that read the state."""
AGAIN: Final = 0.1
"""The share of honest requests that are repeated, as if their answer had been lost."""
_WHO = ("STALE_EPOCH", "NEXT_EPOCH", "LARGEST_EPOCH", "OTHER_ID", "UNKNOWN_ID")
_SEQUENCES = ("GAP", "OVERLAP", "ZERO")


class DrawnHonest:
    """Random requests of clients that follow the protocol. `releases` are the versions that clients
    of the releases send."""

    def __init__(
        self, draw: Random, session: Session, clients: list[Honest],
        releases: Sequence[Mapping[str, int]], restarts: bool,
    ) -> None:  # fmt: skip
        self.draw, self.session, self.clients = draw, session, clients
        self.releases, self.restarts = releases, restarts

    def step(self) -> None:
        """Makes a client send a possible next request, or reads the state."""
        if self.restarts and self.draw.random() < RESTARTS:
            return self.session.restart()
        able = [client for client in self.clients if not client.is_over]
        if not able or self.draw.random() < NEW_CLIENTS:
            name = self.draw.choice((*IDS, *IDS, None))
            able = [Honest.new(name, self.draw.choice(self.releases))]
            self.clients += able
        elif self.draw.random() < LOOKS:
            return self._look()
        client = able[-1] if self.draw.random() < 0.7 else self.draw.choice(able)
        *others, last = client.next(PARTITIONS, GROUP, self.draw.randint(1, 3))
        line = self.draw.choice(others) if others and self.draw.random() >= AGAIN else last
        fields = {name: value for name, value in line.items() if name != "request"}
        client.learn(line, self.session.ask(line["request"], **fields))

    def _look(self) -> None:
        name = self.draw.choice(("Fetch", "ListOffsets"))
        self.session.ask(name, partition=self.draw.choice(PARTITIONS))


class Drawn:
    """Random requests of a session's clients, right and wrong."""

    def __init__(
        self, draw: Random, session: Session, clients: list[Client], versions: Versions,
        restarts: bool, alters_features: bool = False,
    ) -> None:  # fmt: skip
        self.draw, self.session, self.clients, self.versions = draw, session, clients, versions
        self.restarts, self.alters_features = restarts, alters_features

    def step(self) -> None:
        """Makes a client act."""
        ways = [self.transact] * 5 + [self.produce] * 3 + [self.end] * 2
        ways += [self.begin, self.bump, self.look, self.offsets, self.repeat, self.mark]
        if self.restarts and self.draw.random() < RESTARTS:
            return self.session.restart()
        if self.alters_features and self.draw.random() < CHANGES:
            return self.session.take({"transaction_version": self.draw.choice(LEVELS)})
        step = self.begin if not self.clients else self.draw.choice(ways)
        step()

    def _wrong(self, right: T, wrong: Sequence[T]) -> T:
        return self.draw.choice(wrong) if self.draw.random() < WRONG else right

    def _version(self, request: str, *, most: int | None = None) -> int:
        every = [v for v in variants(request, self.versions) if most is None or v <= most]
        return every[0] if self.draw.random() >= OLD else self.draw.choice(every)

    def _client(self) -> Client:
        """A random client: mostly the newest one, otherwise any, which may be a zombie."""
        return self.clients[-1] if self.draw.random() < 0.8 else self.draw.choice(self.clients)

    def _ask(self, request: str, most: int | None = None, **fields: Any) -> Any:
        version = self._version(request, most=most)
        return self.session.ask(request, **fields, api_version=version)

    # What clients do --------------------------------------------------------------------------

    def begin(self) -> None:
        """A client starts. An earlier client of the same id becomes a zombie."""
        name = self.draw.choice((*IDS, *IDS, None))
        timeout = self._wrong(USUAL_MS, (SHORT_MS * 30, 0, 900_001))
        answer = self._ask("InitProducerId", transactional_id=name, transaction_timeout_ms=timeout)
        client = Client(name, -1, -1)
        client.learn(answer)
        if client.producer_id >= 0:
            self.clients.append(client)

    def bump(self) -> None:
        """A client asks for its next epoch."""
        client = self._client()
        version = self.versions["InitProducerId"][1]
        if client.transactional_id is not None and version >= HELD_FROM:
            who = identity(self._wrong("OWN", _WHO), client, self.clients)
            client.learn(
                self.session.ask(
                    "InitProducerId",
                    transactional_id=client.transactional_id,
                    transaction_timeout_ms=USUAL_MS,
                    **who,
                    api_version=version,
                )
            )

    def transact(self) -> None:
        """A client runs a transaction, or a part of it."""
        client = self._client()
        for _ in range(self.draw.randint(1, 3)):
            self._add(client)
            self._send(client)
        if self.draw.random() < 0.7:
            self._end(client)

    def produce(self) -> None:
        """A client sends a batch."""
        self._send(self._client())

    def end(self) -> None:
        """A client ends its transaction."""
        self._end(self._client())

    def offsets(self) -> None:
        """A client adds a group's offsets to its transaction."""
        client = self._client()
        if client.transactional_id is not None:
            about: dict[str, Any] = {
                "transactional_id": client.transactional_id,
                "group_id": GROUP,
            }
            about |= identity(self._wrong("OWN", _WHO), client, self.clients)
            for request in ("AddOffsetsToTxn", "TxnOffsetCommit"):
                if request in self.versions and self.draw.random() < 0.9:
                    self._ask(request, **about)

    def repeat(self) -> None:
        """A client sends one of its last batches again."""
        client, to = self._client(), self.draw.choice(PARTITIONS)
        if known := client.sent.get(to):
            base, count = known[-self.draw.choice((1, 5, 6)) :][0]
            self._produce(client, to, "OWN", {"base_sequence": base, "count": count})

    def mark(self) -> None:
        """Sends a marker of an earlier epoch, which ends no transaction."""
        client = self._client()
        if "WriteTxnMarkers" in self.versions and client.producer_epoch > 0:
            who = identity("STALE_EPOCH", client, self.clients)
            self.session.ask(
                "WriteTxnMarkers", partition=self.draw.choice(PARTITIONS), **who, result="ABORT",
                coordinator_epoch=0, api_version=1,
            )  # fmt: skip

    def look(self) -> None:
        """Reads the state."""
        partition = self.draw.choice(PARTITIONS)
        match self.draw.choice(("Fetch", "ListOffsets", "DescribeProducers")):
            case "DescribeProducers" if "DescribeProducers" in self.versions:
                self.session.ask("DescribeProducers", partition=partition)
            case "ListOffsets":
                self.session.ask("ListOffsets", partition=partition)
            case _:
                is_committed = self.draw.random() < 0.7
                self.session.ask("Fetch", partition=partition, committed=is_committed)

    def _add(self, client: Client) -> None:
        if "AddPartitionsToTxn" not in self.versions:
            return
        if client.transactional_id is not None and self.draw.random() < 0.8:
            who = identity(self._wrong("OWN", _WHO), client, self.clients)
            wanted = self.draw.choice((PARTITIONS, PARTITIONS[:1], PARTITIONS[1:]))
            self._ask(
                "AddPartitionsToTxn",
                3,
                transactional_id=client.transactional_id,
                **who,
                partitions=list(wanted),
            )

    def _send(self, client: Client) -> None:
        to, who = self.draw.choice(PARTITIONS), self._wrong("OWN", _WHO)
        sequence = self._wrong("NEXT", _SEQUENCES)
        self._produce(client, to, who, batch(sequence, self.draw.randint(1, 3), client, to))

    def _produce(self, client: Client, to: str, who: str, sent: dict[str, int]) -> None:
        fields: dict[str, Any] = {**identity(who, client, self.clients), **sent}
        if client.transactional_id is not None and self.draw.random() < 0.95:
            fields["transactional_id"] = client.transactional_id
        answer = self._ask("Produce", partition=to, **fields)
        known = client.sent.setdefault(to, [])
        one = (sent["base_sequence"], sent["count"])
        if answer["error"] == "NONE" and who == "OWN" and one not in known:
            known.append(one)

    def _end(self, client: Client) -> None:
        if "EndTxn" not in self.versions:
            return
        if client.transactional_id is not None:
            who = self._wrong("OWN", _WHO)
            answer = self._ask(
                "EndTxn",
                transactional_id=client.transactional_id,
                **identity(who, client, self.clients),
                result=self.draw.choice(("COMMIT", "COMMIT", "ABORT")),
            )
            if who == "OWN":
                client.learn(answer)
