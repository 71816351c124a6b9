"""What comes of a client's batches: a leader's answer, or none.

In a bounded run, what a client with a transactional id has queued again is drained at once, unless
a batch with a lower sequence goes first. It would be drained a moment later in any case, whatever
the client does meanwhile (even while it aborts); until then nobody sees the difference, as a
request may be in flight for as long as one likes.
"""

from __future__ import annotations

import dataclasses

from ...language import (
    Expression,
    Loss,
    Row,
    Sending,
    Table,
    any_of,
    constant,
    count_of,
    each,
    if_,
    lift,
    lost,
    maximum,
    minimum,
    replace,
    set_of,
    sum_of,
    updated,
    wrap,
)
from ...language.expressions import TRUE, Operand
from ..answers import awaits, compares_offsets
from ..errors import is_retriable
from ..messages import (
    LARGEST_SEQUENCE,
    LOSSES,
    NO_EPOCH,
    NO_OFFSET,
    REAL,
    RECORD,
    SEQUENCE,
    Errors,
    ProduceResponse,
    clock,
    now,
    producer,
)
from ..releases.features import (
    backoff_grows,
    client_epoch_bump,
    epoch_by_partition,
    expires_in_flight,
    late_errors_ignored,
    old_acks_ignored,
    renumbered_in_order,
    sequence_used_when_sent,
    transactional,
)
from . import state as client
from .accumulator import LINGER, drained, muted, produce
from .state import s
from .transaction_manager import (
    RETRY_BACKOFF,
    TO_ABORTABLE,
    ClientStep,
    Reaction,
    batch_failed,
    fatal,
    fatal_error,
    is_fatal,
    react,
)

DELIVERY_TIMEOUT = constant(
    "delivery_timeout_ms", 1, 1, 1, real=120_000, meaning="delivery.timeout.ms"
)
REQUEST_TIMEOUT = constant("request_timeout_ms", 0, 0, 0, real=30_000, meaning="request.timeout.ms")
RETRIES = constant("retries", 1, 1, 1, real=2**31 - 1, meaning="retries")
LARGEST_BACKOFF = constant(
    "retry_backoff_max_ms", 0, 0, 0, real=1000, meaning="retry.backoff.max.ms"
)
SETTINGS = {LINGER: 0, DELIVERY_TIMEOUT: 1, REQUEST_TIMEOUT: 0, RETRIES: 1, RETRY_BACKOFF: 0}
"""The settings of a bounded run, which has no time."""

_SENDER, _MANAGER = "Sender", "TransactionManager"
_CAN_RETRY = f"{_MANAGER}.canRetry"
_FAILED_BATCH = f"{_MANAGER}.handleFailedBatch"
_TO_ERROR = f"{_MANAGER}.maybeTransitionToErrorState"

# An idempotent client that has lost the order of its sequences
bumps_epoch, resets_id = ~transactional & client_epoch_bump, ~transactional & ~client_epoch_bump


# What becomes of a batch ------------------------------------------------------------------------


def reported(where: Expression, which: Expression, status: Expression) -> dict[Expression, Operand]:
    """The application gets the outcome. A bounded run forgets what the batch was sent with."""
    batch = client.batches[where][which]
    done = if_(REAL == 0, client.Batch(status=status), replace(batch, status=status))
    return {batch: done, **_unmuted(where)}


def _unmuted(where: Expression) -> dict[Expression, Operand]:
    return {muted: muted - set_of(where)}


def _goes_at_once(where: Expression, which: Expression) -> Expression:
    return transactional & (REAL == 0) & (client.lower(where, which) == 0)


def _queued(where: Expression, which: Expression, **changed: Operand) -> dict[Expression, Operand]:
    batch, its = client.batches[where][which], client.details[where][which]
    at_once = _goes_at_once(where, which)
    again = replace(
        batch, status=if_(at_once, client.SENT, client.QUEUED), in_retry=True,
        sequence_reset=batch.sequence_reset & ~at_once, **changed,
    )  # fmt: skip
    return {batch: again, **_waiting(its), **_unmuted(where)}


def _waiting(its: Expression) -> dict[Expression, Operand]:
    """The next attempt comes after a while."""
    first = (its.attempts == 0) | ~backoff_grows
    waits = if_(first, RETRY_BACKOFF, its.backoff_ms + its.backoff_ms)
    return {
        its: replace(
            its,
            attempts=its.attempts + 1,
            last_attempt_ms=now,
            backoff_ms=minimum(waits, LARGEST_BACKOFF),
        )
    }


def _retry(where: Expression, which: Expression) -> Sending:
    return produce(where, which, client.batches[where][which], _goes_at_once(where, which))


def wants_bump(where: Expression) -> dict[Expression, Operand]:
    return {client.bump_for: client.bump_for | set_of(where)}


