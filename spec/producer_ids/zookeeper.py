"""Producer ids from ZooKeeper, until 2.7: brokers take blocks by compare-and-set on one node.

Reading the node is one step: when its request and its answer travel makes no difference, as a
read changes nothing. What writes it travels, and a write whose answer was lost may have been
applied. Of a broker that has crashed, or whose session has ended, a write in flight may still be
applied; ZooKeeper is stricter once the broker is back.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Int,
    Machine,
    Row,
    Sending,
    Set,
    Table,
    enum,
    event,
    if_,
    message,
    only,
    set_of,
)
from ...language.expressions import Operand
from ..messages import answer_on
from ..releases.features import block_current_once_written, controller_hands_out_ids
from .state import (
    BLOCK_SIZE,
    BROKER,
    CONNECTION,
    LARGEST_PRODUCER_ID,
    NO_PRODUCER_ID,
    PRODUCER_ID,
    HandedOut,
    callers,
    connection_loss,
    crash,
    hand_out,
    last_of,
)

VERSION = Int(0, LARGEST_PRODUCER_ID + 1, "version")
Code = enum("Code", OK=0, BADVERSION=-103)

zookeeper = Machine("zookeeper", doc="The node /latest_producer_id_block.")
block_end = zookeeper.field(
    "block_end", PRODUCER_ID, NO_PRODUCER_ID, doc="The last id of the newest block, -1 before any."
)
block_broker = zookeeper.field("block_broker", Set(BROKER), doc="Who has taken that block.")
version = zookeeper.field("version", VERSION, doc="The number of writes of the node.")

State = enum("State", "OFFLINE", "READY", "READING", "WRITING", "CHECKING")
OFFLINE, READY = State.OFFLINE, State.READY
READING, WRITING, CHECKING = State.READING, State.WRITING, State.CHECKING

zk_manager = Machine(
    "zk_manager", BROKER,
    doc="A broker's ProducerIdManager. A call that needs a new block waits for it, and all others "
    "wait behind its lock.",
)  # fmt: skip
state = zk_manager.state_field("state", State)
connection = zk_manager.field("connection", CONNECTION, doc="To ZooKeeper; the open one.")
current_block = zk_manager.field(
    "current_block", PRODUCER_ID, NO_PRODUCER_ID, doc="currentProducerIdBlock, by its first id."
)
next_producer_id = zk_manager.field(
    "next_producer_id", PRODUCER_ID, NO_PRODUCER_ID,
    doc="nextProducerId; -1 until the manager has been constructed.",
)  # fmt: skip
proposed_block = zk_manager.field(
    "proposed_block",
    PRODUCER_ID,
    NO_PRODUCER_ID,
    doc="The block that it tries to write, by its first id.",
)
expected_version = zk_manager.field("expected_version", VERSION, doc="Of the node as it was read.")

SetData = message(
    "SetData", zookeeper, broker=BROKER, connection=CONNECTION, block_end=PRODUCER_ID,
    version=VERSION,
)  # fmt: skip
SetDataResponse = message(
    "SetDataResponse", zk_manager, answers=SetData, code=Code, connection=CONNECTION
)

start = event("start")
generate = event("generateProducerId")
read = event("getData")
session_expires = event("session expires")

me = zk_manager.this
_MANAGER = "ProducerIdManager"
_NEW_BLOCK = f"{_MANAGER}.getNewProducerIdBlock"
_constructed = next_producer_id != NO_PRODUCER_ID


def _write(block: Expression, expected: Expression, on: Expression) -> Sending:
    return SetData(broker=me, connection=on, block_end=last_of(block), version=expected)


# Handing out ------------------------------------------------------------------------------------

started = Table(
    zk_manager,
    on=start,
    when=state == OFFLINE,
    rows=only(
        ~controller_hands_out_ids,
        Row("take the first block", goto=READING, source=_MANAGER),
    ),
)

generated = Table(
    zk_manager,
    on=generate,
    others=(callers,),
    response=HandedOut,
    when=state == READY,
    rows=only(
        ~controller_hands_out_ids,
        Row(
            "take a new block",
            when=next_producer_id > last_of(current_block),
            goto=READING,
            source=f"{_MANAGER}.generateProducerId",
        ),
        Row(
            "next id of the block",
            set={next_producer_id: next_producer_id + 1, **hand_out(me, next_producer_id)},
            reply=HandedOut(broker=me, producer_id=next_producer_id),
            source=f"{_MANAGER}.generateProducerId",
        ),
    ),
)

_acquired: dict[Expression, Operand] = {
    current_block: proposed_block,
    proposed_block: NO_PRODUCER_ID,
    expected_version: 0,
}
# What a failed call leaves behind; the proposed block may have become the current one before.
_failed: dict[Expression, Operand] = {proposed_block: NO_PRODUCER_ID, expected_version: 0}


def _acquire(when: Expression, source: str) -> tuple[Row, ...]:
    """The block was written: for the constructor, or for a call, which takes its first id."""
    return (
        Row(
            "first block is taken",
            when=when & ~_constructed,
            goto=READY,
            set={**_acquired, next_producer_id: proposed_block},
            source=source,
        ),
        Row(
            "block is taken",
            when=when,
            goto=READY,
            set={
                **_acquired,
                next_producer_id: proposed_block + 1,
                **hand_out(me, proposed_block),
            },
            reply=HandedOut(broker=me, producer_id=proposed_block),
            source=source,
        ),
    )


def _fail(name: str, when: Expression, on: Expression, source: str) -> tuple[Row, ...]:
    """An exception: the broker doesn't start, or the call fails. It goes on on connection `on`."""
    left = {**_failed, connection: on}
    return (
        Row(
            f"{name}, at start",
            when=when & ~_constructed,
            goto=OFFLINE,
            set={**left, current_block: NO_PRODUCER_ID},
            source=source,
        ),
        Row(name, when=when, goto=READY, set=left, source=source, note="UNKNOWN_SERVER_ERROR"),
    )


