"""A group's coordinator that starts: it reads the log record by record, then answers requests.

A record that is read and one that is replicated later take the same rows. The log is that of the
new leader: all replicated records, and perhaps some more, which are replicated later.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Optional,
    Row,
    Table,
    all_of,
    constant,
    each,
    element,
    enum,
    event,
    if_,
    sequence_of,
    size,
    some,
)
from ..messages import OFFSET
from ..releases.group_features import (
    completed_by_scheduler,
    former_coordinator_silent,
    group_coordinator_service,
    loaded_once_replicated,
    offsets_in_place_first,
)
from .log import is_replicated, log, replicated, store
from .state import committed, completions, group, n, pending

FAILOVERS = constant(
    "group_failovers", 2, 0, 3, meaning="brokers that take over as the group's coordinator"
)
Load = enum("OffsetsLoad", "LOADED", "READING", "READ")

load = store.field("load", Load, doc="READ: the coordinator has reached the end of the log.")
read = store.field("read", OFFSET, doc="Records that this coordinator has read as it started.")
inherited = store.field(
    "inherited", OFFSET, doc="Records that were in the log before this coordinator."
)
fetched = store.field(
    "fetched", Optional(OFFSET), doc="The newest record that OffsetFetch has returned."
)
deferred = store.field(
    "deferred",
    Optional(OFFSET),
    doc="The place of the first write that the former coordinator has yet to answer. The log has "
    "lost its record.",
)
answered_without_record = store.field(
    "answered_without_record",
    Bool(),
    doc="The former coordinator has completed a write whose record the log has lost.",
)

is_loaded = load == Load.LOADED
is_reading = load == Load.READING
takes_markers = is_loaded | ~group_coordinator_service
"""Whether a marker is appended. Before 4.0 the partition's leader doesn't wait for the coordinator;
from 4.0 on it answers NOT_LEADER_OR_FOLLOWER."""


def counts(item: Expression) -> Expression:
    """Whether the coordinator answers by a record: it is replicated, or was read before 4.0."""
    return is_replicated(item) | (~loaded_once_replicated & (item.place < read))


def is_heard(item: Expression) -> Expression:
    """Whether a record that is replicated now is one that a coordinator hears of then: its own, or
    one that it has only read."""
    return ~is_replicated(item) & (loaded_once_replicated | (item.place >= inherited))


def is_read(item: Expression) -> Expression:
    """Whether a starting coordinator reads this record now."""
    return is_reading & (item.place == read) & (~loaded_once_replicated | is_replicated(item))


hears_while_loading = ~loaded_once_replicated & (~completed_by_scheduler | ~offsets_in_place_first)
"""Whether the coordinator handles a marker that is replicated while the log is read. From 3.9.1 on
the marker's answer waits for the thread that reads."""

former_completes_writes = group_coordinator_service & ~former_coordinator_silent
"""Whether a coordinator that has lost its partition completes deferred writes by the high watermark
of the next leader's log."""

# Another broker -------------------------------------------------------------------------------

fail_over = event(
    "group coordinator failover",
    kept=OFFSET,
    event_doc="Another broker leads the partition. It has `kept` of its records.",
)
entry = element("e", log)
fails_over = Table(
    store,
    on=fail_over,
    others=(group,),
    when=(fail_over.kept <= size(log))
    & all_of(entry, is_replicated(entry).implies(entry.place < fail_over.kept)),
    rows=(
        Row(
            "begin-loading",
            "The next broker begins to read the log",
            set={
                log: log[: fail_over.kept],
                inherited: fail_over.kept,
                read: 0,
                load: Load.READING,
                committed: None,
                pending: each(n, None),
                completions: sequence_of(),
                deferred: if_(
                    former_completes_writes & (fail_over.kept < size(log)),
                    some(fail_over.kept),
                    None,
                ),
            },
            source="GroupMetadataManager.scheduleLoadGroupAndOffsets, "
            "CoordinatorRuntime.scheduleLoadOperation",
        ),
    ),
)
read_on = event("read on", event_doc="The coordinator takes the next step of its load.")
reads_on = Table(
    store,
    on=read_on,
    when=is_reading,
    rows=(
        Row(
            "end-of-log",
            "The coordinator has read all records",
            when=read == size(log),
            set={load: Load.READ},
            source="GroupMetadataManager.doLoadGroupsAndOffsets, CoordinatorLoaderImpl",
        ),
        Row(
            "not-replicated",
            "The record isn't replicated yet, and is replayed once it is",
            when=loaded_once_replicated & ~read.is_in(replicated),
            set={read: read + 1},
            source="CoordinatorRuntime.CoordinatorContext.updateLastCommittedOffset",
        ),
    ),
)
register = event("loaded", event_doc="Requests see what was read.")
loads = Table(
    store,
    on=register,
    rows=(
        Row(
            "loaded",
            "The coordinator answers from now on",
            when=load == Load.READ,
            set={load: Load.LOADED},
            source="GroupMetadataManager.loadGroup, CoordinatorRuntime.CoordinatorContext",
        ),
    ),
)

pass_high_watermark = event(
    "high watermark passed to the former coordinator",
    event_doc="The former coordinator's broker follows the next leader.",
)
deferred_writes_completed = Table(
    store,
    on=pass_high_watermark,
    when=deferred.is_set
    & (size(log) > deferred.value)
    & all_of(entry, (entry.place <= deferred.value).implies(is_replicated(entry))),
    during=former_completes_writes,
    rows=(
        Row(
            "complete-deferred-write",
            "The former coordinator answers a write whose record is lost, as the high watermark "
            "has passed its place",
            set={deferred: None, answered_without_record: True},
            source="KAFKA-20634, CoordinatorRuntime.HighWatermarkListener.onHighWatermarkUpdated",
        ),
    ),
)
unload = event("former coordinator unloaded")
unloads = Table(
    store,
    on=unload,
    when=deferred.is_set,
    during=former_completes_writes,
    rows=(
        Row(
            "fail-deferred-writes",
            "The former coordinator answers NOT_COORDINATOR to the writes that it has deferred",
            set={deferred: None},
            source="CoordinatorRuntime.CoordinatorContext.unload",
        ),
    ),
)
