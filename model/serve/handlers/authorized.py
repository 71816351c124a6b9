"""The authorized operations in answers (KIP-430).

Source: AclOperation, AclEntry.supportedOperations (2.5.1, 3.6.2, 4.4.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ....spec.access.acls import CLUSTER_NAME
from ....spec.releases.features import RELEASED
from ...cluster import Cluster

NOT_ASKED: Final = -(2**31)
"""The value in an answer whose request doesn't ask for operations."""
OPERATIONS: Final = {
    "ALL": 2, "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8,
    "CLUSTER_ACTION": 9, "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12,
    "TWO_PHASE_COMMIT": 15,
}  # fmt: skip
"""The numbers of the operations."""
_ON: Final[Mapping[str, tuple[str, ...]]] = {
    "TOPIC": (
        "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
    ),
    "GROUP": ("READ", "DELETE", "DESCRIBE"),
    "CLUSTER": (
        "CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
    ),
}  # fmt: skip
_ON_GROUPS_WITH_SETTINGS: Final = ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")
"""Additional operations on groups, which have settings from 4.0 on."""


def operations(cluster: Cluster, principal: str | None, resource: str, name: str) -> int:
    """The operations that a principal may carry out on a resource, with a bit for each number."""
    known = _ON[resource]
    if resource == "GROUP" and RELEASED.index(cluster.protocol) >= RELEASED.index("4.0.0"):
        known += _ON_GROUPS_WITH_SETTINGS
    return sum(
        1 << OPERATIONS[each] for each in known if cluster.allows(principal, each, resource, name)
    )


def on_cluster(cluster: Cluster, principal: str | None) -> int:
    """The operations on the cluster for a principal that may describe it
    (KafkaApis.handleDescribeCluster)."""
    if not cluster.allows(principal, "DESCRIBE", "CLUSTER", CLUSTER_NAME):
        return 0
    return operations(cluster, principal, "CLUSTER", CLUSTER_NAME)
