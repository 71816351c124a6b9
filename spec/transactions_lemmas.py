"""Why the transaction protocol keeps its properties: what proofs use of each state.

They are of the newest release.
"""

from __future__ import annotations

from . import client
from . import transaction_log as log
from .language import Expression, all_of, all_true, any_of, any_true, count_of, if_, in_flight, invariant, position
from .messages import Errors, LARGEST_EPOCH, NO_EPOCH, PRODUCER, EndTxn, EndTxnResponse, InitProducerId, InitProducerIdResponse, connection
from .transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    asked_by,
    fenced_for,
    is_known,
    is_prepared,
    is_settled,
    newest_id,
    next_id,
    previous_id,
    pending,
    pending_epoch,
    pending_id,
    producer_epoch,
    producer_id,
    state,
)
from .transaction_log import unsettled
from .producer import EARLY_ENDS

i, j = PRODUCER.variable("i"), PRODUCER.variable("j")


def _is_next_pair(new_id: Expression, new_epoch: Expression) -> Expression:
    """Whether a producer id and epoch come right after the coordinator's."""
    same_id = (new_id == producer_id) & (new_epoch == producer_epoch + 1)
    other_id = (position(new_id) > position(producer_id)) & (new_epoch == 0)
    return (same_id | other_id) & (new_epoch < LARGEST_EPOCH) & (position(new_id) <= newest_id)


def _next_id_fits(
    new_id: Expression, ends: Expression, epoch: Expression, of_entry: bool = False
) -> Expression:
    """Whether there is a next producer id just where an end uses up the epochs."""
    ended = (epoch == LARGEST_EPOCH) & ends
    if of_entry:
        ended |= is_prepared & (producer_epoch == LARGEST_EPOCH)
    is_new = (position(new_id.value) > position(producer_id)) & (position(new_id.value) <= newest_id)
    return ended.implies(new_id.is_set) & new_id.is_set.implies(is_new & ended)


pending_fits = invariant(
    "PendingFits",
    (state != DEAD)
    & (state != PREPARE_EPOCH_FENCE)
    & all_true(
        *(
            (pending == target).implies(prepared_in)
            for target, prepared_in in (
                (EMPTY, is_settled),
                (ONGOING, is_settled | (state == ONGOING)),
                (PREPARE_COMMIT, state == ONGOING),
                (PREPARE_ABORT, is_settled | (state == ONGOING)),
                (COMPLETE_COMMIT, state == PREPARE_COMMIT),
                (COMPLETE_ABORT, state == PREPARE_ABORT),
                (DEAD, is_settled),
                (PREPARE_EPOCH_FENCE, state == ONGOING),
            )
        )
    ),
    "What is being appended to the transaction log is prepared in a state that may come before it.",
)

_record = unsettled.value
unsettled_fits = invariant(
    "UnsettledFits",
    unsettled.is_set.implies(
        all_true(
            ~is_prepared,
            is_known | (_record.state == EMPTY),
            _record.state.is_in(EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, DEAD),
            (_record.state == EMPTY).implies(is_settled & _is_next_pair(_record.producer_id, _record.producer_epoch)),
            (_record.state == ONGOING).implies(
                (_record.producer_id == producer_id) & (_record.producer_epoch == producer_epoch)
                & ~_record.next_id.is_set
            ),
            _record.state.is_in(PREPARE_COMMIT, PREPARE_ABORT).implies(
                (_record.producer_id == producer_id)
                & (_record.producer_epoch == producer_epoch + 1)
            ),
            _next_id_fits(_record.next_id, _record.state.is_in(PREPARE_COMMIT, PREPARE_ABORT), _record.producer_epoch),
        )
    ),
    "A record whose append has failed, and that is in the log, follows the record before it.",
)

one_epoch_logged = invariant(
    "LoggedEpoch",
    (log.logged_epoch == producer_epoch) & (is_known | is_settled),
    "The entry's epoch is the log's, and there is no transaction without one.",
)

ids_given_out = invariant(
    "IdsGivenOut",
    position(producer_id) <= newest_id,
    "The transactional id's producer id has been handed out.",
)

