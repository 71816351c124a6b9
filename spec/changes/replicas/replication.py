"""`transactions` on a replicated partition: the same clients, coordinator and leader, with the
replicas, elections and truncation of `replication`.

A replica's log is the leader's, and the producer state of a new leader follows from its log. A
leader is asked from the moment when it has heard of its election until the next one has: one that
doesn't know yet that another is elected still takes requests. Requests after that are lost
with its connections. A success is answered once the high watermark has passed the record or marker;
where a new leader lacks that, the answer is NOT_LEADER_OR_FOLLOWER (DelayedProduce).

The transaction log is a log that loses nothing which was acknowledged, as in `transactions`: its
record is replicated (`log append`), or fails to be, and the next coordinator finds it or not.
"""

from __future__ import annotations

from dataclasses import replace

from ....language import (
    DEFAULT,
    Change,
    Expression,
    Moved,
    Property,
    Row,
    Sequence,
    System,
    Table,
    after,
    all_of,
    any_of,
    append,
    constant,
    each,
    element,
    event,
    failure,
    if_,
    invariant,
    keep,
    last,
    lift,
    max_of,
    min_of,
    position,
    record,
    sequence_of,
    size,
    some,
    those,
    to_each,
)
from ...answers import answer_batch
from ...coordinator import entry as coordinator
from ...leader import markers, recovery, verification
from ...leader import produce as leader_produce
from ...leader import state as leader
from ...leader.isolation import ending_behind
from ...leader.state import BatchMetadata, Kind, LogEntry, ProducerStateEntry
from ...messages import (
    ANY_SEQUENCE,
    CACHED_BATCHES,
    COORDINATOR_EPOCH,
    DELETIONS,
    FAULTS,
    LEADER_CHANGES,
    NO_TIMESTAMP,
    PARTITIONS,
    PRODUCER_EXPIRIES,
    PRODUCERS,
    TRANSACTIONS,
    AddPartitionsByLeaderResponse,
    Errors,
    Produce,
    ProduceResponse,
    Result,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    partition,
    transaction,
    waiting,
)
from ...properties.transactions.transactions import PROPERTIES
from ...replication import election, fetch, truncation
from ...replication import state as replicas
from ...replication import state as replication
from ...replication.state import (
    ACKS,
    EXTRA_ENTRIES,
    LEADER_EPOCH,
    LEADER_EPOCHS,
    LOG_SIZE,
    MIN_ISR,
    NOT_ENOUGH_REPLICAS,
    POWER_LOSSES,
    REPLICA,
    REPLICAS,
    UNCLEAN_ELECTIONS,
    State,
)
from ...systems.coverage.unreached_rows_replicated import unreached
from . import transaction_log
from .transaction_log import LOG_LOSSES

BROKER_CRASHES = constant(
    "broker_crashes", 1, 0, 3, meaning="brokers of the partition that crash, their disks intact"
)

# The machines -----------------------------------------------------------------------------------

Entry = record(
    "ReplicatedEntry",
    **dict(LogEntry.fields),
    leader_epoch=LEADER_EPOCH,
    last_sequence=ANY_SEQUENCE,
    coordinator_epoch=COORDINATOR_EPOCH,
)
replica = replication.replica.copy(without={"log"})
log = replica.field("log", Sequence(Entry, LOG_SIZE), doc="Its size is the log end offset.")
replicated_partition = partition.copy(without={"log"})
leading = replicated_partition.field(
    "leader", REPLICA, doc="The replica that leads, or that has led last."
)

_ONLY = 0  # the partition
leading_replica = leading.at(_ONLY)
leader_log = log.at(leading_replica)
high_watermark = replication.high_watermark.at(leading_replica)
c = leader.c
_waiting, _orphaned = waiting.at(_ONLY), leader.orphaned.at(_ONLY)


def _first_open(entries: Expression, n: Expression | None, before: Expression) -> Expression:
    """The start of the first transaction, of producer `n` or of any, that no marker before an
    offset ends."""
    entry = element("entry", entries)
    is_open = (
        (entry.kind == Kind.DATA)
        & (True if n is None else entry.producer_id == n)
        & ~entry.idempotent_only
        & ~ending_behind(entries[:before], position(entry), entry.producer_id).is_set
    )
    none = LOG_SIZE + 1
    first = min_of(entry, if_(is_open, position(entry), none), default=none)
    return if_(first == none, None, some(first))


