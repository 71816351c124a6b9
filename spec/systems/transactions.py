"""One transactional id, shared by client instances, over partitions and a coordinator."""

from __future__ import annotations

from .. import (
    markers,
    partition,
    partition_markers,
    producer,
    transaction,
    transaction_log,
)
from ..features import KAFKA
from ..language import Channel, System, all_of
from ..messages import (
    APPEND_FAILURES,
    CACHED_BATCHES,
    CRASHES,
    DELAYS,
    EXPIRIES,
    FAILOVERS,
    FAULTS,
    ID_EXPIRIES,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    LATEST,
    LONGEST,
    LOSSES,
    NO_NUMBER,
    PARTITIONS,
    PRODUCER,
    PRODUCER_IDS,
    PRODUCERS,
    RECORDS,
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
from ..properties import PROPERTIES

_i = PRODUCER.variable("i")

system = System(
    name="transactions",
    doc="One transactional id shared by client instances (one can be a zombie), its coordinator "
    "and the leaders of the partitions written to; requests, answers and markers are lost, "
    "delayed, repeated and overtaken.",
    tables=transaction.TABLES
    + transaction_log.TABLES
    + markers.TABLES
    + partition.TABLES
    + partition_markers.TABLES
    + producer.TABLES,
    properties=PROPERTIES,
    constants=(
        PRODUCERS,
        PARTITIONS,
        TRANSACTIONS,
        PRODUCER_IDS,
        LARGEST_EPOCH,
        LARGEST_SEQUENCE,
        CACHED_BATCHES,
        FAULTS,
        LOSSES,
        CRASHES,
        TIMEOUTS,
        EXPIRIES,
        FAILOVERS,
        APPEND_FAILURES,
        ID_EXPIRIES,
        DELAYS,
    ),
    fixed={RECORDS: 1, NO_NUMBER: 0, LATEST: 0, LONGEST: 0, transaction_log.ID_EXPIRATION: 0},
    bounds={
        "small": {PARTITIONS: 1},
        # a timeout does what another instance's InitProducerId does as well
        "large": {FAULTS: 2, TIMEOUTS: 0},
    },
    protocols=KAFKA,
    channels=(
        Channel(InitProducerId, 2),
        Channel(InitProducerIdResponse),
        Channel(AddPartitionsToTxn, 2),
        Channel(AddPartitionsToTxnResponse),
        Channel(EndTxn, 2),
        Channel(EndTxnResponse),
        Channel(Produce, 2),
        Channel(ProduceResponse),
        Channel(AddPartitionsByLeader),
        Channel(AddPartitionsByLeaderResponse),
        Channel(WriteTxnMarkers, 2),
        Channel(WriteTxnMarkersResponse),
    ),
    budgets={
        (
            *producer.FAULTY_EVENTS,
            *partition.FAULTY_EVENTS,
            transaction.timeout,
            *transaction_log.FAULTY_EVENTS,
            *markers.FAULTY_EVENTS,
        ): FAULTS
    },
    interchangeable=(PRODUCER,),
    terminal=all_of(_i, producer.state.at(_i).is_in(producer.READY, producer.FATAL_ERROR)),
    reach="two instances that fence each other at any moment, two transactions in a row with a "
    "late request, answer or marker of the first, epochs that are used up and the next producer "
    "id, and any one fault at any step, a failover of the coordinator with or without its last "
    "record among them. They don't reach two faults in one run (faults=2 does, with partitions=1 "
    "in seconds), a leader that fails over or forgets, two batches in flight to a partition, "
    "replication, or consumer offsets.",
)
