"""A transactional client instance, with one record for each partition of a transaction.

The application on top of it begins transactions, writes, and commits or aborts. A request that
the network loses is sent again at once, so that a loss shows only where an answer was lost.
"""

from __future__ import annotations

from collections.abc import Callable

from .features import (
    client_epoch_bump,
    producer_fenced_error,
    transaction_version_2,
    unknown_id_fatal,
)
from .language import Bool as Truth
from .language import (
    Expression,
    Loss,
    Machine,
    Map,
    Message,
    Optional,
    Row,
    Sending,
    Set,
    Table,
    all_of,
    each,
    enum,
    event,
    if_,
    lost,
    only,
    position,
    set_of,
    size,
    to_each,
    wrap,
)
from .language.expressions import Operand
from .messages import (
    CRASHES,
    DELAYS,
    EPOCH,
    EXPIRIES,
    LOSSES,
    NO_EPOCH,
    PARTITION,
    PRODUCER_ID,
    SEQUENCE,
    TRANSACTION,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
    Errors,
    InitProducerId,
    InitProducerIdResponse,
    Produce,
    ProduceResponse,
    Result,
    connection,
    producer,
)

State = enum(
    "State",
    "UNINITIALIZED",
    "INITIALIZING",
    "READY",
    "IN_TRANSACTION",
    "COMMITTING_TRANSACTION",
    "ABORTING_TRANSACTION",
    "ABORTABLE_ERROR",
    "FATAL_ERROR",
)
UNINITIALIZED, INITIALIZING, READY = State.UNINITIALIZED, State.INITIALIZING, State.READY
IN_TRANSACTION, FATAL_ERROR = State.IN_TRANSACTION, State.FATAL_ERROR
COMMITTING, ABORTING = State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION
ABORTABLE_ERROR = State.ABORTABLE_ERROR

state = producer.state_field("state", State)
producer_id = producer.field("producer_id", PRODUCER_ID)
epoch = producer.field("epoch", EPOCH, NO_EPOCH)
txn = producer.field("txn", Optional(TRANSACTION), doc="The application's transaction.")
next_sequence = producer.field("next_sequence", Map(PARTITION, SEQUENCE))
written = producer.field("written", Set(PARTITION), doc="Sent to in this transaction.")
in_flight = producer.field("in_flight", Set(PARTITION), doc="Whose batch isn't answered.")
adding = producer.field("adding", Set(PARTITION), doc="Asked to be added; at most one at a time.")
added = producer.field("added", Set(PARTITION), doc="In the transaction, as far as is known.")
must_bump = producer.field("must_bump", Truth(), doc="A new epoch is needed after the abort.")
id_unknown = producer.field(
    "id_unknown", Truth(), doc="The coordinator doesn't know its producer id any more."
)

Outcome = enum("Outcome", "NOT_BEGUN", "BEGUN", "COMMITTING", "COMMITTED", "ABORTED")
application = Machine("application", TRANSACTION, doc="What applications know of a transaction.")
outcome = application.field(
    "outcome", Outcome, doc="What the application asked for, and what the client said it came to."
)
acknowledged = application.field(
    "acknowledged", Set(PARTITION), doc="Partitions whose record was acknowledged."
)

init_transactions = event("initTransactions")
begin_transaction = event("beginTransaction", txn=TRANSACTION)
add_partition = event("add partition", partition=PARTITION)
send = event("send", partition=PARTITION)
commit_transaction = event("commitTransaction")
abort_transaction = event("abortTransaction")
expire_batch = event(
    "batch expires", partition=PARTITION,
    event_doc="delivery.timeout.ms is over while the request may still arrive.",
)  # fmt: skip
request_overtaken = event(
    "request overtaken", event_doc="request.timeout.ms is over while the request may still arrive."
)
crash = event("crash")

t = TRANSACTION.variable("t")
partition = PARTITION.variable("q")

_MANAGER = "TransactionManager"
NO_SEQUENCES = each(partition, 0)
NO_ID = 0  # which one doesn't matter without an epoch
moved = (
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
)
idle = (size(in_flight) == 0) & (size(adding) == 0)
started = if_(transaction_version_2, size(written) > 0, size(added) > 0)
ENDED: dict[Expression, Operand] = {
    txn: None,
    written: set_of(),
    added: set_of(),
    adding: set_of(),
    in_flight: set_of(),
}


def _note(result: Expression) -> dict[Expression, Operand]:
    """The application asks for its transaction's commit, or learns what it came to."""
    return {outcome.at(txn.value): result}


# What a client sends --------------------------------------------------------------------------

me = producer.this


def _init(on: Expression) -> Sending:
    """The epoch held is the expected one: none for a client that starts."""
    return InitProducerId(producer=me, connection=on, expected_id=producer_id, expected_epoch=epoch)


