"""Reductions of the machines of a partition leader."""

from __future__ import annotations

from ....language.instances.reductions import NotOffered, Reduction, StandsFor
from ...leader import produce, recovery
from ...leader.state import orphaned
from ...messages import Produce, partition, waiting

_CHECK = "tests/spec/test_leader_refinement.py"

EXPIRED_PRODUCER = StandsFor(
    recovery.is_producer_expired,
    True,
    because="A system has no time: a leader may forget an idle producer at any moment.",
    refined_by=_CHECK,
)
EXPIRED_QUESTION = StandsFor(
    recovery.is_question_expired,
    True,
    because="A system has no time: a leader may forget its question at any moment.",
    refined_by=_CHECK,
)
LEADER: tuple[Reduction, ...] = (
    EXPIRED_PRODUCER,
    EXPIRED_QUESTION,
    NotOffered(
        partition,
        Produce,
        when=produce.needs_verification
        & (waiting[Produce.producer].is_set | Produce.producer.is_in(orphaned)),
        because="A system keeps one batch of a client that waits for the coordinator. The next one "
        "stays in the network until the leader has the answer.",
        refined_by=_CHECK,
    ),
)
"""A leader of partitions with transactions."""
