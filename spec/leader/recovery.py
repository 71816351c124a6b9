"""A partition leader forgets: idle producers, deleted records, and the state that no log has.

Acknowledged records are on every in-sync replica, so a new leader has them all. It doesn't have
the state that was never in the log: questions to the coordinator, and the batches that wait for
their answers. The answer to such a question reaches nobody. A client waits until it has arrived or
is lost, because the coordinator gets a client's questions in their order.
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
    "producer expires",
    producer_id=PRODUCER_ID,
    event_doc="producer.id.expiration.ms is over since its last batch or marker.",
)
expire_question = event(
    "question expires",
    producer_id=PRODUCER_ID,
    event_doc="producer.id.expiration.ms is over since the coordinator was asked first.",
)
delete_records = event(
    "records are deleted",
    offset=OFFSET,
    event_doc="By retention or DeleteRecords, whatever has been replicated.",
)
change_leader = event(
    "leader changes",
    from_snapshot=Bool(),
    event_doc="To an in-sync replica that has followed, or to one that has restarted and read a "
    "snapshot. The leader itself may be the latter.",
)

# A producer expires -------------------------------------------------------------------------------

expiring = producers[expire_producer.producer_id]
is_producer_expired = is_idle(expiring.last_timestamp)
"""ProducerStateManager.isProducerExpired"""
producer_expires = Table(
    partition,
    on=expire_producer,
    others=(clock,),
    when=(PRODUCER_EXPIRIES > 0)
    & (expiring.producer_epoch != NO_EPOCH)
    & ~expiring.current_txn_first_offset.is_set
    & is_producer_expired,
    rows=(
        Row(
            "expire",
            "The producer is forgotten",
            set={expiring: UNKNOWN},
            source="ProducerStateManager.removeExpiredProducers",
        ),
    ),
)

verification_state = verification_states[expire_question.producer_id]
is_question_expired = is_idle(verification_state.value.timestamp)
"""ProducerStateManager.removeExpiredProducers"""
question_expires = Table(
    partition,
    on=expire_question,
    others=(clock,),
    when=(PRODUCER_EXPIRIES > 0) & verification_state.is_set & is_question_expired,
    rows=(
        Row(
            "expire",
            "The question is forgotten: its guard no longer counts",
            set={verification_state: None, waiting: unguarded(expire_question.producer_id)},
            source="ProducerStateManager.removeExpiredProducers",
        ),
    ),
)

# Records are deleted ------------------------------------------------------------------------------

entry = producers[n]


def is_retained(entry: Expression, log_start: Expression) -> Expression:
    """Whether the newest batch of a producer is in a log that starts at this offset.

    ProducerStateManager.isProducerRetained, before 2.4
    """
    newest = last(entry.batch_metadata)
    return newest.is_set & (newest.value.last_offset >= log_start)


records_deleted = Table(
    partition,
    on=delete_records,
    when=(DELETIONS > 0)
    & (delete_records.offset > log_start_offset)
    & (delete_records.offset <= log_end_offset),
    rows=(
        Row(
            "forget-producers",
            "The log starts later, and producers without records there are forgotten",
            set={
                log_start_offset: delete_records.offset,
                producers: each(n, if_(is_retained(entry, delete_records.offset), entry, UNKNOWN)),
            },
            during=~state_outlives_records,
            source="ProducerStateManager.truncateHead before 2.4",
        ),
        Row(
            "keep-producers",
            "The log starts later",
            set={log_start_offset: delete_records.offset},
            source="KAFKA-7190, UnifiedLog.maybeIncrementLogStartOffset",
        ),
    ),
)

# The leader changes -------------------------------------------------------------------------------

is_in_snapshot = state_outlives_records | is_retained(entry, log_start_offset)
retained = each(n, if_(is_in_snapshot, entry, UNKNOWN))
"""The producers that a leader keeps which reads a snapshot (isProducerRetained before 2.4)."""
batch = element("batch", entry.batch_metadata)
newest_batch_alone = keep(batch, position(batch) == size(entry.batch_metadata) - 1)
"""A snapshot has the newest batch of each producer."""

leader_changes = Table(
    partition,
    on=change_leader,
    others=(producer,),
    when=LEADER_CHANGES > 0,
    rows=(
        Row(
            "lose-verification-state",
            "The new leader has the log, but no question to the coordinator and no waiting batch",
            set={
                producers: each(
                    n,
                    if_(
                        change_leader.from_snapshot,
                        if_(
                            is_in_snapshot,
                            replace(entry, batch_metadata=newest_batch_alone),
                            UNKNOWN,
                        ),
                        entry,
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
            source="ProducerStateManager.loadFromSnapshot, UnifiedLog.rebuildProducerState",
        ),
    ),
)

FAULTY_EVENTS = (expire_producer, expire_question, delete_records, change_leader)
TABLES = (producer_expires, question_expires, records_deleted, leader_changes)
