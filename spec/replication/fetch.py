"""A leader's appends, its followers' fetches, the high watermark and the in-sync set.

A fetch is one step of a follower and a leader, or its answer is lost. From 2.1 on an answer that
arrives after a change of the epoch has no effect (KIP-320). Before, that isn't declared.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Row,
    Table,
    all_true,
    any_of,
    append,
    element,
    event,
    if_,
    maximum,
    min_of,
    minimum,
    set_of,
    size,
    those,
    updated,
    variable,
)
from ..leader.state import Kind
from ..releases.replication_features import (
    broker_epoch_checked,
    high_watermark_waits,
    isr_from_epoch_start,
    leader_epoch_checked,
)
from . import state as replicas
from .state import ACKS, LOG_SIZE, RECORD, RECORDS, REPLICA, UNKNOWN, Entry, State, replica

produce = event("produce")
fetch = event(
    "fetch",
    leader=REPLICA,
    answered=Bool(),
    event_doc="`answered`: the answer arrives; the leader knows the fetch offset in any case.",
)
shrink = event("maybeShrinkIsr", follower=REPLICA)
expand = event("maybeExpandIsr", follower=REPLICA)
consume = event("consume", leader=REPLICA)

r, record = REPLICA.variable("r"), variable("record", RECORD)


def advanced(
    leader: Expression, entries: Expression, members: Expression, offsets: Expression
) -> Expression:
    """A leader's high watermark once it has this log, in-sync set and fetch offsets."""
    end = if_(r == leader, size(entries), offsets[r])
    reached = min_of(r, if_(r.is_in(members), end, LOG_SIZE))
    before = replicas.high_watermark.at(leader)
    waits = high_watermark_waits & (size(members) < replicas.min_isr)
    return if_(waits, before, maximum(before, reached))


def acknowledged_up_to(
    leader: Expression, entries: Expression, members: Expression, high_watermark: Expression
) -> Expression:
    """The acknowledged records once a leader's high watermark moves there: also those with acks=all
    that waited for it."""
    entry = element("entry", entries[replicas.high_watermark.at(leader) : high_watermark])
    is_answered = all_true(
        entry.leader_epoch == replicas.leader_epoch.at(leader),
        entry.record == record,
        entry.producer_id == replicas.session,
        entry.kind == Kind.DATA,
    )
    answered = those(
        record,
        replicas.acks_all & (size(members) >= replicas.min_isr) & any_of(entry, is_answered),
    )
    return replicas.acknowledged | answered


can_take = (replicas.state == State.LEADER) | (ACKS == 0)
not_enough_replicas = replicas.acks_all & (size(replicas.isr) < replicas.min_isr)
"""Whether too few replicas are in sync for an append with acks=all."""
log_with_record = append(
    replicas.log,
    Entry(
        leader_epoch=replicas.leader_epoch, record=replicas.produced, producer_id=replicas.session
    ),
)
new_high_watermark = advanced(replicas.me, log_with_record, replicas.isr, replicas.fetched)
appends = Table(
    replica,
    on=produce,
    others=(replicas.clients,),
    when=(replicas.produced < RECORDS) & can_take,
    rows=(
        Row(
            "not-leader",
            "With acks=0 the producer doesn't hear that it has asked the wrong broker",
            when=(ACKS == 0) & (replicas.state != State.LEADER),
            set={
                replicas.produced: replicas.produced + 1,
                replicas.acknowledged: replicas.acknowledged | set_of(replicas.produced),
            },
            source="Sender.handleProduceResponse",
        ),
        Row(
            "not-enough-replicas",
            "Too few replicas are in sync, and the producer tries again",
            when=not_enough_replicas,
            source="Partition.appendRecordsToLeader",
        ),
        Row(
            "append-acks-all",
            "The record is in the log; it is acknowledged once it is replicated",
            when=replicas.acks_all,
            set={
                replicas.log: log_with_record,
                replicas.produced: replicas.produced + 1,
                replicas.high_watermark.at(replicas.me): new_high_watermark,
                replicas.acknowledged: acknowledged_up_to(
                    replicas.me, log_with_record, replicas.isr, new_high_watermark
                ),
            },
            source="Partition.appendRecordsToLeader, maybeIncrementLeaderHW",
        ),
        Row(
            "append",
            "The record is in the log, and acknowledged at once",
            set={
                replicas.log: log_with_record,
                replicas.produced: replicas.produced + 1,
                replicas.acknowledged: replicas.acknowledged | set_of(replicas.produced),
                replicas.high_watermark: new_high_watermark,
            },
            source="ReplicaManager.appendRecords",
        ),
    ),
)

