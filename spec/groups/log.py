"""The partition of `__consumer_offsets` that a group's offsets are in: records, markers, and which
are replicated.

Those of different producers are replicated in any order, which is more than can happen.
"""

from __future__ import annotations

from ...language import (
    Expression,
    Machine,
    Optional,
    Sequence,
    Set,
    constant,
    element,
    enum,
    first_of,
    record,
)
from ..messages import OFFSET, PRODUCER_ID
from .state import COMMITTED_OFFSET

RECORDS = constant("offset_records", 4, 1, 6, meaning="offsets and markers that are appended")

Kind = enum("OffsetKind", "OFFSET", "TRANSACTION_OFFSET", "COMMIT", "ABORT")
Stored = record(
    "StoredOffset",
    kind=Kind,
    place=OFFSET,
    offset=COMMITTED_OFFSET,
    producer_id=Optional(PRODUCER_ID),
)

store = Machine("offsets", doc="The partition of __consumer_offsets, as its leader has it.")
log = store.field("log", Sequence(Stored, RECORDS), doc="Without the group's own records.")
replicated = store.field("replicated", Set(OFFSET), doc="The records that are.")

later = element("f", log)


def _ends(item: Expression) -> Expression:
    return item.kind.is_in(Kind.COMMIT, Kind.ABORT)


def ending(item: Expression) -> Expression:
    """The marker that ends the transaction of a record, as far as the log has it."""
    return first_of(
        later, _ends(later) & (later.producer_id == item.producer_id) & (later.place > item.place)
    )


def is_open(item: Expression) -> Expression:
    """Whether it is an offset of a transaction without a marker."""
    return (item.kind == Kind.TRANSACTION_OFFSET) & ~ending(item).is_set


def is_replicated(item: Expression) -> Expression:
    """Whether a record is on all replicas in sync."""
    return item.place.is_in(replicated)
