"""Producer ids, as far as both ways of allocating them have it in common.

A broker takes a block of ids at a time from a store that all brokers share: from ZooKeeper
(`producer_ids_zookeeper`), since 3.0 from the controller (`producer_ids_controller`). The block
of a broker that crashes is lost: gaps are normal.
"""

from __future__ import annotations

from ...language import Expression, Int, Key, Machine, Sequence, append, constant, enum, event, if_
from ...language.expressions import Operand

BROKERS = constant("brokers", 2, 1, 4, meaning="brokers that take blocks of producer ids")
HANDLERS = constant(
    "handlers", 2, 1, 3, real=8, meaning="threads of a broker that hand out ids at the same time"
)
BLOCK_SIZE = constant("block_size", 3, 1, 1000, real=1000, meaning="producer ids in a block")
LARGEST_PRODUCER_ID = constant(
    "largest_producer_id", 9, 1, 10000, real=2**63 - 1, meaning="the largest producer id"
)
PREFETCH_AT = constant(
    "prefetch_at", 1, 0, 999, real=900,
    meaning="ids of a block handed out before the one that makes a broker ask for the next block",
)  # fmt: skip
FAULTS = constant(
    "faults", 1, 0, 6, meaning="faults in a run, of all kinds together; recovery has no bound"
)

BROKER = Key("broker", BROKERS)
HANDLER = Key("handler", HANDLERS)

NO_PRODUCER_ID = -1
# A block more than Kafka may use, so that handing out too much isn't ruled out by the type.
PRODUCER_ID = Int(NO_PRODUCER_ID, LARGEST_PRODUCER_ID + BLOCK_SIZE, "producer id")
CONNECTION = Int(0, FAULTS, "connection")

Errors = enum("Errors", NONE=0, NOT_CONTROLLER=41, STALE_BROKER_EPOCH=77, UNKNOWN_SERVER_ERROR=-1)

callers = Machine("callers", BROKER, doc="Those that a broker has handed out producer ids to.")
handed_out = callers.field(
    "handed_out",
    Sequence(PRODUCER_ID, LARGEST_PRODUCER_ID + LARGEST_PRODUCER_ID + 1),
    doc="In this order. There is room for ids that are handed out twice.",
)

crash = event("crash", event_doc="The broker is gone with what it knows, and is started anew.")
connection_loss = event(
    "connection loss",
    event_doc="To the store. What was sent is sent again, and may have been processed before or "
    "may still be.",
)


def last_of(block: Expression) -> Expression:
    """The last producer id of the block that starts with `block`."""
    return block + BLOCK_SIZE - 1


def not_monotonic(first: Expression, last: Expression, strict: Expression) -> Expression:
    """Whether a block that starts with `first` isn't behind the one that ends with `last`;
    `strict` refuses one that starts with its last id, too."""
    return if_(strict, first <= last, first < last)


def too_large(first: Expression, length: Expression, largest: Expression) -> Expression:
    """Whether the ids of a block would go beyond the largest."""
    return first > largest - length


def hand_out(broker: Expression, producer_id: Expression) -> dict[Expression, Operand]:
    """The broker gives `producer_id` to a caller."""
    held = handed_out.at(broker)
    return {held: append(held, producer_id)}
