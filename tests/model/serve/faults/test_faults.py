"""Faults on demand, each with a client that meets it, and each seen to have fired."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.serve.control import Control
from epochfence.model.serve.faults import faults
from epochfence.model.serve.faults.faults import (
    BadFaultError,
    Drawn,
    Faults,
    read_script,
    read_short,
)
from epochfence.model.serve.proxy import Proxy
from epochfence.model.serve.server import Server
from epochfence.model.wire.connection import BrokerError, Connection, Security
from epochfence.model.wire.listener import Request
from epochfence.tests.model.serve.clients import (
    TIMEOUT_S,
    Http,
    commit_one_and_begin_another,
    eventually,
    in_transactions,
    librdkafka,
    read,
)


@contextmanager
def served(release: str, *faults: Mapping[str, Any], brokers: int = 1) -> Iterator[Server]:
    """A cluster with these faults, all of which have to fire."""
    with Server(release, brokers=brokers) as server:
        for fault in faults:
            server.faults.add(dict(fault))
        yield server
        assert server.faults.unfired == [], server.report()


def end(server: Server, value: str = "once", transactional_id: str = "id") -> None:
    """A transaction with one record, committed."""
    producer = in_transactions(server.bootstrap, transactional_id)
    producer.begin_transaction()
    producer.produce("orders", value)
    producer.commit_transaction(TIMEOUT_S)


def commit_in_vain(producer: Producer, is_so: Callable[[], bool]) -> None:
    """Asks for a commit and gives it up, again and again, until something is so."""

    def is_given_up() -> bool:
        with pytest.raises(KafkaException) as raised:
            producer.commit_transaction(0.3)
        assert raised.value.args[0].retriable()
        return is_so()

    eventually(is_given_up)


DOCS = Path(__file__).parents[4] / "docs"
RELEASES = pytest.mark.parametrize("release", ["2.5", "4.3"])
ID = {"transactional_id": "id"}


@RELEASES
def test_a_lost_end_is_asked_for_again(release: str) -> None:
    with served(release, {"do": "lose_answer", "on": {"request": "EndTxn"}}) as server:
        end(server)
        assert server.answered["EndTxn"] == 2
        assert read(server.bootstrap, "orders") == ["once"]


@pytest.mark.slow(1)
@RELEASES
def test_a_batch_whose_answer_is_lost_is_there_once(release: str) -> None:
    with served(release, {"do": "lose_answer", "on": {"request": "Produce"}}) as server:
        producer = librdkafka(server.bootstrap)
        producer.produce("orders", "once")
        assert producer.flush(TIMEOUT_S) == 0
        assert server.answered["Produce"] == 2
        assert read(server.bootstrap, "orders") == ["once"]


def test_answers_are_lost_together_on_a_connection() -> None:
    fault = {
        "do": "lose_answer",
        "on": {"request": "InitProducerId", "transactional_id": "a"},
        "until": {"request": "InitProducerId", "transactional_id": "b"},
    }
    with served("4.3", fault) as server:
        connection = Connection(*server.brokers.addresses[0], Security())
        for name in ("a", "b"):
            asked = {"transactional_id": name, "transaction_timeout": 1000}
            asked |= {"producer_id": -1, "producer_epoch": -1}
            connection.send("InitProducerId", 4, asked)
        with pytest.raises(BrokerError, match="the connection was closed"):
            connection.receive("InitProducerId", 4)
        assert server.answered["InitProducerId"] == 2


def test_a_request_that_is_lost_has_done_nothing() -> None:
    fault = {"do": "lose_request", "on": {"request": "AddPartitionsToTxn"}}
    with served("4.3", fault) as server:
        end(server)
        assert server.answered["AddPartitionsToTxn"] == 1
        assert read(server.bootstrap, "orders") == ["once"]


@pytest.mark.slow(1)
@RELEASES
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", ["AddPartitionsToTxn", "EndTxn"])
def test_another_broker_takes_over_in_the_middle(at: str, when: str, release: str) -> None:
    fault = {"do": "fail_over_coordinator", "on": {"request": at}, "when": when, "loading_ms": 100}
    with served(release, fault, brokers=2) as server:
        before = server.nodes.coordinator("id")
        end(server)
        assert server.nodes.coordinator("id") != before
        assert read(server.bootstrap, "orders") == ["once"]


@pytest.mark.slow(1)
def test_a_coordinator_that_loads_says_so() -> None:
    loads = {"do": "fail_over_coordinator", "on": {"request": "EndTxn"}, "loading_ms": 60_000}
    with served("4.3", loads) as server:
        producer = in_transactions(server.bootstrap, "id")
        producer.begin_transaction()
        producer.produce("orders", "in between")
        commit_in_vain(producer, server.cluster.coordinator.is_loading)


@RELEASES
def test_a_rival_s_epoch_fences(release: str) -> None:
    with served(release, {"do": "bump_epoch", "on": {"request": "EndTxn"}}) as server:
        with pytest.raises(KafkaException) as raised:
            end(server)
        assert raised.value.args[0].fatal()
        assert read(server.bootstrap, "orders") == []


def test_a_transaction_that_is_timed_out_isn_t_committed() -> None:
    fault = {"do": "time_out_transaction", "on": {"request": "Produce"}, "when": "after"}
    with served("4.3", fault) as server:
        with pytest.raises(KafkaException):
            end(server)
        assert server.cluster.coordinator.entries["id"]["state"] == "COMPLETE_ABORT"
        assert read(server.bootstrap, "orders") == []


def test_the_last_epochs_give_a_new_producer_id() -> None:
    skips = {"do": "skip_to_epoch", "on": {"request": "FindCoordinator", "nth": 2}, **ID}
    with Server("4.3") as server:
        end(server, "first")
        first = server.cluster.coordinator.entries["id"]["producer_id"]
        server.faults.add({**skips, "producer_epoch": 32_766, "on": {"request": "InitProducerId"}})
        end(server, "second")
        assert server.faults.unfired == []
        assert server.cluster.coordinator.entries["id"]["producer_id"] != first
        assert read(server.bootstrap, "orders") == ["first", "second"]


def test_markers_that_are_held_keep_the_next_transaction_waiting() -> None:
    """Its partition is refused with CONCURRENT_TRANSACTIONS, twice until the markers go out."""
    until = {"request": "AddPartitionsToTxn", "nth": 2}
    fault = {"do": "hold_markers", "on": {"request": "EndTxn"}, "until": until}
    with served("4.3", fault) as server:
        producer = in_transactions(server.bootstrap, "id")
        for n in range(2):
            producer.begin_transaction()
            producer.produce("orders", f"{n}")
            producer.commit_transaction(TIMEOUT_S)
        assert server.answered["AddPartitionsToTxn"] == 1 + 3
        assert read(server.bootstrap, "orders") == ["0", "1"]


@pytest.mark.slow(1)
@pytest.mark.parametrize("do", ["hold", "hold_answer"])
def test_what_is_held_goes_on_when_something_else_is_answered(do: str) -> None:
    until = {"request": "InitProducerId", "transactional_id": "other"}
    fault = {"do": do, "on": {"request": "EndTxn", **ID}, "until": until}
    with served("4.3", fault) as server:
        producer = in_transactions(server.bootstrap, "id")
        producer.begin_transaction()
        producer.produce("orders", "once")
        commit_in_vain(producer, lambda: bool(server.faults.all["fault-1"].waiting))
        assert server.answered["EndTxn"] == (do == "hold_answer")
        in_transactions(server.bootstrap, "other")
        producer.commit_transaction(TIMEOUT_S)
        assert read(server.bootstrap, "orders") == ["once"]


def test_an_end_that_comes_twice() -> None:
    """Before version 2 the copy that comes late commits the next transaction: KIP-890's reason."""
    late = {"do": "duplicate", "on": {"request": "EndTxn"}, "until": {"request": "Produce"}}
    with served("2.5", late) as server:
        producer = in_transactions(server.bootstrap, "id")
        commit_one_and_begin_another(producer)
        eventually(lambda: server.answered["EndTxn"] == 2)
        assert read(server.bootstrap, "orders") == ["txn0", "txn1"]
        with pytest.raises(KafkaException):
            producer.abort_transaction(TIMEOUT_S)


