"""A producer that sends, retries and gives up, and the leader of its partition.

The leader's state of an idempotent producer is a function of its log: with so few records every
batch is one of the five that a leader remembers. `spec/client` has Sender, RecordAccumulator and
TransactionManager whole; this module has the part that delivery needs. A record is sent again until
the log has it, because delivery.timeout.ms is left out.
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
disconnect = event("disconnect", event_doc="The connection is closed, with all requests in flight.")
begin_session = event("begin a session", event_doc="The application restarts with a new producer.")
commit = event("commitTransaction")
abort = event("abortTransaction")
write_marker = event("WriteTxnMarkers")
ended = event("WriteTxnMarkersResponse")

r, i = variable("r", RECORD), REPLICA.variable("i")
rest = without_first(requests)
record = first(requests).value
"""The record of the first request in flight."""

# The client -------------------------------------------------------------------------------------

queued, lowest = element("queued", queue), element("lowest", queue)
next_queued = if_(is_idempotent, min_of(lowest, lowest, default=0), first(queue).value)
"""An idempotent producer sends the lowest sequence first, any other the record that came back
last."""
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
            "retry",
            "A record is sent again",
            when=size(queue) > 0,
            set={
                queue: keep(queued, queued != next_queued),
                requests: append(requests, next_queued),
                succeeded: if_(ACKS == 0, succeeded | set_of(next_queued), succeeded),
            },
            source="RecordAccumulator.drainBatchesForOneNode, insertInSequenceOrder",
        ),
        Row(
            "next-record",
            "The next record is sent",
            when=replicas.produced < RECORDS,
            set={
                replicas.produced: replicas.produced + 1,
                requests: append(requests, replicas.produced),
                succeeded: if_(ACKS == 0, succeeded | set_of(replicas.produced), succeeded),
            },
            source="KafkaProducer.send, RecordAccumulator.drainBatchesForOneNode",
        ),
    ),
)

answers = Table(
    sender,
    on=answered,
    others=(replicas.clients,),
    when=taken & record.is_in(replicas.acknowledged),
    rows=(
        Row(
            "acknowledged",
            "The send succeeds",
            set={taken: False, requests: rest, succeeded: succeeded | set_of(record)},
            source="Sender.handleProduceResponse, ProducerBatch.complete",
        ),
    ),
)

acknowledged_but_record = if_(taken, replicas.acknowledged - set_of(record), replicas.acknowledged)
disconnects = Table(
    sender,
    on=disconnect,
    others=(replicas.clients,),
    when=size(requests) > 0,
    doc="Requests that no leader has taken are lost. If a leader has taken one, its response is "
    "lost.",
    rows=(
        Row(
            "nothing-awaited",
            "With acks=0 nobody waits for a response",
            when=ACKS == 0,
            set={
                taken: False,
                requests: sequence_of(),
                replicas.acknowledged: acknowledged_but_record,
            },
            source="NetworkClient.send",
        ),
        Row(
            "reenqueue",
            "Each record comes to the front of the queue, so the last one is the first",
            when=RETRIES == 1,
            set={
                taken: False,
                requests: sequence_of(),
                replicas.acknowledged: acknowledged_but_record,
                queue: if_(size(requests) > 1, requests[1:] + requests[:1], requests) + queue,
            },
            source="NetworkClient.handleDisconnections, Sender.reenqueueBatch",
        ),
        Row(
            "fail",
            "Without retries the sends fail",
            set={
                taken: False,
                requests: sequence_of(),
                replicas.acknowledged: acknowledged_but_record,
            },
            source="Sender.failBatch, NetworkException",
        ),
    ),
)

# Sessions and transactions -----------------------------------------------------------------------

may_begin_session = (SESSIONS > 1) & (replicas.session < SESSIONS - 1) & is_sending
begins = Table(
    sender,
    on=begin_session,
    others=(replicas.clients,),
    when=may_begin_session & ~is_transactional & ((size(requests) > 0) | (size(queue) > 0)),
    doc="The application crashes. A new producer sends the records again that didn't succeed.",
    rows=(
        Row(
            "new-producer-id",
            "The new producer has another producer id",
            set={
                replicas.session: replicas.session + 1,
                replicas.acknowledged: set_of(),
                taken: False,
                requests: sequence_of(),
                queue: requests + queue,
            },
            source="KIP-98: idempotence holds within a session of the producer",
        ),
    ),
)
commits = Table(
    sender,
    on=commit,
    others=(replicas.clients,),
    when=is_transactional & is_sending & all_of(r, r.is_in(succeeded)),
    rows=(
        Row(
            "commit",
            "All sends have succeeded, and the transaction is committed",
            set={transaction: Transaction.COMMITTING},
            source="KafkaProducer.commitTransaction",
        ),
    ),
)
aborts = Table(
    sender,
    on=abort,
    others=(replicas.clients,),
    when=is_transactional & may_begin_session & (replicas.produced > 0),
    rows=(
        Row(
            "abort",
            "The transaction is aborted, with the records that weren't sent",
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
is_ending = transaction.is_in(Transaction.COMMITTING, Transaction.ABORTING)
entry = element("m", of_session(replicas.log, replicas.session))
has_marker = any_of(entry, entry.kind != Kind.DATA)
marked_log = append(
    replicas.log,
    Entry(
        leader_epoch=replicas.leader_epoch,
        record=0,
        producer_id=replicas.session,
        kind=if_(transaction == Transaction.COMMITTING, Kind.COMMIT, Kind.ABORT),
    ),
)
marked_high_watermark = fetch.advanced(replicas.me, marked_log, replicas.isr, replicas.fetched)
marks = Table(
    replica,
    on=write_marker,
    others=(sender, replicas.clients),
    when=is_transactional & is_ending & (replicas.state == State.LEADER) & ~has_marker,
    doc="The coordinator sends the marker until the log has it. The coordinator never fails here.",
    rows=(
        Row(
            "not-enough-replicas",
            "Too few replicas are in sync, and the coordinator tries again",
            when=fetch.not_enough_replicas,
            source="Partition.appendRecordsToLeader",
        ),
        Row(
            "append",
            "The marker is in the log",
            set={
                replicas.log: marked_log,
                replicas.high_watermark.at(replicas.me): marked_high_watermark,
                replicas.acknowledged: fetch.acknowledged_up_to(
                    replicas.me, marked_log, replicas.isr, marked_high_watermark
                ),
            },
            source="Partition.appendRecordsToLeader, ReplicaManager.appendRecords",
        ),
    ),
)
replicated_log = replicas.log.at(i)[: replicas.high_watermark.at(i)]
marker = element("mark", of_session(replicated_log, replicas.session))
is_marker_replicated = any_of(
    i, (replicas.state.at(i) == State.LEADER) & any_of(marker, marker.kind != Kind.DATA)
)
ends = Table(
    sender,
    on=ended,
    others=(replicas.clients, replica),
    when=is_transactional & is_ending & is_marker_replicated,
    rows=(
        Row(
            "committed",
            "The transaction is committed",
            when=transaction == Transaction.COMMITTING,
            set={transaction: Transaction.COMMITTED},
            source="TransactionMarkerChannelManager.maybeWriteTxnCompletion",
        ),
        Row(
            "aborted",
            "The transaction is aborted, and the records are sent in another one",
            set={
                replicas.session: replicas.session + 1,
                replicas.acknowledged: set_of(),
                taken: False,
                requests: sequence_of(),
                transaction: Transaction.OPEN,
                replicas.produced: 0,
                succeeded: set_of(),
            },
            source="TransactionMarkerChannelManager.maybeWriteTxnCompletion",
        ),
    ),
)

# The leader -------------------------------------------------------------------------------------

appended = element("mine", of_session(replicas.log, replicas.session))
newest = last(of_session(replicas.log, replicas.session))
is_duplicate = if_(
    batches_kept,
    any_of(appended, appended.record == record),
    newest.is_set & (newest.value.record == record),
)
is_in_sequence = if_(
    newest.is_set,
    record == newest.value.record + 1,
    (record == 0) | (unknown_producer_accepted & ~(is_transactional & asks_coordinator)),
)
replicated = element(
    "replicated", of_session(replicas.log[: replicas.high_watermark], replicas.session)
)
queue_with_record = if_(RETRIES == 1, sequence_of(record) + queue, queue)
requests_but_answered = if_(ACKS == 0, rest, requests)
"""With acks=0 the request is done; any other is answered later."""
log_with_record = append(
    replicas.log,
    Entry(leader_epoch=replicas.leader_epoch, record=record, producer_id=replicas.session),
)
new_high_watermark = fetch.advanced(replicas.me, log_with_record, replicas.isr, replicas.fetched)
takes = Table(
    replica,
    on=take,
    others=(sender, replicas.clients),
    when=(size(requests) > 0) & ~taken & fetch.can_take,
    rows=(
        Row(
            "not-leader",
            "With acks=0 the producer doesn't hear that it has asked the wrong broker",
            when=(ACKS == 0) & (replicas.state != State.LEADER),
            set={
                taken: ~(ACKS == 0),
                requests: requests_but_answered,
                replicas.acknowledged: replicas.acknowledged | set_of(record),
            },
            source="Sender.handleProduceResponse",
        ),
        Row(
            "not-enough-replicas",
            "Too few replicas are in sync, and the producer tries again",
            when=fetch.not_enough_replicas,
            set={requests: rest, queue: queue_with_record},
            source="Partition.appendRecordsToLeader",
        ),
        Row(
            "duplicate",
            "The log has the record; it is acknowledged once it is replicated",
            when=is_idempotent & is_duplicate,
            set={
                taken: ~(ACKS == 0),
                requests: requests_but_answered,
                replicas.acknowledged: if_(
                    any_of(replicated, replicated.record == record),
                    replicas.acknowledged | set_of(record),
                    replicas.acknowledged,
                ),
            },
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        Row(
            "out-of-order",
            "The sequence isn't the next one",
            when=is_idempotent & ~is_in_sequence,
            set={requests: rest, queue: queue_with_record},
            source="ProducerAppendInfo.checkSequence",
        ),
        Row(
            "append-acks-all",
            "The record is in the log; it is acknowledged once it is replicated",
            when=replicas.acks_all,
            set={
                replicas.log: log_with_record,
                taken: ~(ACKS == 0),
                requests: requests_but_answered,
                replicas.high_watermark.at(replicas.me): new_high_watermark,
                replicas.acknowledged: fetch.acknowledged_up_to(
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
                taken: ~(ACKS == 0),
                requests: requests_but_answered,
                replicas.acknowledged: replicas.acknowledged | set_of(record),
                replicas.high_watermark: new_high_watermark,
            },
            source="ReplicaManager.appendRecords",
        ),
    ),
)

TABLES = (sends, answers, disconnects, begins, commits, aborts, ends, takes, marks)
