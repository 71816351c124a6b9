"""Properties of a client whose application calls in any order."""

from __future__ import annotations

from ...language import (
    Expression,
    KnownBug,
    after,
    failure,
    invariant,
    leads_to,
    size,
    some,
    step_property,
)
from ...language.expressions import any_true
from ..client import state as client
from ..client.transactions import queue
from ..client.transactions import transaction_manager as manager
from ..client.transactions.queue import Request
from ..errors import Errors
from ..releases.features import (
    calls_in_turn,
    client_epoch_bump,
    close_ends,
    commit_may_bump,
    illegal_state_fatal,
    one_way_to_ids,
    transactional,
    unauthorized_abortable,
)

_ME = 0


def _my(field: Expression) -> Expression:
    return field.at(_ME)


_state, _current, _queued = _my(client.state), _my(queue.current), _my(queue.queued)
_next, _last_error = after(_state), _my(manager.last_error)
_pending, _acknowledged = _my(manager.pending_call), _my(manager.call_acknowledged)
has_error = _state.is_in(client.ABORTABLE_ERROR, client.FATAL_ERROR)
asked_for = _my(client.adding) | _my(client.added)
partitions = _my(manager.new_partitions) | asked_for
taken = ~_current.is_set & after(_current).is_set
sent = ~_my(manager.request_in_flight) & after(_my(manager.request_in_flight))

has_id = _my(manager.has_id)
# Source: TransactionManager.State.isTransitionValid. PREPARED_TRANSACTION has no place here.
_ALLOWED = (
    (client.UNINITIALIZED, client.ABORTABLE_ERROR, unauthorized_abortable),
    (client.INITIALIZING, client.UNINITIALIZED, True),
    (client.INITIALIZING, client.ABORTING, client_epoch_bump),
    (client.INITIALIZING, client.COMMITTING, commit_may_bump),
    # by way of an end, without a producer id
    (client.INITIALIZING, client.ABORTABLE_ERROR, unauthorized_abortable & ~has_id),
    (client.INITIALIZING, client.IN_TRANSACTION, unauthorized_abortable & ~has_id),
    (client.READY, client.INITIALIZING, True),
    (client.READY, client.COMMITTING, True),
    (client.READY, client.ABORTING, True),
    (client.IN_TRANSACTION, client.READY, True),
    (client.COMMITTING, client.IN_TRANSACTION, True),
    (client.ABORTING, client.IN_TRANSACTION, True),
    (client.ABORTING, client.ABORTABLE_ERROR, True),
    (client.ABORTABLE_ERROR, client.IN_TRANSACTION, True),
    (client.ABORTABLE_ERROR, client.COMMITTING, True),
    (client.ABORTABLE_ERROR, client.INITIALIZING, unauthorized_abortable),
)
is_allowed = any_true(
    _next == _state,
    _next == client.FATAL_ERROR,
    *((_next == to) & (_state == source) & during for to, source, during in _ALLOWED),
)


has_states = transactional | one_way_to_ids
"""Before 2.5 a client without transactional id asks in a loop of its own, without states."""


def _takes(request: Expression) -> Expression:
    return ~_current.is_set & (after(_current) == some(request))


def _sends(request: Expression) -> Expression:
    return sent & (_current == some(request))


