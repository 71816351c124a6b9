"""Of batches: in flight, waiting for the coordinator, and in a log; and of their transactions.

The lemmas are of the newest release, in which every end of a transaction gives a new epoch, so that
an epoch has one transaction with records. They are of one record to a partition in a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...language import (
    Expression,
    all_of,
    all_true,
    if_,
    in_flight,
    invariant,
    last,
    lift,
    position,
)
from ..application import Outcome, outcome
from ..client import state as client
from ..coordinator.entry import is_prepared, producer_epoch, producer_id
from ..leader import state as leader
from ..leader.isolation import log_entry
from ..messages import (
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    RECORD,
    RECORDS,
    TRANSACTION,
    Produce,
)
from ..properties.transactions import is_older
from .clients import is_current, is_given_out, pairs_held
from .counting import named

i, j, k = (PRODUCER.variable(name) for name in "ijk")
p, q = PARTITION.variable("p"), PARTITION.variable("q")
n, s = PRODUCER_ID.variable("n"), RECORD.variable("s")
t, u = TRANSACTION.variable("t"), TRANSACTION.variable("u")

# Where batches are -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A place where there may be a batch for partition `p`: whether there is one, and its content.
    `names` are bound by the caller."""

    is_taken: Expression
    producer_id: Expression
    epoch: Expression
    txn: Expression
    record: Expression
    names: tuple[Expression, ...]

    def every(self, condition: Expression) -> Expression:
        """Whether the condition holds of each batch there."""
        return named(self.names, self.is_taken.implies(condition))


def _place(is_taken: Expression, batch: Expression, *names: Expression) -> Place:
    pair = batch.producer_id, batch.producer_epoch
    return Place(is_taken, *pair, batch.txn, batch.record, names)


def _in_flight(name: str, who: Expression, where: Expression = p) -> tuple[Place, Place]:
    """The batches of a client: on their way, and waiting for the coordinator's answer."""
    request, waiting = in_flight(name, Produce, who, where), leader.waiting.at(where)[who]
    return _place(lift(True), request, request, who), _place(waiting.is_set, waiting.value, who)


_in_log = log_entry("e", p)
_logged = Place(
    _in_log.kind == leader.Kind.DATA,
    _in_log.producer_id,
    _in_log.producer_epoch,
    _in_log.txn.value,
    _in_log.record,
    (_in_log,),
)
_requested, _waiting = _in_flight("a", j)
PLACES = (_logged, _requested, _waiting)
"""The places where there may be a batch for partition `p`."""


def each_place(says: Callable[[Place], Expression]) -> Expression:
    """Whether it holds for each batch for partition `p`, wherever it is."""
    return all_true(*(place.every(says(place)) for place in PLACES))


def every_batch(says: Callable[[Place], Expression], *names: Expression) -> Expression:
    """Whether it holds for each batch, for all that is named."""
    return named((*names, p), each_place(says))


# Their content -----------------------------------------------------------------------------------

_state, _txn = client.state.at(i), client.txn.at(i)
_id, _epoch = client.producer_id.at(i), client.producer_epoch.at(i)
_batch = client.batches.at(i)[p][s]
_is_sent = _batch.status != client.UNSENT

transaction_of_state = invariant(
    "TransactionOfState",
    all_of(
        i,
        (
            _txn.is_set
            == _state.is_in(
                client.IN_TRANSACTION, client.COMMITTING, client.ABORTING, client.ABORTABLE_ERROR
            )
        )
        & all_of(p, all_of(s, _is_sent.implies(_txn.is_set))),
    ),
    "A client has a transaction just in the states for it, and no batches without one.",
)

begun = invariant(
    "Begun",
    all_of(p, _logged.every(_in_log.txn.is_set))
    & all_of(
        t,
        (outcome.at(t) == Outcome.NOT_BEGUN).implies(
            all_true(
                all_of(u, (position(t) < position(u)).implies(outcome.at(u) == Outcome.NOT_BEGUN)),
                all_of(i, _txn != t),
                every_batch(lambda batch: batch.txn != t),
            )
        ),
    ),
    "Transactions begin in their order, and each batch is of one that has begun.",
)

batch_given_out = invariant(
    "BatchGivenOut",
    every_batch(lambda batch: is_given_out(batch.producer_id, batch.epoch)),
    "The coordinator has given out the producer id and epoch of each batch.",
)

