"""Connections to brokers: the message if there is none, and secrets that no message has."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from epochfence.model.conformance.live.cluster.cluster import LiveCluster, addresses
from epochfence.model.wire.connection import BrokerError, Connection, Security, security
from epochfence.tests.model.conformance.live.oracle_broker import OracleBroker, running

PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'PlainLoginModule required username="bob" password="a secret";',
}


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(BrokerError, match=rf"127\.0\.0\.1:{port} doesn't answer: "):
        LiveCluster(f"127.0.0.1:{port}")


def test_no_tls_is_spoken_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            accepted, _ = server.accept()
            accepted.sendall(b"what is that?\n")
            accepted.close()

        thread = threading.Thread(target=answer)
        thread.start()
        how = security({"security.protocol": "SSL"})
        with pytest.raises(BrokerError, match=r"127\.0\.0\.1:\d+: no TLS connection: "):
            Connection("127.0.0.1", server.getsockname()[1], how)
        thread.join()


def test_a_broker_that_closes_the_connection_is_gone() -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def close() -> None:
        accepted, _ = server.accept()
        accepted.recv(4)
        accepted.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(BrokerError, match="is gone, at Metadata: "):
        Connection("127.0.0.1", server.getsockname()[1], Security()).ask(
            "Metadata", 4, {"topics": None}
        )
    thread.join()
    server.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"GET / HTTP/1.1\r\n", "to Metadata: it begins a response of 1,195,725,856 bytes"),
        (
            bytes.fromhex("0000000c 00000000 00000000 7fffffff"),
            "response to Metadata can't be read",
        ),
        (bytes.fromhex("00000006 00000000 0000"), "response to Metadata can't be read"),
        (bytes.fromhex("00000002 0000"), "response to Metadata can't be read"),
        (bytes.fromhex("00000040 00000000"), "is gone, at Metadata"),
    ],
)
def test_a_response_that_is_none_is_told_in_a_line(answer: bytes, told: str) -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def respond() -> None:
        accepted, _ = server.accept()
        accepted.recv(4)
        accepted.sendall(answer)
        accepted.shutdown(socket.SHUT_WR)
        accepted.recv(1 << 10)
        accepted.close()

    thread = threading.Thread(target=respond)
    thread.start()
    with pytest.raises(BrokerError, match=told):
        Connection("127.0.0.1", server.getsockname()[1], Security()).ask(
            "Metadata", 4, {"topics": None}
        )
    thread.join()
    server.close()


def test_nothing_secret_is_shown() -> None:
    how = security(PLAIN)
    assert (how.username, how.password) == ("bob", "a secret")
    assert "secret" not in repr(how)
    assert "bob" not in repr(how)


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"security.protocol": "TLS"}, "security.protocol TLS: choose one of PLAINTEXT, SSL, "),
        ({**PLAIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism GSSAPI: Epochfence supports PLAIN"),
        ({**PLAIN, "sasl.jaas.config": "x"}, "sasl.jaas.config names no username and password"),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "JKS"},
            "ssl.truststore.type JKS: Epochfence supports only PEM",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "nowhere.pem"},
            "the certificates of the properties can't be read: ",
        ),
    ],
)
def test_what_is_not_known_is_told(properties: dict[str, str], told: str) -> None:
    with pytest.raises(BrokerError) as raised:
        security(properties)
    assert str(raised.value).startswith(told)


def test_tokens_are_told_by_properties(tmp_path: Path) -> None:
    bearer = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    module = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="bob";'
    (tmp_path / "token").write_text("a.b.c\n")
    url = "sasl.oauthbearer.token.endpoint.url"
    for given, told in (
        ({"sasl.jaas.config": module}, ("bob", "")),
        ({"sasl.oauthbearer.config": "principal=bob scope=all"}, ("bob", "")),
        ({"sasl.jaas.config": module, url: (tmp_path / "token").as_uri()}, ("", "a.b.c")),
    ):
        how = security(bearer | given)
        assert (how.username, how.password) == told
        assert how.mechanism == "OAUTHBEARER"
        assert "a.b.c" not in repr(how)
    for given, told in (
        ({}, "sasl.mechanism OAUTHBEARER: Epochfence supports unsecuredLoginStringClaim_sub"),
        ({"sasl.jaas.config": module, url: "https://x/token"}, "sasl.mechanism OAUTHBEARER: Epoch"),
        ({url: (tmp_path / "none").as_uri()}, f"the file of {url}: No such file"),
    ):
        with pytest.raises(BrokerError, match=told):
            security(bearer | given)


def test_users_are_told_by_their_passwords() -> None:
    with running(OracleBroker("4.3")) as place:
        LiveCluster(place, security(PLAIN)).close()
        wrong = security(PLAIN | {"sasl.password": "guessed"})
        with pytest.raises(BrokerError, match="refuses the user of the properties"):
            LiveCluster(place, wrong)


def test_addresses() -> None:
    assert addresses("a:1,[::1]:2, b") == [("a", 1), ("::1", 2), ("b", 9092)]
    for wrong in ("", ":1", "a:0", "a:x", "a:65536"):
        with pytest.raises(BrokerError, match="write HOST:PORT"):
            addresses(wrong)


def test_a_cluster_of_others_is_left_alone() -> None:
    broker = OracleBroker("4.3", topics=("orders",))
    with running(broker) as place:
        with pytest.raises(BrokerError, match=r"has topics of others \(orders\): --shared"):
            LiveCluster(place)
        cluster = LiveCluster(place, may_be_shared=True)
        topic, _ = cluster.new_partition()
        assert topic.startswith(cluster.prefix)
        assert set(broker.topics) == {"orders", topic}
        cluster.close()
    assert set(broker.topics) == {"orders"}


def test_what_a_broker_lacks_is_told() -> None:
    with (
        running(OracleBroker("4.3"), without=("InitProducerId",)) as place,
        pytest.raises(BrokerError, match="doesn't offer InitProducerId of version 0 to 6"),
    ):
        LiveCluster(place)
