"""The machines whose local steps Kafka's classes take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .coordinator_steps import Coordinator
from .leader_steps import Leader
from .producer_id_steps import ControlManager, ProducerIds
from .versions import VERSIONS

MACHINES: Final[Mapping[str, type[Coordinator | Leader | ProducerIds | ControlManager]]] = {
    Coordinator.name: Coordinator,
    Leader.name: Leader,
    ProducerIds.name: ProducerIds,
    ControlManager.name: ControlManager,
}
"""For each name: the local steps of its machine."""


def has(name: str, release: str) -> bool:
    """Whether the class of this machine can be set up at a release."""
    releases = list(VERSIONS)
    return releases.index(release) >= releases.index(MACHINES[name].since)
