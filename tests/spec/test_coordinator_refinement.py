"""The coordinator's reductions: a reduced system does what the whole one does."""

import pytest

from epochfence.checker.refinement import refine
from epochfence.language.reductions import LeftOut, Reduction
from epochfence.spec.systems.coordinators import system as coordinators
from epochfence.spec.systems.reductions.coordinator import OWNERSHIP

COMPARED = [one for one in OWNERSHIP if not isinstance(one, LeftOut)]
"""A message that is left out has no channel in the system."""


@pytest.mark.parametrize("release", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize(
    "reduction", COMPARED, ids=["is_loading", "offered", "is_known", "is_dead"]
)
def test_a_broker_of_the_transaction_log_is_reduced_without_a_difference(
    reduction: Reduction, release: str
) -> None:
    found = refine(coordinators, reduction, protocol=release, bounds="small", most=300)
    assert found.mismatch is None
    assert found.steps > 1000
