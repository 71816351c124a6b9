"""What a producer sends, sends again and gives up, and what a leader makes of it.

A leader's state of an idempotent producer is read off its log, from which it is rebuilt: with as
few records as here every batch is one of the five that it remembers, where it remembers five.
Sender, RecordAccumulator and TransactionManager are in `spec/client` at length; this is as much of
them as delivery needs. A record that is sent again is sent until it is in: delivery.timeout.ms is
left out.
"""

from __future__ import annotations

from ...language import (
    Row,
    Table,
    all_of,
    any_of,
    append,
    element,
    event,
    first,
    if_,
    keep,
    last,
    min_of,
    sequence_of,
    set_of,
    size,
    variable,
    without_first,
)
from ...language.expressions import Expression, Operand
from ..leader.state import Kind, asks_coordinator
from ..releases.features import batches_kept, unknown_producer_accepted
from ..replication import fetch
from ..replication import state as replicas
from ..replication.state import ACKS, RECORD, RECORDS, REPLICA, SESSIONS, Entry, State, replica
from .state import (
    IN_FLIGHT,
    RETRIES,
    Transaction,
    is_idempotent,
    is_sending,
    is_transactional,
    of_session,
    queue,
    requests,
    sender,
    succeeded,
    taken,
    transaction,
)

send = event("send")
take = event("Produce", event_doc="A leader takes the first request of the connection.")
answered = event("ProduceResponse")
disconnect = event("disconnect", event_doc="The connection is closed, with what is in flight.")
begin_session = event("begin a session", event_doc="The producer is begun anew.")
commit = event("commitTransaction")
abort = event("abortTransaction")
write_marker = event("WriteTxnMarkers")
ended = event("WriteTxnMarkersResponse")

_r, _i = variable("r", RECORD), REPLICA.variable("i")
_at_once = ACKS == 0
_rest = without_first(requests)
_first = first(requests).value

# The client -------------------------------------------------------------------------------------

_queued = element("queued", queue)
_any = element("any", queue)
_again = if_(is_idempotent, min_of(_any, _any, default=0), first(queue).value)


def _sent(which: Expression) -> dict[Expression, Operand]:
    return {
        requests: append(requests, which),
        succeeded: if_(_at_once, succeeded | set_of(which), succeeded),
    }


sends = Table(
    sender,
    on=send,
    others=(replicas.clients,),
    when=is_sending
    & (size(requests) < IN_FLIGHT)
    & ((size(queue) > 0) | (replicas.produced < RECORDS)),
    doc="With acks=0 a send succeeds as soon as it is on the connection.",
    rows=(
        Row(
            "again",
            when=size(queue) > 0,
            set={queue: keep(_queued, _queued != _again), **_sent(_again)},
            source="RecordAccumulator.drainBatchesForOneNode, insertInSequenceOrder",
            note="An idempotent producer sends the lowest sequence first, any other what came back "
            "last.",
        ),
        Row(
            "the next record",
            when=replicas.produced < RECORDS,
            set={replicas.produced: replicas.produced + 1, **_sent(replicas.produced)},
            source="KafkaProducer.send, RecordAccumulator.drainBatchesForOneNode",
        ),
    ),
)

_taken_up: dict[Expression, Operand] = {taken: False, requests: _rest}
answers = Table(
    sender,
    on=answered,
    others=(replicas.clients,),
    when=taken & _first.is_in(replicas.acknowledged),
    rows=(
        Row(
            "acknowledged",
            set={**_taken_up, succeeded: succeeded | set_of(_first)},
            source="Sender.handleProduceResponse, ProducerBatch.complete",
        ),
    ),
)

_back = if_(size(requests) > 1, requests[1:] + requests[:1], requests)
_closed: dict[Expression, Operand] = {
    taken: False,
    requests: sequence_of(),
    replicas.acknowledged: if_(
        taken, replicas.acknowledged - set_of(_first), replicas.acknowledged
    ),
}
disconnects = Table(
    sender,
    on=disconnect,
    others=(replicas.clients,),
    when=size(requests) > 0,
    doc="Requests that no leader has taken are lost. If a leader has taken one, its answer is "
    "lost.",
    rows=(
        Row(
            "sent for good",
            when=_at_once,
            set=_closed,
            source="NetworkClient.send, with acks=0",
        ),
        Row(
            "send again",
            when=RETRIES == 1,
            set={**_closed, queue: _back + queue},
            source="NetworkClient.handleDisconnections, Sender.reenqueueBatch",
            note="Each comes to the front of the queue, so that the last one is the first.",
        ),
        Row(
            "the sends fail",
            set=_closed,
            source="Sender.failBatch, NetworkException",
        ),
    ),
)

# A session begins --------------------------------------------------------------------------------

