"""Brokers that answer a client's requests in any way, for a system of its calls."""

from __future__ import annotations

from ...language import Bool, Event, Expression, Machine, Message, Row, Table, event, if_, some
from ...language.expressions import Operand
from ..errors import Errors, is_retriable
from ..messages import (
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    connection,
    producer,
)
from .queue import Request, answered, current, is_answer
from .transaction_manager import request_in_flight

broker = Machine("broker", doc="A broker that answers with any error.")
_FIRST_EPOCH = 0

answer_init = event("answer InitProducerId", client=PRODUCER, error=Errors)
answer_partitions = event(
    "answer AddPartitionsToTxn", client=PRODUCER, asked=PARTITION, error=Errors
)
answer_end = event(
    "answer EndTxn", client=PRODUCER, error=Errors, bumps=Bool(),
    event_doc="`bumps`: with a new epoch, as from version 2 of transactions on.",
)  # fmt: skip


def passes(error: Expression) -> Expression:
    """Whether a broker has no such error for ever: it is retriable, or its transaction ends."""
    return is_retriable(error) | (error == Errors.CONCURRENT_TRANSACTIONS)


def _is_asked(client: Expression, request: Expression, error: Expression) -> Expression:
    is_sent = request_in_flight.at(client) & ~answered.at(client)
    return (current.at(client) == some(request)) & is_sent & is_answer(error)


def _answered(
    on: Event,
    request: Expression,
    response: Message,
    when: Expression | None = None,
    **fields: Operand,
) -> Table:
    """The answer to a request in flight, with any error that a client distinguishes."""
    client, error = on.client, on.error
    asked = _is_asked(client, request, error)
    is_answered: dict[Expression, Operand] = {answered.at(client): True}
    sent = (response(producer=client, connection=connection.at(client), error=error, **fields),)
    return Table(
        broker,
        on=on,
        others=(producer,),
        when=asked if when is None else asked & when,
        rows=(
            Row("answer for now", when=passes(error), set=is_answered, send=sent),
            Row("refuse", when=error != Errors.NONE, set=is_answered, send=sent),
            Row("answer", set=is_answered, send=sent),
        ),
    )


init_answered = _answered(
    answer_init,
    Request.INIT_PRODUCER_ID,
    InitProducerIdResponse,
    producer_id=0,
    producer_epoch=if_(answer_init.error == Errors.NONE, _FIRST_EPOCH, NO_EPOCH),
)
partitions_answered = _answered(
    answer_partitions,
    Request.ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnResponse,
    partition=answer_partitions.asked,
)
end_answered = _answered(
    answer_end,
    Request.END_TXN,
    EndTxnResponse,
    ~answer_end.bumps | (answer_end.error == Errors.NONE),
    producer_id=0,
    producer_epoch=if_(answer_end.bumps, _FIRST_EPOCH, NO_EPOCH),
)

TABLES = (init_answered, partitions_answered, end_answered)
