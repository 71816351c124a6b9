"""Who may ask a broker what, by request and release, and what clients make of a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.model import Cluster, ProducerClient
from epochfence.model.client.requests import CallFailedError
from epochfence.model.engine.errors import ModelError
from epochfence.model.engine.machine import noted
from epochfence.model.requests import answer, difference
from epochfence.spec.access.acls import Acl, Acls
from epochfence.spec.access.authorization import AUTHORIZERS, TABLES

ALICE = "User:alice"
BEFORE_1_0 = ("0.11.0.0", "0.11.0.2")
NEWEST = AUTHORIZERS.newest


def allow(*what: str, principal: str = ALICE, permission: str = "ALLOW") -> tuple[Acl, ...]:
    """ACLs, each as `OPERATION RESOURCE NAME`; a name that ends with * is a prefix."""
    found: list[Acl] = []
    for line in what:
        operation, resource, name = line.split()
        pattern = "PREFIXED" if name[-1:] == "*" != name else "LITERAL"
        name = name.rstrip("*") or "*"
        found.append(Acl(principal, operation, resource, name, permission, pattern))
    return tuple(found)


def cluster(release: str, *what: str) -> Cluster:
    """A cluster in which alice may do this, and nobody anything else."""
    return Cluster(protocol=release, acls=Acls(allow(*what)))


WRITES_A = "WRITE TRANSACTIONAL_ID a"
EVERYTHING = (
    WRITES_A, "TWO_PHASE_COMMIT TRANSACTIONAL_ID a", "READ GROUP g", "WRITE TOPIC t",
    "READ TOPIC t", "IDEMPOTENT_WRITE CLUSTER kafka-cluster",
    "CLUSTER_ACTION CLUSTER kafka-cluster", "ALTER CLUSTER kafka-cluster",
)  # fmt: skip
TOPICS = tuple(each for each in EVERYTHING if "TOPIC" in each)
TID, CLUSTER = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"
GROUP, TOPIC = "GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"

WHO = {"producer_id": 0, "producer_epoch": 0}
TRANSACTION = {"transactional_id": "a", **WHO}
BATCH = {"partition": "t-0", "base_sequence": 0, **WHO}
MARKER = {"request": "WriteTxnMarkers", "partition": "t-0", **WHO, "result": "ABORT"}
# A request, what is needed for it in some releases, and what is said to who lacks one of these.
NEEDS: list[tuple[dict[str, Any], dict[str, str], tuple[str, str]]] = [
    ({"request": "InitProducerId", "transactional_id": "a"}, {WRITES_A: TID}, ("", "")),
    ({"request": "InitProducerId", "transactional_id": None},
     {"IDEMPOTENT_WRITE CLUSTER kafka-cluster": CLUSTER}, ("", "2.7")),
    ({"request": "InitProducerId", "transactional_id": "a", "enable_2pc": True},
     {WRITES_A: TID, "TWO_PHASE_COMMIT TRANSACTIONAL_ID a": TID}, ("4.1", "")),
    ({"request": "AddPartitionsToTxn", **TRANSACTION, "partitions": ["t-0"]},
     {WRITES_A: TID, "WRITE TOPIC t": TOPIC}, ("1.0", "")),
    ({"request": "AddPartitionsToTxn", **TRANSACTION, "partitions": ["t-0"], "api_version": 4},
     {"CLUSTER_ACTION CLUSTER kafka-cluster": CLUSTER}, ("3.6", "")),
    ({"request": "AddOffsetsToTxn", **TRANSACTION, "group_id": "g"},
     {WRITES_A: TID, "READ GROUP g": GROUP}, ("", "")),
    ({"request": "TxnOffsetCommit", **TRANSACTION, "group_id": "g", "topic": "t"},
     {WRITES_A: TID, "READ GROUP g": GROUP, "READ TOPIC t": TOPIC}, ("", "")),
    ({"request": "OffsetCommit", "group_id": "g", "partition": "t-0"},
     {"READ GROUP g": GROUP, "READ TOPIC t": TOPIC}, ("", "")),
    ({"request": "OffsetFetch", "group_id": "g", "partition": "t-0"},
     {"READ GROUP g": GROUP, "READ TOPIC t": TOPIC}, ("", "")),
    ({"request": "JoinGroup", "group_id": "g"}, {"READ GROUP g": GROUP}, ("", "")),
    *(({"request": request, "group_id": "g", "member_id": "m", "generation_id": 1},
       {"READ GROUP g": GROUP}, ("", "")) for request in ("SyncGroup", "Heartbeat")),
    ({"request": "LeaveGroup", "group_id": "g", "member_id": "m"}, {"READ GROUP g": GROUP},
     ("", "")),
    ({"request": "EndTxn", **TRANSACTION, "result": "ABORT"}, {WRITES_A: TID}, ("", "")),
    ({"request": "Produce", **BATCH, "transactional_id": "a"},
     {WRITES_A: TID, "WRITE TOPIC t": TOPIC}, ("1.0", "")),
    ({"request": "Produce", **BATCH},
     {"IDEMPOTENT_WRITE CLUSTER kafka-cluster": CLUSTER, "WRITE TOPIC t": TOPIC}, ("1.0", "2.7")),
    ({"request": "Produce", **BATCH}, {"WRITE TOPIC t": TOPIC}, ("2.8", "")),
    (MARKER, {"CLUSTER_ACTION CLUSTER kafka-cluster": CLUSTER}, ("", "3.7")),
    ({"request": "Fetch", "partition": "t-0"}, {"READ TOPIC t": TOPIC}, ("", "")),
    ({"request": "DescribeProducers", "partition": "t-0"}, {"READ TOPIC t": TOPIC}, ("", "")),
    ({"request": "DescribeTransactions", "transactional_id": "a"}, {WRITES_A: TID}, ("", "")),
]  # fmt: skip


def during(first: str, last: str) -> tuple[str, ...]:
    """The releases from one to another, where these are given."""
    releases = AUTHORIZERS.releases
    return releases[
        releases.index(first) if first else 0 : releases.index(last) + 1 if last else None
    ]


def told(made: Cluster, request: dict[str, Any]) -> str:
    """The error of what alice asks."""
    return str(answer(made, {**request, "principal": ALICE}).get("error", "NONE"))


def without(release: str, *lacking: str) -> Cluster:
    """A cluster in which alice may do everything of the release but this, with one transaction."""
    needs_2pc = AUTHORIZERS.releases.index(release) >= AUTHORIZERS.releases.index("4.1")
    rights = [each for each in EVERYTHING if needs_2pc or "TWO_PHASE" not in each]
    made = cluster(release, *(each for each in rights if each not in lacking))
    made.init_producer_id("a")
    return made


@pytest.mark.parametrize(
    ("request_", "needs", "releases"),
    NEEDS,
    ids=[f"{n}-{request['request']}" for n, (request, _, _) in enumerate(NEEDS)],
)
def test_a_request_needs_its_acls_and_is_refused_by_the_first_that_lacks(
    request_: dict[str, Any], needs: dict[str, str], releases: tuple[str, str]
) -> None:
    for release in during(*releases):
        refusals = {TID, CLUSTER, GROUP, TOPIC, UNKNOWN}
        if "enable_2pc" not in request_:  # which this broker doesn't let anybody do
            assert told(without(release), request_) not in refusals, release
        for lacking, error in needs.items():
            # who may do anything else with a topic may describe it
            lack = TOPICS if error == TOPIC else (lacking,)
            hidden = release in BEFORE_1_0 and error == TOPIC
            assert told(without(release, *lack), request_) == (UNKNOWN if hidden else error)
        if (first := next(iter(needs.values()))) != TOPIC:
            assert told(without(release, *needs), request_) == first
        others = [each for each in EVERYTHING if each not in needs]
        if "enable_2pc" not in request_:
            assert told(without(release, *others), request_) not in refusals, (release, others)


def test_who_may_write_to_some_topic_may_write_idempotently_from_2_8_on() -> None:
    alone = {"request": "InitProducerId", "transactional_id": None}
    for release in AUTHORIZERS.releases:
        since = release not in during("", "2.7")
        assert told(cluster(release, "WRITE TOPIC any"), alone) == ("NONE" if since else CLUSTER)
        assert told(cluster(release, "READ TOPIC any", "WRITE GROUP g"), alone) == CLUSTER


def test_markers_may_come_from_an_administrator_from_3_8_on() -> None:
    for release in AUTHORIZERS.releases:
        made = cluster(release, "ALTER CLUSTER kafka-cluster")
        assert told(made, MARKER) == (CLUSTER if release in during("", "3.7") else "NONE")
        assert told(cluster(release, "ALTER TOPIC t"), MARKER) == CLUSTER


def test_who_may_create_a_topic_may_do_so_from_2_0_on() -> None:
    for release in AUTHORIZERS.releases:
        made, before = cluster(release, "CREATE TOPIC t"), release in during("", "1.1")
        told_so = [made.may_create(ALICE, "t", by_metadata=each) for each in (True, False)]
        assert told_so == ([TOPIC, CLUSTER] if before else ["NONE", "NONE"])
        refused = cluster(release).may_create(ALICE, "t", by_metadata=False)
        assert refused == (CLUSTER if before else TOPIC)
        everywhere = cluster(release, "CREATE CLUSTER kafka-cluster")
        assert everywhere.may_create(ALICE, "t", by_metadata=True) == "NONE"


def test_a_group_is_used_by_who_may() -> None:
    for operation in ("READ", "DESCRIBE", "DELETE"):
        made = cluster(NEWEST, f"{operation} GROUP g")
        for use in ("READ", "DESCRIBE", "DELETE"):
            implied = use in (operation, "DESCRIBE")
            assert made.use_of_group(ALICE, "g", use) == ("NONE" if implied else GROUP)
            assert made.use_of_group(ALICE, "h", use) == GROUP


def test_a_topic_that_may_be_described_alone_is_told_from_one_that_may_not() -> None:
    produce = {"request": "Produce", **BATCH, "transactional_id": "a"}
    for release in AUTHORIZERS.releases:
        assert told(cluster(release, WRITES_A, "DESCRIBE TOPIC t"), produce) == TOPIC
        hidden = told(cluster(release, WRITES_A), produce)
        assert hidden == (UNKNOWN if release in BEFORE_1_0 else TOPIC)


def test_an_authorizer_that_lacks_nobody_changes_nothing() -> None:
    """The cluster's own requests and a super user's need no ACL; nor does a leader's question."""
    made = Cluster(acls=Acls(super_users=frozenset({ALICE})))
    plain = Cluster()
    for request, _, _ in NEEDS:
        assert answer(made, request) == answer(plain, request)
        assert answer(made, {**request, "principal": ALICE}) == answer(plain, request)


