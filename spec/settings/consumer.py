"""A consumer's settings: their types, defaults and ranges, and the rules between them.

As in `config`: the settings that a user gives are read one by one, then come the steps, one after
the other, and in each the first row whose guard holds is taken. A row that leads elsewhere than to
ACCEPTED is an exception of Kafka's client: the state is its name, the row's note its text.

Source: ConsumerConfig, KafkaConsumer, GroupRebalanceConfig and Heartbeat of the releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...language import (
    Bool,
    Expression,
    Int,
    Machine,
    Protocols,
    Row,
    Table,
    enum,
    event,
    feature,
)
from ..releases.release import TRUNK, UNCHANGED
from .producer import LARGEST_INT, RELEASES, Default, Setting

# Releases -----------------------------------------------------------------------------------------

api_timeout = feature(
    "api_timeout",
    "2.0.0",
    sentence="Calls have a timeout of their own. Before, a request outlasted a rebalance, and its "
    "timeout had to be above those of sessions and fetches.",
    source="KIP-266, KAFKA-7050",
)
group_optional = feature(
    "group_optional",
    "2.3",
    sentence="There is no group by default (from 2.2), and a consumer without a group doesn't "
    "commit by itself. Before, the default was the empty group.",
    source="KIP-289",
)
static_members = feature(
    "static_members",
    "2.3",
    sentence="A member may have an instance id, which it keeps over "
    "restarts. A former member with that id is fenced.",
    source="KIP-345",
)
named_by_group = feature(
    "named_by_group",
    "2.4",
    sentence="A consumer without client.id is named after its group, and its instance, if it has "
    "one. Before, it got a number.",
    source="KafkaConsumer.buildClientId",
)
named_when_parsed = feature(
    "named_when_parsed",
    "2.6",
    sentence="The same holds for a consumer without group, and an empty client.id doesn't count, "
    "as before.",
    source="ConsumerConfig.maybeOverrideClientId",
)
longer_sessions = feature(
    "longer_sessions",
    "3.0.0",
    sentence="A session lasts 45 s by default. Before, 10.",
    source="KIP-735",
)
instance_as_topic = feature(
    "instance_as_topic",
    "3.0.0",
    sentence="The error for an instance's name has the words of that for a topic's.",
    source="JoinGroupRequest.validateGroupInstanceId",
)
name_invalid = feature(
    "name_invalid",
    "3.4",
    sentence="The error for a name calls it invalid, in other words than before.",
    source="Topic.detectInvalidTopic",
)
instance_not_empty = feature(
    "instance_not_empty",
    "3.3",
    sentence="An empty group.instance.id is refused when the configuration is read.",
    source="KAFKA-13793",
)
growing_backoff = feature(
    "growing_backoff", "3.7", sentence="The wait between tries grows.", source="KIP-580"
)
consumer_protocol = feature(
    "consumer_protocol",
    "3.7",
    sentence="The broker may assign partitions (group.protocol=consumer).",
    source="KIP-848",
)
auto_commit_when_parsed = feature(
    "auto_commit_when_parsed",
    "3.7",
    sentence="Whether a consumer without group commits is checked when its configuration is "
    "parsed.",
    source="ConsumerConfig.maybeOverrideEnableAutoCommit",
)
assignor_refused = feature(
    "assignor_refused",
    "3.9",
    sentence="group.remote.assignor is refused if clients assign.",
    source="ConsumerConfig.checkGroupRemoteAssignor",
)
empty_group_refused = feature(
    "empty_group_refused",
    "4.0.0",
    sentence="An empty group.id is refused. Before, only if brokers assign.",
    source="KIP-289, ClassicKafkaConsumer",
)
unsupported_refused = feature(
    "unsupported_refused",
    "4.0.0",
    sentence="Settings of the other group protocol are refused. Before, they were ignored.",
    source="ConsumerConfig.checkUnsupportedConfigsPostProcess",
)
reset_by_duration = feature(
    "reset_by_duration",
    "4.0.0",
    sentence="If nothing is committed, a consumer may begin at a given age of the records.",
    source="KIP-1106",
)
CONSUMERS = Protocols(
    RELEASES,
    (
        api_timeout,
        group_optional,
        static_members,
        named_by_group,
        named_when_parsed,
        longer_sessions,
        instance_as_topic,
        name_invalid,
        instance_not_empty,
        growing_backoff,
        consumer_protocol,
        auto_commit_when_parsed,
        assignor_refused,
        empty_group_refused,
        unsupported_refused,
        reset_by_duration,
    ),
    unreleased=(TRUNK,),
    unchanged=UNCHANGED,
)

# Settings -----------------------------------------------------------------------------------------

_RESETS = ("latest", "earliest", "none")
_DURATION = r"by_duration:P(?!$)([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+([.,][0-9]*)?S)?)?"
_LEVELS = ("read_committed", "read_uncommitted")

CONSUMER_SETTINGS: Final = (
    Setting("group.id", "STRING", "", may_be_empty=True, during=~group_optional),
    Setting("group.id", "STRING", None, may_be_empty=True, during=group_optional),
    Setting(
        "group.instance.id",
        "STRING",
        None,
        may_be_empty=True,
        during=static_members & ~instance_not_empty,
    ),
    Setting("group.instance.id", "STRING", None, during=instance_not_empty),
    Setting("session.timeout.ms", "INT", 10_000, during=~longer_sessions),
    Setting("session.timeout.ms", "INT", 45_000, during=longer_sessions),
    Setting("heartbeat.interval.ms", "INT", 3_000),
    Setting("enable.auto.commit", "BOOLEAN", True),
    Setting("auto.commit.interval.ms", "INT", 5_000, 0),
    Setting("client.id", "STRING", "", may_be_empty=True),
    Setting("max.partition.fetch.bytes", "INT", 2**20, 0),
    Setting("fetch.min.bytes", "INT", 1, 0),
    Setting("fetch.max.bytes", "INT", 50 * 2**20, 0),
    Setting("fetch.max.wait.ms", "INT", 500, 0),
    Setting("retry.backoff.ms", "LONG", 100, 0),
    Setting("retry.backoff.max.ms", "LONG", 1_000, 0, during=growing_backoff),
    Setting("auto.offset.reset", "STRING", "latest", choices=_RESETS, during=~reset_by_duration),
    Setting(
        "auto.offset.reset",
        "STRING",
        "latest",
        choices=_RESETS,
        pattern=_DURATION,
        message="Invalid value `{value}` for configuration {name}. The value must be either "
        "'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'.",
        during=reset_by_duration,
    ),
    Setting("request.timeout.ms", "INT", 305_000, 0, during=~api_timeout),
    Setting("request.timeout.ms", "INT", 30_000, 0, during=api_timeout),
    Setting("default.api.timeout.ms", "INT", 60_000, 0, during=api_timeout),
    Setting("max.poll.records", "INT", 500, 1),
    Setting("max.poll.interval.ms", "INT", 300_000, 1),
    Setting("exclude.internal.topics", "BOOLEAN", True),
    Setting("isolation.level", "STRING", "read_uncommitted", choices=_LEVELS),
    Setting("allow.auto.create.topics", "BOOLEAN", True, during=static_members),
    Setting(
        "group.protocol",
        "STRING",
        "classic",
        choices=("CONSUMER", "CLASSIC"),
        in_any_case=True,
        during=consumer_protocol,
    ),
    Setting("group.remote.assignor", "STRING", None, may_be_empty=True, during=consumer_protocol),
)
"""In Kafka's order."""

