"""Elections by the controller, their effect on brokers, crashes and restarts.

A broker hears of the newest election at any time after it, and acts as before until then. It may
never hear of the elections in between. The controller elects a running broker. It may elect another
one while the leader runs, for a preferred leader or after an expired session.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Row,
    Table,
    all_of,
    any_of,
    any_true,
    each,
    event,
    if_,
    minimum,
    set_of,
    size,
    some,
    those,
)
from ..releases.replication_features import (
    eligible_leader_replicas,
    leader_epoch_checked,
    truncated_by_epoch,
)
from . import state as replicas
from .fetch import acknowledged_up_to, advanced
from .state import LEADER_EPOCHS, REPLICA, UNKNOWN, State, replica

elect = event("elect", replica=REPLICA)
elect_unclean = event("elect unclean", replica=REPLICA)
hear = event("LeaderAndIsr", event_doc="A broker hears of the newest election.")
crash = event("crash")
power_loss = event("power loss")
restart = event("restart")

r, s = REPLICA.variable("r"), REPLICA.variable("s")


def runs(replica: Expression) -> Expression:
    """Whether a broker runs."""
    return replicas.state.at(replica) != State.OFFLINE


nobody_left = (size(replicas.in_sync) == 0) & (size(replicas.eligible) == 0)
in_sync_replica_runs = any_of(s, s.is_in(replicas.in_sync) & runs(s))


def may_lead(replica: Expression) -> Expression:
    """Whether the controller may elect a replica without an unclean election."""
    return any_true(
        replica.is_in(replicas.in_sync),
        replica.is_in(replicas.eligible) & ~in_sync_replica_runs,
        nobody_left & (replicas.last_known_leader == replica),
    )


# An election --------------------------------------------------------------------------------------

live_replicas = those(r, runs(r))
live_in_sync_replicas = those(r, r.is_in(replicas.in_sync) & runs(r))
elects = Table(
    replicas.registration,
    on=elect,
    others=(replica,),
    when=(replicas.newest_epoch < LEADER_EPOCHS)
    & runs(elect.replica)
    & ((replicas.newest_epoch == 0) | may_lead(elect.replica))
    & (replicas.elected != elect.replica),
    rows=(
        Row(
            "first-leader",
            "The partition gets its first leader",
            when=replicas.newest_epoch == 0,
            set={
                replicas.elected: some(elect.replica),
                replicas.newest_epoch: replicas.newest_epoch + 1,
                replicas.in_sync: live_replicas,
                replicas.eligible: replicas.eligible_after(live_replicas),
                replicas.last_known_leader: None,
            },
            source="PartitionStateMachine.initializeLeaderAndIsrForPartitions, "
            "ReplicationControlManager.createTopic",
        ),
        Row(
            "eligible-leader-replica",
            "No in-sync replica runs: an eligible leader replica leads",
            when=elect.replica.is_in(replicas.eligible),
            set={
                replicas.elected: some(elect.replica),
                replicas.newest_epoch: replicas.newest_epoch + 1,
                replicas.in_sync: set_of(elect.replica),
                replicas.eligible: replicas.eligible_after(set_of(elect.replica)),
                replicas.last_known_leader: None,
            },
            during=eligible_leader_replicas,
            source="KIP-966, PartitionChangeBuilder.electAnyLeader",
        ),
        Row(
            "last-known-leader",
            "No replica is in sync or eligible: the last known leader leads",
            when=nobody_left,
            set={
                replicas.elected: some(elect.replica),
                replicas.newest_epoch: replicas.newest_epoch + 1,
                replicas.in_sync: set_of(elect.replica),
                replicas.eligible: replicas.eligible_after(set_of(elect.replica)),
                replicas.last_known_leader: None,
            },
            during=eligible_leader_replicas,
            source="KIP-966, PartitionChangeBuilder.canElectLastKnownLeader",
            note="No replica that has all records is left. The partition is available, and may "
            "have lost records, whatever unclean.leader.election.enable says.",
        ),
        Row(
            "in-sync-replica",
            "An in-sync replica leads",
            set={
                replicas.elected: some(elect.replica),
                replicas.newest_epoch: replicas.newest_epoch + 1,
                replicas.in_sync: live_in_sync_replicas,
                replicas.eligible: replicas.eligible_after(live_in_sync_replicas),
                replicas.last_known_leader: None,
            },
            source="PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection, "
            "PartitionChangeBuilder.electAnyLeader",
        ),
    ),
)

elects_unclean = Table(
    replicas.registration,
    on=elect_unclean,
    others=(replica,),
    when=(0 < replicas.newest_epoch)
    & (replicas.newest_epoch < LEADER_EPOCHS)
    & runs(elect_unclean.replica)
    & all_of(r, may_lead(r).implies(~runs(r))),
    doc="If no replica in sync or eligible runs, and unclean.leader.election.enable is set.",
    rows=(
        Row(
            "any-replica",
            "A replica outside the in-sync set leads",
            set={
                replicas.elected: some(elect_unclean.replica),
                replicas.newest_epoch: replicas.newest_epoch + 1,
                replicas.in_sync: set_of(elect_unclean.replica),
                replicas.eligible: set_of(),
                replicas.last_known_leader: None,
            },
            source="PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection, "
            "PartitionChangeBuilder.electAnyLeader",
        ),
    ),
)

# A broker hears of it -----------------------------------------------------------------------------

nothing_fetched = each(r, UNKNOWN)

# A leader changes its in-sync set and the recorded one in one step; an unclean shutdown doesn't.
isr_has_changed = (
    eligible_leader_replicas
    & (replicas.state == State.LEADER)
    & (replicas.leader_epoch == replicas.newest_epoch)
    & (replicas.isr != replicas.in_sync)
)
isr_high_watermark = advanced(replicas.me, replicas.log, replicas.in_sync, replicas.fetched)
hears = Table(
    replica,
    on=hear,
    others=(replicas.registration, replicas.clients),
    when=(replicas.state != State.OFFLINE)
    & replicas.elected.is_set
    & ((replicas.leader_epoch < replicas.newest_epoch) | isr_has_changed),
    rows=(
        Row(
            "new-isr",
            "The leader stays, and has a new in-sync set",
            when=isr_has_changed,
            set={
                replicas.isr: replicas.in_sync,
                replicas.high_watermark.at(replicas.me): isr_high_watermark,
                replicas.acknowledged: acknowledged_up_to(
                    replicas.me, replicas.log, replicas.in_sync, isr_high_watermark
                ),
            },
            during=eligible_leader_replicas,
            source="Partition.makeLeader",
            note="The leader epoch is the same; the partition epoch is newer.",
        ),
        Row(
            "lead",
            "The broker leads",
            when=replicas.elected == replicas.me,
            goto=State.LEADER,
            set={
                replicas.leader_epoch: replicas.newest_epoch,
                replicas.isr: replicas.in_sync,
                replicas.fetched: nothing_fetched,
                replicas.epoch_start: size(replicas.log),
                replicas.following: None,
                replicas.unclean_shutdown: False,
                replicas.high_watermark: advanced(
                    replicas.me, replicas.log, replicas.in_sync, nothing_fetched
                ),
            },
            source="Partition.makeLeader",
        ),
        Row(
            "follow",
            "The broker follows, and asks the leader how far to truncate",
            goto=State.TRUNCATING,
            set={
                replicas.leader_epoch: replicas.newest_epoch,
                replicas.following: if_(leader_epoch_checked, None, replicas.elected),
                replicas.isr: set_of(),
                replicas.fetched: nothing_fetched,
                replicas.epoch_start: 0,
            },
            during=truncated_by_epoch,
            source="Partition.makeFollower, ReplicaManager.makeFollowers",
        ),
        Row(
            "follow-from-high-watermark",
            "The broker follows, and truncates to its high watermark",
            goto=State.FETCHING,
            set={
                replicas.leader_epoch: replicas.newest_epoch,
                replicas.following: if_(leader_epoch_checked, None, replicas.elected),
                replicas.isr: set_of(),
                replicas.fetched: nothing_fetched,
                replicas.epoch_start: 0,
                replicas.log: replicas.log[: replicas.high_watermark],
            },
            source="KIP-101, ReplicaManager.makeFollowers before 0.11.0.0",
        ),
    ),
)

# Crashes and restarts -----------------------------------------------------------------------------

crashes = Table(
    replica,
    on=crash,
    when=replicas.state != State.OFFLINE,
    rows=(
        Row(
            "crash",
            "The broker is gone; its log stays",
            goto=State.OFFLINE,
            set={
                replicas.leader_epoch: 0,
                replicas.following: None,
                replicas.isr: set_of(),
                replicas.fetched: nothing_fetched,
                replicas.epoch_start: 0,
            },
            source="ReplicaManager.shutdown",
        ),
    ),
)

flushed_end = if_(size(replicas.log) > 0, size(replicas.log) - 1, 0)
loses_power = Table(
    replica,
    on=power_loss,
    when=(replicas.state != State.OFFLINE) & (size(replicas.log) > 0),
    rows=(
        Row(
            "lose-last-entry",
            "The broker is gone, and its log has lost the last entry",
            goto=State.OFFLINE,
            set={
                replicas.leader_epoch: 0,
                replicas.following: None,
                replicas.isr: set_of(),
                replicas.fetched: nothing_fetched,
                replicas.epoch_start: 0,
                replicas.log: replicas.log[:flushed_end],
                replicas.high_watermark: minimum(replicas.high_watermark, flushed_end),
                replicas.unclean_shutdown: True,
            },
            source="UnifiedLog.flush; log.flush.interval.messages",
        ),
    ),
)

elected_unless_me = if_(replicas.elected == replicas.me, None, replicas.elected)
in_sync_without_me = replicas.in_sync - set_of(replicas.me)
restarts = Table(
    replica,
    on=restart,
    others=(replicas.registration,),
    when=replicas.state == State.OFFLINE,
    rows=(
        Row(
            "register-unclean",
            "The broker registers after an unclean shutdown, and is no longer in sync",
            when=replicas.unclean_shutdown,
            goto=State.STARTED,
            set={
                replicas.elected: elected_unless_me,
                replicas.in_sync: in_sync_without_me,
                replicas.eligible: replicas.eligible_after(in_sync_without_me, set_of(replicas.me)),
                replicas.last_known_leader: if_(
                    replicas.in_sync == set_of(replicas.me),
                    some(replicas.me),
                    replicas.last_known_leader,
                ),
            },
            during=eligible_leader_replicas,
            source="KIP-966, ReplicationControlManager.handleBrokerShutdown",
            note="PreviousBrokerEpoch differs from the epoch that the controller knows: the log "
            "may have lost records that others rely on.",
        ),
        Row(
            "register",
            "The broker registers: a leader has to be elected again",
            goto=State.STARTED,
            set={replicas.elected: elected_unless_me},
            source="ClusterControlManager.registerBroker, KafkaController.onBrokerFailure",
        ),
    ),
)

TABLES = (elects, elects_unclean, hears, crashes, loses_power, restarts)
