"""Who is in a group's generation, and when members hear of it.

A rebalance is one step here, from JoinGroup to SyncGroup: until a member hears of it, it goes on as
before, as one that has been left out for its silence does.
"""

from __future__ import annotations

from ...language import Bool, Row, Table, event, set_of, some
from ..client.producer import FORGOTTEN
from ..client.state import READY, UNINITIALIZED, state
from ..messages import PRODUCER, connection, producer
from .state import (
    GENERATIONS,
    OWN_ID,
    begins,
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
    event_doc="A generation begins, in which the `member` has the input's partition. The others "
    "have joined as well, or are left out.",
)  # fmt: skip
rebalances = Table(
    group,
    on=rebalance,
    when=generation < GENERATIONS,
    rows=(
        Row(
            "a new generation",
            set={
                **begins(set_of(rebalance.member) | members),
                owner: some(rebalance.member),
            },
            when=rebalance.others_stay,
            source="GroupCoordinator.onCompleteJoin, GroupMetadata.initNextGeneration",
        ),
        Row(
            "a new generation without the others",
            set={**begins(set_of(rebalance.member)), owner: some(rebalance.member)},
            source="GroupCoordinator.onExpireHeartbeat, GroupMetadata.initNextGeneration",
        ),
    ),
)

hear = event("SyncGroup answered", event_doc="An instance hears of the group's generation.")
_me = producer.this
_NOTHING_FETCHED = {position.at(_me): None, heard.at(_me): generation}
# nothing is in flight to a client between calls, so that it keeps its connection
_NEW_CLIENT = {name: value for name, value in FORGOTTEN.items() if name is not connection}
_is_owner = (owner == some(_me)) & _me.is_in(members)
hears = Table(
    producer,
    on=hear,
    others=(group, consumer),
    when=(heard.at(_me) < generation) & state.is_in(UNINITIALIZED, READY),
    doc="It looks for that between its transactions. Who is assigned the input makes a producer "
    "for it, whose transactional id is the input's.",
    rows=(
        Row(
            "assigned, and the producer stays",
            when=_is_owner & (OWN_ID == 1),
            set={**_NOTHING_FETCHED, is_assigned.at(_me): True},
            source="ConsumerCoordinator.onJoinComplete, KIP-447",
        ),
        Row(
            "assigned",
            when=_is_owner,
            goto=UNINITIALIZED,
            set={**_NEW_CLIENT, **_NOTHING_FETCHED, is_assigned.at(_me): True},
            source="ConsumerCoordinator.onJoinComplete, TaskManager (Kafka Streams) before KIP-447",
        ),
        Row(
            "nothing assigned",
            set={**_NOTHING_FETCHED, is_assigned.at(_me): False},
            source="ConsumerCoordinator.onJoinComplete, onJoinPrepare",
        ),
    ),
)

TABLES = (rebalances, hears)
