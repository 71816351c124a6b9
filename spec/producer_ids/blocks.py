"""Who hands out producer ids, call by call: a broker's manager, the controller and the store before
it, at real ranges and with blocks of any length.

`producer_ids_controller` and `producer_ids_zookeeper` have the same with the threads, the channel
and the races that a bounded run explores.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Int,
    Key,
    Machine,
    Map,
    Optional,
    Row,
    Table,
    constant,
    enum,
    event,
    if_,
    message,
    record,
    some,
)
from ..features import overlap_refused
from ..messages import TIMESTAMP, clock, now
from .state import BLOCK_SIZE, not_monotonic, too_large

LARGEST_ID = constant("largest_id", 0, 0, 0, real=2**63 - 1, meaning="the largest producer id")
RETRY_BACKOFF = constant(
    "retry_backoff_ms", 0, 0, 0, real=50, meaning="how long a broker waits after a failure"
)
LARGEST_BLOCK = constant("largest_block", 0, 0, 0, real=2**31 - 1, meaning="ids in a block")
BROKER_IDS = constant("broker_ids", 1, 1, 1, real=2**31 - 1, meaning="broker ids")

PRODUCER_ID = Int(-1, LARGEST_ID, "producer id")
LENGTH = Int(-1, LARGEST_BLOCK, "length")
BROKER_ID = Key("broker_id", BROKER_IDS)
ITERATION_LIMIT = 3  # blocks that one call goes through before it gives up

Block = record("ProducerIdsBlock", first=PRODUCER_ID, size=LENGTH, prefetch_at=LENGTH)
ErrorCode = enum(
    "ErrorCode", NONE=0, COORDINATOR_LOAD_IN_PROGRESS=14, NOT_CONTROLLER=41, STALE_BROKER_EPOCH=77,
    OTHER=-1, UNKNOWN_SERVER_ERROR=-2,
)  # fmt: skip
caller = Machine("caller", doc="Whoever wants producer ids.")
_MANAGER = "RPCProducerIdManager"

# A broker's manager -----------------------------------------------------------------------------

manager = Machine("manager", doc="A broker's RPCProducerIdManager.")
current = manager.field("current_block", Optional(Block))
next_id = manager.field("next_id", PRODUCER_ID)
prefetched = manager.field("next_block", Optional(Block))
in_flight = manager.field("request_in_flight", Bool())
retry_at = manager.field("backoff_deadline_ms", Optional(TIMESTAMP))

Claimed = message(
    "Claimed", caller, producer_id=Optional(PRODUCER_ID), asks_controller=Bool(), goes_on=Bool(),
    message_doc="`goes_on`: the next block is the current one now, and the call claims from it.",
)  # fmt: skip
claim = event("claim")
_last = current.value.first + current.value.size - 1
_has_id = current.is_set & (next_id <= _last)
_may_ask = ~prefetched.is_set & ~in_flight & (~retry_at.is_set | (now >= retry_at.value))
_asked = {in_flight: True, retry_at: None}


claimed = Table(
    manager,
    on=claim,
    elsewhere=(clock,),
    response=Claimed,
    rows=(
        Row(
            "id, and time to prefetch",
            when=_has_id & (next_id == current.value.first + current.value.prefetch_at) & _may_ask,
            set={next_id: next_id + 1, **_asked},
            reply=Claimed(producer_id=some(next_id), asks_controller=True, goes_on=False),
            source=f"{_MANAGER}.generateProducerId",
        ),
        Row(
            "id",
            when=_has_id,
            set={next_id: next_id + 1},
            reply=Claimed(producer_id=some(next_id), asks_controller=False, goes_on=False),
            source="ProducerIdsBlock.claimNextId",
        ),
        Row(
            "switch to the next block",
            when=prefetched.is_set,
            set={
                current: prefetched,
                next_id: prefetched.value.first,
                prefetched: None,
                in_flight: False,
            },
            reply=Claimed(producer_id=None, asks_controller=False, goes_on=True),
            source=f"{_MANAGER}.generateProducerId",
        ),
        Row(
            "ask the controller",
            when=_may_ask,
            set=_asked,
            reply=Claimed(producer_id=None, asks_controller=True, goes_on=False),
            source=f"{_MANAGER}.maybeRequestNextBlock",
            note="COORDINATOR_LOAD_IN_PROGRESS",
        ),
        Row(
            "none for now",
            reply=Claimed(producer_id=None, asks_controller=False, goes_on=False),
            source=f"{_MANAGER}.maybeRequestNextBlock",
            note="COORDINATOR_LOAD_IN_PROGRESS",
        ),
    ),
)

response = event(
    "controller answers", error=ErrorCode, first=PRODUCER_ID, size=LENGTH, prefetch_at=LENGTH,
    event_doc="`prefetch_at`: 90 in 100 of the size, rounded down.",
)  # fmt: skip
_failed = {retry_at: some(now + RETRY_BACKOFF), in_flight: False}


def _failure(name: str, when: Expression, source: str) -> Row:
    return Row(name, when=when, set=_failed, source=f"{_MANAGER}.{source}")


_HANDLE = "handleAllocateProducerIdsResponse"
responded = Table(
    manager,
    on=response,
    elsewhere=(clock,),
    rows=(
        _failure("failure", response.error != ErrorCode.NONE, _HANDLE),
        _failure(
            "not monotonic",
            current.is_set & not_monotonic(response.first, _last, overlap_refused),
            _HANDLE,
        ),
        _failure(
            "invalid range",
            (response.first < 0)
            | (response.size < 0)
            | too_large(response.first, response.size, LARGEST_ID),
            _HANDLE,
        ),
        Row(
            "prefetch",
            set={
                prefetched: some(
                    Block(
                        first=response.first,
                        size=response.size,
                        prefetch_at=response.prefetch_at,
                    )
                )
            },
            source=f"{_MANAGER}.{_HANDLE}",
        ),
    ),
)

timed_out = event("controller is silent", event_doc="The channel gives the request up.")
given_up = Table(
    manager,
    on=timed_out,
    rows=(Row("may ask again", set={in_flight: False}, source=f"{_MANAGER}.handleTimeout"),),
)

MANAGER_TABLES = (claimed, responded, given_up)

# The controller ---------------------------------------------------------------------------------

controller = Machine("controller", doc="The active controller, or one that isn't.")
is_active = controller.field("is_active", Bool(), True)
next_block = controller.field("next_block", Optional(PRODUCER_ID), doc="As replayed; 0 at first.")
brokers = controller.field("brokers", Map(BROKER_ID, Optional(Int(-1, LARGEST_ID))))

allocate = event("allocate", broker_id=BROKER_ID, broker_epoch=Int(-1, LARGEST_ID))
Allocated = message("Allocated", caller, error=ErrorCode, first=PRODUCER_ID, size=LENGTH)
_CONTROL = "ProducerIdControlManager"
_first = next_block.value
_free = if_(next_block.is_set, _first, 0)


allocated = Table(
    controller,
    on=allocate,
    response=Allocated,
    rows=(
        Row(
            "not the controller",
            when=~is_active,
            reply=Allocated(error=ErrorCode.NOT_CONTROLLER, first=-1, size=0),
            source="QuorumController",
        ),
        Row(
            "stale broker epoch",
            when=brokers[allocate.broker_id] != some(allocate.broker_epoch),
            reply=Allocated(error=ErrorCode.STALE_BROKER_EPOCH, first=-1, size=0),
            source="ClusterControlManager.checkBrokerEpoch",
        ),
        Row(
            "exhausted",
            when=next_block.is_set & too_large(_first, BLOCK_SIZE, LARGEST_ID),
            reply=Allocated(error=ErrorCode.UNKNOWN_SERVER_ERROR, first=-1, size=0),
            source=f"{_CONTROL}.generateNextProducerId",
        ),
        Row(
            "next block",
            reply=Allocated(
                error=ErrorCode.NONE, first=if_(next_block.is_set, _first, 0), size=BLOCK_SIZE
            ),
            source=f"{_CONTROL}.generateNextProducerId",
            note="Once the record is committed.",
        ),
    ),
)

replay = event("replay", next_producer_id=PRODUCER_ID)
Replayed = message("Replayed", caller, is_refused=Bool())
replayed = Table(
    controller,
    on=replay,
    response=Replayed,
    rows=(
        Row(
            "not above what there is",
            when=next_block.is_set & (replay.next_producer_id <= _first),
            reply=Replayed(is_refused=True),
            source=f"{_CONTROL}.replay",
        ),
        Row(
            "goes on there",
            set={next_block: some(replay.next_producer_id)},
            reply=Replayed(is_refused=False),
            source=f"{_CONTROL}.replay",
        ),
    ),
)

CONTROLLER_TABLES = (allocated, replayed)

# The store before it, ZooKeeper -----------------------------------------------------------------

store = Machine("store", doc="/latest_producer_id_block")
stored_last = store.field("last", Optional(PRODUCER_ID), doc="Of the block that was taken last.")
take = event("take a block")
taken = Table(
    store,
    on=take,
    response=Allocated,
    rows=(
        Row(
            "first block",
            when=~stored_last.is_set,
            set={stored_last: some(BLOCK_SIZE - 1)},
            reply=Allocated(error=ErrorCode.NONE, first=0, size=BLOCK_SIZE),
            source="ZkProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "exhausted",
            when=too_large(stored_last.value, BLOCK_SIZE, LARGEST_ID),
            reply=Allocated(error=ErrorCode.UNKNOWN_SERVER_ERROR, first=-1, size=0),
            source="ZkProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "next block",
            set={stored_last: some(stored_last.value + BLOCK_SIZE)},
            reply=Allocated(error=ErrorCode.NONE, first=stored_last.value + 1, size=BLOCK_SIZE),
            source="ZkProducerIdManager.getNewProducerIdBlock",
        ),
    ),
)

STORE_TABLES = (taken,)
