"""Another broker coordinates the group, in one step: it leads the partition of the group's offsets,
and has read what the log says before it answers.

`loading` has the steps of that, with what is appended meanwhile.
"""

from __future__ import annotations

import dataclasses

from ...language import (
    Expression,
    Sending,
    each,
    element,
    if_,
    invariant,
    keep,
    last,
    max_of,
    position,
    sequence_of,
    size,
    some,
    to_each,
)
from ..errors import Errors
from ..leader import state as leader
from ..leader.isolation import ending
from ..leader.recovery import change_leader, leader_changes
from ..leader.state import c
from ..messages import partition, waiting
from .joined import joined
from .offsets import txn_offset_commit_response
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

_log = leader.log.at(OFFSETS)
_e = element("e", _log)
_end = ending(_e, OFFSETS)


def _newest(which: Expression) -> Expression:
    """The last offset of these in the log, if there is one, as the coordinator has it."""
    is_one = (_e.kind == leader.Kind.DATA) & which
    entry = last(keep(_e, is_one))
    place = max_of(_e, if_(is_one, position(_e), 0), default=0)
    found = PendingOffset(offset=offset_of(entry.value.txn.value), appended=some(place))
    return if_(entry.is_set, some(found), None)


READ: dict[Expression, Expression] = {
    committed: _newest(_end.is_set & (_end.value.kind == leader.Kind.COMMIT)),
    pending: each(n, _newest((_e.producer_id == n) & ~_end.is_set)),
}
"""The group's offsets as the log has them.

GroupMetadataManager.doLoadGroupsAndOffsets, OffsetMetadataManager.replay
"""

_is_here = partition.this == OFFSETS
_row = leader_changes.rows[0]


def _where(sending: Sending, when: Expression) -> Sending:
    return dataclasses.replace(sending, when=sending.when & when)


fails_over = joined(
    dataclasses.replace(
        leader_changes,
        others=(*leader_changes.others, group, processing),
        rows=(
            dataclasses.replace(
                _row,
                send=(
                    *(_where(sending, ~_is_here) for sending in _row.send),
                    to_each(
                        c,
                        _is_here & waiting[c].is_set,
                        txn_offset_commit_response(
                            c, verifying[c].value.connection, Errors.NOT_COORDINATOR
                        ),
                    ),
                ),
                source=f"{_row.source}, GroupMetadataManager.scheduleLoadGroupAndOffsets",
            ),
        ),
    ),
    when=~change_leader.from_snapshot,
    updates={
        _row.id: {
            **{of: if_(_is_here, said, of) for of, said in READ.items()},
            verifying: each(c, if_(_is_here, None, verifying[c])),
            completions: if_(_is_here, sequence_of(), completions),
        }
    },
)
"""The output's leader changes as well."""

as_the_log_has_them = invariant(
    "OffsetsFromLog",
    (size(completions) == 0).implies((pending == READ[pending]) & (committed == READ[committed])),
    "The offsets that the group's coordinator knows are those of its log.",
    "OffsetMetadataManager.replay, GroupMetadataManager.doLoadGroupsAndOffsets",
)
