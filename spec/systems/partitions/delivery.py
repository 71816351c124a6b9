"""A producer, a replicated partition and a consumer, from a send to the processed record."""

from __future__ import annotations

from ....language import DEFAULT, Refusal, System, Unreached
from ...delivery import consumer, producer
from ...delivery.state import (
    CONSUMER_CRASHES,
    DISCONNECTIONS,
    IDEMPOTENCE,
    IN_FLIGHT,
    OFFSETS,
    READ_COMMITTED,
    RETRIES,
    TRANSACTIONAL,
    is_idempotent,
)
from ...properties.partitions.delivery import PROPERTIES
from ...releases.features import KAFKA
from ...replication import election, fetch, truncation
from ...replication.state import (
    ACKS,
    CRASHES,
    EXTRA_ENTRIES,
    LEADER_EPOCHS,
    MIN_ISR,
    NOT_ENOUGH_REPLICAS,
    POWER_LOSSES,
    RECORDS,
    REPLICA,
    REPLICAS,
    SESSIONS,
    UNCLEAN_ELECTIONS,
)
from ...settings.producer import NO_RETRIES, NOT_ALL
from .. import logs
from ..coverage.recorded_runs import reached
from .replication import UNREACHED as REPLICATION

UNREACHED = (
    Unreached(
        "need a transaction (transactional_id=1)",
        ("reader.poll/aborted",),
        TRANSACTIONAL == 0,
    ),
)

REFUSALS = (
    NOT_ENOUGH_REPLICAS,
    Refusal(f"ConfigException: {NOT_ALL}", is_idempotent & (ACKS != -1)),
    Refusal(f"ConfigException: {NO_RETRIES}", is_idempotent & (RETRIES == 0)),
)
"""By Kafka's errors: of a leader, and of a client whose settings don't fit together."""

system = System(
    name="delivery",
    doc="A producer, with any acks, idempotent or not, with transactions or without, a partition "
    "with its replicas, and a consumer that processes its records and commits its offsets.",
    tables=(
        *producer.TABLES,
        fetch.fetches,
        fetch.shrinks,
        fetch.expands,
        *truncation.TABLES,
        *election.TABLES,
        *consumer.TABLES,
    ),
    properties=PROPERTIES,
    constants=(
        REPLICAS, RECORDS, LEADER_EPOCHS, ACKS, MIN_ISR, RETRIES, IN_FLIGHT, IDEMPOTENCE,
        TRANSACTIONAL, READ_COMMITTED, OFFSETS, SESSIONS, CRASHES, UNCLEAN_ELECTIONS,
        DISCONNECTIONS, CONSUMER_CRASHES, EXTRA_ENTRIES,
    ),
    fixed={POWER_LOSSES: 0},
    bounds={
        DEFAULT: {
            REPLICAS: 2,
            RECORDS: 2,
            LEADER_EPOCHS: 2,
            IDEMPOTENCE: 1,
            CONSUMER_CRASHES: 0,
            EXTRA_ENTRIES: 1,
        },
    },
    protocols=KAFKA.of_parts(),
    budgets={
        election.crash: CRASHES,
        election.power_loss: POWER_LOSSES,
        election.elect_unclean: UNCLEAN_ELECTIONS,
        producer.disconnect: DISCONNECTIONS,
        consumer.crash: CONSUMER_CRASHES,
    },
    interchangeable=(REPLICA,),
    logs=(logs.REPLICA,),
    terminal=True,
    unreached=(*REPLICATION, *UNREACHED),
    reached=reached(),
    refusals=REFUSALS,
    reach="two replicas, two records, two elections, a crash of a broker and a connection that is "
    "closed, at any step. They don't reach a consumer that crashes (consumer_crashes=1), a "
    "transaction (transactional_id=1, extra_entries=2), a producer that starts again (sessions=2, "
    "extra_entries=2), an unclean election (unclean_elections=1), a third replica. Left out are "
    "delivery.timeout.ms, a request that arrives after its retry (idempotence has it), a "
    "coordinator that fails (transactions has it), and a second partition.",
)  # fmt: skip
