"""A consumer's poll loop: fetch a record, process it, commit the offset, in either order.

With each fetch a position is validated against its leader's log (KIP-320): one whose end has been
cut off goes back to where the logs diverge, as with any `auto.offset.reset` but `none`.
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
from ...language.expressions import Operand
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
finish = event("finish", event_doc="The last step for a record is done.")
crash = event("consumer crash")

filters = is_transactional & (READ_COMMITTED == 1)


def validated(leader: Expression) -> Expression:
    """The offset that the consumer goes on from at a leader.

    SubscriptionState.maybeCompleteValidation
    """
    end = end_offset(log.at(leader), position.leader_epoch)
    return minimum(position.offset, end)


def is_given(leader: Expression, offset: Expression) -> Expression:
    """Whether a leader gives a consumer what stands at an offset: below the high watermark and,
    for read_committed, before every transaction whose marker isn't there.

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


_leader = poll.leader
_offset = validated(_leader)
_entry = log.at(_leader)[_offset].value
_end = ending_behind(log.at(_leader), _offset, _entry.producer_id)
_next = Position(offset=_offset + 1, leader_epoch=_entry.leader_epoch)
_on: dict[Expression, Operand] = {position: _next, seen_epoch: leader_epoch.at(_leader)}
_done = append(processed, _entry.record)
polls = Table(
    reader,
    on=poll,
    others=(replica,),
    when=(stage == Stage.POLLING)
    & (state.at(_leader) == State.LEADER)
    & (leader_epoch.at(_leader) >= maximum(seen_epoch, position.leader_epoch))
    & is_given(_leader, _offset)
    & (size(processed) < ROOM.high),
    rows=(
        Row(
            "a marker",
            when=is_transactional & (_entry.kind != Kind.DATA),
            set=_on,
            source="CompletedFetch.nextFetchedRecord",
            note="The application gets no control batches.",
        ),
        Row(
            "of an aborted transaction",
            when=filters & _end.is_set & (_end.value.kind == Kind.ABORT),
            set=_on,
            source="CompletedFetch.isBatchAborted",
        ),
        Row(
            "commit the offset first",
            when=OFFSETS == BEFORE,
            goto=Stage.COMMITTED,
            set={**_on, committed: _next, polled: some(_entry.record)},
            source="KafkaConsumer.commitSync",
        ),
        Row(
            "process, and commit the offset with it",
            when=OFFSETS == TOGETHER,
            set={**_on, committed: _next, processed: _done},
            source="KafkaProducer.sendOffsetsToTransaction, KafkaConsumer.seek",
            note="In a transaction of the output's, or in the store that has the results.",
        ),
        Row(
            "process first",
            goto=Stage.PROCESSED,
            set={**_on, processed: _done},
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
            when=(OFFSETS == BEFORE) & (stage == Stage.COMMITTED),
            goto=Stage.POLLING,
            set={processed: append(processed, polled.value)},
            source="KafkaConsumer.poll",
        ),
        Row(
            "commit the offset",
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
            "begin where the group has committed",
            goto=Stage.POLLING,
            set={position: committed, seen_epoch: 0},
            source="ConsumerCoordinator.refreshCommittedOffsetsIfNeeded",
        ),
    ),
)

TABLES = (polls, finishes, crashes)