# Answers once it is replicated ------------------------------------------------------------------

_appended, _later = element("appended", leader_log), element("later", leader_log)
is_batch = (
    (_appended.kind == Kind.DATA)
    & (_appended.record == ProduceResponse.record)
    & (_appended.txn == some(ProduceResponse.txn))
)
is_marker = (
    (_appended.kind != Kind.DATA)
    & (_appended.producer_id == coordinator.producer_id)
    & (_appended.producer_epoch == coordinator.producer_epoch)
    & ~any_of(
        _later,
        (position(_later) > position(_appended))
        & (_later.kind == Kind.DATA)
        & (_later.producer_id == coordinator.producer_id),
    )
)


def _answer_of_replicas(error: Expression, is_it: Expression) -> Expression:
    """The error of an answer, which is no success where the leader lacks the entry. `is_it` says
    whether `_appended` is the entry."""
    is_lost = (error == Errors.NONE) & ~any_of(_appended, is_it)
    return if_(is_lost, Errors.NOT_LEADER_OR_FOLLOWER, error)


def _is_answered(error: Expression, is_it: Expression) -> Expression:
    """Whether the answer comes: a success only when the high watermark has passed the entry."""
    is_there = any_of(_appended, is_it)
    is_replicated = any_of(_appended, is_it & (position(_appended) < high_watermark))
    return ((error == Errors.NONE) & is_there).implies(is_replicated)


MOVED = Moved(
    fields={
        leader.log: leader_log,
        leader.high_watermark: high_watermark,
        leader.first_unstable_offset: _first_open(leader_log, None, high_watermark),
        replication.log: log,
        ProduceResponse.error: _answer_of_replicas(ProduceResponse.error, is_batch),
        WriteTxnMarkersResponse.error: _answer_of_replicas(
            WriteTxnMarkersResponse.error, is_marker
        ),
    },
    machines={
        replication.replica: replica,
        partition: replicated_partition,
        transaction: transaction_log.entry,
        replicas.clients: None,
    },
    records={LogEntry: Entry},
    filled={
        "": {"leader_epoch": replication.leader_epoch.at(leading_replica)},
        "partition.Produce": {"last_sequence": Produce.base_sequence},
        "partition.AddPartitionsByLeaderResponse": {
            "last_sequence": waiting[AddPartitionsByLeaderResponse.producer].value.base_sequence
        },
        "partition.WriteTxnMarkers": {"coordinator_epoch": WriteTxnMarkers.coordinator_epoch},
    },
)

# What a new leader knows ------------------------------------------------------------------------

n = leader.n
replica_log = log.at(replica.this)
replica_entry = element("entry", replica_log)
_is_mine, _is_data = replica_entry.producer_id == n, replica_entry.kind == Kind.DATA
newest = last(keep(replica_entry, _is_mine))
epoch = newest.value.producer_epoch
of_epoch = element("of_epoch", replica_log)
batch = last(
    keep(
        of_epoch,
        (of_epoch.producer_id == n)
        & (of_epoch.kind == Kind.DATA)
        & (of_epoch.producer_epoch == epoch),
    )
)
marker = last(keep(replica_entry, _is_mine & ~_is_data))
last_data = max_of(replica_entry, if_(_is_mine & _is_data, position(replica_entry), 0), default=0)
rebuilt = if_(
    newest.is_set,
    ProducerStateEntry(
        producer_epoch=epoch,
        batch_metadata=if_(
            batch.is_set,
            sequence_of(
                BatchMetadata(
                    last_sequence=batch.value.last_sequence,
                    last_offset=last_data,
                    offset_delta=0,
                    timestamp=NO_TIMESTAMP,
                )
            ),
            sequence_of(),
        ),
        coordinator_epoch=if_(marker.is_set, marker.value.coordinator_epoch, 0),
        current_txn_first_offset=_first_open(replica_log, n, size(replica_log)),
        last_timestamp=NO_TIMESTAMP,
    ),
    leader.UNKNOWN,
)
"""A replica's log about producer `n`, with one batch remembered.

UnifiedLog.rebuildProducerState, ProducerStateManager.update
"""

