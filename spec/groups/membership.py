"""Who is in a group's generation, and when members hear of it.

A rebalance is one step, from JoinGroup to SyncGroup. A member that hasn't heard of it continues. So
does a member that the coordinator has removed for its silence.
"""

from __future__ import annotations

from ...language import Bool, Row, Table, event, set_of, some
from ..client.producer import FORGOTTEN
from ..client.state import READY, UNINITIALIZED, state
from ..messages import PRODUCER, connection, producer
from .state import (
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
    "rebalance", member=PRODUCER, others_stay=Bool(),
    event_doc="The next generation begins, and assigns the input to `member`. The other members "
    "have joined as well, or are removed.",
)  # fmt: skip
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
# nothing is in flight between calls, so the connection is the same
NEW_PRODUCER = {name: value for name, value in FORGOTTEN.items() if name is not connection}
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
            set={
                **NEW_PRODUCER,
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