_waiting_sequence = leader.waiting.at(p)[j].value.base_sequence
first_sequence = invariant(
    "FirstSequence",
    all_of(
        p,
        all_true(
            all_of(
                i,
                all_of(
                    s,
                    all_true(
                        client.is_open(_batch).implies(_batch.base_sequence <= position(s)),
                        _is_sent
                        | (_state == client.FATAL_ERROR)
                        | (client.next_sequence.at(i)[p] <= position(s)),
                    ),
                ),
            ),
            _requested.every(_requested.names[0].base_sequence <= position(_requested.record)),
            _waiting.every(_waiting_sequence <= position(_waiting.record)),
        ),
    ),
    "The sequence of a record is at most its number in the transaction.",
)

# What a leader knows of them ---------------------------------------------------------------------

_newest = last(leader.producers.at(p)[n].batch_metadata)
_entry = leader.producers.at(p)[_logged.producer_id]
remembered = invariant(
    "Remembered",
    all_of(
        p,
        _logged.every(
            (_logged.epoch < _entry.producer_epoch)
            | ((_logged.epoch == _entry.producer_epoch) & last(_entry.batch_metadata).is_set)
        )
        & all_of(n, _newest.is_set.implies(_newest.value.last_sequence < RECORDS)),
    ),
    "A leader remembers the last batch of an epoch until there is a newer epoch.",
)

_last_epoch = if_(is_prepared, producer_epoch - 1, producer_epoch)


def _counts(of_id: Expression, epoch: Expression) -> Expression:
    """Whether batches of a pair are admitted now, or may be later on."""
    return ~is_older(of_id, epoch, producer_id, _last_epoch)


logged_in_time = invariant(
    "LoggedInTime",
    all_of(
        p, _logged.every(~is_older(producer_id, _last_epoch, _logged.producer_id, _logged.epoch))
    ),
    "No record in a log has an epoch that the coordinator doesn't admit yet.",
)

# Whose they are ----------------------------------------------------------------------------------


def _fits_holder(place: Place) -> Expression:
    """Whether a batch is of client i's transaction if it has the client's pair, and isn't newer
    than what the client holds or gets by an answer, as long as that counts."""
    held, *answered = pairs_held(i, "b", "c")

    def is_same(of_id: Expression, epoch: Expression) -> Expression:
        return (of_id == place.producer_id) & (epoch == place.epoch)

    is_of_transaction = (_txn.value == place.txn) & _txn.is_set
    was_sent = client.batches.at(i)[p][place.record].status != client.UNSENT
    return all_true(
        (held.when & is_same(_id, _epoch)).implies(is_of_transaction & was_sent),
        *(
            named(
                pair.names,
                pair.when.implies(
                    is_current(pair.producer_id, pair.epoch).implies(
                        ~is_older(pair.producer_id, pair.epoch, place.producer_id, place.epoch)
                    )
                    & (lift(pair is held) | ~is_same(pair.producer_id, pair.epoch))
                ),
            )
            for pair in (held, *answered)
        ),
    )


batches_of_holder = invariant(
    "BatchesOfHolder",
    every_batch(_fits_holder, i),
    "The batches of an epoch are of its holder's transaction, and there are none of an epoch that "
    "a client only gets by an answer, nor of one after that.",
)

_of_client = Place(_txn.is_set, _id, _epoch, _txn.value, lift(0), (i,))


def _begins_first(later: Iterable[Place]) -> Callable[[Place], Expression]:
    """If a batch is in a log, or may still get there, then the transactions of later batches, and
    of clients with a later epoch, began later."""

    def says(early: Place) -> Expression:
        stays = lift(early is _logged) | _counts(early.producer_id, early.epoch)
        return stays.implies(
            all_true(
                *(
                    late.every(
                        is_older(
                            early.producer_id, early.epoch, late.producer_id, late.epoch
                        ).implies(position(early.txn) < position(late.txn))
                    )
                    for late in later
                )
            )
        )

    return says


began_first = invariant(
    "BeganFirst",
    every_batch(_begins_first((*_in_flight("b", k), _of_client))),
    "If a batch is in a log, or may still get there, its transaction began before those of newer "
    "epochs.",
)

began_first_elsewhere = invariant(
    "BeganFirstElsewhere",
    all_of(p, all_of(q, (p != q).implies(each_place(_begins_first(_in_flight("b", k, q)))))),
    "The same of what may still get into the log of another partition.",
)

LEMMAS = (
    transaction_of_state,
    begun,
    batch_given_out,
    first_sequence,
    remembered,
    logged_in_time,
    batches_of_holder,
    began_first,
    began_first_elsewhere,
)
