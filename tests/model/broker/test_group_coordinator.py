"""A group's coordinator at real ranges: members one request after another, and offsets by whom and
in which transaction they are committed. What each request comes to by release is in vectors."""

from __future__ import annotations

import json
import re

import pytest

from epochfence.language import Table
from epochfence.model import Cluster, ProducerClient
from epochfence.model.broker.group_coordinator import GroupCoordinator
from epochfence.model.broker.group_messages import Answered, Identity, offsets_partition
from epochfence.model.broker.transactions.coordinator import ThreadHeldError
from epochfence.model.engine.errors import MissingFieldError
from epochfence.model.requests import read, run
from epochfence.spec.groups.tables import DRIVEN, DRIVEN_OFFSETS
from epochfence.spec.releases.features import KAFKA
from epochfence.tests.spec.vectors import FOLDER

PROTOCOLS = {"range": b"x"}


def joined(groups: GroupCoordinator, *names: str, instance: str | None = None) -> list[str]:
    """The member ids that new members get, of versions that are handed none before."""
    return [
        groups.join(
            "g", protocols=PROTOCOLS, api_version=3, new_member_id=name, group_instance_id=instance
        ).member_id
        for name in names
    ]


def stable(protocol: str = "4.3", *names: str) -> GroupCoordinator:
    """A coordinator of a group `g` in generation 1, led by the first of these members."""
    groups = GroupCoordinator(protocol=protocol)
    first, *others = names
    joined(groups, first)
    joined(groups, *others)
    generation = 1
    if others:
        groups.join("g", first, protocols=PROTOCOLS)
        generation = 2
    groups.answered.clear()
    told = groups.sync("g", Identity(first, generation), assignments={first: b"all"})
    assert (told.error, told.assignment) == ("NONE", b"all")
    return groups


@pytest.mark.parametrize(
    ("machine", "tables"), [("group_coordinator", DRIVEN), ("group_offsets", DRIVEN_OFFSETS)]
)
def test_every_row_is_taken_by_a_vector(machine: str, tables: tuple[Table, ...]) -> None:
    groups = json.loads((FOLDER / f"{machine}.json").read_text(encoding="utf-8"))["groups"]
    taken: set[tuple[str, str]] = set()
    for step in (step for group in groups for case in group["cases"] for step in case[1:]):
        rows = re.findall(r"\[([^]]+)\] ", json.dumps(step[-1]))
        taken |= {(step[0], row) for row in rows}
    assert {(table.on.name, row.id) for table in tables for row in table.rows} == taken


def test_a_rebalance_ends_when_all_have_joined_and_the_leader_has_assigned() -> None:
    groups = stable("4.3", "a")
    asked = groups.join("g", protocols=PROTOCOLS, new_member_id="b")
    assert (asked.error, asked.member_id) == ("MEMBER_ID_REQUIRED", "b")
    assert groups.join("g", "b", protocols=PROTOCOLS).waits
    assert groups.heartbeat("g", Identity("a", 1)) == "REBALANCE_IN_PROGRESS"
    assert groups.may_commit("g", Identity("a", 1)) == "NONE"
    told = groups.join("g", "a", protocols=PROTOCOLS)
    assert (told.generation_id, told.leader, [m[0] for m in told.members]) == (2, "a", ["a", "b"])
    ((group, member, response),) = groups.answered
    assert (group, member, response.error, response[1], response[5:7]) == (
        "g",
        "b",
        "NONE",
        2,
        ("range", ()),
    )
    groups.answered.clear()
    assert groups.sync("g", Identity("b", 2)).waits
    assert groups.may_commit("g", Identity("b", 2)) == "REBALANCE_IN_PROGRESS"
    assert groups.sync("g", Identity("a", 1)).error == "ILLEGAL_GENERATION"
    groups.sync("g", Identity("a", 2), assignments={"b": b"all"})
    assert groups.answered == [Answered("g", "b", groups.groups["g"].synced("b"))]
    assert groups.groups["g"].synced("b").assignment == b"all"


