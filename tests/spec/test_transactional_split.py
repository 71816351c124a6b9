"""A batch that is split after MESSAGE_TOO_LARGE within a transaction."""

from __future__ import annotations

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Change, System, instantiate, replace
from epochfence.language.tables import Row
from epochfence.spec.changes.clients import transactional_split as split
from epochfence.spec.client import state as client

SYSTEM = load_system("transactions+split")
SAFE = (
    "NoDuplicate", "NoLostAcknowledgement", "Atomic", "OutcomeAsReported", "Order",
    "NoHangingTransaction", "ReadCommittedStays", "MarkersMatchDecision",
)  # fmt: skip
SPLIT = "producer.ProduceWholeResponse/too-large"
LARGE_PART = "partition.part too large Produce/refuse"
ABORTABLE = "producer.ProduceResponse/abortable-adjusted"
OUT_OF_ORDER = "partition.Produce/out-of-order"


def run(
    release: str, system: System = SYSTEM, properties: tuple[str, ...] = SAFE, **constants: int
) -> Result:
    """The verdict about one client, one partition and one transaction."""
    instance = instantiate(
        system,
        release,
        {"producers": 1, "transactions": 1, **constants},
        bounds="small",
        properties=list(properties),
    )
    return check(instance, Options(threads=available_threads(), brief=True))


def taken(result: Result) -> set[str]:
    return {row for row, count in result.rows if count}


@pytest.mark.slow(1)
@pytest.mark.parametrize("release", ["1.0.2", "2.7", "4.4"])
def test_parts_in_a_transaction_are_safe(release: str) -> None:
    found = run(release, faults=1)
    assert found.verdict is Verdict.HOLDS
    assert {SPLIT, LARGE_PART, ABORTABLE, "partition.ProduceWhole/stale-epoch"} <= taken(found)


def test_parts_of_a_batch_that_was_appended_end_in_an_abort() -> None:
    """Without transactional id both records are there twice (test_batch_split)."""
    found = run("4.4", faults=0, limit_changes=1)
    assert found.verdict is Verdict.HOLDS
    assert OUT_OF_ORDER in taken(found)
    assert OUT_OF_ORDER not in taken(run("4.4", faults=0, limit_changes=0))


def test_parts_without_sequences_of_their_own_lose_a_record() -> None:
    """Both parts with the first sequence: the second one is taken for a repetition."""
    too_large = next(row for row in split.completes_whole.rows if row.id == "too-large")
    first, second = split.first_batch, split.second_batch
    same = Row(
        "too-large",
        "Both parts have the first sequence",
        when=too_large.when,
        set={
            first: replace(first, status=client.QUEUED),
            second: replace(second, status=client.QUEUED, base_sequence=first.base_sequence),
        },
    )
    change = Change("same-sequence", "").table("producer.ProduceWholeResponse")
    found = run("4.4", SYSTEM + change.instead("too-large", same), faults=0, limit_changes=0)
    assert found.verdict is Verdict.BROKEN
    assert found.trace is not None
    assert "duplicate" in [step.row for step in found.trace.steps]


def test_a_batch_of_a_stale_epoch_is_refused() -> None:
    change = Change("no-epoch", "").table("partition.ProduceWhole")
    changed = SYSTEM + change.without("stale-epoch", "transaction-over", "out-of-order")
    found = run("4.4", changed, faults=1)
    assert found.verdict is Verdict.BROKEN
