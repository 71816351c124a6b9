"""The known bugs and findings of a client and brokers of given releases, with the remedies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...language.declaration.arguments import one_of
from ...language.declaration.errors import DeclarationError
from ...language.protocols import FeatureInfo, Protocols
from ..releases.features import KAFKA, RELEASED, TRUNK
from ..releases.release import is_between
from . import BUGS
from .bug import Bug, Version, version_of
from .damage import DAMAGES, Damage
from .findings import (
    BROKER,
    CLIENT,
    FINDINGS,
    IDEMPOTENCE,
    OFFSETS,
    READING,
    TRANSACTIONS,
    USES,
    Finding,
)

JAVA: Final = "java"
LIKE: Final = {
    JAVA: None,
    "librdkafka": "2.7",
    "franz-go": "4.0.0",
    "sarama": "2.4",
    "kafka-python": "2.4",
    "aiokafka": "2.4",
    "kafkajs": "2.4",
}
"""Clients, each with the release of Kafka's client whose requests it sends; Java's own is of its
own release."""
BINDINGS: Final = {
    "confluent-kafka-python": "librdkafka",
    "confluent-kafka-go": "librdkafka",
    "confluent-kafka-dotnet": "librdkafka",
    "node-rdkafka": "librdkafka",
    "rdkafka-ruby": "librdkafka",
    "rust-rdkafka": "librdkafka",
}
APPLICATIONS: Final = {
    "streams": (TRANSACTIONS, OFFSETS, READING),
    "flink": (TRANSACTIONS, READING),
    "connect": (TRANSACTIONS, OFFSETS, READING),
}
"""The uses of the protocol by frameworks."""
VERSION_2: Final = "transaction_version_2"
VERIFICATION: Final = "verification"
SETTABLE: Final = frozenset((VERSION_2, VERIFICATION))
"""Fixes that a setting can turn off."""
_USES_OF_SYSTEMS: Final = {
    "transactions": TRANSACTIONS,
    "coordinators": TRANSACTIONS,
    "producer-ids": TRANSACTIONS,
    "idempotence": IDEMPOTENCE,
    "exactly-once": OFFSETS,
    "group-offsets": OFFSETS,
    "checkpointed-sink": TRANSACTIONS,
    "reading": READING,
}
REPLICATION: Final = "replication"
"""The system whose bugs concern every use."""
_FAULTS: Final = {
    "losses": "a lost message",
    "delays": "a late message",
    "expiries": "a batch that expires",
    "timeouts": "a transaction that times out",
    "failovers": "a coordinator that fails over",
    "group_failovers": "a group coordinator that fails over",
    "append_failures": "a failed append to the transaction log",
    "id_expiries": "a transactional id that expires",
    "leader_changes": "a change of leaders",
    "leader_epochs": "a change of leaders",
    "deletions": "records that are deleted",
    "producer_expiries": "a producer id that expires",
    "refusals": "a batch that is refused",
    "cleanings": "log compaction",
    "partial_cleanings": "a compaction that stops halfway",
    "generations": "a rebalance",
    "power_losses": "a broker that loses power",
    "unclean_elections": "an unclean election",
}
_WORDS = re.compile(r"(?P<name>[a-z-]+?)-(?P<version>\d[\w.]*)")


@dataclass(frozen=True)
class Client:
    """A client library and its version; `release` is Kafka's release whose requests it sends."""

    name: str
    version: str
    release: str

    @property
    def is_java(self) -> bool:
        """Whether it is Kafka's own."""
        return self.name == JAVA

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Setting:
    """The circumstances beside the releases."""

    uses: tuple[str, ...] = USES
    version_2: bool = True
    """Whether transaction.version is 2 where clients and brokers know that."""
    verification: bool = True
    pipelined: bool = True


@dataclass(frozen=True)
class Item:
    """A bug or finding that concerns a combination."""

    id: str
    title: str
    damage: Damage
    affected: str
    needs: str
    remedy: str
    command: str
    is_certain: bool = True
    """Whether the version is known to have it. Else its releases are known by date only."""


