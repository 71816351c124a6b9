"""Of clients and the coordinator: messages between them, and who holds which epoch.

The lemmas are of all releases from 2.5 on. Before version 2 a pair is given out by InitProducerId
alone, once it is in the log. A request that comes again may get the pair that an earlier one has
brought about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    position,
    size,
    sum_of,
)
from ...client import state as client
from ...client.calls.calls_at_once import EARLY_ENDS
from ...coordinator import entry as coordinator
from ...coordinator.entry import (
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from ...coordinator.state_manager import log
from ...messages import (
    LARGEST_EPOCH,
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
    Errors,
    InitProducerId,
    InitProducerIdResponse,
    connection,
)
from ...releases.features import failed_fence_kept, transaction_version_2
from ..counting import Place, named, one
from .coordinator import epochs_go_on, is_complete, is_followed, is_lost, is_replaced

i, j, p = PRODUCER.variable("i"), PRODUCER.variable("j"), PARTITION.variable("p")

# Clients' requests -----------------------------------------------------------------------------

own_connection = connection.at(i)
_init, _init_answer = in_flight("m", InitProducerId, i), in_flight("n", InitProducerIdResponse, i)
_end, _end_answer = in_flight("o", EndTxn, i), in_flight("p", EndTxnResponse, i)
client_state = client.state.at(i)
is_asked_by = coordinator.asked_by[i] == own_connection
is_fenced_for = coordinator.fenced_for[i] == own_connection
# before version 2 clients ask for partitions, too
is_asked = is_asked_by & (transaction_version_2 | (coordinator.pending != ONGOING))

initializing = any_true(
    any_of(_init, _init.connection == own_connection),
    any_of(_init_answer, _init_answer.connection == own_connection),
    is_asked_by & (coordinator.pending == EMPTY),
    is_fenced_for,
)
ending = any_true(
    any_of(_end, _end.connection == own_connection),
    any_of(_end_answer, _end_answer.connection == own_connection),
    is_asked & (coordinator.pending != EMPTY),
)


one_request = invariant(
    "OneRequest",
    all_of(
        i,
        count_of(_init, _init.connection == own_connection)
        + count_of(_init_answer, _init_answer.connection == own_connection)
        + count_of(_end, _end.connection == own_connection)
        + count_of(_end_answer, _end_answer.connection == own_connection)
        + one(is_asked)
        + one(is_fenced_for)
        <= 1,
    ),
    "A client has one request in flight, or with the coordinator, or its answer.",
)
"""A client sends a request once it has the answer to the one before, or on a new connection."""

request_of_state = invariant(
    "RequestOfState",
    all_of(
        i,
        initializing.implies(
            if_(
                transaction_version_2,
                client_state == client.INITIALIZING,
                client.waits_for_id.at(i),
            )
        )
        & ending.implies(
            client_state.is_in(client.COMMITTING, client.ABORTING)
            & (transaction_version_2 | client.txn.at(i).is_set)
        ),
    ),
    "The request or answer in flight for a client is the one that its state waits for.",
)
"""A client asks in that state and leaves it by the answer, as no batch of it is open then."""

add = in_flight("add", AddPartitionsToTxn, i, p)
added = in_flight("added", AddPartitionsToTxnResponse, i, p)
is_adding_for = is_asked_by & (coordinator.pending == ONGOING)
additions = sum_of(
    p,
    count_of(add, add.connection == own_connection)
    + count_of(added, added.connection == own_connection),
) + if_(is_adding_for, size(coordinator.adding_for[i]), 0)
wanted = size(client.adding.at(i))
one_addition = invariant(
    "OneAddition",
    transaction_version_2
    | all_of(
        i,
        all_true(
            wanted <= 1,
            (wanted == 0) | client_state.is_in(client.IN_TRANSACTION, client.ABORTABLE_ERROR),
            additions <= if_(client_state == client.FATAL_ERROR, 1, wanted),
            all_of(
                p,
                all_of(add, add.connection <= own_connection)
                & all_of(added, added.connection <= own_connection),
            ),
        ),
    ),
    "Before version 2 a client waits for one partition to be added, in its transaction.",
)
"""A client asks for the next partition once it has the answer for the one before."""

bump_needed = invariant(
    "BumpNeeded",
    all_of(
        i,
        all_true(
            EARLY_ENDS == 0, client.is_completing(client_state), client.txn.at(i).is_set
        ).implies(client.bump_asked.at(i) == client.must_bump.at(i)),
    ),
    "A client asks for a new epoch behind the end of its transaction if it needs one.",
)
"""A client asks for both at once, and what it needs doesn't change while the end is in progress."""

