"""One transactional id, shared by client instances, over partitions and a coordinator."""

from __future__ import annotations

from .. import partition, producer, transaction
from ..features import KAFKA
from ..language import Channel, System, all_of
from ..messages import (
    CACHED_BATCHES,
    CRASHES,
    DELAYS,
    EXPIRIES,
    LARGEST_EPOCH,
    MARKER_DELAYS,
    PARTITIONS,
    PRODUCER,
    PRODUCERS,
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
    tables=transaction.TABLES + partition.TABLES + producer.TABLES,
    properties=PROPERTIES,
    constants=(
        PRODUCERS,
        PARTITIONS,
        TRANSACTIONS,
        LARGEST_EPOCH,
        CACHED_BATCHES,
        CRASHES,
        TIMEOUTS,
        EXPIRIES,
        DELAYS,
        MARKER_DELAYS,
    ),
    protocols=KAFKA,
    channels=(
        Channel(InitProducerId, 2),
        Channel(InitProducerIdResponse),
        Channel(AddPartitionsToTxn, 2),
        Channel(AddPartitionsToTxnResponse),
        Channel(EndTxn, 2),
        Channel(EndTxnResponse),
        Channel(Produce, 2),
        Channel(ProduceResponse, 2),
        Channel(AddPartitionsByLeader),
        Channel(AddPartitionsByLeaderResponse),
        Channel(WriteTxnMarkers, 2),
        Channel(WriteTxnMarkersResponse, 2),
    ),
    budgets={
        transaction.timeout: TIMEOUTS,
        transaction.marker_overtaken: MARKER_DELAYS,
        producer.crash: CRASHES,
        producer.expire_batch: EXPIRIES,
        producer.request_overtaken: DELAYS,
    },
    interchangeable=(PRODUCER,),
    terminal=transaction.exhausted
    | all_of(_i, producer.state.at(_i).is_in(producer.READY, producer.FATAL_ERROR)),
    reach="",
)
