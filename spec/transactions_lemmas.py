"""Why the transaction protocol keeps its properties: what proofs use of each state.

They are of the newest release.
"""

from __future__ import annotations

from . import client
from . import partition as leader
from . import transaction_log as log
from .language import Expression, all_of, all_true, any_of, any_true, count_of, if_, in_flight, invariant, lift, position
from .messages import Errors, LARGEST_EPOCH, NO_EPOCH, PRODUCER, EndTxn, AddPartitionsByLeader, AddPartitionsByLeaderResponse, EndTxnResponse, InitProducerId, InitProducerIdResponse, PARTITION, PRODUCER_ID, Result, WriteTxnMarkers, WriteTxnMarkersResponse, connection
from .transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    adding_for,
    asked_by,
    completing,
    partitions,
    pending_partitions,
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
from .markers import marker_connection, marker_sent
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

logged_epoch_is_own = invariant(
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
    rotated = (previous_id == of_id) & (of_id != producer_id) & (epoch == LARGEST_EPOCH - 1) & (producer_epoch == 0)
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

# Transactions at leaders -------------------------------------------------------------------------

p, n = PARTITION.variable("p"), PRODUCER_ID.variable("n")
_entry = leader.producer_state.at(p)[n]
_waiting = leader.waiting.at(p)[i]
_question = in_flight("q", AddPartitionsByLeader, p, i)
_answer = in_flight("a", AddPartitionsByLeaderResponse, p, i)
_is_orphaned = i.is_in(leader.orphaned.at(p))
_is_adding = p.is_in(adding_for[i])

partitions_logged = invariant(
    "PartitionsLogged",
    all_of(
        p,
        all_true(
            p.is_in(partitions).implies(p.is_in(log.logged_partitions)),
            p.is_in(log.logged_partitions).implies(~is_settled),
            ((state == ONGOING) & p.is_in(log.logged_partitions)).implies(p.is_in(partitions)),
            ((pending == ONGOING) & p.is_in(partitions)).implies(p.is_in(pending_partitions)),
            (unsettled.is_set & p.is_in(partitions)).implies(p.is_in(_record.partitions)),
            (unsettled.is_set & (_record.state == EMPTY)).implies(~p.is_in(_record.partitions)),
        ),
    ),
    "The partitions of a transaction are in the transaction log.",
)

one_question = invariant(
    "OneQuestion",
    all_of(
        p,
        all_of(
            i,
            (
                count_of(_question, lift(True))
                + count_of(_answer, lift(True))
                + _one(_is_adding)
                <= _one(_waiting.is_set | _is_orphaned)
            )
            & ~(_waiting.is_set & _is_orphaned)
            & _is_adding.implies((pending == ONGOING) & p.is_in(pending_partitions))
            & all_of(
                _question,
                _is_orphaned
                | (
                    (_question.producer_id == _waiting.value.producer_id)
                    & (_question.producer_epoch == _waiting.value.producer_epoch)
                ),
            ),
        ),
    ),
    "A leader asks the coordinator about one batch of a client at a time.",
)


def _is_live(of_id: Expression, epoch: Expression) -> Expression:
    """Whether a partition is in the transaction that has this epoch, and not known to be ended."""
    return all_true(
        p.is_in(partitions),
        of_id == producer_id,
        if_(is_prepared, epoch + 1 == producer_epoch, (state == ONGOING) & (epoch == producer_epoch)),
    )


admitted = invariant(
    "Admitted",
    all_of(
        p,
        all_of(
            i,
            all_of(
                _answer,
                ((_answer.error == Errors.NONE) & _waiting.is_set & _waiting.value.guarded).implies(
                    _is_live(_waiting.value.producer_id, _waiting.value.producer_epoch)
                ),
            )
            & (_is_adding & _waiting.is_set).implies(
                (_waiting.value.producer_id == producer_id)
                & (_waiting.value.producer_epoch == producer_epoch)
            ),
        ),
    ),
    "A batch that the coordinator admits is of its transaction, unless its question no longer "
    "counts.",
)

open_is_live = invariant(
    "OpenIsLive",
    all_of(
        p,
        all_of(
            n,
            _entry.current_txn_first_offset.is_set.implies(_is_live(n, _entry.producer_epoch)),
        ),
    ),
    "What is open at a leader is the coordinator's transaction.",
)

# Markers -----------------------------------------------------------------------------------------

_marker, _written = in_flight("m", WriteTxnMarkers, p), in_flight("w", WriteTxnMarkersResponse, p)
_on = marker_connection[p]
_own = leader.producer_state.at(p)[producer_id]

marker_decided = invariant(
    "MarkerDecided",
    all_of(
        p,
        all_of(
            _marker,
            (
                (position(_marker.producer_id) < position(producer_id))
                | (
                    (_marker.producer_id == producer_id)
                    & (_marker.producer_epoch <= producer_epoch)
                )
            )
            & (
                is_prepared
                & (_marker.producer_id == producer_id)
                & (_marker.producer_epoch == producer_epoch)
            ).implies((_marker.result == Result.COMMIT) == (state == PREPARE_COMMIT)),
        ),
    ),
    "A marker under way has the coordinator's epoch and decision, or an older epoch.",
)

one_marker = invariant(
    "OneMarker",
    all_of(
        p,
        all_true(
            all_of(
                _marker,
                (_marker.connection <= _on)
                & (_marker.connection == _on).implies(
                    (_marker.producer_id == producer_id)
                    & (_marker.producer_epoch == producer_epoch)
                ),
            ),
            all_of(_written, _written.connection <= _on),
            count_of(_marker, _marker.connection == _on)
            + count_of(_written, _written.connection == _on)
            <= _one(p.is_in(marker_sent)),
            p.is_in(marker_sent).implies(is_prepared & completing & p.is_in(partitions)),
        ),
    ),
    "One marker to a leader, or its answer, is under way on the connection that is open.",
)

marker_ends = invariant(
    "MarkerEnds",
    all_of(
        p,
        all_of(
            _written,
            ((_written.connection == _on) & (_written.error == Errors.NONE)).implies(
                (_own.producer_epoch >= producer_epoch)
                & ~_own.current_txn_first_offset.is_set
                & all_of(
                    i,
                    (
                        _waiting.is_set
                        & _waiting.value.guarded
                        & (_waiting.value.producer_id == producer_id)
                    ).implies(_waiting.value.producer_epoch >= producer_epoch),
                )
            ),
        ),
    ),
    "Where a marker has been written, the transaction is over, and no batch of it is admitted.",
)

LEMMAS = (
    pending_fits,
    unsettled_fits,
    logged_epoch_is_own,
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
    partitions_logged,
    one_question,
    admitted,
    open_is_live,
    marker_decided,
    one_marker,
    marker_ends,
)
