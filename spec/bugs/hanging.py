"""Known bugs that leave a transaction without an end in a partition, by what lies in the files.

Those with a run of their own are in `BUGS`; the others are in docs/findings.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from .coordinator import BUGS as _COORDINATOR
from .leader import BUGS as _LEADER
from .products import BUGS as _PRODUCTS


class Left(Enum):
    """How a transaction lies in a partition whose end doesn't come."""

    BEHIND_ITS_MARKER = "it begins behind a marker of its producer"
    NEVER_ADDED = "the partition belongs to none of the producer's transactions"
    MARKER_LEFT_OUT = "a completed transaction has no marker here"


_SEEN = {bug.id: bug for bug in (*_COORDINATOR, *_LEADER, *_PRODUCTS)}


def _bug(name: str) -> str:
    bug = _SEEN[name]
    return f"{name} ({bug.affected}): {bug.title}"


HANGING: Final[Mapping[Left, tuple[str, ...]]] = {
    Left.BEHIND_ITS_MARKER: (
        _bug("KAFKA-14402"),
        "docs/findings.md 11 (from 4.0, after a downgrade of transaction.version): a question of "
        "version 2 answers for a batch of version 1",
    ),
    Left.NEVER_ADDED: (
        _bug("KAFKA-12671"),
        "docs/findings.md 9 (from 4.0, in a downgrade of transaction.version): a commit that fails "
        "is aborted in the wrong version",
    ),
    Left.MARKER_LEFT_OUT: (
        "KAFKA-20734, docs/findings.md 13 (seen at 4.3.0): a marker is left out while a partition "
        "has no leader",
        _bug("KAFKA-10080"),
    ),
}  # fmt: skip
"""Each with its name, the releases that have it, and what happens."""