_new: dict[Expression, Operand] = {
    replicas.session: replicas.session + 1,
    replicas.acknowledged: set_of(),
    taken: False,
    requests: sequence_of(),
}
_may_begin = (SESSIONS > 1) & (replicas.session < SESSIONS - 1) & is_sending
begins = Table(
    sender,
    on=begin_session,
    others=(replicas.clients,),
    when=_may_begin & ~is_transactional & ((size(requests) > 0) | (size(queue) > 0)),
    doc="The application crashes and sends again what didn't succeed, by a new producer.",
    rows=(
        Row(
            "under a new producer id",
            set={**_new, queue: requests + queue},
            source="KIP-98: idempotence holds within a session of the producer",
        ),
    ),
)
_asked = Table(
    sender,
    on=commit,
    others=(replicas.clients,),
    when=is_transactional & is_sending & all_of(_r, _r.is_in(succeeded)),
    rows=(Row("commit", set={transaction: Transaction.COMMITTING}, source="KafkaProducer"),),
)
_aborts = Table(
    sender,
    on=abort,
    others=(replicas.clients,),
    when=is_transactional & _may_begin & (replicas.produced > 0),
    rows=(
        Row(
            "abort",
            set={
                transaction: Transaction.ABORTING,
                taken: False,
                requests: sequence_of(),
                queue: sequence_of(),
            },
            source="KafkaProducer.abortTransaction, RecordAccumulator.abortUndrainedBatches",
        ),
    ),
)
_has_marker = any_of(
    element("m", of_session(replicas.log, replicas.session)),
    element("m", of_session(replicas.log, replicas.session)).kind != Kind.DATA,
)
_ends = transaction.is_in(Transaction.COMMITTING, Transaction.ABORTING)
_kind = if_(transaction == Transaction.COMMITTING, Kind.COMMIT, Kind.ABORT)
_marked = append(
    replicas.log,
    Entry(leader_epoch=replicas.leader_epoch, record=0, producer_id=replicas.session, kind=_kind),
)
marks = Table(
    replica,
    on=write_marker,
    others=(sender, replicas.clients),
    when=is_transactional & _ends & (replicas.state == State.LEADER) & ~_has_marker,
    doc="The coordinator sends it until it is in. The coordinator itself never fails here.",
    rows=(
        fetch.refused_for_want_of_replicas({}),
        Row(
            "append the marker",
            set={
                replicas.log: _marked,
                **fetch.moved(replicas.me, _marked, replicas.isr, replicas.fetched),
            },
            source="Partition.appendRecordsToLeader, ReplicaManager.appendRecords",
        ),
    ),
)
_written = replicas.log.at(_i)[: replicas.high_watermark.at(_i)]
_mark = element("mark", of_session(_written, replicas.session))
_is_written = any_of(
    _i, (replicas.state.at(_i) == State.LEADER) & any_of(_mark, _mark.kind != Kind.DATA)
)
ends = Table(
    sender,
    on=ended,
    others=(replicas.clients, replica),
    when=is_transactional & _ends & _is_written,
    rows=(
        Row(
            "committed",
            when=transaction == Transaction.COMMITTING,
            set={transaction: Transaction.COMMITTED},
            source="TransactionMarkerChannelManager.maybeWriteTxnCompletion",
        ),
        Row(
            "aborted, and the records are sent in another one",
            set={
                **_new,
                transaction: Transaction.OPEN,
                replicas.produced: 0,
                succeeded: set_of(),
            },
            source="TransactionMarkerChannelManager.maybeWriteTxnCompletion",
        ),
    ),
)

# The leader -------------------------------------------------------------------------------------

_mine = element("mine", of_session(replicas.log, replicas.session))
_newest = last(of_session(replicas.log, replicas.session))
_remembers = any_of(_mine, _mine.record == _first)
_known = if_(batches_kept, _remembers, _newest.is_set & (_newest.value.record == _first))
_follows = if_(
    _newest.is_set,
    _first == _newest.value.record + 1,
    (_first == 0) | (unknown_producer_accepted & ~(is_transactional & asks_coordinator)),
)
_replicated = element(
    "replicated", of_session(replicas.log[: replicas.high_watermark], replicas.session)
)
_refused: dict[Expression, Operand] = {
    requests: _rest,
    queue: if_(RETRIES == 1, sequence_of(_first) + queue, queue),
}
_answered_later: dict[Expression, Operand] = {
    taken: ~_at_once,
    requests: if_(_at_once, _rest, requests),
}
_appending = fetch.append_rows(_first, _answered_later, _refused)
takes = Table(
    replica,
    on=take,
    others=(sender, replicas.clients),
    when=(size(requests) > 0) & ~taken & fetch.can_take,
    rows=(
        *_appending[:2],
        Row(
            "duplicate",
            when=is_idempotent & _known,
            set={
                **_answered_later,
                replicas.acknowledged: if_(
                    any_of(_replicated, _replicated.record == _first),
                    replicas.acknowledged | set_of(_first),
                    replicas.acknowledged,
                ),
            },
            source="ProducerStateEntry.findDuplicateBatch",
            note="It is answered like an append: once the high watermark has passed the record.",
        ),
        Row(
            "out of order",
            when=is_idempotent & ~_follows,
            set=_refused,
            source="ProducerAppendInfo.checkSequence",
        ),
        *_appending[2:],
    ),
)

TABLES = (sends, answers, disconnects, begins, _asked, _aborts, ends, takes, marks)
