"""Known bugs, each shown by the smallest run of a shipped system that breaks a property.

Sources are commits, pull requests and proposals of Kafka, or of the product that is named.
"""

from __future__ import annotations

from ...language import DeclarationError
from ...language.declaration.arguments import one_of
from .bug import Bug as Bug
from .catalogue import (
    client,
    coordinator,
    groups,
    leader,
    producer_ids,
    products,
    reading,
    replication,
)

BUGS: tuple[Bug, ...] = (
    coordinator.BUGS
    + leader.BUGS
    + reading.BUGS
    + replication.BUGS
    + client.BUGS
    + groups.BUGS
    + producer_ids.BUGS
    + products.BUGS
)


def bug_of(name: str) -> Bug:
    """The bug that goes by that name. Raises DeclarationError where there is none."""
    wanted = name.casefold()
    for bug in BUGS:
        if wanted in map(str.casefold, (bug.id, *bug.also)):
            return bug
    known = [bug.id for bug in BUGS]
    raise DeclarationError(f"no bug is called {name}: {one_of(name, known)}")