def _moved_up(where: Expression, which: Expression) -> dict[Expression, Operand]:
    """A batch fails, and those behind it take the sequences that it leaves free."""
    failed, count = client.batches[where][which], client.details[where][which].count
    other = client.batches[where][s]
    behind = client.tracked(where, s) & (other.base_sequence >= failed.base_sequence)
    (gone,) = (
        value for key, value in reported(where, which, client.FAILED).items() if key is failed
    )
    moved = replace(other, base_sequence=other.base_sequence - count, sequence_reset=True)
    return {
        client.batches[where]: each(s, if_(s == which, gone, if_(behind, moved, other))),
        client.next_sequence[where]: client.next_sequence[where] - count,
        **_unmuted(where),
    }


def _can_move_up(where: Expression, which: Expression) -> Expression:
    """Whether the sequences behind a batch, and the next one, are as many as it has records."""
    failed, count = client.batches[where][which], client.details[where][which].count
    other = client.batches[where][s]
    too_low = (other.base_sequence >= failed.base_sequence) & (other.base_sequence < count)
    return (client.next_sequence[where] >= count) & ~any_of(
        s, (s != which) & client.tracked(where, s) & too_low
    )


def in_heap(where: Expression, which: Expression) -> Expression:
    """The place of a batch in the heap of those in flight, as a bounded run has it: of three whose
    first one has been acknowledged the last stands before the one in between, as it took the first
    one's place. With fewer the order is the batches' own.

    TransactionManager.startSequencesAtBeginning before 2.3
    """
    place, other = client.lower(where, which), RECORD.variable("other")
    three = (REAL == 0) & (count_of(other, client.tracked(where, other)) == 3)
    return if_(three & (place > 0), 3 - place, place)


def _renumbered(where: Expression, which: Expression) -> dict[Expression, Operand]:
    """A batch is queued again, and those in flight start at sequence 0."""
    batch, other = client.batches[where][which], client.batches[where][s]
    (again,) = (value for key, value in _queued(where, which).items() if key is batch)
    assert isinstance(again, Expression)
    renumbered = replace(
        if_(s == which, replace(again, status=client.QUEUED), other),
        base_sequence=if_(renumbered_in_order, client.lower(where, s), in_heap(where, s)),
        sequence_reset=True,
    )
    counted = sum_of(s, if_(client.tracked(where, s), client.details[where][s].count, 0))
    return {
        client.batches[where]: each(s, if_(client.tracked(where, s), renumbered, other)),
        client.next_sequence[where]: wrap(counted, SEQUENCE),
        client.last_acked[where]: client.NO_SEQUENCE,
        **_waiting(client.details[where][which]),
        **_unmuted(where),
    }


def _untracked(where: Expression) -> dict[Expression, Operand]:
    """A partition's sequences are forgotten.

    TransactionManager.resetSequenceForPartition
    """
    its = client.details[where][s]
    return {
        client.next_sequence[where]: 0,
        client.last_acked[where]: client.NO_SEQUENCE,
        client.last_acked_offset[where]: NO_OFFSET,
        client.entry_id[where]: client.NO_ID,
        client.entry_epoch[where]: NO_EPOCH,
        client.unresolved[where]: None,
        client.details[where]: each(
            s, if_(client.tracked(where, s), replace(its, is_untracked=True), its)
        ),
    }


# All that the client knew of its sequences goes with its producer id.
NEW_ID: dict[Expression, Operand] = {
    client.state: client.UNINITIALIZED, client.producer_epoch: NO_EPOCH, **client.NEW_SEQUENCES,
}  # fmt: skip


def under_old_id(
    where: Expression, which: Expression, when: Operand = True, send: tuple[Sending, ...] = ()
) -> Row:
    """Before 2.5 a batch isn't sent again under another producer id than it was sent with."""
    return Row(
        "under an old producer id, and given up",
        when=lift(when) & ~client.is_of_this_id(client.batches[where][which]),
        during=resets_id,
        set=reported(where, which, client.FAILED),
        reply=react(ClientStep.FAIL),
        send=send,
        source=f"{_SENDER}.completeBatch before 2.5",
    )


def failed_for_good(row: Row, where: Expression, which: Expression) -> Row:
    """The row of a fatal error with the batch that it came of."""
    others = row.set[client.batches]
    assert isinstance(others, Expression)
    its = replace(client.batches[where][which], status=client.FAILED)
    every = if_(
        REAL == 0,
        others,
        updated(client.batches, where, updated(client.batches[where], which, its)),
    )
    return dataclasses.replace(row, set={**row.set, client.batches: every, **_unmuted(where)})


# A leader's answer ------------------------------------------------------------------------------