fetch_log = replicas.log.at(fetch.leader)
fetch_epoch = replicas.leader_epoch.at(fetch.leader)
fetch_offsets = updated(replicas.fetched.at(fetch.leader), replicas.me, size(replicas.log))
fetch_high_watermark = advanced(
    fetch.leader, fetch_log, replicas.isr.at(fetch.leader), fetch_offsets
)
acknowledged_by_fetch = acknowledged_up_to(
    fetch.leader, fetch_log, replicas.isr.at(fetch.leader), fetch_high_watermark
)
fetches = Table(
    replica,
    on=fetch,
    others=(replicas.clients,),
    when=(replicas.state == State.FETCHING) & replicas.answers(fetch.leader),
    rows=(
        Row(
            "fenced-leader-epoch",
            "The leader has a newer epoch: the follower waits until it hears of the election",
            when=replicas.leader_epoch < fetch_epoch,
            during=leader_epoch_checked,
            source="KIP-320, Partition.checkCurrentLeaderEpoch, FENCED_LEADER_EPOCH",
        ),
        Row(
            "unknown-leader-epoch",
            "The leader has not heard of its own election: the follower tries again",
            when=replicas.leader_epoch > fetch_epoch,
            during=leader_epoch_checked,
            source="KIP-320, Partition.checkCurrentLeaderEpoch, UNKNOWN_LEADER_EPOCH",
        ),
        Row(
            "offset-out-of-range",
            "The follower's log is longer: it truncates to the end of the leader's",
            when=size(replicas.log) > size(fetch_log),
            set={
                replicas.log: replicas.log[: size(fetch_log)],
                replicas.high_watermark: minimum(replicas.high_watermark, size(fetch_log)),
            },
            source="AbstractFetcherThread.handleOutOfRangeError",
        ),
        Row(
            "answer-lost",
            "The answer is lost; the leader has the follower's fetch offset",
            when=~fetch.answered,
            set={
                replicas.fetched.at(fetch.leader): fetch_offsets,
                replicas.unclean_shutdown: False,
                replicas.high_watermark.at(fetch.leader): fetch_high_watermark,
                replicas.acknowledged: acknowledged_by_fetch,
            },
            source="ReplicaManager.fetchMessages, Partition.updateFollowerFetchState",
        ),
        Row(
            "append",
            "The follower appends the records of the answer",
            set={
                replicas.log: replicas.log + fetch_log[size(replicas.log) :],
                replicas.high_watermark: replicas.high_watermark.at(fetch.leader),
                replicas.fetched.at(fetch.leader): fetch_offsets,
                replicas.unclean_shutdown: False,
                replicas.high_watermark.at(fetch.leader): fetch_high_watermark,
                replicas.acknowledged: acknowledged_by_fetch,
            },
            source="ReplicaManager.fetchMessages, ReplicaFetcherThread.processPartitionData",
            note="The answer has the leader's high watermark as it was before this fetch.",
        ),
    ),
)

# The in-sync set ----------------------------------------------------------------------------------

is_recorded_leader = (
    (replicas.elected == replicas.me)
    & (replicas.newest_epoch == replicas.leader_epoch)
    & (replicas.isr == replicas.in_sync)
)
shrunk_isr = replicas.isr - set_of(shrink.follower)
shrunk_high_watermark = advanced(replicas.me, replicas.log, shrunk_isr, replicas.fetched)
shrinks = Table(
    replica,
    on=shrink,
    others=(replicas.registration, replicas.clients),
    when=(replicas.state == State.LEADER)
    & shrink.follower.is_in(replicas.isr)
    & (shrink.follower != replicas.me)
    & (replicas.fetched[shrink.follower] < size(replicas.log))
    & is_recorded_leader,
    doc="The controller refuses the change of an older leader, and of one that hasn't heard of the "
    "in-sync set. There is no time here: a replica that lags may have lagged for too long.",
    rows=(
        Row(
            "remove-replica",
            "The follower leaves the in-sync set",
            set={
                replicas.isr: shrunk_isr,
                replicas.in_sync: shrunk_isr,
                replicas.eligible: replicas.eligible_after(shrunk_isr),
                replicas.high_watermark.at(replicas.me): shrunk_high_watermark,
                replicas.acknowledged: acknowledged_up_to(
                    replicas.me, replicas.log, shrunk_isr, shrunk_high_watermark
                ),
            },
            source="Partition.maybeShrinkIsr",
        ),
    ),
)

expanded_isr = replicas.isr | set_of(expand.follower)
follower_offset = replicas.fetched[expand.follower]
expands = Table(
    replica,
    on=expand,
    others=(replicas.registration,),
    when=(replicas.state == State.LEADER)
    & ~expand.follower.is_in(replicas.isr)
    & (expand.follower != replicas.me)
    & (replicas.state.at(expand.follower) == State.FETCHING)
    & ((replicas.leader_epoch.at(expand.follower) == replicas.leader_epoch) | ~leader_epoch_checked)
    & (follower_offset != UNKNOWN)
    & (follower_offset >= replicas.high_watermark)
    & (~isr_from_epoch_start | (follower_offset >= replicas.epoch_start))
    & ~(broker_epoch_checked & replicas.unclean_shutdown.at(expand.follower))
    & is_recorded_leader,
    rows=(
        Row(
            "add-replica",
            "The follower has caught up, and joins the in-sync set",
            set={
                replicas.isr: expanded_isr,
                replicas.in_sync: expanded_isr,
                replicas.eligible: replicas.eligible_after(expanded_isr),
            },
            source="Partition.maybeExpandIsr",
        ),
    ),
)

# A consumer ---------------------------------------------------------------------------------------

next_offset = size(replicas.consumed)
consumes = Table(
    replicas.clients,
    on=consume,
    others=(replica,),
    when=(replicas.state.at(consume.leader) == State.LEADER)
    & (next_offset < replicas.high_watermark.at(consume.leader)),
    rows=(
        Row(
            "read",
            "A consumer gets the next record below the high watermark",
            set={
                replicas.consumed: append(
                    replicas.consumed, replicas.log.at(consume.leader)[next_offset].value
                )
            },
            source="Partition.fetchOffsetSnapshot, FetchIsolation.HIGH_WATERMARK",
        ),
    ),
)

TABLES = (appends, fetches, shrinks, expands, consumes)
