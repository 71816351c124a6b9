"""Properties of producer ids, by the ids handed out and the store's records."""

from __future__ import annotations

from ...language import (
    Expression,
    after,
    all_of,
    always_possible,
    element,
    failure,
    if_,
    invariant,
    leads_to,
    position,
    step_property,
)
from ..producer_ids import controller as rpc
from ..producer_ids import zookeeper as zk
from ..producer_ids.state import (
    BLOCK_SIZE,
    BROKER,
    HANDLER,
    LARGEST_PRODUCER_ID,
    handed_out,
    last_of,
)
from ..releases.features import controller_hands_out_ids

b, c, h = BROKER.variable("b"), BROKER.variable("c"), HANDLER.variable("h")


def _handed_out(name: str, by: Expression) -> Expression:
    return element(name, handed_out.at(by))


_one, _other, _later = _handed_out("e", b), _handed_out("f", c), _handed_out("g", b)

handed_out_once = invariant(
    "HandedOutOnce",
    all_of(
        b,
        _one,
        all_of(_later, (position(_one) < position(_later)).implies(_one != _later))
        & all_of(c, (b != c).implies(all_of(_other, _one != _other))),
    ),
    "A producer id is handed out once, by one broker.",
    "ProducerIdManager; KIP-98, KIP-730",
    failure=(
        failure(
            "{} hands out producer id {} twice, as numbers {} and {}",
            b,
            _one,
            position(_one) + 1,
            position(_later) + 1,
        ),
        failure("{} and {} both hand out producer id {}", b, c, _one),
    ),
)

increasing = invariant(
    "Increasing",
    all_of(
        b,
        _one,
        _later,
        (position(_one) < position(_later)).implies(_one <= _later),
    ),
    "The producer ids that a broker hands out never go back, not even after a crash.",
    "ProducerIdsBlock.claimNextId, RPCProducerIdManager.sanityCheckResponse",
    failure=failure("{} hands out producer id {} and then {}", b, _one, _later),
)

not_beyond_the_largest = invariant(
    "NotBeyondTheLargest",
    all_of(b, _one, (_one >= 0) & (_one <= LARGEST_PRODUCER_ID)),
    "Only ids from 0 up to the largest producer id are handed out. If none is left, the request "
    "is refused.",
    "ProducerIdControlManager.generateNextProducerId",
    failure=failure(
        "{} hands out producer id {}, and the largest is {}", b, _one, LARGEST_PRODUCER_ID
    ),
)

only_from_taken_blocks = invariant(
    "OnlyFromTakenBlocks",
    all_of(
        b,
        _one,
        if_(controller_hands_out_ids, _one < rpc.committed, _one <= zk.block_end),
    ),
    "Each id that is handed out belongs to a block that is recorded as taken, so no crash or "
    "failover of the store can bring it back.",
    "KIP-730",
    failure=failure(
        "{} hands out producer id {}, and the store has no block with it recorded", b, _one
    ),
)

store_forward = step_property(
    "StoreForward",
    (after(zk.block_end) >= zk.block_end) & (after(rpc.committed) >= rpc.committed),
    "The end of what is recorded as taken never goes back.",
    "ProducerIdControlManager.replay; /latest_producer_id_block",
    failure=failure(
        "the end of the blocks taken goes back: in ZooKeeper from {} to {}, in the "
        "controller from {} to {}",
        zk.block_end,
        after(zk.block_end),
        rpc.committed,
        after(rpc.committed),
    ),
)

one_block_ahead = invariant(
    "OneBlockAhead",
    all_of(
        b,
        rpc.outstanding.at(b)
        + if_(rpc.answered.at(b).is_set, 1, 0)
        + if_(rpc.prefetched.at(b).is_set, 1, 0)
        <= 1,
    ),
    "A broker has at most one request in flight, or one block in reserve, so it wastes no blocks.",
    "RPCProducerIdManager.maybeRequestNextBlock",
    failure=failure(
        "{} has {} requests in flight, beside a block in reserve", b, rpc.outstanding.at(b)
    ),
)

PROPERTIES = (
    handed_out_once,
    increasing,
    not_beyond_the_largest,
    only_from_taken_blocks,
    one_block_ahead,
    store_forward,
)

# Properties of progress ---------------------------------------------------------------------------

is_in_a_call = if_(
    controller_hands_out_ids,
    rpc.step.at(b)[h] != rpc.Step.IDLE,
    zk.state.at(b).is_in(zk.READING, zk.WRITING, zk.CHECKING),
)
no_block_is_left = (
    if_(controller_hands_out_ids, rpc.next_block, zk.block_end) > LARGEST_PRODUCER_ID - BLOCK_SIZE
)
has_id = if_(
    controller_hands_out_ids,
    (rpc.current_block.at(b).first >= 0)
    & (rpc.next_producer_id.at(b) <= last_of(rpc.current_block.at(b).first)),
    (zk.current_block.at(b) >= 0) & (zk.next_producer_id.at(b) <= last_of(zk.current_block.at(b))),
)

PROGRESS = (
    leads_to(
        "CallEnds",
        is_in_a_call,
        ~is_in_a_call,
        "Each request for a producer id is answered at last, with an id or with an error.",
        "RPCProducerIdManager.generateProducerId",
        each=(b, h),
        failure=failure("a request for a producer id at {} is still not answered", b),
    ),
    always_possible(
        "NextIdPossible",
        all_of(b, has_id) | no_block_is_left,
        "From every state, every broker can still get ids to hand out, until there are none left.",
        "RPCProducerIdManager.maybeRequestNextBlock",
        failure=failure("{} has no producer id to hand out", b),
    ),
)
