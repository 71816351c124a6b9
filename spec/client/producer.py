"""A client's transactional requests in a bounded run: partitions, the end, and what goes wrong.

The application on top of it begins transactions, writes, and commits or aborts (`calls`); its
records are the sending side's matter (`sender`). A request that the network loses is sent again at
once, so that a loss shows only where an answer was lost.

At most one of these requests is in flight. A commit or an abort that the application asks for while
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
    event,
    lost,
    size,
    to_each,
)
from ...language.expressions import Operand
from ..messages import (
    CRASHES,
    DELAYS,
    LOSSES,
    NO_EPOCH,
    PARTITION,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
    InitProducerId,
    InitProducerIdResponse,
    Produce,
    connection,
    producer,
)
from ..releases.features import (
    transaction_version_2,
)
from . import state as client
from .add_partitions import add, added_to_transaction, not_again
from .calls_at_once import abort, begin, commit, initialize, send
from .end_txn import end, ended, result
from .init_producer_id import init, initialized
from .sender import given_up

end_transaction = event("every batch is done")
request_overtaken = event(
    "request overtaken", event_doc="request.timeout.ms is over while the request may still arrive."
)
crash = event("crash")

partition = PARTITION.variable("q")

_MANAGER = "TransactionManager"

# The end ---------------------------------------------------------------------------------------

end_sent = Table(
    producer,
    on=end_transaction,
    when=client.ending & client.settled,
    doc="EndTxn is the last request of a transaction.",
    rows=(
        Row(
            "end",
            set={client.ending: False},
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
            when=client.waits_for_id & ~client.can_only_close,
            set={connection: _next},
            send=(init(_next),),
            source=_NETWORK,
        ),
        Row(
            "end again",
            when=client.state.is_in(client.COMMITTING, client.ABORTING)
            & ~client.ending
            & ~client.can_only_close,
            set={connection: _next},
            send=(end(result, _next),),
            source=_NETWORK,
        ),
        Row(
            "add again",
            when=size(client.adding) > 0,
            during=~transaction_version_2,
            set={connection: _next},
            send=(to_each(partition, partition.is_in(client.adding), add(partition, _next)),),
            source=_NETWORK,
        ),
    ),
)

FORGOTTEN: dict[Expression, Operand] = {
    **client.ENDED,
    client.producer_id: client.NO_ID,
    client.producer_epoch: NO_EPOCH,
    client.must_bump: False,
    client.bump_asked: False,
    connection: _next,
    **client.NEW_SEQUENCES,
}
"""The fields that an instance loses when it starts anew."""
crashed = Table(
    producer,
    on=crash,
    when=(CRASHES > 0) & (client.state != client.UNINITIALIZED),
    rows=(
        Row(
            "forget everything",
            goto=client.UNINITIALIZED,
            set=FORGOTTEN,
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
    send,
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
