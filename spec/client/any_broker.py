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


_client, _error = answer_init.client, answer_init.error
init_answered = Table(
    broker,
    on=answer_init,
    elsewhere=(producer,),
    when=_is_asked(_client, Request.INIT_PRODUCER_ID, _error),
    rows=(
        Row(
            "answer",
            set={answered.at(_client): True},
            send=(
                InitProducerIdResponse(
                    producer=_client,
                    connection=connection.at(_client),
                    error=_error,
                    producer_id=0,
                    producer_epoch=if_(_error == Errors.NONE, _FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
    ),
)

_client, _error = answer_partitions.client, answer_partitions.error
partitions_answered = Table(
    broker,
    on=answer_partitions,
    elsewhere=(producer,),
    when=_is_asked(_client, Request.ADD_PARTITIONS_TO_TXN, _error)
    & answer_partitions.asked.is_in(adding.at(_client)),
    rows=(
        Row(
            "answer",
            set={answered.at(_client): True},
            send=(
                AddPartitionsToTxnResponse(
                    producer=_client,
                    partition=answer_partitions.asked,
                    connection=connection.at(_client),
                    error=_error,
                ),
            ),
        ),
    ),
)

_client, _error = answer_end.client, answer_end.error
end_answered = Table(
    broker,
    on=answer_end,
    elsewhere=(producer,),
    when=_is_asked(_client, Request.END_TXN, _error)
    & (~answer_end.bumps | (_error == Errors.NONE)),
    rows=(
        Row(
            "answer",
            set={answered.at(_client): True},
            send=(
                EndTxnResponse(
                    producer=_client,
                    connection=connection.at(_client),
                    error=_error,
                    producer_id=0,
                    producer_epoch=if_(answer_end.bumps, _FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
    ),
)

TABLES = (init_answered, partitions_answered, end_answered)
