"""A counterexample as a test in Java: red on a release that has the bug, green on one that hasn't.

Maven brings JUnit and Kafka's client; the broker is a real one, behind the proxy. Where a step is
inside of a broker, Maven brings Kafka's classes, and no broker is asked for anything.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.conformance.kafka.broker import VERSIONS, Broker, needed
from epochfence.spec.bugs import bug_of
from epochfence.spec.releases.features import NEWEST

RED = {
    "KAFKA-14402": "a transaction hangs: last stable offsets",
    "KIP-890b": "is read as committed",
    "KIP-890c": "is read as committed",
    "KAFKA-19367": "after 1 decisions",
}
"""What the test of a bug says where it is red."""


CLASSES = {
    "KAFKA-9666": (("2.5", "3.6"), "the log has epoch 0, the coordinator 2"),
    "KAFKA-16352": (("3.6", "3.9"), "the transaction is preparecommit for good"),
    "KAFKA-20090": (("4.0.1", "4.3"), "producer1 has the largest epoch"),
    "KAFKA-20310": (("4.0.1", "4.3"), "producer0 was told 1001, 0, and the coordinator has 1000"),
}
"""What the test of a bug on Kafka's classes says at the first of two releases, where it is red; at
the second one it is green, and takes the whole run."""


def run(
    bug: str, broker: Broker, folder: Path, *more: str, client: str | None = None
) -> tuple[bool, str]:
    """Whether a bug's test is green, and what Maven says of it; the `client` is the broker's own
    unless it is another version."""
    folder.mkdir(exist_ok=True)
    trace, java = folder / "trace.itf.json", folder / "java"
    commands = CliRunner()
    assert commands.invoke(app, ["bugs", bug, "--trace", str(trace)]).exit_code == 0
    made = commands.invoke(app, ["export", "junit", str(trace), "-o", str(java), *more])
    assert made.exit_code == 0, made.output
    done = subprocess.run(
        (
            needed("mvn", "maven"), "--quiet", "--batch-mode", "--file", java, "test",
            f"-Dkafka.version={client or broker.version}", f"-Dkafka.bootstrap={broker.bootstrap}",
            f"-Depochfence.command={Path(sys.executable).with_name('epochfence')}",
        ),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode == 0, done.stdout


@pytest.mark.sample(2)
@pytest.mark.parametrize("bug", ["KAFKA-14402", "KIP-890b", "KIP-890c"])
def test_a_counterexample_is_red_where_the_bug_is(bug: str, broker: Broker, tmp_path: Path) -> None:
    is_green, said = run(bug, broker, tmp_path)
    # Java's client begins transactions of version 2 where brokers offer them
    is_red = broker.release in bug_of(bug).releases
    assert (RED[bug] in said) == (not is_green) == is_red, said


@pytest.mark.releases("4.0.1")
def test_a_bug_that_a_patch_release_mended(broker: Broker, tmp_path: Path) -> None:
    bug = "KAFKA-19367"
    with Broker("4.0.0", tmp_path / "broker") as before:
        is_green, said = run(bug, before, tmp_path / "red")
        assert RED[bug] in said
        assert not is_green
    assert run(bug, broker, tmp_path / "green")[0]


@pytest.mark.releases("2.5")
def test_a_bug_of_older_brokers_that_the_newest_client_meets(
    broker: Broker, tmp_path: Path
) -> None:
    bug, client = "redpanda-8cd0bc66", VERSIONS[NEWEST]
    with Broker("2.4", tmp_path / "broker") as before:
        is_green, said = run(bug, before, tmp_path / "red", client=client)
        assert "txn0/0" in said.partition("is read as committed")[0].splitlines()[-1], said
        assert not is_green
    assert run(bug, broker, tmp_path / "green", client=client)[0]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=pytest.mark.releases(*of)) for bug, (of, _) in CLASSES.items()],
)
def test_a_counterexample_on_kafkas_classes(bug: str, broker: Broker, tmp_path: Path) -> None:
    (red, _), says = CLASSES[bug]
    is_green, said = run(bug, broker, tmp_path, "--classes")
    assert (says in said) == (not is_green) == (broker.release == red), said
    assert "the whole run was taken" in said
