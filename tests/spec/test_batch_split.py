"""A batch that is split after MESSAGE_TOO_LARGE: the sequences of its parts."""

from __future__ import annotations

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Change, System, instantiate, replace
from epochfence.language.tables import Row
from epochfence.spec.changes.clients import batch_split
from epochfence.spec.client import state as client

SYSTEM = load_system("idempotence+split")
MENDED = ("idempotent_starts_at_0", "bump_when_settled", "renumbered_under_new_id")
QUIET = {"losses": 0, "delays": 0, "refusals": 0, "shortages": 0, "leader_changes": 0}
LATER = {**QUIET, "limit_changes": 1, "faults": 1}
SAFE = ("NoDuplicate", "NoLostAcknowledgement", "Order", "NoGap", "AnswerStays")


def run(
    release: str,
    constants: dict[str, int],
    on: tuple[str, ...] = (),
    properties: tuple[str, ...] = SAFE,
    system: System = SYSTEM,
) -> Result:
    """The verdict about one partition."""
    instance = instantiate(
        system, release, {"partitions": 1, **constants}, bounds="small", switch_on=on,
        properties=list(properties),
    )  # fmt: skip
    return check(instance, Options(threads=available_threads(), brief=True))


def rows(result: Result) -> list[str]:
    """The rows of the counterexample."""
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    return [step.row for step in result.trace.steps]


@pytest.mark.slow(2)
@pytest.mark.parametrize("release", ["1.0.2", "2.4", "2.6", "4.4"])
def test_parts_of_a_batch_that_nobody_appended_are_safe(release: str) -> None:
    found = run(release, {**QUIET, "limit_changes": 0, "faults": 0})
    assert found.verdict is Verdict.HOLDS
    taken = {row for row, count in found.rows if count}
    assert {"producer.ProduceWholeResponse/too-large", "producer.drain/again"} <= taken


@pytest.mark.slow(2)
def test_parts_of_a_batch_that_was_appended_are_appended_again() -> None:
    found = run("4.4", LATER, properties=("NoDuplicate",))
    assert rows(found) == [
        "new-epoch",
        "append",
        "again",
        "refuse",
        "too-large",
        "again",
        "out-of-order",
        "out-of-order-bumps-epoch",
        "bumped",
        "again",
        "append",
    ]
    assert run("2.4", LATER, properties=("NoDuplicate",)).verdict is Verdict.HOLDS
    assert run("4.4", LATER, on=MENDED).verdict is Verdict.HOLDS


@pytest.mark.slow(1)
def test_no_acknowledged_record_is_lost() -> None:
    found = run("4.4", {"limit_changes": 1}, properties=("NoLostAcknowledgement",))
    assert found.verdict is Verdict.HOLDS


def test_parts_without_sequences_of_their_own_lose_a_record() -> None:
    """Both parts with the first sequence: the second one is taken for a repetition."""
    too_large = next(row for row in batch_split.completes_whole.rows if row.id == "too-large")
    batch, other = (
        client.batches[batch_split.ProduceWholeResponse.partition][which] for which in (0, 1)
    )
    same = Row(
        "too-large",
        "Both parts have the first sequence",
        when=too_large.when,
        set={
            batch: replace(batch, status=client.QUEUED),
            other: replace(other, status=client.QUEUED, base_sequence=batch.base_sequence),
            batch_split.in_flight_whole[batch_split.ProduceWholeResponse.partition]: False,
        },
    )
    wrong = SYSTEM + Change("same-sequence", "").table("producer.ProduceWholeResponse").instead(
        "too-large", same
    )
    found = run(
        "4.4",
        {**QUIET, "limit_changes": 0, "faults": 0},
        properties=("NoLostAcknowledgement",),
        system=wrong,
    )
    assert "duplicate" in rows(found)
