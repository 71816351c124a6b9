"""Settings of topics and brokers: names, types, defaults, and the releases that know them.

Source: LogConfig.configDef, TopicConfig, KafkaConfig (kafka-clients and kafka-storage 4.3.1, 3.6.2)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ...language.declaration.arguments import one_of
from ...spec.releases.features import RELEASED

OF_TOPIC, OF_BROKER, DEFAULT = 1, 4, 5
"""The sources of a value (ConfigSource): the topic, the broker's file, or the default."""
_FOR_EVER: Final = str(2**63 - 1)
_TYPES: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}


class Setting(NamedTuple):
    """A setting. `since` is the first release with it, `until` the first one without it again.
    `least` is the smallest number; `values` are the allowed strings (empty: all)."""

    kind: str
    default: str
    values: tuple[str, ...] = ()
    least: int = -(2**63)
    since: str = RELEASED[0]
    until: str = ""

    @property
    def number(self) -> int:
        """The type's number on the wire (DescribeConfigsResponse.ConfigType)."""
        return _TYPES[self.kind]

    def takes(self, value: str) -> bool:
        """Whether the setting accepts this value (ConfigDef.parseType and the validators)."""
        match self.kind:
            case "boolean":
                return value.strip().lower() in ("true", "false")
            case "int" | "long":
                bits = 31 if self.kind == "int" else 63
                digits = value.strip().removeprefix("-").removeprefix("+")
                is_number = digits.isascii() and digits.isdigit() and len(digits) < 20
                return is_number and max(self.least, -(2**bits)) <= int(value) < 2**bits
            case "double":
                try:
                    return self.least <= float(value)
                except ValueError:
                    return False
            case "list":
                given = [each.strip() for each in value.split(",") if each.strip()]
                return not self.values or set(given) <= set(self.values)
            case _:
                return not self.values or value in self.values

    def wrong(self, value: str) -> str | None:
        """Kafka's message for a wrong value; None for a valid one."""
        if self.takes(value):
            return None
        if self.kind in ("int", "long", "double"):
            if self._replace(least=-(2**63)).takes(value):
                return f"Value must be at least {self.least}"
            return f"Not a number of type {self.kind.upper()}"
        if self.kind == "boolean":
            return "Expected value to be either true or false"
        return f"String must be one of: {', '.join(self.values)}"


