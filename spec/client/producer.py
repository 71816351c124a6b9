"""A transactional client in a bounded run: the end of a transaction, lost requests, and a crash.

The application on top of it begins transactions, writes, and commits or aborts. Batches are in
`sender`. A request that the network loses is sent again at once: a loss shows only where an answer
was lost.

At most one request to a coordinator is in flight. If the application asks for a commit or an abort
while a partition is being added, the call comes after the answer: it has the same consequences
before.
"""

from __future__ import annotations

from ...language import (
    Row,
    Table,
    each,
    event,
    lost,
    replace,
    set_of,
    size,
    to_each,
)
from ..answers import awaits
from ..messages import (
    CRASHES,
    DELAYS,
    LOSSES,
    NO_EPOCH,
    NO_OFFSET,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
    InitProducerId,
    InitProducerIdResponse,
    Produce,
    clock,
    connection,
    producer,
)
from ..releases.features import transaction_version_2
from . import state as client
from .batches.accumulator import muted, produce
from .batches.sender import is_sent_at_once, next_attempt, sent_or_reenqueued
from .calls.calls_at_once import abort, begin, commit, initialize, send
from .state import q
from .transactions.add_partitions import add, added_to_transaction
from .transactions.end_txn import end, ended, result
from .transactions.init_producer_id import init, initialized
from .transactions.transaction_manager import Reaction

# The end ----------------------------------------------------------------------------------------

end_transaction = event("every batch is done")

end_sent = Table(
    producer,
    on=end_transaction,
    when=client.ending & client.settled,
    doc="EndTxn is the last request of a transaction.",
    rows=(
        Row(
            "end",
            "Every batch is done, and EndTxn is sent",
            set={client.ending: False},
            send=(end(result, connection),),
            source="TransactionManager.nextRequest",
        ),
    ),
)

# Requests overtaken -----------------------------------------------------------------------------

request_overtaken = event(
    "request overtaken", event_doc="request.timeout.ms is over while the request may still arrive."
)

overtaken = Table(
    producer,
    on=request_overtaken,
    when=DELAYS > 0,
    doc="The client closes its connection and sends the request again on another one.",
    rows=(
        Row(
            "init-again",
            "InitProducerId is sent again",
            when=client.waits_for_id & ~client.can_only_close,
            set={connection: connection + 1},
            send=(init(connection + 1),),
            source="NetworkClient.handleTimedOutRequests",
        ),
        Row(
            "end-again",
            "EndTxn is sent again",
            when=client.state.is_in(client.COMMITTING, client.ABORTING)
            & ~client.ending
            & ~client.can_only_close,
            set={connection: connection + 1},
            send=(end(result, connection + 1),),
            source="NetworkClient.handleTimedOutRequests",
        ),
        Row(
            "add-again",
            "AddPartitionsToTxn is sent again",
            when=size(client.adding) > 0,
            during=~transaction_version_2,
            set={connection: connection + 1},
            send=(to_each(q, q.is_in(client.adding), add(q, connection + 1)),),
            source="NetworkClient.handleTimedOutRequests",
        ),
    ),
)

# A crash ----------------------------------------------------------------------------------------

crash = event("crash")

crashed = Table(
    producer,
    on=crash,
    when=(CRASHES > 0) & (client.state != client.UNINITIALIZED),
    rows=(
        Row(
            "crashed",
            "The instance starts again, and remembers nothing",
            goto=client.UNINITIALIZED,
            set={
                client.txn: None,
                client.batches: client.NO_BATCHES,
                client.ending: False,
                client.adding: set_of(),
                client.added: set_of(),
                client.producer_id: client.NO_ID,
                client.producer_epoch: NO_EPOCH,
                client.must_bump: False,
                client.bump_asked: False,
                connection: connection + 1,
                client.next_sequence: each(q, 0),
                client.last_acked: each(q, client.NO_SEQUENCE),
                client.last_acked_offset: each(q, NO_OFFSET),
                client.entry_id: each(q, client.NO_ID),
                client.entry_epoch: each(q, NO_EPOCH),
                client.unresolved: each(q, None),
            },
            source="KafkaProducer.initTransactions, of another instance",
        ),
    ),
)

# Lost requests and answers ----------------------------------------------------------------------

lost_init = lost(InitProducerId)
init_lost = Table(
    producer,
    on=lost_init,
    when=LOSSES > 0,
    rows=(
        Row(
            "not-awaited",
            "The client has closed the connection",
            when=lost_init.connection != connection,
            source="NetworkClient.handleDisconnections",
        ),
        Row(
            "sent-again",
            "InitProducerId is sent again",
            send=(init(connection),),
            source="NetworkClient.handleDisconnections, "
            "TransactionManager.TxnRequestHandler.onComplete",
        ),
    ),
)

