"""Rows that are in no shipped system: the oracle alone runs them, and why that is so.

A test holds the list against the declarations. It should get shorter.
"""

from __future__ import annotations

from typing import NamedTuple


class Unexplored(NamedTuple):
    """Why no system has the rows of these machines and tables, or single ones (`table/row`)."""

    reason: str
    names: tuple[str, ...]


# The rows of calls, whose events systems have, too.
_CALLS = {
    "initTransactions": ("closed", "initialized before", "go on with it"),
    "beginTransaction": ("closed", "not ready"),
    "commitTransaction": ("nothing to commit now", "go on with it", "begun"),
    "abortTransaction": ("nothing to abort now", "go on with it", "begun"),
}
_ALL_CALLS = (
    "an error that is told as it is", "an error", "no transactional id",
    "another call must be finished",
)  # fmt: skip

UNEXPLORED = (
    Unexplored(
        "a second declaration of what a client is asked and answered, at real ranges, with "
        "the tables of other events in systems",
        (*(f"producer.{call}/{row}" for call in _CALLS for row in (*_CALLS[call], *_ALL_CALLS)),),
    ),
    Unexplored(
        "the queue of a client's requests: in a system they are sent at once, and find the "
        "coordinator",
        (
            "producer.ask for partitions",
            "producer.next request",
            "producer.send request",
            "producer.answer lost",
            "producer.version mismatch",
            "producer.FindCoordinator answered",
        ),
    ),
    Unexplored(
        "offsets of consumer groups, which no system has",
        (
            "producer.sendOffsetsToTransaction",
            "producer.AddOffsetsToTxn answered",
            "producer.TxnOffsetCommit for a partition",
        ),
    ),
    Unexplored(
        "calls out of turn, and errors from elsewhere: in a system the application calls in turn",
        (
            "producer.send",
            "producer.send failed",
            "producer.acknowledge call",
            "producer.close",
            "producer.error",
            "producer.want a producer id",
            "producer.give up initializing",
        ),
    ),
    Unexplored(
        "batches of many records: in a system a batch has one",
        ("producer.append",),
    ),
    Unexplored(
        "an answer to a client without transactional id: in a system that is the event producer id "
        "given out",
        (
            "producer.InitProducerIdResponse/try again with any broker",
            "producer.InitProducerIdResponse/fatal",
        ),
    ),
)
