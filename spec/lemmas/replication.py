"""Of a partition's replicas: whose entries a log has, and who has the entries that may be
committed.

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
from ..replication import state as replicas
from ..replication.state import LOG_SIZE, RECORD, REPLICA, UNKNOWN, State

i, j, k = (REPLICA.variable(name) for name in "ijk")
x = REPLICA.variable("x")
_one, _other = element("one", replicas.log.at(i)), element("other", replicas.log.at(j))
_entry, _entry_i = element("entry", replicas.log.at(j)), element("mine", replicas.log.at(i))

leads = replicas.state.at(i) == State.LEADER
is_newest = leads & (replicas.leader_epoch.at(i) == replicas.newest_epoch)


def _may_lead(replica: Expression) -> Expression:
    """Whether a clean election may take it, now or once others have gone."""
    return replica.is_in(replicas.in_sync) | replica.is_in(replicas.eligible)


# The controller and the epochs --------------------------------------------------------------------

registered = invariant(
    "Registered",
    all_true(
        ((replicas.newest_epoch == 0) == (size(replicas.in_sync) == 0)),
        (replicas.newest_epoch == 0).implies(
            all_true(size(replicas.eligible) == 0, ~replicas.elected.is_set)
        ),
        replicas.elected.is_set.implies(replicas.elected.value.is_in(replicas.in_sync)),
        all_of(i, ~(i.is_in(replicas.in_sync) & i.is_in(replicas.eligible))),
        (size(replicas.in_sync) >= replicas.min_isr).implies(size(replicas.eligible) == 0),
        ~replicas.last_known_leader.is_set,
        all_of(i, ~replicas.unclean_shutdown.at(i)),
    ),
    "There are replicas in sync from the first election on, the elected one among them; none is "
    "eligible where enough are in sync.",
)
"""The controller changes these sets together, and takes replicas as eligible only while too few are
in sync."""

epochs_known = invariant(
    "EpochsKnown",
    all_of(
        j,
        all_true(
            replicas.leader_epoch.at(j) <= replicas.newest_epoch,
            (replicas.leader_epoch.at(j) == 0)
            == replicas.state.at(j).is_in(State.OFFLINE, State.STARTED),
            all_of(
                _entry,
                (_entry.leader_epoch >= 1)
                & (
                    _entry.leader_epoch
                    <= if_(
                        replicas.leader_epoch.at(j) == 0,
                        replicas.newest_epoch,
                        replicas.leader_epoch.at(j),
                    )
                ),
            ),
        ),
    ),
    "A replica's entries are of the epoch that it has heard of, or of older ones.",
)
"""The controller counts epochs up. A leader writes its own epoch, and a follower copies from the
leader of the epoch that it has heard of."""

leader_elected = invariant(
    "LeaderElected",
    all_of(
        i,
        (replicas.leader_epoch.at(i) == replicas.newest_epoch).implies(
            (replicas.newest_epoch == 0) | (leads == (replicas.elected == i))
        ),
    ),
    "In the newest epoch, the elected replica leads and no other.",
)
"""A replica hears of an epoch and of its leader at the same time."""

first_of_epoch = invariant(
    "FirstOfEpoch",
    all_of(
        i,
        ((replicas.elected == i) & (replicas.state.at(i) != State.OFFLINE) & ~is_newest).implies(
            all_of(
                j,
                all_of(_entry, _entry.leader_epoch < replicas.newest_epoch)
                & ~(
                    (replicas.state.at(j) == State.FETCHING)
                    & (replicas.leader_epoch.at(j) == replicas.newest_epoch)
                ),
            )
        ),
    ),
    "An epoch has no entry, and nobody fetches in it, before its leader has heard of it.",
)
"""Only the leader of an epoch writes entries of it and answers fetches in it, once it has heard of
it."""

# Logs ---------------------------------------------------------------------------------------------

logs_match = invariant(
    "LogsMatch",
    all_of(
        i,
        j,
        _one,
        _other,
        ((position(_one) == position(_other)) & (_one.leader_epoch == _other.leader_epoch)).implies(
            is_prefix(replicas.log.at(i)[: position(_one) + 1], replicas.log.at(j)),
        ),
    ),
    "If two logs have an entry of one epoch at one offset, they are the same up to there.",
)
"""One leader writes the entries of an epoch, one behind the other. A follower copies them only
behind the same entries."""

before = count_of(_entry_i, _entry_i.leader_epoch < _one.leader_epoch)
before_other = count_of(_entry, _entry.leader_epoch < _one.leader_epoch)
epochs_start_alike = invariant(
    "EpochsStartAlike",
    all_of(
        i,
        j,
        _one,
        _other,
        (_one.leader_epoch == _other.leader_epoch).implies(before == before_other),
    ),
    "An epoch starts at the same offset in all logs that have it.",
)
"""An epoch starts at the end of its leader's log, and logs agree up to there (LogsMatch)."""

