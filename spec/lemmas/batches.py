"""Of batches: in flight, waiting for the coordinator, and in a log; and of their transactions.

With version 2 every end of a transaction gives a new epoch, so that an epoch has one transaction
with records. Before, it has many: the lemmas are of one client there, and `numbers` has how
sequences go on. They are of one record to a partition in a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

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
    sum_of,
)
from ..application import Outcome, outcome
from ..client import state as client
from ..coordinator import log as log
from ..coordinator.entry import is_prepared, producer_epoch, producer_id
from ..features import transaction_version_2
from ..leader import state as leader
from ..leader.isolation import log_entry
from ..messages import (
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    PRODUCERS,
    RECORD,
    RECORDS,
    TRANSACTION,
    TRANSACTIONS,
    Produce,
)
from ..properties.transactions import is_older
from .clients import claims, is_current, is_given_out
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


def _in_a_log(entry: Expression) -> Place:
    pair = entry.producer_id, entry.producer_epoch
    return Place(entry.kind == leader.Kind.DATA, *pair, entry.txn.value, entry.record, (entry,))


_in_log = log_entry("e", p)
_logged = _in_a_log(_in_log)
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
_before_version_2 = ~transaction_version_2
_is_sent = _batch.status != client.UNSENT
_is_in_transaction = _state.is_in(
    client.IN_TRANSACTION, client.COMMITTING, client.ABORTING, client.ABORTABLE_ERROR
)
_may_be_over = _before_version_2 & (
    (_state == client.ABORTING) | ((_state == client.COMMITTING) & client.bump_asked.at(i))
)

transaction_of_state = invariant(
    "TransactionOfState",
    all_of(
        i,
        if_(
            _may_be_over,
            _txn.is_set.implies(_is_in_transaction),
            _txn.is_set == _is_in_transaction,
        )
        & all_of(p, all_of(s, _is_sent.implies(_txn.is_set))),
    ),
    "A client has a transaction just in the states for it, and no batches without one. Before "
    "version 2 it may be over in the state of its end.",
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
_next_sequence = client.next_sequence.at(i)[p]


def _written_before(when: Expression) -> Expression:
    """How many records a partition may have of the transactions `u` for which it holds. With
    version 2 sequences start again with each transaction."""
    return if_(transaction_version_2, 0, sum_of(u, if_(when, RECORDS, 0)))


def _first_number(txn: Expression) -> Expression:
    """The largest sequence that a transaction's first record may have."""
    return _written_before(position(u) < position(txn))


def _number(txn: Expression, record: Expression) -> Expression:
    """The largest sequence that a record may have."""
    return _first_number(txn) + position(record)


_goes_on = _before_version_2 & ~_txn.is_set
_written = _written_before(outcome.at(u) != Outcome.NOT_BEGUN)
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
                        client.is_open(_batch).implies(
                            _batch.base_sequence <= _number(_txn.value, s)
                        ),
                        _is_sent
                        | (_state == client.FATAL_ERROR)
                        | (_next_sequence <= if_(_goes_on, _written, _number(_txn.value, s))),
                    ),
                ),
            ),
            transaction_version_2
            | all_of(i, _txn.is_set.implies(_next_sequence <= _first_number(_txn.value) + RECORDS)),
            _requested.every(
                _requested.names[0].base_sequence <= _number(_requested.txn, _requested.record)
            ),
            _waiting.every(_waiting_sequence <= _number(_waiting.txn, _waiting.record)),
        ),
    ),
    "The sequence of a record is at most its number in the transaction; before version 2, among "
    "all that were written.",
)

# What a leader knows of them ---------------------------------------------------------------------

_newest = last(leader.producers.at(p)[n].batch_metadata)
_entry = leader.producers.at(p)[_logged.producer_id]
_most = if_(transaction_version_2, RECORDS, TRANSACTIONS * RECORDS)
remembered = invariant(
    "Remembered",
    all_of(
        p,
        _logged.every(
            (_logged.epoch < _entry.producer_epoch)
            | ((_logged.epoch == _entry.producer_epoch) & last(_entry.batch_metadata).is_set)
        )
        & all_of(n, _newest.is_set.implies(_newest.value.last_sequence < _most)),
    ),
    "A leader remembers the last batch of an epoch until there is a newer epoch.",
)

_last_epoch = if_(
    transaction_version_2,
    if_(is_prepared, producer_epoch - 1, producer_epoch),
    log.logged_epoch,
)


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
    than what the client holds or gets by an answer, as long as that counts. Before version 2 it may
    be of an earlier transaction."""
    held, *gets = claims(i, "b", "c")
    given, ended, is_next = gets  # with version 2 the next one is nobody's yet
    answered = (given, ended, replace(is_next, when=_before_version_2 & is_next.when))

    def is_same(of_id: Expression, epoch: Expression) -> Expression:
        return (of_id == place.producer_id) & (epoch == place.epoch)

    is_of_transaction = (_txn.value == place.txn) & _txn.is_set
    was_sent = client.batches.at(i)[p][place.record].status != client.UNSENT
    is_no_later = _txn.is_set.implies(
        (position(place.txn) <= position(_txn.value)) & (is_of_transaction.implies(was_sent))
    )
    return all_true(
        (held.when & is_same(_id, _epoch)).implies(
            if_(transaction_version_2, is_of_transaction & was_sent, is_no_later)
        ),
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
    "The batches of an epoch are of its holder's transaction (before version 2, or of an earlier "
    "one), and there are none of an epoch that a client only gets, nor of one after that.",
)


def _is_no_newer(place: Place) -> Expression:
    """Whether a batch isn't newer than what client i holds or gets."""
    return all_true(
        *(
            named(
                pair.names,
                pair.when.implies(
                    ~is_older(pair.producer_id, pair.epoch, place.producer_id, place.epoch)
                ),
            )
            for pair in claims(i, "b", "c")
        )
    )


none_newer = invariant(
    "NoneNewer",
    (_before_version_2 & (PRODUCERS == 1)).implies(every_batch(_is_no_newer, i)),
    "Before version 2 no batch of a single client is newer than what it holds or gets.",
)

_of_client = Place(_txn.is_set, _id, _epoch, _txn.value, lift(0), (i,))


def _begins_first(later: Iterable[Place]) -> Callable[[Place], Expression]:
    """If a batch is in a log, or may still get there, then the transactions of later batches, and
    of clients with a later epoch, began later. Before version 2 that is so of one client alone,
    and of all its batches."""

    def says(early: Place) -> Expression:
        stays = lift(early is _logged) | _counts(early.producer_id, early.epoch)
        stays |= _before_version_2 & (PRODUCERS == 1)
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
    every_batch(_begins_first((*_in_flight("b", k), _of_client)))
    & (transaction_version_2 | every_batch(_begins_first((_in_a_log(log_entry("f", p)),)))),
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
    remembered,
    logged_in_time,
    batches_of_holder,
    none_newer,
    began_first,
    began_first_elsewhere,
    first_sequence,
)
