"""A client's queues of batches: whether a record comes in, and which batch goes next with which
sequence.

A bounded application writes a record when its batch is drained: until then it has no part in
anything.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Row,
    Sending,
    Set,
    Table,
    all_of,
    any_of,
    any_true,
    constant,
    count_of,
    event,
    if_,
    lift,
    position,
    replace,
    set_of,
    size,
    some,
    wrap,
)
from ...language.expressions import Operand
from ..errors import Errors
from ..messages import (
    IN_FLIGHT,
    PARTITION,
    REAL,
    RECORD,
    SEQUENCE,
    Produce,
    clock,
    now,
    producer,
)
from ..releases.features import (
    bump_when_settled,
    client_epoch_bump,
    epoch_by_partition,
    several_in_flight,
    transaction_version_2,
    transactional,
)
from . import state as client
from .state import s
from .transaction_manager import API_VERSION, completing, has_id, is_closed

LINGER = constant("linger_ms", 0, 0, 0, real=0, meaning="linger.ms")
WITH_PRODUCER_ID = 3  # the first version of Produce whose batches have a producer id

muted = producer.field(
    "muted", Set(PARTITION), only_real=True, stands_for=set_of(),
    doc="With a batch in flight, where order is kept.",
)  # fmt: skip
keeps_order = producer.field(
    "keeps_order", Bool(), only_real=True,
    doc="One batch at a time to a partition: max.in.flight is 1.",
)  # fmt: skip
produce_version = producer.field(
    "produce_version", API_VERSION, only_real=True, doc="The highest of Produce."
)

hurries = producer.field(
    "hurries", Bool(), only_real=True, stands_for=lift(False),
    doc="Batches don't wait for more records: `flush` waits for them, or a send for their memory.",
)  # fmt: skip

_ACCUMULATOR = "RecordAccumulator"

# Appending --------------------------------------------------------------------------------------

append_error = if_(is_closed, some(Errors.KAFKA_EXCEPTION), None)
"""The error with which a record is refused, if it is: RecordAccumulator.tryAppend."""
new_batch_error = if_(
    produce_version < WITH_PRODUCER_ID, some(Errors.UNSUPPORTED_VERSION), append_error
)
"""The same for a record that begins a batch: RecordAccumulator.recordsBuilder."""

# Draining ---------------------------------------------------------------------------------------

drain = event("drain", partition=PARTITION, record=RECORD)


def produce(
    where: Expression, which: Expression, batch: Expression, when: Operand = True
) -> Sending:
    """The request that brings a batch to its leader."""
    # a transactional client has no batch left when it takes a new id or epoch
    fields = Produce(
        producer=producer.this,
        partition=where,
        producer_id=if_(transactional, client.producer_id, batch.producer_id),
        producer_epoch=if_(transactional, client.producer_epoch, batch.producer_epoch),
        base_sequence=batch.base_sequence,
        idempotent_only=~transactional,
        record=which,
        txn=if_(transactional, client.txn.value, 0),
    ).fields
    return Sending(Produce, fields, when=lift(when))


def is_stale(where: Expression) -> Expression:
    """Whether a partition's sequences count under an id or an epoch that is no longer the client's.
    A transactional client forgets them with its epoch.

    TransactionManager.hasStaleProducerIdAndEpoch
    """
    same = (client.entry_id[where] == client.producer_id) & (
        client.entry_epoch[where] == client.producer_epoch
    )
    return client_epoch_bump & ~transactional & ~same


def is_allowed(where: Expression) -> Expression:
    """Whether batches may go to a partition. A bounded run of version 2 adds no partition without a
    batch.

    TransactionManager.isSendToPartitionAllowed
    """
    is_added = where.is_in(client.added) | (transaction_version_2 & (REAL == 0))
    return (client.state != client.FATAL_ERROR) & (~transactional | is_added)


_where, _which = drain.partition, drain.record
_batch, _its = client.batches[_where][_which], client.details[_where][_which]
_other, _others = client.batches[_where][s], client.details[_where][s]
_sequence = _batch.base_sequence
_again = _batch.status == client.QUEUED
_is_unsent = (_other.status == client.UNSENT) & (_others.count > 0)
_is_before = if_(REAL == 0, position(s) < position(_which), _others.place < _its.place)
_is_behind = if_(REAL == 0, position(s) > position(_which), _others.place > _its.place)
_waited = now - _its.last_attempt_ms
_is_ready = any_true(
    _again,
    _its.is_full,
    any_of(s, _is_unsent & _is_behind),
    _waited >= LINGER,
    is_closed,
    completing,
    hurries,
)
_is_written = (_its.count > 0) & (
    (REAL == 1)
    | ~transactional
    | (client.state == client.IN_TRANSACTION)
    | ((client.state == client.COMMITTING) & client.ending)
)
# the loop's next steps; at real ranges they are looked at in their order
_nothing_goes_first = (
    (REAL == 1)
    | (transactional & (size(client.adding) == 0))
    | (
        ~transactional
        & if_(
            bump_when_settled, _again | ~_where.is_in(client.bump_for), size(client.bump_for) == 0
        )
    )
)
_is_first_of_queue = all_of(
    s, (_other.status == client.QUEUED).implies(_sequence <= _other.base_sequence)
)
_is_lowest = ~client.has_tracked(_where) | (
    all_of(s, client.tracked(_where, s).implies(_sequence <= _other.base_sequence))
    & any_of(s, client.tracked(_where, s) & (_sequence == _other.base_sequence))
)
_stale = is_stale(_where)


def _numbered(sequence: Operand) -> Expression:
    """A batch with its place: the client's id and epoch, and the sequence."""
    return client.Batch(
        status=client.SENT,
        producer_id=client.producer_id,
        producer_epoch=client.producer_epoch,
        base_sequence=sequence,
    )


