"""The coordinator's reductions: a reduced system does what the whole one does."""

import pytest

from epochfence.checker.refinement import refine
from epochfence.language.instances.reductions import LeftOut, Never, NotOffered, Reduction
from epochfence.spec.systems.coordinators import system as coordinators
from epochfence.spec.systems.reductions.coordinator import ENTRY, ENTRY_FAULTS, OWNERSHIP
from epochfence.spec.systems.transactions import system as transactions

CHECK = "tests/spec/test_coordinator_refinement.py"
RELEASES = ("2.5", "3.6", "4.0.1", "4.4")
BROKERS = [one for one in OWNERSHIP if not isinstance(one, LeftOut)]
"""A message that is left out has no channel in the system."""
ENTRIES = [
    one
    for one in (*ENTRY, *ENTRY_FAULTS)
    if isinstance(one, NotOffered | Never) or one.refined_by == CHECK
]
CHECKED = (*BROKERS, *ENTRIES)
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
    assert found.mismatch is None
    assert found.exhaustive
    assert found.steps > 500


@pytest.mark.parametrize("reduction", ENTRIES, ids=_name)
def test_an_entry_refines_its_reductions_at_first(reduction: Reduction) -> None:
    found = refine(
        transactions, reduction, protocol="4.4", bounds="small", constants=ONE_OF_EACH, most=200
    )
    assert found.mismatch is None
    assert found.steps > 200


@pytest.mark.slow(10)
@pytest.mark.sample(8, of="engines: reductions of the coordinator")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", ENTRIES, ids=_name)
def test_an_entry_refines_its_reductions(reduction: Reduction, release: str) -> None:
    found = refine(transactions, reduction, protocol=release, bounds="small", constants=ONE_OF_EACH)
    assert found.mismatch is None
    assert found.exhaustive
