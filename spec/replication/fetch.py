"""A leader's appends, its followers' fetches, the high watermark and the in-sync set.

A fetch is one step of a follower and a leader, or its answer is lost. An answer that comes after a
change of the epoch counts for nothing from 2.1 on (KIP-320); before, that isn't declared.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from ...language.expressions import Operand
from ..leader.state import Kind
from ..releases.replication_features import (
    broker_epoch_checked,
    high_watermark_waits,
    isr_from_epoch_start,
    leader_epoch_checked,
)
from . import state as replicas
from .state import ACKS, LOG_SIZE, RECORD, RECORDS, REPLICA, UNKNOWN, Entry, State, replica

Updates = Mapping[Expression, Operand]

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


def moved(
    leader: Expression, entries: Expression, members: Expression, offsets: Expression
) -> dict[Expression, Operand]:
    """A leader's high watermark moves, and acks=all that waited for it is answered."""
    now = advanced(leader, entries, members, offsets)
    entry = element("entry", entries[replicas.high_watermark.at(leader) : now])
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
    return {
        replicas.high_watermark.at(leader): now,
        replicas.acknowledged: replicas.acknowledged | answered,
    }


def refused_for_want_of_replicas(refused: Updates) -> Row:
    """The row of an append with acks=all where too few replicas are in sync."""
    return Row(
        "not enough replicas",
        when=replicas.acks_all & (size(replicas.isr) < replicas.min_isr),
        set=refused,
        source="Partition.appendRecordsToLeader",
        note="NOT_ENOUGH_REPLICAS; the producer tries again.",
    )


def append_rows(record: Expression, taken: Updates, refused: Updates) -> tuple[Row, ...]:
    """The rows for a record that a leader is asked to append: what else changes once it is `taken`,
    and where it is `refused`."""
    appended = append(
        replicas.log,
        Entry(leader_epoch=replicas.leader_epoch, record=record, producer_id=replicas.session),
    )
    at_once = {**taken, replicas.acknowledged: replicas.acknowledged | set_of(record)}
    return (
        Row(
            "nobody answers",
            when=(ACKS == 0) & (replicas.state != State.LEADER),
            set=at_once,
            source="Sender.handleProduceResponse",
            note="With acks=0 a producer doesn't hear that it has asked the wrong broker.",
        ),
        refused_for_want_of_replicas(refused),
        Row(
            "append, acks=all",
            when=replicas.acks_all,
            set={
                replicas.log: appended,
                **taken,
                **moved(replicas.me, appended, replicas.isr, replicas.fetched),
            },
            source="Partition.appendRecordsToLeader, maybeIncrementLeaderHW",
            note="Answered when the high watermark has passed the record.",
        ),
        Row(
            "append, and answer at once",
            set={
                replicas.log: appended,
                **at_once,
                replicas.high_watermark: advanced(
                    replicas.me, appended, replicas.isr, replicas.fetched
                ),
            },
            source="ReplicaManager.appendRecords",
        ),
    )


can_take = (replicas.state == State.LEADER) | (ACKS == 0)
appends = Table(
    replica,
    on=produce,
    others=(replicas.clients,),
    when=(replicas.produced < RECORDS) & can_take,
    rows=append_rows(replicas.produced, {replicas.produced: replicas.produced + 1}, {}),
)

_leader = fetch.leader
_theirs = replicas.log.at(_leader)
_offsets = updated(replicas.fetched.at(_leader), replicas.me, size(replicas.log))
_at_leader = {
    replicas.fetched.at(_leader): _offsets,
    replicas.unclean_shutdown: False,
    **moved(_leader, _theirs, replicas.isr.at(_leader), _offsets),
}
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
            set=_at_leader,
            source="ReplicaManager.fetchMessages",
        ),
        Row(
            "append",
            set={
                replicas.log: replicas.log + _theirs[size(replicas.log) :],
                replicas.high_watermark: replicas.high_watermark.at(_leader),
                **_at_leader,
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
                **moved(replicas.me, replicas.log, _gone, replicas.fetched),
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
