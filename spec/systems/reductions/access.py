"""Reductions of a broker's authorization of requests."""

from __future__ import annotations

from ....language.instances.reductions import LeftOut, Reduction
from ...access.authorization import AuthorizationResponse

AUTHORIZER: tuple[Reduction, ...] = (
    LeftOut(AuthorizationResponse, because="The properties read the history of the answers."),
)
"""The authorizer."""
