"""A leader as a client without transactional id meets it.

Its checks are those of any batch (`partition.append_rows`); nothing has to be asked, so that no
batch waits for the coordinator when a leader changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...language import (
    Event,
    Expression,
    Message,
    Row,
    Sending,
    Table,
    any_of,
    append,
    constant,
    in_transit,
    lift,
)
from ...language.expressions import Operand
from ..answers import answer_batch
from ..client import state as client
from ..client.epochs import DelayedProduce
from ..messages import NO_EPOCH, NO_OFFSET, RECORD, Errors, Produce, clock, partition, producer
from ..releases.features import client_epoch_bump, idempotent_starts_at_0
from . import recovery
from .produce import Answer, AppendResponse, DataBatch, append_rows
from .state import Kind, LogEntry, log, producers

REFUSALS = constant(
    "refusals", 1, 0, 1, meaning="1: a leader may refuse a request for good, as one too large"
)
SHORTAGES = constant(
    "shortages", 1, 0, 1, meaning="1: a leader may have too few replicas for a request"
)

_ONLY = 0  # the client
refused = in_transit("refused", Produce)
postponed = in_transit("postponed", Produce)


def _answers(to: Event) -> Callable[[Expression, Operand], Sending]:
    """Answers to a request, where its client still waits for one."""
    return lambda error, _: answer_batch(to.producer, to.partition, to.record, to.txn, error)


def _unanswered(_error: Expression, _offset: Operand) -> None:
    """The connection is closed."""


def _rows(request: Message, answer: Answer) -> tuple[Row, ...]:
    unchecked = Row(
        "no producer id: no check",
        when=request.producer_epoch == NO_EPOCH,
        set={
            log: append(
                log,
                LogEntry(
                    kind=Kind.DATA,
                    producer_id=request.producer_id,
                    producer_epoch=NO_EPOCH,
                    idempotent_only=True,
                    record=request.record,
                ),
            )
        },
        reply=answer(Errors.NONE, NO_OFFSET),
        source="UnifiedLog.analyzeAndValidateProducerState",
    )
    unknown = Row(
        "unknown, in mid-sequence",
        when=(producers[request.producer_id].producer_epoch == NO_EPOCH)
        & (request.base_sequence != 0),
        during=idempotent_starts_at_0,
        reply=answer(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, NO_OFFSET),
    )
    batch = DataBatch(
        producer_id=request.producer_id, producer_epoch=request.producer_epoch,
        base_sequence=request.base_sequence, last_sequence=request.base_sequence,
        transactional=lift(False), record=request.record, txn=request.txn,
    )  # fmt: skip
    return (unchecked, unknown, *append_rows(batch, answer))


def _answers_only(event: Event, allowed: Expression, name: str, error: Expression) -> Table:
    row = Row(
        name, reply=_answers(event)(error, NO_OFFSET), source="ReplicaManager.appendToLocalLog"
    )
    return Table(partition, on=event, others=(producer,), when=allowed > 0, rows=(row,))


_r = RECORD.variable("r")
_batch = client.batches.at(_ONLY)[partition.this][_r]
producer_expires = replace(
    recovery.producer_expires,
    others=(producer, clock),
    when=recovery.producer_expires.when & client_epoch_bump & ~any_of(_r, client.is_open(_batch)),
    doc="It takes longer than a batch lives (producer.id.expiration.ms, delivery.timeout.ms) and, "
    "before 2.5, longer than its records are kept.",
)
leader_changes = replace(
    recovery.leader_changes,
    others=(),
    rows=tuple(replace(row, send=()) for row in recovery.leader_changes.rows),
)

FAULTY_EVENTS = (
    refused,
    postponed,
    recovery.expire_producer,
    recovery.delete_records,
    recovery.change_leader,
)
TABLES = (
    Table(
        partition,
        on=Produce,
        others=(producer,),
        response=AppendResponse,
        rows=_rows(Produce, _answers(Produce)),
    ),
    Table(
        partition,
        on=DelayedProduce,
        response=AppendResponse,
        rows=_rows(DelayedProduce, _unanswered),
    ),
    _answers_only(refused, REFUSALS, "refuse for good", Errors.UNKNOWN_SERVER_ERROR),
    _answers_only(postponed, SHORTAGES, "too few replicas", Errors.NOT_ENOUGH_REPLICAS),
    producer_expires,
    recovery.records_deleted,
    leader_changes,
)
