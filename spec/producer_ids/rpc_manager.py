"""A broker's RPCProducerIdManager, since 3.0: the threads that call it, and its channel's thread.

A request that its channel sends again, or gives up, may still be processed, and its answer then
reaches nobody. A call that begins anew after it has switched blocks counts as another call here,
however often, where Kafka's gives up after the fourth block.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...language import (
    Expression,
    Row,
    Sending,
    Table,
    all_of,
    constant,
    each,
    event,
    if_,
    only,
    some,
)
from ...language.expressions import Operand
from ..messages import LATEST, NO_TIMESTAMP, clock, now
from ..releases.features import block_awaited_elsewhere, controller_hands_out_ids, overlap_refused
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
    hand_out,
    last_of,
    size_of,
)

RETRY_BACKOFF = constant(
    "retry_backoff_ms", 0, 0, 0, real=50, meaning="how long a broker waits after a failure"
)

_thread = HANDLER.variable("handler")
generate = event("generateProducerId", _thread)
take_prefetched = event("take the prefetched block", _thread)
set_current = event("set the current block", _thread)
clear_in_flight = event("clear the flag", _thread)
request_block = event("maybeRequestNextBlock", _thread)
wait_ends = event("wait ends", _thread, event_doc="No block came within maxWaitMs.")
store_answer = event("store the answer")
channel_timeout = event("channel timeout")
register_again = event("register again", event_doc="The broker's registration gets a new epoch.")

me = rpc_manager.this
h = HANDLER.variable("h")
waits = ~block_awaited_elsewhere
_MANAGER = "RPCProducerIdManager"


def _ask(on: Expression, epoch: Expression) -> Sending:
    return AllocateProducerIds(broker=me, connection=on, broker_epoch=epoch)


# A thread's call --------------------------------------------------------------------------------

_current_size = size_of(current_block.size)
_current_end = last_of(current_block.first, _current_size)
_has_block = current_block.first != NO_PRODUCER_ID
_prefetch_from = current_block.first + _current_size * PREFETCH_THRESHOLD // 100
_has_id = _has_block & (next_producer_id <= _current_end)
_at_target = if_(waits, next_producer_id >= _prefetch_from, next_producer_id == _prefetch_from)
_GENERATE = f"{_MANAGER}.generateProducerId"
_handed_out = HandedOut(broker=me, producer_id=next_producer_id)
_claim = {next_producer_id: next_producer_id + 1, **hand_out(me, next_producer_id)}

generated = Table(
    rpc_manager,
    on=generate,
    others=(callers,),
    response=HandedOut,
    when=if_(waits, all_of(h, step[h] == Step.IDLE), step[_thread] == Step.IDLE),
    doc="A thread claims an id of the block that it has found to be the current one at once. "
    "Until 3.5 one call at a time is in flight, the others wait for its lock.",
    rows=only(
        controller_hands_out_ids,
        Row(
            "id, and time to prefetch",
            when=_has_id & _at_target,
            set={**_claim, step[_thread]: Step.REQUESTING},
            reply=_handed_out,
            source=_GENERATE,
        ),
        Row(
            "id",
            when=_has_id,
            set=_claim,
            reply=_handed_out,
            source="ProducerIdsBlock.claimNextId",
        ),
        Row(
            "block is full",
            set={step[_thread]: if_(waits, Step.REQUESTING, Step.BLOCK_IS_FULL)},
            source=_GENERATE,
        ),
    ),
)

_is_ready = prefetched.is_set & (prefetched.value.error == Errors.NONE)
_block = prefetched.value.block
took = Table(
    rpc_manager,
    on=take_prefetched,
    others=(callers,),
    response=HandedOut,
    when=(step[_thread] == Step.BLOCK_IS_FULL)
    | ((step[_thread] == Step.WAITING) & prefetched.is_set),
    rows=only(
        controller_hands_out_ids,
        *only(
            waits,
            Row(
                "its first id",
                when=_is_ready,
                set={
                    prefetched: None,
                    current_block: _block,
                    next_producer_id: _block.first + 1,
                    step[_thread]: Step.IDLE,
                    **hand_out(me, _block.first),
                },
                reply=HandedOut(broker=me, producer_id=_block.first),
                source=_GENERATE,
            ),
            Row(
                "a failure",
                set={prefetched: None, step[_thread]: Step.IDLE},
                source=_GENERATE,
                note="The call fails with the controller's error.",
            ),
        ),
        *only(
            block_awaited_elsewhere,
            Row(
                "take it",
                when=prefetched.is_set,
                set={prefetched: None, taken[_thread]: _block, step[_thread]: Step.SWITCHING},
                source=_GENERATE,
            ),
            Row("no prefetched block", set={step[_thread]: Step.REQUESTING}, source=_GENERATE),
        ),
    ),
)

switching = Table(
    rpc_manager,
    on=set_current,
    when=step[_thread] == Step.SWITCHING,
    rows=only(
        controller_hands_out_ids & block_awaited_elsewhere,
        Row(
            "switch to the block",
            set={
                current_block: taken[_thread],
                next_producer_id: taken[_thread].first,
                taken[_thread]: NO_BLOCK,
                step[_thread]: Step.SWITCHED,
            },
            source=_GENERATE,
        ),
    ),
)

switched = Table(
    rpc_manager,
    on=clear_in_flight,
    when=step[_thread] == Step.SWITCHED,
    rows=only(
        controller_hands_out_ids & block_awaited_elsewhere,
        Row(
            "another block may be asked for",
            set={request_in_flight: False, step[_thread]: Step.IDLE},
            source=_GENERATE,
        ),
    ),
)

_is_free = ~prefetched.is_set & ~request_in_flight
_may_ask = _is_free & ((LATEST == 0) | waits | (now >= backoff_deadline))
_asked = {request_in_flight: True, outstanding: outstanding + 1}
_after_request = {step[_thread]: if_(waits & ~_has_id, Step.WAITING, Step.IDLE)}
requested = Table(
    rpc_manager,
    on=request_block,
    others=(clock,),
    when=step[_thread] == Step.REQUESTING,
    doc="A call without an id fails with COORDINATOR_LOAD_IN_PROGRESS; until 3.5 it waits first.",
    rows=only(
        controller_hands_out_ids,
        Row(
            "ask the controller",
            when=_may_ask,
            set={**_asked, **_after_request},
            send=(_ask(connection, broker_epoch),),
            source=f"{_MANAGER}.maybeRequestNextBlock",
        ),
        Row("asked already", set=_after_request, source=f"{_MANAGER}.maybeRequestNextBlock"),
    ),
)

waited = Table(
    rpc_manager,
    on=wait_ends,
    when=step[_thread] == Step.WAITING,
    rows=only(
        controller_hands_out_ids & waits,
        Row(
            "the call fails",
            set={step[_thread]: Step.IDLE},
            source=_GENERATE,
            note="COORDINATOR_LOAD_IN_PROGRESS",
        ),
    ),
)

# What the channel's thread does -----------------------------------------------------------------

_response = AllocateProducerIdsResponse
_HANDLE = f"{_MANAGER}.handleAllocateProducerIdsResponse"
_CHANNEL = "NodeToControllerRequestThread"
_completed = {outstanding: outstanding - 1, request_in_flight: False}


def _outcome(error: Expression, block: Expression) -> Expression:
    return some(Outcome(error=error, block=block))


def _refusals(
    error: Expression, block: Expression, settled: Mapping[Expression, Operand]
) -> tuple[Row, ...]:
    """Answers that bring no block, or one that can't be right; `settled` is what they clear."""
    check = f"{_MANAGER}.sanityCheckResponse"
    # a block may start with the last id of the current one until KAFKA-20031
    behind = if_(overlap_refused, block.first <= _current_end, block.first < _current_end)
    size = size_of(block.size)
    beyond = (block.first < 0) | (size < 0) | (block.first > LARGEST_PRODUCER_ID - size)
    return (
        Row("failure", when=error != Errors.NONE, set=settled, source=_HANDLE),
        Row("not monotonic", when=_has_block & behind, set=settled, source=check),
        Row("invalid range", when=beyond, set=settled, source=check),
    )


