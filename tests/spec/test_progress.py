"""What must come to happen in the shipped systems: it does, and what protects it is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Fairness, Row, System, instantiate, set_of, strong_fairness
from epochfence.language.instances.instance import ending_anywhere
from epochfence.spec.client.state import state
from epochfence.spec.client.transactions import requests
from epochfence.spec.client.transactions import transaction_manager as manager
from epochfence.spec.client.transactions.queue import Request, queued
from epochfence.spec.coordinator import entry
from epochfence.spec.coordinator.state_manager import ownership
from epochfence.spec.producer_ids import controller
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alterations import altered, with_rows

SYSTEM = shipped("transactions")
SMALL = {"producers": 1, "partitions": 1, "transactions": 1}
NAMES = [item.name for item in SYSTEM.progress]


def refusing(table: str, row: str, like: str) -> System:
    """The system in which one row of a table answers as another one does, and does no more."""
    found = next(each for each in SYSTEM.tables if each.name == table)

    def changed(line: Row) -> Row:
        if line.id != row:
            return line
        refusal = next(
            each
            for each in found.rows
            if each.id == like and (each.during is line.during or like in HONEST_REFUSALS)
        )
        return replace(refusal, id=line.id, when=line.when, during=line.during)

    return with_rows(SYSTEM, found, tuple(map(changed, found.rows)))


HONEST_REFUSALS = ("stale-epoch", "pending", "prepared")
BUSY = "pending"


@dataclass(frozen=True)
class Fault:
    """A system in which a property doesn't come, and rows that its run repeats for ever; none where
    it may stay in one state."""

    breaks: str
    table: str
    row: str
    like: str
    repeats: tuple[str, ...] = ()


FAULTS = (
    Fault(
        "GetsEpoch",
        "transaction.InitProducerId",
        "increment-epoch",
        BUSY,
        ("increment-epoch", "retry"),
    ),
    Fault("EndIsAnswered", "transaction.EndTxn", "prepare", BUSY, ("prepare", "retry")),
    Fault("NeverStuck", "transaction.EndTxn", "prepare", BUSY, ("prepare", "retry")),
    Fault("ProduceIsAnswered", "transaction.AddPartitionsByLeader", "add", BUSY, ("add",)),
    Fault("PrepareCompletes", "partition.WriteTxnMarkers", "end-transaction", "stale-epoch"),
    Fault("StableOffsetPasses", "partition.WriteTxnMarkers", "end-transaction", "stale-epoch"),
    Fault("CanComeToRest", "partition.WriteTxnMarkers", "no-transaction", "stale-epoch"),
)


@cache
def checked(system: System, *properties: str, protocol: str | None = None) -> Result:
    """The small system with these properties alone; a run may end anywhere."""
    instance = instantiate(system, protocol, SMALL, properties=properties)
    return check(ending_anywhere(instance))


@pytest.mark.slow(1)
def test_every_property_of_progress_holds_in_a_small_system() -> None:
    result = checked(SYSTEM, *NAMES)
    assert result.verdict is Verdict.HOLDS, result.reason
    assert not [item for item in result.vacuous if item.subject in NAMES]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.breaks)
def test_a_property_breaks_without_what_it_needs(fault: Fault) -> None:
    result = checked(refusing(fault.table, fault.row, fault.like), fault.breaks)
    assert result.verdict is Verdict.LEADS_TO_BROKEN
    trace = result.trace
    assert trace is not None
    assert fault.row in [step.row for step in trace.steps]
    if fault.breaks == "CanComeToRest":
        assert trace.loop is None
        return
    assert trace.loop is not None
    again = [step.row for step in trace.steps[trace.loop :]]
    assert set(fault.repeats) <= set(again)
    assert bool(again) is bool(fault.repeats)


def test_every_property_has_a_fault() -> None:
    assert sorted(fault.breaks for fault in FAULTS) == sorted(NAMES)


@pytest.mark.slow(5)
@pytest.mark.long
def test_a_marker_that_is_refused_for_good_is_a_deadlock() -> None:
    """A leader that refuses the honest retry of a marker: the entry stays prepared for ever."""
    system = refusing("partition.WriteTxnMarkers", "no-transaction", "stale-epoch")
    result = check(instantiate(system, constants=SMALL))
    assert result.verdict is Verdict.DEADLOCK
    assert result.trace is not None
    assert "cancel" in [step.row for step in result.trace.steps]
    last = result.trace.data[-1]
    prepared = (entry.PREPARE_COMMIT.data.member, entry.PREPARE_ABORT.data.member)
    assert last["transaction.state"] in prepared
    assert check(instantiate(SYSTEM, constants=SMALL)).verdict is Verdict.HOLDS


@pytest.mark.slow(5)
@pytest.mark.long
def test_before_version_2_a_late_end_of_a_timeout_s_fence_leaves_a_client_stuck() -> None:
    """docs/findings.md, 8, with one client: it repeats the end of its next transaction for ever."""
    constants = {**SMALL, "transactions": 2}
    stuck, free = Verdict.LEADS_TO_BROKEN, Verdict.HOLDS
    for on, verdict in (((), stuck), (("late_fence_end_refused",), free)):
        instance = instantiate(SYSTEM, "3.9", constants, switch_on=on, properties=["NeverStuck"])
        result = check(ending_anywhere(instance))
        assert result.verdict is verdict
        if result.trace is not None:
            again = [step.row for step in result.trace.steps[result.trace.loop :]]
            assert again == ["already-prepared", "retry"]
            assert "abort-later-transaction" in [step.row for step in result.trace.steps]


MENDED = ("late_fence_end_refused", "stale_epoch_abortable", "timeout_bumps_epoch")


@pytest.mark.slow(5)
@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "fixes"), [("0.11.0.0", 3), ("2.0", 2), ("3.9+client=2.0", 2), ("2.7", 1)]
)
def test_before_version_2_a_client_is_fenced_by_itself_for_as_many_reasons(
    release: str, fixes: int
) -> None:
    """docs/progress.md: each of them alone breaks it."""
    for off in (None, *MENDED[:fixes]):
        on = [name for name in MENDED[:fixes] if name != off]
        instance = instantiate(
            SYSTEM,
            release,
            {"producers": 1},
            bounds="small",
            properties=["NotFencedByItself"],
            switch_on=on,
        )
        result = check(ending_anywhere(instance))
        assert result.verdict is (Verdict.BROKEN if off else Verdict.HOLDS)


@pytest.mark.slow(5)
@pytest.mark.long
def test_before_leaders_asked_the_stable_offset_may_stand_still_for_ever() -> None:
    result = checked(SYSTEM, "StableOffsetPasses", protocol="2.7")
    assert result.verdict is Verdict.LEADS_TO_BROKEN
    assert checked(SYSTEM, "StableOffsetPasses", protocol="3.6").verdict is Verdict.HOLDS


@pytest.mark.slow(5)
@pytest.mark.long
def test_an_idempotent_batch_is_sent_again_until_its_time_is_over() -> None:
    """docs/findings.md, 7."""
    mended = ("idempotent_starts_at_0", "bump_when_settled", "renumbered_under_new_id")
    for switch_on in ((), mended):
        instance = instantiate(
            shipped("idempotence"),
            bounds="small",
            properties=["ProduceIsAnswered"],
            switch_on=switch_on,
        )
        trace = check(instance).trace
        assert trace is not None
        assert "out-of-order-behind-another" in [x.row for x in trace.steps[trace.loop :]]


# The small systems ------------------------------------------------------------------------------

_PARTITION = ownership.LeaderAndIsr.state_partition
SMALL_SYSTEMS = {
    "producer-ids": {"block_size": 2, "largest_producer_id": 7, "faults": 0},
    "coordinators": {"leader_epochs": 1},
    "calls": {"oldest_version": 3},
}
CALLS = shipped("calls")
SMALL_FAULTS = {
    "CallEnds": altered(
        shipped("producer-ids"), table="rpc_manager.take the prefetched block",
        row="none-prefetched", when=False,
    ),
    "NextIdPossible": altered(
        shipped("producer-ids"), table="rpc_manager.clear the flag",
        row="clear",
        updates={controller.request_in_flight: controller.request_in_flight},
    ),
    "LoadEnds": altered(
        shipped("coordinators"), table="coordinator.load ends", row="loaded",
        when=False,
    ),
    "LeaderCanAnswer": altered(
        shipped("coordinators"), table="coordinator.LeaderAndIsr", row="elected",
        updates={ownership.loads[_PARTITION]: ownership.loads[_PARTITION]},
    ),
    "ClientCallEnds": altered(
        CALLS, table="producer.FindCoordinator answered", row="found",
        updates={manager.transaction_coordinator: manager.transaction_coordinator},
    ),
    "PartitionsAnswered": altered(
        CALLS, table="producer.AddPartitionsToTxnResponse", row="added",
        updates={queued: queued | set_of(Request.ADD_PARTITIONS_TO_TXN)},
    ),
    "OffsetsAdded": altered(
        CALLS, table="producer.AddOffsetsToTxn answered", row="added",
        updates={queued: queued | set_of(Request.ADD_OFFSETS_TO_TXN)},
    ),
    "OffsetsAnswered": altered(
        CALLS, table="producer.FindCoordinator answered", row="found",
        updates={manager.group_coordinator: manager.group_coordinator},
    ),
    "CloseEnds": altered(
        CALLS, table="producer.abort as it closes", row="begin-abort", when=False
    ),
    "UsableAgain": altered(CALLS, table="producer.EndTxnResponse", row="ended", goto=state),
}  # fmt: skip
HOLDS_AT = {"UsableAgain": "2.3", "ClientCallEnds": "2.4"}
"""The release where the newest one doesn't have the property itself (docs/findings.md)."""
CALL_ENDS = ("failed_send_leaves_end", "commit_may_bump")
"""With these every call ends, at each release (docs/findings.md, 14)."""


