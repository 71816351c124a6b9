"""Properties of the transaction protocol, in a user's words.

The properties are about the logs, what was acknowledged, what was reported to applications, and the
coordinator's own state; none looks at a flag that a row sets for a property's sake.
"""

from __future__ import annotations

from ....language import (
    Expression,
    after,
    all_of,
    all_true,
    any_of,
    any_true,
    element,
    failure,
    if_,
    in_flight,
    invariant,
    last,
    position,
    size,
    step_property,
)
from ...client import state as client
from ...client.calls import application
from ...client.transactions.transaction_manager import end_version
from ...coordinator import entry as coordinator
from ...coordinator.state_manager import log
from ...leader import state as leader
from ...leader.isolation import ending, log_entry
from ...messages import (
    LARGEST_EPOCH,
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    RECORD,
    TRANSACTION,
    EndTxnResponse,
    Errors,
)
from ...releases.features import transaction_version_2
from .rivals import has_no_rival

p, q = PARTITION.variable("p"), PARTITION.variable("q")
i, j = PRODUCER.variable("i"), PRODUCER.variable("j")
t, r = TRANSACTION.variable("t"), RECORD.variable("r")
n = PRODUCER_ID.variable("n")

COMMIT, ABORT, DATA = leader.Kind.COMMIT, leader.Kind.ABORT, leader.Kind.DATA
COMMITTING, COMMITTED = application.Outcome.COMMITTING, application.Outcome.COMMITTED
STATE = coordinator.TransactionState


def is_older(
    one_id: Expression, one_epoch: Expression, other_id: Expression, other_epoch: Expression
) -> Expression:
    """Whether the first pair was given out before the second: producer ids only grow."""
    return (position(one_id) < position(other_id)) | (
        (one_id == other_id) & (one_epoch < other_epoch)
    )


def _with_outcome(where: Expression, txn: Expression, outcome: Expression) -> Expression:
    """Whether a record of the application's transaction, which a reader may still get, has been
    ended so on a partition."""
    entry = log_entry("e", where)
    marker = ending(entry, where)
    is_there = (position(entry) >= leader.log_start_offset.at(where)) & (entry.txn == txn)
    return any_of(entry, is_there & marker.is_set & (marker.value.kind == outcome))


def _is_there(where: Expression, txn: Expression, record: Expression) -> Expression:
    entry = log_entry("e", where)
    return any_of(entry, (entry.txn == txn) & (entry.record == record))


_first, _second = log_entry("e", p), log_entry("f", p)

no_duplicate = invariant(
    "NoDuplicate",
    all_of(
        p,
        _first,
        _second,
        ((position(_first) < position(_second)) & (_first.kind == DATA)).implies(
            (_first.txn != _second.txn) | (_first.record != _second.record)
        ),
    ),
    "A record that an application sent once is in its partition's log at most once.",
    "KIP-98, idempotent producer",
    failure=failure(
        "{} of {} is in {} at offsets {} and {}",
        _first.record,
        _first.txn,
        p,
        position(_first),
        position(_second),
    ),
)

no_lost_acknowledgement = invariant(
    "NoLostAcknowledgement",
    all_of(
        t,
        p,
        r,
        (
            (application.outcome.at(t) == COMMITTED) & r.is_in(application.acknowledged.at(t)[p])
        ).implies(_is_there(p, t, r) & ~_with_outcome(p, t, ABORT)),
    ),
    "An acknowledged record of a transaction reported committed is in the log and not aborted.",
    "KIP-98, guarantees",
    failure=failure(
        "{} was reported committed, and its acknowledged {} is missing in {} or aborted there",
        t,
        r,
        p,
    ),
)

atomic = invariant(
    "Atomic",
    all_of(
        t,
        p,
        q,
        ~(_with_outcome(p, t, COMMIT) & _with_outcome(q, t, ABORT)),
    ),
    "A transaction's records all commit or all abort, on every partition.",
    "KIP-98, guarantees",
    failure=failure("{} is committed in {} and aborted in {}", t, p, q),
)

