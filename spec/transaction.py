"""The transaction coordinator: its entry for one transactional id.

A change is first *pending* while its record is appended to the transaction log, and takes effect
when the append has completed; the answer goes out then. The entry's producer id is fixed in this
slice: an epoch that is used up isn't replaced by a new producer id, so that InitProducerId and,
with transaction version 2, EndTxn aren't taken up at the last epoch that clients may hold.
"""

from __future__ import annotations

from collections.abc import Callable

from .features import (
    pending_first,
    producer_fenced_error,
    strict_end_txn_epoch,
    transaction_version_2,
    verification,
)
from .language import (
    Expression,
    Map,
    Message,
    Optional,
    Row,
    Sending,
    Set,
    Table,
    each,
    enum,
    event,
    if_,
    lost,
    only,
    set_of,
    size,
    some,
    to_each,
)
from .messages import (
    CONNECTION,
    DELAYS,
    EPOCH,
    LARGEST_EPOCH,
    LOSSES,
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    TIMEOUTS,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
    Errors,
    InitProducerId,
    InitProducerIdResponse,
    Result,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    answer_on,
    connection,
    producer,
    transaction,
)

TransactionState = enum(
    "TransactionState",
    EMPTY=0,
    ONGOING=1,
    PREPARE_COMMIT=2,
    PREPARE_ABORT=3,
    COMPLETE_COMMIT=4,
    COMPLETE_ABORT=5,
    DEAD=6,
    PREPARE_EPOCH_FENCE=7,
)
EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE

state = transaction.state_field("state", TransactionState, EMPTY)
pending = transaction.field(
    "pending", Optional(TransactionState), doc="The state whose record is being appended."
)
producer_id = transaction.field("producer_id", PRODUCER_ID)
producer_epoch = transaction.field("producer_epoch", EPOCH, NO_EPOCH)
last_producer_epoch = transaction.field(
    "last_producer_epoch", EPOCH, NO_EPOCH, doc="The epoch before, for the retry of a request."
)
partitions = transaction.field(
    "partitions", Set(PARTITION), doc="Those in the transaction whose marker isn't acknowledged."
)
pending_epoch = transaction.field("pending_epoch", EPOCH, NO_EPOCH)
pending_last_epoch = transaction.field("pending_last_epoch", EPOCH, NO_EPOCH)
pending_partitions = transaction.field("pending_partitions", Set(PARTITION))
asked_by = transaction.field(
    "asked_by", Map(PRODUCER, Optional(CONNECTION)), doc="Who waits for the pending change."
)
fenced_for = transaction.field(
    "fenced_for", Map(PRODUCER, Optional(CONNECTION)),
    doc="Whose InitProducerId waits for the abort of the transaction before it.",
)  # fmt: skip
adding_for = transaction.field(
    "adding_for", Map(PRODUCER, Set(PARTITION)), doc="Whose partition is being added."
)
marker_sent = transaction.field("marker_sent", Set(PARTITION), doc="Markers not yet answered.")
marker_connection = transaction.field("marker_connection", Map(PARTITION, CONNECTION))

log_append = event("log append", event_doc="The pending record has been replicated.")
continue_fence = event("continue the fence", event_doc="The second half of a fencing abort.")
begin_completion = event("begin completion", event_doc="After the Prepare record was appended.")
timeout = event("transaction timeout", event_doc="The transaction is older than its timeout.")
send_marker = event("send marker", partition=PARTITION)
marker_overtaken = event(
    "marker overtaken", partition=PARTITION,
    event_doc="The leader's connection breaks: the marker is sent again, the old one may arrive.",
)  # fmt: skip

p = PARTITION.variable("p")
c = PRODUCER.variable("c")

fenced = if_(producer_fenced_error, Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH)
exhausted = producer_epoch >= LARGEST_EPOCH - 1
is_prepared = state.is_in(PREPARE_COMMIT, PREPARE_ABORT)
fencing = pending == PREPARE_EPOCH_FENCE
in_transition = pending.is_set & ~fencing
completing = pending.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)
NOBODY = each(c, None)


