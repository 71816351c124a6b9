"""Producer ids from the controller, since 3.0: brokers ask for blocks with AllocateProducerIds.

Both ends of the request are declared here, and what the controller does; what a broker does is in
`rpc_manager`. The controller is KRaft's; brokers of 3.5 that still have ZooKeeper's are not
declared. A bounded run sees the active controller alone, which has replayed what it appends;
`may_replay` is what the others check.
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
    lift,
    message,
    only,
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
    "registered", Map(BROKER, BROKER_EPOCH),
    doc="The epoch of each broker's registration, -1 without one.",
)  # fmt: skip
deferred = controller.field(
    "deferred", Map(BROKER, Optional(Deferred)), doc="Answers that wait for their record's commit."
)

Step = enum("Step", "IDLE", "BLOCK_IS_FULL", "SWITCHING", "SWITCHED", "REQUESTING", "WAITING")

rpc_manager = Machine(
    "rpc_manager", BROKER,
    doc="A broker's RPCProducerIdManager, with the threads that call it, its channel to the "
    "controller and the channel's thread. From 3.6 on the calls of several threads overlap.",
)  # fmt: skip
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
    "AllocateProducerIds", controller, broker=BROKER, connection=CONNECTION,
    broker_epoch=BROKER_EPOCH,
)  # fmt: skip
AllocateProducerIdsResponse = message(
    "AllocateProducerIdsResponse", rpc_manager, answers=AllocateProducerIds, error=Errors,
    connection=CONNECTION, producer_id_start=PRODUCER_ID, producer_id_len=LENGTH,
)  # fmt: skip

commit = event("commit")
fail_over = event(
    "fail over", kept=Bool(), event_doc="`kept`: the new active controller has what the old one "
    "appended and hadn't committed.",
)  # fmt: skip

b = BROKER.variable("b")
_request = AllocateProducerIds


def _open(broker: Expression, asked_on: Expression) -> Expression:
    return connection.at(broker) == asked_on


def _refuse(error: Expression) -> Sending:
    return answer_on(
        connection.at(_request.broker), AllocateProducerIdsResponse, _request.connection,
        error=error, producer_id_start=NO_PRODUCER_ID, producer_id_len=0,
    )  # fmt: skip


def _complete(when: Expression, error: Expression, first: Expression) -> Sending:
    """Deferred answers, to those brokers `b` for which `when` holds and that still wait."""
    waiting = deferred[b].value
    response = AllocateProducerIdsResponse(
        broker=b, error=error, connection=waiting.connection, producer_id_start=first,
        producer_id_len=if_(LONGEST_BLOCK == 0, 0, BLOCK_SIZE),
    )  # fmt: skip
    return to_each(b, deferred[b].is_set & when & _open(b, waiting.connection), response)


_CONTROL = "ProducerIdControlManager.generateNextProducerId"
allocated = Table(
    controller,
    on=AllocateProducerIds,
    others=(rpc_manager,),
    rows=only(
        controller_hands_out_ids,
        Row(
            "not the controller",
            when=~is_active,
            reply=_refuse(Errors.NOT_CONTROLLER),
            source="QuorumController.ControllerWriteEvent",
        ),
        Row(
            "stale broker epoch",
            when=(_request.broker_epoch != registered[_request.broker])
            | (_request.broker_epoch < 0),
            reply=_refuse(Errors.STALE_BROKER_EPOCH),
            source="ClusterControlManager.checkBrokerEpoch",
        ),
        Row(
            "exhausted",
            when=next_block > LARGEST_PRODUCER_ID - BLOCK_SIZE,
            reply=_refuse(Errors.UNKNOWN_SERVER_ERROR),
            source=_CONTROL,
        ),
        Row(
            "append a record",
            set={
                next_block: next_block + BLOCK_SIZE,
                deferred[_request.broker]: if_(
                    _open(_request.broker, _request.connection),
                    some(Deferred(connection=_request.connection, producer_id_start=next_block)),
                    deferred[_request.broker],
                ),
            },
            source=_CONTROL,
            note="Answered when the record is committed, where the connection is still open.",
        ),
    ),
)

_is_committed = deferred[b].value.producer_id_start == committed
records_committed = Table(
    controller,
    on=commit,
    others=(rpc_manager,),
    when=committed < next_block,
    rows=only(
        controller_hands_out_ids,
        Row(
            "answer",
            set={
                committed: committed + BLOCK_SIZE,
                deferred: each(b, if_(deferred[b].is_set & _is_committed, None, deferred[b])),
            },
            send=(_complete(_is_committed, Errors.NONE, committed),),
            source="QuorumController, ControllerPurgatory",
        ),
    ),
)


def may_replay(next_producer_id: int, next_block: int) -> bool:
    """Whether a controller takes a record of the active one, where its next block starts at
    `next_block`: blocks only go up.

    ProducerIdControlManager.replay
    """
    return next_producer_id > next_block


_NO_ANSWERS = {deferred: each(b, None)}
_not_controller = (_complete(lift(True), Errors.NOT_CONTROLLER, lift(NO_PRODUCER_ID)),)
failed_over = Table(
    controller,
    on=fail_over,
    others=(rpc_manager,),
    when=committed < next_block,
    doc="A failover with nothing in doubt changes nothing here.",
    rows=only(
        controller_hands_out_ids,
        Row(
            "records survive",
            when=fail_over.kept,
            set={committed: next_block, **_NO_ANSWERS},
            send=_not_controller,
            source="QuorumController.renounce",
        ),
        Row(
            "records are lost",
            set={next_block: committed, **_NO_ANSWERS},
            send=_not_controller,
            source="QuorumController.renounce",
        ),
    ),
)

FAULTY_EVENTS = (fail_over,)
TABLES = (allocated, records_committed, failed_over)
