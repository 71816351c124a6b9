"""A share group with `share.isolation.level` read_committed (KIP-932): the broker drops the aborted
records, and members get the others.

The broker fetches for the group, up to the last stable offset, and gets the list of aborted
transactions as a consumer does (`reader`). In one step it acquires the fetched records for a member
and archives the aborted ones. A member acknowledges a record. If it releases it, leaves, or is too
slow, the record waits for another member. A new leader knows the acknowledged records alone, which
are written to `__share_group_state`.
"""

from __future__ import annotations

from ....language import (
    Change,
    Expression,
    Machine,
    Row,
    Set,
    Table,
    all_of,
    any_of,
    constant,
    element,
    event,
    failure,
    feature,
    first_of,
    if_,
    invariant,
    last,
    set_of,
    size,
    those,
    variable,
)
from ...leader.state import Kind
from ...reading import state as reading
from ...reading.state import ENTRIES, OFFSET, PARTIAL_CLEANINGS, TRANSACTION

share_isolation_level = feature(
    "share_isolation_level",
    "4.1",
    sentence="A share group has an isolation level. Before, share groups (early access in 4.0) "
    "read up to the high watermark.",
    source="KAFKA-16729, DelayedShareFetch, share.isolation.level",
)
aborted_archived = feature(
    "aborted_archived",
    "4.1",
    sentence="For a share group with read_committed the broker archives the records of aborted "
    "transactions as it acquires the others for a member.",
    source="KAFKA-16729, SharePartition.filterAbortedTransactionalAcquiredRecords",
)
RETURNS = constant(
    "returns", 1, 0, 2, meaning="records that a member releases, or whose lock times out"
)

share = Machine("share_partition", doc="The records of the partition, as a share group has them.")
end_offset = share.field("end_offset", OFFSET, doc="Records below it were acquired before.")
available = share.field("available", Set(OFFSET), doc="Those that wait for another member.")
acquired = share.field("acquired", Set(OFFSET), doc="Those that a member has.")
acknowledged = share.field("acknowledged", Set(OFFSET))
archived = share.field("archived", Set(OFFSET), doc="Those that no member gets.")

_o, _t = variable("o", OFFSET), variable("t", TRANSACTION)
stored, ahead = element("stored", reading.log), element("ahead", reading.log)


def next_fetch_offset(available: Expression, end: Expression) -> Expression:
    """The first record that waits for another member, as far as the cleaner has left it, or the end
    of those that were acquired (SharePartition.nextFetchOffset)."""
    waiting = first_of(ahead, ahead.offset.is_in(available))
    return if_(waiting.is_set, waiting.value.offset, end)


# A fetch is acquired ------------------------------------------------------------------------------

acquire = event(
    "records are acquired", event_doc="What was fetched goes to a member, aborted records aside."
)
batch, other = element("batch", reading.batches), element("other", reading.batches)
listed = element("listed", reading.aborted_transactions)
is_free = (batch.kind == Kind.DATA) & ((batch.offset >= end_offset) | batch.offset.is_in(available))
# from the first offset in the list up to the next abort marker of the producer id
is_aborted = any_of(
    listed,
    (listed.producer_id == batch.producer_id)
    & (listed.offset <= batch.offset)
    & ~any_of(
        other,
        (other.kind == Kind.ABORT)
        & (other.producer_id == batch.producer_id)
        & (other.offset > listed.offset)
        & (other.offset < batch.offset),
    ),
)
found = those(_o, any_of(batch, is_free & (batch.offset == _o)))
dropped = those(_o, any_of(batch, is_free & is_aborted & (batch.offset == _o)))
given = those(_o, any_of(batch, is_free & ~is_aborted & (batch.offset == _o)))
end_of_fetch = last(reading.batches).value.offset + 1
end_after = if_(end_offset < end_of_fetch, end_of_fetch, end_offset)
_OVER = {field: field[size(field) :] for field in (reading.batches, reading.aborted_transactions)}
acquires = Table(
    share,
    on=acquire,
    others=(reading.fetcher, reading.store),
    when=size(reading.batches) > 0,
    set={
        **_OVER,
        end_offset: end_after,
        available: available - found,
        reading.next_offset: next_fetch_offset(available - found, end_after),
    },
    rows=(
        Row(
            "archive-aborted",
            "A member gets the records, and the broker archives those of aborted transactions",
            when=size(reading.aborted_transactions) > 0,
            set={
                acquired: acquired | given,
                archived: archived | dropped,
                reading.delivered: reading.delivered
                | those(_t, any_of(batch, is_free & ~is_aborted & (batch.transaction == _t))),
                reading.dropped: reading.dropped
                | those(_t, any_of(batch, is_free & is_aborted & (batch.transaction == _t))),
            },
            during=aborted_archived,
            source="SharePartition.filterAbortedTransactionalAcquiredRecords, archiveRecords",
        ),
        Row(
            "acquire",
            "A member gets the records",
            set={
                acquired: acquired | found,
                reading.delivered: reading.delivered
                | those(_t, any_of(batch, is_free & (batch.transaction == _t))),
            },
            source="SharePartition.acquire",
        ),
    ),
)