increment = event("maybeIncrementLeaderHW")
advanced = fetch.advanced(replication.me, replication.log, replication.isr, replication.fetched)
increments = Table(
    replication.replica,
    on=increment,
    when=(replication.state == State.LEADER) & (advanced > replication.high_watermark),
    rows=(
        Row(
            "advance",
            "The high watermark follows the in-sync replicas",
            set={replication.high_watermark: advanced},
            source="Partition.maybeIncrementLeaderHW",
        ),
    ),
)

# What a leader takes ----------------------------------------------------------------------------

is_asked = replication.state.at(leading_replica) == State.LEADER
too_few = replication.acks_all & (size(replication.isr.at(leading_replica)) < replication.min_isr)
log_with_marker = append(
    leader_log,
    Entry(
        kind=if_(WriteTxnMarkers.result == Result.COMMIT, Kind.COMMIT, Kind.ABORT),
        producer_id=WriteTxnMarkers.producer_id,
        producer_epoch=WriteTxnMarkers.producer_epoch,
        record=0,
        txn=None,
        leader_epoch=replication.leader_epoch.at(leading_replica),
        coordinator_epoch=WriteTxnMarkers.coordinator_epoch,
    ),
)
verified = AddPartitionsByLeaderResponse
broker_crash = event("broker crash")  # clients crash, too

# What must hold ---------------------------------------------------------------------------------

newest_entry = after(last(leader_log).value)
ended = leader.producers.at(_ONLY)[newest_entry.producer_id].current_txn_first_offset
one_leads = (after(leading.at(_ONLY)) == leading.at(_ONLY), "as long as one replica leads")
NARROWER = {
    # the high watermark of a new leader lags by a fetch (KIP-207)
    "StableOffsetForward": one_leads,
    # a marker that isn't replicated is lost with its leader, and sent again
    "EpochForward": one_leads,
    # one that ends nothing is in the log as well
    "MarkersMatchDecision": (ended.is_set, "of those that end one"),
}
"""Properties of `transactions` that hold on replicas under a further condition."""


def _narrowed(item: Property) -> Property:
    if item.name not in NARROWER:
        return item
    when, said = NARROWER[item.name]
    sentence = f"{item.sentence.rstrip('.')}: {said}."
    return replace(item, expression=when.implies(item.expression), sentence=sentence)


state_from_log = invariant(
    "StateFromLog",
    all_of(n, leader.producers.at(_ONLY)[n] == rebuilt.at(leading_replica)),
    "A leader remembers of producers what its log has.",
    "UnifiedLog.rebuildProducerState",
    failure=failure(
        "the leader, {}, remembers of {} something else than its log has", leading_replica, n
    ),
)


