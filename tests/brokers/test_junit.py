"""A counterexample as a test in Java: red on a release that has the bug, green on one that hasn't.

Maven brings JUnit and Kafka's client; the broker is a real one, behind the proxy.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.spec.bugs import bug_of
from epochfence.tests.brokers.kafka import Broker, needed

RED = {
    "KAFKA-14402": "a transaction hangs: last stable offsets",
    "KIP-890b": "is read as committed",
    "KIP-890c": "is read as committed",
    "KAFKA-19367": "after 1 decisions",
}
"""What the test of a bug says where it is red."""


def run(bug: str, broker: Broker, folder: Path) -> str:
    """What Maven says of a bug's test on a broker; empty where the test is green."""
    folder.mkdir(exist_ok=True)
    trace, java = folder / "trace.itf.json", folder / "java"
    commands = CliRunner()
    assert commands.invoke(app, ["bugs", bug, "--trace", str(trace)]).exit_code == 0
    made = commands.invoke(app, ["export", "junit", str(trace), "-o", str(java)])
    assert made.exit_code == 0, made.output
    done = subprocess.run(
        (
            needed("mvn", "maven"), "--quiet", "--batch-mode", "--file", java, "test",
            f"-Dkafka.version={broker.version}", f"-Dkafka.bootstrap={broker.bootstrap}",
            f"-Depochfence.command={Path(sys.executable).with_name('epochfence')}",
        ),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.stdout if done.returncode else ""


@pytest.mark.sample(2)
@pytest.mark.parametrize("bug", ["KAFKA-14402", "KIP-890b", "KIP-890c"])
def test_a_counterexample_is_red_where_the_bug_is(bug: str, broker: Broker, tmp_path: Path) -> None:
    said = run(bug, broker, tmp_path)
    # Java's client begins transactions of version 2 where brokers offer them
    is_red = broker.release in bug_of(bug).releases
    assert (RED[bug] in said) == bool(said) == is_red, said


@pytest.mark.releases("4.0.1")
def test_a_bug_that_a_patch_release_mended(broker: Broker, tmp_path: Path) -> None:
    bug = "KAFKA-19367"
    with Broker("4.0.0", tmp_path / "broker") as before:
        assert RED[bug] in run(bug, before, tmp_path / "red")
    assert run(bug, broker, tmp_path / "green") == ""
