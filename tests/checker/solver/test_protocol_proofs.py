"""Kafka's own systems: what is proved of them, from lemmas that hold, and fails without what
protects it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from epochfence.checker.check import Options as Search
from epochfence.checker.check import check
from epochfence.checker.solver.induction import WELL_FORMED, Induction
from epochfence.checker.solver.obligations import Obligation, settle
from epochfence.checker.solver.proofs.page import CASES
from epochfence.checker.solver.prove import Options, prove
from epochfence.checker.solver.unbounded.numbers import lifted
from epochfence.checker.verdict.result import Verdict
from epochfence.language import System, each, instantiate, sequence_of, some
from epochfence.language import replace as changed
from epochfence.spec.coordinator import entry
from epochfence.spec.coordinator.state_manager.log import logged_epoch
from epochfence.spec.leader import state as leader
from epochfence.spec.leader.recovery import UNKNOWN
from epochfence.spec.lemmas.transactions import (
    batches,
    clients,
    completion,
    coordinator,
    leaders,
    numbers,
    outcomes,
    rivals,
)
from epochfence.spec.producer_ids import controller as rpc
from epochfence.spec.replication import state as replicas
from epochfence.spec.systems import shipped
from epochfence.spec.systems.partitions.replication import system as replication
from epochfence.spec.systems.producer_ids import system as producer_ids
from epochfence.spec.systems.transactions import system as transactions
from epochfence.tests.checker.solver.proofs.test_page import ROW, parts
from epochfence.tests.checker.solver.test_prove import another_solver
from epochfence.tests.spec.alterations import altered

FEW_IDS = {"largest_producer_id": 2}
MENDED = ("block_current_once_written",)  # from 3.0
QUICK = Options(timeout=20, depth=1, most=1, spacer=False)


@dataclass(frozen=True)
class Twin:
    """A property, and what breaks its proof: a row that is altered, a feature that is switched off
    or a release. The fact `fails` isn't inductive any more then, even with these `constants`."""

    name: str
    fails: str
    row: dict[str, Any] = field(default_factory=dict[str, Any])
    release: str | None = None
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    constants: dict[str, int] = field(default_factory=dict[str, int])


def without(table: str, row: str) -> dict[str, Any]:
    """The row taken away."""
    return {"table": table, "row": row, "when": False}


def assert_rows_are_there(system: System, twins: Iterable[Twin]) -> None:
    """All twins at once: of their proofs, a sample is tried."""
    for twin in twins:
        if twin.row:
            altered(system, **twin.row)  # or a LookupError


def has_no_proof(system: System, twin: Twin, constants: Mapping[str, int] | None = None) -> bool:
    """Whether the twin's fact isn't inductive in some case, with all lemmas assumed."""
    broken = altered(system, **twin.row) if twin.row else system
    names = dict.fromkeys([twin.fails, *(lemma.name for lemma in system.lemmas)])
    instance = lifted(
        broken, twin.release, constants, switch_on=twin.on, switch_off=twin.off, properties=names
    )
    induction = Induction(instance)
    subject = induction.subject(twin.fails)
    assert subject is not None
    items = induction.obligations(subject, [fact for fact in induction.facts if fact != twin.fails])
    return any(settle(item, 60).verdict == "sat" for item in items)


def convince(items: Iterable[Obligation]) -> None:
    """Z3 of all of them, and cvc5 of the last one's certificate."""
    certificate = ""
    for item in items:
        assert settle(item, 60).verdict == "unsat", item.case
        certificate = item.certificate
    assert not certificate or another_solver(certificate) == "unsat"


# Producer ids ------------------------------------------------------------------------------------


@pytest.mark.slow(10)
@pytest.mark.long
@pytest.mark.parametrize("release", ["2.7", "3.5", "4.3"])
def test_a_producer_id_is_handed_out_once(release: str) -> None:
    """An invariant and a property of steps, with all lemmas that they need."""
    wanted = ["HandedOutOnce", "StoreForward"]
    result = prove(
        producer_ids, release, FEW_IDS, properties=wanted, switch_on=MENDED, options=QUICK
    )
    assert result.verdict is Verdict.HOLDS
    assert result.open == ("block_size",)
    assert {"BlocksApart", "NotLeftOver"} <= {proof.name for proof in result.lemmas}