def test_an_end_that_is_overtaken_by_its_own_retry() -> None:
    """The first to be sent is the last to come: it commits the next transaction."""
    late = {"do": "delay", "on": {"request": "EndTxn"}, "until": {"request": "Produce", "ms": 20}}
    with served("2.5", late) as server:
        producer = in_transactions(server.bootstrap, "id")
        commit_one_and_begin_another(producer)
        eventually(lambda: server.answered["EndTxn"] == 2)
        assert read(server.bootstrap, "orders") == ["txn0", "txn1"]


def test_a_producer_that_leaders_forget() -> None:
    forgets = {"do": "expire_producer", "on": {"request": "EndTxn"}, "when": "after"}
    with served("2.5", forgets) as server:
        end(server)
        assert server.partitions.leader("orders", 0).producers == {}
        assert read(server.bootstrap, "orders") == ["once"]


@pytest.mark.parametrize("do_through", ["server", "proxy"])
def test_a_partition_that_metadata_lacks_for_a_while(do_through: str) -> None:
    hides = {
        "do": "hide_partition",
        "partition": "orders-1",
        "on": {"request": "Metadata"},
        "until": {"request": "Metadata"},
    }
    with Server("4.3", topics={"orders": 2}) as server, Proxy(server.bootstrap) as proxy:
        through = server if do_through == "server" else proxy
        through.faults.add(hides)
        host, _, port = through.bootstrap.rpartition(":")
        connection = Connection(host, int(port), Security())
        asked = {"topics": [{"name": "orders"}]}
        seen: list[int] = []
        for _ in range(3):
            (topic,) = connection.ask("Metadata", 9, asked)["topics"]
            seen.append(len(topic["partitions"]))
            time.sleep(0.1)  # the fault lets go behind the answer
        connection.close()
        assert seen == [2, 1, 2]
        assert through.faults.all_fired


