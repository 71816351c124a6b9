"""Outcomes of transactions: how each ends in the logs, and its application's knowledge.

The lemmas are of version 2, in which every end of a transaction gives a new epoch, so that an epoch
has one transaction with records. They are of one record to a partition in a transaction.
"""

from __future__ import annotations

from ....language import (
    Expression,
    all_of,
    all_true,
    any_of,
    any_true,
    if_,
    in_flight,
    invariant,
    last,
    position,
)
from ...client import state as client
from ...client.calls.application import Outcome, acknowledged, outcome
from ...coordinator import entry as coordinator
from ...coordinator.entry import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from ...coordinator.state_manager.log import unsettled
from ...leader import state as leader
from ...leader.isolation import ending, log_entry
from ...messages import (
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    RECORD,
    TRANSACTION,
    EndTxn,
    EndTxnResponse,
    Errors,
    ProduceResponse,
    Result,
    connection,
)
from ...properties.transactions.transactions import is_older
from ...releases.features import transaction_version_2
from ..counting import named
from .batches import every_batch
from .clients import Pair, is_current, is_given_out, pairs_held
from .coordinator import is_followed, is_replaced

i, j, k = (PRODUCER.variable(name) for name in "ijk")
p, q = PARTITION.variable("p"), PARTITION.variable("q")
n, s, t = PRODUCER_ID.variable("n"), RECORD.variable("s"), TRANSACTION.variable("t")
COMMIT, ABORT, DATA = leader.Kind.COMMIT, leader.Kind.ABORT, leader.Kind.DATA
_state, _txn = client.state.at(i), client.txn.at(i)
_id, _epoch, _open = client.producer_id.at(i), client.producer_epoch.at(i), connection.at(i)
_end, _end_answer = in_flight("o", EndTxn, i), in_flight("r", EndTxnResponse, i)
is_answered = (_end_answer.connection == _open) & (_end_answer.error == Errors.NONE)

# Who has a transaction ---------------------------------------------------------------------------

one_client = invariant(
    "OneClient",
    all_of(i, j, ((i != j) & _txn.is_set).implies(_txn != client.txn.at(j))),
    "A transaction is one client's.",
)
"""A client begins the next transaction that nobody has begun."""

outcome_of_state = invariant(
    "OutcomeOfState",
    transaction_version_2.implies(
        all_of(
            i,
            _txn.is_set.implies(
                outcome.at(_txn.value)
                == if_(_state == client.COMMITTING, Outcome.COMMITTING, Outcome.BEGUN)
            ),
        )
    ),
    "While a client has a transaction its application has asked for its commit, or for nothing.",
)
"""The rows that change the client's state set the outcome with it."""

batches_of_transaction = invariant(
    "BatchesOfTransaction",
    every_batch(
        lambda batch: (_txn.is_set & (_txn.value == batch.txn)).implies(
            (batch.producer_id == _id) & (batch.epoch == _epoch)
        ),
        i,
    ),
    "The batches of a client's transaction have its producer id and epoch.",
)
"""A client keeps its pair as long as it has the transaction."""

# How transactions end in the logs ----------------------------------------------------------------

log_item = log_entry("e", p)
end_marker = ending(log_item, p)
known = leader.producers.at(p)[log_item.producer_id]
open_until_marker = invariant(
    "OpenUntilMarker",
    leader.asks_coordinator.implies(
        all_of(
            p,
            log_item,
            ((log_item.kind == DATA) & ~end_marker.is_set).implies(
                all_true(
                    ~log_item.idempotent_only,
                    known.current_txn_first_offset.is_set,
                    known.producer_epoch == log_item.producer_epoch,
                )
            ),
        )
    ),
    "A record without a marker is of the transaction that is open at its leader.",
)
"""A leader appends a record of a transaction only if it is open there, or opens it with the record.
Only the marker closes it."""


def ended_with(of_id: Expression, epoch: Expression) -> Expression:
    """Whether the coordinator's last end is of the transaction that has this producer id and
    epoch."""
    return coordinator.state.is_in(
        PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT
    ) & (is_followed(of_id, epoch) | (is_replaced(of_id, epoch) & ~coordinator.is_prepared))


