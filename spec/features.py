"""What Kafka's releases do differently. A release is declared as it was, its faults included."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..language import Expression, Protocols, feature
from .client_features import OF_CLIENTS
from .group_features import OF_GROUPS
from .proposals import PROPOSED
from .releases import BEFORE as BEFORE
from .releases import CLIENT, COORDINATOR, LEADER, NEWEST, PARTS, RELEASES, TRUNK
from .releases import RELEASED as RELEASED
from .replication_features import OF_REPLICATION

_features: list[Expression] = []


def _feature(name: str, since: str | None, **rest: Any) -> Expression:
    """A feature of Kafka: all of its systems have it."""
    _features.append(feature(name, since, **rest))
    return _features[-1]


_of_coordinators = partial(_feature, parts=(COORDINATOR,))
_of_leaders = partial(_feature, parts=(LEADER,))
_of_clients = partial(_feature, parts=(CLIENT,))


# The coordinator -------------------------------------------------------------------------------

timeout_bumps_epoch = _of_coordinators(
    "timeout_bumps_epoch",
    "0.11.0.2",
    sentence="A transaction that the coordinator aborts by itself ends with a new epoch.",
    source="KAFKA-6119",
)
fence_bumps_epoch = _of_coordinators(
    "fence_bumps_epoch",
    RELEASES[0],
    sentence="A new instance's fence ends the open transaction with a new epoch.",
    source="KAFKA-5231",
)
completes_once = _of_coordinators(
    "completes_once",
    RELEASES[0],
    sentence="One thread writes that a transaction is complete; a trunk before 2.6 let two do so.",
    source="KAFKA-10080, TransactionMarkerChannelManager.maybeWriteTxnCompletion",
)
storage_error_retried = _of_coordinators(
    "storage_error_retried",
    "2.5",
    sentence="A marker is sent again after KAFKA_STORAGE_ERROR, an answer that the coordinator "
    "didn't know before.",
    source="KAFKA-9749",
)
unused_id_expires = _of_coordinators(
    "unused_id_expires",
    "3.4",
    sentence="A transactional id that has got no epoch expires, too, one whose first record could "
    "not be written; before, the attempt throws, and no other id expires.",
    source="KAFKA-14880, TransactionMetadata.prepareTransitionTo",
)
expected_epoch = _feature(
    "expected_epoch",
    "2.5",
    parts=(CLIENT, COORDINATOR),
    sentence="InitProducerId may name the id and epoch that its sender holds: a bump, which a "
    "retry repeats without a second bump.",
    source="KIP-360",
)
exact_end_epoch = _of_coordinators(
    "exact_end_epoch",
    "0.11.0.0",
    until="0.11.0.2",
    sentence="Whoever ends a transaction must have its epoch, the coordinator as well: its own "
    "fences have set it before.",
    source="TransactionCoordinator.handleEndTransaction before 0.11.0.2",
)
strict_end_txn_epoch = _of_coordinators(
    "strict_end_txn_epoch",
    "2.6",
    sentence="A client's EndTxn must carry the current epoch; before, a higher one passed (from "
    "0.11.0.2 on).",
    source="KAFKA-9600",
)
failed_fence_kept = _of_coordinators(
    "failed_fence_kept",
    "2.6",
    sentence="A fence whose record was not appended is repeated with the same epoch.",
    source="KAFKA-9666",
)
producer_fenced_error = _feature(
    "producer_fenced_error",
    "2.7",
    parts=(CLIENT, COORDINATOR),
    sentence="The coordinator says PRODUCER_FENCED to clients that know it; before 2.7 it said "
    "INVALID_PRODUCER_EPOCH, as a leader does.",
    source="KIP-588",
)
transaction_version_2 = _feature(
    "transaction_version_2",
    "4.0.0",
    parts=(CLIENT, COORDINATOR, LEADER),
    sentence="Every transaction ends with a new epoch, and Produce adds its partition (from 4.0).",
    source="KIP-890 part 2",
)
pending_first = _of_coordinators(
    "pending_first",
    "4.0.0",
    sentence="A transition in flight is answered before id and epoch are compared (from 4.0).",
    source="KAFKA-18660",
)
newer_epoch_cancels_load = _of_coordinators(
    "newer_epoch_cancels_load",
    "4.0.0",
    sentence="A coordinator that resigns in a newer epoch stops loading; before, it stopped only "
    "in the epoch of the load, and otherwise came to own the partition.",
    source="KAFKA-18137",
)
overflow_answered = _of_coordinators(
    "overflow_answered",
    "4.0.0",
    sentence="The end of a transaction that uses up the epochs is answered with the new producer "
    "id.",
    source="KAFKA-18660",
)
single_fence_bump = _of_coordinators(
    "single_fence_bump",
    "4.0.1",
    sentence="A fencing abort of version 2 takes one new epoch, where 4.0.0 took two.",
    source="KAFKA-19367",
)
previous_id_forgotten = _of_coordinators(
    "previous_id_forgotten",
    "4.1",
    sentence="The previous producer id is kept for one transition only (before: until the next "
    "Empty or end of version 2).",
    source="KAFKA-15370, TransactionMetadata.completeTransitionTo",
)
two_phase_commit = _of_coordinators(
    "two_phase_commit",
    "4.1",
    sentence="InitProducerId may ask for two-phase commit, which a broker has to allow; its "
    "transactions, and all others with the largest timeout, don't time out.",
    source="KIP-939",
)
rotation_in_log = _of_coordinators(
    "rotation_in_log",
    NEWEST,
    sentence="The previous and the next producer id are in the transaction log.",
    source="KAFKA-20310",
)
rotation_on_fence = _of_coordinators(
    "rotation_on_fence",
    NEWEST,
    sentence="A fence at the last epoch of clients takes a new producer id, too.",
    source="KAFKA-20090",
)
last_epoch_in_log = _of_coordinators(
    "last_epoch_in_log",
    None,
    sentence="The epoch before is in the transaction log, so that a bump can be asked for again "
    "across a failover. Merged in 2026: no release up to 4.4 has it, nor the trunk of 22 August.",
    source="KAFKA-20357, pull request 22096",
)
late_fence_end_refused = _of_coordinators(
    "late_fence_end_refused",
    None,
    sentence="The end of a fence ends only the transaction that is still fenced; who has fenced it "
    "asks again.",
    source="TransactionCoordinator.endTransaction, a way to mend it (docs/findings.md, 8)",
)
own_completion_cancelled = _of_coordinators(
    "own_completion_cancelled",
    "3.8",
    sentence="A marker's answer under an older coordinator epoch cancels its own completion; "
    "before, also the current one, so that the transaction never ended.",
    source="KAFKA-16352",
)
markers_in_order = _of_coordinators(
    "markers_in_order",
    None,
    sentence="A marker isn't sent again before the one under way has arrived or is lost: none "
    "arrives late.",
    source="KAFKA-19446, another way to mend it",
)
# The partition leader -------------------------------------------------------------------------

batches_kept = _of_leaders(
    "batches_kept",
    "1.0",
    sentence="A leader remembers the last five batches of a producer; before, the last one.",
    source="KAFKA-5494",
)
unknown_producer_told = _of_leaders(
    "unknown_producer_told",
    "1.0",
    sentence="A producer that a leader doesn't know is told so; before, that its sequence is out "
    "of order.",
    source="KAFKA-5793",
)
unknown_sequence_told = _of_leaders(
    "unknown_sequence_told",
    "2.0",
    sentence="So is one whose epoch a leader knows, and no sequence; before, it was told that its "
    "sequence is out of order.",
    source="ProducerAppendInfo.checkSequence",
)
unknown_producer_accepted = _of_leaders(
    "unknown_producer_accepted",
    "2.5",
    sentence="A leader takes any sequence of a producer id that it does not know; before, a "
    "sequence above 0 was UNKNOWN_PRODUCER_ID.",
    source="KIP-360",
)
state_outlives_records = _of_leaders(
    "state_outlives_records",
    "2.4",
    sentence="What a leader knows of a producer stays when the log's head is deleted.",
    source="KAFKA-7190",
)
followers_only_warn = _of_leaders(
    "followers_only_warn",
    "2.4",
    sentence="What a follower or a recovery replays is not refused for its epoch, and what a "
    "coordinator writes may be; before, markers were checked from everywhere, data from clients.",
    source="KAFKA-9144",
)
marker_is_use = _of_leaders(
    "marker_is_use",
    "2.4",
    sentence="A producer is idle since its last batch or marker; before, since the newest batch "
    "of its epoch, and one without a batch in it was forgotten at the next look.",
    source="KAFKA-9144",
)
empty_marker_ends_nothing = _of_leaders(
    "empty_marker_ends_nothing",
    "2.8",
    sentence="A marker that ends no transaction completes none; before, it completed one that "
    "began and ended with it.",
    source="KAFKA-10702",
)
verification = _feature(
    "verification",
    "3.6",
    parts=(COORDINATOR, LEADER),
    sentence="A leader asks the coordinator before the first append of a transaction, and an "
    "answer counts only as long as its question does (version 2 asks in any case).",
    source="KIP-890 part 1",
)
offsets_verified = _of_leaders(
    "offsets_verified",
    "3.7",
    sentence="A leader asks about what a group's coordinator appends, too.",
    source="KAFKA-15449",
)
abortable_error = _feature(
    "abortable_error",
    "3.8",
    parts=(CLIENT, COORDINATOR, LEADER),
    sentence="A partition that is not in the transaction is TRANSACTION_ABORTABLE, and was "
    "INVALID_TXN_STATE.",
    source="KIP-890, KIP-1050",
)
offsets_told_apart = _of_leaders(
    "offsets_told_apart",
    "3.8",
    sentence="What the coordinator says about offsets reaches the group's coordinator as it is; "
    "before, errors that pass were NOT_ENOUGH_REPLICAS for it as for a producer.",
    source="ReplicaManager.maybeStartTransactionVerificationForPartition",
)
ongoing_by_epoch = _of_leaders(
    "ongoing_by_epoch",
    "4.0.0",
    sentence="A transaction is under way at a leader only for its own epoch; before, for its "
    "producer id.",
    source="KIP-890 part 2",
)
no_start_in_mid_sequence = _of_leaders(
    "no_start_in_mid_sequence",
    "4.1",
    sentence="With version 2 an unknown producer starts at sequence 0.",
    source="KAFKA-18202",
)
stale_epoch_first = _of_leaders(
    "stale_epoch_first",
    "4.1",
    sentence="A stale epoch is refused before the coordinator is asked, and before it matters "
    "whether the question still counts (the latter in 4.0.2, too).",
    source="KAFKA-18042, KAFKA-19690",
)
stale_answer_first = _of_leaders(
    "stale_answer_first",
    "3.9",
    until="4.0.0",
    sentence="A stale epoch is refused before it matters whether the question still counts (in "
    "3.9.2; 4.0.0 and 4.0.1 don't have that).",
    source="KAFKA-19690",
)
strict_marker_epoch = _of_leaders(
    "strict_marker_epoch",
    "4.2",
    sentence="A marker must have a newer epoch than the transaction that it ends.",
    source="KIP-1228, KAFKA-19446",
)
last_epoch_ends_open = _of_leaders(
    "last_epoch_ends_open",
    NEWEST,
    sentence="A marker of the largest epoch ends a transaction of that epoch.",
    source="KAFKA-20090",
)
# The client -----------------------------------------------------------------------------------

several_in_flight = _of_clients(
    "several_in_flight",
    "1.0",
    sentence="An idempotent client may have five requests in flight; before, one.",
    source="KAFKA-5494",
)
sequence_used_when_sent = _of_clients(
    "sequence_used_when_sent",
    "1.0",
    sentence="A batch that was sent has used its sequence, though it expires; before, one that was "
    "acknowledged had, and the next batch went out with that of an expired one.",
    source="KAFKA-5494, TransactionManager.markSequenceUnresolved",
)
client_epoch_bump = _feature(
    "client_epoch_bump",
    "2.5",
    parts=(CLIENT, COORDINATOR),
    sentence="A client that lost the order of its sequences goes on with a new epoch; before, an "
    "idempotent one took a new producer id.",
    source="KIP-360",
)
stale_epoch_abortable = _of_clients(
    "stale_epoch_abortable",
    "2.7",
    sentence="A leader's INVALID_PRODUCER_EPOCH is abortable for a client; before, it was fatal.",
    source="KIP-588, TransactionManager.maybeTransitionToErrorState",
)
renumbered_in_order = _of_clients(
    "renumbered_in_order",
    "2.3",
    sentence="Batches in flight that start again at sequence 0 do so in their order; "
    "before, in that of the heap that holds them.",
    source="KAFKA-8483, KAFKA-8484",
)
old_acks_ignored = _of_clients(
    "old_acks_ignored",
    "2.3",
    sentence="What is acknowledged under an old producer id counts no more; before, the offset of "
    "such a batch did.",
    source="KAFKA-8483, KAFKA-8484, TransactionManager.handleCompletedBatch",
)
epoch_by_partition = _of_clients(
    "epoch_by_partition",
    "2.7",
    sentence="A partition's sequences count under the epoch that they began with, and start again "
    "under a newer one; before 2.7.1 those of a partition with nothing in flight went on.",
    source="KAFKA-12152",
)
idempotent_starts_at_0 = _of_clients(
    "idempotent_starts_at_0",
    None,
    sentence="A producer id that a leader doesn't know starts at sequence 0 without transactions, "
    "too.",
    source="KAFKA-18202, for transactions alone",
)
bump_when_settled = _of_clients(
    "bump_when_settled",
    None,
    sentence="An idempotent client's new epoch waits until no batch in flight to the partition "
    "has an unknown outcome.",
    source="KAFKA-14034, a way to mend it",
)
renumbered_under_new_id = _of_clients(
    "renumbered_under_new_id",
    None,
    sentence="After the last epoch, batches in flight are numbered anew when the new producer id "
    "is there, where releases send them without any.",
    source="TransactionManager.bumpIdempotentProducerEpoch, a way to mend it",
)
unauthorized_abortable = _of_clients(
    "unauthorized_abortable",
    "3.6",
    sentence="A client that isn't authorized to get a producer id may ask again; before, that was "
    "fatal (from 3.6).",
    source="KAFKA-13668",
)
unknown_id_fatal = _of_clients(
    "unknown_id_fatal",
    "4.0.0",
    sentence="INVALID_PRODUCER_ID_MAPPING is fatal for a client; from 2.5 on it was abortable.",
    source="KAFKA-18019",
)
commit_may_bump = _of_clients(
    "commit_may_bump",
    "4.0.0",
    sentence="A client may ask for a new epoch after a commit, too; before, its state allowed that "
    "only after an abort.",
    source="KAFKA-18227, TransactionManager.State.isTransitionValid",
)
version_looked_up = _of_clients(
    "version_looked_up",
    "4.0.0",
    sentence="A client begins its next transaction with the transaction.version that brokers have "
    "told last; it looks when it is initialized, and at each end.",
    source="TransactionManager.maybeUpdateTransactionV2Enabled",
)
upgrade_bumps_epoch = _of_clients(
    "upgrade_bumps_epoch",
    "4.0.0",
    sentence="A client that goes over to version 2 takes a new epoch first.",
    source="KAFKA-18227, TransactionManager.maybeUpdateTransactionV2Enabled",
)
failed_abort_fatal = _of_clients(
    "failed_abort_fatal",
    "4.1",
    sentence="TRANSACTION_ABORTABLE for an abort is fatal; before, it was ignored.",
    source="KAFKA-19250",
)
failed_batch_abortable = _of_clients(
    "failed_batch_abortable",
    "4.1",
    sentence="A batch that fails with a retriable error or INVALID_TXN_STATE makes its transaction "
    "TRANSACTION_ABORTABLE.",
    source="KAFKA-19176",
)
calls_in_turn = _of_clients(
    "calls_in_turn",
    "3.3",
    sentence="A call that timed out is finished by the same call before any other, a call out of "
    "turn is an IllegalStateException, and a record is in a batch before its partition is "
    "registered.",
    source="KAFKA-13412",
)
failed_send_counts = _of_clients(
    "failed_send_counts",
    "3.3",
    sentence="A record that fails before it is in a batch fails its transaction; before, that "
    "committed without it.",
    source="KAFKA-9279",
)
close_ends = _of_clients(
    "close_ends",
    "2.3",
    sentence="A closed client aborts its transaction, and begins no other.",
    source="KAFKA-6635",
)
aborted_by_name = _of_clients(
    "aborted_by_name",
    "2.7",
    sentence="Records that an abort gives up fail with TransactionAbortedException; before, with a "
    "KafkaException.",
    source="KAFKA-10186",
)
fenced_as_it_is = _of_clients(
    "fenced_as_it_is",
    "2.3",
    sentence="Calls of a fenced client raise that error itself; before 2.3 it was wrapped as any "
    "other is.",
    source="TransactionManager.maybeFailWithError",
)
illegal_state_fatal = _of_clients(
    "illegal_state_fatal",
    "3.6",
    sentence="A client whose state doesn't allow what it is to do has failed for good; before, it "
    "stayed as it was.",
    source="KAFKA-14831",
)
late_errors_ignored = _of_clients(
    "late_errors_ignored",
    "3.6",
    sentence="An error for a batch that its client has given up changes nothing; before, it failed "
    "the batch once more, and with it the next transaction.",
    source="KAFKA-14831, Sender.failBatch",
)
errors_told_alike = _of_clients(
    "errors_told_alike",
    "3.6",
    sentence="Requests tell INVALID_TXN_STATE and a fenced epoch alike; before, some wrapped the "
    "one, and TxnOffsetCommit told INVALID_PRODUCER_EPOCH as it was.",
    source="KAFKA-14278",
)
retried_by_kind = _of_clients(
    "retried_by_kind",
    "3.3",
    sentence="A client asks a coordinator again after any retriable error, and "
    "CONCURRENT_TRANSACTIONS is one; before, each request had a list.",
    source="KAFKA-14417",
)
offsets_retried_by_kind = _of_clients(
    "offsets_retried_by_kind",
    "3.8",
    sentence="TxnOffsetCommit, too, is sent again after any retriable error.",
    source="TransactionManager.TxnOffsetCommitHandler",
)
offsets_name_members = _of_clients(
    "offsets_name_members",
    "2.5",
    sentence="TxnOffsetCommit names the group's member and generation; errors about them are "
    "abortable, and were fatal before.",
    source="KIP-447",
)
expires_in_flight = _of_clients(
    "expires_in_flight",
    "2.1",
    sentence="A batch expires after delivery.timeout.ms, in flight as well; before, only one that "
    "had waited for request.timeout.ms to be sent.",
    source="KIP-91",
)
backoff_grows = _of_clients(
    "backoff_grows",
    "3.7",
    sentence="A batch that is tried again waits twice as long each time, up to "
    "retry.backoff.max.ms; before, as long as the first time.",
    source="KIP-580",
)
replica_retriable = _of_clients(
    "replica_retriable",
    "2.6",
    sentence="REPLICA_NOT_AVAILABLE is retriable.",
    source="KAFKA-10223",
)
one_way_to_ids = _of_clients(
    "one_way_to_ids",
    "2.5",
    sentence="A client without transactional id asks for its producer id as the others do; before, "
    "in a loop of its own, which tries again after any retriable error.",
    source="KAFKA-7737",
)
transactional = feature(
    "transactional",
    None,
    sentence="The client has a transactional id; without one it is idempotent only.",
    source="TransactionManager.isTransactional",
)
# Producer ids ---------------------------------------------------------------------------------

controller_hands_out_ids = _of_coordinators(
    "controller_hands_out_ids",
    "3.0",
    sentence="The controller gives out blocks of producer ids; before, brokers took "
    "them from ZooKeeper.",
    source="KIP-730",
)
block_awaited_elsewhere = _of_coordinators(
    "block_awaited_elsewhere",
    "3.6",
    sentence="A call that finds no producer id fails at once and is tried again; before, it "
    "waited.",
    source="RPCProducerIdManager",
)
block_current_once_written = _of_coordinators(
    "block_current_once_written",
    "3.0",
    sentence="A block from ZooKeeper is in use once it has been written; before, from "
    "the attempt on, even where that failed.",
    source="KAFKA-12620",
)
overlap_refused = _of_coordinators(
    "overlap_refused",
    NEWEST,
    sentence="A block that starts with the last id of the current one is refused, too.",
    source="KAFKA-20031",
)

_all = (*_features, *OF_CLIENTS, *OF_REPLICATION, *OF_GROUPS, *PROPOSED)
KAFKA = Protocols(RELEASES, _all, unreleased=(TRUNK,), parts=PARTS)
