"""A producer and a consumer of a replicated partition, with their settings.

The producer is its Sender with the accumulator's queue, the consumer its poll loop. Records are
sent in the order of their numbers, and a record's number is its sequence.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Int,
    Machine,
    Optional,
    Sequence,
    Set,
    constant,
    element,
    enum,
    keep,
    record,
)
from ..replication.state import LEADER_EPOCH, LOG_SIZE, OFFSET, RECORD, RECORDS

RETRIES = constant("retries", 1, 0, 1, meaning="1: retries is as large as it takes; 0: none")
IN_FLIGHT = constant("in_flight", 2, 1, 2, meaning="max.in.flight.requests.per.connection")
IDEMPOTENCE = constant("idempotence", 0, 0, 1, meaning="1: enable.idempotence")
TRANSACTIONAL = constant(
    "transactional_id", 0, 0, 1, meaning="1: the producer has a transactional.id"
)
READ_COMMITTED = constant("read_committed", 0, 0, 1, meaning="1: isolation.level is read_committed")
OFFSETS = constant(
    "offsets",
    0,
    0,
    2,
    meaning="the consumer commits its offset 0: after it has processed a record, 1: before that, "
    "2: with the results of the record, in one step",
)
AFTER, BEFORE, TOGETHER = 0, 1, 2
DISCONNECTIONS = constant(
    "disconnections", 1, 0, 3, meaning="connections of the producer that are closed"
)
CONSUMER_CRASHES = constant("consumer_crashes", 1, 0, 3, meaning="crashes of the consumer")

is_transactional = TRANSACTIONAL == 1
is_idempotent = (IDEMPOTENCE == 1) | is_transactional

# The producer ------------------------------------------------------------------------------------

Transaction = enum("DeliveryTransaction", "OPEN", "COMMITTING", "ABORTING", "COMMITTED")

sender = Machine("sender", doc="A producer: its batches of one record each, and its connection.")
queue = sender.field(
    "queue", Sequence(RECORD, RECORDS), doc="Records that are sent again, the first one next."
)
requests = sender.field(
    "requests",
    Sequence(RECORD, IN_FLIGHT),
    doc="Requests in flight, in their order.",
)
taken = sender.field(
    "taken",
    Bool(),
    doc="A leader has taken the first request, and hasn't answered. A broker takes one request of "
    "a connection at a time (SocketServer mutes it).",
)
succeeded = sender.field("succeeded", Set(RECORD), doc="Records whose send() has succeeded.")
transaction = sender.field(
    "transaction", Transaction, doc="The records' transaction, if there are transactions."
)

is_sending = transaction == Transaction.OPEN

# The consumer ------------------------------------------------------------------------------------

Stage = enum("Stage", "POLLING", "COMMITTED", "PROCESSED")
Position = record("Position", offset=OFFSET, leader_epoch=LEADER_EPOCH)

reader = Machine("reader", doc="A consumer, and its poll loop: one record at a time.")
stage = reader.state_field("stage", Stage, Stage.POLLING)
position = reader.field(
    "position",
    Position,
    doc="The offset of the next record, and the leader epoch of the one before.",
)
committed = reader.field("committed", Position, doc="The group's committed offset.")
seen_epoch = reader.field("seen_epoch", LEADER_EPOCH, doc="The newest leader epoch of its fetches.")
polled = reader.field(
    "polled",
    Optional(RECORD),
    doc="The last record whose offset was committed before it was processed.",
)
processed = reader.field(
    "processed", Sequence(RECORD, LOG_SIZE + CONSUMER_CRASHES), doc="Processed records, in order."
)


def of_session(entries: Expression, producer_id: Expression) -> Expression:
    """The entries of a log that have this producer id."""
    entry = element("of_session", entries)
    return keep(entry, entry.producer_id == producer_id)


ROOM = Int(0, LOG_SIZE + CONSUMER_CRASHES, "count")
