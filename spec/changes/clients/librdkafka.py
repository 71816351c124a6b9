"""librdkafka's client, with the rules that it had of its own."""

from __future__ import annotations

from ....language import (
    Change,
    Row,
    Table,
    each,
    event,
    feature,
    if_,
    lost,
    replace,
    set_of,
    some,
    those,
)
from ...answers import awaits
from ...client.batches.accumulator import muted
from ...client.batches.sender import (
    completed_batch,
    has_attempts_left,
    is_out_of_order,
    is_unknown_producer_id,
)
from ...client.state import (
    ABORTING,
    COMMITTING,
    FAILED,
    FATAL_ERROR,
    IN_TRANSACTION,
    INITIALIZING,
    NO_ID,
    NO_SEQUENCE,
    UNSENT,
    batches,
    bump_for,
    can_only_close,
    ending,
    entry_epoch,
    entry_id,
    has_tracked,
    is_open,
    last_acked,
    last_acked_offset,
    next_sequence,
    producer_epoch,
    producer_id,
    q,
    s,
    state,
    txn,
    unresolved,
)
from ...client.transactions.transaction_manager import CallResult, call_result, last_error
from ...errors import Errors
from ...messages import (
    NO_EPOCH,
    NO_OFFSET,
    PARTITION,
    EndTxn,
    EndTxnResponse,
    InitProducerId,
    InitProducerIdResponse,
    ProduceResponse,
    connection,
    producer,
)
from ...releases.features import client_epoch_bump
from ..rules import rule

bumps_after_abort = rule(
    "bumps_after_abort",
    "A client that has lost the order of its sequences aborts before it asks for a new epoch. "
    "Before, it asked at once, and continued its transaction.",
    "confluentinc/librdkafka issue 3575, 1.8.2 and 1.6.2",
)
counts_across_metadata = rule(
    "counts_across_metadata",
    "The sequences of a partition go on after metadata lacked it for a moment. Before, they "
    "started again at 0 under the same epoch.",
    "confluentinc/librdkafka 1.9.0, release notes",
)

bumps_own_partition = rule(
    "bumps_own_partition",
    "A refusal in one partition starts the sequences of that one again. Before, those of all "
    "partitions, with batches that wait for their answers.",
    "confluentinc/librdkafka issue 4953",
)
unknown_end_fatal = feature(
    "unknown_end_fatal",
    None,
    sentence="An EndTxn whose connection breaks, or that times out, isn't sent again: the client "
    "can only be closed, and the next instance gets a new epoch. Proposed for clients of "
    "transaction version 1.",
    source="docs/clients.md, Answers to maintainers",
)

is_awaited = awaits(
    ProduceResponse.producer,
    ProduceResponse.partition,
    ProduceResponse.record,
    ProduceResponse.txn,
)
order_is_lost = ProduceResponse.error.is_in(
    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, Errors.UNKNOWN_PRODUCER_ID
)
batch = batches[q][s]

