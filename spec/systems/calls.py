"""An application that calls its client in any order, and brokers that answer in any way."""

from __future__ import annotations

from ...language import Channel, System
from ..client import any_broker, calls, failures, queue, requests, transaction_manager
from ..client.state import FIRST_EPOCH
from ..features import CLIENT, COORDINATOR, KAFKA, transactional
from ..messages import (
    FAULTS,
    IN_FLIGHT,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    NO_EPOCH,
    PARTITIONS,
    PRODUCER_IDS,
    PRODUCERS,
    REAL,
    RECORDS,
    SPARE,
    TRANSACTIONS,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
)
from ..properties.calls import PROPERTIES
from .unreached import CALLS as UNREACHED

system = System(
    name="calls",
    doc="A client, the queue of its requests and their coordinators: the application calls at any "
    "time and in any order, records and batches fail, requests are lost, and brokers answer with "
    "any error.",
    tables=calls.TABLES + requests.TABLES + failures.TABLES + any_broker.TABLES,
    properties=PROPERTIES,
    constants=(
        PARTITIONS,
        transaction_manager.OLDEST_VERSION,
        transaction_manager.OLDEST_TRANSACTION_VERSION,
    ),
    fixed={
        REAL: 1,
        queue.QUEUE: 1,
        FIRST_EPOCH: NO_EPOCH,
        transaction_manager.NEWEST_VERSION: 3,
        calls.EARLY_ENDS: 1,
        PRODUCERS: 1,
        TRANSACTIONS: 1,
        RECORDS: 1,
        IN_FLIGHT: 1,
        PRODUCER_IDS: 1,
        LARGEST_EPOCH: 2,
        LARGEST_SEQUENCE: 1,
        FAULTS: 0,
        SPARE: 1,
    },
    bounds={
        "default": {PARTITIONS: 1, transaction_manager.OLDEST_TRANSACTION_VERSION: 1},
        "small": {transaction_manager.OLDEST_VERSION: 3},
    },
    protocols=KAFKA.assuming(transactional).of_parts(CLIENT, COORDINATOR),
    channels=(
        Channel(InitProducerIdResponse),
        Channel(AddPartitionsToTxnResponse),
        Channel(EndTxnResponse),
    ),
    real=(
        *queue.QUEUE_FIELDS,
        transaction_manager.last_error,
        transaction_manager.new_partitions,
        transaction_manager.transaction_started,
        transaction_manager.pending_call,
        transaction_manager.call_acknowledged,
        transaction_manager.transaction_coordinator,
        transaction_manager.group_coordinator,
        transaction_manager.request_in_flight,
        transaction_manager.init_version,
        transaction_manager.offsets_version,
        transaction_manager.is_closed,
    ),
    unreached=UNREACHED,
    reach="every order of calls, of errors that are told apart, and of what the sending thread "
    "does in between, to any length, with a partition to write to. They don't reach batches, "
    "which fail or hold up the end at any time; what becomes of those is in the systems "
    "transactions and idempotence.",
)
