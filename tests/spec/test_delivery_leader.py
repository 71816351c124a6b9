"""What delivery's leader reads off a short log about an idempotent producer, against the leader at
real ranges: both append the same batches, know the same ones again, and refuse the same ones."""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

import pytest

from epochfence.model import PartitionLeader
from epochfence.spec.leader.state import asks_coordinator
from epochfence.spec.releases.features import RELEASED
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alone import Alone

SESSIONS, RECORDS, DEPTH = 2, 3, 4
Steps: TypeAlias = tuple[tuple[int, int], ...]  # a session and a record each
OUTCOMES = {  # of a row
    "append-acks-all": {"written"},
    "duplicate": {"duplicate"},
    "out-of-order": {"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"},
}


class Delivery(Alone):
    """The only replica of delivery's partition, elected."""

    machine = "replica"
    system = shipped("delivery")

    def __init__(self, release: str, *, transactional: bool) -> None:
        self.bounds = {
            "replicas": 1, "min_insync_replicas": 1, "acks": -1, "records": RECORDS,
            "sessions": SESSIONS, "extra_entries": DEPTH, "idempotence": 1,
            "transactional_id": int(transactional),
        }  # fmt: skip
        super().__init__(release)
        self.set(state="LEADER", leader_epoch=1, isr=frozenset({0}))


def real(release: str, steps: Steps, *, transactional: bool) -> list[str]:
    """What a leader at real ranges makes of records.

    Where it asks the coordinator first, it has asked about the first record of each session: a
    client sends that one before any other, even if it was refused for want of replicas.
    """
    leader = PartitionLeader(protocol=release)
    guards: dict[int, int | None] = {}
    if transactional and leader.machine.value(asks_coordinator):
        for session in range(SESSIONS):
            who = {"producer_id": session, "producer_epoch": 0}
            asked = leader.maybe_start_transaction_verification(**who, base_sequence=0)
            guards[session] = asked.guard
    outcomes: list[str] = []
    for session, sequence in steps:
        answer = leader.append(
            producer_id=session,
            producer_epoch=0,
            base_sequence=sequence,
            count=1,
            transactional=transactional,
            guard=guards.get(session),
        )
        is_written = answer.error == "NONE" and not answer.is_duplicate
        outcomes.append(
            "written" if is_written else "duplicate" if answer.is_duplicate else answer.error
        )
    return outcomes


def delivered(release: str, steps: Steps, *, transactional: bool) -> list[str]:
    """The rows that delivery's leader takes."""
    alone = Delivery(release, transactional=transactional)
    rows: list[str] = []
    for session, sequence in steps:
        alone.set(producer_id=session, requests=(sequence,), queue=(), taken=False)
        rows.append(alone.does("Produce") or "")
    return rows


@pytest.mark.slow(2)
@pytest.mark.sample(1, of="engines: leaders of delivery")
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("release", RELEASED)
def test_it_decides_as_the_leader_at_real_ranges(release: str, transactional: bool) -> None:
    seen: set[str] = set()
    records = tuple(product(range(SESSIONS), range(RECORDS)))
    for steps in product(records, repeat=DEPTH):
        rows = delivered(release, steps, transactional=transactional)
        outcomes = real(release, steps, transactional=transactional)
        for row, outcome in zip(rows, outcomes, strict=True):
            assert outcome in OUTCOMES[row], (steps, rows, outcomes)
        seen |= {*rows}
    assert seen == {*OUTCOMES}
