"""Another broker coordinates the group, in one step: it leads the partition of the group's offsets,
and has read the log before it answers.

`coordinator_load` has the steps of that, with records that are appended meanwhile.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Row,
    each,
    element,
    failure,
    if_,
    invariant,
    keep,
    last,
    max_of,
    position,
    sequence_of,
    size,
    some,
    those,
    to_each,
)
from ...language.changes import Change
from ..answers import answer_batch
from ..errors import Errors
from ..leader import state as leader
from ..leader.isolation import ending
from ..leader.recovery import change_leader
from ..leader.state import c, orphaned, verification_states
from ..messages import partition, waiting
from .offsets.txn_offset_commit import txn_offset_commit_response
from .state import (
    OFFSETS,
    PendingOffset,
    committed,
    completions,
    group,
    n,
    offset_of,
    pending,
    processing,
    verifying,
)

log = leader.log.at(OFFSETS)
item = element("e", log)
end = ending(item, OFFSETS)


def _newest(which: Expression) -> Expression:
    """The last offset of these in the log, if there is one, as the coordinator has it."""
    is_one = (item.kind == leader.Kind.DATA) & which
    entry = last(keep(item, is_one))
    place = max_of(item, if_(is_one, position(item), 0), default=0)
    found = PendingOffset(offset=offset_of(entry.value.txn.value), appended=some(place))
    return if_(entry.is_set, some(found), None)


READ: dict[Expression, Expression] = {
    committed: _newest(end.is_set & (end.value.kind == leader.Kind.COMMIT)),
    pending: each(n, _newest((item.producer_id == n) & ~end.is_set)),
}
"""The group's offsets as the log has them.

GroupMetadataManager.doLoadGroupsAndOffsets, OffsetMetadataManager.replay
"""

is_offsets_partition = partition.this == OFFSETS
failover = (
    Change(
        "group failover",
        "The new leader of the group's offsets has read them from its log.",
        machines=(group, processing),
    )
    .table("partition.leader changes")
    .only_when(~change_leader.from_snapshot)
    .instead(
        "lose-verification-state",
        Row(
            "lose-verification-state",
            "The new leader has the log and the group's offsets in it, but no waiting batch",
            set={
                verification_states: each(n, None),
                waiting: each(c, None),
                orphaned: orphaned | those(c, waiting[c].is_set),
                committed: if_(is_offsets_partition, READ[committed], committed),
                pending: if_(is_offsets_partition, READ[pending], pending),
                verifying: each(c, if_(is_offsets_partition, None, verifying[c])),
                completions: if_(is_offsets_partition, sequence_of(), completions),
            },
            send=(
                to_each(
                    c,
                    waiting[c].is_set & ~is_offsets_partition,
                    answer_batch(
                        c,
                        partition.this,
                        waiting[c].value.record,
                        waiting[c].value.txn,
                        Errors.NOT_LEADER_OR_FOLLOWER,
                    ),
                ),
                to_each(
                    c,
                    is_offsets_partition & waiting[c].is_set,
                    txn_offset_commit_response(
                        c, verifying[c].value.connection, Errors.NOT_COORDINATOR
                    ),
                ),
            ),
            source="ProducerStateManager.loadFromSnapshot, UnifiedLog.rebuildProducerState, "
            "GroupMetadataManager.scheduleLoadGroupAndOffsets",
        ),
    )
)
"""The output's leader changes as well."""

as_the_log_has_them = invariant(
    "OffsetsFromLog",
    (size(completions) == 0).implies((pending == READ[pending]) & (committed == READ[committed])),
    "The offsets that the group's coordinator knows are those of its log.",
    "OffsetMetadataManager.replay, GroupMetadataManager.doLoadGroupsAndOffsets",
    failure=failure(
        "the coordinator has the offset {}, pending {}; its log has {}, pending {}",
        committed,
        pending,
        READ[committed],
        READ[pending],
    ),
)