is_commit = coordinator.state.is_in(PREPARE_COMMIT, COMPLETE_COMMIT)
ended_as_decided = invariant(
    "EndedAsDecided",
    transaction_version_2.implies(
        all_of(
            p,
            log_item,
            ((log_item.kind == DATA) & end_marker.is_set).implies(
                is_older(
                    log_item.producer_id,
                    log_item.producer_epoch,
                    coordinator.producer_id,
                    coordinator.producer_epoch,
                )
                & ended_with(log_item.producer_id, log_item.producer_epoch).implies(
                    (end_marker.value.kind == COMMIT) == is_commit
                )
            ),
        )
    ),
    "A transaction that a marker has ended is older than the coordinator's epoch, and was ended "
    "as decided.",
)
"""A marker has the coordinator's decision (MarkerDecided), and is sent when the coordinator has the
next epoch."""

other = log_entry("f", q)
markers_alone = invariant(
    "MarkersAlone",
    all_of(p, log_item, (log_item.kind != DATA).implies(~log_item.txn.is_set)),
    "A marker isn't a record of a transaction.",
)
"""The row that writes a marker gives it none."""

logs_in_order = invariant(
    "LogsInOrder",
    all_of(
        p,
        q,
        log_item,
        other,
        all_true(
            log_item.kind == DATA,
            other.kind == DATA,
            is_older(
                log_item.producer_id,
                log_item.producer_epoch,
                other.producer_id,
                other.producer_epoch,
            ),
        ).implies(position(log_item.txn.value) < position(other.txn.value)),
    ),
    "In all logs together, records of an older epoch are of transactions that began before.",
)
"""BeganFirst and BeganFirstElsewhere say so of a batch and all records, when the batch is
appended."""

# Requests and answers ---------------------------------------------------------------------------

asks_commit = _state == client.COMMITTING
end_as_asked = invariant(
    "EndAsAsked",
    all_of(
        i,
        all_of(
            _end,
            (_end.connection == _open).implies((_end.result == Result.COMMIT) == asks_commit),
        )
        & (coordinator.asked_by[i] == _open).implies(
            all_true(
                (coordinator.pending == PREPARE_COMMIT).implies(asks_commit),
                (coordinator.pending == PREPARE_ABORT).implies(~asks_commit),
                (coordinator.is_prepared & ~coordinator.pending.is_set).implies(
                    (coordinator.state == PREPARE_COMMIT) == asks_commit
                ),
            )
        ),
    ),
    "A client that waits for an end waits for the one that its application asked for.",
)
"""EndTxn asks for the end that the client's state stands for, and the coordinator prepares the one
that is asked for."""


def _may_commit(of_id: Expression, epoch: Expression) -> Expression:
    """Whether the coordinator has decided to commit, or may still find that it has, what has this
    producer id and epoch."""
    is_open = (
        (of_id == coordinator.producer_id)
        & (epoch == coordinator.producer_epoch)
        & (coordinator.state == ONGOING)
    )
    return any_true(
        is_open & (coordinator.pending == PREPARE_COMMIT),
        is_open & unsettled.is_set & (unsettled.value.state == PREPARE_COMMIT),
        is_followed(of_id, epoch) & (coordinator.state == PREPARE_COMMIT),
    )


def _is_asked(of_id: Expression, epoch: Expression) -> Expression:
    """The same, or whether somebody has asked for it."""
    request = in_flight("ask", EndTxn, k)
    return _may_commit(of_id, epoch) | any_of(
        k,
        request,
        all_true(
            request.result == Result.COMMIT,
            request.producer_id == of_id,
            request.producer_epoch == epoch,
        ),
    )


_AGREED = (Outcome.COMMITTING, Outcome.COMMITTED)
_held, *_answers = pairs_held(i, "b", "c")


commit_asked = invariant(
    "CommitAsked",
    transaction_version_2.implies(
        every_batch(
            lambda batch: _is_asked(batch.producer_id, batch.epoch).implies(
                outcome.at(batch.txn).is_in(*_AGREED)
            )
        )
        & all_of(
            i,
            (_held.is_taken & _is_asked(_id, _epoch)).implies(asks_commit)
            & all_true(
                *(pair.every(~_is_asked(pair.producer_id, pair.epoch)) for pair in _answers)
            ),
        )
    ),
    "A commit is asked for, and decided, of what applications asked to commit.",
)
"""Only a client that commits asks for it, with the pair of its transaction, and the coordinator
decides to commit only what a client asks for."""

asked_end = in_flight("z", EndTxn, k)
asked_pair = asked_end.producer_id, asked_end.producer_epoch


