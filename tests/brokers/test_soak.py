"""Some seconds of `make soak`: real clients on a real broker, disturbed and killed, judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochfence.tests.brokers.kafka import Broker
from epochfence.tests.soak.run import Told, soak

SECONDS = 12


@pytest.mark.sample(1)
def test_some_seconds_of_the_soak_are_explained(broker: Broker, seed: int, tmp_path: Path) -> None:
    told = soak(broker.release, SECONDS, seed, 0.05, tmp_path)
    assert told.wrong == [], told.rows
    assert told.rows["kills"].startswith("the broker 1")
    assert "EXPLAINED" in told.rows["the recorded history"]


def test_what_a_broker_left_out_is_set_apart_by_its_own_log() -> None:
    told = Told(wrong=["LOSS of r in soak-5", "LOSS of s in soak-51", "a client has ended"])
    log = "Couldn't find leader endpoint for partitions Set(soak-4, soak-5) while trying to send"
    told.set_apart(log)
    assert told.wrong == ["LOSS of s in soak-51", "a client has ended"]
    assert list(told.rows) == ["finding 13 of docs/findings.md"]