transactional = (
    Change(
        "librdkafka",
        "Clients are librdkafka's.",
        features=(bumps_after_abort, unknown_end_fatal),
    )
    .table("producer.ProduceResponse")
    .before(
        "not-awaited",
        Row(
            "epoch-in-mid-transaction",
            "The order is lost: a new epoch is asked for in mid-transaction",
            when=is_awaited & order_is_lost & (state == IN_TRANSACTION),
            during=~bumps_after_abort,
            goto=INITIALIZING,
            set={batches: each(q, s, if_(is_open(batch), replace(batch, status=UNSENT), batch))},
            send=(
                InitProducerId(
                    producer=producer.this,
                    connection=connection,
                    expected_id=producer_id,
                    expected_epoch=producer_epoch,
                ),
            ),
            source="confluentinc/librdkafka issue 3575, 1.8.2 and 1.6.2",
        ),
    )
    .table("producer.InitProducerIdResponse")
    .before(
        "closed-connection",
        Row(
            "initialized-in-mid-transaction",
            "The new epoch is taken in mid-transaction",
            when=(InitProducerIdResponse.connection == connection)
            & (InitProducerIdResponse.error == Errors.NONE)
            & (state == INITIALIZING)
            & txn.is_set,
            during=~bumps_after_abort,
            goto=IN_TRANSACTION,
            set={
                producer_id: InitProducerIdResponse.producer_id,
                producer_epoch: InitProducerIdResponse.producer_epoch,
                next_sequence: each(q, 0),
                last_acked: each(q, NO_SEQUENCE),
                last_acked_offset: each(q, NO_OFFSET),
                entry_id: each(q, NO_ID),
                entry_epoch: each(q, NO_EPOCH),
                unresolved: each(q, None),
            },
            source="confluentinc/librdkafka issue 3575, 1.8.2 and 1.6.2",
        ),
    )
    .table("producer.request overtaken")
    .before(
        "end-again",
        Row(
            "unknown-end-fatal",
            "EndTxn has timed out: the client can only be closed",
            when=state.is_in(COMMITTING, ABORTING) & ~ending & ~can_only_close,
            during=unknown_end_fatal,
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                connection: connection + 1,
                last_error: some(Errors.KAFKA_EXCEPTION),
                call_result: CallResult.FAILED,
            },
            source="unknown_end_fatal",
        ),
    )
    .table(f"producer.{lost(EndTxn).name}")
    .before(
        "sent-again",
        Row(
            "unknown-end-fatal",
            "The connection breaks at EndTxn: the client can only be closed",
            during=unknown_end_fatal,
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                connection: connection + 1,
                last_error: some(Errors.KAFKA_EXCEPTION),
                call_result: CallResult.FAILED,
            },
            source="unknown_end_fatal",
        ),
    )
    .table(f"producer.{lost(EndTxnResponse).name}")
    .before(
        "sent-again",
        Row(
            "unknown-end-fatal",
            "The connection breaks before the answer to EndTxn: the client can only be closed",
            during=unknown_end_fatal,
            goto=FATAL_ERROR,
            set={
                txn: None,
                ending: False,
                connection: connection + 1,
                last_error: some(Errors.KAFKA_EXCEPTION),
                call_result: CallResult.FAILED,
            },
            source="unknown_end_fatal",
        ),
    )
)

unknown_topic = event(
    "topic missing in metadata",
    partition=PARTITION,
    event_doc="A broker that starts says so; the topic is there again at once.",
)

idempotent = (
    Change(
        "librdkafka",
        "The client is librdkafka's.",
        features=(counts_across_metadata, bumps_own_partition),
        budgets={unknown_topic: 1},
        tables=(
            Table(
                producer,
                on=unknown_topic,
                when=(producer_epoch != NO_EPOCH) & ~has_tracked(unknown_topic.partition),
                rows=(
                    Row(
                        "sequences-go-on",
                        "The sequences of the partition go on",
                        during=counts_across_metadata,
                        source="confluentinc/librdkafka 1.9.0, release notes",
                    ),
                    Row(
                        "sequences-forgotten",
                        "The sequences of the partition are forgotten",
                        during=~counts_across_metadata,
                        set={
                            next_sequence[unknown_topic.partition]: 0,
                            last_acked[unknown_topic.partition]: NO_SEQUENCE,
                        },
                        source="confluentinc/librdkafka 1.9.0, release notes",
                    ),
                ),
            ),
        ),
    )
    .table("producer.ProduceResponse")
    .before(
        "refused-bumps-epoch",
        Row(
            "refused-bumps-all",
            "The batch fails, and all partitions need a new epoch; none waits for its answers",
            when=is_out_of_order | is_unknown_producer_id | has_attempts_left,
            during=client_epoch_bump & ~bumps_own_partition,
            set={
                batches: each(
                    q,
                    each(
                        s,
                        if_(
                            q != ProduceResponse.partition,
                            replace(batch, unanswered=False),
                            if_(
                                s == ProduceResponse.record,
                                completed_batch(batch, FAILED),
                                batch,
                            ),
                        ),
                    ),
                ),
                bump_for: those(q, True),
                muted: muted - set_of(ProduceResponse.partition),
            },
            source="confluentinc/librdkafka issue 4953",
        ),
    )
)