DENIED = allow("WRITE TOPIC t", permission="DENY")


@pytest.mark.parametrize(
    ("lines", "may", "any_topic"),
    [
        ((), False, False),
        (allow("WRITE TOPIC t"), True, True),
        (allow("WRITE TOPIC t", principal="User:*"), True, True),
        (allow("WRITE TOPIC t", principal="User:bob"), False, False),
        (allow("ALL TOPIC t"), True, True),
        (allow("READ TOPIC t"), False, False),
        (allow("WRITE TOPIC *"), True, True),
        (allow("WRITE TOPIC u"), False, True),
        (allow("WRITE TOPIC t*"), True, True),
        (allow("WRITE TOPIC tt*"), False, True),
        (allow("WRITE GROUP t"), False, False),
        # a denial goes first, whichever line comes first
        ((*DENIED, *allow("WRITE TOPIC t")), False, False),
        ((*allow("WRITE TOPIC *"), *DENIED), False, True),
        ((*allow("WRITE TOPIC t"), *allow("ALL TOPIC *", permission="DENY")), False, False),
        ((*allow("WRITE TOPIC t"), *allow("WRITE TOPIC t*", permission="DENY")), False, False),
        ((*allow("WRITE TOPIC t*"), *allow("WRITE TOPIC t", permission="DENY")), False, True),
        ((*allow("WRITE TOPIC t*"), *allow("WRITE TOPIC t*", permission="DENY")), False, False),
        ((*allow("WRITE TOPIC ta*"), *allow("WRITE TOPIC t*", permission="DENY")), False, False),
        ((*allow("WRITE TOPIC t*"), *allow("WRITE TOPIC ta*", permission="DENY")), True, True),
        ((*allow("WRITE TOPIC t"), *allow("READ TOPIC t", permission="DENY")), True, True),
    ],
)
def test_which_acls_allow(lines: tuple[Acl, ...], may: bool, any_topic: bool) -> None:
    acls = Acls(lines)
    assert acls.allow(ALICE, "WRITE", "TOPIC", "t") is may
    assert acls.allow_any(ALICE, "WRITE", "TOPIC") is any_topic


