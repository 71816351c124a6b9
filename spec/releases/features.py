"""Differences between Kafka's releases. A release is declared as it was, its faults included."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...language import Expression, Protocols, feature
from .client_features import OF_CLIENTS
from .group_features import OF_GROUPS
from .proposals import PROPOSED
from .release import BEFORE as BEFORE
from .release import CLIENT, COORDINATOR, LEADER, PARTS, RELEASES, TRUNK, UNCHANGED
from .release import NEWEST as NEWEST
from .release import RELEASED as RELEASED
from .replication_features import OF_REPLICATION

_features: list[Expression] = []


def _feature(name: str, since: str | None, **rest: Any) -> Expression:
    """A feature of Kafka: all of its systems have it."""
    _features.append(feature(name, since, **rest))
    return _features[-1]


of_coordinators = partial(_feature, parts=(COORDINATOR,))
of_leaders = partial(_feature, parts=(LEADER,))
of_clients = partial(_feature, parts=(CLIENT,))


# The coordinator -------------------------------------------------------------------------------

timeout_bumps_epoch = of_coordinators(
    "timeout_bumps_epoch",
    "0.11.0.2",
    sentence="A transaction that the coordinator aborts by itself ends with a new epoch.",
    source="KAFKA-6119",
)
fence_bumps_epoch = of_coordinators(
    "fence_bumps_epoch",
    RELEASES[0],
    sentence="A new instance's fence ends the open transaction with a new epoch.",
    source="KAFKA-5231",
)
completes_once = of_coordinators(
    "completes_once",
    RELEASES[0],
    sentence="One thread writes that a transaction is complete. A trunk before 2.6 let two "
    "threads do so.",
    source="KAFKA-10080, TransactionMarkerChannelManager.maybeWriteTxnCompletion",
)
storage_error_retried = of_coordinators(
    "storage_error_retried",
    "2.5",
    sentence="A marker is sent again after KAFKA_STORAGE_ERROR. Before, the coordinator didn't "
    "know that answer.",
    source="KAFKA-9749",
)
unused_id_expires = of_coordinators(
    "unused_id_expires",
    "3.4",
    sentence="A transactional id without an epoch expires, too: its first record could not be "
    "written. Before, the attempt threw, and no other id expired.",
    source="KAFKA-14880, TransactionMetadata.prepareTransitionTo",
)
expected_epoch = _feature(
    "expected_epoch",
    "2.5",
    parts=(CLIENT, COORDINATOR),
    sentence="InitProducerId may name the id and epoch that its sender holds. This is a bump; a "
    "retry repeats it without a second bump.",
    source="KIP-360",
)
exact_end_epoch = of_coordinators(
    "exact_end_epoch",
    "0.11.0.0",
    until="0.11.0.2",
    sentence="An end must have the transaction's epoch, even an end by the coordinator: its own "
    "fences have set the epoch before.",
    source="TransactionCoordinator.handleEndTransaction before 0.11.0.2",
)
strict_end_txn_epoch = of_coordinators(
    "strict_end_txn_epoch",
    "2.6",
    sentence="A client's EndTxn must carry the current epoch. Before, a higher one passed (from "
    "0.11.0.2 on).",
    source="KAFKA-9600",
)
failed_fence_kept = of_coordinators(
    "failed_fence_kept",
    "2.6",
    sentence="If a fence's record was not appended, the next attempt uses the same epoch.",
    source="KAFKA-9666",
)
producer_fenced_error = _feature(
    "producer_fenced_error",
    "2.7",
    parts=(CLIENT, COORDINATOR),
    sentence="The coordinator answers PRODUCER_FENCED to clients that know it. Before 2.7 it "
    "answered INVALID_PRODUCER_EPOCH, as a leader does.",
    source="KIP-588",
)
transaction_version_2 = _feature(
    "transaction_version_2",
    "4.0.0",
    parts=(CLIENT, COORDINATOR, LEADER),
    sentence="Every transaction ends with a new epoch, and Produce adds its partition (from 4.0).",
    source="KIP-890 part 2",
)
pending_first = of_coordinators(
    "pending_first",
    "4.0.0",
    sentence="A transition in progress is answered before id and epoch are compared (from 4.0).",
    source="KAFKA-18660",
)
newer_epoch_cancels_load = of_coordinators(
    "newer_epoch_cancels_load",
    "4.0.0",
    sentence="A coordinator that resigns in a newer epoch stops loading. Before, it stopped only "
    "in the epoch of the load; otherwise it came to own the partition.",
    source="KAFKA-18137",
)
overflow_answered = of_coordinators(
    "overflow_answered",
    "4.0.0",
    sentence="If the end of a transaction uses up the epochs, its answer has the new producer id.",
    source="KAFKA-18660",
)
single_fence_bump = of_coordinators(
    "single_fence_bump",
    "4.0.1",
    sentence="A fencing abort of version 2 takes one new epoch. 4.0.0 took two.",
    source="KAFKA-19367",
)
previous_id_forgotten = of_coordinators(
    "previous_id_forgotten",
    "4.1",
    sentence="The previous producer id is kept for one transition only. Before, until the next "
    "Empty or end of version 2.",
    source="KAFKA-15370, TransactionMetadata.completeTransitionTo",
)
two_phase_commit = of_coordinators(
    "two_phase_commit",
    "4.1",
    sentence="InitProducerId may request two-phase commit, if the broker allows it. Its "
    "transactions, and all others with the largest timeout, don't time out.",
    source="KIP-939",
)
rotation_in_log = of_coordinators(
    "rotation_in_log",
    "4.3",
    sentence="The previous and the next producer id are in the transaction log.",
    source="KAFKA-20310",
)
rotation_on_fence = of_coordinators(
    "rotation_on_fence",
    "4.3",
    sentence="A fence at the last epoch of clients takes a new producer id, too.",
    source="KAFKA-20090",
)
last_epoch_in_log = of_coordinators(
    "last_epoch_in_log",
    None,
    sentence="The epoch before is in the transaction log, so a bump can be repeated across a "
    "failover. Merged in 2026: no release up to 4.4 has it, nor the trunk of 22 August.",
    source="KAFKA-20357, pull request 22096",
)
late_fence_end_refused = of_coordinators(
    "late_fence_end_refused",
    None,
    sentence="The end of a fence ends only the transaction that is still fenced. The sender of "
    "the fence asks again.",
    source="TransactionCoordinator.endTransaction, a way to fix it (docs/findings.md, 8)",
)
late_commit_fenced = of_coordinators(
    "late_commit_fenced",
    None,
    sentence="A commit that comes after the coordinator's own abort gets PRODUCER_FENCED. Before, "
    "INVALID_TXN_STATE. Merged in 2026: no release up to 4.4 has it, nor the trunk of 22 August.",
    source="KAFKA-20785, pull request 23204",
)
own_completion_cancelled = of_coordinators(
    "own_completion_cancelled",
    "3.8",
    sentence="A marker's answer under an older coordinator epoch cancels its own completion. "
    "Before, it also cancelled the current one, and the transaction never ended.",
    source="KAFKA-16352",
)
markers_in_order = of_coordinators(
    "markers_in_order",
    None,
    sentence="A marker is sent again only after the one in flight has arrived or is lost, so none "
    "arrives late.",
    source="KAFKA-19446, another way to fix it",
)
# The partition leader -------------------------------------------------------------------------

batches_kept = of_leaders(
    "batches_kept",
    "1.0",
    sentence="A leader remembers the last five batches of a producer. Before, the last one.",
    source="KAFKA-5494",
)
unknown_producer_error = of_leaders(
    "unknown_producer_error",
    "1.0",
    sentence="A leader that doesn't know a producer answers UNKNOWN_PRODUCER_ID. Before, it "
    "answered that the sequence is out of order.",
    source="KAFKA-5793",
)
unknown_sequence_error = of_leaders(
    "unknown_sequence_error",
    "2.0",
    sentence="A leader that knows a producer's epoch, but no sequence, also answers "
    "UNKNOWN_PRODUCER_ID. Before, it answered that the sequence is out of order.",
    source="ProducerAppendInfo.checkSequence",
)
stable_offset_for_all = of_leaders(
    "stable_offset_for_all",
    "2.1",
    sentence="A Fetch is answered with the last stable offset in both isolation levels. Before, "
    "with -1 in read_uncommitted.",
    source="ReplicaManager.readFromLocalLog before 2.1, Partition.readRecords",
)
unknown_producer_accepted = of_leaders(
    "unknown_producer_accepted",
    "2.5",
    sentence="A leader takes any sequence of a producer id that it does not know. Before, a "
    "sequence above 0 was UNKNOWN_PRODUCER_ID.",
    source="KIP-360",
)
state_outlives_records = of_leaders(
    "state_outlives_records",
    "2.4",
    sentence="A leader keeps a producer's state when the log's head is deleted.",
    source="KAFKA-7190",
)
followers_only_warn = of_leaders(
    "followers_only_warn",
    "2.4",
    sentence="A follower or a recovery refuses nothing for its epoch; a leader may refuse what a "
    "coordinator writes. Before, markers were checked from everywhere, and data only from "
    "clients.",
    source="KAFKA-9144",
)
marker_is_use = of_leaders(
    "marker_is_use",
    "2.4",
    sentence="A producer is idle since its last batch or marker. Before, since the newest batch "
    "of its epoch; a producer without a batch in it was forgotten at the next check.",
    source="KAFKA-9144",
)
empty_marker_ends_nothing = of_leaders(
    "empty_marker_ends_nothing",
    "2.8",
    sentence="A marker that ends no transaction completes none. Before, it completed one that "
    "began and ended with it.",
    source="KAFKA-10702",
)
verification = _feature(
    "verification",
    "3.6",
    parts=(COORDINATOR, LEADER),
    sentence="A leader asks the coordinator before the first append of a transaction. An answer "
    "counts only as long as its question does (version 2 asks in any case).",
    source="KIP-890 part 1",
)
offsets_verified = of_leaders(
    "offsets_verified",
    "3.7",
    sentence="A leader also asks about offsets that a group's coordinator appends.",
    source="KAFKA-15449",
)
abortable_error = _feature(
    "abortable_error",
    "3.8",
    parts=(CLIENT, COORDINATOR, LEADER),
    sentence="A partition that is not in the transaction is TRANSACTION_ABORTABLE. Before, "
    "INVALID_TXN_STATE.",
    source="KIP-890, KIP-1050",
)
offset_errors_unchanged = of_leaders(
    "offset_errors_unchanged",
    "3.8",
    sentence="The group's coordinator gets the coordinator's answer about offsets unchanged. "
    "Before, transient errors became NOT_ENOUGH_REPLICAS, as for a producer.",
    source="ReplicaManager.maybeStartTransactionVerificationForPartition",
)
ongoing_by_epoch = of_leaders(
    "ongoing_by_epoch",
    "4.0.0",
    sentence="A transaction is ongoing at a leader only for its own epoch. Before, for its "
    "producer id.",
    source="KIP-890 part 2",
)
no_start_in_mid_sequence = of_leaders(
    "no_start_in_mid_sequence",
    "4.1",
    sentence="With version 2 an unknown producer starts at sequence 0.",
    source="KAFKA-18202",
)
stale_epoch_first = of_leaders(
    "stale_epoch_first",
    "4.1",
    sentence="A stale epoch is refused before the leader asks the coordinator, and before it "
    "checks whether the question still counts (the latter in 4.0.2, too).",
    source="KAFKA-18042, KAFKA-19690",
)
stale_answer_first = of_leaders(
    "stale_answer_first",
    "3.9",
    until="4.0.0",
    sentence="A stale epoch is refused before the leader checks whether the question still counts "
    "(in 3.9.2; 4.0.0 and 4.0.1 don't have that).",
    source="KAFKA-19690",
)
strict_marker_epoch = of_leaders(
    "strict_marker_epoch",
    "4.2",
    sentence="A marker must have a newer epoch than the transaction that it ends.",
    source="KIP-1228, KAFKA-19446",
)
last_epoch_ends_open = of_leaders(
    "last_epoch_ends_open",
    "4.3",
    sentence="A marker of the largest epoch ends a transaction of that epoch.",
    source="KAFKA-20090",
)
# The client -----------------------------------------------------------------------------------

several_in_flight = of_clients(
    "several_in_flight",
    "1.0",
    sentence="An idempotent client may have five requests in flight. Before, one.",
    source="KAFKA-5494",
)
sequence_used_when_sent = of_clients(
    "sequence_used_when_sent",
    "1.0",
    sentence="A batch that was sent has used its sequence, even if it expires. Before, only an "
    "acknowledged batch had, and the next batch got the sequence of an expired one.",
    source="KAFKA-5494, TransactionManager.markSequenceUnresolved",
)
client_epoch_bump = _feature(
    "client_epoch_bump",
    "2.5",
    parts=(CLIENT, COORDINATOR),
    sentence="A client that lost the order of its sequences continues with a new epoch. Before, "
    "an idempotent one took a new producer id.",
    source="KIP-360",
)
stale_epoch_abortable = of_clients(
    "stale_epoch_abortable",
    "2.7",
    sentence="A leader's INVALID_PRODUCER_EPOCH is abortable for a client. Before, it was fatal.",
    source="KIP-588, TransactionManager.maybeTransitionToErrorState",
)
renumbered_in_order = of_clients(
    "renumbered_in_order",
    "2.3",
    sentence="Batches in flight that start again at sequence 0 keep their order. Before, they got "
    "the order of the heap that holds them.",
    source="KAFKA-8483, KAFKA-8484",
)
old_acks_ignored = of_clients(
    "old_acks_ignored",
    "2.3",
    sentence="An acknowledgement under an old producer id no longer counts. Before, the offset of "
    "such a batch did.",
    source="KAFKA-8483, KAFKA-8484, TransactionManager.handleCompletedBatch",
)
epoch_by_partition = of_clients(
    "epoch_by_partition",
    "2.7",
    sentence="A partition's sequences count under the epoch in which they began, and start again "
    "under a newer one. Before 2.7.1, those of a partition with nothing in flight continued.",
    source="KAFKA-12152",
)
idempotent_starts_at_0 = of_clients(
    "idempotent_starts_at_0",
    None,
    sentence="A producer id that a leader doesn't know starts at sequence 0 without transactions, "
    "too.",
    source="KAFKA-18202, for transactions alone",
)
bump_when_settled = of_clients(
    "bump_when_settled",
    None,
    sentence="An idempotent client's new epoch waits until no batch in flight to the partition "
    "has an unknown outcome.",
    source="KAFKA-14034, a way to fix it",
)
renumbered_under_new_id = of_clients(
    "renumbered_under_new_id",
    None,
    sentence="After the last epoch, batches in flight are renumbered once the new producer id is "
    "there. Releases send them without any.",
    source="TransactionManager.bumpIdempotentProducerEpoch, a way to fix it",
)
unauthorized_abortable = of_clients(
    "unauthorized_abortable",
    "3.6",
    sentence="A client that isn't authorized to get a producer id may ask again. Before, that was "
    "fatal (from 3.6).",
    source="KAFKA-13668",
)
unknown_id_fatal = of_clients(
    "unknown_id_fatal",
    "4.0.0",
    sentence="INVALID_PRODUCER_ID_MAPPING is fatal for a client. From 2.5 on it was abortable.",
    source="KAFKA-18019",
)
commit_may_bump = of_clients(
    "commit_may_bump",
    "4.0.0",
    sentence="A client may ask for a new epoch after a commit, too. Before, its state allowed "
    "that only after an abort.",
    source="KAFKA-18227, TransactionManager.State.isTransitionValid",
)
version_looked_up = of_clients(
    "version_looked_up",
    "4.0.0",
    sentence="A client begins its next transaction with the transaction.version that it last got "
    "from brokers. It checks the version when it is initialized, and at each end.",
    source="TransactionManager.maybeUpdateTransactionV2Enabled",
)
upgrade_bumps_epoch = of_clients(
    "upgrade_bumps_epoch",
    "4.0.0",
    sentence="A client that switches to version 2 takes a new epoch first.",
    source="KAFKA-18227, TransactionManager.maybeUpdateTransactionV2Enabled",
)
failed_abort_fatal = of_clients(
    "failed_abort_fatal",
    "4.1",
    sentence="TRANSACTION_ABORTABLE for an abort is fatal. Before, it was ignored.",
    source="KAFKA-19250",
)
failed_batch_abortable = of_clients(
    "failed_batch_abortable",
    "4.1",
    sentence="A batch that fails with a retriable error or INVALID_TXN_STATE makes its transaction "
    "TRANSACTION_ABORTABLE.",
    source="KAFKA-19176",
)
calls_in_turn = of_clients(
    "calls_in_turn",
    "3.3",
    sentence="After a timeout, only the same call may follow. A call out of turn is an "
    "IllegalStateException. A record is in a batch before its partition is registered.",
    source="KAFKA-13412",
)
failed_send_counts = of_clients(
    "failed_send_counts",
    "3.3",
    sentence="A record that fails before it is in a batch fails its transaction. Before, the "
    "transaction committed without it.",
    source="KAFKA-9279",
)
close_ends = of_clients(
    "close_ends",
    "2.3",
    sentence="A closed client aborts its transaction, and begins no other.",
    source="KAFKA-6635",
)
failed_close_goes_on = of_clients(
    "failed_close_goes_on",
    "3.6",
    sentence="A closed client that can't begin to abort tries again, until the application has "
    "taken the result of its last call. Before, the error ended the sender's thread.",
    source="Sender.run",
)
failed_close_gives_up = of_clients(
    "failed_close_gives_up",
    "3.7",
    sentence="A closed client that can't begin to abort closes by force (3.7.0 goes on).",
    source="Sender.run",
)
aborted_by_name = of_clients(
    "aborted_by_name",
    "2.7",
    sentence="Records that an abort gives up fail with TransactionAbortedException. Before, with "
    "a KafkaException.",
    source="KAFKA-10186",
)
fenced_as_it_is = of_clients(
    "fenced_as_it_is",
    "2.3",
    sentence="Calls of a fenced client raise that error itself. Before 2.3 it was wrapped like "
    "any other.",
    source="TransactionManager.maybeFailWithError",
)
illegal_state_fatal = of_clients(
    "illegal_state_fatal",
    "3.6",
    sentence="A client that attempts an illegal state transition has failed for good. Before, it "
    "stayed as it was.",
    source="KAFKA-14831",
)
late_errors_ignored = of_clients(
    "late_errors_ignored",
    "3.6",
    sentence="An error for a batch that its client has given up changes nothing. Before, it "
    "failed the batch once more, and with it the next transaction.",
    source="KAFKA-14831, Sender.failBatch",
)
acks_need_no_entry = of_clients(
    "acks_need_no_entry",
    "3.7",
    sentence="A client takes an answer without an offset to a batch whose sequences it has "
    "forgotten. Before, its sender raised an error, and the batch waited until it expired.",
    source="TxnPartitionMap.maybeUpdateLastAckedSequence",
)
errors_reported_alike = of_clients(
    "errors_reported_alike",
    "3.6",
    sentence="All requests report INVALID_TXN_STATE and a fenced epoch in the same way. Before, "
    "some wrapped the first, and TxnOffsetCommit passed on INVALID_PRODUCER_EPOCH as it was.",
    source="KAFKA-14278",
)
retried_by_kind = of_clients(
    "retried_by_kind",
    "3.3",
    sentence="A client retries a request to a coordinator after any retriable error, and "
    "CONCURRENT_TRANSACTIONS is one. Before, each request had a list.",
    source="KAFKA-14417",
)
offsets_retried_by_kind = of_clients(
    "offsets_retried_by_kind",
    "3.8",
    sentence="TxnOffsetCommit is also sent again after any retriable error.",
    source="TransactionManager.TxnOffsetCommitHandler",
)
offsets_name_members = of_clients(
    "offsets_name_members",
    "2.5",
    sentence="TxnOffsetCommit names the group's member and generation. Errors about them are "
    "abortable. Before, they were fatal.",
    source="KIP-447",
)
expires_in_flight = of_clients(
    "expires_in_flight",
    "2.1",
    sentence="A batch expires after delivery.timeout.ms, even in flight. Before, only a batch "
    "that had waited for request.timeout.ms to be sent.",
    source="KIP-91",
)
backoff_grows = of_clients(
    "backoff_grows",
    "3.7",
    sentence="A batch that is tried again waits twice as long each time, up to "
    "retry.backoff.max.ms. Before, as long as the first time.",
    source="KIP-580",
)
replica_retriable = of_clients(
    "replica_retriable",
    "2.6",
    sentence="REPLICA_NOT_AVAILABLE is retriable.",
    source="KAFKA-10223",
)
one_way_to_ids = of_clients(
    "one_way_to_ids",
    "2.5",
    sentence="A client without transactional id gets its producer id like the others. Before, in "
    "a loop of its own, which retries after any retriable error.",
    source="KAFKA-7737",
)
transactional = feature(
    "transactional",
    None,
    sentence="The client has a transactional id. Without one it is idempotent only.",
    source="TransactionManager.isTransactional",
)
# Producer ids ---------------------------------------------------------------------------------

controller_hands_out_ids = of_coordinators(
    "controller_hands_out_ids",
    "3.0",
    sentence="The controller gives out blocks of producer ids. Before, brokers took them from "
    "ZooKeeper.",
    source="KIP-730",
)
block_awaited_elsewhere = of_coordinators(
    "block_awaited_elsewhere",
    "3.6",
    sentence="A call that finds no producer id fails at once and is tried again. Before, it "
    "waited.",
    source="RPCProducerIdManager",
)
block_current_once_written = of_coordinators(
    "block_current_once_written",
    "3.0",
    sentence="A block from ZooKeeper is in use once it has been written. Before, from the attempt "
    "on, even if that failed.",
    source="KAFKA-12620",
)
overlap_refused = of_coordinators(
    "overlap_refused",
    "4.3",
    sentence="A block that starts with the last id of the current one is refused, too.",
    source="KAFKA-20031",
)
backoff_left_by_request = of_coordinators(
    "backoff_left_by_request",
    "4.3",
    sentence="A block or a timeout ends a broker's backoff after a failed request for producer "
    "ids. Before, the next request did.",
    source="KAFKA-20058",
)
backoff_ends_with_flag = of_coordinators(
    "backoff_ends_with_flag",
    "4.4",
    sentence="The use of a block ends a broker's backoff, and no longer its arrival.",
    source="KAFKA-20114",
)

all_features = (*_features, *OF_CLIENTS, *OF_REPLICATION, *OF_GROUPS, *PROPOSED)
KAFKA = Protocols(RELEASES, all_features, unreleased=(TRUNK,), unchanged=UNCHANGED, parts=PARTS)
