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
        "a transactional id without an epoch: in a system it isn't there",
        ("transaction.transactional id expiry/no epoch to prepare",),
    ),
)
