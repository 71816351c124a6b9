"""A client's transactional requests: initTransactions, the transaction's partitions, its end.

The application on top of it begins transactions, writes, and commits or aborts; its records are
the sending side's matter (`sender`). A request that the network loses is sent again at once, so
that a loss shows only where an answer was lost.

At most one of these requests is under way. A commit or an abort that the application asks for while
a partition is being added comes after the answer to that, which has the same consequences before
and after the call.
"""

from __future__ import annotations

from collections.abc import Callable

from ...language import (
    Expression,
    Loss,
    Message,
    Row,
    Sending,
    Table,
    all_of,
    constant,
    event,
    lost,
    position,
    set_of,
    size,
    to_each,
)
from ...language.expressions import Operand
from ..application import (
    Outcome,
    abort_transaction,
    add_partition,
    application,
    asked,
    begin_transaction,
    commit_transaction,
    init_transactions,
    outcome,
)
from ..features import (
    client_epoch_bump,
    transaction_version_2,
)
from ..messages import (
    CRASHES,
    DELAYS,
    LOSSES,
    NO_EPOCH,
    PARTITION,
    TRANSACTION,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
    InitProducerId,
    InitProducerIdResponse,
    Produce,
    Result,
    connection,
    producer,
)
from .add_partitions import add, added_to_transaction, not_again
from .end_txn import end, ended, result
from .init_producer_id import init, initialized
from .sender import given_up
from .state import (
    ABORTABLE_ERROR,
    ABORTING,
    COMMITTING,
    ENDED,
    IN_TRANSACTION,
    INITIALIZING,
    NEW_SEQUENCES,
    NO_ID,
    READY,
    UNINITIALIZED,
    added,
    adding,
    bump_asked,
    can_only_close,
    ending,
    must_bump,
    producer_epoch,
    producer_id,
    settled,
    started,
    state,
    txn,
    waits_for_id,
)

EARLY_ENDS = constant(
    "early_ends", 0, 0, 1,
    meaning="1: a commit or abort may be asked for before the batches in flight are done",
)  # fmt: skip

end_transaction = event("every batch is done")
request_overtaken = event(
    "request overtaken", event_doc="request.timeout.ms is over while the request may still arrive."
)
crash = event("crash")

t = TRANSACTION.variable("t")
partition = PARTITION.variable("q")

_MANAGER = "TransactionManager"

# What a client sends --------------------------------------------------------------------------


# initTransactions ------------------------------------------------------------------------------