PROPERTIES = (
    step_property(
        "AllowedTransitions",
        has_states.implies(is_allowed),
        "A client's state changes only as TransactionManager allows it; a fatal error is final.",
        source="TransactionManager.State.isTransitionValid",
        failure=failure("the client goes from {} to {}", _state, _next),
    ),
    invariant(
        "ErrorIsKnown",
        has_error.implies(_last_error.is_set),
        "A client in an error state knows the error that its calls raise.",
        source="TransactionManager.maybeFailWithError",
        failure=failure("the client is in {} and knows no error", _state),
    ),
    invariant(
        "EpochOfPartitions",
        (size(partitions) > 0).implies(has_id),
        "A partition gets into a transaction only once there are a producer id and epoch.",
        source="TransactionManager.maybeAddPartition",
        failure=failure(
            "the transaction has {}, and the client's epoch is {}",
            partitions,
            _my(client.producer_epoch),
        ),
    ),
    invariant(
        "AskedOnce",
        size(_my(manager.new_partitions) & asked_for) == 0,
        "A partition that is in the transaction, or asked for, isn't asked for again.",
        "TransactionManager.maybeAddPartition",
        KnownBug(
            "KAFKA-13412: until 3.3 the end that an earlier call has left in the queue ends the "
            "next transaction",
            (calls_in_turn,),
            transactional & client_epoch_bump & ~calls_in_turn,
        ),
        failure=failure("{} is to be asked for again", _my(manager.new_partitions) & asked_for),
    ),
    step_property(
        "OneCallAtATime",
        (calls_in_turn & _pending.is_set & ~_acknowledged).implies(after(_pending) == _pending),
        "Until the application knows how its call ended, no other call takes its place.",
        source="KAFKA-13412, TransactionManager.throwIfPendingState",
        failure=failure(
            "the call {} gives way to {}, and the application doesn't know how it ended",
            _pending,
            after(_pending),
        ),
    ),
    step_property(
        "ClosedBeginsNothing",
        (transactional & _my(manager.is_closed)).implies(
            ((_state != client.IN_TRANSACTION).implies(_next != client.IN_TRANSACTION))
            & ((_state != client.COMMITTING).implies(_next != client.COMMITTING))
            & ((_state == client.UNINITIALIZED).implies(_next != client.INITIALIZING))
        ),
        "A closed client begins and commits no transaction, and initializes nothing.",
        "KAFKA-6635, KafkaProducer.throwIfProducerClosed",
        KnownBug(
            "KAFKA-6635: until 2.3 a closed client goes on",
            (close_ends,),
            transactional & ~close_ends,
        ),
        failure=failure("a closed client goes from {} to {}", _state, _next),
    ),
    step_property(
        "EndIsAllowed",
        (client.is_completing(_state) & (_current == some(Request.END_TXN))).implies(
            after(_last_error) != some(Errors.ILLEGAL_STATE)
        ),
        "A transaction that ends leaves its client in a state from which it may go on.",
        "KAFKA-18227, TransactionManager.completeTransaction",
        KnownBug(
            "until 4.0 a client that needs a new epoch fails for good if it commits instead of "
            "aborting",
            (commit_may_bump,),
            transactional & illegal_state_fatal & ~commit_may_bump,
        ),
        failure=failure("the client in {} ends a transaction, and goes to {}", _state, _next),
    ),
    invariant(
        "LostAnswerIsFatal",
        (_my(manager.call_result) == manager.CallResult.LOST).implies(_state == client.FATAL_ERROR),
        "If the answer to a call leads to no state, the client has failed for good.",
        "KAFKA-14831, TransactionManager.transitionTo",
        KnownBug(
            "KAFKA-14831: until 3.6 the client stays as it was",
            (illegal_state_fatal,),
            transactional & client_epoch_bump & ~illegal_state_fatal,
        ),
        failure=failure("nobody answers the call {}, and the client is in {}", _pending, _state),
    ),
    step_property(
        "NothingTakenInError",
        (taken & has_error).implies(
            (_state == client.ABORTABLE_ERROR) & (after(_current) == some(Request.FIND_COORDINATOR))
        ),
        "In an error state, the only request that is taken from the queue is a look-up of a "
        "coordinator.",
        source="TransactionManager.maybeTerminateRequestWithError",
        failure=failure("the client in {} takes {} from the queue", _state, after(_current)),
    ),
    step_property(
        "EndIsLast",
        _takes(Request.END_TXN).implies(
            (size(_my(manager.new_partitions)) == 0)
            & ~Request.ADD_PARTITIONS_TO_TXN.is_in(_queued)
            & ~Request.ADD_OFFSETS_TO_TXN.is_in(_queued)
            & ~Request.TXN_OFFSET_COMMIT.is_in(_queued)
        ),
        "EndTxn is taken from the queue only when no partition and no offset waits to get into "
        "the transaction.",
        source="TransactionManager.nextRequest",
        failure=failure(
            "EndTxn is taken before these partitions: {}; the queue has {}",
            _my(manager.new_partitions),
            _queued,
        ),
    ),
    step_property(
        "BumpIsBehindEnd",
        (_takes(Request.INIT_PRODUCER_ID) & _my(client.bump_asked)).implies(
            ~Request.END_TXN.is_in(after(_queued))
        ),
        "A client asks for a new epoch only after the end of its transaction.",
        source="TransactionManager.beginCompletingTransaction, KIP-360",
        failure=failure("InitProducerId is taken from the queue before {}", after(_queued)),
    ),
    step_property(
        "CoordinatorIsKnown",
        (
            (_sends(Request.ADD_PARTITIONS_TO_TXN) | _sends(Request.END_TXN)).implies(
                _my(manager.transaction_coordinator)
            )
        )
        & _sends(Request.TXN_OFFSET_COMMIT).implies(_my(manager.group_coordinator)),
        "A request goes to a coordinator that has been found.",
        source="Sender.maybeSendAndPollTransactionalRequest",
        failure=failure("{} is sent, and the client knows no coordinator for it", _current),
    ),
)


