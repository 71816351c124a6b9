"""Spark itself: its processes die, its stages have names, and messages name missing parts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from epochfence.checker.check import check
from epochfence.checker.spark import session
from epochfence.checker.spark.options import SparkError, SparkOptions, check_master
from epochfence.checker.spark.search import outbox
from epochfence.checker.spark.storage.hadoop import Paths
from epochfence.tests.checker.spark.conftest import found, on_spark
from epochfence.tests.checker.spark.matrix import Case, sampled
from epochfence.tests.checker.spark.search.test_levels import ktx
from epochfence.tests.cli.test_cli import KTX, ROOT, TINY, Ended, alone, epochfence

SMALL = (
    *TINY[:4],
    *TINY[6:],
    "--set",
    "E=1",
    "--hand-over",
    "115",
    "--shards",
    "4",
)  # from level 11 on
MATRIX = Path(__file__).with_name("matrix.py")
COUNTS = {"states": 1_279, "transitions": 5_043, "depth": 21}


# Real sessions ------------------------------------------------------------------------------------

# Of the tests that start processes of their own ("kills"), one is drawn: `make kill` has many.


@pytest.mark.slow
def test_a_real_session_comes_to_the_same(spark: Any, tmp_path: Path) -> None:
    instance = ktx(V=0)
    result = on_spark(instance, tmp_path / "run", hand_over=5)
    assert found(result) == found(check(instance))
    assert result.engine["levels_on_spark"] > 1
    assert {
        f"level {result.depth - 1}: insert",
        f"counterexample, level {result.depth - 2}: look back",
    } <= stages(spark)


@pytest.mark.slow(10)
@pytest.mark.sample(1, of="kills")
def test_what_was_shuffled_for_a_level_is_deleted_after_it(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "epochfence.cli", "check", KTX, *SMALL, "--engine", "spark",
         "--storage", str(tmp_path / "run")],
        cwd=ROOT, stdout=subprocess.DEVNULL,
        env=os.environ | {"SPARK_LOCAL_DIRS": str(tmp_path), outbox.VARIABLE: outbox.OFF},
    )  # fmt: skip
    most = 0
    while run.poll() is None:
        with suppress(FileNotFoundError):
            most = max(most, sum(1 for _ in tmp_path.glob("blockmgr-*/*/shuffle_*.data")))
        time.sleep(0.02)
    assert run.returncode == 0
    assert 4 <= most <= 12  # a level has four, and there are ten


@pytest.mark.slow
@pytest.mark.sample(1, of="engines: a system on Spark")
@pytest.mark.parametrize("case", sampled(), ids=str)
def test_each_system_comes_to_the_same(spark: Any, case: Case) -> None:
    assert case.differs() == []


@pytest.mark.slow(20)
@pytest.mark.sample(1, of="kills")
def test_each_system_comes_to_the_same_on_executors_of_their_own(seed: int) -> None:
    sample = ("--sample", "1", "--seed", str(seed))
    ended = subprocess.run(
        [sys.executable, MATRIX, *sample, "--master", "local-cluster[2,1,1024]"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout.splitlines()[-1:]) == (0, ["the same everywhere"]), ended
    # other warnings are of executors that go at a session's end
    assert not re.search("WARN.*(Broadcasting large|very large size)", ended.stderr)


@pytest.mark.slow
def test_nobody_else_can_talk_to_it(spark: Any) -> None:
    java = psutil.Process(spark.sparkContext._gateway.proc.pid)
    found: set[tuple[str, int]] = set()
    for process in (java, *java.children(recursive=True), psutil.Process()):
        for there in process.net_connections("inet"):
            if there.status == psutil.CONN_LISTEN:
                found.add((there.laddr.ip.removeprefix("::ffff:"), there.laddr.port))
    assert found
    assert {address for address, _ in found} <= {"127.0.0.1", "::1"}
    context = spark.sparkContext
    assert context.uiWebUrl is None
    assert context.getConf().get("spark.authenticate") == "true"
    assert "SPARK_LOCAL_IP" not in os.environ


def test_what_is_asked_of_spark_by_master_and_on_request() -> None:
    for master in ("local", "local[2]", "local[*,4]"):
        assert session.settings(master)["spark.authenticate"] == "true"
    for master in ("spark://a:1", "yarn", "local-cluster[2,1,1024]"):  # theirs to settle
        assert "spark.authenticate" not in session.settings(master)
    assert session.settings("local")["spark.ui.enabled"] == "false"
    assert session.settings("local", ui=True)["spark.ui.enabled"] == "true"
    of_java = "spark.driver.defaultJavaOptions"
    assert of_java not in session.settings("local")
    assert session.settings("local", carrying=True)[of_java] == session.LITTLE_EFFORT


def test_a_driver_listens_where_it_faces_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        port = master.getsockname()[1]
        assert session._own_address(f"spark://127.0.0.1:{port}") == "127.0.0.1"
    assert session._own_address("local-cluster[2,1,1024]") == "127.0.0.1"
    assert session._own_address("yarn") is None
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")
    with session._listening_on("127.0.0.1"):  # who says otherwise is left alone
        assert os.environ["SPARK_LOCAL_IP"] == "192.0.2.1"


def stages(spark: Any) -> set[str]:
    """The names that Spark's UI shows."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup()]
    return {tracker.getStageInfo(stage).name for job in jobs for stage in job.stageIds}


