"""A group's coordinator that starts: it reads the log record by record, then answers requests.

A record that is read and one that is replicated later take the same rows. The log is that of the
new leader: all replicated records, and perhaps some more, which are replicated later.
"""

from __future__ import annotations

from ...language import (
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
    sequence_of,
    size,
)
from ..messages import OFFSET
from ..releases.group_features import (
    completed_by_scheduler,
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

# Another broker -------------------------------------------------------------------------------

fail_over = event(
    "group coordinator failover", kept=OFFSET,
    event_doc="Another broker leads the partition. It has `kept` of its records.",
)  # fmt: skip
_e = element("e", log)
fails_over = Table(
    store,
    on=fail_over,
    others=(group,),
    when=(fail_over.kept <= size(log))
    & all_of(_e, is_replicated(_e).implies(_e.place < fail_over.kept)),
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
