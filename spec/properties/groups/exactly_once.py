"""Properties of consume, process and produce, in a user's words."""

from __future__ import annotations

from ....language import (
    Expression,
    after,
    all_of,
    any_of,
    count_of,
    failure,
    if_,
    invariant,
    last,
    max_of,
    size,
    step_property,
    variable,
)
from ...client.calls import application
from ...groups import failover
from ...groups import state as groups
from ...groups.state import INPUT_OFFSET, OFFSETS, OUTPUT
from ...leader import state as leader
from ...leader.isolation import ending, is_aborted, log_entry
from ...messages import PRODUCER, TRANSACTIONS
from ..transactions.transactions import atomic, no_hanging

DATA, COMMIT = leader.Kind.DATA, leader.Kind.COMMIT
ASKED = (application.Outcome.COMMITTING, application.Outcome.COMMITTED)
i = PRODUCER.variable("i")
k = variable("k", INPUT_OFFSET)

first = log_entry("e", OUTPUT)


def _input(entry: Expression) -> Expression:
    """The input that a record, or a committed offset, is about."""
    return groups.processed.at(entry.txn.value)


def _is_committed(entry: Expression, where: Expression) -> Expression:
    marker = ending(entry, where)
    return (entry.kind == DATA) & marker.is_set & (marker.value.kind == COMMIT)


counted_once = invariant(
    "CountedOnce",
    # one transaction has no other to count its input again
    (TRANSACTIONS > 1).implies(
        all_of(k, count_of(first, _is_committed(first, OUTPUT) & (_input(first) == k)) <= 1)
    ),
    "The committed output has the result of each input at most once.",
    "KIP-98 and KIP-447, consume, process and produce",
    failure=failure("the committed output has the result of input {} more than once", k),
)
none_skipped = invariant(
    "NoneSkipped",
    all_of(
        k,
        (groups.committed.is_set & (k < groups.committed.value.offset)).implies(
            any_of(
                first,
                (first.kind == DATA)
                & (_input(first) == k)
                & ~is_aborted(first, OUTPUT)
                & application.outcome.at(first.txn.value).is_in(*ASKED),
            )
        ),
    ),
    "The group's offset is never ahead of the committed output: each record before it has its "
    "result there, or is about to.",
    "KIP-98, sendOffsetsToTransaction",
    failure=failure(
        "the group's offset is {}, and the output has no result of input {}",
        groups.committed.value.offset,
        k,
    ),
)

stored = log_entry("s", OFFSETS)
in_log = max_of(stored, if_(_is_committed(stored, OFFSETS), _input(stored) + 1, 0), default=0)
newest = last(leader.log.at(OFFSETS))
appended = after(size(leader.log.at(OFFSETS))) > size(leader.log.at(OFFSETS))
no_zombie_offset = step_property(
    "NoZombieOffset",
    (appended & after(newest.value.kind == DATA)).implies(
        after(groups.processed_in.at(newest.value.txn.value)) == groups.generation
    ),
    "No member of a former generation commits an offset.",
    "KIP-447, TxnOffsetCommit",
    failure=failure(
        "a member of generation {} commits an offset, in generation {}",
        after(groups.processed_in.at(newest.value.txn.value)),
        groups.generation,
    ),
)
fetched = ~groups.position.at(i).is_set & after(groups.position.at(i).is_set)
stable_fetch = step_property(
    "StableFetch",
    all_of(
        i,
        fetched.implies(
            ~leader.is_open.at(OFFSETS) & (after(groups.position.at(i).value) == in_log)
        ),
    ),
    "An instance that is assigned the input begins where the last committed transaction ended, and "
    "no transaction has an offset open then.",
    "KIP-447, OffsetFetch with require_stable",
    failure=failure(
        "{} begins at input {}, where the committed offset is {}",
        i,
        after(groups.position.at(i)),
        in_log,
    ),
)
offset_forward = step_property(
    "OffsetForward",
    groups.committed.is_set.implies(
        after(groups.committed.is_set)
        & (after(groups.committed.value.offset) >= groups.committed.value.offset)
    ),
    "The group's offset never goes back.",
    "KIP-98, KIP-447",
    failure=failure(
        "the group's offset goes back from {} to {}",
        groups.committed.value.offset,
        after(groups.committed),
    ),
)

PROPERTIES = (
    counted_once, none_skipped, no_zombie_offset, stable_fetch, offset_forward,
    failover.as_the_log_has_them, atomic, no_hanging,
)  # fmt: skip
