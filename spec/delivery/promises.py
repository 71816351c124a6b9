"""The promise of idempotence, and its limits: the window of batches that a leader remembers,
two sessions of a client, two partitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from ...language import System, all_of, any_of, element, invariant, position
from ..leader.state import log
from ..messages import PARTITION, RECORD
from .cells import CLIENTS, Cell, Constants

WINDOW = ("NoDuplicate", "Order")
MOST_CACHED, MOST_IN_FLIGHT = 5, 6


def window(cached_batches: int, in_flight: int) -> Constants:
    """The constants of `idempotence` for so many batches that a leader remembers and so many in
    flight: a record more than these, and as many answers lost, as where a connection closes."""
    return {
        "partitions": 1,
        "records": in_flight + 1,
        "in_flight": in_flight,
        "cached_batches": cached_batches,
        "largest_sequence": 7,
        "first_epoch": 0,
        "producer_ids": 1,
        "faults": in_flight,
        "losses": 1,
        **dict.fromkeys(
            ("delays", "expiries", "refusals", "shortages", "leader_changes", "deletions"), 0
        ),
        "producer_expiries": 0,
    }


@dataclass(frozen=True)
class NotPromised:
    """A property that breaks although the client is idempotent, with the system and its
    constants."""

    name: str
    title: str
    property: str
    system: Callable[[], System]
    constants: Constants


def _delivery() -> System:
    from ..systems.partitions.delivery import system

    return system


def _partitions() -> System:
    """The idempotent client, asked for an order that no partition's leader could keep."""
    from ..systems.idempotence import system

    p, q, r = PARTITION.variable("p"), PARTITION.variable("q"), RECORD.variable("r")
    one, other = element("one", log.at(p)), element("other", log.at(q))
    across = invariant(
        "OrderAcrossPartitions",
        all_of(
            p,
            all_of(
                q,
                all_of(
                    one,
                    all_of(
                        r,
                        (position(r) < position(one.record)).implies(
                            any_of(other, other.record == r)
                        ),
                    ),
                ),
            ),
        ),
        "If a partition has a record, every partition has the records before it.",
        "KIP-98: sequences are those of a partition",
    )
    return dataclasses.replace(system, properties=(across,))


NOT_PROMISED = (
    NotPromised(
        "sessions",
        "An application that starts again sends again what wasn't acknowledged, under another "
        "producer id, and no leader knows the two for one.",
        "AtMostOnce",
        _delivery,
        Cell(commit="together").constants(CLIENTS)
        | {"sessions": 2, "crashes": 0, "disconnections": 0, "consumer_crashes": 0}
        | {"extra_entries": 2},
    ),
    NotPromised(
        "partitions",
        "Sequences are counted by partition: the second record of one may be appended before the "
        "first record of another.",
        "OrderAcrossPartitions",
        _partitions,
        {"partitions": 2, "records": 2, "faults": 0, "leader_changes": 0},
    ),
)