_COMPRESSION: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TOPIC: Final[Mapping[str, Setting]] = {
    "cleanup.policy": Setting("list", "delete", ("compact", "delete")),
    "compression.gzip.level": Setting("int", "-1", since="3.8"),
    "compression.lz4.level": Setting("int", "9", since="3.8"),
    "compression.type": Setting("string", "producer", _COMPRESSION),
    "compression.zstd.level": Setting("int", "3", since="3.8"),
    "delete.retention.ms": Setting("long", "86400000", least=0),
    "errors.deadletterqueue.group.enable": Setting("boolean", "false", since="4.4"),
    "file.delete.delay.ms": Setting("long", "60000", least=0),
    "flush.messages": Setting("long", _FOR_EVER, least=1),
    "flush.ms": Setting("long", _FOR_EVER, least=0),
    "follower.replication.throttled.replicas": Setting("list", ""),
    "index.interval.bytes": Setting("int", "4096", least=0),
    "leader.replication.throttled.replicas": Setting("list", ""),
    "local.retention.bytes": Setting("long", "-2", least=-2, since="3.6"),
    "local.retention.ms": Setting("long", "-2", least=-2, since="3.6"),
    "max.compaction.lag.ms": Setting("long", _FOR_EVER, least=1, since="2.3"),
    "max.decompressed.message.bytes": Setting("int", "2147483639", least=0, since="4.4"),
    "max.message.bytes": Setting("int", "1048588", least=0),
    "message.downconversion.enable": Setting("boolean", "true", since="2.0.0", until="4.0.0"),
    "message.format.version": Setting("string", "3.0-IV1", until="4.0.0"),
    "message.timestamp.after.max.ms": Setting("long", _FOR_EVER, least=0, since="3.6"),
    "message.timestamp.before.max.ms": Setting("long", _FOR_EVER, least=0, since="3.6"),
    "message.timestamp.difference.max.ms": Setting("long", _FOR_EVER, least=0, until="4.0.0"),
    "message.timestamp.type": Setting("string", "CreateTime", ("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": Setting("double", "0.5", least=0),
    "min.compaction.lag.ms": Setting("long", "0", least=0),
    "min.insync.replicas": Setting("int", "1", least=1),
    "preallocate": Setting("boolean", "false"),
    "remote.copy.lag.bytes": Setting("long", "-1", least=-2, since="4.4"),
    "remote.copy.lag.ms": Setting("long", "0", least=-2, since="4.4"),
    "remote.log.copy.disable": Setting("boolean", "false", since="3.9"),
    "remote.log.delete.on.disable": Setting("boolean", "false", since="3.9"),
    "remote.storage.enable": Setting("boolean", "false", since="3.6"),
    "retention.bytes": Setting("long", "-1"),
    "retention.ms": Setting("long", "604800000", least=-1),
    "segment.bytes": Setting("int", "1073741824", least=14),
    "segment.index.bytes": Setting("int", "10485760", least=4),
    "segment.jitter.ms": Setting("long", "0", least=0),
    "segment.ms": Setting("long", "604800000", least=1),
    "unclean.leader.election.enable": Setting("boolean", "false"),
}
_AT_40: Final[Mapping[str, Mapping[str, object]]] = {
    "message.timestamp.after.max.ms": {"default": "3600000"},
    "segment.bytes": {"least": 1 << 20},
}
"""Defaults and limits from 4.0 on (KIP-1030)."""
BROKER: Final[Mapping[str, Setting]] = {
    "auto.create.topics.enable": Setting("boolean", "true"),
    "connections.max.idle.ms": Setting("long", "600000", least=100),
    "default.replication.factor": Setting("int", "1", least=1),
    "group.max.session.timeout.ms": Setting("int", "1800000", least=1),
    "group.min.session.timeout.ms": Setting("int", "6000", least=1),
    "log.retention.bytes": Setting("long", "-1"),
    "log.retention.check.interval.ms": Setting("long", "300000", least=1),
    "log.retention.ms": Setting("long", "604800000", least=-1),
    "log.segment.bytes": Setting("int", "1073741824", least=14),
    "log.message.timestamp.type": Setting("string", "CreateTime", ("CreateTime", "LogAppendTime")),
    "max.connections": Setting("int", "10000", least=1),
    "message.max.bytes": Setting("int", "1048588", least=0),
    "min.insync.replicas": Setting("int", "1", least=1),
    "num.partitions": Setting("int", "1", least=1),
    "offset.metadata.max.bytes": Setting("int", "4096", least=0),
    "queued.max.request.bytes": Setting("long", str(256 << 20), least=1 << 20),
    "socket.request.max.bytes": Setting("int", "104857600", least=1),
}
"""The broker settings that a served cluster uses."""
BROKERS_NAME: Final = {
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
}
"""The broker settings that are defaults of topic settings, by the topic's name of the setting."""
ABOUT: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "Whether the broker creates a topic that a client names.",
    "connections.max.idle.ms": "The time after which an idle connection is closed.",
    "default.replication.factor": "The number of replicas of a topic by default.",
    "group.max.session.timeout.ms": "The longest session timeout of a member.",
    "group.min.session.timeout.ms": "The shortest session timeout of a member.",
    "log.retention.bytes": "A partition keeps no segments beyond this size; -1: it keeps all.",
    "log.retention.check.interval.ms": "The time between two searches for old records.",
    "log.retention.ms": "Older records are deleted; -1: none is deleted.",
    "log.segment.bytes": "The size of a segment.",
    "log.message.timestamp.type": "Whether a record has the time of the client or of the log.",
    "max.connections": "The most connections; the one that was idle for longest makes room.",
    "message.max.bytes": "The largest batch.",
    "min.insync.replicas": "With fewer replicas in sync, acks=all is refused.",
    "num.partitions": "The number of partitions of a topic by default.",
    "offset.metadata.max.bytes": "The longest text beside a committed offset.",
    "queued.max.request.bytes": "The most bytes of all requests and answers on their way.",
    "socket.request.max.bytes": "The largest request.",
}
"""The documentation of the settings of brokers."""


def topic_settings(release: str) -> dict[str, Setting]:
    """The settings of topics that brokers of a release know."""
    place = RELEASED.index(release)
    known = {
        name: each
        for name, each in _TOPIC.items()
        if RELEASED.index(each.since) <= place
        and (not each.until or place < RELEASED.index(each.until))
    }
    if place >= RELEASED.index("4.0.0"):
        known |= {name: known[name]._replace(**values) for name, values in _AT_40.items()}
    return known


class Settings:
    """The settings of a release's brokers and topics. `given` are broker settings that aren't the
    default. Raises ValueError for a setting that the server doesn't use, or a wrong value."""

    def __init__(self, release: str, given: Mapping[str, str] | None = None) -> None:
        self.of_topics = topic_settings(release)
        self.given = dict(given or {})
        for name, value in self.given.items():
            if name not in BROKER:
                raise ValueError(f"{name} isn't supported here: {one_of(name, BROKER)}")
            if not BROKER[name].takes(value):
                raise ValueError(f"{name} can't be {value!r}: it is of type {BROKER[name].kind}")
        self._topics: dict[str, dict[str, str]] = {}

    def broker(self, name: str) -> str:
        """The value of a broker setting."""
        return self.given.get(name, BROKER[name].default)

    def number(self, name: str) -> int:
        """The value of a numeric broker setting."""
        return int(self.broker(name))

    def default(self, name: str) -> str:
        """The default of a topic setting."""
        above = BROKERS_NAME.get(name)
        return self.of_topics[name].default if above is None else self.broker(above)

    def topic(self, topic: str, name: str) -> str:
        """The effective value of a topic setting."""
        return self._topics.get(topic, {}).get(name) or self.default(name)

    def source(self, topic: str, name: str) -> int:
        """The source of a topic setting's value."""
        if name in self._topics.get(topic, {}):
            return OF_TOPIC
        return OF_BROKER if BROKERS_NAME.get(name) in self.given else DEFAULT

    def time_limits(self, topic: str) -> tuple[int, int] | None:
        """The limits in ms of a record's timestamp before and after the broker's clock; None if the
        broker sets timestamps (LogConfig.messageTimestampBeforeMaxMs)."""
        if self.topic(topic, "message.timestamp.type") == "LogAppendTime":
            return None
        both = "message.timestamp.difference.max.ms"
        limit = int(self.topic(topic, both)) if both in self.of_topics else 2**63 - 1

        def side(name: str) -> int:
            if name not in self.of_topics:
                return limit
            own = self.topic(topic, name)
            return limit if own == _FOR_EVER else int(own)

        return side("message.timestamp.before.max.ms"), side("message.timestamp.after.max.ms")

    def own(self, topic: str) -> dict[str, str]:
        """The settings that are set for a topic itself."""
        return dict(self._topics.get(topic, {}))

    def set(self, topic: str, values: Mapping[str, str]) -> None:
        """Replaces the settings that are set for a topic."""
        self._topics[topic] = dict(values)

    def forget(self, topic: str) -> None:
        """Removes a deleted topic's settings."""
        self._topics.pop(topic, None)

    def wrong(self, values: Mapping[str, str | None]) -> str | None:
        """Kafka's message if a topic can't have these settings, or None (LogConfig.validate)."""
        for name, value in values.items():
            if name not in self.of_topics:
                return f"Unknown topic config name: {name}"
            if value is None:
                return f"Null value not supported for topic configs: {name}"
            if (why := self.of_topics[name].wrong(value)) is not None:
                return f"Invalid value {value} for configuration {name}: {why}"
        return None