has_own_entries = invariant(
    "HasOwnEntries",
    all_of(
        i,
        j,
        _entry,
        (leads & (_entry.leader_epoch == replicas.leader_epoch.at(i))).implies(
            is_prefix(replicas.log.at(j)[: position(_entry) + 1], replicas.log.at(i))
        ),
    ),
    "All entries of a leader's epoch are in its log, after the same ones.",
)
"""Only this leader has written them, and a leader cuts nothing off its log."""

known_of_leader = invariant(
    "KnownOfLeader",
    all_of(
        i,
        all_true(
            replicas.high_watermark.at(i) <= size(replicas.log.at(i)),
            replicas.epoch_start.at(i) <= if_(leads, size(replicas.log.at(i)), 0),
            all_of(x, replicas.fetched.at(i)[x] <= size(replicas.log.at(i))),
            leads.implies(i.is_in(replicas.isr.at(i))),
            is_newest.implies(replicas.isr.at(i) == replicas.in_sync),
            leads | (replicas.isr.at(i) == set_of()),
            leads | all_of(x, replicas.fetched.at(i)[x] == UNKNOWN),
        ),
    ),
    "A leader is in its in-sync set, which is the recorded one in the newest epoch, and no offset "
    "is behind its log.",
)
"""A leader learns offsets from fetches of its own log, which only grows. It forgets them when it
leads no more."""

# What is committed --------------------------------------------------------------------------------

known = replicas.log.at(i)[: replicas.high_watermark.at(i)]
committed_in_sync = invariant(
    "CommittedInSync",
    all_of(i, j, _may_lead(j).implies(is_prefix(known, replicas.log.at(j)))),
    "A replica that may lead has the records below any replica's high watermark.",
)
"""A high watermark rises to what all in sync have, and a replica comes back in sync once it has
what lies below."""

fetched_there = invariant(
    "FetchedThere",
    all_of(
        i,
        j,
        (leads & (i != j) & (replicas.fetched.at(i)[j] != UNKNOWN)).implies(
            (
                (replicas.leader_epoch.at(j) == 0)
                | (replicas.leader_epoch.at(j) >= replicas.leader_epoch.at(i))
            )
            & is_newest.implies(
                (replicas.fetched.at(i)[j] <= size(replicas.log.at(j)))
                & is_prefix(
                    replicas.log.at(i)[: maximum(replicas.fetched.at(i)[j], 0)],
                    replicas.log.at(j),
                )
            )
        ),
    ),
    "A follower has what its leader knows it to have fetched.",
)
"""A fetch says what the follower has. The follower keeps it as long as it follows this leader."""

below_epoch_start = invariant(
    "BelowEpochStart",
    all_of(
        i,
        is_newest.implies(
            all_of(
                j,
                replicas.high_watermark.at(j)
                <= maximum(replicas.high_watermark.at(i), replicas.epoch_start.at(i)),
            )
        ),
    ),
    "No high watermark lies above both the newest leader's and the start of its epoch.",
)
"""The newest leader had all that was committed when its epoch began (CommittedInSync), and older
leaders commit no more than that (OldLeaderLimited)."""

# Leaders of older epochs --------------------------------------------------------------------------

is_old = (
    leads
    & (replicas.leader_epoch.at(i) < replicas.newest_epoch)
    & (size(replicas.isr.at(i)) >= replicas.min_isr)
)
"""A leader that hasn't heard of its successor, and whose high watermark may move."""


def _has_left(replica: Expression) -> Expression:
    """Whether a replica of the old leader's in-sync set fetches from it no more."""
    return all_true(
        replica.is_in(replicas.isr.at(i)),
        replica != i,
        replicas.leader_epoch.at(replica) != replicas.leader_epoch.at(i),
    )


limit = min_of(x, if_(_has_left(x), replicas.fetched.at(i)[x], LOG_SIZE))
shared = maximum(
    0, minimum(limit, if_(j.is_in(replicas.isr.at(i)), replicas.fetched.at(i)[j], LOG_SIZE))
)
"""The part of the old leader's log that replica j has, if it matters: the high watermark stays
below."""