def _asks(request: Message) -> dict[Expression, Expression]:
    return {asked_by[request.producer]: some(request.connection)}


# InitProducerId --------------------------------------------------------------------------------

_init = "TransactionCoordinator.prepareInitProducerIdTransit"
_expected = InitProducerId.expected_epoch


def _init_answer(error: Expression) -> Sending:
    return answer_on(
        connection.at(InitProducerId.producer), InitProducerIdResponse, InitProducerId.connection,
        producer=InitProducerId.producer, error=error, producer_id=producer_id,
        producer_epoch=NO_EPOCH,
    )  # fmt: skip


init_producer_id = Table(
    transaction,
    on=InitProducerId,
    elsewhere=(producer,),
    # at the last epoch of clients, a new producer id would be needed
    when=pending.is_set | is_prepared | ~exhausted | (~transaction_version_2 & (state == ONGOING)),
    rows=(
        Row(
            "transition in flight",
            when=pending.is_set,
            reply=_init_answer(Errors.CONCURRENT_TRANSACTIONS),
            source=_init,
        ),
        Row(
            "commit or abort under way",
            when=is_prepared,
            reply=_init_answer(Errors.CONCURRENT_TRANSACTIONS),
            source=_init,
        ),
        Row(
            "fence the open transaction",
            when=state == ONGOING,
            set={
                pending: PREPARE_EPOCH_FENCE,
                pending_epoch: producer_epoch + 1,
                fenced_for[InitProducerId.producer]: some(InitProducerId.connection),
            },
            source="KIP-98, TransactionMetadata.prepareFenceProducerEpoch",
        ),
        Row(
            "new producer",
            when=_expected == NO_EPOCH,
            set={
                pending: EMPTY,
                pending_epoch: producer_epoch + 1,
                pending_last_epoch: NO_EPOCH,
            }
            | _asks(InitProducerId),
            source="TransactionMetadata.prepareIncrementProducerEpoch",
        ),
        Row(
            "bump of the current epoch",
            when=_expected == producer_epoch,
            set={
                pending: EMPTY,
                pending_epoch: producer_epoch + 1,
                pending_last_epoch: producer_epoch,
            }
            | _asks(InitProducerId),
            source="KIP-360",
        ),
        Row(
            "retry of a bump",
            when=_expected == last_producer_epoch,
            set={
                pending: EMPTY,
                pending_epoch: producer_epoch,
                pending_last_epoch: last_producer_epoch,
            }
            | _asks(InitProducerId),
            source="KIP-360",
        ),
        Row("stale producer", reply=_init_answer(fenced), source="KIP-360"),
    ),
)

# AddPartitionsToTxn ----------------------------------------------------------------------------


def _add_partitions(
    request: Message,
    answer: Callable[[Expression], Sending],
    asks: dict[Expression, Expression],
) -> tuple[Row, ...]:
    """The rows of both forms of the request, a client's and a leader's."""
    source = "TransactionCoordinator.handleAddPartitionsToTransaction"
    wanted = request.partition
    busy = answer(Errors.CONCURRENT_TRANSACTIONS)
    return (
        Row(
            "transition in flight",
            when=pending.is_set,
            during=pending_first,
            reply=busy,
            source="KAFKA-18660",
        ),
        Row(
            "other epoch",
            when=request.producer_epoch != producer_epoch,
            reply=answer(fenced),
            source=source,
        ),
        Row(
            "transition in flight, same epoch",
            when=pending.is_set,
            during=~pending_first,
            reply=busy,
            source=source,
        ),
        Row("commit or abort under way", when=is_prepared, reply=busy, source=source),
        Row(
            "already added",
            when=(state == ONGOING) & wanted.is_in(partitions),
            reply=answer(Errors.NONE),
            source=source,
        ),
        Row(
            "add",
            set={
                pending: ONGOING,
                pending_partitions: partitions | set_of(wanted),
                adding_for[request.producer]: set_of(wanted),
            }
            | asks,
            source="TransactionMetadata.prepareAddPartitions",
        ),
    )


