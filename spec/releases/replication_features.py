"""Differences between Kafka's releases with a partition's replicas."""

from __future__ import annotations

from typing import Final

from ...language import Expression, feature
from .release import LEADER, RELEASES

truncated_by_epoch = feature(
    "truncated_by_epoch",
    RELEASES[0],
    parts=(LEADER,),
    sentence="A follower asks its leader where its newest epoch ends, and truncates its log "
    "there. Before 0.11.0.0 it truncated to its own high watermark.",
    source="KIP-101",
)
epoch_asked_again = feature(
    "epoch_asked_again",
    "2.0.0",
    parts=(LEADER,),
    sentence="A leader that lacks an epoch names the one before it. A follower that lacks that "
    "one truncates further and asks again. Before, an offset was the whole answer.",
    source="KIP-279",
)
isr_from_epoch_start = feature(
    "isr_from_epoch_start",
    "2.0",
    parts=(LEADER,),
    sentence="A replica joins the in-sync set once it has the log up to the start of the leader's "
    "epoch. Before, up to the leader's high watermark, which may lag.",
    source="KAFKA-7128",
)
leader_epoch_checked = feature(
    "leader_epoch_checked",
    "2.1",
    parts=(LEADER,),
    sentence="A leader refuses a follower in another leader epoch: FENCED_LEADER_EPOCH or "
    "UNKNOWN_LEADER_EPOCH. Before, it answered every follower that took it for the leader.",
    source="KIP-320, KAFKA-6880, Partition.checkCurrentLeaderEpoch",
)
high_watermark_waits = feature(
    "high_watermark_waits",
    "3.7",
    parts=(LEADER,),
    sentence="The high watermark stays while the in-sync set is below min.insync.replicas.",
    source="KAFKA-15583, Partition.maybeIncrementLeaderHW",
)
min_isr_capped = feature(
    "min_isr_capped",
    "3.7",
    parts=(LEADER,),
    sentence="min.insync.replicas above the replication factor counts as that. Before, every "
    "append with acks=all was refused.",
    source="KAFKA-15583, Partition.effectiveMinIsr",
)
broker_epoch_checked = feature(
    "broker_epoch_checked",
    "3.5",
    parts=(LEADER,),
    sentence="A replica joins the in-sync set by what it has fetched since its broker started. "
    "Before, what it fetched before that start counted, too.",
    source="KIP-903, Partition.isReplicaIsrEligible",
)
eligible_leader_replicas = feature(
    "eligible_leader_replicas",
    "4.1",
    parts=(LEADER,),
    sentence="The controller records each replica that leaves an in-sync set below "
    "min.insync.replicas, and may elect it. A replica that comes back from an unclean shutdown "
    "may not lead (default of new clusters from 4.1; 4.0 has it, switched off).",
    source="KIP-966, eligible.leader.replicas.version",
)

OF_REPLICATION: Final[tuple[Expression, ...]] = (
    truncated_by_epoch,
    epoch_asked_again,
    isr_from_epoch_start,
    leader_epoch_checked,
    high_watermark_waits,
    min_isr_capped,
    broker_epoch_checked,
    eligible_leader_replicas,
)
