"""A proxy before a served cluster: clients that nobody here wrote run transactions through it, meet
its faults, and what it records is explained."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.serve.faults.faults import BadFaultError, Drawn
from epochfence.model.serve.history import History
from epochfence.model.serve.proxy import Proxy
from epochfence.model.serve.server import Server
from epochfence.model.wire.connection import BrokerError, Connection, Security
from epochfence.model.wire.listener import Request
from epochfence.tests.model.serve.behaviours import CLIENTS, PLAN
from epochfence.tests.model.serve.clients import (
    TIMEOUT_S,
    commit_one_and_begin_another,
    eventually,
    in_transactions,
    librdkafka,
    read,
)
from epochfence.tests.model.serve.pipelines import PIPELINES


@contextmanager
def between(
    *faults: Mapping[str, Any], release: str = "4.3", brokers: int = 1
) -> Iterator[tuple[Server, Proxy]]:
    """A cluster with a proxy before it, all faults of which have to fire."""
    with (
        Server(release, topics={"orders": 1, "in": 1, "out": 1}, brokers=brokers) as server,
        Proxy(server.bootstrap) as proxy,
    ):
        for fault in faults:
            proxy.faults.add(dict(fault))
        yield server, proxy
        assert proxy.faults.unfired == [], proxy.report()


def transactions(producer: Producer) -> None:
    for n in range(9):
        producer.begin_transaction()
        producer.produce("orders", f"{n}")
        producer.commit_transaction(TIMEOUT_S)


def end(bootstrap: str, value: str = "once", transactional_id: str = "id") -> None:
    """A transaction with one record, committed."""
    producer = in_transactions(bootstrap, transactional_id)
    producer.begin_transaction()
    producer.produce("orders", value)
    producer.commit_transaction(TIMEOUT_S)


@pytest.mark.slow(1)
@pytest.mark.parametrize("client", ["librdkafka", "aiokafka", "kafka-python"])
def test_clients_stay_on_the_proxy(client: str) -> None:
    with between(brokers=3) as (server, proxy):
        assert proxy.bootstrap.count(",") == 2
        assert CLIENTS[client](proxy.bootstrap, PLAN) == ["C", "C", "C"]
        assert read(proxy.bootstrap, "orders") == ["0", "1", "2"]
        for name in ("InitProducerId", "EndTxn", "Produce"):
            assert proxy.answered[name] == server.answered[name] > 0
        # A consumer that closes doesn't wait for its last Fetch: its answer may find no proxy.
        assert server.answered["Fetch"] >= proxy.answered["Fetch"] > 0


@pytest.mark.slow(1)
def test_a_pipeline_with_a_group_and_offsets() -> None:
    with between() as (server, proxy):
        producer = librdkafka(proxy.bootstrap)
        producer.produce("in", "one")
        assert producer.flush(TIMEOUT_S) == 0
        PIPELINES["aiokafka"](proxy.bootstrap, 1, (0,))
        assert read(server.bootstrap, "out") == ["one"]
        assert proxy.answered["JoinGroup"] > 0
        assert proxy.answered["TxnOffsetCommit"] > 0


def test_topics_that_go_by_ids_are_recorded_by_name() -> None:
    """TxnOffsetCommit 6 (KIP-1319)"""
    lines = io.BytesIO()
    lost = {"do": "lose_request", "on": {"request": "TxnOffsetCommit", "topic": "orders"}}
    with between(lost, release="4.4") as (server, proxy):
        proxy.record_in(History(lines))
        host, _, port = proxy.bootstrap.partition(":")
        client = Connection(host, int(port), Security())
        about = {"transactional_id": "id", "transaction_timeout": 60_000}
        about |= {"producer_id": -1, "producer_epoch": -1}
        began = client.ask("InitProducerId", 4, about)
        asked = {"topics": None, "allow_auto_topic_creation": False}
        asked |= {"include_topic_authorized_operations": False}
        topics = client.ask("Metadata", 12, asked)["topics"]
        (known,) = (topic["topic_id"] for topic in topics if topic["name"] == "orders")
        part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        part |= {"committed_leader_epoch": -1}
        fields = {
            "transactional_id": "id", "group_id": "g", "member_id": "", "group_instance_id": None,
            "generation_id_or_member_epoch": -1, "producer_id": began["producer_id"],
            "producer_epoch": began["producer_epoch"],
            "topics": [{"topic_id": known, "partitions": [part]}],
        }  # fmt: skip
        with pytest.raises(BrokerError):
            client.ask("TxnOffsetCommit", 6, fields)
        client = Connection(host, int(port), Security())
        (topic,) = client.ask("TxnOffsetCommit", 6, fields)["topics"]
        assert (topic["topic_id"], topic["partitions"][0]["error_code"]) == (known, "NONE")
        assert server.answered["TxnOffsetCommit"] == 1
    recorded = [json.loads(line) for line in lines.getvalue().splitlines()]
    told = [line for line in recorded if line["request"] == "TxnOffsetCommit"]
    assert [(line["partition"], line["api_version"]) for line in told] == [("orders-0", 6)] * 2
    assert [line.get("response") for line in told] == [None, {"error": "NONE"}]


# Faults -------------------------------------------------------------------------------------------


@pytest.mark.slow(1)
@pytest.mark.parametrize("request_", ["InitProducerId", "AddPartitionsToTxn", "EndTxn"])
def test_a_request_or_its_answer_is_lost(request_: str) -> None:
    lost, on = {"do": "lose_request", "on": {"request": request_}}, {"request": request_, "nth": 2}
    with between(lost, {"do": "lose_answer", "on": on}) as (server, proxy):
        end(proxy.bootstrap)
        assert server.answered[request_] == 2  # of three: the first never came there
        assert read(proxy.bootstrap, "orders") == ["once"]


def test_a_batch_that_comes_again_is_appended_once() -> None:
    with between({"do": "duplicate", "on": {"request": "Produce"}}) as (server, proxy):
        end(proxy.bootstrap)
        assert server.answered["Produce"] == 2
        assert read(proxy.bootstrap, "orders") == ["once"]


@pytest.mark.parametrize("release", ["2.5", "4.3"])
def test_a_late_end_commits_the_next_transaction_before_version_2(release: str) -> None:
    late = {"do": "duplicate", "on": {"request": "EndTxn"}, "until": {"request": "Produce"}}
    with between(late, release=release) as (server, proxy):
        producer = in_transactions(proxy.bootstrap, "id")
        commit_one_and_begin_another(producer)
        eventually(lambda: server.answered["EndTxn"] == 2)
        assert read(proxy.bootstrap, "orders") == ["txn0", "txn1"]  # librdkafka knows no version 2


@pytest.mark.slow(1)
def test_batches_in_flight_that_overtake_each_other() -> None:
    """Without idempotence they stay as they came: the third before the second."""
    on = {"request": "Produce", "nth": 2}
    with between({"do": "reorder", "on": on, "until": {"request": "Produce"}}) as (_, proxy):
        settings = {"linger_ms": 0, "batch_num_messages": 1, "enable_idempotence": False}
        producer = librdkafka(proxy.bootstrap, **settings)
        for n in range(5):
            producer.produce("orders", f"{n}")
        assert producer.flush(TIMEOUT_S) == 0
        assert read(proxy.bootstrap, "orders") == ["0", "2", "1", "3", "4"]


def test_nothing_overtakes_where_nothing_comes_behind() -> None:
    with Server("4.3", topics={"orders": 1}) as server, Proxy(server.bootstrap) as proxy:
        proxy.faults.add({"do": "reorder", "on": {"request": "EndTxn"}, "until": {"ms": 50}})
        end(proxy.bootstrap)
        assert not proxy.faults.all_fired
        told = proxy.report().splitlines()[-1]
    assert told.startswith("fault fault-1: DID NOT FIRE: no matching request followed")


def test_a_rival_s_epoch_fences() -> None:
    with between({"do": "bump_epoch", "on": {"request": "EndTxn"}}) as (_, proxy):
        with pytest.raises(KafkaException) as raised:
            end(proxy.bootstrap)
        assert raised.value.args[0].fatal()
        assert read(proxy.bootstrap, "orders") == []


def test_an_id_skips_to_an_epoch() -> None:
    skips = {"do": "skip_to_epoch", "on": {"request": "InitProducerId", "nth": 2}}
    with between({**skips, "producer_epoch": 40}) as (server, proxy):
        end(proxy.bootstrap, "first")
        end(proxy.bootstrap, "second")
        assert server.cluster.coordinator.entries["id"]["producer_epoch"] > 40


def test_a_broker_that_is_gone_is_told() -> None:
    with Server("4.3", topics={"orders": 1}) as server, Proxy(server.bootstrap) as proxy:
        end(proxy.bootstrap)
        server.__exit__(None, None, None)
        proxy.faults.add({"do": "lose_answer", "on": {"request": "Metadata"}})
        producer = librdkafka(proxy.bootstrap)
        with pytest.raises(KafkaException):
            producer.list_topics(timeout=0.5)
        eventually(lambda: bool(proxy.broken))
        assert "requests without an answer: 127.0.0.1:" in proxy.report()
        assert "DID NOT FIRE: the broker didn't answer" in proxy.report()
        server.__enter__()


@pytest.mark.parametrize("do", ["hold_markers", "time_out_transaction", "expire_producer"])
def test_what_real_brokers_can_t_be_made_to_do(do: str) -> None:
    with Server("4.3") as server:
        proxy = Proxy(server.bootstrap)
    with pytest.raises(BadFaultError, match=f"{do}: .*: "):
        proxy.faults.add({"do": do, "on": {"request": "EndTxn"}})
    with pytest.raises(BadFaultError, match="--restart-command"):
        proxy.faults.add({"do": "fail_over_coordinator", "on": {"request": "EndTxn"}})


def test_a_failover_runs_the_command() -> None:
    runs: list[int] = []
    with (
        Server("4.3", topics={"orders": 1}) as server,
        Proxy(server.bootstrap, restart=lambda: runs.append(1)) as proxy,
    ):
        proxy.faults.add({"do": "fail_over_coordinator", "on": {"request": "EndTxn"}})
        end(proxy.bootstrap)
        assert proxy.faults.all_fired
    assert runs == [1]


# At random ----------------------------------------------------------------------------------------


def many(bootstrap: str) -> None:
    """Transactions one after another, by as many instances as are fatal."""
    for n in range(8):
        producer = in_transactions(bootstrap, f"id-{n}")
        for _ in range(3):
            producer.begin_transaction()
            producer.produce("orders", f"{n}")
            try:
                producer.commit_transaction(TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    break
                try:
                    producer.abort_transaction(TIMEOUT_S)
                except KafkaException:  # an end that comes again may be fatal to the abort
                    break


@pytest.mark.slow(2)
def test_faults_at_random_fire_and_are_a_script_afterwards(seed: int) -> None:
    with Server("4.3", topics={"orders": 1}) as server, Proxy(server.bootstrap) as proxy:
        proxy.faults.drawn = drawn = Drawn(0.2, seed)
        many(proxy.bootstrap)
        proxy.faults.drawn = None
        assert proxy.faults.all_fired
        assert drawn.fired > 5
        script = drawn.script()
    assert f"{drawn.fired} fired of {drawn.count} drawn" in drawn.text()
    with Server("4.3") as server:
        again = Proxy(server.bootstrap)
    for fault in script:
        again.faults.add(fault)
    at = {(fault["on"]["request"], fault["on"]["nth"]): fault["do"] for fault in script}
    twin = Drawn(0.2, seed)
    for (name, nth), do in at.items():
        twin.seen[name] = nth - 1
        found = twin.at(Request(name, 0, {}, None, 0, 0))
        assert found is not None
        assert found.do == do


# What it records ----------------------------------------------------------------------------------


@pytest.mark.slow(1)
@pytest.mark.parametrize("release", ["2.5", "4.3"])
def test_what_it_records_is_explained(release: str, tmp_path: Path) -> None:
    faults = (
        {"do": "lose_answer", "on": {"request": "EndTxn", "nth": 2}},
        {"do": "lose_request", "on": {"request": "Produce", "nth": 3}},
        {"do": "duplicate", "on": {"request": "AddPartitionsToTxn", "nth": 2}},
        {"do": "bump_epoch", "on": {"request": "EndTxn", "nth": 6}},
    )
    data = io.BytesIO()
    with between(*faults, release=release) as (_, proxy):
        proxy.record_in(History(data))
        producer = in_transactions(proxy.bootstrap, "id")
        with pytest.raises(KafkaException):
            transactions(producer)
    path = tmp_path / "history.jsonl"
    path.write_bytes(data.getvalue())
    lines = [json.loads(line) for line in data.getvalue().splitlines()]
    assert {line.get("client") for line in lines} == {"rdkafka", "rival"}
    assert sum("response" not in line for line in lines) >= 3
    judge = ["judge", str(path), "--protocol", release]
    assert CliRunner().invoke(app, judge).exit_code == 0
    (changed,) = (n for n, line in enumerate(lines) if is_rival_s_epoch(line))
    lines[changed]["response"]["producer_epoch"] += 5
    path.write_text("\n".join(map(json.dumps, lines)))
    assert CliRunner().invoke(app, judge).exit_code == 12


def is_rival_s_epoch(line: dict[str, Any]) -> bool:
    told = line.get("response", {})
    return line.get("client") == "rival" and told.get("error") == "NONE"


# The command --------------------------------------------------------------------------------------


def test_the_command_tells_what_fired(tmp_path: Path) -> None:
    script, random = tmp_path / "faults.json", tmp_path / "random.json"
    script.write_text('{"name": "lost", "do": "lose_answer", "on": {"request": "EndTxn"}}')
    with Server("4.3", topics={"orders": 1}) as server:
        command = ["proxy", "--upstream", server.bootstrap, "--listen", "127.0.0.1:0"]
        command += ["--seconds", "0"]
        done = CliRunner().invoke(app, [*command, "--script", str(script), "--control", "0"])
        assert done.exit_code == 20, done.output
        assert done.stdout.splitlines()[0].startswith(
            f"proxy to {server.bootstrap}: bootstrap.servers=127.0.0.1:"
        )
        assert done.stdout.splitlines()[2:] == [
            "0 requests answered",
            "fault lost: DID NOT FIRE: 0 such EndTxn came, and it is for number 1",
        ]
        assert CliRunner().invoke(app, command).exit_code == 0
        drawn = [*command, "--random", "0.5", "--seed", "7", "--random-script", str(random)]
        done = CliRunner().invoke(app, drawn)
        assert (done.exit_code, random.read_text()) == (20, "[]\n")
        assert "faults at random, seed 7: 0 fired of 0 drawn for 0 requests" in done.stdout


def test_bad_input_ends_in_one_line(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        socket.socket() as not_listening,
        Server("4.3") as server,
    ):
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        upstream = ["--upstream", server.bootstrap]
        not_listening.bind(("127.0.0.1", 0))  # nobody else gets the port meanwhile
        refused = f"127.0.0.1:{not_listening.getsockname()[1]}"
        unknown = tmp_path / "unknown.json"
        unknown.write_text('{"do": "explode", "on": {"request": "EndTxn"}}')
        for arguments, told in (
            (["--upstream", refused], f"{refused} doesn't answer: Connection refused"),
            (["--upstream", "a:b"], "write HOST:PORT"),
            (["--upstream", "::::"], "write HOST:PORT"),
            ([*upstream, "--listen", busy], f"can't listen on {busy}: "),
            ([*upstream, "--listen", "9192"], "--listen 9192: write HOST:PORT"),
            ([*upstream, "--listen", "127.0.0.1:99999"], "write HOST:PORT"),
            ([*upstream, "--script", str(unknown)], f"{unknown}: do must be one of"),
            ([*upstream, "--fault", "hold_markers:EndTxn"], "hold WriteTxnMarkers"),
            ([*upstream, "--random-script", str(tmp_path / "x")], "--random-script needs --random"),
            ([*upstream, "--config", str(tmp_path / "none")], "can't read"),
        ):
            done = CliRunner().invoke(app, ["proxy", "--seconds", "0", *arguments])
            assert (done.exit_code, done.stderr.count("\n")) == (2, 1), (arguments, done.output)
            assert told in done.stderr


def two_free_ports() -> int:
    """A port on loopback that nothing listens on, nor on the next one: of those that the system
    gives to nobody who doesn't ask for them."""
    while True:
        port = SystemRandom().randrange(20_000, 30_000)
        with suppress(OSError), ExitStack() as both:
            for each in (port, port + 1):
                both.enter_context(socket.create_server(("127.0.0.1", each)))
            return port