def _add_answer(error: Expression) -> Sending:
    request = AddPartitionsToTxn
    return answer_on(
        connection.at(request.producer), AddPartitionsToTxnResponse, request.connection,
        producer=request.producer, partition=request.partition, error=error,
    )  # fmt: skip


add_partitions = Table(
    transaction,
    on=AddPartitionsToTxn,
    elsewhere=(producer,),
    rows=_add_partitions(AddPartitionsToTxn, _add_answer, _asks(AddPartitionsToTxn)),
)


def _leader_answer(error: Expression) -> Sending:
    return AddPartitionsByLeaderResponse(error=error)


_VERIFY = "TransactionCoordinator.handleVerifyPartitionsInTransaction"
_verify_only = only(
    verification & ~transaction_version_2,
    Row(
        "verify, other epoch",
        when=AddPartitionsByLeader.producer_epoch != producer_epoch,
        reply=_leader_answer(fenced),
        source=_VERIFY,
    ),
    Row(
        "verify, commit or abort under way",
        when=is_prepared,
        reply=_leader_answer(Errors.CONCURRENT_TRANSACTIONS),
        source=_VERIFY,
    ),
    Row(
        "verify, in the transaction",
        when=AddPartitionsByLeader.partition.is_in(partitions),
        reply=_leader_answer(Errors.NONE),
        source=_VERIFY,
    ),
    Row(
        "verify, not in the transaction",
        reply=_leader_answer(Errors.TRANSACTION_ABORTABLE),
        source=_VERIFY,
    ),
)

add_partitions_by_leader = Table(
    transaction,
    on=AddPartitionsByLeader,
    response=AddPartitionsByLeaderResponse,
    rows=_verify_only
    + only(transaction_version_2, *_add_partitions(AddPartitionsByLeader, _leader_answer, {})),
)

# EndTxn ----------------------------------------------------------------------------------------

_commits = EndTxn.result == Result.COMMIT
_epoch = EndTxn.producer_epoch
_prepare = if_(_commits, PREPARE_COMMIT, PREPARE_ABORT)


def _end_answer(error: Expression, epoch: Expression | int = NO_EPOCH) -> Sending:
    return answer_on(
        connection.at(EndTxn.producer), EndTxnResponse, EndTxn.connection,
        producer=EndTxn.producer, error=error, producer_id=producer_id, producer_epoch=epoch,
    )  # fmt: skip


_busy = _end_answer(Errors.CONCURRENT_TRANSACTIONS)
_invalid = _end_answer(Errors.INVALID_TXN_STATE)
_fencer_waits = to_each(
    c,
    fenced_for[c] == connection.at(c),
    InitProducerIdResponse(
        producer=c,
        error=Errors.CONCURRENT_TRANSACTIONS,
        connection=connection.at(c),
        producer_id=producer_id,
        producer_epoch=NO_EPOCH,
    ),
)