OTHER_CONSUMER_SETTINGS: Final = frozenset(
    [
        "auto.include.jmx.reporter",
        "bootstrap.servers",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "config.providers",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "interceptor.classes",
        "key.deserializer",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "security.protocol",
        "security.providers",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "value.deserializer",
    ]
)
"""Settings of a consumer that no rule here looks at, but for who is refused them."""
_ONLY_CLASSIC: Final = (
    "partition.assignment.strategy",
    "heartbeat.interval.ms",
    "session.timeout.ms",
)
_ONLY_CONSUMER: Final = ("group.remote.assignor",)
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")

# What the rules read and set ----------------------------------------------------------------------

ConsumerConfigState = enum(
    "ConsumerConfigState",
    "ACCEPTED",
    "CONFIG_EXCEPTION",
    "INVALID_CONFIGURATION_EXCEPTION",
    "INVALID_GROUP_ID_EXCEPTION",
    "ILLEGAL_ARGUMENT_EXCEPTION",
)
consumer_config = Machine(
    "consumer configuration", doc="A consumer's settings while they are resolved."
)
state = consumer_config.state_field("state", ConsumerConfigState)

_ANY_INT = Int(-(2**31), LARGEST_INT)
session_timeout = consumer_config.field("session_timeout_ms", _ANY_INT)
heartbeat_interval = consumer_config.field("heartbeat_interval_ms", _ANY_INT)
request_timeout = consumer_config.field("request_timeout_ms", Int(0, LARGEST_INT))
fetch_max_wait = consumer_config.field("fetch_max_wait_ms", Int(0, LARGEST_INT))
auto_commit = consumer_config.field("enable_auto_commit", Bool())


