"""`transactions` on a replicated partition: the same clients, coordinator and leader, with the
replicas, elections and truncation of `replication`.

A replica's log is the leader's, and the producer state of a new leader is what its log says. A
leader is asked from the moment when it has heard of its election until the next one has: one that
doesn't know yet that another is elected still takes requests. What it was asked after that is lost
with its connections. A success is answered once the high watermark has passed the record or marker;
where a new leader lacks that, the answer is NOT_LEADER_OR_FOLLOWER (DelayedProduce).

The transaction log is a log that loses nothing which was acknowledged, as in `transactions`: its
record is replicated (`log append`), or fails to be, and the next coordinator finds it or not.
"""

from __future__ import annotations

from dataclasses import replace

from ...language import (
    DEFAULT,
    Expression,
    Machine,
    Property,
    Row,
    Sending,
    Sequence,
    System,
    Table,
    after,
    all_of,
    any_of,
    constant,
    each,
    element,
    event,
    if_,
    invariant,
    keep,
    last,
    lift,
    make,
    max_of,
    min_of,
    position,
    record,
    sequence_of,
    size,
    some,
)
from ...language.expressions import children_first
from ...language.recast import Recast
from ...language.systems import events_of
from ..client import sender
from ..coordinator import entry as coordinator
from ..coordinator import markers as completion_markers
from ..leader import markers, recovery, verification
from ..leader import produce as leader_produce
from ..leader import state as leader
from ..leader.isolation import ending_behind
from ..leader.state import BatchMetadata, Kind, LogEntry, ProducerStateEntry
from ..messages import (
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
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    partition,
    producer,
    transaction,
    waiting,
)
from ..properties.transactions import PROPERTIES
from ..replication import election, fetch, truncation
from ..replication import state as replicas
from ..replication import state as replication
from ..replication.state import (
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
from ..systems.unreached_replicated import unreached
from . import transaction_log
from .transaction_log import LOG_LOSSES

BROKER_CRASHES = constant(
    "broker_crashes", 1, 0, 3, meaning="brokers of the partition that crash, their disks intact"
)

FIXED = {PARTITIONS: 1, CACHED_BATCHES: 1, LEADER_CHANGES: 0, DELETIONS: 0, PRODUCER_EXPIRIES: 0}
"""Constants of `transactions` that nothing here may set: one partition, whose leaders change by
elections and forget nothing."""

# The machines -----------------------------------------------------------------------------------

Entry = record(
    "ReplicatedEntry",
    **dict(LogEntry.fields),
    leader_epoch=LEADER_EPOCH,
    last_sequence=ANY_SEQUENCE,
    coordinator_epoch=COORDINATOR_EPOCH,
)
replica = Machine("replica", REPLICA, replication.replica.doc, state=replication.state)
replica.fields.update(replication.replica.fields)
del replica.fields["log"]
log = replica.field("log", Sequence(Entry, LOG_SIZE), doc="Its size is the log end offset.")
replicated = Machine("partition", partition.key, partition.doc)
replicated.fields.update(partition.fields)
del replicated.fields["log"]
leading = replicated.field("leader", REPLICA, doc="The replica that leads, or that has led last.")

_ONLY = 0  # the partition
_leading = leading.at(_ONLY)
_log = log.at(_leading)
_high_watermark = replication.high_watermark.at(_leading)


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


_STANDS_FOR = {
    leader.log.data: _log,
    leader.high_watermark.data: _high_watermark,
    leader.first_unstable_offset.data: _first_open(_log, None, _high_watermark),
}
_SEEN = (replica, replicated)


def _in_place(**logged: Expression) -> Recast:
    """The replacements, and what the entries that a table appends have besides."""

    def change(node: Expression) -> Expression | None:
        if node.op == "make" and node.data[0] is LogEntry:
            said = dict(zip(node.data[1], map(recast.expression, node.args), strict=True))
            epoch = replication.leader_epoch.at(_leading)
            return make(Entry, **said, leader_epoch=epoch, **logged)
        if node.op == "field" and node.data is replication.log.data:
            return Expression("field", tuple(map(recast.expression, node.args)), log.data)
        return _STANDS_FOR.get(node.data) if node.op == "field" else None

    machines = {
        replication.replica: replica,
        partition: replicated,
        transaction: transaction_log.entry,
        replicas.clients: None,
    }
    recast = Recast(change, machines, _SEEN, kept=(*_STANDS_FOR,))
    return recast


RECAST = _in_place()

# What a new leader knows ------------------------------------------------------------------------

n = leader.n
_entries = log.at(replica.this)
_entry = element("entry", _entries)
_is_mine, _is_data = _entry.producer_id == n, _entry.kind == Kind.DATA
_newest = last(keep(_entry, _is_mine))
_epoch = _newest.value.producer_epoch
_of_epoch = element("of_epoch", _entries)
_batch = last(
    keep(
        _of_epoch,
        (_of_epoch.producer_id == n)
        & (_of_epoch.kind == Kind.DATA)
        & (_of_epoch.producer_epoch == _epoch),
    )
)
_marker = last(keep(_entry, _is_mine & ~_is_data))
_last_data = max_of(_entry, if_(_is_mine & _is_data, position(_entry), 0), default=0)
rebuilt = if_(
    _newest.is_set,
    ProducerStateEntry(
        producer_epoch=_epoch,
        batch_metadata=if_(
            _batch.is_set,
            sequence_of(
                BatchMetadata(
                    last_sequence=_batch.value.last_sequence,
                    last_offset=_last_data,
                    offset_delta=0,
                    timestamp=NO_TIMESTAMP,
                )
            ),
            sequence_of(),
        ),
        coordinator_epoch=if_(_marker.is_set, _marker.value.coordinator_epoch, 0),
        current_txn_first_offset=_first_open(_entries, n, size(_entries)),
        last_timestamp=NO_TIMESTAMP,
    ),
    leader.UNKNOWN,
)
"""A replica's log about producer `n`, with one batch remembered.

UnifiedLog.rebuildProducerState, ProducerStateManager.update
"""

_died = RECAST.table(recovery.leader_changes).rows[0]


def _at_only(sending: Sending) -> Sending:
    fields = tuple((name, _placed(value)) for name, value in sending.fields)
    return replace(sending, fields=fields, when=_placed(sending.when))


def _placed(value: Expression) -> Expression:
    reads = any(node.op in ("field", "this") for node in children_first(value))
    return value.at(_ONLY) if reads else value


def _leads(row: Row) -> Row:
    """The row of a broker that becomes leader: it loses what the one before hadn't written."""
    if row.id != "lead":
        return row
    gone = {_placed(target): _placed(lift(value)) for target, value in _died.set.items()}
    gone[leader.producers.at(_ONLY)] = each(n, rebuilt)
    gone[leading.at(_ONLY)] = replica.this
    send = tuple(map(_at_only, _died.send))
    return replace(row, set={**row.set, **gone}, send=send)


_hears = RECAST.table(election.hears)
_new_leaders = replace(
    _hears,
    rows=tuple(map(_leads, _hears.rows)),
    others=(*_hears.others, producer),
)

increment = event("maybeIncrementLeaderHW")
_advanced = fetch.advanced(replication.me, replication.log, replication.isr, replication.fetched)
_increments = RECAST.table(
    Table(
        replication.replica,
        on=increment,
        when=(replication.state == State.LEADER) & (_advanced > replication.high_watermark),
        rows=(
            Row(
                "advance",
                set={replication.high_watermark: _advanced},
                source="Partition.maybeIncrementLeaderHW",
            ),
        ),
    )
)

# What a leader takes ----------------------------------------------------------------------------

_is_asked = replication.state.at(_leading) == State.LEADER
_too_few = RECAST.expression(fetch.not_enough_replicas).at(_leading)
_FIRST_CHECK = ("duplicate", "stale-epoch")


def _with_error(row: Row, error: Expression) -> Sending:
    reply = row.reply
    assert isinstance(reply, Sending)
    return replace(reply, fields=tuple((k, error if k == "error" else v) for k, v in reply.fields))


def _at_leader(table: Table, **logged: Expression) -> Table:
    """The table of a leader that appends, where it leads, with enough replicas in sync. A refusal
    is answered as one for a stale epoch."""
    table = _in_place(**logged).table(table)
    names = [row.id for row in table.rows]
    first = min(names.index(name) for name in _FIRST_CHECK if name in names)
    refusal = table.rows[names.index("stale-epoch")]
    few = replace(
        refusal,
        id="not enough replicas",
        name="",
        when=_too_few,
        reply=_with_error(refusal, Errors.NOT_ENOUGH_REPLICAS),
        during=lift(True),
        source="Partition.appendRecordsToLeader",
    )
    rows = (*table.rows[:first], few, *table.rows[first:])
    return replace(table, when=table.guard & _is_asked, rows=rows)


_produced = _at_leader(leader_produce.produce, last_sequence=Produce.base_sequence)
_verified = _at_leader(
    verification.verified,
    last_sequence=waiting[AddPartitionsByLeaderResponse.producer].value.base_sequence,
)
_marked = _at_leader(markers.write_markers, coordinator_epoch=WriteTxnMarkers.coordinator_epoch)
_in_log = next(row for row in _marked.rows if row.id == "end-transaction").set[_log]
_every_marker = replace(
    _marked,
    doc="A marker that ends nothing is in the log as well: replicas know its epoch by it.",
    rows=tuple(
        replace(row, set={**row.set, _log: _in_log}) if row.set else row for row in _marked.rows
    ),
)

# Answers once it is replicated ------------------------------------------------------------------


def _once_replicated(table: Table, error: Expression, is_it: Expression) -> Table:
    """The table of an answer, taken up once what a success is about is replicated. Where the leader
    doesn't have that, it isn't a success. `is_it`: whether `_appended` is that."""
    is_there = any_of(_appended, is_it)
    is_replicated = any_of(_appended, is_it & (position(_appended) < _high_watermark))
    is_success = error == Errors.NONE
    answered = if_(is_success & ~is_there, Errors.NOT_LEADER_OR_FOLLOWER, error)
    here = Recast(lambda node: answered if node is error else None, {})
    table = RECAST.table(table)
    return replace(
        table,
        when=here.expression(table.guard) & (is_success & is_there).implies(is_replicated),
        rows=tuple(map(here.row, table.rows)),
    )


_appended, _later = element("appended", _log), element("later", _log)
_acknowledges = _once_replicated(
    sender.completed,
    ProduceResponse.error,
    (_appended.kind == Kind.DATA)
    & (_appended.record == ProduceResponse.record)
    & (_appended.txn == some(ProduceResponse.txn)),
)
_is_of_entry = _later.producer_id == coordinator.producer_id
_marks = _once_replicated(
    completion_markers.markers_answered,
    WriteTxnMarkersResponse.error,
    (_appended.kind != Kind.DATA)
    & (_appended.producer_id == coordinator.producer_id)
    & (_appended.producer_epoch == coordinator.producer_epoch)
    & ~any_of(
        _later,
        (position(_later) > position(_appended)) & (_later.kind == Kind.DATA) & _is_of_entry,
    ),
)

_OTHERS = {
    table.name: table for table in (_produced, _verified, _every_marker, _acknowledges, _marks)
}
broker_crash = event("broker crash")  # clients crash, too
_REPLICAS = (
    *map(RECAST.table, (fetch.fetches, fetch.shrinks, fetch.expands)),
    *map(RECAST.table, truncation.TABLES),
    *map(RECAST.table, (election.elects, election.elects_unclean)),
    _new_leaders,
    replace(RECAST.table(election.crashes), on=broker_crash),
    *map(RECAST.table, (election.loses_power, election.restarts)),
    _increments,
)


# What must hold ---------------------------------------------------------------------------------

_newest_entry = after(last(_log).value)
_ended = leader.producers.at(_ONLY)[_newest_entry.producer_id].current_txn_first_offset
_one_leads = (after(leading.at(_ONLY)) == leading.at(_ONLY), "as long as one replica leads")
NARROWER = {
    # the high watermark of a new leader lags by a fetch (KIP-207)
    "StableOffsetForward": _one_leads,
    # a marker that isn't replicated is lost with its leader, and sent again
    "EpochForward": _one_leads,
    # one that ends nothing is in the log as well
    "MarkersMatchDecision": (_ended.is_set, "of those that end one"),
}
"""Properties of `transactions` that hold on replicas under a further condition."""


def _property(item: Property) -> Property:
    item = RECAST.property(item)
    if item.name not in NARROWER:
        return item
    when, said = NARROWER[item.name]
    sentence = f"{item.sentence.rstrip('.')}: {said}."
    return replace(item, expression=when.implies(item.expression), sentence=sentence)


state_from_log = invariant(
    "StateFromLog",
    all_of(n, leader.producers.at(_ONLY)[n] == rebuilt.at(_leading)),
    "A leader remembers of producers what its log has.",
    "UnifiedLog.rebuildProducerState",
)


def replicated_system(system: System) -> System:
    """`transactions` with its partition on replicas."""
    left = {table.on for table in recovery.TABLES}
    kept = tuple(
        transaction_log.remembers(_OTHERS.get(table.name) or RECAST.table(table))
        for table in system.tables
        if table.on not in left
    )
    tables = (*kept, *_REPLICAS, transaction_log.loses_record)
    properties = (*map(_property, PROPERTIES), state_from_log)
    rows = (f"{table.name}/{row.id}" for table in tables for row in table.rows)
    names = (*rows, *(table.name for table in tables), *(item.name for item in properties))
    ((faulty, most),) = system.budgets.items()
    faults = (event for event in events_of(faulty) if event not in left)
    return replace(
        system,
        name=f"{system.name}+replication",
        doc=f"{system.doc} The partition is replicated.",
        tables=tables,
        properties=properties,
        progress=(),
        lemmas=(),
        rankings=(),
        fairness=(),
        unreached=unreached(names),
        refusals=(NOT_ENOUGH_REPLICAS,),
        constants=(
            *(each for each in system.constants if each not in FIXED),
            REPLICAS,
            LEADER_EPOCHS,
            MIN_ISR,
            EXTRA_ENTRIES,
            BROKER_CRASHES,
            POWER_LOSSES,
            UNCLEAN_ELECTIONS,
            LOG_LOSSES,
        ),
        fixed={**system.fixed, **FIXED, ACKS: -1},
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
        budgets={
            (*faults, transaction_log.elect_unclean): most,
            broker_crash: BROKER_CRASHES,
            election.power_loss: POWER_LOSSES,
            election.elect_unclean: UNCLEAN_ELECTIONS,
        },
        interchangeable=system.interchangeable[:1],
        observed=(log,),
        terminal=RECAST.expression(system.end) | (replicas.newest_epoch == LEADER_EPOCHS),
        reach="two clients, one transaction, and a partition with two replicas, two elections and "
        "the crash of one broker, at any step. They don't reach other faults (the large bounds "
        "have one, with one client), a second transaction (transactions=2 extra_entries=6), a "
        "third replica (replicas=3), unclean elections (unclean_elections=1, log_losses=1), or a "
        "request to a leader after the next one has heard of its election.",
    )
