"""librdkafka's client, where its rules were its own."""

from __future__ import annotations

from ...language import Row, Table, each, event, if_, replace
from ...language.variants import Variant
from ..answers import awaits
from ..client.init_producer_id import init
from ..client.state import (
    IN_TRANSACTION,
    INITIALIZING,
    NEW_SEQUENCES,
    NO_SEQUENCE,
    UNSENT,
    batches,
    has_tracked,
    is_open,
    last_acked,
    next_sequence,
    producer_epoch,
    producer_id,
    q,
    s,
    state,
    txn,
)
from ..client.transaction_manager import ClientStep, Reaction, react
from ..errors import Errors
from ..messages import (
    NO_EPOCH,
    PARTITION,
    InitProducerIdResponse,
    ProduceResponse,
    connection,
    producer,
)
from .rules import rule

bumps_after_abort = rule(
    "bumps_after_abort",
    "A client that has lost the order of its sequences aborts before it asks for a new epoch; "
    "before, it asked at once, and went on with its transaction.",
    "confluentinc/librdkafka issue 3575, 1.8.2 and 1.6.2",
)
counts_across_metadata = rule(
    "counts_across_metadata",
    "A partition's sequences go on after metadata didn't have it for a moment; before, they began "
    "again at 0 under the same epoch.",
    "confluentinc/librdkafka 1.9.0, release notes",
)

_where, _which = ProduceResponse.partition, ProduceResponse.record
_is_awaited = awaits(ProduceResponse.producer, _where, _which, ProduceResponse.txn)
_lost_order = ProduceResponse.error.is_in(
    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, Errors.UNKNOWN_PRODUCER_ID
)
_batch = batches[q][s]

transactional = Variant(
    "librdkafka",
    "Clients are librdkafka's.",
    (
        Table(
            producer,
            on=ProduceResponse,
            response=Reaction,
            rows=(
                Row(
                    "order lost: a new epoch in mid-transaction",
                    when=_is_awaited & _lost_order & (state == IN_TRANSACTION),
                    during=~bumps_after_abort,
                    goto=INITIALIZING,
                    set={
                        batches: each(
                            q,
                            each(s, if_(is_open(_batch), replace(_batch, status=UNSENT), _batch)),
                        )
                    },
                    reply=react(ClientStep.RETRY),
                    send=(init(connection),),
                    source=bumps_after_abort.data.source,
                ),
            ),
        ),
        Table(
            producer,
            on=InitProducerIdResponse,
            response=Reaction,
            rows=(
                Row(
                    "initialized in mid-transaction",
                    when=(InitProducerIdResponse.connection == connection)
                    & (InitProducerIdResponse.error == Errors.NONE)
                    & (state == INITIALIZING)
                    & txn.is_set,
                    during=~bumps_after_abort,
                    goto=IN_TRANSACTION,
                    set={
                        producer_id: InitProducerIdResponse.producer_id,
                        producer_epoch: InitProducerIdResponse.producer_epoch,
                        **NEW_SEQUENCES,
                    },
                    reply=react(ClientStep.GO_ON),
                    source=bumps_after_abort.data.source,
                ),
            ),
        ),
    ),
    (bumps_after_abort,),
)

unknown_topic = event(
    "topic missing in metadata", partition=PARTITION,
    event_doc="A broker that starts says so; the topic is there again at once.",
)  # fmt: skip
_flapped = unknown_topic.partition

idempotent = Variant(
    "librdkafka",
    "The client is librdkafka's.",
    (
        Table(
            producer,
            on=unknown_topic,
            when=(producer_epoch != NO_EPOCH) & ~has_tracked(_flapped),
            rows=(
                Row(
                    "the partition's sequences go on",
                    during=counts_across_metadata,
                    source=counts_across_metadata.data.source,
                ),
                Row(
                    "the partition's sequences are forgotten",
                    during=~counts_across_metadata,
                    set={next_sequence[_flapped]: 0, last_acked[_flapped]: NO_SEQUENCE},
                    source=counts_across_metadata.data.source,
                ),
            ),
        ),
    ),
    (counts_across_metadata,),
    {unknown_topic: 1},
)
