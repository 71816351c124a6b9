"""Shipped systems with other reductions, for refinement checks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from epochfence.language import System
from epochfence.language.instances.reductions import Reduction


def restricted(system: System, *more: Reduction, without: Collection[Reduction] = ()) -> System:
    """The system with further reductions, and without some of its own."""
    assert system.reduced is not None
    kept = (one for one in system.reductions if one not in without)
    return replace(system, **system.reduced.given, reductions=(*kept, *more), reduced=None)
