"""A client that is called in any order: what holds, and what each property rests on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import System, instantiate, some
from epochfence.language.instances.reductions import NotOffered
from epochfence.spec.client.state import READY
from epochfence.spec.client.transactions.queue import current, queued
from epochfence.spec.client.transactions.requests import next_request
from epochfence.spec.client.transactions.transaction_manager import last_error
from epochfence.spec.errors import Errors
from epochfence.spec.releases.features import NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alterations import altered
from epochfence.tests.spec.differing import differing

SYSTEM = shipped("calls")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("release", differing(SYSTEM))
@pytest.mark.parametrize("off", [(), ("transactional",)], ids=["transactional", "idempotent"])
def test_every_property_holds_and_what_is_not_reached_has_a_reason(
    release: str, off: tuple[str, ...]
) -> None:
    features = SYSTEM.protocols.features_at(release) - {*off}
    known = {
        item.name
        for item in SYSTEM.properties
        if item.known_bug is not None and SYSTEM.protocols.holds(item.known_bug.during, features)
    }
    held = [item.name for item in SYSTEM.properties if item.name not in known]
    instance = instantiate(SYSTEM, release, bounds="small", switch_off=off, properties=held)
    result = check(instance)
    assert result.verdict is Verdict.HOLDS, result.reason
    assert [str(item) for item in result.unexplained] == []
    assert not [note for note in result.notes if "but a run takes it" in note]
    for name in known:
        instance = instantiate(SYSTEM, release, bounds="small", switch_off=off, properties=[name])
        assert check(instance, Options(brief=True)).verdict is Verdict.BROKEN, name


def in_any_order(system: System) -> System:
    """The system where any request of the queue may be the next one."""
    (table,) = (table for table in system.tables if table.on is next_request)
    first = replace(table, when=next_request.request.is_in(queued) & ~current.is_set)
    tables = tuple(first if each is table else each for each in system.tables)
    reductions = tuple(
        one
        for one in system.reductions
        if not (isinstance(one, NotOffered) and one.event is next_request)
    )
    return replace(system, tables=tables, reductions=reductions)


def without(table: str, row: str) -> System:
    """The system without a row."""
    return altered(SYSTEM, table=f"producer.{table}", row=row, when=False)


BROKEN = {
    "AllowedTransitions": without("beginTransaction", "invalid-transition"),
    "ErrorIsKnown": altered(
        SYSTEM, table="producer.send failed", row="abortable", updates={last_error: None}
    ),
    "EpochOfPartitions": without("send", "no-transaction"),
    "AskedOnce": without("send", "already-added"),
    "OneCallAtATime": without("beginTransaction", "pending"),
    "ClosedBeginsNothing": without("beginTransaction", "closed"),
    "EndIsAllowed": altered(
        SYSTEM,
        table="producer.EndTxnResponse",
        row="ended",
        updates={last_error: some(Errors.ILLEGAL_STATE)},
    ),
    "LostAnswerIsFatal": altered(
        SYSTEM, table="producer.EndTxnResponse", row="invalid-transition-fatal", goto=READY
    ),
    "NothingTakenInError": without("next request", "error"),
    "EndIsLast": in_any_order(SYSTEM),
    "BumpIsBehindEnd": in_any_order(SYSTEM),
    "CoordinatorIsKnown": without("send request", "coordinator-unknown"),
}


def test_every_property_is_broken_by_a_change() -> None:
    assert [*BROKEN] == [item.name for item in SYSTEM.properties]


@pytest.mark.slow(1)
@pytest.mark.long
@pytest.mark.parametrize("name", BROKEN)
def test_a_property_is_broken_without_what_protects_it(name: str) -> None:
    instance = instantiate(BROKEN[name], NEWEST, bounds="small", properties=(name,))
    result = check(instance)
    assert (result.verdict, [item.verdict for item in result.properties]) == (
        Verdict.BROKEN,
        ["broken"],
    )
