"""Shipped systems with other reductions, for refinement checks, and the steps without them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from epochfence.checker.check import Options, check
from epochfence.checker.refinement import whole_system
from epochfence.language import Change, System, instantiate
from epochfence.language.instances.reductions import Never, Reduction


def restricted(system: System, *more: Reduction, without: Collection[Reduction] = ()) -> System:
    """The system with further reductions, and without some of its own."""
    assert system.reduced is not None
    kept = (one for one in system.reductions if one not in without)
    return replace(system, **system.reduced.given, reductions=(*kept, *more), reduced=None)


NO_FAULTS = dict.fromkeys(
    (
        "losses", "crashes", "timeouts", "expiries", "failovers", "append_failures", "id_expiries",
        "delays", "leader_changes", "deletions", "producer_expiries",
    ),
    0,
)  # fmt: skip
"""The kinds of faults of `transactions`, each left out."""
WHOLE_RUN = Options(deadlock=False, slicing=False, keep_going=True, brief=True)


def withheld(
    system: System,
    reduction: Reduction,
    *,
    changes: Sequence[Change] = (),
    depth: int | None = None,
    **settings: Any,
) -> int:
    """The number of steps, up to a depth, that a system lacks by a reduction that restricts the
    environment. A restricted system has no steps of its own. The `changes` are made to both
    systems."""
    options = replace(WHOLE_RUN, depth=depth)
    whole, reduced = (
        check(instantiate(reduce(add, changes, each), **settings), options)
        for each in (whole_system(system, reduction), system)
    )
    return whole.transitions - reduced.transitions


def taken(system: System, never: Never, **settings: Any) -> dict[str, int]:
    """How often a run of the whole system takes each of the rows that a system never has, of those
    that are there in the release."""
    result = check(instantiate(whole_system(system, never), **settings), WHOLE_RUN)
    return {name: count for name, count in result.rows if name in never.labels}