_answer = ProduceResponse
_where, _which = _answer.partition, _answer.record
_batch, _its = client.batches[_where][_which], client.details[_where][_which]
_error, _sequence = _answer.error, _batch.base_sequence
_other = client.batches[_where][s]
_mark = client.unresolved[_where]
_ok = _error.is_in(Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER)
_out_of_order = _error == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
_unknown = _error == Errors.UNKNOWN_PRODUCER_ID
_is_done = _batch.status.is_in(client.ACKNOWLEDGED, client.FAILED)
_attempts_left = _its.attempts < RETRIES
_may_retry = (
    ~_is_done & _attempts_left & (~expires_in_flight | (now - _its.created_ms < DELIVERY_TIMEOUT))
)
_is_old = (_batch.producer_id != client.producer_id) | (
    _batch.producer_epoch != client.producer_epoch
)
_is_last = ~any_of(s, (s != _which) & client.tracked(_where, s))
_last_sequence = _sequence + _its.count - 1
_last_offset = _answer.base_offset + _its.count - 1
_log_is_unknown = (REAL == 1) & (_answer.log_start_offset < 0)
_head_is_gone = if_(
    (REAL == 0) & ~compares_offsets,
    ~transactional | (client.last_acked[_where] == client.NO_SEQUENCE),
    client.last_acked_offset[_where] < _answer.log_start_offset,
)


def _retried(
    name: str,
    when: Expression,
    source: str,
    more: dict[Expression, Operand] | None = None,
    during: Operand = True,
) -> Row:
    return Row(
        name,
        when=_may_retry & when,
        during=lift(during),
        set=_queued(_where, _which) | (more or {}),
        reply=react(ClientStep.RETRY),
        # a new epoch comes first
        send=() if more else (_retry(_where, _which),),
        source=source,
    )


def _failed(
    name: str, source: str, *, during: Operand, changes: dict[Expression, Operand],
    when: Expression = TRUE, aborts: bool = False,
) -> Row:  # fmt: skip
    """A batch has failed. One that `aborts` fails its transaction."""
    return Row(
        name,
        when=when,
        during=lift(during),
        goto=TO_ABORTABLE if aborts else None,
        set={**changes, **(batch_failed(_error) if aborts else {})},
        reply=react(ClientStep.FAIL, _error),
        source=source,
    )


