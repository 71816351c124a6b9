"""What releases do that no bug of the gallery is about, and releases side by side in one system."""

from __future__ import annotations

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import DeclarationError, instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.spec.bugs.bug import transactions
from epochfence.spec.releases.features import KAFKA, NEWEST
from epochfence.spec.systems import SHIPPED, shipped

SYSTEM = shipped("transactions")
ONE_ANSWER_LOST = transactions(transactions=2, faults=2, losses=1, expiries=1)


@pytest.mark.slow(8)
@pytest.mark.long
@pytest.mark.parametrize("release", ["0.11.0.0", "0.11.0.2"])
def test_a_client_before_1_0_uses_the_sequence_of_an_expired_batch_again(release: str) -> None:
    """TransactionManager.incrementSequenceNumber: only once a batch is acknowledged. The leader has
    the sequence, and acknowledges a record of the next transaction that it doesn't write."""
    name = "NoLostAcknowledgement"
    broken = instantiate(SYSTEM, release, ONE_ANSWER_LOST, properties=[name])
    result = check(ending_anywhere(broken), Options(brief=True))
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    rows = [step.row for step in result.trace.steps]
    assert "in-retry-sequence-reused" in rows
    mended = instantiate(
        SYSTEM, release, ONE_ANSWER_LOST, switch_on=["sequence_used_when_sent"], properties=[name]
    )
    assert check(ending_anywhere(mended), Options(brief=True)).verdict is Verdict.HOLDS


def test_who_agrees_on_a_feature_has_it_only_where_all_have_it() -> None:
    """KIP-890: version 2 needs client, coordinator and leader."""
    protocols = SYSTEM.protocols
    for part in protocols.parts:
        assert "transaction_version_2" not in protocols.features_at(f"4.3+{part}=3.9")
    assert "strict_marker_epoch" in protocols.features_at("4.3+client=3.9")
    assert "strict_marker_epoch" not in protocols.features_at("4.3+leader=3.9")
    assert "unknown_id_fatal" not in protocols.features_at("4.3+client=3.9")


@pytest.mark.slow(5)
@pytest.mark.long
@pytest.mark.parametrize(
    ("protocol", "name", "verdict"),
    [
        ("4.2+coordinator=4.3", "ReservedEpoch", Verdict.HOLDS),
        ("4.2+leader=4.3", "ReservedEpoch", Verdict.BROKEN),
        ("4.3+client=3.9", "FencedForGood", Verdict.BROKEN),
        ("3.9+client=4.3", "FencedForGood", Verdict.HOLDS),
    ],
)
def test_a_mixture_has_the_bugs_of_its_parts(protocol: str, name: str, verdict: Verdict) -> None:
    instance = instantiate(SYSTEM, protocol, bounds="small", properties=[name])
    assert check(ending_anywhere(instance), Options(brief=True)).verdict is verdict


NEW_IN_4_4 = {
    "calls": "KIP-1319",
    "group-offsets": "KAFKA-20634",
    "producer-ids": "KAFKA-20114",
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_system_differs_at_4_4_only_where_kafka_does(name: str) -> None:
    """What holds at 4.3 holds at 4.4 in all others: Kafka's classes don't differ there."""
    system = shipped(name)
    alike = system.first_alike(("4.3", "4.4"))["4.4"] == "4.3"
    assert alike is (name not in NEW_IN_4_4)
    assert system.protocols.newest == NEWEST == "4.4"


def test_a_system_knows_its_own_parts_alone() -> None:
    assert shipped("idempotence").protocols.parts == ("client", "leader")
    with pytest.raises(DeclarationError, match="no part is called coordinator"):
        instantiate(shipped("idempotence"), "3.9+coordinator=3.6")
    every = {part for info in KAFKA.infos for part in info.parts}
    assert every == set(KAFKA.parts)
