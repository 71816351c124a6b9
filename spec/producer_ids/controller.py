"""Producer ids from the controller, since 3.0: brokers ask for blocks with AllocateProducerIds.

This module declares the request with both of its ends, and the controller's tables; `rpc_manager`
has the broker's. The controller is KRaft's; brokers of 3.5 that still have ZooKeeper's are not
declared. A bounded run has only the active controller, which has replayed the records that it
appends. `may_replay` is the check of the other controllers.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Int,
    Machine,
    Map,
    Optional,
    Row,
    Sending,
    Table,
    each,
    enum,
    event,
    if_,
    message,
    record,
    some,
    to_each,
)
from ..messages import NO_NUMBER, TIMESTAMP, answer_on
from ..releases.features import controller_hands_out_ids
from .state import (
    BLOCK_SIZE,
    BROKER,
    CONNECTION,
    FAULTS,
    HANDLER,
    HANDLERS,
    LARGEST_PRODUCER_ID,
    LENGTH,
    LONGEST_BLOCK,
    NO_PRODUCER_ID,
    PRODUCER_ID,
    Block,
    Errors,
)

BROKER_EPOCH = Int(NO_NUMBER, FAULTS, "broker epoch")
Outcome = record("Outcome", error=Errors, block=Block)
Deferred = record("Deferred", connection=CONNECTION, producer_id_start=PRODUCER_ID)

controller = Machine("controller", doc="The controllers' quorum, seen from its active member.")
next_block = controller.field(
    "next_block", PRODUCER_ID, 0, doc="nextProducerBlock, by its first id, as replayed."
)
committed = controller.field(
    "committed", PRODUCER_ID, 0, doc="nextProducerId of the last record that has been committed."
)
is_active = controller.field("is_active", Bool(), True, doc="A bounded run has no others.")
registered = controller.field(
    "registered",
    Map(BROKER, BROKER_EPOCH),
    doc="The epoch of each broker's registration, -1 without one.",
)
deferred = controller.field(
    "deferred", Map(BROKER, Optional(Deferred)), doc="Answers that wait for their record's commit."
)

Step = enum("Step", "IDLE", "BLOCK_IS_FULL", "SWITCHING", "SWITCHED", "REQUESTING", "WAITING")

rpc_manager = Machine(
    "rpc_manager",
    BROKER,
    doc="A broker's RPCProducerIdManager, with the threads that call it, its channel to the "
    "controller and the channel's thread. From 3.6 on the calls of several threads overlap.",
)
connection = rpc_manager.field("connection", CONNECTION, doc="To the controller; the open one.")
broker_epoch = rpc_manager.field("broker_epoch", BROKER_EPOCH, doc="Of its own registration.")
current_block = rpc_manager.field(
    "current_block", Block, doc="currentProducerIdBlock; the first id -1 is that of the empty one."
)
next_producer_id = rpc_manager.field(
    "next_producer_id", PRODUCER_ID, 0, doc="The next id to claim."
)
prefetched = rpc_manager.field(
    "prefetched", Optional(Outcome), doc="nextProducerIdBlock; until 3.5 it may be a failure."
)
request_in_flight = rpc_manager.field(
    "request_in_flight", Bool(), doc="requestInFlight, the flag that admits one request."
)
backoff_deadline = rpc_manager.field(
    "backoff_deadline", TIMESTAMP, doc="backoffDeadlineMs: no request before it, after a failure."
)
outstanding = rpc_manager.field(
    "outstanding", Int(0, HANDLERS + 1), doc="Requests that the channel hasn't completed."
)
answered = rpc_manager.field(
    "answered",
    Optional(Outcome),
    doc="Until 3.5: the block that the channel's thread is about to store.",
)
step = rpc_manager.field("step", Map(HANDLER, Step), doc="Where each thread's call is.")
taken = rpc_manager.field(
    "taken", Map(HANDLER, Block), doc="The block that a thread is about to make current."
)

AllocateProducerIds = message(
    "AllocateProducerIds",
    controller,
    broker=BROKER,
    connection=CONNECTION,
    broker_epoch=BROKER_EPOCH,
)
AllocateProducerIdsResponse = message(
    "AllocateProducerIdsResponse", rpc_manager, answers=AllocateProducerIds, error=Errors,
    connection=CONNECTION, producer_id_start=PRODUCER_ID, producer_id_len=LENGTH,
)  # fmt: skip

commit = event("commit")
fail_over = event(
    "fail over",
    kept=Bool(),
    event_doc="`kept`: the new active controller has what the old one "
    "appended and hadn't committed.",
)

b = BROKER.variable("b")
is_connected = connection.at(AllocateProducerIds.broker) == AllocateProducerIds.connection
is_deferred_answerable = deferred[b].is_set & (connection.at(b) == deferred[b].value.connection)
answers_now = deferred[b].is_set & (deferred[b].value.producer_id_start == committed)
deferred_len = if_(LONGEST_BLOCK == 0, 0, BLOCK_SIZE)
"""The length in a response; a bounded run has one value for all lengths."""


def refused(error: Expression) -> Sending:
    """The response that has an error and no block."""
    return answer_on(
        connection.at(AllocateProducerIds.broker),
        AllocateProducerIdsResponse,
        AllocateProducerIds.connection,
        error=error,
        producer_id_start=NO_PRODUCER_ID,
        producer_id_len=0,
    )


allocated = Table(
    controller,
    on=AllocateProducerIds,
    others=(rpc_manager,),
    during=controller_hands_out_ids,
    rows=(
        Row(
            "not-controller",
            "Another controller is the active one",
            when=~is_active,
            reply=refused(Errors.NOT_CONTROLLER),
            source="QuorumController.ControllerWriteEvent",
        ),
        Row(
            "stale-broker-epoch",
            "The broker has registered again, or isn't registered",
            when=(AllocateProducerIds.broker_epoch != registered[AllocateProducerIds.broker])
            | (AllocateProducerIds.broker_epoch < 0),
            reply=refused(Errors.STALE_BROKER_EPOCH),
            source="ClusterControlManager.checkBrokerEpoch",
        ),
        Row(
            "exhausted",
            "All producer ids are allocated",
            when=next_block > LARGEST_PRODUCER_ID - BLOCK_SIZE,
            reply=refused(Errors.UNKNOWN_SERVER_ERROR),
            source="ProducerIdControlManager.generateNextProducerId",
        ),
        Row(
            "append",
            "The controller appends a record; it answers once the record is committed",
            set={
                next_block: next_block + BLOCK_SIZE,
                deferred[AllocateProducerIds.broker]: if_(
                    is_connected,
                    some(
                        Deferred(
                            connection=AllocateProducerIds.connection, producer_id_start=next_block
                        )
                    ),
                    deferred[AllocateProducerIds.broker],
                ),
            },
            source="ProducerIdControlManager.generateNextProducerId",
        ),
    ),
)

records_committed = Table(
    controller,
    on=commit,
    others=(rpc_manager,),
    when=committed < next_block,
    during=controller_hands_out_ids,
    rows=(
        Row(
            "answer",
            "The record is committed, and the broker gets its block",
            set={
                committed: committed + BLOCK_SIZE,
                deferred: each(b, if_(answers_now, None, deferred[b])),
            },
            send=(
                to_each(
                    b,
                    answers_now & is_deferred_answerable,
                    AllocateProducerIdsResponse(
                        broker=b,
                        error=Errors.NONE,
                        connection=deferred[b].value.connection,
                        producer_id_start=committed,
                        producer_id_len=deferred_len,
                    ),
                ),
            ),
            source="QuorumController.QuorumMetaLogListener.handleCommit, "
            "ControllerPurgatory.completeUpTo",
        ),
    ),
)


def may_replay(next_producer_id: int, next_block: int) -> bool:
    """Whether a controller replays a record of the active one, where its next block starts at
    `next_block`. Blocks only go up.

    ProducerIdControlManager.replay
    """
    return next_producer_id > next_block


failed_over = Table(
    controller,
    on=fail_over,
    others=(rpc_manager,),
    when=committed < next_block,
    doc="A failover without uncommitted records changes nothing here.",
    during=controller_hands_out_ids,
    rows=(
        Row(
            "records-kept",
            "The new active controller has the records, and commits them",
            when=fail_over.kept,
            set={committed: next_block, deferred: each(b, None)},
            send=(
                to_each(
                    b,
                    is_deferred_answerable,
                    AllocateProducerIdsResponse(
                        broker=b,
                        error=Errors.NOT_CONTROLLER,
                        connection=deferred[b].value.connection,
                        producer_id_start=NO_PRODUCER_ID,
                        producer_id_len=deferred_len,
                    ),
                ),
            ),
            source="QuorumController.renounce",
        ),
        Row(
            "records-lost",
            "The new active controller doesn't have the records",
            set={next_block: committed, deferred: each(b, None)},
            send=(
                to_each(
                    b,
                    is_deferred_answerable,
                    AllocateProducerIdsResponse(
                        broker=b,
                        error=Errors.NOT_CONTROLLER,
                        connection=deferred[b].value.connection,
                        producer_id_start=NO_PRODUCER_ID,
                        producer_id_len=deferred_len,
                    ),
                ),
            ),
            source="QuorumController.renounce",
        ),
    ),
)

FAULTY_EVENTS = (fail_over,)
TABLES = (allocated, records_committed, failed_over)