outcome_as_reported = invariant(
    "OutcomeAsReported",
    all_of(
        t,
        p,
        (application.outcome.at(t) == COMMITTED).implies(~_with_outcome(p, t, ABORT))
        & _with_outcome(p, t, COMMIT).implies(
            application.outcome.at(t).is_in(COMMITTING, COMMITTED)
        ),
    ),
    "A record is committed only if its application asked to commit and no failure was "
    "reported; no record of a transaction reported as committed is aborted.",
    "KIP-98, read_committed",
    failure=failure(
        "the application of {} knows the outcome {}, and {} has the other one",
        t,
        application.outcome.at(t),
        p,
    ),
)

_order_first, _order_second = log_entry("e", p), log_entry("f", p)
order = invariant(
    "Order",
    all_of(
        p,
        _order_first,
        _order_second,
        (
            (position(_order_first) < position(_order_second))
            & (_order_first.kind == DATA)
            & (_order_second.kind == DATA)
        ).implies(
            ~is_older(
                _order_second.producer_id,
                _order_second.producer_epoch,
                _order_first.producer_id,
                _order_first.producer_epoch,
            )
            & (position(_order_first.txn.value) <= position(_order_second.txn.value))
            & (
                (_order_first.txn != _order_second.txn)
                | (position(_order_first.record) < position(_order_second.record))
            )
        ),
    ),
    "In a partition, records are in the order in which their transactions began, then in the "
    "order of sending; records of an older producer epoch come first.",
    "KIP-98, fencing and idempotent producer",
    failure=failure(
        "{} has {} of {} (epoch {}) at offset {}, before {} of {} (epoch {}) at offset {}",
        p,
        _order_first.record,
        _order_first.txn,
        _order_first.producer_epoch,
        position(_order_first),
        _order_second.record,
        _order_second.txn,
        _order_second.producer_epoch,
        position(_order_second),
    ),
)

one_live_epoch = invariant(
    "OneLiveEpoch",
    all_of(
        i,
        j,
        (
            (i != j)
            & (client.producer_epoch.at(i) != NO_EPOCH)
            & (client.state.at(i) != client.FATAL_ERROR)
            & (client.state.at(j) != client.FATAL_ERROR)
            & (client.producer_id.at(i) == client.producer_id.at(j))
        ).implies(client.producer_epoch.at(i) != client.producer_epoch.at(j)),
    ),
    "No two client instances hold the same producer id and epoch.",
    "KIP-98, InitProducerId",
    failure=failure(
        "{} and {} both hold {} with epoch {}",
        i,
        j,
        client.producer_id.at(i),
        client.producer_epoch.at(i),
    ),
)

newest = last(leader.log.at(p))
appended = after(size(leader.log.at(p))) > size(leader.log.at(p))
zombie_fenced = step_property(
    "ZombieFenced",
    all_of(
        p,
        (
            appended
            & after(newest.value.kind == DATA)
            & coordinator.state.is_in(STATE.EMPTY, STATE.ONGOING)
            & ~coordinator.pending.is_set
        ).implies(
            ~is_older(
                after(newest.value.producer_id),
                after(newest.value.producer_epoch),
                coordinator.producer_id,
                log.logged_epoch,
            )
        ),
    ),
    "Once the transaction log has the epoch of a newer producer or transaction, no leader "
    "appends a record of an older epoch.",
    "KIP-98, fencing; KIP-890",
    failure=failure(
        "the leader of {} appends a record of {} with epoch {}, and the transaction log has "
        "{} with epoch {}",
        p,
        after(newest.value.producer_id),
        after(newest.value.producer_epoch),
        coordinator.producer_id,
        log.logged_epoch,
    ),
)

no_hanging = invariant(
    "NoHangingTransaction",
    all_of(
        p,
        leader.is_open.at(p).implies(
            p.is_in(coordinator.partitions)
            & coordinator.state.is_in(STATE.ONGOING, STATE.PREPARE_COMMIT, STATE.PREPARE_ABORT)
        ),
    ),
    "The coordinator will end every transaction that is open at a leader, so that the last "
    "stable offset can advance.",
    "KIP-890, KAFKA-14402",
    failure=failure(
        "{} has an open transaction, and the coordinator won't end it: it is in {} with "
        "these partitions: {}",
        p,
        coordinator.state,
        coordinator.partitions,
    ),
)

