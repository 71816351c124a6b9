"""Refinement checks of the parts of a group's coordinator and a leader that wait."""

from __future__ import annotations

import pytest

from epochfence.checker.refinement import refine
from epochfence.language.instances.reductions import NotOffered, Reduction
from epochfence.spec.systems.groups.exactly_once import base
from epochfence.spec.systems.reductions.groups import GROUPS
from epochfence.spec.systems.reductions.leader import LEADER

RELEASES = ("2.5", "3.6", "4.0.1", "4.4")
WITHHELD = [one for one in (*GROUPS, *LEADER) if isinstance(one, NotOffered)]
CHECKED = WITHHELD
"""Compared one by one."""


def compare(reduction: Reduction, release: str, most: int) -> None:
    """The system takes the steps of the one without the reduction, and no others."""
    found = refine(base, reduction, protocol=release, bounds="small", most=most)
    assert found.mismatch is None, f"{reduction.because}: {found.mismatch}"
    assert found.steps > most


@pytest.mark.parametrize("reduction", WITHHELD, ids=lambda one: one.event.name)
def test_a_group_withholds_what_waits_for_the_coordinator(reduction: Reduction) -> None:
    compare(reduction, "4.4", 60)


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", WITHHELD, ids=lambda one: one.event.name)
def test_a_group_withholds_it_in_each_release(reduction: Reduction, release: str) -> None:
    compare(reduction, release, 300)
