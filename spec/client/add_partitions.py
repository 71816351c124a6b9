"""AddPartitionsToTxn, and what a client makes of its answer:
TransactionManager.AddPartitionsToTxnHandler.

The answer is about one partition. At real ranges a request has several: each of them gets what the
request comes to, which its handler finds first.
"""

from __future__ import annotations

from ...language import Expression, Row, Sending, Table, enum, if_, lift, set_of, size
from ...language.expressions import Operand
from ..errors import Errors, asks_again
from ..messages import (
    REAL,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    connection,
    moved,
    producer,
)
from ..releases.features import client_epoch_bump, retried_by_kind
from .answers import in_transaction, is_abortable
from .queue import Request, at_once, taken_up
from .state import ABORTABLE_ERROR, FATAL_ERROR, added, adding, producer_epoch, producer_id, state
from .transaction_manager import (
    RETRY_BACKOFF,
    SHORT_BACKOFF,
    ClientStep,
    Reaction,
    aborting,
    react,
    transaction_started,
)

_ADDED = "TransactionManager.AddPartitionsToTxnHandler.handleResponse"
ADDING_AGAIN = (
    Errors.CONCURRENT_TRANSACTIONS,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
)


PartitionStep = enum(
    "PartitionStep",
    "TAKEN",
    "REFUSED",  # and so is what was asked
    "UNAUTHORIZED",
    "REQUEST",  # the error is the whole request's
)


def partition_step(error: Expression) -> Expression:
    """The outcome for one of the partitions of a request."""
    of_request = (
        asks_again(error, *ADDING_AGAIN, by_kind=retried_by_kind)
        | is_abortable(error)
        | error.is_in(
            Errors.COORDINATOR_NOT_AVAILABLE,
            Errors.NOT_COORDINATOR,
            Errors.INVALID_PRODUCER_EPOCH,
            Errors.PRODUCER_FENCED,
            Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Errors.INVALID_TXN_STATE,
            Errors.INVALID_PRODUCER_ID_MAPPING,
        )
        | (client_epoch_bump & (error == Errors.UNKNOWN_PRODUCER_ID))
    )
    refused = if_(
        error == Errors.TOPIC_AUTHORIZATION_FAILED,
        PartitionStep.UNAUTHORIZED,
        PartitionStep.REFUSED,
    )
    step = if_(of_request, PartitionStep.REQUEST, refused)
    return if_(error == Errors.NONE, PartitionStep.TAKEN, step)


def add(to: Expression, on: Expression) -> Sending:
    """AddPartitionsToTxn for a partition."""
    return AddPartitionsToTxn(
        producer=producer.this,
        partition=to,
        connection=on,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def not_again(when: Operand = True) -> Row:
    """The row for a request that isn't tried again after an error: where there is a queue, it is
    taken from that then."""
    return Row(
        "not tried again after an error",
        when=lift(when) & state.is_in(ABORTABLE_ERROR, FATAL_ERROR),
        only_bounded=True,
        set={adding: set_of()},
        source="TransactionManager.maybeTerminateRequestWithError",
    )


_answer = AddPartitionsToTxnResponse
_error = _answer.error
_again = (at_once(add(_answer.partition, connection)),)
_NO_LONGER_PENDING: dict[Expression, Operand] = {adding: adding - set_of(_answer.partition)}
# After an error nothing is added any more, so that a bounded run forgets what was asked for.
_DROPPED: dict[Expression, Operand] = {adding: if_(REAL == 0, set_of(), adding)}

added_to_transaction = Table(
    producer,
    on=AddPartitionsToTxnResponse,
    response=Reaction,
    rows=taken_up(
        Request.ADD_PARTITIONS_TO_TXN,
        Row(
            "on a closed connection",
            when=_answer.connection != connection,
            only_bounded=True,
        ),
        Row(
            "failed for good before",
            when=state == FATAL_ERROR,
            only_bounded=True,
            source="TransactionManager.transitionTo",
        ),
        Row(
            "added",
            when=_error == Errors.NONE,
            set=_NO_LONGER_PENDING
            | {added: added | set_of(_answer.partition), transaction_started: True},
            reply=react(ClientStep.DONE),
            source=_ADDED,
        ),
        not_again(
            asks_again(_error, *moved, Errors.CONCURRENT_TRANSACTIONS, by_kind=retried_by_kind)
        ),
        Row(
            "the transaction before it is ending",
            when=(_error == Errors.CONCURRENT_TRANSACTIONS) & (size(added) == 0),
            reply=react(
                ClientStep.RETRY,
                backoff_ms=if_(RETRY_BACKOFF < SHORT_BACKOFF, RETRY_BACKOFF, SHORT_BACKOFF),
            ),
            send=_again,
            source="TransactionManager.AddPartitionsToTxnHandler.maybeOverrideRetryBackoffMs",
        ),
        *in_transaction(_error, _ADDED, *ADDING_AGAIN, again=_again, more=_DROPPED),
        aborting("abortable", is_abortable(_error), _error, _ADDED, more=_DROPPED),
        aborting(
            "not authorized for topics",
            _error == Errors.TOPIC_AUTHORIZATION_FAILED,
            _error,
            _ADDED,
            more=_NO_LONGER_PENDING,
        ),
        aborting(
            "some were refused",
            lift(True),
            Errors.KAFKA_EXCEPTION,
            _ADDED,
            more=_NO_LONGER_PENDING,
        ),
    ),
)
