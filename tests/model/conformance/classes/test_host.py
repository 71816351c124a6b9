"""The limit of a step in the JVM that has Kafka's classes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from epochfence.model.conformance.classes import host
from epochfence.model.conformance.classes.host import IN, OUT

pytestmark = pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")

SOURCES = (
    Path(host.__file__).with_name("java") / "Host.java",
    Path(__file__).with_name("Slow.java"),
)
LIMIT_MS = 1_000
WORK, WAIT = 1, 2


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-d", folder, *SOURCES], check=True)
    return folder


@pytest.fixture
def java(classes: Path) -> Iterator[Popen[bytes]]:
    command = ("java", "-cp", str(classes), "Host", "Slow", str(LIMIT_MS))
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as java:
        yield java
        java.kill()


def begin(java: Popen[bytes], what: int, for_ms: int) -> None:
    assert java.stdin is not None
    assert java.stderr is not None
    numbers = (what, for_ms, *(0,) * (IN - 2))
    row = b"".join(number.to_bytes(8, "big") for number in numbers)
    java.stdin.write((1).to_bytes(4, "big") + row)
    java.stdin.flush()
    assert java.stderr.readline() == b"begins\n"


@pytest.mark.parametrize("what", [WORK, WAIT])
def test_a_step_that_works_or_waits_too_long_ends_the_run(what: int, java: Popen[bytes]) -> None:
    begin(java, what, 600_000)
    assert java.wait() == host.BLOCKED
    assert java.stderr is not None
    assert java.stderr.readline().startswith(b"blocked: a step takes longer than")


def test_the_time_without_a_processor_does_not_count(java: Popen[bytes]) -> None:
    begin(java, WORK, LIMIT_MS // 2)
    java.send_signal(signal.SIGSTOP)
    time.sleep(2 * LIMIT_MS / 1_000)
    java.send_signal(signal.SIGCONT)
    assert java.stdout is not None
    assert len(java.stdout.read(OUT * 8)) == OUT * 8
