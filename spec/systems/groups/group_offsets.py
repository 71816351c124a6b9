"""The offsets that a group commits, in transactions and without, as its coordinator has them."""

from __future__ import annotations

import dataclasses

from ....language import System
from ...groups.coordinator_load import FAILOVERS, fail_over
from ...groups.log import RECORDS as OFFSET_RECORDS
from ...groups.offsets import offset_storage
from ...groups.offsets.offset_metadata import refuse
from ...groups.state import GENERATIONS, INPUTS, LEAST_GENERATION, LEAST_OFFSET
from ...messages import (
    FAULTS,
    PRODUCER_IDS,
    PRODUCERS,
    RECORDS,
    SPARE,
    TRANSACTIONS,
)
from ...properties.groups.group_offsets import PROPERTIES
from ...releases.features import KAFKA
from .. import logs
from ..reductions.groups import OFFSET_STORAGE

base = System(
    name="group-offsets",
    doc="Offsets of one partition that the members of a group commit, with transactions and "
    "without, and what OffsetFetch returns.",
    tables=offset_storage.TABLES,
    reductions=OFFSET_STORAGE,
    properties=(),
    constants=(
        PRODUCER_IDS,
        INPUTS,
        OFFSET_RECORDS,
        offset_storage.REFUSALS,
        FAILOVERS,
    ),
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
    bounds={
        "default": {INPUTS: 1},
        "small": {OFFSET_RECORDS: 3},
        "real": {
            PRODUCER_IDS: 4,
            INPUTS: 8,
            OFFSET_RECORDS: 6,
            offset_storage.REFUSALS: 2,
            FAILOVERS: 3,
        },
    },
    protocols=KAFKA.of_parts(),
    budgets={
        refuse: offset_storage.REFUSALS,
        fail_over: FAILOVERS,
    },
    logs=(logs.OFFSETS,),
    terminal=True,
    reach="two producers, four records and markers, any of them replicated before another one, an "
    "offset that the leader refuses, and two brokers that take over as the coordinator, at any "
    "step. They don't reach another partition or group, an offset that expires, or who may commit: "
    "that is `membership`.",
)
"""The coordinator and the log, which don't know each other."""

system = dataclasses.replace(
    base + offset_storage.storage, name=base.name, doc=base.doc, properties=PROPERTIES
)