def _add(to: Expression, on: Expression) -> Sending:
    return AddPartitionsToTxn(
        producer=me, partition=to, connection=on, producer_id=producer_id, producer_epoch=epoch
    )


def _produce(to: Expression, sequence: Expression) -> Sending:
    return Produce(
        producer=me,
        partition=to,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record=0,
        txn=txn.value,
    )


def _last_sequence(to: Expression) -> Expression:
    return wrap(next_sequence[to] - 1, SEQUENCE)


def _end(result: Expression, on: Expression) -> Sending:
    return EndTxn(
        producer=me, connection=on, producer_id=producer_id, producer_epoch=epoch, result=result
    )


_result = if_(state == COMMITTING, Result.COMMIT, Result.ABORT)
_told = if_(state == COMMITTING, Outcome.COMMITTED, Outcome.ABORTED)

# initTransactions ------------------------------------------------------------------------------

initialize = Table(
    producer,
    on=init_transactions,
    when=state == UNINITIALIZED,
    rows=(
        Row(
            "ask for an epoch",
            goto=INITIALIZING,
            send=(_init(connection),),
            source=f"{_MANAGER}.initializeTransactions",
        ),
    ),
)

_INIT = f"{_MANAGER}.InitProducerIdHandler.handleResponse"
initialized = Table(
    producer,
    on=InitProducerIdResponse,
    rows=(
        Row("on a closed connection", when=InitProducerIdResponse.connection != connection),
        Row(
            "initialized",
            when=InitProducerIdResponse.error == Errors.NONE,
            goto=READY,
            set={
                producer_id: InitProducerIdResponse.producer_id,
                epoch: InitProducerIdResponse.producer_epoch,
                next_sequence: NO_SEQUENCES,
                must_bump: False,
                id_unknown: False,
            },
            source=_INIT,
        ),
        Row(
            "retry",
            when=InitProducerIdResponse.error.is_in(Errors.CONCURRENT_TRANSACTIONS, *moved),
            send=(_init(connection),),
            source=_INIT,
        ),
        Row("fatal", goto=FATAL_ERROR, set=dict(ENDED), source=_INIT),
    ),
)

# A transaction ---------------------------------------------------------------------------------

_begun = begin_transaction.txn
begin = Table(
    producer,
    on=begin_transaction,
    elsewhere=(application,),
    when=(state == READY)
    & (outcome.at(_begun) == Outcome.NOT_BEGUN)
    & all_of(t, (position(t) < position(_begun)).implies(outcome.at(t) != Outcome.NOT_BEGUN)),
    doc="Applications' transactions are numbered in the order in which they begin.",
    rows=(
        Row(
            "begin",
            goto=IN_TRANSACTION,
            set={txn: _begun, outcome.at(_begun): Outcome.BEGUN},
            source=f"{_MANAGER}.beginTransaction",
        ),
    ),
)

add = Table(
    producer,
    on=add_partition,
    when=(state == IN_TRANSACTION) & (size(adding) == 0) & ~add_partition.partition.is_in(added),
    rows=(
        Row(
            "add",
            during=~transaction_version_2,
            set={adding: set_of(add_partition.partition)},
            send=(_add(add_partition.partition, connection),),
            source=f"{_MANAGER}.maybeAddPartition",
        ),
    ),
)

_ADDED = f"{_MANAGER}.AddPartitionsToTxnHandler.handleResponse"
_added = AddPartitionsToTxnResponse
added_to_transaction = Table(
    producer,
    on=AddPartitionsToTxnResponse,
    rows=only(
        ~transaction_version_2,
        Row("on a closed connection", when=_added.connection != connection),
        Row(
            "added",
            when=_added.error == Errors.NONE,
            set={adding: set_of(), added: added | set_of(_added.partition)},
            source=_ADDED,
        ),
        Row(
            "retry",
            when=_added.error.is_in(Errors.CONCURRENT_TRANSACTIONS, *moved),
            send=(_add(_added.partition, connection),),
            source=_ADDED,
        ),
        Row(
            "unknown producer id",
            when=_added.error == Errors.INVALID_PRODUCER_ID_MAPPING,
            during=client_epoch_bump & ~unknown_id_fatal,
            goto=ABORTABLE_ERROR,
            set={adding: set_of(), must_bump: True, id_unknown: True},
            source=f"{_MANAGER}.abortableErrorIfPossible",
        ),
        Row("fatal", goto=FATAL_ERROR, set=dict(ENDED), source=_ADDED),
    ),
)

