"""The machines whose local steps Kafka's classes take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..versions import VERSIONS
from .client_steps import Client
from .controller_steps import Controller
from .coordinator_steps import Coordinator
from .group_offsets_steps import GroupOffsets
from .leader_steps import Leader
from .producer_id_steps import ProducerIds
from .zookeeper_id_steps import ZooKeeperIds

MACHINES: Final[
    Mapping[
        str,
        type[
            Coordinator | Leader | ProducerIds | Controller | ZooKeeperIds | GroupOffsets | Client
        ],
    ]
] = {
    Coordinator.name: Coordinator,
    Leader.name: Leader,
    ProducerIds.name: ProducerIds,
    Controller.name: Controller,
    ZooKeeperIds.name: ZooKeeperIds,
    GroupOffsets.name: GroupOffsets,
    Client.name: Client,
}
"""For each name: the local steps of its machine."""


def has(name: str, release: str) -> bool:
    """Whether the class of this machine can be set up at a release."""
    machine, releases = MACHINES[name], list(VERSIONS)
    first, last = releases.index(machine.since), releases.index(machine.until or releases[-1])
    return first <= releases.index(release) <= last
