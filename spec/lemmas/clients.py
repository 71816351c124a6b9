"""Of clients and the coordinator: what is in flight between them, and who holds which epoch.

The lemmas are of the newest release, and with one client of those from 4.0.1 on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...language import (
    Expression,
    all_of,
    all_true,
    any_of,
    any_true,
    count_of,
    in_flight,
    invariant,
    position,
)
from ..client import state as client
from ..client.calls import EARLY_ENDS
from ..coordinator import entry as coordinator
from ..coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from ..messages import (
    LARGEST_EPOCH,
    NO_EPOCH,
    PRODUCER,
    EndTxn,
    EndTxnResponse,
    Errors,
    InitProducerId,
    InitProducerIdResponse,
    connection,
)
from .coordinator import epochs_go_on, is_lost
from .counting import named, one

i, j = PRODUCER.variable("i"), PRODUCER.variable("j")

# Clients' requests -----------------------------------------------------------------------------

_open = connection.at(i)
_init, _init_answer = in_flight("m", InitProducerId, i), in_flight("n", InitProducerIdResponse, i)
_end, _end_answer = in_flight("o", EndTxn, i), in_flight("p", EndTxnResponse, i)
_state = client.state.at(i)
_is_asked_by = coordinator.asked_by[i] == _open
_is_fenced_for = coordinator.fenced_for[i] == _open

_initializing = any_true(
    any_of(_init, _init.connection == _open),
    any_of(_init_answer, _init_answer.connection == _open),
    _is_asked_by & (coordinator.pending == EMPTY),
    _is_fenced_for,
)
_ending = any_true(
    any_of(_end, _end.connection == _open),
    any_of(_end_answer, _end_answer.connection == _open),
    _is_asked_by & (coordinator.pending != EMPTY),
)


one_request = invariant(
    "OneRequest",
    all_of(
        i,
        count_of(_init, _init.connection == _open)
        + count_of(_init_answer, _init_answer.connection == _open)
        + count_of(_end, _end.connection == _open)
        + count_of(_end_answer, _end_answer.connection == _open)
        + one(_is_asked_by)
        + one(_is_fenced_for)
        <= 1,
    ),
    "A client has one request in flight, or with the coordinator, or its answer.",
)

request_of_state = invariant(
    "RequestOfState",
    all_of(
        i,
        _initializing.implies(_state == client.INITIALIZING)
        & _ending.implies(_state.is_in(client.COMMITTING, client.ABORTING)),
    ),
    "The request or answer in flight for a client is the one that its state waits for.",
)

no_later_connection = invariant(
    "NoLaterConnection",
    all_of(
        i,
        all_true(
            *(all_of(m, m.connection <= _open) for m in (_init, _init_answer, _end, _end_answer)),
            *(
                asked.is_set.implies(asked.value <= _open)
                for asked in (coordinator.asked_by[i], coordinator.fenced_for[i])
            ),
        ),
    ),
    "Nothing comes from a connection that isn't there yet.",
)

who_waits = invariant(
    "WhoWaits",
    all_of(
        i,
        coordinator.asked_by[i].is_set.implies(
            coordinator.pending.is_in(EMPTY, PREPARE_COMMIT, PREPARE_ABORT)
            | (coordinator.is_prepared & ~coordinator.pending.is_set)
        )
        & coordinator.fenced_for[i].is_set.implies(
            coordinator.fence_to_come
            | (coordinator.pending == PREPARE_ABORT)
            | (coordinator.is_prepared & ~coordinator.pending.is_set)
        )
        & all_of(
            j, ((i != j) & coordinator.asked_by[i].is_set).implies(~coordinator.asked_by[j].is_set)
        ),
    ),
    "One client at most waits for a record, and those that have fenced a transaction for its end.",
)

settled_outside = invariant(
    "SettledOutside",
    all_of(
        i,
        _state.is_in(client.IN_TRANSACTION, client.ABORTABLE_ERROR) | client.settled.at(i),
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

coordinators_errors = invariant(
    "CoordinatorsErrors",
    all_of(
        i,
        all_of(_init_answer, _init_answer.error != Errors.TRANSACTION_ABORTABLE)
        & all_of(
            _end_answer,
            ~_end_answer.error.is_in(Errors.TRANSACTION_ABORTABLE, Errors.UNKNOWN_PRODUCER_ID),
        ),
    ),
    "A coordinator answers no error of a leader.",
)

# Who holds which epoch -------------------------------------------------------------------------


def is_given_out(of_id: Expression, epoch: Expression) -> Expression:
    """Whether a pair is the coordinator's, an older one, or the one after the end in progress. The
    coordinator may have lost it."""
    current = (position(of_id) < position(coordinator.producer_id)) | (
        (of_id == coordinator.producer_id) & (epoch <= coordinator.producer_epoch)
    )
    following = ((coordinator.is_prepared & (coordinator.next_id == of_id)) | is_lost(of_id)) & (
        epoch == 0
    )
    return (current | following) & (~epochs_go_on | (epoch < LARGEST_EPOCH)) & (epoch >= 0)


_id, _epoch = client.producer_id.at(i), client.producer_epoch.at(i)
given_out = invariant(
    "GivenOut",
    all_of(
        i,
        all_true(
            (_epoch != NO_EPOCH).implies(is_given_out(_id, _epoch)),
            _state.is_in(client.UNINITIALIZED, client.INITIALIZING, client.FATAL_ERROR)
            | (_epoch != NO_EPOCH),
            *(
                all_of(
                    m,
                    (m.error == Errors.NONE).implies(is_given_out(m.producer_id, m.producer_epoch)),
                )
                for m in (_init_answer, _end_answer)
            ),
        ),
    ),
    "The coordinator has given out each producer id and epoch that a client has or gets.",
)

no_id_without_epoch = invariant(
    "NoIdWithoutEpoch",
    all_of(i, (_epoch == NO_EPOCH).implies(position(_id) == client.NO_ID)),
    "A client without an epoch has no producer id.",
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
            coordinator.pending.is_in(PREPARE_COMMIT, PREPARE_ABORT).implies(
                (_id == coordinator.producer_id) & (_epoch == coordinator.producer_epoch)
            )
            & coordinator.is_prepared.implies(
                (_id == coordinator.producer_id) & (_epoch + 1 == coordinator.producer_epoch)
            )
        ),
    ),
    "A client that waits for an end holds the epoch of the transaction that it ends.",
)

end_gives_next = invariant(
    "EndGivesNext",
    all_of(
        i,
        all_of(
            _end_answer,
            ((_end_answer.connection == _open) & (_end_answer.error == Errors.NONE)).implies(
                ((_end_answer.producer_id == _id) & (_end_answer.producer_epoch == _epoch + 1))
                | (
                    (position(_end_answer.producer_id) > position(_id))
                    & (_end_answer.producer_epoch == 0)
                )
            ),
        ),
    ),
    "EndTxn's answer gives the epoch after the client's own, or the first of a new producer id.",
)

new_id_at_last = invariant(
    "NewIdAtLast",
    all_of(
        i,
        all_of(
            _end_answer,
            all_true(
                _end_answer.connection == _open,
                _end_answer.error == Errors.NONE,
                _end_answer.producer_id != _id,
            ).implies(_epoch == LARGEST_EPOCH - 1),
        ),
    ),
    "An end gives a new producer id only where the epochs of the old one are used up.",
)

_ends = coordinator.state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)


def is_current(of_id: Expression, epoch: Expression) -> Expression:
    """Whether a pair is the coordinator's, or may become it by the answer to an end."""
    same = of_id == coordinator.producer_id
    before = same & (epoch + 1 == coordinator.producer_epoch)
    rotated = (
        (coordinator.previous_id == of_id)
        & (of_id != coordinator.producer_id)
        & (epoch == LARGEST_EPOCH - 1)
        & (coordinator.producer_epoch == 0)
    )
    following = coordinator.is_prepared & (coordinator.next_id == of_id) & (epoch == 0)
    return (same & (epoch == coordinator.producer_epoch)) | (
        (coordinator.is_prepared | _ends) & (before | rotated | following)
    )


