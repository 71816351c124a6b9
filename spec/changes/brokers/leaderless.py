"""A coordinator that drops the marker of a partition without a leader (finding 13).

The coordinator asks for a partition's leader before it sends the marker. While the broker that has
the partition is away, there is none. The dropped marker leaves the transaction open at the leader,
and the next marker of its producer ends it: a commit then takes the records of an abort along.
"""

from __future__ import annotations

from ....language import Change, Row, Table, constant, event, feature, set_of
from ...coordinator.entry import completing, partitions, transaction
from ...coordinator.markers import marker_sent
from ...messages import PARTITION
from ...releases.release import COORDINATOR, RELEASES

leader_awaited = feature(
    "leader_awaited",
    RELEASES[0],
    until="4.3",
    parts=(COORDINATOR,),
    sentence="A coordinator asks again for the leader of a partition that has none. From then on "
    "it takes the partition for deleted, and drops the marker.",
    source="KAFKA-20734, KRaftMetadataCache.getPartitionLeaderEndpoint",
)
LEADERLESS = constant(
    "leaderless", 1, 0, 2, meaning="times that a partition has no leader as its marker is to go"
)
no_leader = event(
    "no leader",
    partition=PARTITION,
    event_doc="The coordinator asks for the partition's leader, and its broker is away.",
)

leader_asked_for = Table(
    transaction,
    on=no_leader,
    when=completing & no_leader.partition.is_in(partitions - marker_sent),
    source="TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue",
    rows=(
        Row(
            "ask-again",
            "The marker waits for a leader",
            during=leader_awaited,
        ),
        Row(
            "drop",
            "The partition counts as deleted, and gets no marker",
            set={partitions: partitions - set_of(no_leader.partition)},
        ),
    ),
)

leaderless = Change(
    "leaderless",
    "A partition may have no leader while a transaction ends.",
    features=(leader_awaited,),
    tables=(leader_asked_for,),
    constants=(LEADERLESS,),
    budgets={no_leader: LEADERLESS},
)
