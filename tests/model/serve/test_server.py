"""librdkafka's producers and consumers on a served cluster, and what isn't Kafka's protocol."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.serve.server import Server, offered
from epochfence.model.wire.connection import KEYS, Connection, Security, schemas
from epochfence.model.wire.listener import LARGEST, CantListenError
from epochfence.spec.releases.broker_versions import newest_of, release_of
from epochfence.spec.releases.features import RELEASED
from epochfence.tests.model.serve.clients import (
    TIMEOUT_S,
    eventually,
    in_transactions,
    librdkafka,
    read,
)

RELEASES = ("0.11.0.0", "2.5", "3.6", "3.9", "4.3")
"""Those that differ in what clients do: without KIP-360, with it, with verification, with
TRANSACTION_ABORTABLE, and with transaction version 2."""


@pytest.fixture(params=RELEASES)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param) as running:
        yield running


def test_an_idempotent_producer_writes_once(server: Server) -> None:
    producer = librdkafka(server.bootstrap)
    sent = [f"value {n}" for n in range(20)]
    for value in sent:
        producer.produce("orders", value)
    assert producer.flush(TIMEOUT_S) == 0
    assert read(server.bootstrap, "orders") == sent
    (entry,) = server.partitions.leader("orders", 0).producers.values()
    assert entry.producer_epoch == 0


def test_what_is_committed_is_read_and_what_is_aborted_is_not(server: Server) -> None:
    producer = in_transactions(server.bootstrap, "id")
    for n, ends in enumerate(("commit", "abort", "commit")):
        producer.begin_transaction()
        producer.produce("orders", f"{n}")
        assert producer.flush(TIMEOUT_S) == 0
        getattr(producer, f"{ends}_transaction")(TIMEOUT_S)
    assert read(server.bootstrap, "orders") == ["0", "2"]
    assert read(server.bootstrap, "orders", committed=False) == ["0", "1", "2"]
    assert server.answered["EndTxn"] == 3


def test_a_plain_producer_and_several_partitions() -> None:
    with Server("4.3", brokers=3, topics={"orders": 5}) as server:
        producer = librdkafka(server.bootstrap, enable_idempotence=False)
        for n in range(5):
            producer.produce("orders", f"{n}", partition=n)
        assert producer.flush(TIMEOUT_S) == 0
        assert [read(server.bootstrap, "orders", partition=n) for n in range(5)] == [
            [str(n)] for n in range(5)
        ]
        ended = in_transactions(server.bootstrap, "id")
        ended.begin_transaction()
        for n in range(5):
            ended.produce("orders", "in a transaction", partition=n)
        ended.commit_transaction(TIMEOUT_S)
        found = [read(server.bootstrap, "orders", partition=n)[1:] for n in range(5)]
        assert found == [["in a transaction"]] * 5


@pytest.mark.slow(1)
def test_an_older_instance_is_fenced(server: Server) -> None:
    older = in_transactions(server.bootstrap, "id")
    older.begin_transaction()
    older.produce("orders", "of the older one")
    assert older.flush(TIMEOUT_S) == 0
    newer = in_transactions(server.bootstrap, "id")
    with pytest.raises(KafkaException) as raised:
        older.commit_transaction(TIMEOUT_S)
    assert raised.value.args[0].fatal()
    newer.begin_transaction()
    newer.produce("orders", "of the newer one")
    newer.commit_transaction(TIMEOUT_S)
    assert read(server.bootstrap, "orders") == ["of the newer one"]


@pytest.mark.slow(1)
def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    with Server("4.3") as server:
        late = in_transactions(server.bootstrap, "id", transaction_timeout_ms=1000)
        late.begin_transaction()
        late.produce("orders", "late")
        assert late.flush(TIMEOUT_S) == 0
        assert read(server.bootstrap, "orders") == []
        states = server.cluster.coordinator.entries
        eventually(lambda: states["id"]["state"] == "COMPLETE_ABORT")
        with pytest.raises(KafkaException):
            late.commit_transaction(TIMEOUT_S)


def test_topics_are_made_and_deleted() -> None:
    with Server("4.3", brokers=2) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("made", 3, 1)])["made"].result(TIMEOUT_S)
        with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([NewTopic("made", 3, 1)])["made"].result(TIMEOUT_S)
        with pytest.raises(KafkaException, match="TOPIC_EXCEPTION"):
            admin.create_topics([NewTopic("a/b", 3, 1)])["a/b"].result(TIMEOUT_S)
        assert {len(t.partitions) for t in admin.list_topics(timeout=5).topics.values()} == {3}
        admin.delete_topics(["made"])["made"].result(TIMEOUT_S)
        assert admin.list_topics(timeout=5).topics == {}


@pytest.mark.parametrize("release", RELEASED)
def test_versions_of_requests_follow_from_the_release(release: str) -> None:
    for name, (first, last) in offered(release).items():
        for version in range(first, last + 1):
            assert all(schemas(name, version))
    with Server(release) as server:
        cluster = LiveCluster(server.bootstrap)
    told = cluster.release
    if release in ("0.11.0.0", "0.11.0.2", "1.0", "1.1"):  # no request tells these apart
        assert told is None
    else:
        assert told == release or newest_of(told or "")["EndTxn"] <= newest_of(release)["EndTxn"]
    assert cluster.transaction_version == (2 if release >= "4" else 0)
    assert release_of(cluster.supported, cluster.levels) == told


@pytest.mark.slow(1)
@pytest.mark.long
@pytest.mark.parametrize("release", ["2.5", "3.6", "3.9", "4.1", "4.3"])
def test_what_is_served_conforms_to_the_oracle(release: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    with Server(release) as server:
        command = ["conform", "--bootstrap", server.bootstrap, "--protocol", release]
        command += ["--suite", "random", "--seconds", "1", "--json", str(result)]
        done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    provoked = sum(row["provoked"] for row in json.loads(result.read_text())["rows"])
    assert provoked > 0  # a loaded machine comes to few in a second


# What isn't Kafka's protocol ----------------------------------------------------------------------


def header(name: str, version: int) -> bytes:
    return KEYS[name].to_bytes(2) + version.to_bytes(2) + b"\0\0\0\1\0\1c"


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


MANY = b"\x7f\xff\xff\xff"
HOSTILE = {
    "nothing": b"",
    "a length alone": (LARGEST + 1).to_bytes(4),
    "a negative length": b"\xff\xff\xff\xff",
    "two bytes": framed(b"\0\0"),
    "no such API": framed(b"\x7f\xff\0\0\0\0\0\1\xff\xff"),
    "a negative API": framed(b"\xff\xff\0\0\0\0\0\1\xff\xff"),
    "no such version": framed(header("Metadata", 99)),
    "half a header": framed(KEYS["Metadata"].to_bytes(2) + b"\0\1\0\0"),
    "half a request": framed(header("EndTxn", 0) + b"\0\5ab"),
    "more elements than bytes": framed(header("Metadata", 4) + MANY + b"\0"),
    "no UTF-8": framed(header("Metadata", 1) + b"\0\0\0\1\0\2\xff\xfe"),
    "a name without end": framed(header("FindCoordinator", 0) + b"\x7f\xffab"),
    "an unknown tag": framed(header("EndTxn", 3) + b"\1\x87\x11\1a"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_request_closes_its_connection_and_nothing_else(what: str) -> None:
    with Server("4.3") as server:
        place = server.brokers.addresses[0]
        with socket.create_connection(place, timeout=TIMEOUT_S) as client:
            client.sendall(HOSTILE[what])
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        connection = Connection(*place, Security())
        assert connection.ask("Metadata", 4, {"topics": []})["controller_id"] == 0
        connection.close()
        assert bool(server.brokers.refused) == (what != "nothing")


def test_bytes_at_random_are_no_traceback() -> None:
    draw = random.Random(0)
    offers = list(offered("4.3").items())
    with Server("4.3") as server:
        place = server.brokers.addresses[0]
        for _ in range(300):
            name, (first, last) = draw.choice(offers)
            data = header(name, draw.randint(first, last)) + draw.randbytes(draw.randrange(60))
            if draw.random() < 0.3:
                data = draw.randbytes(draw.randrange(1, 40))
            with socket.create_connection(place, timeout=TIMEOUT_S) as client:
                client.sendall(framed(data))
                client.shutdown(socket.SHUT_WR)
                while client.recv(4096):
                    pass


def test_batches_that_are_none_are_refused() -> None:
    with Server("4.3", topics={"t": 1}) as server:
        connection = Connection(*server.brokers.addresses[0], Security())

        def told(data: bytes, topic: str = "t") -> str:
            parts = [{"index": 0, "records": data}]
            asked = {"transactional_id": None, "acks": -1, "timeout": 1000}
            asked["topic_data"] = [{"name": topic, "partition_data": parts}]
            answer = connection.ask("Produce", 9, asked)
            return answer["responses"][0]["partition_responses"][0]["error_code"]

        assert told(b"") == "INVALID_RECORD"
        assert told(b"x" * 100) == "CORRUPT_MESSAGE"
        assert told(b"", "nowhere") == "UNKNOWN_TOPIC_OR_PARTITION"
        assert told(b"", "__consumer_offsets") == "UNKNOWN_TOPIC_OR_PARTITION"  # not yet there
        connection.ask("FindCoordinator", 3, {"key": "g", "key_type": 0})
        assert told(b"", "__consumer_offsets") == "INVALID_TOPIC_EXCEPTION"
        connection.close()


# The command --------------------------------------------------------------------------------------


def test_a_command_that_ends_by_itself() -> None:
    done = CliRunner().invoke(
        app, ["serve", "--port", "0", "--seconds", "0", "--topic", "orders:3", "--brokers", "2"]
    )
    assert done.exit_code == 0, done.output
    first, last = done.output.splitlines()
    assert first.startswith("Kafka 4.4 in memory: bootstrap.servers=127.0.0.1:")
    assert first.count("127.0.0.1:") == 2
    assert last == "0 requests answered"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--protocol", "1.9"], "unknown release"),
        (["--topic", "a:0"], "write NAME, or NAME:N"),
        (["--topic", "a:1", "--topic", "a"], "given twice"),
        (["--topic", "a/b"], "INVALID_TOPIC_EXCEPTION"),
        (["--listen", "192.0.2.1"], "can't listen on 192.0.2.1"),
        (["--port", "65535", "--brokers", "2"], "can't listen on 127.0.0.1:65536"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], told: str) -> None:
    port = [] if "--port" in options else ["--port", "0"]
    done = CliRunner().invoke(app, ["serve", "--seconds", "0", *port, *options])
    assert done.exit_code == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_taken() -> None:
    with Server("4.3") as server:
        second = Server("4.3", port=server.brokers.addresses[0][1])
        with pytest.raises(CantListenError, match="in use"):
            second.__enter__()


def test_a_control_port_that_is_taken_is_one_line_and_nothing_runs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = ["serve", "--port", "0", "--seconds", "0", "--control", port]
        done = CliRunner().invoke(app, command)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"can't listen on 127.0.0.1:{port}" in done.stderr
    assert done.stderr.count("\n") == 1
