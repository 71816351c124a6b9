"""What is decided is completed, for any epoch and any number of faults: why, and what that needs.

With one of each, where a proof takes less; docs/proofs.md is of two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

from epochfence.checker.solver.induction import Induction
from epochfence.checker.solver.obligations import settle
from epochfence.checker.solver.ranking import Ranked, ranked
from epochfence.checker.solver.unbounded.numbers import lifted
from epochfence.language import Event, System, if_, instantiate, position, ranking, size, some
from epochfence.language.expressions import Operand
from epochfence.spec.coordinator.entry import next_id, partitions, producer_epoch
from epochfence.spec.coordinator.markers import marker_connection, send_marker
from epochfence.spec.coordinator.state_manager.log import begin_completion, log_append
from epochfence.spec.lemmas.transactions import completion
from epochfence.spec.messages import (
    EndTxnResponse,
    InitProducerIdResponse,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
    offered_id,
)
from epochfence.spec.systems.transactions import system
from epochfence.tests.checker.plain_progress import Graph, explored
from epochfence.tests.checker.solver.plain_ranking import faults
from epochfence.tests.checker.solver.test_protocol_proofs import (
    Twin,
    assert_rows_are_there,
    has_no_proof,
)
from epochfence.tests.spec.alterations import altered

NAME = "PrepareCompletes"
ONE = {"producers": 1, "partitions": 1, "transactions": 1}


@dataclass(frozen=True)
class Need:
    """What the proof needs: the system without it, a case that then fails; a lemma that isn't
    assumed, as it doesn't hold then, and a feature that is switched off."""

    system: System
    case: str
    lemma: str = ""
    off: tuple[str, ...] = field(default=())


def fails(need: Need) -> list[str]:
    """The cases in which the ranking isn't as it must be, with all other lemmas assumed."""
    names = [lemma.name for lemma in need.system.lemmas if lemma.name != need.lemma]
    instance = lifted(
        need.system, None, ONE, switch_off=need.off, properties=dict.fromkeys([NAME, *names])
    )
    assert {"largest_epoch", "faults"} <= {info.name for info in instance.open}
    induction = Induction(instance)
    (item,) = ranked(induction)[NAME]
    return _not_unsat(item, induction)


def _not_unsat(item: Ranked, induction: Induction) -> list[str]:
    asked = item.obligations(NAME, list(induction.facts))
    return [case.case for case in asked if settle(case, 60).verdict != "unsat"]


@pytest.mark.slow(10)
@pytest.mark.sample(1, of="a proof's parts")
def test_what_is_decided_is_completed() -> None:
    assert fails(Need(system, "")) == []


EARLIER = ("4.0.1", "4.1", "4.2")
BY_RELEASE = (
    "PendingFits", "NextEpochPrepared", "GivenOut", "BatchGivenOut", "Admitted", "MarkerEnds",
)  # fmt: skip


@pytest.mark.slow(10)
@pytest.mark.sample(1, of="a proof at an earlier release")
@pytest.mark.parametrize("release", EARLIER)
@pytest.mark.parametrize("name", [NAME, *BY_RELEASE])
def test_so_it_is_before_a_producer_id_outlives_a_failover(name: str, release: str) -> None:
    """The ranking, and each lemma that has less to say then."""
    names = dict.fromkeys([NAME, *(lemma.name for lemma in system.lemmas)])
    induction = Induction(lifted(system, release, ONE, properties=names))
    if name == NAME:
        (item,) = ranked(induction)[NAME]
        assert _not_unsat(item, induction) == []
        return
    subject = induction.subject(name)
    assert subject is not None
    facts = [fact for fact in induction.facts if fact != name]
    asked = list(induction.obligations(subject, facts))
    assert asked
    assert {settle(each, 60).verdict for each in asked} == {"unsat"}


def unfair(*events: Event) -> System:
    """The system in which these events need never happen. A reduction copies an event, so they are
    found by name."""
    names = {event.name for event in events}
    assert names <= {item.event.name for item in system.fairness}
    left = tuple(item for item in system.fairness if item.event.name not in names)
    return replace(system, fairness=left)


def other(*rank: Operand) -> System:
    """The system with another ranking."""
    helpful = completion.prepare_completes.helpful
    return replace(system, rankings=(ranking(NAME, rank, helpful),))


