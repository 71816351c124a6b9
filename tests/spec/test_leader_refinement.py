"""What a bounded leader abstracts, against the leader at real ranges: its log is a short sequence,
without markers that end nothing, where the other has offsets; and a question counts or doesn't,
where the other has guards.

From an empty log on, every event of a small leader is taken on both, to a depth; a bounded offset
stands for that of the entry at its place. Answers, entries, where the log starts and ends and what
is stable are compared after each.
"""

from __future__ import annotations

from bisect import bisect_left
from copy import copy
from itertools import product
from typing import Any

import pytest

from epochfence.checker.refinement import refine
from epochfence.language.instances.reductions import (
    Before,
    Canonical,
    LeftOut,
    Never,
    NotOffered,
    Reduction,
    StandsFor,
)
from epochfence.model import PartitionLeader
from epochfence.spec.answers import compares_offsets
from epochfence.spec.client.state import last_acked_offset, q
from epochfence.spec.leader import recovery
from epochfence.spec.leader import state as leader_state
from epochfence.spec.leader.state import asks_coordinator, orphaned
from epochfence.spec.messages import (
    NO_OFFSET,
    AddPartitionsByLeaderResponse,
    Errors,
    Produce,
    ProduceResponse,
    partition,
)
from epochfence.spec.releases.features import RELEASED
from epochfence.spec.systems import shipped
from epochfence.spec.systems.reductions.leader import (
    ERRORS,
    LOG,
    MARKERS,
    PRODUCE,
    VERIFICATION,
    VERIFIED,
)
from epochfence.tests.spec.leaders import Leader, leader
from epochfence.tests.spec.restricted import restricted, taken

DEPTH = 3
DAY = 86_400_000
EVENTS: list[tuple[Any, ...]] = [
    *(("produce", epoch, sequence, txn) for epoch, sequence, txn in product((0, 1), repeat=3)),
    *(("marker", epoch, coordinator) for epoch, coordinator in product((0, 1), repeat=2)),
    ("delete",),
    ("expire",),
]


class Pair:
    """A leader of either kind, and the real offset of each entry of the bounded log."""

    def __init__(self, release: str) -> None:
        self.bounded: Leader = leader(release)
        self.real = PartitionLeader(protocol=release)
        self.offsets: list[int] = []

    def copy(self) -> Pair:
        """Another pair in the same state."""
        made = copy(self)
        made.bounded = copy(self.bounded)
        made.bounded.state = dict(self.bounded.state)
        made.real, made.offsets = self.real.copy(), list(self.offsets)
        return made

    def take(self, event: tuple[Any, ...]) -> tuple[object, object]:
        """The event on both, and what each answers."""
        answers = getattr(self, event[0])(*event[1:])
        self.real.move_high_watermark(self.real.log_end_offset)
        return answers

    def produce(self, epoch: int, sequence: int, txn: int) -> tuple[object, object]:
        before = self.real.log_end_offset
        if txn:
            found = self.bounded.verified(epoch, sequence)
        else:
            found = self.bounded.produce(epoch, sequence, idempotent_only=True)
        batch: dict[str, Any] = {"producer_id": 0, "producer_epoch": epoch}
        batch["base_sequence"] = sequence
        guard = None
        if txn and self.real.machine.value(asks_coordinator):
            asked = self.real.maybe_start_transaction_verification(**batch)
            if asked.error != "NONE":
                return found, asked.error
            guard = asked.guard
        answer = self.real.append(**batch, count=1, transactional=bool(txn), guard=guard)
        if answer.error != "NONE":
            return found, answer.error
        if not answer.is_duplicate:
            self.offsets.append(before)
        return found, "duplicate" if answer.is_duplicate else "written"

    def marker(self, epoch: int, coordinator_epoch: int) -> tuple[object, object]:
        before = self.real.log_end_offset
        length = len(self.bounded.log)
        found = self.bounded.marker(epoch, coordinator_epoch=coordinator_epoch)
        answer = self.real.append_marker(
            producer_id=0, producer_epoch=epoch, result="ABORT", coordinator_epoch=coordinator_epoch
        )
        if len(self.bounded.log) > length:
            self.offsets.append(before)
        if answer.error != "NONE":
            return found, answer.error
        ended = answer.completed_txn is not None and answer.completed_txn.first_offset < before
        return found, "ended" if ended or len(self.bounded.log) > length else "nothing"

    def delete(self) -> tuple[object, object]:
        end = len(self.bounded.log)
        found = self.bounded.does(recovery.delete_records, offset=end) is not None
        if found:
            self.real.delete_records(self.offsets[-1] + 1)
        return found, found

    def expire(self) -> tuple[object, object]:
        self.bounded.does(recovery.expire_producer, producer_id=0)
        self.bounded.does(recovery.expire_question, producer_id=0)
        self.real.now_ms += DAY
        self.real.remove_expired_producers()
        return None, None

    def place(self, offset: int) -> int:
        """The place in the bounded log that a real offset comes to."""
        return bisect_left(self.offsets, offset)

    def seen(self) -> tuple[object, object]:
        """What is compared of each."""
        one, entry = self.bounded, self.real.machine.at("producers", 0)
        opened = entry.current_txn_first_offset
        batches = tuple((b.last_sequence, self.place(b.last_offset)) for b in entry.batch_metadata)
        asked = self.real.machine.at("verification_states", 0)
        start = self.place(self.real.log_start_offset)
        real = (
            (
                entry.producer_epoch,
                batches,
                max(entry.coordinator_epoch, 0),
                None if opened is None else self.place(opened),
            ),
            asked and (asked.epoch, asked.lowest_sequence),
            len(self.offsets),
            start,
            self.place(self.real.last_stable_offset),
        )
        bounded = (
            one.entry(),
            one.field("verification_states")[0],
            len(one.log),
            one.field("log_start_offset"),
            one.stable(),
        )
        return bounded, real


