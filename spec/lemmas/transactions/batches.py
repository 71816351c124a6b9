"""Of batches: in flight, waiting for the coordinator, and in a log; and of their transactions.

With version 2 every end of a transaction gives a new epoch, so that an epoch has one transaction
with records. Before, it has many, and `numbers` has how sequences go on. The lemmas are of one
record to a partition in a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from ....language import (
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
from ...client import state as client
from ...client.calls.application import Outcome, outcome
from ...coordinator.entry import is_prepared, producer_epoch, producer_id
from ...coordinator.state_manager import log
from ...leader import state as leader
from ...leader.isolation import log_entry
from ...messages import (
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    RECORD,
    RECORDS,
    TRANSACTION,
    TRANSACTIONS,
    Produce,
)
from ...properties.transactions.transactions import is_older
from ...releases.features import transaction_version_2
from ..counting import Place, named
from .clients import Pair, claims, is_current, is_given_out
from .leaders import each_live

i, j, k, m = (PRODUCER.variable(name) for name in "ijkm")
p, q = PARTITION.variable("p"), PARTITION.variable("q")
n, s = PRODUCER_ID.variable("n"), RECORD.variable("s")
t, u = TRANSACTION.variable("t"), TRANSACTION.variable("u")

AnyPlace = TypeVar("AnyPlace", bound=Place)

# Where batches are -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch(Place):
    """A place where there may be a batch for partition `p`, and the batch."""

    producer_id: Expression
    epoch: Expression
    txn: Expression
    record: Expression


@dataclass(frozen=True)
class Numbered(Batch):
    """The same where the batch has a sequence."""

    sequence: Expression


def _numbered(is_taken: Expression, batch: Expression, *names: Expression) -> Numbered:
    pair = batch.producer_id, batch.producer_epoch
    content = batch.txn, batch.record, batch.base_sequence
    return Numbered(is_taken, *pair, *content, names=names)


def sent_by(who: Expression, name: str, where: Expression = p) -> tuple[Numbered, Numbered]:
    """The batches of a client: on their way, and waiting for the coordinator's answer."""
    request, waiting = in_flight(name, Produce, who, where), leader.waiting.at(where)[who]
    return (
        _numbered(lift(True), request, request, who),
        _numbered(waiting.is_set, waiting.value, who),
    )


def _in_a_log(entry: Expression) -> Batch:
    content = entry.producer_id, entry.producer_epoch, entry.txn.value, entry.record
    return Batch(entry.kind == leader.Kind.DATA, *content, names=(entry,))


in_log = log_entry("e", p)
logged = _in_a_log(in_log)
_requested, _waiting = sent_by(j, "a")
PLACES = (logged, _requested, _waiting)
"""The places where there may be a batch for partition `p`."""


def each_place(says: Callable[[Batch], Expression]) -> Expression:
    """Whether it holds for each batch for partition `p`, wherever it is."""
    return _of_each(PLACES, says)


def _of_each(places: Iterable[AnyPlace], says: Callable[[AnyPlace], Expression]) -> Expression:
    """Whether it holds for all that is at these places."""
    return all_true(*(place.every(says(place)) for place in places))


def _other_places(where: Expression) -> tuple[Batch, ...]:
    """The places where there may be a batch for a partition, under names that PLACES doesn't
    have."""
    return (*sent_by(k, "b", where), _in_a_log(log_entry("f", where)))


def every_batch(says: Callable[[Batch], Expression], *names: Expression) -> Expression:
    """Whether it holds for each batch, for all that is named."""
    return named((*names, p), each_place(says))


# Their content -----------------------------------------------------------------------------------

_state, _txn = client.state.at(i), client.txn.at(i)
_id, _epoch = client.producer_id.at(i), client.producer_epoch.at(i)
client_batch = client.batches.at(i)[p][s]
before_version_2 = ~transaction_version_2
is_sent = client_batch.status != client.UNSENT
is_in_transaction = _state.is_in(
    client.IN_TRANSACTION, client.COMMITTING, client.ABORTING, client.ABORTABLE_ERROR
)
may_be_over = before_version_2 & (
    (_state == client.ABORTING) | ((_state == client.COMMITTING) & client.bump_asked.at(i))
)

