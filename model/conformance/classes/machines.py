"""The machines whose local steps Kafka's classes take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from .coordinator_steps import Coordinator
from .leader_steps import Leader
from .steps import LocalSteps

MACHINES: Final[Mapping[str, Callable[[str], LocalSteps]]] = {
    Coordinator.name: Coordinator,
    Leader.name: Leader,
}
"""For each name: the machine of a release."""