_to = send.partition
sent = Table(
    producer,
    on=send,
    when=(state == IN_TRANSACTION)
    & (size(adding) == 0)
    & ~_to.is_in(written)
    & (transaction_version_2 | _to.is_in(added)),
    rows=(
        Row(
            "send",
            set={
                written: written | set_of(_to),
                in_flight: in_flight | set_of(_to),
                next_sequence[_to]: wrap(next_sequence[_to] + 1, SEQUENCE),
            },
            send=(_produce(_to, next_sequence[_to]),),
            source="Sender.sendProducerData, RecordAccumulator.drainBatchesForOneNode",
        ),
    ),
)

_answer = ProduceResponse
_from = _answer.partition
_failed = {in_flight: in_flight - set_of(_from)}
_bump = {must_bump: must_bump | (client_epoch_bump & ~transaction_version_2)}


def _awaited(event: Message | Loss) -> Expression:
    return event.partition.is_in(in_flight) & (txn == event.txn)


def answer_batch(
    client: Expression,
    where: Expression,
    record: Expression,
    batch_txn: Expression,
    error: Expression,
) -> Sending:
    """A leader's answer to a batch, if its client still waits for one."""
    return Sending(
        ProduceResponse,
        ProduceResponse(
            producer=client, partition=where, record=record, txn=batch_txn, error=error
        ).fields,
        when=where.is_in(in_flight.at(client)) & (txn.at(client) == batch_txn),
    )


produced = Table(
    producer,
    on=ProduceResponse,
    elsewhere=(application,),
    rows=(
        Row("nobody waits for it", when=~_awaited(_answer)),
        Row(
            "acknowledged",
            when=_answer.error == Errors.NONE,
            set=_failed | {acknowledged.at(txn.value): acknowledged.at(txn.value) | set_of(_from)},
            source="Sender.completeBatch",
        ),
        Row(
            "retry",
            when=_answer.error.is_in(
                Errors.CONCURRENT_TRANSACTIONS,
                Errors.NOT_ENOUGH_REPLICAS,
                Errors.NOT_LEADER_OR_FOLLOWER,
            ),
            send=(_produce(_from, _last_sequence(_from)),),
            source="Sender.canRetry",
        ),
        Row(
            "fatal",
            when=_answer.error == Errors.INVALID_PRODUCER_EPOCH,
            during=~producer_fenced_error,
            goto=FATAL_ERROR,
            set=dict(ENDED),
            source="Sender.handleFailedBatch before 2.7",
        ),
        Row(
            "unknown producer id",
            when=_answer.error == Errors.INVALID_PRODUCER_ID_MAPPING,
            during=unknown_id_fatal,
            goto=FATAL_ERROR,
            set=dict(ENDED),
            source="KAFKA-18019",
        ),
        Row(
            "abortable",
            goto=ABORTABLE_ERROR,
            set=_failed | _bump,
            source=f"{_MANAGER}.maybeTransitionToErrorState",
        ),
    ),
)

# The end ---------------------------------------------------------------------------------------

commit = Table(
    producer,
    on=commit_transaction,
    elsewhere=(application,),
    when=(state == IN_TRANSACTION) & idle,
    rows=(
        Row(
            "commit",
            when=started,
            goto=COMMITTING,
            set=_note(Outcome.COMMITTING),
            send=(_end(Result.COMMIT, connection),),
            source=f"{_MANAGER}.beginCommit",
        ),
        Row(
            "nothing to commit",
            goto=READY,
            set=_note(Outcome.COMMITTED) | ENDED,
            source="Sender.maybeSendAndPollTransactionalRequest",
        ),
    ),
)

abort = Table(
    producer,
    on=abort_transaction,
    elsewhere=(application,),
    when=state.is_in(IN_TRANSACTION, ABORTABLE_ERROR) & idle,
    rows=(
        Row(
            "a new producer id instead",
            when=id_unknown,
            during=client_epoch_bump & ~unknown_id_fatal,
            goto=INITIALIZING,
            set=_note(Outcome.ABORTED) | ENDED,
            send=(_init(connection),),
            source=f"{_MANAGER}.beginCompletingTransaction before 4.0",
        ),
        Row(
            "abort",
            when=started,
            goto=ABORTING,
            send=(_end(Result.ABORT, connection),),
            source=f"{_MANAGER}.beginAbort",
        ),
        Row(
            "nothing to abort",
            goto=READY,
            set=_note(Outcome.ABORTED) | ENDED,
            source="Sender.maybeSendAndPollTransactionalRequest",
        ),
    ),
)