def test_what_isn_t_offered_is_hidden() -> None:
    with Server("4.3") as server, Proxy(server.bootstrap) as proxy:
        host, port = proxy.brokers.addresses[0]
        connection = Connection(host, port, Security())
        told = connection.api_versions()
        assert {f["name"]: f["max_version_level"] for f in told["finalized_features"]} == {
            "transaction.version": 2
        }
        offered = {one["api_key"]: one["max_version"] for one in told["api_keys"]}
        mine = server.brokers.versions
        assert len(offered) == len(mine) - 1  # in ConsumerGroupHeartbeat, topics go by ids
        with pytest.raises(BrokerError):
            connection.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
        connection.close()


def test_features_are_told_as_they_are_now() -> None:
    def told() -> tuple[int, int]:
        connection = Connection(*proxy.brokers.addresses[0], Security())
        found = connection.api_versions()
        connection.close()
        (level,) = (f["max_version_level"] for f in found["finalized_features"])
        return level, found["finalized_features_epoch"]

    with between() as (server, proxy):
        assert told() == (2, 0)
        server.brokers.features, server.brokers.features_epoch = {"transaction.version": 1}, 7
        assert told() == (1, 7)


def test_brokers_whose_own_listener_is_behind_it() -> None:
    """They tell of the proxy's ports as theirs, whose way leads to them all the same."""
    with Server("4.3", topics={"orders": 1}, brokers=2) as server:
        upstream = server.bootstrap
        port = two_free_ports()
        for node in (0, 1):
            server.brokers.addresses[node] = ("127.0.0.1", port + node)
        with pytest.raises(
            BrokerError, match="broker 1 advertises this proxy's address: --upstream"
        ):
            Proxy(upstream.split(",")[0], port=port)
        with Proxy(upstream, port=port) as proxy:
            proxy.faults.add({"do": "bump_epoch", "on": {"request": "EndTxn", "nth": 2}})
            end(server.bootstrap)
            with pytest.raises(KafkaException):
                end(server.bootstrap)
            assert proxy.faults.unfired == [], proxy.report()
            assert read(server.bootstrap, "orders") == ["once"]
            assert proxy.answered["EndTxn"] == server.answered["EndTxn"]
