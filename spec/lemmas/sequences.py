"""Of an idempotent client: its batches, the requests that carry them, and the state of leaders.

The lemmas are of a client that has one producer id, with the features that mend findings 1 to 3.
An epoch then numbers each record once. A record has a number wherever it is spoken of: in its open
batch, in a request on its way, in one that is late. A batch gets a new number only while no request
with the old one can arrive, and while it isn't in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...language import (
    Expression,
    all_of,
    all_true,
    any_of,
    count_of,
    element,
    if_,
    in_flight,
    invariant,
    lift,
    position,
)
from ..client import state as client
from ..client.batches.epochs import DelayedProduce
from ..leader import state as leader
from ..messages import NO_EPOCH, PARTITION, RECORD, RECORDS, Errors, Produce, ProduceResponse
from .counting import Place, following, one

_ME = 0
p = PARTITION.variable("p")
r, s = RECORD.variable("r"), RECORD.variable("s")

# Where a record has a number ---------------------------------------------------------------------


@dataclass(frozen=True)
class Number(Place):
    """A place where a record of partition `p` may have a number, which is an epoch and a
    sequence."""

    record: Expression
    epoch: Expression
    sequence: Expression


def _batch(of: Expression) -> Number:
    """An open batch."""
    batch = client.batches.at(_ME)[p][of]
    number = batch.producer_epoch, batch.base_sequence
    return Number(client.is_open(batch), of, *number, names=(of,))


def _request(m: Expression) -> Number:
    return Number(lift(True), m.record, m.producer_epoch, m.base_sequence, names=(m,))


def _requests(name: str) -> tuple[Number, Number]:
    """A request on the connection, and a late one."""
    late = in_flight(f"{name}_late", DelayedProduce, _ME, p)
    return _request(in_flight(name, Produce, _ME, p)), _request(late)


_OPEN, _OTHER_OPEN = _batch(r), _batch(s)
_sent, _late = _requests("a")
PLACES = (_OPEN, _sent, _late)
_OTHER_PLACES = (_OTHER_OPEN, *_requests("b"))


def each_place(says: Callable[[Number], Expression]) -> Expression:
    """Whether each number says so, wherever it is."""
    return all_of(p, all_true(*(place.every(says(place)) for place in PLACES)))


# What the client knows ---------------------------------------------------------------------------

_epoch, _entry_epoch = client.producer_epoch.at(_ME), client.entry_epoch.at(_ME)[p]
next_sequence = client.next_sequence.at(_ME)[p]
of_r = client.batches.at(_ME)[p][r]
answer = in_flight("y", ProduceResponse, _ME, p)
logged = element("e", leader.log.at(p))

# What a leader knows -----------------------------------------------------------------------------

entry = leader.producers.at(p)[client.producer_id.at(_ME)]
next_in_order = following(entry)
cached = element("m", entry.batch_metadata)


def _was_sent(record: Expression) -> Expression:
    return client.batches.at(_ME)[p][record].status != client.UNSENT


def _is_logged(record: Expression) -> Expression:
    return any_of(logged, logged.record == record)


def _may_come(place: Number) -> Expression:
    """Whether a number lies beyond those that the leader has come to."""
    return (place.epoch > entry.producer_epoch) | (
        (place.epoch == entry.producer_epoch) & (place.sequence >= next_in_order)
    )


# Lemmas ------------------------------------------------------------------------------------------

sent_in_turn = invariant(
    "SentInTurn",
    all_of(
        p,
        all_true(
            all_of(r, s, (_was_sent(r) & (position(s) < position(r))).implies(_was_sent(s))),
            *(m.every(_was_sent(m.record)) for m in (_sent, _late)),
            all_of(answer, _was_sent(answer.record)),
            all_of(logged, _was_sent(logged.record)),
        ),
    ),
    "Records are sent in their order, and only what was sent is in flight or in a log.",
)
"""A client sends a partition's records in the order of writing."""

sequences_fit = invariant(
    "SequencesFit",
    each_place(lambda place: place.sequence <= position(place.record))
    & all_of(
        p,
        all_true(
            all_of(r, _was_sent(r) | (next_sequence <= position(r))),
            all_of(
                cached, (cached.last_sequence < next_in_order) & (cached.last_sequence < RECORDS)
            ),
        ),
    ),
    "The sequence of a record is at most its number, so that none wraps.",
)
"""Sequences start at 0 with an epoch, and each record takes one."""

