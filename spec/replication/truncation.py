"""What a follower's log loses before it fetches: OffsetForLeaderEpoch, or the high watermark.

A question and its answer are one step of a follower and a leader. From 2.7
on brokers say the same with Fetch: its answer names the epoch and offset where the logs diverge.
"""

from __future__ import annotations

from ...language import Row, Table, event, last, minimum, only, size
from ..releases.replication_features import epoch_asked_again, truncated_by_epoch
from . import state as replicas
from .state import REPLICA, State, replica

ask = event("OffsetForLeaderEpoch", leader=REPLICA)

_theirs = replicas.log.at(ask.leader)
_asked = last(replicas.log).value.leader_epoch
_answer = replicas.end_offset(_theirs, _asked)
_named = replicas.newest_up_to(_theirs, _asked)
_mine = replicas.newest_up_to(replicas.log, _named)
_STATE = "AbstractFetcherThread.getOffsetTruncationState"

asks = Table(
    replica,
    on=ask,
    when=(replicas.state == State.TRUNCATING) & replicas.answers(ask.leader),
    rows=only(
        truncated_by_epoch,
        *replicas.refused(ask.leader),
        Row(
            "nothing to ask",
            when=size(replicas.log) == 0,
            goto=State.FETCHING,
            source="AbstractFetcherThread.truncateToHighWatermark",
        ),
        Row(
            "an epoch before the leader's first",
            when=(_answer == 0) & (size(_theirs) > 0),
            during=~epoch_asked_again,
            goto=State.FETCHING,
            set=replicas.truncated(replicas.high_watermark),
            source="LeaderEpochFileCache.endOffsetFor",
            note="UNDEFINED_EPOCH_OFFSET: the high watermark decides.",
        ),
        Row(
            "to the leader's offset",
            during=~epoch_asked_again,
            goto=State.FETCHING,
            set=replicas.truncated(_answer),
            source="ReplicaFetcherThread.maybeTruncate",
        ),
        Row(
            "ask again",
            when=(_named != 0) & (_mine != _named),
            set=replicas.truncated(replicas.end_offset(replicas.log, _named)),
            source=_STATE,
            note="The follower lacks the epoch that the leader names.",
        ),
        Row(
            "to where both logs have the epoch",
            goto=State.FETCHING,
            set=replicas.truncated(minimum(_answer, replicas.end_offset(replicas.log, _named))),
            source=_STATE,
        ),
    ),
)

TABLES = (asks,)