def test_a_hidden_partition_that_nobody_asks_for() -> None:
    hides = {"do": "hide_partition", "partition": "orders-7", "on": {"request": "Metadata"}}
    with Server("4.3") as server:
        server.faults.add(hides)
        end(server)
        (fault,) = server.faults.unfired
        assert "DID NOT FIRE" in fault.text()


def test_a_group_that_loses_its_members() -> None:
    expires = {"do": "expire_members", "on": {"request": "OffsetCommit"}}
    with Server("4.3", topics={"orders": 1}) as server:
        server.faults.add(expires)
        server.faults.add({"do": "expire_members", "on": {"request": "InitProducerId"}})
        end(server)
        member = Consumer({
            "bootstrap.servers": server.bootstrap, "group.id": "workers", "log_level": 0,
            "auto.offset.reset": "earliest", "enable.auto.commit": False,
        })  # fmt: skip
        member.subscribe(["orders"])
        message = member.poll(TIMEOUT_S)
        assert message is not None
        with pytest.raises(KafkaException) as raised:
            member.commit(message=message, asynchronous=False)
        assert raised.value.args[0].name() == "UNKNOWN_MEMBER_ID"
        member.close()
        fired, idle = server.faults.all.values()
        assert fired.fired == 1
        assert idle.text().endswith("DID NOT FIRE: no group is named: give the fault one")


# Their descriptions -----------------------------------------------------------------------------


