"""The transaction coordinator's entry for one transactional id (`TransactionMetadata`).

A change is first *pending* while its record is appended to the transaction log. It takes effect
when the append has completed (`log`), and the answer goes out then. A broker takes over at once: a
request that reached it while it loads would be answered COORDINATOR_LOAD_IN_PROGRESS and sent
again, as if the network had delayed it.
"""

from __future__ import annotations

from ...language import Bool as Truth
from ...language import (
    Int,
    Map,
    Optional,
    Set,
    each,
    enum,
    event,
    if_,
    minimum,
    record,
    some,
)
from ..messages import (
    CONNECTION,
    COORDINATOR_EPOCH,
    EPOCH,
    LARGEST_EPOCH,
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    PRODUCER_IDS,
    TIMEOUT_MS,
    TIMESTAMP,
    Errors,
    offered_id,
    transaction,
)
from ..releases.features import (
    controller_hands_out_ids,
    exact_end_epoch,
    producer_fenced_error,
    strict_end_txn_epoch,
    transaction_version_2,
)

TransactionState = enum(
    "TransactionState",
    EMPTY=0,
    ONGOING=1,
    PREPARE_COMMIT=2,
    PREPARE_ABORT=3,
    COMPLETE_COMMIT=4,
    COMPLETE_ABORT=5,
    DEAD=6,
    PREPARE_EPOCH_FENCE=7,
)
EMPTY, ONGOING, DEAD = TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.DEAD
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE

# The entry -------------------------------------------------------------------------------------

state = transaction.state_field("state", TransactionState, EMPTY)
pending = transaction.field(
    "pending", Optional(TransactionState), doc="The state whose record is being appended."
)
producer_id = transaction.field("producer_id", PRODUCER_ID)
producer_epoch = transaction.field(
    "producer_epoch", EPOCH, NO_EPOCH, doc="Without one, the transactional id isn't known."
)
last_producer_epoch = transaction.field(
    "last_producer_epoch", EPOCH, NO_EPOCH, doc="The epoch before, for the retry of a request."
)
previous_id = transaction.field(
    "previous_id", Optional(PRODUCER_ID), doc="The producer id before, for the retry of a request."
)
next_id = transaction.field(
    "next_id", Optional(PRODUCER_ID), doc="The producer id after the end that is in progress."
)
partitions = transaction.field(
    "partitions", Set(PARTITION), doc="Those in the transaction whose marker isn't acknowledged."
)
pending_id = transaction.field("pending_id", PRODUCER_ID)
pending_epoch = transaction.field("pending_epoch", EPOCH, NO_EPOCH)
pending_last_epoch = transaction.field("pending_last_epoch", EPOCH, NO_EPOCH)
pending_partitions = transaction.field("pending_partitions", Set(PARTITION))
failed_fence = transaction.field(
    "failed_fence",
    Truth(),
    doc="A fence's record is not in the log (or not yet): the next fence takes no other epoch.",
)
FenceEnd = record("FenceEnd", producer_id=PRODUCER_ID, producer_epoch=EPOCH)
fence_end = transaction.field(
    "fence_end",
    Optional(FenceEnd),
    doc="The producer id and epoch of the fence whose own end is to come. A client's abort may "
    "overtake it, so that it finds a later transaction.",
)
ends_ahead = transaction.field(
    "ends_ahead",
    Truth(),
    doc="The end was asked for under a higher epoch: once it is decided, nobody completes it.",
)
coordinator_epoch = transaction.field(
    "coordinator_epoch", COORDINATOR_EPOCH, doc="The leader epoch of the log's partition."
)
asked_by = transaction.field(
    "asked_by",
    Map(PRODUCER, Optional(CONNECTION)),
    doc="The client that waits for the pending change.",
)
fenced_for = transaction.field(
    "fenced_for",
    Map(PRODUCER, Optional(CONNECTION)),
    doc="Whose InitProducerId waits for the abort of the transaction before it.",
)
adding_for = transaction.field(
    "adding_for", Map(PRODUCER, Set(PARTITION)), doc="Whose partition is being added."
)

# Times and versions: a run without a clock drops these fields.
txn_timeout_ms = transaction.field("txn_timeout_ms", TIMEOUT_MS)
txn_start_timestamp = transaction.field("txn_start_timestamp", TIMESTAMP)
txn_last_update_timestamp = transaction.field("txn_last_update_timestamp", TIMESTAMP)
client_transaction_version = transaction.field(
    "client_transaction_version",
    Int(0, 2),
    doc="The version of the request that caused the last record.",
)
pending_timeout_ms = transaction.field("pending_timeout_ms", TIMEOUT_MS)
pending_start_timestamp = transaction.field("pending_start_timestamp", TIMESTAMP)
pending_update_timestamp = transaction.field("pending_update_timestamp", TIMESTAMP)
pending_version = transaction.field("pending_version", Int(0, 2))

continue_fence = event("continue the fence", event_doc="The second half of a fencing abort.")
timeout = event("transaction timeout", event_doc="The transaction is older than its timeout.")

p = PARTITION.variable("p")
c = PRODUCER.variable("c")

ends_strictly = strict_end_txn_epoch | exact_end_epoch
"""Whether a transaction is ended under its own epoch alone, and not under a newer one."""
# KafkaApis answers requests of older versions with INVALID_PRODUCER_EPOCH. Here client and broker
# are of one release.
fenced = if_(producer_fenced_error, Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH)
exhausted = producer_epoch >= LARGEST_EPOCH - 1
is_known = producer_epoch != NO_EPOCH
is_absent = ~is_known & ~pending.is_set
"""The coordinator has no entry. An id whose first epoch is being appended has one."""
is_settled = state.is_in(EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
is_prepared = state.is_in(PREPARE_COMMIT, PREPARE_ABORT)
is_complete = state.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)
fencing = pending == PREPARE_EPOCH_FENCE
in_transition = pending.is_set & ~fencing
completing = pending.is_in(COMPLETE_COMMIT, COMPLETE_ABORT)
has_failed_epoch_fence = failed_fence & ~in_transition
"""A fencing epoch was taken, and its record could not be written."""
bumped_epoch = minimum(producer_epoch + 1, LARGEST_EPOCH)
offered_id_after = if_(offered_id.value < PRODUCER_IDS - 1, some(offered_id.value + 1), None)
"""The producer id that is offered once `offered_id` is taken."""
NOBODY = each(c, None)
entry_version = if_(transaction_version_2, 2, 0)
fence_epoch = if_(failed_fence, producer_epoch, bumped_epoch)


fence_to_come = fence_end.is_set
"""A thread is between a fence and its end. A bounded run has one at a time."""


# ZooKeeper gave out a block of ids at once, or threw an exception.
no_id_error = if_(
    controller_hands_out_ids, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.UNKNOWN_SERVER_ERROR
)
