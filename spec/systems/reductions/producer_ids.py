"""Reductions of the managers of producer ids."""

from __future__ import annotations

from ....language.instances.reductions import Chosen, LeftOut, Reduction
from ...messages import NO_TIMESTAMP
from ...producer_ids.controller import backoff_deadline
from ...producer_ids.rpc_manager import has_backed_off, may_request, request_block
from ...producer_ids.state import HandedOut
from ...releases.features import block_awaited_elsewhere

MANAGERS: tuple[Reduction, ...] = (
    Chosen(
        has_backed_off,
        request_block,
        "has_backed_off",
        when=block_awaited_elsewhere & may_request & (backoff_deadline != NO_TIMESTAMP),
        because="A system has no time: the backoff may be over at any moment.",
        refined_by="tests/spec/test_time_refinement.py",
    ),
    LeftOut(HandedOut, because="The properties read the history of the ids that are handed out."),
)
"""The managers of a broker, with ZooKeeper and with the controller."""
