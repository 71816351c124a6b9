"""The idempotent client: what holds of it release by release, and each property's protection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from epochfence.checker.check import Options
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Expression, Row, System, Table, instantiate, without_first
from epochfence.language.expressions import children_first
from epochfence.spec.leader import state as leader
from epochfence.spec.messages import Produce
from epochfence.spec.properties.idempotence import PROPERTIES
from epochfence.spec.releases.features import KAFKA, NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.model.counterexamples import checked
from epochfence.tests.mutation.scenarios import rows_taken
from epochfence.tests.spec.alterations import altered, never_reached, rows_of, taken_elsewhere
from epochfence.tests.spec.differing import differing

SYSTEM = shipped("idempotence")
NAMES = [item.name for item in PROPERTIES]
KINDS = ("losses", "delays", "expiries", "refusals", "shortages", "leader_changes", "deletions")

# What no release does, and what holds with it (docs/findings.md).
SETTLED, RENUMBERED, FROM_0 = (
    "bump_when_settled",
    "renumbered_under_new_id",
    "idempotent_starts_at_0",
)
MENDED = (SETTLED, RENUMBERED, FROM_0)


def bounds(*kinds: str, faults: int = 2, records: int = 2, **more: int) -> dict[str, int]:
    """Constants for one partition, with these kinds of faults alone."""
    chosen = dict.fromkeys((*KINDS, "producer_expiries"), 0) | dict.fromkeys(kinds, 1)
    return {"partitions": 1, "records": records, "faults": faults, **chosen, **more}


def run(
    constants: Mapping[str, int],
    protocol: str = NEWEST,
    on: tuple[str, ...] = (),
    properties: tuple[str, ...] | None = None,
    system: System = SYSTEM,
    threads: int = 1,
) -> Result:
    """The system checked."""
    instance = instantiate(system, protocol, constants, switch_on=on, properties=properties)
    return checked(instance, Options(threads=threads, brief=True))


def broken(result: Result) -> dict[str, int]:
    """The properties that break, with the lengths of their counterexamples."""
    assert result.verdict in (Verdict.HOLDS, Verdict.BROKEN), result.reason
    return {item.name: item.trace_length for item in result.properties if item.trace_length}


def steps(result: Result) -> list[str]:
    """The counterexample as events and rows."""
    assert result.trace is not None
    return [f"{step.action.partition('(')[0]}/{step.row}" for step in result.trace.steps]


# Release by release ---------------------------------------------------------------------------

# By property the length of the shortest counterexample. Known bugs: 2.0 forgets a producer with its
# records (KAFKA-7190, KAFKA-5793); from 2.5 on a local bump sends a batch again that was appended
# (KAFKA-14034), and an unknown producer id is taken up in mid-sequence (KIP-360).
# 2.4 keeps the state, and its clients still begin at 0 when an answer says that it is gone.
_SINCE = {
    "0.11.0.0": {"NoDuplicate": 6, "NoLostAcknowledgement": 9, "Order": 9},  # one batch in flight
    "1.0": {"NoDuplicate": 6, "NoLostAcknowledgement": 9, "Order": 8},
    "2.4": {"NoDuplicate": 8, "NoLostAcknowledgement": 9},
    "2.5": {"NoDuplicate": 9, "Order": 11},
}
EXPECTED = {
    release: [told for first, told in _SINCE.items() if first in KAFKA.releases[: n + 1]][-1]
    for n, release in enumerate(KAFKA.releases)
}
SMALL = bounds(*KINDS, records=3)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("release", differing(SYSTEM))
def test_each_release_breaks_what_is_known_of_it(release: str) -> None:
    expected = EXPECTED[release]
    for name in expected:
        assert broken(run(SMALL, release, properties=(name,))) == {name: expected[name]}
    rest = tuple(name for name in NAMES if name not in expected)
    assert broken(run(SMALL, release, properties=rest)) == {}


@pytest.mark.slow
def test_mended_the_newest_release_keeps_everything() -> None:
    assert broken(run(SMALL, on=MENDED)) == {}
    assert broken(run({"faults": 2}, on=MENDED)) == {}


@pytest.mark.slow
@pytest.mark.long
def test_mended_everything_holds_in_a_million_states_at_the_defaults() -> None:
    result = run({}, on=MENDED, threads=available_threads())
    assert broken(result) == {}
    assert result.states > 1_000_000


@pytest.mark.slow
@pytest.mark.long
def test_in_a_million_states_nothing_else_breaks_at_the_defaults() -> None:
    rest = tuple(name for name in NAMES if name not in EXPECTED[NEWEST])
    result = run({}, properties=rest, threads=available_threads())
    assert broken(result) == {}
    assert result.states > 1_000_000


# Each property without its protection -----------------------------------------------------------

_entry = leader.producers[Produce.producer_id]


@dataclass(frozen=True)
class Fault:
    """What breaks the property `breaks` in `steps` steps, the last one by the row `last`."""

    breaks: str
    steps: int
    last: str
    constants: Mapping[str, int]
    system: System

    def __str__(self) -> str:
        return self.breaks


FAULTS = (
    Fault(  # a leader that doesn't remember what it appended
        "NoDuplicate", 5, "Produce/append", bounds("losses", faults=1),
        altered(SYSTEM, table="partition.Produce", row="append",
                updates={_entry.batch_metadata: _entry.batch_metadata}),
    ),
    Fault(  # a leader that acknowledges what it hasn't written
        "NoLostAcknowledgement", 3, "ProduceResponse/acknowledged", bounds(faults=0),
        altered(SYSTEM, table="partition.Produce", row="append", updates={leader.log: leader.log}),
    ),
    Fault(  # a leader that leaves gaps lets a batch in that was sent earlier
        "Order", 10, "Produce/append", bounds("shortages", faults=1, records=3),
        altered(SYSTEM, table="partition.Produce", row="out-of-order", when=False),
    ),
    Fault(  # a leader that takes an older epoch
        "EpochForward", 8, "DelayedProduce/append", bounds("delays", "expiries"),
        altered(SYSTEM, table="partition.DelayedProduce", row="stale-epoch", when=False),
    ),
    Fault(  # a leader that leaves gaps
        "NoGap", 7, "Produce/append", bounds("shortages", "losses", records=3),
        altered(SYSTEM, table="partition.Produce", row="out-of-order", when=False),
    ),
    Fault(  # a leader that deletes records from the log that the reader has seen
        "LogStays", 3, "records are deleted/keep-producers", bounds("deletions", faults=1),
        altered(SYSTEM, table="partition.records are deleted", row="keep-producers",
                updates={leader.log: without_first(leader.log)}),
    ),
    Fault(  # a client that takes an answer to a batch that it has given up
        "AnswerStays", 4, "ProduceResponse/acknowledged", bounds("expiries", faults=1),
        altered(SYSTEM, table="producer.ProduceResponse", row="not-awaited", when=False),
    ),
)  # fmt: skip


def test_every_property_has_a_fault_that_breaks_it() -> None:
    assert {fault.breaks for fault in FAULTS} == set(NAMES)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_property_fails_where_its_protection_is_missing(fault: Fault) -> None:
    assert broken(run(fault.constants, on=MENDED)) == {}
    result = run(fault.constants, on=MENDED, properties=(fault.breaks,), system=fault.system)
    assert broken(result) == {fault.breaks: fault.steps}
    assert steps(result)[-1] == fault.last


# Known bugs and findings ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("cached", [1, 2, 3])
@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_no_duplicate_iff_the_cache_holds_all_that_is_in_flight(
    in_flight: int, cached: int
) -> None:
    """KAFKA-5494."""
    shortest = {(2, 1): 12, (3, 1): 12, (3, 2): 15}
    constants = bounds(
        "losses",
        faults=3,
        records=4,
        largest_sequence=7,
        in_flight=in_flight,
        cached_batches=cached,
    )
    result = run(constants, properties=("NoDuplicate",))
    expected = {"NoDuplicate": shortest[in_flight, cached]} if in_flight > cached else {}
    assert broken(result) == expected


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "length", "last"),
    [
        ("NoDuplicate", 6, "DelayedProduce/append"),
        ("NoLostAcknowledgement", 13, "ProduceResponse/acknowledged"),
        ("Order", 8, "Produce/append"),
    ],
)
def test_a_producer_forgotten_with_its_records(name: str, length: int, last: str) -> None:
    """KAFKA-5793, KAFKA-7190: deleted records take the producer's state with them in 2.0. Its
    client then starts at sequence 0 in the same epoch, which a late batch may have taken."""
    constants = bounds("deletions", "delays", records=3)
    result = run(constants, "2.0", properties=(name,))
    assert broken(result) == {name: length}
    assert steps(result)[-1] == last
    done = steps(result)
    assert "records are deleted/forget-producers" in done
    if name == "NoLostAcknowledgement":
        assert "ProduceResponse/unknown-id-renumbered" in done
    assert broken(run(constants, "2.5", on=(FROM_0,), properties=(name,))) == {}


@pytest.mark.slow(1)
def test_before_local_bumps_a_refused_batch_leaves_its_sequence_to_the_next() -> None:
    """A refused batch that had been appended before its answer was lost: the next one takes its
    sequence and is answered as its duplicate. From 2.5 on sequences don't move up."""
    constants = bounds("losses", "refusals", records=3)
    result = run(constants, "2.0", properties=("NoLostAcknowledgement",))
    assert broken(result) == {"NoLostAcknowledgement": 9}
    assert steps(result)[5:] == [
        "ProduceResponse/refused-adjusted",
        "drain/next-sequence",
        "Produce/duplicate",
        "ProduceResponse/acknowledged",
    ]
    assert broken(run(constants, "2.5", properties=("NoLostAcknowledgement",))) == {}


