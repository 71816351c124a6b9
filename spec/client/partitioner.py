"""Which partition of its topic a record goes to, and how long records without a key stay with one.

Hashing and choosing are the caller's: rows say which of them decides.
"""

from __future__ import annotations

from ...language import Bool, Int, Machine, Row, Table, constant, enum, event, message

BATCH_SIZE = constant("batch_size", 0, 0, 0, real=16_384, meaning="batch.size")
LARGEST_SIZE = constant("largest_size", 0, 0, 0, real=2**31 - 1, meaning="bytes produced")
SIZE = Int(0, LARGEST_SIZE, "size")

Choice = enum("PartitionChoice", "GIVEN", "ROUND_ROBIN", "KEY_HASH", "STICKY")

topic = Machine("topic", doc="A topic that records are sent to, as the producer sees it.")
is_round_robin = topic.field("is_round_robin", Bool(), doc="partitioner.class is RoundRobin.")
ignores_keys = topic.field("ignores_keys", Bool(), doc="partitioner.ignore.keys")
produced = topic.field("produced", SIZE, doc="Bytes for the partition that is stuck to.")

caller = Machine("caller", doc="Whoever hashes and chooses.")
Chosen = message("PartitionChosen", caller, by=Choice)
choose = event("choose partition", is_given=Bool(), has_key=Bool())
chosen = Table(
    topic,
    on=choose,
    response=Chosen,
    rows=(
        Row(
            "given",
            when=choose.is_given,
            reply=Chosen(by=Choice.GIVEN),
            source="KafkaProducer.partition",
        ),
        Row(
            "one after the other",
            when=is_round_robin,
            reply=Chosen(by=Choice.ROUND_ROBIN),
            source="RoundRobinPartitioner.partition",
        ),
        Row(
            "by its key",
            when=choose.has_key & ~ignores_keys,
            reply=Chosen(by=Choice.KEY_HASH),
            source="BuiltInPartitioner.partitionForKey",
        ),
        Row(
            "where the last one went",
            reply=Chosen(by=Choice.STICKY),
            source="KIP-794, BuiltInPartitioner.peekCurrentPartitionInfo",
        ),
    ),
)

Switched = message("PartitionSwitched", caller, switches=Bool())
append = event(
    "appended", size=SIZE, ends_batch=Bool(),
    event_doc="A record that went by STICKY is in a batch; `ends_batch`: which is full with it.",
)  # fmt: skip
_with_it = produced + append.size
appended = Table(
    topic,
    on=append,
    response=Switched,
    rows=(
        Row(
            "another partition",
            when=((_with_it >= BATCH_SIZE) & append.ends_batch)
            | (_with_it >= BATCH_SIZE + BATCH_SIZE),
            set={produced: 0},
            reply=Switched(switches=True),
            source="BuiltInPartitioner.updatePartitionInfo",
        ),
        Row(
            "the same",
            set={produced: _with_it},
            reply=Switched(switches=False),
            source="BuiltInPartitioner.updatePartitionInfo",
        ),
    ),
)

TABLES = (chosen, appended)