stable_offset_forward = step_property(
    "StableOffsetForward",
    all_of(
        p,
        after(leader.last_stable_offset.at(p)) >= leader.last_stable_offset.at(p),
    ),
    "The last stable offset never goes back.",
    "UnifiedLog.lastStableOffset",
    failure=failure(
        "the last stable offset of {} goes back from {} to {}",
        p,
        leader.last_stable_offset.at(p),
        after(leader.last_stable_offset.at(p)),
    ),
)

stable = log_entry("stable", p)
kept = element("k", after(leader.log.at(p)))
read_committed_stays = step_property(
    "ReadCommittedStays",
    all_of(
        p,
        stable,
        (position(stable) < leader.last_stable_offset.at(p)).implies(
            any_of(kept, (position(kept) == position(stable)) & (kept == stable))
        ),
    ),
    "A record that a read_committed consumer has read stays in the log, with the same outcome.",
    "KIP-98, read_committed",
    failure=failure(
        "the entry at offset {} of {}, below the last stable offset {}, is lost or changed",
        position(stable),
        p,
        leader.last_stable_offset.at(p),
    ),
)

epoch_at_leader = leader.producers.at(p)[n].producer_epoch
epoch_forward = step_property(
    "EpochForward",
    (after(position(coordinator.producer_id)) >= position(coordinator.producer_id))
    & (after(coordinator.producer_id) == coordinator.producer_id).implies(
        after(log.logged_epoch) >= log.logged_epoch
    )
    & all_of(
        p,
        n,
        after(epoch_at_leader == NO_EPOCH) | (after(epoch_at_leader) >= epoch_at_leader),
    ),
    "The epoch of a producer id never goes back, neither in the transaction log nor at a "
    "leader that remembers the producer.",
    "KIP-98",
    failure=(
        failure(
            "the leader of {} goes back from epoch {} to {} for {}",
            p,
            epoch_at_leader,
            after(epoch_at_leader),
            n,
        ),
        failure(
            "the transaction log goes back from {} with epoch {} to {} with epoch {}",
            coordinator.producer_id,
            log.logged_epoch,
            after(coordinator.producer_id),
            after(log.logged_epoch),
        ),
    ),
)

has_epoch = (client.producer_epoch.at(i) != NO_EPOCH) & (client.state.at(i) != client.FATAL_ERROR)
reserved_epoch = invariant(
    "ReservedEpoch",
    all_of(i, client.producer_epoch.at(i) < LARGEST_EPOCH),
    "No client gets the largest epoch: the coordinator needs it for fencing.",
    "TransactionMetadata.isEpochExhausted; KAFKA-18660",
    failure=failure("{} holds the largest epoch, {}", i, client.producer_epoch.at(i)),
)

answer_stands = invariant(
    "AnswerStands",
    all_of(
        i,
        has_epoch.implies(
            ~is_older(
                coordinator.producer_id,
                coordinator.producer_epoch,
                client.producer_id.at(i),
                client.producer_epoch.at(i),
            )
            | (
                (coordinator.next_id == client.producer_id.at(i))
                & (client.producer_epoch.at(i) == 0)
            )
        ),
    ),
    "The producer id and epoch that a client got are the coordinator's current or previous "
    "ones, or those after the end in progress, whichever broker coordinates.",
    "KAFKA-20310",
    failure=failure(
        "{} holds {} with epoch {}, and the coordinator only has {} with epoch {}",
        i,
        client.producer_id.at(i),
        client.producer_epoch.at(i),
        coordinator.producer_id,
        coordinator.producer_epoch,
    ),
)

