"""A follower truncates its log before it fetches: by OffsetForLeaderEpoch or the high watermark.

A question and its answer are one step of a follower and a leader. From 2.7 on brokers say the same
with Fetch: its answer names the epoch and offset where the logs diverge.
"""

from __future__ import annotations

from ...language import Row, Table, event, last, minimum, size
from ..releases.replication_features import (
    epoch_asked_again,
    leader_epoch_checked,
    truncated_by_epoch,
)
from . import state as replicas
from .state import REPLICA, State, replica

ask = event("OffsetForLeaderEpoch", leader=REPLICA)

leader_log = replicas.log.at(ask.leader)
leader_epoch = replicas.leader_epoch.at(ask.leader)
requested_epoch = last(replicas.log).value.leader_epoch
leader_end_offset = replicas.end_offset(leader_log, requested_epoch)
answered_epoch = replicas.newest_up_to(leader_log, requested_epoch)
own_epoch = replicas.newest_up_to(replicas.log, answered_epoch)
own_end_offset = replicas.end_offset(replicas.log, answered_epoch)
offset_to_truncate = minimum(leader_end_offset, own_end_offset)

asks = Table(
    replica,
    on=ask,
    when=(replicas.state == State.TRUNCATING) & replicas.answers(ask.leader),
    during=truncated_by_epoch,
    rows=(
        Row(
            "fenced-leader-epoch",
            "The leader has a newer epoch: the follower waits until it hears of the election",
            when=replicas.leader_epoch < leader_epoch,
            during=leader_epoch_checked,
            source="KIP-320, Partition.checkCurrentLeaderEpoch, FENCED_LEADER_EPOCH",
        ),
        Row(
            "unknown-leader-epoch",
            "The leader has not heard of its own election: the follower tries again",
            when=replicas.leader_epoch > leader_epoch,
            during=leader_epoch_checked,
            source="KIP-320, Partition.checkCurrentLeaderEpoch, UNKNOWN_LEADER_EPOCH",
        ),
        Row(
            "empty-log",
            "The log is empty: the follower fetches",
            when=size(replicas.log) == 0,
            goto=State.FETCHING,
            source="AbstractFetcherThread.truncateToHighWatermark",
        ),
        Row(
            "undefined-epoch-offset",
            "The epoch is before the leader's first: the high watermark decides",
            when=(leader_end_offset == 0) & (size(leader_log) > 0),
            goto=State.FETCHING,
            set={
                replicas.log: replicas.log[: replicas.high_watermark],
            },
            during=~epoch_asked_again,
            source="LeaderEpochFileCache.endOffsetFor, UNDEFINED_EPOCH_OFFSET",
        ),
        Row(
            "truncate-to-leader",
            "The log is truncated to the end of the epoch in the leader's log",
            goto=State.FETCHING,
            set={
                replicas.log: replicas.log[:leader_end_offset],
                replicas.high_watermark: minimum(replicas.high_watermark, leader_end_offset),
            },
            during=~epoch_asked_again,
            source="ReplicaFetcherThread.maybeTruncate before 2.0",
        ),
        Row(
            "ask-again",
            "The follower lacks the epoch that the leader names: it truncates, and asks again",
            when=(answered_epoch != 0) & (own_epoch != answered_epoch),
            set={
                replicas.log: replicas.log[:own_end_offset],
                replicas.high_watermark: minimum(replicas.high_watermark, own_end_offset),
            },
            source="KIP-279, AbstractFetcherThread.getOffsetTruncationState",
        ),
        Row(
            "truncate",
            "The log is truncated to the offset up to which both logs have the epoch",
            goto=State.FETCHING,
            set={
                replicas.log: replicas.log[:offset_to_truncate],
                replicas.high_watermark: minimum(replicas.high_watermark, offset_to_truncate),
            },
            source="KIP-279, AbstractFetcherThread.getOffsetTruncationState",
        ),
    ),
)

TABLES = (asks,)