def result_of(ended: Ended, report: Path) -> dict[str, Any]:
    """A run's counts, if it came to its end."""
    assert ended.code == 0, ended.err
    told = json.loads(report.read_text())
    return {name: told[name] for name in COUNTS}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run on two executors, each a process of its own."""
    run = subprocess.Popen(
        [
            sys.executable, "-m", "epochfence.cli", "check", KTX, *SMALL, "--engine", "spark",
            "--master", "local-cluster[2,1,1024]", "--storage", str(tmp_path / "run"),
            "--json", str(tmp_path / "told.json"),
        ],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=(tmp_path / "err").open("wb"),
    )  # fmt: skip
    yield run
    if run.poll() is None:
        run.kill()
    run.wait()


def levels(folder: Path) -> int:
    """Finished levels of a run."""
    for path in sorted(folder.glob("manifest-*.json"), reverse=True):
        try:
            return len(json.loads(path.read_text())["levels"])
        except FileNotFoundError:
            continue
    return 0


def processes(run: subprocess.Popen[bytes], part: str) -> list[psutil.Process]:
    """The run's processes with a part of their command line, as soon as there are any."""
    until = time.monotonic() + 60
    found: list[psutil.Process] = []
    while not found:
        assert time.monotonic() < until
        time.sleep(0.05)
        for process in psutil.Process(run.pid).children(recursive=True):
            with suppress(psutil.Error):  # it may just have ended
                if any(part in word for word in process.cmdline()):
                    found.append(process)
    return found


def wait_for_level(run: subprocess.Popen[bytes], folder: Path, level: int) -> None:
    """Until a level is finished. The next is in flight then."""
    until = time.monotonic() + 500
    while levels(folder) < level:
        assert run.poll() is None, "the run ended too early"
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.sample(1, of="kills")
def test_executors_and_workers_that_are_killed_cost_no_count(
    cluster: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    executor, worker = "CoarseGrainedExecutorBackend", "pyspark.daemon"
    for level, part in ((12, executor), (14, worker), (16, executor)):
        wait_for_level(cluster, tmp_path / "run", level)
        processes(cluster, part)[-1].kill()
    assert cluster.wait(500) == 0, (tmp_path / "err").read_text()[-2000:]
    assert result_of(Ended(0, "", ""), tmp_path / "told.json") == COUNTS


@pytest.mark.slow
@pytest.mark.sample(1, of="kills")
def test_a_driver_that_is_killed_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "epochfence.cli", "check", KTX, *SMALL, "--engine", "spark",
               "--json", str(tmp_path / "told.json")]  # fmt: skip
    run = subprocess.Popen(
        [*command, "--storage", str(folder)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_level(run, folder, 14)
    run.send_signal(signal.SIGKILL)
    run.wait()
    ended = alone("check", KTX, *SMALL, "--engine", "spark", "--resume", folder,
                  "--json", tmp_path / "told.json")  # fmt: skip
    assert result_of(ended, tmp_path / "told.json") == COUNTS
    assert "Spark: 4 shards" in ended.out


# What is missing ----------------------------------------------------------------------------------


def on_engine(*more: str | Path) -> Ended:
    """The benchmark protocol at its smallest on Spark, as a command."""
    return epochfence("check", KTX, *TINY, "--engine", "spark", *more)


def test_without_java_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    ended = on_engine()
    assert ended.code == 2
    assert ended.err == (
        "epochfence: Spark needs Java 17 or newer, and none is in PATH: install one (Debian and "
        "Ubuntu: apt install openjdk-17-jre-headless) or name it in JAVA_HOME\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ('openjdk version "11.0.2"', "is version 11"),
        ('java version "1.8.0_292"', "is version 8"),
        ("nothing", "doesn't print its version"),
    ],
)
def test_a_java_that_is_too_old_is_told(
    says: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ended = on_engine("--storage", tmp_path / "run")
    assert ended.code == 2
    assert f"{java} {told}: install one" in ended.err
    assert not (tmp_path / "run").exists()


def test_a_java_that_cannot_be_run_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java = tmp_path / "bin" / "java"
    with pytest.raises(SparkError, match=f"and {java} isn't a program: install one"):
        session.find_java()
    java.parent.mkdir()
    java.write_bytes(b"")
    java.chmod(0o755)
    with pytest.raises(SparkError, match=f"and {java} can't be run: Exec format error"):
        session.find_java()


def test_a_folder_that_executors_cannot_write_to_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'file'},{tmp_path}")
    ended = on_engine("--storage", tmp_path / "run")
    said = f"epochfence: SPARK_LOCAL_DIRS: can't write to {tmp_path / 'file'}: File exists\n"
    assert (ended.code, ended.err) == (2, said)
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "a" / "new one"))
    session.check_local_folder()


