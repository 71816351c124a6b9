"""What the handlers of coordinators' answers have in common: TransactionManager.TxnRequestHandler.

A row's `Reaction` says what becomes of the request at real ranges. A bounded run keeps no requests:
what is to be tried again, or comes next, is sent at once.
"""

from __future__ import annotations

from ...language import Expression, Row, Sending, if_
from ...language.expressions import Operand
from ..errors import Errors, asks_again
from ..releases.features import (
    abortable_error,
    client_epoch_bump,
    errors_reported_alike,
    retried_by_kind,
    unknown_id_fatal,
)
from .transaction_manager import (
    NEEDS_BUMP,
    ClientStep,
    aborting,
    can_bump,
    fatal,
    react,
    transaction_coordinator,
)


def is_abortable(error: Expression) -> Expression:
    """Whether the transaction can only be aborted after this error."""
    return abortable_error & (error == Errors.TRANSACTION_ABORTABLE)


def is_unknown_id(error: Expression) -> Expression:
    """Whether the coordinator doesn't know the producer id, and its client may go on with a new
    epoch.

    TransactionManager.TxnRequestHandler.abortableErrorIfPossible
    """
    return (client_epoch_bump & (error == Errors.UNKNOWN_PRODUCER_ID)) | (
        ~unknown_id_fatal & (error == Errors.INVALID_PRODUCER_ID_MAPPING)
    )


def moved(
    error: Expression, coordinator: Expression, source: str, again: tuple[Sending, ...] = ()
) -> Row:
    """The row for a coordinator that is another one now."""
    return Row(
        "the coordinator has moved",
        when=error.is_in(Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR),
        set={coordinator: False},
        reply=react(ClientStep.LOOK_UP),
        send=again,
        source=source,
    )


def tried_again(
    error: Expression,
    source: str,
    *named: Expression,
    by_kind: Expression = retried_by_kind,
    again: tuple[Sending, ...] = (),
) -> Row:
    """The row for what is asked again: after a retriable error, or before only one of `named`."""
    return Row(
        "try again",
        when=asks_again(error, *named, by_kind=by_kind),
        reply=react(ClientStep.RETRY),
        send=again,
        source=source,
    )


def fenced(
    error: Expression,
    source: str,
    raised: Expression = Errors.PRODUCER_FENCED,
    during: Operand = True,
) -> Row:
    """The row for a client that has been fenced, with the error that it raises."""
    return fatal(
        "fenced",
        error.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED),
        raised,
        source,
        during,
    )


def in_transaction(
    error: Expression,
    source: str,
    *named: Expression,
    again: tuple[Sending, ...] = (),
    more: dict[Expression, Operand] | None = None,
) -> tuple[Row, ...]:
    """Rows for errors that the coordinator may answer to any request about a transaction.

    The request was tried again after those `named` alone. `more` is set where the transaction can
    only be aborted.
    """
    lost = is_unknown_id(error)
    wrapped = ~errors_reported_alike & (error == Errors.INVALID_TXN_STATE)
    return (
        moved(error, transaction_coordinator, source, again),
        tried_again(error, source, *named, again=again),
        fenced(error, source),
        fatal(
            "fatal error",
            error.is_in(
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.INVALID_TXN_STATE,
                Errors.INVALID_PRODUCER_ID_MAPPING,
            )
            & ~lost,
            if_(wrapped, Errors.KAFKA_EXCEPTION, error),
            source,
        ),
        aborting(
            "unknown producer id: a new epoch after the abort",
            lost & can_bump,
            error,
            "TransactionManager.abortableErrorIfPossible",
            more=NEEDS_BUMP | (more or {}),
        ),
        fatal(
            "unknown producer id, and no new epoch to be had",
            lost,
            if_(client_epoch_bump, error, Errors.KAFKA_EXCEPTION),
            "TransactionManager.abortableErrorIfPossible",
        ),
    )
