"""A served cluster whose brokers ask who somebody is, and what he may: clients and their errors."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place
from kafka import KafkaProducer, TopicPartition  # type: ignore[attr-defined]
from kafka.structs import OffsetAndMetadata
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.serve.control import Control
from epochfence.model.serve.server import Server
from epochfence.model.wire.connection import BrokerError, Connection, Security
from epochfence.spec.access.acls import Acl, Acls
from epochfence.tests.model.serve.clients import TIMEOUT_S, Http, in_transactions

ALICE: Final = "User:alice"
SECRET: Final = "a-password-that-nobody-may-see"
WHO: Final = {"producer_id": 0, "producer_epoch": 0}
WRITE, READ, DESCRIBES = "WRITE TOPIC orders", "READ TOPIC orders", "DESCRIBE TOPIC orders"
ID, GROUP = "WRITE TRANSACTIONAL_ID a", "READ GROUP g"
IDEMPOTENT = "IDEMPOTENT_WRITE CLUSTER kafka-cluster"
_TIDS, _CLUSTER = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"
_TOPIC, _GROUP = "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"


def allowing(*what: str) -> Acls:
    """A table by which alice may do this: `OPERATION RESOURCE NAME` of each."""
    return Acls(tuple(Acl(ALICE, *line.split()) for line in what))


@pytest.fixture(scope="module", params=["2.7", "4.3"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A cluster that knows alice, and where there is a topic."""
    passwords = {"alice": SECRET}
    with Server(request.param, topics={"orders": 1}, acls=Acls(), passwords=passwords) as running:
        yield running


def used(server: Server, transactional_id: str | None) -> str:
    """The answer to alice, who sends a record by kafka-python, and in a transaction an offset: the
    error, or that there was none."""
    producer = KafkaProducer(
        bootstrap_servers=server.bootstrap, security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN", sasl_plain_username="alice", sasl_plain_password=SECRET,
        enable_idempotence=True, max_block_ms=TIMEOUT_S * 1000, transactional_id=transactional_id,
    )  # fmt: skip
    try:
        if transactional_id is not None:
            producer.init_transactions()
            producer.begin_transaction()
        producer.send("orders", b"a record").get(timeout=TIMEOUT_S)
        if transactional_id is not None:
            offsets = {TopicPartition("orders", 0): OffsetAndMetadata(1, "", -1)}
            producer.send_offsets_to_transaction(offsets, "g")
            producer.commit_transaction()
    except Exception as error:
        return repr(error)
    finally:
        producer.close(timeout=0)
    return "no error"


@pytest.mark.parametrize(
    ("may", "transactional_id", "told"),
    [
        ((), None, "TopicAuthorizationFailed"),
        ((DESCRIBES, IDEMPOTENT), None, "TopicAuthorizationFailed"),
        ((DESCRIBES,), None, "ClusterAuthorizationFailed"),
        ((WRITE, IDEMPOTENT), None, "no error"),
        ((WRITE,), "a", "TransactionalIdAuthorizationFailed"),
        ((DESCRIBES, ID), "a", "TopicAuthorizationFailed"),
        ((WRITE, ID), "a", "GroupAuthorizationFailed"),
        ((WRITE, ID, GROUP), "a", "TopicAuthorizationFailed"),  # of TxnOffsetCommit
        ((WRITE, READ, ID, GROUP), "a", "no error"),
    ],
)
def test_a_client_is_told_what_it_may_not(
    server: Server, may: tuple[str, ...], transactional_id: str | None, told: str
) -> None:
    server.cluster.acls = allowing(*may)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    assert told in used(server, transactional_id)


def told_of(connection: Connection, name: str, version: int, fields: dict[str, Any]) -> str:
    """The answer of a broker to a request, as JSON."""
    try:
        return json.dumps(connection.ask(name, version, fields), default=str)
    finally:
        connection.close()


def asked(server: Server, name: str, version: int, **fields: Any) -> str:
    """The answer to alice."""
    how = Security(username="alice", password=SECRET)
    return told_of(Connection(*server.brokers.addresses[0], how), name, version, fields)