def test_who_waits_is_told_why_it_waits_no_longer() -> None:
    groups = stable("4.3", "a", "b")
    groups.join("g", "b", protocols={"range": b"y"})
    assert groups.join("g", "a", protocols=PROTOCOLS).generation_id == 3
    groups.answered.clear()
    assert groups.sync("g", Identity("b", 3)).waits
    joined(groups, "c")
    ((_, member, response),) = groups.answered
    assert (member, response.error) == ("b", "REBALANCE_IN_PROGRESS")
    groups.answered.clear()
    assert groups.leave("g", "c") == "NONE"
    ((_, member, response),) = groups.answered
    assert (member, response.error) == ("c", "UNKNOWN_MEMBER_ID")


def test_the_silent_go_when_their_session_ends() -> None:
    groups = stable("4.3", "a", "b")
    groups.now_ms = 45_000
    assert groups.heartbeat("g", Identity("b", 2)) == "NONE"
    groups.now_ms = 45_001
    groups.expire()
    assert set(groups.groups["g"].members) == {"b"}
    assert groups.heartbeat("g", Identity("b", 2)) == "REBALANCE_IN_PROGRESS"
    groups.now_ms = 90_002
    groups.expire()
    assert groups.groups["g"].status == "EMPTY"
    asked = groups.join("g", protocols=PROTOCOLS, session_timeout_ms=6_000)
    groups.now_ms += 6_001
    groups.expire()
    assert groups.join("g", asked.member_id, protocols=PROTOCOLS).error == "UNKNOWN_MEMBER_ID"


def test_a_rebalance_that_takes_too_long_leaves_out_who_has_not_joined() -> None:
    groups = stable("4.3", "a", "b")
    groups.join("g", "b", protocols={"range": b"y"}, rebalance_timeout_ms=1_000)
    groups.now_ms = 45_001
    for member in groups.groups["g"].members.values():
        member.seen_ms = groups.now_ms
    groups.expire()
    ((_, member, response),) = groups.answered
    assert (member, response[:4]) == ("b", ("NONE", 3, "b", "b"))


def test_a_static_member_that_starts_again_fences_its_former_self() -> None:
    groups = GroupCoordinator(protocol="4.3")
    joined(groups, "s", instance="i")
    groups.answered.clear()
    groups.sync("g", Identity("s", 1, "i"), assignments={"s": b"all"})
    again = groups.join("g", group_instance_id="i", protocols=PROTOCOLS, new_member_id="t")
    assert (again.generation_id, again.leader, again.skip_assignment) == (1, "t", True)
    assert groups.sync("g", Identity("t", 1, "i")).assignment == b"all"
    assert groups.may_commit("g", Identity("s", 1, "i")) == "FENCED_INSTANCE_ID"
    assert groups.may_commit_in_transaction("g", Identity("s", 1)) == "UNKNOWN_MEMBER_ID"
    assert groups.leave("g", group_instance_id="i") == "NONE"


def test_after_a_restart_there_is_what_the_log_has() -> None:
    groups = stable("4.3", "a")
    joined(groups, "b")
    groups.restart()
    assert groups.answered == []
    assert groups.heartbeat("g", Identity("a", 1)) == "NONE"
    assert groups.heartbeat("g", Identity("b", 1)) == "UNKNOWN_MEMBER_ID"


RELEASES_OF_LOADS = ("0.11.0.0", "2.0", "3.9", "4.3")


def with_offset(protocol: str) -> tuple[Cluster, tuple[int, int]]:
    """A cluster, and who has committed offset 5 in a transaction that is open."""
    made = Cluster(protocol=protocol, holds_markers=True)
    who = made.init_producer_id("a")[1:]
    made.add_offsets("a", *who, "g", api_version=1)
    assert made.commit_offsets("a", *who, "g", offsets={"t-0": 5}, api_version=2) == "NONE"
    return made, who