epochs_fit = invariant(
    "EpochsFit",
    each_place(
        lambda place: all_true(
            place.epoch != NO_EPOCH,
            place.epoch <= _entry_epoch,
            lift(place is _OPEN).implies(place.epoch == _entry_epoch),
            (place.epoch == _entry_epoch).implies(place.sequence < next_sequence),
        )
    )
    & all_of(
        p,
        all_true(
            entry.producer_epoch <= _entry_epoch,
            (entry.producer_epoch == _entry_epoch).implies(next_in_order <= next_sequence),
            (_epoch != NO_EPOCH).implies(_entry_epoch <= _epoch),
            all_of(
                logged,
                (logged.producer_epoch != NO_EPOCH)
                & (logged.producer_epoch <= entry.producer_epoch),
            ),
        ),
    ),
    "Batches in flight to a partition are of its epoch, below its next sequence; what is known of "
    "it elsewhere is of that epoch, or of an older one.",
)
"""If a partition takes a new epoch, all its open batches get it with new sequences. A leader learns
of epochs by batches."""

one_message = invariant(
    "OneMessage",
    all_of(
        p,
        r,
        count_of(_sent.names[0], _sent.record == r) + count_of(answer, answer.record == r)
        <= one(~of_r.status.is_in(client.UNSENT, client.QUEUED)),
    ),
    "One request with a batch, or its answer, is in flight on the connection that is open.",
)
"""A batch is sent again after its answer, or after the connection has broken: its request is late
then."""

late_is_unanswered = invariant(
    "LateIsUnanswered",
    all_of(
        p,
        _late.every(
            all_of(r, ((_late.record == r) & client.is_open(of_r)).implies(of_r.unanswered))
        ),
    ),
    "The client counts an open batch as unanswered if a request with it is late.",
)
"""A request becomes late when the connection breaks, and the client marks its batch at the same
time."""


earlier_ones_first = invariant(
    "EarlierOnesFirst",
    all_of(
        p,
        r,
        all_true(
            *(
                m.every(
                    (client.is_open(of_r) & (position(r) < position(m.record))).implies(
                        client.batches.at(_ME)[p][m.record].status == status
                    )
                )
                for m, status in ((_sent, client.SENT), (_late, client.QUEUED))
            )
        ),
    ),
    "While a batch is open, a later one with a request in flight is open too, and isn't sent again "
    "if that request is late.",
)
"""If a connection breaks, all its batches are queued again, and are sent one after the other until
each is answered."""


def _in_order(early: Number, late: Number) -> Expression:
    """Whether the numbers of one record are one, and those of an earlier record are lower."""
    is_of_epoch = early.epoch == late.epoch
    return all_true(
        (early.record == late.record).implies(is_of_epoch & (early.sequence == late.sequence)),
        (position(early.record) < position(late.record)).implies(
            (early.epoch < late.epoch) | (is_of_epoch & (early.sequence < late.sequence))
        ),
    )


numbers_in_order = invariant(
    "NumbersInOrder",
    all_of(
        p,
        all_true(
            *(
                early.every(late.every(_in_order(early, late)))
                for early in PLACES
                for late in _OTHER_PLACES
            )
        ),
    ),
    "A record has one number at a time, and later records have higher ones.",
)
"""Numbers are given in the order of records, and a batch gets a new one only if all requests with
the old one are over."""

appended_or_ahead = invariant(
    "AppendedOrAhead",
    each_place(
        lambda place: if_(
            _may_come(place),
            all_of(logged, position(logged.record) < position(place.record)),
            (place.epoch == entry.producer_epoch).implies(_is_logged(place.record)),
        )
    ),
    "A record whose number the leader has come to is in the log; one whose number it hasn't come "
    "to is behind all that are.",
)
"""A leader appends records in the order of their numbers, and no number passes from a record that
is in the log to another one."""

appended_is_answered = invariant(
    "AppendedIsAnswered",
    all_of(
        p,
        all_true(
            all_of(
                r,
                (client.is_open(of_r) & _is_logged(r) & ~of_r.unanswered).implies(
                    any_of(answer, (answer.record == r) & (answer.error == Errors.NONE))
                ),
            ),
            all_of(answer, (answer.error == Errors.NONE).implies(_is_logged(answer.record))),
        ),
    ),
    "The answer to an appended batch is in flight, or the client knows that it has had none; and "
    "what is answered so is in the log.",
)
"""An append and its answer are one step. If the connection breaks, the client marks the batch as
unanswered."""


LEMMAS = (
    sent_in_turn,
    sequences_fit,
    epochs_fit,
    one_message,
    late_is_unanswered,
    earlier_ones_first,
    numbers_in_order,
    appended_or_ahead,
    appended_is_answered,
)
