"""Producer ids from ZooKeeper, until 2.7: brokers take blocks by compare-and-set on one node.

Reading the node is one step, because a read changes nothing. A write is a message. A write may have
been applied although its response was lost. After a crash of the broker, or the end of its session,
a write in flight may still be applied; ZooKeeper is stricter once the broker is back.
"""

from __future__ import annotations

from ...language import (
    Int,
    Machine,
    Row,
    Set,
    Table,
    append,
    enum,
    event,
    if_,
    message,
    set_of,
)
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
    handed_out,
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
    "zk_manager",
    BROKER,
    doc="A broker's ProducerIdManager. A call that needs a new block waits for it, and all others "
    "wait behind its lock.",
)
state = zk_manager.state_field("state", State)
connection = zk_manager.field("connection", CONNECTION, doc="To ZooKeeper; the open one.")
current_block = zk_manager.field(
    "current_block", PRODUCER_ID, NO_PRODUCER_ID, doc="currentProducerIdBlock, by its first id."
)
next_producer_id = zk_manager.field(
    "next_producer_id",
    PRODUCER_ID,
    NO_PRODUCER_ID,
    doc="nextProducerId; -1 until the manager has been constructed.",
)
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
is_constructed = next_producer_id != NO_PRODUCER_ID

# Handing out ------------------------------------------------------------------------------------

started = Table(
    zk_manager,
    on=start,
    when=state == OFFLINE,
    during=~controller_hands_out_ids,
    rows=(
        Row(
            "construct",
            "The broker constructs its manager, which takes the first block",
            goto=READING,
            source="ProducerIdManager.getNewProducerIdBlock",
        ),
    ),
)

generated = Table(
    zk_manager,
    on=generate,
    others=(callers,),
    response=HandedOut,
    when=state == READY,
    during=~controller_hands_out_ids,
    rows=(
        Row(
            "new-block",
            "All ids of the block are handed out, and the call takes a new one",
            when=next_producer_id > last_of(current_block),
            goto=READING,
            source="ProducerIdManager.generateProducerId",
        ),
        Row(
            "id",
            "The call hands out the block's next id",
            set={
                next_producer_id: next_producer_id + 1,
                handed_out.at(me): append(handed_out.at(me), next_producer_id),
            },
            reply=HandedOut(broker=me, producer_id=next_producer_id),
            source="ProducerIdManager.generateProducerId",
        ),
    ),
)

# Compare-and-set --------------------------------------------------------------------------------

is_exhausted = (state == READING) & (block_end > LARGEST_PRODUCER_ID - BLOCK_SIZE)
is_own_block = me.is_in(block_broker) & (block_end == last_of(proposed_block))
was_read = Table(
    zk_manager,
    on=read,
    others=(zookeeper, callers),
    response=HandedOut,
    when=(state == READING) | (state == CHECKING),
    during=~controller_hands_out_ids,
    rows=(
        Row(
            "exhausted-at-start",
            "All producer ids are allocated, and the broker doesn't start",
            when=is_exhausted & ~is_constructed,
            goto=OFFLINE,
            set={
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
                connection: connection,
                current_block: NO_PRODUCER_ID,
            },
            source="ProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "exhausted",
            "All producer ids are allocated, and the call fails with UNKNOWN_SERVER_ERROR",
            when=is_exhausted,
            goto=READY,
            set={
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
                connection: connection,
            },
            source="ProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "propose",
            "The manager tries to write the next block",
            when=state == READING,
            goto=WRITING,
            set={
                proposed_block: block_end + 1,
                expected_version: version,
                current_block: if_(block_current_once_written, current_block, block_end + 1),
            },
            send=(
                SetData(
                    broker=me,
                    connection=connection,
                    block_end=last_of(block_end + 1),
                    version=version,
                ),
            ),
            source="ProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "first-block-acquired",
            "The manager is constructed with its first block",
            when=is_own_block & ~is_constructed,
            goto=READY,
            set={
                current_block: proposed_block,
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
                next_producer_id: proposed_block,
            },
            source="ProducerIdManager.checkProducerIdBlockZkData",
        ),
        Row(
            "block-acquired",
            "The call has its block, and hands out the first id",
            when=is_own_block,
            goto=READY,
            set={
                current_block: proposed_block,
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
                next_producer_id: proposed_block + 1,
                handed_out.at(me): append(handed_out.at(me), proposed_block),
            },
            reply=HandedOut(broker=me, producer_id=proposed_block),
            source="ProducerIdManager.checkProducerIdBlockZkData",
        ),
        Row(
            "other-block",
            "Another broker has taken the block, and the manager reads again",
            goto=READING,
            source="ProducerIdManager.getNewProducerIdBlock",
        ),
    ),
)

