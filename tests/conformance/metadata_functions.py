"""TransactionMetadata's functions by themselves, as Kafka's unit tests call them.

A request's rows prepare the same transitions, and come to them only in states that allow it: no
broker meets the exceptions that the functions throw otherwise. The tables here say when they do;
what is prepared is what the rows of `spec.coordinator` prepare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from epochfence.language import (
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
    lift,
    message,
    set_of,
    some,
)
from epochfence.language.expressions import Operand, field_set, rewrite
from epochfence.model import TransactionCoordinator, TransactionMetadata
from epochfence.model.broker.transactions.coordinator import IllegalArgumentError
from epochfence.model.broker.transactions.marker_channel_manager import IllegalStateError
from epochfence.model.broker.transactions.transaction_metadata import metadata_of, state_member
from epochfence.spec.coordinator import tables as coordinator
from epochfence.spec.coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    FenceEnd,
    TransactionState,
    adding_for,
    asked_by,
    bumped_epoch,
    exhausted,
    fence_end,
    fence_epoch,
    fenced,
    fenced_for,
    is_prepared,
    is_settled,
    last_producer_epoch,
    next_id,
    partitions,
    pending,
    pending_epoch,
    pending_last_epoch,
    pending_start_timestamp,
    pending_update_timestamp,
    pending_version,
    producer_epoch,
    producer_id,
    state,
    txn_start_timestamp,
    txn_timeout_ms,
)
from epochfence.spec.coordinator.markers import caller
from epochfence.spec.coordinator.requests.add_partitions import add_partitions
from epochfence.spec.coordinator.requests.init_producer_id import init_producer_id, is_expected
from epochfence.spec.coordinator.state_manager.log import completion_begins
from epochfence.spec.messages import (
    EPOCH,
    LARGEST_EPOCH,
    NO_TIMESTAMP,
    PARTITION,
    PRODUCER_ID,
    TIMEOUT_MS,
    TIMESTAMP,
    AddPartitionsToTxn,
    Errors,
    InitProducerId,
    clock,
    now,
    offered_id,
    transaction,
)
from epochfence.spec.releases.features import rotation_on_fence, transaction_version_2

_METADATA = "TransactionMetadata"
Raised = enum("Raised", "ILLEGAL_STATE", "ILLEGAL_ARGUMENT")
Prepared = message("Prepared", caller, error=Errors, raises=Optional(Raised))
_done = Prepared(error=Errors.NONE, raises=None)
_illegal = Prepared(error=Errors.NONE, raises=some(Raised.ILLEGAL_STATE))


def _unless(allowed: Expression, name: str = "not from this state") -> Row:
    """Refuses where a transition is pending already, or the state isn't one to come from."""
    source = f"{_METADATA}.prepareTransitionTo"
    return Row(name, when=pending.is_set | ~allowed, reply=_illegal, source=source)


_OF_REQUESTS = (asked_by, adding_for, fenced_for, offered_id)
"""Fields that a request's rows set and the functions don't."""


def _row(table: Table, name: str, given: Mapping[Expression, Operand]) -> Row:
    """A row of a request, as its function has it: with the arguments that are `given` for what the
    request says, and with the function's answers."""
    (row,) = (row for row in table.rows if row.id == name)

    def of(value: Expression) -> Expression:
        return rewrite(value, lambda node: lift(given[node]) if node in given else None)

    kept = {
        of(target): of(lift(value))
        for target, value in row.set.items()
        if not any(field_set(target) is field.data for field in _OF_REQUESTS)
    }
    reply = _done if row.reply is None else Prepared(error=fenced, raises=None)
    return replace(row, when=of(row.guard), set=kept, reply=reply, send=())


increment = event("prepare increment epoch", timeout_ms=TIMEOUT_MS, expected_epoch=Optional(EPOCH))
_incremented: Mapping[Expression, Operand] = {
    is_expected: increment.expected_epoch.is_set,
    InitProducerId.expected_epoch: increment.expected_epoch.value,
    InitProducerId.transaction_timeout_ms: increment.timeout_ms,
}
incremented = Table(
    transaction,
    on=increment,
    others=(clock,),
    response=Prepared,
    rows=(
        Row(
            "epochs used up",
            when=exhausted,
            reply=_illegal,
            source=f"{_METADATA}.prepareIncrementProducerEpoch",
        ),
        _unless(is_settled),
        _row(init_producer_id, "increment-epoch", _incremented),
        _row(init_producer_id, "bump", _incremented),
        _row(init_producer_id, "retry-of-bump", _incremented),
        _row(init_producer_id, "stale-producer", _incremented),
    ),
)

rotate = event(
    "prepare producer id rotation",
    new_producer_id=PRODUCER_ID,
    timeout_ms=TIMEOUT_MS,
    records_last_epoch=Bool(),
)
rotated = Table(
    transaction,
    on=rotate,
    others=(clock,),
    response=Prepared,
    rows=(
        _unless(is_settled),
        replace(
            _row(
                init_producer_id,
                "rotate-producer-id",
                {
                    offered_id.value: rotate.new_producer_id,
                    is_expected: rotate.records_last_epoch,
                    InitProducerId.transaction_timeout_ms: rotate.timeout_ms,
                },
            ),
            when=True,
        ),
    ),
)

