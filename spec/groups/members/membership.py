"""Who is in a group's generation, and when members hear of it.

A rebalance is one step, from JoinGroup to SyncGroup. A member that hasn't heard of it continues. So
does a member that the coordinator has removed for its silence.
"""

from __future__ import annotations

from ....language import Bool, Row, Table, each, event, set_of, some
from ...client import state as client
from ...client.state import READY, UNINITIALIZED, q, state
from ...messages import NO_EPOCH, NO_OFFSET, PRODUCER, producer
from ..state import (
    GENERATIONS,
    OWN_ID,
    consumer,
    generation,
    group,
    heard,
    is_assigned,
    members,
    owner,
    position,
)

rebalance = event(
    "rebalance",
    member=PRODUCER,
    others_stay=Bool(),
    event_doc="The next generation begins, and assigns the input to `member`. The other members "
    "have joined as well, or are removed.",
)
rebalances = Table(
    group,
    on=rebalance,
    when=generation < GENERATIONS,
    rows=(
        Row(
            "next-generation",
            "The next generation begins; the other members have joined as well",
            set={
                generation: generation + 1,
                members: set_of(rebalance.member) | members,
                owner: some(rebalance.member),
            },
            when=rebalance.others_stay,
            source="GroupCoordinator.onCompleteJoin, GroupMetadata.initNextGeneration",
        ),
        Row(
            "next-generation-alone",
            "The next generation begins; the other members have left",
            set={
                generation: generation + 1,
                members: set_of(rebalance.member),
                owner: some(rebalance.member),
            },
            source="GroupCoordinator.onExpireHeartbeat, GroupMetadata.initNextGeneration",
        ),
    ),
)

hear = event("SyncGroup answered", event_doc="An instance hears of the group's generation.")
instance = producer.this
is_owner = (owner == some(instance)) & instance.is_in(members)
hears = Table(
    producer,
    on=hear,
    others=(group, consumer),
    when=(heard.at(instance) < generation) & state.is_in(UNINITIALIZED, READY),
    doc="The instance polls between its transactions. The transactional id of a new producer is "
    "that of the input.",
    rows=(
        Row(
            "assigned-same-producer",
            "The input is assigned, and the instance keeps its producer",
            when=is_owner & (OWN_ID == 1),
            set={
                position.at(instance): None,
                heard.at(instance): generation,
                is_assigned.at(instance): True,
            },
            source="ConsumerCoordinator.onJoinComplete, KIP-447",
        ),
        Row(
            "assigned-new-producer",
            "The input is assigned, and the instance makes a producer for it",
            when=is_owner,
            goto=UNINITIALIZED,
            # nothing is in flight between calls: the connection is the same
            set={
                client.txn: None,
                client.batches: client.NO_BATCHES,
                client.ending: False,
                client.adding: set_of(),
                client.added: set_of(),
                client.producer_id: client.NO_ID,
                client.producer_epoch: NO_EPOCH,
                client.must_bump: False,
                client.bump_asked: False,
                client.next_sequence: each(q, 0),
                client.last_acked: each(q, client.NO_SEQUENCE),
                client.last_acked_offset: each(q, NO_OFFSET),
                client.entry_id: each(q, client.NO_ID),
                client.entry_epoch: each(q, NO_EPOCH),
                client.unresolved: each(q, None),
                position.at(instance): None,
                heard.at(instance): generation,
                is_assigned.at(instance): True,
            },
            source="ConsumerCoordinator.onJoinComplete, TaskManager (Kafka Streams) before KIP-447",
        ),
        Row(
            "not-assigned",
            "The input is assigned to another instance",
            set={
                position.at(instance): None,
                heard.at(instance): generation,
                is_assigned.at(instance): False,
            },
            source="ConsumerCoordinator.onJoinComplete, onJoinPrepare",
        ),
    ),
)

TABLES = (rebalances, hears)