def _fact(name: str, doc: str) -> Expression:
    return consumer_config.field(name, Bool(), doc=doc)


auto_commit_given = _fact("enable_auto_commit_given", "The user has set it.")
has_group = _fact("has_group", "There is a group.id.")
empty_group = _fact("empty_group", "It is empty.")
has_name = _fact("has_name", "client.id is there and isn't empty.")
illegal_instance = _fact("illegal_instance", "group.instance.id is there, and no legal name.")
broker_assigns = _fact("broker_assigns", "group.protocol is consumer, whatever its case.")
has_assignor = _fact("has_assignor", "group.remote.assignor is there and isn't empty.")
has_unsupported = _fact(
    "has_unsupported", "A setting is given that the group's protocol doesn't have."
)

_Values = Mapping[str, Default]
CONSUMER_FACTS: Final[Mapping[str, Callable[[_Values, Mapping[str, Any]], bool]]] = {
    "enable_auto_commit_given": lambda _, given: "enable.auto.commit" in given,
    "has_group": lambda values, _: values["group.id"] is not None,
    "empty_group": lambda values, _: values["group.id"] == "",
    "has_name": lambda values, _: bool(values["client.id"]),
    "illegal_instance": lambda values, _: _illegal(values.get("group.instance.id")) is not None,
    "broker_assigns": lambda values, _: str(values.get("group.protocol")).lower() == "consumer",
    "has_assignor": lambda values, _: bool(values.get("group.remote.assignor")),
    "has_unsupported": lambda values, given: bool(unsupported(values, given)),
}
"""The values, before the first step, of fields that are no setting's value: by the values of
settings, and by those that were given."""


def unsupported(values: _Values, given: Mapping[str, Any]) -> list[str]:
    """The settings that were given, and that the group's protocol doesn't have."""
    assigns = CONSUMER_FACTS["broker_assigns"](values, given)
    names = _ONLY_CLASSIC if assigns else _ONLY_CONSUMER
    return [name for name in names if str(given.get(name) or "").strip()]


def consumer_client_id(
    given: Default, values: _Values, number: int, features: frozenset[str]
) -> str:
    """The consumer's id: `given`, unless that is empty or none, or one made of its group and
    instance, or of its number among the consumers of its process.

    KafkaConsumer, ConsumerConfig.maybeOverrideClientId
    """
    group, instance = values["group.id"], values.get("group.instance.id")
    if given:
        return str(given)
    if named_when_parsed.data.name in features or (named_by_group.data.name in features and group):
        named = "null" if group is None else group
        return f"consumer-{named}-{number if instance is None else instance}"
    return f"consumer-{number}"


