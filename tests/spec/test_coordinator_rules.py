"""Rules that hold of the coordinator alone, whatever comes in whatever order, in every release."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epochfence.spec import messages as kafka
from epochfence.spec.releases.api_versions import VERSION_1
from epochfence.spec.releases.features import RELEASED as RELEASES
from epochfence.tests.cases import before, since
from epochfence.tests.spec.coordinators import LARGEST, LAST, Coordinator

Pair = tuple[int, int]  # of producer id and epoch
WITH_VERSION_2 = since("4.0.0")
VALID_PREVIOUS = {
    "EMPTY": {"EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"},
    "ONGOING": {"EMPTY", "ONGOING", "COMPLETE_COMMIT", "COMPLETE_ABORT"},
    "PREPARE_COMMIT": {"ONGOING"},
    "PREPARE_ABORT": {"ONGOING"},
    "COMPLETE_COMMIT": {"PREPARE_COMMIT"},
    "COMPLETE_ABORT": {"PREPARE_ABORT"},
}
EMPTY_ABORT = {"EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT"}
ENDS_A_TRANSITION = (
    "log append",
    "append failure",
    "coordinator failover",
    "coordinator failover after a failed append",
    "continue the fence",
)
GOES_ON = ("log append", "begin completion", "continue the fence", "send marker")
FAULTS = (
    "transaction timeout",
    "append failure",
    "coordinator failover",
    "transactional id expiry",
    "marker overtaken",
    "coordinator failover after a failed append",
)
RESPONSES = (
    kafka.InitProducerIdResponse,
    kafka.EndTxnResponse,
    kafka.AddPartitionsToTxnResponse,
    kafka.AddPartitionsByLeaderResponse,
)


class Run:
    """A coordinator and two clients that ask it, with its answers."""

    def __init__(self, release: str, off: tuple[str, ...], epoch: int) -> None:
        self.version_2 = release in WITH_VERSION_2 and not off
        self.may_hand_out_the_largest = self.version_2 and release in before("4.3")  # KAFKA-20090
        self.one = Coordinator(release, *off, producer_epoch=epoch, logged_epoch=epoch)
        self.held: list[Pair] = [(0, epoch), (0, epoch)]
        self.everything_told: set[Pair] = {(0, epoch)}
        self.expects = [False, False]

    def asks(self, kind: str, client: int, partition: int, off_by: int) -> None:
        """A request of a client, with the epoch that it holds or another one."""
        producer_id, epoch = self.held[client]
        producer_epoch = min(max(epoch - off_by, -1), LARGEST)
        pair: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": producer_epoch}
        if kind == "init":
            self.expects[client] = False
            self.one.arrives(kafka.InitProducerId, client, expected_epoch=-1)
            self.takes("InitProducerId")
        elif kind == "bump":
            self.expects[client] = producer_epoch >= 0
            self.one.arrives(
                kafka.InitProducerId, client, expected_id=producer_id, expected_epoch=producer_epoch
            )
            self.takes("InitProducerId")
        elif kind == "add" and self.version_2:
            self.one.arrives(kafka.AddPartitionsByLeader, partition, client, **pair)
            self.takes("AddPartitionsByLeader")
        elif kind == "add":
            self.one.arrives(kafka.AddPartitionsToTxn, client, partition, **pair)
            self.takes("AddPartitionsToTxn")
        else:
            self.one.arrives(kafka.EndTxn, client, result=kind, **pair)
            self.takes("EndTxn")

    def happens(self, *events: str, last: bool = False) -> bool:
        """Takes one of these events if it can, the first or the last way in which it can."""
        steps = [(event, step) for event, _, step in self.one.steps() if event in events]
        if not steps:
            return False
        event, step = steps[-1 if last else 0]
        before = dict(self.one.state)
        self.one.take(step)
        self.check(before, event)
        return True

    def settles(self) -> None:
        """Goes on until nothing is in flight, leaders' answers included."""
        while self.happens(*GOES_ON) or self.leaders_answer():
            pass

    def leaders_answer(self) -> bool:
        """Leaders write the markers that are on their way; whether there are any."""
        markers = [(p, self.one.sent(kafka.WriteTxnMarkers, p)) for p in (0, 1)]
        for partition, marker in markers:
            if marker is not None:
                self.one.arrives(
                    kafka.WriteTxnMarkersResponse,
                    partition,
                    error="NONE",
                    connection=marker["connection"],
                )
                self.takes("WriteTxnMarkersResponse")
        return any(marker is not None for _, marker in markers)

    def takes(self, event: str) -> None:
        """The coordinator takes what came in."""
        (step,) = (step for _, _, step in self.one.steps(event))
        before = dict(self.one.state)
        self.one.take(step)
        self.check(before, event)

    def check(self, before: dict[str, Any], event: str) -> None:
        """The rules, over one step."""
        one = self.one
        old = {name: before[f"transaction.{name}"] for name in ("state", "pending")}
        unsettled = before["transaction.unsettled"]
        expires = old["pending"] == "DEAD" or (unsettled is not None and unsettled[0] == "DEAD")
        # I1: what is in flight ends in its own ways; only a fence makes way for another
        if old["pending"] not in (None, one["pending"]):
            by_the_fence = (old["pending"], one["pending"]) == (
                "PREPARE_EPOCH_FENCE",
                "PREPARE_ABORT",
            )
            completed = one["state"].replace("PREPARE", "COMPLETE") if "failover" in event else None
            assert by_the_fence or (
                event in ENDS_A_TRANSITION and one["pending"] in (None, completed)
            )
        # I2: the states that are pending only, and the order of states
        if one["state"] != old["state"]:
            forgotten = expires and one["state"] == "EMPTY"
            allowed = set(VALID_PREVIOUS[one["state"]])
            if self.version_2 and one["state"] == "PREPARE_ABORT":
                allowed |= EMPTY_ABORT
            assert forgotten or old["state"] in allowed
        assert one["pending"] != one["state"] or one["state"] in ("EMPTY", "ONGOING")
        # I3: epochs in the log go up; a new producer id begins at 0
        id_before, epoch_before = (
            before["transaction.producer_id"],
            before["transaction.logged_epoch"],
        )
        if one["producer_id"] == id_before:
            assert one["logged_epoch"] >= epoch_before
        else:
            assert one["producer_id"] > id_before
            assert one["producer_epoch"] == one["logged_epoch"]
            assert one["logged_epoch"] in ((-1, 0) if expires else (0,))
        self.note_answers()

    def note_answers(self) -> None:
        """I4 and I5: no answer has the largest epoch, and a new producer's pair is its own."""
        for client in (0, 1):
            for message in RESPONSES[:2]:
                answer = self.one.sent(message, client)
                if answer is None or answer["error"] != "NONE" or answer["producer_epoch"] == -1:
                    continue
                pair: Any = (answer["producer_id"], answer["producer_epoch"])
                assert self.may_hand_out_the_largest or pair[1] < LARGEST
                if message is kafka.InitProducerIdResponse and not self.expects[client]:
                    assert pair not in self.everything_told
                self.everything_told.add(pair)
                self.held[client] = pair
        for message in RESPONSES[2:]:
            for key, other in ((0, 0), (0, 1), (1, 0), (1, 1)):
                self.one.sent(message, key, other)


