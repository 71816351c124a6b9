"""Known bugs of the coordinator: found where they were, or still are, and gone with what mends
them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import instantiate
from epochfence.spec.releases.api_versions import VERSION_1
from epochfence.spec.releases.features import NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.model.counterexamples import checked

SYSTEM = shipped("transactions")
KINDS = (
    "losses", "crashes", "timeouts", "expiries", "failovers", "append_failures", "id_expiries",
    "delays", "leader_changes",
)  # fmt: skip


@dataclass(frozen=True)
class Bug:
    """What breaks the property in `steps` steps, the last by the row `last`, with these kinds of
    faults and other constants; `mended` names the feature with which it holds."""

    breaks: str
    steps: int
    last: str
    mended: str
    faults: tuple[str, ...]
    constants: tuple[tuple[str, int], ...] = ()
    protocol: str = NEWEST
    off: tuple[str, ...] = ()

    def checked(self, *on: str) -> Result:
        """The property checked, with features switched on."""
        bounds = {"producers": 1, "partitions": 1, "transactions": 1, "faults": len(self.faults)}
        kinds = {kind: int(kind in self.faults) for kind in KINDS}
        instance = instantiate(
            SYSTEM,
            self.protocol,
            bounds | kinds | dict(self.constants),
            switch_on=on,
            switch_off=self.off,
            properties=[self.breaks],
        )
        return checked(instance)

    def found(self) -> list[str]:
        """Checks what is claimed; the steps, each as event and row."""
        result = self.checked()
        assert result.verdict is Verdict.BROKEN, result.reason
        assert result.trace is not None
        steps = [f"{step.action.partition('(')[0]}/{step.row}" for step in result.trace.steps]
        assert (result.properties[0].trace_length, steps[-1]) == (self.steps, self.last)
        assert self.checked(self.mended).verdict is Verdict.HOLDS
        return steps


def in_order(steps: list[str], *wanted: str) -> bool:
    """Whether these are among the steps, in this order."""
    rest = iter(steps)
    return all(step in rest for step in wanted)


BURNED = Bug(
    "EpochsNotWasted", 15, "continue the fence/abort-with-fence-epoch", "failed_fence_kept",
    ("append_failures", "append_failures"), (("producers", 2),), "2.5",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.long
def test_a_fence_that_cannot_be_written_burns_epochs() -> None:
    """KAFKA-9666: each attempt of a new instance takes another epoch."""
    steps = BURNED.found()
    assert steps.count("append failure/record-lost") == 1
    assert steps.count("continue the fence/abort-with-fence-epoch") == 2


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("protocol", "gives_up"), [("2.5", True), ("2.7", False)])
def test_burned_epochs_leave_a_transaction_that_nobody_can_end(
    protocol: str, gives_up: bool
) -> None:
    """KAFKA-9666: at the largest epoch nobody can fence any more."""
    faults = ("append_failures",) * 2
    bounds = (("producers", 2), ("largest_epoch", 2))
    bug = replace(BURNED, breaks="OneLiveEpoch", faults=faults, constants=bounds, protocol=protocol)
    result = bug.checked()
    assert result.verdict is Verdict.HOLDS
    taken = {name for name, count in result.rows if count}
    assert ("transaction.InitProducerId/fence-at-largest-epoch" in taken) == gives_up


EXPIRED = Bug(
    "FencedForGood", 18, "InitProducerIdResponse/ready", "unknown_id_fatal",
    ("id_expiries",), (("producers", 2), ("producer_ids", 2)), "3.6",
)  # fmt: skip
TOLD_OTHERWISE = Bug(
    "OutcomeAsReported", 30, "EndTxnResponse/abort-failed-bump",
    "unknown_id_fatal", ("id_expiries", "losses"), (("producer_ids", 2),), "3.6",
)  # fmt: skip
TAKEN_ALONG = Bug(
    "NoHangingTransaction", 31, "Produce/append", "unknown_id_fatal",
    ("id_expiries", "losses"), (("producer_ids", 2), ("transactions", 2)), "3.5",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.long
def test_a_fenced_producer_comes_back_when_the_transactional_id_has_expired() -> None:
    """KAFKA-18019: the id is unknown, for which the client asks for a new producer id."""
    steps = EXPIRED.found()
    assert in_order(
        steps,
        "log append/forgotten",
        "AddPartitionsToTxn/unknown-id",
        "InitProducerId/bump",
        "InitProducerIdResponse/ready",
    )


@pytest.mark.slow
@pytest.mark.long
def test_a_committed_transaction_is_said_to_be_aborted_when_the_id_has_expired() -> None:
    """KAFKA-18019: the answer to EndTxn was lost, and what is asked again is about nothing."""
    steps = TOLD_OTHERWISE.found()
    assert in_order(
        steps,
        "lost EndTxnResponse/sent-again",
        "log append/commit-completed",
        "log append/forgotten",
        "EndTxn/unknown-id",
        "abortTransaction/abort",
        "EndTxn/unknown-id",
    )


@pytest.mark.slow
@pytest.mark.long
def test_a_transaction_hangs_whose_partition_was_added_to_the_one_before() -> None:
    """An abort that fails for an unknown id completes nothing, and yet a new epoch follows it.

    TransactionManager.transitionToAbortableError, completeTransaction
    """
    steps = TAKEN_ALONG.found()
    assert in_order(
        steps,
        "log append/forgotten",
        "EndTxnResponse/abort-failed-bump",
        "InitProducerIdResponse/ready",
        "beginTransaction/begin",
        "drain/next-sequence",
    )
    assert steps.count("send/to-be-added") == 1


REFUSED = Bug(
    "NotFencedByItself",
    25,
    "InitProducerIdResponse/fenced",
    "last_epoch_in_log",
    ("expiries", "failovers"),
    off=VERSION_1,
)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("protocol", ["2.5", "3.6", NEWEST])
def test_a_bump_asked_for_again_across_a_failover_is_refused(protocol: str) -> None:
    """KAFKA-20357, open in the newest release: the log doesn't have the epoch before.

    With version 2 a client asks for no bump, so that only version 1 shows it.
    """
    off = VERSION_1 if protocol == NEWEST else ()
    told = "fenced" if protocol != "2.5" else "unexpected"  # PRODUCER_FENCED came with 2.7
    last = f"InitProducerIdResponse/{told}"
    steps = replace(REFUSED, protocol=protocol, off=off, last=last).found()
    assert in_order(
        steps,
        "InitProducerId/bump",
        "coordinator failover/epoch-in-log",
        "InitProducerId/stale-producer",
    )


@pytest.mark.slow
@pytest.mark.long
def test_a_bump_to_the_last_epoch_cannot_be_asked_for_again() -> None:
    """The check for used up epochs comes before the one for a retry: no release has mended it.

    TransactionMetadata.prepareIncrementProducerEpoch
    """
    bug = replace(REFUSED, faults=("expiries", "losses"), constants=(("largest_epoch", 2),))
    result = bug.checked("last_epoch_in_log")
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    assert result.trace.steps[-2].row == "exhausted-other-epoch"
    assert replace(bug, constants=()).checked().verdict is Verdict.HOLDS
