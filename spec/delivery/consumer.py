"""A consumer's poll loop: fetch a record, process it, commit the offset, in either order.

Each fetch validates the position against the leader's log (KIP-320). If the log was truncated below
the position, the consumer goes back to the offset where the logs diverge, as with any
`auto.offset.reset` but `none`.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Row,
    Table,
    any_of,
    append,
    element,
    event,
    maximum,
    minimum,
    size,
    some,
)
from ..leader.isolation import ending_behind
from ..leader.state import Kind
from ..replication.state import (
    REPLICA,
    State,
    end_offset,
    high_watermark,
    leader_epoch,
    log,
    replica,
    state,
)
from .state import (
    BEFORE,
    OFFSETS,
    READ_COMMITTED,
    ROOM,
    TOGETHER,
    Position,
    Stage,
    committed,
    is_transactional,
    polled,
    position,
    processed,
    reader,
    seen_epoch,
    stage,
)

poll = event("poll", leader=REPLICA)
finish = event("finish", event_doc="The application takes the second step for a record.")
crash = event("consumer crash")

filters = is_transactional & (READ_COMMITTED == 1)


def validated(leader: Expression) -> Expression:
    """The offset at which the consumer continues at a leader.

    SubscriptionState.maybeCompleteValidation
    """
    end = end_offset(log.at(leader), position.leader_epoch)
    return minimum(position.offset, end)


def is_given(leader: Expression, offset: Expression) -> Expression:
    """Whether a leader returns the record at an offset: it is below the high watermark and, for
    read_committed, before every open transaction.

    FetchIsolation, UnifiedLog.lastStableOffset
    """
    below = log.at(leader)[: high_watermark.at(leader)]
    left = element("left", below[: offset + 1])
    is_open = (left.kind == Kind.DATA) & ~any_of(
        element("end", below),
        (element("end", below).kind != Kind.DATA)
        & (element("end", below).producer_id == left.producer_id),
    )
    return (offset < high_watermark.at(leader)) & (~filters | ~any_of(left, is_open))


offset = validated(poll.leader)
entry = log.at(poll.leader)[offset].value
ending = ending_behind(log.at(poll.leader), offset, entry.producer_id)
next_position = Position(offset=offset + 1, leader_epoch=entry.leader_epoch)
polls = Table(
    reader,
    on=poll,
    others=(replica,),
    when=(stage == Stage.POLLING)
    & (state.at(poll.leader) == State.LEADER)
    & (leader_epoch.at(poll.leader) >= maximum(seen_epoch, position.leader_epoch))
    & is_given(poll.leader, offset)
    & (size(processed) < ROOM.high),
    rows=(
        Row(
            "marker",
            "A marker is skipped: the application gets no control batches",
            when=is_transactional & (entry.kind != Kind.DATA),
            set={position: next_position, seen_epoch: leader_epoch.at(poll.leader)},
            source="CompletedFetch.nextFetchedRecord",
        ),
        Row(
            "aborted",
            "A record of an aborted transaction is skipped",
            when=filters & ending.is_set & (ending.value.kind == Kind.ABORT),
            set={position: next_position, seen_epoch: leader_epoch.at(poll.leader)},
            source="CompletedFetch.isBatchAborted",
        ),
        Row(
            "commit-first",
            "The application commits the offset before it processes the record",
            when=OFFSETS == BEFORE,
            goto=Stage.COMMITTED,
            set={
                position: next_position,
                seen_epoch: leader_epoch.at(poll.leader),
                committed: next_position,
                polled: some(entry.record),
            },
            source="KafkaConsumer.commitSync",
        ),
        Row(
            "process-and-commit",
            "The application processes the record and commits the offset in one transaction",
            when=OFFSETS == TOGETHER,
            set={
                position: next_position,
                seen_epoch: leader_epoch.at(poll.leader),
                committed: next_position,
                processed: append(processed, entry.record),
            },
            source="KafkaProducer.sendOffsetsToTransaction, KafkaConsumer.seek",
            note="The transaction is that of the output, or of the store with the results.",
        ),
        Row(
            "process-first",
            "The application processes the record before it commits the offset",
            goto=Stage.PROCESSED,
            set={
                position: next_position,
                seen_epoch: leader_epoch.at(poll.leader),
                processed: append(processed, entry.record),
            },
            source="KafkaConsumer.poll",
        ),
    ),
)

finishes = Table(
    reader,
    on=finish,
    when=(OFFSETS != TOGETHER)
    & (stage != Stage.POLLING)
    & ((stage == Stage.PROCESSED) | (size(processed) < ROOM.high)),
    rows=(
        Row(
            "process",
            "The record is processed",
            when=(OFFSETS == BEFORE) & (stage == Stage.COMMITTED),
            goto=Stage.POLLING,
            set={processed: append(processed, polled.value)},
            source="KafkaConsumer.poll",
        ),
        Row(
            "commit",
            "The offset is committed",
            goto=Stage.POLLING,
            set={committed: position},
            source="KafkaConsumer.commitSync",
        ),
    ),
)

crashes = Table(
    reader,
    on=crash,
    when=(stage != Stage.POLLING) | (position != committed),
    rows=(
        Row(
            "restart",
            "The consumer continues at the offset that the group has committed",
            goto=Stage.POLLING,
            set={position: committed, seen_epoch: 0},
            source="ConsumerCoordinator.refreshCommittedOffsetsIfNeeded",
        ),
    ),
)

TABLES = (polls, finishes, crashes)
