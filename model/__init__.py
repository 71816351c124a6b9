"""Kafka's exactly-once protocol, executable: the answers that a broker must give, at real ranges.

Names are loaded when they are first used, so that importing this is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .broker.group_coordinator import GroupCoordinator
    from .broker.leader import PartitionLeader
    from .broker.producer_ids import ProducerIdController, ProducerIdManager
    from .broker.transactions.coordinator import TransactionCoordinator
    from .broker.transactions.transaction_log import partition_for
    from .broker.transactions.transaction_metadata import TransactionMetadata
    from .client.partitioner import Partitioner
    from .client.producer import ProducerClient
    from .cluster import Cluster
    from .engine.fsm import states
    from .engine.machine import Outcome
    from .machine import Machine

_HOMES = {
    "Cluster": "cluster",
    "GroupCoordinator": "broker.group_coordinator",
    "Machine": "machine",
    "Outcome": "engine.machine",
    "PartitionLeader": "broker.leader",
    "Partitioner": "client.partitioner",
    "ProducerClient": "client.producer",
    "ProducerIdController": "broker.producer_ids",
    "ProducerIdManager": "broker.producer_ids",
    "TransactionCoordinator": "broker.transactions.coordinator",
    "TransactionMetadata": "broker.transactions.transaction_metadata",
    "partition_for": "broker.transactions.transaction_log",
    "states": "engine.fsm",
}
__all__ = [
    "Cluster",
    "GroupCoordinator",
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
