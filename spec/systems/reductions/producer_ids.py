"""Reductions of the managers of producer ids."""

from __future__ import annotations

from ....language.reductions import Reduction, StandsFor
from ...producer_ids.rpc_manager import has_backed_off

RPC_MANAGER: tuple[Reduction, ...] = (
    StandsFor(
        has_backed_off,
        True,
        because="A system has no time: the backoff may be over at any moment.",
    ),
)
"""The manager of a broker that asks the controller."""