# Compare-and-set --------------------------------------------------------------------------------

_reading, _checking = state == READING, state == CHECKING
was_read = Table(
    zk_manager,
    on=read,
    others=(zookeeper, callers),
    response=HandedOut,
    when=_reading | _checking,
    rows=only(
        ~controller_hands_out_ids,
        *_fail(
            "exhausted",
            _reading & (block_end > LARGEST_PRODUCER_ID - BLOCK_SIZE),
            connection,
            _NEW_BLOCK,
        ),
        Row(
            "propose the next block",
            when=_reading,
            goto=WRITING,
            set={
                proposed_block: block_end + 1,
                expected_version: version,
                current_block: if_(block_current_once_written, current_block, block_end + 1),
            },
            send=(_write(block_end + 1, version, connection),),
            source=_NEW_BLOCK,
        ),
        *_acquire(
            me.is_in(block_broker) & (block_end == last_of(proposed_block)),
            f"{_MANAGER}.checkProducerIdBlockZkData",
        ),
        Row("another broker's block", goto=READING, source=_NEW_BLOCK),
    ),
)


def _answer(code: Expression) -> Sending:
    return answer_on(connection.at(SetData.broker), SetDataResponse, SetData.connection, code=code)


write = Table(
    zookeeper,
    on=SetData,
    others=(zk_manager,),
    rows=only(
        ~controller_hands_out_ids,
        Row(
            "written by another",
            when=SetData.version != version,
            reply=_answer(Code.BADVERSION),
            source="ZooKeeper, setData",
        ),
        Row(
            "write",
            set={
                block_end: SetData.block_end,
                block_broker: set_of(SetData.broker),
                version: version + 1,
            },
            reply=_answer(Code.OK),
            source="ZooKeeper, setData",
        ),
    ),
)

_CONDITIONAL = "KafkaZkClient.conditionalUpdatePath"
written = Table(
    zk_manager,
    on=SetDataResponse,
    others=(callers,),
    response=HandedOut,
    rows=only(
        ~controller_hands_out_ids,
        Row("on a closed connection", when=SetDataResponse.connection != connection),
        Row(
            "compare with its own write",
            when=SetDataResponse.code == Code.BADVERSION,
            goto=CHECKING,
            source=_CONDITIONAL,
        ),
        *_acquire(SetDataResponse.code == Code.OK, _NEW_BLOCK),
    ),
)

# What goes wrong --------------------------------------------------------------------------------

_next = connection + 1
lost_connection = Table(
    zk_manager,
    on=connection_loss,
    when=state == WRITING,
    rows=only(
        ~controller_hands_out_ids,
        Row(
            "write again",
            set={connection: _next},
            send=(_write(proposed_block, expected_version, _next),),
            source="KafkaZkClient.retryRequestsUntilConnected",
        ),
    ),
)

expired_session = Table(
    zk_manager,
    on=session_expires,
    when=state.is_in(READING, WRITING, CHECKING),
    rows=only(
        ~controller_hands_out_ids,
        Row(
            "read again",
            when=state == CHECKING,
            goto=READING,
            set={connection: _next},
            source=f"{_MANAGER}.checkProducerIdBlockZkData",
        ),
        *_fail("the call fails", state.is_in(READING, WRITING), _next, _CONDITIONAL),
    ),
)

crashed = Table(
    zk_manager,
    on=crash,
    when=state != OFFLINE,
    rows=only(
        ~controller_hands_out_ids,
        Row(
            "forget everything",
            goto=OFFLINE,
            set={
                connection: _next,
                current_block: NO_PRODUCER_ID,
                next_producer_id: NO_PRODUCER_ID,
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
            },
        ),
    ),
)

FAULTY_EVENTS = (session_expires,)
NODE_TABLES = (write,)
MANAGER_TABLES = (
    started,
    generated,
    was_read,
    written,
    lost_connection,
    expired_session,
    crashed,
)
TABLES = MANAGER_TABLES + NODE_TABLES
