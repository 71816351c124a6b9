"""Which property notices that one of Kafka's rules is missing, and which rules none notices.

A rule is a feature of a release. Each was switched off at the release that introduced it, and at
the newest one, in every system that has it, in default bounds (`transactions` with one partition).
Properties of progress were looked at for most rules of `transactions`, `idempotence` and `calls`.
The fixes of the gallery (`bugs/`) are noticed by the property of their bug; `WATCHED` has the
others. `UNWATCHED` has the rest with a reason. It should get shorter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...language import DEFAULT


@dataclass(frozen=True)
class Watched:
    """A rule, and the property (of states, steps or progress) of a system that breaks without it at
    a release."""

    feature: str
    system: str
    release: str
    property: str
    constants: Mapping[str, int] = field(default_factory=dict[str, int])
    bounds: str = DEFAULT


@dataclass(frozen=True)
class Unwatched:
    """Rules that no property notices, and why: what would have to be in a state or around the
    machines. `has_system`: whether a system has their rows; else the oracle alone runs them, and
    its tests notice."""

    reason: str
    features: tuple[str, ...]
    has_system: bool = True


WATCHED: Final = (
    Watched(
        "two_phase_commit", "transactions+two-phase-commit", "4.1", "PreparedStands",
        {"partitions": 1},
    ),
    Watched("followers_only_warn", "exactly-once", "2.4", "Atomic"),
    Watched("offsets_verified", "exactly-once", "4.4", "NoHangingTransaction"),
    Watched("ongoing_by_epoch", "exactly-once", "4.0.0", "NoneSkipped"),
    Watched("calls_in_turn", "calls", "3.3", "AskedOnce"),
    Watched("illegal_state_fatal", "calls", "4.4", "LostAnswerIsFatal", bounds="small"),
    Watched("truncated_by_epoch", "delivery", "0.11.0.0", "NoSilentLoss"),
    Watched("epoch_asked_again", "replication", "2.0", "FollowerInLine"),
    Watched("isr_from_epoch_start", "replication", "2.0", "AcknowledgedKept"),
    Watched("leader_epoch_checked", "replication", "2.1", "ReplicasAgree"),
    Watched("high_watermark_waits", "replication", "4.4", "ConsumedKept"),
    Watched("members_fenced", "membership", "2.5", "FencedInstanceRefused"),
    Watched("refused_offset_harmless", "group-offsets", "4.0.0", "TransactionKept"),
    Watched("loaded_once_replicated", "group-offsets", "4.0.0", "FetchedKept"),
    Watched("instances_needed", "membership", "3.0", "OnlyMembersCommit"),
    Watched("static_restart_rebalances", "membership", "2.5", "LeaderIsTold"),
    Watched("close_ends", "calls", "2.3", "ClosedBeginsNothing", bounds="small"),
    Watched("commit_may_bump", "calls", "4.0.0", "EndIsAllowed", bounds="small"),
)  # fmt: skip

UNWATCHED: Final = (
    # the oracle alone has their rows, and its tests notice
    Unwatched(
        "how long a call or a batch waits: no system has a time by which a wait is too long",
        ("backoff_grows", "init_waits_so_long", "end_waits_so_long", "offsets_wait_so_long"),
        has_system=False,
    ),
    Unwatched(
        "which exception the application gets, or its text: no application of a system reads it",
        ("aborted_by_name", "exhausted_by_name", "request_limit_named"),
        has_system=False,
    ),
    Unwatched(
        "what a client measures: nothing that it does depends on a metric",
        (
            "totals_measured", "none_is_no_number", "blocked_time_measured",
            "metadata_wait_measured", "overlapping_samples", "prepare_measured",
            "no_deprecated_totals",
        ),
        has_system=False,
    ),
    Unwatched(
        "a client's memory: to notice, a batch would need bytes that another one may overwrite, "
        "or that a send waits for",
        ("close_wakes", "memory_kept_in_flight"),
        has_system=False,
    ),
    Unwatched(
        "a batch that fails after its client has given it up: there a batch is forgotten then",
        ("late_errors_ignored", "acks_need_no_entry"),
        has_system=False,
    ),
    Unwatched(
        "needs a disk that fails under a leader just as it writes a marker: leaders only change",
        ("storage_error_retried",),
        has_system=False,
    ),
    Unwatched(
        "needs two transactional ids, one of which has no first record: systems have one id",
        ("unused_id_expires",),
        has_system=False,
    ),
    Unwatched(
        "needs a group whose members read the assignment in an answer: groups assign nothing here",
        ("assignments_skipped",),
        has_system=False,
    ),
    Unwatched(
        "a field of Fetch's answer that a read_uncommitted consumer doesn't read",
        ("stable_offset_for_all",),
        has_system=False,
    ),
    # an answer has another name
    Unwatched(
        "a coordinator's two errors for a fenced client: both end the client, and write nothing",
        ("producer_fenced_error",),
    ),
    Unwatched(
        "two errors for a batch that is refused either way; a client tells them apart only where "
        "records were deleted (deletions=1), and then may fail or go on",
        ("unknown_producer_error", "unknown_sequence_error"),
    ),
    Unwatched(
        "two errors that one client retries alike",
        ("offset_errors_unchanged", "load_in_progress_error"),
    ),
    Unwatched(
        "needs a client older than its brokers, which knows one of two errors only; in "
        "`exactly-once` the client and the group's coordinator have one release",
        ("load_error_known", "load_error_spared"),
    ),
    Unwatched(
        "how a client that can't begin to abort closes: either way it begins nothing, and ends",
        ("failed_close_goes_on", "failed_close_gives_up"),
    ),
    Unwatched(
        "the fenced error or a KafkaException with it as its cause: applications of `calls` go on "
        "after either",
        ("fenced_as_it_is", "errors_reported_alike"),
    ),
    Unwatched(
        "an error that no broker of `calls` answers with: ERROR_CODES would have to be larger",
        ("replica_retriable",),
    ),
    Unwatched(
        "which of two errors is answered if both apply: refused, with nothing written, either way",
        ("pending_first", "stale_epoch_first", "stale_answer_first", "rebalance_checked_last"),
    ),
    Unwatched(
        "the answer to a member that asks in time or a moment later: members of `membership` ask "
        "for anything at any time, whatever they were answered",
        ("heartbeats_while_completing", "empty_groups_first"),
    ),
    # a state that no run reaches
    Unwatched(
        "needs an EndTxn with a later epoch than the coordinator's: a coordinator answers with an "
        "epoch only once its record is replicated, so that no failover goes behind it",
        ("exact_end_epoch", "strict_end_txn_epoch"),
    ),
    Unwatched(
        "needs producer.id.expiration.ms to pass behind a marker while an older request is still "
        "on its way: systems have no clock, and an idle producer is one whose batches are done",
        ("marker_is_use",),
    ),
    Unwatched(
        "needs a leader that has forgotten a producer of version 2 in the middle of its epoch: "
        "with version 2 each transaction begins at sequence 0",
        ("no_start_in_mid_sequence",),
    ),
    Unwatched(
        "needs a batch with the largest epoch, which a client gets by a downgrade of "
        "transaction.version alone (finding 10): then its coordinator gives the marker up, and "
        "progress, which this breaks, breaks by the downgrade as well",
        ("last_epoch_ends_open",),
    ),
    Unwatched(
        "needs a second producer id while batches of the first are in flight and records are "
        "deleted: the last acknowledged offset is read only by a client that is told "
        "UNKNOWN_PRODUCER_ID",
        ("old_acks_ignored",),
    ),
    Unwatched(
        "needs a controller that gives out a block which begins with the last id of another one: "
        "here it counts on by whole blocks, also after a failover",
        ("overlap_refused",),
    ),
    Unwatched(
        "needs min.insync.replicas above the number of replicas: `check` refuses such constants "
        "without it, as every append would be refused",
        ("min_isr_capped",),
    ),
    Unwatched("needs a client that names an empty group", ("group_ids_checked",)),
    Unwatched(
        "needs members with different protocols: that another one would be chosen is a free "
        "parameter of JoinGroup",
        ("static_protocols_compared",),
    ),
    Unwatched(
        "needs a client of a generation that finds its group deleted: then the commit is refused "
        "or makes a group that has no members, and nobody's offset is lost by it",
        ("group_coordinator_service",),
    ),
    Unwatched(
        "needs a transaction.version that changes while a client is running; in "
        "`transactions+upgrade`, where it does, brokers take the version that a client has kept",
        ("version_looked_up",),
    ),
    Unwatched(
        "needs a client without transactional id in `calls`, whose properties are about those "
        "with one",
        ("one_way_to_ids",),
    ),
    # a state has too little
    Unwatched(
        "a transaction that begins and ends with its marker: it has no record, and its entry in "
        "the index of aborted transactions says nothing of any",
        ("empty_marker_ends_nothing",),
    ),
    Unwatched(
        "an id that is kept longer is compared with less: to notice, a client of the previous id "
        "would have to come back after it was told the next one",
        ("previous_id_forgotten",),
    ),
    Unwatched(
        "whether a client goes on, aborts or fails for good after an error: to forbid one of "
        "these, a state would need the error that was answered, and has the exception that the "
        "client made of it",
        (
            "abortable_error", "unauthorized_abortable", "failed_abort_fatal",
            "failed_batch_abortable", "retried_by_kind", "offsets_retried_by_kind",
            "load_error_retried", "offsets_name_members", "offsets_by_topic_id",
        ),
    ),
    Unwatched(
        "a record that fails before it is in a batch: to notice that a commit lacks it, a state "
        "would need such records",
        ("failed_send_counts",),
    ),
    # a client does less without it
    Unwatched(
        "without it a client does less: its runs are among those with it",
        ("several_in_flight", "expires_in_flight"),
    ),
    Unwatched(
        "NoDuplicate and Order break at its release with it as well, which hides what it adds",
        ("sequence_used_when_sent", "epoch_by_partition"),
    ),
    Unwatched(
        "another way to the same guarantee: the properties hold in both",
        ("controller_hands_out_ids", "static_members", "member_ids_required"),
    ),
    Unwatched(
        "a bounded run has one time, in which every backoff is over",
        ("backoff_left_by_request", "backoff_ends_with_flag"),
    ),
    Unwatched(
        "needs two threads with a lock each: a row is one step, so that no two wait for each other",
        ("completed_by_scheduler",),
    ),
)  # fmt: skip