def client_of(text: str) -> Client:
    """The client of a text such as `java-3.4` or `librdkafka-2.3.0`; a bare release is Java's.

    Raises DeclarationError for an unknown client or version.
    """
    if text[:1].isdigit():
        text = f"{JAVA}-{text}"
    found = _WORDS.fullmatch(text)
    known = (*LIKE, *BINDINGS)
    if found is None:
        raise DeclarationError(f"client {text}: write NAME-VERSION, as java-3.4 or librdkafka-2.3")
    name = BINDINGS.get(found["name"], found["name"])
    if name not in LIKE:
        raise DeclarationError(f"no client is called {found['name']} ({one_of(name, known)})")
    release = KAFKA.one_release(found["version"]) if name == JAVA else LIKE[name]
    assert release is not None
    return Client(name, found["version"], release)


def advice(client: Client, broker: str, setting: Setting | None = None) -> tuple[Item, ...]:
    """The known bugs and findings of the combination, the worst first. Brokers of 3.9 are of its
    last patch release, those of 3.9.0 of that one. Raises DeclarationError for unknown ones."""
    setting = Setting() if setting is None else setting
    release = KAFKA.one_release(broker)
    found = [
        *(item for each in FINDINGS for item in _of_finding(each, client, release, setting)),
        *(item for each in BUGS for item in _of_bug(each, client, broker, setting)),
    ]
    order = list(Damage)
    return tuple(sorted(found, key=lambda item: order.index(item.damage)))


def _of_finding(one: Finding, client: Client, broker: str, setting: Setting) -> Iterator[Item]:
    if one.uses not in setting.uses or (one.pipelined and not setting.pipelined):
        return
    if one.part == CLIENT and not client.is_java:
        return  # the finding is about Kafka's own code
    if not one.is_in(client.release, broker):
        return
    if one.absent is not None and one.absent in _features(client, broker, setting):
        return
    yield Item(
        f"finding {one.number}", one.title, one.damage, one.affected, one.needs, one.remedy,
        f"docs/findings.md, {one.number}",
    )  # fmt: skip


def _of_bug(bug: Bug, client: Client, exact_broker: str, setting: Setting) -> Iterator[Item]:
    broker = KAFKA.one_release(exact_broker)
    system, _, product = bug.system.partition("+")
    if system != REPLICATION and _USES_OF_SYSTEMS[system] not in setting.uses:
        return
    if bug.id in {one.bug for one in FINDINGS}:
        return
    if product in LIKE and not bug.id.startswith("KAFKA-"):
        version_2 = "with version 2" in bug.affected
        concerns = not version_2 or VERSION_2 in _features(client, broker, setting)
        if product == client.name and concerns and (fixed := _is_fixed(bug, client)) is not True:
            yield _item(bug, f"Upgrade {client.name}.", is_certain=fixed is False)
        return
    if product in LIKE and client.is_java:
        return  # a client that doesn't do so
    if not bug.id.startswith(("KAFKA-", "KIP-")) or set(bug.off) & _features(
        client, broker, setting
    ):
        return  # another broker's bug, or one that this transaction.version is free of
    protocols = bug.declared.protocols
    parts = {"client": client.release} if "client" in protocols.parts else {}
    features = protocols.features_at(protocols.mixed(broker, parts))
    features -= {VERIFICATION} if not setting.verification else set()
    features -= {VERSION_2} if not setting.version_2 else set()
    infos = {info.name: info for info in protocols.infos}
    fixing = [infos[name] for name in bug.fix if name in infos]
    if bug.fixed_in and not SETTABLE & set(bug.fix) and len(_sides(fixing)) == 1:
        yield from _of_patches(bug, _sides(fixing) == {CLIENT}, client, exact_broker)
        return
    missing = [infos[name] for name in bug.fix if name not in features and name in infos]
    ours = {part for info in missing for part in info.parts}
    if not missing or (ours == {CLIENT} and not client.is_java):
        return
    since = bug.since or RELEASED[0]
    if not is_between(client.release if ours == {CLIENT} else broker, since, None):
        return
    yield _item(bug, " ".join(_remedies(protocols, missing, client, broker)))


