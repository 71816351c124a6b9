"""The findings of docs/findings.md as data: who is affected, by how much, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..releases.features import transaction_version_2
from ..releases.release import is_between
from .damage import Damage

CLIENT, BROKER = "client", "broker"
VERSION_2_SINCE: Final[str] = transaction_version_2.data.since
"""The first release whose transaction.version can be 2."""


@dataclass(frozen=True)
class Finding:
    """A bug that the checker found, under its number in docs/findings.md.

    It is in releases of its `part` from `since` on, before `before` (none: the newest has it too).
    It happens only without the feature `absent`, if one is given, which the client and the brokers
    have together. `changes` are only while transaction.version changes.
    """

    number: int
    title: str
    damage: Damage
    part: str
    since: str
    needs: str
    remedy: str
    uses: str
    before: str | None = None
    absent: str | None = None
    changes: bool = False
    pipelined: bool = False
    """Whether it takes several requests in flight."""
    bug: str = ""
    """The known bug or ticket that it is, if it is one."""

    @property
    def name(self) -> str:
        """The name that commands print."""
        return f"finding {self.number}" + (f", {self.bug}" if self.bug else "")

    @property
    def affected(self) -> str:
        """The releases that have it, in words."""
        until = "" if self.before is None else f", before {self.before}"
        setting = "" if self.absent is None else ", without transactions of version 2"
        return f"{self.part}s from {self.since}{until}{setting}"

    def is_in(self, client: str, broker: str) -> bool:
        """Whether a client and brokers of these declared releases have it, in some setting."""
        release = client if self.part == CLIENT else broker
        can_change = not self.changes or is_between(broker, VERSION_2_SINCE)
        return can_change and is_between(release, self.since, self.before)


TRANSACTIONS, IDEMPOTENCE, OFFSETS, READING = USES = (
    "transactions",
    "idempotence",
    "offsets",
    "reading",
)
"""The uses of the protocol: transactions, an idempotent producer without them, offsets that are
committed in transactions, and a read_committed consumer."""

_ONE_VERSION = "Change transaction.version while no transaction runs, and restart the clients."

FINDINGS: Final = (
    Finding(
        1,
        "One refused batch makes an idempotent producer write another one twice",
        Damage.DUPLICATED,
        part=CLIENT,
        since="2.5",
        needs="a lost answer, and another batch in flight that is refused for good",
        remedy="Set max.in.flight.requests.per.connection=1, or use transactions.",
        uses=IDEMPOTENCE,
        pipelined=True,
        bug="KAFKA-14034",
    ),
    Finding(
        2,
        "The first batches of a producer are appended in another order",
        Damage.REORDERED,
        part=BROKER,
        since="2.5",
        needs="a first batch that is refused for the moment, with a second one in flight",
        remedy="Set max.in.flight.requests.per.connection=1.",
        uses=IDEMPOTENCE,
        pipelined=True,
        bug="KAFKA-15591",
    ),
    Finding(
        3,
        "After the last epoch a batch goes out without a producer id, and is appended twice",
        Damage.DUPLICATED,
        part=CLIENT,
        since="2.5",
        needs="32,768 refused batches of one producer, then a lost answer",
        remedy="Restart a producer that has many refused batches.",
        uses=IDEMPOTENCE,
    ),
    Finding(
        4,
        "A late batch of the producer id before is appended behind newer ones",
        Damage.REORDERED,
        part=CLIENT,
        since="0.11.0.0",
        needs="a request that is late, and a loss of order (from 2.5 on also the last epoch)",
        remedy="Set delivery.timeout.ms well above the time that a request can be late.",
        uses=IDEMPOTENCE,
    ),
    Finding(
        5,
        "A request that outlives the producer's state is appended again",
        Damage.DUPLICATED,
        part=BROKER,
        since="2.5",
        needs="a request that is late by producer.id.expiration.ms (default: a day)",
        remedy="Keep producer.id.expiration.ms above the longest time that a request can be late.",
        uses=IDEMPOTENCE,
    ),
    Finding(
        6,
        "A bump to the last epoch can't be asked for again, and the client fails",
        Damage.STOPPED,
        part=BROKER,
        since="2.5",
        needs="the last epoch of a producer id, and a lost answer",
        remedy="Restart the producer. With transactions of version 2 it doesn't happen.",
        uses=TRANSACTIONS,
        absent="transaction_version_2",
    ),
    Finding(
        7,
        "An idempotent batch is sent again until delivery.timeout.ms is over",
        Damage.STOPPED,
        part=CLIENT,
        since="1.0",
        needs="a first batch that is overtaken, or answers lost twice",
        remedy="Set delivery.timeout.ms to the time that an application can wait.",
        uses=IDEMPOTENCE,
        pipelined=True,
    ),
    Finding(
        8,
        "The late end of a fence ends a later transaction: it hangs, or it is torn",
        Damage.TORN,
        part=BROKER,
        since="0.11.0.2",
        needs="a thread of the coordinator that is held up while the client aborts by itself",
        remedy="Use transactions of version 2: clients and brokers from 4.0 on.",
        uses=TRANSACTIONS,
        absent="transaction_version_2",
    ),
    Finding(
        9,
        "A commit that fails while transaction.version goes down hangs",
        Damage.STUCK,
        part=CLIENT,
        since="4.0.0",
        needs="a downgrade of transaction.version while a commit fails",
        remedy=_ONE_VERSION,
        uses=TRANSACTIONS,
        changes=True,
    ),
    Finding(
        10,
        "A fence during a change of transaction.version gives a client the reserved epoch",
        Damage.WRONG_OUTCOME,
        part=BROKER,
        since="4.0.0",
        needs="a change of transaction.version, and a fence",
        remedy=_ONE_VERSION,
        uses=TRANSACTIONS,
        changes=True,
    ),
    Finding(
        11,
        "After a downgrade of transaction.version a transaction hangs",
        Damage.STUCK,
        part=BROKER,
        since="4.0.0",
        needs="a downgrade of transaction.version, and a client that crashes",
        remedy=_ONE_VERSION,
        uses=TRANSACTIONS,
        changes=True,
    ),
    Finding(
        12,
        "An old and a new client library under one transactional id: the fenced one commits, and "
        "the newest is fenced for good",
        Damage.WRONG_OUTCOME,
        part=BROKER,
        since="4.0.0",
        needs="an old and a new client library under one transactional id, or a change of "
        "transaction.version",
        remedy="Use one client library for each transactional id. " + _ONE_VERSION,
        uses=TRANSACTIONS,
    ),
    Finding(
        13,
        "A partition without a leader gets no marker: the next transaction's marker ends it",
        Damage.WRONG_OUTCOME,
        part=BROKER,
        since="4.3",
        needs="a broker that comes back, with KRaft",
        remedy="After the restart of a broker look for hanging transactions, and abort them before "
        "their producers go on.",
        uses=TRANSACTIONS,
        bug="KAFKA-20734",
    ),
    Finding(
        14,
        "A record that fails in another thread takes the answer of a commit away",
        Damage.STOPPED,
        part=CLIENT,
        since="3.3",
        needs="several threads that share a producer",
        remedy="Let one thread send and commit.",
        uses=TRANSACTIONS,
    ),
    Finding(
        15,
        "A topic that may not be read ends a client for good",
        Damage.STOPPED,
        part=CLIENT,
        since="0.11.0.0",
        needs="a missing permission",
        remedy="Grant READ on the input topics; restart the client.",
        uses=OFFSETS,
    ),
    Finding(
        16,
        "A refused offset takes the pending one away: records are counted twice",
        Damage.DUPLICATED,
        part=BROKER,
        since="2.4",
        before="4.0.0",
        needs="a client that names no member of its group",
        remedy="Upgrade the brokers to 4.0, or pass groupMetadata() to sendOffsetsToTransaction.",
        uses=OFFSETS,
    ),
    Finding(
        17,
        "Deleting within a batch moves the last stable offset below the log's start",
        Damage.MISREAD,
        part=BROKER,
        since="4.0.0",
        needs="DeleteRecords with an offset within a batch of an open transaction",
        remedy="Delete records only before the last stable offset of the partition.",
        uses=READING,
    ),
    Finding(
        18,
        "After a downgrade of transaction.version to 0 a transactional id is stuck",
        Damage.STUCK,
        part=BROKER,
        since="4.0.0",
        needs="a downgrade of transaction.version from 2 to 0",
        remedy="Downgrade to 1, not to 0. If an id is stuck, raise the version to 1, and restart "
        "the brokers that coordinate transactions.",
        uses=TRANSACTIONS,
        changes=True,
    ),
)
