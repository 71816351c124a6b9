"""A counterexample as a test in Java: red on a release that has the bug, green on one that hasn't.

Maven brings JUnit and Kafka's client; the broker is a real one, behind the proxy.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.spec.bugs import bug_of
from epochfence.tests.brokers.kafka import Broker, needed

BUG = "KAFKA-14402"


def test_a_counterexample_is_red_where_the_bug_is(broker: Broker, tmp_path: Path) -> None:
    trace, folder = tmp_path / "trace.itf.json", tmp_path / "java"
    run = CliRunner()
    assert run.invoke(app, ["bugs", BUG, "--trace", str(trace)]).exit_code == 0
    made = run.invoke(app, ["export", "junit", str(trace), "-o", str(folder)])
    assert made.exit_code == 0, made.output
    done = subprocess.run(
        (
            needed("mvn", "maven"), "--quiet", "--batch-mode", "--file", folder, "test",
            f"-Dkafka.version={broker.version}", f"-Dkafka.bootstrap={broker.bootstrap}",
            f"-Depochfence.command={Path(sys.executable).with_name('epochfence')}",
        ),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    is_red = broker.release in bug_of(BUG).releases
    assert (done.returncode != 0) == is_red, done.stdout
    assert ("a transaction hangs: last stable offsets" in done.stdout) == is_red, done.stdout