@pytest.mark.slow(8)
@pytest.mark.long
@pytest.mark.parametrize("name", SMALL_FAULTS)
def test_a_property_of_the_small_systems_holds_and_breaks_without_what_it_needs(name: str) -> None:
    faulty = SMALL_FAULTS[name]
    constants = SMALL_SYSTEMS[faulty.name]
    for system, verdict in (
        (shipped(faulty.name), Verdict.HOLDS),
        (faulty, Verdict.LEADS_TO_BROKEN),
    ):
        instance = instantiate(system, HOLDS_AT.get(name), constants, properties=[name])
        result = check(ending_anywhere(instance))
        assert result.verdict is verdict, result.reason
        assert name not in [item.subject for item in result.vacuous]


def test_every_property_of_the_small_systems_has_a_fault() -> None:
    declared = {item.name for name in SMALL_SYSTEMS for item in shipped(name).progress}
    assert SMALL_FAULTS.keys() == declared


# A client's calls -------------------------------------------------------------------------------


def calls_at(release: str, name: str, system: System = CALLS, on: tuple[str, ...] = ()) -> Result:
    instance = instantiate(system, release, bounds="small", properties=[name], switch_on=on)
    return check(ending_anywhere(instance))


@pytest.mark.slow(8)
@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "fixes", "ends"),
    [
        ("2.5", (*CALL_ENDS[1:], "calls_in_turn"), ("initTransactions/initialize",
         "EndTxnResponse/ended", "InitProducerIdResponse/invalid-transition")),
        ("3.3", CALL_ENDS, ("send failed/abortable", "answer EndTxn/answer",
         "EndTxnResponse/invalid-transition")),
        ("3.6", CALL_ENDS, ("send failed/abortable", "answer InitProducerId/answer",
         "InitProducerIdResponse/invalid-transition")),
        ("4.3", CALL_ENDS[:1], ("send failed/abortable", "answer InitProducerId/answer",
         "InitProducerIdResponse/invalid-transition")),
    ],
)  # fmt: skip
def test_a_call_waits_for_good_where_its_answer_leads_to_no_state(
    release: str, fixes: tuple[str, ...], ends: tuple[str, ...]
) -> None:
    """docs/findings.md, 14; before 4.0 also by a need for a new epoch that an abort has left."""
    result = calls_at(release, "ClientCallEnds")
    assert result.verdict is Verdict.LEADS_TO_BROKEN
    assert result.trace is not None
    assert [row for row in result.trace.taken if row in ends][-len(ends) :] == [*ends]
    assert calls_at(release, "ClientCallEnds", on=fixes).verdict is Verdict.HOLDS


