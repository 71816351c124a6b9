"""The queue of a client's requests to coordinators: TransactionManager.pendingRequests.

At real ranges the queue is kept by the client's driver, which has the content of requests. A
`Reaction` gives it the outcome of one. The system `calls` has the queue as fields. In all other
systems a request is sent at once, and sent again at once.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Optional,
    Set,
    constant,
    enum,
    lift,
    size,
    some,
)
from ..errors import Errors
from ..messages import producer
from .state import INITIALIZING, state
from .transaction_manager import pending_call, request_in_flight

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

QUEUE = constant(
    "queue",
    0,
    0,
    1,
    real=0,
    meaning="1: the client's machine has the queue of its requests; 0: whoever drives it keeps it",
)
queued = producer.field(
    "queued", Set(Request), only_real=True, only_bounded=True, doc="Requests that wait."
)
current = producer.field(
    "current",
    Optional(Request),
    only_real=True,
    only_bounded=True,
    doc="The request taken from the queue: to be sent, or in flight.",
)
answered = producer.field(
    "answered",
    Bool(),
    only_real=True,
    only_bounded=True,
    stands_for=lift(False),
    doc="Its answer is in flight.",
)
sought = producer.field(
    "sought",
    Set(Coordinator),
    only_real=True,
    only_bounded=True,
    doc="The coordinators that FindCoordinator looks for.",
)
QUEUE_FIELDS = (queued, current, answered, sought)

DISTINGUISHED_ERRORS = (
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.CONCURRENT_TRANSACTIONS,
    Errors.INVALID_PRODUCER_EPOCH,
    Errors.PRODUCER_FENCED,
    Errors.INVALID_TXN_STATE,
    Errors.INVALID_PRODUCER_ID_MAPPING,
    Errors.UNKNOWN_PRODUCER_ID,
    Errors.TRANSACTION_ABORTABLE,
    Errors.TOPIC_AUTHORIZATION_FAILED,
    Errors.GROUP_AUTHORIZATION_FAILED,
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Errors.UNKNOWN_MEMBER_ID,
    Errors.UNKNOWN_SERVER_ERROR,
)

in_order = (QUEUE == 0) | ~answered
"""Whether another event may happen: an answer in flight comes first. It doesn't depend on the
client's state. The broker may as well have sent it later."""


is_initializing_first = (state == INITIALIZING) & (pending_call == some(INITIALIZING))
batches_are_left = (QUEUE == 0) | ((current != some(Request.END_TXN)) & ~is_initializing_first)
"""Whether a batch may still fail: there is none while initTransactions is in progress. The end of a
transaction is sent when all of them are done."""


def is_distinguished(error: Expression) -> Expression:
    """Whether a system has the error. Every other error has the same effect as one of these."""
    return (QUEUE == 0) | error.is_in(*DISTINGUISHED_ERRORS)


def is_answer(error: Expression) -> Expression:
    """Whether a system has this in an answer."""
    return (error == Errors.NONE) | is_distinguished(error)


def is_asked(request: Expression) -> Expression:
    """Whether the request may be answered now."""
    return (QUEUE == 0) | ((current == some(request)) & request_in_flight & ~answered)


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