@pytest.mark.parametrize("master", ["spark://a:1,b:2", "local-cluster[2,1,1024]", "local[*, 2]",
                                    "local", "k8s://https://a:1", "yarn"])  # fmt: skip
def test_an_address_of_a_master_is_taken(master: str) -> None:
    check_master(master)


def test_a_master_that_takes_no_application_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: object) -> None:
        raise Exception("Cannot call methods on a stopped SparkContext.\nThis stopped ...")

    monkeypatch.setattr(session, "_listening_on", stopped)
    with socket.create_server(("127.0.0.1", 0)) as other:
        master = f"spark://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(SparkError, match=f"{master}: no master of Spark [0-9.]+ accepts the"):
            session.start(master, "test")


def test_spark_connect_is_refused_in_a_line() -> None:
    with pytest.raises(SparkError, match="this needs a SparkContext, and Spark Connect gives none"):
        check_master("sc://host:15002")
    with pytest.raises(SparkError, match="this needs a SparkContext, and Spark Connect gives none"):
        Paths(object())  # it has no _jvm, as a session of Spark Connect


@pytest.mark.parametrize("shards", [0, 257])
def test_a_number_of_shards_out_of_range_is_told(shards: int) -> None:
    with pytest.raises(SparkError, match=f"{shards} shards: there can be 1 to 256"):
        SparkOptions(shards=shards)


def test_a_master_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody else gets the port meanwhile
        port = free.getsockname()[1]
        ended = on_engine("--master", f"spark://127.0.0.1:{port}", "--storage", tmp_path / "run")
    assert ended.code == 2
    assert f"can't reach the master spark://127.0.0.1:{port}: Connection refused" in ended.err
    assert not (tmp_path / "run").exists()
    with pytest.raises(SparkError, match="write spark://HOST:PORT"):
        session.start("spark://somewhere", "test")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--engine", "spork"), "--engine spork: must be local or spark"),
        (("--shards", "4"), "--shards needs --engine spark"),
        (("--storage", "x"), "--storage needs --engine spark"),
        (("--engine", "spark", "--checkpoint", "x"), "a Spark run is saved in --storage"),
        (
            ("--engine", "spark", "--resume", "x", "--storage", "y"),
            "--resume or --storage, not both",
        ),
        (("--engine", "spark", "--resume", "gone"), "gone holds no run on Spark to resume"),
        (("--engine", "spark", "--storage", "no-such://x"), "can't use no-such://x"),
        (("--engine", "spark", "--storage", ""), "is empty: give it a value"),
        (("--engine", "spark", "--resume", ""), "is empty: give it a value"),
        (("--engine", "spark", "--shards", "0"), "--shards"),
        (("--engine", "spark", "--shards", "257"), "--shards"),
        (("--engine", "spark", "--master", ""), "--master is empty"),
        (("--engine", "spark", "--master", "a:7077"), "--master a:7077: write local[N]"),
        (("--engine", "spark", "--master", "local[x]"), "--master 'local[x]': write local[N]"),
        (("--engine", "spark", "--master", "local[0]"), "--master 'local[0]': write local[N]"),
        (("--engine", "spark", "--master", "local[2"), "--master 'local[2': write local[N]"),
    ],
)
def test_wrong_usage_is_one_line(
    more: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = epochfence("check", KTX, *TINY, *more)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert told in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_task_is_tried_again_on_one_machine_too() -> None:
    assert SparkOptions(threads=3).master_url == "local[3,4]"
    assert SparkOptions(master="local[2]").master_url == "local[2,4]"
    assert SparkOptions(master="local[*]").master_url == "local[*,4]"
    assert SparkOptions(master="local[2,1]").master_url == "local[2,1]"
    assert SparkOptions(master="spark://a:1").master_url == "spark://a:1"
    assert not SparkOptions(master="local-cluster[2,1,1024]").is_local


def test_an_error_of_spark_is_a_line() -> None:
    text = "Job aborted\n  at org.apache\nOSError: [Errno 28] No space left on device\n  at x"
    assert session.reason(Exception(text)) == "OSError: [Errno 28] No space left on device"
    assert session.reason(Exception("first\nsecond")) == "first"
    assert re.fullmatch("ValueError", session.reason(ValueError()))


def test_a_session_whose_java_is_gone_has_ended() -> None:
    class Gone:
        def stop(self) -> None:
            raise ConnectionRefusedError

    session.stop(Gone())


@pytest.mark.parametrize(("error", "is_told"), [(EOFError, False), (ValueError, True)])
def test_a_server_of_sparks_is_quiet_about_a_java_that_is_gone_and_nothing_else(
    error: type[Exception], is_told: bool
) -> None:
    told: list[object] = []
    server = SimpleNamespace(handle_error=lambda *given: told.append(given))
    session._quiet_once_java_is_gone(server)
    try:
        raise error
    except error:
        server.handle_error("request", "address")
    assert bool(told) is is_told
