"""A broker's RPCProducerIdManager, since 3.0: the threads that call it, and its channel's thread.

A request that the channel sends again, or gives up, may still be processed; its response then
reaches nobody. A call that starts again after it has switched blocks counts as another call,
however often. Kafka's call gives up after the fourth block.
"""

from __future__ import annotations

from ...language import (
    Row,
    Table,
    all_of,
    append,
    constant,
    each,
    event,
    if_,
    some,
)
from ..messages import NO_TIMESTAMP, clock, now
from ..releases.features import (
    backoff_ends_with_flag,
    backoff_left_by_request,
    block_awaited_elsewhere,
    controller_hands_out_ids,
    overlap_refused,
)
from .controller import (
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    Outcome,
    Step,
    answered,
    backoff_deadline,
    broker_epoch,
    connection,
    controller,
    current_block,
    next_producer_id,
    outstanding,
    prefetched,
    registered,
    request_in_flight,
    rpc_manager,
    step,
    taken,
)
from .state import (
    HANDLER,
    LARGEST_PRODUCER_ID,
    NO_BLOCK,
    NO_PRODUCER_ID,
    PREFETCH_THRESHOLD,
    Block,
    Errors,
    HandedOut,
    callers,
    connection_loss,
    crash,
    handed_out,
    last_of,
    size_of,
)

RETRY_BACKOFF = constant(
    "retry_backoff_ms", 0, 0, 0, real=50, meaning="how long a broker waits after a failure"
)

handler = HANDLER.variable("handler")
generate = event("generateProducerId", handler)
take_prefetched = event("take the prefetched block", handler)
set_current = event("set the current block", handler)
clear_in_flight = event("clear the flag", handler)
request_block = event("maybeRequestNextBlock", handler)
wait_ends = event("wait ends", handler, event_doc="No block came within maxWaitMs.")
store_answer = event("store the answer")
channel_timeout = event("channel timeout")
register_again = event("register again", event_doc="The broker's registration gets a new epoch.")

me = rpc_manager.this
h = HANDLER.variable("h")
waits = ~block_awaited_elsewhere
"""Whether a call that needs a block waits for it (until 3.5)."""

# A thread's call --------------------------------------------------------------------------------

current_size = size_of(current_block.size)
current_end = last_of(current_block.first, current_size)
has_block = current_block.first != NO_PRODUCER_ID
has_id = has_block & (next_producer_id <= current_end)
prefetch_target = current_block.first + current_size * PREFETCH_THRESHOLD // 100
is_time_to_prefetch = if_(
    waits, next_producer_id >= prefetch_target, next_producer_id == prefetch_target
)

generated = Table(
    rpc_manager,
    on=generate,
    others=(callers,),
    response=HandedOut,
    when=if_(waits, all_of(h, step[h] == Step.IDLE), step[handler] == Step.IDLE),
    doc="A thread finds the current block and claims an id of it in one step. Until 3.5 one call "
    "at a time is in flight; the others wait for its lock.",
    during=controller_hands_out_ids,
    rows=(
        Row(
            "id-and-prefetch",
            "The block has an id, and it is time to ask for the next block",
            when=has_id & is_time_to_prefetch,
            set={
                next_producer_id: next_producer_id + 1,
                handed_out.at(me): append(handed_out.at(me), next_producer_id),
                step[handler]: Step.REQUESTING,
            },
            reply=HandedOut(broker=me, producer_id=next_producer_id),
            source="RPCProducerIdManager.generateProducerId",
        ),
        Row(
            "id",
            "The block has an id",
            when=has_id,
            set={
                next_producer_id: next_producer_id + 1,
                handed_out.at(me): append(handed_out.at(me), next_producer_id),
            },
            reply=HandedOut(broker=me, producer_id=next_producer_id),
            source="ProducerIdsBlock.claimNextId",
        ),
        Row(
            "block-full",
            "All ids of the block are handed out",
            set={step[handler]: if_(waits, Step.REQUESTING, Step.BLOCK_IS_FULL)},
            source="RPCProducerIdManager.generateProducerId",
        ),
    ),
)

