"""An application that calls its client in any order, and brokers that answer in any way."""

from __future__ import annotations

from ...language import Channel, System, strong_fairness, weak_fairness
from ..client.calls import any_broker, calls
from ..client.state import FIRST_EPOCH
from ..client.transactions import failures, requests, transaction_manager
from ..errors import ERROR_CODES, OF_CLIENTS
from ..messages import (
    FAULTS,
    IN_FLIGHT,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    NO_EPOCH,
    PARTITIONS,
    PRODUCER_IDS,
    PRODUCERS,
    RECORDS,
    SPARE,
    TRANSACTIONS,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
)
from ..properties.calls import PROGRESS, PROPERTIES
from ..releases.features import CLIENT, COORDINATOR, KAFKA, transactional
from .coverage.recorded_runs import reached
from .coverage.unreached_rows import CALLS as UNREACHED
from .reductions.calls import CALLS
from .reductions.client import OF_ACCUMULATOR, OF_MESSAGES

_CHANNELS = (
    Channel(InitProducerIdResponse, 1),
    Channel(AddPartitionsToTxnResponse, 1),
    Channel(EndTxnResponse, 1),
)
# An application need not call, but takes the result of its call. Other errors need not happen.
_OF_THE_CLIENT = (
    *weak_fairness(requests.ask_for_partitions, requests.send_request, calls.abort_at_close),
    *weak_fairness(calls.acknowledge),
    *weak_fairness(*(channel.message for channel in _CHANNELS)),
)
# Batches come to an end, a broker can be reached, and its answer is final at some time.
_OF_BROKERS = (
    *weak_fairness(
        requests.next_request, rows=("error", "nothing-to-end-invalid", "nothing-to-end", "next")
    ),
    *strong_fairness(requests.send_request, rows=("send-to-any",)),
    *strong_fairness(requests.send_request, rows=("send", "send-offsets-by-name")),
    *strong_fairness(any_broker.answer_init, rows=("answer",)),
    *strong_fairness(any_broker.answer_partitions, rows=("refuse", "answer")),
    *strong_fairness(any_broker.answer_end, rows=("refuse", "answer")),
    *strong_fairness(requests.found, rows=("found",)),
    *strong_fairness(
        requests.offsets_answered,
        rows=(
            "added",
            "unknown-id",
            "unknown-id-fatal",
            "fenced",
            "fatal",
            "abortable",
            "unexpected",
        ),
    ),
    *strong_fairness(
        requests.offset_answered,
        rows=("committed", "abortable", "not-a-member", "fenced", "fatal", "unexpected"),
    ),
)

system = System(
    name="calls",
    doc="A client, the queue of its requests and their coordinators: the application calls at any "
    "time and in any order, records and batches fail, requests are lost, and brokers answer with "
    "any error.",
    tables=(
        *calls.TABLES,
        calls.aborted_at_close,
        *requests.TABLES,
        *failures.TABLES,
        *any_broker.TABLES,
    ),
    reductions=(*OF_ACCUMULATOR, *OF_MESSAGES, *CALLS),
    properties=PROPERTIES,
    progress=PROGRESS,
    fairness=_OF_THE_CLIENT + _OF_BROKERS,
    constants=(
        transaction_manager.OLDEST_VERSION,
        transaction_manager.OLDEST_TRANSACTION_VERSION,
    ),
    fixed={
        ERROR_CODES: OF_CLIENTS,
        transaction_manager.OLDEST_COORDINATOR_VERSION: 0,
        FIRST_EPOCH: NO_EPOCH,
        transaction_manager.NEWEST_VERSION: 3,
        PRODUCERS: 1,
        PARTITIONS: 1,
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
        "default": {transaction_manager.OLDEST_TRANSACTION_VERSION: 1},
        "small": {transaction_manager.OLDEST_VERSION: 3},
    },
    protocols=KAFKA.assuming(transactional).of_parts(CLIENT, COORDINATOR),
    channels=_CHANNELS,
    unreached=UNREACHED,
    reached=reached(),
    reach="every order of calls, of errors clients distinguish, and of what the sending thread "
    "does in between, to any length, with a partition to write to. They don't reach batches, "
    "which fail or hold up the end at any time; what becomes of those is in the systems "
    "transactions and idempotence.",
)
