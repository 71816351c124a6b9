"""What a leader makes of the coordinator's word on a transaction that it asked about."""

from __future__ import annotations

from ...language import Expression, Message, Row, Sending, Table, lift, lost, only, set_of, updated
from ...language.expressions import TRUE, Operand
from ..answers import answer_batch
from ..messages import (
    LOSSES,
    NO_OFFSET,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    Errors,
    moved,
    partition,
    producer,
    waiting,
)
from ..releases.features import (
    abortable_error,
    followers_only_warn,
    offset_errors_unchanged,
    offsets_verified,
    transaction_version_2,
)
from .produce import (
    AppendResponse,
    Check,
    DataBatch,
    Question,
    append_rows,
    appended,
    bounded_alone,
)
from .state import (
    asks_coordinator,
    has_ongoing_transaction,
    log_start_offset,
    orphaned,
    unguarded,
)

_answer = AddPartitionsByLeaderResponse
_waiting = waiting[_answer.producer]


def _waiting_answer(error: Expression, offset: Operand = NO_OFFSET) -> Sending:
    batch = _waiting.value
    return answer_batch(
        _answer.producer, _answer.partition, batch.record, batch.txn, error, offset,
        log_start_offset,
    )  # fmt: skip


_done = {_waiting: lift(None)}
_HANDLE = "ReplicaManager.handleProduceAppend"


def refusals(error: Expression, by_kind: Expression) -> tuple[Check, ...]:
    """What the coordinator refuses. Transient errors are converted `by_kind`, or unchanged."""
    return (
        Check(
            "producer fenced",
            error == Errors.PRODUCER_FENCED,
            Errors.INVALID_PRODUCER_EPOCH,
            "AddPartitionsToTxnManager",
        ),
        Check(
            "not in the transaction, for a client before TRANSACTION_ABORTABLE",
            error == Errors.TRANSACTION_ABORTABLE,
            Errors.INVALID_TXN_STATE,
            "AddPartitionsToTxnManager",
            ~abortable_error,
            only_real=True,
        ),
        Check(
            "coordinator busy",
            by_kind & (error == Errors.CONCURRENT_TRANSACTIONS),
            Errors.NOT_ENOUGH_REPLICAS,
            _HANDLE,
            ~transaction_version_2,
        ),
        Check(
            "coordinator moved",
            by_kind & error.is_in(*moved),
            Errors.NOT_ENOUGH_REPLICAS,
            _HANDLE,
        ),
        Check("refused by the coordinator", error != Errors.NONE, error, _HANDLE),
    )


# From 3.8 on a group's coordinator gets it unchanged.
_by_kind = _answer.from_client | ~offset_errors_unchanged
verified = Table(
    partition,
    on=_answer,
    response=AppendResponse,
    others=(producer,),
    rows=only(
        asks_coordinator,
        Row(
            "asked by a leader before",
            when=_answer.producer.is_in(orphaned),
            set={orphaned: orphaned - set_of(_answer.producer)},
            only_bounded=True,
        ),
        *(
            check.refuse(
                bounded_alone(_waiting_answer(check.error)), appended(check.error), changes=_done
            )
            for check in refusals(_answer.error, _by_kind)
        ),
        *append_rows(
            DataBatch(
                producer_id=_answer.producer_id,
                producer_epoch=_answer.producer_epoch,
                base_sequence=_answer.base_sequence,
                last_sequence=_answer.last_sequence,
                transactional=TRUE,
                record=_waiting.value.record,
                txn=_waiting.value.txn,
                offset_delta=_answer.offset_delta,
                timestamp=_answer.timestamp,
                from_client=_answer.from_client,
                epoch_counts=_answer.from_client | followers_only_warn,
                may_repeat=_answer.from_client,
                question=Question(
                    ~has_ongoing_transaction(_answer.producer_id, _answer.producer_epoch),
                    _answer.guarded,
                ),
                waited=True,
            ),
            _waiting_answer,
            settled=_done,
            left_waiting=updated(unguarded(_answer.producer_id), _answer.producer, None),
        ),
    ),
)


def _lost_question(message: Message) -> Table:
    """The question or its answer is lost, and the producer must try again."""
    loss = lost(message)
    batch = waiting[loss.producer]
    record = (batch.value.record, batch.value.txn)
    return Table(
        partition,
        on=loss,
        others=(producer,),
        when=LOSSES > 0,
        rows=only(
            asks_coordinator,
            Row(
                "asked by a leader before",
                when=loss.producer.is_in(orphaned),
                set={orphaned: orphaned - set_of(loss.producer)},
            ),
            Row(
                "give up",
                set={batch: None},
                send=(
                    answer_batch(
                        loss.producer, loss.partition, *record, Errors.NOT_ENOUGH_REPLICAS
                    ),
                ),
                source="AddPartitionsToTxnHandler.onComplete, ReplicaManager.handleProduceAppend, "
                "NETWORK_EXCEPTION",
                note="Before 3.7.1 the producer gets NETWORK_EXCEPTION, and does the same.",
            ),
        ),
    )


asks_about_offsets = asks_coordinator & offsets_verified
"""Whether a leader asks the coordinator about what a group's coordinator appends for one."""
FAULTY_EVENTS = (lost(AddPartitionsByLeader), lost(AddPartitionsByLeaderResponse))
TABLES = (
    verified,
    _lost_question(AddPartitionsByLeader),
    _lost_question(AddPartitionsByLeaderResponse),
)