took = Table(
    rpc_manager,
    on=take_prefetched,
    others=(callers,),
    response=HandedOut,
    when=(step[handler] == Step.BLOCK_IS_FULL)
    | ((step[handler] == Step.WAITING) & prefetched.is_set),
    during=controller_hands_out_ids,
    rows=(
        Row(
            "first-id",
            "The prefetched block becomes the current one, and its first id is handed out",
            when=prefetched.is_set & (prefetched.value.error == Errors.NONE),
            set={
                prefetched: None,
                current_block: prefetched.value.block,
                next_producer_id: prefetched.value.block.first + 1,
                step[handler]: Step.IDLE,
                handed_out.at(me): append(handed_out.at(me), prefetched.value.block.first),
            },
            reply=HandedOut(broker=me, producer_id=prefetched.value.block.first),
            during=waits,
            source="RPCProducerIdManager.generateProducerId",
        ),
        Row(
            "failure",
            "The call fails with the controller's error",
            set={prefetched: None, step[handler]: Step.IDLE},
            during=waits,
            source="RPCProducerIdManager.generateProducerId",
        ),
        Row(
            "take",
            "The thread takes the prefetched block",
            when=prefetched.is_set,
            set={
                prefetched: None,
                taken[handler]: prefetched.value.block,
                step[handler]: Step.SWITCHING,
            },
            during=block_awaited_elsewhere,
            source="RPCProducerIdManager.generateProducerId",
        ),
        Row(
            "none-prefetched",
            "There is no prefetched block",
            set={step[handler]: Step.REQUESTING},
            during=block_awaited_elsewhere,
            source="RPCProducerIdManager.generateProducerId",
        ),
    ),
)

switching = Table(
    rpc_manager,
    on=set_current,
    when=step[handler] == Step.SWITCHING,
    during=controller_hands_out_ids,
    rows=(
        Row(
            "switch",
            "The block that the thread has taken becomes the current one",
            set={
                current_block: taken[handler],
                next_producer_id: taken[handler].first,
                taken[handler]: NO_BLOCK,
                step[handler]: Step.SWITCHED,
            },
            during=block_awaited_elsewhere,
            source="RPCProducerIdManager.generateProducerId",
        ),
    ),
)

switched = Table(
    rpc_manager,
    on=clear_in_flight,
    when=step[handler] == Step.SWITCHED,
    during=controller_hands_out_ids,
    rows=(
        Row(
            "clear",
            "The broker may ask for another block",
            set={
                request_in_flight: False,
                backoff_deadline: if_(backoff_ends_with_flag, NO_TIMESTAMP, backoff_deadline),
                step[handler]: Step.IDLE,
            },
            during=block_awaited_elsewhere,
            source="RPCProducerIdManager.generateProducerId",
        ),
    ),
)

has_backed_off = now >= backoff_deadline
may_request = ~prefetched.is_set & ~request_in_flight
requested = Table(
    rpc_manager,
    on=request_block,
    others=(clock,),
    when=step[handler] == Step.REQUESTING,
    doc="A call without an id fails with COORDINATOR_LOAD_IN_PROGRESS; until 3.5 it waits first.",
    during=controller_hands_out_ids,
    rows=(
        Row(
            "request",
            "The broker asks the controller for a block",
            when=may_request & (waits | has_backed_off),
            set={
                request_in_flight: True,
                outstanding: outstanding + 1,
                backoff_deadline: if_(backoff_left_by_request, backoff_deadline, NO_TIMESTAMP),
                step[handler]: if_(waits & ~has_id, Step.WAITING, Step.IDLE),
            },
            send=(
                AllocateProducerIds(broker=me, connection=connection, broker_epoch=broker_epoch),
            ),
            source="RPCProducerIdManager.maybeRequestNextBlock",
        ),
        Row(
            "no-request",
            "A block is there or on its way, or the broker backs off after a failure",
            set={step[handler]: if_(waits & ~has_id, Step.WAITING, Step.IDLE)},
            source="RPCProducerIdManager.maybeRequestNextBlock",
        ),
    ),
)