no_later_connection = invariant(
    "NoLaterConnection",
    all_of(
        i,
        all_true(
            *(
                all_of(m, m.connection <= own_connection)
                for m in (_init, _init_answer, _end, _end_answer)
            ),
            *(
                number.is_set.implies(number.value <= own_connection)
                for number in (coordinator.asked_by[i], coordinator.fenced_for[i])
            ),
        ),
    ),
    "No message is of a connection that isn't open yet.",
)
"""A message has the number of the connection that is open when it is sent, and numbers only
grow."""

who_waits = invariant(
    "WhoWaits",
    all_of(
        i,
        coordinator.asked_by[i].is_set.implies(
            coordinator.pending.is_in(EMPTY, PREPARE_COMMIT, PREPARE_ABORT)
            | (~transaction_version_2 & (coordinator.pending == ONGOING))
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
"""A client waits from the time when its record is prepared until it is appended, and other requests
are refused meanwhile. Those that have fenced wait for the markers, too."""

settled_outside = invariant(
    "SettledOutside",
    all_of(
        i,
        client_state.is_in(client.IN_TRANSACTION, client.ABORTABLE_ERROR) | client.settled.at(i),
    ),
    "Only in a transaction does a client wait to hear of batches.",
)
"""An end waits until its client has heard of all batches, and batches are sent in a transaction
alone."""

never_early = invariant(
    "NeverEarly",
    all_of(i, (EARLY_ENDS == 0).implies(~client.ending.at(i))),
    "No end waits for batches where none is asked for before they are done.",
)
"""An application asks for the end once it has heard of all batches, unless EARLY_ENDS lets it ask
sooner."""

init_anew = invariant(
    "InitAnew",
    all_of(
        i,
        (
            (client_state == client.UNINITIALIZED)
            | (transaction_version_2 & (client_state == client.INITIALIZING))
        ).implies(client.producer_epoch.at(i) == NO_EPOCH)
        & transaction_version_2.implies(all_of(_init, _init.expected_epoch == NO_EPOCH)),
    ),
    "A client that asks for its first epoch has none. With version 2 it asks for no other.",
)
"""With version 2 a client asks for an epoch at its start alone; later ones come with the answer to
EndTxn."""

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
    "A coordinator doesn't answer with the errors of leaders.",
)
"""No row of the coordinator sends one."""

# Who holds which epoch -------------------------------------------------------------------------


is_first_of_id = coordinator.previous_id.is_set & (
    coordinator.previous_id != coordinator.producer_id
)


def is_given_out(of_id: Expression, epoch: Expression) -> Expression:
    """Whether a pair is the coordinator's, an older one, or the one after the end in progress. The
    coordinator may have lost it. Before version 2 a pair is given once it is in the log, and a new
    producer id has the first epoch alone as long as the one before is known."""
    is_older_id = position(of_id) < position(coordinator.producer_id)
    current = (of_id == coordinator.producer_id) & if_(
        transaction_version_2,
        epoch <= coordinator.producer_epoch,
        (epoch <= log.logged_epoch) & (is_first_of_id.implies(epoch == 0)),
    )
    following = all_true(
        transaction_version_2,
        (coordinator.is_prepared & (coordinator.next_id == of_id)) | is_lost(of_id),
        epoch == 0,
    )
    is_below = (transaction_version_2 & ~epochs_go_on) | (epoch < LARGEST_EPOCH)
    return (is_older_id | current | following) & is_below & (epoch >= 0)


_id, _epoch = client.producer_id.at(i), client.producer_epoch.at(i)
given_out = invariant(
    "GivenOut",
    all_of(
        i,
        all_true(
            (_epoch != NO_EPOCH).implies(is_given_out(_id, _epoch)),
            client_state.is_in(client.UNINITIALIZED, client.INITIALIZING, client.FATAL_ERROR)
            | (_epoch != NO_EPOCH),
            *(
                all_of(
                    m,
                    ((m.error == Errors.NONE) & tells).implies(
                        is_given_out(m.producer_id, m.producer_epoch)
                    ),
                )
                for m, tells in ((_init_answer, lift(True)), (_end_answer, transaction_version_2))
            ),
            transaction_version_2
            | (
                all_of(p, add, is_given_out(add.producer_id, add.producer_epoch))
                & all_of(_end, is_given_out(_end.producer_id, _end.producer_epoch))
            ),
        ),
    ),
    "The coordinator has given out each producer id and epoch that a client has or gets.",
)
"""A client gets a pair only by an answer, which has the pair of the record that was appended. The
coordinator's own pair never goes back behind it."""

no_id_without_epoch = invariant(
    "NoIdWithoutEpoch",
    all_of(i, (_epoch == NO_EPOCH).implies(position(_id) == client.NO_ID)),
    "A client without an epoch has no producer id.",
)
"""A client sets and forgets both at once."""

end_carries_pair = invariant(
    "EndCarriesPair",
    all_of(
        i,
        all_of(
            _end,
            (_end.connection == own_connection).implies(
                (_end.producer_id == _id) & (_end.producer_epoch == _epoch)
            ),
        )
        & is_asked_by.implies(
            coordinator.pending.is_in(PREPARE_COMMIT, PREPARE_ABORT).implies(
                (_id == coordinator.producer_id) & (_epoch == coordinator.producer_epoch)
            )
            & coordinator.is_prepared.implies(
                (_id == coordinator.producer_id)
                & (if_(transaction_version_2, _epoch + 1, _epoch) == coordinator.producer_epoch)
            )
        ),
    ),
    "A client that waits for an end holds the epoch of the transaction that it ends.",
)
"""EndTxn has the client's pair, and the coordinator refuses another one than its own. The client
gets a new pair only by the answer."""

end_gives_next = invariant(
    "EndGivesNext",
    all_of(
        i,
        _end_answer,
        all_true(
            transaction_version_2,
            _end_answer.connection == own_connection,
            _end_answer.error == Errors.NONE,
        ).implies(
            ((_end_answer.producer_id == _id) & (_end_answer.producer_epoch == _epoch + 1))
            | (
                (position(_end_answer.producer_id) > position(_id))
                & (_end_answer.producer_epoch == 0)
            )
        ),
    ),
    "EndTxn's answer gives the epoch after the client's own, or the first of a new producer id.",
)
"""The answer has the pair of the end's record: the epoch after the one that was asked for, or a new
producer id, which is a larger one."""

new_id_at_last = invariant(
    "NewIdAtLast",
    all_of(
        i,
        _end_answer,
        all_true(
            _end_answer.connection == own_connection,
            _end_answer.error == Errors.NONE,
            _end_answer.producer_id != _id,
        ).implies(_epoch == LARGEST_EPOCH - 1),
    ),
    "An end gives a new producer id only where the epochs of the old one are used up.",
)
"""The coordinator takes a new id for an end only if the next epoch would be the largest."""

_last, _pending_last = coordinator.last_producer_epoch, coordinator.pending_last_epoch


def _follows(epoch: Expression, last: Expression) -> Expression:
    """Whether an epoch is the one after the last, where that is known. Before 2.6 an abort that
    overtakes a fence takes none, and the coordinator knows its own epoch as the last one."""
    is_same = ~failed_fence_kept & (epoch == last)
    of_new_id = (epoch == 0) & (last >= LARGEST_EPOCH - 1)
    return (last == NO_EPOCH) | (epoch == last + 1) | is_same | of_new_id


last_epoch_before = invariant(
    "LastEpochBefore",
    transaction_version_2
    | all_true(
        _follows(coordinator.producer_epoch, _last),
        (coordinator.pending == EMPTY).implies(
            _follows(coordinator.pending_epoch, _pending_last)
            & _pending_last.is_in(NO_EPOCH, coordinator.producer_epoch, _last)
        ),
        coordinator.pending.is_in(PREPARE_COMMIT, PREPARE_ABORT).implies(
            (coordinator.pending_epoch == coordinator.producer_epoch) & (_pending_last == _last)
        ),
    ),
    "Before version 2 the last epoch that the coordinator knows is the one before its own.",
)
"""A record with a new epoch keeps the one before it as the last."""


def _is_next(of_id: Expression, epoch: Expression) -> Expression:
    return ((of_id == _id) & (epoch == _epoch + 1)) | (position(of_id) > position(_id))


epoch_is_set = _epoch != NO_EPOCH
is_own_or_before = (_id == coordinator.producer_id) | (
    (coordinator.previous_id == _id) & (_epoch >= LARGEST_EPOCH - 1)
)
init_gives_next = invariant(
    "InitGivesNext",
    all_of(
        i,
        all_true(
            all_of(
                _init,
                (_init.connection == own_connection).implies(
                    (_init.expected_epoch == _epoch)
                    & epoch_is_set.implies(_init.expected_id == _id)
                ),
            ),
            (is_asked_by & (coordinator.pending == EMPTY)).implies(
                epoch_is_set.implies(_is_next(coordinator.pending_id, coordinator.pending_epoch))
                & ((_pending_last == NO_EPOCH) | ((_pending_last == _epoch) & is_own_or_before))
            ),
            all_of(
                _init_answer,
                all_true(
                    epoch_is_set,
                    _init_answer.connection == own_connection,
                    _init_answer.error == Errors.NONE,
                ).implies(_is_next(_init_answer.producer_id, _init_answer.producer_epoch)),
            ),
        ),
    ),
    "InitProducerId names the epoch that its client has, and gives it the next one or a new "
    "producer id.",
)
"""The coordinator compares the epoch that the request names with its own or its last one, and
prepares the next. The client's epoch stays until the answer."""


def is_current(of_id: Expression, epoch: Expression) -> Expression:
    """Whether a pair is the coordinator's, or may become it by the answer to an end; before
    version 2, by a bump that is asked for again."""
    same = of_id == coordinator.producer_id
    following = coordinator.is_prepared & (coordinator.next_id == of_id) & (epoch == 0)
    may_be_bumped = all_true(
        coordinator.producer_epoch < LARGEST_EPOCH - 1,
        epoch == _last,
        if_(
            same,
            epoch < coordinator.producer_epoch,
            (coordinator.previous_id == of_id) & (epoch >= LARGEST_EPOCH - 1),
        ),
    )
    return (same & (epoch == coordinator.producer_epoch)) | if_(
        transaction_version_2,
        (coordinator.is_prepared | is_complete)
        & (is_followed(of_id, epoch) | is_replaced(of_id, epoch) | following),
        may_be_bumped,
    )


@dataclass(frozen=True)
class Pair(Place):
    """A place from which a client has a producer id and epoch, or gets them."""

    producer_id: Expression
    epoch: Expression


def has_epoch(who: Expression) -> Expression:
    """Whether a client has an epoch, and may go on with it."""
    return (client.producer_epoch.at(who) != NO_EPOCH) & (
        client.state.at(who) != client.FATAL_ERROR
    )


def pairs_held(who: Expression, init_name: str, end_name: str) -> tuple[Pair, ...]:
    """The pairs that a client holds and that answers give it; the names are of the answers."""
    on = connection.at(who)
    answers = (
        (in_flight(init_name, InitProducerIdResponse, who), lift(True)),
        (in_flight(end_name, EndTxnResponse, who), transaction_version_2),
    )
    return (
        Pair(has_epoch(who), client.producer_id.at(who), client.producer_epoch.at(who)),
        *(
            Pair(
                tells & (m.error == Errors.NONE) & (m.connection == on),
                m.producer_id,
                m.producer_epoch,
                names=(m,),
            )
            for m, tells in answers
        ),
    )


def claims(who: Expression, init_name: str, end_name: str) -> tuple[Pair, ...]:
    """The pairs that a client holds, gets by an answer, or is about to get."""
    is_next = (coordinator.asked_by[who] == connection.at(who)) & (coordinator.pending == EMPTY)
    return (
        *pairs_held(who, init_name, end_name),
        Pair(is_next, coordinator.pending_id, coordinator.pending_epoch),
    )


def _of_two_clients(says: Callable[[Pair, Pair], Expression]) -> Expression:
    """Whether it holds of the epochs that any two clients hold, or get."""
    each = (
        named((*one.names, *other.names), (one.is_taken & other.is_taken).implies(says(one, other)))
        for one in claims(i, "a", "b")
        for other in claims(j, "c", "d")
    )
    return all_of(i, j, (i != j).implies(all_true(*each)))


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
"""A pair is given in the answer to one client. Another client gets a newer one, and an end's epoch
goes to the holder of the epoch before."""


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
"""When these epochs are left, a client that asks again gets a new producer id. So only an end gives
them on, to the client that has asked for it."""

LEMMAS = (
    one_request,
    request_of_state,
    one_addition,
    bump_needed,
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
    last_epoch_before,
    init_gives_next,
    one_holder,
    last_epochs_alone,
)
