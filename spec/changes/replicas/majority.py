"""Replication by majority: a record counts once most replicas have it, and most of them elect.

The votes are Raft's, in one step: a voter hears of the election as it votes, and follows. Kafka's
partitions wait for all replicas of the in-sync set instead, and a replica of that set leads.
"""

from __future__ import annotations

from dataclasses import replace

from ....language import (
    Change,
    Expression,
    Refusal,
    Row,
    System,
    Table,
    all_of,
    any_of,
    each,
    element,
    event,
    failure,
    if_,
    invariant,
    majority,
    max_of,
    maximum,
    position,
    set_of,
    size,
    some,
    those,
)
from ...properties.partitions.replication import any_record, newest_leader
from ...replication import fetch
from ...replication import state as replicas
from ...replication.election import may_lead, runs
from ...replication.state import LEADER_EPOCHS, REPLICA, REPLICAS, UNKNOWN, State, replica
from ..rules import rule

all_in_sync = rule(
    "all_in_sync",
    "A record is acknowledged once all replicas of the in-sync set have it, and one of them is "
    "elected. Otherwise most of all replicas have it, and most of them elect.",
    "KIP-966, Kafka's documentation: Replicated Logs: Quorums, ISRs, and State Machines",
)
i, r, s = REPLICA.variable("i"), REPLICA.variable("r"), REPLICA.variable("s")

# The high watermark -----------------------------------------------------------------------------


def majority_has(leader: Expression, entries: Expression, offsets: Expression) -> Expression:
    """A leader's high watermark by majority, once it has this log and these fetch offsets: up to an
    entry of its own epoch."""
    end = if_(r == leader, size(entries), offsets[r])
    other = if_(s == leader, size(entries), offsets[s])
    reached = max_of(r, if_(majority(those(s, other >= end), REPLICA), end, 0))
    entry = element("entry", entries)
    is_own = any_of(
        entry,
        (position(entry) + 1 == reached) & (entry.leader_epoch == replicas.leader_epoch.at(leader)),
    )
    before = replicas.high_watermark.at(leader)
    return if_(is_own, maximum(before, reached), before)


fetched_leader = fetch.fetch.leader
fetch_high_watermark = majority_has(fetched_leader, fetch.fetch_log, fetch.fetch_offsets)
acknowledged_by_fetch = fetch.acknowledged_up_to(
    fetched_leader, fetch.fetch_log, replicas.isr.at(fetched_leader), fetch_high_watermark
)

# The election -----------------------------------------------------------------------------------


def is_up_to_date(candidate: Expression, voter: Expression) -> Expression:
    """Whether a candidate's log is no older than a voter's."""
    mine, other = replicas.log.at(candidate), replicas.log.at(voter)
    epoch = replicas.newest_up_to(mine, LEADER_EPOCHS)
    newest = replicas.newest_up_to(other, LEADER_EPOCHS)
    return (epoch > newest) | ((epoch == newest) & (size(mine) >= size(other)))


def is_voted(candidate: Expression, voter: Expression) -> Expression:
    """Whether the votes of both, a majority of up to three replicas, elect the candidate."""
    both_run = runs(candidate) & runs(voter) & (candidate != voter)
    return both_run & is_up_to_date(candidate, voter)


vote = event("vote", candidate=REPLICA, voter=REPLICA)
votes = Table(
    replicas.registration,
    on=vote,
    others=(replica,),
    when=(0 < replicas.newest_epoch)
    & (replicas.newest_epoch < LEADER_EPOCHS)
    & (replicas.elected != vote.candidate)
    & (vote.candidate != vote.voter)
    & runs(vote.candidate)
    & runs(vote.voter),
    rows=(
        Row(
            "log-is-older",
            "The candidate's log is older than the voter's: it doesn't get the vote",
            when=~is_up_to_date(vote.candidate, vote.voter),
            during=~all_in_sync,
            source="Raft, 5.4.1",
        ),
        Row(
            "most-vote",
            "The candidate has most votes, and the voter follows it",
            set={
                replicas.elected: some(vote.candidate),
                replicas.newest_epoch: replicas.newest_epoch + 1,
                replicas.state.at(vote.voter): State.TRUNCATING,
                replicas.leader_epoch.at(vote.voter): replicas.newest_epoch + 1,
                replicas.following.at(vote.voter): None,
                replicas.isr.at(vote.voter): set_of(),
                replicas.fetched.at(vote.voter): each(r, UNKNOWN),
                replicas.epoch_start.at(vote.voter): 0,
            },
            during=~all_in_sync,
            source="Raft, 5.2 and 5.4.1",
        ),
    ),
)

