"""Known bugs that leave a transaction without an end in a partition, by its remains.

Those with a run of their own are in `BUGS`; the others are in docs/findings.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ..releases.release import RELEASED
from .coordinator import BUGS as _COORDINATOR
from .leader import BUGS as _LEADER
from .products import BUGS as _PRODUCTS


class Left(Enum):
    """How a transaction lies in a partition whose end doesn't come."""

    BEHIND_ITS_MARKER = "it begins behind a marker of its producer"
    NEVER_ADDED = "the partition belongs to none of the producer's transactions"
    MARKER_LEFT_OUT = "a completed transaction has no marker here"
    MARKER_NOT_SENT = "its end is decided, and the coordinator sends no marker"


_SEEN = {bug.id: bug for bug in (*_COORDINATOR, *_LEADER, *_PRODUCTS)}


@dataclass(frozen=True)
class Cause:
    """A known bug, or finding, that leaves a transaction without an end: the releases of brokers
    that have it as text, and the effect.

    Brokers have it from the declared release `since` (None: no release had it) up to `until` (None:
    the newest). With `before_version_2` they have it only while transaction.version is 0 or 1.
    """

    name: str
    affected: str
    what: str
    since: str | None
    until: str | None = None
    before_version_2: bool = False

    def is_in(self, release: str, transaction_version: int | None = None) -> bool:
        """Whether brokers of a release have it, at this transaction.version (None: any)."""
        if self.since is None or release not in RELEASED:
            return False
        first = RELEASED.index(self.since)
        last = len(RELEASED) if self.until is None else RELEASED.index(self.until)
        is_below_2 = transaction_version is None or transaction_version < 2
        has_it = first <= RELEASED.index(release) <= last
        return has_it and (is_below_2 or not self.before_version_2)

    def __str__(self) -> str:
        return f"{self.name} ({self.affected}): {self.what}"


def _bug(name: str, since: str, until: str | None) -> Cause:
    bug = _SEEN[name]
    return Cause(name, bug.affected, bug.title, since, until)


HANGING: Final[Mapping[Left, tuple[Cause, ...]]] = {
    Left.BEHIND_ITS_MARKER: (
        _bug("KAFKA-14402", "0.11.0.0", "3.5"),
        Cause(
            "docs/findings.md 11",
            "from 4.0, after a downgrade of transaction.version, or with clients of both versions",
            "a question of version 2 answers for a batch of version 1",
            since="4.0.0",
        ),
        Cause(
            "docs/findings.md 9",
            "from 4.0, in a downgrade of transaction.version",
            "a commit that fails is aborted in the wrong version",
            since="4.0.0",
        ),
    ),
    Left.NEVER_ADDED: (_bug("KAFKA-12671", "0.11.0.0", "3.5"),),
    Left.MARKER_LEFT_OUT: (
        Cause(
            "KAFKA-20734, docs/findings.md 13",
            "from 4.3",
            "a marker is left out while a partition has no leader",
            since="4.3",
        ),
        Cause(
            "KAFKA-10080", "a trunk before 2.6", _SEEN["KAFKA-10080"].title, since=None
        ),
    ),
    Left.MARKER_NOT_SENT: (
        _bug("KAFKA-16352", "0.11.0.0", "3.7"),
        Cause(
            "docs/findings.md 8",
            "0.11.0.2 to 3.9, and 4.x with a transaction.version below 2",
            "the end of a fence comes late, and ends a later transaction",
            since="0.11.0.2", before_version_2=True,
        ),
    ),
}  # fmt: skip
