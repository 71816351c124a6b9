"""Reductions of the transaction coordinator's machines."""

from __future__ import annotations

from ....language import set_of
from ....language.instances.reductions import LeftOut, Never, NotOffered, Reduction, StandsFor
from ...coordinator import entry
from ...coordinator.markers import MarkerVerdict, completion_dropped, left_behind
from ...coordinator.state_manager.expiration import expiry, should_expire
from ...coordinator.state_manager.failover import late_failover
from ...coordinator.state_manager.log import append_failure, completed_record, log_append, unsettled
from ...coordinator.state_manager.ownership import (
    LeaderAndIsr,
    Loaded,
    LookupResponse,
    coordinator,
    heard,
    known,
    lookup,
)
from ...coordinator.state_manager.timeout import has_timed_out
from ...messages import LONGEST, AddPartitionsToTxn, Errors, InitProducerId, offered_id, transaction

_ONE_FENCE = "the thread of one fence at a time is between its two steps"
_IDS_LEFT = "a forgotten id comes back with a new producer id, and the system has few"
_CHECK = "tests/spec/test_coordinator_refinement.py"
_TIMES = "tests/spec/test_time_refinement.py"

OWNERSHIP: tuple[Reduction, ...] = (
    StandsFor(
        LeaderAndIsr.is_loading,
        True,
        because="a new leader always loads the partition",
        refined_by=_CHECK,
    ),
    NotOffered(
        coordinator,
        lookup,
        when=lookup.is_known != known[lookup.state_partition].is_set,
        because="the system has the entries of a broker's memory itself",
        refined_by=_CHECK,
    ),
    StandsFor(
        lookup.is_known,
        known[lookup.state_partition].is_set,
        because="no other value is offered",
        refined_by=_CHECK,
    ),
    StandsFor(
        lookup.is_dead,
        False,
        because="whether the entry expires decides an answer, and nothing else",
        refined_by=_CHECK,
    ),
    LeftOut(Loaded, because="the transaction log ignores whether a load was awaited"),
    LeftOut(LookupResponse, because="no machine of the system reads the answer"),
)
"""The brokers of `coordinators`."""

ADD_PARTITIONS: tuple[Reduction, ...] = (
    StandsFor(
        AddPartitionsToTxn.partitions,
        set_of(AddPartitionsToTxn.partition),
        because="A client of a system adds one partition with a request.",
        refined_by=_CHECK,
    ),
    StandsFor(
        AddPartitionsToTxn.client_transaction_version,
        0,
        because="The client and the brokers of a system are of one release.",
        refined_by=_CHECK,
    ),
)
"""The requests of a client that adds partitions."""

ENTRY: tuple[Reduction, ...] = (
    *ADD_PARTITIONS,
    StandsFor(
        has_timed_out,
        True,
        because="a system has no time: a transaction may time out at any moment",
        refined_by=_TIMES,
    ),
    NotOffered(
        transaction,
        InitProducerId,
        when=(entry.state == entry.ONGOING) & ~entry.pending.is_set & entry.fence_to_come,
        because=_ONE_FENCE,
        refined_by=_CHECK,
    ),
    NotOffered(
        transaction, entry.timeout, when=entry.fence_to_come, because=_ONE_FENCE, refined_by=_CHECK
    ),
    StandsFor(
        entry.txn_timeout_ms == LONGEST,
        False,
        because="all times are one number, and two-phase commit is a system of its own",
        refined_by=_TIMES,
    ),
    NotOffered(
        transaction,
        log_append,
        when=completion_dropped,
        because="nobody writes a completion whose thread was cancelled",
        refined_by=_CHECK,
    ),
    LeftOut(MarkerVerdict, because="the thread that reads it is part of the entry"),
)
"""The entry of a transactional id and its log."""

ENTRY_FAULTS: tuple[Reduction, ...] = (
    StandsFor(
        should_expire,
        True,
        because="a system has no time: an idle id may expire at any moment",
        refined_by=_TIMES,
    ),
    NotOffered(
        transaction,
        append_failure,
        when=entry.completing,
        because="a Complete record is appended again, so that its failure is a delay",
        refined_by=_CHECK,
    ),
    NotOffered(
        transaction,
        append_failure,
        when=append_failure.error != Errors.COORDINATOR_NOT_AVAILABLE,
        because="one error is offered, after which a client asks again",
        refined_by=_CHECK,
    ),
    StandsFor(
        append_failure.error,
        Errors.COORDINATOR_NOT_AVAILABLE,
        because="no other error is offered",
        refined_by=_CHECK,
    ),
    NotOffered(
        transaction,
        late_failover,
        when=(unsettled.value.state == entry.DEAD) & ~offered_id.is_set,
        because=_IDS_LEFT,
        refined_by=_CHECK,
    ),
    NotOffered(
        transaction,
        expiry,
        when=~entry.is_known | ~offered_id.is_set,
        because=_IDS_LEFT,
        refined_by=_CHECK,
    ),
    Never(
        "transaction.transactional id expiry/no-epoch",
        because="an id without an epoch isn't there, and isn't asked to expire",
        refined_by=_CHECK,
    ),
)
"""Faults of the log of that entry."""

ENTRY_ALONE: tuple[Reduction, ...] = (
    LeftOut(completed_record, because="a broker has its threads, and drives them"),
    LeftOut(left_behind, because="a broker keeps the markers of each term in its queues"),
    LeftOut(completion_dropped, because="a broker has its threads, and cancels them"),
)
"""An entry at real ranges."""

OWNERSHIP_ALONE: tuple[Reduction, ...] = (
    LeftOut(known, because="each entry is a machine of its own, and `is_known` says whether it is"),
    LeftOut(heard, because="only properties read it"),
)
"""A broker at real ranges."""