HELP = "something helpful is possible"
NEEDS = {
    "that a completion begins": Need(unfair(begin_completion), HELP),
    "that the log appends": Need(unfair(log_append), HELP),
    "that markers are sent": Need(unfair(send_marker), HELP),
    "that markers arrive": Need(unfair(WriteTxnMarkers), HELP),
    "that their answers arrive": Need(unfair(WriteTxnMarkersResponse), HELP),
    "that late answers to an end arrive": Need(unfair(EndTxnResponse), HELP),
    "that late answers to a fence arrive": Need(unfair(InitProducerIdResponse), HELP),
    "the row that sends": Need(
        altered(system, table="transaction.send marker", row="send", when=False), HELP
    ),
    "an answer that counts": Need(
        altered(
            system,
            table="transaction.WriteTxnMarkersResponse",
            row="written",
            updates={partitions: partitions},
        ),
        "transaction.WriteTxnMarkersResponse/written (partition0): raises the rank",
    ),
    "that leaders refuse nothing": Need(
        system,
        "transaction.WriteTxnMarkersResponse/retry (partition0): raises the rank",
        "MarkerWritten",
    ),
    "that no marker gets lost unseen": Need(system, HELP, "MarkerInFlight"),
    "one request of a client at a time": Need(
        system,
        "transaction.EndTxn/already-prepared (producer0): ends begin completion",
        "OneRequest",
    ),
    "that faults come to an end": Need(
        replace(system, budgets={}),
        "transaction.coordinator failover/no-new-record: raises the rank",
    ),
    "that a late answer cancels its own completion": Need(
        system,
        HELP,
        off=("own_completion_cancelled",),  # KAFKA-16352
    ),
    "a rank that falls": Need(
        other(0), "transaction.send marker/send (partition0): doesn't lower the rank"
    ),
    "a rank that doesn't rise": Need(
        other(producer_epoch + 1 - size(partitions)),
        "transaction.WriteTxnMarkersResponse/written (partition0): raises the rank",
    ),
}


@pytest.mark.slow(15)
@pytest.mark.sample(1, of="what no proof is found of")
@pytest.mark.parametrize("what", NEEDS)
def test_without_what_it_needs_there_is_no_proof_and_the_row_is_named(what: str) -> None:
    assert NEEDS[what].case in fails(NEEDS[what])


def marker_row(name: str) -> Any:
    """A row of a leader's on a marker."""
    (table,) = (table for table in system.tables if table.name == "partition.WriteTxnMarkers")
    return next(row for row in table.rows if row.id == name)


# What breaks the lemmas: a leader that refuses the honest retry of a marker, a loss after which
# nothing is sent again, a failover that leaves the old term's connections open, an epoch given
# again; where a failover loses a producer id, that id handed out again; where a question outlives a
# marker, an old batch whose epoch nobody looks at
_lost = position(next_id.value)
TWINS = (
    Twin(
        NAME, "MarkerWritten",
        {"table": "partition.WriteTxnMarkers", "row": "no-transaction",
         "reply": marker_row("coordinator-fenced").reply},
    ),
    Twin(
        NAME, "MarkerInFlight",
        {"table": "transaction.lost WriteTxnMarkers", "row": "send-again", "send": ()},
    ),
    Twin(
        NAME, "MarkerOfTerm",
        {"table": "transaction.coordinator failover", "row": "no-new-record",
         "updates": {marker_connection: marker_connection}},
    ),
    Twin(
        NAME, "LeaderBehind",
        {"table": "transaction.log append", "row": "initialized",
         "updates": {producer_epoch: 0}},
    ),
    Twin(
        NAME, "GivenOut",
        {"table": "transaction.coordinator failover", "row": "no-new-record",
         "updates": {offered_id: if_(next_id.is_set, some(_lost), offered_id)}},
        release="4.2",
    ),
    Twin(
        NAME, "OpenIsLive",
        {"table": "partition.AddPartitionsByLeaderResponse", "row": "stale-epoch", "when": False},
        release="4.0.1",
    ),
)  # fmt: skip


def test_each_twin_alters_a_row_that_is_there() -> None:
    assert_rows_are_there(system, TWINS)


@pytest.mark.slow(15)
@pytest.mark.sample(1, of="what no proof is found of")
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.fails} {twin.row.get('row')}")
def test_a_lemma_fails_without_what_protects_it(twin: Twin) -> None:
    assert has_no_proof(system, twin, ONE)


# The second opinion ------------------------------------------------------------------------------


@cache
def runs() -> Graph:
    """All states of small runs, with one fault, and the steps between them."""
    return explored(instance_of(system), 20_000)


def instance_of(declared: System) -> Any:
    constants = {**ONE, "faults": 1}
    return instantiate(declared, None, constants, properties=[NAME], rankings=True)


@pytest.mark.slow(10)
@pytest.mark.long
def test_every_step_of_small_runs_is_as_the_ranking_has_it() -> None:
    assert len(runs().states) > 1000
    assert faults(instance_of(system), runs()) == []
    for wrong in (other(0), other(producer_epoch + 1 - size(partitions))):
        assert faults(instance_of(wrong), runs())