_END_1 = "TransactionCoordinator.endTransactionWithTV1"
_end_before_version_2 = only(
    ~transaction_version_2,
    Row(
        "other epoch",
        when=_epoch != producer_epoch,
        during=strict_end_txn_epoch,
        reply=_end_answer(fenced),
        source="KAFKA-9600",
    ),
    Row(
        "stale epoch",
        when=_epoch < producer_epoch,
        during=~strict_end_txn_epoch,
        reply=_end_answer(fenced),
        source="TransactionCoordinator.endTransaction before 2.6",
    ),
    Row("transition in flight", when=in_transition, reply=_busy, source=_END_1),
    Row(
        "abort overtakes a fence",
        when=fencing & ~_commits,
        set={
            pending: PREPARE_ABORT,
            producer_epoch: _epoch,
            last_producer_epoch: NO_EPOCH,
            pending_epoch: _epoch,
            pending_last_epoch: NO_EPOCH,
            fenced_for: NOBODY,
        }
        | _asks(EndTxn),
        send=(_fencer_waits,),
        source=_END_1,
    ),
    Row(
        "commit meets a fence",
        when=fencing,
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source="TransactionMetadata.prepareTransitionTo",
    ),
    Row(
        "end",
        when=state == ONGOING,
        set={
            pending: _prepare,
            pending_epoch: producer_epoch,
            pending_last_epoch: last_producer_epoch,
        }
        | _asks(EndTxn),
        source="TransactionMetadata.prepareAbortOrCommit",
    ),
    Row(
        "ended so already",
        when=state == if_(_commits, COMPLETE_COMMIT, COMPLETE_ABORT),
        reply=_end_answer(Errors.NONE),
        source=_END_1,
    ),
    Row("end under way", when=state == _prepare, reply=_busy, source=_END_1),
    Row("no transaction to end so", reply=_invalid, source=_END_1),
)

_END_2 = "TransactionCoordinator.endTransaction"
_is_retry = producer_epoch == _epoch + 1
_bumped = {pending_epoch: producer_epoch + 1, pending_last_epoch: producer_epoch}
_end_version_2 = only(
    transaction_version_2,
    Row("transition in flight, version 2", when=in_transition, reply=_busy, source=_END_2),
    Row(
        "other epoch, version 2",
        when=~if_(
            is_prepared,
            _is_retry,
            if_(
                state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT),
                _is_retry | (_epoch == producer_epoch),
                _epoch == producer_epoch,
            ),
        ),
        reply=_end_answer(fenced),
        source=_END_2,
    ),
    Row(
        "commit meets a fence, version 2",
        when=fencing & _commits,
        reply=_end_answer(Errors.UNKNOWN_SERVER_ERROR),
        source="TransactionMetadata.prepareTransitionTo",
    ),
    Row(
        "abort overtakes a fence, version 2",
        when=fencing,
        set={pending: PREPARE_ABORT, fenced_for: NOBODY} | _bumped | _asks(EndTxn),
        send=(_fencer_waits,),
        source=_END_2,
    ),
    Row(
        "end, version 2",
        when=state == ONGOING,
        set={pending: _prepare} | _bumped | _asks(EndTxn),
        source="TransactionMetadata.prepareAbortOrCommit",
    ),
    Row(
        "ended so already, version 2",
        when=_is_retry & (state == if_(_commits, COMPLETE_COMMIT, COMPLETE_ABORT)),
        reply=_end_answer(Errors.NONE, producer_epoch),
        source=_END_2,
    ),
    Row(
        "ended otherwise already",
        when=_is_retry & state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT),
        reply=_invalid,
        source=_END_2,
    ),
    Row("end under way, version 2", when=state == _prepare, reply=_busy, source=_END_2),
    Row("other end under way", when=is_prepared, reply=_invalid, source=_END_2),
    Row("commit of nothing", when=_commits, reply=_invalid, source=_END_2),
    Row(
        "abort of nothing",
        set={pending: PREPARE_ABORT} | _bumped | _asks(EndTxn),
        source="KIP-890 part 2, the empty abort",
    ),
)

end_txn = Table(
    transaction,
    on=EndTxn,
    elsewhere=(producer,),
    # at the last epoch of clients, version 2 needs a new producer id
    when=~transaction_version_2 | in_transition | ~exhausted | (_epoch != producer_epoch),
    rows=_end_before_version_2 + _end_version_2,
)

# Timeout and fence ----------------------------------------------------------------------------

