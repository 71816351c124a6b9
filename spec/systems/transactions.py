"""One transactional id, shared by client instances, over partitions and a coordinator."""

from __future__ import annotations

from ...language import DEFAULT, Channel, System, strong_fairness, weak_fairness
from ..client import producer
from ..client import state as client
from ..client.batches import accumulator, expiry, sender
from ..client.calls import calls_at_once
from ..client.transactions.transaction_manager import (
    BUMPING_VERSION,
    OLDEST_COORDINATOR_VERSION,
    OLDEST_TRANSACTION_VERSION,
)
from ..coordinator import completion, markers, tables
from ..coordinator import entry as transaction
from ..coordinator.state_manager import expiration
from ..coordinator.state_manager import log as transaction_log
from ..errors import ERROR_CODES, OF_BROKERS
from ..leader import markers as leader_markers
from ..leader import produce, recovery, verification
from ..leader.state import GUARDS, PRODUCER_ID_EXPIRATION, log
from ..lemmas.transactions import batches, clients, coordinator, leaders, numbers, outcomes, rivals
from ..lemmas.transactions import completion as completing
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
    PARTITION,
    PARTITIONS,
    PRODUCER,
    PRODUCER_EXPIRIES,
    PRODUCER_IDS,
    PRODUCERS,
    RECORDS,
    SPARE,
    TIMEOUTS,
    TRANSACTIONS,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
    InitProducerId,
    InitProducerIdResponse,
    Produce,
    ProduceResponse,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
)
from ..properties.transactions import progress
from ..properties.transactions.transactions import PROPERTIES
from ..releases.features import KAFKA, transactional
from . import logs
from .coverage.recorded_runs import reached
from .coverage.unreached_rows import TRANSACTIONS as UNREACHED
from .reductions import client as client_reductions
from .reductions import requests as request_reductions
from .reductions.coordinator import ENTRY, ENTRY_FAULTS
from .reductions.leader import LEADER, MARKERS, VERIFIED

FURTHER_FAULTS = (
    EXPIRIES,
    FAILOVERS,
    APPEND_FAILURES,
    ID_EXPIRIES,
    DELAYS,
    LEADER_CHANGES,
    DELETIONS,
    PRODUCER_EXPIRIES,
)
"""Which faults there are, but for losses, crashes and timeouts: constants, 0 or 1."""
FIXED = {
    client.FIRST_EPOCH: NO_EPOCH,
    SPARE: 1,
    LARGEST_DELTA: 0,
    GUARDS: 0,
    PRODUCER_ID_EXPIRATION: 0,
    NO_NUMBER: 0,
    ERROR_CODES: OF_BROKERS,
    OLDEST_COORDINATOR_VERSION: BUMPING_VERSION,
    OLDEST_TRANSACTION_VERSION: 2,
    LATEST: 0,
    **sender.SETTINGS,
    LONGEST: 0,
    expiration.ID_EXPIRATION: 0,
}
"""Fields that systems with a transactional id leave out, and values for numbers without bounds."""
CHANNELS = (
    Channel(InitProducerId, 2),
    Channel(InitProducerIdResponse, 1),
    Channel(AddPartitionsToTxn, 2),
    Channel(AddPartitionsToTxnResponse, 1),
    Channel(EndTxn, 2),
    Channel(EndTxnResponse, 1),
    Channel(Produce, IN_FLIGHT),
    Channel(ProduceResponse, RECORDS),
    Channel(AddPartitionsByLeader, 1),
    Channel(AddPartitionsByLeaderResponse, 1),
    Channel(WriteTxnMarkers, 2),
    Channel(WriteTxnMarkersResponse, 1),
)

