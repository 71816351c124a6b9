"""Errors in coordinators' answers: TransactionManager.TxnRequestHandler."""

from __future__ import annotations

from ....language import Expression, if_
from ...errors import Errors
from ...releases.features import (
    abortable_error,
    client_epoch_bump,
    errors_reported_alike,
    unknown_id_fatal,
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


def wrapped_before(error: Expression) -> Expression:
    """The fatal error of a handler: INVALID_TXN_STATE was the cause of a KafkaException once."""
    is_wrapped = ~errors_reported_alike & (error == Errors.INVALID_TXN_STATE)
    return if_(is_wrapped, Errors.KAFKA_EXCEPTION, error)


def unknown_id_error(error: Expression) -> Expression:
    """The fatal error for an unknown producer id: unexpected, before a client could bump."""
    return if_(client_epoch_bump, error, Errors.KAFKA_EXCEPTION)