def test_a_fault_that_can_t_come_about_says_why() -> None:
    with Server("4.3") as server:
        server.faults.add({"do": "time_out_transaction", "on": {"request": "InitProducerId"}})
        server.faults.add({"do": "bump_epoch", "on": {"request": "Metadata"}})
        server.faults.add({"do": "lose_answer", "on": {"request": "EndTxn", "nth": 2}})
        end(server)
    assert server.report().splitlines()[1:] == [
        "fault fault-1: DID NOT FIRE: no transactional id is called id",
        "fault fault-2: DID NOT FIRE: no transactional id is named: give the fault one",
        "fault fault-3: DID NOT FIRE: 1 such EndTxn came, and it is for number 2",
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "must be object"),
        ({}, "must contain ['do']"),
        ({"do": "explode", "on": {"request": "EndTxn"}}, "must be one of"),
        ({"do": "hold", "on": {"request": "Nothing"}}, "no request is called 'Nothing'"),
        ({"do": "hold", "on": {"request": "ApiVersions"}}, "no request is called"),
        ({"do": "lose_answer"}, "needs `on`"),
        ({"do": "bump_epoch", "on": {"request": "EndTxn"}, "until": {"ms": 1}}, "no `until`"),
        ({"do": "lose_answer", "on": {"request": "EndTxn"}, "when": "after"}, "no `when`"),
        ({"do": "skip_to_epoch", "on": {"request": "EndTxn"}}, "needs `producer_epoch`"),
        ({"do": "hide_partition", "on": {"request": "EndTxn"}}, "needs `partition`"),
        (
            {"do": "hold", "on": {"request": "EndTxn"}, "partition": "orders-1"},
            "no other fault has it",
        ),
        ({"do": "hold", "on": {"request": "EndTxn", "nth": 0}}, "nth must be bigger"),
        ({"do": "hold", "on": {"request": "EndTxn"}, "more": 1}, "must not contain {'more'}"),
        ({"do": "hold", "on": {"request": "EndTxn", "ms": 1}}, "`on` has no `ms`"),
        ({"do": "lose_request", "on": {"request": "EndTxn"}, "until": {"ms": 1}}, "no `until`"),
    ],
)
def test_what_is_no_fault(given: Any, told: str) -> None:
    with pytest.raises(BadFaultError) as raised:
        Faults().add(given)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_is_given_once() -> None:
    faults, one = Faults(), {"name": "a", "do": "hold", "on": {"request": "EndTxn"}}
    faults.add(one)
    with pytest.raises(BadFaultError, match="two faults are called a"):
        faults.add(one)


@pytest.mark.parametrize("text", ["", "hold", "hold:EndTxn:x", "a:b:1:2"])
def test_what_is_no_short_fault(text: str) -> None:
    with pytest.raises(BadFaultError, match="write DO:REQUEST"):
        read_short(text)


def test_the_pages_scripts_are_taken() -> None:
    texts = re.findall(r"```text\n([\[{].*?)```", (DOCS / "serve.md").read_text(), re.DOTALL)
    scripts = [text for text in texts if '"do"' in text]
    assert scripts
    for text in scripts:
        for given in read_script(text.encode()):
            Faults().add(given)


def test_short_faults_and_scripts() -> None:
    assert read_short("hold:EndTxn:3") == {"do": "hold", "on": {"request": "EndTxn", "nth": 3}}
    assert read_short('{"do": "hold"}') == {"do": "hold"}
    assert (read_script(b'[{"do": "hold"}, 1]')) == [{"do": "hold"}, 1]
    assert (read_script(b'{"do": "hold"}')) == [{"do": "hold"}]
    with pytest.raises(BadFaultError, match="not valid JSON"):
        read_script(b'{"do": 1, "do": 2}')


def test_the_command_tells_what_fired(tmp_path: Path) -> None:
    script = tmp_path / "faults.json"
    script.write_text(
        json.dumps({"name": "lost", "do": "lose_answer", "on": {"request": "EndTxn"}})
    )
    command = ["serve", "--port", "0", "--seconds", "0", "--script", str(script)]
    done = CliRunner().invoke(app, [*command, "--fault", "hold:Produce:2", "--control", "0"])
    assert done.exit_code == 20, done.output
    assert done.stdout.splitlines()[2:] == [
        "0 requests answered",
        "fault lost: DID NOT FIRE: 0 such EndTxn came, and it is for number 1",
        "fault fault-2: DID NOT FIRE: 0 such Produce came, and it is for number 2",
    ]
    for more in (["--fault", "x"], ["--script", str(tmp_path)], ["--fault", "{"]):
        wrong = CliRunner().invoke(app, ["serve", "--port", "0", "--seconds", "0", *more])
        assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1), wrong.stderr


# Over HTTP ----------------------------------------------------------------------------------------


