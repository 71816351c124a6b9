"""A client's sending side: what goes to a partition, with which sequence, and what comes of it.

A record that waits in the accumulator has no part in anything before it is drained: it is sent and
drained in one step.

What a client with a transactional id has queued again is drained at once, unless a batch with a
lower sequence goes first. It would be drained a moment later in any case, whatever the client does
meanwhile (even while it aborts); until then nobody sees the difference, as a request may be under
way for as long as one likes.

In a transaction with one record for a partition, the mark of an unresolved sequence would show
nowhere: nothing is drained after the expiry, and resolving it finds the error that there is.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Loss,
    Row,
    Sending,
    Table,
    all_of,
    any_of,
    count_of,
    each,
    event,
    if_,
    lift,
    lost,
    maximum,
    position,
    replace,
    set_of,
    size,
    variable,
    wrap,
)
from ...language.expressions import Operand
from ..errors import is_retriable
from ..features import (
    bump_when_settled,
    client_epoch_bump,
    epoch_by_partition,
    expires_in_flight,
    transaction_version_2,
    transactional,
)
from ..messages import (
    EXPIRIES,
    IN_FLIGHT,
    LOSSES,
    NO_EPOCH,
    PARTITION,
    RECORD,
    RECORDS,
    SEQUENCE,
    Errors,
    Produce,
    ProduceResponse,
    producer,
)
from .state import (
    ABORTABLE,
    ACKNOWLEDGED,
    COMMITTING,
    FAILED,
    FAILED_FOR_GOOD,
    FATAL_ERROR,
    IN_TRANSACTION,
    NEW_SEQUENCES,
    NO_SEQUENCE,
    QUEUED,
    READY,
    SENT,
    TO_ABORTABLE_ERROR,
    UNINITIALIZED,
    UNSENT,
    Batch,
    added,
    adding,
    all_appended,
    batches,
    bump_for,
    ending,
    entry_epoch,
    entry_id,
    fences,
    is_behind_another,
    is_open,
    last_acked,
    loses_order,
    marked,
    must_bump,
    next_sequence,
    producer_epoch,
    producer_id,
    s,
    state,
    tracked,
    txn,
    unresolved,
)

drain = event("drain", partition=PARTITION, record=RECORD)
drain_again = event("drain again", partition=PARTITION, record=RECORD)
expire_batch = event(
    "batch expires", partition=PARTITION, record=RECORD,
    event_doc="Its time is over, of older batches first; a request may still arrive.",
)  # fmt: skip
resolve = event("resolve sequences", partition=PARTITION)

lower = variable("lower", RECORD)
me = producer.this

_SENDER, _MANAGER = "Sender", "TransactionManager"
_ACCUMULATOR = "RecordAccumulator"


def rank(where: Expression, batch: Expression) -> Expression:
    """How many batches in flight have a lower sequence."""
    other = batches[where][lower]
    return count_of(lower, tracked(other) & (other.base_sequence < batch.base_sequence))


def awaits(client: Expression, where: Expression, which: Expression, of: Expression) -> Expression:
    """Whether a client waits for the answer to a record's batch in transaction `of`."""
    sent = batches.at(client)[where][which].status == SENT
    return sent & (~transactional | (txn.at(client) == of))


def answer_batch(
    client: Expression,
    where: Expression,
    which: Expression,
    of: Expression,
    error: Expression,
) -> Sending:
    """A leader's answer to a batch, if its client still waits for one."""
    return Sending(
        ProduceResponse,
        ProduceResponse(producer=client, partition=where, record=which, txn=of, error=error).fields,
        when=awaits(client, where, which, of),
    )


# Draining --------------------------------------------------------------------------------------


def _produce(
    where: Expression, which: Expression, batch: Expression, when: Operand = True
) -> Sending:
    # a transactional client has no batch left when it takes a new id or epoch
    fields = Produce(
        producer=me,
        partition=where,
        producer_id=if_(transactional, producer_id, batch.producer_id),
        producer_epoch=if_(transactional, producer_epoch, batch.producer_epoch),
        base_sequence=batch.base_sequence,
        idempotent_only=~transactional,
        record=which,
        txn=if_(transactional, txn.value, 0),
    ).fields
    return Sending(Produce, fields, when=lift(when))


