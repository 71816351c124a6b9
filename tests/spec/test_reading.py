"""The system `reading`: what protects a read_committed reader, and what breaks without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import (
    Row,
    System,
    any_of,
    element,
    first,
    instantiate,
    last,
    some,
)
from epochfence.spec.reading.partition import end
from epochfence.spec.reading.state import (
    aborted_producer_ids,
    aborted_transactions,
    batches,
    high_watermark,
    is_aborted,
    limit,
    log,
    opened,
    store,
)
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alterations import altered

SYSTEM = shipped("reading")
ONE = {"producer_ids": 1, "transactions": 1, "entries": 3}

QUIET = {"producer_ids": 2, "transactions": 2, "cleanings": 0, "leader_changes": 0}
NEXT, DROPPED = "fetcher.next batch", "aborted-batch"
BATCH = first(batches).value

IN_PART = {"transactions": 2, "entries": 4, "segment": 0, "partial_cleanings": 1}


def run(
    protocol: str,
    constants: Mapping[str, int],
    *properties: str,
    system: System = SYSTEM,
    off: tuple[str, ...] = (),
    brief: bool = True,
) -> Result:
    """A system checked at a release."""
    named = properties or tuple(item.name for item in system.properties)
    instance = instantiate(system, protocol, constants, switch_off=off, properties=named)
    return check(instance, Options(brief=brief))


def steps(result: Result) -> int:
    """How long the counterexample is."""
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    return len(result.trace.steps)


@pytest.mark.slow(5)
def test_it_holds_from_3_0_on_and_every_row_is_taken() -> None:
    result = run("4.3", {"partial_cleanings": 1}, brief=False)
    assert (result.verdict, result.vacuous) == (Verdict.HOLDS, [])
    assert run("3.0", ONE).verdict is Verdict.HOLDS


@pytest.mark.slow(2)
@pytest.mark.long
@pytest.mark.parametrize(
    ("feature", "protocol", "constants", "broken", "length"),
    [
        ("watermark_read_once", "2.5", {"cleanings": 0, "leader_changes": 0}, "OnlyCommitted", 5),
        ("groups_together", "3.0", {"segment": 1, "entries": 2}, "NoOpenRange", 6),
        ("markers_have_no_key", "3.0",
         {"producer_ids": 2, "transactions": 2, "entries": 4, "segment": 0}, "NoOpenRange", 10),
        ("index_of_whole_segments", "3.0", {**IN_PART, "cleanings": 0}, "OnlyCommitted", 13),
        ("index_of_whole_segments", "3.0", IN_PART, "NoOpenRange", 11),
    ],
)  # fmt: skip
def test_each_feature_mends_what_is_broken_without_it(
    feature: str, protocol: str, constants: dict[str, int], broken: str, length: int
) -> None:
    values = {**ONE, **constants}
    assert run(protocol, values, broken).verdict is Verdict.HOLDS
    assert steps(run(protocol, values, broken, off=(feature,))) == length


@pytest.mark.slow(3)
def test_a_marker_that_is_gone_lets_a_committed_record_be_dropped() -> None:
    """The next transaction of the producer id is aborted, and takes the one before it along."""
    values = {"producer_ids": 1, "transactions": 2, "entries": 4, "segment": 1, "leader_changes": 0}
    assert run("4.3", values, "NoneDropped").verdict is Verdict.HOLDS
    assert steps(run("4.3", values, "NoneDropped", off=("groups_together",))) > 8


def test_a_reader_that_passes_the_last_stable_offset_gets_what_is_open() -> None:
    """KIP-98: without the last stable offset the high watermark is all that bounds a reader."""
    passing = altered(
        SYSTEM,
        table="fetcher.fetch begins",
        row="first-unstable-offset",
        updates={limit: some(high_watermark)},
    )
    assert steps(run("4.3", ONE, "OnlyCommitted", system=passing)) == 5


def test_a_reader_that_takes_no_notice_of_aborts_gets_their_records() -> None:
    without = altered(SYSTEM, table=NEXT, row=DROPPED, when=False)
    assert steps(run("4.3", ONE, "OnlyCommitted", system=without)) == 7


@pytest.mark.slow(4)
def test_a_producer_id_that_stays_aborted_behind_its_marker_is_seen() -> None:
    """As long as a response has the marker and what comes behind it."""
    stays = altered(
        SYSTEM,
        table=NEXT,
        row="abort-marker",
        updates={aborted_producer_ids: dropping().set[aborted_producer_ids]},
    )
    values = {**QUIET, "producer_ids": 1, "entries": 5}
    alone = run("4.3", {**values, "fetch_batches": 1}, "NoneDropped", system=stays)
    assert alone.verdict is Verdict.HOLDS
    assert steps(run("4.3", values, "NoneDropped", system=stays)) == 18


@pytest.mark.slow(1)
def test_a_queue_with_its_newest_transaction_ahead_is_seen() -> None:
    """The consumer waits for the newest one's first offset, and delivers what was aborted."""
    newest = last(aborted_transactions)
    waits = newest.is_set & (newest.value.offset > BATCH.offset)
    late = altered(SYSTEM, table=NEXT, row=DROPPED, when=dropping().guard & ~waits)
    assert steps(run("4.3", {**QUIET, "entries": 4}, "OnlyCommitted", system=late)) == 11


def test_a_list_of_a_later_moment_lacks_what_was_cleaned_meanwhile() -> None:
    """The list belongs to the batches: the log cleaner may go over both while they are read."""
    entry = element("e", log)
    now = any_of(entry, (entry.offset == BATCH.offset) & is_aborted(entry))
    table = next(table for table in SYSTEM.tables if table.name == NEXT)
    asking = replace(table, others=(store,))
    system = replace(
        SYSTEM, tables=tuple(asking if each is table else each for each in SYSTEM.tables)
    )
    later = altered(system, table=NEXT, row=DROPPED, when=now)
    assert run("4.3", {**ONE, "cleanings": 0}, "OnlyCommitted", system=later).verdict is (
        Verdict.HOLDS
    )
    assert steps(run("4.3", ONE, "OnlyCommitted", system=later)) == 8


def dropping() -> Row:
    """The row in which the consumer drops a batch."""
    return next(
        row
        for table in SYSTEM.tables
        for row in table.rows
        if (table.name, row.id) == (NEXT, DROPPED)
    )


def test_a_leader_that_keeps_an_ended_transaction_open_is_seen() -> None:
    start = opened[end.producer_id]
    kept = altered(
        SYSTEM, table="store.append a marker", row="end-transaction", updates={start: start}
    )
    assert steps(run("4.3", ONE, "NoOpenRange", system=kept)) == 2


def test_a_reader_that_drops_everything_is_seen() -> None:
    all_dropped = altered(SYSTEM, table=NEXT, row=DROPPED, when=True)
    assert run("4.3", ONE, "NoneDropped", system=all_dropped).verdict is Verdict.BROKEN
