"""TransactionMetadata's own functions, beneath requests: each prepares a transition or refuses to.

A coordinator's requests never call them where they refuse; Kafka's tests do. What is prepared is
what `transaction` and `transaction_log` prepare.
"""

from __future__ import annotations

from dataclasses import replace

from ...language import (
    Bool,
    Expression,
    Int,
    Optional,
    Row,
    Set,
    Table,
    enum,
    event,
    if_,
    message,
    set_of,
    some,
)
from ..features import rotation_on_fence, transaction_version_2, version_2_draft
from ..messages import (
    EPOCH,
    LARGEST_EPOCH,
    NO_TIMESTAMP,
    PARTITION,
    PRODUCER_ID,
    TIMEOUT_MS,
    TIMESTAMP,
    Errors,
    clock,
    now,
    transaction,
)
from .add_partitions import adding
from .entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    INITIALIZED,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    TransactionState,
    completing,
    dated,
    ending,
    exhausted,
    fence_epoch,
    fenced,
    is_prepared,
    is_settled,
    last_producer_epoch,
    next_id,
    partitions,
    pending,
    pending_epoch,
    pending_id,
    pending_timeout_ms,
    producer_epoch,
    producer_id,
    state,
    txn_start_timestamp,
    txn_timeout_ms,
)
from .init_producer_id import increment_rows, rotation
from .log import COMPLETING
from .requests import caller

_METADATA = "TransactionMetadata"
Raised = enum("Raised", "ILLEGAL_STATE", "ILLEGAL_ARGUMENT")
Prepared = message("Prepared", caller, error=Errors, raises=Optional(Raised))
_done = Prepared(error=Errors.NONE, raises=None)
_illegal = Prepared(error=Errors.NONE, raises=some(Raised.ILLEGAL_STATE))


def _unless(allowed: Expression, name: str = "not from this state") -> Row:
    """Refuses where a transition is pending already, or the state isn't one to come from."""
    source = f"{_METADATA}.prepareTransitionTo"
    return Row(name, when=pending.is_set | ~allowed, reply=_illegal, source=source)


def _replied(row: Row) -> Row:
    return row if row.reply is not None else replace(row, reply=_done)


increment = event("prepare increment epoch", timeout_ms=TIMEOUT_MS, expected_epoch=Optional(EPOCH))
_to_empty = {pending: EMPTY, pending_id: producer_id, pending_timeout_ms: increment.timeout_ms}
incremented = Table(
    transaction,
    on=increment,
    elsewhere=(clock,),
    response=Prepared,
    rows=(
        Row(
            "epochs used up",
            when=exhausted,
            reply=_illegal,
            source=f"{_METADATA}.prepareIncrementProducerEpoch",
        ),
        _unless(is_settled),
        *map(
            _replied,
            increment_rows(
                increment.expected_epoch.is_set,
                increment.expected_epoch.value,
                _to_empty | INITIALIZED,
                Prepared(error=fenced, raises=None),
            ),
        ),
    ),
)

rotate = event(
    "prepare producer id rotation", new_producer_id=PRODUCER_ID, timeout_ms=TIMEOUT_MS,
    records_last_epoch=Bool(),
)  # fmt: skip
rotated = Table(
    transaction,
    on=rotate,
    elsewhere=(clock,),
    response=Prepared,
    rows=(
        _unless(is_settled),
        Row(
            "prepare",
            set={pending: EMPTY, pending_timeout_ms: rotate.timeout_ms}
            | rotation(rotate.new_producer_id, rotate.records_last_epoch)
            | INITIALIZED,
            reply=_done,
            source=f"{_METADATA}.prepareProducerIdRotation",
        ),
    ),
)

add = event("prepare add partitions", partitions=Set(PARTITION))
added = Table(
    transaction,
    on=add,
    elsewhere=(clock,),
    response=Prepared,
    rows=(
        _unless(is_settled | (state == ONGOING)),
        Row(
            "prepare",
            set=adding(add.partitions, 0),
            reply=_done,
            source=f"{_METADATA}.prepareAddPartitions",
        ),
    ),
)

end = event(
    "prepare abort or commit", target=TransactionState, client_transaction_version=Int(0, 2),
    next_producer_id=Optional(PRODUCER_ID),
)  # fmt: skip
_bumps = end.client_transaction_version == 2
_ends_nothing = (end.target == PREPARE_ABORT) & is_settled & ~version_2_draft
ended = Table(
    transaction,
    on=end,
    elsewhere=(clock,),
    response=Prepared,
    rows=(
        Row(
            "no epoch above the largest",
            when=~pending.is_set
            & _bumps
            & (producer_epoch == LARGEST_EPOCH)
            & ~(rotation_on_fence & (end.target == PREPARE_ABORT)),
            reply=Prepared(error=Errors.NONE, raises=some(Raised.ILLEGAL_ARGUMENT)),
            source=f"{_METADATA}.prepareTransitionTo",
        ),
        _unless((state == ONGOING) | (_ends_nothing & transaction_version_2)),
        Row(
            "prepare",
            set=ending(end.target, _bumps)
            | {next_id: end.next_producer_id}
            | dated(if_(is_settled, now, txn_start_timestamp), if_(_bumps, 2, 0)),
            reply=_done,
            source=f"{_METADATA}.prepareAbortOrCommit",
        ),
    ),
)