def _numbered(sequence: Operand) -> Expression:
    """A batch with its place: the client's id and epoch, and the sequence."""
    return Batch(
        status=SENT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )


_where, _which = drain.partition, drain.record
_stale = (
    client_epoch_bump
    & ~transactional
    & ((entry_id[_where] != producer_id) | (entry_epoch[_where] != producer_epoch))
)
_none_in_flight = ~any_of(s, tracked(batches[_where][s]))
_first, _next = _numbered(0), _numbered(next_sequence[_where])
drained = Table(
    producer,
    on=drain,
    when=if_(
        transactional,
        ((state == IN_TRANSACTION) | ((state == COMMITTING) & ending))
        & (size(adding) == 0)
        & (transaction_version_2 | _where.is_in(added)),
        (state == READY) & if_(bump_when_settled, ~_where.is_in(bump_for), size(bump_for) == 0),
    )
    & (batches[_where][_which].status == UNSENT)
    & all_of(s, (batches[_where][s].status == UNSENT).implies(position(s) >= position(_which)))
    & ~any_of(s, batches[_where][s].status == QUEUED)
    & ~unresolved[_where].is_set
    & (count_of(s, is_open(batches[_where][s])) < IN_FLIGHT)
    & (~_stale | _none_in_flight),
    doc="A batch that is queued again goes first, a transaction has its partition before, and an "
    "idempotent client's partition goes over to a new epoch when it has nothing in flight.",
    rows=(
        Row(
            "the first under this epoch, in mid-sequence",
            when=_stale,
            during=client_epoch_bump & ~epoch_by_partition & ~transactional,
            set={
                batches[_where][_which]: _next,
                next_sequence[_where]: wrap(next_sequence[_where] + 1, SEQUENCE),
                entry_id[_where]: producer_id,
                entry_epoch[_where]: producer_epoch,
            },
            send=(_produce(_where, _which, _next),),
            source=f"KAFKA-12152, {_ACCUMULATOR}.drainBatchesForOneNode before 2.7.1",
        ),
        Row(
            "the first under this epoch",
            when=_stale,
            during=epoch_by_partition & client_epoch_bump & ~transactional,
            set={
                batches[_where][_which]: _first,
                next_sequence[_where]: 1,
                entry_id[_where]: producer_id,
                entry_epoch[_where]: producer_epoch,
                last_acked[_where]: NO_SEQUENCE,
            },
            send=(_produce(_where, _which, _first),),
            source=f"{_MANAGER}.maybeUpdateProducerIdAndEpoch",
        ),
        Row(
            "the next in sequence",
            set={
                batches[_where][_which]: _next,
                next_sequence[_where]: wrap(next_sequence[_where] + 1, SEQUENCE),
            },
            send=(_produce(_where, _which, _next),),
            source=f"{_ACCUMULATOR}.drainBatchesForOneNode",
        ),
    ),
)

_where, _which = drain_again.partition, drain_again.record
_again = batches[_where][_which]
_other = batches[_where][s]
_sequence = _again.base_sequence
drained_again = Table(
    producer,
    on=drain_again,
    when=if_(
        transactional,
        size(adding) == 0,
        (state == READY) & (bump_when_settled | (size(bump_for) == 0)),
    )
    & (_again.status == QUEUED)
    & all_of(s, (_other.status == QUEUED).implies(_sequence <= _other.base_sequence))
    & (
        ~any_of(s, tracked(_other))
        | (
            all_of(s, tracked(_other).implies(_sequence <= _other.base_sequence))
            & any_of(s, tracked(_other) & (_sequence == _other.base_sequence))
        )
    ),
    doc="The lowest sequence in flight, and no other, so that they go one by one; also while a "
    "transaction is aborted.",
    rows=(
        Row(
            "with the same id, epoch and sequence",
            set={_again: replace(_again, status=SENT, sequence_reset=False)},
            send=(_produce(_where, _which, _again),),
            source=f"{_ACCUMULATOR}.shouldStopDrainBatchesForPartition, ProducerBatch.close",
        ),
    ),
)

# What comes of a batch -------------------------------------------------------------------------


def _told(batch: Expression, status: Expression) -> dict[Expression, Operand]:
    """The application is told; what the batch was sent with is forgotten."""
    return {batch: Batch(status=status)}