transaction_of_state = invariant(
    "TransactionOfState",
    all_of(
        i,
        if_(
            may_be_over,
            _txn.is_set.implies(is_in_transaction),
            _txn.is_set == is_in_transaction,
        )
        & all_of(p, s, is_sent.implies(_txn.is_set)),
    ),
    "A client has a transaction exactly in the states for it, and no batches without one. Before "
    "version 2 it may be over in the state of its end.",
)
"""The rows that set and clear the transaction change the state with it, and clear the batches."""

begun = invariant(
    "Begun",
    all_of(p, logged.every(in_log.txn.is_set))
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
"""An application begins transactions one after the other, and a batch is sent in one that has
begun."""

batch_given_out = invariant(
    "BatchGivenOut",
    every_batch(lambda batch: is_given_out(batch.producer_id, batch.epoch)),
    "The coordinator has given out the producer id and epoch of each batch.",
)
"""A client sends a batch with the pair that it holds (GivenOut), and what was given out stays
so."""

next_sequence = client.next_sequence.at(i)[p]


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


goes_on = before_version_2 & ~_txn.is_set
written = _written_before(outcome.at(u) != Outcome.NOT_BEGUN)
first_sequence = invariant(
    "FirstSequence",
    all_of(
        p,
        all_true(
            all_of(
                i,
                s,
                all_true(
                    client.is_open(client_batch).implies(
                        client_batch.base_sequence <= _number(_txn.value, s)
                    ),
                    is_sent
                    | (_state == client.FATAL_ERROR)
                    | (next_sequence <= if_(goes_on, written, _number(_txn.value, s))),
                ),
            ),
            transaction_version_2
            | all_of(i, _txn.is_set.implies(next_sequence <= _first_number(_txn.value) + RECORDS)),
            *(
                sent.every(sent.sequence <= _number(sent.txn, sent.record))
                for sent in (_requested, _waiting)
            ),
        ),
    ),
    "The sequence of a record is at most its number in the transaction; before version 2, among "
    "all that were written.",
)
"""Sequences start at 0 with the transaction (before version 2 with the epoch), and each record
takes one."""

# What a leader knows of them ---------------------------------------------------------------------

newest = last(leader.producers.at(p)[n].batch_metadata)
producer_entry = leader.producers.at(p)[logged.producer_id]
most = if_(transaction_version_2, RECORDS, TRANSACTIONS * RECORDS)
remembered = invariant(
    "Remembered",
    all_of(
        p,
        logged.every(
            (logged.epoch < producer_entry.producer_epoch)
            | (
                (logged.epoch == producer_entry.producer_epoch)
                & last(producer_entry.batch_metadata).is_set
            )
        )
        & all_of(n, newest.is_set.implies(newest.value.last_sequence < most)),
    ),
    "A leader remembers the last batch of an epoch until there is a newer epoch.",
)
"""An append sets both, and only a newer epoch makes the leader forget batches."""

last_epoch = if_(
    transaction_version_2,
    if_(is_prepared, producer_epoch - 1, producer_epoch),
    log.logged_epoch,
)


def _counts(of_id: Expression, epoch: Expression) -> Expression:
    """Whether batches of a pair are admitted now, or may be later on."""
    return ~is_older(of_id, epoch, producer_id, last_epoch)


logged_in_time = invariant(
    "LoggedInTime",
    all_of(p, logged.every(~is_older(producer_id, last_epoch, logged.producer_id, logged.epoch))),
    "No record in a log has an epoch that the coordinator doesn't admit yet.",
)
"""A leader appends what the coordinator admits (Admitted), and the coordinator's epoch never goes
back."""

# Whose they are ----------------------------------------------------------------------------------


def _fits_holder(place: Batch) -> Expression:
    """Whether a batch is of client i's transaction if it has the client's pair, and isn't newer
    than what the client holds or gets by an answer, as long as that counts. Before version 2 it may
    be of an earlier transaction."""
    held, *gets = claims(i, "b", "c")
    given, ended, is_next = gets  # with version 2 the next one is nobody's yet
    answered = (given, ended, replace(is_next, is_taken=before_version_2 & is_next.is_taken))

    def is_same(of_id: Expression, epoch: Expression) -> Expression:
        return (of_id == place.producer_id) & (epoch == place.epoch)

    is_of_transaction = (_txn.value == place.txn) & _txn.is_set
    was_sent = client.batches.at(i)[p][place.record].status != client.UNSENT
    is_no_later = _txn.is_set.implies(
        (position(place.txn) <= position(_txn.value)) & (is_of_transaction.implies(was_sent))
    )
    return all_true(
        (held.is_taken & is_same(_id, _epoch)).implies(
            if_(transaction_version_2, is_of_transaction & was_sent, is_no_later)
        ),
        *(
            pair.every(
                is_current(pair.producer_id, pair.epoch).implies(
                    ~is_older(pair.producer_id, pair.epoch, place.producer_id, place.epoch)
                )
                & (lift(pair is held) | ~is_same(pair.producer_id, pair.epoch))
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
"""A client sends the batches of its own transaction with the pair that it holds, and nobody else
holds that (OneHolder)."""


def _is_newest(of_id: Expression, epoch: Expression) -> Expression:
    """Whether no batch, and nothing that a client holds or gets, has a newer pair."""

    def is_no_newer(place: Batch | Pair) -> Expression:
        return ~is_older(of_id, epoch, place.producer_id, place.epoch)

    batches = all_of(q, _of_each(_other_places(q), is_no_newer))
    return all_of(m, batches & _of_each(claims(m, "c", "d"), is_no_newer))


live_is_newest = invariant(
    "LiveIsNewest",
    transaction_version_2 | each_live(_is_newest),
    "Before version 2, while a leader may append a batch, no client and no batch has a newer pair.",
)
"""The coordinator admits its own pair alone, and gives a newer one once the markers are written."""

of_client = Batch(_txn.is_set, _id, _epoch, _txn.value, lift(0), names=(i,))


def _begins_first(later: Iterable[Batch]) -> Callable[[Batch], Expression]:
    """If a batch is in a log, or with version 2 may still get there, then the transactions of later
    batches, and of clients with a later epoch, began later."""

    def says(early: Batch) -> Expression:
        def is_in_order(late: Batch) -> Expression:
            return is_older(early.producer_id, early.epoch, late.producer_id, late.epoch).implies(
                position(early.txn) < position(late.txn)
            )

        may_come = transaction_version_2 & _counts(early.producer_id, early.epoch)
        return (lift(early is logged) | may_come).implies(_of_each(later, is_in_order))

    return says


began_first = invariant(
    "BeganFirst",
    every_batch(_begins_first((*sent_by(k, "b"), of_client))),
    "If a batch is in a log, or with version 2 may still get there, its transaction began before "
    "those of newer epochs.",
)
"""A newer epoch is given after an older one, and its holder begins its transaction after that. If
an older client begins one still later, its batches don't count any more. Before version 2 there is
no newer epoch when a batch is appended (LiveIsNewest)."""

began_first_elsewhere = invariant(
    "BeganFirstElsewhere",
    all_of(p, q, (p != q).implies(each_place(_begins_first(sent_by(k, "b", q))))),
    "If a batch is in a log, or may still get there, its transaction began before those of newer "
    "epochs at other partitions.",
)
"""The coordinator admits the same epochs at all partitions."""


def _has_one_pair(batch: Batch) -> Expression:
    def is_alike(other: Batch) -> Expression:
        return (other.txn == batch.txn).implies(
            (other.producer_id == batch.producer_id) & (other.epoch == batch.epoch)
        )

    return _of_each(_other_places(p), is_alike)


pair_of_transaction = invariant(
    "PairOfTransaction",
    transaction_version_2 | every_batch(_has_one_pair),
    "Before version 2 all batches of a transaction have one producer id and epoch.",
)
"""They have the client's, as long as it has the transaction (BatchesOfTransaction)."""

LEMMAS = (
    transaction_of_state,
    begun,
    batch_given_out,
    remembered,
    logged_in_time,
    batches_of_holder,
    live_is_newest,
    began_first,
    began_first_elsewhere,
    pair_of_transaction,
    first_sequence,
)
