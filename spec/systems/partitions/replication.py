"""A partition with its replicas: fetch, high watermark, in-sync set, elections, truncation."""

from __future__ import annotations

from ....language import DEFAULT, System, Unreached
from ...lemmas.replication import LEMMAS
from ...properties.partitions.replication import PROPERTIES
from ...releases.features import KAFKA
from ...replication import election, fetch, truncation
from ...replication.state import (
    ACKS,
    CRASHES,
    EXTRA_ENTRIES,
    LEADER_EPOCHS,
    MIN_ISR,
    NOT_ENOUGH_REPLICAS,
    POWER_LOSSES,
    RECORDS,
    REPLICA,
    REPLICAS,
    SESSIONS,
    UNCLEAN_ELECTIONS,
    log,
    newest_epoch,
)
from .. import logs
from ..coverage.recorded_runs import reached

_NOTHING_LOST = (
    (POWER_LOSSES == 0) & (UNCLEAN_ELECTIONS == 0) & ((REPLICAS < 3) | (LEADER_EPOCHS < 3))
)

UNREACHED = (
    Unreached(
        "needs power losses that leave nobody eligible (power_losses=2, or 1 with "
        "min_insync_replicas=1)",
        ("registration.elect/last-known-leader",),
        (POWER_LOSSES == 0) | ((MIN_ISR > 1) & (POWER_LOSSES < 2)),
    ),
)

system = System(
    name="replication",
    doc="A partition's replicas, which the controller makes leader and followers by turns, and the "
    "clients that write to it and read from it.",
    tables=fetch.TABLES + truncation.TABLES + election.TABLES,
    properties=PROPERTIES,
    lemmas=LEMMAS,
    observed=(log,),
    logs=(logs.REPLICA,),
    constants=(
        REPLICAS, RECORDS, LEADER_EPOCHS, ACKS, MIN_ISR, CRASHES, POWER_LOSSES, UNCLEAN_ELECTIONS,
    ),
    fixed={SESSIONS: 1, EXTRA_ENTRIES: 0},
    bounds={
        DEFAULT: {RECORDS: 2},
        "small": {REPLICAS: 2},
        "large": {CRASHES: 2},
        "real": {REPLICAS: 5, RECORDS: 8, LEADER_EPOCHS: 8, CRASHES: 6},
    },
    protocols=KAFKA.of_parts(),
    budgets={
        election.crash: CRASHES,
        election.power_loss: POWER_LOSSES,
        election.elect_unclean: UNCLEAN_ELECTIONS,
    },
    interchangeable=(REPLICA,),
    terminal=newest_epoch == LEADER_EPOCHS,
    unreached=UNREACHED,
    reached=reached(),
    refusals=(NOT_ENOUGH_REPLICAS,),
    reach="three replicas, two records, three elections and one crash at any step; brokers that "
    "hear late of an election, a replica that lags and leaves the in-sync set and comes back, "
    "answers of a fetch that are lost. They don't reach an answer that comes after its epoch, "
    "which a broker of before 2.1 may take; a fetch of a part of what the leader has; a retry of a "
    "producer; the deletion of records; a broker that is killed and yet counts as shut down "
    "cleanly, or the other way round (only a power loss is unclean).",
)  # fmt: skip