def _queued(where: Expression, which: Expression, **changed: Operand) -> dict[Expression, Operand]:
    batch = batches[where][which]
    at_once = _goes_at_once(where, batch)
    again = replace(
        batch, status=if_(at_once, SENT, QUEUED), in_retry=True,
        sequence_reset=batch.sequence_reset & ~at_once, **changed,
    )  # fmt: skip
    return {batch: again}


def _goes_at_once(where: Expression, batch: Expression) -> Expression:
    return transactional & (rank(where, batch) == 0)


def _retry(where: Expression, which: Expression) -> Sending:
    batch = batches[where][which]
    return _produce(where, which, batch, _goes_at_once(where, batch))


def _wants_bump(where: Expression) -> dict[Expression, Operand]:
    return {bump_for: bump_for | set_of(where)}


# All that the client knew of its sequences goes with its producer id.
_NEW_ID: dict[Expression, Operand] = {
    state: UNINITIALIZED, producer_epoch: NO_EPOCH, **NEW_SEQUENCES,
}  # fmt: skip


def under_old_id(
    batch: Expression, when: Expression | None = None, send: tuple[Sending, ...] = ()
) -> Row:
    """Before 2.5 a batch isn't sent again under another producer id than it was sent with."""
    return Row(
        "under an old producer id, and given up",
        when=~tracked(batch) if when is None else when & ~tracked(batch),
        during=~client_epoch_bump & ~transactional,
        set=_told(batch, FAILED),
        send=send,
        source=f"{_SENDER}.completeBatch before 2.5",
    )


_answer = ProduceResponse
_where, _which = _answer.partition, _answer.record
_batch = batches[_where][_which]
_error = _answer.error
_sequence = _batch.base_sequence
_out_of_order = _error == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
_unknown = _error == Errors.UNKNOWN_PRODUCER_ID
_unresolved = unresolved[_where]
_other = batches[_where][s]
_moved_up: dict[Expression, Operand] = {
    batches[_where]: each(
        s,
        if_(
            s == _which,
            Batch(status=FAILED),
            if_(
                tracked(_other) & (_other.base_sequence >= _sequence),
                replace(_other, base_sequence=_other.base_sequence - 1, sequence_reset=True),
                _other,
            ),
        ),
    ),
    next_sequence[_where]: next_sequence[_where] - 1,
}
_is_old = (_batch.producer_id != producer_id) | (_batch.producer_epoch != producer_epoch)
_is_last = ~any_of(s, (s != _which) & tracked(_other))
_adopts_bump = ~transactional & client_epoch_bump  # an idempotent client bumps its epoch by itself
_adopts_id = ~transactional & ~client_epoch_bump

