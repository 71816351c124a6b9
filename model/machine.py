"""Executable machines at Kafka's releases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..language.instances.reductions import Reduction
from ..language.protocols import Protocols
from ..language.tables import Table
from ..spec.releases.features import KAFKA
from .engine import machine


class Machine(machine.Machine):
    """One instance of a declared machine, at real ranges. `protocols` are Kafka's by default.

    See `model.engine.machine.Machine`.
    """

    def __init__(
        self, tables: Iterable[Table], *, protocol: str | None = None,
        protocols: Protocols = KAFKA, switch_on: Iterable[str] = (),
        switch_off: Iterable[str] = (), this: Any = None,
        constants: Mapping[str, int] | None = None,
        reductions: Iterable[Reduction] = (),
    ) -> None:  # fmt: skip
        super().__init__(
            tables, protocols, protocol=protocol, switch_on=switch_on, switch_off=switch_off,
            this=this, constants=constants,
            reductions=reductions,
        )  # fmt: skip