_END = f"{_MANAGER}.EndTxnHandler.handleResponse"
_ended = EndTxnResponse
ended = Table(
    producer,
    on=EndTxnResponse,
    elsewhere=(application,),
    rows=(
        Row("on a closed connection", when=_ended.connection != connection),
        Row(
            "ended, with a new epoch",
            when=_ended.error == Errors.NONE,
            during=transaction_version_2,
            goto=READY,
            set=_note(_told)
            | ENDED
            | {
                producer_id: _ended.producer_id,
                epoch: _ended.producer_epoch,
                next_sequence: NO_SEQUENCES,
            },
            source="KIP-890 part 2",
        ),
        Row(
            "ended, and a new epoch needed",
            when=(_ended.error == Errors.NONE) & must_bump,
            during=~transaction_version_2,
            goto=INITIALIZING,
            set=_note(_told) | ENDED,
            send=(_init(connection),),
            source="KIP-360",
        ),
        Row(
            "ended",
            when=_ended.error == Errors.NONE,
            during=~transaction_version_2,
            goto=READY,
            set=_note(_told) | ENDED,
            source=_END,
        ),
        Row(
            "retry",
            when=_ended.error.is_in(Errors.CONCURRENT_TRANSACTIONS, *moved),
            send=(_end(_result, connection),),
            source=_END,
        ),
        Row(
            "unknown producer id",
            when=_ended.error == Errors.INVALID_PRODUCER_ID_MAPPING,
            during=client_epoch_bump & ~unknown_id_fatal,
            goto=ABORTABLE_ERROR,
            set={must_bump: True, id_unknown: True},
            source=f"{_MANAGER}.abortableErrorIfPossible",
        ),
        Row("fatal", goto=FATAL_ERROR, set=dict(ENDED), source=_END),
    ),
)

# What goes wrong -------------------------------------------------------------------------------

_expired = expire_batch.partition
expired = Table(
    producer,
    on=expire_batch,
    when=(EXPIRIES > 0) & _expired.is_in(in_flight),
    rows=(
        Row(
            "give up the batch",
            goto=ABORTABLE_ERROR,
            set={in_flight: in_flight - set_of(_expired)} | _bump,
            source="Sender.failBatch, delivery.timeout.ms",
        ),
    ),
)

_NETWORK = "NetworkClient.handleTimedOutRequests"
_next = connection + 1
overtaken = Table(
    producer,
    on=request_overtaken,
    when=DELAYS > 0,
    rows=(
        Row(
            "ask for an epoch again",
            when=state == INITIALIZING,
            set={connection: _next},
            send=(_init(_next),),
            source=_NETWORK,
        ),
        Row(
            "end again",
            when=state.is_in(COMMITTING, ABORTING),
            set={connection: _next},
            send=(_end(_result, _next),),
            source=_NETWORK,
        ),
        Row(
            "add again",
            when=size(adding) > 0,
            during=~transaction_version_2,
            set={connection: _next},
            send=(to_each(partition, partition.is_in(adding), _add(partition, _next)),),
            source=_NETWORK,
        ),
    ),
)

crashed = Table(
    producer,
    on=crash,
    when=(CRASHES > 0) & (state != UNINITIALIZED),
    rows=(
        Row(
            "forget everything",
            goto=UNINITIALIZED,
            set=ENDED
            | {
                producer_id: NO_ID,
                epoch: NO_EPOCH,
                next_sequence: NO_SEQUENCES,
                must_bump: False,
                id_unknown: False,
                connection: _next,
            },
        ),
    ),
)


def _lost(what: Message, again: Callable[[Loss], Sending]) -> Table:
    """A request, or the answer to one, is lost: whoever still waits sends the request again."""
    loss = lost(what)
    waits = _awaited(loss) if what in (Produce, ProduceResponse) else loss.connection == connection
    return Table(
        producer,
        on=loss,
        when=LOSSES > 0,
        rows=(
            Row("nobody waits for it", when=~waits),
            Row("send again", send=(again(loss),), source="NetworkClient.handleDisconnections"),
        ),
    )


def _lost_either(
    request: Message, response: Message, again: Callable[[Loss], Sending]
) -> tuple[Table, ...]:
    return _lost(request, again), _lost(response, again)


REQUESTS = (InitProducerId, AddPartitionsToTxn, Produce, EndTxn)
ANSWERS = (
    InitProducerIdResponse,
    AddPartitionsToTxnResponse,
    ProduceResponse,
    EndTxnResponse,
)
FAULTY_EVENTS = (
    expire_batch,
    request_overtaken,
    crash,
    *(lost(message) for message in REQUESTS + ANSWERS),
)
TABLES = (
    initialize,
    initialized,
    begin,
    add,
    added_to_transaction,
    sent,
    produced,
    commit,
    abort,
    ended,
    expired,
    overtaken,
    crashed,
    *_lost_either(InitProducerId, InitProducerIdResponse, lambda _: _init(connection)),
    *_lost_either(
        AddPartitionsToTxn,
        AddPartitionsToTxnResponse,
        lambda loss: _add(loss.partition, connection),
    ),
    *_lost_either(
        Produce,
        ProduceResponse,
        lambda loss: _produce(loss.partition, _last_sequence(loss.partition)),
    ),
    *_lost_either(EndTxn, EndTxnResponse, lambda _: _end(_result, connection)),
)