complete = event("prepare complete")
completed = Table(
    transaction,
    on=complete,
    elsewhere=(clock,),
    response=Prepared,
    rows=(
        _unless(is_prepared),
        Row("prepare", set=COMPLETING, reply=_done, source=f"{_METADATA}.prepareComplete"),
    ),
)

fence = event("prepare fence")
fenced = Table(
    transaction,
    on=fence,
    response=Prepared,
    rows=(
        Row(
            "no epoch above the largest",
            when=producer_epoch == LARGEST_EPOCH,
            during=~rotation_on_fence,
            reply=_illegal,
            source=f"{_METADATA}.prepareFenceProducerEpoch before 4.3",
        ),
        _unless(state == ONGOING),
        Row(
            "prepare",
            set={pending: PREPARE_EPOCH_FENCE, pending_epoch: fence_epoch},
            reply=_done,
            source=f"{_METADATA}.prepareFenceProducerEpoch",
        ),
    ),
)

# Completing a transition: does the prepared one still fit what there is? -------------------------

check = event(
    "check transition", state=TransactionState, producer_id=PRODUCER_ID,
    previous_producer_id=PRODUCER_ID, producer_epoch=EPOCH, last_producer_epoch=EPOCH,
    txn_timeout_ms=TIMEOUT_MS, partitions=Set(PARTITION), txn_start_timestamp=TIMESTAMP,
    client_transaction_version=Int(0, 2), event_doc="The transition as it was prepared.",
)  # fmt: skip
_to_complete = check.state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)
_to_prepared = check.state.is_in(PREPARE_COMMIT, PREPARE_ABORT)
_knows_2 = check.client_transaction_version == 2
_switched = _knows_2 & _to_complete & (check.producer_epoch == 0)
_same_producer = (
    if_(_switched | (_knows_2 & _to_prepared), check.last_producer_epoch, check.producer_epoch)
    == producer_epoch
) & (if_(_switched, check.previous_producer_id, check.producer_id) == producer_id)
_next_epoch = (check.producer_epoch == producer_epoch + 1) | (
    (check.producer_epoch == 0) & (check.producer_id != producer_id)
)
_COMPLETE = f"{_METADATA}.completeTransitionTo"


def _no_fit(name: str, when: Expression) -> Row:
    return Row(name, when=when, reply=_illegal, source=_COMPLETE)


checked = Table(
    transaction,
    on=check,
    response=Prepared,
    rows=(
        _no_fit("nothing is pending", ~pending.is_set),
        _no_fit("something else is pending", pending != some(check.state)),
        _no_fit("not a state to complete", check.state.is_in(PREPARE_EPOCH_FENCE, DEAD)),
        _no_fit(
            "not the next epoch",
            (check.state == EMPTY)
            & (
                ((check.producer_epoch != producer_epoch) & ~_next_epoch)
                | (check.partitions != set_of())
                | (check.txn_start_timestamp != NO_TIMESTAMP)
            ),
        ),
        _no_fit(
            "another producer or timeout",
            (check.state != EMPTY) & (~_same_producer | (check.txn_timeout_ms != txn_timeout_ms)),
        ),
        _no_fit(
            "fewer partitions",
            (check.state == ONGOING) & ((partitions - check.partitions) != set_of()),
        ),
        _no_fit(
            "another transaction",
            _to_prepared
            & (
                (check.partitions != partitions)
                | (
                    (check.txn_start_timestamp != txn_start_timestamp)
                    & ~(is_settled & ~version_2_draft)
                )
            ),
        ),
        _no_fit("never started", _to_complete & (check.txn_start_timestamp == NO_TIMESTAMP)),
        Row("it fits", reply=_done, source=_COMPLETE),
    ),
)

recorded_last_epoch = if_(completing & version_2_draft, producer_epoch, last_producer_epoch)
"""What a Complete record says of the epoch before."""

# Listing ----------------------------------------------------------------------------------------

Listed = message("Listed", caller, is_listed=Bool())
ask = event(
    "is listed", producer_ids=Set(PRODUCER_ID), states=Set(TransactionState), any_state=Bool(),
    min_duration_ms=Int(-1, 2**62), event_doc="No producer ids, or a duration below 0: no filter.",
)  # fmt: skip
listed = Table(
    transaction,
    on=ask,
    elsewhere=(clock,),
    response=Listed,
    rows=(
        Row(
            "filtered out",
            when=(state == DEAD)
            | ((ask.producer_ids != set_of()) & ~producer_id.is_in(ask.producer_ids))
            | (~ask.any_state & ~state.is_in(ask.states))
            | ((ask.min_duration_ms >= 0) & (now - txn_start_timestamp <= ask.min_duration_ms)),
            reply=Listed(is_listed=False),
            source="TransactionStateManager.listTransactionStates",
        ),
        Row("listed", reply=Listed(is_listed=True)),
    ),
)

TABLES = (incremented, rotated, added, ended, completed, fenced, checked, listed)