bumped_once = step_property(
    "BumpedOnce",
    all_of(
        i,
        (
            has_epoch
            & (after(client.producer_epoch.at(i)) > client.producer_epoch.at(i))
            & (after(client.producer_id.at(i)) == client.producer_id.at(i))
        ).implies(after(client.producer_epoch.at(i)) == client.producer_epoch.at(i) + 1),
    ),
    "A client that continues gets the epoch after its own: a retried InitProducerId or EndTxn "
    "has no second effect.",
    "KIP-360",
    failure=failure(
        "{} goes from epoch {} to {}",
        i,
        client.producer_epoch.at(i),
        after(client.producer_epoch.at(i)),
    ),
)

fenced = has_epoch & is_older(
    client.producer_id.at(i),
    client.producer_epoch.at(i),
    client.producer_id.at(j),
    client.producer_epoch.at(j),
)
fenced_for_good = step_property(
    "FencedForGood",
    all_of(
        i,
        j,
        (fenced & (client.state.at(j) != client.FATAL_ERROR) & after(has_epoch)).implies(
            ~is_older(
                client.producer_id.at(j),
                client.producer_epoch.at(j),
                after(client.producer_id.at(i)),
                after(client.producer_epoch.at(i)),
            )
        ),
    ),
    "A client instance that a newer one has fenced gets no newer epoch or producer id, unless "
    "it is restarted.",
    "KIP-98, fencing; KAFKA-18019",
    failure=failure(
        "{}, fenced by {} with epoch {}, gets {} with epoch {}",
        i,
        j,
        client.producer_epoch.at(j),
        after(client.producer_id.at(i)),
        after(client.producer_epoch.at(i)),
    ),
)

# A transaction that times out may come to a fatal error, if its end is asked for meanwhile; with
# version 2 only if that is a commit.
ends_its = client.is_completing(client.state.at(i)) & ~client.waits_for_id.at(i)
answer = in_flight("answer", EndTxnResponse, i)
ends_2 = end_version.at(i) == 2
is_aborted = any_true(
    coordinator.fence_to_come,
    any_of(answer, answer.error == Errors.UNKNOWN_SERVER_ERROR),  # a commit has met the fence
    (coordinator.pending == STATE.PREPARE_ABORT) & (client.state.at(i) == client.COMMITTING),
    (
        (coordinator.pending == STATE.PREPARE_ABORT)
        | coordinator.state.is_in(STATE.PREPARE_ABORT, STATE.COMPLETE_ABORT)
    )
    & is_older(
        client.producer_id.at(i),
        client.producer_epoch.at(i),
        coordinator.producer_id,
        coordinator.producer_epoch,
    )
    & ((client.state.at(i) == client.COMMITTING) | ~(transaction_version_2 & ends_2)),
)
# At the last epoch the abort of what has timed out takes a new producer id; a batch for one more
# partition then gets INVALID_PRODUCER_ID_MAPPING, which is fatal (KAFKA-18019).
has_old_id = all_true(
    ~ends_its,
    coordinator.state == STATE.COMPLETE_ABORT,
    client.producer_id.at(i) != coordinator.producer_id,
)
is_forgotten = (client.producer_epoch.at(i) != NO_EPOCH) & ~coordinator.is_known
not_fenced_by_itself = step_property(
    "NotFencedByItself",
    all_of(
        i,
        (
            has_no_rival(i)
            & (client.state.at(i) != client.FATAL_ERROR)
            & ~(ends_its & is_aborted)
            & ~has_old_id
            & ~is_forgotten
        ).implies(after(client.state.at(i) != client.FATAL_ERROR)),
    ),
    "A client without another instance and without late requests doesn't fail for good, unless"
    " its transaction timed out or its transactional id expired.",
    "KIP-360; KIP-588; KAFKA-20357",
    failure=failure(
        "{} goes from {} to {}, and no other instance has fenced it",
        i,
        client.state.at(i),
        after(client.state.at(i)),
    ),
)