@pytest.mark.slow(5)
@pytest.mark.long
@pytest.mark.parametrize("release", ["2.5", "3.9", "4.3"])
def test_a_lost_id_while_aborting_leaves_a_client_that_nobody_initializes(release: str) -> None:
    """docs/findings.md: a new epoch is needed that nobody has asked for."""
    result = calls_at(release, "UsableAgain")
    assert result.verdict is Verdict.LEADS_TO_BROKEN
    trace = result.trace
    assert trace is not None
    assert trace.loop is not None
    rows = [step.row for step in trace.steps]
    assert rows[trace.loop - 3 : trace.loop] == ["unknown-id", "nothing-to-end", "acknowledge"]


NEEDED = {
    "ask for partitions": "PartitionsAnswered",
    "send request": "ClientCallEnds",
    "abort as it closes": "CloseEnds",
    "acknowledge call": "CloseEnds",
    "InitProducerIdResponse": "ClientCallEnds",
    "AddPartitionsToTxnResponse": "PartitionsAnswered",
    "EndTxnResponse": "ClientCallEnds",
    "next request": "ClientCallEnds",
    "send request [send to anyone]": "ClientCallEnds",
    "send request [send]": "ClientCallEnds",
    "answer InitProducerId [answer]": "ClientCallEnds",
    "answer AddPartitionsToTxn [refuse, answer]": "PartitionsAnswered",
    "answer EndTxn [refuse, answer]": "ClientCallEnds",
    "FindCoordinator answered [found]": "ClientCallEnds",
    "AddOffsetsToTxn answered": "OffsetsAdded",
    "TxnOffsetCommit for a partition": "OffsetsAnswered",
}
"""Of what runs of `calls` are supposed to be fair to: a property that needs it."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fair", CALLS.fairness, ids=lambda item: item.name)
def test_calls_suppose_nothing_that_no_property_needs(fair: Fairness) -> None:
    needs = fair.name.partition(" fairness of ")[2]
    name = NEEDED.get(needs) or NEEDED[needs.partition(" [")[0]]
    rest = tuple(item for item in CALLS.fairness if item is not fair)
    fixed = CALL_ENDS if name == "ClientCallEnds" else ()
    result = calls_at("4.3", name, replace(CALLS, fairness=rest), fixed)
    assert result.verdict is Verdict.LEADS_TO_BROKEN


@pytest.mark.slow(5)
@pytest.mark.long
def test_a_group_that_is_refused_for_good_keeps_an_abort_from_its_end() -> None:
    """docs/findings.md: while aborting a client ignores it, and asks for the offsets again."""
    found = strong_fairness(requests.found, rows=("found", "abortable"))
    rest = tuple(item for item in CALLS.fairness if item.event is not requests.found)
    result = calls_at("3.3", "ClientCallEnds", replace(CALLS, fairness=rest + found), CALL_ENDS)
    assert result.verdict is Verdict.LEADS_TO_BROKEN
    assert result.trace is not None
    again = [step.row for step in result.trace.steps[result.trace.loop :]]
    assert {"abortable", "coordinator-unknown"} <= set(again)
