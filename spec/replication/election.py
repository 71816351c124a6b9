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
    each,
    event,
    if_,
    set_of,
    size,
    some,
    those,
)
from ...language.expressions import Operand
from ..features import truncated_by_epoch
from .fetch import advanced
from .state import (
    LEADER_EPOCHS,
    REPLICA,
    UNKNOWN,
    State,
    elected,
    epoch_start,
    fetched,
    high_watermark,
    in_sync,
    isr,
    leader_epoch,
    log,
    me,
    newest_epoch,
    registration,
    replica,
    state,
    truncated,
)

elect = event("elect", replica=REPLICA)
elect_unclean = event("elect unclean", replica=REPLICA)
hear = event("LeaderAndIsr", event_doc="A broker hears of the newest election.")
crash = event("crash")
power_loss = event("power loss")
restart = event("restart")

_r = REPLICA.variable("r")


def _runs(replica: Expression) -> Expression:
    return state.at(replica) != State.OFFLINE


def _elected(winner: Expression, members: Expression) -> dict[Expression, Operand]:
    return {elected: some(winner), newest_epoch: newest_epoch + 1, in_sync: members}


elects = Table(
    registration,
    on=elect,
    others=(replica,),
    when=(newest_epoch < LEADER_EPOCHS)
    & _runs(elect.replica)
    & ((newest_epoch == 0) | elect.replica.is_in(in_sync))
    & (elected != elect.replica),
    rows=(
        Row(
            "the first leader",
            when=newest_epoch == 0,
            set=_elected(elect.replica, those(_r, _runs(_r))),
            source="PartitionStateMachine.initializeLeaderAndIsrForPartitions",
        ),
        Row(
            "from the in-sync set",
            set=_elected(elect.replica, those(_r, _r.is_in(in_sync) & _runs(_r))),
            source="PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection",
        ),
    ),
)

elects_unclean = Table(
    registration,
    on=elect_unclean,
    others=(replica,),
    when=(0 < newest_epoch)
    & (newest_epoch < LEADER_EPOCHS)
    & _runs(elect_unclean.replica)
    & all_of(_r, _r.is_in(in_sync).implies(~_runs(_r))),
    doc="Where no replica in sync runs, and unclean.leader.election.enable is set.",
    rows=(
        Row(
            "from all replicas",
            set=_elected(elect_unclean.replica, set_of(elect_unclean.replica)),
            source="PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection",
        ),
    ),
)

_unknown = each(_r, UNKNOWN)
# What only a leader has.
_not_leading: dict[Expression, Operand] = {isr: set_of(), fetched: _unknown, epoch_start: 0}

hears = Table(
    replica,
    on=hear,
    others=(registration,),
    when=(state != State.OFFLINE) & elected.is_set & (leader_epoch < newest_epoch),
    rows=(
        Row(
            "lead",
            when=elected == me,
            goto=State.LEADER,
            set={
                leader_epoch: newest_epoch,
                isr: in_sync,
                fetched: _unknown,
                epoch_start: size(log),
                high_watermark: advanced(me, log, in_sync, _unknown),
            },
            source="Partition.makeLeader",
        ),
        Row(
            "follow",
            during=truncated_by_epoch,
            goto=State.TRUNCATING,
            set={leader_epoch: newest_epoch, **_not_leading},
            source="Partition.makeFollower, ReplicaManager.makeFollowers",
        ),
        Row(
            "follow from the high watermark",
            goto=State.FETCHING,
            set={leader_epoch: newest_epoch, **_not_leading, **truncated(high_watermark)},
            source="ReplicaManager.makeFollowers before 0.11.0.0",
        ),
    ),
)

_forgets: dict[Expression, Operand] = {leader_epoch: 0, **_not_leading}
crashes = Table(
    replica,
    on=crash,
    when=state != State.OFFLINE,
    rows=(
        Row("the log stays", goto=State.OFFLINE, set=_forgets, source="ReplicaManager.shutdown"),
    ),
)

_last = if_(size(log) > 0, size(log) - 1, 0)
loses_power = Table(
    replica,
    on=power_loss,
    when=(state != State.OFFLINE) & (size(log) > 0),
    rows=(
        Row(
            "the last entry is lost",
            goto=State.OFFLINE,
            set={**_forgets, **truncated(_last)},
            source="UnifiedLog.flush; log.flush.interval.messages",
        ),
    ),
)

restarts = Table(
    replica,
    on=restart,
    others=(registration,),
    when=state == State.OFFLINE,
    rows=(
        Row(
            "register anew",
            goto=State.STARTED,
            set={elected: if_(elected == me, None, elected)},
            source="ClusterControlManager.registerBroker, KafkaController.onBrokerFailure",
            note="Who led before has to be elected again.",
        ),
    ),
)

TABLES = (elects, elects_unclean, hears, crashes, loses_power, restarts)