requests = st.tuples(
    st.sampled_from(["init", "bump", "add", "add", "COMMIT", "ABORT"]),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([0, 0, 0, 1, -1]),
)
happenings = st.one_of(
    requests,
    st.just("settles"),
    st.tuples(st.sampled_from(GOES_ON + FAULTS), st.booleans()),
)
Happening = str | tuple[str, bool] | tuple[str, int, int, int]
APPENDED: Happening = ("log append", False)
TIMED_OUT: list[Happening] = [
    ("add", 0, 0, 0),
    "settles",
    ("transaction timeout", False),
    "settles",
]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "off"),
    [(release, ()) for release in RELEASES] + [(release, VERSION_1) for release in WITH_VERSION_2],
    ids=str,
)
@settings(max_examples=12)
@given(st.sampled_from([-1, 3, LAST - 1, LAST]), st.lists(happenings, max_size=25))
@example(LAST, [*TIMED_OUT, ("ABORT", 0, 0, 0), "settles"])
@example(
    3, [("add", 0, 0, 0), "settles", ("COMMIT", 0, 0, 0), ("coordinator failover", True), "settles"]
)
@example(
    3, [("add", 0, 0, 0), "settles", ("COMMIT", 0, 0, 0), APPENDED, ("init", 1, 0, 0), "settles"]
)
def test_rules(release: str, off: tuple[str, ...], epoch: int, happenings: list[Happening]) -> None:
    run = Run(release, off, epoch)
    for what in happenings:
        match what:
            case (kind, client, partition, off_by):
                run.asks(kind, client, partition, off_by)
            case (event, last):
                run.happens(event, last=last)
            case _:
                run.settles()
