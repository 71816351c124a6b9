"""A consumer group, and members that ask its coordinator for anything at any time."""

from __future__ import annotations

import dataclasses

from ....language import System, weak_fairness
from ...coordinator.state_manager.ownership import LARGEST_TIMEOUT, LEAST_TIMEOUT
from ...groups.members import classic_group, membership_history
from ...groups.state import GENERATIONS, INPUTS, INSTANCES, LEAST_GENERATION, LEAST_OFFSET
from ...messages import FAULTS, PRODUCER_IDS, PRODUCERS, RECORDS, SPARE, TRANSACTIONS
from ...properties.groups.membership import PROGRESS, PROPERTIES
from ...releases.features import KAFKA
from ..coverage.recorded_runs import reached
from ..reductions.groups import MEMBERSHIP

base = System(
    name="membership",
    doc="A group's coordinator and its members, with instance ids or without: each request of "
    "theirs, at any time and in any order, sessions that end, and offsets that they commit.",
    tables=membership_history.REQUESTS,
    reductions=MEMBERSHIP,
    properties=(),
    # silent members go at last, and a rebalance takes no longer than it may
    fairness=weak_fairness(classic_group.complete, classic_group.expire),
    constants=(PRODUCERS, GENERATIONS, INSTANCES),
    fixed={
        LEAST_GENERATION: -1,
        LEAST_OFFSET: 0,
        INPUTS: 1,
        PRODUCER_IDS: 1,
        TRANSACTIONS: 1,
        RECORDS: 1,
        SPARE: 0,
        FAULTS: 0,
        LEAST_TIMEOUT: 0,
        LARGEST_TIMEOUT: 2,
        classic_group.MIN_SESSION: 1,
        classic_group.MAX_SESSION: 1,
    },
    bounds={
        "default": {PRODUCERS: 3, GENERATIONS: 2},
        "small": {PRODUCERS: 2},
        "real": {PRODUCERS: 4, GENERATIONS: 8, INSTANCES: 2},
    },
    protocols=KAFKA.of_parts(),
    terminal=True,
    reach="three member ids, one instance id, two generations; every request, with everything that "
    "it may say, at any time, however late. They don't reach a fourth member id, a second instance "
    "id (instances=2), a coordinator that fails over, members that assign together over several "
    "rebalances, or what an assignment says. A group that is deleted goes on counting its "
    "generations here. What is committed is in `group-offsets`.",
)
"""The group, without the history of its responses."""

system = dataclasses.replace(
    base + membership_history.history,
    name=base.name,
    doc=base.doc,
    properties=PROPERTIES,
    progress=PROGRESS,
    reached=reached(),
)