def _after(sequence: Operand) -> Expression:
    return wrap(sequence + _its.count, SEQUENCE)


_first, _next = _numbered(0), _numbered(client.next_sequence[_where])
_mute = {muted: if_(keeps_order, muted | set_of(_where), muted)}
_of_this_epoch = {
    client.entry_id[_where]: client.producer_id,
    client.entry_epoch[_where]: client.producer_epoch,
}
drained = Table(
    producer,
    on=drain,
    others=(clock,),
    when=is_allowed(_where)
    & has_id
    & _nothing_goes_first
    & if_(
        _again,
        _is_first_of_queue & _is_lowest,
        (_batch.status == client.UNSENT)
        & _is_written
        & ~any_of(s, (_other.status == client.QUEUED) | (_is_unsent & _is_before))
        & ~client.unresolved[_where].is_set
        & (count_of(s, client.is_open(_other)) < if_(several_in_flight, IN_FLIGHT, 1))
        & ~(_stale & client.has_tracked(_where)),
    )
    & _is_ready
    & ~_where.is_in(muted)
    & ((_its.attempts == 0) | (_waited >= _its.backoff_ms)),
    doc="A batch that is queued again goes first, the lowest sequence in flight and no other, so "
    "that they go one by one; also while a transaction is aborted. A transaction has its partition "
    "before, and a partition goes over to a new epoch when it has nothing in flight.",
    rows=(
        Row(
            "with the same id, epoch and sequence",
            when=_again,
            set={_batch: replace(_batch, status=client.SENT, sequence_reset=False)} | _mute,
            send=(produce(_where, _which, _batch),),
            source=f"{_ACCUMULATOR}.shouldStopDrainBatchesForPartition, ProducerBatch.close",
        ),
        Row(
            "the first under this epoch, in mid-sequence",
            when=_stale,
            during=client_epoch_bump & ~epoch_by_partition & ~transactional,
            set={_batch: _next, client.next_sequence[_where]: _after(client.next_sequence[_where])}
            | _of_this_epoch
            | _mute,
            send=(produce(_where, _which, _next),),
            source=f"KAFKA-12152, {_ACCUMULATOR}.drainBatchesForOneNode before 2.7.1",
        ),
        Row(
            "the first under this epoch",
            when=_stale,
            during=epoch_by_partition & client_epoch_bump & ~transactional,
            set={
                _batch: _first,
                client.next_sequence[_where]: _after(lift(0)),
                client.last_acked[_where]: client.NO_SEQUENCE,
            }
            | _of_this_epoch
            | _mute,
            send=(produce(_where, _which, _first),),
            source="TransactionManager.maybeUpdateProducerIdAndEpoch",
        ),
        Row(
            "the next in sequence",
            set={_batch: _next, client.next_sequence[_where]: _after(client.next_sequence[_where])}
            | _mute,
            send=(produce(_where, _which, _next),),
            source=f"{_ACCUMULATOR}.drainBatchesForOneNode",
        ),
    ),
)
