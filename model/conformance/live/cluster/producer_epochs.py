"""Raises the epochs of transactional ids with InitProducerId, many requests at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

from ....wire.connection import BrokerError
from .cluster import PREFIX, LiveCluster
from .missing_permissions import MissingPermissionError, refusal

AS_OFTEN: Final = 1000
"""The number of an id's requests in flight."""
PATIENCE_S: Final = 30
"""The time in s without a new epoch after which `use_up` fails."""


class StalledError(BrokerError):
    """A broker gives an id no new epochs."""


class Skip(NamedTuple):
    """A transactional id, its present epoch, and the wanted epoch."""

    name: str
    now: int
    epoch: int


def use_up(cluster: LiveCluster, skips: Sequence[Skip]) -> None:
    """Raises ids to their wanted epochs. Each id has its own connection, because a broker answers
    the requests of a connection one after another. Raises BrokerError, and StalledError if no id
    gets new epochs."""
    version = min(cluster.newest("InitProducerId"), 2)
    until = time.monotonic() + PATIENCE_S
    with ExitStack() as numbers:
        left = {
            skip: cluster.connection(
                cluster.coordinator(skip.name), numbers.enter_context(cluster.own_number())
            )
            for skip in skips
            if skip.now < skip.epoch
        }
        while left:
            waves = [min(AS_OFTEN, skip.epoch - skip.now) for skip in left]
            for (skip, connection), wave in zip(left.items(), waves, strict=True):
                body = {"transactional_id": skip.name, "transaction_timeout": 60_000}
                connection.send("InitProducerId", version, body, wave)
                cluster.sent += wave
            for (skip, connection), wave in zip([*left.items()], waves, strict=True):
                del left[skip]
                answer = connection.receive("InitProducerId", version, wave)
                if (error := refusal(answer)) is not None:
                    raise MissingPermissionError(connection.place, "InitProducerId", error, PREFIX)
                now = answer["producer_epoch"] if answer["error_code"] == "NONE" else skip.now
                if now > skip.now:
                    until = time.monotonic() + PATIENCE_S
                if now < skip.epoch:
                    left[skip._replace(now=now)] = connection
            if time.monotonic() > until:
                raise StalledError(f"{next(iter(left.values())).place} gives an id no new epochs")
