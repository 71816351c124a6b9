"""Shipped systems with a change: another client library or broker, a proposal, an upgrade within a
run, or replicas; and a part of the client that the shipped systems leave out.

Each rule of another product is a feature that holds unless it is switched off: on, the machine does
as Kafka's does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ...language import System
from ..systems import shipped


@cache
def _franz_go() -> System:
    from .clients.franz_go import franz_go

    return shipped("transactions") + franz_go


@cache
def _librdkafka() -> System:
    from .clients.librdkafka import transactional

    return shipped("transactions") + transactional


@cache
def _librdkafka_idempotent() -> System:
    from .clients.librdkafka import idempotent

    return shipped("idempotence") + idempotent


@cache
def _dekaf() -> System:
    from .clients.dekaf import dekaf

    return shipped("idempotence") + dekaf


@cache
def _redpanda() -> System:
    from .brokers.redpanda import redpanda

    return shipped("transactions") + redpanda


@cache
def _redpanda_group_offsets() -> System:
    from .brokers.redpanda import group_offsets

    return shipped("group-offsets") + group_offsets


@cache
def _offset_removal() -> System:
    from .brokers.offset_removal import offset_removal

    return shipped("group-offsets") + offset_removal


@cache
def _redpanda_offset_removal() -> System:
    from .brokers.redpanda import expired_offsets

    return _offset_removal() + expired_offsets


@cache
def _replay() -> System:
    from .brokers.replay import replayed

    return shipped("transactions") + replayed


@cache
def _leaderless() -> System:
    from .brokers.leaderless import leaderless

    return shipped("transactions") + leaderless


@cache
def _kfake() -> System:
    from .brokers.kfake import kfake

    return shipped("transactions") + kfake


@cache
def _upgrade() -> System:
    from .upgrade import upgrade

    return shipped("transactions") + upgrade


@cache
def _two_phase_commit() -> System:
    from .proposals.two_phase_commit import two_phase

    return shipped("transactions") + two_phase


@cache
def _replication() -> System:
    from .replicas.replication import replicated

    return replicated(shipped("transactions"))


@cache
def _retention() -> System:
    from .brokers.retention import retention_change

    return shipped("reading") + retention_change


@cache
def _share() -> System:
    from .proposals.share_group import share_group

    return shipped("reading") + share_group


@cache
def _below_next() -> System:
    from .brokers.duplicates import below_next

    return shipped("idempotence") + below_next


@cache
def _callbacks() -> System:
    from .clients.callbacks import callbacks

    return shipped("calls") + callbacks


@cache
def _majority() -> System:
    from .replicas.majority import varied

    return varied(shipped("replication"))


@cache
def _split() -> System:
    from .clients.batch_split import varied

    return varied(shipped("idempotence"))


@cache
def _transactional_split() -> System:
    from .clients.transactional_split import varied

    return varied(shipped("transactions"))


@cache
def _checkpointed_sink() -> System:
    from .clients.checkpointed_sink import system

    return system


@cache
def _drain_order() -> System:
    from .clients.drain_order import system

    return system


VARIED: dict[str, Callable[[], System]] = {
    "transactions+franz-go": _franz_go,
    "transactions+librdkafka": _librdkafka,
    "idempotence+librdkafka": _librdkafka_idempotent,
    "idempotence+dekaf": _dekaf,
    "idempotence+below-next": _below_next,
    "calls+callbacks": _callbacks,
    "drain-order": _drain_order,
    "checkpointed-sink": _checkpointed_sink,
    "idempotence+split": _split,
    "transactions+split": _transactional_split,
    "replication+majority": _majority,
    "transactions+redpanda": _redpanda,
    "transactions+kfake": _kfake,
    "transactions+leaderless": _leaderless,
    "group-offsets+redpanda": _redpanda_group_offsets,
    "group-offsets+removal": _offset_removal,
    "group-offsets+removal+redpanda": _redpanda_offset_removal,
    "transactions+replay": _replay,
    "transactions+upgrade": _upgrade,
    "transactions+replication": _replication,
    "reading+retention": _retention,
    "reading+share": _share,
    "transactions+two-phase-commit": _two_phase_commit,
}
