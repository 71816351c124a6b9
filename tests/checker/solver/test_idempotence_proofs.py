"""What is proved of an idempotent client: from lemmas that hold, and not without what protects
it."""

from __future__ import annotations

from functools import cache

import pytest

from epochfence.checker.check import Options as Search
from epochfence.checker.check import check
from epochfence.checker.solver.induction import WELL_FORMED, Induction
from epochfence.checker.solver.proofs.page import CASES
from epochfence.checker.solver.unbounded.numbers import lifted
from epochfence.checker.verdict.result import Verdict
from epochfence.language import each, instantiate
from epochfence.spec.client import state as client
from epochfence.spec.leader import state as leader
from epochfence.spec.leader.recovery import UNKNOWN
from epochfence.spec.systems.idempotence import system
from epochfence.tests.checker.solver.test_protocol_proofs import (
    UNCLEAN,
    Twin,
    assert_rows_are_there,
    convince,
    has_no_proof,
    without,
)

MENDED = ("bump_when_settled", "idempotent_starts_at_0", "renumbered_under_new_id")
ONE = {"partitions": 1}
NAMES = [item.name for item in (*system.properties, *system.lemmas)]
FORGETFUL = {
    "table": "producer.bump epoch",
    "row": "bumped",
    "updates": {client.batches: each(client.q, each(client.s, client.Batch()))},
}
FORGOTTEN = {
    "table": "partition.leader changes",
    "row": "lose-verification-state",
    "updates": {leader.producers: each(leader.n, UNKNOWN)},
}


def twin(name: str, fails: str, row: dict[str, object] | None = None, off: str = "") -> Twin:
    """A proof that fails without a row's change, or without one of the features that mend."""
    return Twin(name, fails, row or {}, on=tuple(on for on in MENDED if on != off), constants=ONE)


TWINS = (
    twin("NoDuplicate", "NumbersInOrder", off="bump_when_settled"),  # finding 1
    twin("NoDuplicate", "AppendedOrAhead", FORGOTTEN),
    twin("Order", "AppendedOrAhead", off="idempotent_starts_at_0"),  # finding 2
    twin("NoDuplicate", "EpochsFit", off="renumbered_under_new_id"),  # finding 3
    twin("NoLostAcknowledgement", "AppendedIsAnswered", UNCLEAN),
    twin("EpochForward", "EpochForward", without("partition.DelayedProduce", "stale-epoch")),
    twin("NoGap", "NoGap", without("partition.Produce", "out-of-order")),
    twin("LogStays", "LogStays", UNCLEAN),
    twin("AnswerStays", "AnswerStays", FORGETFUL),
)


def test_each_proof_has_a_twin() -> None:
    for case in (case for case in CASES if case.system == system.name):
        proved = case.properties or [item.name for item in system.properties]
        assert set(proved) == {item.name for item in TWINS}


def test_each_twin_alters_a_row_that_is_there() -> None:
    assert_rows_are_there(system, TWINS)


@pytest.mark.slow
@pytest.mark.sample(1, of="what no proof is found of")
@pytest.mark.parametrize("item", TWINS, ids=lambda item: f"{item.name}, {item.fails}")
def test_a_proof_fails_without_what_protects_the_property(item: Twin) -> None:
    assert has_no_proof(system, item, item.constants)


@cache
def induction(release: str) -> Induction:
    """All properties and lemmas, with one partition; docs/proofs.md is of two."""
    return Induction(lifted(system, release, ONE, switch_on=MENDED, properties=NAMES))


@pytest.mark.slow
@pytest.mark.sample(1, of="a proof's parts")
@pytest.mark.parametrize("release", ["2.7", "3.6", "4.3"])
@pytest.mark.parametrize("name", [*NAMES, WELL_FORMED])
def test_properties_and_lemmas_are_inductive_together(name: str, release: str) -> None:
    facts = induction(release)
    subject = facts.subject(name)
    assert subject is not None
    convince(facts.obligations(subject, [fact for fact in facts.facts if fact != name]))


@pytest.mark.slow(10)
@pytest.mark.sample(1, of="engines: proofs of releases")
@pytest.mark.parametrize("release", ["4.0.1", "4.1", "4.2"])
def test_the_proof_is_that_of_each_release_from_4_0_1_on(release: str) -> None:
    """Z3 is asked the same, word by word."""

    def asked(of: Induction) -> list[str]:
        return [
            item.certificate
            for name in (*NAMES, WELL_FORMED)
            if (subject := of.subject(name)) is not None
            for item in of.obligations(subject, [fact for fact in of.facts if fact != name])
        ]

    assert asked(induction(release)) == asked(induction("4.3"))


@pytest.mark.slow
@pytest.mark.sample(1, of="engines: lemmas")
@pytest.mark.parametrize("release", ["2.7", "4.3"])
@pytest.mark.parametrize("few", [{"partitions": 1, "faults": 4}, {"records": 2, "faults": 2}])
def test_each_lemma_is_an_invariant_to_the_explorer(few: dict[str, int], release: str) -> None:
    names = [lemma.name for lemma in system.lemmas]
    instance = instantiate(system, release, few, switch_on=MENDED, properties=names)
    assert check(instance, Search(threads=2)).verdict is Verdict.HOLDS
