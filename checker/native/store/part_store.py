"""From whole states to their parts: plans how to cut a store's states, and moves them to another
store.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..search.vectors import gathered
from ..search.worker import Worker
from .part_plan import SAMPLE, Plan, plan
from .store import SHARDS, Store

DIVIDED_FROM = 1 << 17  # least states to cut into parts


def cut_of(store: Store) -> Plan | None:
    """Plans how to cut a store's states, from a sample; None if whole states take as little
    memory.
    """
    step = max(1, int(store.counts.sum()) // SAMPLE)
    return plan(np.concatenate([states[::step] for states in gathered(store.all_rows())]))


def taken_over(
    whole: Store, levels: Iterable[Sequence[int]], into: Store, worker: Worker
) -> list[list[int]] | None:
    """Copies levels from one store into another. Each level is given by the number of states in
    each shard at its end.

    Returns the levels in the new store, or None if there is no room.
    """
    worker.work_on(0 if into.parts is None else len(into.rows_of_parts))
    found: list[list[int]] = []
    starts: Sequence[int] = [0] * SHARDS
    for ends in levels:
        if not worker.put(whole.between(starts, ends), into):
            return None
        found.append(into.counts.tolist())
        starts = ends
    return found
