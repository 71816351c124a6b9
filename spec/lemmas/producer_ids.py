"""Why a producer id is handed out once: lemmas of the proofs.

A block that a broker has taken is somewhere. From the controller: on its way, about to be stored,
in reserve, about to become the current one, or the current one. From ZooKeeper: written, whether
the broker knows that yet or not, or the current one. Wherever it is, the store has recorded it as
taken, and what is left of it has no id in common with another block, nor with what was handed out.

From ZooKeeper that takes `block_current_once_written`: without it a block may be current that
another broker has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

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
)
from ..producer_ids import controller as rpc
from ..producer_ids import zookeeper as zk
from ..producer_ids.state import (
    BLOCK_SIZE,
    BROKER,
    HANDLER,
    NO_PRODUCER_ID,
    Errors,
    handed_out,
    last_of,
)
from ..releases.features import controller_hands_out_ids
from .counting import Place, named, one

b, c = BROKER.variable("b"), BROKER.variable("c")
g, h = HANDLER.variable("g"), HANDLER.variable("h")


@dataclass(frozen=True)
class Block(Place):
    """A place where a broker may have a block, and what is left of it: from the id `first` to the
    one before `end`."""

    first: Expression
    end: Expression


def _whole(is_taken: Expression, first: Expression, *names: Expression) -> Block:
    """A place for a block from which nothing has been handed out."""
    return Block(is_taken, first, first + BLOCK_SIZE, names=names)


def _current(of: Expression, next_id: Expression) -> Block:
    """The place of the block in use."""
    return Block(of != NO_PRODUCER_ID, next_id, of + BLOCK_SIZE)


def _from_controller(
    broker: Expression, answer_name: str, handler: Expression
) -> tuple[Block, ...]:
    """The places for blocks from the controller."""

    def outcome(stored: Expression) -> Block:
        is_block = stored.is_set & (stored.value.error == Errors.NONE)
        return _whole(is_block, stored.value.block.first)

    answer = in_flight(answer_name, rpc.AllocateProducerIdsResponse, broker)
    taken = rpc.taken.at(broker)[handler].first
    return (
        _whole(answer.error == Errors.NONE, answer.producer_id_start, answer),
        outcome(rpc.answered.at(broker)),
        outcome(rpc.prefetched.at(broker)),
        _whole(taken != NO_PRODUCER_ID, taken, handler),
        _current(rpc.current_block.at(broker).first, rpc.next_producer_id.at(broker)),
    )


def _from_zookeeper(broker: Expression, answer_name: str) -> tuple[Block, ...]:
    """The places for blocks from ZooKeeper."""
    answer = in_flight(answer_name, zk.SetDataResponse, broker)
    on_open = answer.connection == zk.connection.at(broker)
    proposed = zk.proposed_block.at(broker)
    is_written = any_of(answer, on_open & (answer.code == zk.Code.OK)) | (
        broker.is_in(zk.block_broker) & (zk.block_end == last_of(proposed))
    )
    return (
        _whole(_proposes(broker) & is_written, proposed),
        _current(zk.current_block.at(broker), zk.next_producer_id.at(broker)),
    )


def _proposes(broker: Expression) -> Expression:
    return zk.state.at(broker).is_in(zk.WRITING, zk.CHECKING)


def _every(places: Iterable[Block], holds: Callable[[Block], Expression]) -> Expression:
    """Whether something holds of each place where there is a block."""
    return all_true(*(place.every(holds(place)) for place in places))


_written, _current_of_zk = _from_zookeeper(b, "r")
of_one = (*_from_controller(b, "a", g), _written, _current_of_zk)
of_other = (*_from_controller(c, "d", h), *_from_zookeeper(c, "s"))


def _apart(one: int, other: int) -> Expression:
    """Whether what is left of two blocks has no id in common, if they are two."""
    x, y = of_one[one], of_other[other]
    is_another = b != c
    if one != other:
        is_another = lift(True)
    elif set(x.names) == {g}:
        is_another |= g != h
    apart = (x.end <= y.first) | (y.end <= x.first)
    return named((*x.names, *y.names), (is_another & x.is_taken & y.is_taken).implies(apart))


given = element("e", handed_out.at(b))
not_taken = if_(controller_hands_out_ids, rpc.committed, zk.block_end + 1)
recorded_as_taken = invariant(
    "RecordedAsTaken",
    (not_taken >= 0)
    & all_of(
        b,
        _every(of_one, lambda x: (x.end >= BLOCK_SIZE) & (x.end <= not_taken))
        & all_of(given, given < not_taken),
    ),
    "Every block that a broker has, and every id handed out, lies before what the store gives out "
    "next.",
)
"""A block is stored as taken before a broker gets it."""

goes_through_its_block = invariant(
    "GoesThroughItsBlock",
    all_of(
        b,
        all_true(
            *(
                (current != NO_PRODUCER_ID).implies(
                    (next_id >= current) & (next_id <= current + BLOCK_SIZE)
                )
                for current, next_id in (
                    (rpc.current_block.at(b).first, rpc.next_producer_id.at(b)),
                    (zk.current_block.at(b), zk.next_producer_id.at(b)),
                )
            )
        ),
    ),
    "The next id of a broker is in its current block, or the first behind it.",
)
"""Ids are handed out one after the other, from the first of the block to its last."""

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
"""The controller moves on to the next block with each request that it takes."""

blocks_apart = invariant(
    "BlocksApart",
    all_of(
        b,
        c,
        all_true(*(_apart(*pair) for pair in product(range(len(of_one)), repeat=2))),
    ),
    "No two blocks that brokers have left have an id in common.",
)
"""A block is given to one broker once, and only that broker hands out ids of it."""

not_left_over = invariant(
    "NotLeftOver",
    all_of(
        b,
        given,
        c,
        _every(of_other, lambda x: (given < x.first) | (given >= x.end)),
    ),
    "An id that was handed out is no longer left in any block.",
)
"""A broker moves on to the next id as it hands one out, and blocks have no id in common
(BlocksApart)."""

# Blocks from ZooKeeper ---------------------------------------------------------------------------

_write, _answer = in_flight("w", zk.SetData, b), in_flight("a", zk.SetDataResponse, b)
zk_connection = zk.connection.at(b)


def _follows(expected: Expression, first: Expression) -> Expression:
    """Whether a write that expects a version makes the block that starts with `first` the newest
    one, or comes too late."""
    return (first >= 0) & (
        ((expected == zk.version) & (first == zk.block_end + 1))
        | ((expected < zk.version) & (last_of(first) <= zk.block_end))
    )


writes_follow = invariant(
    "WritesFollow",
    all_of(
        b,
        _proposes(b).implies(_follows(zk.expected_version.at(b), zk.proposed_block.at(b)))
        & all_of(_write, _follows(_write.version, _write.block_end - BLOCK_SIZE + 1)),
    ),
    "A write makes the block after the newest one the newest, or it comes too late.",
)
"""A broker proposes the block after the newest that it has read, and ZooKeeper refuses a write that
names an older version."""

one_write = invariant(
    "OneWrite",
    all_of(
        b,
        all_true(
            count_of(_write, _write.connection == zk_connection)
            + count_of(_answer, _answer.connection == zk_connection)
            <= one(zk.state.at(b) == zk.WRITING),
            *(all_of(m, m.connection <= zk_connection) for m in (_write, _answer)),
        ),
    ),
    "A broker that writes waits for one answer at most, and no other broker for any.",
)
"""A broker writes once, and waits for the answer. After that, or on a new connection, it may write
again."""

writes_what_is_proposed = invariant(
    "WritesWhatIsProposed",
    all_of(
        b,
        _write,
        (_write.connection == zk_connection).implies(
            (_write.block_end == last_of(zk.proposed_block.at(b)))
            & (_write.version == zk.expected_version.at(b))
        ),
    ),
    "A broker waits for the write of the block that it proposes.",
)
"""A broker proposes another block only when the answer is there, or on a new connection."""

current_once_ready = invariant(
    "CurrentOnceReady",
    all_of(
        b,
        (_current_of_zk.is_taken == (zk.next_producer_id.at(b) != NO_PRODUCER_ID))
        & (zk.state.at(b) == zk.READY).implies(_current_of_zk.is_taken),
    ),
    "A broker that is ready has a current block, and its next id.",
)
"""The row that makes a broker ready sets both."""

LEMMAS = (
    recorded_as_taken,
    goes_through_its_block,
    answers_apart,
    blocks_apart,
    not_left_over,
    writes_follow,
    one_write,
    writes_what_is_proposed,
    current_once_ready,
)