_PLACES: Final = {"topics": [{"name": "orders", "partition_indexes": [0]}]}
_PARTITIONS: Final = {"name": "orders", "partitions": [0]}
_OFFSETS: Final = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
REQUESTS: Final[list[tuple[str, int, dict[str, Any], tuple[str, ...], str]]] = [
    ("FindCoordinator", 1, {"key": "a", "key_type": 1}, (ID,), _TIDS),
    ("FindCoordinator", 1, {"key": "g", "key_type": 0}, (GROUP,), _GROUP),
    ("JoinGroup", 2, {"group_id": "g", "session_timeout": 10_000}, (GROUP,), _GROUP),
    ("Heartbeat", 1, {"group_id": "g"}, (GROUP,), _GROUP),
    ("OffsetFetch", 3, {"group_id": "g", **_PLACES}, (DESCRIBES, GROUP), _GROUP),
    ("OffsetFetch", 3, {"group_id": "g", **_PLACES}, (GROUP, DESCRIBES), _TOPIC),
    ("OffsetCommit", 3, {"group_id": "g", "topics": _OFFSETS}, (READ, GROUP), _GROUP),
    ("OffsetCommit", 3, {"group_id": "g", "topics": _OFFSETS}, (GROUP, READ), _TOPIC),
    ("DeleteGroups", 1, {"groups_names": ["g"]}, ("DELETE GROUP g",), _GROUP),
    ("CreateTopics", 2, {"topics": [{"name": "new", "num_partitions": 1}], "timeout": 10_000},
     ("CREATE TOPIC new",), _TOPIC),
    ("CreateTopics", 2, {"topics": [{"name": "newer", "num_partitions": 1}], "timeout": 10_000},
     ("CREATE CLUSTER kafka-cluster",), _TOPIC),
    ("DeleteTopics", 1, {"topic_names": ["new"], "timeout": 10_000}, ("DELETE TOPIC new",), _TOPIC),
    ("Metadata", 4, {"topics": [{"name": "orders"}]}, (DESCRIBES,), _TOPIC),
    ("Metadata", 4, {"topics": [{"name": "made"}], "allow_auto_topic_creation": True},
     ("DESCRIBE TOPIC made", "CREATE TOPIC made"), _TOPIC),
    ("ListOffsets", 2, {"topics": _OFFSETS}, (DESCRIBES,), _TOPIC),
    ("WriteTxnMarkers", 1, {"markers": [{**WHO, "topics": _PLACES["topics"]}]},
     ("CLUSTER_ACTION CLUSTER kafka-cluster",), _CLUSTER),
    ("AddPartitionsToTxn", 4, {"transactions": [
        {"transactional_id": "a", **WHO, "verify_only": True, "topics": [_PARTITIONS]}]},
     ("CLUSTER_ACTION CLUSTER kafka-cluster",), _CLUSTER),
    ("DescribeTransactions", 0, {"transactional_ids": ["a"]}, (ID,), _TIDS),
]  # fmt: skip


@pytest.mark.parametrize(("name", "version", "fields", "may", "error"), REQUESTS)
def test_a_request_is_refused_without_its_last_acl(
    name: str,
    version: int,
    fields: dict[str, Any],
    may: tuple[str, ...],
    error: str,
    server: Server,
) -> None:
    if version > server.brokers.versions.get(name, (0, -1))[1]:
        return  # no API of the release
    server.cluster.acls = allowing(*may[:-1])
    assert error in asked(server, name, version, **fields)
    server.cluster.acls = allowing(*may)
    assert "AUTHORIZATION_FAILED" not in asked(server, name, version, **fields)


def test_of_all_topics_and_ids_those_are_told_that_may_be_described(server: Server) -> None:
    server.cluster.acls = allowing()
    assert "orders" not in asked(server, "Metadata", 4, topics=None)
    server.cluster.init_producer_id("a")
    if "ListTransactions" in server.brokers.versions:
        assert '"a"' not in asked(server, "ListTransactions", 0)
    server.cluster.acls = allowing(DESCRIBES, ID)
    assert "orders" in asked(server, "Metadata", 4, topics=None)
    if "ListTransactions" in server.brokers.versions:
        assert '"a"' in asked(server, "ListTransactions", 0)


