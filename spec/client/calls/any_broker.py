"""A broker that answers a client's requests with any error, for the system `calls`."""

from __future__ import annotations

from ....language import Bool, Expression, Machine, Row, Table, event, if_, some
from ...errors import Errors, is_retriable
from ...messages import (
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    connection,
    producer,
)
from ..transactions.queue import Request, answered, current
from ..transactions.transaction_manager import request_in_flight

broker = Machine("broker", doc="A broker that answers with any error.")
FIRST_EPOCH = 0

answer_init = event("answer InitProducerId", client=PRODUCER, error=Errors)
answer_partitions = event(
    "answer AddPartitionsToTxn", client=PRODUCER, asked=PARTITION, error=Errors
)
answer_end = event(
    "answer EndTxn",
    client=PRODUCER,
    error=Errors,
    bumps=Bool(),
    event_doc="`bumps`: with a new epoch, as from version 2 of transactions on.",
)


DISTINGUISHED_ERRORS = (
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.CONCURRENT_TRANSACTIONS,
    Errors.INVALID_PRODUCER_EPOCH,
    Errors.PRODUCER_FENCED,
    Errors.INVALID_TXN_STATE,
    Errors.INVALID_PRODUCER_ID_MAPPING,
    Errors.UNKNOWN_PRODUCER_ID,
    Errors.TRANSACTION_ABORTABLE,
    Errors.TOPIC_AUTHORIZATION_FAILED,
    Errors.GROUP_AUTHORIZATION_FAILED,
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Errors.UNKNOWN_MEMBER_ID,
    Errors.UNKNOWN_SERVER_ERROR,
)


def is_distinguished(error: Expression) -> Expression:
    """Whether a system has the error. Every other error has the same effect as one of these."""
    return error.is_in(*DISTINGUISHED_ERRORS)


def is_answer(error: Expression) -> Expression:
    """Whether a system has this in an answer."""
    return (error == Errors.NONE) | is_distinguished(error)


def passes(error: Expression) -> Expression:
    """Whether a broker has no such error for ever: it is retriable, or its transaction ends."""
    return is_retriable(error) | (error == Errors.CONCURRENT_TRANSACTIONS)


def is_request_of(client: Expression, request: Expression) -> Expression:
    """Whether the client's request is in flight."""
    is_sent = request_in_flight.at(client) & ~answered.at(client)
    return (current.at(client) == some(request)) & is_sent


init_answered = Table(
    broker,
    on=answer_init,
    others=(producer,),
    when=is_request_of(answer_init.client, Request.INIT_PRODUCER_ID) & is_answer(answer_init.error),
    source="KafkaApis.handleInitProducerIdRequest",
    rows=(
        Row(
            "answer-for-now",
            "The broker has the error for a time",
            when=passes(answer_init.error),
            set={answered.at(answer_init.client): True},
            send=(
                InitProducerIdResponse(
                    producer=answer_init.client,
                    connection=connection.at(answer_init.client),
                    error=answer_init.error,
                    producer_id=0,
                    producer_epoch=if_(answer_init.error == Errors.NONE, FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
        Row(
            "refuse",
            "The broker refuses",
            when=answer_init.error != Errors.NONE,
            set={answered.at(answer_init.client): True},
            send=(
                InitProducerIdResponse(
                    producer=answer_init.client,
                    connection=connection.at(answer_init.client),
                    error=answer_init.error,
                    producer_id=0,
                    producer_epoch=if_(answer_init.error == Errors.NONE, FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
        Row(
            "answer",
            "The broker does as it is asked",
            set={answered.at(answer_init.client): True},
            send=(
                InitProducerIdResponse(
                    producer=answer_init.client,
                    connection=connection.at(answer_init.client),
                    error=answer_init.error,
                    producer_id=0,
                    producer_epoch=if_(answer_init.error == Errors.NONE, FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
    ),
)

partitions_answered = Table(
    broker,
    on=answer_partitions,
    others=(producer,),
    when=is_request_of(answer_partitions.client, Request.ADD_PARTITIONS_TO_TXN)
    & is_answer(answer_partitions.error),
    source="KafkaApis.handleAddPartitionsToTxnRequest",
    rows=(
        Row(
            "answer-for-now",
            "The broker has the error for a time",
            when=passes(answer_partitions.error),
            set={answered.at(answer_partitions.client): True},
            send=(
                AddPartitionsToTxnResponse(
                    producer=answer_partitions.client,
                    connection=connection.at(answer_partitions.client),
                    error=answer_partitions.error,
                    partition=answer_partitions.asked,
                ),
            ),
        ),
        Row(
            "refuse",
            "The broker refuses",
            when=answer_partitions.error != Errors.NONE,
            set={answered.at(answer_partitions.client): True},
            send=(
                AddPartitionsToTxnResponse(
                    producer=answer_partitions.client,
                    connection=connection.at(answer_partitions.client),
                    error=answer_partitions.error,
                    partition=answer_partitions.asked,
                ),
            ),
        ),
        Row(
            "answer",
            "The broker does as it is asked",
            set={answered.at(answer_partitions.client): True},
            send=(
                AddPartitionsToTxnResponse(
                    producer=answer_partitions.client,
                    connection=connection.at(answer_partitions.client),
                    error=answer_partitions.error,
                    partition=answer_partitions.asked,
                ),
            ),
        ),
    ),
)

end_answered = Table(
    broker,
    on=answer_end,
    others=(producer,),
    when=is_request_of(answer_end.client, Request.END_TXN)
    & is_answer(answer_end.error)
    & (~answer_end.bumps | (answer_end.error == Errors.NONE)),
    source="KafkaApis.handleEndTxnRequest",
    rows=(
        Row(
            "answer-for-now",
            "The broker has the error for a time",
            when=passes(answer_end.error),
            set={answered.at(answer_end.client): True},
            send=(
                EndTxnResponse(
                    producer=answer_end.client,
                    connection=connection.at(answer_end.client),
                    error=answer_end.error,
                    producer_id=0,
                    producer_epoch=if_(answer_end.bumps, FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
        Row(
            "refuse",
            "The broker refuses",
            when=answer_end.error != Errors.NONE,
            set={answered.at(answer_end.client): True},
            send=(
                EndTxnResponse(
                    producer=answer_end.client,
                    connection=connection.at(answer_end.client),
                    error=answer_end.error,
                    producer_id=0,
                    producer_epoch=if_(answer_end.bumps, FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
        Row(
            "answer",
            "The broker does as it is asked",
            set={answered.at(answer_end.client): True},
            send=(
                EndTxnResponse(
                    producer=answer_end.client,
                    connection=connection.at(answer_end.client),
                    error=answer_end.error,
                    producer_id=0,
                    producer_epoch=if_(answer_end.bumps, FIRST_EPOCH, NO_EPOCH),
                ),
            ),
        ),
    ),
)

TABLES = (init_answered, partitions_answered, end_answered)
