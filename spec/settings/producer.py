"""A producer's settings: their types, defaults and ranges, and the rules between them.

The settings that a user gives are read one by one (`SETTINGS`, in Kafka's order). Then come the
`STEPS`, one after the other: in each, the first row whose guard holds is taken. A row that goes to
REJECTED is the client's ConfigException, with the row's note as its text.

Source: ProducerConfig and KafkaProducer of the releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
    minimum,
)
from ...language.expressions import TRUE
from ..releases.release import UNCHANGED

# Releases -----------------------------------------------------------------------------------------

delivery_timeout = feature(
    "delivery_timeout",
    "2.1",
    sentence="delivery.timeout.ms bounds a record's time, and retries have no bound by default.",
    source="KIP-91",
)
named_by_id = feature(
    "named_by_id",
    "2.4",
    sentence="A client without client.id is named after its transactional id, if it has one, and "
    "an empty client.id counts. Before, either got a number.",
    source="ProducerConfig.maybeOverrideClientId",
)
checked_when_parsed = feature(
    "checked_when_parsed",
    "2.5",
    sentence="Retries and acks are checked when the configuration is parsed, before everything "
    "else (from 2.5).",
    source="ProducerConfig.maybeOverrideAcksAndRetries",
)
acks_all_by_default = feature(
    "acks_all_by_default",
    "3.0.0",
    sentence="The default of acks is all. Before, 1.",
    source="KIP-679",
)
idempotence_by_default = feature(
    "idempotence_by_default",
    "3.0",
    sentence="A producer is idempotent unless its settings forbid that. Before, only if it was "
    "configured so or had a transactional id. 3.0.0 and 3.1.0 meant to do so and didn't.",
    source="KIP-679, KAFKA-13598",
)
default_undone = feature(
    "default_undone",
    "3.1.0",
    until="3.1.1",
    sentence="3.1.0 doesn't have the fix of 3.0.1.",
    source="KAFKA-13598",
)
lingers = feature(
    "lingers",
    "4.0.0",
    sentence="A batch waits 5 ms for more records by default.",
    source="KIP-1030",
)
in_flight_strict = feature(
    "in_flight_strict",
    "4.0.0",
    sentence="More than 5 requests in flight are refused even if idempotence is only the default. "
    "Before, they switched it off.",
    source="ProducerConfig.postProcessAndValidateIdempotenceConfigs",
)
two_phase_commit = feature(
    "two_phase_commit",
    "4.1",
    sentence="A transaction may be prepared, to be completed by somebody else, without a timeout.",
    source="KIP-939",
)

RELEASES = (
    "0.11.0.0",
    "0.11.0.2",
    "1.0",
    "1.1",
    "2.0.0",
    "2.0",
    "2.1",
    "2.3",
    "2.4",
    "2.5",
    "2.6",
    "2.7",
    "2.8",
    "3.0.0",
    "3.0",
    "3.1.0",
    "3.1.1",
    "3.3",
    "3.4",
    "3.5",
    "3.6",
    "3.7",
    "3.8",
    "3.9",
    "4.0.0",
    "4.0.1",
    "4.1",
    "4.2",
    "4.2.2",
    "4.3",
    "4.3.1",
    "4.4",
    "trunk",
)
CLIENTS = Protocols(
    RELEASES,
    (
        delivery_timeout,
        named_by_id,
        checked_when_parsed,
        acks_all_by_default,
        idempotence_by_default,
        default_undone,
        lingers,
        in_flight_strict,
        two_phase_commit,
    ),
    unreleased=("trunk",),
    unchanged=UNCHANGED,
)
by_default = idempotence_by_default & ~default_undone

# Settings -----------------------------------------------------------------------------------------

LARGEST_INT, LARGEST_LONG = 2**31 - 1, 2**63 - 1
RANGES = {
    "SHORT": (-(2**15), 2**15 - 1),
    "INT": (-(2**31), LARGEST_INT),
    "LONG": (-(2**63), LARGEST_LONG),
}
Default: TypeAlias = bool | int | str | None


@dataclass(frozen=True)
class Setting:
    """A setting as a release defines it, in the releases in which `during` holds.

    `kind` is Kafka's type: BOOLEAN, SHORT, INT, LONG or STRING. Numbers are `low`..`high`, where
    these are given; strings are one of `choices`, where there are any, `in_any_case` or as they
    are, or all that fits `pattern`, and may not be empty unless `may_be_empty`. `message` refuses
    other values, in place of Kafka's usual words.
    """

    name: str
    kind: str
    default: Default
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    during: Expression = TRUE
    may_be_empty: bool = False
    in_any_case: bool = False
    pattern: str = ""
    message: str = ""


SETTINGS = (
    Setting("buffer.memory", "LONG", 32 * 2**20, 0),
    Setting("retries", "INT", 0, 0, LARGEST_INT, during=~delivery_timeout),
    Setting("retries", "INT", LARGEST_INT, 0, LARGEST_INT, during=delivery_timeout),
    Setting("acks", "STRING", "1", choices=("all", "-1", "0", "1"), during=~acks_all_by_default),
    Setting("acks", "STRING", "all", choices=("all", "-1", "0", "1"), during=acks_all_by_default),
    Setting("batch.size", "INT", 16384, 0),
    Setting("linger.ms", "LONG", 0, 0, during=~lingers),
    Setting("linger.ms", "LONG", 5, 0, during=lingers),
    Setting("delivery.timeout.ms", "INT", 120_000, 0, during=delivery_timeout),
    Setting("client.id", "STRING", "", may_be_empty=True),
    Setting("max.request.size", "INT", 2**20, 0),
    Setting("retry.backoff.ms", "LONG", 100, 0),
    Setting("max.block.ms", "LONG", 60_000, 0),
    Setting("request.timeout.ms", "INT", 30_000, 0),
    Setting("max.in.flight.requests.per.connection", "INT", 5, 1),
    Setting("enable.idempotence", "BOOLEAN", False, during=~acks_all_by_default),
    Setting("enable.idempotence", "BOOLEAN", True, during=acks_all_by_default),
    Setting("transaction.timeout.ms", "INT", 60_000),
    Setting("transactional.id", "STRING", None),
    Setting("transaction.two.phase.commit.enable", "BOOLEAN", False, during=two_phase_commit),
)


def client_id(
    given: str | None, transactional_id: str | None, number: int, features: frozenset[str]
) -> str:
    """The client's id: `given` (none: it isn't), or one made of its transactional id, or of its
    number among the clients of its process.

    KafkaProducer, ProducerConfig.maybeOverrideClientId
    """
    by_id = named_by_id.data.name in features
    if given is not None and (by_id or given):
        return given
    return f"producer-{transactional_id if by_id and transactional_id is not None else number}"


# Settings of a producer that no rule here looks at. Source: ProducerConfig, CommonClientConfigs.
OTHER_SETTINGS = frozenset(
    [
        "auto.include.jmx.reporter",
        "bootstrap.resolve.timeout.ms",
        "bootstrap.servers",
        "buffer.memory.allocation.strategy",
        "client.dns.lookup",
        "client.rack",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "config.providers",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "interceptor.classes",
        "key.serializer",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.class",
        "partitioner.ignore.keys",
        "partitioner.rack.aware",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "security.protocol",
        "security.providers",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "value.serializer",
    ]
)
# What belongs to security, to a provider or to a plugin that has names of its own.
OTHER_PREFIXES = ("ssl.", "sasl.", "config.providers.")

# What the rules read and set ----------------------------------------------------------------------

MOST_IN_FLIGHT = 5

ConfigState = enum("ConfigState", "ACCEPTED", "REJECTED")
REJECTED = ConfigState.REJECTED

config = Machine("producer configuration", doc="A producer's settings while they are resolved.")
state = config.state_field("state", ConfigState)

acks = config.field("acks", Int(-1, 1), doc="-1 is all.")
retries = config.field("retries", Int(0, LARGEST_INT))
in_flight = config.field("max_in_flight_requests_per_connection", Int(1, LARGEST_INT))
idempotence = config.field("enable_idempotence", Bool())
linger = config.field("linger_ms", Int(0, LARGEST_INT), doc="A larger value counts as the largest.")
request_timeout = config.field("request_timeout_ms", Int(0, LARGEST_INT))
delivery = config.field("delivery_timeout_ms", Int(0, LARGEST_INT))
two_phase = config.field("transaction_two_phase_commit_enable", Bool())
switched_off = config.field(
    "idempotence_switched_off", Bool(), doc="Another setting excludes the default."
)


def _given(name: str) -> Expression:
    return config.field(f"{name}_given", Bool(), doc="The user has set it, perhaps to null.")


idempotence_given = _given("enable_idempotence")
acks_given = _given("acks")
retries_given = _given("retries")
delivery_given = _given("delivery_timeout_ms")
transactional_id_given = _given("transactional_id")
transaction_timeout_given = _given("transaction_timeout_ms")

# Rules --------------------------------------------------------------------------------------------

NO_TRANSACTIONS = "Cannot set a transactional.id without also enabling idempotence."
NO_RETRIES = "Must set retries to non-zero when using the idempotent producer."
NOT_ALL = (
    "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee "
    "idempotence."
)
TOO_MANY_IN_FLIGHT = (
    "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer."
)
TOO_MANY_IN_FLIGHT_STRICT = (
    "To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most "
    "5. Current value is {max_in_flight_requests_per_connection}."
)
TIMEOUT_OF_TWO_PHASE_COMMIT = (
    "Cannot set transaction.timeout.ms when transaction.two.phase.commit.enable is set to true. "
    "Transactions will not expire with two-phase commit enabled."
)
DELIVERY_TOO_SHORT = (
    "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
)

least_delivery_timeout = minimum(linger + request_timeout, LARGEST_INT)

# Before 3.0.1 KafkaProducer has a method for each setting, called in the order of its constructor.
# The checks of the delivery timeout and of requests in flight move with the releases.

STEPS = (
    Table(
        config,
        event("idempotence"),
        during=~by_default,
        source="KafkaProducer.configureTransactionState, ProducerConfig.idempotenceEnabled",
        rows=(
            Row(
                "transactional-without",
                "A transactional id needs idempotence, which is switched off",
                when=transactional_id_given & idempotence_given & ~idempotence,
                goto=REJECTED,
                note=NO_TRANSACTIONS,
            ),
            Row(
                "transactional",
                "A transactional id switches idempotence on",
                when=transactional_id_given,
                set={idempotence: True},
            ),
            Row(
                "default",
                "Idempotence is off by default",
                when=~idempotence_given,
                set={idempotence: False},
            ),
        ),
    ),
    Table(
        config,
        event("delivery timeout"),
        during=delivery_timeout & ~checked_when_parsed,
        source="KafkaProducer.configureDeliveryTimeout",
        rows=(
            Row(
                "too-short",
                "The configured timeout is too short",
                when=(delivery < least_delivery_timeout) & delivery_given,
                goto=REJECTED,
                note=DELIVERY_TOO_SHORT,
            ),
            Row(
                "raised",
                "The default is raised to the shortest timeout",
                when=delivery < least_delivery_timeout,
                set={delivery: least_delivery_timeout},
            ),
        ),
    ),
    Table(
        config,
        event("requests in flight"),
        during=delivery_timeout & ~checked_when_parsed,
        source="KafkaProducer.configureInflightRequests",
        rows=(
            Row(
                "too-many",
                "Idempotence allows five requests in flight",
                when=idempotence & (in_flight > MOST_IN_FLIGHT),
                goto=REJECTED,
                note=TOO_MANY_IN_FLIGHT,
            ),
        ),
    ),
    Table(
        config,
        event("retries"),
        during=~by_default,
        source="KafkaProducer.configureRetries, ProducerConfig.maybeOverrideAcksAndRetries",
        rows=(
            Row(
                "default",
                "Idempotence retries without bound by default",
                when=idempotence & ~retries_given,
                set={retries: LARGEST_INT},
            ),
            Row(
                "none",
                "Idempotence needs retries",
                when=idempotence & (retries == 0),
                goto=REJECTED,
                note=NO_RETRIES,
            ),
        ),
    ),
    Table(
        config,
        event("requests in flight"),
        during=~delivery_timeout,
        source="KafkaProducer.configureInflightRequests",
        rows=(
            Row(
                "too-many",
                "Idempotence allows five requests in flight",
                when=idempotence & (in_flight > MOST_IN_FLIGHT),
                goto=REJECTED,
                note=TOO_MANY_IN_FLIGHT,
            ),
        ),
    ),
    Table(
        config,
        event("acks"),
        during=~by_default,
        source="KafkaProducer.configureAcks, ProducerConfig.maybeOverrideAcksAndRetries",
        rows=(
            Row(
                "default",
                "Idempotence asks all replicas by default",
                when=idempotence & ~acks_given,
                set={acks: -1},
            ),
            Row(
                "not-all",
                "Idempotence needs acks=all",
                when=idempotence & (acks != -1),
                goto=REJECTED,
                note=NOT_ALL,
            ),
        ),
    ),
    Table(
        config,
        event("delivery timeout"),
        during=checked_when_parsed & ~by_default,
        source="KafkaProducer.configureDeliveryTimeout",
        rows=(
            Row(
                "too-short",
                "The configured timeout is too short",
                when=(delivery < least_delivery_timeout) & delivery_given,
                goto=REJECTED,
                note=DELIVERY_TOO_SHORT,
            ),
            Row(
                "raised",
                "The default is raised to the shortest timeout",
                when=delivery < least_delivery_timeout,
                set={delivery: least_delivery_timeout},
            ),
        ),
    ),
    Table(
        config,
        event("requests in flight"),
        during=checked_when_parsed & ~by_default,
        source="KafkaProducer.configureInflightRequests",
        rows=(
            Row(
                "too-many",
                "Idempotence allows five requests in flight",
                when=idempotence & (in_flight > MOST_IN_FLIGHT),
                goto=REJECTED,
                note=TOO_MANY_IN_FLIGHT,
            ),
        ),
    ),
    # From 3.0.1 on: one method, and idempotence is the default.
    Table(
        config,
        event("retries"),
        during=by_default,
        source="ProducerConfig.postProcessAndValidateIdempotenceConfigs",
        rows=(
            Row(
                "none-with-idempotence",
                "The user asks for idempotence without retries",
                when=idempotence & (retries == 0) & idempotence_given,
                goto=REJECTED,
                note=NO_RETRIES,
            ),
            Row(
                "none",
                "Without retries, idempotence is switched off",
                when=idempotence & (retries == 0),
                set={switched_off: True},
            ),
        ),
    ),
    Table(
        config,
        event("acks"),
        during=by_default,
        source="ProducerConfig.postProcessAndValidateIdempotenceConfigs",
        rows=(
            Row(
                "not-all-with-idempotence",
                "The user asks for idempotence without acks=all",
                when=idempotence & (acks != -1) & idempotence_given,
                goto=REJECTED,
                note=NOT_ALL,
            ),
            Row(
                "not-all",
                "Without acks=all, idempotence is switched off",
                when=idempotence & (acks != -1),
                set={switched_off: True},
            ),
        ),
    ),
    Table(
        config,
        event("requests in flight"),
        during=by_default,
        source="ProducerConfig.postProcessAndValidateIdempotenceConfigs",
        rows=(
            Row(
                "too-many-strict",
                "Idempotence allows five requests in flight",
                when=idempotence & (in_flight > MOST_IN_FLIGHT),
                goto=REJECTED,
                during=in_flight_strict,
                note=TOO_MANY_IN_FLIGHT_STRICT,
            ),
            Row(
                "too-many-with-idempotence",
                "The user asks for idempotence with more than five requests in flight",
                when=idempotence & (in_flight > MOST_IN_FLIGHT) & idempotence_given,
                goto=REJECTED,
                during=~in_flight_strict,
                note=TOO_MANY_IN_FLIGHT,
            ),
            Row(
                "too-many",
                "With more than five requests in flight, idempotence is switched off",
                when=idempotence & (in_flight > MOST_IN_FLIGHT),
                set={switched_off: True},
                during=~in_flight_strict,
            ),
        ),
    ),
    Table(
        config,
        event("idempotence"),
        during=by_default,
        source="ProducerConfig.postProcessAndValidateIdempotenceConfigs",
        rows=(
            Row(
                "switched-off",
                "Another setting has switched idempotence off",
                when=switched_off,
                set={idempotence: False},
            ),
        ),
    ),
    Table(
        config,
        event("transactions"),
        during=by_default,
        source="ProducerConfig.postProcessAndValidateIdempotenceConfigs",
        rows=(
            Row(
                "without-idempotence",
                "A transactional id needs idempotence",
                when=transactional_id_given & ~idempotence,
                goto=REJECTED,
                note=NO_TRANSACTIONS,
            ),
        ),
    ),
    Table(
        config,
        event("two-phase commit"),
        during=by_default,
        source="ProducerConfig.postProcessAndValidateIdempotenceConfigs",
        rows=(
            Row(
                "with-timeout",
                "A transaction in two phases has no timeout",
                when=two_phase & transaction_timeout_given,
                goto=REJECTED,
                during=two_phase_commit,
                note=TIMEOUT_OF_TWO_PHASE_COMMIT,
            ),
        ),
    ),
    Table(
        config,
        event("delivery timeout"),
        during=delivery_timeout & by_default,
        source="KafkaProducer.configureDeliveryTimeout",
        rows=(
            Row(
                "too-short",
                "The configured timeout is too short",
                when=(delivery < least_delivery_timeout) & delivery_given,
                goto=REJECTED,
                note=DELIVERY_TOO_SHORT,
            ),
            Row(
                "raised",
                "The default is raised to the shortest timeout",
                when=delivery < least_delivery_timeout,
                set={delivery: least_delivery_timeout},
            ),
        ),
    ),
)