_CHARACTERS = (
    'Group instance id "{name}" is illegal, it contains a character other than ASCII '
    "alphanumerics, '.', '_' and '-'"
)
_DOTS = 'Group instance id cannot be "." or ".."'
_ILLEGAL: Final[tuple[tuple[Expression | None, Mapping[str, str]], ...]] = (
    (
        name_invalid,
        {
            "empty": "Group instance id is invalid: the empty string is not allowed",
            "dots": "Group instance id is invalid: '{name}' is not allowed",
            "length": "Group instance id is invalid: the length of '{name}' is longer than the max "
            "allowed length 249",
            "characters": "Group instance id is invalid: '{name}' contains one or more characters "
            "other than ASCII alphanumerics, '.', '_' and '-'",
        },
    ),
    (
        instance_as_topic,
        {
            "empty": "Group instance id is illegal, it can't be empty",
            "dots": _DOTS,
            "length": "Group instance id is illegal, it can't be longer than 249 characters, Group "
            "instance id: {name}",
            "characters": _CHARACTERS,
        },
    ),
    (
        None,
        {
            "empty": "Group instance id must be non-empty string",
            "dots": _DOTS,
            "length": "Group instance id can't be longer than 249 characters: {name}",
            "characters": _CHARACTERS,
        },
    ),
)
"""The message about a name, by what is wrong with it, since a feature, the newest first."""


def _illegal(name: Default) -> str | None:
    """The fault of a name, if it has one."""
    if not isinstance(name, str):
        return None
    if not name:
        return "empty"
    if name in (".", ".."):
        return "dots"
    if len(name) > 249:
        return "length"
    return None if _NAME.fullmatch(name) else "characters"


def consumer_words(
    values: _Values, given: Mapping[str, Any], features: frozenset[str]
) -> dict[str, str]:
    """Values for the notes of rows, in addition to the fields."""
    instance = values.get("group.instance.id")
    messages = next(of for since, of in _ILLEGAL if since is None or since.data.name in features)
    wrong = _illegal(instance)
    return {
        "illegal_name": "" if wrong is None else messages[wrong].format(name=instance),
        "unsupported": ", ".join(unsupported(values, given)),
        "protocol": str(values.get("group.protocol")).upper(),
    }


# Rules, in the order of the client's checks -------------------------------------------------------

COMMITS_WITHOUT_GROUP = (
    "enable.auto.commit cannot be set to true when default group id (null) is used."
)
REQUEST_TIMEOUT = (
    "request.timeout.ms should be greater than session.timeout.ms and fetch.max.wait.ms"
)
EMPTY_GROUP_ID = "The configured group.id should not be an empty string or whitespace."