_answered_block = Block(first=_response.producer_id_start, size=_response.producer_id_len)
_failed = {**_completed, backoff_deadline: now + RETRY_BACKOFF}
received = Table(
    rpc_manager,
    on=AllocateProducerIdsResponse,
    others=(clock,),
    when=~answered.is_set,
    rows=only(
        controller_hands_out_ids,
        Row("on a closed connection", when=_response.connection != connection),
        Row(
            "ask the new controller",
            when=_response.error == Errors.NOT_CONTROLLER,
            send=(_ask(connection, broker_epoch),),
            source=f"{_CHANNEL}.handleResponse",
        ),
        Row(
            "clear the flag",
            during=waits,
            set={
                **_completed,
                answered: _outcome(_response.error, _answered_block),
            },
            source=_HANDLE,
        ),
        *only(
            block_awaited_elsewhere,
            *_refusals(_response.error, _answered_block, _failed),
            Row(
                "prefetch",
                set={
                    outstanding: outstanding - 1,
                    prefetched: _outcome(Errors.NONE, _answered_block),
                    backoff_deadline: NO_TIMESTAMP,
                },
                source=_HANDLE,
            ),
        ),
    ),
)

_error = answered.value.error
_stale = _error == Errors.STALE_BROKER_EPOCH
_failure = _outcome(Errors.UNKNOWN_SERVER_ERROR, NO_BLOCK)
stored = Table(
    rpc_manager,
    on=store_answer,
    when=answered.is_set & (_stale | ~prefetched.is_set),
    doc="The channel's thread waits where the queue of one block is full. It asks again after "
    "BROKER_ID_NOT_REGISTERED as well, which controllers of ZooKeeper's time alone answer; these "
    "aren't here. A failure that is kept stands for any: UNKNOWN_SERVER_ERROR, be it what the "
    "controller answered or a block that can't be right.",
    rows=only(
        controller_hands_out_ids & waits,
        Row(
            "ask again",
            when=_stale & _is_free,
            set={answered: None, **_asked},
            send=(_ask(connection, broker_epoch),),
            source=_HANDLE,
        ),
        Row("asked already", when=_stale, set={answered: None}, source=_HANDLE),
        *_refusals(_error, answered.value.block, {answered: None, prefetched: _failure}),
        Row("prefetch", set={answered: None, prefetched: answered}, source=_HANDLE),
    ),
)

