"""An unclean election of the transaction log's partition: its last record is lost, whether or not
it was acknowledged.

A clean election loses no record that was: `coordinator failover` in `transactions` is that.
"""

from __future__ import annotations

from ....language import Machine, Optional, Row, Table, constant, event, if_, some
from ...coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    client_transaction_version,
    last_producer_epoch,
    next_id,
    partitions,
    pending,
    pending_id,
    pending_start_timestamp,
    pending_update_timestamp,
    pending_version,
    previous_id,
    producer_epoch,
    producer_id,
    state,
    txn_start_timestamp,
)
from ...coordinator.state_manager.failover import MEMORY_LOST
from ...coordinator.state_manager.log import LogRecord, answer_all, logged_epoch, logged_partitions
from ...messages import (
    NO_EPOCH,
    NO_TIMESTAMP,
    Errors,
    clock,
    now,
    producer,
    producer_id_manager,
    transaction,
)
from ...releases.features import last_epoch_in_log, rotation_in_log

LOG_LOSSES = constant(
    "log_losses",
    0,
    0,
    1,
    meaning="1: an unclean election may lose the last record of the transaction log",
)
entry = Machine("transaction", None, transaction.doc, state=state, title=transaction.title)
entry.fields.update(transaction.fields)
before = entry.field(
    "record_before", Optional(LogRecord), doc="The content of the log's record before its last one."
)
last_record = LogRecord(
    state=state,
    producer_id=producer_id,
    producer_epoch=logged_epoch,
    last_producer_epoch=last_producer_epoch,
    next_id=next_id,
    partitions=logged_partitions,
    client_transaction_version=client_transaction_version,
)


elect_unclean = event(
    "transaction log loses its last record",
    event_doc="Its partition is led by a replica that wasn't in sync; another broker coordinates.",
)

found = before.value

loses_record = Table(
    entry,
    on=elect_unclean,
    others=(producer, producer_id_manager, clock),
    when=(LOG_LOSSES > 0) & before.is_set & (found.producer_epoch != NO_EPOCH),
    source="TransactionStateManager.loadTransactionsForTxnTopicPartition",
    set=MEMORY_LOST,
    rows=(
        Row(
            "epoch-last-again",
            "The log ends with the epoch again",
            when=found.state == EMPTY,
            goto=EMPTY,
            set={
                producer_id: found.producer_id,
                producer_epoch: found.producer_epoch,
                last_producer_epoch: if_(last_epoch_in_log, found.last_producer_epoch, NO_EPOCH),
                previous_id: if_(rotation_in_log, some(producer_id), None),
                next_id: if_(rotation_in_log, found.next_id, None),
                partitions: found.partitions,
                txn_start_timestamp: NO_TIMESTAMP,
                client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                pending: None,
                pending_id: found.producer_id,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "open-transaction-last-again",
            "The log ends with the open transaction again",
            when=found.state == ONGOING,
            goto=ONGOING,
            set={
                producer_id: found.producer_id,
                producer_epoch: found.producer_epoch,
                last_producer_epoch: if_(last_epoch_in_log, found.last_producer_epoch, NO_EPOCH),
                previous_id: if_(rotation_in_log, some(producer_id), None),
                next_id: if_(rotation_in_log, found.next_id, None),
                partitions: found.partitions,
                client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                pending: None,
                pending_id: found.producer_id,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "commit-last-again",
            "The log ends with the decision to commit again: its completion begins",
            when=found.state == PREPARE_COMMIT,
            goto=PREPARE_COMMIT,
            set={
                producer_id: found.producer_id,
                producer_epoch: found.producer_epoch,
                last_producer_epoch: if_(last_epoch_in_log, found.last_producer_epoch, NO_EPOCH),
                previous_id: if_(rotation_in_log, some(producer_id), None),
                next_id: if_(rotation_in_log, found.next_id, None),
                partitions: found.partitions,
                client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                pending: COMPLETE_COMMIT,
                pending_id: found.producer_id,
                pending_start_timestamp: txn_start_timestamp,
                pending_update_timestamp: now,
                pending_version: found.client_transaction_version,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "abort-last-again",
            "The log ends with the decision to abort again: its completion begins",
            when=found.state == PREPARE_ABORT,
            goto=PREPARE_ABORT,
            set={
                producer_id: found.producer_id,
                producer_epoch: found.producer_epoch,
                last_producer_epoch: if_(last_epoch_in_log, found.last_producer_epoch, NO_EPOCH),
                previous_id: if_(rotation_in_log, some(producer_id), None),
                next_id: if_(rotation_in_log, found.next_id, None),
                partitions: found.partitions,
                client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                pending: COMPLETE_ABORT,
                pending_id: found.producer_id,
                pending_start_timestamp: txn_start_timestamp,
                pending_update_timestamp: now,
                pending_version: found.client_transaction_version,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "completed-commit-last-again",
            "The log ends with the completed commit again",
            when=found.state == COMPLETE_COMMIT,
            goto=COMPLETE_COMMIT,
            set={
                producer_id: found.producer_id,
                producer_epoch: found.producer_epoch,
                last_producer_epoch: if_(last_epoch_in_log, found.last_producer_epoch, NO_EPOCH),
                previous_id: if_(rotation_in_log, some(producer_id), None),
                next_id: if_(rotation_in_log, found.next_id, None),
                partitions: found.partitions,
                client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                pending: None,
                pending_id: found.producer_id,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
        Row(
            "completed-abort-last-again",
            "The log ends with the completed abort again",
            when=found.state == COMPLETE_ABORT,
            goto=COMPLETE_ABORT,
            set={
                producer_id: found.producer_id,
                producer_epoch: found.producer_epoch,
                last_producer_epoch: if_(last_epoch_in_log, found.last_producer_epoch, NO_EPOCH),
                previous_id: if_(rotation_in_log, some(producer_id), None),
                next_id: if_(rotation_in_log, found.next_id, None),
                partitions: found.partitions,
                client_transaction_version: found.client_transaction_version,
                logged_epoch: found.producer_epoch,
                logged_partitions: found.partitions,
                pending: None,
                pending_id: found.producer_id,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
        ),
    ),
)