def _of_patches(bug: Bug, of_client: bool, client: Client, broker: str) -> Iterator[Item]:
    """A bug of one side, whose releases are known by their patches."""
    if of_client and not client.is_java:
        return
    version = exact(client.version if of_client else broker)
    if bug.is_fixed_in(version):
        return
    release = client.release if of_client else KAFKA.one_release(broker)
    if is_between(release, bug.since or RELEASED[0], None):
        whom = "client" if of_client else "brokers"
        yield _item(bug, f"Upgrade the {whom} to {_or(bug.fixes_behind(version))}.")


def _sides(infos: Collection[FeatureInfo]) -> set[str]:
    """The sides that have features: CLIENT, or BROKER for any part of brokers."""
    return {
        CLIENT if part == CLIENT else BROKER
        for info in infos
        for part in info.parts or (BROKER,)
    }  # fmt: skip


def _remedies(
    protocols: Protocols, missing: Collection[FeatureInfo], client: Client, broker: str
) -> Iterator[str]:
    for info in missing:
        name, parts = info.name, info.parts
        if info.since is None:
            yield "No release has the fix yet."
            continue
        releases = _or([*info.backports, info.since])
        client_has, broker_has = (protocols.has(at, info) for at in (client.release, broker))
        if CLIENT in parts and not client_has:
            yield f"Upgrade the client to {releases}." if client.is_java else "Use Kafka's client."
        if (not parts or set(parts) - {CLIENT}) and not broker_has:
            yield f"Upgrade the brokers to {releases}."
        elif name == VERIFICATION:
            yield "Set transaction.partition.verification.enable=true."
        elif name == VERSION_2 and client.is_java and client_has:
            yield "Set transaction.version to 2."


def _or(names: Sequence[str]) -> str:
    """4.2.2, 4.3.1 or 4.4."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def _item(bug: Bug, remedy: str, *, is_certain: bool = True) -> Item:
    faults = [text for name, text in _FAULTS.items() if bug.constants.get(name)]
    if bug.constants.get("producers", 1) > 1:
        faults.append("two instances")
    needs = ", ".join(dict.fromkeys(faults)) or "nothing out of the ordinary"
    damage = DAMAGES[bug.property]
    command = f"epochfence bugs {bug.id}"
    return Item(bug.id, bug.title, damage, bug.affected, needs, remedy, command, is_certain)


def _features(client: Client, broker: str, setting: Setting) -> frozenset[str]:
    """The features of the combination that findings and bugs ask for."""
    protocol = KAFKA.mixed(client.release, {"coordinator": broker, "leader": broker})
    features = KAFKA.features_at(protocol)
    return features - (frozenset() if setting.version_2 else {VERSION_2})


def _is_fixed(bug: Bug, client: Client) -> bool | None:
    """Whether a version of another client has the fix; None: its releases are known by date."""
    return bug.is_fixed_in(version_of(client.version)) if bug.fixed_in else None


def exact(text: str) -> Version:
    """The version that a release of Kafka's names: 3.9 is the last one of its line, but 4.2 is
    4.2.1, because 4.2.2 is declared beside it. Raises DeclarationError if there is no such one."""
    release, numbers = KAFKA.one_release(text), version_of(text)
    if release == TRUNK:
        return (_LAST,)
    if len(numbers) > len(_line(numbers)):
        return numbers
    if len(version_of(release)) > len(numbers):
        return version_of(release)
    behind = RELEASED[RELEASED.index(release) + 1 :]
    later = [each for each in map(version_of, behind) if _line(each) == numbers]
    return (*numbers, later[0][-1] - 1 if later else _LAST)


_LAST: Final = 10**6


def _line(numbers: Version) -> Version:
    return numbers[:2]
