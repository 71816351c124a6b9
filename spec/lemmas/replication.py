"""Of a partition's replicas: whose entries a log has, and who has what may be committed.

The lemmas are of the newest release, with clean elections and without power losses.
"""

from __future__ import annotations

from ...language import (
    Expression,
    all_of,
    all_true,
    any_of,
    count_of,
    element,
    if_,
    invariant,
    is_prefix,
    maximum,
    min_of,
    minimum,
    position,
    set_of,
    size,
    variable,
)
from ..replication.state import (
    LOG_SIZE,
    RECORD,
    REPLICA,
    UNKNOWN,
    State,
    acknowledged,
    consumed,
    elected,
    eligible,
    epoch_start,
    fetched,
    high_watermark,
    in_sync,
    isr,
    last_known_leader,
    leader_epoch,
    log,
    min_isr,
    newest_epoch,
    produced,
    state,
    unclean_shutdown,
)

i, j, k = (REPLICA.variable(name) for name in "ijk")
x = REPLICA.variable("x")
_one, _other = element("one", log.at(i)), element("other", log.at(j))
_entry, _entry_i = element("entry", log.at(j)), element("mine", log.at(i))

_leads = state.at(i) == State.LEADER
_is_newest = _leads & (leader_epoch.at(i) == newest_epoch)


def _may_lead(replica: Expression) -> Expression:
    """Whether a clean election may take it, now or once others have gone."""
    return replica.is_in(in_sync) | replica.is_in(eligible)


# The controller and the epochs --------------------------------------------------------------------

registered = invariant(
    "Registered",
    all_true(
        ((newest_epoch == 0) == (size(in_sync) == 0)),
        (newest_epoch == 0).implies(all_true(size(eligible) == 0, ~elected.is_set)),
        elected.is_set.implies(elected.value.is_in(in_sync)),
        all_of(i, ~(i.is_in(in_sync) & i.is_in(eligible))),
        (size(in_sync) >= min_isr).implies(size(eligible) == 0),
        ~last_known_leader.is_set,
        all_of(i, ~unclean_shutdown.at(i)),
    ),
    "There are replicas in sync from the first election on, the elected one among them; none is "
    "eligible where enough are in sync.",
)

epochs_known = invariant(
    "EpochsKnown",
    all_of(
        j,
        all_true(
            leader_epoch.at(j) <= newest_epoch,
            (leader_epoch.at(j) == 0) == state.at(j).is_in(State.OFFLINE, State.STARTED),
            all_of(
                _entry,
                (_entry.leader_epoch >= 1)
                & (
                    _entry.leader_epoch
                    <= if_(leader_epoch.at(j) == 0, newest_epoch, leader_epoch.at(j))
                ),
            ),
        ),
    ),
    "A replica's entries are of the epoch that it has heard of, or of older ones.",
)

leader_elected = invariant(
    "LeaderElected",
    all_of(
        i,
        (leader_epoch.at(i) == newest_epoch).implies(
            (newest_epoch == 0) | (_leads == (elected == i))
        ),
    ),
    "In the newest epoch, the elected replica leads and no other.",
)

first_of_epoch = invariant(
    "FirstOfEpoch",
    all_of(
        i,
        ((elected == i) & (state.at(i) != State.OFFLINE) & ~_is_newest).implies(
            all_of(
                j,
                all_of(_entry, _entry.leader_epoch < newest_epoch)
                & ~((state.at(j) == State.FETCHING) & (leader_epoch.at(j) == newest_epoch)),
            )
        ),
    ),
    "An epoch has no entry, and nobody fetches in it, before its leader has heard of it.",
)

# Logs ---------------------------------------------------------------------------------------------

logs_match = invariant(
    "LogsMatch",
    all_of(
        i,
        all_of(
            j,
            all_of(
                _one,
                all_of(
                    _other,
                    (
                        (position(_one) == position(_other))
                        & (_one.leader_epoch == _other.leader_epoch)
                    ).implies(
                        is_prefix(log.at(i)[: position(_one) + 1], log.at(j)),
                    ),
                ),
            ),
        ),
    ),
    "Where two logs have an entry of one epoch at one offset, they are the same up to there.",
)

