"""The systems that come with Epochfence, by name."""

from __future__ import annotations

from collections.abc import Callable

from ...language import DeclarationError, System


def _transactions() -> System:
    from .transactions import system

    return system


def _producer_ids() -> System:
    from .producer_ids import system

    return system


def _idempotence() -> System:
    from .idempotence import system

    return system


def _coordinators() -> System:
    from .coordinators import system

    return system


def _calls() -> System:
    from .calls import system

    return system


def _replication() -> System:
    from .partitions.replication import system

    return system


def _exactly_once() -> System:
    from .groups.exactly_once import system

    return system


def _delivery() -> System:
    from .partitions.delivery import system

    return system


def _reading() -> System:
    from .partitions.reading import system

    return system


def _membership() -> System:
    from .groups.membership import system

    return system


def _group_offsets() -> System:
    from .groups.group_offsets import system

    return system


def _authorization() -> System:
    from .authorization import system

    return system


SHIPPED: dict[str, Callable[[], System]] = {
    "transactions": _transactions,
    "producer-ids": _producer_ids,
    "idempotence": _idempotence,
    "coordinators": _coordinators,
    "calls": _calls,
    "replication": _replication,
    "exactly-once": _exactly_once,
    "delivery": _delivery,
    "reading": _reading,
    "membership": _membership,
    "group-offsets": _group_offsets,
    "authorization": _authorization,
}


def shipped(name: str) -> System:
    """The shipped system of that name. Raises DeclarationError where there is none."""
    if name not in SHIPPED:
        raise DeclarationError(
            f"no system is called {name}: the shipped ones are {', '.join(SHIPPED)}"
        )
    return SHIPPED[name]()
