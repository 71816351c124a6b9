"""What goes wrong with the completion of a transaction: two threads write it, or nobody does."""

from __future__ import annotations

from ...language import Row, Table, event, set_of
from ..messages import FAILOVERS, FAULTS, Errors, clock, producer, transaction
from ..releases.features import completes_once, own_completion_cancelled
from . import entry
from .failover import reloaded
from .log import completed_record, logged_epoch, logged_partitions, tell_all
from .markers import completion_dropped, left_behind

completed_again = event(
    "completion written again",
    event_doc="A second thread appends its record, and another broker takes over that reads it.",
)
late_answer = event(
    "late answer to a marker",
    event_doc="A broker that coordinates once more gets an answer from its earlier term.",
)

_record = completed_record.value
written_again = Table(
    transaction,
    on=completed_again,
    others=(producer, clock),
    when=(FAILOVERS > 0) & completed_record.is_set,
    rows=(
        Row(
            "the record before is the last in the log",
            during=~completes_once,
            goto=_record.state,
            set={
                **reloaded(
                    {
                        entry.producer_id: _record.producer_id,
                        entry.producer_epoch: _record.producer_epoch,
                        entry.last_producer_epoch: _record.last_producer_epoch,
                        entry.previous_id: entry.previous_id,
                        entry.next_id: None,
                        logged_epoch: _record.producer_epoch,
                        entry.partitions: set_of(),
                        logged_partitions: set_of(),
                        entry.client_transaction_version: _record.client_transaction_version,
                    },
                    _record.state,
                ),
                completed_record: None,
            },
            send=tell_all(Errors.NOT_COORDINATOR),
            source="KAFKA-10080",
            note="TransactionMetadata.completeTransitionTo throws in the broker that wrote it.",
        ),
    ),
)

# the same broker again: an election to another one lies between
_is_back = left_behind.is_set & (left_behind.value + 2 <= entry.coordinator_epoch)
answered_late = Table(
    transaction,
    on=late_answer,
    when=(FAULTS > 2) & (FAILOVERS > 0) & entry.completing & _is_back & ~completion_dropped,
    rows=(
        Row(
            "cancels the completion in progress",
            during=~own_completion_cancelled,
            set={completion_dropped: True, left_behind: None},
            source="KAFKA-16352, TransactionMarkerChannelManager.removeMarkersForTxnId before 3.8",
        ),
    ),
)

FAULTY_EVENTS = (completed_again, late_answer)
TABLES = (written_again, answered_late)
