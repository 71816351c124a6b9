"""The open questions of docs/bugs.md: each is answered by a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Instance, System, all_of, instantiate, invariant
from epochfence.language.expressions import children_first
from epochfence.language.instances.instance import ending_anywhere
from epochfence.model.engine.interpreter import FullState, Interpreter, Step
from epochfence.spec.bugs.bug import idempotence, transactions
from epochfence.spec.leader.isolation import DATA, log_entry
from epochfence.spec.messages import LARGEST_EPOCH, PARTITION
from epochfence.spec.releases.api_versions import VERSION_1
from epochfence.spec.systems import shipped
from epochfence.spec.systems.coverage.declared_rows import declared_tables

SYSTEM = shipped("transactions")
LAST = ", the last"


def run(
    properties: Iterable[str],
    constants: dict[str, int],
    release: str = "4.3",
    system: System = SYSTEM,
    **switched: Any,
) -> Result:
    instance = instantiate(system, release, constants, properties=properties, **switched)
    return check(ending_anywhere(instance), Options(brief=True))


def assert_breaks(result: Result, steps: int, last: str) -> None:
    assert result.trace is not None, result.reason
    assert [item.trace_length for item in result.properties if item.trace_length] == [steps]
    assert result.trace.taken[-1] == last


def played(instance: Instance, script: Iterable[str]) -> FullState:
    """The state after these steps, each a row, with its client before it where that matters. A line
    with LAST takes the last of several messages."""
    machine = Interpreter(instance)
    (state,) = machine.initial_states()
    for line in script:
        who, _, row = line.removesuffix(LAST).rpartition(": ")
        found = [
            step.state
            for step in machine.steps(state)
            if instance.row_names[step.row].partition(".")[2] == row
            and (not who or int(who.removeprefix("client")) in _own(step))
        ]
        assert found, f"{line} can't be taken"
        state = found[-1 if line.endswith(LAST) else 0]
        assert state is not None
    return state


def _own(step: Step) -> list[Any]:
    return [value for bound, value in step.bound if bound is step.action.this]


def play(instance: Instance, script: Iterable[str]) -> dict[str, Any]:
    """The same by variable."""
    return Interpreter(instance).as_mapping(played(instance, script))


# 1 ----------------------------------------------------------------------------------------------

START = (
    "client0: initTransactions/initialize",
    "InitProducerId/increment-epoch",
    "log append/initialized",
    "client0: InitProducerIdResponse/ready",
)
WRITES = (
    "client0: beginTransaction/begin",
    "client0: drain/next-sequence",
    "Produce/verify",
    "AddPartitionsByLeader/add",
    "log append/partitions-added",
    "AddPartitionsByLeaderResponse/append",
    "client0: ProduceResponse/acknowledged",
)
FENCED = (
    "InitProducerId/fence",
    "continue the fence/abort-and-bump",
    "log append/abort-prepared",
    "client0: abortTransaction/abort",
    "begin completion/send-markers",
    "client1: InitProducerIdResponse/retry",
    "send marker/send",
    "WriteTxnMarkers/end-transaction",
    "WriteTxnMarkersResponse/written",
    "log append/abort-completed",
    "EndTxn/already-complete",
    "client0: EndTxnResponse/ended-new-epoch",
)


def test_a_client_that_keeps_aborting_in_time_starves_the_one_that_fences_it() -> None:
    """Question 1: its abort is taken for a retry, and answered with the epoch of the fence."""
    bounds = transactions(producers=2, transactions=3, largest_epoch=9)
    instance = instantiate(SYSTEM, "4.3", bounds)
    again = "client1: initTransactions/initialize"
    after = play(instance, (*START, *WRITES, again, *FENCED, *WRITES, *FENCED, *WRITES))
    assert after["producer.state"] == ("IN_TRANSACTION", "INITIALIZING")
    assert after["transaction.producer_epoch"] == 2


def test_before_version_2_the_same_client_is_fenced_at_once() -> None:
    """Question 1: its abort names an epoch that is no longer the current one."""
    bounds = transactions(producers=2, transactions=2, largest_epoch=9)
    instance = instantiate(SYSTEM, "4.3", bounds, switch_off=VERSION_1)
    added = (
        "client0: beginTransaction/begin",
        "client0: send/to-be-added",
        "AddPartitionsToTxn/add",
        "log append/partitions-added",
        "client0: AddPartitionsToTxnResponse/added",
        "client1: initTransactions/initialize",
        "InitProducerId/fence",
        "continue the fence/abort-with-fence-epoch",
        "log append/abort-prepared",
        "client0: abortTransaction/abort",
        "EndTxn/other-epoch",
        "client0: EndTxnResponse/fenced",
    )
    assert play(instance, (*START, *added))["producer.state"][0] == "FATAL_ERROR"


# 2 ----------------------------------------------------------------------------------------------


@pytest.mark.slow(1)
def test_a_strict_marker_rule_still_takes_every_honest_retry() -> None:
    """Question 2: with changes of leaders, forgotten producers, failovers, losses and delays."""
    bounds = transactions(
        transactions=2, faults=2, delays=1, losses=1, failovers=1, leader_changes=1,
        producer_expiries=1,
    )  # fmt: skip
    result = run(["MarkersMatchDecision", "PrepareCompletes"], bounds)
    assert result.verdict is Verdict.HOLDS
    assert result.states > 40_000


# 3 ----------------------------------------------------------------------------------------------

p = PARTITION.variable("p")
entry = log_entry("entry", p)
NOTHING_AT_THE_LAST = invariant(
    "NothingAtTheLargestEpoch",
    all_of(p, all_of(entry, (entry.kind == DATA).implies(entry.producer_epoch < LARGEST_EPOCH))),
    "No record is written with the largest epoch.",
)
WITH_IT = replace(SYSTEM, properties=(*SYSTEM.properties, NOTHING_AT_THE_LAST))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "off", "steps"),
    [
        ("4.3", (), 0),
        ("4.2", (), 30),
        ("4.3", "rotation_on_fence", 30),
        ("4.3", "rotation_in_log", 30),
    ],
)
def test_no_record_has_the_largest_epoch_once_fences_rotate_and_the_log_says_so(
    release: str, off: str, steps: int
) -> None:
    """Question 3: what a leader exempts the largest epoch for was left there by 4.0 to 4.2."""
    bounds = transactions(
        producers=2, transactions=2, largest_epoch=2, producer_ids=2, faults=1, failovers=1,
        timeouts=1,
    )  # fmt: skip
    result = run(
        [NOTHING_AT_THE_LAST.name], bounds, release, WITH_IT, switch_off=[off] if off else ()
    )
    if steps:
        assert_breaks(result, steps, "AddPartitionsByLeaderResponse/append")
    else:
        assert result.verdict is Verdict.HOLDS


# 4 ----------------------------------------------------------------------------------------------


@pytest.mark.slow(5)
@pytest.mark.long
def test_a_bump_across_a_failover_needs_the_epoch_before_in_the_log() -> None:
    """Question 4: with version 2 nobody asks for a bump; the last epoch can't be asked for again
    in any case."""
    bounds = transactions(faults=2, expiries=1, failovers=1)
    name = ["NotFencedByItself"]
    broken = run(name, bounds, switch_off=VERSION_1)
    assert_breaks(broken, 25, "InitProducerIdResponse/fenced")
    logged = {"switch_on": ["last_epoch_in_log"], "switch_off": VERSION_1}
    assert run(name, bounds, **logged).verdict is Verdict.HOLDS
    at_the_last = transactions(faults=2, expiries=1, losses=1, largest_epoch=2)
    assert_breaks(run(name, at_the_last, **logged), 25, "InitProducerIdResponse/unexpected")
    version_2 = transactions(
        transactions=2, faults=2, expiries=1, failovers=1, losses=1, largest_epoch=2, producer_ids=2
    )
    assert run(["AnswerStands", "BumpedOnce"], version_2).verdict is Verdict.HOLDS
    assert run(name, bounds).verdict is Verdict.HOLDS


# 5 ----------------------------------------------------------------------------------------------


@pytest.mark.slow(5)
@pytest.mark.long
def test_a_local_bump_is_safe_once_no_batch_in_flight_has_an_unknown_outcome() -> None:
    """Question 5: with two more rules of docs/findings.md, without which other bugs show."""
    bounds = idempotence(losses=1, refusals=1, leader_changes=1, expiries=1, faults=3, records=3)
    rules = ["idempotent_starts_at_0", "renumbered_under_new_id"]
    idempotent = shipped("idempotence")
    unsettled = run(["NoDuplicate"], bounds, system=idempotent, switch_on=rules)
    assert_breaks(unsettled, 9, "Produce/append")
    settled = run(
        ["NoDuplicate", "Order"], bounds, system=idempotent, switch_on=[*rules, "bump_when_settled"]
    )
    assert settled.verdict is Verdict.HOLDS


# 7 ----------------------------------------------------------------------------------------------


@pytest.mark.slow(5)
@pytest.mark.long
def test_with_verification_it_takes_a_new_epoch_after_the_abort() -> None:
    """Question 7: a client that keeps its epoch has its late record adopted."""
    late = transactions(transactions=2, faults=1, expiries=1)
    for release in ("3.6", "3.9"):
        assert run(["OutcomeAsReported"], late, release).verdict is Verdict.HOLDS
        kept = run(["OutcomeAsReported"], late, release, switch_off=["client_epoch_bump"])
        assert_breaks(kept, 34, "WriteTxnMarkers/end-transaction")
        more = transactions(transactions=2, faults=2, expiries=1, losses=1)
        assert run(["OutcomeAsReported"], more, release).verdict is Verdict.HOLDS
    unverified = run(["OutcomeAsReported"], late, "3.5")
    assert_breaks(unverified, 35, "WriteTxnMarkers/end-transaction")


# 8 ----------------------------------------------------------------------------------------------

LAST_EPOCH = ("last_producer_epoch", "pending_last_epoch")


def test_the_epoch_before_is_asked_by_one_row_alone_which_grants_a_retry() -> None:
    """Question 8: without it, as after a failover, less is granted and never more."""
    asking: set[str] = set()
    for table in declared_tables():
        for row in table.rows:
            nodes = [*children_first(table.guard), *children_first(row.guard)]
            fields = {node.data.name for node in nodes if node.op == "field"}
            parts = {node.data for node in nodes if node.op == "get"}
            if fields & {*LAST_EPOCH} or "last_producer_epoch" in parts:
                asking.add(table.label(row))
    assert asking == {"transaction.InitProducerId/retry-of-bump"}
    (table,) = (each for each in declared_tables() if each.name == "transaction.InitProducerId")
    names = [row.id for row in table.rows]
    assert names[names.index("retry-of-bump") + 1 :] == ["stale-producer"]