_next = connection + 1
lost_connection = Table(
    rpc_manager,
    on=connection_loss,
    when=(outstanding > 0) & ~answered.is_set,
    rows=only(
        controller_hands_out_ids,
        Row(
            "send again",
            set={connection: _next},
            send=(_ask(_next, broker_epoch),),
            source=f"{_CHANNEL}.handleResponse",
        ),
    ),
)

timed_out = Table(
    rpc_manager,
    on=channel_timeout,
    when=(outstanding > 0) & ~answered.is_set,
    rows=only(
        controller_hands_out_ids,
        Row(
            "ask again",
            when=~prefetched.is_set,
            during=waits,
            set={connection: _next},
            send=(_ask(_next, broker_epoch),),
            source=f"{_MANAGER}.handleTimeout",
        ),
        Row(
            "give up",
            set={connection: _next, backoff_deadline: NO_TIMESTAMP, **_completed},
            source=f"{_MANAGER}.handleTimeout",
        ),
    ),
)

registered_again = Table(
    rpc_manager,
    on=register_again,
    others=(controller,),
    when=outstanding > 0,
    rows=only(
        controller_hands_out_ids,
        Row(
            "new epoch",
            set={broker_epoch: broker_epoch + 1, registered[me]: broker_epoch + 1},
            source="BrokerLifecycleManager",
        ),
    ),
)

crashed = Table(
    rpc_manager,
    on=crash,
    others=(controller,),
    rows=only(
        controller_hands_out_ids,
        Row(
            "forget everything",
            set={
                connection: _next,
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
