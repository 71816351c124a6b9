"""Brokers that answer a client's requests in any way, for a system of its calls."""

from __future__ import annotations

from ...language import Bool, Expression, Machine, Row, Table, event, if_, some
from ..errors import Errors
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
from .state import adding
from .transaction_manager import request_in_flight

broker = Machine("broker", doc="Whoever answers, with any error.")
_FIRST_EPOCH = 0

answer_init = event("answer InitProducerId", client=PRODUCER, error=Errors)
answer_partitions = event(
    "answer AddPartitionsToTxn", client=PRODUCER, asked=PARTITION, error=Errors
)
answer_end = event(
    "answer EndTxn", client=PRODUCER, error=Errors, bumps=Bool(),
    event_doc="`bumps`: with a new epoch, as from version 2 of transactions on.",
)  # fmt: skip


def _is_asked(client: Expression, request: Expression, error: Expression) -> Expression:
    is_sent = request_in_flight.at(client) & ~answered.at(client)
    return (current.at(client) == some(request)) & is_sent & is_answer(error)


init_answered = Table(
    broker,
    on=answer_init,
    elsewhere=(producer,),
    when=_is_asked(answer_init.client, Request.INIT_PRODUCER_ID, answer_init.error),
    rows=(
        Row(
            "answer",
            set={answered.at(answer_init.client): True},
            send=(
                InitProducerIdResponse(
                    producer=answer_init.client,
                    connection=connection.at(answer_init.client),
                    error=answer_init.error,
                    producer_id=0,
                    producer_epoch=if_(answer_init.error == Errors.NONE, _FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
    ),
)

partitions_answered = Table(
    broker,
    on=answer_partitions,
    elsewhere=(producer,),
    when=_is_asked(answer_partitions.client, Request.ADD_PARTITIONS_TO_TXN, answer_partitions.error)
    & answer_partitions.asked.is_in(adding.at(answer_partitions.client)),
    rows=(
        Row(
            "answer",
            set={answered.at(answer_partitions.client): True},
            send=(
                AddPartitionsToTxnResponse(
                    producer=answer_partitions.client,
                    partition=answer_partitions.asked,
                    connection=connection.at(answer_partitions.client),
                    error=answer_partitions.error,
                ),
            ),
        ),
    ),
)

end_answered = Table(
    broker,
    on=answer_end,
    elsewhere=(producer,),
    when=_is_asked(answer_end.client, Request.END_TXN, answer_end.error)
    & (~answer_end.bumps | (answer_end.error == Errors.NONE)),
    rows=(
        Row(
            "answer",
            set={answered.at(answer_end.client): True},
            send=(
                EndTxnResponse(
                    producer=answer_end.client,
                    connection=connection.at(answer_end.client),
                    error=answer_end.error,
                    producer_id=0,
                    producer_epoch=if_(answer_end.bumps, _FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
    ),
)

TABLES = (init_answered, partitions_answered, end_answered)