def _is_no_later(pair: Pair) -> Expression:
    """Whether no end has been asked for of an epoch after a pair that counts."""
    counts = pair.is_taken & is_current(pair.producer_id, pair.epoch)
    return named(pair.names, counts.implies(~is_older(pair.producer_id, pair.epoch, *asked_pair)))


end_of_holder = invariant(
    "EndOfHolder",
    transaction_version_2.implies(
        all_of(
            k,
            asked_end,
            is_given_out(*asked_pair)
            & all_of(i, all_true(*(_is_no_later(pair) for pair in (_held, *_answers)))),
        )
    ),
    "Nobody has asked to end a transaction of an epoch after what a client holds or gets.",
)
"""A client asks for an end with the pair that it holds, and the pairs that count are the newest
ones."""


def _not_aborted(of_id: Expression, epoch: Expression) -> Expression:
    """Whether what has this producer id and epoch has been decided on, and not to be aborted."""
    same = (other.producer_id == of_id) & (other.producer_epoch == epoch)
    marker = ending(other, q)
    aborted = any_of(
        q,
        other,
        (other.kind == DATA) & same & marker.is_set & (marker.value.kind == ABORT),
    )
    return all_true(
        is_older(of_id, epoch, coordinator.producer_id, coordinator.producer_epoch),
        ~(is_followed(of_id, epoch) & (coordinator.state == PREPARE_ABORT)),
        ~aborted,
    )


answered_not_aborted = invariant(
    "AnsweredNotAborted",
    transaction_version_2.implies(
        all_of(
            i,
            _end_answer,
            (is_answered & asks_commit).implies(_not_aborted(_id, _epoch)),
        )
    ),
    "A transaction is not aborted if its client gets a success for the commit.",
)
"""The coordinator answers so when the commit is in the log, and never takes a decision back."""

committed_not_aborted = invariant(
    "CommittedNotAborted",
    transaction_version_2.implies(
        every_batch(
            lambda batch: (outcome.at(batch.txn) == Outcome.COMMITTED).implies(
                _not_aborted(batch.producer_id, batch.epoch)
            )
        )
    ),
    "A transaction that an application knows as committed is not aborted.",
)
"""The application knows it from that answer (AnsweredNotAborted)."""

# What was acknowledged ---------------------------------------------------------------------------


def _is_there(txn: Expression, record: Expression) -> Expression:
    return any_of(log_item, (log_item.txn == txn) & (log_item.record == record))


acknowledgement = in_flight("y", ProduceResponse, i, p)
remembered = leader.producers.at(p)[n]
in_log_if_acknowledged = invariant(
    "InLogIfAcknowledged",
    all_of(
        p,
        all_of(
            n,
            last(remembered.batch_metadata).is_set.implies(
                any_of(
                    log_item,
                    all_true(
                        log_item.kind == DATA,
                        log_item.producer_id == n,
                        log_item.producer_epoch == remembered.producer_epoch,
                    ),
                )
            ),
        )
        & all_of(
            i,
            all_of(
                acknowledgement,
                acknowledgement.error.is_in(Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER).implies(
                    _is_there(acknowledgement.txn, acknowledgement.record)
                ),
            )
            & all_of(
                s,
                (_txn.is_set & (client.batches.at(i)[p][s].status == client.ACKNOWLEDGED)).implies(
                    _is_there(_txn, s)
                ),
            ),
        ),
    ),
    "The records that a leader remembers, and that it has acknowledged, are in its log.",
)
"""A leader remembers and answers a batch as it appends it, and the next leader has the whole
log."""

acknowledged_of_committed = invariant(
    "AcknowledgedOfCommitted",
    all_of(
        t,
        (outcome.at(t) != Outcome.COMMITTED).implies(all_of(p, s, ~s.is_in(acknowledged.at(t)[p]))),
    ),
    "An application keeps acknowledged records of committed transactions only.",
)
"""They are noted when the application learns that the transaction is committed."""

LEMMAS = (
    one_client,
    outcome_of_state,
    batches_of_transaction,
    open_until_marker,
    ended_as_decided,
    markers_alone,
    logs_in_order,
    end_as_asked,
    commit_asked,
    end_of_holder,
    answered_not_aborted,
    committed_not_aborted,
    in_log_if_acknowledged,
    acknowledged_of_committed,
)
