"""Properties of the offsets that a group commits, with transactions and without."""

from __future__ import annotations

from ....language import (
    Expression,
    KnownBug,
    after,
    all_of,
    any_of,
    element,
    failure,
    if_,
    invariant,
    max_of,
    size,
    some,
    step_property,
)
from ...groups.coordinator_load import answered_without_record, counts, fetched, is_loaded
from ...groups.log import Kind, ending, log
from ...groups.offsets.offset_storage import fetched_unstable
from ...groups.state import committed, completions, n, pending
from ...releases.group_features import (
    completed_by_scheduler,
    former_coordinator_silent,
    group_coordinator_service,
    loaded_once_replicated,
    offsets_in_place_first,
    refused_offset_harmless,
    stable_offsets,
)

item = element("e", log)
marker = ending(item)
is_own = (item.kind == Kind.OFFSET) & counts(item)
is_committed = (
    (item.kind == Kind.TRANSACTION_OFFSET) & marker.is_set & (marker.value.kind == Kind.COMMIT)
)
has_ended = is_committed & counts(marker.value)
_MENDED = offsets_in_place_first, refused_offset_harmless, loaded_once_replicated


def _is_fetched(entry: Expression) -> Expression:
    """Whether OffsetFetch returns this record, or a later one."""
    return committed.is_set & (committed.value.appended.value >= entry.place)


committed_kept = invariant(
    "CommittedKept",
    is_loaded.implies(all_of(item, is_own.implies(_is_fetched(item)))),
    "OffsetFetch returns an offset that a member has committed, or a later one.",
    "GroupMetadata.onOffsetCommitAppend, OffsetMetadataManager.replay",
    failure=failure(
        "a member has committed offset {} at place {}, and OffsetFetch returns an older one",
        item.offset,
        item.place,
    ),
)
transaction_kept = invariant(
    "TransactionKept",
    (is_loaded & (size(completions) == 0)).implies(
        all_of(item, has_ended.implies(_is_fetched(item)))
    ),
    "OffsetFetch returns the offset of a committed transaction, or a later one, once the "
    "coordinator has processed the marker.",
    "GroupMetadata.completePendingTxnOffsetCommit, OffsetMetadataManager.replay",
    KnownBug(
        "finding 16: a refused offset takes along the one that is pending; KAFKA-17507; before "
        "KAFKA-6917 a marker that came while the log was read",
        _MENDED,
        ~refused_offset_harmless,
    ),
    failure=failure(
        "a transaction has committed offset {} at place {}, and OffsetFetch returns an older one",
        item.offset,
        item.place,
    ),
)
in_place_first = invariant(
    "InPlaceOnceEnded",
    is_loaded.implies(all_of(item, has_ended.implies(_is_fetched(item)))),
    "Once a marker is replicated, its offsets are in place.",
    "KAFKA-17507, KafkaApis.handleWriteTxnMarkersRequest",
    KnownBug(
        "KAFKA-17507, mended in 3.9.1, finding 16, and before KAFKA-6917 a marker that came while "
        "the log was read",
        _MENDED,
        ~refused_offset_harmless,
    ),
    failure=failure(
        "the marker of offset {} at place {} is replicated, and OffsetFetch returns an older one",
        item.offset,
        item.place,
    ),
)
fetched_is_committed = invariant(
    "FetchedIsCommitted",
    (is_loaded & committed.is_set).implies(
        any_of(
            item,
            (item.place == committed.value.appended.value)
            & (item.offset == committed.value.offset)
            & (is_own | has_ended),
        )
    ),
    "OffsetFetch returns only what was committed, and nothing of an open or aborted transaction.",
    "OffsetMetadataManager.fetchOffsets, GroupMetadataManager.getOffsets",
    KnownBug(
        "KAFKA-17507, mended in 3.9.1: a late thread commits the next transaction's offset",
        (offsets_in_place_first,),
        completed_by_scheduler & ~offsets_in_place_first,
    ),
    failure=failure(
        "OffsetFetch returns {}, which no committed record of the log has", committed.value.offset
    ),
)
forward = step_property(
    "OffsetsForward",
    (is_loaded & after(is_loaded) & committed.is_set).implies(
        after(committed.is_set)
        & (after(committed.value.appended.value) >= committed.value.appended.value)
    ),
    "An offset is replaced only by one that is further on in the log.",
    "GroupMetadata.onOffsetCommitAppend, completePendingTxnOffsetCommit",
    failure=failure(
        "the offset of place {} is replaced by that of {}",
        committed.value.appended,
        after(committed.value.appended),
    ),
)
stable_fetch = invariant(
    "StableFetch",
    ~fetched_unstable,
    "A request for a stable offset gets none while a transaction has one pending.",
    "KIP-447, UNSTABLE_OFFSET_COMMIT",
    KnownBug(
        "before 2.5 nobody could ask so; finding 16; KAFKA-17507",
        (stable_offsets, refused_offset_harmless, offsets_in_place_first),
        ~refused_offset_harmless,
    ),
    failure=failure(
        "a request for a stable offset gets {}, and a transaction has one pending", committed
    ),
)

