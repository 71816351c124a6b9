"""Kafka's exactly-once protocol, executable: what a broker must answer, at real ranges.

Names are loaded when they are first used, so that importing this is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import ProducerClient
    from .cluster import Cluster
    from .coordinator import TransactionCoordinator, TransactionMetadata, partition_for
    from .face import states
    from .leader import PartitionLeader
    from .machine import Machine, Outcome
    from .partitioner import Partitioner
    from .producer_ids import ProducerIdController, ProducerIdManager

_HOMES = {
    "Cluster": "cluster",
    "Machine": "machine",
    "Outcome": "machine",
    "PartitionLeader": "leader",
    "Partitioner": "partitioner",
    "ProducerClient": "client",
    "ProducerIdController": "producer_ids",
    "ProducerIdManager": "producer_ids",
    "TransactionCoordinator": "coordinator",
    "TransactionMetadata": "coordinator",
    "partition_for": "coordinator",
    "states": "face",
}
__all__ = [
    "Cluster",
    "Machine",
    "Outcome",
    "PartitionLeader",
    "Partitioner",
    "ProducerClient",
    "ProducerIdController",
    "ProducerIdManager",
    "TransactionCoordinator",
    "TransactionMetadata",
    "partition_for",
    "states",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
