"""Instances of a group that consume, process and produce, each input once."""

from __future__ import annotations

from ...language import DEFAULT, Channel, System, all_of
from ..client import calls, init_producer_id, sender
from ..client import producer as requests
from ..client import state as client
from ..client.transaction_manager import OLDEST_TRANSACTION_VERSION
from ..coordinator import entry as transaction
from ..coordinator import expiration, markers, tables
from ..coordinator import log as transaction_log
from ..features import KAFKA, transactional
from ..groups import membership, offsets, processing
from ..groups.state import (
    GENERATIONS,
    INPUTS,
    OWN_ID,
    TxnOffsetCommit,
    TxnOffsetCommitResponse,
)
from ..leader import produce
from ..leader.state import GUARDS, PRODUCER_ID_EXPIRATION
from ..messages import (
    APPEND_FAILURES,
    CACHED_BATCHES,
    CRASHES,
    DELAYS,
    DELETIONS,
    EXPIRIES,
    FAILOVERS,
    FAULTS,
    ID_EXPIRIES,
    IN_FLIGHT,
    LARGEST_DELTA,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    LATEST,
    LEADER_CHANGES,
    LONGEST,
    LOSSES,
    NO_EPOCH,
    NO_NUMBER,
    PARTITIONS,
    PRODUCER,
    PRODUCER_EXPIRIES,
    PRODUCER_IDS,
    PRODUCERS,
    REAL,
    RECORDS,
    SPARE,
    TIMEOUTS,
    TRANSACTIONS,
)
from ..properties import progress
from ..properties.exactly_once import PROPERTIES
from .transactions import CHANNELS
from .unreached_exactly_once import EXACTLY_ONCE as UNREACHED

_i = PRODUCER.variable("i")
system = System(
    name="exactly-once",
    doc="Instances of a consumer group that process an input's records one by one, each in a "
    "transaction that writes a result and commits the group's offset; the group is rebalanced "
    "meanwhile, and instances crash. They share a transactional id, that of the input's partition.",
    tables=(
        *tables.TABLES,
        *transaction_log.TABLES[:2],
        markers.markers_sent,
        markers.markers_answered,
        produce.produce,
        *offsets.TABLES,
        *membership.TABLES,
        *processing.TABLES,
        init_producer_id.initialized,
        sender.completed,
    ),
    properties=PROPERTIES,
    constants=(
        PRODUCERS,
        TRANSACTIONS,
        INPUTS,
        GENERATIONS,
        OWN_ID,
        FAULTS,
        CRASHES,
        TIMEOUTS,
    ),
    fixed={
        PARTITIONS: 2,
        RECORDS: 1,
        IN_FLIGHT: 1,
        calls.EARLY_ENDS: 0,
        PRODUCER_IDS: 1,
        LARGEST_EPOCH: 7,
        LARGEST_SEQUENCE: 7,
        CACHED_BATCHES: 1,
        LOSSES: 0,
        EXPIRIES: 0,
        FAILOVERS: 0,
        APPEND_FAILURES: 0,
        ID_EXPIRIES: 0,
        DELAYS: 0,
        LEADER_CHANGES: 0,
        DELETIONS: 0,
        PRODUCER_EXPIRIES: 0,
        client.FIRST_EPOCH: NO_EPOCH,
        SPARE: 1,
        LARGEST_DELTA: 0,
        GUARDS: 0,
        PRODUCER_ID_EXPIRATION: 0,
        NO_NUMBER: 0,
        REAL: 0,
        OLDEST_TRANSACTION_VERSION: 2,
        LATEST: 0,
        **sender.SETTINGS,
        LONGEST: 0,
        expiration.ID_EXPIRATION: 0,
    },
    bounds={DEFAULT: {FAULTS: 0}, "small": {INPUTS: 1}},
    protocols=KAFKA.settling({transactional: True}),
    channels=(*CHANNELS, Channel(TxnOffsetCommit), Channel(TxnOffsetCommitResponse)),
    budgets={(requests.crash, transaction.timeout): FAULTS},
    interchangeable=(PRODUCER,),
    # an instance without a call under way, assigned or not, and a coordinator without a debt
    terminal=all_of(
        _i,
        client.state.at(_i).is_in(client.UNINITIALIZED, client.READY, client.FATAL_ERROR)
        | client.can_only_close.at(_i),
    )
    & progress.owes_nothing
    & progress.is_ended_by_timeout,
    unreached=UNREACHED,
    reach="two instances that take an input's partition from each other at any step, also while a "
    "transaction is open or ends, a second input, and two transactions, committed or aborted. They "
    "don't reach a crash or a timeout (faults=1, with inputs=1), a third transaction "
    "(transactions=3), messages that are lost or late, a coordinator that moves, or a second "
    "input partition. One transactional id goes with the input's partition; an instance that has "
    "one of its own is there alone (own_id=1, producers=1).",
)
