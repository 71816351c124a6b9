"""AddPartitionsToTxn, and what a client makes of its answer:
TransactionManager.AddPartitionsToTxnHandler.

The answer is about one partition. At real ranges a request has several: each of them gets what the
request comes to, which its handler finds first.
"""

from __future__ import annotations

from ...language import Expression, Row, Sending, Table, if_, lift, set_of, size
from ...language.expressions import Operand
from ..errors import Errors, asks_again
from ..features import retried_by_kind
from ..messages import (
    REAL,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    connection,
    moved,
    producer,
)
from .answers import in_transaction, is_abortable
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
    """The row for a request that isn't tried again after an error: at real ranges it is taken from
    the queue then."""
    return Row(
        "not tried again after an error",
        when=lift(when) & state.is_in(ABORTABLE_ERROR, FATAL_ERROR),
        set={adding: set_of()},
        source="TransactionManager.maybeTerminateRequestWithError",
    )


_answer = AddPartitionsToTxnResponse
_error = _answer.error
_again = (add(_answer.partition, connection),)
_NO_LONGER_PENDING: dict[Expression, Operand] = {adding: adding - set_of(_answer.partition)}
# After an error nothing is added any more, so that a bounded run forgets what was asked for.
_DROPPED: dict[Expression, Operand] = {adding: if_(REAL == 0, set_of(), adding)}
_IS_BOUNDED = REAL == 0

added_to_transaction = Table(
    producer,
    on=AddPartitionsToTxnResponse,
    response=Reaction,
    rows=(
        Row("on a closed connection", when=_answer.connection != connection),
        Row(
            "failed for good before",
            when=_IS_BOUNDED & (state == FATAL_ERROR),
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
            _IS_BOUNDED
            & asks_again(_error, *moved, Errors.CONCURRENT_TRANSACTIONS, by_kind=retried_by_kind)
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