same_id = after(coordinator.producer_id) == coordinator.producer_id
is_known = (log.logged_epoch != NO_EPOCH) & after(log.logged_epoch != NO_EPOCH)
epochs_in_turn = step_property(
    "EpochsInTurn",
    is_known.implies(
        if_(
            same_id,
            after(log.logged_epoch).is_in(log.logged_epoch, log.logged_epoch + 1),
            after(log.logged_epoch) == 0,
        )
    ),
    "The transaction log has the epochs of a producer id one by one, and those of a new "
    "producer id from 0 on.",
    "KAFKA-9666; KAFKA-19367",
    failure=failure(
        "the transaction log goes from {} with epoch {} to {} with epoch {}",
        coordinator.producer_id,
        log.logged_epoch,
        after(coordinator.producer_id),
        after(log.logged_epoch),
    ),
)
one_epoch_for_a_decision = step_property(
    "OneEpochForADecision",
    (same_id & after(coordinator.is_prepared) & ~coordinator.is_prepared).implies(
        after(log.logged_epoch) <= log.logged_epoch + 1
    ),
    "A decision to commit or abort uses at most one epoch.",
    "KIP-890 part 2; KAFKA-19367",
    failure=failure(
        "the decision {} goes from epoch {} to {}",
        after(coordinator.state),
        log.logged_epoch,
        after(log.logged_epoch),
    ),
)

epochs_not_wasted = invariant(
    "EpochsNotWasted",
    coordinator.producer_epoch <= log.logged_epoch + 1,
    "A fence uses one epoch, however often the coordinator fails to write it to the log.",
    "KAFKA-9666",
    failure=failure(
        "the coordinator has epoch {}, and the transaction log has {}",
        coordinator.producer_epoch,
        log.logged_epoch,
    ),
)

coordinator_state = coordinator.state
_SETTLED = (STATE.EMPTY, STATE.COMPLETE_COMMIT, STATE.COMPLETE_ABORT)
PREVIOUS = (  # what a state may follow, except itself
    (STATE.EMPTY, coordinator_state.is_in(*_SETTLED)),
    (STATE.ONGOING, coordinator_state.is_in(STATE.ONGOING, *_SETTLED)),
    (STATE.PREPARE_COMMIT, coordinator_state == STATE.ONGOING),
    (
        STATE.PREPARE_ABORT,
        (coordinator_state == STATE.ONGOING)
        | (transaction_version_2 & coordinator_state.is_in(*_SETTLED)),
    ),
    (STATE.COMPLETE_COMMIT, coordinator_state == STATE.PREPARE_COMMIT),
    (STATE.COMPLETE_ABORT, coordinator_state == STATE.PREPARE_ABORT),
)
declared_transitions = step_property(
    "DeclaredTransitions",
    all_true(
        *(
            (after(coordinator_state) == target).implies((coordinator_state == target) | allowed)
            for target, allowed in PREVIOUS
        ),
        ~after(coordinator_state.is_in(STATE.DEAD, STATE.PREPARE_EPOCH_FENCE)),
    ),
    "The coordinator's state changes only as TransactionState declares, and a decision to commit "
    "or abort is never taken back.",
    "TransactionState.validPreviousStates",
    failure=failure(
        "the coordinator goes from {} to {}", coordinator_state, after(coordinator_state)
    ),
)

markers_match = step_property(
    "MarkersMatchDecision",
    all_of(
        p,
        (appended & after(newest.value.kind != DATA)).implies(
            coordinator.state
            == if_(after(newest.value.kind == COMMIT), STATE.PREPARE_COMMIT, STATE.PREPARE_ABORT)
        ),
    ),
    "A marker ends a transaction only while it matches the coordinator's decision.",
    "KIP-1228",
    failure=failure(
        "{} gets a marker {}, and the coordinator is in {}",
        p,
        after(newest.value.kind),
        coordinator.state,
    ),
)

PROPERTIES = (
    no_duplicate,
    no_lost_acknowledgement,
    atomic,
    outcome_as_reported,
    order,
    one_live_epoch,
    no_hanging,
    zombie_fenced,
    stable_offset_forward,
    read_committed_stays,
    epoch_forward,
    reserved_epoch,
    answer_stands,
    bumped_once,
    fenced_for_good,
    not_fenced_by_itself,
    epochs_in_turn,
    one_epoch_for_a_decision,
    epochs_not_wasted,
    declared_transitions,
    markers_match,
)
