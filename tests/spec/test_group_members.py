"""The systems `membership` and `group-offsets`: what protects their properties, and what releases
do without."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import System, instantiate, lift, set_of
from epochfence.spec.groups.members import classic_group
from epochfence.spec.groups.offsets import offset_metadata
from epochfence.spec.groups.state import committed, generation, leader, members, pending, promised
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alterations import altered
from epochfence.tests.spec.differing import differing

MEMBERSHIP, OFFSETS = shipped("membership"), shipped("group-offsets")
FIRST = {"offset_records": 3}
NEVER = {"when": False}


def run(
    system: System, release: str, constants: dict[str, int], *properties: str, brief: bool = True
) -> Result:
    """A system checked for these properties alone, or for all of them."""
    named = properties or tuple(item.name for item in system.properties)
    return check(instantiate(system, release, constants, properties=named), Options(brief=brief))


def broken(system: System, release: str, constants: dict[str, int]) -> set[str]:
    """The properties that don't hold."""
    result = check(instantiate(system, release, constants), Options(brief=True, keep_going=True))
    return {item.name for item in result.properties if item.verdict == "broken"}


@pytest.mark.slow(6)
@pytest.mark.long
@pytest.mark.parametrize("system", [MEMBERSHIP, OFFSETS])
def test_it_holds_now_and_every_row_is_taken(system: System) -> None:
    result = run(system, "4.4", {}, brief=False)
    assert (result.verdict, result.unexplained) == (Verdict.HOLDS, [])


@pytest.mark.slow(8)
@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "system", "constants"),
    [
        *((release, MEMBERSHIP, {}) for release in differing(MEMBERSHIP)),
        *((release, OFFSETS, FIRST) for release in differing(OFFSETS)),
    ],
)
def test_properties_that_break_at_a_release_are_known_to(
    release: str, system: System, constants: dict[str, int]
) -> None:
    """And everything that no run reaches has its reason."""
    features = system.protocols.features_at(release)
    known = {
        item.name
        for item in system.properties
        if item.known_bug is not None and system.protocols.holds(item.known_bug.during, features)
    }
    assert broken(system, release, constants) == known
    held = [item.name for item in system.properties if item.name not in known]
    assert run(system, release, constants, *held, brief=False).unexplained == []


@pytest.mark.slow(3)
@pytest.mark.long
@pytest.mark.parametrize("release", ["0.11.0.0", "1.0", "3.8", "3.9"])
def test_what_mends_a_known_bug_does(release: str) -> None:
    features = OFFSETS.protocols.features_at(release)
    for item in OFFSETS.properties:
        bug = item.known_bug
        if bug is not None and OFFSETS.protocols.holds(bug.during, features):
            on = {feature.data.name for feature in bug.mended_by} - features
            instance = instantiate(
                OFFSETS, release, FIRST, switch_on=tuple(on), properties=(item.name,)
            )
            assert check(instance, Options(brief=True)).verdict is Verdict.HOLDS, item.name


def test_a_late_thread_commits_an_offset_of_the_next_transaction() -> None:
    """KAFKA-17507, without finding 16"""
    quiet = {**FIRST, "refusals": 0, "producer_ids": 1}
    found = run(OFFSETS, "3.8", quiet, "FetchedIsCommitted")
    assert found.trace is not None
    assert [step.row for step in found.trace.steps][-1] == "completed"
    assert run(OFFSETS, "3.9", quiet, "FetchedIsCommitted").verdict is Verdict.HOLDS


@pytest.mark.slow(2)
def test_before_4_0_what_was_told_may_be_lost_with_the_next_leader() -> None:
    """A member gets it once the log has been read, replicated or not."""
    quiet = {**FIRST, "refusals": 0, "producer_ids": 1}
    found = run(OFFSETS, "3.9", quiet, "FetchedKept")
    assert found.trace is not None
    rows = [step.row for step in found.trace.steps]
    assert rows.count("begin-loading") == 2
    assert (
        run(OFFSETS, "3.9", quiet | {"group_failovers": 1}, "FetchedKept").verdict is Verdict.HOLDS
    )
    assert run(OFFSETS, "4.0.0", quiet, "FetchedKept").verdict is Verdict.HOLDS


@pytest.mark.slow(2)
def test_before_kafka_6917_a_marker_that_comes_while_the_log_is_read_is_lost_on_the_group() -> None:
    quiet = {**FIRST, "refusals": 0, "producer_ids": 1}
    found = run(OFFSETS, "0.11.0.0", quiet, "TransactionKept")
    assert found.trace is not None
    assert "group-not-loaded" in [step.row for step in found.trace.steps]
    stays = run(OFFSETS, "0.11.0.0", quiet | {"group_failovers": 0}, "TransactionKept")
    assert stays.verdict is Verdict.HOLDS
    late = run(OFFSETS, "3.9", quiet, "TransactionKept", "InPlaceOnceEnded")
    assert late.verdict is Verdict.HOLDS


