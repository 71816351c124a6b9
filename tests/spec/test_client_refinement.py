"""Refinement checks of the parts of a client's batches that systems leave out."""

from __future__ import annotations

import pytest

from epochfence.checker.refinement import refine
from epochfence.language.reductions import NotOffered
from epochfence.spec.systems import shipped
from epochfence.spec.systems.reductions.client import OF_DRAIN

SMALL = {
    "idempotence": {"partitions": 1, "records": 2, "faults": 1},
    "transactions": {"partitions": 1, "records": 1, "producers": 1, "transactions": 1, "faults": 1},
}
MOST = 100
ALLOWED = OF_DRAIN[-1]
"""The reduction of isSendToPartitionAllowed."""


@pytest.mark.parametrize("protocol", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize("name", SMALL)
def test_a_system_drains_what_the_client_drains(name: str, protocol: str) -> None:
    """Each reduction of `drain` is compared with the system that doesn't have it. Only clients of
    transactions of version 2 have a partition without a step that adds it."""
    adds_with_batch = name == "transactions" and protocol.startswith("4")
    for reduction in OF_DRAIN:
        if reduction is ALLOWED and adds_with_batch:
            continue
        found = refine(
            shipped(name), reduction, protocol=protocol, constants=SMALL[name], most=MOST
        )
        assert found.mismatch is None, f"{reduction.because}: {found.mismatch}"
        assert found.steps > 50


def test_with_version_2_a_batch_adds_its_partition() -> None:
    """The system drains a batch right after beginTransaction. Kafka's producer adds the partition
    in `send` before, which is no step of the system."""
    found = refine(
        shipped("transactions"),
        ALLOWED,
        protocol="4.4",
        constants=SMALL["transactions"],
        most=MOST,
    )
    assert found.mismatch is not None
    assert not found.mismatch.is_of_whole
    assert found.mismatch.step == "producer.drain/next-sequence"
    assert found.mismatch.run[-1] == "producer.beginTransaction/begin"


def test_restrictions_of_the_environment_say_so() -> None:
    """Every other reduction of `drain` only leaves steps out."""
    assert all(isinstance(one, NotOffered) for one in OF_DRAIN if one is not ALLOWED)
