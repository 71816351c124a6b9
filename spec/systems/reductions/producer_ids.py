"""Reductions of the managers of producer ids."""

from __future__ import annotations

from ....language.instances.reductions import LeftOut, Reduction, StandsFor
from ...producer_ids.rpc_manager import has_backed_off
from ...producer_ids.state import HandedOut

MANAGERS: tuple[Reduction, ...] = (
    StandsFor(
        has_backed_off,
        True,
        because="A system has no time: the backoff may be over at any moment. A call that would "
        "fail before its end waits for it instead.",
        refined_by="tests/spec/test_time_refinement.py",
    ),
    LeftOut(HandedOut, because="The properties read the history of the ids that are handed out."),
)
"""The managers of a broker, with ZooKeeper and with the controller."""
