"""From whole states to their parts: how a store's states are cut, and how another one takes them
over."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..search.vectors import gathered
from ..search.worker import Worker
from .part_plan import SAMPLE, Plan, plan
from .store import SHARDS, Store

DIVIDED_FROM = 1 << 17  # states from which on they are kept by their parts, where that pays


def cut_of(store: Store) -> Plan | None:
    """How to cut a store's states, by a sample of them; None where whole states are as good."""
    step = max(1, int(store.counts.sum()) // SAMPLE)
    return plan(np.concatenate([states[::step] for states in gathered(store.all_rows())]))


def taken_over(
    whole: Store, levels: Iterable[Sequence[int]], into: Store, worker: Worker
) -> list[list[int]] | None:
    """Puts levels, given by the states of each shard at their ends, from one store into another.

    Returns the levels there, None where there is no room.
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
