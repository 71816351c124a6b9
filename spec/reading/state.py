"""A partition's log with transactions, the memory of its leader, and a reader.

Compaction leaves gaps, so each entry has its offset. A leader that starts reads the log, and builds
its memory from it.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Int,
    Key,
    Machine,
    Map,
    Optional,
    Protocols,
    Sequence,
    Set,
    constant,
    element,
    feature,
    first_of,
    if_,
    position,
    record,
)
from ..leader.isolation import ending_behind
from ..leader.state import Kind
from ..releases.release import RELEASES, TRUNK, UNCHANGED

# Releases -----------------------------------------------------------------------------------------

watermark_read_once = feature(
    "watermark_read_once",
    "2.5",
    sentence="A read_committed fetch reads the high watermark once. Before, it compared with one "
    "value and read up to a newer one.",
    source="KAFKA-9807, Log.fetchLastStableOffsetMetadata",
)
groups_together = feature(
    "groups_together",
    "2.3",
    sentence="The cleaner knows of a transaction's data in earlier segments (from 2.2.2). Before, "
    "it knew only of those that it cleaned together.",
    source="KAFKA-8351, CleanedTransactionMetadata",
)
markers_have_no_key = feature(
    "markers_have_no_key",
    "3.0",
    sentence="No record's key makes a marker obsolete (from 3.0.2). Before, a key with the same "
    "bytes as a marker's did.",
    source="KAFKA-14055, Cleaner.shouldRetainRecord",
)
index_of_whole_segments = feature(
    "index_of_whole_segments",
    "2.8",
    sentence="A segment that the cleaner has copied keeps its whole transaction index (from 2.8.2 "
    "and 3.0.2). Before, it lost the aborted transactions behind the place where the cleaner "
    "stopped.",
    source="KAFKA-13727, Cleaner.cleanSegments",
)
READING = Protocols(
    RELEASES,
    (watermark_read_once, groups_together, markers_have_no_key, index_of_whole_segments),
    unreleased=(TRUNK,),
    unchanged=UNCHANGED,
)

# State ------------------------------------------------------------------------------------

PRODUCER_IDS = constant("producer_ids", 2, 1, 3, meaning="producers, each with an id")
TRANSACTIONS = constant("transactions", 2, 1, 4, meaning="transactions of all producers")
ENTRIES = constant("entries", 5, 1, 8, meaning="records and markers that are appended")
SEGMENT = constant(
    "segment", 2, 0, 8, meaning="entries in the segments that are cleaned separately"
)
CLEANINGS = constant("cleanings", 1, 0, 3, meaning="runs of the log cleaner")
PARTIAL_CLEANINGS = constant(
    "partial_cleanings",
    0,
    0,
    2,
    meaning="runs of the log cleaner that stop within a segment, as the offset map is full",
)
FETCH_BATCHES = constant("fetch_batches", 2, 1, 4, meaning="batches in a fetch response, at most")
LEADERS = constant("leader_changes", 1, 0, 2, meaning="leaders that begin by reading the log")

PRODUCER_ID = Key("producer_id", PRODUCER_IDS)
TRANSACTION = Int(0, TRANSACTIONS - 1, "transaction")
OFFSET = Int(0, ENTRIES, "offset")
USERS_KEY, MARKERS_KEY = 0, 1
KEY = Int(USERS_KEY, MARKERS_KEY, "key")

Entry = record(
    "ReadEntry", offset=OFFSET, kind=Kind, producer_id=PRODUCER_ID, key=KEY, transaction=TRANSACTION
)

store = Machine("store", doc="A partition, as its leader has it.")
log = store.field(
    "log", Sequence(Entry, ENTRIES), doc="The entries that were appended and not cleaned away."
)
log_end = store.field("log_end_offset", OFFSET)
high_watermark = store.field(
    "high_watermark", OFFSET, doc="The records below this offset are replicated."
)
opened = store.field(
    "opened",
    Map(PRODUCER_ID, Optional(OFFSET)),
    doc="The start of each producer id's open transaction, in the leader's memory.",
)
unlisted = store.field(
    "unlisted",
    Set(TRANSACTION),
    doc="Aborted transactions that the transaction index lacks, as the cleaner has written it.",
)

decisions = Machine("decisions", doc="The coordinators' decisions about the transactions.")
begun = decisions.field("begun", Int(0, TRANSACTIONS, "count"), doc="How many have begun.")
ongoing = decisions.field("ongoing", Map(PRODUCER_ID, Optional(TRANSACTION)))
committed = decisions.field(
    "committed", Set(TRANSACTION), doc="The transactions that were committed."
)

fetcher = Machine("fetcher", doc="A read_committed consumer of the partition, and its fetch.")
next_offset = fetcher.field("next_offset", OFFSET, doc="Its position.")
fetching = fetcher.field("fetching", Bool(), doc="The leader has looked how far it may read.")
limit = fetcher.field(
    "limit",
    Optional(OFFSET),
    doc="The end of what it reads: none if that is the high watermark, read later.",
)
batches = fetcher.field(
    "batches", Sequence(Entry, FETCH_BATCHES), doc="Those of a response that are to come."
)
aborted_transactions = fetcher.field(
    "aborted_transactions",
    Sequence(Entry, TRANSACTIONS),
    doc="The response's aborted transactions that are to come: the record that each starts with, "
    "for its producer id and first offset.",
)
aborted_producer_ids = fetcher.field(
    "aborted_producer_ids",
    Set(PRODUCER_ID),
    doc="Those in whose aborted transactions the consumer is.",
)
delivered = fetcher.field(
    "delivered", Set(TRANSACTION), doc="Transactions of which it was given a record."
)
dropped = fetcher.field(
    "dropped", Set(TRANSACTION), doc="Transactions of which it has dropped a record."
)

# Derived from the log ------------------------------------------------------------------------


def ending(entry: Expression) -> Expression:
    """The marker that ends the transaction of an entry, as far as the log has it."""
    return ending_behind(log, position(entry), entry.producer_id)


entry = element("e", log)
start_offset = opened[entry.producer_id]
is_open = start_offset.is_set & (entry.offset >= start_offset.value)
end_marker = ending(entry)
is_unreplicated = end_marker.is_set & (end_marker.value.offset >= high_watermark)
first_unstable = first_of(entry, (entry.kind == Kind.DATA) & (is_open | is_unreplicated))
"""The first record whose transaction is open, or whose marker isn't replicated.

ProducerStateManager.firstUnstableOffset
"""
is_unstable = first_unstable.is_set & (first_unstable.value.offset < high_watermark)
last_stable_offset = if_(is_unstable, first_unstable.value.offset, high_watermark)


def was_aborted(entry: Expression) -> Expression:
    """Whether the log has the entry's transaction as aborted."""
    return ending(entry).is_set & (ending(entry).value.kind == Kind.ABORT)


def is_aborted(entry: Expression) -> Expression:
    """Whether the transaction index has it as aborted, too, as readers and the cleaner need it."""
    return was_aborted(entry) & ~entry.transaction.is_in(unlisted)


def is_left(entry: Expression) -> Expression:
    """Whether the log has no marker behind a record of its producer id."""
    return (entry.kind == Kind.DATA) & ~ending(entry).is_set