lost_init_response = lost(InitProducerIdResponse)
init_response_lost = Table(
    producer,
    on=lost_init_response,
    when=LOSSES > 0,
    rows=(
        Row(
            "not-awaited",
            "The client has closed the connection",
            when=lost_init_response.connection != connection,
            source="NetworkClient.handleDisconnections",
        ),
        Row(
            "sent-again",
            "InitProducerId is sent again",
            send=(init(connection),),
            source="NetworkClient.handleDisconnections, "
            "TransactionManager.TxnRequestHandler.onComplete",
        ),
    ),
)

lost_add = lost(AddPartitionsToTxn)
add_lost = Table(
    producer,
    on=lost_add,
    when=LOSSES > 0,
    rows=(
        Row(
            "not-awaited",
            "The client has closed the connection",
            when=lost_add.connection != connection,
            source="NetworkClient.handleDisconnections",
        ),
        Row(
            "not-tried-again",
            "The client is in an error state, and the request isn't tried again",
            when=client.state.is_in(client.ABORTABLE_ERROR, client.FATAL_ERROR),
            set={client.adding: set_of()},
            source="TransactionManager.maybeTerminateRequestWithError",
        ),
        Row(
            "sent-again",
            "AddPartitionsToTxn is sent again",
            send=(add(lost_add.partition, connection),),
            source="NetworkClient.handleDisconnections, "
            "TransactionManager.TxnRequestHandler.onComplete",
        ),
    ),
)

lost_add_response = lost(AddPartitionsToTxnResponse)
add_response_lost = Table(
    producer,
    on=lost_add_response,
    when=LOSSES > 0,
    rows=(
        Row(
            "not-awaited",
            "The client has closed the connection",
            when=lost_add_response.connection != connection,
            source="NetworkClient.handleDisconnections",
        ),
        Row(
            "not-tried-again",
            "The client is in an error state, and the request isn't tried again",
            when=client.state.is_in(client.ABORTABLE_ERROR, client.FATAL_ERROR),
            set={client.adding: set_of()},
            source="TransactionManager.maybeTerminateRequestWithError",
        ),
        Row(
            "sent-again",
            "AddPartitionsToTxn is sent again",
            send=(add(lost_add_response.partition, connection),),
            source="NetworkClient.handleDisconnections, "
            "TransactionManager.TxnRequestHandler.onComplete",
        ),
    ),
)

lost_produce = lost(Produce)
lost_batch = client.batches[lost_produce.partition][lost_produce.record]
lost_details = client.details[lost_produce.partition][lost_produce.record]
produce_lost = Table(
    producer,
    on=lost_produce,
    response=Reaction,
    others=(clock,),
    when=(LOSSES > 0)
    & awaits(lost_produce.producer, lost_produce.partition, lost_produce.record, lost_produce.txn),
    rows=(
        Row(
            "requeued",
            "The batch is in its queue again",
            set={
                lost_batch: replace(
                    sent_or_reenqueued(lost_produce.partition, lost_produce.record), unanswered=True
                ),
                lost_details: next_attempt(lost_details),
                muted: muted - set_of(lost_produce.partition),
            },
            send=(
                produce(
                    lost_produce.partition,
                    lost_produce.record,
                    lost_batch,
                    is_sent_at_once(lost_produce.partition, lost_produce.record),
                ),
            ),
            source="NetworkClient.handleDisconnections, Sender.completeBatch",
        ),
    ),
)

lost_end = lost(EndTxn)
end_lost = Table(
    producer,
    on=lost_end,
    when=LOSSES > 0,
    rows=(
        Row(
            "not-awaited",
            "The client has closed the connection",
            when=lost_end.connection != connection,
            source="NetworkClient.handleDisconnections",
        ),
        Row(
            "sent-again",
            "EndTxn is sent again",
            send=(end(result, connection),),
            source="NetworkClient.handleDisconnections, "
            "TransactionManager.TxnRequestHandler.onComplete",
        ),
    ),
)

lost_end_response = lost(EndTxnResponse)
end_response_lost = Table(
    producer,
    on=lost_end_response,
    when=LOSSES > 0,
    rows=(
        Row(
            "not-awaited",
            "The client has closed the connection",
            when=lost_end_response.connection != connection,
            source="NetworkClient.handleDisconnections",
        ),
        Row(
            "sent-again",
            "EndTxn is sent again",
            send=(end(result, connection),),
            source="NetworkClient.handleDisconnections, "
            "TransactionManager.TxnRequestHandler.onComplete",
        ),
    ),
)

REQUESTS = (InitProducerId, AddPartitionsToTxn, EndTxn)
FAULTY_EVENTS = (
    request_overtaken,
    crash,
    lost_produce,
    lost_init,
    lost_add,
    lost_end,
    lost_init_response,
    lost_add_response,
    lost_end_response,
)
TABLES = (
    initialize,
    initialized,
    begin,
    send,
    added_to_transaction,
    commit,
    abort,
    end_sent,
    ended,
    overtaken,
    crashed,
    init_lost,
    init_response_lost,
    add_lost,
    add_response_lost,
    produce_lost,
    end_lost,
    end_response_lost,
)
