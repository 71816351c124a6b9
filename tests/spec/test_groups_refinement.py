"""Refinement checks of the parts of a group's coordinator and a leader that wait."""

from __future__ import annotations

import pytest

from epochfence.language.instances.reductions import NotOffered
from epochfence.spec.messages import Produce
from epochfence.spec.systems.groups import exactly_once
from epochfence.spec.systems.reductions.groups import GROUPS
from epochfence.spec.systems.reductions.leader import LEADER
from epochfence.tests.spec.restricted import withheld

RELEASES = ("2.5", "3.6", "4.0.1", "4.4")
WITHHELD = [one for one in (*GROUPS, *LEADER) if isinstance(one, NotOffered)]
CHECKED = WITHHELD


@pytest.mark.slow(3)
@pytest.mark.sample(2, of="engines: reductions of the groups")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reduction", WITHHELD, ids=lambda one: one.event.name)
def test_a_group_withholds_what_waits_for_the_coordinator(
    reduction: NotOffered, release: str
) -> None:
    """In Kafka the request waits, too: the system's network keeps it. Leaders ask the coordinator
    about batches from 3.6 on, and about offsets from 4.0 on."""
    asks = ("3.6", "4.0.1", "4.4") if reduction.event is Produce else ("4.0.1", "4.4")
    count = withheld(
        exactly_once.base,
        reduction,
        changes=exactly_once.CHANGES,
        protocol=release,
        bounds="small",
        constants={"producers": 1, "faults": 1},
    )
    assert (count > 0) == (release in asks)