next_epoch_prepared = invariant(
    "NextEpochPrepared",
    all_true(
        (pending == EMPTY).implies(_is_next_pair(pending_id, pending_epoch)),
        pending.is_in(PREPARE_COMMIT, PREPARE_ABORT).implies(
            (pending_epoch == producer_epoch + 1) & is_known
        ),
        pending.is_in(ONGOING, DEAD).implies(is_known),
        (pending == PREPARE_EPOCH_FENCE).implies(~next_id.is_set),
        _next_id_fits(next_id, pending.is_in(PREPARE_COMMIT, PREPARE_ABORT), pending_epoch, of_entry=True),
    ),
    "A record that is being appended has the epoch after the last one, or the first one of a new "
    "producer id.",
)

last_epoch = invariant(
    "LastEpochEnds",
    (producer_epoch < LARGEST_EPOCH)
    | (is_prepared & next_id.is_set),
    "The largest epoch is only that of an end after which there is a new producer id.",
)

# Clients' requests -----------------------------------------------------------------------------

_open = connection.at(i)
_init, _init_answer = in_flight("m", InitProducerId, i), in_flight("n", InitProducerIdResponse, i)
_end, _end_answer = in_flight("o", EndTxn, i), in_flight("p", EndTxnResponse, i)
_state = client.state.at(i)
_is_asked_by = asked_by[i] == _open
_is_fenced_for = fenced_for[i] == _open

_initializing = any_true(
    any_of(_init, _init.connection == _open),
    any_of(_init_answer, _init_answer.connection == _open),
    _is_asked_by & (pending == EMPTY),
    _is_fenced_for,
)
_ending = any_true(
    any_of(_end, _end.connection == _open),
    any_of(_end_answer, _end_answer.connection == _open),
    _is_asked_by & (pending != EMPTY),
)


def _one(condition: Expression) -> Expression:
    return if_(condition, 1, 0)


one_request = invariant(
    "OneRequest",
    all_of(
        i,
        count_of(_init, _init.connection == _open)
        + count_of(_init_answer, _init_answer.connection == _open)
        + count_of(_end, _end.connection == _open)
        + count_of(_end_answer, _end_answer.connection == _open)
        + _one(_is_asked_by)
        + _one(_is_fenced_for)
        <= 1,
    ),
    "A client has one request under way, or with the coordinator, or its answer.",
)

request_of_state = invariant(
    "RequestOfState",
    all_of(
        i,
        _initializing.implies(_state == client.INITIALIZING)
        & _ending.implies(_state.is_in(client.COMMITTING, client.ABORTING)),
    ),
    "What is under way for a client is what its state waits for.",
)

no_later_connection = invariant(
    "NoLaterConnection",
    all_of(
        i,
        all_true(
            *(
                all_of(m, m.connection <= _open)
                for m in (_init, _init_answer, _end, _end_answer)
            ),
            *(asked.is_set.implies(asked.value <= _open) for asked in (asked_by[i], fenced_for[i])),
        ),
    ),
    "Nothing comes from a connection that isn't there yet.",
)

who_waits = invariant(
    "WhoWaits",
    all_of(
        i,
        asked_by[i].is_set.implies(
            pending.is_in(EMPTY, PREPARE_COMMIT, PREPARE_ABORT) | (is_prepared & ~pending.is_set)
        )
        & fenced_for[i].is_set.implies(
            pending.is_in(PREPARE_EPOCH_FENCE, PREPARE_ABORT) | (is_prepared & ~pending.is_set)
        )
        & all_of(j, ((i != j) & asked_by[i].is_set).implies(~asked_by[j].is_set)),
    ),
    "One client at most waits for a record, and those that have fenced a transaction for its end.",
)

settled_outside = invariant(
    "SettledOutside",
    all_of(
        i,
        _state.is_in(client.IN_TRANSACTION, client.ABORTABLE_ERROR)
        | client.settled.at(i),
    ),
    "Only in a transaction does a client wait to hear of batches.",
)

never_early = invariant(
    "NeverEarly",
    all_of(i, (EARLY_ENDS == 0).implies(~client.ending.at(i))),
    "No end waits for batches where none is asked for before they are done.",
)

init_anew = invariant(
    "InitAnew",
    all_of(
        i,
        _state.is_in(client.UNINITIALIZED, client.INITIALIZING).implies(
            client.producer_epoch.at(i) == NO_EPOCH
        )
        & all_of(_init, _init.expected_epoch == NO_EPOCH),
    ),
    "A client that asks for an epoch has none.",
)

# Who holds which epoch -------------------------------------------------------------------------


