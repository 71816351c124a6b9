"""Rows that are in no shipped system: the oracle alone runs them, and why that is so.

A test holds the list against the declarations. It should get shorter.
"""

from __future__ import annotations

from typing import NamedTuple


class Unexplored(NamedTuple):
    """Why no system has the rows of these machines and tables, or single ones (`table/row`)."""

    reason: str
    names: tuple[str, ...]


UNEXPLORED = (
    Unexplored(
        "a second declaration of the client, at real ranges: systems have the machine producer",
        ("client",),
    ),
    Unexplored(
        "a second declaration of a leader, at real ranges: systems have the machine partition",
        ("leader",),
    ),
    Unexplored(
        "which broker coordinates an id, and how the log's errors are passed on: a system has one "
        "coordinator at a time, and a log that fails or doesn't",
        ("coordinator",),
    ),
    Unexplored(
        "several partitions in one request: in a system there is one in each, with the same rows",
        ("transaction.AddPartitions",),
    ),
    Unexplored(
        "an error that the oracle's user chooses: in a system an append fails or is lost, and the "
        "answers to markers have a table of their own",
        (
            "transaction.append refused",
            "transaction.completion refused",
            "transaction.end by the server",
            "transaction.marker answered",
        ),
    ),
    Unexplored(
        "a function of TransactionMetadata by itself, as Kafka's unit tests call it: in a system "
        "it is part of a request",
        (
            "transaction.check transition",
            "transaction.prepare abort or commit",
            "transaction.prepare add partitions",
            "transaction.prepare complete",
            "transaction.prepare fence",
            "transaction.prepare increment epoch",
            "transaction.prepare producer id rotation",
        ),
    ),
    Unexplored("a listing, which changes nothing", ("transaction.is listed",)),
    Unexplored(
        "which partition a record goes to: in a system the application writes to all of them",
        ("topic",),
    ),
    Unexplored(
        "a controller that isn't active: a system sees the active one alone",
        ("controller.replay",),
    ),
)