initialize = Table(
    producer,
    on=init_transactions,
    when=state == UNINITIALIZED,
    rows=(
        Row(
            "ask for an epoch",
            goto=INITIALIZING,
            send=(init(connection),),
            source=f"{_MANAGER}.initializeTransactions",
        ),
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

partition_added = Table(
    producer,
    on=add_partition,
    when=(state == IN_TRANSACTION) & (size(adding) == 0) & ~add_partition.partition.is_in(added),
    rows=(
        Row(
            "add",
            during=~transaction_version_2,
            set={adding: set_of(add_partition.partition)},
            send=(add(add_partition.partition, connection),),
            source=f"{_MANAGER}.maybeAddPartition",
        ),
    ),
)


# The end ---------------------------------------------------------------------------------------

# Source: TransactionManager.beginCompletingTransaction
_ENDS: dict[Expression, Operand] = {bump_asked: must_bump}

commit = Table(
    producer,
    on=commit_transaction,
    elsewhere=(application,),
    when=(state == IN_TRANSACTION) & (size(adding) == 0) & (settled | (EARLY_ENDS > 0)),
    rows=(
        Row(
            "commit when every batch is done",
            when=~settled,
            goto=COMMITTING,
            set=asked(Outcome.COMMITTING) | _ENDS | {ending: True},
            source=f"{_MANAGER}.nextRequest",
        ),
        Row(
            "commit",
            when=started,
            goto=COMMITTING,
            set=asked(Outcome.COMMITTING) | _ENDS,
            send=(end(Result.COMMIT, connection),),
            source=f"{_MANAGER}.beginCommit",
        ),
        Row(
            "nothing to commit",
            goto=READY,
            set=asked(Outcome.COMMITTED) | ENDED,
            source="Sender.maybeSendAndPollTransactionalRequest",
        ),
    ),
)

abort = Table(
    producer,
    on=abort_transaction,
    elsewhere=(application,),
    when=state.is_in(IN_TRANSACTION, ABORTABLE_ERROR)
    & txn.is_set
    & (size(adding) == 0)
    & (settled | (EARLY_ENDS > 0)),
    rows=(
        Row(
            "abort when every batch is done",
            when=~settled,
            goto=ABORTING,
            set=_ENDS | {ending: True},
            source=f"{_MANAGER}.nextRequest",
        ),
        Row(
            "abort",
            when=started,
            goto=ABORTING,
            set=_ENDS,
            send=(end(Result.ABORT, connection),),
            source=f"{_MANAGER}.beginAbort",
        ),
        Row(
            "nothing to abort, and a new epoch needed",
            when=must_bump,
            during=client_epoch_bump & ~transaction_version_2,
            goto=INITIALIZING,
            set=asked(Outcome.ABORTED) | ENDED | {must_bump: False, bump_asked: True},
            send=(init(connection),),
            source=f"{_MANAGER}.nextRequest",
        ),
        Row(
            "nothing to abort",
            goto=READY,
            set=asked(Outcome.ABORTED) | ENDED,
            source="Sender.maybeSendAndPollTransactionalRequest",
        ),
    ),
)

end_sent = Table(
    producer,
    on=end_transaction,
    when=ending & settled,
    doc="EndTxn is the last request of a transaction.",
    rows=(
        Row(
            "end",
            set={ending: False},
            send=(end(result, connection),),
            source=f"{_MANAGER}.nextRequest",
        ),
    ),
)

# What goes wrong -------------------------------------------------------------------------------

_NETWORK = "NetworkClient.handleTimedOutRequests"
_next = connection + 1
overtaken = Table(
    producer,
    on=request_overtaken,
    when=DELAYS > 0,
    rows=(
        Row(
            "ask for an epoch again",
            when=waits_for_id & ~can_only_close,
            set={connection: _next},
            send=(init(_next),),
            source=_NETWORK,
        ),
        Row(
            "end again",
            when=state.is_in(COMMITTING, ABORTING) & ~ending & ~can_only_close,
            set={connection: _next},
            send=(end(result, _next),),
            source=_NETWORK,
        ),
        Row(
            "add again",
            when=size(adding) > 0,
            during=~transaction_version_2,
            set={connection: _next},
            send=(to_each(partition, partition.is_in(adding), add(partition, _next)),),
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
                producer_epoch: NO_EPOCH,
                must_bump: False,
                bump_asked: False,
                connection: _next,
                **NEW_SEQUENCES,
            },
        ),
    ),
)


def _lost(what: Message, again: Callable[[Loss], Sending], *instead: Row) -> Table:
    """A request, or the answer to one, is lost: whoever still waits sends the request again."""
    loss = lost(what)
    return Table(
        producer,
        on=loss,
        when=LOSSES > 0,
        rows=(
            Row("nobody waits for it", when=loss.connection != connection),
            *instead,
            Row("send again", send=(again(loss),), source="NetworkClient.handleDisconnections"),
        ),
    )


def _lost_either(
    request: Message, response: Message, again: Callable[[Loss], Sending], *instead: Row
) -> tuple[Table, ...]:
    return _lost(request, again, *instead), _lost(response, again, *instead)


REQUESTS = (InitProducerId, AddPartitionsToTxn, EndTxn)
ANSWERS = (
    InitProducerIdResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
)
FAULTY_EVENTS = (
    request_overtaken,
    crash,
    lost(Produce),
    *(lost(message) for message in REQUESTS + ANSWERS),
)
TABLES = (
    initialize,
    initialized,
    begin,
    partition_added,
    added_to_transaction,
    commit,
    abort,
    end_sent,
    ended,
    overtaken,
    crashed,
    *_lost_either(InitProducerId, InitProducerIdResponse, lambda _: init(connection)),
    *_lost_either(
        AddPartitionsToTxn,
        AddPartitionsToTxnResponse,
        lambda loss: add(loss.partition, connection),
        not_again(),
    ),
    given_up(lost(Produce), LOSSES),
    *_lost_either(EndTxn, EndTxnResponse, lambda _: end(result, connection)),
)