@dataclass(frozen=True)
class Pair:
    """A producer id and epoch that a client holds, or will, `when` that is so. `names` are bound by
    whoever speaks of it."""

    when: Expression
    producer_id: Expression
    epoch: Expression
    names: tuple[Expression, ...] = ()


def pairs_held(who: Expression, init_name: str, end_name: str) -> tuple[Pair, ...]:
    """The pairs that a client holds and that answers give it; the names are of the answers."""
    epoch, on = client.producer_epoch.at(who), connection.at(who)
    is_held = (epoch != NO_EPOCH) & (client.state.at(who) != client.FATAL_ERROR)
    answers = (
        in_flight(init_name, InitProducerIdResponse, who),
        in_flight(end_name, EndTxnResponse, who),
    )
    return (
        Pair(is_held, client.producer_id.at(who), epoch),
        *(
            Pair(
                (m.error == Errors.NONE) & (m.connection == on),
                m.producer_id,
                m.producer_epoch,
                (m,),
            )
            for m in answers
        ),
    )


def _claims(who: Expression, init_name: str, end_name: str) -> tuple[Pair, ...]:
    """The pairs that a client holds, gets by an answer, or is about to get."""
    is_next = (coordinator.asked_by[who] == connection.at(who)) & (coordinator.pending == EMPTY)
    return (
        *pairs_held(who, init_name, end_name),
        Pair(is_next, coordinator.pending_id, coordinator.pending_epoch),
    )


def _of_two_clients(says: Callable[[Pair, Pair], Expression]) -> Expression:
    """Whether it holds of what any two clients hold, or get."""
    each = (
        named((*one.names, *other.names), (one.when & other.when).implies(says(one, other)))
        for one in _claims(i, "a", "b")
        for other in _claims(j, "c", "d")
    )
    return all_of(i, all_of(j, (i != j).implies(all_true(*each))))


def _no_conflict(one: Pair, other: Pair) -> Expression:
    same = (one.producer_id == other.producer_id) & (one.epoch == other.epoch)
    both_current = is_current(one.producer_id, one.epoch) & is_current(
        other.producer_id, other.epoch
    )
    return ~same & ~both_current


one_holder = invariant(
    "OneHolder",
    _of_two_clients(_no_conflict),
    "No two clients hold, or get, one producer id and epoch, or the one that an end gave.",
)


def _not_both_last(one: Pair, other: Pair) -> Expression:
    both_last = (one.epoch >= LARGEST_EPOCH - 1) & (other.epoch >= LARGEST_EPOCH - 1)
    is_before = (other.producer_id == coordinator.producer_id) & (other.epoch >= LARGEST_EPOCH - 1)
    return all_true(
        ~((one.producer_id == other.producer_id) & both_last),
        is_lost(one.producer_id).implies(~is_lost(other.producer_id) & ~is_before),
    )


last_epochs_alone = invariant(
    "LastEpochsAlone",
    _of_two_clients(_not_both_last),
    "One client at most holds, or gets, a producer id's two largest epochs, or the id after them "
    "that a failover has lost.",
)

LEMMAS = (
    one_request,
    request_of_state,
    no_later_connection,
    who_waits,
    settled_outside,
    never_early,
    init_anew,
    coordinators_errors,
    given_out,
    no_id_without_epoch,
    end_carries_pair,
    end_gives_next,
    new_id_at_last,
    one_holder,
    last_epochs_alone,
)
