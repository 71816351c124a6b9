"""Properties of delivery from end to end: of the records that a consumer has processed."""

from __future__ import annotations

from ....language import (
    Expression,
    all_of,
    all_true,
    any_of,
    element,
    failure,
    if_,
    invariant,
    position,
    size,
    some,
    variable,
)
from ...delivery import state as delivery
from ...delivery.consumer import filters, is_given, validated
from ...delivery.state import Stage, Transaction
from ...leader.isolation import ending_behind
from ...leader.state import Kind
from ...replication import state as replicas
from ...replication.state import RECORD, RECORDS, REPLICA, SESSION, State

_r, _i = variable("r", RECORD), REPLICA.variable("i")
_one, _other = element("one", delivery.processed), element("other", delivery.processed)
is_before = position(_one) < position(_other)


def _is_processed(record: Expression) -> Expression:
    return any_of(_one, _one == record)


is_transactional = delivery.is_transactional
has_sent = (
    (replicas.produced == RECORDS)
    & (size(delivery.requests) == 0)
    & (size(delivery.queue) == 0)
    & (~is_transactional | (delivery.transaction == Transaction.COMMITTED))
)
"""Whether the producer has nothing left to do."""
has_read = (delivery.stage == Stage.POLLING) & any_of(
    _i,
    replicas.leads(_i, replicas.newest_epoch)
    & (replicas.high_watermark.at(_i) == size(replicas.log.at(_i)))
    & ~is_given(_i, validated(_i)),
)
settled = has_sent & has_read
"""Whether the producer has nothing left to do, and the consumer has read all that it is given by
the newest leader, whose log is committed as a whole."""
ends_well = delivery.transaction.is_in(Transaction.COMMITTING, Transaction.COMMITTED)
has_succeeded = _r.is_in(delivery.succeeded) & (~is_transactional | ends_well)

at_most_once = invariant(
    "AtMostOnce",
    all_of(_one, _other, is_before.implies(_one != _other)),
    "No record is processed twice.",
    "KIP-98; the documentation of Kafka, Message Delivery Semantics",
    failure=failure(
        "record {} was processed as number {} and as number {}",
        _one,
        position(_one) + 1,
        position(_other) + 1,
    ),
)
at_least_once = invariant(
    "AtLeastOnce",
    settled.implies(all_of(_r, _is_processed(_r))),
    "Once the producer has nothing left to do and the consumer has read all, every record that was "
    "sent is processed.",
    "The documentation of Kafka, Message Delivery Semantics",
    failure=failure("record {} was sent and is not processed, and nothing is left to do", _r),
)
no_silent_loss = invariant(
    "NoSilentLoss",
    settled.implies(all_of(_r, has_succeeded.implies(_is_processed(_r)))),
    "No record is lost whose send was a success, in a transaction that was committed if there is "
    "one.",
    "acks, ProducerRecord; the documentation of Kafka, Message Delivery Semantics",
    failure=failure("the send of record {} succeeded, and it is not processed", _r),
)
in_order = invariant(
    "InOrder",
    all_of(_one, _other, is_before.implies(_one <= _other)),
    "No record is processed after one that was sent later.",
    "max.in.flight.requests.per.connection",
    failure=failure("record {} was processed before record {}", _one, _other),
)

# What a new leader has of producers and their transactions ----------------------------------------

_j, _n = REPLICA.variable("j"), variable("n", SESSION)
mine = element("mine", delivery.of_session(replicas.log.at(_i), replicas.session))
mark = element("mark", delivery.of_session(replicas.log.at(_i), _n))
newest_leader = replicas.leads(_i, replicas.newest_epoch)

duplicate_known = invariant(
    "DuplicateKnown",
    all_of(
        _r,
        (delivery.is_idempotent & _r.is_in(replicas.acknowledged)).implies(
            all_of(
                _i,
                newest_leader.implies(any_of(mine, (mine.kind == Kind.DATA) & (mine.record == _r))),
            )
        ),
    ),
    "If an idempotent producer sends an acknowledged record again, the leader of the newest "
    "epoch takes it for a duplicate.",
    "UnifiedLog.rebuildProducerState, ProducerStateEntry.findDuplicateBatch",
    failure=failure("{}, the newest leader, would append the acknowledged record {} again", _i, _r),
)

is_aborted = _n < replicas.session
is_committed = (_n == replicas.session) & (delivery.transaction == Transaction.COMMITTED)
marker_kept = invariant(
    "MarkerKept",
    all_of(
        _n,
        (is_transactional & (is_aborted | is_committed)).implies(
            all_of(
                _i,
                newest_leader.implies(
                    any_of(mark, mark.kind == if_(is_aborted, Kind.ABORT, Kind.COMMIT))
                ),
            )
        ),
    ),
    "The marker of a transaction that has ended is in the log of the leader of the newest epoch.",
    "TransactionMarkerChannelManager.maybeWriteTxnCompletion",
    failure=failure("{}, the newest leader, lacks the marker of the ended transaction", _i),
)

read = element("read", replicas.log.at(_i))
is_given_record = is_given(_i, position(read)) & (read.kind == Kind.DATA)


def _ending(replica: Expression) -> Expression:
    """How the transaction of the entry ended, by a replica's log."""
    return ending_behind(replicas.log.at(replica), position(read), read.producer_id).value.kind


aborted_alike = invariant(
    "AbortedAlike",
    all_of(
        _i,
        _j,
        read,
        all_true(
            filters,
            replicas.state.at(_i) == State.LEADER,
            replicas.leads(_j, replicas.newest_epoch),
            is_given_record,
        ).implies(
            (replicas.log.at(_j)[position(read)] == some(read)) & (_ending(_i) == _ending(_j))
        ),
    ),
    "Below its last stable offset, a leader gives a read_committed consumer the records that the "
    "leader of the newest epoch has at the same offsets, and both call the same ones aborted.",
    "UnifiedLog.collectAbortedTransactions, TransactionIndex",
    failure=failure(
        "{} gives a reader record {} at offset {}, and {}, the newest leader, has something "
        "else there",
        _i,
        read.record,
        position(read),
        _j,
    ),
)

PROPERTIES = (
    at_most_once,
    at_least_once,
    no_silent_loss,
    in_order,
    duplicate_known,
    marker_kept,
    aborted_alike,
)
