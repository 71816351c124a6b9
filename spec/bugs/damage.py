"""The damage that a bug does, the worst first."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Damage(Enum):
    """The damage as an application meets it."""

    LOST = "acknowledged records are lost"
    WRONG_OUTCOME = "records of an abort are committed, or those of a commit aborted"
    TORN = "a transaction is committed in part"
    DUPLICATED = "records are in the log twice, or are counted twice"
    REORDERED = "records of one producer are in another order"
    MISREAD = "a read_committed consumer reads records that it mustn't, or misses some"
    STUCK = "a partition's last stable offset stands still"
    STOPPED = "a producer fails, or a call doesn't return"
    WASTED = "epochs or producer ids are used up too fast"


DAMAGES: Final = {
    "NoLostAcknowledgement": Damage.LOST,
    "NoneSkipped": Damage.LOST,
    "AcknowledgedKept": Damage.LOST,
    "ConsumedKept": Damage.LOST,
    "ReplicasAgree": Damage.MISREAD,
    "FollowerInLine": Damage.MISREAD,
    "OutcomeAsReported": Damage.WRONG_OUTCOME,
    "MarkersMatchDecision": Damage.WRONG_OUTCOME,
    "AnswerStands": Damage.WRONG_OUTCOME,
    "EndsAsItBegan": Damage.WRONG_OUTCOME,
    "ReservedEpoch": Damage.WRONG_OUTCOME,
    "FencedForGood": Damage.WRONG_OUTCOME,
    "Atomic": Damage.TORN,
    "NoDuplicate": Damage.DUPLICATED,
    "CountedOnce": Damage.DUPLICATED,
    "AnsweredKept": Damage.DUPLICATED,
    "MemoryIsReplay": Damage.DUPLICATED,
    "NoZombieOffset": Damage.DUPLICATED,
    "HandedOutOnce": Damage.DUPLICATED,
    "Order": Damage.REORDERED,
    "OnlyCommitted": Damage.MISREAD,
    "FiltersAborted": Damage.MISREAD,
    "TombstoneInTime": Damage.MISREAD,
    "NotForEver": Damage.MISREAD,
    "NoOpenRange": Damage.STUCK,
    "NoHangingTransaction": Damage.STUCK,
    "OpenIsOwned": Damage.STUCK,
    "PrepareCompletes": Damage.STUCK,
    "NotFencedByItself": Damage.STOPPED,
    "AnswersOnlyAsHeard": Damage.STOPPED,
    "BumpedOnce": Damage.WASTED,
    "EpochsNotWasted": Damage.WASTED,
    "OneEpochForADecision": Damage.WASTED,
    "OneBlockAhead": Damage.WASTED,
}
"""The damage of a run that breaks a property."""