_before = count_of(_entry_i, _entry_i.leader_epoch < _one.leader_epoch)
_before_other = count_of(_entry, _entry.leader_epoch < _one.leader_epoch)
epochs_start_alike = invariant(
    "EpochsStartAlike",
    all_of(
        i,
        all_of(
            j,
            all_of(
                _one,
                all_of(
                    _other,
                    (_one.leader_epoch == _other.leader_epoch).implies(_before == _before_other),
                ),
            ),
        ),
    ),
    "An epoch starts at the same offset in all logs that have it.",
)

has_own_entries = invariant(
    "HasOwnEntries",
    all_of(
        i,
        all_of(
            j,
            all_of(
                _entry,
                (_leads & (_entry.leader_epoch == leader_epoch.at(i))).implies(
                    is_prefix(log.at(j)[: position(_entry) + 1], log.at(i))
                ),
            ),
        ),
    ),
    "All entries of a leader's epoch are in its log, after the same ones.",
)

known_of_leader = invariant(
    "KnownOfLeader",
    all_of(
        i,
        all_true(
            high_watermark.at(i) <= size(log.at(i)),
            epoch_start.at(i) <= if_(_leads, size(log.at(i)), 0),
            all_of(x, fetched.at(i)[x] <= size(log.at(i))),
            _leads.implies(i.is_in(isr.at(i))),
            _is_newest.implies(isr.at(i) == in_sync),
            _leads | (isr.at(i) == set_of()),
            _leads | all_of(x, fetched.at(i)[x] == UNKNOWN),
        ),
    ),
    "A leader is in its in-sync set, which is the recorded one in the newest epoch, and no offset "
    "is behind its log.",
)

# What is committed --------------------------------------------------------------------------------

_known = log.at(i)[: high_watermark.at(i)]
committed_in_sync = invariant(
    "CommittedInSync",
    all_of(i, all_of(j, _may_lead(j).implies(is_prefix(_known, log.at(j))))),
    "Whoever may lead has what lies below any replica's high watermark.",
)

fetched_there = invariant(
    "FetchedThere",
    all_of(
        i,
        all_of(
            j,
            (_leads & (i != j) & (fetched.at(i)[j] != UNKNOWN)).implies(
                ((leader_epoch.at(j) == 0) | (leader_epoch.at(j) >= leader_epoch.at(i)))
                & _is_newest.implies(
                    (fetched.at(i)[j] <= size(log.at(j)))
                    & is_prefix(log.at(i)[: maximum(fetched.at(i)[j], 0)], log.at(j))
                )
            ),
        ),
    ),
    "A follower has what its leader knows it to have fetched.",
)

below_epoch_start = invariant(
    "BelowEpochStart",
    all_of(
        i,
        _is_newest.implies(
            all_of(j, high_watermark.at(j) <= maximum(high_watermark.at(i), epoch_start.at(i)))
        ),
    ),
    "No high watermark lies above both the newest leader's and the start of its epoch.",
)

# Leaders of older epochs --------------------------------------------------------------------------

_is_old = _leads & (leader_epoch.at(i) < newest_epoch) & (size(isr.at(i)) >= min_isr)
"""A leader that hasn't heard of its successor, and whose high watermark may move."""


def _has_left(replica: Expression) -> Expression:
    """Whether a replica of the old leader's in-sync set fetches from it no more."""
    return all_true(
        replica.is_in(isr.at(i)), replica != i, leader_epoch.at(replica) != leader_epoch.at(i)
    )


_limit = min_of(x, if_(_has_left(x), fetched.at(i)[x], LOG_SIZE))
_shared = maximum(0, minimum(_limit, if_(j.is_in(isr.at(i)), fetched.at(i)[j], LOG_SIZE)))
"""What replica j has of the old leader's log, if it matters: the high watermark stays below."""

_leads_later = (state.at(j) == State.LEADER) & (leader_epoch.at(j) > leader_epoch.at(i))