@pytest.mark.slow
@pytest.mark.sample(1, of="engines: leaders")
@pytest.mark.parametrize("release", RELEASED)
def test_both_leaders_do_the_same_with_every_event(release: str) -> None:
    waiting, known = [Pair(release)], set[object]()
    for _ in range(DEPTH):
        following: list[Pair] = []
        for pair in waiting:
            for event in EVENTS:
                after = pair.copy()
                found, expected = after.take(event)
                assert found == expected, event
                bounded, real = after.seen()
                assert bounded == real, event
                if bounded not in known:
                    known.add(bounded)
                    following.append(after)
        waiting = following
    assert len(known) > 50


def test_a_leader_that_takes_what_it_should_not_is_told_apart() -> None:
    pair = Pair("4.3")
    pair.real = PartitionLeader(protocol="4.3", verification=False)
    found, expected = pair.take(("produce", 1, 0, 1))
    assert found == expected
    assert pair.seen()[0] == pair.seen()[1]
    pair.real.machine.put(log_start_offset=1)
    assert pair.seen()[0] != pair.seen()[1]
    assert pair.take(("produce", 0, 0, 1)) == ("INVALID_PRODUCER_EPOCH",) * 2
    pair.real.producer_state_manager.truncate_fully_and_start_at(0)
    found, expected = pair.take(("produce", 0, 0, 1))
    assert found != expected


FROM_CLIENT = next(
    one for one in PRODUCE if isinstance(one, StandsFor) and one.of is Produce.from_client
)
OF_MESSAGES = [one for one in (*ERRORS, *PRODUCE, *MARKERS) if isinstance(one, LeftOut | Canonical)]
ONE_BY_ONE = [
    LOG[0],
    *(one for one in (*PRODUCE, *MARKERS) if isinstance(one, StandsFor) and one is not FROM_CLIENT),
    next(
        one
        for one in VERIFICATION
        if isinstance(one, StandsFor) and one.of is leader_state.verification_enabled
    ),
]
(MARKER_KEPT,) = (one for one in MARKERS if isinstance(one, Before))
AS_A_WHOLE = (
    FROM_CLIENT,
    *LOG[1:],
    MARKER_KEPT,
    *(one for one in VERIFICATION if one not in ONE_BY_ONE),
)
"""Whoever drives the leader at real ranges gives these values, which no machine of a system has:
`Pair` does. It has real offsets, with which markers are compared that end nothing in a bounded
log."""
CHECKED = (*OF_MESSAGES, *ONE_BY_ONE, *VERIFIED)
LAST_ACKED = Canonical(
    last_acked_offset[q],
    NO_OFFSET,
    when=~compares_offsets,
    because="A client keeps the largest offset of an answer, and reads it before KIP-360 alone.",
)
SMALL = {
    "idempotence": {"partitions": 1, "records": 2, "faults": 1},
    "transactions": {
        "partitions": 1, "records": 1, "producers": 1, "transactions": 1, "faults": 0,
    },
}  # fmt: skip