_CAN_RETRY = f"{_MANAGER}.canRetry"
_FAILED_BATCH = f"{_MANAGER}.handleFailedBatch"
_TO_ERROR = f"{_MANAGER}.maybeTransitionToErrorState"
completed = Table(
    producer,
    on=ProduceResponse,
    rows=(
        Row(
            "nobody waits for it",
            when=~awaits(_answer.producer, _where, _which, _answer.txn),
            source=f"{_SENDER}.completeBatch",
        ),
        Row(
            "acknowledged, the last under an old epoch",
            when=(_error == Errors.NONE) & _is_old & _is_last,
            during=_adopts_bump & ~epoch_by_partition,
            set=_told(_batch, ACKNOWLEDGED)
            | {
                next_sequence[_where]: 0,
                last_acked[_where]: NO_SEQUENCE,
                entry_id[_where]: producer_id,
                entry_epoch[_where]: producer_epoch,
            },
            source=f"{_MANAGER}.handleCompletedBatch before 2.7.1",
        ),
        Row(
            "acknowledged",
            when=_error == Errors.NONE,
            set=_told(_batch, ACKNOWLEDGED)
            | {
                last_acked[_where]: if_(
                    tracked(_batch), maximum(last_acked[_where], _sequence), last_acked[_where]
                )
            },
            source=f"{_MANAGER}.handleCompletedBatch",
        ),
        Row(
            "refused under an old producer id, and those of the new one move up",
            when=(_error != Errors.NONE)
            & ~is_retriable(_error)
            & ~tracked(_batch)
            & (next_sequence[_where] > 0)
            & ((_sequence > 0) | ~any_of(s, tracked(_other) & (_other.base_sequence == 0))),
            during=_adopts_id,
            set=_moved_up,
            source=f"{_MANAGER}.adjustSequencesDueToFailedBatch before 2.5",
            note="The sequence is used twice.",
        ),
        under_old_id(_batch, _error != Errors.NONE),
        Row(
            "try again",
            when=is_retriable(_error),
            set=_queued(_where, _which),
            send=(_retry(_where, _which),),
            source=f"{_SENDER}.canRetry",
        ),
        Row(
            "out of order behind another",
            when=_out_of_order
            & is_behind_another(_unresolved, _batch.sequence_reset, _sequence, last_acked[_where]),
            set=_queued(_where, _which),
            send=(_retry(_where, _which),),
            source=_CAN_RETRY,
        ),
        Row(
            "out of order as the next: a new epoch",
            when=_out_of_order & loses_order(_unresolved, _sequence),
            during=_adopts_bump,
            set=_queued(_where, _which) | _wants_bump(_where),
            source=_CAN_RETRY,
        ),
        Row(
            "out of order behind what is unresolved",
            when=_out_of_order,
            during=_adopts_bump,
            set=_queued(_where, _which),
            source=_CAN_RETRY,
        ),
        Row(
            "out of order as the next: a new producer id",
            when=_out_of_order,
            during=_adopts_id,
            set=_told(_batch, FAILED) | _NEW_ID,
            source=f"{_MANAGER}.resetProducerId",
        ),
        Row(
            "unknown at the leader, after new sequences",
            when=_unknown & _batch.sequence_reset,
            set=_queued(_where, _which),
            send=(_retry(_where, _which),),
            source=_CAN_RETRY,
        ),
        Row(
            "unknown at the leader: a new epoch",
            when=_unknown,
            during=_adopts_bump,
            set=_queued(_where, _which) | _wants_bump(_where),
            source=_CAN_RETRY,
        ),
        Row(
            "unknown at the leader: new sequences",
            when=_unknown & (~transactional | (last_acked[_where] == NO_SEQUENCE)),
            during=transactional | ~client_epoch_bump,
            set={
                batches[_where]: each(
                    s,
                    if_(
                        tracked(_other),
                        replace(
                            _other,
                            status=if_(s == _which, QUEUED, _other.status),
                            in_retry=_other.in_retry | (s == _which),
                            base_sequence=rank(_where, _other),
                            sequence_reset=True,
                        ),
                        _other,
                    ),
                ),
                next_sequence[_where]: count_of(s, tracked(_other)),
                last_acked[_where]: NO_SEQUENCE,
            },
            source="KAFKA-5793, TransactionManager.startSequencesAtBeginning",
            note="The last batch acknowledged is no longer in the log, by which the leader knew "
            "the producer id, or there is none. (A transactional client's could be in the log, "
            "but a leader forgets none of those here.)",
        ),
        Row(
            "fenced",
            when=fences(_error),
            goto=FATAL_ERROR,
            set=FAILED_FOR_GOOD,
            source=f"{_TO_ERROR}, KIP-588, KAFKA-18019",
        ),
        Row(
            "abortable, and the partition starts at sequence 0",
            when=_unknown,
            during=transactional & client_epoch_bump,
            goto=TO_ABORTABLE_ERROR,
            set=_told(_batch, FAILED)
            | ABORTABLE
            | {
                next_sequence[_where]: 0,
                last_acked[_where]: NO_SEQUENCE,
                unresolved[_where]: None,
            },
            source=f"{_MANAGER}.resetSequenceForPartition",
        ),
        Row(
            "abortable, and those behind it move up",
            during=transactional,
            goto=TO_ABORTABLE_ERROR,
            set=_moved_up | ABORTABLE,
            source=f"{_MANAGER}.adjustSequencesDueToFailedBatch",
        ),
        Row(
            "refused under an old epoch",
            when=_is_old,
            during=_adopts_bump & ~epoch_by_partition,
            set=_told(_batch, FAILED),
            source=f"{_FAILED_BATCH} before 2.7.1",
        ),
        Row(
            "refused: a new epoch",
            during=_adopts_bump,
            set=_told(_batch, FAILED) | _wants_bump(_where),
            source=_FAILED_BATCH,
        ),
        Row(
            "refused, and those behind it move up",
            during=_adopts_id,
            set=_moved_up,
            source=f"{_MANAGER}.adjustSequencesDueToFailedBatch before 2.5",
        ),
    ),
)

