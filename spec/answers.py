"""What a network carries of a leader's answers to a client.

A bounded run leaves out an answer that nobody waits for any more: its client would drop it.
"""

from __future__ import annotations

import dataclasses

from ..language import Expression, Sending, if_
from ..language.expressions import Operand
from .client.state import SENT, batches, txn
from .messages import NO_OFFSET, ProduceResponse
from .releases.features import client_epoch_bump, transactional

# A bounded run does without offsets where a leader forgets a producer id with the last of its
# records alone, or calls none unknown.
compares_offsets = transactional & ~client_epoch_bump


def awaits(client: Expression, where: Expression, which: Expression, of: Expression) -> Expression:
    """Whether a client waits for the answer to a record's batch in transaction `of`."""
    sent = batches.at(client)[where][which].status == SENT
    return sent & (~transactional | (txn.at(client) == of))


def bounded_only(sending: Sending) -> Sending:
    """The message as one of bounded runs alone: at real ranges a leader answers its caller."""
    return dataclasses.replace(sending, only_bounded=True)


def answer_batch(
    client: Expression,
    where: Expression,
    which: Expression,
    of: Expression,
    error: Expression,
    base_offset: Operand = NO_OFFSET,
    log_start_offset: Operand = NO_OFFSET,
) -> Sending:
    """A leader's answer to a batch, if its client still waits for one; with offsets where that
    compares them."""
    base_offset, log_start_offset = (
        if_(compares_offsets, offset, NO_OFFSET) for offset in (base_offset, log_start_offset)
    )
    return Sending(
        ProduceResponse,
        ProduceResponse(
            producer=client,
            partition=where,
            record=which,
            txn=of,
            error=error,
            base_offset=base_offset,
            log_start_offset=log_start_offset,
        ).fields,
        when=awaits(client, where, which, of),
        only_bounded=True,
    )
