"""A client without a rival: how far the coordinator is from it, and which answers it may get.

The lemmas before LoneStart are of all releases from 2.5 on, with rivals or without. Those from
LoneStart on are of the newest release where the end of a fence ends its own transaction alone
(`late_fence_end_refused`, finding 8): without that, such a client may fail for good.
"""

from __future__ import annotations

from ....language import (
    Expression,
    all_of,
    all_true,
    any_of,
    any_true,
    count_of,
    if_,
    in_flight,
    invariant,
    lift,
)
from ...client import state as client
from ...client.calls.application import Outcome, outcome
from ...client.calls.calls_at_once import EARLY_ENDS
from ...coordinator import entry as coordinator
from ...coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from ...coordinator.state_manager.log import unsettled
from ...leader import state as leader
from ...messages import (
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    RECORD,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    EndTxnResponse,
    Errors,
    InitProducerIdResponse,
    Produce,
    ProduceResponse,
    connection,
)
from ...properties.transactions.rivals import has_no_rival
from ...properties.transactions.transactions import is_older
from ...releases.features import late_fence_end_refused, transaction_version_2
from .clients import has_epoch
from .coordinator import is_complete, is_followed, is_replaced

i, p, s = PRODUCER.variable("i"), PARTITION.variable("p"), RECORD.variable("s")
_state, _open = client.state.at(i), connection.at(i)
_id, _epoch = client.producer_id.at(i), client.producer_epoch.at(i)
batch = client.batches.at(i)[p][s]
is_alone = late_fence_end_refused & has_no_rival(i)
is_alone_with_epoch = is_alone & has_epoch(i)
_AGAIN = (
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
    Errors.CONCURRENT_TRANSACTIONS,
)

# What a client has sent --------------------------------------------------------------------------

answer = in_flight("a", ProduceResponse, i, p)
acknowledged = any_of(p, s, batch.status == client.ACKNOWLEDGED)
commits_something = invariant(
    "CommitsSomething",
    transaction_version_2.implies(
        all_of(
            i,
            (_state == client.IN_TRANSACTION).implies(all_of(p, s, batch.status != client.FAILED))
            & ((EARLY_ENDS == 0) & (_state == client.COMMITTING)).implies(acknowledged),
        )
    ),
    "If a record has failed, its client knows. A commit is of acknowledged records only.",
)
"""A failed batch takes the client to ABORTABLE_ERROR, and an end without any batch isn't sent to
the coordinator."""

leaders_errors = invariant(
    "LeadersErrors",
    all_of(
        p,
        i,
        answer,
        (answer.error != Errors.PRODUCER_FENCED) & (outcome.at(answer.txn) != Outcome.NOT_BEGUN),
    ),
    "A leader answers batches of transactions that have begun, and doesn't answer PRODUCER_FENCED.",
)
"""No row of a leader sends that error, and a batch is of a transaction that has begun (Begun)."""

# A client that asks for its first epoch ----------------------------------------------------------

_sent, _question = in_flight("s", Produce, i, p), in_flight("q", AddPartitionsByLeader, p, i)
waiting = leader.waiting.at(p)[i]
nothing_sent = invariant(
    "NothingSent",
    all_of(
        i,
        all_true(
            _open == 0,
            _epoch == NO_EPOCH,
            _state.is_in(client.UNINITIALIZED, client.INITIALIZING),
        ).implies(
            all_of(
                p,
                all_true(
                    count_of(_sent, lift(True)) + count_of(_question, lift(True)) == 0,
                    ~waiting.is_set,
                    ~i.is_in(leader.orphaned.at(p)),
                ),
            )
        ),
    ),
    "A client that has had no epoch yet has sent no batch.",
)
"""A client sends batches only with an epoch, and loses its epoch only by a restart, which opens a
new connection."""

init_answer = in_flight("n", InitProducerIdResponse, i)
first = all_true(
    coordinator.is_known.implies(
        (init_answer.producer_id == coordinator.producer_id)
        & (init_answer.producer_epoch == coordinator.producer_epoch)
    ),
    coordinator.pending != EMPTY,
    ~unsettled.is_set | (unsettled.value.state != EMPTY),
)
lone_start = invariant(
    "LoneStart",
    all_of(
        i,
        is_alone.implies(
            ~coordinator.fenced_for[i].is_set
            & (coordinator.pending == EMPTY).implies(coordinator.asked_by[i] == _open)
        )
        & (is_alone & _state.is_in(client.UNINITIALIZED, client.INITIALIZING)).implies(
            all_true(
                coordinator.state == EMPTY,
                ~coordinator.pending.is_set | coordinator.pending.is_in(EMPTY, DEAD),
                ~coordinator.fence_to_come,
                unsettled.is_set.implies(unsettled.value.state.is_in(EMPTY, DEAD)),
                all_of(
                    init_answer,
                    if_(
                        init_answer.error == Errors.NONE,
                        first,
                        init_answer.error.is_in(*_AGAIN),
                    ),
                ),
            )
        ),
    ),
    "A client without a rival finds no transaction when it asks for its first epoch.",
)
"""Nobody else has asked for the transactional id."""