replication_change = (
    Change(
        "replication",
        "The partition is replicated.",
        moved=MOVED,
        tables=(
            fetch.fetches,
            fetch.shrinks,
            fetch.expands,
            *truncation.TABLES,
            election.elects,
            election.elects_unclean,
            election.hears,
            replace(election.crashes, on=broker_crash),
            election.loses_power,
            election.restarts,
            increments,
            transaction_log.loses_record,
        ),
        properties=(*map(_narrowed, PROPERTIES), state_from_log),
        constants=(
            REPLICAS,
            LEADER_EPOCHS,
            MIN_ISR,
            EXTRA_ENTRIES,
            BROKER_CRASHES,
            POWER_LOSSES,
            UNCLEAN_ELECTIONS,
            LOG_LOSSES,
        ),
        fixed={
            # one partition, whose leaders change by elections and forget nothing
            PARTITIONS: 1,
            CACHED_BATCHES: 1,
            LEADER_CHANGES: 0,
            DELETIONS: 0,
            PRODUCER_EXPIRIES: 0,
            ACKS: -1,
        },
        budgets={
            broker_crash: BROKER_CRASHES,
            election.power_loss: POWER_LOSSES,
            election.elect_unclean: UNCLEAN_ELECTIONS,
        },
    )
    .without_tables(*(table.name for table in recovery.TABLES))
    .without_properties(*(item.name for item in PROPERTIES))
    .table("partition.Produce")
    .only_when(is_asked)
    .before(
        "duplicate",
        Row(
            "not-enough-replicas",
            "Too few replicas are in sync",
            when=too_few,
            reply=leader_produce.produce_response(Errors.NOT_ENOUGH_REPLICAS),
            source="Partition.appendRecordsToLeader",
        ),
    )
    .table("partition.AddPartitionsByLeaderResponse")
    .only_when(is_asked)
    .before(
        "duplicate",
        Row(
            "not-enough-replicas",
            "Too few replicas are in sync",
            when=too_few,
            set={waiting[verified.producer]: None},
            reply=verification.produce_response(Errors.NOT_ENOUGH_REPLICAS),
            source="Partition.appendRecordsToLeader",
        ),
    )
    .table("partition.WriteTxnMarkers")
    .only_when(is_asked)
    .before(
        "stale-epoch",
        Row(
            "not-enough-replicas",
            "Too few replicas are in sync",
            when=too_few,
            reply=markers.markers_response(Errors.NOT_ENOUGH_REPLICAS),
            source="Partition.appendRecordsToLeader",
        ),
    )
    # a marker that ends nothing is in the log as well: replicas know its epoch by it
    .also("empty-transaction", "no-transaction", set={leader_log: log_with_marker})
    .table("producer.ProduceResponse")
    .only_when(_is_answered(ProduceResponse.error, is_batch))
    .table("transaction.WriteTxnMarkersResponse")
    .only_when(_is_answered(WriteTxnMarkersResponse.error, is_marker))
    .table("transaction.log append")
    .also(set={transaction_log.before: some(transaction_log.last_record)})
    .table("replica.LeaderAndIsr")
    # the new leader loses everything that the one before hadn't written
    .also(
        "lead",
        set={
            leader.producers.at(_ONLY): each(n, rebuilt),
            leader.verification_states.at(_ONLY): each(n, None),
            _waiting: each(c, None),
            _orphaned: _orphaned | those(c, _waiting[c].is_set),
            leading.at(_ONLY): replica.this,
        },
        send=(
            to_each(
                c,
                _waiting[c].is_set,
                answer_batch(
                    c,
                    lift(_ONLY),
                    _waiting[c].value.record,
                    _waiting[c].value.txn,
                    Errors.NOT_LEADER_OR_FOLLOWER,
                ),
            ),
        ),
    )
)


def replicated(system: System) -> System:
    """`transactions` with its partition on replicas. It has bounds of its own, and no assumptions
    of progress."""
    changed = system + replication_change
    ((faulty, most),) = ((e, m) for e, m in changed.budgets.items() if isinstance(e, tuple))
    budgets = {e: m for e, m in changed.budgets.items() if e is not faulty}
    rows = (f"{table.name}/{row.id}" for table in changed.tables for row in table.rows)
    tables = (table.name for table in changed.tables)
    names = (*rows, *tables, *(item.name for item in changed.properties))
    return replace(
        changed,
        progress=(),
        fairness=(),
        budgets={(*faulty, transaction_log.elect_unclean): most, **budgets},
        unreached=unreached(names),
        refusals=(NOT_ENOUGH_REPLICAS,),
        bounds={
            DEFAULT: {
                TRANSACTIONS: 1,
                FAULTS: 0,
                REPLICAS: 2,
                MIN_ISR: 1,
                LEADER_EPOCHS: 2,
                EXTRA_ENTRIES: 4,
            },
            "small": {PRODUCERS: 1},
            "large": {PRODUCERS: 1, FAULTS: 1},
        },
        interchangeable=system.interchangeable[:1],
        observed=(log,),
        terminal=changed.end | (replicas.newest_epoch == LEADER_EPOCHS),
        reach="two clients, one transaction, and a partition with two replicas, two elections and "
        "the crash of one broker, at any step. They don't reach other faults (the large bounds "
        "have one, with one client), a second transaction (transactions=2 extra_entries=6), a "
        "third replica (replicas=3), unclean elections (unclean_elections=1, log_losses=1), or a "
        "request to a leader after the next one has heard of its election.",
    )
