"""What a partition leader forgets: idle producers, deleted records, and what dies with a leader.

Acknowledged records are on every replica in sync, so that a new leader has them all. What it
doesn't have is what was never in the log: questions to the coordinator and the batches behind them.
A client whose question to the coordinator is still in flight then waits until its answer, which
reaches nobody, has come or is lost: the coordinator gets a client's questions in their order.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Row,
    Table,
    each,
    element,
    event,
    if_,
    keep,
    last,
    position,
    replace,
    size,
    those,
    to_each,
)
from ..answers import answer_batch
from ..messages import (
    DELETIONS,
    LEADER_CHANGES,
    NO_EPOCH,
    PRODUCER_EXPIRIES,
    PRODUCER_ID,
    Errors,
    clock,
    partition,
    producer,
    waiting,
)
from ..releases.features import state_outlives_records
from .state import (
    OFFSET,
    UNKNOWN,
    c,
    is_idle,
    log_end_offset,
    log_start_offset,
    n,
    orphaned,
    producers,
    unguarded,
    verification_states,
)

expire_producer = event(
    "producer expires", producer_id=PRODUCER_ID,
    event_doc="producer.id.expiration.ms is over since its last batch or marker.",
)  # fmt: skip
expire_question = event(
    "question expires", producer_id=PRODUCER_ID,
    event_doc="producer.id.expiration.ms is over since the coordinator was asked first.",
)  # fmt: skip
delete_records = event(
    "records are deleted", offset=OFFSET,
    event_doc="By retention or DeleteRecords, whatever has been replicated.",
)  # fmt: skip
change_leader = event(
    "leader changes", from_snapshot=Bool(),
    event_doc="To a replica in sync that has followed, or to one that has started anew and read a "
    "snapshot; the leader itself may be that.",
)  # fmt: skip

_entry = producers[n]
_MANAGER = "ProducerStateManager"

_idle = producers[expire_producer.producer_id]
producer_expires = Table(
    partition,
    on=expire_producer,
    others=(clock,),
    when=(PRODUCER_EXPIRIES > 0)
    & (_idle.producer_epoch != NO_EPOCH)
    & ~_idle.current_txn_first_offset.is_set
    & is_idle(_idle.last_timestamp),
    rows=(Row("forget it", set={_idle: UNKNOWN}, source=f"{_MANAGER}.removeExpiredProducers"),),
)

_asked = verification_states[expire_question.producer_id]
question_expires = Table(
    partition,
    on=expire_question,
    others=(clock,),
    when=(PRODUCER_EXPIRIES > 0) & _asked.is_set & is_idle(_asked.value.timestamp),
    rows=(
        Row(
            "forget it",
            set={_asked: None, waiting: unguarded(expire_question.producer_id)},
            source=f"{_MANAGER}.removeExpiredProducers",
        ),
    ),
)


def _remains(entry: Expression, start: Expression) -> Expression:
    """Whether a producer's newest batch is there in a log that starts at this offset.

    ProducerStateManager.isProducerRetained, before 2.4
    """
    newest = last(entry.batch_metadata)
    return newest.is_set & (newest.value.last_offset >= start)


_start = delete_records.offset
records_deleted = Table(
    partition,
    on=delete_records,
    when=(DELETIONS > 0) & (_start > log_start_offset) & (_start <= log_end_offset),
    rows=(
        Row(
            "producers go with their records",
            during=~state_outlives_records,
            set={
                log_start_offset: _start,
                producers: each(n, if_(_remains(_entry, _start), _entry, UNKNOWN)),
            },
            source=f"{_MANAGER}.truncateHead before 2.4",
        ),
        Row(
            "producers stay",
            set={log_start_offset: _start},
            source="KAFKA-7190",
        ),
    ),
)


def _reloaded(batches: Expression) -> Expression:
    """A snapshot has the newest batch of each producer."""
    batch = element("batch", batches)
    return keep(batch, position(batch) == size(batches) - 1)


_is_retained = state_outlives_records | _remains(_entry, log_start_offset)
retained = each(n, if_(_is_retained, _entry, UNKNOWN))
"""The producers of a snapshot that a leader keeps which reads it (isProducerRetained before 2.4)"""

leader_changes = Table(
    partition,
    on=change_leader,
    others=(producer,),
    when=LEADER_CHANGES > 0,
    rows=(
        Row(
            "questions die with it",
            set={
                producers: each(
                    n,
                    if_(
                        change_leader.from_snapshot,
                        if_(
                            _is_retained,
                            replace(_entry, batch_metadata=_reloaded(_entry.batch_metadata)),
                            UNKNOWN,
                        ),
                        _entry,
                    ),
                ),
                verification_states: each(n, None),
                waiting: each(c, None),
                orphaned: orphaned | those(c, waiting[c].is_set),
            },
            send=(
                to_each(
                    c,
                    waiting[c].is_set,
                    answer_batch(
                        c,
                        partition.this,
                        waiting[c].value.record,
                        waiting[c].value.txn,
                        Errors.NOT_LEADER_OR_FOLLOWER,
                    ),
                ),
            ),
            source=f"{_MANAGER}.loadFromSnapshot, UnifiedLog.rebuildProducerState",
        ),
    ),
)

FAULTY_EVENTS = (expire_producer, expire_question, delete_records, change_leader)
TABLES = (producer_expires, question_expires, records_deleted, leader_changes)