@pytest.mark.slow(1)
def test_faults_over_http() -> None:
    with Server("4.3", brokers=2) as server, Control(server) as control:
        http = Http(control)
        assert http.ask("GET", "/faults") == (200, [])
        held = {"name": "held", "do": "hold", "on": {"request": "EndTxn"}}
        assert http.ask("POST", "/faults", held)[0] == 200
        producer = in_transactions(server.bootstrap, "id")
        producer.begin_transaction()
        producer.produce("orders", "once")
        commit_in_vain(producer, lambda: http.ask("GET", "/faults")[1][0]["waiting"] == 1)
        _, (told,) = http.ask("GET", "/faults")
        assert told == {"name": "held", "do": "hold", "fired": 0, "waiting": 1}
        _, (entry,) = http.ask("GET", "/transactions")
        assert (entry["state"], entry["partitions"]) == ("Ongoing", ["orders-0"])
        moved = {"do": "fail_over_coordinator", "transactional_id": "id"}
        assert http.ask("POST", "/faults", moved)[1]["fired"] == 1
        assert http.ask("POST", "/faults/held/release")[1]["waiting"] == 0
        producer.commit_transaction(TIMEOUT_S)
        assert read(server.bootstrap, "orders") == ["once"]
        status, told = http.ask("POST", "/faults", {"do": "bump_epoch", "transactional_id": "no"})
        assert (status, told["fired"]) == (200, 0)
        assert told["failed"] == "no transactional id is called no"


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("GET", "/", None, None, 404),
        ("POST", "/", None, None, 404),
        ("POST", "/faults/none/release", None, None, 404),
        ("POST", "/faults", {"do": "hold"}, None, 400),
        ("POST", "/faults", b"{", None, 400),
        ("POST", "/faults", b"1, 2", None, 400),
        ("POST", "/faults", b"x" * 100, {"Content-Type": "text/plain"}, 415),
        ("PUT", "/acls", {}, None, 400),
        ("PUT", "/acls", {"acls": [{"principal": "User:a"}]}, None, 400),
        ("PUT", "/acls", None, {"Content-Type": "text/plain"}, 415),
        ("GET", "/faults", None, {"Host": "epochfence.example:80"}, 400),
        ("GET", "/faults", None, {"Origin": "http://epochfence.example"}, 403),
        ("GET", "/transactions", None, {"Sec-Fetch-Site": "cross-site"}, 403),
        ("POST", "/faults/none/release", None, {"Origin": "http://epochfence.example"}, 403),
        ("POST", "/faults/none/release", None, {"Origin": "null"}, 403),
        ("POST", "/faults/none/release", None, {"Sec-Fetch-Site": "cross-site"}, 403),
        ("POST", "/faults/none/release", None, {"Sec-Fetch-Site": "same-origin"}, 404),
        ("POST", "/faults", {"do": "hold"}, {"Origin": "http://localhost:1"}, 403),
        ("PUT", "/acls", {}, {"Sec-Fetch-Site": "same-site"}, 403),
        ("POST", "/faults", b"[" * (1 << 20) + b"]", None, 413),
    ],
)
def test_what_control_doesn_t_take(
    method: str, path: str, body: Any, headers: dict[str, str] | None, status: int
) -> None:
    with Server("4.3") as server, Control(server) as control:
        found, told = Http(control).ask(method, path, body, headers)
    assert found == status
    assert list(told) == ["error"] or told == b"Invalid host header"


def test_few_faults_at_random_are_kept_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [Drawn(0.5, 7), Drawn(0.5, 7)]
    for one, most in zip(drawn, (10_000, 5), strict=True):
        monkeypatch.setattr(faults, "MOST_KEPT", most)
        for n in range(300):
            name = ("EndTxn", "Produce")[n % 2]
            fault = one.at(Request(name, 0, {}, None, 0, 0))
            if fault is not None and n < 290:
                fault.fired, fault.failed = int(n % 3 > 0), None if n % 3 else f"reason {n % 2}"
    kept, forgotten = drawn
    assert len(kept.faults) == kept.count == forgotten.count > 100
    assert len(forgotten.faults) < 20
    assert forgotten.text() == kept.text()

    def in_order(script: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(script, key=lambda fault: fault["name"])

    assert in_order(forgotten.script()) == in_order(kept.script())
    assert len(kept.script()) == kept.fired == forgotten.fired