# A client that has an epoch ----------------------------------------------------------------------

is_same = (coordinator.producer_id == _id) & (coordinator.producer_epoch == _epoch)
_is_followed, _is_replaced = is_followed(_id, _epoch), is_replaced(_id, _epoch)
has_ended = (coordinator.is_prepared & _is_followed) | (is_complete & (_is_followed | _is_replaced))
next_is_own = (
    coordinator.is_prepared & coordinator.completing & (coordinator.next_id == _id) & (_epoch == 0)
)


def _changes(*states: Expression) -> Expression:
    """Whether a record of one of these states is being appended, or may turn up in the log."""
    kept = unsettled.is_set
    return any_true(
        *(
            (coordinator.pending == each) | (kept & (unsettled.value.state == each))
            for each in states
        )
    )


lone_epoch = invariant(
    "LoneEpoch",
    all_of(
        i,
        is_alone_with_epoch.implies(
            unsettled.is_set.implies(unsettled.value.state != EMPTY)
            & coordinator.is_known.implies(
                all_true(
                    is_same | has_ended | next_is_own,
                    (is_same & coordinator.is_prepared).implies(coordinator.completing),
                    (has_ended & coordinator.state.is_in(PREPARE_COMMIT, COMPLETE_COMMIT)).implies(
                        _state == client.COMMITTING
                    ),
                    _changes(PREPARE_COMMIT).implies(_state == client.COMMITTING),
                    _changes(ONGOING, PREPARE_COMMIT, PREPARE_ABORT).implies(is_same),
                    (_state == client.COMMITTING).implies(
                        (is_same & (coordinator.state == ONGOING)) | has_ended
                    ),
                    all_of(
                        p,
                        _question,
                        ~is_older(_id, _epoch, _question.producer_id, _question.producer_epoch),
                    ),
                )
            )
        ),
    ),
    "The coordinator has the epoch of a client without a rival, or the one after its end.",
)
"""Only the client's own requests and a timeout change the coordinator's epoch, and a new one is
given only for an end."""

end_answer = in_flight("o", EndTxnResponse, i)
following = if_(
    coordinator.is_prepared & coordinator.next_id.is_set,
    (coordinator.next_id == end_answer.producer_id) & (end_answer.producer_epoch == 0),
    (end_answer.producer_id == coordinator.producer_id)
    & (end_answer.producer_epoch == coordinator.producer_epoch),
)
is_aborted = all_true(
    has_ended, coordinator.state.is_in(PREPARE_ABORT, COMPLETE_ABORT), _state == client.COMMITTING
)
lone_end = invariant(
    "LoneEnd",
    all_of(
        i,
        (is_alone_with_epoch & coordinator.is_known).implies(
            all_of(
                end_answer,
                all_true(
                    (end_answer.error == Errors.NONE).implies(
                        has_ended
                        & following
                        & coordinator.is_prepared.implies(coordinator.completing)
                    ),
                    end_answer.error.is_in(Errors.NONE, Errors.UNKNOWN_SERVER_ERROR, *_AGAIN)
                    | is_aborted,
                ),
            )
        ),
    ),
    "A client without a rival gets from EndTxn its success, an error to retry, or, for a commit, "
    "that the transaction has timed out.",
)
"""The client ends the transaction that the coordinator has (LoneEpoch), and only a timeout may have
ended it before."""

verified = in_flight("v", AddPartitionsByLeaderResponse, p, i)


def _is_of_replaced(error: Expression, txn: Expression) -> Expression:
    """Whether the client that gets this answer to a batch has an older producer id than the
    coordinator."""
    is_own = (client.txn.at(i) == txn) & _state.is_in(client.IN_TRANSACTION, client.ABORTABLE_ERROR)
    unknown = error == Errors.INVALID_PRODUCER_ID_MAPPING
    return (unknown & is_own).implies(_is_replaced & (coordinator.state == COMPLETE_ABORT))


lone_batch = invariant(
    "LoneBatch",
    all_of(
        i,
        (is_alone_with_epoch & coordinator.is_known).implies(
            all_of(
                p,
                all_of(answer, _is_of_replaced(answer.error, answer.txn))
                & all_of(
                    verified,
                    waiting.is_set.implies(_is_of_replaced(verified.error, waiting.value.txn)),
                ),
            )
        ),
    ),
    "A batch of a client without a rival has an unknown producer id only where its transaction has "
    "timed out at the last epoch.",
)
"""The coordinator takes a new producer id only for an end at the last epoch (LoneEpoch)."""

LEMMAS = (
    commits_something,
    leaders_errors,
    nothing_sent,
    lone_start,
    lone_epoch,
    lone_end,
    lone_batch,
)
