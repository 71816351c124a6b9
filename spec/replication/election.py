"""Who leads: the controller's elections, what brokers make of them, crashes and restarts.

A broker hears of the newest election at any time after it, and until then does as before. Of
elections in between it may hear nothing. The controller elects a broker that runs, and may elect
another while the leader runs, as it does for a preferred leader or an expired session.
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
    set_of,
    size,
    some,
    those,
)
from ...language.expressions import Operand
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

_r = REPLICA.variable("r")


def _runs(replica: Expression) -> Expression:
    return replicas.state.at(replica) != State.OFFLINE


def _elected(winner: Expression, members: Expression) -> dict[Expression, Operand]:
    return {
        replicas.elected: some(winner),
        replicas.newest_epoch: replicas.newest_epoch + 1,
        **replicas.recorded(members),
        replicas.last_known_leader: None,
    }


_nobody_left = (size(replicas.in_sync) == 0) & (size(replicas.eligible) == 0)
_s = REPLICA.variable("s")
_in_sync_run = any_of(_s, _s.is_in(replicas.in_sync) & _runs(_s))


def _may_lead(replica: Expression) -> Expression:
    """Whether the controller may elect it without an unclean election."""
    return any_true(
        replica.is_in(replicas.in_sync),
        replica.is_in(replicas.eligible) & ~_in_sync_run,
        _nobody_left & (replicas.last_known_leader == replica),
    )


elects = Table(
    replicas.registration,
    on=elect,
    others=(replica,),
    when=(replicas.newest_epoch < LEADER_EPOCHS)
    & _runs(elect.replica)
    & ((replicas.newest_epoch == 0) | _may_lead(elect.replica))
    & (replicas.elected != elect.replica),
    rows=(
        Row(
            "the first leader",
            when=replicas.newest_epoch == 0,
            set=_elected(elect.replica, those(_r, _runs(_r))),
            source="PartitionStateMachine.initializeLeaderAndIsrForPartitions",
        ),
        Row(
            "from the eligible leader replicas",
            when=elect.replica.is_in(replicas.eligible),
            during=eligible_leader_replicas,
            set=_elected(elect.replica, set_of(elect.replica)),
            source="KIP-966, PartitionChangeBuilder.electAnyLeader",
        ),
        Row(
            "the last known leader",
            when=_nobody_left,
            during=eligible_leader_replicas,
            set=_elected(elect.replica, set_of(elect.replica)),
            source="KIP-966, PartitionChangeBuilder.canElectLastKnownLeader",
            note="Nobody is left that has all of it: the partition is available, and may have lost "
            "records, whatever unclean.leader.election.enable says.",
        ),
        Row(
            "from the in-sync set",
            set=_elected(elect.replica, those(_r, _r.is_in(replicas.in_sync) & _runs(_r))),
            source="PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection",
        ),
    ),
)

elects_unclean = Table(
    replicas.registration,
    on=elect_unclean,
    others=(replica,),
    when=(0 < replicas.newest_epoch)
    & (replicas.newest_epoch < LEADER_EPOCHS)
    & _runs(elect_unclean.replica)
    & all_of(_r, _may_lead(_r).implies(~_runs(_r))),
    doc="If no replica in sync or eligible runs, and unclean.leader.election.enable is set.",
    rows=(
        Row(
            "from all replicas",
            set={
                **_elected(elect_unclean.replica, set_of(elect_unclean.replica)),
                replicas.eligible: set_of(),
            },
            source="PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection",
        ),
    ),
)

_unknown = each(_r, UNKNOWN)
# What only a leader has.
_not_leading: dict[Expression, Operand] = {
    replicas.isr: set_of(),
    replicas.fetched: _unknown,
    replicas.epoch_start: 0,
}
_follows: dict[Expression, Operand] = {
    replicas.leader_epoch: replicas.newest_epoch,
    replicas.following: if_(leader_epoch_checked, None, replicas.elected),
    **_not_leading,
}

# A leader changes its in-sync set and the recorded one in one step; an unclean shutdown doesn't.
_isr_changed = (
    eligible_leader_replicas
    & (replicas.state == State.LEADER)
    & (replicas.leader_epoch == replicas.newest_epoch)
    & (replicas.isr != replicas.in_sync)
)
_isr_high_watermark = advanced(replicas.me, replicas.log, replicas.in_sync, replicas.fetched)

hears = Table(
    replica,
    on=hear,
    others=(replicas.registration, replicas.clients),
    when=(replicas.state != State.OFFLINE)
    & replicas.elected.is_set
    & ((replicas.leader_epoch < replicas.newest_epoch) | _isr_changed),
    rows=(
        Row(
            "the in-sync set",
            when=_isr_changed,
            during=eligible_leader_replicas,
            set={
                replicas.isr: replicas.in_sync,
                replicas.high_watermark.at(replicas.me): _isr_high_watermark,
                replicas.acknowledged: acknowledged_up_to(
                    replicas.me, replicas.log, replicas.in_sync, _isr_high_watermark
                ),
            },
            source="Partition.makeLeader",
            note="Without a new leader epoch: the partition epoch is newer.",
        ),
        Row(
            "lead",
            when=replicas.elected == replicas.me,
            goto=State.LEADER,
            set={
                replicas.leader_epoch: replicas.newest_epoch,
                replicas.isr: replicas.in_sync,
                replicas.fetched: _unknown,
                replicas.epoch_start: size(replicas.log),
                replicas.following: None,
                replicas.unclean_shutdown: False,
                replicas.high_watermark: advanced(
                    replicas.me, replicas.log, replicas.in_sync, _unknown
                ),
            },
            source="Partition.makeLeader",
        ),
        Row(
            "follow",
            during=truncated_by_epoch,
            goto=State.TRUNCATING,
            set=_follows,
            source="Partition.makeFollower, ReplicaManager.makeFollowers",
        ),
        Row(
            "follow from the high watermark",
            goto=State.FETCHING,
            set={**_follows, **replicas.truncated(replicas.high_watermark)},
            source="ReplicaManager.makeFollowers before 0.11.0.0",
        ),
    ),
)

_forgets: dict[Expression, Operand] = {
    replicas.leader_epoch: 0,
    replicas.following: None,
    **_not_leading,
}
crashes = Table(
    replica,
    on=crash,
    when=replicas.state != State.OFFLINE,
    rows=(
        Row("the log stays", goto=State.OFFLINE, set=_forgets, source="ReplicaManager.shutdown"),
    ),
)

_last = if_(size(replicas.log) > 0, size(replicas.log) - 1, 0)
loses_power = Table(
    replica,
    on=power_loss,
    when=(replicas.state != State.OFFLINE) & (size(replicas.log) > 0),
    rows=(
        Row(
            "the last entry is lost",
            goto=State.OFFLINE,
            set={**_forgets, **replicas.truncated(_last), replicas.unclean_shutdown: True},
            source="UnifiedLog.flush; log.flush.interval.messages",
        ),
    ),
)

_not_me = if_(replicas.elected == replicas.me, None, replicas.elected)
_others = replicas.in_sync - set_of(replicas.me)
restarts = Table(
    replica,
    on=restart,
    others=(replicas.registration,),
    when=replicas.state == State.OFFLINE,
    rows=(
        Row(
            "register anew after an unclean shutdown",
            when=replicas.unclean_shutdown,
            during=eligible_leader_replicas,
            goto=State.STARTED,
            set={
                replicas.elected: _not_me,
                **replicas.recorded(_others, set_of(replicas.me)),
                replicas.last_known_leader: if_(
                    replicas.in_sync == set_of(replicas.me),
                    some(replicas.me),
                    replicas.last_known_leader,
                ),
            },
            source="KIP-966, ReplicationControlManager.handleBrokerShutdown",
            note="PreviousBrokerEpoch isn't the one that the controller knows: the log may have "
            "lost what others rely on.",
        ),
        Row(
            "register anew",
            goto=State.STARTED,
            set={replicas.elected: _not_me},
            source="ClusterControlManager.registerBroker, KafkaController.onBrokerFailure",
            note="The last leader has to be elected again.",
        ),
    ),
)

TABLES = (elects, elects_unclean, hears, crashes, loses_power, restarts)
