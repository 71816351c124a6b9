"""Known bugs that leave a transaction without an end in a partition, by its remains.

The releases are those of `BUGS` and `FINDINGS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ..releases.features import KAFKA, RELEASED
from . import bug_of
from .bug import Bug
from .findings import FINDINGS, Finding


class Left(Enum):
    """How a transaction lies in a partition whose end doesn't come."""

    BEHIND_ITS_MARKER = "it begins behind a marker of its producer"
    NEVER_ADDED = "the partition belongs to none of the producer's transactions"
    MARKER_LEFT_OUT = "a completed transaction has no marker here"
    MARKER_NOT_SENT = "its end is decided, and the coordinator sends no marker"
    NOT_ENDED = "its timeout is long over, and its coordinator hasn't ended it"


VERIFICATION: Final = "verification"


@dataclass(frozen=True)
class Cause:
    """A known bug or finding that leaves a transaction without an end.

    If `verification_ends_it`, brokers that verify batches (KIP-890) may have the bug, but it leaves
    nothing.
    """

    of: Bug | Finding
    verification_ends_it: bool = False

    @property
    def name(self) -> str:
        """Its name for `epochfence bugs` or `epochfence findings`."""
        return self.of.id if isinstance(self.of, Bug) else self.of.name

    @property
    def affected(self) -> str:
        """The releases that have it, in words."""
        if not self.verification_ends_it:
            return self.of.affected
        return f"{self.of.affected}; it leaves this where brokers don't verify batches"

    @property
    def run(self) -> str:
        """The command that shows its run."""
        if isinstance(self.of, Bug):
            return f"epochfence bugs {self.of.id} --chart run.svg"
        return f"epochfence findings {self.of.number}"

    def is_in(self, release: str, transaction_version: int | None = None) -> bool:
        """Whether brokers of a release have it, at this transaction.version (None: any)."""
        if release not in RELEASED:
            return False
        if self.verification_ends_it and VERIFICATION in KAFKA.features_at(release):
            return False
        if isinstance(self.of, Bug):
            return release in self.of.releases
        is_version_2 = transaction_version is not None and transaction_version >= 2
        return self.of.is_in(release, release) and not (is_version_2 and self.of.absent)

    def __str__(self) -> str:
        return f"{self.name} ({self.affected}): {self.of.title}"


def _bug(name: str, *, verification_ends_it: bool = False) -> Cause:
    return Cause(bug_of(name), verification_ends_it)


def _finding(number: int) -> Cause:
    return Cause(FINDINGS[number - 1])


HANGING: Final[Mapping[Left, tuple[Cause, ...]]] = {
    Left.BEHIND_ITS_MARKER: (
        _bug("KAFKA-14402"),
        _bug("KIP-890c", verification_ends_it=True),
        _finding(11),
        _finding(9),
    ),
    Left.NEVER_ADDED: (_bug("KAFKA-12671"),),
    Left.MARKER_LEFT_OUT: (_finding(13), _bug("KAFKA-10080")),
    Left.MARKER_NOT_SENT: (_bug("KAFKA-16352"), _finding(8)),
    Left.NOT_ENDED: (_finding(18),),
}
