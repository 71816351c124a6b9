"""Some seconds of `make soak`: real clients on a real broker, disturbed and killed, judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochfence.model.conformance.kafka.broker import Broker
from epochfence.tests.soak.run import Stuck, Told, soak

SECONDS = 12


@pytest.mark.sample(1)
def test_some_seconds_of_the_soak_are_explained(broker: Broker, seed: int, tmp_path: Path) -> None:
    told = soak(broker.release, SECONDS, seed, 0.05, tmp_path)
    assert told.wrong == [], told.rows
    assert told.rows["kills"].startswith("the broker 1")
    assert "EXPLAINED" in told.rows["the recorded history"]


def test_what_a_broker_left_out_is_set_apart_by_its_own_log() -> None:
    """And only what is behind the transaction whose marker it is."""
    wrong = [f"LOSS of {record} in soak-{at}" for record, at in (("r", 5), ("s", 51), ("t", 5))]
    wrong += [f"soak-5: producer 7's transaction from offset {at} has no end" for at in (79, 78)]
    wrong += ["ABORT is completed, and soak-4 has no such marker", "a transaction hangs in soak-5"]
    wrong += ["a transaction hangs in soak-6", "a client ended"]
    missing = {text: frozenset(text.split(" ")[2]) for text in wrong[:3]}
    told = Told(wrong=wrong, missing=missing)
    log = "Couldn't find leader endpoint for partitions Set(soak-4, soak-5) while trying to send"
    stuck = {f"soak-{at}": Stuck(79, frozenset(("q", "r"))) for at in (5, 6, 51)}
    told.set_apart(log, stuck)
    assert told.wrong == [wrong[1], wrong[2], wrong[4], *wrong[7:]]
    assert told.apart == [wrong[0], wrong[3], *wrong[5:7]]
    assert list(told.rows) == ["finding 13 of docs/findings.md"]


def test_a_marker_that_ends_two_transactions_is_set_apart() -> None:
    """Only where the files lack the first one's marker, of that decision and transactional id."""
    lacks = (
        "x.log, byte 9: Java-2: {} of producer 7, epoch 3, is completed, and soak-{} has no such"
    )
    lacks += " marker (decided at noon)"
    wrong = [
        "ABORTED_READ of Java-1/85/0 in soak-4",
        "ABORTED_READ of librdkafka-1/3/0 in soak-4",
        "LOSS of Java-1/85/0 in soak-4",
        "LOSS of Java-1/86/1 in soak-5",
        lacks.format("ABORT", 4),
        lacks.format("COMMIT", 5),
    ]
    told = Told(wrong=list(wrong), missing={each: frozenset("r") for each in wrong[:4]})
    log = "Couldn't find leader endpoint for partitions Set(soak-4, soak-5) while trying to send"
    told.set_apart(log, {})
    assert told.apart == [wrong[0], *wrong[3:]]
    assert told.wrong == wrong[1:3]
