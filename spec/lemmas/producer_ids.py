"""Why a producer id is handed out once, where the controller gives out blocks: what proofs use.

A block that a broker was given is somewhere: on its way, about to be stored, in reserve, about to
become the current one, or the current one. Wherever it is, the controller has recorded it as taken,
and what is left of it has no id in common with another block, nor with what was handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

from .. import producer_ids_controller as rpc
from ..language import Expression, all_of, all_true, element, in_flight, invariant, lift
from ..producer_ids import BLOCK_SIZE, BROKER, HANDLER, NO_PRODUCER_ID, Errors, handed_out

b, c = BROKER.variable("b"), BROKER.variable("c")
g, h = HANDLER.variable("g"), HANDLER.variable("h")


@dataclass(frozen=True)
class Place:
    """Where a broker may have a block: whether it has one there, and what is left of it, from the
    id `first` to the one before `end`. `names` are bound by whoever speaks of it."""

    is_taken: Expression
    first: Expression
    end: Expression
    names: tuple[Expression, ...] = ()


def _places(broker: Expression, answer_name: str, handler: Expression) -> tuple[Place, ...]:
    """All places of a broker."""

    def whole(is_taken: Expression, first: Expression, *names: Expression) -> Place:
        return Place(is_taken, first, first + BLOCK_SIZE, names)

    def outcome(stored: Expression) -> Place:
        is_block = stored.is_set & (stored.value.error == Errors.NONE)
        return whole(is_block, stored.value.producer_id_start)

    answer = in_flight(answer_name, rpc.AllocateProducerIdsResponse, broker)
    taken = rpc.taken.at(broker)[handler]
    current = rpc.current_block.at(broker)
    return (
        whole(answer.error == Errors.NONE, answer.producer_id_start, answer),
        outcome(rpc.answered.at(broker)),
        outcome(rpc.prefetched.at(broker)),
        whole(taken != NO_PRODUCER_ID, taken, handler),
        Place(
            current != NO_PRODUCER_ID, rpc.next_producer_id.at(broker), current + BLOCK_SIZE
        ),
    )  # fmt: skip


def _every(places: Iterable[Place], holds: Callable[[Place], Expression]) -> Expression:
    """Whether something holds of each place where there is a block."""
    return all_true(
        *(_named(place.names, place.is_taken.implies(holds(place))) for place in places)
    )


def _named(names: Iterable[Expression], condition: Expression) -> Expression:
    for name in names:
        condition = all_of(name, condition)
    return condition


_of_one, _of_other = _places(b, "a", g), _places(c, "d", h)


def _apart(one: int, other: int) -> Expression:
    """Whether what is left of two blocks has no id in common, if they are two."""
    x, y = _of_one[one], _of_other[other]
    is_another = b != c
    if one != other:
        is_another = lift(True)
    elif x.names == (g,):
        is_another |= g != h
    apart = (x.end <= y.first) | (y.end <= x.first)
    return _named(
        (*x.names, *y.names), (is_another & x.is_taken & y.is_taken).implies(apart)
    )  # fmt: skip


_given = element("e", handed_out.at(b))
recorded_as_taken = invariant(
    "RecordedAsTaken",
    (rpc.committed >= 0)
    & all_of(
        b,
        _every(_of_one, lambda x: (x.end >= BLOCK_SIZE) & (x.end <= rpc.committed))
        & all_of(_given, _given < rpc.committed),
    ),
    "Every block that a broker has, and every id handed out, lies before what is committed.",
)

goes_through_its_block = invariant(
    "GoesThroughItsBlock",
    all_of(
        b,
        (rpc.current_block.at(b) != NO_PRODUCER_ID).implies(
            (rpc.next_producer_id.at(b) >= rpc.current_block.at(b))
            & (rpc.next_producer_id.at(b) <= rpc.current_block.at(b) + BLOCK_SIZE)
        ),
    ),
    "The next id of a broker is in its current block, or the first behind it.",
)

answers_apart = invariant(
    "AnswersApart",
    all_of(
        b,
        rpc.deferred[b].is_set.implies(rpc.deferred[b].value.producer_id_start < rpc.next_block)
        & all_of(
            c,
            ((b != c) & rpc.deferred[b].is_set & rpc.deferred[c].is_set).implies(
                rpc.deferred[b].value.producer_id_start != rpc.deferred[c].value.producer_id_start
            ),
        ),
    ),
    "No two brokers wait for one block.",
)

blocks_apart = invariant(
    "BlocksApart",
    all_of(
        b,
        all_of(
            c,
            all_true(*(_apart(*pair) for pair in product(range(len(_of_one)), repeat=2))),
        ),
    ),
    "No two blocks that brokers have left have an id in common.",
)

not_left_over = invariant(
    "NotLeftOver",
    all_of(
        b,
        all_of(
            _given,
            all_of(c, _every(_of_other, lambda x: (_given < x.first) | (_given >= x.end))),
        ),
    ),
    "What was handed out is no longer left in any block.",
)

LEMMAS = (recorded_as_taken, goes_through_its_block, answers_apart, blocks_apart, not_left_over)