waited = Table(
    rpc_manager,
    on=wait_ends,
    when=step[handler] == Step.WAITING,
    during=controller_hands_out_ids,
    rows=(
        Row(
            "failure",
            "The call fails with COORDINATOR_LOAD_IN_PROGRESS",
            set={step[handler]: Step.IDLE},
            during=waits,
            source="RPCProducerIdManager.generateProducerId",
        ),
    ),
)

# The channel's thread ---------------------------------------------------------------------------

response_block = Block(
    first=AllocateProducerIdsResponse.producer_id_start,
    size=AllocateProducerIdsResponse.producer_id_len,
)
response_size = size_of(response_block.size)
received = Table(
    rpc_manager,
    on=AllocateProducerIdsResponse,
    others=(clock,),
    when=~answered.is_set,
    during=controller_hands_out_ids,
    rows=(
        Row(
            "closed-connection",
            "The response is on a closed connection, and reaches nobody",
            when=AllocateProducerIdsResponse.connection != connection,
            source="NetworkClient.disconnect",
        ),
        Row(
            "not-controller",
            "The broker asks the new controller",
            when=AllocateProducerIdsResponse.error == Errors.NOT_CONTROLLER,
            send=(
                AllocateProducerIds(broker=me, connection=connection, broker_epoch=broker_epoch),
            ),
            source="NodeToControllerRequestThread.handleResponse",
        ),
        Row(
            "clear",
            "Until 3.5 another request may be sent before the block is stored",
            set={
                outstanding: outstanding - 1,
                request_in_flight: False,
                answered: some(
                    Outcome(error=AllocateProducerIdsResponse.error, block=response_block)
                ),
            },
            during=waits,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
        Row(
            "failure",
            "The controller has refused",
            when=AllocateProducerIdsResponse.error != Errors.NONE,
            set={
                outstanding: outstanding - 1,
                request_in_flight: False,
                backoff_deadline: now + RETRY_BACKOFF,
            },
            during=block_awaited_elsewhere,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
        Row(
            "not-monotonic",
            "The block isn't above the current one; until KAFKA-20031 they may share an id",
            when=has_block
            & if_(
                overlap_refused,
                response_block.first <= current_end,
                response_block.first < current_end,
            ),
            set={
                outstanding: outstanding - 1,
                request_in_flight: False,
                backoff_deadline: now + RETRY_BACKOFF,
            },
            during=block_awaited_elsewhere,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
        Row(
            "invalid-range",
            "The block isn't within the range of producer ids",
            when=(response_block.first < 0)
            | (response_size < 0)
            | (response_block.first > LARGEST_PRODUCER_ID - response_size),
            set={
                outstanding: outstanding - 1,
                request_in_flight: False,
                backoff_deadline: now + RETRY_BACKOFF,
            },
            during=block_awaited_elsewhere,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
        Row(
            "prefetch",
            "The block is the next one",
            set={
                outstanding: outstanding - 1,
                prefetched: some(Outcome(error=Errors.NONE, block=response_block)),
                backoff_deadline: if_(
                    backoff_left_by_request & ~backoff_ends_with_flag,
                    NO_TIMESTAMP,
                    backoff_deadline,
                ),
            },
            during=block_awaited_elsewhere,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
    ),
)

failure = some(Outcome(error=Errors.UNKNOWN_SERVER_ERROR, block=NO_BLOCK))
answered_size = size_of(answered.value.block.size)
stored = Table(
    rpc_manager,
    on=store_answer,
    when=answered.is_set
    & ((answered.value.error == Errors.STALE_BROKER_EPOCH) | ~prefetched.is_set),
    doc="The channel's thread waits while the queue of one block is full. Kafka asks again after "
    "BROKER_ID_NOT_REGISTERED as well, which only ZooKeeper's controllers answer. A stored "
    "failure is UNKNOWN_SERVER_ERROR, whatever the controller answered.",
    during=controller_hands_out_ids,
    rows=(
        Row(
            "request",
            "The broker's epoch was stale, and it asks again",
            when=(answered.value.error == Errors.STALE_BROKER_EPOCH) & may_request,
            set={answered: None, request_in_flight: True, outstanding: outstanding + 1},
            send=(
                AllocateProducerIds(broker=me, connection=connection, broker_epoch=broker_epoch),
            ),
            during=waits,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
        Row(
            "no-request",
            "The broker's epoch was stale; a block is there or on its way",
            when=answered.value.error == Errors.STALE_BROKER_EPOCH,
            set={answered: None},
            during=waits,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
        Row(
            "failure",
            "The controller has refused",
            when=answered.value.error != Errors.NONE,
            set={answered: None, prefetched: failure},
            during=waits,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
        Row(
            "not-monotonic",
            "The block isn't above the current one; until KAFKA-20031 they may share an id",
            when=has_block
            & if_(
                overlap_refused,
                answered.value.block.first <= current_end,
                answered.value.block.first < current_end,
            ),
            set={answered: None, prefetched: failure},
            during=waits,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
        Row(
            "invalid-range",
            "The block isn't within the range of producer ids",
            when=(answered.value.block.first < 0)
            | (answered_size < 0)
            | (answered.value.block.first > LARGEST_PRODUCER_ID - answered_size),
            set={answered: None, prefetched: failure},
            during=waits,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
        Row(
            "prefetch",
            "The block is the next one",
            set={answered: None, prefetched: answered},
            during=waits,
            source="RPCProducerIdManager.handleAllocateProducerIdsResponse",
        ),
    ),
)

lost_connection = Table(
    rpc_manager,
    on=connection_loss,
    when=(outstanding > 0) & ~answered.is_set,
    during=controller_hands_out_ids,
    rows=(
        Row(
            "retry",
            "The channel sends the request again",
            set={connection: connection + 1},
            send=(
                AllocateProducerIds(
                    broker=me, connection=connection + 1, broker_epoch=broker_epoch
                ),
            ),
            source="NodeToControllerRequestThread.handleResponse",
        ),
    ),
)

timed_out = Table(
    rpc_manager,
    on=channel_timeout,
    when=(outstanding > 0) & ~answered.is_set,
    during=controller_hands_out_ids,
    rows=(
        Row(
            "retry",
            "Until 3.5 the broker asks again",
            when=~prefetched.is_set,
            set={connection: connection + 1},
            send=(
                AllocateProducerIds(
                    broker=me, connection=connection + 1, broker_epoch=broker_epoch
                ),
            ),
            during=waits,
            source="RPCProducerIdManager.handleTimeout",
        ),
        Row(
            "give-up",
            "The next call asks again",
            set={
                connection: connection + 1,
                backoff_deadline: if_(backoff_left_by_request, NO_TIMESTAMP, backoff_deadline),
                outstanding: outstanding - 1,
                request_in_flight: False,
            },
            source="RPCProducerIdManager.handleTimeout",
        ),
    ),
)

registered_again = Table(
    rpc_manager,
    on=register_again,
    others=(controller,),
    when=outstanding > 0,
    during=controller_hands_out_ids,
    rows=(
        Row(
            "new-epoch",
            "The broker has a new epoch",
            set={broker_epoch: broker_epoch + 1, registered[me]: broker_epoch + 1},
            source="BrokerLifecycleManager.BrokerRegistrationResponseHandler",
        ),
    ),
)

crashed = Table(
    rpc_manager,
    on=crash,
    others=(controller,),
    during=controller_hands_out_ids,
    rows=(
        Row(
            "restart",
            "The broker starts without a block, and registers again",
            set={
                connection: connection + 1,
                broker_epoch: broker_epoch + 1,
                registered[me]: broker_epoch + 1,
                current_block: NO_BLOCK,
                next_producer_id: 0,
                prefetched: None,
                request_in_flight: False,
                backoff_deadline: NO_TIMESTAMP,
                outstanding: 0,
                answered: None,
                step: each(h, Step.IDLE),
                taken: each(h, NO_BLOCK),
            },
            source="RPCProducerIdManager (its constructor), BrokerLifecycleManager.start",
        ),
    ),
)

FAULTY_EVENTS = (channel_timeout, register_again)
TABLES = (
    generated,
    took,
    switching,
    switched,
    requested,
    waited,
    received,
    stored,
    lost_connection,
    timed_out,
    registered_again,
    crashed,
)
