"""The coordinators' epochs. Real ones grow with restarts; the oracle's begin with 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....broker.transactions.transaction_log import partition_for
from .cluster import LiveCluster


class Terms:
    """The coordinators' epochs at the start of a run of requests.

    Each producer id of the run has such an epoch, which corresponds to the oracle's 0.
    """

    def __init__(self, cluster: LiveCluster) -> None:
        self._epochs = cluster.coordinator_epochs()
        self._begun: dict[int, int] = {}

    def learn(self, transactional_id: str | None, response: Mapping[str, Any]) -> None:
        """Takes a response to this transactional id, which may have a producer id."""
        if transactional_id and self._epochs and response.get("producer_id", -1) >= 0:
            partition = partition_for(transactional_id, len(self._epochs))
            self._begun[response["producer_id"]] = self._epochs[partition]

    def of(self, producer_id: int) -> int:
        """The coordinator epoch of a producer id; 0 if no response had the id."""
        return self._begun.get(producer_id, 0)
