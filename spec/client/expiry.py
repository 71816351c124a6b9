"""A batch's time is over: was it appended? What is unresolved shows when nothing is in flight.

In a transaction with one record for a partition, the mark of an unresolved sequence would show
nowhere: nothing is drained after the expiry, and resolving it finds the error that there is.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Row,
    Table,
    all_of,
    event,
    if_,
    lift,
    position,
)
from ...language.expressions import Operand
from ..messages import (
    EXPIRIES,
    PARTITION,
    REAL,
    RECORD,
    RECORDS,
    Errors,
    clock,
    now,
    producer,
)
from ..releases.features import (
    client_epoch_bump,
    expires_in_flight,
    sequence_used_when_sent,
    transactional,
)
from . import state as client
from .accumulator import LINGER
from .sender import (
    DELIVERY_TIMEOUT,
    NEW_ID,
    REQUEST_TIMEOUT,
    bumps_epoch,
    failed_for_good,
    reported,
    resets_id,
    wants_bump,
)
from .state import s
from .transaction_manager import (
    NEEDS_BUMP,
    RETRY_BACKOFF,
    TO_ABORTABLE,
    ClientStep,
    Reaction,
    batch_failed,
    can_bump,
    fatal,
    react,
)

expire_batch = event(
    "batch expires", partition=PARTITION, record=RECORD,
    event_doc="Its time is over; a request may still arrive.",
)  # fmt: skip
resolve = event("resolve sequences", partition=PARTITION)

_SENDER, _MANAGER = "Sender", "TransactionManager"

_where, _which = expire_batch.partition, expire_batch.record
_batch, _its = client.batches[_where][_which], client.details[_where][_which]
_mark = client.unresolved[_where]
_marked = {_mark: client.marked(_mark, _batch.base_sequence + _its.count)}
_REPORTED_FAILED = reported(_where, _which, client.FAILED)
_ABORTABLE = _REPORTED_FAILED | batch_failed(Errors.TIMEOUT)
# A batch that is full at once expired without the time that others linger (before 2.1).
_delay = if_(_batch.status == client.QUEUED, RETRY_BACKOFF, LINGER)
_is_over = if_(
    expires_in_flight,
    _batch.status.is_in(client.UNSENT, client.SENT, client.QUEUED)
    & (now - _its.created_ms >= DELIVERY_TIMEOUT),
    _batch.status.is_in(client.UNSENT, client.QUEUED)
    & (now - _its.last_attempt_ms > REQUEST_TIMEOUT + _delay),
)


def _may_expire(which: Expression) -> Expression:
    """Whether the time of a batch may be over in a bounded run, before that of another one: what a
    transactional client has queued again counts as sent there."""
    batch = client.batches[_where][which]
    waits = if_(transactional, batch.in_retry, batch.status == client.QUEUED)
    return client.is_open(batch) & (expires_in_flight | waits)


_is_oldest = all_of(s, _may_expire(s).implies(position(s) >= position(_which)))
expired = Table(
    producer,
    on=expire_batch,
    response=Reaction,
    others=(clock,),
    when=(EXPIRIES > 0)
    & if_(REAL == 0, _may_expire(_which) & _is_oldest, (_its.count > 0) & _is_over),
    rows=(
        failed_for_good(
            fatal(
                "after a retry: fatal",
                _batch.in_retry,
                Errors.KAFKA_EXCEPTION,
                f"{_SENDER}.run before 2.5",
                during=transactional & ~client_epoch_bump & sequence_used_when_sent,
            ),
            _where,
            _which,
        ),
        Row(
            "after a retry: a new producer id",
            when=_batch.in_retry,
            during=~transactional & ~sequence_used_when_sent,
            set=_REPORTED_FAILED | NEW_ID,
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source=f"{_SENDER}.sendProducerData before 1.0",
        ),
        Row(
            "after a retry: abortable, and its sequence is used again",
            when=_batch.in_retry,
            during=transactional & ~sequence_used_when_sent,
            goto=TO_ABORTABLE,
            set=_ABORTABLE | {client.next_sequence[_where]: _batch.base_sequence},
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source="TransactionManager.incrementSequenceNumber before 1.0",
        ),
        Row(
            "after a retry: was it appended?",
            when=_batch.in_retry,
            during=~transactional,
            set=_REPORTED_FAILED | _marked,
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source=f"{_MANAGER}.markSequenceUnresolved",
        ),
        Row(
            "after a retry: was it appended? Abortable",
            when=_batch.in_retry & ((RECORDS > 1) | (REAL == 1)),
            during=transactional & client_epoch_bump,
            goto=TO_ABORTABLE,
            set=_ABORTABLE | _marked,
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source=f"{_MANAGER}.markSequenceUnresolved",
        ),
        Row(
            "at its first attempt",
            during=~transactional,
            set=_REPORTED_FAILED,
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source=f"{_SENDER}.sendProducerData",
        ),
        Row(
            "at its first attempt: abortable",
            during=transactional,
            goto=TO_ABORTABLE,
            set=_ABORTABLE,
            reply=react(ClientStep.FAIL, Errors.TIMEOUT),
            source=f"{_SENDER}.sendProducerData",
        ),
    ),
)

_at = resolve.partition
_RESOLVE = f"{_MANAGER}.maybeResolveSequences"
_resolved: dict[Expression, Operand] = {client.unresolved[_at]: None}
resolved = Table(
    producer,
    on=resolve,
    response=Reaction,
    when=(client.state != client.FATAL_ERROR)
    & client.unresolved[_at].is_set
    & ~client.has_tracked(_at),
    rows=(
        Row(
            "all were appended",
            when=client.all_appended(client.next_sequence[_at], client.last_acked[_at]),
            set=_resolved,
            reply=react(ClientStep.GO_ON),
            source=_RESOLVE,
        ),
        Row(
            "order lost: abortable",
            when=can_bump,
            during=transactional,
            goto=TO_ABORTABLE,
            set=_resolved | batch_failed(Errors.KAFKA_EXCEPTION) | NEEDS_BUMP,
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION),
            source=f"{_MANAGER}.transitionToAbortableErrorOrFatalError",
        ),
        fatal(
            "order lost for good",
            lift(True),
            Errors.KAFKA_EXCEPTION,
            f"{_MANAGER}.transitionToAbortableErrorOrFatalError",
            during=transactional,
        ),
        Row(
            "order lost: a new epoch",
            during=bumps_epoch,
            set=_resolved | wants_bump(_at),
            reply=react(ClientStep.GO_ON),
            source=_RESOLVE,
        ),
        Row(
            "order lost: a new producer id",
            during=resets_id,
            set=NEW_ID,
            reply=react(ClientStep.GO_ON),
            source=f"{_MANAGER}.shouldResetProducerStateAfterResolvingSequences",
        ),
    ),
)

FAULTY_EVENTS = (expire_batch,)
TABLES = (expired, resolved)
