"""How records that get into no batch, and errors from elsewhere, make a client fail."""

from __future__ import annotations

from ...language import Bool, Expression, Row, Table, event, lift
from ..errors import Errors
from ..messages import producer
from ..releases.features import failed_send_counts, transactional
from ..releases.proposals import failed_send_leaves_end
from .queue import batches_are_left, in_order, is_distinguished
from .state import ABORTING, INITIALIZING, is_completing, state
from .transaction_manager import (
    TO_ABORTABLE,
    ClientStep,
    Reaction,
    aborting,
    batch_failed,
    fatal,
    fatal_error,
    is_fatal,
    may_abort,
    react,
)


def _is_one(error: Expression) -> Expression:
    return (error != Errors.NONE) & is_distinguished(error) & in_order


send_failure = event(
    "send failed", error=Errors,
    event_doc="A record has failed before it was in a batch, while the application waits.",
)  # fmt: skip
_TO_ERROR = "TransactionManager.maybeTransitionToErrorState"
send_failed = Table(
    producer,
    on=send_failure,
    response=Reaction,
    when=_is_one(send_failure.error),
    rows=(
        Row(
            "the record's alone, in this release",
            during=~failed_send_counts,
            reply=react(ClientStep.GO_ON),
            source="KafkaProducer.doSend before 3.2",
        ),
        fatal("fatal", is_fatal(send_failure.error), fatal_error(send_failure.error), _TO_ERROR),
        Row(
            "the record's alone",
            when=~lift(transactional),
            reply=react(ClientStep.GO_ON),
            source=_TO_ERROR,
        ),
        Row(
            "of no transaction, as that ends",
            when=(state == INITIALIZING) | is_completing(state),
            during=failed_send_leaves_end,
            reply=react(ClientStep.GO_ON),
            source="docs/findings.md, 14",
        ),
        Row(
            "out of turn",
            when=~may_abort & (state != ABORTING),
            reply=react(ClientStep.FAIL, Errors.ILLEGAL_STATE),
            source="TransactionManager.transitionTo",
        ),
        Row(
            "the transaction's",
            goto=TO_ABORTABLE,
            set=batch_failed(send_failure.error),
            reply=react(ClientStep.FAIL, send_failure.error),
            source=_TO_ERROR,
        ),
    ),
)

raise_error = event("error", error=Errors, is_fatal=Bool())
error_raised = Table(
    producer,
    on=raise_error,
    response=Reaction,
    when=_is_one(raise_error.error) & (raise_error.is_fatal | batches_are_left),
    rows=(
        fatal(
            "fatal",
            raise_error.is_fatal,
            raise_error.error,
            "TransactionManager.transitionToFatalError",
        ),
        aborting(
            "abortable",
            lift(True),
            raise_error.error,
            "TransactionManager.transitionToAbortableError",
        ),
    ),
)

TABLES = (send_failed, error_raised)