_where = expire_batch.partition
_expired = batches[_where][expire_batch.record]
_older = batches[_where][s]
_mark = unresolved[_where]
_behind = _expired.base_sequence + 1
_marked = {_mark: marked(_mark, _behind)}


def _may_expire(batch: Expression) -> Expression:
    """Whether the batch may expire before another one: what a transactional client has queued again
    counts as sent here."""
    waits = if_(transactional, batch.in_retry, batch.status == QUEUED)
    return is_open(batch) & (expires_in_flight | waits)


expired = Table(
    producer,
    on=expire_batch,
    when=(EXPIRIES > 0)
    & _may_expire(_expired)
    & all_of(s, _may_expire(_older).implies(position(s) >= position(expire_batch.record))),
    rows=(
        Row(
            "after a retry: fatal",
            when=_expired.in_retry,
            during=transactional & ~client_epoch_bump,
            goto=FATAL_ERROR,
            set=FAILED_FOR_GOOD,
            source=f"{_SENDER}.run before 2.5",
        ),
        Row(
            "after a retry: was it appended?",
            when=_expired.in_retry,
            during=~transactional,
            set=_told(_expired, FAILED) | _marked,
            source=f"{_MANAGER}.markSequenceUnresolved",
        ),
        Row(
            "after a retry: was it appended? Abortable",
            when=_expired.in_retry & (RECORDS > 1),
            during=transactional & client_epoch_bump,
            goto=TO_ABORTABLE_ERROR,
            set=_told(_expired, FAILED) | _marked | ABORTABLE,
            source=f"{_MANAGER}.markSequenceUnresolved",
        ),
        Row(
            "at its first attempt",
            during=expires_in_flight & ~transactional,
            set=_told(_expired, FAILED),
            source=f"{_SENDER}.getExpiredInflightBatches",
        ),
        Row(
            "at its first attempt: abortable",
            during=expires_in_flight & transactional,
            goto=TO_ABORTABLE_ERROR,
            set=_told(_expired, FAILED) | ABORTABLE,
            source=f"{_SENDER}.getExpiredInflightBatches",
        ),
    ),
)

_where = resolve.partition
resolved = Table(
    producer,
    on=resolve,
    when=if_(transactional, state != FATAL_ERROR, state == READY)
    & unresolved[_where].is_set
    & ~any_of(s, tracked(batches[_where][s])),
    rows=(
        Row(
            "all were appended",
            when=all_appended(next_sequence[_where], last_acked[_where]),
            set={unresolved[_where]: None},
            source=f"{_MANAGER}.maybeResolveSequences",
        ),
        Row(
            "order lost: abortable",
            during=transactional,
            goto=TO_ABORTABLE_ERROR,
            set={unresolved[_where]: None}
            | ABORTABLE
            | {must_bump: must_bump | (client_epoch_bump & ~transaction_version_2)},
            source=f"{_MANAGER}.maybeResolveSequences",
        ),
        Row(
            "order lost: a new epoch",
            during=_adopts_bump,
            set={unresolved[_where]: None} | _wants_bump(_where),
            source=f"{_MANAGER}.maybeResolveSequences",
        ),
        Row(
            "order lost: a new producer id",
            during=_adopts_id,
            set=_NEW_ID,
            source=f"{_MANAGER}.shouldResetProducerStateAfterResolvingSequences",
        ),
    ),
)

# What goes wrong -------------------------------------------------------------------------------


def given_up(event: Loss, kind: Expression, *before: Row, send: tuple[Sending, ...] = ()) -> Table:
    """A request is given up, or its answer is lost: the batch is queued again, unless one of the
    rows `before` says otherwise. What nobody waits for may as well be under way for good."""
    where, which = event.partition, event.record
    return Table(
        producer,
        on=event,
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
FAULTY_EVENTS = (expire_batch, _lost)
TABLES = (
    drained,
    drained_again,
    completed,
    expired,
    resolved,
    given_up(_lost, LOSSES, under_old_id(batches[_lost.partition][_lost.record])),
)
