"""Replication: what holds, what acks and elections lose, and which feature mends what."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import DeclarationError, System, append, instantiate
from epochfence.spec.properties.partitions.replication import PROPERTIES
from epochfence.spec.releases.features import NEWEST
from epochfence.spec.replication.state import (
    LEADER_EPOCHS,
    Entry,
    eligible,
    high_watermark,
    leader_epoch,
    log,
    newest_epoch,
    produced,
)
from epochfence.spec.systems import shipped
from epochfence.tests.cases import before
from epochfence.tests.checker.plain_search import search
from epochfence.tests.mutation.scenarios import rows_taken
from epochfence.tests.spec.alterations import altered, never_reached
from epochfence.tests.spec.differing import differing
from epochfence.tests.spec.faults import Fault

SYSTEM = shipped("replication")
NAMES = tuple(item.name for item in PROPERTIES)
SMALL, DEFAULT = "small", "default"
HIGH_WATERMARK = ("truncated_by_epoch",)
POWER_LOSS = {"power_losses": 1, "crashes": 0}


def run(
    protocol: str = NEWEST,
    constants: Mapping[str, int] | None = None,
    *,
    off: tuple[str, ...] = (),
    properties: tuple[str, ...] = NAMES,
    bounds: str = SMALL,
    system: System = SYSTEM,
    brief: bool = True,
) -> Result:
    """The system checked."""
    instance = instantiate(
        system,
        protocol,
        dict(constants or {}),
        bounds=bounds,
        switch_off=off,
        properties=properties,
    )
    return check(instance, Options(threads=available_threads(), brief=brief))


def steps(result: Result) -> list[str]:
    """The counterexample as events and rows."""
    assert result.trace is not None
    return [f"{step.action.partition('(')[0]}/{step.row}" for step in result.trace.steps]


# Releases ---------------------------------------------------------------------------------------

DIVERGING = ("ReplicasAgree", "FollowerInLine")  # before 2.0.0: KIP-279


@pytest.mark.slow(2)
@pytest.mark.long
@pytest.mark.parametrize("protocol", differing(SYSTEM))
def test_what_holds_in_each_release(protocol: str) -> None:
    broken = DIVERGING if protocol in before("2.0.0") else ()
    for name in broken:
        assert run(protocol, properties=(name,)).verdict is Verdict.BROKEN
    others = tuple(name for name in NAMES if name not in broken)
    assert run(protocol, properties=others).verdict is Verdict.HOLDS


@pytest.mark.slow(1)
def test_at_the_defaults_nothing_is_vacuous() -> None:
    result = run(bounds=DEFAULT, brief=False)
    assert result.verdict is Verdict.HOLDS
    assert result.states > 1_000_000
    assert [str(item) for item in result.unexplained] == []
    assert not [note for note in result.notes if "but a run takes it" in note]


@pytest.mark.parametrize("acks", [0, 1])
def test_what_consumers_have_read_is_kept_with_any_acks(acks: int) -> None:
    """A clean election keeps what is below the high watermark, with a single replica in sync."""
    constants = {"acks": acks, "min_insync_replicas": 1}
    others = tuple(name for name in NAMES if name != "AcknowledgedKept")
    assert run(constants=constants, properties=others).verdict is Verdict.HOLDS


def test_logs_do_not_diverge_whatever_is_lost() -> None:
    """KIP-101 and KIP-279 bring followers in line with unclean elections and lost entries, too."""
    constants = {"power_losses": 2, "unclean_elections": 1, "min_insync_replicas": 1}
    kept = ("FollowerInLine", "EpochsInOrder", "OneLeader")
    assert run(constants=constants, properties=kept).verdict is Verdict.HOLDS


def test_two_of_two_in_sync_outlive_an_unclean_election_from_3_7_on() -> None:
    """Nothing is committed by the leader alone, so that the other replica has all of it."""
    result = run("4.0.1", {"unclean_elections": 1})
    assert result.verdict is Verdict.HOLDS
    assert any(taken for row, taken in result.rows if row.startswith("registration.elect unclean/"))


def test_from_4_1_on_one_crash_leaves_an_eligible_replica_to_elect() -> None:
    result = run(constants={"unclean_elections": 1}, brief=False)
    assert (result.verdict, result.unexplained) == (Verdict.HOLDS, [])
    assert result.untested == {}


@pytest.mark.slow(1)
def test_from_4_1_on_a_power_loss_costs_nothing_with_two_in_sync() -> None:
    """KIP-966: whoever was eligible leads instead. What protects it stands below."""
    result = run(constants=POWER_LOSS, bounds=DEFAULT)
    assert result.verdict is Verdict.HOLDS
    assert dict(result.rows)["registration.elect/eligible-leader-replica"] > 0


REFUSED = (
    ("replication", "3.6", {"min_insync_replicas": 4}, "NOT_ENOUGH_REPLICAS"),
    ("delivery", "0.11.0.0", {"min_insync_replicas": 3}, "NOT_ENOUGH_REPLICAS"),
    ("transactions+replication", "3.6", {"min_insync_replicas": 3}, "NOT_ENOUGH_REPLICAS"),
    ("delivery", NEWEST, {"acks": 1}, "ConfigException: Must set acks to all"),
    ("delivery", NEWEST, {"retries": 0}, "ConfigException: Must set retries to non-zero"),
    ("delivery", NEWEST, {"idempotence": 0, "transactional_id": 1, "acks": 0}, "ConfigException"),
)


@pytest.mark.parametrize(("system", "protocol", "constants", "error"), REFUSED)
def test_what_kafka_refuses_is_refused_with_its_error(
    system: str, protocol: str, constants: Mapping[str, int], error: str
) -> None:
    with pytest.raises(DeclarationError, match=f": {error}"):
        instantiate(load_system(system), protocol, constants)


TAKEN = (
    ("3.7", {"min_insync_replicas": 4}),
    ("3.6", {"min_insync_replicas": 4, "acks": 1}),
    ("3.6", {"min_insync_replicas": 3}),
)


@pytest.mark.parametrize(("protocol", "constants"), TAKEN)
def test_what_kafka_takes_is_taken(protocol: str, constants: Mapping[str, int]) -> None:
    """From 3.7 on the replication factor is the most that counts; acks=1 never asks for more."""
    assert instantiate(SYSTEM, protocol, constants).protocol == protocol


# What protects a property -----------------------------------------------------------------------


LEAD, ASK = "LeaderAndIsr/lead", "OffsetForLeaderEpoch"
ELECTED = "in-sync-replica"
backwards = Entry(leader_epoch=LEADER_EPOCHS - leader_epoch, record=produced)

FAULTS = (
    Fault("acks=0", "AcknowledgedKept", 3, LEAD, {"acks": 0}),
    Fault("acks=1", "AcknowledgedKept", 5, LEAD, {"acks": 1}),
    Fault("KIP-101, scenario 1", "AcknowledgedKept", 11, LEAD, off=HIGH_WATERMARK),
    Fault(
        "KAFKA-7128: a high watermark that lags admits to the in-sync set",
        "AcknowledgedKept", 16, LEAD, off=("isr_from_epoch_start",), bounds=DEFAULT,
    ),
    Fault(
        "an unclean election with one replica in sync",
        "AcknowledgedKept", 7, LEAD, {"unclean_elections": 1, "min_insync_replicas": 1},
    ),
    Fault(
        "power lost by the only replica in sync",
        "AcknowledgedKept", 8, LEAD, {"power_losses": 1, "min_insync_replicas": 1},
    ),
    Fault(
        "a leader takes its whole log for committed",
        "ConsumedKept", 6, LEAD,
        system=altered(SYSTEM, table="replica.produce", row="append-acks-all",
                       updates={high_watermark: high_watermark + 1}),
    ),
    Fault(
        "before 3.7 a leader alone below min.insync.replicas commits, then an unclean election",
        "ConsumedKept", 8, LEAD, {"unclean_elections": 1}, protocol="3.6",
    ),
    Fault("KIP-101, scenario 1", "ConsumedKept", 12, LEAD, off=HIGH_WATERMARK),
    Fault(
        "KIP-966: before it, who has lost power leads, as the last one in sync",
        "AcknowledgedKept", 12, LEAD, POWER_LOSS, protocol="4.0.1", bounds=DEFAULT,
    ),
    Fault(
        "KIP-966 is of one unclean shutdown: after two, the last known leader leads",
        "AcknowledgedKept", 14, LEAD, {"power_losses": 2, "crashes": 0}, bounds=DEFAULT,
    ),
    Fault(
        "KIP-903: who has lost power joins by what it fetched before",
        "AcknowledgedKept", 16, LEAD, POWER_LOSS, off=("broker_epoch_checked",), bounds=DEFAULT,
    ),
    Fault(
        "an eligible replica stays so after an unclean shutdown",
        "AcknowledgedKept", 14, LEAD, {"power_losses": 1}, bounds=DEFAULT,
        system=altered(SYSTEM, table="replica.restart",
                       row="register-unclean", updates={eligible: eligible}),
    ),
    Fault(
        "an eligible replica leads though the high watermark didn't wait",
        "ConsumedKept", 9, LEAD, off=("high_watermark_waits",), bounds=DEFAULT,
    ),
    Fault(
        "KIP-279, with a fetch in another epoch", "ReplicasAgree", 11, "fetch/append",
        protocol="1.1",
    ),
    Fault(
        "KIP-320: a follower fetches from its leader of an older epoch",
        "ReplicasAgree", 16, "fetch/append", protocol="2.0", bounds=DEFAULT,
    ),
    Fault(
        "a replica outside the in-sync set is elected",
        "ReplicasAgree", 8, "produce/append-acks-all",
        {"unclean_elections": 1, "min_insync_replicas": 1},
    ),
    Fault("KIP-279, with a question in another epoch", "FollowerInLine", 10, LEAD, protocol="1.1"),
    Fault("KIP-279", "FollowerInLine", 10, f"{ASK}/truncate-to-leader",
          off=("epoch_asked_again",)),
    Fault(
        "KIP-101, scenario 2: a follower loses an entry, and leads",
        "FollowerInLine", 12, LEAD, {"power_losses": 1}, off=HIGH_WATERMARK,
    ),
    Fault(
        "a follower truncates nothing",
        "FollowerInLine", 7, f"{ASK}/truncate",
        system=altered(SYSTEM, table=f"replica.{ASK}", row="truncate",
                       updates={log: log}),
    ),
    Fault(
        "a leader's epochs count down",
        "EpochsInOrder", 7, "produce/append-acks-all",
        system=altered(SYSTEM, table="replica.produce", row="append-acks-all",
                       updates={log: append(log, backwards)}),
    ),
    Fault(
        "an election has no epoch of its own",
        "OneLeader", 4, LEAD,
        system=altered(SYSTEM, table="registration.elect", row=ELECTED,
                       updates={newest_epoch: newest_epoch}),
    ),
)  # fmt: skip


@pytest.mark.slow(1)
@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_what_protects_a_property(fault: Fault) -> None:
    result = run(
        fault.protocol,
        fault.constants,
        off=fault.off,
        properties=(fault.breaks,),
        bounds=fault.bounds or SMALL,
        system=fault.system or SYSTEM,
    )
    fault.assert_found(result)


def test_each_property_has_something_that_protects_it() -> None:
    assert {fault.breaks for fault in FAULTS} == set(NAMES)


def test_kip_101_loses_by_a_restart_before_the_high_watermark_has_come() -> None:
    """Without the feature, that is: a follower has the record, and not yet that it is committed."""
    done = steps(run(off=HIGH_WATERMARK, properties=("AcknowledgedKept",)))
    assert done[4:] == [
        "fetch/append",
        "fetch/answer-lost",
        "crash/crash",
        "restart/register",
        "LeaderAndIsr/follow-from-high-watermark",
        f"elect/{ELECTED}",
        LEAD,
    ]


# Coverage and other engines ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
def test_every_row_is_taken_by_a_recorded_run_or_listed_with_a_reason() -> None:
    """tests/mutation/test_scenarios.py has these runs."""
    every = {f"{table.name}/{row.id}" for table in SYSTEM.tables for row in table.rows}
    assert every - rows_taken(SYSTEM) == set(never_reached(SYSTEM))


@pytest.mark.slow
def test_the_interpreter_finds_the_same_states() -> None:
    few = {"records": 1, "leader_epochs": 2}
    instance = instantiate(SYSTEM, NEWEST, few, bounds=SMALL)
    found, reference = check(instance, Options(symmetry=False, slicing=False)), search(instance)
    assert (found.states, found.transitions) == (reference.states, reference.transitions)
    assert reference.broken == {}
    assert found.verdict is Verdict.HOLDS


def test_replicas_are_interchangeable() -> None:
    instance = instantiate(SYSTEM, NEWEST, bounds=SMALL)
    once, all_of_them = check(instance), check(instance, Options(symmetry=False))
    assert once.verdict is all_of_them.verdict is Verdict.HOLDS
    assert once.states < all_of_them.states <= 2 * once.states
    assert once.depth == all_of_them.depth