def test_who_may_do_something_may_describe_unless_that_is_denied() -> None:
    for operation in ("READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALL"):
        lines = allow(f"{operation} TOPIC t")
        assert Acls(lines).allow(ALICE, "DESCRIBE", "TOPIC", "t")
        denied = allow("DESCRIBE TOPIC t", permission="DENY")
        assert not Acls((*lines, *denied)).allow(ALICE, "DESCRIBE", "TOPIC", "t")
        # what is denied of reading says nothing of describing
        denied = allow("READ TOPIC t", permission="DENY")
        assert Acls((*lines, *denied)).allow(ALICE, "DESCRIBE", "TOPIC", "t")


def test_everybody_may_do_what_no_acl_is_about() -> None:
    acls = Acls(allow("WRITE TOPIC t", principal="User:bob"), allow_everyone=True)
    assert acls.allow(ALICE, "WRITE", "TOPIC", "u")
    assert not acls.allow(ALICE, "WRITE", "TOPIC", "t")
    assert acls.allow_any(ALICE, "WRITE", "TOPIC")
    denied = allow("WRITE TOPIC *", permission="DENY")
    assert not Acls(denied, allow_everyone=True).allow_any(ALICE, "WRITE", "TOPIC")


def test_partitions_beside_one_that_is_refused_are_not_attempted() -> None:
    made = cluster("4.0.1", WRITES_A, "WRITE TOPIC t")
    client = ProducerClient("a", protocol="4.0.1", transaction_version=1)
    client.wait(served(made, client, client.init_transactions()))
    client.begin_transaction()
    records = [client.send("t-0"), client.send("secret-0")]
    made.serve(client, principal=ALICE)
    assert client.unauthorized_topics == ["secret"]
    assert made.coordinator.metadata("a").partitions == frozenset()  # type: ignore[union-attr]
    assert {record.error for record in records} == {"TOPIC_AUTHORIZATION_FAILED"}


