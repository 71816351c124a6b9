"""What Kafka's releases do differently with groups and the offsets that transactions commit."""

from __future__ import annotations

from typing import Final

from ..language import Expression, feature
from .releases import CLIENT, LEADER, RELEASES

members_fenced = feature(
    "members_fenced",
    "2.5",
    parts=(CLIENT, LEADER),
    sentence="A group's coordinator refuses an offset that a transaction commits for a former "
    "generation, or for who is no member; before, it didn't ask.",
    source="KIP-447, GroupCoordinator.validateOffsetCommit",
)
stable_offsets = feature(
    "stable_offsets",
    "2.5",
    parts=(CLIENT, LEADER),
    sentence="Who reads a group's offset waits while a transaction has one pending "
    "(UNSTABLE_OFFSET_COMMIT); before, it got the offset before.",
    source="KIP-447, OffsetFetch with require_stable",
)
completed_by_scheduler = feature(
    "completed_by_scheduler",
    "1.0",
    parts=(LEADER,),
    sentence="A thread of its own puts the offsets of an ended transaction in place (from 1.0.2 "
    "and 1.1.1 on); before, the one that had written the marker.",
    source="KAFKA-6917, GroupMetadataManager.scheduleHandleTxnCompletion",
)
offsets_in_place_first = feature(
    "offsets_in_place_first",
    "3.9",
    parts=(LEADER,),
    sentence="A marker is answered once the offsets that it commits or drops are in place; before "
    "3.9.1 the thread for them might be late.",
    source="KAFKA-17507, KafkaApis.handleWriteTxnMarkersRequest",
)
offsets_staged_last = feature(
    "offsets_staged_last",
    RELEASES[0],
    parts=(LEADER,),
    sentence="An offset is pending once the coordinator has been asked about its transaction; a "
    "trunk before 3.7 had it pending while it asked.",
    source="KAFKA-15784, GroupCoordinator.handleTxnCommitOffsets",
)

OF_GROUPS: Final[tuple[Expression, ...]] = (
    members_fenced, stable_offsets, completed_by_scheduler, offsets_in_place_first,
    offsets_staged_last,
)  # fmt: skip