transaction_timeout = Table(
    transaction,
    on=timeout,
    when=(TIMEOUTS > 0)
    & (state == ONGOING)
    & ~pending.is_set
    & (~transaction_version_2 | ~exhausted),
    rows=(
        Row(
            "fence the open transaction",
            set={pending: PREPARE_EPOCH_FENCE, pending_epoch: producer_epoch + 1},
            source="TransactionCoordinator.abortTimedOutTransactions",
        ),
    ),
)

fence_continues = Table(
    transaction,
    on=continue_fence,
    when=fencing,
    rows=(
        Row(
            "abort with the bumped epoch",
            during=~transaction_version_2,
            set={
                pending: PREPARE_ABORT,
                producer_epoch: pending_epoch,
                last_producer_epoch: NO_EPOCH,
                pending_last_epoch: NO_EPOCH,
            },
            source="TransactionCoordinator.endTransactionWithTV1, not from a client",
        ),
        Row(
            "abort, which bumps the epoch",
            during=transaction_version_2,
            set={pending: PREPARE_ABORT} | _bumped,
            source="KAFKA-19367",
        ),
    ),
)

# The transaction log ---------------------------------------------------------------------------

_settled = {pending: None, pending_epoch: NO_EPOCH, pending_last_epoch: NO_EPOCH}
_APPENDED = "TransactionMetadata.completeTransitionTo"

log_appended = Table(
    transaction,
    on=log_append,
    elsewhere=(producer,),
    when=in_transition & (~completing | (size(partitions) == 0)),
    rows=(
        Row(
            "producer id given out",
            when=pending == EMPTY,
            goto=EMPTY,
            set=_settled
            | {
                producer_epoch: pending_epoch,
                last_producer_epoch: pending_last_epoch,
                asked_by: NOBODY,
            },
            send=(
                to_each(
                    c,
                    asked_by[c] == connection.at(c),
                    InitProducerIdResponse(
                        producer=c,
                        error=Errors.NONE,
                        connection=connection.at(c),
                        producer_id=producer_id,
                        producer_epoch=pending_epoch,
                    ),
                ),
            ),
            source=_APPENDED,
        ),
        Row(
            "partitions added",
            when=pending == ONGOING,
            goto=ONGOING,
            set=_settled
            | {
                partitions: pending_partitions,
                pending_partitions: set_of(),
                asked_by: NOBODY,
                adding_for: each(c, set_of()),
            },
            send=(
                to_each(
                    c,
                    ~transaction_version_2 & (asked_by[c] == connection.at(c)),
                    to_each(
                        p,
                        p.is_in(adding_for[c]),
                        AddPartitionsToTxnResponse(
                            producer=c,
                            partition=p,
                            error=Errors.NONE,
                            connection=connection.at(c),
                        ),
                    ),
                ),
                to_each(
                    c,
                    transaction_version_2,
                    to_each(
                        p,
                        p.is_in(adding_for[c]),
                        AddPartitionsByLeaderResponse(producer=c, partition=p, error=Errors.NONE),
                    ),
                ),
            ),
            source=_APPENDED,
        ),
        Row(
            "commit decided",
            when=pending == PREPARE_COMMIT,
            goto=PREPARE_COMMIT,
            set=_settled | {producer_epoch: pending_epoch, last_producer_epoch: pending_last_epoch},
            source=_APPENDED,
        ),
        Row(
            "abort decided",
            when=pending == PREPARE_ABORT,
            goto=PREPARE_ABORT,
            set=_settled | {producer_epoch: pending_epoch, last_producer_epoch: pending_last_epoch},
            source=_APPENDED,
        ),
        Row(
            "commit completed",
            when=pending == COMPLETE_COMMIT,
            goto=COMPLETE_COMMIT,
            set=_settled,
            source=_APPENDED,
        ),
        Row("abort completed", goto=COMPLETE_ABORT, set=_settled, source=_APPENDED),
    ),
)