# What separates them ----------------------------------------------------------------------------

may_be_elected = if_(all_in_sync, may_lead(i) & runs(i), any_of(s, is_voted(i, s)))
log_entry = element("entry", replicas.log.at(i))
has_acknowledged = all_of(
    any_record,
    any_record.is_in(replicas.acknowledged).implies(
        any_of(log_entry, log_entry.record == any_record)
    ),
)
survivor_leads = invariant(
    "SurvivorLeads",
    ((replicas.newest_epoch > 0) & any_of(i, i.is_in(replicas.in_sync) & runs(i))).implies(
        any_of(i, may_be_elected & has_acknowledged)
    ),
    "As long as a replica of the in-sync set runs, one can be elected that has every acknowledged "
    "record.",
    "Kafka's documentation: Replicated Logs: Quorums, ISRs, and State Machines",
    failure=failure(
        "of {} some run, and none with every acknowledged record can be elected", replicas.in_sync
    ),
)
majority_is_enough = invariant(
    "MajorityIsEnough",
    all_of(
        i,
        log_entry,
        (
            newest_leader
            & replicas.acks_all
            & (log_entry.leader_epoch == replicas.leader_epoch.at(i))
            & majority(
                those(s, (s == i) | (replicas.fetched.at(i)[s] > position(log_entry))), REPLICA
            )
        ).implies(log_entry.record.is_in(replicas.acknowledged)),
    ),
    "A record that most replicas have is acknowledged: no slow one holds it up.",
    "Kafka's documentation: Replicated Logs: Quorums, ISRs, and State Machines",
    failure=failure(
        "most replicas have record {} of {}, and it isn't acknowledged", log_entry.record, i
    ),
)

by_majority = (
    Change(
        "majority",
        "Records and elections count by majority.",
        features=(all_in_sync,),
        tables=(votes,),
        properties=(survivor_leads, majority_is_enough),
    )
    .table("replica.produce")
    .before(
        "not-enough-replicas",
        Row(
            "append-for-majority",
            "The record is in the log; it is acknowledged once most replicas have it",
            when=replicas.acks_all,
            set={
                replicas.log: fetch.log_with_record,
                replicas.produced: replicas.produced + 1,
            },
            during=~all_in_sync,
            source="Raft, 5.3",
        ),
    )
    .table("replica.fetch")
    .before(
        "answer-lost",
        Row(
            "answer-to-majority-lost",
            "The answer is lost; the leader counts the follower's fetch offset",
            when=~fetch.fetch.answered,
            set={
                replicas.fetched.at(fetched_leader): fetch.fetch_offsets,
                replicas.high_watermark.at(fetched_leader): fetch_high_watermark,
                replicas.acknowledged: acknowledged_by_fetch,
            },
            during=~all_in_sync,
            source="Raft, 5.3",
        ),
        Row(
            "append-of-majority",
            "The follower appends the records of the answer, and the leader counts it",
            set={
                replicas.log: replicas.log + fetch.fetch_log[size(replicas.log) :],
                replicas.high_watermark: replicas.high_watermark.at(fetched_leader),
                replicas.fetched.at(fetched_leader): fetch.fetch_offsets,
                replicas.high_watermark.at(fetched_leader): fetch_high_watermark,
                replicas.acknowledged: acknowledged_by_fetch,
            },
            during=~all_in_sync,
            source="Raft, 5.3",
        ),
    )
    .table("replica.maybeShrinkIsr")
    .only_when(all_in_sync)
    .table("replica.maybeExpandIsr")
    .only_when(all_in_sync)
    .table("registration.elect")
    .only_when(all_in_sync | (replicas.newest_epoch == 0))
    .table("registration.elect unclean")
    .only_when(all_in_sync)
    .table("replica.LeaderAndIsr")
    .before(
        "lead",
        Row(
            "lead-majority",
            "The broker leads; its high watermark waits for a majority",
            when=replicas.elected == replicas.me,
            goto=State.LEADER,
            set={
                replicas.leader_epoch: replicas.newest_epoch,
                replicas.isr: replicas.in_sync,
                replicas.fetched: each(r, UNKNOWN),
                replicas.epoch_start: size(replicas.log),
                replicas.following: None,
            },
            during=~all_in_sync,
            source="Raft, 5.2",
        ),
    )
)
TOO_MANY = Refusal(
    "without all_in_sync a vote has two voters: that is a majority of two or three replicas",
    (REPLICAS > 3) & ~all_in_sync,
)


def varied(system: System) -> System:
    """`replication` with the rule `all_in_sync`, which can be switched off."""
    changed = system + by_majority
    return replace(changed, refusals=(*changed.refusals, TOO_MANY))
