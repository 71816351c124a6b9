"""What the handlers of coordinators' answers have in common: TransactionManager.TxnRequestHandler.

A row's `Reaction` says what becomes of the request at real ranges. A bounded run keeps no requests:
what is to be tried again, or comes next, is sent at once.
"""

from __future__ import annotations

from ...language import Expression, Row, Sending
from ...language.expressions import Operand
from ..errors import Errors, asks_again
from ..features import abortable_error, retried_by_kind, unknown_id_fatal
from .transaction_manager import ClientStep, fatal, react


def is_abortable(error: Expression) -> Expression:
    """Whether the error says that the transaction can only be aborted."""
    return abortable_error & (error == Errors.TRANSACTION_ABORTABLE)


def is_unknown_id(error: Expression) -> Expression:
    """Whether the coordinator doesn't know the producer id, and its client may go on with a new
    epoch.

    TransactionManager.TxnRequestHandler.abortableErrorIfPossible
    """
    return (error == Errors.UNKNOWN_PRODUCER_ID) | (
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
    told: Expression = Errors.PRODUCER_FENCED,
    during: Operand = True,
) -> Row:
    """The row for a client that has been fenced, which is `told` so."""
    return fatal(
        "fenced",
        error.is_in(Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED),
        told,
        source,
        during,
    )
