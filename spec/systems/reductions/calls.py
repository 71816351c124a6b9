"""The order of events in the system `calls`, which has the queue of the client's requests.

At real ranges whoever drives the client keeps the queue, and brings about each event in its turn.
"""

from __future__ import annotations

from ....language import Event, Expression, size, some
from ....language.instances.reductions import NotOffered
from ...client.calls import calls
from ...client.calls.any_broker import is_answer, is_distinguished
from ...client.state import (
    ABORTABLE_ERROR,
    ABORTING,
    IN_TRANSACTION,
    INITIALIZING,
    bump_asked,
    state,
)
from ...client.transactions import failures, requests
from ...client.transactions.queue import Request, answered, current, is_first, queued, sought
from ...client.transactions.transaction_manager import (
    has_id,
    is_closed,
    new_partitions,
    pending_call,
    request_in_flight,
)
from ...messages import producer
from ...releases.features import calls_in_turn, transactional

_CHECK = "tests/spec/test_calls_refinement.py"
_REPLAY = "tests/model/test_client_replay.py"
_AFTER_ANSWER = (
    "An answer in flight comes first. It doesn't depend on the client's state: the broker may as "
    "well have sent it later."
)
_ERRORS = "Every other error has the same effect as one of these."
_ITS_TURN = "TransactionManager.nextRequest and Sender.runOnce bring about each step in its turn."
_ANSWERED = "A request has at most one answer, while it is in flight."

_EVENTS: tuple[Event, ...] = (
    requests.want_id,
    requests.ask_for_partitions,
    calls.init_transactions,
    calls.begin_transaction,
    calls.commit_transaction,
    calls.abort_transaction,
    calls.call_send,
    calls.call_offsets,
    calls.call_close,
)

is_initializing_first = (state == INITIALIZING) & (
    (pending_call == some(INITIALIZING)) | (transactional & ~has_id)
)
batches_are_left = (current != some(Request.END_TXN)) & ~is_initializing_first


def _is_asked(request: Expression) -> Expression:
    """Whether the request may be answered now."""
    return (current == some(request)) & request_in_flight & ~answered


CALLS = (
    *(
        NotOffered(producer, event, when=answered, because=_AFTER_ANSWER, refined_by=_CHECK)
        for event in _EVENTS
    ),
    *(
        NotOffered(
            producer,
            event,
            when=~calls_in_turn
            & state.is_in(IN_TRANSACTION, ABORTING, ABORTABLE_ERROR)
            & (
                Request.INIT_PRODUCER_ID.is_in(queued) | (current == some(Request.INIT_PRODUCER_ID))
            ),
            because="Before 3.3 the queue may then have two InitProducerId, one of which goes "
            "before EndTxn and one behind it (KAFKA-13412): the queue here has a request once.",
            refined_by=_CHECK,
        )
        for event in (calls.init_transactions, calls.commit_transaction, calls.abort_transaction)
    ),
    NotOffered(
        producer,
        failures.send_failure,
        when=~is_distinguished(failures.send_failure.error),
        because=_ERRORS,
        refined_by=_CHECK,
    ),
    NotOffered(
        producer, failures.send_failure, when=answered, because=_AFTER_ANSWER, refined_by=_CHECK
    ),
    NotOffered(
        producer,
        failures.send_failure,
        when=is_closed,
        because="A closed client takes no more records.",
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        failures.raise_error,
        when=~is_distinguished(failures.raise_error.error),
        because=_ERRORS,
        refined_by=_CHECK,
    ),
    NotOffered(
        producer, failures.raise_error, when=answered, because=_AFTER_ANSWER, refined_by=_CHECK
    ),
    NotOffered(
        producer,
        failures.raise_error,
        when=~(failures.raise_error.is_fatal | batches_are_left),
        because="There is no batch while initTransactions is in progress, and the end of a "
        "transaction is sent when all batches are done.",
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        requests.next_request,
        when=~(
            ~current.is_set
            & (size(new_partitions) == 0)
            & is_first(requests.next_request.request, bump_asked)
        ),
        because=_ITS_TURN,
        refined_by=_REPLAY,
    ),
    NotOffered(
        producer,
        calls.abort_at_close,
        when=(size(queued) > 0) | current.is_set,
        because=_ITS_TURN,
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        requests.send_request,
        when=~((current == some(requests.send_request.request)) & ~request_in_flight),
        because=_ITS_TURN,
        refined_by=_REPLAY,
    ),
    NotOffered(
        producer,
        requests.send_request,
        when=requests.send_request.knows_topic_ids,
        because="The version of TxnOffsetCommit decides the errors of its answer, which are free.",
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        requests.answer_lost,
        when=~_is_asked(requests.answer_lost.request),
        because=_ANSWERED,
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        requests.version_mismatch,
        when=~_is_asked(requests.version_mismatch.request),
        because=_ANSWERED,
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        requests.found,
        when=~(_is_asked(Request.FIND_COORDINATOR) & requests.found.coordinator.is_in(sought)),
        because=_ANSWERED,
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        requests.unauthorized,
        when=request_in_flight,
        because=_ITS_TURN,
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        requests.offsets_answered,
        when=~(_is_asked(Request.ADD_OFFSETS_TO_TXN) & is_answer(requests.offsets_answered.error)),
        because=f"{_ANSWERED} {_ERRORS}",
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        requests.offset_answered,
        when=~(_is_asked(Request.TXN_OFFSET_COMMIT) & is_answer(requests.offset_answered.error)),
        because=f"{_ANSWERED} {_ERRORS}",
        refined_by=_CHECK,
    ),
    NotOffered(
        producer,
        calls.acknowledge,
        when=~(calls.is_over & ~answered),
        because="A call returns when its result is there.",
        refined_by=_CHECK,
    ),
)
"""The reductions of `calls`."""
