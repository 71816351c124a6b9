"""The coordinator's reductions: a reduced system does what the whole one does."""

from typing import Any

import pytest

from epochfence.checker.refinement import refine
from epochfence.language.instances.reductions import (
    Never,
    NotOffered,
    Reduction,
    StandsFor,
)
from epochfence.spec.coordinator.state_manager.failover import late_failover
from epochfence.spec.coordinator.state_manager.log import append_failure, log_append
from epochfence.spec.systems.coordinators import system as coordinators
from epochfence.spec.systems.reductions.coordinator import ENTRY, ENTRY_FAULTS, OWNERSHIP
from epochfence.spec.systems.transactions import system as transactions
from epochfence.tests.spec.restricted import restricted, taken, withheld

CHECK = "tests/spec/test_coordinator_refinement.py"
RELEASES = ("2.5", "3.6", "4.0.1", "4.4")
BROKERS = [one for one in OWNERSHIP if isinstance(one, StandsFor)]
ENTRIES = [
    one for one in (*ENTRY, *ENTRY_FAULTS) if isinstance(one, StandsFor) and one.refined_by == CHECK
]
WITHHELD = [one for one in (*ENTRY, *ENTRY_FAULTS) if isinstance(one, NotOffered)]
NEVER = [one for one in (*ENTRY, *ENTRY_FAULTS) if isinstance(one, Never)]
LOOKUPS = [one for one in OWNERSHIP if isinstance(one, NotOffered)]
CHECKED = (*BROKERS, *LOOKUPS, *ENTRIES, *WITHHELD, *NEVER)
ONE_OF_EACH = {"producers": 1, "transactions": 1, "faults": 1}


def _name(reduction: Reduction) -> str:
    return f"{type(reduction).__name__}, {reduction.because}"


@pytest.mark.slow(10)
@pytest.mark.sample(3, of="engines: reductions of the brokers")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", BROKERS, ids=_name)
def test_brokers_of_the_transaction_log_refine_their_reductions(
    reduction: Reduction, release: str
) -> None:
    found = refine(coordinators, reduction, protocol=release, bounds="small")
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.taken


@pytest.mark.slow(10)
@pytest.mark.sample(8, of="engines: reductions of the coordinator")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", ENTRIES, ids=_name)
def test_an_entry_refines_its_reductions(reduction: Reduction, release: str) -> None:
    found = refine(transactions, reduction, protocol=release, bounds="small", constants=ONE_OF_EACH)
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert found.taken


# What is not offered ------------------------------------------------------------------------------

FEW_FAULTS = dict.fromkeys(
    ("losses", "crashes", "timeouts", "expiries", "delays", "leader_changes"), 0
)
TWO_TAKEOVERS = FEW_FAULTS | {
    "append_failures": 0, "id_expiries": 0, "faults": 3, "producers": 1, "transactions": 1,
}  # fmt: skip
"""A broker coordinates again, and an answer of its first term comes late (KAFKA-16352)."""
IDS_USED_UP = FEW_FAULTS | {"faults": 2, "transactions": 1, "largest_epoch": 2}
"""A new id is given to a client whose epochs are used up, while an expired one is in the log."""


@pytest.mark.slow(3)
@pytest.mark.sample(4, of="engines: reductions of the coordinator")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", WITHHELD, ids=_name)
def test_an_entry_is_not_offered_some_steps(reduction: NotOffered, release: str) -> None:
    system, constants = transactions, {}
    if reduction.event is log_append:
        constants = TWO_TAKEOVERS
    if reduction.event is late_failover:
        constants = IDS_USED_UP
    if reduction.event is append_failure and "one error" in reduction.because:
        (value,) = (one for one in ENTRIES if one.of is append_failure.error)
        system = restricted(transactions, without=(value,))
    settings: dict[str, Any] = {"protocol": release, "bounds": "small", "constants": constants}
    never = reduction.event is log_append and release.startswith("4")
    assert (withheld(system, reduction, **settings) == 0) == never


@pytest.mark.slow(2)
@pytest.mark.parametrize("reduction", NEVER, ids=_name)
def test_a_row_of_an_entry_is_never_taken(reduction: Never) -> None:
    found = taken(transactions, reduction, protocol="2.5", bounds="small")
    assert found == dict.fromkeys(reduction.labels, 0)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", LOOKUPS, ids=_name)
def test_a_look_up_has_no_other_value(reduction: NotOffered, release: str) -> None:
    (value,) = (one for one in BROKERS if one.of is reduction.event.is_known)
    system = restricted(coordinators, without=(value,))
    assert withheld(system, reduction, protocol=release, bounds="small") > 0
