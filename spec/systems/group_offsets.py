"""The offsets that a group commits, in transactions and without, as its coordinator has them."""

from __future__ import annotations

from ...language import System
from ..features import KAFKA
from ..groups import commits, stored
from ..groups.state import GENERATIONS, INPUTS, LEAST_GENERATION, LEAST_OFFSET
from ..messages import (
    FAULTS,
    PRODUCER_IDS,
    PRODUCERS,
    RECORDS,
    SPARE,
    TRANSACTIONS,
)
from ..properties.group_offsets import PROPERTIES

system = System(
    name="group-offsets",
    doc="Offsets of one partition that the members of a group commit, with transactions and "
    "without, and what OffsetFetch tells of them.",
    tables=stored.TABLES,
    properties=PROPERTIES,
    constants=(PRODUCER_IDS, INPUTS, stored.RECORDS, stored.REFUSALS),
    fixed={
        PRODUCERS: 1,
        GENERATIONS: 1,
        LEAST_GENERATION: 0,
        LEAST_OFFSET: 0,
        TRANSACTIONS: 3,
        RECORDS: 1,
        SPARE: 0,
        FAULTS: 0,
    },
    bounds={"default": {INPUTS: 1}, "small": {stored.RECORDS: 3}},
    protocols=KAFKA.of_parts(),
    budgets={commits.refuse: stored.REFUSALS},
    terminal=True,
    reach="two producers, four records and markers, any of them replicated before another one, and "
    "an offset that the leader refuses, at any step. They don't reach another partition or group, "
    "an offset that expires, or who may commit: that is `membership`.",
)