CONSUMER_STEPS: Final = (
    Table(
        consumer_config,
        event("group.instance.id"),
        during=named_when_parsed,
        source="JoinGroupRequest.validateGroupInstanceId",
        rows=(
            Row(
                "invalid",
                "The instance has no valid name",
                when=illegal_instance & ~has_name,
                goto=ConsumerConfigState.INVALID_CONFIGURATION_EXCEPTION,
                note="{illegal_name}",
            ),
        ),
    ),
    Table(
        consumer_config,
        event("enable.auto.commit"),
        during=auto_commit_when_parsed,
        source="ConsumerConfig.maybeOverrideEnableAutoCommit",
        rows=(
            Row(
                "without-group",
                "The user asks a consumer without group to commit by itself",
                when=~has_group & auto_commit_given & auto_commit,
                goto=ConsumerConfigState.INVALID_CONFIGURATION_EXCEPTION,
                note=COMMITS_WITHOUT_GROUP,
            ),
            Row(
                "without-group-by-default",
                "A consumer without group doesn't commit by itself",
                when=~has_group & ~auto_commit_given,
                set={auto_commit: False},
            ),
        ),
    ),
    Table(
        consumer_config,
        event("group.remote.assignor"),
        during=assignor_refused & ~unsupported_refused,
        source="ConsumerConfig.checkGroupRemoteAssignor",
        rows=(
            Row(
                "classic",
                "Clients assign, and the user names an assignor of the broker",
                when=has_assignor & ~broker_assigns,
                goto=ConsumerConfigState.CONFIG_EXCEPTION,
                note="group.remote.assignor cannot be set when group.protocol=CLASSIC",
            ),
        ),
    ),
    Table(
        consumer_config,
        event("group.protocol"),
        during=unsupported_refused,
        source="ConsumerConfig.checkUnsupportedConfigsPostProcess",
        rows=(
            Row(
                "unsupported",
                "The user sets what the group's protocol doesn't have",
                when=has_unsupported,
                goto=ConsumerConfigState.CONFIG_EXCEPTION,
                note="{unsupported} cannot be set when group.protocol={protocol}",
            ),
        ),
    ),
    Table(
        consumer_config,
        event("request.timeout.ms"),
        during=~api_timeout,
        source="KafkaConsumer",
        rows=(
            Row(
                "too-short",
                "A request ends before a session or a fetch does",
                when=(request_timeout <= session_timeout) | (request_timeout <= fetch_max_wait),
                goto=ConsumerConfigState.CONFIG_EXCEPTION,
                note=REQUEST_TIMEOUT,
            ),
        ),
    ),
    Table(
        consumer_config,
        event("group.instance.id"),
        during=static_members,
        source="JoinGroupRequest.validateGroupInstanceId",
        rows=(
            Row(
                "invalid",
                "The instance has no valid name",
                when=illegal_instance,
                goto=ConsumerConfigState.INVALID_CONFIGURATION_EXCEPTION,
                note="{illegal_name}",
            ),
        ),
    ),
    Table(
        consumer_config,
        event("enable.auto.commit"),
        during=group_optional & ~auto_commit_when_parsed,
        source="ConsumerConfig.maybeOverrideEnableAutoCommit",
        rows=(
            Row(
                "without-group",
                "The user asks a consumer without group to commit by itself",
                when=~has_group & auto_commit_given & auto_commit,
                goto=ConsumerConfigState.INVALID_CONFIGURATION_EXCEPTION,
                note=COMMITS_WITHOUT_GROUP,
            ),
            Row(
                "without-group-by-default",
                "A consumer without group doesn't commit by itself",
                when=~has_group & ~auto_commit_given,
                set={auto_commit: False},
            ),
        ),
    ),
    Table(
        consumer_config,
        event("group.id"),
        during=consumer_protocol & ~empty_group_refused,
        source="AsyncKafkaConsumer.initializeGroupMetadata",
        rows=(
            Row(
                "empty-with-consumer-protocol",
                "The group's name is empty, and brokers assign",
                when=empty_group & broker_assigns,
                goto=ConsumerConfigState.INVALID_GROUP_ID_EXCEPTION,
                note=EMPTY_GROUP_ID,
            ),
        ),
    ),
    Table(
        consumer_config,
        event("group.id"),
        during=empty_group_refused,
        source="ClassicKafkaConsumer, AsyncKafkaConsumer.initializeGroupMetadata",
        rows=(
            Row(
                "empty",
                "The group's name is empty",
                when=empty_group,
                goto=ConsumerConfigState.INVALID_GROUP_ID_EXCEPTION,
                note=EMPTY_GROUP_ID,
            ),
        ),
    ),
    Table(
        consumer_config,
        event("heartbeat.interval.ms"),
        source="Heartbeat",
        rows=(
            Row(
                "too-long",
                "A session ends before the next heartbeat",
                when=has_group & ~broker_assigns & (heartbeat_interval >= session_timeout),
                goto=ConsumerConfigState.ILLEGAL_ARGUMENT_EXCEPTION,
                note="Heartbeat must be set lower than the session timeout",
            ),
        ),
    ),
)
