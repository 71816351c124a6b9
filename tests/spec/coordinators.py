"""A coordinator on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from epochfence.spec import messages as kafka
from epochfence.spec.coordinator import entry as transaction
from epochfence.spec.coordinator import markers, tables
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alone import BARE, Alone

LARGEST = 9  # the largest epoch, kept for the coordinator
LAST = LARGEST - 1  # the last one that a client may hold
BOUNDS = {"producers": 2, "partitions": 2, "producer_ids": 4, "largest_epoch": LARGEST, "faults": 6}

PENDING = tuple(
    f"transaction.pending_{name}" for name in ("id", "epoch", "last_epoch", "partitions")
)
SYSTEM = replace(
    shipped("transactions"),
    name="coordinator",
    tables=tables.TABLES + tables.LOG_TABLES + markers.TABLES,
    **BARE,
    budgets={(transaction.timeout, *tables.LOG_FAULTS, *markers.FAULTY_EVENTS): kafka.FAULTS},
    terminal=False,
)


class Coordinator(Alone):
    """A coordinator, with its entry and the producer id that it is offered."""

    machine = "transaction"
    system = SYSTEM
    bounds = BOUNDS

    def is_told(self, name: str, before: Mapping[str, Any]) -> bool:
        """Where nothing is pending, what is pending has to be as at first; but nobody reads its
        producer id."""
        if self["pending"] is None and name in PENDING:
            return name != PENDING[0] and self.state[name] != self._initial(self.model.types[name])
        return super().is_told(name, before)