write = Table(
    zookeeper,
    on=SetData,
    others=(zk_manager,),
    during=~controller_hands_out_ids,
    rows=(
        Row(
            "bad-version",
            "Another broker has written the node",
            when=SetData.version != version,
            reply=answer_on(
                connection.at(SetData.broker),
                SetDataResponse,
                SetData.connection,
                code=Code.BADVERSION,
            ),
            source="PrepRequestProcessor.checkAndIncVersion (of ZooKeeper)",
        ),
        Row(
            "write",
            "The node is written",
            set={
                block_end: SetData.block_end,
                block_broker: set_of(SetData.broker),
                version: version + 1,
            },
            reply=answer_on(
                connection.at(SetData.broker), SetDataResponse, SetData.connection, code=Code.OK
            ),
            source="DataTree.setData (of ZooKeeper)",
        ),
    ),
)

written = Table(
    zk_manager,
    on=SetDataResponse,
    others=(callers,),
    response=HandedOut,
    during=~controller_hands_out_ids,
    rows=(
        Row(
            "closed-connection",
            "The response is on a closed connection, and reaches nobody",
            when=SetDataResponse.connection != connection,
            source="KafkaZkClient.retryRequestsUntilConnected",
        ),
        Row(
            "check",
            "The version was another one: the manager checks whether its own write changed it",
            when=SetDataResponse.code == Code.BADVERSION,
            goto=CHECKING,
            source="KafkaZkClient.conditionalUpdatePath",
        ),
        Row(
            "first-block-acquired",
            "The manager is constructed with its first block",
            when=(SetDataResponse.code == Code.OK) & ~is_constructed,
            goto=READY,
            set={
                current_block: proposed_block,
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
                next_producer_id: proposed_block,
            },
            source="ProducerIdManager.getNewProducerIdBlock",
        ),
        Row(
            "block-acquired",
            "The call has its block, and hands out the first id",
            when=(SetDataResponse.code == Code.OK),
            goto=READY,
            set={
                current_block: proposed_block,
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
                next_producer_id: proposed_block + 1,
                handed_out.at(me): append(handed_out.at(me), proposed_block),
            },
            reply=HandedOut(broker=me, producer_id=proposed_block),
            source="ProducerIdManager.getNewProducerIdBlock",
        ),
    ),
)

# Faults -----------------------------------------------------------------------------------------

lost_connection = Table(
    zk_manager,
    on=connection_loss,
    when=state == WRITING,
    during=~controller_hands_out_ids,
    rows=(
        Row(
            "retry",
            "The write is sent again",
            set={connection: connection + 1},
            send=(
                SetData(
                    broker=me,
                    connection=connection + 1,
                    block_end=last_of(proposed_block),
                    version=expected_version,
                ),
            ),
            source="KafkaZkClient.retryRequestsUntilConnected",
        ),
    ),
)

expired_session = Table(
    zk_manager,
    on=session_expires,
    when=state.is_in(READING, WRITING, CHECKING),
    during=~controller_hands_out_ids,
    rows=(
        Row(
            "check-fails",
            "The check of the manager's own write fails, and it reads again",
            when=state == CHECKING,
            goto=READING,
            set={connection: connection + 1},
            source="ProducerIdManager.checkProducerIdBlockZkData",
        ),
        Row(
            "failure-at-start",
            "The broker doesn't start",
            when=state.is_in(READING, WRITING) & ~is_constructed,
            goto=OFFLINE,
            set={
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
                connection: connection + 1,
                current_block: NO_PRODUCER_ID,
            },
            source="KafkaZkClient.conditionalUpdatePath",
        ),
        Row(
            "failure",
            "The call fails with UNKNOWN_SERVER_ERROR",
            when=state.is_in(READING, WRITING),
            goto=READY,
            set={
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
                connection: connection + 1,
            },
            source="KafkaZkClient.conditionalUpdatePath",
        ),
    ),
)

crashed = Table(
    zk_manager,
    on=crash,
    when=state != OFFLINE,
    during=~controller_hands_out_ids,
    rows=(
        Row(
            "stop",
            "The broker stops, and forgets its block",
            goto=OFFLINE,
            set={
                connection: connection + 1,
                current_block: NO_PRODUCER_ID,
                next_producer_id: NO_PRODUCER_ID,
                proposed_block: NO_PRODUCER_ID,
                expected_version: 0,
            },
            source="ProducerIdManager.shutdown",
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
