"""Producer ids: the declarations that both ways of allocating them share.

A broker takes a block of ids at a time from a store that all brokers share: from ZooKeeper
(`zookeeper`), since 3.0 from the controller (`controller`). The block of a broker that crashes is
lost: gaps are normal.

A bounded run abstracts three things. All blocks have `block_size` ids, and the length in a response
has one value (`size_of`). Time has one value, and never delays a request. All brokers are
registered.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Int,
    Key,
    Machine,
    Sequence,
    constant,
    enum,
    event,
    if_,
    message,
    record,
)
from ...language.expressions import Operand
from ..messages import NO_NUMBER

BROKERS = constant("brokers", 2, 1, 4, meaning="brokers that take blocks of producer ids")
HANDLERS = constant(
    "handlers", 2, 1, 3, real=8, meaning="threads of a broker that hand out ids at the same time"
)
BLOCK_SIZE = constant("block_size", 3, 1, 1000, real=1000, meaning="producer ids in a block")
LARGEST_PRODUCER_ID = constant(
    "largest_producer_id", 9, 1, 10000, real=2**63 - 1, meaning="the largest producer id"
)
LONGEST_BLOCK = constant(
    "longest_block", 0, 0, 0, real=2**31 - 1, meaning="producer ids in the longest block"
)
PREFETCH_THRESHOLD = constant(
    "prefetch_threshold", 50, 0, 100, real=90,
    meaning="percent of a block handed out before the id that makes a broker ask for the next one",
)  # fmt: skip
FAULTS = constant(
    "faults", 1, 0, 6, real=2**63 - 1,
    meaning="faults in a run, of all kinds together; recovery has no bound",
)  # fmt: skip

BROKER = Key("broker", BROKERS)
HANDLER = Key("handler", HANDLERS)

NO_PRODUCER_ID = -1
# One block more than Kafka may use: the type doesn't rule out that too many ids are handed out.
PRODUCER_ID = Int(NO_PRODUCER_ID, LARGEST_PRODUCER_ID + BLOCK_SIZE, "producer id")
LENGTH = Int(NO_NUMBER, LONGEST_BLOCK, "length")
CONNECTION = Int(0, FAULTS, "connection")
Block = record("ProducerIdsBlock", first=PRODUCER_ID, size=LENGTH)
NO_BLOCK = Block(first=NO_PRODUCER_ID, size=0)

Errors = enum("Errors", NONE=0, NOT_CONTROLLER=41, STALE_BROKER_EPOCH=77, UNKNOWN_SERVER_ERROR=-1)

callers = Machine(
    "callers", BROKER, doc="The callers to whom a broker has handed out producer ids."
)
handed_out = callers.field(
    "handed_out",
    Sequence(PRODUCER_ID, LARGEST_PRODUCER_ID + LARGEST_PRODUCER_ID + 1),
    doc="The ids, in the order of the calls. There is room for ids that are handed out twice.",
)

HandedOut = message(
    "HandedOut",
    callers,
    broker=BROKER,
    producer_id=PRODUCER_ID,
    message_doc="The result of a call.",
)

crash = event("crash", event_doc="The broker loses its memory, and restarts.")
connection_loss = event(
    "connection loss",
    event_doc="The connection to the store is lost. The request is sent again, although the "
    "first one may have been processed, or may still be.",
)


def size_of(length: Expression) -> Expression:
    """The number of ids in a block of this length."""
    return if_(LONGEST_BLOCK == 0, BLOCK_SIZE, length)


def last_of(first: Expression, size: Operand = BLOCK_SIZE) -> Expression:
    """The last producer id of the block of so many that starts with `first`."""
    return first + size - 1
