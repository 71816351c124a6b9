"""Faults in the completion of a transaction: two threads write its record, or no thread does."""

from __future__ import annotations

from ...language import Row, Table, event, if_, set_of
from ..messages import FAILOVERS, FAULTS, NO_EPOCH, Errors, clock, producer, transaction
from ..releases.features import (
    completes_once,
    last_epoch_in_log,
    own_completion_cancelled,
    rotation_in_log,
)
from . import entry
from .markers import completion_dropped, left_behind
from .state_manager.failover import MEMORY_LOST
from .state_manager.log import answer_all, completed_record, logged_epoch, logged_partitions

completed_again = event(
    "completion written again",
    event_doc="A second thread appends its record, and another broker takes over that reads it.",
)
late_answer = event(
    "late answer to a marker",
    event_doc="A broker that coordinates once more gets an answer from its earlier term.",
)

second_record = completed_record.value
written_again = Table(
    transaction,
    on=completed_again,
    others=(producer, clock),
    when=(FAILOVERS > 0) & completed_record.is_set,
    set=MEMORY_LOST,
    rows=(
        Row(
            "older-record-last",
            "The log ends with the older record, which the second thread has written",
            during=~completes_once,
            goto=second_record.state,
            set={
                entry.producer_id: second_record.producer_id,
                entry.producer_epoch: second_record.producer_epoch,
                entry.last_producer_epoch: if_(
                    last_epoch_in_log, second_record.last_producer_epoch, NO_EPOCH
                ),
                entry.previous_id: if_(rotation_in_log, entry.previous_id, None),
                entry.next_id: None,
                entry.partitions: set_of(),
                entry.client_transaction_version: second_record.client_transaction_version,
                logged_epoch: second_record.producer_epoch,
                logged_partitions: set_of(),
                entry.pending: None,
                entry.pending_id: second_record.producer_id,
                completed_record: None,
            },
            send=answer_all(Errors.NOT_COORDINATOR),
            source="KAFKA-10080",
            note="TransactionMetadata.completeTransitionTo throws in the broker that wrote it.",
        ),
    ),
)

# The same broker coordinates again only after an election of another one.
coordinates_again = left_behind.is_set & (left_behind.value + 2 <= entry.coordinator_epoch)
answered_late = Table(
    transaction,
    on=late_answer,
    when=(FAULTS > 2)
    & (FAILOVERS > 0)
    & entry.completing
    & coordinates_again
    & ~completion_dropped,
    rows=(
        Row(
            "cancels-completion",
            "The answer cancels the completion in progress",
            during=~own_completion_cancelled,
            set={completion_dropped: True, left_behind: None},
            source="KAFKA-16352, TransactionMarkerChannelManager.removeMarkersForTxnId before 3.8",
        ),
    ),
)

FAULTY_EVENTS = (completed_again, late_answer)
TABLES = (written_again, answered_late)