add = event("prepare add partitions", partitions=Set(PARTITION))
added = Table(
    transaction,
    on=add,
    others=(clock,),
    response=Prepared,
    rows=(
        _unless(is_settled | (state == ONGOING)),
        _row(
            add_partitions,
            "add",
            {
                AddPartitionsToTxn.partitions: add.partitions,
                AddPartitionsToTxn.client_transaction_version: 0,
            },
        ),
    ),
)

end = event(
    "prepare abort or commit",
    target=TransactionState,
    client_transaction_version=Int(0, 2),
    next_producer_id=Optional(PRODUCER_ID),
)
_bumps = end.client_transaction_version == 2


def end_table(origins: Expression) -> Table:
    """prepareAbortOrCommit, which comes from one of these states."""
    return Table(
        transaction,
        on=end,
        others=(clock,),
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
            _unless(origins),
            Row(
                "prepare",
                set={
                    pending: end.target,
                    pending_epoch: if_(_bumps, bumped_epoch, producer_epoch),
                    pending_last_epoch: if_(_bumps, producer_epoch, last_producer_epoch),
                    next_id: end.next_producer_id,
                    pending_start_timestamp: if_(is_settled, now, txn_start_timestamp),
                    pending_update_timestamp: now,
                    pending_version: if_(_bumps, 2, 0),
                },
                reply=_done,
                source=f"{_METADATA}.prepareAbortOrCommit",
            ),
        ),
    )


_ends_nothing = (end.target == PREPARE_ABORT) & is_settled & transaction_version_2
ended = end_table((state == ONGOING) | _ends_nothing)

complete = event("prepare complete")
completed = Table(
    transaction,
    on=complete,
    others=(clock,),
    response=Prepared,
    rows=(
        _unless(is_prepared),
        replace(_row(completion_begins, "send-markers", {}), source=f"{_METADATA}.prepareComplete"),
    ),
)

fence = event("prepare fence")
prepared_to_fence = Table(
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
            set={
                pending: PREPARE_EPOCH_FENCE,
                fence_end: some(FenceEnd(producer_id=producer_id, producer_epoch=fence_epoch)),
            },
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
                | ((check.txn_start_timestamp != txn_start_timestamp) & ~is_settled)
            ),
        ),
        _no_fit("never started", _to_complete & (check.txn_start_timestamp == NO_TIMESTAMP)),
        Row("it fits", reply=_done, source=_COMPLETE),
    ),
)

TABLES = (incremented, rotated, added, ended, completed, prepared_to_fence, checked)


class Functions(TransactionCoordinator):
    """A coordinator whose entries' functions can be called by themselves."""

    tables = coordinator.DRIVEN + TABLES

    def prepare(self, transactional_id: str, event: str, **fields: Any) -> str:
        """Prepares a transition: NONE, or the error for a fenced client.

        Raises IllegalStateError or IllegalArgumentError where Kafka does.
        """
        entry = self._at_now(self.entries[transactional_id])
        answer = entry.handle(event, **fields).reply
        _raise(answer.raises, event)
        return answer.error

    def complete(self, transition: TransactionMetadata) -> TransactionMetadata:
        """Applies a transition that was prepared; the entry then. Raises IllegalStateError where
        the entry has changed underneath."""
        name = transition.transactional_id
        entry = self.entries[name]
        answer = entry.handle(
            "check transition",
            state=state_member(transition.state),
            producer_id=transition.producer_id,
            previous_producer_id=max(transition.previous_producer_id, 0),
            producer_epoch=transition.producer_epoch,
            last_producer_epoch=transition.last_producer_epoch,
            txn_timeout_ms=transition.txn_timeout_ms,
            partitions=transition.partitions,
            txn_start_timestamp=transition.txn_start_timestamp,
            client_transaction_version=transition.client_transaction_version,
        ).reply
        _raise(answer.raises, f"completing the transition of {name}")
        if transition.state in ("CompleteCommit", "CompleteAbort"):
            entry.put(partitions=frozenset())
        entry.handle("log append")
        return metadata_of(name, entry)

    def append(
        self,
        transition: TransactionMetadata,
        coordinator_epoch: int,
        log_error: str = "NONE",
        *,
        keeps_pending_for_retry: bool = False,
    ) -> str:
        """Appends a transition that was prepared, to which the log answers `log_error`; the error
        that the caller gets. Raises IllegalStateError where the entry has changed underneath.

        TransactionStateManager.appendTransactionToLog
        """
        name = transition.transactional_id
        answer = self.lookup("OTHER", name)
        if answer.error == "COORDINATOR_LOAD_IN_PROGRESS":
            return answer.error
        if answer.step != "GO_ON" or self.owner_epoch(name) != coordinator_epoch:
            return "NOT_COORDINATOR"
        error = self.append_error(log_error)
        if error == "NONE":
            self.complete(transition)
        elif not (keeps_pending_for_retry and error == "COORDINATOR_NOT_AVAILABLE"):
            self.entries[name].put(pending=None)
        return error


def _raise(raises: str | None, what: str) -> None:
    if raises == "ILLEGAL_STATE":
        raise IllegalStateError(f"{what}: not in this state")
    if raises == "ILLEGAL_ARGUMENT":
        raise IllegalArgumentError(f"{what}: not with these values")