def _is_given_out(of_id: Expression, epoch: Expression) -> Expression:
    """Whether a pair is the coordinator's, an older one, or the one after the end under way."""
    current = (position(of_id) < position(producer_id)) | (
        (of_id == producer_id) & (epoch <= producer_epoch)
    )
    following = is_prepared & (next_id == of_id) & (epoch == 0)
    return (current | following) & (epoch < LARGEST_EPOCH) & (epoch >= 0)


_id, _epoch = client.producer_id.at(i), client.producer_epoch.at(i)
_holds = (_epoch != NO_EPOCH) & (_state != client.FATAL_ERROR)
given_out = invariant(
    "GivenOut",
    all_of(
        i,
        all_true(
            (_epoch != NO_EPOCH).implies(_is_given_out(_id, _epoch)),
            _state.is_in(client.UNINITIALIZED, client.INITIALIZING, client.FATAL_ERROR)
            | (_epoch != NO_EPOCH),
            *(
                all_of(
                    m,
                    (m.error == Errors.NONE).implies(
                        _is_given_out(m.producer_id, m.producer_epoch)
                    ),
                )
                for m in (_init_answer, _end_answer)
            ),
        ),
    ),
    "A client has, or is told, a producer id and epoch that the coordinator has come to.",
)

end_carries_pair = invariant(
    "EndCarriesPair",
    all_of(
        i,
        all_of(
            _end,
            (_end.connection == _open).implies(
                (_end.producer_id == _id) & (_end.producer_epoch == _epoch)
            ),
        )
        & _is_asked_by.implies(
            pending.is_in(PREPARE_COMMIT, PREPARE_ABORT).implies(
                (_id == producer_id) & (_epoch == producer_epoch)
            )
            & is_prepared.implies((_id == producer_id) & (_epoch + 1 == producer_epoch))
        ),
    ),
    "Who waits for an end holds the epoch of the transaction that it ends.",
)

_ends = state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)


def _is_current(of_id: Expression, epoch: Expression) -> Expression:
    """Whether a pair is the coordinator's, or may become it by the answer to an end."""
    same = of_id == producer_id
    before = same & (epoch + 1 == producer_epoch)
    rotated = (previous_id == of_id) & (epoch == LARGEST_EPOCH - 1) & (producer_epoch == 0)
    following = is_prepared & (next_id == of_id) & (epoch == 0)
    return (same & (epoch == producer_epoch)) | (
        (is_prepared | _ends) & (before | rotated | following)
    )


Claim = tuple[Expression, Expression, Expression, tuple[Expression, ...]]


def _claims(who: Expression, init_name: str, end_name: str) -> tuple[Claim, ...]:
    """What makes a client the holder of an epoch: when, which id and epoch, and names to bind."""
    initialized = in_flight(init_name, InitProducerIdResponse, who)
    ended = in_flight(end_name, EndTxnResponse, who)
    epoch, on = client.producer_epoch.at(who), connection.at(who)
    holds = (epoch != NO_EPOCH) & (client.state.at(who) != client.FATAL_ERROR)
    told = tuple(
        (
            (m.error == Errors.NONE) & (m.connection == on),
            m.producer_id,
            m.producer_epoch,
            (m,),
        )
        for m in (initialized, ended)
    )
    return (
        (holds, client.producer_id.at(who), epoch, ()),
        *told,
        ((asked_by[who] == on) & (pending == EMPTY), pending_id, pending_epoch, ()),
    )


def _no_conflict(one: Claim, other: Claim) -> Expression:
    same = (one[1] == other[1]) & (one[2] == other[2])
    both_current = _is_current(one[1], one[2]) & _is_current(other[1], other[2])
    condition = (one[0] & other[0]).implies(~same & ~both_current)
    for name in (*one[3], *other[3]):
        condition = all_of(name, condition)
    return condition


one_holder = invariant(
    "OneHolder",
    all_of(
        i,
        all_of(
            j,
            (i != j).implies(
                all_true(
                    *(
                        _no_conflict(one, other)
                        for one in _claims(i, "a", "b")
                        for other in _claims(j, "c", "d")
                    )
                )
            ),
        ),
    ),
    "No two clients hold, or are told, one producer id and epoch, or the one that an end gave.",
)

LEMMAS = (
    pending_fits,
    unsettled_fits,
    one_epoch_logged,
    ids_given_out,
    next_epoch_prepared,
    last_epoch,
    one_request,
    request_of_state,
    no_later_connection,
    who_waits,
    settled_outside,
    never_early,
    init_anew,
    given_out,
    end_carries_pair,
    one_holder,
)
