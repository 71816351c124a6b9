"""The possible causes in a diagnosis, as the table in docs/doctor.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from .evidence import Verdict


class Cause(NamedTuple):
    """A cause: its verdict, its description, and the evidence for it."""

    verdict: Verdict
    what: str
    seen_by: str


_FINE, _HANGS, _OPEN = Verdict.HEALTHY, Verdict.HANGS, Verdict.UNKNOWN

CAUSES: Final[Mapping[str, Cause]] = {
    "open": Cause(
        _FINE,
        "an ordinary open transaction",
        "its coordinator's entry is Ongoing with this partition, and its timeout isn't over",
    ),
    "never-times-out": Cause(
        _FINE,
        "an open transaction without a timeout (KIP-939): only its client ends it",
        "its timeout is 2147483647 ms",
    ),
    "timing-out": Cause(
        _FINE,
        "its timeout has just passed: the coordinator ends it in its next round",
        "its timeout has been over for less than 5 minutes",
    ),
    "overdue": Cause(
        _OPEN,
        "its timeout is long over, and its coordinator hasn't ended it",
        "Ongoing, 5 minutes after its timeout by the clock here",
    ),
    "ending": Cause(
        _FINE,
        "its end is decided, and its marker is on the way",
        "PrepareCommit or PrepareAbort with this partition, for a short time",
    ),
    "late-marker": Cause(
        _OPEN,
        "its end is decided, and its marker is late",
        "PrepareCommit or PrepareAbort with this partition, for as long as this command waited",
    ),
    "marker-not-sent": Cause(
        _HANGS,
        "its end is decided, and its marker doesn't come",
        "PrepareCommit or PrepareAbort, 5 minutes after the decision or the timeout",
    ),
    "hanging": Cause(
        _HANGS,
        "no coordinator will end it: none has this partition open for its producer",
        "the leader has had it open before and after each coordinator was asked",
    ),
    "fenced-writer": Cause(
        _HANGS,
        "no coordinator will end it: an instance wrote it that had been fenced",
        "as hanging before 3.6, in an older epoch, for which nothing was decided here",
    ),
    "older-epoch": Cause(
        _OPEN,
        "the transaction that its producer has open now will end it as well, with its result",
        "Ongoing with this partition, in a newer epoch",
    ),
    "epoch-ahead": Cause(
        _OPEN,
        "the partition has a newer epoch than the coordinator",
        "Ongoing with this partition, in an older epoch",
    ),
    "not-known": Cause(
        _OPEN,
        "whether a coordinator will end it isn't known",
        "no entry was found, and some may not have been seen",
    ),
    "hidden-records": Cause(
        _OPEN,
        "records are hidden, and the transaction in front of them wasn't found",
        "the last stable offset is below the high watermark, and nothing is open",
    ),
    "coordinator-without-leader": Cause(
        _HANGS,
        "a partition of the transaction log has no leader: no transaction of its ids can end",
        "metadata",
    ),
    "coordinator-loading": Cause(
        _OPEN,
        "a coordinator is loading its transactions: none of its ids can begin or end one",
        "ListTransactions is answered with COORDINATOR_LOAD_IN_PROGRESS",
    ),
    "no-leader": Cause(
        _OPEN,
        "a partition has no leader: what is open in it isn't known",
        "metadata",
    ),
    "leader-moving": Cause(
        _OPEN,
        "a partition's leader is moving: what is open in it isn't known",
        "an answer such as NOT_LEADER_OR_FOLLOWER, for as long as this command waited",
    ),
    "not-seen": Cause(
        _OPEN,
        "something couldn't be seen",
        "an error in an answer, or in a file",
    ),
    "sample": Cause(
        _OPEN,
        "a sample was looked at: the other partitions aren't known",
        "more than 20,000 partitions, without --all",
    ),
    "epochs-nearly-used-up": Cause(
        _FINE,
        "the epochs of a producer id are nearly used up: a new producer id follows",
        "an epoch of 32000 or more, of 32767",
    ),
    "instances-fence-each-other": Cause(
        _FINE,
        "several instances have one transactional id, or one starts again and again",
        "three or more new epochs by InitProducerId within a minute",
    ),
}