@pytest.mark.parametrize("protocol", RELEASES_OF_LOADS)
@pytest.mark.parametrize(("result", "offset"), [("COMMIT", 5), ("ABORT", -1)])
def test_an_offset_stays_pending_over_a_failover_until_its_marker_comes(
    protocol: str, result: str, offset: int
) -> None:
    made, who = with_offset(protocol)
    made.fail_over_group("g")()
    unstable = made.fetch_offset("g", "t-0", require_stable=True).error
    assert unstable == ("UNSTABLE_OFFSET_COMMIT" if protocol > "2.5" else "NONE")
    assert made.fetch_offset("g", "t-0").offset == -1
    made.end_txn("a", *who, result, api_version=1)
    made.deliver_markers()
    assert made.fetch_offset("g", "t-0", require_stable=True)[:2] == ("NONE", offset)


@pytest.mark.parametrize(
    ("protocol", "told"),
    [
        ("1.1", "NOT_COORDINATOR"),
        ("2.0", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("4.3", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_a_marker_may_come_while_the_log_is_read(protocol: str, told: str, result: str) -> None:
    """Before 4.0 it is appended; from then on it waits for the coordinator."""
    made, who = with_offset(protocol)
    end = made.fail_over_group("g")
    asked = made.fetch_offset("g", "t-0"), made.commit_group_offsets("g", {"t-0": 1})
    assert (asked[0].error, asked[1]) == (told, told)
    assert made.commit_offsets("a", *who, "g", offsets={"t-0": 6}) == told
    assert made.join_group("g").error == told
    quiet = told if protocol == "1.1" else "NONE"
    assert made.heartbeat("g", "nobody", 1) == quiet
    before = made.leader(offsets_partition("g")).log_end_offset
    made.end_txn("a", *who, result, api_version=1)
    made.deliver_markers()
    is_there = made.leader(offsets_partition("g")).log_end_offset > before
    assert is_there == (protocol < "4")
    refused = made.write_marker(offsets_partition("g"), *who, result)
    assert (refused == "NOT_LEADER_OR_FOLLOWER") == (protocol > "4")
    end()
    made.deliver_markers()
    assert made.fetch_offset("g", "t-0").offset == (5 if result == "COMMIT" else -1)
    assert made.coordinator.entries["a"]["state"] == f"COMPLETE_{result}"


@pytest.mark.parametrize("stops", ["fail over", "restart"])
@pytest.mark.parametrize(("protocol", "pending"), [("3.9", False), ("4.3", True)])
def test_who_starts_has_what_the_log_has(protocol: str, pending: bool, stops: str) -> None:
    """Finding 16 drops a pending offset from memory alone: whoever reads the log has it again."""
    made = Cluster(protocol=protocol)
    older, newer = (made.init_producer_id("a")[1:] for _ in range(2))
    made.add_offsets("a", *newer, "g", api_version=1)
    assert made.commit_offsets("a", *newer, "g", offsets={"t-0": 7}, api_version=2) == "NONE"
    assert made.commit_offsets("a", *older, "g", offsets={"t-0": 6}, api_version=2) != "NONE"
    unstable = made.fetch_offset("g", "t-0", require_stable=True).error == "UNSTABLE_OFFSET_COMMIT"
    assert unstable == pending
    if stops == "restart":
        made.restart()
    else:
        made.fail_over_group("g")()
    assert made.fetch_offset("g", "t-0", require_stable=True).error == "UNSTABLE_OFFSET_COMMIT"
    made.end_txn("a", *newer, "COMMIT", api_version=1)
    assert made.fetch_offset("g", "t-0").offset == 7


def test_another_broker_has_the_group_as_its_log_has_it_and_who_waits_is_told() -> None:
    groups = stable("4.3", "a")
    joined(groups, "b")
    partition = offsets_partition("g")
    groups.fail_over(partition)
    assert [told.response.error for told in groups.answered] == ["NOT_COORDINATOR"]
    assert groups.sync("g", Identity("a", 1)).error == "COORDINATOR_LOAD_IN_PROGRESS"
    assert groups.delete("g") == "COORDINATOR_LOAD_IN_PROGRESS"
    other = groups.copy()
    other.now_ms = 100_000
    other.expire()
    groups.end_load(partition)
    groups.end_load(partition)
    assert groups.heartbeat("g", Identity("a", 1)) == "NONE"
    assert groups.heartbeat("g", Identity("b", 1)) == "UNKNOWN_MEMBER_ID"
    other.end_load(partition)
    assert other.heartbeat("g", Identity("a", 1)) == "NONE"


def test_a_copy_goes_its_own_way() -> None:
    groups = stable("4.3", "a")
    groups.appended("g", {"t-0": 5}, 0)
    other = groups.copy()
    other.leave("g", "a")
    other.appended("g", {"t-0": 7}, 1)
    assert groups.heartbeat("g", Identity("a", 1)) == "NONE"
    assert groups.fetch("g", "t-0").offset == 5
    assert groups.places("g") == ["t-0"]


# In a cluster ---------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", KAFKA.releases)
def test_an_offset_is_in_place_once_its_transaction_is_committed(protocol: str) -> None:
    made = Cluster(protocol=protocol)
    stands = "stable_offsets" in KAFKA.features_at(protocol)
    who = made.init_producer_id("a")
    for offset, result in ((5, "COMMIT"), (9, "ABORT")):
        about = ("a", who.producer_id, who.producer_epoch)
        assert made.add_offsets(*about, "g") == "NONE"
        before = made.fetch_offset("g", "t-0").offset
        assert made.commit_offsets(*about, "g", offsets={"t-0": offset}) == "NONE"
        waiting = made.fetch_offset("g", "t-0", require_stable=True)
        assert waiting.error == ("UNSTABLE_OFFSET_COMMIT" if stands else "NONE")
        assert made.fetch_offset("g", "t-0").offset == before
        ended = made.end_txn(*about, result)
        if ended.producer_epoch >= 0:
            who = ended
        assert made.fetch_offset("g", "t-0", require_stable=True) == ("NONE", 5, 0)
    assert made.commit_group_offsets("g", {"t-0": 6}) == "NONE"
    assert made.fetch_offset("g", "t-0").offset == 6


@pytest.mark.parametrize(("protocol", "told"), [("2.4", "NONE"), ("2.5", "ILLEGAL_GENERATION")])
def test_a_zombie_of_a_former_generation_commits_nothing_from_2_5_on(
    protocol: str, told: str
) -> None:
    made = Cluster(protocol=protocol)
    who = made.init_producer_id("a")
    about = ("a", who.producer_id, who.producer_epoch, "g")
    made.add_offsets(*about)
    member = made.join_group("g", api_version=3).member_id
    made.sync_group("g", member, 1)
    made.join_group("g", member)
    as_before = {"member_id": member, "generation_id": 1}
    assert made.commit_offsets(*about, offsets={"t-0": 5}, **as_before) == told
    assert made.heartbeat("g", member, 2) in ("NONE", "REBALANCE_IN_PROGRESS")


@pytest.mark.parametrize(
    ("protocol", "told"),
    [("2.8", "NONE"), ("3.0", "UNKNOWN_MEMBER_ID"), ("3.3", "NONE"), ("4.0.0", "NONE")],
)
def test_a_commit_without_generation_makes_the_group_even_if_it_is_refused(
    protocol: str, told: str
) -> None:
    """GroupCoordinator.handleCommitOffsets makes the group, and asks for the member then."""
    groups = GroupCoordinator(protocol=protocol)
    assert groups.may_commit("g", Identity("nobody", 1), api_version=8) == "ILLEGAL_GENERATION"
    assert groups.delete("g") == "GROUP_ID_NOT_FOUND"
    assert groups.may_commit("g", Identity("nobody", -1)) == told
    assert groups.delete("g") == "NONE"


@pytest.mark.parametrize(
    ("protocol", "told"),
    [("3.9", "NONE"), ("4.0.0", "GROUP_ID_NOT_FOUND"), ("4.4", "GROUP_ID_NOT_FOUND")],
)
def test_a_refused_append_undoes_the_group_that_its_request_has_made_from_4_0_on(
    protocol: str, told: str
) -> None:
    groups = GroupCoordinator(protocol=protocol)
    assert groups.may_commit_in_transaction("g", Identity("", -1)) == "NONE"
    groups.not_appended("g", ["t-0"], producer_id=7)
    assert groups.delete("g") == told


def test_a_refused_append_leaves_a_group_that_was_there() -> None:
    groups = GroupCoordinator()
    for outcome in (groups.may_commit, groups.may_commit_in_transaction):
        assert outcome("g", Identity("", -1)) == "NONE"
    groups.not_appended("g", ["t-0"], producer_id=7)
    assert groups.delete("g") == "NONE"


@pytest.mark.parametrize(("protocol", "committed"), [("2.5", 5), ("3.9", 5), ("4.0.0", 7)])
def test_a_zombies_refused_offset_drops_the_pending_one_before_4_0(
    protocol: str, committed: int
) -> None:
    """Finding 16: a member that names neither itself nor a generation is looked at by its epoch."""
    made = Cluster(protocol=protocol)
    commits: list[tuple[str, int, int, str]] = []
    for offset in (5, 7):
        who = made.init_producer_id("a")
        commits.append(("a", who.producer_id, who.producer_epoch, "g"))
        assert made.add_offsets(*commits[-1], api_version=1) == "NONE"
        assert made.commit_offsets(*commits[-1], offsets={"t-0": offset}, api_version=2) == "NONE"
        told = made.commit_offsets(*commits[0], offsets={"t-0": 6 - offset % 2}, api_version=2)
        assert (told == "NONE") == (offset == 5)
        assert made.end_txn(*commits[-1][:3], "COMMIT", api_version=1).error == "NONE"
    assert made.fetch_offset("g", "t-0").offset == committed


def test_a_member_that_was_fenced_meanwhile_is_refused_as_the_leader_appends() -> None:
    """The coordinator is asked first about the transaction; the group is looked at after that."""
    made = Cluster(protocol="4.3", transaction_version=1)
    who = made.init_producer_id("a")
    about = ("a", who.producer_id, who.producer_epoch, "g")
    made.add_offsets(*about)
    member = made.join_group("g", api_version=3).member_id
    made.sync_group("g", member, 1)
    made.hold("verification", "TxnOffsetCommit")
    with pytest.raises(ThreadHeldError):
        made.commit_offsets(
            *about, offsets={"t-0": 5}, member_id=member, generation_id=1, api_version=4
        )
    other = made.copy()
    assert other.release("verification")[1].error == "NONE"
    assert other.fetch_offset("g", "t-0", require_stable=True).error == "UNSTABLE_OFFSET_COMMIT"
    made.leave_group("g", member)
    assert made.release("verification")[1].error == "UNKNOWN_MEMBER_ID"
    assert made.fetch_offset("g", "t-0", require_stable=True) == ("NONE", -1, -1)


def test_a_client_of_a_former_generation_is_told_so() -> None:
    made = Cluster(protocol="4.3")
    client = ProducerClient("a", protocol="4.3", transaction_version=2)
    started = client.init_transactions()
    made.serve(client)
    client.wait(started)
    member = made.join_group("g", api_version=3).member_id
    client.begin_transaction()
    group = {"group_id": "g", "generation": 4, "member_id": member}
    sent = client.send_offsets({"t-0": 1}, group)
    made.serve(client)
    assert sent.error == "COMMIT_FAILED"
    assert client.machine["state"] == "ABORTABLE_ERROR"


TRACE = """
{"request": "JoinGroup", "group_id": "g"}
{"request": "JoinGroup", "group_id": "g", "member_id": "member-1"}
{"request": "SyncGroup", "group_id": "g", "member_id": "member-1", "generation_id": 1}
{"request": "OffsetCommit", "group_id": "g", "partition": "t-0", "offset": 3,
 "member_id": "member-1", "generation_id": 1}
{"request": "OffsetFetch", "group_id": "g", "partition": "t-0", "require_stable": true}
{"sleep_ms": 45001}
{"request": "Heartbeat", "group_id": "g", "member_id": "member-1", "generation_id": 1}
{"request": "LeaveGroup", "group_id": "g", "member_id": "member-1"}
{"request": "OffsetCommit", "group_id": "g", "partition": "t-0"}
""".replace("\n ", " ")


def test_lines_of_requests_reach_the_coordinator() -> None:
    told = run(read(TRACE), "4.3")
    assert [each.get("error") for each in told] == [
        "MEMBER_ID_REQUIRED", "NONE", "NONE", "NONE", "NONE", None, "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID", "NONE",
    ]  # fmt: skip
    assert (told[1]["generation_id"], told[1]["leader"], told[1]["waits"]) == (1, "member-1", False)
    assert told[4]["offset"] == 3


def test_an_offset_without_its_partition_is_told() -> None:
    line = {"request": "TxnOffsetCommit", "transactional_id": "a", "producer_id": 0,
            "producer_epoch": 0, "group_id": "g", "offset": 1}  # fmt: skip
    with pytest.raises(MissingFieldError, match="lacks its partition"):
        run([line])


@pytest.mark.parametrize("release", KAFKA.releases)
def test_an_older_client_isnt_told_that_the_group_is_read(release: str) -> None:
    """KafkaApis.handleTxnOffsetCommitRequest, KAFKA-9656"""
    made, who = with_offset(release)
    made.fail_over_group("g")
    told = [
        made.commit_offsets("a", *who, "g", offsets={"t-0": 6}, api_version=version)
        for version in (1, 2, None)
    ]
    index = KAFKA.releases.index
    if index(release) < index("2.0.0"):
        assert set(told) == {"NOT_COORDINATOR"}
    else:
        first = "COORDINATOR_NOT_AVAILABLE" if index(release) >= index("2.6") else told[1]
        assert told == [first, *["COORDINATOR_LOAD_IN_PROGRESS"] * 2]


@pytest.mark.parametrize("release", KAFKA.releases)
def test_an_ordinary_commit_in_flight_makes_an_offset_unstable(release: str) -> None:
    """GroupMetadata.hasPendingOffsetCommitsForTopicPartition; OffsetMetadataManager from 4.0 on
    looks at transactions alone."""
    groups = GroupCoordinator(protocol=release)
    groups.appended("g", {"t-0": 5, "t-1": 5}, 0)
    groups.writes("g", ["t-0"])
    index = KAFKA.releases.index
    is_told = index("2.5") <= index(release) < index("4.0.0")
    told = groups.fetch("g", "t-0", require_stable=True)
    assert told.error == ("UNSTABLE_OFFSET_COMMIT" if is_told else "NONE")
    assert groups.fetch("g", "t-0").offset == 5
    assert groups.fetch("g", "t-1", require_stable=True).offset == 5
    groups.appended("g", {"t-0": 6}, 1)
    assert groups.fetch("g", "t-0", require_stable=True).offset == 6


@pytest.mark.parametrize("release", KAFKA.releases)
@pytest.mark.parametrize("ends", ["leaves", "is silent"])
def test_the_next_leader_is_named_as_the_leader_goes(release: str, ends: str) -> None:
    """GroupMetadata.remove, ClassicGroup.remove"""
    groups = stable(release, "a", "b")
    machine = groups.groups["g"].machine
    if ends == "leaves":
        assert groups.leave("g", "a") == "NONE"
    else:
        groups.now_ms += 40_000
        groups.heartbeat("g", Identity("b", machine["generation"]))
        groups.now_ms += 40_000
        groups.expire()
    assert (machine["leader"], machine["members"]) == ("b", frozenset("b"))
    assert groups.leave("g", "b") == "NONE"
    assert machine["leader"] is None
