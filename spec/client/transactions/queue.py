"""The queue of a client's requests to coordinators: TransactionManager.pendingRequests.

At real ranges the queue is kept by the client's driver, which has the content of requests. A
`Reaction` gives it the outcome of one. The system `calls` has the queue as fields. In all other
systems a request is sent at once, and sent again at once.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Expression,
    Optional,
    Set,
    enum,
    size,
)
from ...messages import producer

Request = enum(
    "ClientRequest",
    "FIND_COORDINATOR",
    "INIT_PRODUCER_ID",
    "ADD_PARTITIONS_TO_TXN",
    "ADD_OFFSETS_TO_TXN",
    "TXN_OFFSET_COMMIT",
    "END_TXN",
)
Coordinator = enum("CoordinatorType", GROUP=0, TRANSACTION=1)
PRIORITIES = {
    "FIND_COORDINATOR": 0,
    "INIT_PRODUCER_ID": 1,
    "ADD_PARTITIONS_TO_TXN": 2,
    "ADD_OFFSETS_TO_TXN": 2,
    "TXN_OFFSET_COMMIT": 2,
    "END_TXN": 3,
}
"""TxnRequestHandler.Priority: a smaller number goes first. Requests of one priority go in the order
in which they came; in a system, in any order."""
BUMP_PRIORITY = 4
"""The place of an InitProducerId for a new epoch: behind the end of its transaction."""

queued = producer.field("queued", Set(Request), doc="Requests that wait.")
current = producer.field(
    "current",
    Optional(Request),
    doc="The request taken from the queue: to be sent, or in flight.",
)
answered = producer.field(
    "answered",
    Bool(),
    doc="Its answer is in flight.",
)
sought = producer.field(
    "sought",
    Set(Coordinator),
    doc="The coordinators that FindCoordinator looks for.",
)


def is_first(request: Expression, bump_asked: Expression) -> Expression:
    """Whether the request may be the next one: none with a smaller priority waits.

    TransactionManager.nextRequest, TxnRequestHandler.Priority
    """
    finds = Request.FIND_COORDINATOR.is_in(queued)
    initializes = Request.INIT_PRODUCER_ID.is_in(queued) & ~bump_asked
    adds = (
        Request.ADD_PARTITIONS_TO_TXN.is_in(queued)
        | Request.ADD_OFFSETS_TO_TXN.is_in(queued)
        | Request.TXN_OFFSET_COMMIT.is_in(queued)
    )
    is_adding = request.is_in(
        Request.ADD_PARTITIONS_TO_TXN, Request.ADD_OFFSETS_TO_TXN, Request.TXN_OFFSET_COMMIT
    )
    is_end = request == Request.END_TXN
    is_bump = (request == Request.INIT_PRODUCER_ID) & bump_asked
    return request.is_in(queued) & ~(
        ((request != Request.FIND_COORDINATOR) & finds)
        | ((is_adding | is_end) & initializes)
        | (is_end & adds)
        | (is_bump & (size(queued) > 1))
    )
