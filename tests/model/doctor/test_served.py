"""The state of a served cluster, and what doctor says of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from epochfence.model.broker.transactions.transaction_log import partition_for
from epochfence.model.doctor.diagnosis import Diagnosis, diagnose
from epochfence.model.doctor.evidence import Evidence, Open, Partition, Place, Verdict
from epochfence.model.doctor.examination import examine
from epochfence.model.doctor.live import Cluster
from epochfence.model.doctor.output.exporter import Exporter
from epochfence.model.doctor.output.report import as_json, lines
from epochfence.model.serve.faults.faults import fault_of
from epochfence.model.serve.server import Server
from epochfence.model.serve.users import ANONYMOUS
from epochfence.spec.access.acls import Acl, Acls
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.model.doctor.hand import Hand
from epochfence.tests.model.serve.clients import commit_one_and_begin_another, in_transactions

HANGS, UNKNOWN, HEALTHY = Verdict.HANGS, Verdict.UNKNOWN, Verdict.HEALTHY
BRIEF_MS: Final = 600
MAY_ALL: Final = (
    "DESCRIBE TOPIC *",
    "READ TOPIC *",
    "DESCRIBE TRANSACTIONAL_ID *",
    "DESCRIBE CLUSTER kafka-cluster",
)


@contextmanager
def served(release: str = "4.3", partitions: int = 3, brokers: int = 1) -> Iterator[Server]:
    with Server(release, topics={"orders": partitions}, brokers=brokers) as server:
        yield server


def doctor(server: Server, *topics: str, patience_ms: int = BRIEF_MS) -> Diagnosis:
    with Cluster(server.bootstrap, topics=topics) as cluster:
        return examine(cluster, patience_ms)


def causes(found: Diagnosis) -> list[str]:
    return [*(case.cause for case in found.cases), *(one.cause for one in found.problems)]


def act(server: Server, do: str, transactional_id: str = "app", **more: int) -> None:
    """A fault of the cluster, at once."""
    fault = fault_of({"do": do, "transactional_id": transactional_id, **more}, name="f")
    server.brokers.do(server.act(fault))
    assert fault.failed is None


@pytest.mark.parametrize("release", ["3.0", "3.5", "3.6", "4.4"])
def test_nothing_is_open_and_an_open_transaction_is_none_that_hangs(release: str) -> None:
    with served(release) as server:
        assert (doctor(server).verdict, causes(doctor(server))) == (HEALTHY, [])
        commit_one_and_begin_another(in_transactions(server.bootstrap, "app"))
        found = doctor(server)
        (case,) = found.cases
        assert (found.verdict, case.cause, case.partition.place.topic) == (
            HEALTHY,
            "open",
            "orders",
        )
        assert case.entry is not None
        assert case.entry.transactional_id == "app"
        assert not case.bugs
        assert not case.remedy


def test_a_late_batch_hangs_by_a_fault_and_is_told_with_bug_remedy_and_risk() -> None:
    """KAFKA-14402: the batch is held until the abort is answered."""
    with served("3.5") as server:
        app = Hand(server.bootstrap)
        app.begin()
        server.faults.add(
            {"do": "hold", "on": {"request": "Produce"}, "until": {"request": "EndTxn"}}
        )
        late = Hand(server.bootstrap)
        late.pair, late._sequences = app.pair, {0: 1}  # pyright: ignore[reportPrivateUsage]
        writes = threading.Thread(target=late.write)
        writes.start()
        until = time.monotonic() + 10
        while not server.faults.all["fault-1"].waiting and time.monotonic() < until:
            time.sleep(0.01)
        assert app.end(commits=False) == "NONE"
        writes.join()
        found = doctor(server)
        (case,) = found.cases
        assert (found.verdict, case.cause, case.open.first_offset) == (HANGS, "hanging", 2)
        assert [bug.name for bug in case.bugs] == ["KAFKA-14402", "KIP-890c", "KAFKA-12671"]
        assert case.remedy.endswith("abort --topic orders --partition 0 --start-offset 2")
        assert "record 2 of orders-0" in case.risk
        assert "the next transaction of app" in case.risk
        assert found.late == {("orders", 0)}


def test_a_partition_that_was_never_added_hangs() -> None:
    """KAFKA-12671. The transaction that is open elsewhere is an ordinary one."""
    with served("3.5") as server:
        app = Hand(server.bootstrap)
        app.begin()
        assert app.write(1) == "NONE"
        found = doctor(server)
        assert {case.partition.place.number: case.cause for case in found.cases} == {
            0: "open",
            1: "hanging",
        }
        hanging = next(case for case in found.cases if case.cause == "hanging")
        assert hanging.bugs[0].name == "KAFKA-12671"  # no marker of the producer has been here


def test_an_instance_that_was_fenced_still_writes() -> None:
    with served("3.5") as server:
        old, new = Hand(server.bootstrap), Hand(server.bootstrap)
        assert old.init() == "NONE"
        assert new.init() == "NONE"
        assert old.write() == "NONE"
        (case,) = doctor(server).cases
        assert (case.cause, case.verdict) == ("hanging", HANGS)  # no log shows that it is more
        assert case.facts[0] == "epoch 0 wrote it; the coordinator is at 1"


def test_markers_that_are_held_are_on_their_way_and_then_late() -> None:
    with served() as server:
        app = Hand(server.bootstrap)
        app.begin()
        server.brokers.do(held(server, holds=True))
        assert app.end(commits=True) == "NONE"
        with Cluster(server.bootstrap) as cluster:
            first = cluster.look()
        assert [entry.state for entries in first.entries.values() for entry in entries] == [
            "PrepareCommit"
        ]
        found = doctor(server)
        assert (found.verdict, causes(found)) == (UNKNOWN, ["late-marker"])
        server.brokers.do(held(server, holds=False))
        assert (doctor(server).verdict, causes(doctor(server))) == (HEALTHY, [])


async def held(server: Server, *, holds: bool) -> None:
    server.cluster.hold_markers(holds)


def test_a_marker_that_comes_while_doctor_looks_is_none_that_is_late() -> None:
    with served() as server:
        app = Hand(server.bootstrap)
        app.begin()
        server.brokers.do(held(server, holds=True))
        assert app.end(commits=True) == "NONE"
        soon = threading.Timer(0.3, lambda: server.brokers.do(held(server, holds=False)))
        soon.start()
        found = doctor(server, patience_ms=20_000)
        assert (found.verdict, causes(found)) == (HEALTHY, [])
        soon.join()


def test_a_transaction_that_times_out_is_ended() -> None:
    with served() as server:
        Hand(server.bootstrap).begin()
        assert causes(doctor(server)) == ["open"]
        act(server, "time_out_transaction")
        assert (doctor(server).verdict, causes(doctor(server))) == (HEALTHY, [])


def test_a_coordinator_that_loads_is_waited_for() -> None:
    """In doubt nothing hangs: who loads may have the entry."""
    with served(brokers=2) as server:
        in_transactions(server.bootstrap, "app").flush()
        app = in_transactions(server.bootstrap, "app")
        app.begin_transaction()
        app.produce("orders", "one", partition=0)
        app.flush()
        act(server, "fail_over_coordinator", loading_ms=8_000)
        found = doctor(server)
        assert found.verdict is UNKNOWN
        assert "coordinator-loading" in causes(found)
        assert "not-known" in causes(found)


def test_a_transaction_log_without_a_leader_lets_no_transaction_of_its_ids_end() -> None:
    with served() as server:
        Hand(server.bootstrap).begin()
        number = partition_for("app")
        server.nodes.moved[number] = -1
        found = doctor(server)
        assert (found.verdict, causes(found)) == (
            HANGS,
            ["not-known", "coordinator-without-leader"],
        )
        assert found.problems[0].says == f"__transaction_state-{number}"


@pytest.mark.parametrize("release", ["2.5", "2.8"])
def test_brokers_that_describe_nothing_and_show_no_log_leave_doubt(release: str) -> None:
    """A served cluster has no records of the transaction log."""
    with served(release) as server:
        Hand(server.bootstrap).begin()
        found = doctor(server)
        (case,) = found.cases
        assert (found.verdict, case.cause) == (UNKNOWN, "not-known")
        assert case.open.first_offset == 0


def test_epochs_that_are_nearly_used_up_are_no_hanging_transaction() -> None:
    with served() as server:
        assert Hand(server.bootstrap).init() == "NONE"
        act(server, "skip_to_epoch", producer_epoch=32_500)
        found = doctor(server)
        assert "epochs-nearly-used-up" in causes(found)
        assert found.problems[-1].says.endswith("is at epoch 32500 of 32767")


def may(*what: str, denied: str = "") -> Acls:
    """A table by which whoever asks may do this."""
    allowed = [Acl(ANONYMOUS, *line.split()) for line in what]
    denies = [Acl(ANONYMOUS, *denied.split(), permission="DENY")] if denied else []
    return Acls((*allowed, *denies))


@pytest.mark.parametrize(
    ("acls", "verdict", "says"),
    [
        (may(*MAY_ALL), HANGS, ""),
        (may(*MAY_ALL[:2], MAY_ALL[3]), UNKNOWN, "DESCRIBE on all transactional ids"),
        (may(*MAY_ALL[:3]), UNKNOWN, "DESCRIBE on the cluster"),
        (may(*MAY_ALL, denied="DESCRIBE TRANSACTIONAL_ID x"), UNKNOWN, "an ACL denies"),
        (may(MAY_ALL[0], *MAY_ALL[2:]), UNKNOWN, "READ on topic orders"),
        (may(*MAY_ALL[2:]), UNKNOWN, "DESCRIBE and READ on all topics"),
    ],
)
def test_a_permission_that_is_missing_is_named(acls: Acls, verdict: Verdict, says: str) -> None:
    """A producer that no coordinator has may be one that the user may not see."""
    with served("3.5") as server:
        gone = Hand(server.bootstrap, "gone")
        gone.pair = {"producer_id": 4_000, "producer_epoch": 1}
        assert gone.write() == "NONE"
        server.cluster.acls = acls
        found = doctor(server)
        assert found.verdict is verdict
        told = "\n".join(lines(found))
        assert says in told
        assert (": hangs" in told) == (verdict is HANGS)


def test_a_cluster_at_work_is_healthy() -> None:
    """Transactions come and go meanwhile, and are open, ending and over."""
    with served(partitions=4) as server:
        stops = threading.Event()

        def work(number: int) -> None:
            producer = in_transactions(server.bootstrap, f"app-{number}")
            while not stops.is_set():
                producer.begin_transaction()
                producer.produce("orders", "v", partition=number)
                producer.produce("orders", "v", partition=(number + 1) % 4)
                producer.commit_transaction(10)

        works = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for each in works:
            each.start()
        try:
            for _ in range(15):
                found = doctor(server)
                assert found.verdict is HEALTHY, list(lines(found))
        finally:
            stops.set()
            for each in works:
                each.join()


@pytest.mark.slow(4)
def test_a_thousand_partitions_take_a_few_seconds() -> None:
    with served(partitions=1_000) as server:
        Hand(server.bootstrap).begin()
        begun = time.monotonic()
        found = doctor(server)
        assert (found.evidence.looked_at, causes(found)) == (1_000, ["open"])
        assert time.monotonic() - begun < 30


def test_of_very_many_partitions_a_sample_is_looked_at_and_the_rest_is_not_known() -> None:
    with (
        served(partitions=20) as server,
        Cluster(server.bootstrap, most=5) as cluster,
    ):
        found = examine(cluster, BRIEF_MS)
        assert found.evidence.looked_at == 5
        assert (found.verdict, causes(found)) == (UNKNOWN, ["sample"])
        assert found.problems[0].says == "5 of 20 partitions, drawn at random"


def test_a_topic_that_is_named_is_looked_at_alone() -> None:
    with served() as server:
        server.partitions.create("other", 2)
        assert doctor(server, "other").evidence.looked_at == 2
        found = doctor(server, "nowhere")
        assert (found.verdict, causes(found)) == (UNKNOWN, ["not-seen"])


def test_the_command_s_exit_code_text_and_json(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    with served("3.5") as server:
        given = ("doctor", "--bootstrap", server.bootstrap)
        assert epochfence(*given).code == 0
        Hand(server.bootstrap).hang()
        told = epochfence(*given, "--json", file)
        assert told.code == 12
        assert "orders-0: last stable offset 2, 1 offset hidden: hangs" in told.out
        data = json.loads(file.read_text())
        (one,) = data["transactions"]
        assert (data["verdict"], one["cause"], one["bugs"][0]) == (
            "HANGS",
            "hanging",
            "KAFKA-14402",
        )
        assert data.keys() == as_json(doctor(server)).keys()
    gone = epochfence(*given)
    assert (gone.code, gone.err.count("\n")) == (2, 1)


def test_groups_that_wait_are_named() -> None:
    """Those whose next offset is the last stable one: one waits, and one has read on."""
    with served(partitions=1, brokers=2) as server:
        commit_one_and_begin_another(in_transactions(server.bootstrap, "app"))
        with Cluster(server.bootstrap) as cluster:
            (part,) = cluster.look().partitions
        at = part.last_stable_offset
        topic, number = part.place
        for name, offset in (("waits", at), ("read on", at + 1), ("is behind", at - 1)):
            consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": name})
            consumer.commit(offsets=[TopicPartition(topic, number, offset)], asynchronous=False)
            consumer.close()
        found = doctor(server)
        assert found.cases[0].partition.groups == ["waits"]
        assert "  groups at this offset: waits" in list(lines(found))


def test_groups_that_may_be_hidden_are_said_to_be() -> None:
    with served() as server:
        Hand(server.bootstrap).begin()
        assert "waiting groups" not in "\n".join(lines(doctor(server)))
        server.cluster.acls = may(*MAY_ALL, "DESCRIBE GROUP other")
        told = list(lines(doctor(server)))
        needs = "the user needs DESCRIBE on all groups to see every group"
        assert f"note: waiting groups aren't all known: {needs}" in told


def test_settings_that_may_not_be_read_leave_the_bugs_open() -> None:
    """Without verification brokers of 3.9 have the bugs of before 3.6."""
    none_known = "nothing that these brokers have"
    with served("3.9") as server:
        server.cluster.acls = may(*MAY_ALL, "DESCRIBE_CONFIGS CLUSTER kafka-cluster")
        assert "DESCRIBE_CONFIGS" not in "\n".join(lines(doctor(server)))
        server.cluster.acls = may(*MAY_ALL)
        told = "\n".join(lines(doctor(server)))
        assert "the user needs DESCRIBE_CONFIGS on the cluster" in told
    part = Partition(Place("orders", 0), 5, 9, (Open(7, 3, 5, 0, 0),))
    given = Evidence("here", 0, "3.9", 0, partitions=[part])
    assert none_known in "\n".join(lines(diagnose(given)))
    given.knows_settings = False
    assert none_known not in "\n".join(lines(diagnose(given)))


def test_groups_are_listed_where_they_may_be_described() -> None:
    with served() as server:
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        consumer.close()
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        assert [one.group_id for one in admin.list_consumer_groups().result(10).valid] == ["g"]
        server.cluster.acls = may("DESCRIBE GROUP other")
        assert admin.list_consumer_groups().result(10).valid == []


def test_the_command_watches_and_writes_metrics_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, looks = tmp_path / "doctor.prom", list[str]()
    with served("3.5") as server:
        app = Hand(server.bootstrap)

        def sleep(seconds: float) -> None:
            if seconds != 7:
                return now(seconds)
            looks.append(metrics.read_text())
            if len(looks) == 2:
                raise KeyboardInterrupt
            return app.hang()

        now = time.sleep
        monkeypatch.setattr("time.sleep", sleep)
        told = epochfence(
            "doctor", "--bootstrap", server.bootstrap, "--watch", "7", "--metrics", metrics
        )
    assert told.code == 130
    assert told.out.count("partitions of") == 2
    count = "partitionswithlatetransactionscount"
    assert [f"{count} {late}" in each for each, late in zip(looks, (0, 1), strict=True)] == [
        True,
        True,
    ]


def test_prometheus_scrapes_the_last_look_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    urls: list[str] = []
    enter, now = Exporter.__enter__, time.sleep

    def entered(exporter: Exporter) -> Exporter:
        urls.append(exporter.url)
        return enter(exporter)

    def sleep(seconds: float) -> None:
        if seconds != 7:
            return now(seconds)
        with urlopen(urls[0], timeout=60) as answer:
            texts.append(answer.read().decode())
        raise KeyboardInterrupt

    monkeypatch.setattr(Exporter, "__enter__", entered)
    monkeypatch.setattr("time.sleep", sleep)
    with served() as server:
        given = ("doctor", "--bootstrap", server.bootstrap, "--metrics-port", "0")
        shown = epochfence(*given, "--watch", "7")
        assert (shown.code, epochfence(*given).code) == (130, 2)
    assert f"metrics: {urls[0]}" in shown.out
    assert "\nepochfence_doctor_verdict 0\n" in texts[0]


def test_who_watches_goes_on_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as server:
        given = ("doctor", "--bootstrap", server.bootstrap)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", stop)
    told = epochfence(*given, "--watch", "7")
    assert told.code == 130
    assert "UNKNOWN (exit 20)" in told.out


def test_what_to_look_at_is_needed() -> None:
    assert epochfence("doctor").code == 2
