"""A leader's appends, its followers' fetches, the high watermark and the in-sync set.

A fetch is one step of a follower and a leader, or its answer is lost. An answer that comes after a
change of the epoch counts for nothing from 2.1 on (KIP-320); before, that isn't declared.
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
    "fetch", leader=REPLICA, answered=Bool(),
    event_doc="`answered`: the answer arrives; the leader knows the fetch offset in any case.",
)  # fmt: skip
shrink = event("maybeShrinkIsr", follower=REPLICA)
expand = event("maybeExpandIsr", follower=REPLICA)
consume = event("consume", leader=REPLICA)

_r, _record = REPLICA.variable("r"), variable("record", RECORD)


def advanced(
    leader: Expression, entries: Expression, members: Expression, offsets: Expression
) -> Expression:
    """A leader's high watermark once it has this log, in-sync set and fetch offsets."""
    end = if_(_r == leader, size(entries), offsets[_r])
    reached = min_of(_r, if_(_r.is_in(members), end, LOG_SIZE))
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
        entry.record == _record,
        entry.producer_id == replicas.session,
        entry.kind == Kind.DATA,
    )
    answered = those(
        _record,
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

_leader = fetch.leader
_theirs = replicas.log.at(_leader)
_offsets = updated(replicas.fetched.at(_leader), replicas.me, size(replicas.log))
_leader_high_watermark = advanced(_leader, _theirs, replicas.isr.at(_leader), _offsets)
_acknowledged = acknowledged_up_to(
    _leader, _theirs, replicas.isr.at(_leader), _leader_high_watermark
)
fetches = Table(
    replica,
    on=fetch,
    others=(replicas.clients,),
    when=(replicas.state == State.FETCHING) & replicas.answers(_leader),
    rows=(
        *replicas.refused(_leader),
        Row(
            "offset out of range",
            when=size(replicas.log) > size(_theirs),
            set=replicas.truncated(size(_theirs)),
            source="AbstractFetcherThread.handleOutOfRangeError",
        ),
        Row(
            "the answer is lost",
            when=~fetch.answered,
            set={
                replicas.fetched.at(_leader): _offsets,
                replicas.unclean_shutdown: False,
                replicas.high_watermark.at(_leader): _leader_high_watermark,
                replicas.acknowledged: _acknowledged,
            },
            source="ReplicaManager.fetchMessages",
        ),
        Row(
            "append",
            set={
                replicas.log: replicas.log + _theirs[size(replicas.log) :],
                replicas.high_watermark: replicas.high_watermark.at(_leader),
                replicas.fetched.at(_leader): _offsets,
                replicas.unclean_shutdown: False,
                replicas.high_watermark.at(_leader): _leader_high_watermark,
                replicas.acknowledged: _acknowledged,
            },
            source="ReplicaManager.fetchMessages, ReplicaFetcherThread.processPartitionData",
            note="The answer has the leader's high watermark as it was before this fetch.",
        ),
    ),
)

_records_it = (
    (replicas.elected == replicas.me)
    & (replicas.newest_epoch == replicas.leader_epoch)
    & (replicas.isr == replicas.in_sync)
)
_gone = replicas.isr - set_of(shrink.follower)
_shrunk_high_watermark = advanced(replicas.me, replicas.log, _gone, replicas.fetched)
shrinks = Table(
    replica,
    on=shrink,
    others=(replicas.registration, replicas.clients),
    when=(replicas.state == State.LEADER)
    & shrink.follower.is_in(replicas.isr)
    & (shrink.follower != replicas.me)
    & (replicas.fetched[shrink.follower] < size(replicas.log))
    & _records_it,
    doc="The change of an older leader, or of one that hasn't heard of the in-sync set, isn't "
    "recorded, and changes nothing. Time isn't here: a replica that lags may be taken for one that "
    "has lagged for too long.",
    rows=(
        Row(
            "remove the replica",
            set={
                replicas.isr: _gone,
                **replicas.recorded(_gone),
                replicas.high_watermark.at(replicas.me): _shrunk_high_watermark,
                replicas.acknowledged: acknowledged_up_to(
                    replicas.me, replicas.log, _gone, _shrunk_high_watermark
                ),
            },
            source="Partition.maybeShrinkIsr",
        ),
    ),
)

_new, _offset = expand.follower, replicas.fetched[expand.follower]
_joined = replicas.isr | set_of(_new)
expands = Table(
    replica,
    on=expand,
    others=(replicas.registration,),
    when=(replicas.state == State.LEADER)
    & ~_new.is_in(replicas.isr)
    & (_new != replicas.me)
    & (replicas.state.at(_new) == State.FETCHING)
    & ((replicas.leader_epoch.at(_new) == replicas.leader_epoch) | ~leader_epoch_checked)
    & (_offset != UNKNOWN)
    & (_offset >= replicas.high_watermark)
    & (~isr_from_epoch_start | (_offset >= replicas.epoch_start))
    & ~(broker_epoch_checked & replicas.unclean_shutdown.at(_new))
    & _records_it,
    rows=(
        Row(
            "add the replica",
            set={replicas.isr: _joined, **replicas.recorded(_joined)},
            source="Partition.maybeExpandIsr",
        ),
    ),
)

_source, _next = replicas.log.at(consume.leader), size(replicas.consumed)
consumes = Table(
    replicas.clients,
    on=consume,
    others=(replica,),
    when=(replicas.state.at(consume.leader) == State.LEADER)
    & (_next < replicas.high_watermark.at(consume.leader)),
    rows=(
        Row(
            "read below the high watermark",
            set={replicas.consumed: append(replicas.consumed, _source[_next].value)},
            source="Partition.fetchOffsetSnapshot, FetchIsolation.HIGH_WATERMARK",
        ),
    ),
)

TABLES = (appends, fetches, shrinks, expands, consumes)