_REPORTED_FAILED = reported(_where, _which, client.FAILED)
_adjusts = (_attempts_left | ~sequence_used_when_sent) & _can_move_up(_where, _which)
completed = Table(
    producer,
    on=ProduceResponse,
    response=Reaction,
    others=(clock,),
    rows=(
        Row(
            "nobody waits for it",
            when=if_(
                REAL == 0,
                ~awaits(_answer.producer, _where, _which, _answer.txn),
                late_errors_ignored & _is_done & ~_ok,
            ),
            set=_unmuted(_where),
            reply=react(ClientStep.GO_ON),
            source=f"{_SENDER}.completeBatch, KAFKA-14831",
        ),
        Row(
            "acknowledged, the last under an old epoch",
            when=_ok & _is_old & _is_last,
            during=bumps_epoch & ~epoch_by_partition,
            set=reported(_where, _which, client.ACKNOWLEDGED)
            | {
                client.next_sequence[_where]: 0,
                client.last_acked[_where]: client.NO_SEQUENCE,
                client.entry_id[_where]: client.producer_id,
                client.entry_epoch[_where]: client.producer_epoch,
            },
            reply=react(ClientStep.DONE),
            source=f"{_MANAGER}.handleCompletedBatch before 2.7.1",
        ),
        Row(
            "acknowledged",
            when=_ok,
            set=reported(_where, _which, client.ACKNOWLEDGED)
            | {
                # plain comparison: past the largest sequence it stays behind
                client.last_acked[_where]: if_(
                    client.is_of_this_id(_batch) & (_last_sequence <= LARGEST_SEQUENCE),
                    maximum(client.last_acked[_where], _last_sequence),
                    client.last_acked[_where],
                ),
                client.last_acked_offset[_where]: if_(
                    (_answer.base_offset < 0) | (old_acks_ignored & ~client.is_of_this_id(_batch)),
                    client.last_acked_offset[_where],
                    maximum(client.last_acked_offset[_where], _last_offset),
                ),
            },
            reply=react(ClientStep.DONE),
            source=f"{_MANAGER}.handleCompletedBatch",
        ),
        Row(
            "too large: in parts",
            when=(_error == Errors.MESSAGE_TOO_LARGE) & (_its.count > 1) & ~_is_done,
            set=_REPORTED_FAILED,
            reply=react(ClientStep.SPLIT),
            source=f"{_SENDER}.completeBatch",
        ),
        failed_for_good(
            fatal(
                "fenced",
                is_fatal(_error),
                fatal_error(_error),
                f"{_TO_ERROR}, KIP-588, KAFKA-18019",
            ),
            _where,
            _which,
        ),
        _failed(
            "refused under an old producer id, and those of the new one move up",
            f"{_MANAGER}.adjustSequencesDueToFailedBatch before 2.5: the sequence is used twice",
            when=~is_retriable(_error) & ~client.is_of_this_id(_batch) & _adjusts,
            during=resets_id,
            changes=_moved_up(_where, _which),
        ),
        under_old_id(_where, _which),
        _retried("try again", is_retriable(_error), f"{_SENDER}.canRetry"),
        _retried(
            "out of order behind another",
            _out_of_order
            & client.is_behind_another(
                _mark, _batch.sequence_reset, _sequence, client.last_acked[_where]
            ),
            _CAN_RETRY,
        ),
        _retried(
            "out of order as the next: a new epoch",
            _out_of_order & client.loses_order(_mark, _sequence),
            _CAN_RETRY,
            wants_bump(_where),
            during=bumps_epoch,
        ),
        _retried(
            "out of order behind what is unresolved",
            _out_of_order,
            _CAN_RETRY,
            during=bumps_epoch,
        ),
        _retried(
            "unknown at the leader, after new sequences",
            _unknown & (_batch.sequence_reset | _log_is_unknown),
            _CAN_RETRY,
        ),
        _retried(
            "unknown at the leader: a new epoch",
            _unknown,
            _CAN_RETRY,
            wants_bump(_where),
            during=bumps_epoch,
        ),
        Row(
            "unknown at the leader: new sequences",
            when=_may_retry & _unknown & _head_is_gone,
            during=transactional | ~client_epoch_bump,
            set=_renumbered(_where, _which),
            reply=react(ClientStep.RETRY),
            source="KAFKA-5793, TransactionManager.startSequencesAtBeginning",
            note="The last batch acknowledged is no longer in the log, by which the leader knew "
            "the producer id, or there is none.",
        ),
        Row(
            "out of order as the next: a new producer id",
            # UnknownProducerIdException is an OutOfOrderSequenceException
            when=_out_of_order | _unknown,
            during=resets_id,
            set=_REPORTED_FAILED | NEW_ID,
            reply=react(ClientStep.FAIL, _error),
            source=f"{_MANAGER}.resetProducerId",
        ),
        _failed(
            "abortable, and the partition starts at sequence 0",
            f"{_MANAGER}.resetSequenceForPartition",
            when=_unknown,
            during=transactional & client_epoch_bump,
            changes=_REPORTED_FAILED | _untracked(_where),
            aborts=True,
        ),
        _failed(
            "abortable, and those behind it move up",
            f"{_MANAGER}.adjustSequencesDueToFailedBatch",
            when=_adjusts,
            during=transactional,
            changes=_moved_up(_where, _which),
            aborts=True,
        ),
        _failed(
            "abortable, and whether it was appended isn't known",
            _FAILED_BATCH,
            during=transactional,
            changes=_REPORTED_FAILED,
            aborts=True,
        ),
        _failed(
            "refused under an old epoch",
            f"{_FAILED_BATCH} before 2.7.1",
            when=_is_old,
            during=bumps_epoch & ~epoch_by_partition,
            changes=_REPORTED_FAILED,
        ),
        _failed(
            "refused: a new epoch",
            _FAILED_BATCH,
            when=_out_of_order | _unknown | _attempts_left,
            during=bumps_epoch,
            changes=_REPORTED_FAILED | wants_bump(_where),
        ),
        _failed(
            "refused, and those behind it move up",
            f"{_MANAGER}.adjustSequencesDueToFailedBatch before 2.5",
            when=_adjusts,
            during=resets_id,
            changes=_moved_up(_where, _which),
        ),
        _failed(
            "refused, and whether it was appended isn't known",
            _FAILED_BATCH,
            during=~transactional,
            changes=_REPORTED_FAILED,
        ),
    ),
)

# What goes wrong -------------------------------------------------------------------------------


def given_up(event: Loss, kind: Expression, *before: Row, send: tuple[Sending, ...] = ()) -> Table:
    """A request is given up, or its answer is lost: the batch is queued again, unless one of the
    rows `before` says otherwise. What nobody waits for may as well be in flight for good."""
    where, which = event.partition, event.record
    return Table(
        producer,
        on=event,
        response=Reaction,
        others=(clock,),
        when=(kind > 0) & awaits(event.producer, where, which, event.txn),
        rows=(
            *before,
            Row(
                "queue again",
                set=_queued(where, which, unanswered=True),
                send=(*send, _retry(where, which)),
                source="NetworkClient.handleDisconnections",
            ),
        ),
    )


_lost = lost(ProduceResponse)
FAULTY_EVENTS = (_lost,)
TABLES = (
    drained,
    completed,
    given_up(_lost, LOSSES, under_old_id(_lost.partition, _lost.record)),
)
REAL_TABLES = (drained, completed)