leads_later = (replicas.state.at(j) == State.LEADER) & (
    replicas.leader_epoch.at(j) > replicas.leader_epoch.at(i)
)

followers_of_old = invariant(
    "FollowersOfOld",
    all_of(
        i,
        j,
        (leads & (size(replicas.isr.at(i)) >= replicas.min_isr) & _may_lead(j)).implies(
            j.is_in(replicas.isr.at(i))
            | (replicas.leader_epoch.at(j) == 0)
            | (replicas.leader_epoch.at(j) > replicas.leader_epoch.at(i))
            | (is_newest)
        )
        & (is_old & ((_may_lead(j) & ~j.is_in(replicas.isr.at(i))) | leads_later)).implies(
            any_of(x, _has_left(x))
        ),
    ),
    "A replica that may lead was in sync with an older leader, or has been since one of those "
    "left it.",
)
"""A replica comes back in sync by fetching from the newest leader, and fetches from the older one
no more."""

old_leader_limited = invariant(
    "OldLeaderLimited",
    all_of(
        i,
        j,
        (is_old & (i != j) & (_may_lead(j) | leads_later)).implies(
            all_true(
                shared <= size(replicas.log.at(j)),
                is_prefix(replicas.log.at(i)[:shared], replicas.log.at(j)),
                leads_later.implies(shared <= replicas.epoch_start.at(j)),
            )
        ),
    ),
    "A replica that may lead, or leads later, has what an older leader may still commit.",
)
"""The older leader's high watermark doesn't pass what it knows of a replica of its set, and those
that have left tell it nothing new."""

is_old_of_follower = all_true(
    leads,
    replicas.leader_epoch.at(i) < replicas.newest_epoch,
    i != j,
    replicas.leader_epoch.at(j) == replicas.leader_epoch.at(i),
    _may_lead(j),
)
committed_at_old_leader = invariant(
    "CommittedAtOldLeader",
    all_of(
        i,
        j,
        is_old_of_follower.implies(
            all_of(
                k,
                is_prefix(replicas.log.at(k)[: replicas.high_watermark.at(k)], replicas.log.at(i)),
            )
        ),
    ),
    "An older leader whose follower may lead has what lies below any replica's high watermark.",
)
"""Such a follower has what it has from that leader, and has all that is committed
(CommittedInSync)."""

# Answers to clients -------------------------------------------------------------------------------

record = variable("record", RECORD)
committed = replicas.log.at(i)[: maximum(replicas.high_watermark.at(i), replicas.epoch_start.at(i))]
in_committed = element("committed", committed)

consumed_in_sync = invariant(
    "ConsumedInSync",
    all_true(
        (replicas.newest_epoch == 0).implies(size(replicas.consumed) == 0),
        all_of(j, _may_lead(j).implies(is_prefix(replicas.consumed, replicas.log.at(j)))),
        all_of(i, is_newest.implies(size(replicas.consumed) <= size(committed))),
        all_of(
            i,
            j,
            is_old_of_follower.implies(is_prefix(replicas.consumed, replicas.log.at(i))),
        ),
    ),
    "A replica that may lead has what consumers have read. So does an older leader if its "
    "follower may lead.",
)
"""Consumers read below a high watermark (CommittedInSync)."""

records_once = invariant(
    "RecordsOnce",
    all_of(
        i,
        all_of(
            j,
            _one,
            _other,
            (_one.record == _other.record).implies(
                (_one.leader_epoch == _other.leader_epoch)
                & ((i != j) | (position(_one) == position(_other)))
            ),
        )
        & all_of(_one, _one.record < replicas.produced),
    ),
    "A record was appended once, in one epoch, by the leader that it was sent to.",
)
"""A producer sends a record to one leader once, and followers copy it with its epoch."""

acknowledged_in_sync = invariant(
    "AcknowledgedInSync",
    all_of(
        record,
        record.is_in(replicas.acknowledged).implies(
            all_true(
                replicas.newest_epoch > 0,
                all_of(j, _may_lead(j).implies(any_of(_entry, _entry.record == record))),
                all_of(i, is_newest.implies(any_of(in_committed, in_committed.record == record))),
                all_of(
                    i,
                    j,
                    is_old_of_follower.implies(any_of(_one, _one.record == record)),
                ),
            )
        ),
    ),
    "A replica that may lead has what was acknowledged. So does an older leader if its follower "
    "may lead.",
)
"""A record is acknowledged when it lies below the leader's high watermark (CommittedInSync)."""

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
