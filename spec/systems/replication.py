"""A partition with its replicas: fetch, high watermark, in-sync set, elections, truncation."""

from __future__ import annotations

from ...language import System, Unreached
from ..features import KAFKA, truncated_by_epoch
from ..properties.replication import PROPERTIES
from ..replication import election, fetch, truncation
from ..replication.state import (
    ACKS,
    CRASHES,
    EXTRA_ENTRIES,
    LEADER_EPOCHS,
    MIN_ISR,
    POWER_LOSSES,
    RECORDS,
    REPLICA,
    REPLICAS,
    SESSIONS,
    UNCLEAN_ELECTIONS,
    log,
    newest_epoch,
)

UNREACHED = (
    Unreached(
        "impossible: a follower that truncates by leader epoch has nothing left beyond its "
        "leader's log",
        ("replica.fetch/offset out of range",),
        truncated_by_epoch,
    ),
    Unreached(
        "need two records and three elections (records=2, leader_epochs=3): two leaders append, "
        "neither with the other's record, and one of them leads again",
        ("replica.OffsetForLeaderEpoch/ask again",),
        (RECORDS < 2) | (LEADER_EPOCHS < 3),
    ),
)

system = System(
    name="replication",
    doc="A partition's replicas, which the controller makes leader and followers by turns, and the "
    "clients that write to it and read from it.",
    tables=fetch.TABLES + truncation.TABLES + election.TABLES,
    properties=PROPERTIES,
    observed=(log,),
    constants=(
        REPLICAS, RECORDS, LEADER_EPOCHS, ACKS, MIN_ISR, CRASHES, POWER_LOSSES, UNCLEAN_ELECTIONS,
    ),
    fixed={SESSIONS: 1, EXTRA_ENTRIES: 0},
    bounds={"small": {REPLICAS: 2}, "large": {CRASHES: 2}},
    protocols=KAFKA.of_parts(),
    budgets={
        election.crash: CRASHES,
        election.power_loss: POWER_LOSSES,
        election.elect_unclean: UNCLEAN_ELECTIONS,
    },
    interchangeable=(REPLICA,),
    terminal=newest_epoch == LEADER_EPOCHS,
    unreached=UNREACHED,
    reach="three replicas, two records, three elections and one crash at any step; brokers that "
    "hear late of an election, a replica that lags and leaves the in-sync set and comes back, "
    "answers of a fetch that are lost. They don't reach a fetch that is taken in another epoch, "
    "what a broker of before 2.1 may do; a fetch of a part of what the leader has; a retry of a "
    "producer; the deletion of records; eligible leader replicas (KIP-966).",
)  # fmt: skip
