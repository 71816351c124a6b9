"""The brokers of the tests: they start, answer, come back after a kill, and end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from epochfence.model.conformance.classes.host import UnavailableError
from epochfence.model.conformance.kafka import broker as kafka
from epochfence.model.conformance.kafka.broker import Broker, bring, folder_of


def test_a_broker_listens_on_loopback_only_and_ends(broker: Broker, tmp_path: Path) -> None:
    with Broker(broker.release, tmp_path / "another") as other:
        assert other.port != broker.port
        other.kill()
        other.start()
        running = [psutil.Process(process.pid) for process in other._running]
        listening = [
            connection.laddr.ip.removeprefix("::ffff:")
            for process in running
            for connection in process.net_connections()
            if connection.status == psutil.CONN_LISTEN
        ]
    assert set(listening) == {"127.0.0.1"}
    assert not any(process.is_running() for process in running)


def test_another_jar_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafka-clients-4.4.0.jar").write_bytes(b"another")
    with pytest.raises(UnavailableError, match=r"of Kafka 4\.4\.0 isn't the one of checksums\.txt"):
        kafka._check("4.4.0", tmp_path)


def test_without_maven_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "user_cache_path", lambda _: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert folder_of("4.4.0").is_relative_to(tmp_path)
    with pytest.raises(
        UnavailableError, match=r"brokers need mvn: install it \(.*apt install maven\)"
    ):
        bring("4.4.0")


def test_another_process_may_bring_the_same_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both_bring(command: Sequence[object], **_: object) -> subprocess.CompletedProcess[str]:
        (option,) = (str(part) for part in command if str(part).startswith("-DoutputDirectory="))
        for folder in (Path(option.partition("=")[2]), folder_of("2.5.1")):
            folder.mkdir(parents=True)
            (folder / "kafka.jar").touch()
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(kafka, "user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr(kafka, "needed", lambda *_: "mvn")
    monkeypatch.setattr(subprocess, "run", both_bring)
    folder = bring("2.5.1", checks=False)
    assert [each.name for each in folder.iterdir()] == ["kafka.jar"]
    assert [*folder.parent.iterdir()] == [folder]
