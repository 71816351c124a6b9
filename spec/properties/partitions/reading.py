"""Properties that a read_committed reader relies on, whatever replicas and the log cleaner do."""

from __future__ import annotations

from ....language import all_of, failure, invariant, variable
from ...reading import state as reading
from ...reading.state import PRODUCER_ID, TRANSACTION

_t, _n = variable("t", TRANSACTION), PRODUCER_ID.variable("n")

only_committed = invariant(
    "OnlyCommitted",
    all_of(_t, _t.is_in(reading.delivered).implies(_t.is_in(reading.committed))),
    "A reader is given records of committed transactions only.",
    "KIP-98",
    failure=failure(
        "a reader has a record of transaction {}, and only these are committed: {}",
        _t,
        reading.committed,
    ),
)
none_dropped = invariant(
    "NoneDropped",
    all_of(_t, ~(_t.is_in(reading.dropped) & _t.is_in(reading.committed))),
    "A reader drops no record of a committed transaction.",
    "KIP-98",
    failure=failure("a reader has dropped a record of transaction {}, which is committed", _t),
)
no_open_range = invariant(
    "NoOpenRange",
    all_of(_n, reading.opened[_n].is_set.implies(reading.ongoing[_n].is_set)),
    "No transaction that its coordinator has ended stays open at a leader: the last stable "
    "offset would not move.",
    "KIP-98; KAFKA-8351",
    failure=failure(
        "a transaction of {} is open from offset {} on, and its coordinator has ended it",
        _n,
        reading.opened[_n],
    ),
)
PROPERTIES = (only_committed, none_dropped, no_open_range)
