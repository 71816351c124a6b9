"""Shipped systems changed: with a machine as another product or client library has it, with a
feature that changes within a run, or on replicas.

Each rule of another product is a feature that holds unless it is switched off: on, the machine does
what Kafka's does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from ...language import System
from ...language.variants import varied
from ...language.varying import varying
from ..systems import shipped


@cache
def _franz_go() -> System:
    from .franz_go import variant

    return varied(shipped("transactions"), variant)


@cache
def _librdkafka() -> System:
    from .librdkafka import transactional

    return varied(shipped("transactions"), transactional)


@cache
def _librdkafka_idempotent() -> System:
    from .librdkafka import idempotent

    return varied(shipped("idempotence"), idempotent)


@cache
def _redpanda() -> System:
    from .redpanda import variant

    return varied(shipped("transactions"), variant)


@cache
def _upgrade() -> System:
    from .upgrade import upgrade

    return varying(shipped("transactions"), upgrade)


@cache
def _two_phase_commit() -> System:
    from .two_phase_commit import BROKEN_BY_DESIGN, variant

    system = varied(shipped("transactions"), variant)
    protocols = system.protocols.settling(dict.fromkeys(variant.features, True))
    kept = tuple(each for each in system.properties if each.name not in BROKEN_BY_DESIGN)
    return replace(system, protocols=protocols, properties=kept)


@cache
def _replication() -> System:
    from .replication import replicated_system

    return replicated_system(shipped("transactions"))


@cache
def _retention() -> System:
    from .retention import retaining

    return retaining(shipped("reading"))


VARIED: dict[str, Callable[[], System]] = {
    "transactions+franz-go": _franz_go,
    "transactions+librdkafka": _librdkafka,
    "idempotence+librdkafka": _librdkafka_idempotent,
    "transactions+redpanda": _redpanda,
    "transactions+upgrade": _upgrade,
    "transactions+replication": _replication,
    "reading+retention": _retention,
    "transactions+two-phase-commit": _two_phase_commit,
}