# Members ------------------------------------------------------------------------------------------

acknowledge = event("a record is acknowledged", offset=OFFSET)
acknowledges = Table(
    share,
    on=acknowledge,
    when=acknowledge.offset.is_in(acquired),
    rows=(
        Row(
            "accept",
            "The record is done",
            set={
                acquired: acquired - set_of(acknowledge.offset),
                acknowledged: acknowledged | set_of(acknowledge.offset),
            },
            source="SharePartition.acknowledge",
        ),
    ),
)

release = event("a record is released", offset=OFFSET)
freed = release.offset
releases = Table(
    share,
    on=release,
    others=(reading.fetcher,),
    when=freed.is_in(acquired),
    rows=(
        Row(
            "release",
            "The record waits for another member",
            set={
                acquired: acquired - set_of(freed),
                available: available | set_of(freed),
                reading.next_offset: if_(freed < reading.next_offset, freed, reading.next_offset),
            },
            source="SharePartition.releaseAcquiredRecords, releaseAcquisitionLockOnTimeout",
        ),
    ),
)

# Another leader -----------------------------------------------------------------------------------

is_known = (stored.kind == Kind.DATA) & (stored.offset < end_offset)
unfinished = those(_o, any_of(stored, is_known & (stored.offset == _o) & ~_o.is_in(acknowledged)))

# What must hold -----------------------------------------------------------------------------------

is_accounted = (
    stored.offset.is_in(available)
    | stored.offset.is_in(acquired)
    | stored.offset.is_in(acknowledged)
)
none_lost = invariant(
    "NoneLost",
    all_of(
        stored,
        ((stored.kind == Kind.DATA) & (stored.offset < end_offset)).implies(
            is_accounted | ~stored.transaction.is_in(reading.committed)
        ),
    ),
    "A share group has each record of a committed transaction below its end offset: it waits, or "
    "a member has it, or it is acknowledged.",
    "KIP-932",
    failure=failure(
        "below offset {} a record of a committed transaction is neither with a member nor to come",
        end_offset,
    ),
)
acknowledged_once = invariant(
    "AcknowledgedOnce",
    all_of(_o, ~(_o.is_in(acknowledged) & (_o.is_in(acquired) | _o.is_in(available)))),
    "No acknowledged record is given to a member again.",
    "KIP-932",
    failure=failure("these offsets are acknowledged: {}; offset {} comes again", acknowledged, _o),
)

share_group = (
    Change(
        "share",
        "A share group with read_committed reads it in place of a consumer.",
        tables=(acquires, acknowledges, releases),
        features=(share_isolation_level, aborted_archived),
        constants=(RETURNS,),
        fixed={PARTIAL_CLEANINGS: 0},
        budgets={release: RETURNS},
        properties=(none_lost, acknowledged_once),
        bounds={ENTRIES: 4},
    )
    .without_tables("fetcher.next batch", "store.clean in part")
    .table("fetcher.fetch begins")
    .before(
        "first-unstable-offset",
        Row(
            "read-uncommitted",
            "The fetch reads up to the high watermark",
            set={reading.fetching: True, reading.limit: None},
            during=~share_isolation_level,
            source="DelayedShareFetch before 4.1",
        ),
    )
    .table("store.another leader")
    .also(
        set={
            **_OVER,
            reading.fetching: False,
            reading.limit: None,
            acquired: set_of(),
            archived: set_of(),
            available: unfinished,
            reading.next_offset: next_fetch_offset(unfinished, end_offset),
        }
    )
)
