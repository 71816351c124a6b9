"""Reductions of the transaction coordinator's machines."""

from __future__ import annotations

from ....language.reductions import LeftOut, NotOffered, Reduction, StandsFor
from ...coordinator.ownership import (
    LeaderAndIsr,
    Loaded,
    LookupResponse,
    coordinator,
    heard,
    known,
    lookup,
)

_CHECK = "tests/spec/test_coordinator_refinement.py"

OWNERSHIP: tuple[Reduction, ...] = (
    StandsFor(
        LeaderAndIsr.is_loading,
        True,
        because="a new leader always loads the partition",
        refined_by=_CHECK,
    ),
    NotOffered(
        coordinator,
        lookup,
        when=lookup.is_known != known[lookup.state_partition].is_set,
        because="the system has the entries of a broker's memory itself",
    ),
    StandsFor(
        lookup.is_known,
        known[lookup.state_partition].is_set,
        because="no other value is offered",
        refined_by=_CHECK,
    ),
    StandsFor(
        lookup.is_dead,
        False,
        because="whether the entry expires decides an answer, and nothing else",
        refined_by=_CHECK,
    ),
    LeftOut(Loaded, because="the transaction log ignores whether a load was awaited"),
    LeftOut(LookupResponse, because="no machine of the system reads the answer"),
)
"""The brokers of `coordinators`."""

OWNERSHIP_ALONE: tuple[Reduction, ...] = (
    LeftOut(known, because="each entry is a machine of its own, and `is_known` says whether it is"),
    LeftOut(heard, because="only properties read it"),
)
"""A broker at real ranges."""
