"""Callbacks of an application, which the client's sending thread runs.

A call in a callback that waits for a batch waits for that thread, which is the caller. A batch
counts as done only after its callbacks.
"""

from __future__ import annotations

from ....language import (
    Bool,
    Change,
    Moved,
    Row,
    Table,
    constant,
    enum,
    event,
    feature,
    size,
    some,
)
from ...client import state as client
from ...client.batches import accumulator as accumulator  # its fields of the client come first
from ...client.transactions import queue
from ...client.transactions import transaction_manager as manager
from ...errors import Errors
from ...messages import producer
from ...releases.release import CLIENT

flush_refused_in_callback = feature(
    "flush_refused_in_callback",
    "4.1",
    parts=(CLIENT,),
    sentence="`flush` in a callback raises a KafkaException. Before, it waited for its own thread.",
    source="KAFKA-10790, KIP-1118, KafkaProducer.flush",
)
GETS = constant(
    "gets_in_callback", 1, 0, 1, meaning="1: a callback may wait for the future of a record"
)
Call = enum("CallInCallback", "FLUSH", "GET")
callback = event(
    "onCompletion",
    call=Call,
    event_doc="A batch is done or has failed: the sending thread runs its callbacks, and one of "
    "them calls `flush` or `send().get()`.",
)
client_machine = producer.copy()
waits_for_itself = client_machine.field(
    "waits_for_itself", Bool(), doc="A callback waits for the sending thread, which runs it."
)
has_batch = (size(client.added) > 0) & (queue.current != some(queue.Request.END_TXN))
"""Whether a batch may have been sent; EndTxn goes out when all of them are done."""

called_back = Table(
    client_machine,
    on=callback,
    response=manager.CallResponse,
    when=has_batch & ~waits_for_itself & ((callback.call == Call.FLUSH) | (GETS > 0)),
    doc="ProducerBatch.completeFutureAndFireCallbacks",
    rows=(
        Row(
            "flush-refused",
            "The call is refused: it would wait for its own thread",
            when=callback.call == Call.FLUSH,
            during=flush_refused_in_callback,
            reply=manager.CallResponse(
                raises=some(Errors.KAFKA_EXCEPTION), cause=None, continues=False
            ),
            source="KAFKA-10790, KafkaProducer.flush",
        ),
        Row(
            "flush-waits",
            "The call waits for all batches, that of the callback as well",
            when=callback.call == Call.FLUSH,
            set={waits_for_itself: True},
            source="KafkaProducer.flush, RecordAccumulator.awaitFlushCompletion before 4.1",
        ),
        Row(
            "get-waits",
            "The call waits for a batch that the thread would have to send",
            set={waits_for_itself: True},
            source="FutureRecordMetadata.get",
        ),
    ),
)

callbacks = Change(
    "callbacks",
    "Callbacks of batches call the client.",
    features=(flush_refused_in_callback,),
    constants=(GETS,),
    moved=Moved({}, {producer: client_machine}),
    tables=(called_back,),
)
for _table in (
    "producer.want a producer id",
    "producer.ask for partitions",
    "producer.next request",
    "producer.send request",
    "producer.answer lost",
    "producer.version mismatch",
    "producer.FindCoordinator answered",
    "producer.InitProducerIdResponse",
    "producer.AddPartitionsToTxnResponse",
    "producer.AddOffsetsToTxn answered",
    "producer.TxnOffsetCommit for a partition",
    "producer.EndTxnResponse",
    "producer.error",
    "producer.abort as it closes",
):
    callbacks = callbacks.table(_table).only_when(~waits_for_itself)
