"""Before version 2: the sequences of an epoch, which go on from one transaction to the next.

A client numbers each record once in an epoch. The lemmas are of one record to a partition in a
transaction. With version 2 an epoch has one transaction, and only ProducerIsKnown says something.
"""

from __future__ import annotations

from collections.abc import Callable

from ....language import (
    Expression,
    all_of,
    all_true,
    in_flight,
    invariant,
    position,
)
from ...client import state as client
from ...leader import state as leader
from ...leader.isolation import log_entry
from ...messages import (
    PARTITION,
    PRODUCER,
    RECORD,
    AddPartitionsByLeaderResponse,
    Errors,
    ProduceResponse,
)
from ...releases.features import transaction_version_2, unknown_producer_accepted
from ..counting import following
from .batches import Batch, Numbered, sent_by
from .clients import has_epoch

i, j, k = (PRODUCER.variable(name) for name in "ijk")
p, r, s = PARTITION.variable("p"), RECORD.variable("r"), RECORD.variable("s")


def _places(message: str, record: Expression, who: Expression) -> tuple[Numbered, ...]:
    """The places of a client's batches: with the client, on their way, and waiting for the
    coordinator's answer."""
    batch = client.batches.at(who)[p][record]
    pair = client.producer_id.at(who), client.producer_epoch.at(who)
    content = *pair, client.txn.at(who).value, record, batch.base_sequence
    own = Numbered(client.is_open(batch), *content, names=(record, who))
    return own, *sent_by(who, message)


_PLACES, _OTHERS = _places("a", r, j), _places("b", s, k)


def _each_place(says: Callable[[Numbered], Expression]) -> Expression:
    return transaction_version_2 | all_of(
        p, all_true(*(place.every(says(place)) for place in _PLACES))
    )


def _is_before(txn: Expression, record: Expression, other: Batch) -> Expression:
    """Whether a record was written before another one."""
    same = txn == other.txn
    return (position(txn) < position(other.txn)) | (
        same & (position(record) < position(other.record))
    )


def _is_same_pair(one: Numbered, other: Numbered) -> Expression:
    return (one.producer_id == other.producer_id) & (one.epoch == other.epoch)


def _in_order(one: Numbered, other: Numbered) -> Expression:
    same = (one.txn == other.txn) & (one.record == other.record)
    return _is_same_pair(one, other).implies(
        same.implies(one.sequence == other.sequence)
        & _is_before(one.txn, one.record, other).implies(one.sequence < other.sequence)
    )


in_order_of_writing = invariant(
    "InOrderOfWriting",
    _each_place(lambda one: all_true(*(other.every(_in_order(one, other)) for other in _OTHERS))),
    "Before version 2 a record has one number in an epoch, and later records have higher ones.",
)
"""A client numbers its records as it sends them first, and a batch that is sent again keeps its
number."""

client_state = client.state.at(i)
must_bump = client.must_bump.at(i)
gets_next = ((client_state == client.ABORTABLE_ERROR) & must_bump) | (
    client_state.is_in(client.ABORTING, client.INITIALIZING) & (must_bump | client.bump_asked.at(i))
)
below_next_sequence = invariant(
    "BelowNextSequence",
    all_of(
        i,
        _each_place(
            lambda place: all_true(
                has_epoch(i) & ~gets_next,
                place.producer_id == client.producer_id.at(i),
                place.epoch == client.producer_epoch.at(i),
            ).implies(place.sequence < client.next_sequence.at(i)[p])
        ),
    ),
    "Before version 2 the batches of a client's epoch are below its next sequence, unless it needs "
    "a new epoch before it goes on.",
)
"""The next sequence is counted up with each batch, and starts again only with a new epoch."""

answer = in_flight("y", ProduceResponse, i, p)
verified = in_flight("v", AddPartitionsByLeaderResponse, p, i)
producer_is_known = invariant(
    "ProducerIsKnown",
    unknown_producer_accepted.implies(
        all_of(
            p,
            i,
            all_true(
                *(all_of(m, m.error != Errors.UNKNOWN_PRODUCER_ID) for m in (answer, verified))
            ),
        )
    ),
    "From 2.5 on a client doesn't hear that its producer id is unknown at a leader.",
)
"""A leader takes the batch of a producer that it doesn't know as the first one."""

logged = log_entry("e", p)


def _entry_of(place: Numbered) -> Expression:
    return leader.producers.at(p)[place.producer_id]


ahead_of_log = invariant(
    "AheadOfLog",
    _each_place(
        lambda place: (
            (place.epoch == _entry_of(place).producer_epoch)
            & (place.sequence >= following(_entry_of(place)))
        ).implies(
            all_of(
                logged,
                all_true(
                    logged.kind == leader.Kind.DATA,
                    logged.producer_id == place.producer_id,
                    logged.producer_epoch == place.epoch,
                ).implies(_is_before(logged.txn.value, logged.record, place)),
            )
        )
    ),
    "Before version 2 a record whose number the leader hasn't come to was written after those in "
    "its log that have its epoch.",
)
"""The leader appends records in the order of their numbers, which is that of writing
(InOrderOfWriting)."""

LEMMAS = (
    in_order_of_writing,
    below_next_sequence,
    producer_is_known,
    ahead_of_log,
)
