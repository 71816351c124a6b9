"""A leader's answers to a client."""

from __future__ import annotations

from ..language import Expression, Sending
from ..language.expressions import Operand
from .client.state import SENT, batches, txn
from .messages import NO_OFFSET, ProduceResponse
from .releases.features import client_epoch_bump, transactional

compares_offsets = transactional & ~client_epoch_bump
"""Whether the offsets of an answer matter: elsewhere a leader forgets a producer id with the last
of its records alone, or calls none unknown."""


def awaits(client: Expression, where: Expression, which: Expression, of: Expression) -> Expression:
    """Whether a client waits for the answer to a record's batch in transaction `of`."""
    sent = batches.at(client)[where][which].status == SENT
    return sent & (~transactional | (txn.at(client) == of))


def answer_batch(
    client: Expression,
    where: Expression,
    which: Expression,
    of: Expression,
    error: Expression,
    base_offset: Operand = NO_OFFSET,
    log_start_offset: Operand = NO_OFFSET,
) -> Sending:
    """A leader's answer to a batch."""
    return ProduceResponse(
        producer=client,
        partition=where,
        record=which,
        txn=of,
        error=error,
        base_offset=base_offset,
        log_start_offset=log_start_offset,
    )