system = System(
    name="transactions",
    doc="One transactional id shared by client instances (one can be a zombie), its coordinator "
    "and the leaders of the partitions written to; requests, answers and markers are lost, "
    "delayed, repeated and overtaken.",
    tables=tables.TABLES
    + tables.LOG_TABLES
    + completion.TABLES
    + markers.TABLES
    + produce.TABLES
    + verification.TABLES
    + leader_markers.TABLES
    + recovery.TABLES
    + producer.TABLES
    + sender.TABLES
    + expiry.TABLES,
    reductions=(
        *ENTRY,
        *ENTRY_FAULTS,
        *LEADER,
        *VERIFIED,
        *MARKERS,
        *client_reductions.BATCHES,
        *request_reductions.REQUESTS,
    ),
    properties=PROPERTIES,
    lemmas=coordinator.LEMMAS
    + clients.LEMMAS
    + leaders.LEMMAS
    + batches.LEMMAS
    + numbers.LEMMAS
    + completing.LEMMAS
    + outcomes.LEMMAS
    + rivals.LEMMAS,
    constants=(
        PRODUCERS,
        PARTITIONS,
        TRANSACTIONS,
        RECORDS,
        IN_FLIGHT,
        calls_at_once.EARLY_ENDS,
        PRODUCER_IDS,
        LARGEST_EPOCH,
        LARGEST_SEQUENCE,
        CACHED_BATCHES,
        FAULTS,
        LOSSES,
        CRASHES,
        TIMEOUTS,
        *FURTHER_FAULTS,
    ),
    fixed=FIXED,
    bounds={
        DEFAULT: {LARGEST_SEQUENCE: 7, DELETIONS: 0, PRODUCER_EXPIRIES: 0},
        "small": {PARTITIONS: 1},
        "large": {PARTITIONS: 1, FAULTS: 3, DELETIONS: 1, PRODUCER_EXPIRIES: 1},
        "real": {
            PRODUCERS: 4,
            PARTITIONS: 4,
            RECORDS: 5,
            IN_FLIGHT: 5,
            PRODUCER_IDS: 4,
            LARGEST_EPOCH: 32767,
            CACHED_BATCHES: 5,
            FAULTS: 10,
        },
    },
    protocols=KAFKA.settling({transactional: True}),
    channels=CHANNELS,
    budgets={
        (
            *producer.FAULTY_EVENTS,
            *sender.FAULTY_EVENTS,
            *expiry.FAULTY_EVENTS,
            *verification.FAULTY_EVENTS,
            *recovery.FAULTY_EVENTS,
            transaction.timeout,
            *tables.LOG_FAULTS,
            *completion.FAULTY_EVENTS,
            *markers.FAULTY_EVENTS,
        ): FAULTS
    },
    interchangeable=(PRODUCER, PARTITION),
    terminal=progress.waits_for_nothing & progress.owes_nothing & progress.is_ended_by_timeout,
    progress=progress.TRANSACTIONS,
    observed=(log,),
    logs=(logs.LEADER, logs.TRANSACTION),
    rankings=completing.RANKINGS,
    # what an application does, and faults, need never happen
    fairness=weak_fairness(
        transaction.continue_fence,
        transaction_log.log_append,
        transaction_log.begin_completion,
        markers.send_marker,
        producer.end_transaction,
        accumulator.drain,
        expiry.resolve,
    )
    + strong_fairness(*(channel.message for channel in CHANNELS)),
    unreached=UNREACHED,
    reached=reached(),
    reach="two instances that fence each other at any moment, two transactions in a row with a "
    "late request, answer or marker of the first, epochs that are used up and the next "
    "producer id, and any one fault at any step, a failover of the coordinator with or "
    "without its last record and a change of a leader among them. They don't reach two faults "
    "in one run (faults=2 does, with partitions=1 in seconds), two batches in flight to a "
    "partition (records=2, with partitions=1), an end that is asked for while batches are in "
    "flight (early_ends=1, of interest before version 2), a leader that forgets (deletions=1, "
    "producer_expiries=1, with partitions=1), replication (transactions+replication does), or "
    "consumer offsets. The large bounds "
    "reach any three faults, of leaders that forget as well, on one partition. The real bounds "
    "are for random walks (simulate): four instances, four partitions, five batches in flight, "
    "ten faults, and Kafka's largest epoch. Sequence numbers still wrap after 7.",
)
