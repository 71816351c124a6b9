"""A read_committed reader of one partition, beside replication and the log cleaner."""

from __future__ import annotations

from ....language import System
from ...properties.partitions.reading import PROPERTIES
from ...reading import partition, reader
from ...reading.state import (
    CLEANINGS,
    ENTRIES,
    FETCH_BATCHES,
    LEADERS,
    PARTIAL_CLEANINGS,
    PRODUCER_ID,
    PRODUCER_IDS,
    READING,
    SEGMENT,
    TRANSACTIONS,
    log,
)
from .. import logs

system = System(
    name="reading",
    doc="A read_committed consumer that fetches in two steps from a partition, whose entries are "
    "replicated late, whose leader may be another one, and whose log is compacted.",
    tables=partition.TABLES + reader.TABLES,
    properties=PROPERTIES,
    observed=(log,),
    logs=(logs.READING,),
    constants=(
        PRODUCER_IDS, TRANSACTIONS, ENTRIES, SEGMENT, FETCH_BATCHES, CLEANINGS, PARTIAL_CLEANINGS,
        LEADERS,
    ),
    bounds={
        "real": {
            PRODUCER_IDS: 3,
            TRANSACTIONS: 4,
            ENTRIES: 8,
            CLEANINGS: 3,
            PARTIAL_CLEANINGS: 2,
            LEADERS: 2,
        },
    },
    protocols=READING,
    budgets={
        partition.clean: CLEANINGS,
        partition.clean_in_part: PARTIAL_CLEANINGS,
        partition.change: LEADERS,
    },
    interchangeable=(PRODUCER_ID,),
    terminal=True,
    reach="two producers, two transactions, five entries with keys of users and of a marker's "
    "bytes, two batches in a response, one run of the cleaner and one change of the leader at any "
    "step. They don't reach a marker that is kept for delete.retention.ms (reading+retention has "
    "it), a follower that has another log (replication has it), a batch of several records, or "
    "several partitions.",
)  # fmt: skip