def _waits(*requests: Expression) -> Expression:
    """Whether one of the requests is in the queue, to be sent, or in flight."""
    return any_true(*(each.is_in(_queued) | (_current == some(each)) for each in requests))


call_waits = _pending.is_set & (
    _waits(Request.INIT_PRODUCER_ID, Request.END_TXN)
    | (_my(manager.call_result) == manager.CallResult.LOST)
)
partitions_wait = (size(_my(manager.new_partitions)) > 0) | _waits(Request.ADD_PARTITIONS_TO_TXN)
added_first = _waits(Request.ADD_OFFSETS_TO_TXN)
offsets_wait = _waits(Request.TXN_OFFSET_COMMIT)
is_busy = (size(_queued) > 0) | _current.is_set | (size(_my(manager.new_partitions)) > 0)
more_offsets = added_first | (
    Request.TXN_OFFSET_COMMIT.is_in(_queued) & (_current == some(Request.TXN_OFFSET_COMMIT))
)
in_between = transactional & ((_state == client.INITIALIZING) | client.is_completing(_state))
closes = close_ends & transactional & _my(manager.is_closed)
nothing_follows = _my(client.can_only_close)
is_closed = ~is_busy & ~_my(manager.has_ongoing_transaction)
PROGRESS = (
    leads_to(
        "ClientCallEnds", call_waits, ~call_waits,
        "Each call in which an application waits ends, with its result or an error.",
        source="TransactionalRequestResult.await",
        failure=failure(
            "the application still waits in {}, with the client in {}", _pending, _state,
        ),
    ),
    leads_to(
        "PartitionsAnswered", calls_in_turn & partitions_wait,
        ~partitions_wait | added_first | offsets_wait,
        "A partition that is written to gets into its transaction, or the transaction fails, if "
        "no offsets are sent in between.",
        source="TransactionManager.maybeAddPartition",
        failure=failure(
            "these partitions still wait to get into the transaction: {}",
            _my(manager.new_partitions) | asked_for,
        ),
    ),
    leads_to(
        "OffsetsAdded", calls_in_turn & added_first, ~added_first | offsets_wait,
        "The group of offsets that are sent gets into the transaction, or the call fails.",
        source="TransactionManager.sendOffsetsToTransaction",
        failure=failure("AddOffsetsToTxn still waits, with the client in {}", _state),
    ),
    leads_to(
        "OffsetsAnswered", calls_in_turn & offsets_wait, ~offsets_wait | more_offsets,
        "Offsets are committed, or the call fails, if no more are sent in between.",
        source="TransactionManager.sendOffsetsToTransaction",
        failure=failure("TxnOffsetCommit still waits, with the client in {}", _state),
    ),
    leads_to(
        "CloseEnds", closes, ~closes | is_closed | nothing_follows,
        "A closed client completes its calls, aborts an open transaction, and ends.",
        source="KAFKA-6635, Sender.run",
        failure=failure("the closed client is still in {}", _state),
    ),
    leads_to(
        "UsableAgain", in_between, ~in_between,
        "A client that initializes or ends a transaction reaches a state in which it can go on "
        "or abort, or has failed for good.",
        source="TransactionManager.State, abortableErrorIfPossible, transitionToAbortableError",
        failure=failure("the client is still in {}", _state),
    ),
)  # fmt: skip
