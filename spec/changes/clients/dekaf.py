"""Dekaf's idempotent client, with the rule that it had of its own."""

from __future__ import annotations

from ....language import Change, Row, replace, set_of
from ...client.batches.accumulator import muted
from ...client.batches.sender import (
    batch,
    can_retry,
    details,
    is_retriable,
    next_attempt,
    reenqueued,
)
from ...messages import ProduceResponse
from ..rules import rule

ambiguity_kept = rule(
    "ambiguity_kept",
    "A batch that may have been appended stays so until its last answer. Before, a retriable "
    "answer to a later attempt cleared it.",
    "Dekaf pull request 3370",
)

dekaf = (
    Change("dekaf", "The client is Dekaf's.", features=(ambiguity_kept,))
    .table("producer.ProduceResponse")
    .before(
        "retriable",
        Row(
            "retriable-counts-as-answered",
            "The error is retriable, and the batch counts as not appended",
            when=can_retry & is_retriable(ProduceResponse.error),
            during=~ambiguity_kept,
            set={
                batch: replace(reenqueued(batch), unanswered=False),
                details: next_attempt(details),
                muted: muted - set_of(ProduceResponse.partition),
            },
            source="Dekaf pull request 3370",
        ),
    )
)