@pytest.mark.slow(1)
def test_a_partition_went_on_in_mid_sequence_under_a_new_epoch() -> None:
    """KAFKA-12152: its leader refuses that, which costs another epoch."""
    constants = bounds("refusals", partitions=2, faults=1)
    refused = "partition.Produce/new-epoch-mid-sequence"
    bumped = "producer.ProduceResponse/out-of-order-bumps-epoch"
    for on, happens in (((), True), (("epoch_by_partition",), False)):
        rows = dict(run(constants, "2.5", on, ("AnswerStays",)).rows)
        assert (rows[refused] > 0, rows[bumped] > 0) == (happens, happens)


@dataclass(frozen=True)
class Open:
    """Open in the newest release: what breaks, by which row at last, and what would mend it."""

    name: str
    breaks: str
    steps: int
    last: str
    constants: Mapping[str, int]
    on: tuple[str, ...]
    mended_by: tuple[str, ...] | None

    def __str__(self) -> str:
        return self.name


OPEN = (
    Open(
        "a bump sends again what was appended (KAFKA-14034)", "NoDuplicate", 9, "Produce/append",
        bounds("losses", "refusals"), (FROM_0, RENUMBERED), (SETTLED,),
    ),
    Open(
        "a leader from a snapshot remembers one batch", "NoDuplicate", 13, "Produce/append",
        bounds("losses", "leader_changes", faults=3, records=3), (FROM_0, RENUMBERED), (SETTLED,),
    ),
    Open(
        "an unknown producer id in mid-sequence", "Order", 15, "Produce/append",
        bounds("refusals", "shortages", records=3), (SETTLED, RENUMBERED), (FROM_0,),
    ),
    Open(
        "a batch without producer id after the last epoch", "NoDuplicate", 13,
        "Produce/no-producer-id",
        bounds("refusals", "shortages", "losses", faults=3, records=3, producer_ids=2,
               first_epoch=3),
        (SETTLED, FROM_0), (RENUMBERED,),
    ),
    Open(
        "a request of the producer id before", "Order", 9, "DelayedProduce/append",
        bounds("delays", "expiries", producer_ids=2, first_epoch=3), MENDED, None,
    ),
    Open(
        "a request that outlives the producer's state (KAFKA-14097)", "NoDuplicate", 7,
        "DelayedProduce/append", bounds("delays", producer_expiries=1), MENDED, None,
    ),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("case", OPEN, ids=str)
def test_what_is_open_in_the_newest_release(case: Open) -> None:
    result = run(case.constants, on=case.on, properties=(case.breaks,))
    assert broken(result) == {case.breaks: case.steps}
    assert steps(result)[-1] == case.last
    if case.mended_by is not None:
        on = case.on + case.mended_by
        assert broken(run(case.constants, on=on, properties=(case.breaks,))) == {}


@pytest.mark.slow(1)
def test_a_new_producer_id_is_safe_where_no_request_is_late() -> None:
    constants = bounds(
        "losses", "expiries", "refusals", "shortages", "leader_changes", faults=3, records=3,
        producer_ids=2, first_epoch=3,
    )  # fmt: skip
    result = run(constants, on=MENDED)
    assert broken(result) == {}
    assert dict(result.rows)["producer.producer id given out/new-id-rewrites-sequences"]


def test_sequences_wrap() -> None:
    constants = bounds(
        *(kind for kind in KINDS if kind != "delays"), faults=1, records=6, largest_sequence=3
    )
    assert broken(run(constants, on=MENDED)) == {}


# Rows -----------------------------------------------------------------------------------------

EVERY_KIND = {"partitions": 1, "records": 4, "faults": 3, "producer_ids": 3, "first_epoch": 3,
              "largest_sequence": 7}  # fmt: skip
RUNS = (  # which take what no recorded run does
    ("2.0", {}),
    ("2.0", bounds("delays", "expiries", "refusals", faults=3, records=3, partitions=2)),
    (NEWEST, {"in_flight": 3}),
)
NEVER_TAKEN = never_reached(SYSTEM)


@pytest.mark.slow
@pytest.mark.long
def test_every_row_is_taken_by_a_run_or_listed_with_a_reason() -> None:
    every, reached = rows_of(SYSTEM), rows_taken(SYSTEM)
    for release, constants in RUNS:
        result = run({**EVERY_KIND, **constants}, release, (), ("AnswerStays",))
        assert broken(result) == {}
        reached |= {name for name, count in result.rows if count}
    left, elsewhere = every - reached, taken_elsewhere(SYSTEM)
    assert left >= NEVER_TAKEN.keys()
    assert left - elsewhere == NEVER_TAKEN.keys() - elsewhere


# Locality ---------------------------------------------------------------------------------------


def _read(parts: Iterator[Expression], machine: str) -> set[str]:
    """The fields of other machines that are read, but for the time."""
    every = (node for part in parts for node in children_first(part) if node.op == "field")
    names = {f"{node.data.machine}.{node.data.name}" for node in every}
    return {name for name in names if not name.startswith((f"{machine}.", "clock."))}


def _decisions(table: Table, row: Row) -> Iterator[Expression]:
    yield row.guard
    for target, value in table.updates(row):
        yield target
        yield value
    for sending in table.sendings(row):
        for _, value in sending.fields:
            yield value


def test_leader_and_client_know_each_other_by_messages_alone() -> None:
    """Only what stands for time, and answers that nobody would see, look further."""
    for table in SYSTEM.tables:
        for row in table.rows:
            assert _read(_decisions(table, row), table.machine.name) == set()