def served(made: Cluster, client: ProducerClient, call: Any) -> Any:
    """The call, once alice's requests for it are answered."""
    made.serve(client, principal=ALICE)
    return call


@pytest.mark.parametrize("release", ["2.7", "3.5", "3.6", NEWEST])
def test_a_client_without_the_id_may_ask_again_from_3_6_on(release: str) -> None:
    """The broker's refusal meets the client's rows `not authorized`: fatal before KAFKA-13668."""
    made = Cluster(protocol=release, acls=Acls(allow("DESCRIBE TRANSACTIONAL_ID a")))
    client = ProducerClient("a", protocol=release)
    call = served(made, client, client.init_transactions())
    with pytest.raises(CallFailedError, match=TID):
        client.wait(call)
    made.acls = Acls(allow(*EVERYTHING[:1], "WRITE TOPIC t"))
    if release in during("", "3.5"):
        assert client.machine["state"] == "FATAL_ERROR"
        with pytest.raises(CallFailedError):
            client.init_transactions()
    else:
        again = served(made, client, client.init_transactions())
        client.wait(again)
        assert client.machine["state"] == "READY"


def test_a_client_that_may_not_describe_its_id_finds_no_coordinator() -> None:
    made, client = Cluster(acls=Acls()), ProducerClient("a")
    with pytest.raises(CallFailedError, match=TID):
        client.wait(served(made, client, client.init_transactions()))
    assert made.coordinator.metadata("a") is None


@pytest.mark.parametrize("release", ["2.7", "2.8"])
def test_an_idempotent_client_with_one_topic(release: str) -> None:
    made, client = cluster(release, "WRITE TOPIC t"), ProducerClient(protocol=release)
    record = client.send("t-0")
    made.serve(client, principal=ALICE)
    assert (record.error, record.offset) == ((None, 0) if release == "2.8" else (CLUSTER, -1))