fetched_kept = invariant(
    "FetchedKept",
    (is_loaded & fetched.is_set).implies(
        committed.is_set & (committed.value.appended.value >= fetched.value)
    ),
    "The next coordinator also knows each offset that OffsetFetch has returned.",
    "GroupMetadataManager.doLoadGroupsAndOffsets, CoordinatorLoaderImpl",
    KnownBug(
        "before 4.0 a coordinator returns what it has read, replicated or not; KAFKA-17507",
        (loaded_once_replicated, offsets_in_place_first),
        ~loaded_once_replicated,
    ),
    failure=failure(
        "OffsetFetch has returned the offset of place {}, and the coordinator has {}",
        fetched,
        committed,
    ),
)

answered_kept = invariant(
    "AnsweredKept",
    ~answered_without_record,
    "A commit is answered NONE only if its record is in the log.",
    "KAFKA-20634, CoordinatorRuntime.HighWatermarkListener.onHighWatermarkUpdated",
    KnownBug(
        "KAFKA-20634: a coordinator that has lost its partition completes deferred writes by the "
        "next leader's high watermark",
        (former_coordinator_silent,),
        group_coordinator_service & ~former_coordinator_silent,
    ),
    failure=failure(
        "a commit is answered, and the log has no record of it; memory has {}", committed
    ),
)

is_written = is_own | has_ended
newest = max_of(item, if_(is_written, item.place + 1, 0), default=0)
pends = (
    (item.kind == Kind.TRANSACTION_OFFSET) & counts(item) & ~(marker.is_set & counts(marker.value))
)
newest_pending = max_of(
    item, if_(pends & (item.producer_id == some(n)), item.place + 1, 0), default=0
)
memory_is_replay = invariant(
    "MemoryIsReplay",
    ~answered_without_record
    & (is_loaded & (size(completions) == 0)).implies(
        (if_(committed.is_set, committed.value.appended.value + 1, 0) == newest)
        & all_of(
            n, if_(pending[n].is_set, pending[n].value.appended.value + 1, 0) == newest_pending
        )
    ),
    "The offsets in a coordinator's memory, committed and pending, are those of a replay of its "
    "log.",
    "OffsetMetadataManager.replay, GroupMetadataManager.doLoadGroupsAndOffsets",
    KnownBug(
        "KAFKA-20634; before 4.0 finding 16; KAFKA-17507; before KAFKA-6917 a marker that came "
        "while the log was read",
        (former_coordinator_silent, *_MENDED),
        ~(refused_offset_harmless & former_coordinator_silent),
    ),
    failure=failure("memory has {} and pending {}, and the log another offset", committed, pending),
)

PROPERTIES = (
    committed_kept, transaction_kept, in_place_first, fetched_is_committed, fetched_kept, forward,
    stable_fetch, answered_kept, memory_is_replay,
)  # fmt: skip
