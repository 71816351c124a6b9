"""A client's requests to coordinators in a system: the parts of the queue that a system leaves out.

One list for each table. A system has the lists of its tables.
"""

from __future__ import annotations

import dataclasses

from ....language import Row, set_of
from ....language.instances.reductions import Also, Before, Settled
from ...client import state as client
from ...client.transactions.add_partitions import add, add_error
from ...client.transactions.end_txn import end, result
from ...client.transactions.init_producer_id import init
from ...errors import Errors, asks_again
from ...messages import (
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    connection,
    moved,
)
from ...releases.features import retried_by_kind

_CHECK = "tests/spec/test_client_refinement.py"
_REPLAY = "tests/model/test_client_replay.py"
"""Runs of a system, step by step on the client at real ranges and its queue."""
_CONNECTIONS = (
    "NetworkClient drops the answers of a closed connection, and whoever drives the client at real "
    "ranges does. A system has them in its network."
)
_AT_ONCE = (
    "A request is sent at once, and sent again at once: it may be in the network for any time. At "
    "real ranges it waits in the queue, and for the backoff."
)
_NOT_SENT_AGAIN = "A system has no queue from which a request in an error state would be taken."

# TransactionManager.completeTransaction -----------------------------------------------------------

NO_TRANSACTION = Settled(
    {client.batches: client.NO_BATCHES},
    when=~client.txn.is_set,
    because="The batches of a transaction that is over have no effect. At real ranges whoever "
    "waits for them keeps them.",
    refined_by=_CHECK,
)

# TransactionManager.InitProducerIdHandler.handleResponse ------------------------------------------

OF_INIT_PRODUCER_ID = (
    Before(
        "producer.InitProducerIdResponse/invalid-transition",
        (
            Row(
                "closed-connection",
                "The request came on a connection that is closed",
                when=InitProducerIdResponse.connection != connection,
                source="NetworkClient.handleDisconnections",
            ),
        ),
        because=_CONNECTIONS,
        refined_by=_REPLAY,
    ),
    Also(
        (
            "producer.InitProducerIdResponse/coordinator-moved",
            "producer.InitProducerIdResponse/retry",
        ),
        send=init(connection),
        because=_AT_ONCE,
        refined_by=_REPLAY,
    ),
)

# TransactionManager.AddPartitionsToTxnHandler.handleResponse --------------------------------------

OF_ADD_PARTITIONS = (
    Before(
        "producer.AddPartitionsToTxnResponse/added",
        (
            Row(
                "closed-connection",
                "The request came on a connection that is closed",
                when=AddPartitionsToTxnResponse.connection != connection,
                source="NetworkClient.handleDisconnections",
            ),
            Row(
                "failed-before",
                "The client has failed for good before",
                when=client.state == client.FATAL_ERROR,
                source="TransactionManager.transitionTo",
            ),
        ),
        because=f"{_CONNECTIONS} A client in FATAL_ERROR keeps no partitions.",
        refined_by=_REPLAY,
    ),
    Before(
        "producer.AddPartitionsToTxnResponse/coordinator-moved",
        (
            Row(
                "not-retried",
                "In an error state the request isn't sent again",
                when=asks_again(
                    add_error, *moved, Errors.CONCURRENT_TRANSACTIONS, by_kind=retried_by_kind
                )
                & client.state.is_in(client.ABORTABLE_ERROR, client.FATAL_ERROR),
                set={client.adding: set_of()},
                source="TransactionManager.maybeTerminateRequestWithError",
            ),
        ),
        because=_NOT_SENT_AGAIN,
        refined_by=_REPLAY,
    ),
    Also(
        (
            "producer.AddPartitionsToTxnResponse/coordinator-moved",
            "producer.AddPartitionsToTxnResponse/retry-soon",
            "producer.AddPartitionsToTxnResponse/retry",
        ),
        send=add(AddPartitionsToTxnResponse.partition, connection),
        because=_AT_ONCE,
        refined_by=_REPLAY,
    ),
    Also(
        (
            "producer.AddPartitionsToTxnResponse/unknown-id",
            "producer.AddPartitionsToTxnResponse/abortable",
        ),
        set={client.adding: set_of()},
        because=f"No request is in flight after the error. {_NOT_SENT_AGAIN}",
        refined_by=_REPLAY,
    ),
)

# TransactionManager.EndTxnHandler.handleResponse --------------------------------------------------

BUMP_NEXT = dataclasses.replace(init(connection), when=client.bump_asked)
"""InitProducerId, where it waits behind EndTxn."""

OF_END_TXN = (
    Before(
        "producer.EndTxnResponse/invalid-transition-fatal",
        (
            Row(
                "closed-connection",
                "The request came on a connection that is closed",
                when=EndTxnResponse.connection != connection,
                source="NetworkClient.handleDisconnections",
            ),
        ),
        because=_CONNECTIONS,
        refined_by=_REPLAY,
    ),
    Also(
        ("producer.EndTxnResponse/coordinator-moved", "producer.EndTxnResponse/retry"),
        send=end(result, connection),
        because=_AT_ONCE,
        refined_by=_REPLAY,
    ),
    Also(
        (
            "producer.EndTxnResponse/invalid-transition",
            "producer.EndTxnResponse/ended-new-epoch",
            "producer.EndTxnResponse/ended",
            "producer.EndTxnResponse/abort-failed-bump",
        ),
        send=BUMP_NEXT,
        because=f"InitProducerId is the next request of the queue. {_AT_ONCE}",
        refined_by=_REPLAY,
    ),
    Also(
        "producer.EndTxnResponse/abort-failed",
        set={client.adding: set_of(), client.added: set_of()},
        because="Its application doesn't initialize it again: the partitions have no effect.",
        refined_by=_REPLAY,
    ),
)

REQUESTS = (NO_TRANSACTION, *OF_INIT_PRODUCER_ID, *OF_ADD_PARTITIONS, *OF_END_TXN)
"""The reductions of a client with a transactional id, for all its requests."""