followers_of_old = invariant(
    "FollowersOfOld",
    all_of(
        i,
        all_of(
            j,
            (_leads & (size(isr.at(i)) >= min_isr) & _may_lead(j)).implies(
                j.is_in(isr.at(i))
                | (leader_epoch.at(j) == 0)
                | (leader_epoch.at(j) > leader_epoch.at(i))
                | (_is_newest)
            )
            & (_is_old & ((_may_lead(j) & ~j.is_in(isr.at(i))) | _leads_later)).implies(
                any_of(x, _has_left(x))
            ),
        ),
    ),
    "Who may lead was in sync with an older leader, or has been since one of those has left it.",
)

old_leader_limited = invariant(
    "OldLeaderLimited",
    all_of(
        i,
        all_of(
            j,
            (_is_old & (i != j) & (_may_lead(j) | _leads_later)).implies(
                all_true(
                    _shared <= size(log.at(j)),
                    is_prefix(log.at(i)[:_shared], log.at(j)),
                    _leads_later.implies(_shared <= epoch_start.at(j)),
                )
            ),
        ),
    ),
    "Who may lead, or leads later, has what an older leader may still commit.",
)

_is_old_of_follower = all_true(
    _leads,
    leader_epoch.at(i) < newest_epoch,
    i != j,
    leader_epoch.at(j) == leader_epoch.at(i),
    _may_lead(j),
)
committed_at_old_leader = invariant(
    "CommittedAtOldLeader",
    all_of(
        i,
        all_of(
            j,
            _is_old_of_follower.implies(
                all_of(k, is_prefix(log.at(k)[: high_watermark.at(k)], log.at(i)))
            ),
        ),
    ),
    "An older leader whose follower may lead has what lies below any replica's high watermark.",
)

# Answers to clients -------------------------------------------------------------------------------

_record = variable("record", RECORD)
_committed = log.at(i)[: maximum(high_watermark.at(i), epoch_start.at(i))]
_in_committed = element("committed", _committed)

consumed_in_sync = invariant(
    "ConsumedInSync",
    all_true(
        (newest_epoch == 0).implies(size(consumed) == 0),
        all_of(j, _may_lead(j).implies(is_prefix(consumed, log.at(j)))),
        all_of(i, _is_newest.implies(size(consumed) <= size(_committed))),
        all_of(i, all_of(j, _is_old_of_follower.implies(is_prefix(consumed, log.at(i))))),
    ),
    "Whoever may lead has what consumers have read, and so has an older leader whose follower may.",
)

records_once = invariant(
    "RecordsOnce",
    all_of(
        i,
        all_of(
            j,
            all_of(
                _one,
                all_of(
                    _other,
                    (_one.record == _other.record).implies(
                        (_one.leader_epoch == _other.leader_epoch)
                        & ((i != j) | (position(_one) == position(_other)))
                    ),
                ),
            ),
        )
        & all_of(_one, _one.record < produced),
    ),
    "A record was appended once, in one epoch, by the leader that it was sent to.",
)

acknowledged_in_sync = invariant(
    "AcknowledgedInSync",
    all_of(
        _record,
        _record.is_in(acknowledged).implies(
            all_true(
                newest_epoch > 0,
                all_of(j, _may_lead(j).implies(any_of(_entry, _entry.record == _record))),
                all_of(
                    i, _is_newest.implies(any_of(_in_committed, _in_committed.record == _record))
                ),
                all_of(
                    i,
                    all_of(j, _is_old_of_follower.implies(any_of(_one, _one.record == _record))),
                ),
            )
        ),
    ),
    "Whoever may lead has what was acknowledged, and so has an older leader whose follower may.",
)

LEMMAS = (
    registered,
    epochs_known,
    leader_elected,
    first_of_epoch,
    logs_match,
    epochs_start_alike,
    has_own_entries,
    known_of_leader,
    committed_in_sync,
    fetched_there,
    below_epoch_start,
    followers_of_old,
    old_leader_limited,
    committed_at_old_leader,
    consumed_in_sync,
    records_once,
    acknowledged_in_sync,
)