_join, _sync = classic_group.join, classic_group.sync
JOIN, COMPLETE = "group.JoinGroup", "group.complete join"
PENDING = pending[offset_metadata.txn_offset_append.producer_id]
TXN, APPENDED = "group.TxnOffsetCommit for the group", "group.offset of a transaction appended"
AGAIN = "static-member-replaced"
# A row without its protection, and the property that minds it.
_CHANGES: list[tuple[System, str, str, dict[str, Any], str]] = [
    (MEMBERSHIP, COMPLETE, "next-generation", {"updates": {generation: lift(0)}},
     "GenerationForward"),
    (MEMBERSHIP, COMPLETE, "next-generation", {"updates": {members: set_of()}}, "OnlyJoined"),
    (MEMBERSHIP, JOIN, AGAIN, {"updates": {leader: leader}}, "LeaderIsMember"),
    (MEMBERSHIP, "group.SyncGroup", "awaits-leader", {"updates": {leader: _sync.member}},
     "OneLeader"),
    (MEMBERSHIP, JOIN, AGAIN, {"updates": {members: members | set_of(_join.new_member)}},
     "FencedIsGone"),
    (MEMBERSHIP, JOIN, "pending-member", {"updates": {promised: promised}},
     "PromisedOrMember"),
    (MEMBERSHIP, TXN, "illegal-generation", NEVER, "OnlyMembersCommit"),
    (MEMBERSHIP, "group.OffsetCommit", "illegal-generation", NEVER, "OnlyMembersCommit"),
    (MEMBERSHIP, "group.OffsetCommit", "unknown-member", NEVER, "OnlyMembersCommit"),
    (MEMBERSHIP, "group.OffsetCommit", "completing-rebalance", NEVER, "CommitsOnceAssigned"),
    (MEMBERSHIP, "group.Heartbeat", "unknown-member", NEVER, "OnlyMembersAnswered"),
    (MEMBERSHIP, "group.SyncGroup", "illegal-generation", NEVER, "OnlyMembersAnswered"),
    *((MEMBERSHIP, f"group.{request}", "fenced-instance", NEVER, "FencedInstanceRefused")
      for request in ("SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit",
                      "TxnOffsetCommit for the group")),
    (OFFSETS, "group.offset appended", "newer", NEVER, "CommittedKept"),
    (OFFSETS, "group.offset appended", "newer", {"when": True}, "OffsetsForward"),
    (OFFSETS, APPENDED, "pending", {"updates": {PENDING: PENDING}}, "TransactionKept"),
    (OFFSETS, "group.transaction ended", "completed", {"updates": {committed:
     pending[offset_metadata.end.producer_id]}}, "FetchedIsCommitted"),
    (OFFSETS, "group.OffsetFetch", "pending-transaction", NEVER, "StableFetch"),
    (OFFSETS, "group.transaction ended", "replayed", {"updates": {committed: committed}},
     "TransactionKept"),
    (OFFSETS, "offsets.read on", "end-of-log", {"when": True}, "CommittedKept"),
    (OFFSETS, "offsets.read on", "not-replicated", {"when": True}, "FetchedKept"),
    (OFFSETS, "offsets.loaded", "loaded", {"when": True}, "FetchedKept"),
]  # fmt: skip
CHANGES = [
    pytest.param(
        altered(system, table=table, row=row, **change), name, id=f"{name} without {table}/{row}"
    )
    for system, table, row, change, name in _CHANGES
]


@pytest.mark.slow(3)
@pytest.mark.long
@pytest.mark.parametrize(("without", "name"), CHANGES)
def test_what_protects_the_properties(without: System, name: str) -> None:
    constants = FIRST if without.name == OFFSETS.name else {}
    assert run(without, "4.4", constants, name).verdict is Verdict.BROKEN


@pytest.mark.slow(8)
@pytest.mark.long
def test_a_silent_static_member_is_waited_for_and_goes_at_last() -> None:
    """Unless its session never ends."""
    quick = {"producers": 2}
    names = tuple(item.name for item in MEMBERSHIP.progress)
    assert run(MEMBERSHIP, "4.3", quick, *names, brief=False).verdict is Verdict.HOLDS
    stays = altered(MEMBERSHIP, table="group.session ends", row="member", when=False)
    assert run(stays, "4.3", quick, "RebalanceEnds", brief=False).verdict is Verdict.LEADS_TO_BROKEN
    for row in ("static-member", "member"):
        stays = altered(stays, table="group.LeaveGroup", row=row, when=False)
    assert (
        run(stays, "4.3", quick, "GroupCanBeLeft", brief=False).verdict is Verdict.LEADS_TO_BROKEN
    )


def test_who_names_no_member_is_none() -> None:
    """Not the first one that there is: what isn't there has no value."""
    nobody = altered(
        MEMBERSHIP,
        table="group.OffsetCommit",
        row="unknown-member",
        when=~offset_metadata.commit.member.value.is_in(members),
    )
    found = run(nobody, "4.3", {"producers": 2}, "OnlyMembersCommit")
    assert found.verdict is Verdict.BROKEN
