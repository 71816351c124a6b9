"""A client without a rival, as properties use the term."""

from __future__ import annotations

from ....language import Expression, all_of
from ...client import state as client
from ...messages import PRODUCER, connection


def has_no_rival(who: Expression) -> Expression:
    """There has been no other instance than this one, it hasn't been restarted, and none of its
    requests is late."""
    other = PRODUCER.variable("rival")
    is_unused = (other == who) | (client.state.at(other) == client.UNINITIALIZED)
    return all_of(other, (connection.at(other) == 0) & is_unused)