@pytest.mark.parametrize(
    ("right", "error"),
    [("READ TOPIC in", GROUP), ("READ GROUP g", "KAFKA_EXCEPTION"), ("DESCRIBE GROUP g", GROUP)],
)
def test_offsets_that_may_not_be_committed(right: str, error: str) -> None:
    """No client expects TOPIC_AUTHORIZATION_FAILED of TxnOffsetCommit: it fails for good."""
    made, client = cluster(NEWEST, WRITES_A, "WRITE TOPIC t", right), ProducerClient("a")
    client.wait(served(made, client, client.init_transactions()))
    client.begin_transaction()
    call = client.send_offsets({"in-0": 1}, {"group_id": "g"})
    made.serve(client, principal=ALICE)
    with pytest.raises(CallFailedError, match=error):
        client.wait(call)
    is_fatal = error == "KAFKA_EXCEPTION"
    assert client.machine["state"] == ("FATAL_ERROR" if is_fatal else "ABORTABLE_ERROR")


def test_a_trace_of_two_releases_shows_who_may_write() -> None:
    trace = [
        {"acls": [{"principal": ALICE, "operation": "WRITE", "resource": "TOPIC", "name": "t"}]},
        {"request": "InitProducerId", "transactional_id": None, "principal": ALICE},
        {"request": "Fetch", "partition": "t-0", "principal": ALICE},
    ]
    (found,) = difference(trace, "2.7", "2.8")
    assert (found.place, found.before["error"], found.after["error"]) == (2, CLUSTER, "NONE")
    assert "authorizer" in found.before_reasons[0]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"acls": 3}, "acls is a list of ACLs: not 3"),
        ({"acls": [3]}, "acls is a list of objects: not 3"),
        ({"acls": [], "supers": []}, "acls has no field supers"),
        ({"acls": [], "super_users": "User:a"}, "super_users is a list of names"),
        ({"acls": [], "allow_everyone": 1}, "allow_everyone is true or false"),
        ({"acls": [{"who": "me"}]}, "an ACL has no field who"),
        ({"acls": [{"principal": "User:a"}]}, "an ACL lacks its field operation"),
        ({"acls": [{"principal": "User:a", "operation": "EAT", "resource": "TOPIC", "name": "t"}]},
         "operation is one of ALL, READ"),
        ({"acls": [{"principal": "User:a", "operation": 3, "resource": "TOPIC", "name": "t"}]},
         "operation is a string: not 3"),
    ],
)  # fmt: skip
def test_what_no_table_of_acls_is(line: dict[str, Any], text: str) -> None:
    made = Cluster()
    with pytest.raises(ModelError, match=text):
        answer(made, line)
    assert made.acls is None


@pytest.mark.parametrize(
    ("what", "release"),
    [("WRITE TOPIC t*", "1.1"), ("TWO_PHASE_COMMIT TRANSACTIONAL_ID a", "4.0.1")],
)
def test_an_acl_that_a_release_does_not_know_is_refused(what: str, release: str) -> None:
    with pytest.raises(ModelError, match=f"{release} has no ACL with"):
        cluster(release, what)
    cluster(NEWEST, what)


def test_every_row_is_taken_by_some_request() -> None:
    with noted() as taken:
        for release in ("0.11.0.0", "2.7", "3.7", NEWEST):
            for request, needs, _ in NEEDS:
                told(without(release), request)
                for lacking in needs:
                    told(without(release, lacking), request)
            told(cluster(release), {"request": "ListOffsets", "partition": "t-0"})
            told(cluster(release), {"request": "InitProducerId", "transactional_id": None})
            told(cluster(release), MARKER)
            for about in (
                {"group_id": "g", "of_group": True},
                {"transactional_id": "a", "of_group": False},
            ):
                for made in (cluster(release), without(release)):
                    made.authorize(ALICE, "FindCoordinator asks", **about)
            for made in (cluster(release, "DESCRIBE TOPIC t"), without(release)):
                made.use_of(ALICE, "t", "DELETE")
                for use in ("READ", "DESCRIBE", "DELETE"):
                    made.use_of_group(ALICE, "g", use)
            for made in (cluster(release), cluster(release, "CREATE CLUSTER kafka-cluster")):
                for by_metadata in (True, False):
                    made.may_create(ALICE, "t", by_metadata=by_metadata)
    labels = {table.label(row) for table, row in taken}
    assert {table.label(row) for table in TABLES for row in table.rows} - labels == set()