completion_begins = Table(
    transaction,
    on=begin_completion,
    elsewhere=(producer,),
    when=is_prepared & ~pending.is_set,
    rows=(
        Row(
            "answer and send markers",
            set={
                pending: if_(state == PREPARE_COMMIT, COMPLETE_COMMIT, COMPLETE_ABORT),
                asked_by: NOBODY,
                fenced_for: NOBODY,
            },
            send=(
                _fencer_waits,
                to_each(
                    c,
                    asked_by[c] == connection.at(c),
                    EndTxnResponse(
                        producer=c,
                        error=Errors.NONE,
                        connection=connection.at(c),
                        producer_id=producer_id,
                        producer_epoch=if_(transaction_version_2, producer_epoch, NO_EPOCH),
                    ),
                ),
            ),
            source="TransactionCoordinator.endTransaction, after the Prepare record",
        ),
    ),
)

# Markers ---------------------------------------------------------------------------------------


_to = send_marker.partition
_MARKERS = "TransactionMarkerChannelManager"
_answered = WriteTxnMarkersResponse.partition


def _marker(to: Expression, on: Expression) -> Sending:
    return WriteTxnMarkers(
        partition=to,
        connection=on,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        result=if_(pending == COMPLETE_COMMIT, Result.COMMIT, Result.ABORT),
    )


markers_sent = Table(
    transaction,
    on=send_marker,
    when=completing & _to.is_in(partitions) & ~_to.is_in(marker_sent),
    rows=(
        Row(
            "send",
            set={marker_sent: marker_sent | set_of(_to)},
            send=(_marker(_to, marker_connection[_to]),),
            source=f"{_MARKERS}.addTxnMarkersToSend",
        ),
    ),
)

markers_overtaken = Table(
    transaction,
    on=marker_overtaken,
    when=(DELAYS > 0) & marker_overtaken.partition.is_in(marker_sent),
    rows=(
        Row(
            "send again on a new connection",
            set={
                marker_connection[marker_overtaken.partition]: marker_connection[
                    marker_overtaken.partition
                ]
                + 1
            },
            send=(
                _marker(
                    marker_overtaken.partition, marker_connection[marker_overtaken.partition] + 1
                ),
            ),
            source=f"{_MARKERS}, a broker disconnects",
        ),
    ),
)

markers_answered = Table(
    transaction,
    on=WriteTxnMarkersResponse,
    rows=(
        Row(
            "on a closed connection",
            when=WriteTxnMarkersResponse.connection != marker_connection[_answered],
        ),
        Row(
            "written",
            when=WriteTxnMarkersResponse.error == Errors.NONE,
            set={
                partitions: partitions - set_of(_answered),
                marker_sent: marker_sent - set_of(_answered),
            },
            source="TransactionMarkerRequestCompletionHandler",
        ),
        Row(
            "refused for good",
            note="The completion is dropped: the entry stays in its Prepare state.",
            source="TransactionMarkerRequestCompletionHandler",
        ),
    ),
)


def _lost_marker(message: Message) -> Table:
    """The leader's connection breaks before the marker, or its answer, has arrived."""
    loss = lost(message)
    return Table(
        transaction,
        on=loss,
        when=LOSSES > 0,
        rows=(
            Row(
                "on a closed connection", when=loss.connection != marker_connection[loss.partition]
            ),
            Row(
                "send again",
                send=(_marker(loss.partition, marker_connection[loss.partition]),),
                source=f"{_MARKERS}, a broker disconnects",
            ),
        ),
    )


FAULTY_EVENTS = (
    timeout,
    marker_overtaken,
    lost(WriteTxnMarkers),
    lost(WriteTxnMarkersResponse),
)
TABLES = (
    init_producer_id,
    add_partitions,
    add_partitions_by_leader,
    end_txn,
    transaction_timeout,
    fence_continues,
    log_appended,
    completion_begins,
    markers_sent,
    markers_overtaken,
    markers_answered,
    _lost_marker(WriteTxnMarkers),
    _lost_marker(WriteTxnMarkersResponse),
)
