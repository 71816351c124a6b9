"""Properties of a partition's replicas, and of the answers that clients got."""

from __future__ import annotations

from ....language import (
    Expression,
    all_of,
    any_of,
    element,
    failure,
    invariant,
    is_prefix,
    position,
    size,
    variable,
)
from ...replication import state as replicas
from ...replication.state import RECORD, REPLICA, State

i, j = REPLICA.variable("i"), REPLICA.variable("j")
any_record = variable("record", RECORD)


def _has(one: Expression, record: Expression) -> Expression:
    entry = element("entry", replicas.log.at(one))
    return any_of(entry, entry.record == record)


newest_leader = replicas.leads(i, replicas.newest_epoch)

acknowledged_kept = invariant(
    "AcknowledgedKept",
    all_of(
        any_record,
        any_record.is_in(replicas.acknowledged).implies(
            all_of(i, newest_leader.implies(_has(i, any_record)))
        ),
    ),
    "An acknowledged record is in the log of the leader of the newest epoch.",
    "min.insync.replicas, acks",
    failure=failure(
        "record {} is acknowledged, and {}, the leader of epoch {}, does not have it",
        any_record,
        i,
        replicas.newest_epoch,
    ),
)

consumed_kept = invariant(
    "ConsumedKept",
    all_of(i, newest_leader.implies(is_prefix(replicas.consumed, replicas.log.at(i)))),
    "The records that consumers have read are in the log of the leader of the newest epoch, at "
    "the same offset.",
    "Partition.maybeIncrementLeaderHW",
    failure=failure(
        "consumers have read {} entries, and {}, the leader of epoch {}, does not have all of them",
        size(replicas.consumed),
        i,
        replicas.newest_epoch,
    ),
)

_known_i, _known_j = (
    replicas.log.at(i)[: replicas.high_watermark.at(i)],
    replicas.log.at(j)[: replicas.high_watermark.at(j)],
)
replicas_agree = invariant(
    "ReplicasAgree",
    all_of(i, j, is_prefix(_known_i, _known_j) | is_prefix(_known_j, _known_i)),
    "Two replicas have the same entries below the high watermarks that they know.",
    "KIP-101",
    failure=failure(
        "{} and {} differ below their high watermarks, {} and {}",
        i,
        j,
        replicas.high_watermark.at(i),
        replicas.high_watermark.at(j),
    ),
)

follower_in_line = invariant(
    "FollowerInLine",
    all_of(
        i,
        j,
        (
            (replicas.state.at(j) == State.FETCHING)
            & replicas.leads(i, replicas.leader_epoch.at(j))
        ).implies(is_prefix(replicas.log.at(j), replicas.log.at(i))),
    ),
    "A follower that fetches has no entry that its leader lacks.",
    "KIP-101, KIP-279",
    failure=failure(
        "{} fetches from {} in leader epoch {} and has an entry that the leader lacks",
        j,
        i,
        replicas.leader_epoch.at(j),
    ),
)

_one, _later = element("one", replicas.log.at(i)), element("later", replicas.log.at(i))
epochs_in_order = invariant(
    "EpochsInOrder",
    all_of(
        i,
        _one,
        _later,
        (position(_one) < position(_later)).implies(_one.leader_epoch <= _later.leader_epoch),
    ),
    "Leader epochs never decrease along a log.",
    "KIP-101, LeaderEpochFileCache.assign",
    failure=failure(
        "{} has leader epoch {} at offset {}, before leader epoch {} at offset {}",
        i,
        _one.leader_epoch,
        position(_one),
        _later.leader_epoch,
        position(_later),
    ),
)

one_leader = invariant(
    "OneLeader",
    all_of(
        i,
        j,
        ((i != j) & (replicas.state.at(i) == State.LEADER)).implies(
            ~replicas.leads(j, replicas.leader_epoch.at(i))
        ),
    ),
    "An epoch has one leader.",
    "KIP-101",
    failure=failure("{} and {} both lead in epoch {}", i, j, replicas.leader_epoch.at(i)),
)

PROPERTIES = (
    acknowledged_kept,
    consumed_kept,
    replicas_agree,
    follower_in_line,
    epochs_in_order,
    one_leader,
)
