"""Transactions on a replicated partition: what holds, what an unclean election breaks, and what the
properties need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import System, instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.spec.bugs.bug import transactions
from epochfence.spec.changes.replicas import replication
from epochfence.spec.leader import state as leader
from epochfence.spec.properties.transactions.transactions import PROPERTIES
from epochfence.spec.releases.features import NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alterations import altered
from epochfence.tests.spec.differing import differing

SYSTEM = load_system("transactions+replication")
FIXED = {constant.data.name for constant in replication.replication_change.fixed}
ALONE = {"replicas": 1, "leader_epochs": 1, "broker_crashes": 0}
_LOG = {
    **{name: value for name, value in transactions().items() if name not in FIXED},
    **ALONE,
    "log_losses": 1,
}
BREAKS: dict[str, tuple[dict[str, int], set[str]]] = {
    "clean": ({}, set()),
    "of the partition": (
        {"unclean_elections": 1},
        {"NoLostAcknowledgement", "NoHangingTransaction", "ReadCommittedStays"},
    ),
    "of the transaction log": (
        {**_LOG, "faults": 1},
        {
            "NoHangingTransaction",
            "NotFencedByItself",
            "DeclaredTransitions",
            "MarkersMatchDecision",
        },
    ),
    "of the transaction log, and a timeout": (
        {**_LOG, "faults": 2, "timeouts": 1},
        {"NoLostAcknowledgement", "OutcomeAsReported"},
    ),
}
"""By kind of election the constants, and the properties that break."""


def run(
    constants: dict[str, int] | None = None,
    release: str = NEWEST,
    *,
    system: System = SYSTEM,
    properties: tuple[str, ...] | None = None,
) -> Result:
    """The system checked on small bounds, all of its properties to the end."""
    instance = instantiate(system, release, constants or {}, bounds="small", properties=properties)
    return check(instance, Options(threads=available_threads(), keep_going=True))


def broken(result: Result) -> dict[str, int | None]:
    return {item.name: item.trace_length for item in result.properties if item.verdict == "broken"}


@pytest.mark.slow(4)
@pytest.mark.long
@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("release", [*differing(shipped("replication")), NEWEST])
def test_clean_elections_break_nothing_and_unclean_ones_what_is_listed(
    release: str, kind: str
) -> None:
    constants, breaks = BREAKS[kind]
    result = run(constants, release)
    assert breaks <= set(broken(result))
    if kind in ("clean", "of the partition"):
        assert set(broken(result)) == breaks
        taken = {name for name, count in result.rows if count}
        assert {
            "replica.LeaderAndIsr/lead",
            "replica.fetch/append",
            "replica.broker crash/crash",
            "registration.elect/in-sync-replica",
            "producer.ProduceResponse/retriable",
            "transaction.WriteTxnMarkersResponse/retry",
        } <= taken


@pytest.mark.slow(6)
@pytest.mark.long
@pytest.mark.parametrize("bounds", ["small", "default", "large"])
def test_what_no_run_takes_has_its_reason(bounds: str) -> None:
    result = check(instantiate(SYSTEM, NEWEST, bounds=bounds), Options(threads=available_threads()))
    assert (result.verdict, result.unexplained) == (Verdict.HOLDS, [])
    assert not [note for note in result.notes if "but a run takes it" in note]


@pytest.mark.slow(4)
@pytest.mark.long
@pytest.mark.parametrize("release", ["2.5", "3.6", "4.0.1", "4.3"])
def test_one_replica_that_leads_throughout_is_the_leader_of_transactions(release: str) -> None:
    bounds = transactions(faults=1, losses=1, delays=1)
    both = {name: value for name, value in bounds.items() if name not in FIXED}
    plain = check(ending_anywhere(instantiate(shipped("transactions"), release, bounds)))
    on_one = run({**both, **ALONE}, release)
    assert plain.verdict is on_one.verdict is Verdict.HOLDS
    mine = {name for name, count in on_one.rows if count}
    theirs = {name for name, count in plain.rows if count}
    assert {
        name for name in mine if name.split(".")[0] not in ("replica", "registration")
    } == theirs


# What the properties need -------------------------------------------------------------------------


def _told_at_once(system: System) -> System:
    """An acknowledgement doesn't wait for the high watermark."""
    return _with(system, "producer.ProduceResponse", lambda table: replace(table, when=True))


def _markers_told_at_once(system: System) -> System:
    return _with(
        system, "transaction.WriteTxnMarkersResponse", lambda table: replace(table, when=True)
    )


def _remembered(system: System) -> System:
    """A new leader goes on with what the one before it remembered of producers."""
    of = leader.producers.at(0)
    return altered(system, table="replica.LeaderAndIsr", row="lead", updates={of: of})


def _empty_markers_lost(system: System) -> System:
    """A marker that ends nothing isn't in the log."""
    log = next(iter(system.observed)).at(replication.leading.at(0))
    return altered(
        system, table="partition.WriteTxnMarkers", row="no-transaction", updates={log: log}
    )


def _with(system: System, name: str, change: Callable[..., object]) -> System:
    tables = tuple(change(each) if each.name == name else each for each in system.tables)
    return replace(system, tables=tables)


@pytest.mark.slow(3)
@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "breaks"),
    [
        (_told_at_once, "NoLostAcknowledgement"),
        (_markers_told_at_once, "NoHangingTransaction"),
        (_remembered, "StateFromLog"),
        (_empty_markers_lost, "StateFromLog"),
    ],
)
def test_a_fault_breaks_it(fault: Callable[[System], System], breaks: str) -> None:
    assert breaks in broken(run({"producers": 2}, system=fault(SYSTEM), properties=(breaks,)))


@pytest.mark.slow(3)
@pytest.mark.long
@pytest.mark.parametrize("name", ["StableOffsetForward", "EpochForward"])
def test_what_goes_back_at_a_new_leader(name: str) -> None:
    """A new leader's high watermark lags by a fetch, and it may lack a marker that was appended."""
    item = next(each for each in PROPERTIES if each.name == name)
    system = replace(SYSTEM, properties=(replication.MOVED.property(item),), unreached=())
    assert set(broken(run(system=system))) == {name}