@pytest.mark.parametrize("release", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize("name", SMALL)
def test_messages_that_are_left_out_have_no_effect(name: str, release: str) -> None:
    """Both systems take the same steps in both directions, but for those that only drop an answer.
    The offset that a client keeps of an answer is compared where the client reads it."""
    system = restricted(shipped(name), LAST_ACKED)
    checked = [LAST_ACKED, *(one for one in OF_MESSAGES if one in system.reductions)]
    assert len(checked) == (6 if name == "idempotence" else 7)
    for reduction in checked:
        found = refine(system, reduction, protocol=release, constants=SMALL[name])
        assert found.mismatch is None, f"{reduction.because}: {found.mismatch}"
        assert found.exhaustive
        assert found.taken or not found.untaken, f"{reduction.because}: {found.untaken}"


WITH_LEADERS = SMALL["transactions"] | {
    "faults": 1, "losses": 0, "crashes": 0, "timeouts": 0, "expiries": 0, "failovers": 0,
    "append_failures": 0, "id_expiries": 0, "delays": 0, "leader_changes": 1, "deletions": 1,
}  # fmt: skip


@pytest.mark.slow(3)
@pytest.mark.sample(3, of="engines: reductions of the leader")
@pytest.mark.parametrize("release", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize("reduction", ONE_BY_ONE, ids=lambda one: str(getattr(one, "of", "row")))
def test_a_leader_of_a_system_takes_the_steps_of_the_whole_one(
    reduction: Reduction, release: str
) -> None:
    """In both directions, with all states of the bounds. A marker that ends nothing takes an offset
    in Kafka alone, up to which records may be deleted."""
    constants = WITH_LEADERS | {"deletions": int(reduction is not LOG[0])}
    found = refine(shipped("transactions"), reduction, protocol=release, constants=constants)
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.taken


@pytest.mark.slow
@pytest.mark.parametrize("release", ["3.6", "3.7"])
def test_the_coordinator_of_a_system_is_of_the_leaders_release(release: str) -> None:
    """It never has an error that only another release has."""
    never = VERIFIED[1]
    assert isinstance(never, Never)
    found = taken(shipped("transactions"), never, protocol=release, bounds="small")
    assert found == dict.fromkeys(never.labels, 0)


@pytest.mark.parametrize("release", ["3.6", "4.4"])
def test_only_answers_to_an_earlier_leader_are_ignored(release: str) -> None:
    """Where these are lost, both systems take the same steps."""
    lost = NotOffered(
        partition,
        AddPartitionsByLeaderResponse,
        when=AddPartitionsByLeaderResponse.producer.is_in(orphaned),
        because="The answer is lost with the connection of the leader that asked.",
    )
    system = restricted(shipped("transactions"), lost)
    found = refine(system, VERIFIED[0], protocol=release, constants=WITH_LEADERS)
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.untaken == {"partition.AddPartitionsByLeaderResponse/earlier-leader"}


def test_a_message_that_has_an_effect_is_found() -> None:
    """A client waits for the answer that refuses its batch."""
    refused = LeftOut(
        ProduceResponse, when=ProduceResponse.error != Errors.NONE, because="It is refused."
    )
    system = shipped("idempotence")
    own = [one for one in system.reductions if getattr(one, "of", None) is ProduceResponse]
    wrong = restricted(system, refused, without=own)
    found = refine(wrong, refused, protocol="4.4", constants=SMALL["idempotence"])
    assert found.mismatch is not None
    assert found.mismatch.is_of_whole
    assert found.mismatch.step.startswith("producer.ProduceResponse/")