def test_who_tells_no_password_is_told_nothing(server: Server) -> None:
    address = server.brokers.addresses[0]
    for guess in ("guessed", "", SECRET + "1"):
        with pytest.raises(BrokerError, match="refuses the user"):
            Connection(*address, Security(username="alice", password=guess))
    with pytest.raises(BrokerError, match="refuses the user"):
        Connection(*address, Security(username="nobody", password=SECRET))
    takes = r"\(it supports: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512\)"
    with pytest.raises(BrokerError, match=f"doesn't support SASL/OAUTHBEARER {takes}"):
        Connection(*address, Security(None, "alice", "", "OAUTHBEARER"))
    plain = Connection(*address, Security())
    assert plain.api_versions()["error_code"] == "NONE"
    with pytest.raises(BrokerError, match="is gone, at Metadata"):
        plain.ask("Metadata", 4, {"topics": None})
    with pytest.raises(BrokerError, match=r"is gone, at Metadata: .*TLS or SASL .* --config with"):
        LiveCluster(server.bootstrap)
    assert SECRET not in server.report()


def test_who_is_not_asked_for_a_password_is_anonymous() -> None:
    """Also for librdkafka; and what somebody may changes over HTTP."""
    with Server("4.3", topics={"orders": 1}) as server, Control(server) as control:
        http = Http(control)
        assert http.ask("GET", "/acls") == (200, None)
        line = {"principal": "User:ANONYMOUS", "operation": "WRITE", "resource": "TRANSACTIONAL_ID"}
        given = {"acls": [{**line, "name": "a", "pattern": "PREFIXED"}]}
        _, told = http.ask("PUT", "/acls", given)
        assert told["acls"] == [{**given["acls"][0], "permission": "ALLOW"}]
        in_transactions(server.bootstrap, "abc")
        with pytest.raises(KafkaException, match=_TIDS):
            in_transactions(server.bootstrap, "bc")
        status, told = http.ask(
            "PUT", "/acls", {"acls": [{**line, "name": "a", "operation": "FLY"}]}
        )
        assert (status, "FLY" in told["error"]) == (400, True)
        assert server.cluster.acls is not None
        assert http.ask("PUT", "/acls", None) == (200, None)
        in_transactions(server.bootstrap, "bc")
        told = server.report()
    assert f" requests refused by the authorizer: FindCoordinator {_TIDS} " in told, told


def test_librdkafka_aborts_where_others_are_at_an_end() -> None:
    """Finding 15, of which this client is free: it may go on."""
    lines = (WRITE, ID, GROUP)
    acls = Acls(tuple(Acl("User:ANONYMOUS", *line.split()) for line in lines))
    with Server("4.3", topics={"orders": 1}, acls=acls) as server:
        producer = in_transactions(server.bootstrap, "a")
        group = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "g", "log_level": 0})
        about = ([Place("orders", 0, 1)], group.consumer_group_metadata(), TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("orders", "aborted")
        with pytest.raises(KafkaException, match=_TOPIC) as told:
            producer.send_offsets_to_transaction(*about)
        assert told.value.args[0].txn_requires_abort()
        producer.abort_transaction(TIMEOUT_S)
        server.cluster.acls = Acls(allow_everyone=True)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(*about)
        producer.commit_transaction(TIMEOUT_S)
        group.close()


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("--acls", "{", "not valid JSON"),
        ("--acls", "[]", "an object with acls"),
        ("--acls", '{"acls": [{"principal": "User:a"}]}', "lacks its field operation"),
        ("--acls", '{"acls": [], "supers": []}', "no field supers"),
        ("--acls", None, "can't read"),
        ("--users", f"alice {SECRET}", "a line is not name=value"),
        ("--users", "# nobody", "names no user"),
    ],
)
def test_what_is_no_table_or_user_is_one_line(
    option: str, text: str | None, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    if text is not None:
        file.write_text(text)
    done = CliRunner().invoke(app, ["serve", "--port", "0", "--seconds", "0", option, str(file)])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert done.stderr.count("\n") == 1
    assert told in done.stderr
    assert SECRET not in done.stderr


def test_the_command_serves_users(tmp_path: Path) -> None:
    users, acls = tmp_path / "users.properties", tmp_path / "acls.json"
    users.write_text(f"alice={SECRET}\n")
    acls.write_text('{"acls": [], "super_users": ["User:alice"]}')
    command = ["serve", "--port", "0", "--seconds", "0", "--users", str(users)]
    done = CliRunner().invoke(app, [*command, "--acls", str(acls)])
    assert done.exit_code == 0, done.output
    assert SECRET not in done.output
    old = CliRunner().invoke(app, [*command, "--protocol", "0.11.0.0"])
    assert (old.exit_code, old.stderr.count("\n")) == (2, 1)
    assert "don't support SaslAuthenticate" in old.stderr
