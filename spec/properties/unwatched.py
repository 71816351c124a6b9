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
    """Rules that no property notices, and why."""

    reason: str
    features: tuple[str, ...]


WATCHED: Final = (
    Watched(
        "two_phase_commit", "transactions+two-phase-commit", "4.1", "PreparedStands",
        {"partitions": 1},
    ),
    Watched("followers_only_warn", "exactly-once", "2.4", "Atomic"),
    Watched("offsets_verified", "exactly-once", "4.4", "NoHangingTransaction"),
    Watched("ongoing_by_epoch", "exactly-once", "4.0.0", "NoneSkipped"),
    Watched("calls_in_turn", "calls", "3.3", "AskedOnce"),
    Watched("illegal_state_fatal", "calls", "4.4", "CloseEnds", bounds="small"),
    Watched("truncated_by_epoch", "delivery", "0.11.0.0", "NoSilentLoss"),
    Watched("epoch_asked_again", "replication", "2.0", "FollowerInLine"),
    Watched("isr_from_epoch_start", "replication", "2.0", "AcknowledgedKept"),
    Watched("leader_epoch_checked", "replication", "2.1", "ReplicasAgree"),
    Watched("high_watermark_waits", "replication", "4.4", "ConsumedKept"),
    Watched("members_fenced", "membership", "2.5", "FencedInstanceRefused"),
    Watched("refused_offset_harmless", "group-offsets", "4.0.0", "TransactionKept"),
    Watched("loaded_once_replicated", "group-offsets", "4.0.0", "FetchedKept"),
    Watched("instances_needed", "membership", "3.0", "OnlyMembersCommit"),
)  # fmt: skip

NO_SYSTEM: Final = "no system has its rows: the oracle runs them, and tests of the oracle notice"
UNWATCHED: Final = (
    Unwatched(
        NO_SYSTEM,
        (
            "storage_error_retried", "unused_id_expires", "aborted_by_name", "backoff_grows",
            "init_waits_so_long", "end_waits_so_long", "offsets_wait_so_long",
            "request_limit_named", "close_wakes", "exhausted_by_name", "memory_kept_in_flight",
            "totals_measured", "none_is_no_number", "blocked_time_measured",
            "metadata_wait_measured", "overlapping_samples", "prepare_measured",
            "no_deprecated_totals", "assignments_skipped", "stable_offset_for_all",
        ),
    ),
    Unwatched(
        "no state differs without it: an answer has another name, and whoever gets it acts alike",
        (
            "producer_fenced_error", "unknown_sequence_error", "offset_errors_unchanged",
            "fenced_as_it_is", "load_in_progress_error", "replica_retriable",
            "rebalance_checked_last", "load_error_known", "load_error_spared",
        ),
    ),
    Unwatched(
        "no state differs without it: it needs more faults, or clients that no system has",
        (
            "exact_end_epoch", "strict_end_txn_epoch", "marker_is_use",
            "empty_marker_ends_nothing", "no_start_in_mid_sequence", "last_epoch_ends_open",
            "old_acks_ignored", "late_errors_ignored", "one_way_to_ids", "overlap_refused",
            "min_isr_capped", "group_ids_checked",
            "static_restart_rebalances", "static_protocols_compared", "heartbeats_while_completing",
            "empty_groups_first", "load_error_retried",
        ),
    ),
    Unwatched(
        "another error, or the same error at another moment: nothing is written in either way",
        (
            "pending_first", "previous_id_forgotten", "stale_epoch_first", "stale_answer_first",
            "unknown_producer_error",
        ),
    ),
    Unwatched(
        "it decides whether a client goes on, aborts or fails; no property asks for one of these",
        (
            "abortable_error", "unauthorized_abortable", "failed_abort_fatal",
            "failed_batch_abortable", "errors_reported_alike",
            "retried_by_kind", "offsets_retried_by_kind", "commit_may_bump", "version_looked_up",
            "failed_send_counts", "close_ends",
        ),
    ),
    Unwatched(
        "idempotence breaks the same properties with it (findings 1 and 7), which hides the rest",
        (
            "several_in_flight", "sequence_used_when_sent", "epoch_by_partition",
            "expires_in_flight",
        ),
    ),
    Unwatched(
        "another way to the same guarantee: the properties hold in both",
        (
            "controller_hands_out_ids", "group_coordinator_service", "static_members",
            "member_ids_required", "offsets_name_members", "offsets_by_topic_id",
        ),
    ),
    Unwatched(
        "a bounded run has one time, in which every backoff is over",
        ("backoff_left_by_request", "backoff_ends_with_flag"),
    ),
    Unwatched(
        "the fault that it mends is a deadlock of threads, which no system has",
        ("completed_by_scheduler",),
    ),
)  # fmt: skip
