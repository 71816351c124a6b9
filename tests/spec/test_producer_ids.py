"""Producer ids: what holds of them release by release, what protects it, and what runs reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import pytest

from epochfence.checker.check import Options
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Expression, Row, System, Table, if_, instantiate
from epochfence.language.expressions import children_first
from epochfence.spec.producer_ids import controller as rpc
from epochfence.spec.producer_ids import zookeeper as zk
from epochfence.spec.producer_ids.state import (
    BLOCK_SIZE,
    LARGEST_PRODUCER_ID,
    NO_PRODUCER_ID,
    Errors,
    last_of,
)
from epochfence.spec.properties.producer_ids import PROPERTIES
from epochfence.spec.releases.features import NEWEST, RELEASED
from epochfence.spec.systems import shipped
from epochfence.tests.cases import before
from epochfence.tests.model.counterexamples import checked
from epochfence.tests.mutation.scenarios import rows_taken
from epochfence.tests.spec.alterations import altered, never_reached
from epochfence.tests.spec.differing import differing

SYSTEM = shipped("producer-ids")
NAMES = tuple(item.name for item in PROPERTIES)
SMALL = {"block_size": 2, "largest_producer_id": 6, "faults": 1}
MENDED = ("block_current_once_written",)  # what ZooKeeper's protocol lacks until 2.7


def run(
    protocol: str = NEWEST,
    constants: Mapping[str, int] = SMALL,
    *,
    system: System = SYSTEM,
    on: tuple[str, ...] = (),
    off: tuple[str, ...] = (),
    properties: tuple[str, ...] = NAMES,
    threads: int = 1,
) -> Result:
    """The system checked, once for all tests that ask for the same."""
    bounds = tuple(sorted(constants.items()))
    return _run(protocol, bounds, system, on, off, properties, threads)


@cache
def _run(
    protocol: str,
    constants: tuple[tuple[str, int], ...],
    system: System,
    on: tuple[str, ...],
    off: tuple[str, ...],
    properties: tuple[str, ...],
    threads: int,
) -> Result:
    instance = instantiate(
        system, protocol, dict(constants), switch_on=on, switch_off=off, properties=properties
    )
    return checked(instance, Options(threads=threads, brief=True))


def steps(result: Result) -> list[str]:
    """The counterexample as events and rows."""
    assert result.trace is not None
    return [f"{step.action.partition('(')[0]}/{step.row}" for step in result.trace.steps]


def taken(result: Result) -> set[str]:
    """The rows that some step took."""
    return {name for name, count in result.rows if count}


# Releases ---------------------------------------------------------------------------------------

FROM_ZOOKEEPER = before("3.0")
WAITING = "3.5"
# What breaks, after how many steps, and by which row.
_ZOOKEEPER = {
    "HandedOutOnce": (15, "SetDataResponse/block-acquired"),
    "Increasing": (15, "SetDataResponse/block-acquired"),
    "OnlyFromTakenBlocks": (10, "generateProducerId/id"),
}
_CONTROLLER = {"OneBlockAhead": (8, "maybeRequestNextBlock/request")}
BROKEN = {
    **dict.fromkeys(FROM_ZOOKEEPER, _ZOOKEEPER),
    **dict.fromkeys(RELEASED[RELEASED.index("3.0") : RELEASED.index("3.6")], _CONTROLLER),
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("protocol", differing(SYSTEM))
def test_what_holds_in_each_release(protocol: str) -> None:
    expected = BROKEN.get(protocol, {})
    for name in expected:
        result = run(protocol, properties=(name,))
        assert result.verdict is Verdict.BROKEN
        assert (result.properties[0].trace_length, steps(result)[-1]) == expected[name]
    others = tuple(name for name in NAMES if name not in expected)
    assert run(protocol, properties=others).verdict is Verdict.HOLDS


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("protocol", [WAITING, "3.6", "4.2", NEWEST])
def test_at_the_defaults_as_well(protocol: str) -> None:
    others = tuple(name for name in NAMES if name not in BROKEN.get(protocol, {}))
    result = run(protocol, {}, properties=others, threads=available_threads())
    assert result.verdict is Verdict.HOLDS
    assert result.states > 1_000_000


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("protocol", FROM_ZOOKEEPER)
def test_what_would_have_mended_zookeepers_protocol(protocol: str) -> None:
    assert run(protocol, {}, on=MENDED).verdict is Verdict.HOLDS


@pytest.mark.slow(1)
def test_a_session_that_ends_leaves_a_block_in_use_that_was_never_written() -> None:
    done = steps(run("2.7", properties=("HandedOutOnce",)))
    assert done[6:11] == [
        "generateProducerId/new-block",
        "getData/propose",
        "session expires/failure",
        "generateProducerId/id",
        "generateProducerId/id",
    ]


@pytest.mark.slow(1)
def test_without_any_fault_the_race_for_the_last_block_is_enough() -> None:
    """Who loses it reads that there are none left, and goes on with the block of who won."""
    result = run("2.7", {**SMALL, "faults": 0}, properties=("HandedOutOnce",))
    assert steps(result)[-3:] == [
        "getData/other-block",
        "getData/exhausted",
        "generateProducerId/id",
    ]


def test_until_3_5_a_second_block_is_asked_for_while_the_first_one_is_stored() -> None:
    done = steps(run(WAITING, properties=("OneBlockAhead",)))
    assert done[-1] == "maybeRequestNextBlock/request"
    assert "AllocateProducerIdsResponse/clear" in done
    assert not any(step.startswith("store the answer") for step in done)


def test_nothing_breaks_without_the_controller_once_a_block_is_written_first() -> None:
    assert run(off=("controller_hands_out_ids",)).verdict is Verdict.HOLDS


# What protects a property -----------------------------------------------------------------------

ONE_BROKER = {**SMALL, "brokers": 1, "faults": 0}
ONE_THREAD = {**ONE_BROKER, "handlers": 1}


@dataclass(frozen=True)
class Fault:
    """What breaks the property `breaks`: in `steps` steps, the last by the row `last`.

    Of the unaltered system it holds with the same protocol, which other tests see.
    """

    name: str
    breaks: str
    steps: int
    last: str
    system: System
    constants: Mapping[str, int] = field(default_factory=lambda: SMALL)
    protocol: str = NEWEST
    on: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.breaks}: {self.name}"

    def result(self) -> Result:
        """The one property checked."""
        return run(
            self.protocol, self.constants, system=self.system, on=self.on, properties=(self.breaks,)
        )


def at_zookeeper(name: str, breaks: str, steps: int, last: str, system: System) -> Fault:
    return Fault(name, breaks, steps, last, system, protocol="2.7", on=MENDED)


def without(system: System, *rows: tuple[str, str]) -> System:
    """The system without these rows, given as table and row."""
    for table, row in rows:
        system = altered(system, table=table, row=row, when=False)
    return system


ALLOCATE, ANSWERED = "controller.AllocateProducerIds", "rpc_manager.AllocateProducerIdsResponse"
READ, TAKE = "zk_manager.getData", "rpc_manager.take the prefetched block"
EXHAUSTED = ((READ, "exhausted-at-start"), (READ, "exhausted"))
MONOTONIC, RANGE = (ANSWERED, "not-monotonic"), (ANSWERED, "invalid-range")
asked = rpc.AllocateProducerIds


def proposing(system: System, block: Expression) -> System:
    """Each broker tries to write the block that starts with `block`."""
    write = zk.SetData(
        broker=zk.zk_manager.this,
        connection=zk.connection,
        block_end=last_of(block),
        version=zk.version,
    )
    return altered(
        system, table=READ, row="propose", updates={zk.proposed_block: block}, send=(write,)
    )


def its_own(constructed: Expression) -> Expression:
    """Like checkProducerIdBlockZkData, but for the broker."""
    return (zk.state == zk.CHECKING) & (zk.block_end == last_of(zk.proposed_block)) & constructed


whose_block_does_not_matter = altered(
    altered(
        SYSTEM,
        table=READ,
        row="first-block-acquired",
        when=its_own(zk.next_producer_id == NO_PRODUCER_ID),
    ),
    table=READ,
    row="block-acquired",
    when=its_own(zk.next_producer_id != NO_PRODUCER_ID),
)
unconditional = without(SYSTEM, ("zookeeper.SetData", "bad-version"))


def answering(row: str, first: Expression) -> System:
    """The controller answers at once, with the block that starts with `first`, and stays as it is
    where the row was to append a record."""
    kept = (rpc.next_block, rpc.deferred[asked.broker])
    return altered(
        SYSTEM,
        table=ALLOCATE,
        row=row,
        updates={part: part for part in kept},
        reply=rpc.AllocateProducerIdsResponse(
            error=Errors.NONE, connection=asked.connection, producer_id_start=first
        ),
    )


def appending(system: System) -> System:
    """The controller appends the record, nevertheless."""
    return altered(
        system, table=ALLOCATE, row="append", updates={rpc.next_block: rpc.next_block + BLOCK_SIZE}
    )


answered_at_once = appending(answering("append", rpc.next_block))
same_block_again = answering("append", rpc.next_block)
overlapping = appending(answering("append", if_(rpc.next_block > 0, rpc.next_block - 1, 0)))
never_exhausted = answering("exhausted", rpc.next_block)
beyond = LARGEST_PRODUCER_ID - BLOCK_SIZE

FAULTS = (
    at_zookeeper(
        "a write without a condition",
        "HandedOutOnce", 10, "generateProducerId/id", unconditional,
    ),
    at_zookeeper(
        "a write without a condition",
        "StoreForward", 8, "SetData/write", unconditional,
    ),
    at_zookeeper(
        "a block of another broker passes for its own",
        "HandedOutOnce", 11, "generateProducerId/id", whose_block_does_not_matter,
    ),
    at_zookeeper(
        "after the largest id comes the first",
        "HandedOutOnce", 17, "SetDataResponse/block-acquired",
        proposing(without(SYSTEM, *EXHAUSTED), if_(zk.block_end > beyond, 0, zk.block_end + 1)),
    ),
    at_zookeeper(
        "after the largest id comes the first",
        "StoreForward", 16, "SetData/write",
        proposing(without(SYSTEM, *EXHAUSTED), if_(zk.block_end > beyond, 0, zk.block_end + 1)),
    ),
    at_zookeeper(
        "nobody is refused",
        "NotBeyondTheLargest", 18, "generateProducerId/id",
        without(SYSTEM, *EXHAUSTED),
    ),
    Fault(
        "the controller answers before the record is committed",
        "HandedOutOnce", 19, "generateProducerId/id", answered_at_once,
    ),
    Fault(
        "the controller answers before the record is committed",
        "OnlyFromTakenBlocks", 9, "generateProducerId/id", answered_at_once,
    ),
    Fault(
        "the controller forgets what it has given out",
        "HandedOutOnce", 18, "generateProducerId/id", same_block_again,
    ),
    Fault(
        "any answer is accepted, and a controller that forgets",
        "HandedOutOnce", 18, "generateProducerId/id",
        without(same_block_again, MONOTONIC), ONE_BROKER,
    ),
    Fault(
        "KAFKA-20031: a block may start with the last id of the current one",
        "HandedOutOnce", 18, "generateProducerId/id", overlapping, ONE_BROKER, "4.2",
    ),
    Fault(
        "the prefetched block isn't cleared",
        "HandedOutOnce", 18, "generateProducerId/id",
        altered(SYSTEM, table=TAKE, row="take", updates={rpc.prefetched: rpc.prefetched}),
        ONE_THREAD,
    ),
    Fault(
        "an id that was claimed isn't used up",
        "HandedOutOnce", 11, "generateProducerId/id",
        altered(SYSTEM, table="rpc_manager.generateProducerId", row="id",
                updates={rpc.next_producer_id: rpc.next_producer_id}),
    ),
    Fault(
        "the flag is cleared by the answer",
        "Increasing", 21, "generateProducerId/id",
        altered(SYSTEM, table=ANSWERED, row="prefetch", updates={rpc.request_in_flight: False}),
    ),
    Fault(
        "the flag doesn't matter",
        "OneBlockAhead", 6, "maybeRequestNextBlock/request",
        altered(SYSTEM, table="rpc_manager.maybeRequestNextBlock", row="request",
                when=~rpc.prefetched.is_set),
    ),
    Fault(
        "neither the controller nor the broker knows the largest id",
        "NotBeyondTheLargest", 19, "generateProducerId/id-and-prefetch",
        without(never_exhausted, RANGE),
    ),
    Fault(
        "a failover loses what was committed",
        "StoreForward", 10, "fail over/records-lost",
        altered(SYSTEM, table="controller.fail over", row="records-lost",
                updates={rpc.committed: 0, rpc.next_block: 0}),
    ),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_what_protects_a_property(fault: Fault) -> None:
    result = fault.result()
    assert result.verdict is Verdict.BROKEN, result.reason
    assert (result.properties[0].trace_length, steps(result)[-1]) == (fault.steps, fault.last)


def test_each_property_has_something_that_protects_it() -> None:
    assert {fault.breaks for fault in FAULTS} == set(NAMES)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("constants", "system", "protocol", "broken"),
    [
        (ONE_BROKER, same_block_again, NEWEST, "HandedOutOnce"),
        (ONE_BROKER, overlapping, NEWEST, "HandedOutOnce"),
        (SMALL, never_exhausted, NEWEST, "NotBeyondTheLargest"),
        (SMALL, without(SYSTEM, RANGE), NEWEST, "NotBeyondTheLargest"),
        (SMALL, without(SYSTEM, MONOTONIC), NEWEST, "HandedOutOnce"),
    ],
    ids=[
        "the same block again",
        "an overlapping block",
        "a broker's own check is enough",
        "the controller's check is enough",
        "the controller doesn't repeat itself",
    ],
)
def test_one_of_two_checks_is_enough(
    constants: Mapping[str, int], system: System, protocol: str, broken: str
) -> None:
    assert run(protocol, constants, system=system, properties=(broken,)).verdict is Verdict.HOLDS


# Coverage ---------------------------------------------------------------------------------------

PROTOCOLS = ((NEWEST, ()), (WAITING, ()), ("2.7", MENDED))
NOWHERE_BROKEN = ("StoreForward",)  # so that no run ends early
NEVER_TAKEN = never_reached(SYSTEM)


def covered(constants: Mapping[str, int], threads: int = 1) -> set[str]:
    """The rows that some release takes."""
    reached: set[str] = set()
    for protocol, on in PROTOCOLS:
        result = run(protocol, constants, on=on, properties=NOWHERE_BROKEN, threads=threads)
        assert result.verdict is Verdict.HOLDS
        reached |= taken(result)
    return reached


@pytest.mark.slow
@pytest.mark.long
def test_every_row_is_taken_by_a_recorded_run_or_listed_with_a_reason() -> None:
    """tests/mutation/test_scenarios.py has these runs."""
    every = {f"{table.name}/{row.id}" for table in SYSTEM.tables for row in table.rows}
    assert every - rows_taken(SYSTEM) == set(NEVER_TAKEN)


@pytest.mark.slow
@pytest.mark.long
def test_no_row_listed_is_taken_at_the_defaults() -> None:
    assert covered({}, available_threads()).isdisjoint(NEVER_TAKEN)


# Locality ---------------------------------------------------------------------------------------


def foreign(table: Table, parts: Iterator[Expression]) -> set[str]:
    """The fields of other machines among what is read and set."""
    every = (node for part in parts for node in children_first(part) if node.op == "field")
    names = {f"{node.data.machine}.{node.data.name}" for node in every}
    return {name for name in names if not name.startswith(f"{table.machine.name}.")}


def decisions(table: Table, row: Row) -> Iterator[Expression]:
    """What decides whether a row is taken, and what it changes."""
    yield table.guard
    yield row.guard
    for pair in table.updates(row):
        yield from pair


def test_a_machine_knows_only_itself_and_the_message() -> None:
    """A read of the node and a registration are one step each; what callers hold is noted; whether
    an answer's connection is open decides only whether it is kept for a commit; the time has one
    value."""
    decided: dict[str, set[str]] = {}
    for table in SYSTEM.tables:
        for row in table.rows:
            decided.setdefault(table.name, set()).update(foreign(table, decisions(table, row)))
    assert {name: fields for name, fields in decided.items() if fields} == {
        "rpc_manager.generateProducerId": {"callers.handed_out"},
        "rpc_manager.take the prefetched block": {"callers.handed_out"},
        "rpc_manager.AllocateProducerIdsResponse": {"clock.now"},
        "rpc_manager.register again": {"controller.registered"},
        "rpc_manager.crash": {"controller.registered"},
        "controller.AllocateProducerIds": {"rpc_manager.connection"},
        "zk_manager.generateProducerId": {"callers.handed_out"},
        "zk_manager.getData": {
            "zookeeper.block_end",
            "zookeeper.block_broker",
            "zookeeper.version",
            "callers.handed_out",
        },
        "zk_manager.SetDataResponse": {"callers.handed_out"},
    }
