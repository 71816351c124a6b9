"""Errors that make a client fail, but aren't in an answer to a batch."""

from __future__ import annotations

from ....language import Bool, Row, Table, event, some
from ...errors import Errors
from ...messages import producer
from ...releases.features import failed_send_counts, transactional
from ...releases.proposals import failed_send_leaves_end
from .. import state as client
from .transaction_manager import (
    TO_ABORTABLE,
    CallResult,
    ClientStep,
    Reaction,
    abortable_cause,
    batch_error,
    call_result,
    fatal_error,
    is_fatal,
    last_error,
    may_abort,
    must_bump_after_abort,
    pending_call,
    react,
)

send_failure = event(
    "send failed",
    error=Errors,
    event_doc="A record has failed before it was in a batch, while the application waits.",
)
send_failed = Table(
    producer,
    on=send_failure,
    response=Reaction,
    when=send_failure.error != Errors.NONE,
    doc="KafkaProducer.doSend calls TransactionManager.maybeTransitionToErrorState.",
    rows=(
        Row(
            "not-counted",
            "The record fails, and the client doesn't",
            during=~failed_send_counts,
            reply=react(ClientStep.GO_ON),
            source="KafkaProducer.doSend before 3.2",
        ),
        Row(
            "fatal",
            "The client is fenced, or isn't authorized: it can't go on",
            when=is_fatal(send_failure.error),
            goto=client.FATAL_ERROR,
            set={
                last_error: some(fatal_error(send_failure.error)),
                call_result: CallResult.FAILED,
                client.txn: None,
                client.ending: False,
                client.bump_asked: False,
            },
            reply=react(
                ClientStep.FAIL, fatal_error(send_failure.error), ends_call=pending_call.is_set
            ),
            source="TransactionManager.maybeTransitionToErrorState",
        ),
        Row(
            "no-transactional-id",
            "A client without transactional id goes on",
            when=~transactional,
            reply=react(ClientStep.GO_ON),
            source="TransactionManager.maybeTransitionToErrorState",
        ),
        Row(
            "no-transaction",
            "The record belongs to no transaction, because that is ending",
            when=(client.state == client.INITIALIZING) | client.is_completing(client.state),
            during=failed_send_leaves_end,
            reply=react(ClientStep.GO_ON),
            source="docs/findings.md, 14",
        ),
        Row(
            "illegal-state",
            "The client's state allows no abort: the send raises IllegalStateException",
            when=~may_abort & (client.state != client.ABORTING),
            set={client.must_bump: must_bump_after_abort},
            reply=react(ClientStep.FAIL, Errors.ILLEGAL_STATE),
            source="TransactionManager.maybeTransitionToErrorState, transitionTo",
        ),
        Row(
            "abortable",
            "The transaction can only be aborted",
            goto=TO_ABORTABLE,
            set={
                last_error: abortable_cause(batch_error(send_failure.error)),
                client.must_bump: must_bump_after_abort,
                client.ending: client.ending & (client.state == client.ABORTING),
                client.bump_asked: client.bump_asked & (client.state == client.ABORTING),
            },
            reply=react(ClientStep.FAIL, send_failure.error),
            source="TransactionManager.maybeTransitionToErrorState",
        ),
    ),
)

raise_error = event("error", error=Errors, is_fatal=Bool())
error_raised = Table(
    producer,
    on=raise_error,
    response=Reaction,
    when=raise_error.error != Errors.NONE,
    rows=(
        Row(
            "fatal",
            "The client can't go on",
            when=raise_error.is_fatal,
            goto=client.FATAL_ERROR,
            set={
                last_error: some(raise_error.error),
                call_result: CallResult.FAILED,
                client.txn: None,
                client.ending: False,
                client.bump_asked: False,
            },
            reply=react(ClientStep.FAIL, raise_error.error, ends_call=pending_call.is_set),
            source="TransactionManager.transitionToFatalError",
        ),
        Row(
            "abortable",
            "The transaction can only be aborted",
            goto=TO_ABORTABLE,
            set={last_error: abortable_cause(raise_error.error)},
            reply=react(ClientStep.FAIL, raise_error.error),
            source="TransactionManager.transitionToAbortableError",
        ),
    ),
)

TABLES = (send_failed, error_raised)
