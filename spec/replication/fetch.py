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
from ..replication_features import (
    broker_epoch_checked,
    high_watermark_waits,
    isr_from_epoch_start,
    leader_epoch_checked,
)
from .state import (
    ACKS,
    LOG_SIZE,
    RECORD,
    RECORDS,
    REPLICA,
    UNKNOWN,
    Entry,
    State,
    acknowledged,
    acks_all,
    answers,
    clients,
    consumed,
    elected,
    epoch_start,
    fetched,
    high_watermark,
    in_sync,
    isr,
    leader_epoch,
    log,
    me,
    min_isr,
    newest_epoch,
    produced,
    recorded,
    refused,
    registration,
    replica,
    session,
    state,
    truncated,
    unclean_shutdown,
)

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
    before = high_watermark.at(leader)
    waits = high_watermark_waits & (size(members) < min_isr)
    return if_(waits, before, maximum(before, reached))


def moved(
    leader: Expression, entries: Expression, members: Expression, offsets: Expression
) -> dict[Expression, Operand]:
    """A leader's high watermark moves, and acks=all that waited for it is answered."""
    now = advanced(leader, entries, members, offsets)
    entry = element("entry", entries[high_watermark.at(leader) : now])
    is_answered = all_true(
        entry.leader_epoch == leader_epoch.at(leader),
        entry.record == _record,
        entry.producer_id == session,
        entry.kind == Kind.DATA,
    )
    answered = those(_record, acks_all & (size(members) >= min_isr) & any_of(entry, is_answered))
    return {high_watermark.at(leader): now, acknowledged: acknowledged | answered}


def refused_for_want_of_replicas(refused: Updates) -> Row:
    """The row of an append with acks=all where too few replicas are in sync."""
    return Row(
        "not enough replicas",
        when=acks_all & (size(isr) < min_isr),
        set=refused,
        source="Partition.appendRecordsToLeader",
        note="NOT_ENOUGH_REPLICAS; the producer tries again.",
    )


def append_rows(record: Expression, taken: Updates, refused: Updates) -> tuple[Row, ...]:
    """The rows for a record that a leader is asked to append: what else changes once it is `taken`,
    and where it is `refused`."""
    appended = append(log, Entry(leader_epoch=leader_epoch, record=record, producer_id=session))
    at_once = {**taken, acknowledged: acknowledged | set_of(record)}
    return (
        Row(
            "nobody answers",
            when=(ACKS == 0) & (state != State.LEADER),
            set=at_once,
            source="Sender.handleProduceResponse",
            note="With acks=0 a producer doesn't hear that it has asked the wrong broker.",
        ),
        refused_for_want_of_replicas(refused),
        Row(
            "append, acks=all",
            when=acks_all,
            set={log: appended, **taken, **moved(me, appended, isr, fetched)},
            source="Partition.appendRecordsToLeader, maybeIncrementLeaderHW",
            note="Answered when the high watermark has passed the record.",
        ),
        Row(
            "append, and answer at once",
            set={
                log: appended,
                **at_once,
                high_watermark: advanced(me, appended, isr, fetched),
            },
            source="ReplicaManager.appendRecords",
        ),
    )


can_take = (state == State.LEADER) | (ACKS == 0)
appends = Table(
    replica,
    on=produce,
    others=(clients,),
    when=(produced < RECORDS) & can_take,
    rows=append_rows(produced, {produced: produced + 1}, {}),
)

_leader = fetch.leader
_theirs = log.at(_leader)
_offsets = updated(fetched.at(_leader), me, size(log))
_at_leader = {
    fetched.at(_leader): _offsets,
    unclean_shutdown: False,
    **moved(_leader, _theirs, isr.at(_leader), _offsets),
}
fetches = Table(
    replica,
    on=fetch,
    others=(clients,),
    when=(state == State.FETCHING) & answers(_leader),
    rows=(
        *refused(_leader),
        Row(
            "offset out of range",
            when=size(log) > size(_theirs),
            set=truncated(size(_theirs)),
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
                log: log + _theirs[size(log) :],
                high_watermark: high_watermark.at(_leader),
                **_at_leader,
            },
            source="ReplicaManager.fetchMessages, ReplicaFetcherThread.processPartitionData",
            note="The answer has the leader's high watermark as it was before this fetch.",
        ),
    ),
)

_records_it = (elected == me) & (newest_epoch == leader_epoch) & (isr == in_sync)
_gone = isr - set_of(shrink.follower)
shrinks = Table(
    replica,
    on=shrink,
    others=(registration, clients),
    when=(state == State.LEADER)
    & shrink.follower.is_in(isr)
    & (shrink.follower != me)
    & (fetched[shrink.follower] < size(log))
    & _records_it,
    doc="The change of an older leader, or of one that hasn't heard of the in-sync set, isn't "
    "recorded, and changes nothing. Time isn't here: a replica that lags may be taken for one that "
    "has lagged for too long.",
    rows=(
        Row(
            "remove the replica",
            set={isr: _gone, **recorded(_gone), **moved(me, log, _gone, fetched)},
            source="Partition.maybeShrinkIsr",
        ),
    ),
)

_new, _offset = expand.follower, fetched[expand.follower]
_joined = isr | set_of(_new)
expands = Table(
    replica,
    on=expand,
    others=(registration,),
    when=(state == State.LEADER)
    & ~_new.is_in(isr)
    & (_new != me)
    & (state.at(_new) == State.FETCHING)
    & ((leader_epoch.at(_new) == leader_epoch) | ~leader_epoch_checked)
    & (_offset != UNKNOWN)
    & (_offset >= high_watermark)
    & (~isr_from_epoch_start | (_offset >= epoch_start))
    & ~(broker_epoch_checked & unclean_shutdown.at(_new))
    & _records_it,
    rows=(
        Row(
            "add the replica",
            set={isr: _joined, **recorded(_joined)},
            source="Partition.maybeExpandIsr",
        ),
    ),
)

_source, _next = log.at(consume.leader), size(consumed)
consumes = Table(
    clients,
    on=consume,
    others=(replica,),
    when=(state.at(consume.leader) == State.LEADER) & (_next < high_watermark.at(consume.leader)),
    rows=(
        Row(
            "read below the high watermark",
            set={consumed: append(consumed, _source[_next].value)},
            source="Partition.fetchOffsetSnapshot, FetchIsolation.HIGH_WATERMARK",
        ),
    ),
)

TABLES = (appends, fetches, shrinks, expands, consumes)
