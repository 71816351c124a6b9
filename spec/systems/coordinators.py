"""Brokers that coordinate a transactional id one after the other."""

from __future__ import annotations

from ...language import Channel, System, weak_fairness
from ..coordinator.state_manager import ownership
from ..properties.coordinators import PROGRESS, PROPERTIES
from ..releases.features import COORDINATOR, KAFKA
from .coverage.unreached_rows import COORDINATORS
from .reductions.coordinator import OWNERSHIP

system = System(
    name="coordinators",
    doc="Brokers lead a partition of the transaction log, one after the other. Each hears of "
    "elections late, loads the log, and answers requests about an id of the partition.",
    tables=ownership.TABLES,
    reductions=OWNERSHIP,
    properties=PROPERTIES,
    progress=PROGRESS,
    fairness=weak_fairness(ownership.LeaderAndIsr, ownership.end_load),
    constants=(ownership.BROKERS, ownership.LEADER_EPOCHS, ownership.TWO_PHASE_ENABLED),
    fixed={
        ownership.STATE_PARTITIONS: 1,
        ownership.MAX_TIMEOUT: 1,
        ownership.LEAST_TIMEOUT: 0,
        ownership.LARGEST_TIMEOUT: 2,
    },
    bounds={"small": {ownership.LEADER_EPOCHS: 1}, "large": {ownership.LEADER_EPOCHS: 4}},
    protocols=KAFKA.of_parts(COORDINATOR),
    channels=(Channel(ownership.LeaderAndIsr, ownership.LEADER_EPOCHS + 1, ordered=True),),
    interchangeable=(ownership.BROKER,),
    unreached=COORDINATORS,
    reach="Two brokers and three elections, each heard of at any time; a load of any length, over "
    "resignations and further elections; every request with all of its values. Not: a second "
    "partition of the log, records that a new leader lacks, and the content of an entry, which "
    "`transactions` has.",
)