# A block stays in reserve when it is taken, is given to two, or handed out twice; the store goes
# back; a block is in use before it is written (KAFKA-12620); a write needs no version.
PRODUCER_ID_TWINS = (
    Twin(
        "HandedOutOnce", "BlocksApart",
        {"table": "rpc_manager.take the prefetched block", "row": "take",
         "updates": {rpc.prefetched: rpc.prefetched}},
    ),
    Twin(
        "HandedOutOnce", "RecordedAsTaken",
        {"table": "controller.commit", "row": "answer", "updates": {rpc.committed: rpc.committed}},
    ),
    Twin(
        "HandedOutOnce", "NotLeftOver",
        {"table": "rpc_manager.generateProducerId", "row": "id",
         "updates": {rpc.next_producer_id: rpc.next_producer_id}},
    ),
    Twin(
        "StoreForward", "StoreForward",
        {"table": "controller.fail over", "row": "records-lost", "updates": {rpc.committed: 0}},
    ),
    Twin("HandedOutOnce", "CurrentOnceReady", release="2.7"),
    Twin(
        "StoreForward", "StoreForward", without("zookeeper.SetData", "bad-version"), "2.7",
        MENDED,
    ),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.sample(1, of="what no proof is found of")
@pytest.mark.parametrize("twin", PRODUCER_ID_TWINS, ids=lambda twin: f"{twin.name}, {twin.fails}")
def test_a_proof_of_producer_ids_fails_without_what_protects_it(twin: Twin) -> None:
    assert has_no_proof(producer_ids, twin, FEW_IDS)


# Replication -------------------------------------------------------------------------------------

CLEAN = {"power_losses": 0, "unclean_elections": 0}
LEAST = {"records": 1, **CLEAN}
REPLICATION_TWINS = (
    Twin(
        "AcknowledgedKept", "AcknowledgedInSync",
        {"table": "replica.maybeShrinkIsr", "row": "remove-replica",
         "updates": {replicas.in_sync: replicas.in_sync}},
    ),
    Twin("ConsumedKept", "ConsumedInSync", off=("high_watermark_waits",)),
    Twin("ReplicasAgree", "CommittedInSync", off=("isr_from_epoch_start",)),
    Twin("ReplicasAgree", "FetchedThere", off=("leader_epoch_checked",)),
    Twin("FollowerInLine", "FollowerInLine", off=("epoch_asked_again",)),
    Twin("FollowerInLine", "FollowerInLine", off=("truncated_by_epoch",)),
    Twin(
        "EpochsInOrder", "EpochsKnown",
        {"table": "replica.LeaderAndIsr", "row": "lead",
         "updates": {replicas.leader_epoch: replicas.newest_epoch - 1}},
    ),
    Twin(
        "OneLeader", "LeaderElected",
        {"table": "registration.elect", "row": "in-sync-replica",
         "updates": {replicas.newest_epoch: replicas.newest_epoch}},
    ),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.sample(1, of="what no proof is found of")
@pytest.mark.parametrize(
    "twin", REPLICATION_TWINS, ids=lambda twin: f"{twin.name}, {twin.fails}, {twin.off}"
)
def test_a_proof_of_replication_fails_without_what_protects_it(twin: Twin) -> None:
    assert has_no_proof(replication, twin, CLEAN)


@cache
def of_replicas() -> Induction:
    """All properties and lemmas of replication, with one record; docs/proofs.md is of two."""
    names = [item.name for item in (*replication.properties, *replication.lemmas)]
    return Induction(lifted(replication, None, LEAST, properties=names))


@pytest.mark.slow
@pytest.mark.sample(1, of="a proof's parts")
@pytest.mark.parametrize(
    "name", [item.name for item in (*replication.properties, *replication.lemmas)]
)
def test_properties_and_lemmas_of_replication_are_inductive_together(name: str) -> None:
    induction = of_replicas()
    subject = induction.subject(name)
    if subject is not None:  # with one record a log has no order to break
        others = [fact for fact in induction.facts if fact != name]
        convince(induction.obligations(subject, others))


def test_elections_are_any_number_in_the_proof_of_replication() -> None:
    left_open = lifted(replication, None, CLEAN).open
    assert [constant.name for constant in left_open] == ["leader_epochs", "crashes"]


# Transactions ------------------------------------------------------------------------------------

ONE = {"producers": 1, "partitions": 1, "transactions": 1}
TWO = {"partitions": 1, "transactions": 1}
OPEN_FROM_THE_START = changed(leader.producers[leader.n], current_txn_first_offset=some(0))
UNCLEAN = {
    "table": "partition.leader changes",
    "row": "lose-verification-state",
    "updates": {leader.log: sequence_of()},
}
"""The new leader has nothing of what was in the log."""
REOPENED = {
    "table": "partition.leader changes",
    "row": "lose-verification-state",
    "updates": {leader.producers: each(leader.n, OPEN_FROM_THE_START)},
}
TWINS = (
    Twin(
        "DeclaredTransitions", "PendingFits",
        without("transaction.InitProducerId", "prepared"),
    ),
    Twin("EpochForward", "EpochForward", without("partition.WriteTxnMarkers", "stale-epoch")),
    Twin(
        "OneLiveEpoch", "OneHolder",
        {"table": "transaction.InitProducerId", "row": "increment-epoch",
         "updates": {entry.pending_epoch: entry.producer_epoch}},
    ),
    Twin("MarkersMatchDecision", "MarkersMatchDecision", off=("strict_marker_epoch",)),
    Twin("NoHangingTransaction", "OpenIsLive", off=("verification",)),
    Twin(
        "NoDuplicate", "Remembered",
        {"table": "partition.leader changes", "row": "lose-verification-state",
         "updates": {leader.producers: each(leader.n, UNKNOWN)}},
    ),
    Twin("Order", "Admitted", without("transaction.AddPartitionsByLeader", "other-epoch")),
    Twin("ZombieFenced", "Admitted", without("transaction.AddPartitionsByLeader", "other-epoch")),
    Twin("ReservedEpoch", "GivenOut", off=("overflow_answered",)),
    Twin("AnswerStands", "AnswerStands", off=("rotation_in_log",)),
    Twin("BumpedOnce", "EndCarriesPair", without("transaction.EndTxn", "other-epoch")),
    Twin(
        "EpochsNotWasted", "EpochsNotWasted",
        {"table": "transaction.append failure", "row": "record-lost",
         "updates": {entry.producer_epoch: entry.producer_epoch + 2}},
    ),
    Twin("StableOffsetForward", "StableOffsetForward", REOPENED, constants=ONE),
    Twin("ReadCommittedStays", "ReadCommittedStays", UNCLEAN, constants=ONE),
    Twin(
        "FencedForGood", "EndCarriesPair", without("transaction.EndTxn", "other-epoch"),
        constants=ONE,
    ),
    Twin("NoLostAcknowledgement", "InLogIfAcknowledged", UNCLEAN, constants=ONE),
    Twin("Atomic", "EndedAsDecided", off=("strict_marker_epoch",), constants=ONE),
    Twin(
        "OutcomeAsReported", "EndAsAsked", without("transaction.EndTxn", "commit-during-fence"),
        constants=ONE,
    ),
    Twin(
        "EpochsInTurn", "NextEpochPrepared",
        {"table": "transaction.InitProducerId", "row": "increment-epoch",
         "updates": {entry.pending_epoch: entry.producer_epoch + 2}},
        constants=ONE,
    ),
    Twin(
        "OneEpochForADecision", "NextEpochPrepared", off=("single_fence_bump",), constants=ONE
    ),
    Twin("MarkersMatchDecision", "MarkersMatchDecision", release="4.1", constants=ONE),
    Twin(
        "EpochsNotWasted", "EpochsNotWasted", release="3.6", off=("failed_fence_kept",),
        constants=ONE,
    ),
)  # fmt: skip

# before version 2: an answer skips an epoch, or is given to two; the largest one is given; the
# coordinator goes back; a leader doesn't ask, or gets a yes for an older epoch or producer id; a
# new leader knows no producer
_FORGETS = {
    "table": "partition.leader changes",
    "row": "lose-verification-state",
    "updates": {leader.producers: each(leader.n, UNKNOWN)},
}
_SKIPS = {
    "table": "transaction.InitProducerId",
    "row": "retry-of-bump",
    "updates": {entry.pending_epoch: entry.producer_epoch + 1},
}
_GIVEN_TWICE = {
    "table": "transaction.InitProducerId",
    "row": "increment-epoch",
    "updates": {entry.pending_epoch: entry.producer_epoch},
}
_GOES_BACK = {
    "table": "transaction.coordinator failover",
    "row": "no-new-record",
    "updates": {entry.producer_epoch: logged_epoch - 1},
}
OLDER_TWINS = (
    *(
        Twin(name, fails, row, release, constants=ONE)
        for release in ("2.5", "3.6")
        for name, fails, row in (
            ("NoDuplicate", "Remembered", _FORGETS),
            ("ReadCommittedStays", "ReadCommittedStays", UNCLEAN),
            ("BumpedOnce", "InitGivesNext", _SKIPS),
            ("AnswerStands", "AnswerStands", _GOES_BACK),
            (
                "ReservedEpoch", "NextEpochPrepared",
                without("transaction.InitProducerId", "rotate-producer-id"),
            ),
        )
    ),
    *(
        Twin("OneLiveEpoch", "OneHolder", _GIVEN_TWICE, release, constants=TWO)
        for release in ("2.5", "3.6")
    ),
    Twin(
        "NoHangingTransaction", "NoHangingTransaction", release="3.6", off=("verification",),
        constants=ONE,
    ),
    Twin(
        "ZombieFenced", "Admitted",
        without("transaction.AddPartitionsByLeader", "verify-other-epoch"), "3.6", constants=ONE,
    ),
    Twin(
        "Order", "Admitted",
        without("transaction.AddPartitionsByLeader", "verify-other-producer-id"), "3.6",
        constants=ONE,
    ),
    Twin(
        "Order", "LiveIsNewest",
        without("transaction.AddPartitionsByLeader", "verify-other-epoch"), "3.6", constants=TWO,
    ),
)  # fmt: skip

ONLY_MENDED = ("late_fence_end_refused",)  # finding 8 breaks it
ALONE = ("NotFencedByItself", *(lemma.name for lemma in rivals.LEMMAS))
ALONE_TWINS = (
    Twin(
        "NotFencedByItself",
        "LoneEnd",
        without("transaction.EndTxn", "already-complete"),
        on=ONLY_MENDED,
        constants=ONE,
    ),
    Twin(
        "NotFencedByItself", "LoneEpoch", on=ONLY_MENDED, off=("single_fence_bump",), constants=ONE
    ),
)

PROVED = tuple(dict.fromkeys(twin.name for twin in TWINS))


@pytest.mark.parametrize(
    ("system", "twins"),
    [
        ("transactions", (*TWINS, *OLDER_TWINS, *ALONE_TWINS)),
        ("producer-ids", PRODUCER_ID_TWINS),
        ("replication", REPLICATION_TWINS),
    ],
)
def test_each_proof_has_a_twin(system: str, twins: tuple[Twin, ...]) -> None:
    """Those of progress have theirs in test_ranked_transactions.py."""
    progress = {item.name for item in shipped(system).progress}
    for case in CASES:
        if case.system == system:
            of_case = [twin for twin in twins if twin.release in (None, case.protocol)]
            assert {*(case.properties or ())} - progress <= {twin.name for twin in of_case}
            assert {*(case.properties or ())} & progress <= {"PrepareCompletes"}
    assert_rows_are_there(shipped(system), twins)


@pytest.mark.slow
@pytest.mark.sample(1, of="what no proof is found of")
@pytest.mark.parametrize(
    "twin",
    [*TWINS, *OLDER_TWINS, *ALONE_TWINS],
    ids=lambda twin: f"{twin.name}, {twin.release}, {twin.off}",
)
def test_a_proof_fails_without_what_protects_the_property(twin: Twin) -> None:
    assert has_no_proof(transactions, twin, twin.constants)


TOGETHER = (*PROVED, *(lemma.name for lemma in transactions.lemmas))


@cache
def together(*on: str) -> Induction:
    """All of these, with one client and one of each, where a proof takes less; docs/proofs.md is of
    two."""
    names = dict.fromkeys((*TOGETHER, *(ALONE if on else ())))
    return Induction(lifted(transactions, None, ONE, switch_on=on, properties=names))


@pytest.mark.slow
@pytest.mark.sample(1, of="a proof's parts")
@pytest.mark.parametrize(
    ("name", "on"),
    [
        *((name, ()) for name in (*TOGETHER, WELL_FORMED)),
        *((name, ONLY_MENDED) for name in ALONE),
    ],
)
def test_properties_and_all_lemmas_of_transactions_are_inductive_together(
    name: str, on: tuple[str, ...]
) -> None:
    induction = together(*on)
    subject = induction.subject(name)
    if subject is not None:  # no row can break the others
        others = [fact for fact in induction.facts if fact != name]
        convince(induction.obligations(subject, others))


@cache
def of_section(at: int) -> Induction:
    """The properties and lemmas of a section of docs/proofs.md, with two clients and one
    transaction, where a proof takes less."""
    return Induction(lifted(transactions, CASES[at].protocol, TWO, properties=TOLD[at]))


TOLD = {
    at: [row["name"] for row in ROW.finditer(part) if row["name"] != WELL_FORMED]
    for at, (case, part) in enumerate(zip(CASES, parts(), strict=False))
    if case.system == "transactions" and case.protocol in ("2.5", "3.6")
}
"""The facts in the sections of releases before version 2, by the sections' places."""


@pytest.mark.slow
@pytest.mark.sample(1, of="a proof's parts")
@pytest.mark.parametrize(
    ("at", "name"), [(at, name) for at, names in TOLD.items() for name in names]
)
def test_what_a_section_tells_is_inductive_together_before_version_2(at: int, name: str) -> None:
    induction = of_section(at)
    subject = induction.subject(name)
    if subject is not None:  # no row can break the others
        convince(induction.obligations(subject, [f for f in induction.facts if f != name]))


@pytest.mark.slow(3)
@pytest.mark.sample(1, of="a proof's parts")
@pytest.mark.parametrize("release", ["4.0.1", "4.1", "4.2"])
def test_a_client_stays_fenced_as_the_largest_epoch_is_one_clients(release: str) -> None:
    """Until 4.2 a client may get the largest epoch, and its coordinator may lose the next id."""
    names = ["FencedForGood", *(lemma.name for lemma in transactions.lemmas)]
    induction = Induction(lifted(transactions, release, TWO, properties=names))
    subject = induction.subject("FencedForGood")
    assert subject is not None
    others = [fact for fact in induction.facts if fact not in (subject.name, "LastEpochsAlone")]
    of_answer = "producer.EndTxnResponse/ended-new-epoch (producer0)"
    (without,) = (o for o in induction.obligations(subject, others) if o.case == of_answer)
    assert settle(without, 60).verdict == "sat"
    others.append("LastEpochsAlone")
    (with_it,) = (o for o in induction.obligations(subject, others) if o.case == of_answer)
    convince([with_it])


@pytest.mark.slow(5)
@pytest.mark.long
def test_epochs_are_not_wasted() -> None:
    """The one property of transactions that needs no lemma, so that its proof is soon whole."""
    result = prove(transactions, properties=["EpochsNotWasted"], options=QUICK)
    assert result.verdict is Verdict.HOLDS
    assert result.open == ("largest_epoch", "faults")
    assert not result.lemmas


# Lemmas ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.sample(1, of="engines: lemmas")
@pytest.mark.parametrize(
    ("system", "release", "on", "constants"),
    [
        (producer_ids, "2.7", MENDED, {"block_size": 2, "faults": 2}),
        (
            producer_ids, "4.3", (),
            {"block_size": 2, "largest_producer_id": 3, "prefetch_threshold": 0},
        ),
        (transactions, "4.3", (), {"partitions": 1, "transactions": 1}),
        (
            transactions, "4.2", (),
            {"partitions": 1, "transactions": 1, "largest_epoch": 2, "producer_ids": 2},
        ),
        (
            transactions, "4.3", ONLY_MENDED,
            {"producers": 1, "partitions": 1, "transactions": 1, "largest_epoch": 2, "faults": 3},
        ),
        *(
            (transactions, release, (), {"partitions": 1, "largest_epoch": 2, **more})
            for release in ("2.5", "3.6")
            for more in ({"producers": 1, "faults": 2}, {"transactions": 1})
        ),
        (replication, "4.3", (), {"records": 1, "leader_epochs": 2}),
    ],
    ids=[
        "producer-ids 2.7", "producer-ids", "transactions", "transactions 4.2", "a lone client",
        "2.5, a client", "2.5, two clients", "3.6, a client", "3.6, two clients", "replication",
    ],
)  # fmt: skip
def test_each_lemma_is_an_invariant_to_the_explorer(
    system: System, release: str, on: tuple[str, ...], constants: dict[str, int]
) -> None:
    names = [lemma.name for lemma in system.lemmas]
    instance = instantiate(system, release, constants, switch_on=on, properties=names)
    result = check(instance, Search(threads=2, deadlock=False))  # before 4.0 a client may be stuck
    assert result.verdict is Verdict.HOLDS
    assert [item.name for item in result.properties] == names


def test_lemmas_are_of_the_coordinator_its_clients_leaders_and_batches() -> None:
    parts = coordinator, clients, leaders, batches, numbers, completion, outcomes, rivals
    names = [item.name for part in parts for item in part.LEMMAS]
    assert [item.name for item in transactions.lemmas] == names
    assert all(lemma.kind == "invariant" and lemma.sentence for lemma in transactions.lemmas)
